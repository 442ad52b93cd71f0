/* The address space against a model of the device that knows what is mapped and what still runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/ranges/ranges.h"
#include "test/unit/failing_allocator.h"

enum { STEPS = 256, STREAMS = 4, LIVE = 48, PAST = 4096 };
#define CHUNK ((uint64_t)1 << 20)
#define SMALL (CHUNK / 2)
#define BASE ((uint64_t)1 << 40)

typedef struct past {
    uint64_t start, bytes;
    mdnn_stream_point_t point;
    uint64_t freed_in; /* this stream is behind it, anyway */
} past_t;

typedef struct model {
    uint64_t chunk_at[STEPS]; /* 0: nothing is mapped there */
    uint64_t chunks, budget;  /* created, and how many may be */
    uint64_t done[STREAMS];   /* each stream's moments up to this are over */
    uint64_t now;
    past_t past[PAST]; /* what released memory is still used for */
    size_t past_count;
    unsigned fail_at;    /* device call that fails; counts down */
    uint64_t most_slabs; /* chunks */
    mdnn_ranges_t *ranges;
} model_t;

static bool call_fails(model_t *model)
{
    return model->fail_at > 0 && --model->fail_at == 0;
}

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    model_t *const model = context;
    if (model->chunks == model->budget)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    *chunk = ++model->chunks;
    return MDNN_STATUS_OK;
}

static uint64_t step_of(uint64_t address)
{
    assert_true(address >= BASE && address < BASE + STEPS * CHUNK && address % CHUNK == 0);
    return (address - BASE) / CHUNK;
}

static mdnn_status_t map_chunk(void *context, uint64_t address, uint64_t chunk)
{
    model_t *const model = context;
    assert_true(chunk > 0 && chunk <= model->chunks);
    for (uint64_t step = 0; step < STEPS; step++)
        assert_true(model->chunk_at[step] != chunk);
    assert_true(model->chunk_at[step_of(address)] == 0);
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    model->chunk_at[step_of(address)] = chunk;
    return MDNN_STATUS_OK;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    const model_t *const model = context;
    return point.position <= model->done[point.stream];
}

static mdnn_status_t unmap_chunk(void *context, uint64_t address, uint64_t chunk)
{
    model_t *const model = context;
    assert_true(model->chunk_at[step_of(address)] == chunk);
    for (size_t i = 0; i < model->past_count; i++) { /* nothing runs there */
        const past_t *const past = &model->past[i];
        if (past->start < address + CHUNK && address < past->start + past->bytes)
            assert_true(is_done(model, past->point));
    }
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    model->chunk_at[step_of(address)] = 0;
    return MDNN_STATUS_OK;
}

static bool may_be_slabs(void *context, uint64_t chunks)
{
    const model_t *const model = context;
    assert_true(chunks > 0);
    return mdnn_ranges_counts(model->ranges).chunks_slab + chunks <= model->most_slabs;
}

static const mdnn_ranges_device_t device = {create_chunk, map_chunk, unmap_chunk,
                                            is_done,      NULL,      may_be_slabs};

static mdnn_ranges_t *new_ranges(model_t *model, uint64_t budget)
{
    const mdnn_ranges_config_t config = {BASE, STEPS * CHUNK, CHUNK, SMALL, 0};
    *model = (model_t){.budget = budget, .most_slabs = UINT64_MAX};
    assert_int_equal(mdnn_ranges_create(&config, &device, model, &model->ranges), MDNN_STATUS_OK);
    return model->ranges;
}

typedef struct live {
    uint64_t address, bytes, stream;
    uint64_t owned, mapped; /* of a range's chunks; all, unless it was told otherwise */
    bool slab;              /* a block: it has no chunks of its own */
} live_t;

static uint64_t chunks_of(const live_t *live)
{
    return live->slab ? 0 : (live->bytes + CHUNK - 1) / CHUNK;
}

/* What its range or block has: of a block an eighth more than asked for at most, or a granule. */
static uint64_t room_of(const live_t *live)
{
    const uint64_t unit = live->slab ? 512 : CHUNK;
    return (live->bytes + unit - 1) / unit * unit;
}

static void add_past(model_t *model, past_t past)
{
    assert_true(model->past_count < PAST);
    model->past[model->past_count++] = past;
}

/* A point of the stream that acquired memory, and so waited, stands for all before it. */
static void forget_past(model_t *model, const live_t *live)
{
    const uint64_t end = live->address + room_of(live);
    const size_t count = model->past_count;
    static past_t before[PAST];
    memcpy(before, model->past, count * sizeof *before);
    model->past_count = 0;
    for (size_t i = 0; i < count; i++) {
        const past_t past = before[i];
        const uint64_t past_end = past.start + past.bytes;
        if (past_end <= live->address || end <= past.start) {
            add_past(model, past);
            continue;
        }
        if (past.start < live->address)
            add_past(model,
                     (past_t){past.start, live->address - past.start, past.point, past.freed_in});
        if (end < past_end)
            add_past(model, (past_t){end, past_end - end, past.point, past.freed_in});
    }
}

