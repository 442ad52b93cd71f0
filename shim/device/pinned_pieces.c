#include "shim/device/pinned_pool_internal.h"

#include <stdlib.h>

#include "config/extremes.h"

/* ---- the window, and handles of slots ---- */

static int attribute(const mdnn_pinned_pool_config_t *config, CUdevice_attribute which)
{
    int value = 0;
    return config->driver->cuDeviceGetAttribute(&value, which, config->device) == CUDA_SUCCESS
               ? value
               : 0;
}

/* Half as much after each call that failed. One piece is tried twice, as it may be all that is wanted. */
void mdnn_pinned_reserve_window(mdnn_pinned_pool_t *slots)
{
    enum { ATTEMPTS = 2 };
    const mdnn_driver_t *const driver = slots->config.driver;
    if (!attribute(&slots->config,
                   CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return;
    /* -1: the driver knows of no node */
    const int node = attribute(&slots->config, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    slots->place =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node < 0 ? 0 : node};
    uint64_t bytes = slots->window_bytes;
    int attempts = bytes >= slots->piece_bytes ? ATTEMPTS : 0;
    while (attempts > 0 &&
           driver->cuMemAddressReserve(&slots->window, bytes, 0, 0, 0) != CUDA_SUCCESS) {
        attempts -= bytes == slots->piece_bytes;
        bytes = mdnn_max(bytes / 2 / slots->piece_bytes, 1) * slots->piece_bytes;
        slots->window = 0;
    }
    if (slots->window)
        slots->window_bytes = bytes;
}

mdnn_status_t mdnn_pinned_make_own_handles(mdnn_pinned_pool_t *slots)
{
    if (!slots->window)
        return MDNN_STATUS_UNSUPPORTED;
    slots->own = calloc(slots->window_bytes / slots->config.slot_bytes, sizeof *slots->own);
    return slots->own ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

static mdnn_pinned_handle_t *own_of(const mdnn_pinned_pool_t *slots, uint64_t slot)
{
    return slots->own + (slot - slots->window) / slots->config.slot_bytes;
}

/* ---- pieces ---- */

/* On the device's node; if the process may have no memory there, anywhere. */
static CUresult create_memory(mdnn_pinned_pool_t *slots, CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = slots->place};
    const mdnn_driver_t *const driver = slots->config.driver;
    CUresult result = driver->cuMemCreate(handle, slots->piece_bytes, &properties, 0);
    if (result == CUDA_SUCCESS || slots->made_bytes > 0 ||
        properties.location.type == CU_MEM_LOCATION_TYPE_HOST ||
        !attribute(&slots->config, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return result;
    properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    result = driver->cuMemCreate(handle, slots->piece_bytes, &properties, 0);
    if (result == CUDA_SUCCESS)
        slots->place = properties.location;
    return result;
}

static CUresult create_handle(mdnn_pinned_pool_t *slots, CUdeviceptr address)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    CUmemGenericAllocationHandle handle;
    CUresult result = create_memory(slots, &handle);
    if (result != CUDA_SUCCESS)
        return result;
    const CUmemAccessDesc access[] = {
        {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = slots->config.device},
         CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {slots->place, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    result = driver->cuMemMap(address, slots->piece_bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
        result = driver->cuMemSetAccess(address, slots->piece_bytes, access, 2);
        if (result != CUDA_SUCCESS)
            (void)driver->cuMemUnmap(address, slots->piece_bytes);
    }
    if (slots->own && result == CUDA_SUCCESS)
        own_of(slots, address)->handle = handle;
    else
        (void)driver->cuMemRelease(handle); /* it lives as long as its mapping */
    return result;
}

static CUresult create_pinned(mdnn_pinned_pool_t *slots, uint64_t *start)
{
    void *memory = NULL;
    const CUresult result =
        slots->config.driver->cuMemHostAlloc(&memory, slots->piece_bytes, CU_MEMHOSTALLOC_PORTABLE);
    *start = (uintptr_t)memory;
    return result;
}

CUresult mdnn_pinned_create_piece(mdnn_pinned_pool_t *slots, uint64_t offset, uint64_t *start)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    CUcontext popped;
    CUresult result = driver->cuCtxPushCurrent(slots->config.context);
    if (result != CUDA_SUCCESS)
        return result;
    *start = slots->window + offset;
    result = slots->window ? create_handle(slots, *start) : create_pinned(slots, start);
    (void)driver->cuCtxPopCurrent(&popped);
    return result;
}

void mdnn_pinned_destroy_piece(mdnn_pinned_pool_t *slots, uint64_t start)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    mdnn_pinned_handle_t *const own = slots->own ? own_of(slots, start) : NULL;
    if (slots->window)
        (void)driver->cuMemUnmap(start, slots->piece_bytes);
    else
        (void)driver->cuMemFreeHost((void *)(uintptr_t)start);
    if (own && own->mapped)
        (void)driver->cuMemUnmap(own->mapped, slots->piece_bytes);
    if (own)
        (void)driver->cuMemRelease(own->handle);
    if (own)
        *own = (mdnn_pinned_handle_t){0};
}

/* ---- slots at other addresses ---- */

CUresult mdnn_pinned_pool_map(mdnn_pinned_pool_t *slots, uint64_t slot, CUdeviceptr address,
                              const CUmemAccessDesc *access, size_t count)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    const uint64_t bytes = slots->config.slot_bytes;
    mdnn_pinned_handle_t *const own = own_of(slots, slot);
    CUresult result = driver->cuMemMap(address, bytes, 0, own->handle, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->cuMemSetAccess(address, bytes, access, count);
    if (result != CUDA_SUCCESS)
        (void)driver->cuMemUnmap(address, bytes);
    else
        own->mapped = address;
    return result;
}

CUresult mdnn_pinned_pool_unmap(mdnn_pinned_pool_t *slots, uint64_t slot)
{
    mdnn_pinned_handle_t *const own = own_of(slots, slot);
    const CUresult result = slots->config.driver->cuMemUnmap(own->mapped, slots->config.slot_bytes);
    if (result == CUDA_SUCCESS)
        own->mapped = 0;
    return result;
}

CUresult mdnn_pinned_pool_let(mdnn_pinned_pool_t *slots, const CUmemAccessDesc *access)
{
    const uint64_t made = slots->own ? mdnn_pinned_pool_bytes(slots) : 0;
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < made && result == CUDA_SUCCESS; at += slots->config.slot_bytes) {
        const mdnn_pinned_handle_t *const own = own_of(slots, slots->window + at);
        if (own->mapped)
            result = slots->config.driver->cuMemSetAccess(own->mapped, slots->config.slot_bytes,
                                                          access, 1);
    }
    return result;
}
