/* Requests for blocks.
 *
 * A request gets the end or the beginning of a run of released blocks, or what lies between, where
 * no other stream still works: of the shortest that are long enough, one that lies in slabs that
 * are in use anyway, if there is one. So what lives gathers in few slabs, and the others become
 * empty. An empty one is a kept range: its chunk goes to whoever wants it. What lives longest is
 * often tiny, and would hold many slabs if it lay beside what comes and goes: tiny blocks have
 * slabs of their own kind. */
#include "config/fault.h"
#include "offload/ranges/slabs_internal.h"

#include <limits.h>

enum { TINY_PARTS = 64 }; /* what is tiny: so many in a chunk, or more */

/* Where a request could be served. */
typedef struct place {
    mdnn_block_t *run; /* NULL: nowhere */
    uint64_t start, end;
    unsigned cost;  /* a wait is more than empty slabs */
    unsigned empty; /* slabs */
} place_t;

enum { WAIT_COST = 4 };

typedef struct search {
    uint64_t room, stream;
    place_t best, filled; /* of those without empty slabs */
} search_t;

/* The block of a run around `address`; from its end, or its beginning. */
static mdnn_block_t *block_of(const mdnn_block_t *run, uint64_t address, bool from_end)
{
    mdnn_block_t *block = from_end ? run->run_last : (mdnn_block_t *)(uintptr_t)run;
    while (from_end && block->address > address)
        block = block->before;
    while (!from_end && mdnn_block_end(block) <= address)
        block = block->after;
    return block;
}

static void consider(mdnn_ranges_t *ranges, search_t *search, mdnn_block_t *run, uint64_t start,
                     bool free_for)
{
    place_t place = {.run = run, .start = start, .end = start + search->room};
    const mdnn_range_t *const first = mdnn_slab_at(ranges, place.start);
    const mdnn_range_t *const last = mdnn_slab_at(ranges, place.end - 1);
    place.empty = (unsigned)first->is_free + (last != first && last->is_free);
    place.cost = (free_for ? 0 : WAIT_COST) + place.empty;
    if (!search->best.run || place.cost < search->best.cost)
        search->best = place;
    if (place.empty == 0 && (!search->filled.run || place.cost < search->filled.cost))
        search->filled = place;
}

static void consider_side(mdnn_ranges_t *ranges, search_t *search, mdnn_block_t *run, bool from_end)
{
    const uint64_t run_end = run->address + run->run_bytes;
    const uint64_t start = from_end ? run_end - search->room : run->address;
    bool free_for = true;
    const mdnn_block_t *block = block_of(run, start, from_end);
    for (; free_for && block && block->address < start + search->room; block = block->after)
        free_for = mdnn_users_free_for(ranges, &block->users, search->stream);
    consider(ranges, search, run, start, free_for);
}

/* Between blocks on which others work, if both sides are such; of the first few blocks. */
static void consider_inside(mdnn_ranges_t *ranges, search_t *search, mdnn_block_t *run)
{
    enum { LOOKS = 32 };
    uint64_t start = run->address;
    const mdnn_block_t *block = run;
    for (int looks = 0; looks < LOOKS; looks++, block = block->after) {
        if (!mdnn_users_free_for(ranges, &block->users, search->stream)) {
            start = mdnn_block_end(block);
        } else if (mdnn_block_end(block) - start >= search->room) {
            consider(ranges, search, run, start, true);
            return;
        }
        if (block == run->run_last)
            return;
    }
}

/* The first few runs of bins from `bin` to `last` that are long enough, but all until one fits. */
static void look(mdnn_ranges_t *ranges, unsigned kind, search_t *search, unsigned bin,
                 unsigned last)
{
    enum { LOOKS = 8 };
    const mdnn_slab_runs_t *const runs = &ranges->slab_runs[kind];
    int looks = 0;
    for (bin = mdnn_run_next_bin(runs, bin); bin <= last && bin < MDNN_SLAB_BINS;
         bin = mdnn_run_next_bin(runs, bin + 1))
        for (mdnn_block_t *run = runs->bins[bin]; run; run = run->next_run) {
            if ((++looks > LOOKS && search->filled.run) ||
                (search->best.run && search->best.cost == 0))
                return;
            if (run->run_bytes < search->room)
                continue;
            consider_side(ranges, search, run, true);
            if (search->best.cost > 0)
                consider_side(ranges, search, run, false);
            if (search->best.cost >= WAIT_COST && !MDNN_FAULT(NOTHING_BETWEEN_BLOCKS_IN_USE))
                consider_inside(ranges, search, run);
        }
}

/* Blocks from place->start to its end are one, in use by `stream`, and none of the run any more. */
static mdnn_status_t take(mdnn_ranges_t *ranges, unsigned kind, const place_t *place,
                          uint64_t stream, mdnn_block_t **out)
{
    const bool from_end = place->start != place->run->address;
    mdnn_block_t *first = block_of(place->run, place->start, from_end), *last, *tail;
    if (first->address < place->start)
        MDNN_TRY(mdnn_block_cut(ranges, first, place->start, 0, &first));
    for (last = first; mdnn_block_end(last) < place->end; last = last->after) {
        MDNN_TRY(mdnn_users_reserve(&first->users, last->after->users.count));
        if (!MDNN_FAULT(BLOCK_FORGETS_USERS))
            mdnn_users_join(ranges, &first->users, &last->after->users);
    }
    if (mdnn_block_end(last) > place->end)
        MDNN_TRY(mdnn_block_cut(ranges, last, place->end, 0, &tail));
    MDNN_TRY(mdnn_users_acquire(ranges, &first->users, stream));
    mdnn_run_leave(&ranges->slab_runs[kind], place->run, first, last);
    while (mdnn_block_end(first) < place->end)
        mdnn_block_swallow(ranges, first);
    mdnn_slab_count_used(ranges, place->start, place->end, true);
    *out = first;
    return MDNN_STATUS_OK;
}

