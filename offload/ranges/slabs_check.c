/* What must hold of slabs and their blocks (offload/ranges/ranges_check.h). */
#include "offload/ranges/ranges_check.h"

#ifdef MDNN_DEBUG

#include "config/extremes.h"
#include "config/rule.h"
#include "offload/ranges/slabs_internal.h"

/* What a walk over the slabs has met. */
typedef struct slab_census {
    const mdnn_ranges_t *ranges;
    const mdnn_block_t
        *before[MDNN_SLAB_KINDS]; /* the last block of the slab before, if it is of that kind */
    const mdnn_block_t *run[MDNN_SLAB_KINDS]; /* the first of the run that goes on; NULL: none */
    uint64_t run_bytes[MDNN_SLAB_KINDS], runs[MDNN_SLAB_KINDS];
    uint64_t in_use, live_bytes;
    uint64_t looks;
} slab_census_t;

static bool block_run_holds(slab_census_t *census, unsigned kind, const mdnn_block_t *last,
                            const char **broken)
{
    const mdnn_slab_runs_t *const runs = &census->ranges->slab_runs[kind];
    const mdnn_block_t *const first = census->run[kind];
    MDNN_RULE(first->run_bytes == census->run_bytes[kind]);
    MDNN_RULE(first->run_last == last && last->run_first == first);
    MDNN_RULE((first->previous_run ? first->previous_run->next_run
                                   : runs->bins[mdnn_run_bin(first->run_bytes)]) == first);
    MDNN_RULE(!first->next_run || first->next_run->previous_run == first);
    census->runs[kind]++;
    census->run[kind] = NULL;
    return true;
}

/* `before` is what lies before the block in slabs of its kind, or NULL. */
static bool block_follows(slab_census_t *census, unsigned kind, const mdnn_block_t *before,
                          const mdnn_block_t *block, const char **broken)
{
    const bool goes_on = mdnn_block_released(before) && mdnn_block_released(block);
    MDNN_RULE(!before || before->after == block);
    MDNN_RULE(!block || block->before == before);
    if (census->run[kind] && !goes_on && !block_run_holds(census, kind, before, broken))
        return false;
    if (!mdnn_block_released(block))
        return true;
    if (!census->run[kind]) {
        census->run[kind] = block;
        census->run_bytes[kind] = 0;
    }
    census->run_bytes[kind] += block->room;
    return true;
}

static bool block_holds(const mdnn_block_t *block, const char **broken)
{
    MDNN_RULE(block->room > 0 && block->room % MDNN_GRANULE == 0);
    MDNN_RULE(block->bytes == 0 ||
              (block->bytes <= block->room && block->room - block->bytes < MDNN_GRANULE));
    MDNN_RULE(block->bytes > 0 || !block->owner);
    MDNN_RULE(block->users.count <= block->users.room);
    for (size_t i = 0; i < block->users.count; i++)
        for (size_t other = 0; other < i; other++)
            MDNN_RULE(block->users.all[i].point.stream != block->users.all[other].point.stream);
    return true;
}

/* Blocks that start in the slab, from `start` on, where the one before it ends. */
static bool blocks_hold(slab_census_t *census, const mdnn_range_t *range, uint64_t start,
                        const char **broken)
{
    const mdnn_slab_t *const slab = range->slab;
    const uint64_t begin = mdnn_ranges_address(census->ranges, range->first);
    const uint64_t end = begin + census->ranges->config.chunk_bytes,
                   words = (end - begin) / MDNN_GRANULE / 64 + 1;
    uint64_t used = start - begin; /* what reaches in is in use */
    const mdnn_block_t *before = census->before[slab->kind];
    for (uint64_t word = 0; word < words; word++) {
        MDNN_RULE(!slab->starts[word] == !(slab->some[word / 64] >> word % 64 & 1));
        for (uint64_t bits = slab->starts[word]; bits; bits &= bits - 1) {
            const mdnn_block_t *const block =
                slab->starting[word * 64 + (uint64_t)__builtin_ctzll(bits)];
            MDNN_RULE(block->address ==
                      begin + (word * 64 + (uint64_t)__builtin_ctzll(bits)) * MDNN_GRANULE);
            MDNN_RULE(block->address == start);
            if (!block_holds(block, broken) ||
                !block_follows(census, slab->kind, before, block, broken))
                return false;
            MDNN_RULE(block->bytes > 0 || mdnn_block_end(block) <= end);
            start = mdnn_block_end(block);
            used += block->bytes > 0 ? mdnn_min(start, end) - block->address : 0;
            census->live_bytes += block->bytes;
            census->looks += 1 + block->users.count;
            before = block;
        }
    }
    MDNN_RULE(start >= end);
    MDNN_RULE(slab->used == used);
    census->looks += words;
    census->before[slab->kind] = before;
    return true;
}

