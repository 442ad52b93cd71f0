/* The address space against a model of the device that knows what is mapped and what still runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/ranges/ranges.h"
#include "test/unit/cases.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/few.h"

enum { STEPS = 256, STREAMS = 4, LIVE = 48, PAST = 4096 };
#define CHUNK ((uint64_t)1 << 20)
#define SMALL (CHUNK / 2)
#define BASE ((uint64_t)1 << 40)

typedef struct past {
    uint64_t start, bytes;
    mdnn_stream_point_t point;
    uint64_t freed_in; /* this stream is behind it, anyway */
} past_t;

typedef struct live {
    uint64_t address, bytes, stream; /* bytes 0: none */
    uint64_t owned, mapped;          /* of a range's chunks; all, unless it was told otherwise */
    bool slab;                       /* a block: it has no chunks of its own */
} live_t;

static struct {
    uint64_t chunk_at[STEPS]; /* 0: nothing is mapped there */
    uint64_t chunks, budget;  /* created, and how many may be */
    uint64_t done[STREAMS];   /* each stream's moments up to this are over */
    uint64_t now;
    past_t past[PAST]; /* what released memory is still used for */
    size_t past_count;
    unsigned fail_at;    /* device call that fails; counts down */
    uint64_t most_slabs; /* chunks */
} model;
static live_t all[LIVE];
static mdnn_ranges_t *ranges;

static bool call_fails(void)
{
    return model.fail_at > 0 && --model.fail_at == 0;
}

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    (void)context;
    if (model.chunks == model.budget)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (call_fails())
        return MDNN_STATUS_DEVICE;
    *chunk = ++model.chunks;
    return MDNN_STATUS_OK;
}

static uint64_t step_of(uint64_t address)
{
    assert_true(address >= BASE && address < BASE + STEPS * CHUNK && address % CHUNK == 0);
    return (address - BASE) / CHUNK;
}

static mdnn_status_t map_chunk(void *context, uint64_t address, uint64_t chunk)
{
    (void)context;
    assert_true(chunk > 0 && chunk <= model.chunks);
    for (uint64_t step = 0; step < STEPS; step++)
        assert_true(model.chunk_at[step] != chunk);
    assert_true(model.chunk_at[step_of(address)] == 0);
    if (call_fails())
        return MDNN_STATUS_DEVICE;
    model.chunk_at[step_of(address)] = chunk;
    return MDNN_STATUS_OK;
}

static bool is_over(mdnn_stream_point_t point)
{
    return point.position <= model.done[point.stream];
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    (void)context;
    return is_over(point);
}

/* Whether something runs on those bytes; with `stream`, only what that is not behind. */
static bool runs(uint64_t start, uint64_t bytes, const uint64_t *stream)
{
    for (size_t i = 0; i < model.past_count; i++) {
        const past_t *const past = &model.past[i];
        const bool before = stream && (past->point.stream == *stream || past->freed_in == *stream);
        if (!is_over(past->point) && !before && past->start < start + bytes &&
            start < past->start + past->bytes)
            return true;
    }
    return false;
}

static mdnn_status_t unmap_chunk(void *context, uint64_t address, uint64_t chunk)
{
    (void)context;
    assert_true(model.chunk_at[step_of(address)] == chunk && !runs(address, CHUNK, NULL));
    if (call_fails())
        return MDNN_STATUS_DEVICE;
    model.chunk_at[step_of(address)] = 0;
    return MDNN_STATUS_OK;
}

static bool may_be_slabs(void *context, uint64_t chunks, uint64_t room)
{
    (void)context;
    assert_true(room > 0 && room <= CHUNK);
    assert_true(chunks > 0);
    return mdnn_ranges_counts(ranges).chunks_slab + chunks <= model.most_slabs;
}

static const mdnn_ranges_device_t device = {create_chunk, map_chunk, unmap_chunk,
                                            is_done,      NULL,      may_be_slabs};

#define ok(call) assert_int_equal(call, MDNN_STATUS_OK)

static void start_ranges(mdnn_ranges_config_t config, uint64_t budget)
{
    memset(&model, 0, sizeof model);
    memset(all, 0, sizeof all);
    model.budget = budget;
    model.most_slabs = UINT64_MAX;
    ok(mdnn_ranges_create(&config, &device, NULL, &ranges));
}