/* Whether the program has put the stream behind that moment. */
static bool is_behind(const model_t *model, uint64_t stream, mdnn_stream_point_t point)
{
    for (size_t i = 0; i < model->past_count; i++) {
        const past_t *const past = &model->past[i];
        if (past->freed_in == stream && past->point.stream == point.stream &&
            past->point.position >= point.position)
            return true;
    }
    return false;
}

/* Everything that still runs on the memory is in its stream, or waited for; unless `behind`, that
 * is nothing but what the stream is behind, anyway. */
static void check_order(const model_t *model, const live_t *live, uint64_t stream, bool behind,
                        const mdnn_acquired_t *got)
{
    for (size_t i = 0; i < model->past_count; i++) {
        const past_t *const past = &model->past[i];
        if (past->start >= live->address + live->bytes ||
            live->address >= past->start + past->bytes || past->point.stream == stream ||
            is_done((void *)(uintptr_t)model, past->point))
            continue;
        assert_true(behind || is_behind(model, stream, past->point));
        bool waited = false;
        for (size_t w = 0; w < got->wait_count; w++)
            waited = waited || (got->waits[w].stream == past->point.stream &&
                                got->waits[w].position >= past->point.position);
        assert_true(waited);
    }
}

static void check_place(const model_t *model, const mdnn_ranges_t *ranges, const live_t *all,
                        const live_t *live)
{
    uint64_t start, bytes;
    assert_int_equal(live->address % (live->slab ? 512 : CHUNK), 0);
    for (uint64_t at = live->address / CHUNK * CHUNK; at < live->address + live->bytes; at += CHUNK)
        assert_true(model->chunk_at[step_of(at)] != 0);
    for (size_t i = 0; i < LIVE; i++)
        assert_true(&all[i] == live || all[i].bytes == 0 ||
                    all[i].address >= live->address + live->bytes ||
                    live->address >= all[i].address + all[i].bytes);
    assert_true(mdnn_ranges_find(ranges, live->address + live->bytes - 1, &start, &bytes));
    assert_true(start == live->address && bytes == live->bytes);
    if (mdnn_ranges_find(ranges, live->address + live->bytes, &start, &bytes))
        assert_true(start != live->address);
}

/* Bytes of live blocks in a step. */
static uint64_t blocks_in(const live_t *all, uint64_t step)
{
    const uint64_t start = BASE + step * CHUNK, end = start + CHUNK;
    uint64_t bytes = 0;
    for (size_t i = 0; i < LIVE; i++) {
        const uint64_t from = all[i].address < start ? start : all[i].address;
        const uint64_t all_end = all[i].address + room_of(&all[i]);
        const uint64_t to = all_end < end ? all_end : end;
        bytes += all[i].slab && from < to ? to - from : 0;
    }
    return bytes;
}

/* Only slabs with a live block count as such: the others' chunks are anybody's. */
static uint64_t slabs_in_use(const mdnn_ranges_t *ranges, const live_t *all)
{
    bool used[STEPS] = {false};
    uint64_t count = 0;
    for (size_t i = 0; i < LIVE; i++)
        if (all[i].slab)
            for (uint64_t at = all[i].address / CHUNK * CHUNK;
                 at < all[i].address + room_of(&all[i]); at += CHUNK)
                used[step_of(at)] = true;
    for (uint64_t step = 0; step < STEPS; step++) {
        assert_true(!used[step] || step >= STEPS - mdnn_ranges_counts(ranges).steps_slab);
        count += used[step];
    }
    return count;
}

static void check_counts(const model_t *model, const mdnn_ranges_t *ranges, const live_t *all)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(ranges);
    uint64_t owned = counts.chunks_slab, hidden = 0;
    assert_int_equal(counts.chunks_slab, slabs_in_use(ranges, all));
    assert_true(counts.chunks_slab <= model->most_slabs);
    for (size_t i = 0; i < LIVE; i++) {
        owned += all[i].owned;
        hidden += all[i].owned - all[i].mapped;
    }
    assert_int_equal(counts.chunks_live, owned);
    assert_int_equal(counts.chunks_hidden, hidden);
    assert_int_equal(counts.created, model->chunks);
    assert_int_equal(counts.chunks_live + counts.chunks_free + counts.chunks_spare, model->chunks);
    assert_int_equal(counts.mapped - counts.unmapped,
                     model->chunks - counts.chunks_spare - counts.chunks_hidden);
}

static void finish(model_t *model, mdnn_stream_point_t point)
{
    if (model->done[point.stream] < point.position)
        model->done[point.stream] = point.position;
}

static bool is_taken(const mdnn_ranges_t *ranges, const live_t *all, uint64_t step)
{
    if (step >= STEPS - mdnn_ranges_counts(ranges).steps_slab)
        return true;
    for (size_t i = 0; i < LIVE; i++)
        if (chunks_of(&all[i]) > 0 && step_of(all[i].address) <= step &&
            step < step_of(all[i].address) + chunks_of(&all[i]))
            return true;
    return false;
}

