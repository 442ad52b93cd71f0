/* What a live range does with its chunks: hides and shows them, gives them away, takes others. */
#include "offload/ranges/ranges_check.h"
#include "offload/ranges/ranges_internal.h"

mdnn_range_chunks_t mdnn_range_chunks(const mdnn_range_t *range)
{
    return (mdnn_range_chunks_t){range->chunks, range->count, range->owned, range->mapped};
}

mdnn_status_t mdnn_range_hide(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t keep)
{
    while (range->mapped > keep) {
        const uint64_t last = range->mapped - 1;
        MDNN_TRY(ranges->device.unmap(ranges->context,
                                      mdnn_ranges_address(ranges, range->first + last),
                                      range->chunks[last]));
        range->mapped = last;
        ranges->counts.unmapped++;
        ranges->counts.chunks_hidden++;
    }
    mdnn_ranges_check(ranges);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_range_show(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t upto)
{
    for (; range->mapped < upto; range->mapped++) {
        MDNN_TRY(ranges->device.map(ranges->context,
                                    mdnn_ranges_address(ranges, range->first + range->mapped),
                                    range->chunks[range->mapped]));
        ranges->counts.mapped++;
        ranges->counts.chunks_hidden--;
    }
    mdnn_ranges_check(ranges);
    return MDNN_STATUS_OK;
}

mdnn_remap_t mdnn_range_remap(const mdnn_ranges_t *ranges, const mdnn_range_t *range, uint64_t upto,
                              uint64_t most)
{
    const bool map = upto > range->mapped;
    const uint64_t all = map ? upto - range->mapped : range->mapped - upto;
    const uint64_t count = all < most ? all : most;
    const uint64_t first = map ? range->mapped : range->mapped - count;
    return (mdnn_remap_t){.map = map,
                          .address = mdnn_ranges_address(ranges, range->first + first),
                          .chunks = range->chunks + first,
                          .count = count};
}

void mdnn_range_remapped(mdnn_ranges_t *ranges, mdnn_range_t *range, bool map, uint64_t count)
{
    range->mapped = map ? range->mapped + count : range->mapped - count;
    *(map ? &ranges->counts.mapped : &ranges->counts.unmapped) += count;
    ranges->counts.chunks_hidden =
        map ? ranges->counts.chunks_hidden - count : ranges->counts.chunks_hidden + count;
    mdnn_ranges_check(ranges);
}

void mdnn_range_give(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t keep)
{
    while (range->owned > keep) {
        /* There is room for every chunk that exists (mdnn_free_runs_gather). */
        ranges->spare[ranges->counts.chunks_spare++] = range->chunks[--range->owned];
        ranges->counts.chunks_live--;
        ranges->counts.chunks_hidden--;
    }
    mdnn_ranges_check(ranges);
}

mdnn_status_t mdnn_range_take(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t upto,
                              const mdnn_stream_point_t **waits, size_t *wait_count)
{
    ranges->wait_count = 0;
    const mdnn_status_t status = mdnn_free_runs_gather(ranges, upto - range->owned);
    *waits = ranges->waits;
    *wait_count = ranges->wait_count;
    MDNN_TRY(status);
    while (range->owned < upto) {
        range->chunks[range->owned++] = ranges->spare[--ranges->counts.chunks_spare];
        ranges->counts.chunks_live++;
        ranges->counts.chunks_hidden++;
    }
    mdnn_ranges_check(ranges);
    return MDNN_STATUS_OK;
}

void mdnn_range_drop(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    mdnn_range_give(ranges, range, 0);
    mdnn_ranges_clear(ranges, range->first, range->count);
    ranges->counts.live_bytes -= range->bytes;
    mdnn_range_free(range);
    mdnn_ranges_check(ranges);
}