static mdnn_ranges_counts_t counts(void)
{
    return mdnn_ranges_counts(ranges);
}

static void new_ranges(uint64_t budget)
{
    start_ranges((mdnn_ranges_config_t){BASE, STEPS * CHUNK, CHUNK, SMALL, 0}, budget);
}

/* A case with an address space of its own, for so many chunks, which ends with it. */
#define RANGES_CASE(name, budget)                                                                  \
    static void name##_in_it(void);                                                                \
    CASE(name)                                                                                     \
    {                                                                                              \
        new_ranges(budget);                                                                        \
        name##_in_it();                                                                            \
        mdnn_ranges_destroy(ranges);                                                               \
    }                                                                                              \
    static void name##_in_it(void)

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

static void add_past(past_t past)
{
    assert_true(model.past_count < PAST);
    model.past[model.past_count++] = past;
}

/* A point of the stream that acquired memory, and so waited, stands for all before it. */
static void forget_past(const live_t *live)
{
    const uint64_t end = live->address + room_of(live);
    const size_t count = model.past_count;
    static past_t before[PAST];
    memcpy(before, model.past, count * sizeof *before);
    model.past_count = 0;
    for (size_t i = 0; i < count; i++) {
        const past_t past = before[i];
        const uint64_t past_end = past.start + past.bytes;
        if (past_end <= live->address || end <= past.start) {
            add_past(past);
            continue;
        }
        if (past.start < live->address)
            add_past((past_t){past.start, live->address - past.start, past.point, past.freed_in});
        if (end < past_end)
            add_past((past_t){end, past_end - end, past.point, past.freed_in});
    }
}

/* Whether the program has put the stream behind that moment. */
static bool is_behind(uint64_t stream, mdnn_stream_point_t point)
{
    for (size_t i = 0; i < model.past_count; i++)
        if (model.past[i].freed_in == stream && model.past[i].point.stream == point.stream &&
            model.past[i].point.position >= point.position)
            return true;
    return false;
}

/* Everything that still runs on the memory is in its stream, or waited for; unless `behind`, that
 * is nothing but what the stream is behind, anyway. */
static void check_order(const live_t *live, uint64_t stream, bool behind,
                        const mdnn_acquired_t *got)
{
    for (size_t i = 0; i < model.past_count; i++) {
        const past_t *const past = &model.past[i];
        if (past->start >= live->address + live->bytes ||
            live->address >= past->start + past->bytes || past->point.stream == stream ||
            is_over(past->point))
            continue;
        assert_true(behind || is_behind(stream, past->point));
        bool waited = false;
        for (size_t w = 0; w < got->wait_count; w++)
            waited = waited || (got->waits[w].stream == past->point.stream &&
                                got->waits[w].position >= past->point.position);
        assert_true(waited);
    }
}

