/* For the test of offload/memory/memory.h: a device whose streams run late, in random order, as far as
 * their points allow, with the mappings in force when they run; host slots; failures on request.
 * Every word of memory has a content, and each operation knows what it must find. */
#ifndef MDNN_TEST_MEMORY_MODEL_H
#define MDNN_TEST_MEMORY_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/memory/memory.h"
#include "failing_allocator.h"
#include "random.h"

enum {
    MODEL_WORDS = 8, /* in a chunk, one each 512 bytes */
    MODEL_STEPS = 1024,
    MODEL_CHUNKS = 64,
    MODEL_SLOTS = 512,
    MODEL_STREAMS = 4,         /* the program's */
    MODEL_OUT = MODEL_STREAMS, /* the stream of copies out */
    MODEL_IN = MODEL_STREAMS + 1,
    MODEL_MORE = MODEL_STREAMS + 2, /* and on: streams of the program's for single tests */
    MODEL_QUEUES = MODEL_MORE + 8,
    MODEL_QUEUE = 512,
    MODEL_TOUCHES = 8,
    MODEL_REMAPS = 8,
    MODEL_ALLOCATION_WORDS = 6 * MODEL_WORDS,
};
#define MODEL_CHUNK ((uint64_t)MODEL_WORDS * 512)
#define MODEL_BASE ((uint64_t)1 << 40)
#define MODEL_POISON 0xdeadu

/* What an operation does with a stretch of memory when it runs. */
typedef struct touch {
    uint64_t address;
    uint32_t words;
    bool named; /* or pinned: it must be mapped */
    bool slab;  /* stays mapped in VERIFY */
    bool after_write;
    uint32_t before[MODEL_ALLOCATION_WORDS], after[MODEL_ALLOCATION_WORDS]; /* before 0: unknown */
} touch_t;

typedef enum item_kind { ITEM_OPERATION, ITEM_WAIT, ITEM_COPY, ITEM_VALUE } item_kind_t;

typedef struct item {
    item_kind_t kind;
    mdnn_stream_point_t point; /* WAIT; VALUE: until the program's value `stream` is `moment` */
    uint64_t chunk, slot, words;
    bool out;
    uint32_t touch_count;
    touch_t touches[MODEL_TOUCHES];
} item_t;

/* Mappings that change in the background. */
typedef struct model_remap {
    bool open, over;
    mdnn_remap_t remap;
    uint64_t chunks[MDNN_REMAP_CHUNKS], done;
    mdnn_status_t status;
} model_remap_t;

typedef struct model {
    uint64_t random;
    uint64_t chunk_at[MODEL_STEPS];       /* 0: nothing is mapped there */
    uint64_t mapped_at[MODEL_CHUNKS + 1]; /* step + 1 */
    uint64_t slot_at[MODEL_STEPS];        /* HOST; 0: none covers it */
    uint64_t covers_at[MODEL_SLOTS + 1];  /* step + 1 */
    uint32_t chunk_words[MODEL_CHUNKS + 1][MODEL_WORDS];
    bool chunk_there[MODEL_CHUNKS + 1];
    uint64_t chunks, budget;
    uint64_t aside_bytes, budget_bytes; /* of others; for both */
    uint32_t slot_words[MODEL_SLOTS + 1][MODEL_WORDS];
    bool slot_used[MODEL_SLOTS + 1];
    uint64_t slots_used, slot_limit;
    unsigned slot_busy_in; /* 1 in so many calls; 0: never */
    bool slot_busy, slot_ready;
    item_t *queue[MODEL_QUEUES][MODEL_QUEUE];
    uint64_t enqueued[MODEL_QUEUES], done[MODEL_QUEUES];
    unsigned runs_in; /* 1 look at a point in so many finds that something has run; 0: none */
    unsigned fail_in; /* 1 call in so many fails; 0: none */
    double now_us;
    uint64_t calls, fail_at; /* that one call fails; 0: none */
    bool maps_end;           /* after so many more each fails */
    unsigned maps_left;
    bool unmaps_end; /* each fails */
    bool covers_end; /* likewise */
    unsigned covers_left;
    bool remaps_late;   /* mappings change in the background */
    bool remaps_begin;  /* there is always a place for another such change */
    bool remaps_starve; /* the thread gets no time: only who waits changes anything */
    model_remap_t remaps[MODEL_REMAPS];
    uint64_t remapped; /* chunks, in the background */
    uint64_t remaps_begun;
    bool copies_end;   /* each fails */
    unsigned hasty_in; /* 1 wait in so many is given up, where it can; 0: none */
    uint64_t values[MODEL_STREAMS];
    bool verify;
    bool dead;              /* a write found no memory: the real device would work no more */
    bool failed;            /* a call since this was cleared */
    uint64_t faults, right; /* of unnamed touches */
    bool may_block;         /* waits for the program's work end when nothing can run any more */
    uint64_t waits, stream_waits, copies, tokens, tokens_read;
    uint8_t token_state[4096]; /* 1: begun, 2: ended, 3: read */
    uint64_t told[MDNN_MEMORY_EVENT_COUNT];
} model_t;

