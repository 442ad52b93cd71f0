/* Ranges: requests, releases, what is where. Released ones are in free_runs.c, those who use
 * them in range_users.c, slabs in slabs.c and slab_runs.c, what a live range does with its chunks
 * in range_chunks.c. */
#include "config/fault.h"
#include "offload/ranges/ranges_check.h"
#include "offload/ranges/ranges_internal.h"

#include <stdlib.h>

void mdnn_range_free(mdnn_range_t *range)
{
    mdnn_slab_forget(range);
    free(range->users.all);
    free(range);
}

mdnn_status_t mdnn_ranges_create(const mdnn_ranges_config_t *config,
                                 const mdnn_ranges_device_t *device, void *context,
                                 mdnn_ranges_t **ranges)
{
    const uint64_t chunk = config->chunk_bytes;
    if (chunk < MDNN_GRANULE || (chunk & (chunk - 1)) != 0 || config->bytes < chunk ||
        config->bytes % chunk != 0 || config->start % chunk != 0 || config->start == 0 ||
        config->small_bytes > chunk / 2 || config->start > UINT64_MAX - config->bytes)
        return MDNN_STATUS_INVALID_ARGUMENT;
    mdnn_ranges_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->config = *config;
    made->device = *device;
    made->context = context;
    made->steps = made->top = config->bytes / chunk;
    /* Pages of these are touched only where there are ranges. */
    made->at = calloc(made->steps, sizeof(mdnn_range_t *));
    made->chunks = calloc(made->steps, sizeof *made->chunks);
    made->runs = calloc(made->steps + 1, sizeof(mdnn_range_t *));
    made->some_runs = calloc(made->steps / 64 + 1, sizeof *made->some_runs);
    if (!made->at || !made->chunks || !made->runs || !made->some_runs) {
        mdnn_ranges_destroy(made);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    *ranges = made;
    return MDNN_STATUS_OK;
}

static void forget(mdnn_ranges_t *ranges, uint64_t first, uint64_t end)
{
    for (uint64_t step = first; step < end;) {
        mdnn_range_t *const range = ranges->at[step];
        step += range ? range->count : 1;
        if (range)
            mdnn_range_free(range);
    }
}

void mdnn_ranges_destroy(mdnn_ranges_t *ranges)
{
    if (!ranges)
        return;
    if (ranges->at) {
        forget(ranges, 0, ranges->end);
        forget(ranges, ranges->top, ranges->steps);
    }
    free(ranges->at);
    free(ranges->chunks);
    free(ranges->runs);
    free(ranges->some_runs);
    free(ranges->spare);
    free(ranges->waits);
    free(ranges);
}

uint64_t mdnn_ranges_address(const mdnn_ranges_t *ranges, uint64_t step)
{
    return ranges->config.start + step * ranges->config.chunk_bytes;
}

void mdnn_ranges_clear(mdnn_ranges_t *ranges, uint64_t first, uint64_t count)
{
    for (uint64_t step = first; step < first + count; step++)
        ranges->at[step] = NULL;
    ranges->used -= count;
    while (ranges->end > 0 && !ranges->at[ranges->end - 1])
        ranges->end--;
}

/* Kernels are given ends of buffers, too. An end that is the beginning of a neighbour would name
 * that one in every launch, and keep it on the device: what fills its chunks exactly gets one more,
 * where that is little beside it. */
uint64_t mdnn_ranges_chunks_for(const mdnn_ranges_t *ranges, uint64_t bytes)
{
    const uint64_t chunk = ranges->config.chunk_bytes;
    if (bytes <= ranges->config.small_bytes)
        return 1;
    const uint64_t count = (bytes - 1) / chunk + 1, least = ranges->config.ended_chunks;
    return bytes % chunk == 0 && least > 0 && count >= least ? count + 1 : count;
}

static mdnn_status_t acquire_range(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                   bool behind, uint64_t *address)
{
    mdnn_range_t *range;
    MDNN_TRY(
        mdnn_free_runs_take(ranges, mdnn_ranges_chunks_for(ranges, bytes), stream, behind, &range));
    range->bytes = bytes;
    *address = mdnn_ranges_address(ranges, range->first);
    return MDNN_STATUS_OK;
}

static mdnn_status_t acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream, bool behind,
                             mdnn_acquired_t *allocation)
{
    const bool small = bytes <= ranges->config.small_bytes;
    uint64_t address = 0;
    mdnn_status_t status = MDNN_STATUS_NOT_FOUND;
    if (bytes == 0)
        return MDNN_STATUS_INVALID_ARGUMENT;
    if (bytes > ranges->config.bytes)
        return MDNN_STATUS_OVERFLOW;
    ranges->wait_count = 0;
    if (small)
        status = mdnn_slab_acquire(ranges, bytes, stream, behind, &address);
    if (status == MDNN_STATUS_NOT_FOUND)
        status = acquire_range(ranges, bytes, stream, behind, &address);
    if (small && !behind && status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        status = mdnn_slab_blocked(ranges, bytes, stream, status);
    if (status == MDNN_STATUS_OK)
        ranges->counts.live_bytes += bytes;
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_BUSY)
        *allocation = (mdnn_acquired_t){status == MDNN_STATUS_OK ? address : 0, ranges->waits,
                                        ranges->wait_count};
    mdnn_ranges_check(ranges);
    return status;
}

