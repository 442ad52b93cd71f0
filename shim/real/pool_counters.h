/* Virtual memory replaces memory of the devices' pools (cuMemAllocAsync, and
 * cuMemAllocFromPoolAsync of the default or the current pool). The driver's numbers for such a pool
 * do not include it, so it is counted here. Memory of cuMemAlloc and of stream captures belongs to
 * no pool.
 *
 * Thread-safe. No function calls the driver. */
#ifndef MDNN_POOL_COUNTERS_H
#define MDNN_POOL_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Notes that `bytes` at `address` are virtual memory of that device that is used in place of the pool's. If host memory
 * is short, the counters are too low. */
void mdnn_pool_allocated(CUmemoryPool pool, CUdevice device, CUdeviceptr address, uint64_t bytes);
/* Called before the memory at `address` is freed, so that later memory at that address is not affected: the memory
 * stops counting. If it is not freed after all, the caller notes it as allocated again. */
typedef struct mdnn_pool_share {
    CUmemoryPool pool; /* NULL: it belongs to no pool */
    CUdevice device;
    uint64_t bytes;
} mdnn_pool_share_t;
mdnn_pool_share_t mdnn_pool_take(CUdeviceptr address);

/* Called after success of the real calls. Adds the pool's virtual memory to the driver's answer;
 * values of other attributes stay as they are. */
void mdnn_pool_add_to(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
/* Resets one high-water mark to the present amount; the other one stays. */
void mdnn_pool_attribute_set(CUmemoryPool pool, CUmemPool_attribute attribute);

/* Like mdnn_virtual_free, and keeps the counters up to date. */
CUresult mdnn_free_counted(CUdeviceptr address, CUstream stream, bool own_stream, bool synchronous);

/* Forgets the pool, since another pool may get its handle. */
void mdnn_pool_ended(CUmemoryPool pool);
/* Notes that all memory there is gone. */
void mdnn_pools_device_ends(CUdevice device);

#endif