static void check_place(const live_t *live)
{
    uint64_t start, bytes;
    assert_int_equal(live->address % (live->slab ? 512 : CHUNK), 0);
    for (uint64_t at = live->address / CHUNK * CHUNK; at < live->address + live->bytes; at += CHUNK)
        assert_true(model.chunk_at[step_of(at)] != 0);
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
static uint64_t blocks_in(uint64_t step)
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
static uint64_t slabs_in_use(void)
{
    bool used[STEPS] = {false};
    uint64_t count = 0;
    for (size_t i = 0; i < LIVE; i++)
        if (all[i].slab)
            for (uint64_t at = all[i].address / CHUNK * CHUNK;
                 at < all[i].address + room_of(&all[i]); at += CHUNK)
                used[step_of(at)] = true;
    for (uint64_t step = 0; step < STEPS; step++) {
        assert_true(!used[step] || step >= STEPS - counts().steps_slab);
        count += used[step];
    }
    return count;
}

static void check_counts(void)
{
    uint64_t owned = counts().chunks_slab, hidden = 0;
    assert_int_equal(counts().chunks_slab, slabs_in_use());
    assert_true(counts().chunks_slab <= model.most_slabs);
    for (size_t i = 0; i < LIVE; i++) {
        owned += all[i].owned;
        hidden += all[i].owned - all[i].mapped;
    }
    assert_int_equal(counts().chunks_live, owned);
    assert_int_equal(counts().chunks_hidden, hidden);
    assert_int_equal(counts().created, model.chunks);
    assert_int_equal(counts().chunks_live + counts().chunks_free + counts().chunks_spare,
                     model.chunks);
    assert_int_equal(counts().mapped - counts().unmapped,
                     model.chunks - counts().chunks_spare - counts().chunks_hidden);
}

static void finish(mdnn_stream_point_t point)
{
    if (model.done[point.stream] < point.position)
        model.done[point.stream] = point.position;
}

static bool is_taken(uint64_t step)
{
    if (step >= STEPS - counts().steps_slab)
        return true;
    for (size_t i = 0; i < LIVE; i++)
        if (chunks_of(&all[i]) > 0 && step_of(all[i].address) <= step &&
            step < step_of(all[i].address) + chunks_of(&all[i]))
            return true;
    return false;
}

/* Chunks that a request must have mapped at least: of all places for it, where most are. */
static uint64_t fewest_below(uint64_t count, uint64_t limit)
{
    uint64_t free_steps = 0, mapped = 0, best = UINT64_MAX;
    for (uint64_t step = 0; step < limit; step++) {
        if (is_taken(step)) {
            free_steps = mapped = 0;
            continue;
        }
        mapped += model.chunk_at[step] != 0;
        if (++free_steps > count) {
            mapped -= model.chunk_at[step - count] != 0;
            free_steps--;
        }
        if (free_steps == count && count - mapped < best)
            best = count - mapped;
    }
    return best;
}

/* Near the beginning, unless it fits nowhere there; anywhere, if nothing has to be mapped. */
static uint64_t fewest_mapped(uint64_t count)
{
    uint64_t used = 0;
    const uint64_t anywhere = fewest_below(count, STEPS);
    for (uint64_t step = 0; step < STEPS - counts().steps_slab; step++)
        used += model.chunk_at[step] != 0 || is_taken(step);
    const uint64_t limit = 2 * (used + count) < STEPS ? 2 * (used + count) : STEPS;
    const uint64_t near = fewest_below(count, limit);
    return anywhere == 0 || near == UINT64_MAX ? anywhere : near;
}

/* The longest stretch of a slab in use that has no live block. */
static uint64_t longest_gap(void)
{
    uint64_t longest = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        const uint64_t end = BASE + (step + 1) * CHUNK;
        uint64_t at = BASE + step * CHUNK;
        if (blocks_in(step) == 0)
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
static void check_refusal(uint64_t bytes)
{
    const uint64_t chunks = (bytes + CHUNK - 1) / CHUNK;
    assert_true(counts().chunks_spare + counts().chunks_free + model.budget - model.chunks <
                chunks);
    if (bytes <= SMALL)
        assert_true(longest_gap() < bytes);
}

/* Nothing that nobody works on would have done. */
static void check_busy(const mdnn_acquired_t *got, uint64_t bytes)
{
    const uint64_t chunks = bytes <= SMALL ? 1 : (bytes + CHUNK - 1) / CHUNK;
    assert_true(mdnn_ranges_idle_chunks(ranges) + model.budget - model.chunks < chunks);
    assert_true(got->address == 0 && got->wait_count > 0);
    for (size_t i = 0; i < got->wait_count; i++)
        finish(got->waits[i]);
}

static mdnn_status_t acquire(live_t *live, uint64_t bytes, uint64_t stream)
{
    mdnn_acquired_t got;
    const bool behind = rand() % 2 == 0;
    const uint64_t chunks = bytes <= SMALL ? 0 : (bytes + CHUNK - 1) / CHUNK;
    const uint64_t before = counts().mapped;
    const uint64_t fewest = fewest_mapped(chunks);
    const bool waits =
        runs(0, UINT64_MAX, &stream) ||
        (runs(0, UINT64_MAX, NULL) && counts().chunks_spare + model.budget - model.chunks < fewest);
    const mdnn_status_t status = behind ? mdnn_ranges_acquire_behind(ranges, bytes, stream, &got)
                                        : mdnn_ranges_acquire(ranges, bytes, stream, &got);
    if (status == MDNN_STATUS_OK && chunks > 0 && !waits)
        assert_int_equal(counts().mapped - before, fewest);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        check_refusal(bytes);
    if (status == MDNN_STATUS_BUSY)
        check_busy(&got, bytes);
    if (status != MDNN_STATUS_OK)
        return status;
    *live = (live_t){.address = got.address, .bytes = bytes, .stream = stream};
    live->slab = step_of(got.address / CHUNK * CHUNK) >= STEPS - counts().steps_slab;
    assert_true(bytes <= SMALL || !live->slab);
    live->owned = live->mapped = chunks_of(live);
    check_order(live, stream, behind, &got);
    for (size_t i = 0; i < got.wait_count; i++)
        assert_true(got.waits[i].stream != stream);
    check_place(live);
    return status;
}

/* Up to two streams still work on it. */
static mdnn_status_t release(live_t *live, unsigned points)
{
    mdnn_stream_point_t users[2];
    const uint64_t stream = rand() % 2 ? (uint64_t)(rand() % STREAMS) : MDNN_NO_ORDER;
    for (unsigned i = 0; i < points; i++)
        users[i] = (mdnn_stream_point_t){(uint64_t)(rand() % STREAMS), ++model.now};
    const mdnn_status_t status = mdnn_ranges_release(ranges, live->address, stream, users, points);
    if (status != MDNN_STATUS_OK)
        return status;
    for (unsigned i = 0; i < points; i++)
        if (users[i].stream == live->stream)
            forget_past(live);
    for (unsigned i = 0; i < points; i++)
        add_past((past_t){live->address, room_of(live), users[i], stream});
    assert_int_equal(mdnn_ranges_release(ranges, live->address, MDNN_NO_ORDER, NULL, 0),
                     MDNN_STATUS_NOT_FOUND);
    *live = (live_t){0};
    return status;
}

static void drop_done(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < model.past_count; i++)
        if (!is_over(model.past[i].point))
            model.past[kept++] = model.past[i];
    model.past_count = kept;
}

/* Mapped from the first step on, as many as it says, and nothing behind. */
static void check_chunks(const mdnn_range_t *range, live_t *live)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(range);
    const uint64_t first = step_of(live->address);
    assert_int_equal(chunks.count, chunks_of(live));
    assert_true(chunks.count >= chunks.owned && chunks.owned >= chunks.mapped);
    for (uint64_t i = 0; i < chunks.count; i++)
        assert_int_equal(model.chunk_at[first + i], i < chunks.mapped ? chunks.chunks[i] : 0);
    live->owned = chunks.owned;
    live->mapped = chunks.mapped;
}

