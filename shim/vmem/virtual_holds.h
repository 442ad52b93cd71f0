/* What captures and graphs hold: allocations that they name, make or free stay pinned as long as one
 * of them may run. Calls of a device's owner are entered; the lock of captures is taken within. */
#ifndef MDNN_VIRTUAL_HOLDS_H
#define MDNN_VIRTUAL_HOLDS_H

#include "shim/vmem/virtual_device.h"

/* Entered. The allocation at `address` is made by the capture, and held by it. */
void mdnn_virtual_capture_allocates(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address);
/* Entered. The capture frees what it or another graph makes. CUDA_SUCCESS: so will each launch; what the
 * capture made itself (*now) is free at once. Else what to return, for memory of no graph, too. */
CUresult mdnn_virtual_capture_frees(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address, bool *now);
/* Entered. The capture holds the allocation that starts at `start`, which was pinned for this already. */
void mdnn_virtual_hold_pinned(mdnn_virtual_device_t *device, unsigned long long capture,
                              uint64_t start);
/* Entered; the device has memory. The program is about to free what starts at `address`: nodes that
 * it made hold it no more. */
void mdnn_virtual_holds_freed(mdnn_virtual_device_t *device, uint64_t address);
/* Nobody holds any more what lies there. */
void mdnn_virtual_forget_holds(uint64_t start, uint64_t bytes);

#endif