/* Chunks that a request must have mapped at least: of all places for it, where most are. */
static uint64_t fewest_below(const model_t *model, const mdnn_ranges_t *ranges, const live_t *all,
                             uint64_t count, uint64_t limit)
{
    uint64_t free_steps = 0, mapped = 0, best = UINT64_MAX;
    for (uint64_t step = 0; step < limit; step++) {
        if (is_taken(ranges, all, step)) {
            free_steps = mapped = 0;
            continue;
        }
        mapped += model->chunk_at[step] != 0;
        if (++free_steps > count) {
            mapped -= model->chunk_at[step - count] != 0;
            free_steps--;
        }
        if (free_steps == count && count - mapped < best)
            best = count - mapped;
    }
    return best;
}

/* Near the beginning, unless it fits nowhere there; anywhere, if nothing has to be mapped. */
static uint64_t fewest_mapped(const model_t *model, const mdnn_ranges_t *ranges, const live_t *all,
                              uint64_t count)
{
    uint64_t used = 0;
    const uint64_t anywhere = fewest_below(model, ranges, all, count, STEPS);
    for (uint64_t step = 0; step < STEPS - mdnn_ranges_counts(ranges).steps_slab; step++)
        used += model->chunk_at[step] != 0 || is_taken(ranges, all, step);
    const uint64_t limit = 2 * (used + count) < STEPS ? 2 * (used + count) : STEPS;
    const uint64_t near = fewest_below(model, ranges, all, count, limit);
    return anywhere == 0 || near == UINT64_MAX ? anywhere : near;
}

static bool runs_anywhere(model_t *model)
{
    for (size_t i = 0; i < model->past_count; i++)
        if (!is_done(model, model->past[i].point))
            return true;
    return false;
}

/* In streams that this one is not behind. */
static bool runs_elsewhere(model_t *model, uint64_t stream)
{
    for (size_t i = 0; i < model->past_count; i++)
        if (!is_done(model, model->past[i].point) && model->past[i].point.stream != stream &&
            model->past[i].freed_in != stream)
            return true;
    return false;
}

/* The longest stretch of a slab in use that has no live block. */
static uint64_t longest_gap(const live_t *all)
{
    uint64_t longest = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        const uint64_t end = BASE + (step + 1) * CHUNK;
        uint64_t at = BASE + step * CHUNK;
        if (blocks_in(all, step) == 0)
            continue;
        while (at < end) { /* up to the next live block */
            uint64_t next = end, after = end;
            for (size_t i = 0; i < LIVE; i++) {
                const uint64_t live_end = all[i].address + room_of(&all[i]);
                if (!all[i].slab || live_end <= at || all[i].address >= next)
                    continue;
                next = all[i].address < at ? at : all[i].address;
                after = live_end;
            }
            longest = next - at > longest ? next - at : longest;
            at = after;
        }
    }
    return longest;
}

/* Only if there is not enough, even when all that runs has ended. */
static void check_refusal(const model_t *model, const mdnn_ranges_t *ranges, const live_t *all,
                          uint64_t bytes)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(ranges);
    const uint64_t chunks = (bytes + CHUNK - 1) / CHUNK;
    assert_true(counts.chunks_spare + counts.chunks_free + model->budget - model->chunks < chunks);
    if (bytes <= SMALL)
        assert_true(longest_gap(all) < bytes);
}

/* Nothing that nobody works on would have done. */
static void check_busy(model_t *model, mdnn_ranges_t *ranges, const mdnn_acquired_t *got,
                       uint64_t bytes)
{
    const uint64_t chunks = bytes <= SMALL ? 1 : (bytes + CHUNK - 1) / CHUNK;
    assert_true(mdnn_ranges_idle_chunks(ranges) + model->budget - model->chunks < chunks);
    assert_true(got->address == 0 && got->wait_count > 0);
    for (size_t i = 0; i < got->wait_count; i++)
        finish(model, got->waits[i]);
}

static mdnn_status_t acquire(model_t *model, mdnn_ranges_t *ranges, live_t *all, live_t *live,
                             uint64_t bytes, uint64_t stream)
{
    mdnn_acquired_t got;
    const bool behind = rand() % 2 == 0;
    const uint64_t chunks = bytes <= SMALL ? 0 : (bytes + CHUNK - 1) / CHUNK;
    const uint64_t before = mdnn_ranges_counts(ranges).mapped;
    const uint64_t fewest = fewest_mapped(model, ranges, all, chunks);
    const bool waits =
        runs_elsewhere(model, stream) ||
        (runs_anywhere(model) &&
         mdnn_ranges_counts(ranges).chunks_spare + model->budget - model->chunks < fewest);
    const mdnn_status_t status = behind ? mdnn_ranges_acquire_behind(ranges, bytes, stream, &got)
                                        : mdnn_ranges_acquire(ranges, bytes, stream, &got);
    if (status == MDNN_STATUS_OK && chunks > 0 && !waits)
        assert_int_equal(mdnn_ranges_counts(ranges).mapped - before, fewest);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        check_refusal(model, ranges, all, bytes);
    if (status == MDNN_STATUS_BUSY)
        check_busy(model, ranges, &got, bytes);
    if (status != MDNN_STATUS_OK)
        return status;
    *live = (live_t){.address = got.address, .bytes = bytes, .stream = stream};
    live->slab =
        step_of(got.address / CHUNK * CHUNK) >= STEPS - mdnn_ranges_counts(ranges).steps_slab;
    assert_true(bytes <= SMALL || !live->slab);
    live->owned = live->mapped = chunks_of(live);
    check_order(model, live, stream, behind, &got);
    for (size_t i = 0; i < got.wait_count; i++)
        assert_true(got.waits[i].stream != stream);
    check_place(model, ranges, all, live);
    return status;
}