/* Of slabs of that kind none follows at the address. */
static bool row_ends(slab_census_t *census, unsigned kind, uint64_t address, const char **broken)
{
    const mdnn_block_t *const before = census->before[kind];
    MDNN_RULE(!before || mdnn_block_end(before) == address);
    census->before[kind] = NULL;
    return !before || block_follows(census, kind, before, NULL, broken);
}

static bool slab_holds(slab_census_t *census, uint64_t step, const char **broken)
{
    const mdnn_ranges_t *const ranges = census->ranges;
    const mdnn_range_t *const range = ranges->at[step];
    const uint64_t begin = mdnn_ranges_address(ranges, step);
    MDNN_RULE(range->slab && range->first == step && range->count == 1);
    MDNN_RULE(range->owned == 1 && range->mapped == 1 && range->chunks == ranges->chunks + step);
    MDNN_RULE(range->slab->kind < MDNN_SLAB_KINDS);
    const unsigned kind = range->slab->kind;
    if (!row_ends(census, !kind, begin, broken))
        return false;
    const mdnn_block_t *const before = census->before[kind];
    if (!blocks_hold(census, range, before ? mdnn_block_end(before) : begin, broken))
        return false;
    MDNN_RULE(range->is_free == (range->slab->used == 0));
    census->in_use += !range->is_free;
    return true;
}

static bool rows_end(slab_census_t *census, uint64_t step, const char **broken)
{
    const uint64_t address = mdnn_ranges_address(census->ranges, step);
    return row_ends(census, 0, address, broken) && row_ends(census, 1, address, broken);
}

static bool bins_hold(const slab_census_t *census, unsigned kind, const char **broken)
{
    const mdnn_slab_runs_t *const runs = &census->ranges->slab_runs[kind];
    uint64_t listed = 0;
    for (unsigned bin = 0; bin < MDNN_SLAB_BINS; bin++) {
        MDNN_RULE(!runs->bins[bin] == !(runs->some[bin / 64] >> bin % 64 & 1));
        for (const mdnn_block_t *run = runs->bins[bin]; run; run = run->next_run, listed++)
            MDNN_RULE(run->previous_run || run == runs->bins[bin]);
    }
    MDNN_RULE(listed == census->runs[kind]);
    return true;
}

bool mdnn_slabs_are_valid(const mdnn_ranges_t *ranges, const char **broken, uint64_t *looks)
{
    slab_census_t census = {.ranges = ranges};
    uint64_t range_bytes = 0;
    MDNN_RULE(ranges->top == ranges->steps || ranges->at[ranges->top]);
    for (uint64_t step = ranges->top; step < ranges->steps; step++)
        if (ranges->at[step] ? !slab_holds(&census, step, broken)
                             : !rows_end(&census, step, broken))
            return false;
    if (!rows_end(&census, ranges->steps, broken) || !bins_hold(&census, 0, broken) ||
        !bins_hold(&census, 1, broken))
        return false;
    for (uint64_t step = 0; step < ranges->end; step++) {
        const mdnn_range_t *const range = ranges->at[step];
        range_bytes += range && range->first == step && !range->is_free ? range->bytes : 0;
    }
    MDNN_RULE(ranges->counts.chunks_slab == census.in_use);
    MDNN_RULE(ranges->counts.live_bytes == range_bytes + census.live_bytes);
    *looks += census.looks + ranges->end + (ranges->top < ranges->steps ? MDNN_SLAB_BINS / 2 : 0);
    return true;
}

#else

/* ISO C wants something in each file. */
typedef int mdnn_no_slabs_check_t;

#endif
