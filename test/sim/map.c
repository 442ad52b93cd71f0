/* The address map. Device addresses are numbers inside a reservation that nothing is ever mapped
 * into, so that host code faults on them. What a kernel sees at device address D lies at the same
 * offset of a second reservation, the alias: what is mapped side by side there is contiguous, what
 * is not mapped faults, and memory that has several addresses can be mapped, shared, at each.
 *
 * Fresh memory is poisoned, full of 0xFF, not-a-number in every floating-point type. It is a
 * private mapping of a small file of poison, again and again, so that memory costs nothing until it
 * is written. */
#include "test/sim/engine.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define POISON_BYTES (UINT64_C(2) << 20)
#define PHYSICAL_BYTES (UINT64_C(16) << 40) /* a hole but for what is in use */

typedef struct extent {
    uint64_t start, bytes;
} extent_t;

/* Free space, sorted by address. */
typedef struct extents {
    extent_t *items;
    size_t count;
} extents_t;

static struct {
    uint64_t base, bytes; /* of the reservation of device addresses */
    char *alias;          /* NULL: memory has no content (timing mode) */
    int poison;
    uint64_t poisoned_bytes; /* of that file, POISON_BYTES at most */
    int physical;            /* the file of memory that may have several addresses, or none */
    extents_t addresses, physical_space;
    sim_range_t *ranges; /* live, sorted by start */
    uint64_t last_number;
    size_t range_count;
} map;

/* Cuts a part out of item `at`. */
static void extents_cut(extents_t *free_space, size_t at, uint64_t start, uint64_t bytes)
{
    extent_t before = free_space->items[at], after = before;
    before.bytes = start - before.start;
    after.start = start + bytes;
    after.bytes -= before.bytes + bytes;
    size_t parts = 0;
    parts += before.bytes > 0;
    parts += after.bytes > 0;
    free_space->items =
        sim_resize(free_space->items, free_space->count + 1, sizeof *free_space->items);
    extent_t *items = free_space->items + at;
    memmove(items + parts, items + 1, (free_space->count - at - 1) * sizeof *items);
    free_space->count = free_space->count - 1 + parts;
    if (before.bytes > 0)
        *items++ = before;
    if (after.bytes > 0)
        *items = after;
}

/* First fit; `alignment` is a power of two. false: no extent is large enough. */
static bool extents_take(extents_t *free_space, uint64_t bytes, uint64_t alignment, uint64_t *start)
{
    for (size_t i = 0; i < free_space->count; i++) {
        extent_t item = free_space->items[i];
        uint64_t aligned = (item.start + alignment - 1) & ~(alignment - 1);
        if (aligned - item.start <= item.bytes && bytes <= item.bytes - (aligned - item.start)) {
            extents_cut(free_space, i, aligned, bytes);
            *start = aligned;
            return true;
        }
    }
    return false;
}

/* These and no others. */
static bool extents_take_at(extents_t *free_space, uint64_t start, uint64_t bytes)
{
    for (size_t i = 0; i < free_space->count; i++) {
        extent_t item = free_space->items[i];
        if (start >= item.start && start - item.start <= item.bytes &&
            bytes <= item.bytes - (start - item.start)) {
            extents_cut(free_space, i, start, bytes);
            return true;
        }
    }
    return false;
}

static void extents_give(extents_t *free_space, uint64_t start, uint64_t bytes)
{
    size_t i = 0;
    while (i < free_space->count && free_space->items[i].start < start)
        i++;
    extent_t *items = free_space->items =
        sim_resize(free_space->items, free_space->count + 1, sizeof *free_space->items);
    memmove(items + i + 1, items + i, (free_space->count++ - i) * sizeof *items);
    items[i] = (extent_t){start, bytes};
    if (i + 1 < free_space->count && start + bytes == items[i + 1].start) {
        items[i].bytes += items[i + 1].bytes;
        memmove(items + i + 1, items + i + 2, (--free_space->count - i - 1) * sizeof *items);
    }
    if (i > 0 && items[i - 1].start + items[i - 1].bytes == start) {
        items[i - 1].bytes += items[i].bytes;
        memmove(items + i, items + i + 1, (--free_space->count - i) * sizeof *items);
    }
}