static void take(mdnn_range_t *range, const live_t *live, uint64_t upto)
{
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    mdnn_status_t status = mdnn_range_take(ranges, range, upto, &waits, &wait_count);
    if (status == MDNN_STATUS_BUSY) {
        assert_int_equal(mdnn_range_chunks(range).owned, live->owned); /* all or none */
        assert_true(wait_count > 0);
        for (size_t i = 0; i < wait_count; i++)
            finish(waits[i]);
        status = mdnn_range_take(ranges, range, upto, &waits, &wait_count);
        assert_int_not_equal(status, MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    }
    assert_int_equal(mdnn_range_chunks(range).owned, status == MDNN_STATUS_OK ? upto : live->owned);
}

/* What a live range does with its chunks while nothing runs there. */
static void move_chunks(live_t *live)
{
    mdnn_range_t *const range = mdnn_ranges_at(ranges, live->address);
    uint64_t start, bytes;
    assert_true((range == NULL) == (chunks_of(live) == 0));
    if (!range || runs(live->address, room_of(live), NULL))
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
        take(range, live, live->owned + (uint64_t)rand() % (chunks_of(live) - live->owned + 1));
        break;
    default:
        if (live->mapped > 0)
            break;
        mdnn_range_drop(ranges, range);
        assert_false(mdnn_ranges_find(ranges, live->address, &start, &bytes));
        *live = (live_t){0};
        return;
    }
    check_chunks(range, live);
    assert_true(mdnn_ranges_find(ranges, live->address, &start, &bytes));
    assert_true(start == live->address && bytes == live->bytes);
}

static void check_owner(live_t *live)
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

