/* The virtual memory API: reserved addresses, handles of physical memory, and mappings, which are
 * made and unmade at host time and wait for nothing. An operation meets the mappings that are in
 * force when its body runs.
 *
 * Refused as an H200 (driver 580) refuses it: part of a handle, another offset than 0
 * (NOT_SUPPORTED), part of a mapping (INVALID_VALUE). The other statuses are cuda.h's, or guesses.
 * A capture that is not relaxed refuses all that maps: whether the real one does was not tried. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

typedef struct reservation {
    uint64_t start, bytes;
} reservation_t;

static reservation_t *reservations;
static size_t reservation_count;

/* Handles by number. A handle's value is its number and how many had it before, so that an old one
 * is found out. */
static struct slot {
    sim_physical_t *physical; /* NULL: free */
    uint64_t generation;
    size_t next_free;
} * handles;
static size_t handle_count, first_free = SIZE_MAX;

static CUmemGenericAllocationHandle value_of(size_t number)
{
    return handles[number].generation << 32 | (number + 1);
}

static size_t number_of(CUmemGenericAllocationHandle value)
{
    size_t number = (size_t)(value & UINT32_MAX) - 1;
    return number < handle_count && value_of(number) == value ? number : SIZE_MAX;
}

static CUmemGenericAllocationHandle add_handle(sim_physical_t *physical)
{
    size_t number = first_free;
    if (number == SIZE_MAX) {
        number = handle_count;
        handles = sim_resize(handles, ++handle_count, sizeof *handles);
        handles[number] = (struct slot){.next_free = SIZE_MAX};
    }
    first_free = handles[number].next_free;
    handles[number].physical = physical;
    return physical->value = value_of(number);
}

static void remove_handle(const sim_physical_t *physical)
{
    size_t number = number_of(physical->value);
    handles[number] = (struct slot){NULL, handles[number].generation + 1, first_free};
    first_free = number;
}

static const reservation_t *find_reservation(uint64_t address)
{
    for (size_t i = 0; i < reservation_count; i++)
        if (address - reservations[i].start < reservations[i].bytes)
            return &reservations[i];
    return NULL;
}

bool sim_vmm_reserved(uint64_t address)
{
    return find_reservation(address) != NULL;
}

bool sim_vmm_same(uint64_t a, uint64_t b)
{
    const reservation_t *reservation = find_reservation(a);
    return reservation && reservation == find_reservation(b);
}