/* Up to two streams still work on it. */
static mdnn_status_t release(model_t *model, mdnn_ranges_t *ranges, live_t *live, unsigned points)
{
    mdnn_stream_point_t users[2];
    const uint64_t stream = rand() % 2 ? (uint64_t)(rand() % STREAMS) : MDNN_NO_ORDER;
    for (unsigned i = 0; i < points; i++)
        users[i] = (mdnn_stream_point_t){(uint64_t)(rand() % STREAMS), ++model->now};
    const mdnn_status_t status = mdnn_ranges_release(ranges, live->address, stream, users, points);
    if (status != MDNN_STATUS_OK)
        return status;
    for (unsigned i = 0; i < points; i++)
        if (users[i].stream == live->stream)
            forget_past(model, live);
    for (unsigned i = 0; i < points; i++)
        add_past(model, (past_t){live->address, room_of(live), users[i], stream});
    assert_int_equal(mdnn_ranges_release(ranges, live->address, MDNN_NO_ORDER, NULL, 0),
                     MDNN_STATUS_NOT_FOUND);
    *live = (live_t){0};
    return status;
}

static void drop_done(model_t *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->past_count; i++)
        if (!is_done(model, model->past[i].point))
            model->past[kept++] = model->past[i];
    model->past_count = kept;
}

/* Mapped from the first step on, as many as it says, and nothing behind. */
static void check_chunks(const model_t *model, const mdnn_range_t *range, live_t *live)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(range);
    const uint64_t first = step_of(live->address);
    assert_int_equal(chunks.count, chunks_of(live));
    assert_true(chunks.count >= chunks.owned && chunks.owned >= chunks.mapped);
    for (uint64_t i = 0; i < chunks.count; i++)
        assert_int_equal(model->chunk_at[first + i], i < chunks.mapped ? chunks.chunks[i] : 0);
    live->owned = chunks.owned;
    live->mapped = chunks.mapped;
}