static void step(void)
{
    live_t *const live = &all[rand() % LIVE];
    if (live->bytes > 0 && (rand() % 2 || live->mapped < chunks_of(live))) {
        if (live->mapped < chunks_of(live))
            assert_int_equal(mdnn_ranges_release(ranges, live->address, MDNN_NO_ORDER, NULL, 0),
                             MDNN_STATUS_INVALID_ARGUMENT);
        move_chunks(live);
    } else if (live->bytes > 0) {
        assert_ptr_equal(mdnn_ranges_owner(ranges, live->address), live);
        release(live, (unsigned)rand() % 3);
    } else {
        const uint64_t bytes = random_bytes(), stream = (uint64_t)rand() % STREAMS;
        if (acquire(live, bytes, stream) == MDNN_STATUS_BUSY)
            assert_int_not_equal(acquire(live, bytes, stream), MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        if (live->bytes > 0)
            check_owner(live);
    }
    if (rand() % 4 == 0)
        finish((mdnn_stream_point_t){(uint64_t)(rand() % STREAMS), model.now});
    drop_done();
    check_counts();
}

CASE(random_programs_keep_order_and_budget)
{
    const long before = live_allocations;
    for (unsigned seed = 0; seed < few(8, 80); seed++) {
        srand(seed);
        new_ranges(8 + (uint64_t)rand() % 80);
        if (rand() % 2)
            model.most_slabs = (uint64_t)rand() % 8;
        for (int i = 0; i < 3000; i++)
            step();
        mdnn_ranges_destroy(ranges);
    }
    assert_int_equal(live_allocations, before);
}

CASE(random_failures_lose_nothing)
{
    const long before = live_allocations;
    for (unsigned seed = 0; seed < few(8, 40); seed++) {
        srand(seed);
        new_ranges(40);
        for (int i = 0; i < 1500; i++) {
            model.fail_at = rand() % 3 ? 0 : (unsigned)rand() % 6;
            fail_allocation_at = rand() % 3 ? 0 : rand() % 4;
            step();
            fail_allocation_at = 0;
        }
        mdnn_ranges_destroy(ranges);
    }
    assert_int_equal(live_allocations, before);
}

/* What is extended behind its end does not wander off. */
RANGES_CASE(addresses_stay_together, 16)
{
    uint64_t held = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        mdnn_acquired_t got;
        ok(mdnn_ranges_acquire(ranges, (4 + i % 5) * CHUNK, 0, &got));
        assert_true(step_of(got.address) < 64);
        if (held)
            ok(mdnn_ranges_release(ranges, held, MDNN_NO_ORDER, NULL, 0));
        held = got.address;
    }
}

/* As a training program repeats itself. */
RANGES_CASE(a_repeated_program_calls_nothing, 64)
{
    static const uint64_t sizes[] = {3 * CHUNK, 512,           CHUNK + 1, 5 * CHUNK,
                                     70000,     3 * CHUNK - 5, 40};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    mdnn_ranges_counts_t warm = {0};
    for (int iteration = 0; iteration < 20; iteration++) {
        for (int i = 0; i < COUNT; i++)
            ok(acquire(&all[i], sizes[i], 0));
        for (int i = COUNT; i-- > 0;) {
            const mdnn_stream_point_t point = {0, ++model.now};
            ok(mdnn_ranges_release(ranges, all[i].address, MDNN_NO_ORDER, &point, 1));
            all[i] = (live_t){0};
        }
        const mdnn_ranges_counts_t now = counts();
        if (iteration == 0)
            warm = now;
        assert_true(now.created == warm.created && now.mapped == warm.mapped && now.unmapped == 0);
        assert_int_equal(now.live_bytes, 0);
    }
}

static void drop(uint64_t address)
{
    mdnn_range_t *const range = mdnn_ranges_at(ranges, address);
    ok(mdnn_range_hide(ranges, range, 0));
    mdnn_range_drop(ranges, range);
}

static uint64_t get(uint64_t chunks, uint64_t stream, size_t waits)
{
    mdnn_acquired_t got;
    ok(mdnn_ranges_acquire_behind(ranges, chunks * CHUNK, stream, &got));
    assert_int_equal(got.wait_count, waits);
    return got.address;
}

static void give(uint64_t address, uint64_t stream, uint64_t position)
{
    const mdnn_stream_point_t point = {stream, position};
    ok(mdnn_ranges_release(ranges, address, MDNN_NO_ORDER, &point, 1));
}

