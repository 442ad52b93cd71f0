/* Sets parts of devices' budgets aside for the driver's own memory, which cannot leave. Such memory
 * is counted from before it is made until after it is gone. Memory that survives a reset of its
 * device counts in the device's new budget. Thread-safe; waits for ranges that leave. */
#ifndef MDNN_VIRTUAL_ASIDE_H
#define MDNN_VIRTUAL_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/vmem/virtual_memory.h"

/* How much the driver takes for the memory: exactly its size; or whole pages of 2 MiB, which small allocations
 * share. */
typedef enum mdnn_aside_kind { MDNN_ASIDE_EXACT, MDNN_ASIDE_IN_PAGES } mdnn_aside_kind_t;

/* CUDA_ERROR_OUT_OF_MEMORY: not enough memory can leave, or that is not known, or the budget cannot be kept; the log
 * says so unless `quiet`. CUDA_ERROR_NOT_SUPPORTED: the device has no budget. */
CUresult mdnn_virtual_set_aside(CUdevice device, uint64_t bytes, mdnn_aside_kind_t kind,
                                bool quiet);
/* The same for memory that exists already: it counts in any case. */
void mdnn_virtual_set_aside_all_the_same(CUdevice device, uint64_t bytes);
/* Gives back an amount that one call set aside. */
void mdnn_virtual_give_back(CUdevice device, uint64_t bytes, mdnn_aside_kind_t kind);

/* The current context and its device. CUDA_ERROR_NOT_SUPPORTED: the device has no budget;
 * CUDA_ERROR_OUT_OF_MEMORY: the budget that was asked for cannot be kept. */
CUresult mdnn_virtual_current_context(CUdevice *device, CUcontext *context);

#endif
