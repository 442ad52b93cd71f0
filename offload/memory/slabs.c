/* Slabs: memory for small requests, at the end of the reservation. Slabs that are neighbours serve
 * requests together: a block may reach from one into the next, so that no chunk has an end that is
 * too short for anything.
 *
 * A request gets the end or the beginning of a run of released blocks, or what lies between, where
 * no other stream still works: of the shortest that are long enough, one that lies in slabs that
 * are in use anyway, if there is one. So what lives gathers in few slabs, and the others become
 * empty. An empty one is a kept range: its chunk goes to whoever wants it. What lives longest is
 * often tiny, and would hold many slabs if it lay beside what comes and goes: tiny blocks have
 * slabs of their own kind.
 *
 * Released blocks become one again with a neighbour in their slab where that orders nobody behind
 * work that he need not wait for: if the same streams, or none, work there still. */
#include "offload/memory/slabs_internal.h"

#include <limits.h>
#include <stdlib.h>

enum { TINY_PARTS = 64 }; /* what is tiny: so many in a chunk, or more */

/* ---- where blocks start ---- */

static mdnn_range_t *slab_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    return ranges->at[(address - ranges->config.start) / ranges->config.chunk_bytes];
}

static uint64_t granule_of(const mdnn_ranges_t *ranges, uint64_t address)
{
    return address % ranges->config.chunk_bytes / MDNN_GRANULE;
}

static void note_start(mdnn_ranges_t *ranges, mdnn_block_t *block)
{
    const uint64_t granule = granule_of(ranges, block->address);
    mdnn_slab_t *const slab = slab_at(ranges, block->address)->slab;
    slab->starting[granule] = block;
    slab->starts[granule / 64] |= (uint64_t)1 << granule % 64;
    slab->some[granule / 4096] |= (uint64_t)1 << granule / 64 % 64;
}

static void forget_start(mdnn_ranges_t *ranges, const mdnn_block_t *block)
{
    const uint64_t granule = granule_of(ranges, block->address), word = granule / 64;
    mdnn_slab_t *const slab = slab_at(ranges, block->address)->slab;
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
    const mdnn_range_t *const range = slab_at(ranges, address);
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

static uint64_t end_of(const mdnn_block_t *block)
{
    return block->address + block->room;
}

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

/* One slab more, where nothing is enqueued any more, or all blocks would inherit the waits. */
static mdnn_status_t make_slab(mdnn_ranges_t *ranges, unsigned kind)
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
    return block && slab_at(ranges, block->address) == range;
}

bool mdnn_slab_done(mdnn_ranges_t *ranges, const mdnn_range_t *range)
{
    for (mdnn_block_t *block = first_block(range); is_in(ranges, range, block);
         block = block->after)
        if (!mdnn_users_done(ranges, &block->users))
            return false;
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

/* Blocks take those bytes from now on, or no more. A slab is kept while it is empty. */
static void count_used(mdnn_ranges_t *ranges, uint64_t start, uint64_t end, bool used)
{
    while (start < end) {
        mdnn_range_t *const range = slab_at(ranges, start);
        const uint64_t slab_end = mdnn_ranges_address(ranges, range->first + 1);
        const uint64_t part = (end < slab_end ? end : slab_end) - start;
        if (used && range->slab->used == 0) {
            mdnn_free_runs_unlink(ranges, range);
            ranges->counts.chunks_live++;
            ranges->counts.chunks_slab++;
        }
        range->slab->used += used ? part : -part;
        if (range->slab->used == 0) {
            mdnn_free_runs_link(ranges, range);
            ranges->counts.chunks_live--;
            ranges->counts.chunks_slab--;
        }
        start += part;
    }
}

/* ---- blocks ---- */

/* Released or not, it is two blocks from `address` on, which lies in it: *tail is the other one.
 * Has room for `more` users in it. OUT_OF_MEMORY. */
static mdnn_status_t cut(mdnn_ranges_t *ranges, mdnn_block_t *block, uint64_t address, size_t more,
                         mdnn_block_t **tail)
{
    mdnn_block_t *const made = calloc(1, sizeof *made);
    if (!made || mdnn_users_reserve(&made->users, block->users.count + more) != MDNN_STATUS_OK) {
        free(made);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    mdnn_users_join(ranges, &made->users, &block->users);
    made->address = address;
    made->room = end_of(block) - address;
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

/* The block behind it is a part of it from now on. */
static void swallow(mdnn_ranges_t *ranges, mdnn_block_t *block)
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
        slab_at(ranges, block->address) != slab_at(ranges, other->address) ||
        !mdnn_users_merge(ranges, &block->users, &other->users))
        return;
    if (!mdnn_block_released(other->after)) {
        block->run_first = other->run_first;
        block->run_first->run_last = block;
    }
    swallow(ranges, block);
}

static void release(mdnn_ranges_t *ranges, mdnn_block_t *block)
{
    mdnn_block_t *const before = block->before;
    block->bytes = 0;
    block->owner = NULL;
    mdnn_run_add(&ranges->slab_runs[slab_at(ranges, block->address)->slab->kind], block);
    unite(ranges, block);
    if (before)
        unite(ranges, before);
}

mdnn_status_t mdnn_slab_release(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream,
                                const mdnn_stream_point_t *points, size_t point_count)
{
    mdnn_block_t *const block = mdnn_slab_block(ranges, address);
    const uint64_t slab_end = mdnn_ranges_address(ranges, slab_at(ranges, address)->first + 1);
    const uint64_t end = end_of(block);
    mdnn_block_t *tail = NULL;
    /* Of its two parts, each with room for all users, none is used until both are. */
    if (end > slab_end)
        MDNN_TRY(cut(ranges, block, slab_end, point_count, &tail));
    const mdnn_status_t status =
        mdnn_users_release(ranges, &block->users, stream, points, point_count);
    if (status != MDNN_STATUS_OK) {
        if (tail)
            swallow(ranges, block);
        return status;
    }
    count_used(ranges, address, end, false);
    if (tail) {
        tail->users.count = 0;
        mdnn_users_join(ranges, &tail->users, &block->users);
        release(ranges, tail);
    }
    release(ranges, block);
    return MDNN_STATUS_OK;
}

/* ---- requests ---- */

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
    while (!from_end && end_of(block) <= address)
        block = block->after;
    return block;
}

