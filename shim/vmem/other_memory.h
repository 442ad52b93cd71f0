/* Device memory of the driver's own that the program has in ways that cannot be virtual, or that we
 * could not serve: it counts in the budget for as long as it is there. For the hooks. Memory of
 * cuMemCreate is in shim/vmem/handle_memory.h, that of pools and graphs in shim/vmem/reserved_memory.h.
 * Thread-safe. */
#ifndef MDNN_OTHER_MEMORY_H
#define MDNN_OTHER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

typedef enum mdnn_other_kind {
    MDNN_OTHER_ADDRESS, /* of cuMemAlloc: by its address */
    MDNN_OTHER_ARRAY,   /* by its handle */
    MDNN_OTHER_MIPMAP,
} mdnn_other_kind_t;

typedef struct mdnn_other_memory mdnn_other_memory_t;

/* Before the real call that takes it, for the current device. *memory NULL: that has no budget, and
 * nothing is to be counted. Else CUDA_SUCCESS, and mdnn_other_made follows, or what to return instead
 * of the real call. */
CUresult mdnn_other_begin(mdnn_other_kind_t kind, uint64_t bytes, mdnn_other_memory_t **memory);
/* After the real call: it is there, or was not made. NULL: nothing. */
void mdnn_other_made(mdnn_other_memory_t *memory, uint64_t key, bool made);

/* Around the real call that ends it, or a context, with which all of it ends there. take: before, so
 * that nobody else's of the same key is meant; NULL: there is none. ended: after; what is there still
 * counts again. */
mdnn_other_memory_t *mdnn_other_take(mdnn_other_kind_t kind, uint64_t key);
mdnn_other_memory_t *mdnn_other_take_context(CUcontext context);
void mdnn_other_ended(mdnn_other_memory_t *memory, bool ended);
/* The device is about to be reset, which ends all of it there. */
void mdnn_other_device_ends(CUdevice device);

#endif
