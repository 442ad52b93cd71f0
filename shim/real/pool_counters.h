/* Virtual memory stands in for memory of the devices' pools (cuMemAllocAsync, and
 * cuMemAllocFromPoolAsync of the default or the current pool). What the driver says of such a pool
 * lacks it; here it is counted. Memory of cuMemAlloc, and of stream captures, is no pool's.
 *
 * Thread-safe. No function calls the driver. */
#ifndef MDNN_POOL_COUNTERS_H
#define MDNN_POOL_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* `bytes` at `address` are virtual memory of that device, in the pool's place. Without host memory
 * for the note the counters say less. */
void mdnn_pool_allocated(CUmemoryPool pool, CUdevice device, CUdeviceptr address, uint64_t bytes);
/* Before the memory at `address` is freed, so that nobody else's there is meant: it counts no more.
 * If it is not freed after all, it is allocated again. */
typedef struct mdnn_pool_share {
    CUmemoryPool pool; /* NULL: it is no pool's */
    CUdevice device;
    uint64_t bytes;
} mdnn_pool_share_t;
mdnn_pool_share_t mdnn_pool_take(CUdeviceptr address);

/* After success of the real calls. Adds what the pool has of virtual memory to the driver's answer;
 * values of other attributes stay as they are. */
void mdnn_pool_add_to(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
/* A high-water mark begins anew, from what there is now; the other one does not. */
void mdnn_pool_attribute_set(CUmemoryPool pool, CUmemPool_attribute attribute);

/* mdnn_virtual_free, and the counters with it. */
CUresult mdnn_free_counted(CUdeviceptr address, CUstream stream, bool own_stream, bool synchronous);

/* Its handle may be another pool's next. */
void mdnn_pool_ended(CUmemoryPool pool);
/* All memory there is gone. */
void mdnn_pools_device_ends(CUdevice device);

#endif
