/* Pools: which of their memory is virtual, what their attributes say, and which memory counts
 * because the driver holds it for the program's own pools. */
#include "config/devices.h"
#include "config/fault.h"
#include "config/log.h"
#include "shim/interpose/driver.h"
#include "shim/vmem/graph_memory.h"
#include "shim/vmem/other_memory.h"
#include "shim/handles/program_handles.h"
#include "shim/real/pool_counters.h"
#include "shim/real/process.h"
#include "shim/vmem/reserved_memory.h"

/* ---- which pool ---- */

static bool is_default_pool(CUmemoryPool pool, CUdevice device)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    CUmemoryPool known;
    return ask->cuDeviceGetDefaultMemPool &&
           ask->cuDeviceGetDefaultMemPool(&known, device) == CUDA_SUCCESS && known == pool;
}

/* What cuMemAllocAsync takes from; NULL: not known. */
static CUmemoryPool current_pool(CUdevice device)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    CUmemoryPool pool = NULL;
    return ask->cuDeviceGetMemPool && ask->cuDeviceGetMemPool(&pool, device) == CUDA_SUCCESS ? pool
                                                                                             : NULL;
}

static bool current_device(CUdevice *device)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    return ask->cuCtxGetDevice && ask->cuCtxGetDevice(device) == CUDA_SUCCESS;
}

/* The device whose pool it is, which need not be current; -1: none. One of the program's own may be
 * shared with other processes or lie elsewhere: it is the driver's, unless the program has made it a
 * device's. */
static CUdevice device_of_pool(CUmemoryPool pool)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    CUdevice device;
    CUmemoryPool known;
    if (!pool || !ask->cuDeviceGetDefaultMemPool)
        return -1;
    if (current_device(&device) && (is_default_pool(pool, device) || current_pool(device) == pool))
        return device;
    for (device = 0;
         device < MDNN_DEVICES && ask->cuDeviceGetDefaultMemPool(&known, device) == CUDA_SUCCESS;
         device++)
        if (known == pool || MDNN_FAULT(ANY_POOL_IS_THE_DEVICES) || current_pool(device) == pool)
            return device;
    return -1;
}

/* ---- allocations ---- */

/* After an allocation in the place of one of the pool (NULL: the device's current one). What belongs
 * to a capture is no pool's. */
static CUresult counted(CUresult result, CUdeviceptr address, CUmemoryPool pool, CUstream stream,
                        bool own_stream)
{
    uint64_t start, bytes;
    int device;
    if (result != CUDA_SUCCESS || mdnn_virtual_capture(stream, own_stream) != 0 ||
        !mdnn_virtual_find(address, &start, &bytes, &device))
        return result;
    if (pool || (pool = current_pool(device)))
        mdnn_pool_allocated(pool, device, address, bytes);
    return result;
}

CUresult mdnn_free_counted(CUdeviceptr address, CUstream stream, bool own_stream, bool synchronous)
{
    const mdnn_pool_share_t share = mdnn_pool_take(address);
    const CUresult result = mdnn_virtual_free(address, stream, own_stream, synchronous);
    if (result != CUDA_SUCCESS && share.pool)
        mdnn_pool_allocated(share.pool, share.device, address, share.bytes);
    return result;
}

/* ---- the driver's own memory of pools ---- */

typedef struct growth {
    mdnn_reserved_t *reserved; /* NULL: nothing is to be counted here */
    uint64_t bytes;
} growth_t;

/* Before the real call. In a capture it makes a node, whose memory is the graph's. */
static CUresult begin_growth(growth_t *growth, CUmemoryPool pool, size_t bytes, CUstream stream,
                             bool own_stream)
{
    CUdevice device;
    *growth = (growth_t){0};
    if (mdnn_virtual_capture(stream, own_stream) != 0) {
        mdnn_graph_memory_seen();
        return CUDA_SUCCESS;
    }
    if (!current_device(&device) || (!pool && !(pool = current_pool(device))))
        return CUDA_SUCCESS; /* then there is nothing to allocate from */
    const CUdevice owner = device_of_pool(pool);
    growth->reserved = mdnn_reserved_of_pool(pool, owner >= 0 ? owner : device);
    return mdnn_reserved_begin(growth->reserved, bytes, &growth->bytes);
}

/* Memory that cannot be kept is freed again; the program only sees the refusal. */
static CUresult end_growth(growth_t *growth, CUresult result, const CUdeviceptr *address,
                           CUstream stream, bool own_stream)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    if (!growth->reserved)
        return result;
    const bool fits = mdnn_reserved_end(growth->reserved, growth->bytes);
    if (result != CUDA_SUCCESS || (fits && mdnn_reserved_allocated(growth->reserved, *address)))
        return result;
    CUresult (*const undo)(CUdeviceptr, CUstream) =
        own_stream ? ask->cuMemFreeAsync_ptsz : ask->cuMemFreeAsync;
    if (!undo || undo(*address, stream) != CUDA_SUCCESS)
        return result; /* it counts */
    mdnn_reserved_settle(growth->reserved);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult mdnn_hook_cuMemAllocAsync(CUresult (*real)(CUdeviceptr *, size_t, CUstream),
                                   bool own_stream, CUdeviceptr *address, size_t bytes,
                                   CUstream stream)
{
    growth_t growth;
    if (!address || bytes == 0)
        return real(address, bytes, stream);
    const CUresult ended = mdnn_driver_failure_of_context();
    if (ended != CUDA_SUCCESS)
        return ended;
    mdnn_reserved_settle_all();
    CUresult result = mdnn_virtual_allocate(address, bytes, stream, own_stream, false);
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return counted(result, *address, NULL, stream, own_stream);
    result = begin_growth(&growth, NULL, bytes, stream, own_stream);
    return result == CUDA_SUCCESS
               ? end_growth(&growth, real(address, bytes, stream), address, stream, own_stream)
               : result;
}