static void take(model_t *model, mdnn_ranges_t *ranges, mdnn_range_t *range, const live_t *live,
                 uint64_t upto)
{
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    mdnn_status_t status = mdnn_range_take(ranges, range, upto, &waits, &wait_count);
    if (status == MDNN_STATUS_BUSY) {
        assert_int_equal(mdnn_range_chunks(range).owned, live->owned); /* all or none */
        assert_true(wait_count > 0);
        for (size_t i = 0; i < wait_count; i++)
            finish(model, waits[i]);
        status = mdnn_range_take(ranges, range, upto, &waits, &wait_count);
        assert_int_not_equal(status, MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    }
    assert_int_equal(mdnn_range_chunks(range).owned, status == MDNN_STATUS_OK ? upto : live->owned);
}

static bool runs_on(const model_t *model, const live_t *live)
{
    for (size_t i = 0; i < model->past_count; i++) {
        const past_t *const past = &model->past[i];
        if (past->start < live->address + room_of(live) &&
            live->address < past->start + past->bytes &&
            !is_done((void *)(uintptr_t)model, past->point))
            return true;
    }
    return false;
}

/* What a live range does with its chunks while nothing runs there. */
static void move_chunks(model_t *model, mdnn_ranges_t *ranges, live_t *live)
{
    mdnn_range_t *const range = mdnn_ranges_at(ranges, live->address);
    uint64_t start, bytes;
    assert_true((range == NULL) == (chunks_of(live) == 0));
    if (!range || runs_on(model, live))
        return;
    switch (rand() % 5) {
    case 0:
        assert_true((mdnn_range_hide(ranges, range, 0) != MDNN_STATUS_OK) ==
                    (mdnn_range_chunks(range).mapped > 0));
        break;
    case 1:
        if (live->mapped < live->owned)
            mdnn_range_show(ranges, range, live->mapped + 1);
        break;
    case 2:
        mdnn_range_give(ranges, range,
                        live->mapped + (uint64_t)rand() % (live->owned - live->mapped + 1));
        break;
    case 3:
        take(model, ranges, range, live,
             live->owned + (uint64_t)rand() % (chunks_of(live) - live->owned + 1));
        break;
    default:
        if (live->mapped > 0)
            break;
        mdnn_range_drop(ranges, range);
        assert_false(mdnn_ranges_find(ranges, live->address, &start, &bytes));
        *live = (live_t){0};
        return;
    }
    check_chunks(model, range, live);
    assert_true(mdnn_ranges_find(ranges, live->address, &start, &bytes));
    assert_true(start == live->address && bytes == live->bytes);
}

static void check_owner(mdnn_ranges_t *ranges, live_t *live)
{
    assert_null(mdnn_ranges_owner(ranges, live->address));
    mdnn_ranges_set_owner(ranges, live->address, live);
    assert_ptr_equal(mdnn_ranges_owner(ranges, live->address + live->bytes - 1), live);
}

static uint64_t random_bytes(void)
{
    const uint64_t any = (uint64_t)rand() % (6 * CHUNK) + 1;
    switch (rand() % 6) {
    case 0:
        return any % (CHUNK / 64) + 1;
    case 1:
        return any % (CHUNK / 8) + 1;
    case 2:
        return any % SMALL + 1;
    default:
        return any;
    }
}

static void step(model_t *model, mdnn_ranges_t *ranges, live_t *all)
{
    live_t *const live = &all[rand() % LIVE];
    if (live->bytes > 0 && (rand() % 2 || live->mapped < chunks_of(live))) {
        if (live->mapped < chunks_of(live))
            assert_int_equal(mdnn_ranges_release(ranges, live->address, MDNN_NO_ORDER, NULL, 0),
                             MDNN_STATUS_INVALID_ARGUMENT);
        move_chunks(model, ranges, live);
    } else if (live->bytes > 0) {
        assert_ptr_equal(mdnn_ranges_owner(ranges, live->address), live);
        release(model, ranges, live, (unsigned)rand() % 3);
    } else {
        const uint64_t bytes = random_bytes(), stream = (uint64_t)rand() % STREAMS;
        if (acquire(model, ranges, all, live, bytes, stream) == MDNN_STATUS_BUSY)
            assert_int_not_equal(acquire(model, ranges, all, live, bytes, stream),
                                 MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        if (live->bytes > 0)
            check_owner(ranges, live);
    }
    if (rand() % 4 == 0)
        finish(model, (mdnn_stream_point_t){(uint64_t)(rand() % STREAMS), model->now});
    drop_done(model);
    check_counts(model, ranges, all);
}

static void random_programs_keep_order_and_budget(void **state)
{
    (void)state;
    static model_t model;
    const long before = live_allocations;
    for (unsigned seed = 0; seed < 80; seed++) {
        srand(seed);
        mdnn_ranges_t *const ranges = new_ranges(&model, 8 + (uint64_t)rand() % 80);
        if (rand() % 2)
            model.most_slabs = (uint64_t)rand() % 8;
        live_t all[LIVE] = {{0}};
        for (int i = 0; i < 3000; i++)
            step(&model, ranges, all);
        mdnn_ranges_destroy(ranges);
    }
    assert_int_equal(live_allocations, before);
}

static void random_failures_lose_nothing(void **state)
{
    (void)state;
    static model_t model;
    const long before = live_allocations;
    for (unsigned seed = 0; seed < 40; seed++) {
        srand(seed);
        mdnn_ranges_t *const ranges = new_ranges(&model, 40);
        live_t all[LIVE] = {{0}};
        for (int i = 0; i < 1500; i++) {
            model.fail_at = rand() % 3 ? 0 : (unsigned)rand() % 6;
            fail_allocation_at = rand() % 3 ? 0 : rand() % 4;
            step(&model, ranges, all);
            fail_allocation_at = 0;
        }
        mdnn_ranges_destroy(ranges);
    }
    assert_int_equal(live_allocations, before);
}

/* What is extended behind its end does not wander off. */
static void addresses_stay_together(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 16);
    uint64_t held = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        mdnn_acquired_t got;
        assert_int_equal(mdnn_ranges_acquire(ranges, (4 + i % 5) * CHUNK, 0, &got), MDNN_STATUS_OK);
        assert_true(step_of(got.address) < 64);
        if (held)
            assert_int_equal(mdnn_ranges_release(ranges, held, MDNN_NO_ORDER, NULL, 0),
                             MDNN_STATUS_OK);
        held = got.address;
    }
    mdnn_ranges_destroy(ranges);
}

/* As a training program repeats itself. */
static void a_repeated_program_calls_nothing(void **state)
{
    (void)state;
    static model_t model;
    static const uint64_t sizes[] = {3 * CHUNK, 512,           CHUNK + 1, 5 * CHUNK,
                                     70000,     3 * CHUNK - 5, 40};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    mdnn_ranges_t *const ranges = new_ranges(&model, 64);
    mdnn_ranges_counts_t warm = {0};
    live_t all[LIVE] = {{0}};
    for (int iteration = 0; iteration < 20; iteration++) {
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(acquire(&model, ranges, all, &all[i], sizes[i], 0), MDNN_STATUS_OK);
        for (int i = COUNT; i-- > 0;) {
            const mdnn_stream_point_t point = {0, ++model.now};
            assert_int_equal(mdnn_ranges_release(ranges, all[i].address, MDNN_NO_ORDER, &point, 1),
                             MDNN_STATUS_OK);
            all[i] = (live_t){0};
        }
        const mdnn_ranges_counts_t now = mdnn_ranges_counts(ranges);
        if (iteration == 0)
            warm = now;
        assert_true(now.created == warm.created && now.mapped == warm.mapped && now.unmapped == 0);
        assert_int_equal(now.live_bytes, 0);
    }
    mdnn_ranges_destroy(ranges);
}

