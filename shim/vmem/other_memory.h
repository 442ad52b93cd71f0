/* The driver's own device memory, which the program got in a way that cannot be virtual or that we could not serve. It
 * counts against the budget as long as it exists. These functions are for the hooks. Memory of cuMemCreate is in
 * shim/handles/handle_memory.h, and memory of pools and graphs in shim/vmem/reserved_memory.h. Thread-safe. */
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

/* Called before the real call that takes memory on the current device. *memory NULL: the device has no budget, and
 * nothing is counted. Otherwise returns CUDA_SUCCESS, and mdnn_other_made must follow, or the result to return instead
 * of the real call. With `quiet` a lack of room is not logged, because the caller has another way. */
CUresult mdnn_other_begin(mdnn_other_kind_t kind, uint64_t bytes, bool quiet,
                          mdnn_other_memory_t **memory);
/* Called after the real call, with whether the memory was made. NULL: does nothing. */
void mdnn_other_made(mdnn_other_memory_t *memory, uint64_t key, bool made);

/* Called around the real call that ends the memory, or that ends a context together with all of its memory. take is
 * called before it, so that later memory with the same key is not affected; NULL: there is none. ended is called after
 * it; if the memory still exists, it counts again. */
mdnn_other_memory_t *mdnn_other_take(mdnn_other_kind_t kind, uint64_t key);
mdnn_other_memory_t *mdnn_other_take_context(CUcontext context);
void mdnn_other_ended(mdnn_other_memory_t *memory, bool ended);
/* Called before the device is reset, which ends all such memory there. */
void mdnn_other_device_ends(CUdevice device);

#endif
