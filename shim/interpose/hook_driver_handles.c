/* The program's own use of the virtual memory API. What is mapped whole is virtual; the rest is the driver's, and counts
 * (docs/design/handles.md). */
#include "config/devices.h"
#include "config/fault.h"
#include "config/log.h"
#include "shim/interpose/driver.h"
#include "shim/handles/handle_memory.h"
#include "shim/handles/program_handles.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_setup.h"

#include <stdlib.h>
#include <string.h>

static bool is_on_device(const CUmemAllocationProp *properties)
{
    return properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           properties->location.id >= 0 && properties->location.id < MDNN_DEVICES;
}

/* Addresses of ours, of which the driver knows only that they are reserved, and not for what. */
static bool is_of_nobody(mdnn_program_claim_t claim, CUdeviceptr address)
{
    return mdnn_virtual_owns(address) && !claim.addresses;
}

/* Whether it ends in the reservation in which it begins; of the driver's ones it knows more. */
static bool is_within(mdnn_program_claim_t claim, CUdeviceptr address, size_t bytes)
{
    const mdnn_program_addresses_t *const around = claim.addresses;
    return !around || !around->ours || bytes <= around->bytes - (address - around->start);
}

static bool is_whole(mdnn_program_claim_t claim, CUdeviceptr address, size_t bytes)
{
    return claim.addresses->start == address && claim.addresses->bytes == bytes;
}

/* Whether the driver may have mapped something there for the program. At other addresses of ours it knows our chunks. */
static bool is_the_drivers(mdnn_program_claim_t claim)
{
    const mdnn_program_addresses_t *const around = claim.addresses;
    return !around || !around->ours || around->real_bytes > 0;
}

/* ---- handles ---- */

