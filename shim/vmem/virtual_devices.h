/* The table of devices under a budget. Reading it takes no lock; changing it needs the lock of
 * shim/vmem/virtual_setup.c. A device that was found in it stays valid as long as the process
 * lives. */
#ifndef MDNN_VIRTUAL_DEVICES_H
#define MDNN_VIRTUAL_DEVICES_H

#include "shim/vmem/virtual_device.h"
#include "shim/vmem/virtual_memory.h"

/* The device with that index; NULL after the last one. A device that was reset has no addresses and no memory. */
mdnn_virtual_device_t *mdnn_virtual_device(size_t index);
/* The device in whose reservation the address lies; NULL: none. */
mdnn_virtual_device_t *mdnn_virtual_device_of(uint64_t address);
/* The device of that ordinal; NULL: it is not in the table. */
mdnn_virtual_device_t *mdnn_virtual_find_numbered(CUdevice ordinal);

/* Adds a device, whose ordinal no other device in the table has. */
void mdnn_virtual_publish(mdnn_virtual_device_t *device);
/* Removes and returns the device of that ordinal; NULL: there is none. */
mdnn_virtual_device_t *mdnn_virtual_take_out(CUdevice ordinal);

#endif