RANGES_CASE(parts_and_neighbours_serve_requests_as_they_are, 8)
{
    const uint64_t large = get(8, 0, 0);
    give(large, 1, 5);
    const uint64_t part = get(3, 0, 1); /* the rest is used in stream 1 until 5, too */
    const uint64_t rest = get(5, 0, 1);
    assert_true(part == large && rest == part + 3 * CHUNK);
    give(part, 0, 6);
    give(rest, 2, 7);
    assert_int_equal(get(2, 0, 0), part); /* nothing of the neighbour's */
    give(part, 0, 8);
    model.done[1] = 5;
    assert_int_equal(get(8, 3, 2), large); /* 0 until 8, 2 until 7 */
    assert_true(counts().mapped == 8 && counts().unmapped == 0 && counts().created == 8);
}

/* As long as there is anything else; then the host is told for whom it would have to wait. */
RANGES_CASE(what_others_work_on_is_nobodys, 8)
{
    mdnn_acquired_t got;
    const uint64_t first = get(3, 0, 0), second = get(2, 0, 0);
    give(first, 1, 5);
    const uint64_t third = get(3, 2, 0); /* new chunks */
    assert_true(third != first && model.chunks == 8);
    give(second, 0, 6);
    model.done[0] = 6;
    assert_int_equal(get(2, 2, 0), second); /* what is over */
    assert_int_equal(mdnn_ranges_acquire(ranges, 3 * CHUNK, 2, &got), MDNN_STATUS_BUSY);
    assert_true(got.wait_count == 1 && got.waits[0].stream == 1 && got.waits[0].position == 5);
    const uint64_t again = get(3, 2, 1); /* there is nothing else */
    const mdnn_stream_point_t points[] = {{1, 5}, {2, 7}};
    assert_int_equal(again, first);
    ok(mdnn_ranges_release(ranges, first, 3, points, 2));
    assert_int_equal(mdnn_ranges_acquire(ranges, 3 * CHUNK, 0, &got), MDNN_STATUS_BUSY);
    ok(mdnn_ranges_acquire(ranges, 3 * CHUNK, 3, &got));
    assert_int_equal(got.address, first); /* the program has put 3 behind both */
}

RANGES_CASE(the_shortest_that_is_long_enough_is_taken, 28)
{
    uint64_t address[5], apart[5];
    static const uint64_t chunks[] = {7, 3, 5, 4, 4};
    for (int i = 0; i < 5; i++) {
        address[i] = get(chunks[i], 0, 0);
        apart[i] = get(1, 0, 0);
    }
    for (int i = 0; i < 5; i++)
        give(address[i], i == 4 ? 1 : 0, 9);
    assert_int_equal(get(4, 0, 0), address[3]);
    assert_int_equal(get(4, 0, 0), address[2]); /* longer, but without a wait */
    give(apart[0], 0, 10);
    assert_int_equal(get(9, 0, 0), address[0]); /* 7 + 1 + 3 */
    assert_int_equal(get(4, 0, 1), address[4]); /* there is no other */
    assert_int_equal(counts().mapped, 28);
}

RANGES_CASE(where_memory_is_short_what_was_released_last_is_used_first, 8)
{
    const uint64_t first = get(4, 0, 0), second = get(4, 0, 0);
    give(first, 0, 1);
    give(second, 0, 2);
    assert_int_equal(get(2, 0, 0), first);
    give(first, 0, 3);
    drop(get(2, 0, 0)); /* from now on it is short */
    assert_int_equal(get(3, 0, 0), second + CHUNK);
}

RANGES_CASE(what_is_too_short_is_extended, 7)
{
    const uint64_t first = get(4, 0, 0);
    give(first, 1, 7); /* still in use: its mapping must stay */
    assert_int_equal(get(6, 0, 1), first);
    assert_true(counts().mapped == 6 && counts().unmapped == 0);
    assert_int_equal(get(1, 0, 0), first + 6 * CHUNK);
    give(first, 1, 8);
    const uint64_t apart = get(2, 0, 1), last = get(4, 0, 1);
    assert_true(apart == first && last == first + 2 * CHUNK);
    give(last, 0, 9);
    model.done[1] = 8;
    drop(apart); /* steps without chunks before what is kept */
    assert_int_equal(get(5, 0, 0), last - CHUNK);
    assert_true(counts().mapped == 8 && counts().unmapped == 2 && counts().created == 7);
}

