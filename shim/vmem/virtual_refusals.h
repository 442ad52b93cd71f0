/* What the program and its user learn if a budget cannot be kept or has no room: the result of the call, and log
 * lines. */
#ifndef MDNN_VIRTUAL_REFUSALS_H
#define MDNN_VIRTUAL_REFUSALS_H

#include "shim/vmem/virtual_device.h"

/* Logs in one line what becomes of allocations on a device without a budget. */
void mdnn_virtual_say_without(int ordinal, const char *why);
/* The same for a device that could not be set up; takes the driver's failure, if there is one. */
void mdnn_virtual_say_failed(const mdnn_virtual_device_t *device, mdnn_status_t status);
/* The same if even the state that all devices share could not be made; logged once. */
void mdnn_virtual_say_nowhere(void);

/* Entered, as for the functions below. The result for a request of `bytes`. Logs refusals, and for
 * DEVICE takes the driver's failure. */
CUresult mdnn_virtual_result(mdnn_virtual_device_t *device, mdnn_status_t status, uint64_t bytes);
/* Logs once per device that an optional workspace was refused: the program uses a smaller one and
 * goes on. */
void mdnn_virtual_say_optional(mdnn_virtual_device_t *device, uint64_t bytes);
/* Logs once per device that an operation used host memory, if one did. Entered. */
void mdnn_virtual_say_tail(mdnn_virtual_device_t *device);

#endif
