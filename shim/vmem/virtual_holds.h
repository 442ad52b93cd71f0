/* What captures and graphs hold: allocations that they name, make or free stay pinned as long as
 * one of them may run. "Entered" means that the caller has entered the device; the lock of captures
 * is taken inside. */
#ifndef MDNN_VIRTUAL_HOLDS_H
#define MDNN_VIRTUAL_HOLDS_H

#include "shim/vmem/virtual_device.h"

/* Entered. Notes that the capture made the allocation at `address` and holds it. */
void mdnn_virtual_capture_allocates(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address);
/* Entered. The capture frees memory that it or another graph makes. CUDA_SUCCESS: each launch will free it; memory that
 * the capture itself made (*now is true) becomes free immediately. Otherwise returns the result to return to the
 * program, also for memory of no graph. */
CUresult mdnn_virtual_capture_frees(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address, bool *now);
/* Entered. Makes the capture hold the allocation that starts at `start`, which is already pinned for this. */
void mdnn_virtual_hold_pinned(mdnn_virtual_device_t *device, unsigned long long capture,
                              uint64_t start);
/* Entered; the device has memory. Called before the program frees the allocation that starts at
 * `address`: nodes that the program made stop holding it. */
void mdnn_virtual_holds_freed(mdnn_virtual_device_t *device, uint64_t address);
/* Ends all holds on these addresses. */
void mdnn_virtual_forget_holds(uint64_t start, uint64_t bytes);

#endif
