/* When a device gets its budget, and when it loses it. A device is set up at the first allocation
 * there, tried once, and withdrawn at a reset; after that its next allocation sets it up anew. */
#ifndef MDNN_VIRTUAL_SETUP_H
#define MDNN_VIRTUAL_SETUP_H

#include "shim/vmem/virtual_device.h"

/* Of the calling thread's context, made at the first call; NULL: not under a budget. */
mdnn_virtual_device_t *mdnn_virtual_current(void);
mdnn_virtual_device_t *mdnn_virtual_current_in(CUcontext *context); /* and which that is */
/* Of that ordinal, made at the first call, whatever context is current; NULL: not under a budget. */
mdnn_virtual_device_t *mdnn_virtual_device_numbered(CUdevice ordinal);

/* What an allocation is told that finds no device there: NOT_SUPPORTED, the driver's own memory
 * serves, or OUT_OF_MEMORY, a budget was asked for that cannot be kept. */
CUresult mdnn_virtual_without(CUcontext context);
CUresult mdnn_virtual_without_numbered(CUdevice ordinal);

/* Takes the device out of those above, gives back all that it has of the driver but its retained
 * context, and forgets all that was allocated; until mdnn_virtual_device_ended it goes without a
 * budget. false: it is none of those. */
bool mdnn_virtual_withdraw(CUdevice ordinal);

#endif
