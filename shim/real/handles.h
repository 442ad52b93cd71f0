/* The host's cuDNN handles: for which device each was made, and whether it is still there. A plan keeps
 * the handle that it was made with longer than the host may, and the host may ask about a plan while
 * another device is current. */
#ifndef MDNN_HANDLES_H
#define MDNN_HANDLES_H

#include <stdbool.h>

#include <cuda.h>
#include <cudnn.h>

void mdnn_handle_created(cudnnHandle_t handle); /* on the current device */
void mdnn_handle_destroyed(cudnnHandle_t handle);

/* False if it is gone, or known to be of another device than this one, which is current: nothing may
 * be measured with it. Any thread. */
bool mdnn_handle_is_usable(cudnnHandle_t handle, CUdevice device);
bool mdnn_handle_is_usable_now(cudnnHandle_t handle); /* on the current device; false without one */

#endif