static unsigned kind_of(const mdnn_ranges_t *ranges, uint64_t room)
{
    return room <= ranges->config.chunk_bytes / TINY_PARTS && !MDNN_FAULT(TINY_ONES_LIE_ANYWHERE);
}

/* Whether so many slabs may come into use for a block. */
static bool may_be_slabs(const mdnn_ranges_t *ranges, uint64_t room, uint64_t chunks)
{
    return !ranges->device.may_be_slabs || MDNN_FAULT(SLABS_HOLD_ALL) ||
           ranges->device.may_be_slabs(ranges->context, chunks, room);
}

static search_t search_runs(mdnn_ranges_t *ranges, unsigned kind, uint64_t room, uint64_t stream)
{
    search_t search = {.room = room, .stream = stream};
    const unsigned bin = mdnn_run_bin(room);
    look(ranges, kind, &search, bin, bin);
    if (!search.best.run || search.best.cost > 0)
        look(ranges, kind, &search, bin + 1, MDNN_SLAB_BINS);
    return search;
}

/* NOT_FOUND: no run of slabs of that kind is long enough, or one that is may not come into use, or,
 * unless `behind`, others work there. */
static mdnn_status_t acquire(mdnn_ranges_t *ranges, unsigned kind, uint64_t room, uint64_t stream,
                             bool behind, mdnn_block_t **block)
{
    const search_t search = search_runs(ranges, kind, room, stream);
    const unsigned most =
        behind || MDNN_FAULT(BLOCKS_IN_USE_ELSEWHERE_SERVE) ? UINT_MAX : WAIT_COST - 1;
    const place_t *const best = &search.best, *const filled = &search.filled;
    if (best->run && best->cost <= most &&
        (best->empty == 0 || may_be_slabs(ranges, room, best->empty)))
        return take(ranges, kind, best, stream, block);
    return filled->run && filled->cost <= most ? take(ranges, kind, filled, stream, block)
                                               : MDNN_STATUS_NOT_FOUND;
}

/* Where nobody else works; NOT_FOUND, OUT_OF_DEVICE_MEMORY, BUSY: there is no such place. */
static mdnn_status_t acquire_free(mdnn_ranges_t *ranges, unsigned kind, uint64_t room,
                                  uint64_t stream, mdnn_block_t **block)
{
    mdnn_status_t status = acquire(ranges, kind, room, stream, false, block);
    if (status == MDNN_STATUS_NOT_FOUND && may_be_slabs(ranges, room, 1)) {
        status = mdnn_slab_make(ranges, kind);
        if (status == MDNN_STATUS_OK)
            status = acquire(ranges, kind, room, stream, false, block);
    }
    if (status == MDNN_STATUS_NOT_FOUND || status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {
        const mdnn_status_t other = acquire(ranges, !kind, room, stream, false, block);
        status = other == MDNN_STATUS_NOT_FOUND ? status : other;
    }
    return status;
}

static mdnn_status_t acquire_behind(mdnn_ranges_t *ranges, unsigned kind, uint64_t room,
                                    uint64_t stream, mdnn_block_t **block)
{
    const mdnn_status_t status = acquire(ranges, kind, room, stream, true, block);
    return status == MDNN_STATUS_NOT_FOUND ? acquire(ranges, !kind, room, stream, true, block)
                                           : status;
}

static uint64_t next_power(uint64_t bytes)
{
    uint64_t power = MDNN_GRANULE;
    while (power < bytes)
        power *= 2;
    return power;
}

static uint64_t room_of(uint64_t bytes)
{
    if (MDNN_FAULT(BLOCKS_OF_POWERS_OF_TWO))
        return next_power(bytes);
    return (bytes + MDNN_GRANULE - 1) / MDNN_GRANULE * MDNN_GRANULE;
}

mdnn_status_t mdnn_slab_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream, bool behind,
                                uint64_t *address)
{
    const uint64_t room = room_of(bytes);
    const unsigned kind = kind_of(ranges, room);
    mdnn_block_t *block = NULL;
    mdnn_status_t status = acquire_free(ranges, kind, room, stream, &block);
    if (behind && (status == MDNN_STATUS_NOT_FOUND || status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY ||
                   status == MDNN_STATUS_BUSY)) {
        const mdnn_status_t other = acquire_behind(ranges, kind, room, stream, &block);
        status = other == MDNN_STATUS_NOT_FOUND ? status : other;
    }
    MDNN_TRY(status);
    block->bytes = bytes;
    block->owner = NULL;
    *address = block->address;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_slab_blocked(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                mdnn_status_t otherwise)
{
    const uint64_t room = room_of(bytes);
    const unsigned kind = kind_of(ranges, room);
    ranges->wait_count = 0;
    for (unsigned i = 0; i < MDNN_SLAB_KINDS; i++) {
        const search_t search = search_runs(ranges, i == 0 ? kind : !kind, room, stream);
        const place_t *const place = search.filled.run ? &search.filled : &search.best;
        if (!place->run || place->cost < WAIT_COST)
            continue;
        const bool from_end = place->start != place->run->address;
        for (const mdnn_block_t *block = block_of(place->run, place->start, from_end);
             block && block->address < place->end; block = block->after)
            MDNN_TRY(mdnn_users_note_others(ranges, &block->users, stream));
        return MDNN_FAULT(BLOCKS_IN_USE_ARE_REFUSED) ? otherwise : MDNN_STATUS_BUSY;
    }
    return otherwise;
}