static uint64_t get(mdnn_ranges_t *ranges, uint64_t chunks, uint64_t stream, size_t waits)
{
    mdnn_acquired_t got;
    assert_int_equal(mdnn_ranges_acquire_behind(ranges, chunks * CHUNK, stream, &got),
                     MDNN_STATUS_OK);
    assert_int_equal(got.wait_count, waits);
    return got.address;
}

static void give(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream, uint64_t position)
{
    const mdnn_stream_point_t point = {stream, position};
    assert_int_equal(mdnn_ranges_release(ranges, address, MDNN_NO_ORDER, &point, 1),
                     MDNN_STATUS_OK);
}

static void parts_and_neighbours_serve_requests_as_they_are(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 8);
    const uint64_t large = get(ranges, 8, 0, 0);
    give(ranges, large, 1, 5);
    const uint64_t part = get(ranges, 3, 0, 1); /* the rest is used in stream 1 until 5, too */
    const uint64_t rest = get(ranges, 5, 0, 1);
    assert_true(part == large && rest == part + 3 * CHUNK);
    give(ranges, part, 0, 6);
    give(ranges, rest, 2, 7);
    assert_int_equal(get(ranges, 2, 0, 0), part); /* nothing of the neighbour's */
    give(ranges, part, 0, 8);
    model.done[1] = 5;
    assert_int_equal(get(ranges, 8, 3, 2), large); /* 0 until 8, 2 until 7 */
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(ranges);
    assert_true(counts.mapped == 8 && counts.unmapped == 0 && counts.created == 8);
    mdnn_ranges_destroy(ranges);
}

/* As long as there is anything else; then the host is told for whom it would have to wait. */
static void what_others_work_on_is_nobodys(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 8);
    mdnn_acquired_t got;
    const uint64_t first = get(ranges, 3, 0, 0), second = get(ranges, 2, 0, 0);
    give(ranges, first, 1, 5);
    const uint64_t third = get(ranges, 3, 2, 0); /* new chunks */
    assert_true(third != first && model.chunks == 8);
    give(ranges, second, 0, 6);
    model.done[0] = 6;
    assert_int_equal(get(ranges, 2, 2, 0), second); /* what is over */
    assert_int_equal(mdnn_ranges_acquire(ranges, 3 * CHUNK, 2, &got), MDNN_STATUS_BUSY);
    assert_true(got.wait_count == 1 && got.waits[0].stream == 1 && got.waits[0].position == 5);
    const uint64_t again = get(ranges, 3, 2, 1); /* there is nothing else */
    const mdnn_stream_point_t points[] = {{1, 5}, {2, 7}};
    assert_int_equal(again, first);
    assert_int_equal(mdnn_ranges_release(ranges, first, 3, points, 2), MDNN_STATUS_OK);
    assert_int_equal(mdnn_ranges_acquire(ranges, 3 * CHUNK, 0, &got), MDNN_STATUS_BUSY);
    assert_int_equal(mdnn_ranges_acquire(ranges, 3 * CHUNK, 3, &got), MDNN_STATUS_OK);
    assert_int_equal(got.address, first); /* the program has put 3 behind both */
    mdnn_ranges_destroy(ranges);
}

static void the_shortest_that_is_long_enough_is_taken(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 28);
    uint64_t address[5], apart[5];
    static const uint64_t chunks[] = {7, 3, 5, 4, 4};
    for (int i = 0; i < 5; i++) {
        address[i] = get(ranges, chunks[i], 0, 0);
        apart[i] = get(ranges, 1, 0, 0);
    }
    for (int i = 0; i < 5; i++)
        give(ranges, address[i], i == 4 ? 1 : 0, 9);
    assert_int_equal(get(ranges, 4, 0, 0), address[3]);
    assert_int_equal(get(ranges, 4, 0, 0), address[2]); /* longer, but without a wait */
    give(ranges, apart[0], 0, 10);
    assert_int_equal(get(ranges, 9, 0, 0), address[0]); /* 7 + 1 + 3 */
    assert_int_equal(get(ranges, 4, 0, 1), address[4]); /* there is no other */
    assert_int_equal(mdnn_ranges_counts(ranges).mapped, 28);
    mdnn_ranges_destroy(ranges);
}

static void where_memory_is_short_what_was_released_last_is_used_first(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 8);
    const uint64_t first = get(ranges, 4, 0, 0), second = get(ranges, 4, 0, 0);
    give(ranges, first, 0, 1);
    give(ranges, second, 0, 2);
    assert_int_equal(get(ranges, 2, 0, 0), first);
    give(ranges, first, 0, 3);
    mdnn_range_t *const range = mdnn_ranges_at(ranges, get(ranges, 2, 0, 0));
    assert_int_equal(mdnn_range_hide(ranges, range, 0), MDNN_STATUS_OK);
    mdnn_range_drop(ranges, range); /* from now on it is short */
    assert_int_equal(get(ranges, 3, 0, 0), second + CHUNK);
    mdnn_ranges_destroy(ranges);
}

