/* Memory pools and stream-ordered allocation. A pool holds memory of a device: what is in use, and
 * what was freed, with the operation that frees it. An allocation takes freed memory that it may
 * use at once (freed earlier in the same stream, or freed and done), then the device's, then freed
 * memory that it has to wait for in its stream. The memory comes with a new address each time,
 * which may be touched from the operation that allocates to the one that frees. What a pool holds
 * unused above its threshold goes back to the device when the host waits for the device's work.
 *
 * The real driver holds memory in larger pieces, here it is pages. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

/* Host time of an allocation and of a free: an assumption. */
static const double async_us = 1;

typedef struct freed {
    uint64_t bytes;
    sim_op_t *release; /* counted reference, or NULL: done */
    sim_lane_t *lane;  /* counted reference, or NULL */
} freed_t;

struct CUmemPoolHandle_st {
    CUmemPoolProps properties;
    int device;
    bool destroyed;     /* goes when nothing of it is in use */
    int may_reuse[4];   /* by CUmemPool_attribute, from 1 */
    uint64_t threshold; /* bytes */
    uint64_t reserved, reserved_high, used, used_high;
    freed_t *freed;
    size_t freed_count;
    CUmemoryPool next;
};

static CUmemoryPool pools;
static CUmemoryPool default_pools[SIM_MAX_DEVICES], current_pools[SIM_MAX_DEVICES];

static CUmemoryPool new_pool(int device)
{
    CUmemoryPool pool = sim_allocate(sizeof *pool);
    *pool = (struct CUmemPoolHandle_st){
        .properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}},
        .device = device,
        .may_reuse = {0, 1, 1, 1},
        .next = pools};
    return pools = pool;
}

static CUmemoryPool default_pool(int device)
{
    if (!default_pools[device])
        default_pools[device] = new_pool(device);
    return default_pools[device];
}

static CUmemoryPool current_pool(int device)
{
    return current_pools[device] ? current_pools[device] : default_pool(device);
}

static CUmemoryPool find_pool(CUmemoryPool pool)
{
    for (CUmemoryPool each = pools; each; each = each->next)
        if (each == pool && !each->destroyed)
            return each;
    return NULL;
}

/* By the clock: when its body runs does not matter to what is counted. */
static bool is_done(const freed_t *freed)
{
    return !freed->release ||
           (freed->release->timed && freed->release->end_us <= sim_engine.host_us);
}

static void forget(CUmemoryPool pool, size_t index)
{
    freed_t *freed = &pool->freed[index];
    sim_op_drop(freed->release);
    if (freed->lane)
        sim_lane_release(freed->lane);
    memmove(freed, freed + 1, (--pool->freed_count - index) * sizeof *freed);
}

/* Takes up to `bytes` of that entry away. */
static uint64_t take_from(CUmemoryPool pool, size_t index, uint64_t bytes)
{
    freed_t *freed = &pool->freed[index];
    uint64_t taken = bytes < freed->bytes ? bytes : freed->bytes;
    freed->bytes -= taken;
    if (freed->bytes == 0)
        forget(pool, index);
    return taken;
}

/* Gives unused memory above `keep` bytes back to the device. */
static bool trim(CUmemoryPool pool, uint64_t keep)
{
    uint64_t before = pool->reserved;
    for (size_t i = pool->freed_count; i-- > 0 && pool->reserved > keep;) {
        if (!is_done(&pool->freed[i]))
            continue;
        uint64_t given = take_from(pool, i, pool->reserved - keep);
        pool->reserved -= given;
        sim_memory_given_back(sim_device(pool->device), given);
    }
    return pool->reserved < before;
}

static void remove_pool(CUmemoryPool pool)
{
    CUmemoryPool *link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool->freed);
    free(pool);
}

void sim_pools_trim(void)
{
    for (CUmemoryPool pool = pools, next; pool; pool = next) {
        next = pool->next;
        trim(pool, pool->threshold);
        if (pool->destroyed && pool->used == 0 && pool->freed_count == 0)
            remove_pool(pool);
    }
}

bool sim_pools_give_back(int device)
{
    bool any = false;
    for (CUmemoryPool pool = pools; pool; pool = pool->next)
        any = (pool->device == device && trim(pool, 0)) || any;
    return any;
}

void sim_pools_reset(int device)
{
    for (CUmemoryPool pool = pools; pool; pool = pool->next) {
        if (pool->device != device)
            continue;
        while (pool->freed_count > 0)
            forget(pool, 0);
        sim_memory_given_back(sim_device(device), pool->reserved);
        pool->reserved = pool->used = 0;
    }
}

