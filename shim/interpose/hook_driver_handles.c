/* The program's own use of the virtual memory API: what it creates counts, and is never virtual. */
#include "config/log.h"
#include "shim/interpose/driver.h"
#include "shim/vmem/handle_memory.h"

static bool is_on_device(const CUmemAllocationProp *properties)
{
    return properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult mdnn_hook_cuMemCreate(CUresult (*real)(CUmemGenericAllocationHandle *, size_t,
                                                const CUmemAllocationProp *, unsigned long long),
                               bool own_stream, CUmemGenericAllocationHandle *handle, size_t bytes,
                               const CUmemAllocationProp *properties, unsigned long long flags)
{
    (void)own_stream;
    mdnn_handle_t *made;
    if (!handle || bytes == 0 || !is_on_device(properties) || mdnn_driver_is_exiting())
        return real(handle, bytes, properties, flags);
    CUresult result = mdnn_handle_begin(properties->location.id, bytes, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(handle, bytes, properties, flags);
    mdnn_handle_made(made, result == CUDA_SUCCESS ? *handle : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMemRelease(CUresult (*real)(CUmemGenericAllocationHandle), bool own_stream,
                                CUmemGenericAllocationHandle handle)
{
    (void)own_stream;
    if (mdnn_driver_is_exiting())
        return real(handle);
    mdnn_handle_t *const taken = mdnn_handle_take(handle);
    const CUresult result = real(handle);
    mdnn_handle_released(taken, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMemMap(CUresult (*real)(CUdeviceptr, size_t, size_t,
                                             CUmemGenericAllocationHandle, unsigned long long),
                            bool own_stream, CUdeviceptr address, size_t bytes, size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    (void)own_stream;
    mdnn_mapping_t *made;
    if (mdnn_driver_is_exiting())
        return real(address, bytes, offset, handle, flags);
    CUresult result = mdnn_mapping_begin(handle, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(address, bytes, offset, handle, flags);
    mdnn_mapping_made(made, address, bytes, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMemUnmap(CUresult (*real)(CUdeviceptr, size_t), bool own_stream,
                              CUdeviceptr address, size_t bytes)
{
    (void)own_stream;
    if (mdnn_driver_is_exiting())
        return real(address, bytes);
    mdnn_mapping_t *const taken = mdnn_mapping_take(address, bytes);
    const CUresult result = real(address, bytes);
    mdnn_mapping_ended(taken, result == CUDA_SUCCESS);
    return result;
}

/* What cuMemAlloc gave has no such handle; ours, which come and go, are none of the program's. */
CUresult mdnn_hook_cuMemRetainAllocationHandle(CUresult (*real)(CUmemGenericAllocationHandle *,
                                                                void *),
                                               bool own_stream,
                                               CUmemGenericAllocationHandle *handle, void *address)
{
    (void)own_stream;
    mdnn_handle_t *made;
    if (mdnn_virtual_owns((uintptr_t)address))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = mdnn_handle_retain_begin((uintptr_t)address, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(handle, address);
    mdnn_handle_made(made, result == CUDA_SUCCESS ? *handle : 0, result == CUDA_SUCCESS);
    return result;
}

/* ---- what does not count, or not for as long as it is there ---- */

CUresult mdnn_hook_cuMemExportToShareableHandle(
    CUresult (*real)(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                     unsigned long long),
    bool own_stream, void *shared, CUmemGenericAllocationHandle handle,
    CUmemAllocationHandleType type, unsigned long long flags)
{
    (void)own_stream;
    MDNN_LOG_ONCE(MDNN_LOG_INFO, "memory",
                  "memory of a shared handle (cuMemExportToShareableHandle) counts in the budget "
                  "until this process has released and unmapped it, even if others keep it");
    return real(shared, handle, type, flags);
}

CUresult mdnn_hook_cuMemImportFromShareableHandle(
    CUresult (*real)(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType),
    bool own_stream, CUmemGenericAllocationHandle *handle, void *shared,
    CUmemAllocationHandleType type)
{
    (void)own_stream;
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "memory of an imported handle (cuMemImportFromShareableHandle) does not count in the "
        "budget");
    return real(handle, shared, type);
}

/* Arrays may keep the memory when its handle is released. */
static CUresult map_arrays(CUresult (*real)(CUarrayMapInfo *, unsigned, CUstream),
                           CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    for (unsigned i = 0; list && i < count; i++)
        if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
            list[i].memHandleType == CU_MEM_HANDLE_TYPE_GENERIC) {
            mdnn_handle_keep(list[i].memHandle.memHandle);
            MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                          "memory that is mapped into an array (cuMemMapArrayAsync) counts in the "
                          "budget for good");
        }
    return real(list, count, stream);
}

CUresult mdnn_hook_cuMemMapArrayAsync(CUresult (*real)(CUarrayMapInfo *, unsigned, CUstream),
                                      bool own_stream, CUarrayMapInfo *list, unsigned count,
                                      CUstream stream)
{
    (void)own_stream;
    return map_arrays(real, list, count, stream);
}
