#include "shim/handles/program_handles.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/lock.h"
#include "config/log.h"
#include "shim/real/process.h"
#include "shim/real/real.h"
#include "shim/handles/virtual_addresses.h"
#include "shim/vmem/virtual_aside.h"

enum { BUCKETS = 1024 };
static const uint64_t mark = UINT64_C(0x6d64) << 48; /* in each number of ours */

static mdnn_lock_t lock = MDNN_LOCK_INIT(PROGRAM_HANDLES); /* of all below */
static mdnn_condition_t changed = MDNN_CONDITION_INIT;     /* a claim has ended */
static mdnn_program_handle_t *handles[BUCKETS];
static uint64_t last_number;
static mdnn_program_addresses_t **places; /* sorted by their start */
static size_t place_count, place_room;

bool mdnn_program_is_ours(CUmemGenericAllocationHandle value)
{
    return value >> 48 == mark >> 48;
}

/* ---- tables; locked, as is all of this section ---- */

static mdnn_program_handle_t **find_handle(CUmemGenericAllocationHandle value)
{
    mdnn_program_handle_t **at = &handles[value % BUCKETS];
    while (*at && (*at)->value != value)
        at = &(*at)->next;
    return at;
}

/* How many begin at or before the address. */
static size_t places_before(uint64_t address)
{
    size_t low = 0, high = place_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (places[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mdnn_program_addresses_t *find_place(uint64_t address)
{
    const size_t count = places_before(address);
    mdnn_program_addresses_t *const place = count > 0 ? places[count - 1] : NULL;
    return place && address - place->start < place->bytes ? place : NULL;
}

static bool add_place(mdnn_program_addresses_t *place)
{
    if (place_count == place_room) {
        mdnn_program_addresses_t **const more =
            reallocarray(places, place_room * 2 + 16, sizeof(*more));
        if (!more)
            return false;
        places = more;
        place_room = place_room * 2 + 16;
    }
    const size_t at = places_before(place->start);
    memmove(&places[at + 1], &places[at], (place_count++ - at) * sizeof(*places));
    places[at] = place;
    return true;
}

/* Addresses that the driver has taken back may be another's already. */
static void remove_place(mdnn_program_addresses_t *place)
{
    size_t at = places_before(place->start) - 1;
    while (places[at] != place)
        at--;
    memmove(&places[at], &places[at + 1], (--place_count - at) * sizeof(*places));
    free(place);
}

static void remove_handle(mdnn_program_handle_t *handle)
{
    *find_handle(handle->value) = handle->next;
    free(handle);
}

/* ---- claims ---- */

/* Locked. What belongs together is claimed together. */
static mdnn_program_claim_t find(CUmemGenericAllocationHandle value, uint64_t address)
{
    mdnn_program_claim_t claim = {0};
    claim.handle = mdnn_program_is_ours(value) ? *find_handle(value) : NULL;
    claim.addresses = address ? find_place(address) : NULL;
    claim.place = claim.handle ? claim.handle->place : NULL;
    claim.guest = claim.addresses ? claim.addresses->guest : NULL;
    return claim;
}

static bool is_claimed(const mdnn_program_claim_t *claim)
{
    return (claim->handle && claim->handle->claimed) || (claim->guest && claim->guest->claimed) ||
           (claim->addresses && claim->addresses->claimed) ||
           (claim->place && claim->place->claimed);
}

/* Locked. */
static void set_claimed(const mdnn_program_claim_t *claim, bool claimed)
{
    if (claim->handle)
        claim->handle->claimed = claimed;
    if (claim->guest)
        claim->guest->claimed = claimed;
    if (claim->addresses)
        claim->addresses->claimed = claimed;
    if (claim->place)
        claim->place->claimed = claimed;
}

mdnn_program_claim_t mdnn_program_claim(CUmemGenericAllocationHandle value, uint64_t address)
{
    mdnn_lock(&lock);
    mdnn_program_claim_t claim = find(value, address);
    while (is_claimed(&claim)) {
        mdnn_condition_wait(&changed, &lock);
        claim = find(value, address);
    }
    set_claimed(&claim, true);
    mdnn_unlock(&lock);
    return claim;
}

/* Locked. Returns addresses of ours that nobody has any more; 0: none. */
static uint64_t end_place(mdnn_program_addresses_t *place)
{
    const uint64_t address = place && place->gone && place->ours ? place->start : 0;
    if (place && place->gone)
        remove_place(place);
    return address;
}

void mdnn_program_let_go(mdnn_program_claim_t claim)
{
    if (!claim.handle && !claim.addresses)
        return;
    mdnn_lock(&lock);
    set_claimed(&claim, false);
    if (claim.guest && claim.guest != claim.handle && claim.guest->gone)
        remove_handle(claim.guest);
    if (claim.handle && claim.handle->gone)
        remove_handle(claim.handle);
    const uint64_t one = claim.place != claim.addresses ? end_place(claim.place) : 0;
    const uint64_t other = end_place(claim.addresses);
    mdnn_condition_broadcast(&changed);
    mdnn_unlock(&lock);
    /* Not before they are out of the table: the next reservation may be there. */
    if (one)
        mdnn_virtual_give_addresses(one);
    if (other)
        mdnn_virtual_give_addresses(other);
}

/* ---- questions ---- */

bool mdnn_program_has_reserved(uint64_t address)
{
    mdnn_lock(&lock);
    const bool has = find_place(address) != NULL;
    mdnn_unlock(&lock);
    return has;
}

bool mdnn_program_is_mapped(const mdnn_program_addresses_t *addresses)
{
    return addresses && addresses->guest && addresses->guest->mapped;
}

bool mdnn_program_properties_at(uint64_t address, CUmemAllocationProp *properties)
{
    mdnn_lock(&lock);
    const mdnn_program_addresses_t *const place = find_place(address);
    const bool is_mapped = mdnn_program_is_mapped(place);
    if (is_mapped)
        *properties = place->guest->properties;
    mdnn_unlock(&lock);
    return is_mapped;
}

/* Locked. Of those that may still be released. */
static mdnn_program_handle_t *find_real(CUmemGenericAllocationHandle real)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (mdnn_program_handle_t *handle = handles[i]; handle; handle = handle->next)
            if (handle->real == real && !handle->gone)
                return handle;
    return NULL;
}

CUmemGenericAllocationHandle mdnn_program_value_of(CUmemGenericAllocationHandle real)
{
    mdnn_program_handle_t *handle;
    mdnn_lock(&lock);
    /* Its last release may be under way in another thread. */
    while ((handle = find_real(real)) && handle->claimed && !MDNN_FAULT(RETAINED_WHILE_RELEASED))
        mdnn_condition_wait(&changed, &lock);
    const CUmemGenericAllocationHandle value = handle ? handle->value : real;
    if (handle)
        handle->releases++;
    mdnn_unlock(&lock);
    if (handle) /* which stands for one handle of the driver's */
        (void)mdnn_real_driver()->cuMemRelease(real);
    return value;
}

/* ---- handles ---- */

/* 0: it is not known. */
static uint64_t memory_of(CUdevice device)
{
    size_t bytes = 0;
    (void)mdnn_real_driver()->cuDeviceTotalMem(&bytes, device);
    return bytes;
}

/* Whether the program seems to map its handles whole: nothing of it is in parts, and no addresses wait for a part.
 * What is larger than the device is for parts only. */
static bool maps_whole(CUdevice device, uint64_t bytes)
{
    const uint64_t most = MDNN_FAULT(SEGMENTS_ARE_REGIONS) ? UINT64_MAX : memory_of(device);
    bool in_parts = false, larger = false, equal = false;
    mdnn_lock(&lock);
    for (size_t i = 0; i < place_count; i++) {
        const mdnn_program_addresses_t *const place = places[i];
        const bool waits = place->ours && !place->guest && !place->freed && place->real_bytes == 0;
        in_parts = in_parts || place->in_parts || place->bytes > (place->ours ? most : bytes);
        larger = larger || (waits && place->bytes > bytes);
        equal = equal || (waits && place->bytes == bytes);
    }
    mdnn_unlock(&lock);
    return !in_parts && (equal || !larger);
}

/* Memory as cuMemAlloc gives it, at most to be shared with other processes. */
static bool is_plain(const CUmemAllocationProp *properties, uint64_t bytes)
{
    size_t unit = 0;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    const CUmemAllocationHandleType shared = properties->requestedHandleTypes;
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           (shared == CU_MEM_HANDLE_TYPE_NONE ||
            shared == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) &&
           properties->allocFlags.compressionType == 0 && properties->allocFlags.usage == 0 &&
           driver->cuMemGetAllocationGranularity &&
           driver->cuMemGetAllocationGranularity(
               &unit, properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           unit > 0 && bytes % unit == 0;
}

CUresult mdnn_program_create(CUmemGenericAllocationHandle *value, uint64_t bytes,
                             const CUmemAllocationProp *properties)
{
    if (!is_plain(properties, bytes) || !maps_whole(properties->location.id, bytes))
        return CUDA_ERROR_NOT_SUPPORTED;
    mdnn_program_handle_t *const handle = calloc(1, sizeof *handle);
    if (!handle)
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = mdnn_virtual_promise(properties->location.id, bytes);
    if (result != CUDA_SUCCESS) {
        free(handle);
        return result;
    }
    handle->bytes = bytes;
    handle->device = properties->location.id;
    handle->properties = *properties;
    handle->releases = 1;
    mdnn_lock(&lock);
    handle->value = *value = mark | ++last_number;
    handle->next = handles[handle->value % BUCKETS];
    handles[handle->value % BUCKETS] = handle;
    mdnn_unlock(&lock);
    return CUDA_SUCCESS;
}

static void join(mdnn_program_handle_t *handle, mdnn_program_addresses_t *place)
{
    mdnn_lock(&lock);
    handle->place = place;
    handle->mapped = true;
    place->guest = handle;
    mdnn_unlock(&lock);
}

static void part(mdnn_program_handle_t *handle)
{
    mdnn_lock(&lock);
    if (handle->place)
        handle->place->guest = NULL;
    handle->place = NULL;
    handle->mapped = false;
    mdnn_unlock(&lock);
}

void mdnn_program_set_real(mdnn_program_handle_t *handle, CUmemGenericAllocationHandle real)
{
    part(handle);
    mdnn_lock(&lock);
    handle->begun = false;
    handle->real = real;
    mdnn_unlock(&lock);
}

static void set_begun(mdnn_program_handle_t *handle, bool begun)
{
    mdnn_lock(&lock);
    handle->begun = begun;
    mdnn_unlock(&lock);
}

void mdnn_program_note_gone(mdnn_program_handle_t *handle)
{
    mdnn_lock(&lock);
    handle->gone = true;
    mdnn_unlock(&lock);
}

/* Nothing of the program's stands for its content any more. */
static void end_content(mdnn_program_handle_t *handle)
{
    mdnn_program_addresses_t *const place = handle->place;
    if (handle->begun)
        (void)mdnn_virtual_end_at(place->start);
    else if (!handle->real && !handle->lost)
        mdnn_virtual_end_promise(handle->device, handle->bytes);
    set_begun(handle, false);
    if (!place)
        return;
    place->gone = place->freed;
    part(handle);
}

/* Whether nothing of the program's holds it any more. */
static bool is_over(mdnn_program_handle_t *handle, uint64_t less)
{
    mdnn_lock(&lock);
    handle->releases -= less;
    const bool over = handle->releases == 0 && !handle->mapped;
    mdnn_unlock(&lock);
    return over;
}

static void end_if_over(mdnn_program_handle_t *handle, uint64_t less)
{
    if (!is_over(handle, less))
        return;
    if (!handle->real)
        end_content(handle);
    mdnn_program_note_gone(handle);
}

void mdnn_program_release(mdnn_program_handle_t *handle)
{
    end_if_over(handle, 1);
}

/* ---- addresses ---- */

static bool note_place(mdnn_program_addresses_t like)
{
    mdnn_program_addresses_t *const place = malloc(sizeof *place);
    bool added = false;
    if (place) {
        *place = like;
        mdnn_lock(&lock);
        added = add_place(place);
        mdnn_unlock(&lock);
    }
    if (!added)
        free(place);
    return added;
}

CUresult mdnn_program_reserve(CUdeviceptr *address, uint64_t bytes, uint64_t alignment)
{
    static const uint64_t unit = 2 << 20; /* of all devices */
    CUdevice device;
    if (bytes % unit != 0 || (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = mdnn_virtual_reserve_addresses(bytes, alignment, &device, address);
    if (result != CUDA_SUCCESS)
        return result;
    if (note_place((mdnn_program_addresses_t){
            .start = *address, .bytes = bytes, .ours = true, .device = device}))
        return CUDA_SUCCESS;
    mdnn_virtual_give_addresses(*address);
    return CUDA_ERROR_NOT_SUPPORTED;
}

void mdnn_program_reserved(uint64_t address, uint64_t bytes)
{
    (void)note_place((mdnn_program_addresses_t){.start = address, .bytes = bytes});
}

CUresult mdnn_program_free(mdnn_program_addresses_t *addresses)
{
    if (addresses->real_bytes > 0 || mdnn_program_is_mapped(addresses))
        return CUDA_ERROR_INVALID_VALUE;
    mdnn_lock(&lock);
    *(addresses->guest ? &addresses->freed : &addresses->gone) = true;
    mdnn_unlock(&lock);
    return CUDA_SUCCESS;
}

void mdnn_program_note_parts(mdnn_program_addresses_t *addresses)
{
    mdnn_lock(&lock);
    addresses->in_parts = true;
    mdnn_unlock(&lock);
}

void mdnn_program_note_mapped(mdnn_program_addresses_t *addresses, int64_t bytes)
{
    mdnn_lock(&lock);
    addresses->real_bytes += (uint64_t)bytes;
    mdnn_unlock(&lock);
}

CUresult mdnn_program_await(const mdnn_program_addresses_t *addresses)
{
    return mdnn_virtual_await_addresses(addresses->start);
}

/* ---- mappings ---- */

bool mdnn_program_map(mdnn_program_claim_t claim, uint64_t address, uint64_t bytes, uint64_t offset,
                      unsigned long long flags)
{
    mdnn_program_handle_t *const handle = claim.handle;
    mdnn_program_addresses_t *const place = claim.addresses;
    if (!handle || !place || handle->real || handle->lost || handle->mapped ||
        handle->releases == 0 || !place->ours || place->freed || place->real_bytes > 0)
        return false;
    const bool is_whole = address == place->start && bytes == place->bytes &&
                          bytes == handle->bytes && offset == 0 && flags == 0;
    const bool is_free =
        (!place->guest || place->guest == handle) && (!handle->place || handle->place == place);
    if (!is_whole || !is_free || handle->device != place->device)
        return false;
    join(handle, place);
    return true;
}

void mdnn_program_unmap(mdnn_program_addresses_t *addresses)
{
    mdnn_program_handle_t *const handle = addresses->guest;
    mdnn_lock(&lock);
    handle->mapped = false;
    handle->access = 0;
    mdnn_unlock(&lock);
    if (!handle->begun) /* a promise again */
        part(handle);
    end_if_over(handle, 0);
}

/* Whether all of it is to be read and written, by devices that reach it. */
static bool is_full_access(const mdnn_program_handle_t *handle, const CUmemAccessDesc *access,
                           size_t count, uint64_t *devices)
{
    enum { DEVICES = 64 };
    *devices = 0;
    for (size_t i = 0; i < count; i++) {
        const CUdevice device = access[i].location.id;
        int can = 0;
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || device < 0 ||
            device >= DEVICES)
            return false;
        if (device != handle->device && (mdnn_real_driver()->cuDeviceCanAccessPeer(
                                             &can, device, handle->device) != CUDA_SUCCESS ||
                                         !can))
            return false;
        *devices |= UINT64_C(1) << device;
    }
    return count > 0;
}

CUresult mdnn_program_let(mdnn_program_addresses_t *addresses, const CUmemAccessDesc *access,
                          size_t count)
{
    mdnn_program_handle_t *const handle = addresses->guest;
    uint64_t devices;
    if (!access || !is_full_access(handle, access, count, &devices))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!handle->begun) {
        const CUresult result = mdnn_virtual_allocate_at(addresses->start, addresses->bytes);
        if (result != CUDA_SUCCESS)
            return result;
        set_begun(handle, true);
    }
    handle->access |= devices;
    return CUDA_SUCCESS;
}

/* ---- resets ---- */

/* The next virtual handle by number, with or without content; 0: there is none. */
static CUmemGenericAllocationHandle next_virtual(CUdevice device, bool begun,
                                                 CUmemGenericAllocationHandle after)
{
    CUmemGenericAllocationHandle next = 0;
    mdnn_lock(&lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (const mdnn_program_handle_t *handle = handles[i]; handle; handle = handle->next)
            if (handle->device == device && !handle->real && !handle->lost &&
                handle->begun == begun && handle->value > after &&
                (next == 0 || handle->value < next))
                next = handle->value;
    mdnn_unlock(&lock);
    return next;
}

static void make_all_real(CUdevice device, bool begun)
{
    CUmemGenericAllocationHandle value = 0;
    while ((value = next_virtual(device, begun, value)) != 0) {
        const mdnn_program_claim_t claim = mdnn_program_claim(value, 0);
        (void)mdnn_program_make_real(claim.handle);
        mdnn_program_let_go(claim);
    }
}

/* The driver's memory outlives a reset. What the budget has no room for does not; what has no content comes last. */
static void save(CUdevice device)
{
    const bool any = next_virtual(device, true, 0) != 0 || next_virtual(device, false, 0) != 0;
    const uint64_t kept_bytes =
        any && !MDNN_FAULT(LOST_AT_RESETS) ? mdnn_virtual_keep_chunk(device) : 0;
    if (kept_bytes == 0)
        return;
    make_all_real(device, true);
    make_all_real(device, false);
    mdnn_virtual_give_back(device, kept_bytes, MDNN_ASIDE_EXACT);
}

/* Locked. The first of the device that is claimed, or is to be looked at. */
static bool lose_handles(CUdevice device, bool *any)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (mdnn_program_handle_t *handle = handles[i]; handle; handle = handle->next) {
            if (handle->device != device || handle->real || handle->lost)
                continue;
            if (handle->claimed)
                return false;
            *any = *any || handle->begun;
            if (handle->place)
                handle->place->guest = NULL;
            handle->place = NULL;
            handle->mapped = handle->begun = false;
            handle->lost = true;
        }
    return true;
}

/* Locked. */
static bool lose_places(CUdevice device)
{
    for (size_t i = place_count; i > 0; i--) {
        mdnn_program_addresses_t *const place = places[i - 1];
        if (!place->ours || place->device != device)
            continue;
        if (place->claimed)
            return false;
        remove_place(place);
    }
    return true;
}

void mdnn_program_device_ends(CUdevice device)
{
    bool any = false;
    save(device);
    mdnn_lock(&lock);
    while (!lose_handles(device, &any) || !lose_places(device))
        mdnn_condition_wait(&changed, &lock);
    mdnn_unlock(&lock);
    if (any)
        MDNN_LOG_ONCE(
            MDNN_LOG_WARN, "memory",
            "device %d is reset: the content of its virtual memory of cuMemCreate is lost",
            (int)device);
}