RANGES_CASE(gaps_between_what_is_kept_are_filled, 8)
{
    const uint64_t first = get(3, 0, 0), gap = get(2, 0, 0), last = get(3, 0, 0);
    give(first, 1, 3);
    give(last, 2, 4);
    drop(gap);
    assert_int_equal(get(8, 0, 2), first);
    assert_int_equal(counts().mapped, 10);
}

RANGES_CASE(chunks_move_when_their_work_is_done, 6)
{
    mdnn_acquired_t got;
    const uint64_t first = get(4, 0, 0);
    get(1, 0, 0); /* so that there is no room behind the first */
    give(first, 1, 7);
    assert_int_equal(mdnn_ranges_acquire(ranges, 5 * CHUNK, 0, &got), MDNN_STATUS_BUSY);
    assert_true(got.wait_count == 1 && got.waits[0].stream == 1 && got.waits[0].position == 7);
    assert_int_equal(mdnn_ranges_acquire(ranges, 6 * CHUNK, 0, &got),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(get(4, 0, 1), first); /* as it is, after the wait */
    give(first, 1, 7);
    model.done[1] = 7;
    assert_true(get(5, 0, 0) > first);
    assert_true(counts().created == 6 && counts().unmapped == 4 && counts().chunks_free == 0);
}

/* A thread unmaps it, chunk by chunk; what it leaves is released memory as before. */
RANGES_CASE(what_is_withdrawn_serves_no_request_until_it_is_back, 8)
{
    const uint64_t first = get(3, 0, 0), second = get(4, 0, 0);
    get(1, 0, 0);
    give(first, 1, 7); /* work runs there */
    give(second, 0, 2);
    model.done[0] = 2;
    mdnn_range_t *const withdrawn = mdnn_ranges_withdraw(ranges, 3);
    mdnn_range_t *const rest = mdnn_ranges_withdraw(ranges, 3);
    assert_true(withdrawn && mdnn_range_chunks(withdrawn).mapped == 3);
    assert_true(rest && mdnn_range_chunks(rest).mapped == 1);
    assert_null(mdnn_ranges_withdraw(ranges, 3));
    mdnn_acquired_t got;
    assert_int_equal(mdnn_ranges_acquire(ranges, 2 * CHUNK, 0, &got), MDNN_STATUS_BUSY);
    const mdnn_remap_t remap = mdnn_range_remap(ranges, withdrawn, 0, 64);
    assert_true(!remap.map && remap.count == 3);
    assert_int_equal(unmap_chunk(NULL, remap.address + 2 * CHUNK, remap.chunks[2]), MDNN_STATUS_OK);
    mdnn_range_remapped(ranges, withdrawn, false, 1);
    mdnn_range_give(ranges, withdrawn, 2);
    assert_int_equal(counts().chunks_spare, 1);
    mdnn_ranges_end_withdrawn(ranges, withdrawn);
    mdnn_ranges_end_withdrawn(ranges, rest);
    assert_int_equal(counts().chunks_free, 6);
    assert_int_equal(get(2, 0, 0), remap.address);
    assert_true(counts().mapped == 8 && counts().unmapped == 1);
}

/* A kernel that is given the end of one buffer must not name another by it. */
CASE(the_end_of_a_large_allocation_is_nobodys)
{
    enum { LARGE = 4 };
    const mdnn_ranges_config_t config = {
        .start = BASE, .bytes = STEPS * CHUNK, .chunk_bytes = CHUNK, .ended_chunks = LARGE};
    start_ranges(config, 1000);
    for (uint64_t chunks = LARGE - 1; chunks <= LARGE + 1; chunks++) {
        mdnn_acquired_t first, second;
        uint64_t start, bytes;
        ok(mdnn_ranges_acquire(ranges, chunks * CHUNK, 0, &first));
        const uint64_t address = first.address;
        ok(mdnn_ranges_acquire(ranges, CHUNK, 0, &second));
        assert_true(mdnn_ranges_find(ranges, address, &start, &bytes));
        assert_true(bytes == chunks * CHUNK);
        assert_int_equal(mdnn_ranges_find(ranges, address + bytes, &start, &bytes), chunks < LARGE);
    }
    mdnn_ranges_destroy(ranges);
}

/* Addresses without chunks: in the first stretch that is long enough and nobody's. */
RANGES_CASE(addresses_alone_take_no_chunk, 8)
{
    const uint64_t first = get(2, 0, 0), second = get(3, 0, 0);
    const mdnn_ranges_counts_t before = counts();
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    uint64_t bare, start, bytes;
    give(first, 0, 1); /* its steps are kept, and so taken */
    ok(mdnn_ranges_reserve(ranges, 6 * CHUNK - 5, &bare));
    assert_true(bare >= second + 3 * CHUNK);
    assert_int_equal(counts().created, before.created);
    assert_int_equal(counts().mapped, before.mapped);
    assert_int_equal(counts().live_bytes, 3 * CHUNK + 6 * CHUNK - 5);
    assert_true(mdnn_ranges_find(ranges, bare + 5 * CHUNK, &start, &bytes));
    assert_true(start == bare && bytes == 6 * CHUNK - 5);
    mdnn_range_t *const range = mdnn_ranges_at(ranges, bare);
    assert_int_equal(mdnn_range_chunks(range).count, 6);
    assert_int_equal(mdnn_range_chunks(range).owned, 0);
    assert_int_equal(mdnn_range_take(ranges, range, 6, &waits, &wait_count),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    give(second, 0, 1);
    model.done[0] = 1;
    ok(mdnn_range_take(ranges, range, 6, &waits, &wait_count));
    ok(mdnn_range_show(ranges, range, 6));
    ok(mdnn_ranges_release(ranges, bare, MDNN_NO_ORDER, NULL, 0));
    uint64_t none;
    assert_int_equal(mdnn_ranges_reserve(ranges, STEPS * CHUNK, &none), MDNN_STATUS_OVERFLOW);
    ok(mdnn_ranges_reserve(ranges, 2 * CHUNK, &none));
    mdnn_range_drop(ranges, mdnn_ranges_at(ranges, none));
    assert_false(mdnn_ranges_find(ranges, none, &start, &bytes));
    assert_int_equal(counts().live_bytes, 0);
}

RANGES_CASE(wrong_arguments_are_refused, 1000)
{
    mdnn_ranges_t *none = NULL;
    mdnn_acquired_t got;
    uint64_t start, bytes;
    static const mdnn_ranges_config_t wrong[] = {
        {BASE, STEPS * CHUNK, CHUNK + 1, 0, 0}, {BASE + 1, STEPS * CHUNK, CHUNK, 0, 0},
        {BASE, STEPS * CHUNK - 1, CHUNK, 0, 0}, {BASE, 0, CHUNK, 0, 0},
        {BASE, STEPS * CHUNK, CHUNK, CHUNK, 0}, {BASE, STEPS * CHUNK, 256, 0, 0},
        {0, STEPS * CHUNK, CHUNK, 0, 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(mdnn_ranges_create(&wrong[i], &device, NULL, &none),
                         MDNN_STATUS_INVALID_ARGUMENT);
    assert_null(none);
    mdnn_ranges_destroy(NULL);
    assert_int_equal(mdnn_ranges_acquire(ranges, 0, 0, &got), MDNN_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mdnn_ranges_acquire(ranges, UINT64_MAX, 0, &got), MDNN_STATUS_OVERFLOW);
    ok(mdnn_ranges_acquire(ranges, STEPS * CHUNK, 0, &got));
    assert_int_equal(mdnn_ranges_acquire(ranges, CHUNK, 0, &got), MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_ranges_release(ranges, BASE + CHUNK, MDNN_NO_ORDER, NULL, 0),
                     MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_ranges_release(ranges, 5, MDNN_NO_ORDER, NULL, 0), MDNN_STATUS_NOT_FOUND);
    assert_false(mdnn_ranges_find(ranges, BASE - 1, &start, &bytes));
    assert_false(mdnn_ranges_find(ranges, BASE + STEPS * CHUNK, &start, &bytes));
}

int main(void)
{
    return run_cases("ranges");
}
