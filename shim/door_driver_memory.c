/* Allocations and what programs ask about them. cudart's allocations come here, too. */
#include <stdatomic.h>

#include "shim/driver.h"
#include "shim/plain_memory.h"

/* As the driver has it: rows begin at multiples of this. */
enum { PITCH = 512 };

/* ---- what a pool's counters should say: our allocations, too ---- */

enum { MOST_DEVICES = 64 };
static _Atomic uint64_t used[MOST_DEVICES], most_used[MOST_DEVICES];

static bool find(CUdeviceptr address, uint64_t *bytes, int *device)
{
    uint64_t start;
    return mdnn_virtual_find(address, &start, bytes, device) && *device >= 0 &&
           *device < MOST_DEVICES;
}

/* After an allocation. */
static CUresult counted(CUresult result, const CUdeviceptr *address)
{
    uint64_t bytes;
    int device;
    if (result != CUDA_SUCCESS || !find(*address, &bytes, &device))
        return result;
    const uint64_t now = atomic_fetch_add(&used[device], bytes) + bytes;
    uint64_t most = atomic_load(&most_used[device]);
    while (now > most && !atomic_compare_exchange_weak(&most_used[device], &most, now)) {
    }
    return result;
}

/* Frees and counts; what was there is known only before. */
static CUresult free_counted(CUdeviceptr address, CUstream stream, bool own_stream,
                             bool synchronous)
{
    uint64_t bytes;
    int device;
    const bool known = find(address, &bytes, &device);
    const CUresult result = mdnn_virtual_free(address, stream, own_stream, synchronous);
    if (known && result == CUDA_SUCCESS)
        (void)atomic_fetch_sub(&used[device], bytes);
    return result;
}

/* ---- allocations ---- */

CUresult mdnn_door_cuMemAlloc_v2(CUresult (*real)(CUdeviceptr *, size_t), bool own_stream,
                                 CUdeviceptr *address, size_t bytes)
{
    (void)own_stream;
    if (address && bytes > 0 && mdnn_plain_memory_wanted(mdnn_driver_caller()))
        return counted(mdnn_plain_memory_allocate(real, address, bytes), address);
    const CUresult result = address && bytes > 0
                                ? mdnn_virtual_allocate(address, bytes, NULL, false, true)
                                : CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_ERROR_NOT_SUPPORTED ? real(address, bytes) : counted(result, address);
}

CUresult mdnn_door_cuMemAllocPitch_v2(CUresult (*real)(CUdeviceptr *, size_t *, size_t, size_t,
                                                       unsigned),
                                      bool own_stream, CUdeviceptr *address, size_t *pitch,
                                      size_t width, size_t rows, unsigned element_bytes)
{
    (void)own_stream;
    const bool valid = address && pitch && width > 0 && rows > 0 && width <= SIZE_MAX - PITCH &&
                       (element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    const size_t row_bytes = valid ? (width + PITCH - 1) / PITCH * PITCH : 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (valid && rows <= SIZE_MAX / row_bytes)
        result = mdnn_virtual_allocate(address, row_bytes * rows, NULL, false, true);
    if (result == CUDA_SUCCESS)
        *pitch = row_bytes;
    return result == CUDA_ERROR_NOT_SUPPORTED ? real(address, pitch, width, rows, element_bytes)
                                              : counted(result, address);
}

CUresult mdnn_door_cuMemFree_v2(CUresult (*real)(CUdeviceptr), bool own_stream, CUdeviceptr address)
{
    (void)own_stream;
    if (mdnn_virtual_owns(address) && mdnn_driver_is_exiting())
        return CUDA_SUCCESS;
    mdnn_plain_block_t *const block = mdnn_plain_memory_take(address);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_owns(address))
        result = free_counted(address, NULL, false, true);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = real(address);
    mdnn_plain_memory_ended(block, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_door_cuMemAllocAsync(CUresult (*real)(CUdeviceptr *, size_t, CUstream),
                                   bool own_stream, CUdeviceptr *address, size_t bytes,
                                   CUstream stream)
{
    const CUresult result = address && bytes > 0
                                ? mdnn_virtual_allocate(address, bytes, stream, own_stream, false)
                                : CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_ERROR_NOT_SUPPORTED ? real(address, bytes, stream)
                                              : counted(result, address);
}

/* A pool of the program's own may be shared with other processes or lie elsewhere: only the
 * device's pools are ours. */
static bool is_pool_of_device(CUmemoryPool pool, CUdevice *device)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    CUmemoryPool known;
    if (!ask->cuCtxGetDevice || ask->cuCtxGetDevice(device) != CUDA_SUCCESS || *device < 0 ||
        *device >= MOST_DEVICES)
        return false;
    return (ask->cuDeviceGetDefaultMemPool &&
            ask->cuDeviceGetDefaultMemPool(&known, *device) == CUDA_SUCCESS && known == pool) ||
           (ask->cuDeviceGetMemPool && ask->cuDeviceGetMemPool(&known, *device) == CUDA_SUCCESS &&
            known == pool);
}

CUresult mdnn_door_cuMemAllocFromPoolAsync(CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool,
                                                            CUstream),
                                           bool own_stream, CUdeviceptr *address, size_t bytes,
                                           CUmemoryPool pool, CUstream stream)
{
    CUdevice device;
    const CUresult result = address && bytes > 0 && is_pool_of_device(pool, &device)
                                ? mdnn_virtual_allocate(address, bytes, stream, own_stream, false)
                                : CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_ERROR_NOT_SUPPORTED ? real(address, bytes, pool, stream)
                                              : counted(result, address);
}

