/* The table of devices under a budget. Looking in it takes no lock; who changes it holds the lock of
 * shim/vmem/virtual_setup.c. A device that was seen in it stays valid while the process lives. */
#ifndef MDNN_VIRTUAL_DEVICES_H
#define MDNN_VIRTUAL_DEVICES_H

#include "shim/vmem/virtual_device.h"
#include "shim/vmem/virtual_memory.h"

/* By index; NULL behind the last. One that was reset has no addresses and no memory. */
mdnn_virtual_device_t *mdnn_virtual_device(size_t index);
/* The device in whose reservation the address lies; NULL: none. */
mdnn_virtual_device_t *mdnn_virtual_device_of(uint64_t address);
/* The device of that ordinal; NULL: it is not in the table. */
mdnn_virtual_device_t *mdnn_virtual_find_numbered(CUdevice ordinal);

/* From now on everybody finds the device, which is of an ordinal that no other one here has. */
void mdnn_virtual_publish(mdnn_virtual_device_t *device);
/* From now on nobody finds the device of that ordinal, which is returned; NULL: there is none. */
mdnn_virtual_device_t *mdnn_virtual_take_out(CUdevice ordinal);

#endif