static uint64_t pick(model_t *model, uint64_t below)
{
    return random_next(&model->random) % below;
}

static bool call_fails(model_t *model)
{
    const bool fails = ++model->calls == model->fail_at ||
                       (model->fail_in > 0 && pick(model, model->fail_in) == 0);
    model->failed = model->failed || fails;
    return fails;
}

static uint64_t model_step(uint64_t address)
{
    assert_true(address >= MODEL_BASE && address < MODEL_BASE + MODEL_STEPS * MODEL_CHUNK);
    return (address - MODEL_BASE) / MODEL_CHUNK;
}

static mdnn_status_t model_create(void *context, uint64_t *chunk)
{
    model_t *const model = context;
    assert_true(model->chunks * MODEL_CHUNK + model->aside_bytes + MODEL_CHUNK <=
                model->budget_bytes); /* I3 */
    if (call_fails(model))
        return pick(model, 2) ? MDNN_STATUS_DEVICE : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    *chunk = 1;
    while (model->chunk_there[*chunk])
        ++*chunk;
    assert_true(*chunk <= MODEL_CHUNKS);
    model->chunk_there[*chunk] = true;
    model->chunks++;
    for (int i = 0; i < MODEL_WORDS; i++)
        model->chunk_words[*chunk][i] = MODEL_POISON;
    return MDNN_STATUS_OK;
}

static mdnn_status_t model_map(void *context, uint64_t address, uint64_t chunk)
{
    model_t *const model = context;
    const uint64_t step = model_step(address);
    assert_true(address % MODEL_CHUNK == 0 && chunk > 0 && model->chunk_there[chunk]);
    assert_true(model->chunk_at[step] == 0 && model->mapped_at[chunk] == 0);
    assert_true(model->slot_at[step] == 0);
    if (call_fails(model) || (model->maps_end && model->maps_left == 0))
        return MDNN_STATUS_DEVICE;
    model->maps_left -= model->maps_end;
    model->chunk_at[step] = chunk;
    model->mapped_at[chunk] = step + 1;
    return MDNN_STATUS_OK;
}

/* Whether an operation that is enqueued and has not run names an address of the step. */
static bool step_in_use(const model_t *model, uint64_t step)
{
    for (int stream = 0; stream < MODEL_STREAMS; stream++)
        for (uint64_t i = model->done[stream]; i < model->enqueued[stream]; i++) {
            const item_t *const item = model->queue[stream][i % MODEL_QUEUE];
            for (uint32_t t = 0; t < item->touch_count; t++) {
                const touch_t *const touch = &item->touches[t];
                if (touch->named && model_step(touch->address) <= step &&
                    step <= model_step(touch->address + ((uint64_t)touch->words - 1) * 512))
                    return true;
            }
        }
    return false;
}

static mdnn_status_t model_unmap(void *context, uint64_t address, uint64_t chunk)
{
    model_t *const model = context;
    const uint64_t step = model_step(address);
    assert_true(model->chunk_at[step] == chunk && chunk != 0);
    assert_false(step_in_use(model, step));
    if (call_fails(model) || model->unmaps_end)
        return MDNN_STATUS_DEVICE;
    model->chunk_at[step] = 0;
    model->mapped_at[chunk] = 0;
    return MDNN_STATUS_OK;
}

/* ---- in the background ---- */

static void remap_one(model_t *model, model_remap_t *each)
{
    const uint64_t count = each->remap.count;
    const uint64_t index = each->remap.map ? each->done : count - 1 - each->done;
    const uint64_t address = each->remap.address + index * MODEL_CHUNK;
    each->status = each->remap.map ? model_map(model, address, each->chunks[index])
                                   : model_unmap(model, address, each->chunks[index]);
    each->done += each->status == MDNN_STATUS_OK;
    model->remapped += each->status == MDNN_STATUS_OK;
    each->over = each->status != MDNN_STATUS_OK || each->done == count;
}

/* Some of what is under way, in any order. */
static void remap_some(model_t *model)
{
    for (int i = 0; i < MODEL_REMAPS; i++)
        while (model->remaps[i].open && !model->remaps[i].over && !model->remaps_starve &&
               pick(model, 3) == 0)
            remap_one(model, &model->remaps[i]);
}

