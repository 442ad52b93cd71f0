/* Pins: allocations that stay where they are. */
#ifndef MDNN_VIRTUAL_PINS_H
#define MDNN_VIRTUAL_PINS_H

#include "shim/vmem/virtual_device.h"
#include "shim/vmem/virtual_memory.h"

/* Entered. mdnn_memory_pin, asked for as often as it takes. */
mdnn_status_t mdnn_virtual_pin_entered(mdnn_virtual_device_t *device, uint64_t address,
                                       uint64_t *start);
/* mdnn_virtual_pin; `quiet`: for ourselves, a refusal is said to nobody. */
CUresult mdnn_virtual_pin_for(CUdeviceptr address, bool quiet);

#endif