/* What an allocation has found so far. */
typedef struct search {
    uint64_t missing;
    sim_op_t **needs; /* counted references */
    unsigned need_count;
} search_t;

static void take_ready(CUmemoryPool pool, const sim_lane_t *lane, search_t *search)
{
    for (size_t i = pool->freed_count; i-- > 0 && search->missing > 0;) {
        const freed_t *freed = &pool->freed[i];
        if (freed->lane == lane ||
            (pool->may_reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] && is_done(freed)))
            search->missing -= take_from(pool, i, search->missing);
    }
}

static void take_pending(CUmemoryPool pool, search_t *search)
{
    bool allowed = pool->may_reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES];
    while (allowed && pool->freed_count > 0 && search->missing > 0) {
        search->needs = sim_resize(search->needs, search->need_count + 1, sizeof(sim_op_t *));
        search->needs[search->need_count++] = sim_op_hold(pool->freed[0].release);
        search->missing -= take_from(pool, 0, search->missing);
    }
}

static uint64_t unused(CUmemoryPool pool)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < pool->freed_count; i++)
        bytes += pool->freed[i].bytes;
    return bytes;
}

static uint64_t device_room(int device)
{
    return sim_free_bytes(sim_device(device));
}

/* Makes *search find `bytes`, growing the pool if it must. false: there is not so much. */
static bool find_memory(CUmemoryPool pool, uint64_t bytes, const sim_lane_t *lane, search_t *search)
{
    uint64_t most = sim_device(pool->device)->profile.memory_bytes;
    if (bytes > most ||
        (pool->properties.maxSize > 0 && pool->used + bytes > pool->properties.maxSize))
        return false;
    while (unused(pool) + device_room(pool->device) < bytes)
        if (!sim_pools_give_back(pool->device) && !sim_clock_wait_release())
            return false;
    *search = (search_t){.missing = bytes};
    take_ready(pool, lane, search);
    uint64_t room = device_room(pool->device);
    uint64_t growth = search->missing < room ? search->missing : room;
    sim_memory_taken(sim_device(pool->device), growth);
    pool->reserved += growth;
    search->missing -= growth;
    take_pending(pool, search);
    return true;
}

static void give_up(CUmemoryPool pool, uint64_t bytes, sim_op_t *release, sim_lane_t *lane)
{
    pool->freed = sim_resize(pool->freed, pool->freed_count + 1, sizeof *pool->freed);
    pool->freed[pool->freed_count++] = (freed_t){bytes, sim_op_hold(release), lane};
    if (lane)
        lane->refs++;
}