CUresult mdnn_hook_cuMemAllocFromPoolAsync(CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool,
                                                            CUstream),
                                           bool own_stream, CUdeviceptr *address, size_t bytes,
                                           CUmemoryPool pool, CUstream stream)
{
    growth_t growth;
    if (!address || bytes == 0 || !pool)
        return real(address, bytes, pool, stream);
    const CUresult ended = mdnn_driver_failure_of_context();
    if (ended != CUDA_SUCCESS)
        return ended;
    const CUdevice device = device_of_pool(pool);
    CUresult result = device >= 0
                          ? mdnn_virtual_allocate_on(device, address, bytes, stream, own_stream)
                          : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return counted(result, *address, pool, stream, own_stream);
    result = begin_growth(&growth, pool, bytes, stream, own_stream);
    return result == CUDA_SUCCESS ? end_growth(&growth, real(address, bytes, pool, stream), address,
                                               stream, own_stream)
                                  : result;
}

/* What cuMemAlloc gave and is freed in a stream is a pool's then. */
static void given_to_pool(void)
{
    CUdevice device;
    CUmemoryPool pool;
    mdnn_reserved_t *reserved;
    if (current_device(&device) && (pool = current_pool(device)) &&
        (reserved = mdnn_reserved_of_pool(pool, device)))
        mdnn_reserved_settle(reserved);
}

CUresult mdnn_hook_cuMemFreeAsync(CUresult (*real)(CUdeviceptr, CUstream), bool own_stream,
                                  CUdeviceptr address, CUstream stream)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_owns(address) && mdnn_process_is_over())
        return CUDA_SUCCESS;
    const CUresult ended = mdnn_driver_failure_of_context();
    if (ended != CUDA_SUCCESS)
        return ended;
    if (mdnn_virtual_owns(address) && mdnn_program_has_reserved(address))
        return CUDA_ERROR_INVALID_VALUE;
    mdnn_other_memory_t *const other = mdnn_other_take(MDNN_OTHER_ADDRESS, address);
    mdnn_reserved_share_t *const share = mdnn_reserved_take(address);
    if (mdnn_virtual_owns(address))
        result = mdnn_free_counted(address, stream, own_stream, false);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = real(address, stream);
    if (other && result == CUDA_SUCCESS && mdnn_virtual_capture(stream, own_stream) == 0)
        given_to_pool();
    mdnn_other_ended(other, result == CUDA_SUCCESS);
    mdnn_reserved_freed(share, result == CUDA_SUCCESS);
    return result;
}

/* ---- attributes of pools ---- */

CUresult mdnn_hook_cuMemPoolGetAttribute(CUresult (*real)(CUmemoryPool, CUmemPool_attribute,
                                                          void *),
                                         bool own_stream, CUmemoryPool pool,
                                         CUmemPool_attribute attribute, void *value)
{
    (void)own_stream;
    const CUresult result = real(pool, attribute, value);
    if (result == CUDA_SUCCESS)
        mdnn_pool_add_to(pool, attribute, value);
    return result;
}

/* The driver refuses what cannot be set: high-water marks to anything but 0, which means as of now,
 * and what there is now. */
CUresult mdnn_hook_cuMemPoolSetAttribute(CUresult (*real)(CUmemoryPool, CUmemPool_attribute,
                                                          void *),
                                         bool own_stream, CUmemoryPool pool,
                                         CUmemPool_attribute attribute, void *value)
{
    (void)own_stream;
    const CUresult result = real(pool, attribute, value);
    if (result == CUDA_SUCCESS)
        mdnn_pool_attribute_set(pool, attribute);
    return result;
}

CUresult mdnn_hook_cuMemPoolDestroy(CUresult (*real)(CUmemoryPool), bool own_stream,
                                    CUmemoryPool pool)
{
    (void)own_stream;
    mdnn_reserved_t *const reserved = mdnn_reserved_pool_ends(pool);
    const CUresult result = real(pool);
    if (result == CUDA_SUCCESS)
        mdnn_pool_ended(pool);
    mdnn_reserved_pool_ended(reserved, result == CUDA_SUCCESS);
    return result;
}

/* ---- pools of the program's own ---- */

CUresult mdnn_hook_cuMemPoolCreate(CUresult (*real)(CUmemoryPool *, const CUmemPoolProps *),
                                   bool own_stream, CUmemoryPool *pool,
                                   const CUmemPoolProps *properties)
{
    (void)own_stream;
    const CUresult result = real(pool, properties);
    if (result != CUDA_SUCCESS)
        return result;
    const bool here = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                      properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED;
    mdnn_reserved_pool_created(*pool, here ? properties->location.id : -1);
    return result;
}

CUresult mdnn_hook_cuMemPoolTrimTo(CUresult (*real)(CUmemoryPool, size_t), bool own_stream,
                                   CUmemoryPool pool, size_t keep)
{
    (void)own_stream;
    const CUresult result = real(pool, keep);
    mdnn_reserved_settle_all();
    return result;
}

CUresult mdnn_hook_cuMemPoolImportFromShareableHandle(
    CUresult (*real)(CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long),
    bool own_stream, CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
    unsigned long long flags)
{
    (void)own_stream;
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "memory of an imported pool (cuMemPoolImportFromShareableHandle) does not count in "
        "the budget");
    const CUresult result = real(pool, handle, type, flags);
    if (result == CUDA_SUCCESS)
        mdnn_reserved_pool_created(*pool, -1);
    return result;
}
