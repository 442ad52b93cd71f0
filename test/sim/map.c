/* The address map. Device addresses are numbers inside a reservation that nothing is ever mapped
 * into, so that host code faults on them. What a kernel sees at device address D lies at the same
 * offset of a second reservation, the alias: what is mapped side by side there is contiguous, what
 * is not mapped faults, and memory that has several addresses can be mapped, shared, at each.
 *
 * Fresh memory is poisoned, full of 0xFF, not-a-number in every floating-point type. It is a
 * private mapping of a small file of poison, again and again, so that memory costs nothing until it
 * is written. */
#include "test/sim/engine.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POISON_BYTES (UINT64_C(64) << 20)

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
    extents_t addresses;
    sim_range_t *ranges; /* live, sorted by start */
    size_t range_count;
} map;

/* First fit. false: no extent is large enough. */
static bool extents_take(extents_t *free_space, uint64_t bytes, uint64_t *start)
{
    size_t i = 0;
    while (i < free_space->count && free_space->items[i].bytes < bytes)
        i++;
    if (i == free_space->count)
        return false;
    extent_t *item = &free_space->items[i];
    *start = item->start;
    item->start += bytes;
    item->bytes -= bytes;
    if (item->bytes == 0)
        memmove(item, item + 1, (--free_space->count - i) * sizeof *item);
    return true;
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
    bool ready = map.poison >= 0 && ftruncate(map.poison, (off_t)POISON_BYTES) == 0;
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
}

static char *alias_of(uint64_t address)
{
    return map.alias + (address - map.base);
}

/* Makes at least so much of the poison file. */
static bool prepare_poison(uint64_t bytes)
{
    static unsigned char block[64 << 10];
    memset(block, 0xFF, sizeof block);
    while (map.poisoned_bytes < bytes) {
        ssize_t written = pwrite(map.poison, block, sizeof block, (off_t)map.poisoned_bytes);
        if (written != (ssize_t)sizeof block)
            return false;
        map.poisoned_bytes += sizeof block;
    }
    return true;
}

static void unback(uint64_t start, uint64_t bytes)
{
    if (map.alias &&
        mmap(alias_of(start), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        sim_panic("cannot unmap device memory");
}

static bool back(uint64_t start, uint64_t bytes)
{
    if (!map.alias)
        return true;
    if (!prepare_poison(bytes < POISON_BYTES ? bytes : POISON_BYTES))
        return false;
    for (uint64_t done = 0; done < bytes; done += POISON_BYTES) {
        uint64_t piece = bytes - done < POISON_BYTES ? bytes - done : POISON_BYTES;
        if (mmap(alias_of(start + done), piece, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, map.poison, 0) == MAP_FAILED) {
            unback(start, bytes);
            return false;
        }
    }
    return true;
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
    if (!extents_take(&map.addresses, range.pages_bytes + SIM_PAGE, &range.pages_start))
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
    return CUDA_SUCCESS;
}

void sim_map_remove(uint64_t start)
{
    size_t at = upper_bound(start) - 1;
    sim_range_t range = map.ranges[at];
    memmove(map.ranges + at, map.ranges + at + 1, (--map.range_count - at) * sizeof *map.ranges);
    if (range.place != SIM_PLACE_DEVICE)
        return;
    unback(range.pages_start, range.pages_bytes);
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

const sim_range_t *sim_map_at(size_t index)
{
    return index < map.range_count ? &map.ranges[index] : NULL;
}

bool sim_map_is_device(uint64_t address)
{
    return address - map.base < map.bytes;
}

bool sim_map_covers(uint64_t address, uint64_t bytes, sim_place_t place)
{
    const sim_range_t *range = sim_map_find(address);
    return range && range->place == place && bytes <= range->bytes - (address - range->start);
}

void *sim_map_translate(uint64_t address, uint64_t bytes)
{
    if (sim_map_covers(address, bytes, SIM_PLACE_PINNED))
        return (void *)(uintptr_t)address;
    if (!map.alias || !sim_map_covers(address, bytes, SIM_PLACE_DEVICE))
        return NULL;
    return alias_of(address);
}
