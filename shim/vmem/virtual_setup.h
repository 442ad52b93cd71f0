/* When a device gets its budget, and when it loses it. A device is set up, in one attempt, at its
 * first allocation, and is withdrawn at a reset; its next allocation then sets it up again. */
#ifndef MDNN_VIRTUAL_SETUP_H
#define MDNN_VIRTUAL_SETUP_H

#include "shim/vmem/virtual_device.h"

/* The device of the calling thread's context, which the first call sets up; NULL: it has no
 * budget. */
mdnn_virtual_device_t *mdnn_virtual_current(void);
/* Also sets *context to that context. */
mdnn_virtual_device_t *mdnn_virtual_current_in(CUcontext *context);
/* The device of that ordinal, which the first call sets up whatever context is current; NULL: it
 * has no budget, or does not exist. */
mdnn_virtual_device_t *mdnn_virtual_device_numbered(CUdevice ordinal);
/* Whether the driver knows such a device. */
bool mdnn_virtual_is_device(CUdevice ordinal);

/* The result for an allocation that finds no device: NOT_SUPPORTED if the driver's own memory
 * serves it, or OUT_OF_MEMORY if the user asked for a budget that cannot be kept. */
CUresult mdnn_virtual_without(CUcontext context);
CUresult mdnn_virtual_without_numbered(CUdevice ordinal);

/* Withdraws the device: gives back everything that it has of the driver except its retained
 * context, and forgets all allocations. Until mdnn_virtual_device_ended it has no budget. false:
 * the device was not set up. */
bool mdnn_virtual_withdraw(CUdevice ordinal);

#endif
