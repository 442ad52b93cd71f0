/* The program's cuDNN handles: for which device each was made, and whether it still exists. A plan may keep its handle
 * longer than the program does, and the program may ask about a plan while another device is current. */
#ifndef MDNN_HANDLES_H
#define MDNN_HANDLES_H

#include <stdbool.h>

#include <cuda.h>
#include <cudnn.h>

void mdnn_handle_created(cudnnHandle_t handle); /* on the current device */
void mdnn_handle_destroyed(cudnnHandle_t handle);

/* False if the handle is gone, or belongs to a device other than the current one: nothing may be
 * measured with it. Any thread. */
bool mdnn_handle_is_usable(cudnnHandle_t handle, CUdevice device);
bool mdnn_handle_is_usable_now(cudnnHandle_t handle); /* on the current device; false without one */

#endif
