/* Released ranges that are withdrawn, so that a thread of the caller's can change their mappings. */
#include "offload/ranges/free_runs_internal.h"
#include "offload/ranges/ranges_check.h"

mdnn_range_t *mdnn_ranges_withdraw(mdnn_ranges_t *ranges, uint64_t most)
{
    mdnn_range_t *const range =
        mdnn_free_runs_oldest_done(ranges, most, (mdnn_window_t){0, 0}, false);
    if (!range || range->count > most)
        return NULL;
    mdnn_free_runs_leave(ranges, range->first, range->count);
    mdnn_free_runs_unlink(ranges, range);
    range->owned = range->mapped = range->count;
    range->owner = NULL;
    range->bytes =
        range->count * ranges->config.chunk_bytes - 1; /* not full: it needs no more chunks */
    ranges->counts.live_bytes += range->bytes;
    ranges->counts.chunks_live += range->count;
    mdnn_ranges_check(ranges);
    return range;
}

void mdnn_ranges_end_withdrawn(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    if (range->mapped == 0) {
        mdnn_range_drop(ranges, range);
        return;
    }
    mdnn_range_give(ranges, range, range->mapped);
    mdnn_ranges_clear(ranges, range->first + range->mapped, range->count - range->mapped);
    ranges->counts.live_bytes -= range->bytes;
    ranges->counts.chunks_live -= range->mapped;
    range->count = range->mapped;
    mdnn_free_runs_add(ranges, range);
    mdnn_ranges_check(ranges);
}
