/* Allocations and what programs ask about them. cudart's allocations come here, too. */
#include "shim/driver.h"
#include "shim/handle_memory.h"
#include "shim/other_memory.h"
#include "shim/plain_memory.h"
#include "shim/pool_counters.h"

/* As the driver has it: rows begin at multiples of this. */
enum { PITCH = 512 };

/* ---- pools ---- */

enum { MOST_DEVICES = 64 };

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

/* The device whose pool it is, which need not be current; -1: none. One of the program's own may be
 * shared with other processes or lie elsewhere: it is the driver's, unless the program has made it a
 * device's. */
static CUdevice device_of_pool(CUmemoryPool pool)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    CUdevice device;
    CUmemoryPool known;
    if (!pool || !ask->cuCtxGetDevice || !ask->cuDeviceGetDefaultMemPool)
        return -1;
    if (ask->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        (is_default_pool(pool, device) || current_pool(device) == pool))
        return device;
    for (device = 0; device < MOST_DEVICES &&
                     ask->cuDeviceGetDefaultMemPool(&known, device) == CUDA_SUCCESS;
         device++)
        if (known == pool || current_pool(device) == pool)
            return device;
    return -1;
}

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

static CUresult free_counted(CUdeviceptr address, CUstream stream, bool own_stream,
                             bool synchronous)
{
    const mdnn_pool_share_t share = mdnn_pool_take(address);
    const CUresult result = mdnn_virtual_free(address, stream, own_stream, synchronous);
    if (result != CUDA_SUCCESS && share.pool)
        mdnn_pool_allocated(share.pool, share.device, address, share.bytes);
    return result;
}

/* ---- allocations ---- */

/* The driver's own memory, counted: NCCL's, and where we had trouble of our own. */
static CUresult allocate_plain(CUresult (*real)(CUdeviceptr *, size_t), CUdeviceptr *address,
                               size_t bytes)
{
    mdnn_other_memory_t *memory;
    CUresult result = mdnn_other_begin(MDNN_OTHER_ADDRESS, bytes, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(address, bytes);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? *address : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_door_cuMemAlloc_v2(CUresult (*real)(CUdeviceptr *, size_t), bool own_stream,
                                 CUdeviceptr *address, size_t bytes)
{
    (void)own_stream;
    if (!address || bytes == 0)
        return real(address, bytes);
    const CUresult result = mdnn_plain_memory_wanted(mdnn_driver_caller())
                                ? CUDA_ERROR_NOT_SUPPORTED
                                : mdnn_virtual_allocate(address, bytes, NULL, false, true);
    return result == CUDA_ERROR_NOT_SUPPORTED ? allocate_plain(real, address, bytes) : result;
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
    mdnn_other_memory_t *memory;
    if (!valid || rows > SIZE_MAX / row_bytes)
        return real(address, pitch, width, rows, element_bytes);
    CUresult result = mdnn_virtual_allocate(address, row_bytes * rows, NULL, false, true);
    if (result == CUDA_SUCCESS)
        *pitch = row_bytes;
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    result = mdnn_other_begin(MDNN_OTHER_ADDRESS, row_bytes * rows, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(address, pitch, width, rows, element_bytes);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? *address : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_door_cuMemFree_v2(CUresult (*real)(CUdeviceptr), bool own_stream, CUdeviceptr address)
{
    (void)own_stream;
    if (mdnn_virtual_owns(address) && mdnn_driver_is_exiting())
        return CUDA_SUCCESS;
    mdnn_other_memory_t *const other = mdnn_other_take(MDNN_OTHER_ADDRESS, address);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_owns(address))
        result = free_counted(address, NULL, false, true);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = real(address);
    mdnn_other_ended(other, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_door_cuMemAllocAsync(CUresult (*real)(CUdeviceptr *, size_t, CUstream),
                                   bool own_stream, CUdeviceptr *address, size_t bytes,
                                   CUstream stream)
{
    const CUresult result = address && bytes > 0
                                ? mdnn_virtual_allocate(address, bytes, stream, own_stream, false)
                                : CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_ERROR_NOT_SUPPORTED
               ? real(address, bytes, stream)
               : counted(result, *address, NULL, stream, own_stream);
}

CUresult mdnn_door_cuMemAllocFromPoolAsync(CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool,
                                                            CUstream),
                                           bool own_stream, CUdeviceptr *address, size_t bytes,
                                           CUmemoryPool pool, CUstream stream)
{
    const CUdevice device = address && bytes > 0 ? device_of_pool(pool) : -1;
    const CUresult result =
        device >= 0 ? mdnn_virtual_allocate_on(device, address, bytes, stream, own_stream)
                    : CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_ERROR_NOT_SUPPORTED
               ? real(address, bytes, pool, stream)
               : counted(result, *address, pool, stream, own_stream);
}

CUresult mdnn_door_cuMemFreeAsync(CUresult (*real)(CUdeviceptr, CUstream), bool own_stream,
                                  CUdeviceptr address, CUstream stream)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_owns(address) && mdnn_driver_is_exiting())
        return CUDA_SUCCESS;
    mdnn_other_memory_t *const other = mdnn_other_take(MDNN_OTHER_ADDRESS, address);
    if (mdnn_virtual_owns(address))
        result = free_counted(address, stream, own_stream, false);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = real(address, stream);
    mdnn_other_ended(other, result == CUDA_SUCCESS);
    return result;
}

/* ---- ends of contexts ---- */

CUresult mdnn_door_cuCtxDestroy(CUresult (*real)(CUcontext), bool own_stream, CUcontext context)
{
    CUdeviceptr address;
    (void)own_stream;
    if (mdnn_driver_is_exiting())
        return real(context);
    mdnn_virtual_context_ends(context);
    mdnn_other_memory_t *const others = mdnn_other_take_context(context);
    const CUresult result = real(context);
    while (result == CUDA_SUCCESS && mdnn_virtual_take_bound(context, &address))
        (void)free_counted(address, NULL, false, true);
    mdnn_other_ended(others, result == CUDA_SUCCESS);
    return result;
}

/* Before the real call, while what is given back is still there. */
CUresult mdnn_door_cuDevicePrimaryCtxReset(CUresult (*real)(CUdevice), bool own_stream,
                                           CUdevice device)
{
    (void)own_stream;
    if (mdnn_driver_is_exiting() || device < 0 || device >= MOST_DEVICES)
        return real(device);
    mdnn_other_device_ends(device);
    mdnn_handles_device_ends(device);
    mdnn_virtual_device_ends(device);
    mdnn_pools_device_ends(device);
    const CUresult result = real(device);
    mdnn_virtual_device_ended(device);
    mdnn_handles_device_ended(device);
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

/* ---- attributes of pools ---- */

CUresult mdnn_door_cuMemPoolGetAttribute(CUresult (*real)(CUmemoryPool, CUmemPool_attribute,
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
CUresult mdnn_door_cuMemPoolSetAttribute(CUresult (*real)(CUmemoryPool, CUmemPool_attribute,
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

CUresult mdnn_door_cuMemPoolDestroy(CUresult (*real)(CUmemoryPool), bool own_stream,
                                    CUmemoryPool pool)
{
    (void)own_stream;
    const CUresult result = real(pool);
    if (result == CUDA_SUCCESS)
        mdnn_pool_ended(pool);
    return result;
}