CUresult mdnn_hook_cuMemCreate(CUresult (*real)(CUmemGenericAllocationHandle *, size_t,
                                                const CUmemAllocationProp *, unsigned long long),
                               bool own_stream, CUmemGenericAllocationHandle *handle, size_t bytes,
                               const CUmemAllocationProp *properties, unsigned long long flags)
{
    (void)own_stream;
    mdnn_handle_t *made;
    if (!handle || bytes == 0 || !is_on_device(properties) || mdnn_process_is_over())
        return real(handle, bytes, properties, flags);
    CUresult result = flags == 0 && mdnn_virtual_on()
                          ? mdnn_program_create(handle, bytes, properties)
                          : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    result = mdnn_handle_begin(properties->location.id, bytes, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(handle, bytes, properties, flags);
    mdnn_handle_made(made, result == CUDA_SUCCESS ? *handle : 0, result == CUDA_SUCCESS);
    return result;
}

static CUresult release_real(CUresult (*real)(CUmemGenericAllocationHandle),
                             CUmemGenericAllocationHandle handle)
{
    mdnn_handle_t *const taken = mdnn_handle_take(handle);
    const CUresult result = real(handle);
    mdnn_handle_released(taken, result == CUDA_SUCCESS);
    return result;
}

/* The driver's handle is released with the last release of ours. */
static CUresult release_claimed(CUresult (*real)(CUmemGenericAllocationHandle),
                                mdnn_program_handle_t *handle)
{
    CUresult result = CUDA_SUCCESS;
    if (!handle || handle->releases == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle->real && handle->releases == 1)
        result = release_real(real, handle->real);
    if (result == CUDA_SUCCESS)
        mdnn_program_release(handle);
    return result;
}

CUresult mdnn_hook_cuMemRelease(CUresult (*real)(CUmemGenericAllocationHandle), bool own_stream,
                                CUmemGenericAllocationHandle handle)
{
    (void)own_stream;
    if (mdnn_process_is_over())
        return mdnn_program_is_ours(handle) ? CUDA_SUCCESS : real(handle);
    if (!mdnn_program_is_ours(handle))
        return release_real(real, handle);
    const mdnn_program_claim_t claim = mdnn_program_claim(handle, 0);
    const CUresult result = release_claimed(real, claim.handle);
    mdnn_program_let_go(claim);
    return result;
}

CUresult mdnn_hook_cuMemGetAllocationPropertiesFromHandle(
    CUresult (*real)(CUmemAllocationProp *, CUmemGenericAllocationHandle), bool own_stream,
    CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    (void)own_stream;
    if (!mdnn_program_is_ours(handle))
        return real(properties, handle);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    const mdnn_program_claim_t claim = mdnn_program_claim(handle, 0);
    if (claim.handle && claim.handle->real) {
        result = real(properties, claim.handle->real);
    } else if (claim.handle && claim.handle->releases > 0 && properties) {
        *properties = claim.handle->properties;
        result = CUDA_SUCCESS;
    }
    mdnn_program_let_go(claim);
    return result;
}

/* ---- addresses ---- */

CUresult mdnn_hook_cuMemAddressReserve(CUresult (*real)(CUdeviceptr *, size_t, size_t, CUdeviceptr,
                                                        unsigned long long),
                                       bool own_stream, CUdeviceptr *address, size_t bytes,
                                       size_t alignment, CUdeviceptr wanted,
                                       unsigned long long flags)
{
    (void)own_stream;
    if (!address || bytes == 0 || !mdnn_virtual_on() || mdnn_process_is_over())
        return real(address, bytes, alignment, wanted, flags);
    if (wanted == 0 && flags == 0 &&
        mdnn_program_reserve(address, bytes, alignment) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    const CUresult result = real(address, bytes, alignment, wanted, flags);
    if (result == CUDA_SUCCESS)
        mdnn_program_reserved(*address, bytes);
    return result;
}

static CUresult free_claimed(CUresult (*real)(CUdeviceptr, size_t), mdnn_program_claim_t claim,
                             CUdeviceptr address, size_t bytes)
{
    mdnn_program_addresses_t *const around = claim.addresses;
    if (is_of_nobody(claim, address))
        return CUDA_ERROR_INVALID_VALUE;
    if (around && around->ours)
        return is_whole(claim, address, bytes) && !around->freed ? mdnn_program_free(around)
                                                                 : CUDA_ERROR_INVALID_VALUE;
    const CUresult result = real(address, bytes);
    if (around && result == CUDA_SUCCESS)
        around->gone = true;
    return result;
}

CUresult mdnn_hook_cuMemAddressFree(CUresult (*real)(CUdeviceptr, size_t), bool own_stream,
                                    CUdeviceptr address, size_t bytes)
{
    (void)own_stream;
    if (mdnn_process_is_over())
        return mdnn_virtual_owns(address) ? CUDA_SUCCESS : real(address, bytes);
    const mdnn_program_claim_t claim = mdnn_program_claim(0, address);
    const CUresult result = free_claimed(real, claim, address, bytes);
    mdnn_program_let_go(claim);
    return result;
}

/* ---- mappings ---- */

typedef CUresult map_t(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
                       unsigned long long);

static CUresult map_real(map_t *real, CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    mdnn_mapping_t *made;
    CUresult result = mdnn_mapping_begin(handle, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(address, bytes, offset, handle, flags);
    mdnn_mapping_made(made, address, bytes, result == CUDA_SUCCESS);
    return result;
}

/* What is virtual of it becomes real. */
static CUresult make_all_real(mdnn_program_claim_t claim)
{
    const CUresult result = mdnn_program_make_real(claim.handle);
    return result == CUDA_SUCCESS ? mdnn_program_make_real(claim.guest) : result;
}

/* At addresses where nothing of ours is mapped any more. */
static CUresult map_claimed(map_t *real, mdnn_program_claim_t claim, CUdeviceptr address,
                            size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags)
{
    mdnn_program_addresses_t *const around = claim.addresses;
    const bool is_gone = mdnn_program_is_ours(handle) &&
                         (!claim.handle || claim.handle->gone || claim.handle->releases == 0);
    if (is_gone || is_of_nobody(claim, address) || !is_within(claim, address, bytes) ||
        (around && around->freed))
        return CUDA_ERROR_INVALID_VALUE;
    if (mdnn_program_map(claim, address, bytes, offset, flags))
        return CUDA_SUCCESS;
    if (around && (claim.handle || offset != 0 || !is_whole(claim, address, bytes)))
        mdnn_program_note_parts(around);
    CUresult result = make_all_real(claim);
    if (result == CUDA_SUCCESS && around && around->ours)
        result = mdnn_program_await(around);
    if (result != CUDA_SUCCESS)
        return result;
    result =
        map_real(real, address, bytes, offset, claim.handle ? claim.handle->real : handle, flags);
    if (result == CUDA_SUCCESS && around)
        mdnn_program_note_mapped(around, (int64_t)bytes);
    return result;
}

CUresult mdnn_hook_cuMemMap(map_t *real, bool own_stream, CUdeviceptr address, size_t bytes,
                            size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags)
{
    (void)own_stream;
    const mdnn_program_claim_t claim = mdnn_program_claim(handle, address);
    const CUresult result = map_claimed(real, claim, address, bytes, offset, handle, flags);
    mdnn_program_let_go(claim);
    return result;
}

static CUresult unmap_real(CUresult (*real)(CUdeviceptr, size_t), mdnn_program_claim_t claim,
                           CUdeviceptr address, size_t bytes)
{
    mdnn_mapping_t *const taken = mdnn_mapping_take(address, bytes);
    const CUresult result = real(address, bytes);
    mdnn_mapping_ended(taken, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS && claim.addresses)
        mdnn_program_note_mapped(claim.addresses, -(int64_t)bytes);
    return result;
}

static CUresult unmap_claimed(CUresult (*real)(CUdeviceptr, size_t), mdnn_program_claim_t claim,
                              CUdeviceptr address, size_t bytes)
{
    if (is_of_nobody(claim, address) || !is_within(claim, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!mdnn_program_is_mapped(claim.addresses)) {
        return is_the_drivers(claim) ? unmap_real(real, claim, address, bytes)
                                     : CUDA_ERROR_INVALID_VALUE;
    }
    if (!is_whole(claim, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;                      /* a part of a mapping */
    if (claim.guest->releases > 0 || !mdnn_process_is_over()) /* else nothing ends */
        mdnn_program_unmap(claim.addresses);
    return CUDA_SUCCESS;
}

CUresult mdnn_hook_cuMemUnmap(CUresult (*real)(CUdeviceptr, size_t), bool own_stream,
                              CUdeviceptr address, size_t bytes)
{
    (void)own_stream;
    const mdnn_program_claim_t claim = mdnn_program_claim(0, address);
    const CUresult result = unmap_claimed(real, claim, address, bytes);
    mdnn_program_let_go(claim);
    return result;
}

/* ---- access ---- */

typedef CUresult set_access_t(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);

static CUresult let_claimed(set_access_t *real, mdnn_program_claim_t claim, CUdeviceptr address,
                            size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    if (is_of_nobody(claim, address) || !is_within(claim, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (mdnn_program_is_mapped(claim.addresses)) {
        if (is_whole(claim, address, bytes) &&
            mdnn_program_let(claim.addresses, access, count) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        const CUresult result = mdnn_program_make_real(claim.guest);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return is_the_drivers(claim) ? real(address, bytes, access, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult mdnn_hook_cuMemSetAccess(set_access_t *real, bool own_stream, CUdeviceptr address,
                                  size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    (void)own_stream;
    const mdnn_program_claim_t claim = mdnn_program_claim(0, address);
    const CUresult result = let_claimed(real, claim, address, bytes, access, count);
    mdnn_program_let_go(claim);
    return result;
}

static unsigned long long access_of(const mdnn_program_handle_t *handle,
                                    const CUmemLocation *location)
{
    const bool may = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
                     location->id < 64 && (handle->access >> location->id & 1);
    return may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult mdnn_hook_cuMemGetAccess(CUresult (*real)(unsigned long long *, const CUmemLocation *,
                                                   CUdeviceptr),
                                  bool own_stream, unsigned long long *flags,
                                  const CUmemLocation *location, CUdeviceptr address)
{
    (void)own_stream;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    const mdnn_program_claim_t claim = mdnn_program_claim(0, address);
    if (!mdnn_program_is_mapped(claim.addresses)) {
        if (is_the_drivers(claim) && !is_of_nobody(claim, address))
            result = real(flags, location, address);
    } else if (flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
               !mdnn_virtual_is_device(location->id)) {
        result = CUDA_ERROR_INVALID_DEVICE;
    } else if (flags && location) {
        *flags = access_of(claim.guest, location);
        result = CUDA_SUCCESS;
    }
    mdnn_program_let_go(claim);
    return result;
}

/* ---- handles of what is mapped ---- */

/* Of what the driver has. Where it is known by a number of ours, that stands for one handle of the driver's. */
static CUresult retain_real(CUresult (*real)(CUmemGenericAllocationHandle *, void *),
                            CUmemGenericAllocationHandle *handle, void *address)
{
    mdnn_handle_t *made;
    CUresult result = mdnn_handle_retain_begin((uintptr_t)address, &made);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(handle, address);
    const CUmemGenericAllocationHandle value =
        result == CUDA_SUCCESS ? mdnn_program_value_of(*handle) : 0;
    const bool is_ours = result == CUDA_SUCCESS && value != *handle;
    mdnn_handle_made(made, result == CUDA_SUCCESS ? *handle : 0,
                     result == CUDA_SUCCESS && !is_ours);
    if (is_ours)
        *handle = value;
    return result;
}

/* What cuMemAlloc gave has no such handle; ours, which come and go, are none of the program's. */
static CUresult retain_claimed(CUresult (*real)(CUmemGenericAllocationHandle *, void *),
                               mdnn_program_claim_t claim, CUmemGenericAllocationHandle *handle,
                               void *address)
{
    if (is_of_nobody(claim, (uintptr_t)address))
        return CUDA_ERROR_INVALID_VALUE;
    if (!mdnn_program_is_mapped(claim.addresses))
        return is_the_drivers(claim) ? retain_real(real, handle, address)
                                     : CUDA_ERROR_INVALID_VALUE;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    claim.guest->releases++;
    *handle = claim.guest->value;
    return CUDA_SUCCESS;
}

CUresult mdnn_hook_cuMemRetainAllocationHandle(CUresult (*real)(CUmemGenericAllocationHandle *,
                                                                void *),
                                               bool own_stream,
                                               CUmemGenericAllocationHandle *handle, void *address)
{
    (void)own_stream;
    const mdnn_program_claim_t claim = mdnn_program_claim(0, (uintptr_t)address);
    const CUresult result = retain_claimed(real, claim, handle, address);
    mdnn_program_let_go(claim);
    return result;
}

/* ---- what only the driver can do with a handle ---- */

/* The driver's handle for this one, for as long as it is claimed. */
static CUresult have_real(mdnn_program_claim_t claim, CUmemGenericAllocationHandle *handle)
{
    if (!mdnn_program_is_ours(*handle))
        return CUDA_SUCCESS;
    if (!claim.handle || claim.handle->releases == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = mdnn_program_make_real(claim.handle);
    if (result == CUDA_SUCCESS)
        *handle = claim.handle->real;
    return result;
}

CUresult mdnn_hook_cuMulticastBindMem(CUresult (*real)(CUmemGenericAllocationHandle, size_t,
                                                       CUmemGenericAllocationHandle, size_t, size_t,
                                                       unsigned long long),
                                      bool own_stream, CUmemGenericAllocationHandle multicast,
                                      size_t offset, CUmemGenericAllocationHandle handle,
                                      size_t from, size_t bytes, unsigned long long flags)
{
    (void)own_stream;
    const mdnn_program_claim_t claim = mdnn_program_claim(handle, 0);
    CUresult result = have_real(claim, &handle);
    if (result == CUDA_SUCCESS)
        result = real(multicast, offset, handle, from, bytes, flags);
    mdnn_program_let_go(claim);
    return result;
}

CUresult mdnn_hook_cuMulticastBindAddr(CUresult (*real)(CUmemGenericAllocationHandle, size_t,
                                                        CUdeviceptr, size_t, unsigned long long),
                                       bool own_stream, CUmemGenericAllocationHandle multicast,
                                       size_t offset, CUdeviceptr address, size_t bytes,
                                       unsigned long long flags)
{
    (void)own_stream;
    const mdnn_program_claim_t claim = mdnn_program_claim(0, address);
    CUresult result = mdnn_program_make_real(claim.guest);
    if (result == CUDA_SUCCESS)
        result = real(multicast, offset, address, bytes, flags);
    mdnn_program_let_go(claim);
    return result;
}

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
    const mdnn_program_claim_t claim = mdnn_program_claim(handle, 0);
    CUresult result = have_real(claim, &handle);
    if (result == CUDA_SUCCESS)
        result = real(shared, handle, type, flags);
    mdnn_program_let_go(claim);
    return result;
}

/* Whether the driver knew it already: who imports what it has exported itself may get the same handle again. */
static bool is_this_processes(CUmemGenericAllocationHandle *handle)
{
    if (MDNN_FAULT(IMPORTED_IS_ANOTHERS))
        return false;
    const CUmemGenericAllocationHandle value = mdnn_program_value_of(*handle);
    const bool is_ours = value != *handle;
    *handle = value;
    return is_ours || mdnn_handle_again(value);
}

CUresult mdnn_hook_cuMemImportFromShareableHandle(
    CUresult (*real)(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType),
    bool own_stream, CUmemGenericAllocationHandle *handle, void *shared,
    CUmemAllocationHandleType type)
{
    (void)own_stream;
    const CUresult result = real(handle, shared, type);
    if (result != CUDA_SUCCESS || is_this_processes(handle))
        return result;
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "memory of an imported handle (cuMemImportFromShareableHandle) does not count in the "
        "budget");
    return result;
}

/* Arrays may keep the memory when its handle is released. */
static CUresult keep_for_array(CUmemGenericAllocationHandle *handle)
{
    const mdnn_program_claim_t claim = mdnn_program_claim(*handle, 0);
    const CUresult result = have_real(claim, handle);
    if (result == CUDA_SUCCESS)
        mdnn_handle_keep(*handle);
    mdnn_program_let_go(claim);
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "memory that is mapped into an array (cuMemMapArrayAsync) counts in the "
                  "budget for good");
    return result;
}

/* `list` is a copy of the program's. */
static CUresult map_arrays(CUresult (*real)(CUarrayMapInfo *, unsigned, CUstream),
                           CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
            list[i].memHandleType == CU_MEM_HANDLE_TYPE_GENERIC)
            result = keep_for_array(&list[i].memHandle.memHandle);
    return result == CUDA_SUCCESS ? real(list, count, stream) : result;
}

CUresult mdnn_hook_cuMemMapArrayAsync(CUresult (*real)(CUarrayMapInfo *, unsigned, CUstream),
                                      bool own_stream, CUarrayMapInfo *list, unsigned count,
                                      CUstream stream)
{
    (void)own_stream;
    CUarrayMapInfo *const copy = list && count > 0 ? calloc(count, sizeof *copy) : NULL;
    if (!copy)
        return list && count > 0 ? CUDA_ERROR_OUT_OF_MEMORY : real(list, count, stream);
    memcpy(copy, list, count * sizeof *copy);
    const CUresult result = map_arrays(real, copy, count, stream);
    free(copy);
    return result;
}
