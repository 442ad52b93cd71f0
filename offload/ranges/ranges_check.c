#include "offload/ranges/ranges_check.h"

#ifdef MDNN_DEBUG

#include "config/rule.h"
#include "offload/ranges/slabs_internal.h"

/* What a walk over all steps has met. */
typedef struct census {
    uint64_t used, live, hidden, live_bytes; /* of ranges that are no slabs */
    uint64_t free_ranges, free_steps, runs;
    uint64_t looks;
} census_t;

static bool users_hold(const mdnn_users_t *users, const char **broken)
{
    MDNN_RULE(users->count <= users->room);
    for (size_t i = 0; i < users->count; i++)
        for (size_t other = 0; other < i; other++)
            MDNN_RULE(users->all[i].point.stream != users->all[other].point.stream);
    return true;
}

/* ---- steps ---- */

static bool range_holds(const mdnn_ranges_t *ranges, const mdnn_range_t *range, const char **broken)
{
    MDNN_RULE(!range->slab && range->count > 0 && range->first + range->count <= ranges->end);
    MDNN_RULE(range->chunks == ranges->chunks + range->first);
    for (uint64_t step = range->first; step < range->first + range->count; step++)
        MDNN_RULE(ranges->at[step] == range);
    if (!range->is_free) {
        MDNN_RULE(range->mapped <= range->owned && range->owned <= range->count);
        MDNN_RULE(range->bytes > 0 && mdnn_ranges_chunks_for(ranges, range->bytes) == range->count);
    }
    return users_hold(&range->users, broken);
}

/* `last` ends a row of released ranges of so many steps that begins with `first`. */
static bool run_holds(const mdnn_ranges_t *ranges, const mdnn_range_t *first,
                      const mdnn_range_t *last, uint64_t count, const char **broken)
{
    MDNN_RULE(first->run_count == count);
    MDNN_RULE(last->run_first == first);
    MDNN_RULE((first->previous_run ? first->previous_run->next_run : ranges->runs[count]) == first);
    MDNN_RULE(!first->next_run || first->next_run->previous_run == first);
    return true;
}

static void count_range(census_t *census, const mdnn_range_t *range)
{
    census->looks += 2 * range->count + range->users.count;
    census->used += range->count;
    if (range->is_free) {
        census->free_ranges++;
        census->free_steps += range->count;
        return;
    }
    census->live += range->owned;
    census->hidden += range->owned - range->mapped;
    census->live_bytes += range->bytes;
}

static bool steps_hold(const mdnn_ranges_t *ranges, census_t *census, const char **broken)
{
    const mdnn_range_t *first = NULL, *last = NULL; /* of the run around the step */
    uint64_t count = 0;
    MDNN_RULE(ranges->end <= ranges->top && ranges->top <= ranges->steps);
    MDNN_RULE(ranges->end == 0 || ranges->at[ranges->end - 1]);
    for (uint64_t step = 0; step <= ranges->end;) {
        const mdnn_range_t *const range = step < ranges->end ? ranges->at[step] : NULL;
        const bool is_free = range && range->is_free;
        MDNN_RULE(!range || range->first == step);
        if (range && !range_holds(ranges, range, broken))
            return false;
        if (first && !is_free) {
            if (!run_holds(ranges, first, last, count, broken))
                return false;
            census->runs++;
        }
        first = is_free ? first ? first : range : NULL;
        count = is_free ? (first == range ? 0 : count) + range->count : 0;
        last = range;
        if (range)
            count_range(census, range);
        step += range ? range->count : 1;
    }
    census->looks += ranges->end;
    return true;
}

/* ---- lists ---- */

static bool free_list_holds(const mdnn_ranges_t *ranges, census_t *census, const char **broken)
{
    const mdnn_range_t *before = NULL;
    uint64_t listed = 0, slabs = 0;
    for (const mdnn_range_t *range = ranges->oldest; range; before = range, range = range->newer) {
        MDNN_RULE(range->older == before);
        MDNN_RULE(range->is_free && ranges->at[range->first] == range);
        MDNN_RULE(!before || before->released <= range->released);
        MDNN_RULE(range->released <= ranges->releases);
        listed++;
        slabs += range->slab != NULL;
    }
    census->looks += listed;
    MDNN_RULE(ranges->newest == before);
    MDNN_RULE(listed == census->free_ranges + slabs);
    MDNN_RULE(ranges->counts.chunks_free == census->free_steps + slabs);
    return true;
}

