/* A virtual handle becomes one of the driver's, with its content, its mapping and its access. */
#include "config/fault.h"
#include "config/log.h"
#include "shim/real/process.h"
#include "shim/real/real.h"
#include "shim/handles/handle_memory.h"
#include "shim/handles/program_handles.h"
#include "shim/handles/virtual_addresses.h"

/* ---- the driver's handle ---- */

static CUresult create_real(const mdnn_program_handle_t *handle, CUmemGenericAllocationHandle *real)
{
    mdnn_handle_t *made;
    CUresult result = mdnn_handle_begin(handle->device, handle->bytes, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = mdnn_real_driver()->cuMemCreate(real, handle->bytes, &handle->properties, 0);
    mdnn_handle_made(made, *real, result == CUDA_SUCCESS);
    return result;
}

static void release_real(CUmemGenericAllocationHandle real)
{
    mdnn_handle_t *const taken = mdnn_handle_take(real);
    const CUresult result = mdnn_real_driver()->cuMemRelease(real);
    mdnn_handle_released(taken, result == CUDA_SUCCESS);
}

/* ---- its content ---- */

static CUresult copy_to(const mdnn_program_handle_t *handle, CUmemGenericAllocationHandle real,
                        CUdeviceptr address)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    const CUmemAccessDesc access = {handle->properties.location,
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = driver->cuMemMap(address, handle->bytes, 0, real, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->cuMemSetAccess(address, handle->bytes, &access, 1);
    if (result == CUDA_SUCCESS && !MDNN_FAULT(REAL_WITHOUT_CONTENT))
        result = mdnn_virtual_copy_out(handle->place->start, address, handle->bytes);
    CUresult unmapped = driver->cuMemUnmap(address, handle->bytes);
    if (unmapped != CUDA_SUCCESS)
        unmapped = driver->cuMemUnmap(address, handle->bytes);
    return result == CUDA_SUCCESS ? unmapped : result;
}

static CUresult copy_content(const mdnn_program_handle_t *handle, CUmemGenericAllocationHandle real)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    CUdeviceptr address;
    CUresult result = driver->cuMemAddressReserve(&address, handle->bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = copy_to(handle, real, address);
    (void)driver->cuMemAddressFree(address, handle->bytes);
    return result;
}

/* ---- its mapping ---- */

static CUresult set_access(const mdnn_program_handle_t *handle, CUdeviceptr address)
{
    CUmemAccessDesc access[64];
    size_t count = 0;
    for (int device = 0; device < 64; device++)
        if (handle->access >> device & 1)
            access[count++] = (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                                CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return count == 0 ? CUDA_SUCCESS
                      : mdnn_real_driver()->cuMemSetAccess(address, handle->bytes, access, count);
}

static CUresult map_once(const mdnn_program_handle_t *handle, mdnn_program_addresses_t *place)
{
    mdnn_mapping_t *made;
    CUresult result = mdnn_mapping_begin(handle->real, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = mdnn_real_driver()->cuMemMap(place->start, handle->bytes, 0, handle->real, 0);
    mdnn_mapping_made(made, place->start, handle->bytes, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        mdnn_program_note_mapped(place, (int64_t)handle->bytes);
    return result;
}

/* Each call that fails is made once more: there is no way back. */
static CUresult map_real(const mdnn_program_handle_t *handle, mdnn_program_addresses_t *place)
{
    CUresult result = map_once(handle, place);
    if (result != CUDA_SUCCESS)
        result = map_once(handle, place);
    if (result == CUDA_SUCCESS && set_access(handle, place->start) != CUDA_SUCCESS)
        result = set_access(handle, place->start);
    return result;
}

/* ---- all of it ---- */

/* Its promise or its allocation ends; the program's mapping goes on as the driver's. */
static CUresult exchange(mdnn_program_handle_t *handle, CUmemGenericAllocationHandle real)
{
    mdnn_program_addresses_t *const place = handle->place;
    const bool was_mapped = handle->mapped;
    CUresult result = CUDA_SUCCESS;
    if (handle->begun) {
        (void)mdnn_virtual_end_at(place->start);
        result = mdnn_virtual_await_addresses(place->start);
    } else {
        mdnn_virtual_end_promise(handle->device, handle->bytes);
    }
    mdnn_program_set_real(handle, real);
    if (place && place->freed)
        place->gone = true;
    if (was_mapped && result == CUDA_SUCCESS)
        result = map_real(handle, place);
    if (handle->releases == 0) { /* the mapping has it */
        release_real(real);
        mdnn_program_note_gone(handle);
    }
    return result;
}

/* What a graph holds stays where it is. */
static bool can_move(const mdnn_program_handle_t *handle)
{
    const CUdeviceptr address = handle->place ? handle->place->start : 0;
    if (!address || (handle->begun ? !mdnn_virtual_is_held(address)
                                   : mdnn_virtual_await_addresses(address) == CUDA_SUCCESS))
        return true;
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "memory of cuMemCreate that a CUDA graph has captured cannot be mapped in another "
        "way or exported under memory.budget");
    return false;
}

CUresult mdnn_program_make_real(mdnn_program_handle_t *handle)
{
    CUmemGenericAllocationHandle real = 0;
    if (!handle || handle->real || handle->gone)
        return CUDA_SUCCESS;
    if (handle->lost)
        return CUDA_ERROR_INVALID_VALUE;
    if (!can_move(handle))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = create_real(handle, &real);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle->begun)
        result = copy_content(handle, real);
    if (result != CUDA_SUCCESS) {
        release_real(real);
        return result;
    }
    return exchange(handle, real);
}
