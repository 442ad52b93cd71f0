/* Pins keep allocations where they are. */
#ifndef MDNN_VIRTUAL_PINS_H
#define MDNN_VIRTUAL_PINS_H

#include "shim/vmem/virtual_device.h"
#include "shim/vmem/virtual_memory.h"

/* Entered. Calls mdnn_memory_pin as often as necessary. */
mdnn_status_t mdnn_virtual_pin_entered(mdnn_virtual_device_t *device, uint64_t address,
                                       uint64_t *start);
/* Like mdnn_virtual_pin; `quiet`: a refusal is not logged, because the pin is for our own use. */
CUresult mdnn_virtual_pin_for(CUdeviceptr address, bool quiet);

#endif