/* Those of the rows are in the lists; nothing else is. */
static bool run_lists_hold(const mdnn_ranges_t *ranges, census_t *census, const char **broken)
{
    uint64_t listed = 0;
    for (uint64_t word = 0; word <= ranges->counts.chunks_free / 64; word++)
        for (uint64_t bits = ranges->some_runs[word]; bits; bits &= bits - 1) {
            const uint64_t count = word * 64 + (uint64_t)__builtin_ctzll(bits);
            MDNN_RULE(count <= ranges->counts.chunks_free && ranges->runs[count]);
            MDNN_RULE(!ranges->runs[count]->previous_run);
            for (const mdnn_range_t *run = ranges->runs[count]; run; run = run->next_run) {
                MDNN_RULE(run->is_free && !run->slab && run->run_count == count);
                listed++;
            }
        }
    census->looks += ranges->counts.chunks_free / 64 + listed;
    MDNN_RULE(listed == census->runs);
    return true;
}

/* ---- chunks ---- */

static bool has_chunk(const mdnn_ranges_t *ranges, uint64_t step)
{
    const mdnn_range_t *const range = ranges->at[step];
    return range && (range->is_free || step - range->first < range->owned);
}

static bool is_spare(const mdnn_ranges_t *ranges, uint64_t chunk)
{
    for (uint64_t i = 0; i < ranges->counts.chunks_spare; i++)
        if (ranges->spare[i] == chunk)
            return true;
    return false;
}

static bool chunks_differ(const mdnn_ranges_t *ranges, census_t *census, const char **broken)
{
    enum { FEW = 48 };
    const uint64_t steps = ranges->end + ranges->steps - ranges->top;
    if (mdnn_ranges_chunks_there(&ranges->counts) > FEW || steps > 2 * FEW)
        return true;
    for (uint64_t i = 0; i < steps; i++) {
        const uint64_t step = i < ranges->end ? i : ranges->top + i - ranges->end;
        if (!has_chunk(ranges, step))
            continue;
        MDNN_RULE(!is_spare(ranges, ranges->chunks[step]));
        for (uint64_t k = 0; k < i; k++) {
            const uint64_t other = k < ranges->end ? k : ranges->top + k - ranges->end;
            MDNN_RULE(!has_chunk(ranges, other) || ranges->chunks[other] != ranges->chunks[step]);
        }
    }
    census->looks += steps;
    return true;
}

static bool counts_hold(const mdnn_ranges_t *ranges, const census_t *census, const char **broken)
{
    const mdnn_ranges_counts_t *const counts = &ranges->counts;
    const uint64_t there = mdnn_ranges_chunks_there(counts);
    MDNN_RULE(ranges->used == census->used);
    MDNN_RULE(counts->chunks_live == census->live + counts->chunks_slab);
    MDNN_RULE(counts->chunks_hidden == census->hidden);
    MDNN_RULE(counts->chunks_live + counts->chunks_free + counts->chunks_spare == there);
    MDNN_RULE(counts->mapped - counts->unmapped ==
              there - counts->chunks_spare - counts->chunks_hidden);
    MDNN_RULE(there <= ranges->spare_room);
    MDNN_RULE(ranges->wait_count <= ranges->wait_room);
    MDNN_RULE(counts->live_bytes >= census->live_bytes); /* the rest is of slabs */
    return true;
}

bool mdnn_ranges_is_valid(const mdnn_ranges_t *ranges, const char **broken, uint64_t *looks)
{
    census_t census = {0};
    const bool holds =
        steps_hold(ranges, &census, broken) && free_list_holds(ranges, &census, broken) &&
        run_lists_hold(ranges, &census, broken) && counts_hold(ranges, &census, broken) &&
        chunks_differ(ranges, &census, broken);
    *looks += census.looks;
    return holds && mdnn_slabs_are_valid(ranges, broken, looks);
}

void mdnn_ranges_check(const mdnn_ranges_t *ranges)
{
    static mdnn_rule_pace_t pace;
    const char *broken = NULL;
    uint64_t looks = 0;
    if (!mdnn_rule_is_due(&pace))
        return;
    if (!mdnn_ranges_is_valid(ranges, &broken, &looks))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
    mdnn_rule_took(&pace, looks);
}

#else

/* ISO C wants something in each file. */
typedef int mdnn_no_ranges_check_t;

#endif