static mdnn_status_t model_remap_begin(void *context, const mdnn_remap_t *remap, uint64_t *token)
{
    model_t *const model = context;
    uint64_t place = 0;
    assert_true(remap->count > 0 && remap->count <= MDNN_REMAP_CHUNKS);
    assert_true(++model->remaps_begun < 1 << 18); /* it would never end */
    if (!model->remaps_late)
        return MDNN_STATUS_UNSUPPORTED;
    while (place < MODEL_REMAPS && model->remaps[place].open)
        place++;
    if (place == MODEL_REMAPS || (!model->remaps_begin && pick(model, 8) == 0))
        return MDNN_STATUS_BUSY;
    model_remap_t *const each = &model->remaps[place];
    *each = (model_remap_t){.open = true, .remap = *remap};
    memcpy(each->chunks, remap->chunks, remap->count * sizeof *remap->chunks);
    *token = place + 1;
    remap_some(model);
    return MDNN_STATUS_OK;
}

static uint64_t model_remap_done(void *context, uint64_t token, bool *over)
{
    model_t *const model = context;
    assert_true(model->remaps[token - 1].open);
    remap_some(model);
    *over = model->remaps[token - 1].over;
    return model->remaps[token - 1].done;
}

static mdnn_status_t model_remap_end(void *context, uint64_t token, bool all, uint64_t *done)
{
    model_t *const model = context;
    model_remap_t *const each = &model->remaps[token - 1];
    assert_true(each->open);
    while (!each->over && (all || (!model->remaps_starve && pick(model, 2) == 0)))
        remap_one(model, each);
    each->open = false;
    *done = each->done;
    return each->status;
}

static bool copy_pending(const model_t *model, uint64_t chunk, uint64_t slot)
{
    for (int stream = MODEL_STREAMS; stream < MODEL_QUEUES; stream++)
        for (uint64_t i = model->done[stream]; i < model->enqueued[stream]; i++) {
            const item_t *const item = model->queue[stream][i % MODEL_QUEUE];
            if (item->kind == ITEM_COPY && (item->chunk == chunk || item->slot == slot))
                return true;
        }
    return false;
}

static mdnn_status_t model_cover(void *context, uint64_t address, uint64_t slot)
{
    model_t *const model = context;
    const uint64_t step = model_step(address);
    assert_true(address % MODEL_CHUNK == 0 && model->slot_used[slot]);
    assert_true(model->chunk_at[step] == 0 && model->slot_at[step] == 0);
    assert_int_equal(model->covers_at[slot], 0);
    assert_false(copy_pending(model, 0, slot)); /* nor may anyone use what is written to */
    if (call_fails(model) || (model->covers_end && model->covers_left == 0))
        return MDNN_STATUS_DEVICE;
    model->covers_left -= model->covers_end;
    model->slot_at[step] = slot;
    model->covers_at[slot] = step + 1;
    return MDNN_STATUS_OK;
}

static mdnn_status_t model_uncover(void *context, uint64_t address, uint64_t slot)
{
    model_t *const model = context;
    const uint64_t step = model_step(address);
    assert_true(slot != 0 && model->slot_at[step] == slot);
    assert_false(step_in_use(model, step));
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    model->slot_at[step] = model->covers_at[slot] = 0;
    return MDNN_STATUS_OK;
}

/* ---- streams ---- */

static bool run_one(model_t *model);

static item_t *enqueue(model_t *model, uint64_t stream, item_kind_t kind)
{
    item_t *const item = __real_calloc(1, sizeof *item); /* the test's own never fails */
    assert_non_null(item);
    while (model->enqueued[stream] - model->done[stream] == MODEL_QUEUE)
        assert_true(run_one(model));
    item->kind = kind;
    model->queue[stream][model->enqueued[stream]++ % MODEL_QUEUE] = item;
    return item;
}

static mdnn_stream_point_t model_mark(void *context, uint64_t stream)
{
    const model_t *const model = context;
    return (mdnn_stream_point_t){stream, model->enqueued[stream]};
}

static bool model_is_done(void *context, mdnn_stream_point_t point)
{
    model_t *const model = context;
    assert_true(point.position > 0 && point.position <= model->enqueued[point.stream]);
    if (model->runs_in > 0 && pick(model, model->runs_in) == 0)
        run_one(model); /* time passes: two looks at one point may differ */
    return point.position <= model->done[point.stream];
}