mdnn_status_t mdnn_ranges_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                  mdnn_acquired_t *allocation)
{
    return acquire(ranges, bytes, stream, false, allocation);
}

mdnn_status_t mdnn_ranges_acquire_behind(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                         mdnn_acquired_t *allocation)
{
    return acquire(ranges, bytes, stream, true, allocation);
}

/* The first of `count` steps in a row that have no range; ranges->top: there are none. */
static uint64_t find_bare(const mdnn_ranges_t *ranges, uint64_t count)
{
    uint64_t first = 0;
    for (uint64_t step = 0; step < ranges->end && step - first < count;) {
        const mdnn_range_t *const range = ranges->at[step];
        step += range ? range->count : 1;
        if (range && !MDNN_FAULT(RESERVED_OVER_ANOTHER))
            first = step;
    }
    return ranges->top - first < count ? ranges->top : first;
}

mdnn_status_t mdnn_ranges_reserve(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t *address)
{
    const uint64_t count = mdnn_ranges_chunks_for(ranges, bytes), first = find_bare(ranges, count);
    if (first == ranges->top)
        return MDNN_STATUS_OVERFLOW;
    mdnn_range_t *const range = calloc(1, sizeof *range);
    if (!range)
        return MDNN_STATUS_OUT_OF_MEMORY;
    *range = (mdnn_range_t){
        .first = first, .count = count, .bytes = bytes, .chunks = ranges->chunks + first};
    for (uint64_t step = first; step < first + count; step++)
        ranges->at[step] = range;
    ranges->used += count;
    if (ranges->end < first + count)
        ranges->end = first + count;
    ranges->counts.live_bytes += bytes;
    *address = mdnn_ranges_address(ranges, first);
    mdnn_ranges_check(ranges);
    return MDNN_STATUS_OK;
}

static mdnn_range_t *range_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    const uint64_t offset = address - ranges->config.start;
    mdnn_range_t *const range =
        offset < ranges->config.bytes ? ranges->at[offset / ranges->config.chunk_bytes] : NULL;
    return range && !range->is_free ? range : NULL;
}

mdnn_status_t mdnn_ranges_release(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream,
                                  const mdnn_stream_point_t *points, size_t point_count)
{
    mdnn_range_t *const range = range_at(ranges, address);
    uint64_t start, bytes;
    if (!range || !mdnn_ranges_find(ranges, address, &start, &bytes) || start != address)
        return MDNN_STATUS_NOT_FOUND;
    if (range->slab) {
        MDNN_TRY(mdnn_slab_release(ranges, address, stream, points, point_count));
    } else {
        if (range->mapped < range->count)
            return MDNN_STATUS_INVALID_ARGUMENT;
        MDNN_TRY(mdnn_users_release(ranges, &range->users, stream, points, point_count));
        ranges->counts.chunks_live -= range->count;
        mdnn_free_runs_add(ranges, range);
    }
    ranges->counts.live_bytes -= bytes;
    mdnn_ranges_check(ranges);
    return MDNN_STATUS_OK;
}

bool mdnn_ranges_find(const mdnn_ranges_t *ranges, uint64_t address, uint64_t *start,
                      uint64_t *bytes)
{
    const mdnn_range_t *const range = range_at(ranges, address);
    if (!range)
        return false;
    const mdnn_block_t *const block = range->slab ? mdnn_slab_block(ranges, address) : NULL;
    *start = block ? block->address : mdnn_ranges_address(ranges, range->first);
    *bytes = block ? block->bytes : range->bytes;
    return address - *start < *bytes;
}

/* Where the owner of the live allocation around `address` stands; NULL if there is none. */
static void **owner_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    mdnn_range_t *const range = range_at(ranges, address);
    if (!range)
        return NULL;
    if (!range->slab)
        return address - mdnn_ranges_address(ranges, range->first) < range->bytes ? &range->owner
                                                                                  : NULL;
    mdnn_block_t *const block = mdnn_slab_block(ranges, address);
    return address - block->address < block->bytes ? &block->owner : NULL;
}

void mdnn_ranges_set_owner(mdnn_ranges_t *ranges, uint64_t address, void *owner)
{
    void **const place = owner_at(ranges, address);
    if (place)
        *place = owner;
}

void *mdnn_ranges_owner(const mdnn_ranges_t *ranges, uint64_t address)
{
    void *const *const place = owner_at(ranges, address);
    return place ? *place : NULL;
}

bool mdnn_range_has_owner(const mdnn_range_t *range)
{
    return range->owner != NULL;
}

mdnn_range_t *mdnn_ranges_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    mdnn_range_t *const range = range_at(ranges, address);
    return range && !range->slab && mdnn_ranges_address(ranges, range->first) == address ? range
                                                                                         : NULL;
}

mdnn_ranges_counts_t mdnn_ranges_counts(const mdnn_ranges_t *ranges)
{
    mdnn_ranges_counts_t counts = ranges->counts;
    counts.steps_slab = ranges->steps - ranges->top;
    return counts;
}