static void consider(mdnn_ranges_t *ranges, search_t *search, mdnn_block_t *run, uint64_t start,
                     bool free_for)
{
    place_t place = {.run = run, .start = start, .end = start + search->room};
    const mdnn_range_t *const first = slab_at(ranges, place.start);
    const mdnn_range_t *const last = slab_at(ranges, place.end - 1);
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
            start = end_of(block);
        } else if (end_of(block) - start >= search->room) {
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
            if (search->best.cost >= WAIT_COST)
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
        MDNN_TRY(cut(ranges, first, place->start, 0, &first));
    for (last = first; end_of(last) < place->end; last = last->after) {
        MDNN_TRY(mdnn_users_reserve(&first->users, last->after->users.count));
        mdnn_users_join(ranges, &first->users, &last->after->users);
    }
    if (end_of(last) > place->end)
        MDNN_TRY(cut(ranges, last, place->end, 0, &tail));
    MDNN_TRY(mdnn_users_acquire(ranges, &first->users, stream));
    mdnn_run_leave(&ranges->slab_runs[kind], place->run, first, last);
    while (end_of(first) < place->end)
        swallow(ranges, first);
    count_used(ranges, place->start, place->end, true);
    *out = first;
    return MDNN_STATUS_OK;
}

static bool may_be_slabs(const mdnn_ranges_t *ranges, uint64_t chunks)
{
    return !ranges->device.may_be_slabs || ranges->device.may_be_slabs(ranges->context, chunks);
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
    const unsigned most = behind ? UINT_MAX : WAIT_COST - 1;
    const place_t *const best = &search.best, *const filled = &search.filled;
    if (best->run && best->cost <= most && (best->empty == 0 || may_be_slabs(ranges, best->empty)))
        return take(ranges, kind, best, stream, block);
    return filled->run && filled->cost <= most ? take(ranges, kind, filled, stream, block)
                                               : MDNN_STATUS_NOT_FOUND;
}

/* Where nobody else works; NOT_FOUND, OUT_OF_DEVICE_MEMORY, BUSY: there is no such place. */
static mdnn_status_t acquire_free(mdnn_ranges_t *ranges, unsigned kind, uint64_t room,
                                  uint64_t stream, mdnn_block_t **block)
{
    mdnn_status_t status = acquire(ranges, kind, room, stream, false, block);
    if (status == MDNN_STATUS_NOT_FOUND && may_be_slabs(ranges, 1)) {
        status = make_slab(ranges, kind);
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

static uint64_t room_of(uint64_t bytes)
{
    return (bytes + MDNN_GRANULE - 1) / MDNN_GRANULE * MDNN_GRANULE;
}

static unsigned kind_of(const mdnn_ranges_t *ranges, uint64_t room)
{
    return room <= ranges->config.chunk_bytes / TINY_PARTS;
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
        return MDNN_STATUS_BUSY;
    }
    return otherwise;
}
