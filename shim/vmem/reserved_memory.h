/* Device memory that the driver holds for pools of the program's own, and for graphs that allocate. It
 * counts as the driver says that it is reserved, and while a call is under way by what that may take.
 * What a pool holds unused goes back to the device without our notice: it is asked for anew after
 * each call that concerns it, and after waits. Thread-safe; only inside hooks. */
#ifndef MDNN_RESERVED_MEMORY_H
#define MDNN_RESERVED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

typedef struct mdnn_reserved mdnn_reserved_t; /* lives as long as the process */

/* The pool has memory of that device; whatever is known of an older one of its handle is over. */
void mdnn_reserved_pool_created(CUmemoryPool pool, CUdevice device);
/* NULL: without host memory, or the pool is not the device's. `device`: for pools that nobody saw
 * created. */
mdnn_reserved_t *mdnn_reserved_of_pool(CUmemoryPool pool, CUdevice device);
mdnn_reserved_t *mdnn_reserved_of_graphs(CUdevice device);

/* Around a real call that may take `bytes` more. begin: CUDA_SUCCESS, or what to return instead of the
 * call. end: false, if it took more, for which there is no room; it counts all the same. */
CUresult mdnn_reserved_begin(mdnn_reserved_t *reserved, uint64_t bytes, uint64_t *growth);
bool mdnn_reserved_end(mdnn_reserved_t *reserved, uint64_t growth);
/* Asks anew. all: also after waits, when what was freed before is over. */
void mdnn_reserved_settle(mdnn_reserved_t *reserved);
void mdnn_reserved_settle_all(void);

/* The pool's allocation at `address`: so that a pool that was destroyed counts until all are freed.
 * Without host memory false: it is to be freed again. */
bool mdnn_reserved_allocated(mdnn_reserved_t *reserved, CUdeviceptr address);
/* Around a free: take before, freed after. NULL: of no such pool. */
typedef struct mdnn_reserved_share mdnn_reserved_share_t;
mdnn_reserved_share_t *mdnn_reserved_take(CUdeviceptr address);
void mdnn_reserved_freed(mdnn_reserved_share_t *share, bool freed);

/* Around cuMemPoolDestroy, after which it cannot be asked. ends: asks for the last time, and waits for
 * other threads that are asking. */
mdnn_reserved_t *mdnn_reserved_pool_ends(CUmemoryPool pool);
void mdnn_reserved_pool_ended(mdnn_reserved_t *reserved, bool ended);
/* The device is about to be reset, which ends all of it there. */
void mdnn_reserved_device_ends(CUdevice device);

#endif