static void run_touch(model_t *model, const touch_t *touch)
{
    bool faulted = false;
    for (uint32_t i = 0; i < touch->words; i++) {
        const uint64_t address = touch->address + (uint64_t)i * 512;
        const uint64_t chunk = model->chunk_at[model_step(address)];
        const uint64_t slot = model->slot_at[model_step(address)];
        uint32_t *const words = slot ? model->slot_words[slot] : model->chunk_words[chunk];
        uint32_t *const word = &words[address % MODEL_CHUNK / 512];
        if (chunk + slot == 0) {
            assert_false(touch->named);
            faulted = true;
            continue;
        }
        if (touch->before[i] != 0 && !model->dead) /* I1, and I2 of what is not named */
            assert_int_equal(*word, touch->before[i]);
        if (touch->after_write)
            *word = touch->after[i];
        if (model->verify && !touch->slab)
            assert_true(touch->named);
    }
    model->dead = model->dead || (faulted && touch->after_write);
    model->faults += !touch->named && faulted;
    model->right += !touch->named && !faulted;
}

static void run_copy(model_t *model, const item_t *item)
{
    uint32_t *const chunk = model->chunk_words[item->chunk], *const slot =
                                                                 model->slot_words[item->slot];
    assert_true(model->slot_used[item->slot]);
    for (int i = 0; i < MODEL_WORDS; i++) {
        uint32_t *const to = item->out ? slot : chunk;
        to[i] = (uint64_t)i < item->words ? (item->out ? chunk : slot)[i] : MODEL_POISON;
    }
}

static bool can_run(const model_t *model, int stream)
{
    if (model->done[stream] == model->enqueued[stream])
        return false;
    const item_t *const item = model->queue[stream][model->done[stream] % MODEL_QUEUE];
    if (item->kind == ITEM_VALUE)
        return model->values[item->point.stream] >= item->point.position;
    return item->kind != ITEM_WAIT || item->point.position <= model->done[item->point.stream];
}

/* One item at the head of any stream. false: none can run. */
static bool run_one(model_t *model)
{
    const int first = (int)pick(model, MODEL_QUEUES);
    for (int i = 0; i < MODEL_QUEUES; i++) {
        const int stream = (first + i) % MODEL_QUEUES;
        if (!can_run(model, stream))
            continue;
        item_t *const item = model->queue[stream][model->done[stream]++ % MODEL_QUEUE];
        for (uint32_t t = 0; t < item->touch_count; t++)
            run_touch(model, &item->touches[t]);
        if (item->kind == ITEM_COPY)
            run_copy(model, item);
        __real_free(item);
        return true;
    }
    return false;
}

static mdnn_status_t model_wait_on_host(void *context, mdnn_stream_point_t point)
{
    model_t *const model = context;
    assert_true(point.position > 0 && point.position <= model->enqueued[point.stream]);
    model->waits++;
    model->now_us += 1;
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    while (point.position > model->done[point.stream])
        assert_true(run_one(model)); /* I4: what is waited for can run */
    return MDNN_STATUS_OK;
}

static mdnn_status_t model_wait_a_while(void *context, mdnn_stream_point_t point, double seconds,
                                        bool quiet)
{
    (void)quiet;
    model_t *const model = context;
    assert_true(seconds > 0 && seconds <= 10);
    while (model->may_block && point.position > model->done[point.stream])
        if (!run_one(model))
            return MDNN_STATUS_BUSY;
    const unsigned busy_in = seconds < 1 && model->hasty_in > 0 ? 3 : model->hasty_in;
    if (busy_in > 0 && pick(model, busy_in) == 0)
        return MDNN_STATUS_BUSY;
    return model_wait_on_host(context, point);
}

static mdnn_status_t model_wait_in_stream(void *context, uint64_t stream, mdnn_stream_point_t point)
{
    model_t *const model = context;
    assert_true(point.position > 0 && point.position <= model->enqueued[point.stream]);
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    enqueue(model, stream, ITEM_WAIT)->point = point;
    model->stream_waits++;
    return MDNN_STATUS_OK;
}

/* ---- host slots and copies ---- */

static mdnn_status_t model_take_slot(void *context, uint64_t *slot)
{
    model_t *const model = context;
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    if (model->slots_used == model->slot_limit)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (model->slot_busy ||
        (!model->slot_ready && model->slot_busy_in > 0 && pick(model, model->slot_busy_in) == 0)) {
        model->slot_busy = pick(model, 4) > 0;
        return MDNN_STATUS_BUSY;
    }
    *slot = 1 + pick(model, MODEL_SLOTS);
    while (model->slot_used[*slot])
        *slot = *slot % MODEL_SLOTS + 1;
    model->slot_used[*slot] = true;
    model->slot_ready = false;
    model->slots_used++;
    return MDNN_STATUS_OK;
}

