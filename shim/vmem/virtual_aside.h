/* Parts of devices' budgets for memory that is not ours: the driver's own, which cannot leave. It is
 * counted from before it is made until after it is gone. What lives through a reset of its device
 * counts in the budget that the device gets anew. Thread-safe; ranges that leave are waited for. */
#ifndef MDNN_VIRTUAL_ASIDE_H
#define MDNN_VIRTUAL_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/vmem/virtual_memory.h"

/* How the driver takes memory for it: as much as it says; or, of a size that is rounded up, in pages
 * of 2 MiB, which small ones share. */
typedef enum mdnn_aside_kind { MDNN_ASIDE_EXACT, MDNN_ASIDE_IN_PAGES } mdnn_aside_kind_t;

/* CUDA_ERROR_OUT_OF_MEMORY: not so much can leave, which is said on the log unless it is `quiet`;
 * also where it is not known whether it can, or the budget cannot be kept. CUDA_ERROR_NOT_SUPPORTED: that device has no budget. */
CUresult mdnn_virtual_set_aside(CUdevice device, uint64_t bytes, mdnn_aside_kind_t kind,
                                bool quiet);
/* What is there already: it counts in any case. */
void mdnn_virtual_set_aside_all_the_same(CUdevice device, uint64_t bytes);
/* As much as was set aside at once. */
void mdnn_virtual_give_back(CUdevice device, uint64_t bytes, mdnn_aside_kind_t kind);

/* The current context and its device. CUDA_ERROR_NOT_SUPPORTED: that has no budget;
 * CUDA_ERROR_OUT_OF_MEMORY: it cannot have the one that was asked for. */
CUresult mdnn_virtual_current_context(CUdevice *device, CUcontext *context);

#endif