static void *reserve(uint64_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

/* Both reservations, or none. */
static bool reserve_both(uint64_t bytes, bool backed)
{
    void *base = reserve(bytes);
    map.alias = base && backed ? reserve(bytes) : NULL;
    if (base && backed && !map.alias) {
        munmap(base, bytes);
        return false;
    }
    map.base = (uint64_t)(uintptr_t)base;
    map.bytes = bytes;
    return base != NULL;
}

CUresult sim_map_init(bool backed)
{
    /* 4 TiB where the process has the room: timing mode runs networks that no memory holds. */
    uint64_t bytes = UINT64_C(4) << 40;
    while (!reserve_both(bytes, backed))
        if ((bytes /= 2) < UINT64_C(1) << 30)
            return CUDA_ERROR_OUT_OF_MEMORY;
    extents_give(&map.addresses, map.base, map.bytes);
    if (!backed)
        return CUDA_SUCCESS;
    map.poison = memfd_create("simulated device memory", MFD_CLOEXEC);
    map.physical = memfd_create("simulated physical memory", MFD_CLOEXEC);
    extents_give(&map.physical_space, 0, PHYSICAL_BYTES);
    bool ready = map.poison >= 0 && map.physical >= 0 &&
                 ftruncate(map.poison, (off_t)POISON_BYTES) == 0 &&
                 ftruncate(map.physical, (off_t)PHYSICAL_BYTES) == 0;
    return ready ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Index of the first range that starts after `address`. */
static size_t upper_bound(uint64_t address)
{
    size_t low = 0, high = map.range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map.ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_range(const sim_range_t *range)
{
    size_t at = upper_bound(range->start);
    map.ranges = sim_resize(map.ranges, map.range_count + 1, sizeof *map.ranges);
    memmove(map.ranges + at + 1, map.ranges + at, (map.range_count++ - at) * sizeof *map.ranges);
    map.ranges[at] = *range;
    map.ranges[at].number = ++map.last_number;
}

static char *alias_of(uint64_t address)
{
    return map.alias + (address - map.base);
}

/* Both multiples of 64 KiB. Large writes fill the kernel's large pages, which it clears for small ones. */
static bool write_poison(int file, uint64_t offset, uint64_t end)
{
    enum { PARTS = 32 };
    static unsigned char block[64 << 10];
    struct iovec parts[PARTS];
    memset(block, 0xFF, sizeof block);
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct iovec){block, sizeof block};
    while (offset < end) {
        const uint64_t left = (end - offset) / sizeof block;
        const ssize_t written =
            pwritev(file, parts, left < PARTS ? (int)left : PARTS, (off_t)offset);
        if (written <= 0 || (size_t)written % sizeof block != 0)
            return false;
        offset += (uint64_t)written;
    }
    return true;
}

/* Makes at least so much of the poison file. */
static bool prepare_poison(uint64_t bytes)
{
    bytes = (bytes + 0xFFFF) & ~UINT64_C(0xFFFF);
    if (bytes > map.poisoned_bytes) {
        if (!write_poison(map.poison, map.poisoned_bytes, bytes))
            return false;
        map.poisoned_bytes = bytes;
    }
    return true;
}

static void seal(void *start, uint64_t bytes)
{
    if (mmap(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        sim_panic("cannot unmap device memory");
}

static void unback(uint64_t start, uint64_t bytes)
{
    if (map.alias)
        seal(alias_of(start), bytes);
}

/* Fresh memory in the place of what is mapped there. */
static bool back_at(char *at, uint64_t bytes)
{
    if (sim_engine.clean)
        return mmap(at, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    if (!prepare_poison(bytes < POISON_BYTES ? bytes : POISON_BYTES))
        return false;
    for (uint64_t done = 0; done < bytes; done += POISON_BYTES) {
        uint64_t piece = bytes - done < POISON_BYTES ? bytes - done : POISON_BYTES;
        if (mmap(at + done, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
                 map.poison, 0) == MAP_FAILED)
            return false;
    }
    return true;
}

static bool back(uint64_t start, uint64_t bytes)
{
    if (!map.alias || back_at(alias_of(start), bytes))
        return true;
    unback(start, bytes);
    return false;
}

void *sim_map_host(uint64_t bytes)
{
    char *const host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED || !map.alias || back_at(host, bytes))
        return host == MAP_FAILED ? NULL : host;
    munmap(host, bytes);
    return NULL;
}

CUresult sim_map_add_device(int device, uint64_t bytes, sim_range_t *out)
{
    if (bytes == 0 || bytes > map.bytes)
        return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t aligned = (bytes + SIM_ALIGNMENT - 1) / SIM_ALIGNMENT * SIM_ALIGNMENT;
    sim_range_t range = {.bytes = bytes, .place = SIM_PLACE_DEVICE, .device = device};
    range.pages_bytes = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    /* A guard page follows, and the range ends where its pages end: an overrun faults, and nobody
     * learns to rely on more alignment than the driver promises. */
    if (!extents_take(&map.addresses, range.pages_bytes + SIM_PAGE, SIM_PAGE, &range.pages_start))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range.start = range.pages_start + range.pages_bytes - aligned;
    if (!back(range.pages_start, range.pages_bytes)) {
        extents_give(&map.addresses, range.pages_start, range.pages_bytes + SIM_PAGE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    insert_range(&range);
    *out = range;
    return CUDA_SUCCESS;
}

CUresult sim_map_add_pinned(void *host, uint64_t bytes, unsigned flags, bool owned)
{
    uint64_t start = (uint64_t)(uintptr_t)host;
    size_t after = upper_bound(start);
    bool overlaps =
        (after > 0 && map.ranges[after - 1].start + map.ranges[after - 1].bytes > start) ||
        (after < map.range_count && map.ranges[after].start < start + bytes);
    if (overlaps)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    insert_range(&(sim_range_t){
        .start = start, .bytes = bytes, .place = SIM_PLACE_PINNED, .flags = flags, .owned = owned});
    sim_engine.pinned_bytes += bytes;
    return CUDA_SUCCESS;
}

void sim_map_remove(uint64_t start)
{
    size_t at = upper_bound(start) - 1;
    sim_range_t range = map.ranges[at];
    memmove(map.ranges + at, map.ranges + at + 1, (--map.range_count - at) * sizeof *map.ranges);
    if (range.host_access && map.alias)
        seal((void *)(uintptr_t)range.start, range.bytes);
    if (range.place != SIM_PLACE_DEVICE) {
        sim_engine.pinned_bytes -= range.bytes;
        return;
    }
    unback(range.pages_start, range.pages_bytes);
    if (!range.physical) /* else they remain the program's */
        extents_give(&map.addresses, range.pages_start, range.pages_bytes + SIM_PAGE);
}

const sim_range_t *sim_map_find(uint64_t address)
{
    size_t after = upper_bound(address);
    if (after == 0)
        return NULL;
    const sim_range_t *range = &map.ranges[after - 1];
    return address - range->start < range->bytes ? range : NULL;
}

sim_range_t *sim_map_edit(uint64_t address)
{
    return &map.ranges[upper_bound(address) - 1];
}

const sim_range_t *sim_map_at(size_t index)
{
    return index < map.range_count ? &map.ranges[index] : NULL;
}

bool sim_map_is_device(uint64_t address)
{
    return address - map.base < map.bytes;
}

/* A mapping is for those that were given access; all other memory is for every device. */
static bool permits(const sim_range_t *range, int device, bool write)
{
    uint32_t permitted = write ? range->writers : range->readers;
    return !range->physical || device == SIM_ANY_DEVICE || (permitted >> device & 1) != 0;
}

bool sim_map_covers(uint64_t address, uint64_t bytes, sim_place_t place, int device, bool write)
{
    for (size_t at = upper_bound(address); at > 0 && at <= map.range_count; at++) {
        const sim_range_t *range = &map.ranges[at - 1];
        if (address - range->start >= range->bytes || range->place != place ||
            !permits(range, device, write))
            return false;
        uint64_t here = range->bytes - (address - range->start);
        if (bytes <= here)
            return true;
        bool next_to_it = at < map.range_count && map.ranges[at].start == address + here;
        if (!next_to_it || !range->physical || !map.ranges[at].physical)
            return false;
        address += here;
        bytes -= here;
    }
    return false;
}

void *sim_map_translate(uint64_t address, uint64_t bytes, int device, bool write)
{
    if (sim_map_covers(address, bytes, SIM_PLACE_PINNED, device, write))
        return (void *)(uintptr_t)address;
    if (!map.alias || !sim_map_covers(address, bytes, SIM_PLACE_DEVICE, device, write) ||
        sim_map_find(address)->pending)
        return NULL;
    return alias_of(address);
}

bool sim_map_on_host(uint64_t address)
{
    const sim_range_t *range = sim_map_find(address);
    return !sim_map_is_device(address) ||
           (range && range->physical &&
            range->physical->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE);
}

int sim_map_device(uint64_t address)
{
    const sim_range_t *range = sim_map_on_host(address) ? NULL : sim_map_find(address);
    return range ? range->device : SIM_ANY_DEVICE;
}

bool sim_map_same(uint64_t a, uint64_t b)
{
    const sim_range_t *range = sim_map_find(a);
    if (!range || !range->physical)
        return range && range == sim_map_find(b);
    return sim_vmm_same(a, b);
}

bool sim_map_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t *start)
{
    if (hint != 0 && hint % alignment == 0 && extents_take_at(&map.addresses, hint, bytes)) {
        *start = hint;
        return true;
    }
    return extents_take(&map.addresses, bytes, alignment, start);
}

void sim_map_unreserve(uint64_t start, uint64_t bytes)
{
    extents_give(&map.addresses, start, bytes);
}

bool sim_map_fill_physical(sim_physical_t *physical)
{
    if (!map.alias)
        return true;
    if (!extents_take(&map.physical_space, physical->bytes, SIM_PAGE, &physical->offset))
        return false;
    if (sim_engine.clean ||
        write_poison(map.physical, physical->offset, physical->offset + physical->bytes))
        return true;
    sim_map_empty_physical(physical);
    return false;
}

void sim_map_empty_physical(const sim_physical_t *physical)
{
    if (!map.alias)
        return;
    /* Else its pages stay for what is made there next: the kernel need not find others. */
    if (sim_engine.clean && fallocate(map.physical, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      (off_t)physical->offset, (off_t)physical->bytes) != 0)
        sim_panic("cannot give physical memory back");
    extents_give(&map.physical_space, physical->offset, physical->bytes);
}

void sim_map_attach(uint64_t start, sim_physical_t *physical)
{
    insert_range(&(sim_range_t){.start = start,
                                .bytes = physical->bytes,
                                .place = SIM_PLACE_DEVICE,
                                .device = physical->properties.location.id,
                                .pages_start = start,
                                .pages_bytes = physical->bytes,
                                .physical = physical});
}

/* Lets `protection` decide what of the mapping can be seen at `at`. */
static void show(void *at, const sim_range_t *range, int protection)
{
    const int populate = protection == PROT_NONE ? 0 : MAP_POPULATE; /* most is used */
    if (mmap(at, range->bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED | populate,
             map.physical, (off_t)range->physical->offset) == MAP_FAILED)
        sim_panic("cannot map physical memory");
}

void sim_map_set_access(uint64_t start, uint32_t readers, uint32_t writers, bool host)
{
    sim_range_t *range = &map.ranges[upper_bound(start) - 1];
    bool host_before = range->host_access;
    range->readers = readers;
    range->writers = writers;
    range->host_access = host;
    if (!map.alias)
        return;
    show(alias_of(start), range,
         writers   ? PROT_READ | PROT_WRITE
         : readers ? PROT_READ
                   : PROT_NONE);
    if (host)
        show((void *)(uintptr_t)start, range, PROT_READ | PROT_WRITE);
    else if (host_before)
        seal((void *)(uintptr_t)start, range->bytes);
}
