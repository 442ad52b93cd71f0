/* Memory that NCCL allocates for itself: its threads, other processes and network cards use it at any
 * time, so it is the driver's plain memory, which can be shared, and counts in the budget. Where
 * virtual memory has taken all of the budget it is virtual memory that never leaves, which cannot. */
#ifndef MDNN_PLAIN_MEMORY_H
#define MDNN_PLAIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

/* A function of NCCL: what is called from the library that it lies in is NCCL's. */
void mdnn_plain_memory_of(void *function);

/* Whether an allocation is NCCL's; `caller` is an address in the code that asks for it. */
bool mdnn_plain_memory_wanted(const void *caller);
CUresult mdnn_plain_memory_allocate(CUresult (*real)(CUdeviceptr *, size_t), CUdeviceptr *address,
                                    size_t bytes);
/* The device is about to be reset, which ends all of it there. */
void mdnn_plain_memory_device_ends(CUdevice device);
/* Around a free of the memory at `address`, whatever it is, and around the end of a context, with which
 * its memory ends. take: before, so that nobody else's at the same address is meant; NULL: it is not
 * NCCL's. ended: after; what was not freed stays NCCL's. */
typedef struct mdnn_plain_block mdnn_plain_block_t;
mdnn_plain_block_t *mdnn_plain_memory_take(CUdeviceptr address);
mdnn_plain_block_t *mdnn_plain_memory_take_context(CUcontext context);
void mdnn_plain_memory_ended(mdnn_plain_block_t *blocks, bool freed);

#endif