/* Nothing that is mapped, or that a copy runs on. */
static mdnn_status_t model_destroy(void *context, uint64_t chunk)
{
    model_t *const model = context;
    assert_true(model->chunk_there[chunk] && model->mapped_at[chunk] == 0);
    assert_false(copy_pending(model, chunk, 0));
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    model->chunk_there[chunk] = false;
    model->chunks--;
    return MDNN_STATUS_OK;
}

static void model_give_slot(void *context, uint64_t slot)
{
    model_t *const model = context;
    assert_true(slot > 0 && slot <= MODEL_SLOTS && model->slot_used[slot]);
    assert_int_equal(model->covers_at[slot], 0);
    assert_false(copy_pending(model, 0, slot));
    for (int i = 0; i < MODEL_WORDS; i++)
        model->slot_words[slot][i] = MODEL_POISON;
    model->slot_used[slot] = false;
    model->slots_used--;
}

static mdnn_status_t model_wait_for_slot(void *context)
{
    model_t *const model = context;
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    model->slot_busy = false;
    model->slot_ready = true; /* for one */
    return MDNN_STATUS_OK;
}

static mdnn_status_t model_copy(void *context, bool out, uint64_t chunk, uint64_t slot,
                                uint64_t bytes, mdnn_stream_point_t *end)
{
    model_t *const model = context;
    assert_true(bytes > 0 && bytes <= MODEL_CHUNK && model->slot_used[slot]);
    assert_true(model->mapped_at[chunk] == 0 && model->covers_at[slot] == 0); /* nobody can write */
    assert_false(copy_pending(model, chunk, slot));
    if (call_fails(model) || model->copies_end)
        return MDNN_STATUS_DEVICE;
    const uint64_t stream = out ? MODEL_OUT : MODEL_IN;
    item_t *const item = enqueue(model, stream, ITEM_COPY);
    item->out = out;
    item->chunk = chunk;
    item->slot = slot;
    item->words = (bytes + 511) / 512;
    model->copies++;
    *end = model_mark(model, stream);
    return MDNN_STATUS_OK;
}

/* ---- times ---- */

static uint64_t model_time_begin(void *context, uint64_t stream, bool operation)
{
    model_t *const model = context;
    (void)stream, (void)operation;
    if (call_fails(model) || model->tokens + 1 == sizeof model->token_state)
        return 0;
    model->token_state[++model->tokens] = 1;
    return model->tokens;
}

static void model_time_end(void *context, uint64_t stream, uint64_t token)
{
    model_t *const model = context;
    (void)stream;
    assert_int_equal(model->token_state[token], 1);
    model->token_state[token] = 2;
}

static mdnn_status_t model_time_read(void *context, uint64_t token, double *time_us)
{
    model_t *const model = context;
    assert_int_equal(model->token_state[token], 2);
    if (pick(model, 3) == 0)
        return MDNN_STATUS_BUSY;
    model->token_state[token] = 3;
    model->tokens_read++;
    if (call_fails(model))
        return MDNN_STATUS_DEVICE;
    *time_us = (double)token;
    return MDNN_STATUS_OK;
}

static double model_now_us(void *context)
{
    return ((model_t *)context)->now_us;
}

static void model_event(void *context, const mdnn_memory_event_t *event)
{
    ((model_t *)context)->told[event->kind]++;
}

static const mdnn_memory_device_t model_device = {
    .create_chunk = model_create,
    .destroy_chunk = model_destroy,
    .map = model_map,
    .unmap = model_unmap,
    .remap_begin = model_remap_begin,
    .remap_done = model_remap_done,
    .remap_end = model_remap_end,
    .mark = model_mark,
    .is_done = model_is_done,
    .wait_on_host = model_wait_on_host,
    .wait_a_while = model_wait_a_while,
    .wait_in_stream = model_wait_in_stream,
    .take_slot = model_take_slot,
    .give_slot = model_give_slot,
    .wait_for_slot = model_wait_for_slot,
    .cover = model_cover,
    .uncover = model_uncover,
    .copy = model_copy,
    .time_begin = model_time_begin,
    .time_end = model_time_end,
    .time_read = model_time_read,
    .now_us = model_now_us,
    .event = model_event,
};

/* Runs all that is enqueued. */
static void run_all(model_t *model)
{
    while (run_one(model))
        ;
    for (int stream = 0; stream < MODEL_QUEUES; stream++)
        assert_int_equal(model->done[stream], model->enqueued[stream]);
}

#endif