static CUresult address_reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                                unsigned long long flags)
{
    uint64_t start;
    if (!out || bytes == 0 || bytes % SIM_GRANULARITY != 0 || (alignment & (alignment - 1)) != 0 ||
        flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_clock_spend_for(SIM_TIME_ADDRESS, bytes);
    if (alignment < SIM_GRANULARITY)
        alignment = SIM_GRANULARITY;
    if (!sim_map_reserve(bytes, alignment, hint, &start))
        return CUDA_ERROR_OUT_OF_MEMORY;
    reservations = sim_resize(reservations, reservation_count + 1, sizeof *reservations);
    reservations[reservation_count++] = (reservation_t){start, bytes};
    *out = start;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemAddressReserve,
          (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr hint,
           unsigned long long flags),
          address_reserve(address, bytes, alignment, hint, flags))

/* Whether any mapping lies in there. */
static bool is_mapped(uint64_t start, uint64_t bytes)
{
    for (uint64_t at = start; at < start + bytes; at += SIM_GRANULARITY)
        if (sim_map_find(at))
            return true;
    return false;
}

static CUresult address_free(CUdeviceptr start, size_t bytes)
{
    size_t i = 0;
    while (i < reservation_count && reservations[i].start != start)
        i++;
    if (i == reservation_count || reservations[i].bytes != bytes || is_mapped(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    sim_clock_spend_for(SIM_TIME_ADDRESS, bytes);
    reservations[i] = reservations[--reservation_count];
    sim_map_unreserve(start, bytes);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemAddressFree, (CUdeviceptr address, size_t bytes), address_free(address, bytes))

static bool on_device(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* Memory of one device, or of the host, of which there is one node. */
static CUresult check_properties(const CUmemAllocationProp *properties)
{
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
        properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUmemLocation *location = &properties->location;
    if (on_device(location))
        return sim_device(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    bool host = location->type == CU_MEM_LOCATION_TYPE_HOST ||
                (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location->id == 0);
    if (!host)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_engine.host_handles ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult granularity(size_t *out, const CUmemAllocationProp *properties,
                            CUmemAllocationGranularity_flags option)
{
    CUresult result = out && option <= CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
                          ? check_properties(properties)
                          : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = SIM_GRANULARITY;
    return result;
}

SIM_ENTRY(INIT, cuMemGetAllocationGranularity,
          (size_t * bytes, const CUmemAllocationProp *properties,
           CUmemAllocationGranularity_flags option),
          granularity(bytes, properties, option))

static bool has_room(const CUmemLocation *location, uint64_t bytes)
{
    if (!on_device(location))
        return true;
    const sim_device_t *device = sim_device(location->id);
    return bytes <= sim_free_bytes(device);
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = check_properties(properties);
    if (result == CUDA_SUCCESS && (!out || bytes == 0 || bytes % SIM_GRANULARITY != 0 || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = sim_capture_guard();
    if (result != CUDA_SUCCESS)
        return result;
    const CUmemLocation *location = &properties->location;
    sim_clock_spend_for(on_device(location) ? SIM_TIME_CREATE : SIM_TIME_CREATE_HOST, bytes);
    sim_clock_advance();
    sim_physical_t *handle = sim_allocate(sizeof *handle);
    *handle = (sim_physical_t){.properties = *properties, .bytes = bytes, .references = 1};
    if (!has_room(location, bytes) || !sim_map_fill_physical(handle)) {
        free(handle);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (on_device(location))
        sim_memory_taken(sim_device(location->id), bytes);
    else
        sim_engine.pinned_bytes += bytes;
    *out = add_handle(handle);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemCreate,
          (CUmemGenericAllocationHandle * handle, size_t bytes,
           const CUmemAllocationProp *properties, unsigned long long flags),
          create(handle, bytes, properties, flags))

/* Released handles that are still mapped count as none: what the program may do with them is
 * undefined, and here it is refused. */
static sim_physical_t *find_handle(CUmemGenericAllocationHandle handle)
{
    size_t number = number_of(handle);
    sim_physical_t *physical = number == SIZE_MAX ? NULL : handles[number].physical;
    return physical && physical->references > 0 ? physical : NULL;
}

const sim_physical_t *sim_vmm_find(CUmemGenericAllocationHandle value)
{
    return find_handle(value);
}

bool sim_vmm_hold(CUmemGenericAllocationHandle value)
{
    const size_t number = number_of(value);
    sim_physical_t *const physical = number == SIZE_MAX ? NULL : handles[number].physical;
    if (physical)
        physical->references++;
    return physical != NULL;
}

/* Gives the memory back once nothing holds it. */
static void drop_if_unused(sim_physical_t *handle)
{
    if (handle->references > 0 || handle->mappings > 0)
        return;
    remove_handle(handle);
    sim_map_empty_physical(handle);
    if (on_device(&handle->properties.location))
        sim_memory_given_back(sim_device(handle->properties.location.id), handle->bytes);
    else
        sim_engine.pinned_bytes -= handle->bytes;
    free(handle);
}

static CUresult release(CUmemGenericAllocationHandle value)
{
    sim_physical_t *handle = find_handle(value);
    CUresult result = handle ? sim_capture_guard() : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    handle->references--;
    sim_clock_spend_for(SIM_TIME_RELEASE,
                        handle->references == 0 && handle->mappings == 0 ? handle->bytes : 0);
    drop_if_unused(handle);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemRelease, (CUmemGenericAllocationHandle handle), release(handle))

static CUresult map_handle(CUdeviceptr start, size_t bytes, size_t offset,
                           CUmemGenericAllocationHandle value, unsigned long long flags)
{
    sim_physical_t *handle = find_handle(value);
    const reservation_t *reserved = find_reservation(start);
    if (!handle || !reserved || bytes == 0 || flags != 0 || start % SIM_GRANULARITY != 0 ||
        bytes > reserved->bytes - (start - reserved->start))
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes < handle->bytes)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes > handle->bytes || is_mapped(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_guard();
    if (result != CUDA_SUCCESS)
        return result;
    sim_clock_spend_for(SIM_TIME_MAP, bytes);
    handle->mappings++;
    sim_map_attach(start, handle);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemMap,
          (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
           unsigned long long flags),
          map_handle(address, bytes, offset, handle, flags))

/* Whether the stretch is whole mappings, side by side, and at least one. */
static bool is_whole_mappings(uint64_t start, uint64_t bytes)
{
    uint64_t at = start;
    while (at - start < bytes) {
        const sim_range_t *range = sim_map_find(at);
        if (!range || !range->physical || range->start != at)
            return false;
        at += range->bytes;
    }
    return at - start == bytes && bytes > 0;
}

static CUresult unmap(CUdeviceptr start, size_t bytes)
{
    CUresult result =
        is_whole_mappings(start, bytes) ? sim_capture_guard() : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    /* The last first: the ranges behind it move up. */
    for (uint64_t end = start + bytes; end > start;) {
        const uint64_t at = sim_map_find(end - 1)->start;
        sim_physical_t *handle = sim_map_find(at)->physical;
        sim_clock_spend_for(on_device(&handle->properties.location) ? SIM_TIME_UNMAP
                                                                    : SIM_TIME_UNMAP_HOST,
                            handle->bytes);
        sim_map_remove(at);
        end = at;
        handle->mappings--;
        drop_if_unused(handle);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemUnmap, (CUdeviceptr address, size_t bytes), unmap(address, bytes))

/* A device reaches its own memory, the host's, and its peers' if it reaches any. */
static CUresult device_access(int device, uint64_t start, uint64_t bytes)
{
    if (!sim_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    for (uint64_t at = start; at - start < bytes; at += sim_map_find(at)->bytes) {
        const CUmemLocation *location = &sim_map_find(at)->physical->properties.location;
        if (on_device(location) && location->id != device && !sim_engine.peer_access)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

static CUresult check_access(const CUmemAccessDesc *wanted, uint64_t start, uint64_t bytes)
{
    if (wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (on_device(&wanted->location))
        return device_access(wanted->location.id, start, bytes);
    if (wanted->location.type != CU_MEM_LOCATION_TYPE_HOST &&
        wanted->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return CUDA_ERROR_INVALID_VALUE;
    /* The host reaches its own memory only. */
    for (uint64_t at = start; at - start < bytes; at += sim_map_find(at)->bytes)
        if (on_device(&sim_map_find(at)->physical->properties.location))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static uint32_t with_bit(uint32_t bits, int bit, bool set)
{
    return set ? bits | UINT32_C(1) << bit : bits & ~(UINT32_C(1) << bit);
}

static void give_access(const sim_range_t *range, const CUmemAccessDesc *wanted, size_t count)
{
    uint32_t readers = range->readers, writers = range->writers;
    bool host = range->host_access;
    for (size_t i = 0; i < count; i++) {
        bool reads = wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        bool writes = wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (!on_device(&wanted[i].location)) {
            host = reads;
            continue;
        }
        readers = with_bit(readers, wanted[i].location.id, reads);
        writers = with_bit(writers, wanted[i].location.id, writes);
    }
    sim_map_set_access(range->start, readers, writers, host);
}

static CUresult set_access(CUdeviceptr start, size_t bytes, const CUmemAccessDesc *wanted,
                           size_t count)
{
    if (!wanted || count == 0 || !is_whole_mappings(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_guard();
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = check_access(&wanted[i], start, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    for (uint64_t at = start; at - start < bytes;) {
        const sim_range_t *range = sim_map_find(at);
        bool device = on_device(&range->physical->properties.location);
        sim_clock_spend_for(device ? SIM_TIME_ACCESS : SIM_TIME_ACCESS_HOST, range->bytes);
        give_access(range, wanted, count);
        at += range->bytes;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemSetAccess,
          (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *wanted, size_t count),
          set_access(address, bytes, wanted, count))

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
                           CUdeviceptr address)
{
    const sim_range_t *range = sim_map_find(address);
    if (!flags || !location || !range || !range->physical)
        return CUDA_ERROR_INVALID_VALUE;
    bool reads = range->host_access, writes = range->host_access;
    if (on_device(location)) {
        if (!sim_device(location->id))
            return CUDA_ERROR_INVALID_DEVICE;
        reads = range->readers >> location->id & 1;
        writes = range->writers >> location->id & 1;
    }
    *flags = writes  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : reads ? CU_MEM_ACCESS_FLAGS_PROT_READ
                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemGetAccess,
          (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address),
          get_access(flags, location, address))

static CUresult handle_properties(CUmemAllocationProp *out, CUmemGenericAllocationHandle value)
{
    const sim_physical_t *handle = find_handle(value);
    if (!out || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    *out = handle->properties;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemGetAllocationPropertiesFromHandle,
          (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle),
          handle_properties(properties, handle))

/* Works for a released handle that is still mapped, too: it then is one again. */
static CUresult retain_handle(CUmemGenericAllocationHandle *out, uint64_t address)
{
    const sim_range_t *range = sim_map_find(address);
    if (!out || !range || !range->physical)
        return CUDA_ERROR_INVALID_VALUE;
    range->physical->references++;
    *out = range->physical->value;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address),
          retain_handle(handle, (uintptr_t)address))
