/* Device memory that the driver holds for the program's own pools, and for graphs that allocate. What counts is the
 * size that the driver reports as reserved and, while a call is under way, what the call may take in addition. Unused
 * memory of a pool goes back to the device without our notice, so the driver is asked again after each call that
 * concerns the pool, and after waits. Thread-safe; only inside hooks. */
#ifndef MDNN_RESERVED_MEMORY_H
#define MDNN_RESERVED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

typedef struct mdnn_reserved mdnn_reserved_t; /* lives as long as the process */

/* Announces a pool with memory of that device. Forgets all that is known about an older pool with the same handle. */
void mdnn_reserved_pool_created(CUmemoryPool pool, CUdevice device);
/* NULL: host memory is short, or the pool does not belong to the device. `device`: for pools whose
 * creation was not seen. */
mdnn_reserved_t *mdnn_reserved_of_pool(CUmemoryPool pool, CUdevice device);
mdnn_reserved_t *mdnn_reserved_of_graphs(CUdevice device);

/* Called around a real call that may take `bytes` more. begin returns CUDA_SUCCESS, or the result to return instead of
 * the call. end returns false if the call took more than there is room for; that memory counts even so. */
CUresult mdnn_reserved_begin(mdnn_reserved_t *reserved, uint64_t bytes, uint64_t *growth);
bool mdnn_reserved_end(mdnn_reserved_t *reserved, uint64_t growth);
/* Asks the driver again. settle_all asks about all pools and graphs; it is also called after waits, when earlier frees
 * have taken effect. */
void mdnn_reserved_settle(mdnn_reserved_t *reserved);
void mdnn_reserved_settle_all(void);

/* Notes the pool's allocation at `address`, so that a destroyed pool counts until all its
 * allocations are freed. False if host memory is short: the allocation must be freed again. */
bool mdnn_reserved_allocated(mdnn_reserved_t *reserved, CUdeviceptr address);
/* Called around a free: take before it, freed after it. NULL: the memory belongs to no such
 * pool. */
typedef struct mdnn_reserved_share mdnn_reserved_share_t;
mdnn_reserved_share_t *mdnn_reserved_take(CUdeviceptr address);
void mdnn_reserved_freed(mdnn_reserved_share_t *share, bool freed);

/* Called around cuMemPoolDestroy, after which the driver cannot be asked about the pool. ends asks for the last time,
 * and waits for other threads that are asking. */
mdnn_reserved_t *mdnn_reserved_pool_ends(CUmemoryPool pool);
void mdnn_reserved_pool_ended(mdnn_reserved_t *reserved, bool ended);
/* Called before the device is reset, which ends all such memory there. */
void mdnn_reserved_device_ends(CUdevice device);

#endif