static CUresult place(CUmemoryPool pool, uint64_t bytes, CUstream stream, search_t *search,
                      CUdeviceptr *out)
{
    sim_range_t range;
    CUresult result = search->missing > 0 ? CUDA_ERROR_OUT_OF_MEMORY
                                          : sim_map_add_device(pool->device, bytes, &range);
    if (result == CUDA_SUCCESS) {
        sim_range_t *live = sim_map_edit(range.start);
        live->pool = pool;
        live->pending = ++sim_engine.next_id;
        sim_work_t work = {
            .kind = SIM_ACQUIRE, .destination = range.start, .pattern = live->pending};
        sim_stream_submit(stream, &work, search->needs, search->need_count);
        pool->used += range.pages_bytes;
        if (pool->used > pool->used_high)
            pool->used_high = pool->used;
        if (pool->reserved > pool->reserved_high)
            pool->reserved_high = pool->reserved;
        *out = range.start;
    }
    for (unsigned i = 0; i < search->need_count; i++)
        sim_op_drop(search->needs[i]);
    free(search->needs);
    return result;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    CUstream stream;
    search_t search;
    CUresult result =
        out && bytes > 0 ? sim_stream_resolve(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    sim_clock_spend(async_us);
    sim_clock_advance();
    if (stream->capture)
        return sim_graph_allocate(stream, bytes, out);
    if (!pool)
        pool = current_pool(stream->context->device);
    uint64_t pages = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    if (pages < bytes || !find_memory(pool, pages, stream->lane, &search))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t found = pages - search.missing;
    result = place(pool, bytes, stream, &search, out);
    if (result != CUDA_SUCCESS)
        give_up(pool, found, NULL, NULL);
    return result;
}

SIM_ENTRY(CONTEXT, cuMemAllocAsync, (CUdeviceptr * address, size_t bytes, CUstream stream),
          allocate(address, bytes, NULL, stream))
SIM_ENTRY(CONTEXT, cuMemAllocFromPoolAsync,
          (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream),
          find_pool(pool) ? allocate(address, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE)

CUresult sim_pool_free(uint64_t address, CUstream stream)
{
    sim_range_t *range = sim_map_edit(address);
    CUmemoryPool pool = range->pool;
    uint64_t bytes = range->pages_bytes;
    sim_work_t work = {.kind = SIM_RELEASE, .destination = address, .bytes = bytes};
    sim_op_t *op;
    range->freed = true;
    CUresult result = sim_stream_add(stream, &work, async_us, &op);
    if (pool) {
        pool->used -= bytes;
    } else { /* cuMemAlloc's may be freed so, too, and is the pool's then */
        pool = default_pool(range->device);
        pool->reserved += bytes;
    }
    give_up(pool, bytes, op, stream->lane);
    return result;
}

void sim_pool_freed(CUmemoryPool pool, uint64_t bytes)
{
    pool->used -= bytes;
    give_up(pool, bytes, NULL, NULL);
    trim(pool, pool->threshold);
}

static CUresult get_pool(CUmemoryPool *out, int device, CUmemoryPool (*which)(int device))
{
    if (!sim_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = which(device);
    return CUDA_SUCCESS;
}

static CUresult set_pool(int device, CUmemoryPool pool)
{
    if (!sim_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!find_pool(pool) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    current_pools[device] = pool;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device),
          get_pool(pool, device, default_pool))
SIM_ENTRY(INIT, cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device),
          get_pool(pool, device, current_pool))
SIM_ENTRY(INIT, cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), set_pool(device, pool))

/* The device of a location that pools may have, or -1. */
static int device_of(const CUmemLocation *location, CUmemAllocationType type)
{
    return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? location->id
               : -1;
}

SIM_ENTRY(INIT, cuMemGetDefaultMemPool,
          (CUmemoryPool * pool, CUmemLocation *location, CUmemAllocationType type),
          get_pool(pool, device_of(location, type), default_pool))
SIM_ENTRY(INIT, cuMemGetMemPool,
          (CUmemoryPool * pool, CUmemLocation *location, CUmemAllocationType type),
          get_pool(pool, device_of(location, type), current_pool))
SIM_ENTRY(INIT, cuMemSetMemPool,
          (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
          set_pool(device_of(location, type), pool))

static CUresult pool_create(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    if (!out || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_device(properties->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = new_pool(properties->location.id);
    (*out)->properties = *properties;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties),
          pool_create(pool, properties))

static CUresult pool_destroy(CUmemoryPool pool)
{
    if (!find_pool(pool) || pool == default_pools[pool->device])
        return CUDA_ERROR_INVALID_VALUE;
    if (current_pools[pool->device] == pool)
        current_pools[pool->device] = NULL;
    pool->destroyed = true;
    pool->threshold = 0;
    sim_pools_trim();
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemPoolDestroy, (CUmemoryPool pool), pool_destroy(pool))
SIM_ENTRY(INIT, cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep),
          find_pool(pool) ? (trim(pool, keep), CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE)

static CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
    if (!find_pool(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        pool->may_reuse[attribute] = *(const int *)value != 0;
        return CUDA_SUCCESS;
    }
    uint64_t number = *(const cuuint64_t *)value;
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = number;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && number == 0)
        pool->reserved_high = pool->reserved;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && number == 0)
        pool->used_high = pool->used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!find_pool(pool) || !value || attribute < 1 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        *(int *)value = pool->may_reuse[attribute];
        return CUDA_SUCCESS;
    }
    const uint64_t numbers[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used,
                                pool->used_high};
    *(cuuint64_t *)value = numbers[attribute - CU_MEMPOOL_ATTR_RELEASE_THRESHOLD];
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemPoolSetAttribute,
          (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
          set_attribute(pool, attribute, value))
SIM_ENTRY(INIT, cuMemPoolGetAttribute,
          (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
          get_attribute(pool, attribute, value))

static CUresult pool_access(CUmemAccess_flags *flags, CUmemoryPool pool,
                            const CUmemLocation *location)
{
    if (!flags || !find_pool(pool) || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                          : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* The pool's own device has access, always, and no peer can. */
static CUresult set_pool_access(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count)
{
    if (!find_pool(pool) || !wanted)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        bool own = wanted[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   wanted[i].location.id == pool->device;
        if (own != (wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
            return own ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemPoolGetAccess,
          (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation *location),
          pool_access(flags, pool, location))
SIM_ENTRY(INIT, cuMemPoolSetAccess,
          (CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count),
          set_pool_access(pool, wanted, count))