static void what_is_too_short_is_extended(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 7);
    const uint64_t first = get(ranges, 4, 0, 0);
    give(ranges, first, 1, 7); /* still in use: its mapping must stay */
    assert_int_equal(get(ranges, 6, 0, 1), first);
    mdnn_ranges_counts_t counts = mdnn_ranges_counts(ranges);
    assert_true(counts.mapped == 6 && counts.unmapped == 0);
    assert_int_equal(get(ranges, 1, 0, 0), first + 6 * CHUNK);
    give(ranges, first, 1, 8);
    const uint64_t apart = get(ranges, 2, 0, 1), last = get(ranges, 4, 0, 1);
    assert_true(apart == first && last == first + 2 * CHUNK);
    give(ranges, last, 0, 9);
    mdnn_range_t *const range = mdnn_ranges_at(ranges, apart);
    model.done[1] = 8;
    assert_int_equal(mdnn_range_hide(ranges, range, 0), MDNN_STATUS_OK);
    mdnn_range_drop(ranges, range); /* steps without chunks before what is kept */
    assert_int_equal(get(ranges, 5, 0, 0), last - CHUNK);
    counts = mdnn_ranges_counts(ranges);
    assert_true(counts.mapped == 8 && counts.unmapped == 2 && counts.created == 7);
    mdnn_ranges_destroy(ranges);
}

static void gaps_between_what_is_kept_are_filled(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 8);
    const uint64_t first = get(ranges, 3, 0, 0), gap = get(ranges, 2, 0, 0),
                   last = get(ranges, 3, 0, 0);
    give(ranges, first, 1, 3);
    give(ranges, last, 2, 4);
    mdnn_range_t *const range = mdnn_ranges_at(ranges, gap);
    assert_int_equal(mdnn_range_hide(ranges, range, 0), MDNN_STATUS_OK);
    mdnn_range_drop(ranges, range);
    assert_int_equal(get(ranges, 8, 0, 2), first);
    assert_int_equal(mdnn_ranges_counts(ranges).mapped, 10);
    mdnn_ranges_destroy(ranges);
}

static void chunks_move_when_their_work_is_done(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 6);
    mdnn_acquired_t got;
    const uint64_t first = get(ranges, 4, 0, 0);
    get(ranges, 1, 0, 0); /* so that there is no room behind the first */
    give(ranges, first, 1, 7);
    assert_int_equal(mdnn_ranges_acquire(ranges, 5 * CHUNK, 0, &got), MDNN_STATUS_BUSY);
    assert_true(got.wait_count == 1 && got.waits[0].stream == 1 && got.waits[0].position == 7);
    assert_int_equal(mdnn_ranges_acquire(ranges, 6 * CHUNK, 0, &got),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(get(ranges, 4, 0, 1), first); /* as it is, after the wait */
    give(ranges, first, 1, 7);
    model.done[1] = 7;
    assert_true(get(ranges, 5, 0, 0) > first);
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(ranges);
    assert_true(counts.created == 6 && counts.unmapped == 4 && counts.chunks_free == 0);
    mdnn_ranges_destroy(ranges);
}

/* A kernel that is given the end of one buffer must not name another by it. */
static void the_end_of_a_large_allocation_is_nobodys(void **state)
{
    (void)state;
    enum { LARGE = 4 };
    static model_t model;
    const mdnn_ranges_config_t config = {
        .start = BASE, .bytes = STEPS * CHUNK, .chunk_bytes = CHUNK, .ended_chunks = LARGE};
    mdnn_ranges_t *ranges = new_ranges(&model, 1000);
    mdnn_ranges_destroy(ranges);
    assert_int_equal(mdnn_ranges_create(&config, &device, &model, &ranges), MDNN_STATUS_OK);
    for (uint64_t chunks = LARGE - 1; chunks <= LARGE + 1; chunks++) {
        mdnn_acquired_t first, second;
        uint64_t start, bytes;
        assert_int_equal(mdnn_ranges_acquire(ranges, chunks * CHUNK, 0, &first), MDNN_STATUS_OK);
        const uint64_t address = first.address;
        assert_int_equal(mdnn_ranges_acquire(ranges, CHUNK, 0, &second), MDNN_STATUS_OK);
        assert_true(mdnn_ranges_find(ranges, address, &start, &bytes));
        assert_true(bytes == chunks * CHUNK);
        assert_int_equal(mdnn_ranges_find(ranges, address + bytes, &start, &bytes), chunks < LARGE);
    }
    mdnn_ranges_destroy(ranges);
}

