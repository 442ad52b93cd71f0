/* Slabs: memory for small requests, at the end of the reservation. Slabs that are neighbours serve
 * requests together: a block may reach from one into the next, so that no chunk has an end that is
 * too short for anything.
 *
 * Released blocks become one again with a neighbour in their slab where that orders nobody behind
 * work that he need not wait for: if the same streams, or none, work there still. */
#include "config/fault.h"
#include "offload/ranges/slabs_internal.h"

#include <stdlib.h>

/* ---- where blocks start ---- */

static uint64_t granule_of(const mdnn_ranges_t *ranges, uint64_t address)
{
    return address % ranges->config.chunk_bytes / MDNN_GRANULE;
}

static void note_start(mdnn_ranges_t *ranges, mdnn_block_t *block)
{
    const uint64_t granule = granule_of(ranges, block->address);
    mdnn_slab_t *const slab = mdnn_slab_at(ranges, block->address)->slab;
    slab->starting[granule] = block;
    slab->starts[granule / 64] |= (uint64_t)1 << granule % 64;
    slab->some[granule / 4096] |= (uint64_t)1 << granule / 64 % 64;
}

static void forget_start(mdnn_ranges_t *ranges, const mdnn_block_t *block)
{
    const uint64_t granule = granule_of(ranges, block->address), word = granule / 64;
    mdnn_slab_t *const slab = mdnn_slab_at(ranges, block->address)->slab;
    slab->starts[word] &= ~((uint64_t)1 << granule % 64);
    if (!slab->starts[word])
        slab->some[word / 64] &= ~((uint64_t)1 << word % 64);
}

/* Bits of the word up to `last`. */
static uint64_t upto(uint64_t word, uint64_t last)
{
    return word & (UINT64_MAX >> (63 - last));
}

static uint64_t highest(uint64_t word)
{
    return 63 - (uint64_t)__builtin_clzll(word);
}

/* The last block that starts in the slab, at that granule or before. NULL: none. */
static mdnn_block_t *last_start(const mdnn_slab_t *slab, uint64_t granule)
{
    uint64_t word = granule / 64, bits = upto(slab->starts[word], granule % 64);
    if (!bits) {
        uint64_t group = word / 64;
        uint64_t words = word % 64 > 0 ? upto(slab->some[group], word % 64 - 1) : 0;
        while (!words && group > 0)
            words = slab->some[--group];
        if (!words)
            return NULL;
        word = group * 64 + highest(words);
        bits = slab->starts[word];
    }
    return slab->starting[word * 64 + highest(bits)];
}

mdnn_block_t *mdnn_slab_block(const mdnn_ranges_t *ranges, uint64_t address)
{
    const mdnn_range_t *const range = mdnn_slab_at(ranges, address);
    mdnn_block_t *const block = last_start(range->slab, granule_of(ranges, address));
    const uint64_t last = ranges->config.chunk_bytes / MDNN_GRANULE - 1;
    return block ? block : last_start(ranges->at[range->first - 1]->slab, last);
}

static void free_block(mdnn_block_t *block)
{
    free(block->users.all);
    free(block);
}

/* ---- slabs ---- */

static void tie(mdnn_block_t *before, mdnn_block_t *after)
{
    if (before)
        before->after = after;
    if (after)
        after->before = before;
}

void mdnn_slab_forget(mdnn_range_t *range)
{
    mdnn_slab_t *const slab = range->slab;
    if (!slab)
        return;
    const uint64_t chunk_words = slab->some ? (uint64_t)(slab->some - slab->starts) : 0;
    for (uint64_t word = 0; word < chunk_words; word++)
        for (uint64_t bits = slab->starts[word]; bits; bits &= bits - 1)
            free_block(slab->starting[word * 64 + (uint64_t)__builtin_ctzll(bits)]);
    free(slab->starting);
    free(slab->starts);
    free(slab);
}

/* Bookkeeping for a slab at that step; all of it will be one block. NULL: no memory. */
static mdnn_range_t *new_slab(const mdnn_ranges_t *ranges, uint64_t step, unsigned kind,
                              mdnn_block_t *whole)
{
    const uint64_t granules = ranges->config.chunk_bytes / MDNN_GRANULE, words = granules / 64 + 1;
    mdnn_range_t *const range = calloc(1, sizeof *range);
    mdnn_slab_t *const slab = range ? calloc(1, sizeof *slab) : NULL;
    if (!slab) {
        free(range);
        return NULL;
    }
    *range = (mdnn_range_t){.first = step, .count = 1, .owned = 1, .mapped = 1, .slab = slab};
    range->chunks = ranges->chunks + step;
    slab->kind = kind;
    slab->starting = calloc(granules, sizeof(mdnn_block_t *));
    slab->starts = calloc(words + words / 64 + 1, sizeof *slab->starts);
    slab->some = slab->starts ? slab->starts + words : NULL;
    if (!slab->starting || !slab->starts) {
        mdnn_range_free(range);
        return NULL;
    }
    whole->address = mdnn_ranges_address(ranges, step);
    whole->room = ranges->config.chunk_bytes;
    return range;
}