CUresult mdnn_door_cuMemFreeAsync(CUresult (*real)(CUdeviceptr, CUstream), bool own_stream,
                                  CUdeviceptr address, CUstream stream)
{
    if (!mdnn_virtual_owns(address))
        return real(address, stream);
    if (mdnn_driver_is_exiting())
        return CUDA_SUCCESS;
    const CUresult result = free_counted(address, stream, own_stream, false);
    return result == CUDA_ERROR_NOT_SUPPORTED ? real(address, stream) : result;
}

/* ---- ends of contexts ---- */

CUresult mdnn_door_cuCtxDestroy(CUresult (*real)(CUcontext), bool own_stream, CUcontext context)
{
    CUdeviceptr address;
    (void)own_stream;
    if (mdnn_driver_is_exiting())
        return real(context);
    mdnn_virtual_context_ends(context);
    mdnn_plain_block_t *const blocks = mdnn_plain_memory_take_context(context);
    const CUresult result = real(context);
    while (result == CUDA_SUCCESS && mdnn_virtual_take_bound(context, &address))
        (void)free_counted(address, NULL, false, true);
    mdnn_plain_memory_ended(blocks, result == CUDA_SUCCESS);
    return result;
}

/* Before the real call, while what is given back is still there. */
CUresult mdnn_door_cuDevicePrimaryCtxReset(CUresult (*real)(CUdevice), bool own_stream,
                                           CUdevice device)
{
    (void)own_stream;
    if (mdnn_driver_is_exiting() || device < 0 || device >= MOST_DEVICES)
        return real(device);
    mdnn_plain_memory_device_ends(device);
    mdnn_virtual_device_ends(device);
    atomic_store(&used[device], 0);
    atomic_store(&most_used[device], 0);
    const CUresult result = real(device);
    mdnn_virtual_device_ended(device);
    return result;
}

/* ---- questions ---- */

CUresult mdnn_door_cuMemGetInfo_v2(CUresult (*real)(size_t *, size_t *), bool own_stream,
                                   size_t *free_bytes, size_t *total_bytes)
{
    (void)own_stream;
    if (free_bytes && total_bytes && mdnn_virtual_info(free_bytes, total_bytes))
        return CUDA_SUCCESS;
    return real(free_bytes, total_bytes);
}

CUresult mdnn_door_cuMemGetAddressRange_v2(CUresult (*real)(CUdeviceptr *, size_t *, CUdeviceptr),
                                           bool own_stream, CUdeviceptr *start, size_t *bytes,
                                           CUdeviceptr address)
{
    (void)own_stream;
    uint64_t first, length;
    int device;
    if (!mdnn_virtual_owns(address))
        return real(start, bytes, address);
    if (!mdnn_virtual_find(address, &first, &length, &device))
        return CUDA_ERROR_NOT_FOUND; /* the driver knows what is mapped there, not what is alive */
    if (start)
        *start = first;
    if (bytes)
        *bytes = length;
    return CUDA_SUCCESS;
}

/* ---- counters of pools ---- */

CUresult mdnn_door_cuMemPoolGetAttribute(CUresult (*real)(CUmemoryPool, CUmemPool_attribute,
                                                          void *),
                                         bool own_stream, CUmemoryPool pool,
                                         CUmemPool_attribute attribute, void *value)
{
    (void)own_stream;
    CUdevice device;
    const CUresult result = real(pool, attribute, value);
    if (result != CUDA_SUCCESS || !is_pool_of_device(pool, &device))
        return result;
    cuuint64_t *const bytes = value;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
        attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        *bytes += atomic_load(&used[device]);
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
             attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        *bytes += atomic_load(&most_used[device]);
    return result;
}

/* High-water marks can be set to 0 only, which means: as of now. */
CUresult mdnn_door_cuMemPoolSetAttribute(CUresult (*real)(CUmemoryPool, CUmemPool_attribute,
                                                          void *),
                                         bool own_stream, CUmemoryPool pool,
                                         CUmemPool_attribute attribute, void *value)
{
    (void)own_stream;
    CUdevice device;
    const CUresult result = real(pool, attribute, value);
    if (result == CUDA_SUCCESS &&
        (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
         attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) &&
        is_pool_of_device(pool, &device))
        atomic_store(&most_used[device], atomic_load(&used[device]));
    return result;
}