/* Addresses without chunks: in the first stretch that is long enough and nobody's. */
static void addresses_alone_take_no_chunk(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *const ranges = new_ranges(&model, 8);
    const uint64_t first = get(ranges, 2, 0, 0), second = get(ranges, 3, 0, 0);
    const mdnn_ranges_counts_t before = mdnn_ranges_counts(ranges);
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    uint64_t bare, start, bytes;
    give(ranges, first, 0, 1); /* its steps are kept, and so taken */
    assert_int_equal(mdnn_ranges_reserve(ranges, 6 * CHUNK - 5, &bare), MDNN_STATUS_OK);
    assert_true(bare >= second + 3 * CHUNK);
    assert_int_equal(mdnn_ranges_counts(ranges).created, before.created);
    assert_int_equal(mdnn_ranges_counts(ranges).mapped, before.mapped);
    assert_int_equal(mdnn_ranges_counts(ranges).live_bytes, 3 * CHUNK + 6 * CHUNK - 5);
    assert_true(mdnn_ranges_find(ranges, bare + 5 * CHUNK, &start, &bytes));
    assert_true(start == bare && bytes == 6 * CHUNK - 5);
    mdnn_range_t *const range = mdnn_ranges_at(ranges, bare);
    assert_int_equal(mdnn_range_chunks(range).count, 6);
    assert_int_equal(mdnn_range_chunks(range).owned, 0);
    assert_int_equal(mdnn_range_take(ranges, range, 6, &waits, &wait_count),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    give(ranges, second, 0, 1);
    model.done[0] = 1;
    assert_int_equal(mdnn_range_take(ranges, range, 6, &waits, &wait_count), MDNN_STATUS_OK);
    assert_int_equal(mdnn_range_show(ranges, range, 6), MDNN_STATUS_OK);
    assert_int_equal(mdnn_ranges_release(ranges, bare, MDNN_NO_ORDER, NULL, 0), MDNN_STATUS_OK);
    uint64_t none;
    assert_int_equal(mdnn_ranges_reserve(ranges, STEPS * CHUNK, &none), MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_ranges_reserve(ranges, 2 * CHUNK, &none), MDNN_STATUS_OK);
    mdnn_range_drop(ranges, mdnn_ranges_at(ranges, none));
    assert_false(mdnn_ranges_find(ranges, none, &start, &bytes));
    assert_int_equal(mdnn_ranges_counts(ranges).live_bytes, 0);
    mdnn_ranges_destroy(ranges);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    static model_t model;
    mdnn_ranges_t *ranges = NULL;
    mdnn_acquired_t got;
    uint64_t start, bytes;
    static const mdnn_ranges_config_t wrong[] = {
        {BASE, STEPS * CHUNK, CHUNK + 1, 0, 0}, {BASE + 1, STEPS * CHUNK, CHUNK, 0, 0},
        {BASE, STEPS * CHUNK - 1, CHUNK, 0, 0}, {BASE, 0, CHUNK, 0, 0},
        {BASE, STEPS * CHUNK, CHUNK, CHUNK, 0}, {BASE, STEPS * CHUNK, 256, 0, 0},
        {0, STEPS * CHUNK, CHUNK, 0, 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(mdnn_ranges_create(&wrong[i], &device, &model, &ranges),
                         MDNN_STATUS_INVALID_ARGUMENT);
    assert_null(ranges);
    mdnn_ranges_destroy(NULL);
    ranges = new_ranges(&model, 1000);
    assert_int_equal(mdnn_ranges_acquire(ranges, 0, 0, &got), MDNN_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mdnn_ranges_acquire(ranges, UINT64_MAX, 0, &got), MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_ranges_acquire(ranges, STEPS * CHUNK, 0, &got), MDNN_STATUS_OK);
    assert_int_equal(mdnn_ranges_acquire(ranges, CHUNK, 0, &got), MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_ranges_release(ranges, BASE + CHUNK, MDNN_NO_ORDER, NULL, 0),
                     MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_ranges_release(ranges, 5, MDNN_NO_ORDER, NULL, 0), MDNN_STATUS_NOT_FOUND);
    assert_false(mdnn_ranges_find(ranges, BASE - 1, &start, &bytes));
    assert_false(mdnn_ranges_find(ranges, BASE + STEPS * CHUNK, &start, &bytes));
    mdnn_ranges_destroy(ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_keep_order_and_budget),
        cmocka_unit_test(random_failures_lose_nothing),
        cmocka_unit_test(addresses_stay_together),
        cmocka_unit_test(a_repeated_program_calls_nothing),
        cmocka_unit_test(parts_and_neighbours_serve_requests_as_they_are),
        cmocka_unit_test(what_others_work_on_is_nobodys),
        cmocka_unit_test(the_shortest_that_is_long_enough_is_taken),
        cmocka_unit_test(where_memory_is_short_what_was_released_last_is_used_first),
        cmocka_unit_test(what_is_too_short_is_extended),
        cmocka_unit_test(gaps_between_what_is_kept_are_filled),
        cmocka_unit_test(chunks_move_when_their_work_is_done),
        cmocka_unit_test(the_end_of_a_large_allocation_is_nobodys),
        cmocka_unit_test(addresses_alone_take_no_chunk),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