/* The last bare step, so that slabs at the front become empty. UINT64_MAX: there is none. */
static uint64_t bare_step(const mdnn_ranges_t *ranges)
{
    uint64_t step = ranges->steps;
    while (step > ranges->top && ranges->at[step - 1])
        step--;
    return step > ranges->end ? step - 1 : UINT64_MAX;
}

/* The first block of the slab at that step, or the last, if it is a slab of that kind. */
static mdnn_block_t *neighbour(const mdnn_ranges_t *ranges, uint64_t step, unsigned kind,
                               bool first)
{
    const mdnn_range_t *const range =
        step >= ranges->top && step < ranges->steps ? ranges->at[step] : NULL;
    if (!range || range->slab->kind != kind)
        return NULL;
    return last_start(range->slab, first ? 0 : ranges->config.chunk_bytes / MDNN_GRANULE - 1);
}

mdnn_status_t mdnn_slab_make(mdnn_ranges_t *ranges, unsigned kind)
{
    MDNN_TRY(mdnn_free_runs_gather(ranges, 1));
    const uint64_t step = bare_step(ranges); /* a slab may have ended */
    if (step == UINT64_MAX)
        return MDNN_STATUS_OVERFLOW;
    const uint64_t chunk = ranges->spare[ranges->counts.chunks_spare - 1];
    mdnn_block_t *const whole = calloc(1, sizeof *whole);
    mdnn_range_t *const range = whole ? new_slab(ranges, step, kind, whole) : NULL;
    const mdnn_status_t status = range ? ranges->device.map(ranges->context, whole->address, chunk)
                                       : MDNN_STATUS_OUT_OF_MEMORY;
    if (status != MDNN_STATUS_OK) {
        if (range)
            mdnn_range_free(range);
        free(whole);
        return status;
    }
    range->chunks[0] = chunk;
    ranges->counts.mapped++;
    ranges->counts.chunks_spare--;
    tie(neighbour(ranges, step - 1, kind, false), whole);
    tie(whole, neighbour(ranges, step + 1, kind, true));
    ranges->at[step] = range;
    if (ranges->top > step)
        ranges->top = step;
    note_start(ranges, whole);
    mdnn_run_add(&ranges->slab_runs[kind], whole);
    mdnn_free_runs_link(ranges, range);
    return MDNN_STATUS_OK;
}

/* Of an empty slab, whose first block starts where it does: that, and the one behind its last. */
static mdnn_block_t *first_block(const mdnn_range_t *range)
{
    return range->slab->starting[0];
}

static bool is_in(const mdnn_ranges_t *ranges, const mdnn_range_t *range, const mdnn_block_t *block)
{
    return block && mdnn_slab_at(ranges, block->address) == range;
}

bool mdnn_slab_done(mdnn_ranges_t *ranges, const mdnn_range_t *range)
{
    for (mdnn_block_t *block = first_block(range); is_in(ranges, range, block);
         block = block->after)
        if (!mdnn_users_done(ranges, &block->users))
            return MDNN_FAULT(EMPTY_SLAB_IS_UNMAPPED_IN_USE);
    return true;
}

mdnn_status_t mdnn_slab_note(mdnn_ranges_t *ranges, const mdnn_range_t *range)
{
    for (mdnn_block_t *block = first_block(range); is_in(ranges, range, block);
         block = block->after)
        MDNN_TRY(mdnn_users_note(ranges, &block->users, NULL));
    return MDNN_STATUS_OK;
}

void mdnn_slab_end(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    mdnn_block_t *const first = first_block(range), *last = first, *run = first;
    while (is_in(ranges, range, last->after))
        last = last->after;
    while (mdnn_block_released(run->before))
        run = run->before;
    mdnn_run_leave(&ranges->slab_runs[range->slab->kind], run, first, last);
    tie(first->before, NULL);
    tie(NULL, last->after);
    ranges->at[range->first] = NULL;
    while (ranges->top < ranges->steps && !ranges->at[ranges->top])
        ranges->top++;
    mdnn_range_free(range);
}

