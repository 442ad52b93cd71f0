/* What the program and its user are told where a budget cannot be kept or has no room: the result of
 * the call, and lines of the log. */
#ifndef MDNN_VIRTUAL_REFUSALS_H
#define MDNN_VIRTUAL_REFUSALS_H

#include "shim/vmem/virtual_device.h"

/* What becomes of allocations on a device that goes without a budget, in one line. */
void mdnn_virtual_say_without(int ordinal, const char *why);
/* The same of a device that could not be set up; takes the failure of the driver, if there is one. */
void mdnn_virtual_say_failed(const mdnn_virtual_device_t *device, mdnn_status_t status);
/* The same where there is not even what all devices share; said once. */
void mdnn_virtual_say_nowhere(void);

/* Entered, as are those below. What the program is told of `bytes`; says refusals on the log, and
 * takes the failure of the driver with DEVICE. */
CUresult mdnn_virtual_result(mdnn_virtual_device_t *device, mdnn_status_t status, uint64_t bytes);
/* Says once for a device that an optional workspace was refused: the program takes less, and goes
 * on. */
void mdnn_virtual_say_optional(mdnn_virtual_device_t *device, uint64_t bytes);

#endif