void mdnn_slab_count_used(mdnn_ranges_t *ranges, uint64_t start, uint64_t end, bool used)
{
    while (start < end) {
        mdnn_range_t *const range = mdnn_slab_at(ranges, start);
        const uint64_t slab_end = mdnn_ranges_address(ranges, range->first + 1);
        const uint64_t part = (end < slab_end ? end : slab_end) - start;
        if (used && range->slab->used == 0) {
            mdnn_free_runs_unlink(ranges, range);
            ranges->counts.chunks_live++;
            ranges->counts.chunks_slab++;
        }
        range->slab->used += used ? part : -part;
        if (!used && MDNN_FAULT(SLAB_IN_USE_GOES_BACK))
            range->slab->used = 0;
        if (range->slab->used == 0 && !MDNN_FAULT(EMPTY_SLABS_STAY)) {
            mdnn_free_runs_link(ranges, range);
            ranges->counts.chunks_live--;
            ranges->counts.chunks_slab--;
        }
        start += part;
    }
}

/* ---- blocks ---- */

mdnn_status_t mdnn_block_cut(mdnn_ranges_t *ranges, mdnn_block_t *block, uint64_t address,
                             size_t more, mdnn_block_t **tail)
{
    mdnn_block_t *const made = calloc(1, sizeof *made);
    if (!made || mdnn_users_reserve(&made->users, block->users.count + more) != MDNN_STATUS_OK) {
        free(made);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (!MDNN_FAULT(REST_OF_A_BLOCK_FORGETS_USERS))
        mdnn_users_join(ranges, &made->users, &block->users);
    made->address = address;
    made->room = mdnn_block_end(block) - address;
    made->bytes = block->bytes;
    made->run_first =
        block->run_first; /* if it is the last of a run, as the other was; its first */
    if (mdnn_block_released(made) && !mdnn_block_released(block->after))
        block->run_first->run_last = made; /* knows it */
    block->room = address - block->address;
    tie(made, block->after);
    tie(block, made);
    note_start(ranges, made);
    *tail = made;
    return MDNN_STATUS_OK;
}

void mdnn_block_swallow(mdnn_ranges_t *ranges, mdnn_block_t *block)
{
    mdnn_block_t *const other = block->after;
    forget_start(ranges, other);
    block->room += other->room;
    tie(block, other->after);
    free_block(other);
}

/* Two released blocks of a run become one, if they are in one slab and used alike. */
static void unite(mdnn_ranges_t *ranges, mdnn_block_t *block)
{
    mdnn_block_t *const other = block->after;
    if (!mdnn_block_released(block) || !mdnn_block_released(other) ||
        mdnn_slab_at(ranges, block->address) != mdnn_slab_at(ranges, other->address) ||
        !mdnn_users_merge(ranges, &block->users, &other->users))
        return;
    if (!mdnn_block_released(other->after)) {
        block->run_first = other->run_first;
        block->run_first->run_last = block;
    }
    mdnn_block_swallow(ranges, block);
}

static void release(mdnn_ranges_t *ranges, mdnn_block_t *block)
{
    mdnn_block_t *const before = block->before;
    block->bytes = 0;
    block->owner = NULL;
    mdnn_run_add(&ranges->slab_runs[mdnn_slab_at(ranges, block->address)->slab->kind], block);
    unite(ranges, block);
    if (before)
        unite(ranges, before);
}

mdnn_status_t mdnn_slab_release(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream,
                                const mdnn_stream_point_t *points, size_t point_count)
{
    mdnn_block_t *const block = mdnn_slab_block(ranges, address);
    const uint64_t slab_end = mdnn_ranges_address(ranges, mdnn_slab_at(ranges, address)->first + 1);
    const uint64_t end = mdnn_block_end(block);
    mdnn_block_t *tail = NULL;
    /* Of its two parts, each with room for all users, none is used until both are. */
    if (end > slab_end)
        MDNN_TRY(mdnn_block_cut(ranges, block, slab_end, point_count, &tail));
    const mdnn_status_t status =
        mdnn_users_release(ranges, &block->users, stream, points, point_count);
    if (status != MDNN_STATUS_OK) {
        if (tail)
            mdnn_block_swallow(ranges, block);
        return status;
    }
    mdnn_slab_count_used(ranges, address, end, false);
    if (tail) {
        tail->users.count = 0;
        if (!MDNN_FAULT(END_OF_A_BLOCK_FORGETS_USERS))
            mdnn_users_join(ranges, &tail->users, &block->users);
        release(ranges, tail);
    }
    release(ranges, block);
    return MDNN_STATUS_OK;
}
