/* For the test of offload/remake/values.h: a program whose operations, reruns, copies and changes of the mapping run
 * late, in random order, as far as their streams and waits allow, on places of one word each. Beside it the same program
 * runs at once and loses nothing: each operation knows what it must find. A second model of what can be derived keeps all
 * that ever happened, and searches it by the definition. */
#ifndef MDNN_TEST_VALUES_MODEL_H
#define MDNN_TEST_VALUES_MODEL_H

#include <string.h>

#include "offload/remake/rerun_order.h"
#include "offload/remake/values.h"
#include "test/unit/each_seed.h"
#include "test/unit/random.h"

enum {
    SLOTS = 10,  /* addresses of the program's ranges */
    COPIES = 64, /* places of copies */
    STREAMS = 3, /* of the program, which reruns use as well */
    MAPPING = 3, /* the stream of changes of the mapping */
    QUEUES = 4,
    MOST_ITEMS = 1024,
    MOST_USES = 4,
    MOST_RANGES = 512, /* that ever lived */
    MOST_OPERATIONS = 512,
    MOST_VALUES = 1024,
    MODULES = 4,
};
#define POISON UINT64_C(0xdeaddeaddeaddead)
#define NOWHERE UINT32_MAX

typedef struct item_use {
    uint32_t from, to; /* places, or NOWHERE */
    bool checked;
    uint64_t expected;
} item_use_t;

typedef struct item {
    enum { ITEM_OPERATION, ITEM_COPY, ITEM_POISON } kind;
    uint64_t key, waits[QUEUES];
    uint32_t use_count;
    item_use_t uses[MOST_USES];
} item_t;

typedef struct model_use {
    uint32_t range, input, output; /* by the numbers below */
    mdnn_value_role_t role;
} model_use_t;

/* What happened, with numbers that are never used again. */
typedef struct model_operation {
    uint64_t module;
    bool repeats;
    uint32_t use_count;
    model_use_t uses[MOST_USES];
} model_operation_t;

typedef struct model_value {
    uint32_t range, operation;
    bool copied;
} model_value_t;

typedef struct model_range {
    uint32_t number;  /* of the range in the library */
    uint32_t current; /* value */
    uint32_t slot;
    bool lives, dropped, holds, released;
    uint64_t content; /* as it would be if nothing were ever dropped */
} model_range_t;

typedef struct model_copy {
    bool used;
    uint32_t number; /* of the range in the library */
} model_copy_t;

typedef struct model {
    uint64_t random;
    mdnn_values_t *values;
    mdnn_rerun_order_t *order;
    bool forgets; /* recipes, so that less can be derived than the model knows */
    bool memory_is_short;
    uint64_t memory[SLOTS + COPIES];
    item_t items[QUEUES][MOST_ITEMS];
    uint64_t enqueued[QUEUES], done[QUEUES];
    uint64_t program_wrote[SLOTS][STREAMS], program_read[SLOTS][STREAMS];
    uint32_t user_of[SLOTS]; /* range + 1; 0: nobody's */
    model_copy_t copies[COPIES];
    model_range_t ranges[MOST_RANGES];
    model_operation_t operations[MOST_OPERATIONS];
    model_value_t known[MOST_VALUES];
    uint32_t range_count, operation_count, value_count;
    bool unloaded[MODULES];
    uint64_t drops, steps, scratch, from_copies, together, refused, rests;
} model_t;

static uint32_t pick(model_t *model, uint32_t below)
{
    return (uint32_t)(random_next(&model->random) % below);
}

static bool one_in(model_t *model, uint32_t count)
{
    return pick(model, count) == count - 1;
}

/* ---- what can be derived, by the definition ---- */

static bool model_holds(const model_t *model, uint32_t value)
{
    const model_range_t *const range = &model->ranges[model->known[value].range];
    return model->known[value].copied || (range->holds && range->current == value);
}

static bool can_derive(const model_t *model, uint32_t value, uint32_t of, signed char *memo)
{
    const model_value_t *const known = &model->known[value];
    const model_range_t *const range = &model->ranges[known->range];
    if (value != model->ranges[of].current && model_holds(model, value))
        return true;
    if (known->operation == NOWHERE || range->released || (range->holds && known->range != of))
        return false;
    const model_operation_t *const operation = &model->operations[known->operation];
    if (!operation->repeats || model->unloaded[operation->module])
        return false;
    if (memo[known->operation] == 0) {
        memo[known->operation] = 1;
        for (uint32_t i = 0; i < operation->use_count; i++)
            if (operation->uses[i].input != NOWHERE &&
                !can_derive(model, operation->uses[i].input, of, memo))
                memo[known->operation] = -1;
    }
    return memo[known->operation] > 0;
}

static bool is_derivable(const model_t *model, uint32_t range)
{
    signed char memo[MOST_OPERATIONS] = {0};
    return can_derive(model, model->ranges[range].current, range, memo);
}

/* ---- what runs late ---- */

/* Results depend on all inputs, and on which use it is. */
static uint64_t result_of(uint64_t key, const uint64_t *inputs, uint32_t count, uint32_t use)
{
    uint64_t state = key * 31 + use;
    for (uint32_t i = 0; i < count; i++)
        state = (state ^ inputs[i]) * UINT64_C(0x9e3779b97f4a7c15) + (state >> 29) + i;
    return state;
}

static void run_operation(model_t *model, const item_t *item)
{
    uint64_t inputs[MOST_USES];
    for (uint32_t i = 0; i < item->use_count; i++) {
        const item_use_t *const use = &item->uses[i];
        inputs[i] = use->from == NOWHERE ? 0 : model->memory[use->from];
        if (use->checked)
            CHECK(inputs[i] == use->expected);
    }
    for (uint32_t i = 0; i < item->use_count; i++)
        if (item->uses[i].to != NOWHERE)
            model->memory[item->uses[i].to] = result_of(item->key, inputs, item->use_count, i);
}

static bool can_run(const model_t *model, uint32_t queue)
{
    if (model->done[queue] == model->enqueued[queue])
        return false;
    const item_t *const item = &model->items[queue][model->done[queue]];
    for (uint32_t other = 0; other < QUEUES; other++)
        if (item->waits[other] > model->done[other])
            return false;
    return true;
}

static void run_one(model_t *model, uint32_t queue)
{
    const item_t *const item = &model->items[queue][model->done[queue]];
    if (item->kind == ITEM_OPERATION)
        run_operation(model, item);
    else if (item->kind == ITEM_COPY)
        model->memory[item->uses[0].to] = model->memory[item->uses[0].from];
    else
        model->memory[item->uses[0].to] = POISON;
    model->done[queue]++;
}

static void run_some(model_t *model, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t queue = pick(model, QUEUES);
        if (can_run(model, queue))
            run_one(model, queue);
    }
}

static void run_all(model_t *model)
{
    bool any = true;
    while (any) {
        any = false;
        for (uint32_t queue = 0; queue < QUEUES; queue++)
            while (can_run(model, queue)) {
                run_one(model, queue);
                any = true;
            }
    }
    for (uint32_t queue = 0; queue < QUEUES; queue++)
        CHECK(model->done[queue] == model->enqueued[queue]);
}

/* Enqueues with the waits that reruns need; the program's own are in the item. */
static void enqueue(model_t *model, uint32_t queue, item_t *item, bool rerun)
{
    const mdnn_rerun_user_t user = {.stream = queue, .rerun = rerun};
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (item->uses[i].from != NOWHERE)
            mdnn_rerun_order_wait(model->order, item->uses[i].from, user, false, item->waits);
        if (item->uses[i].to != NOWHERE)
            mdnn_rerun_order_wait(model->order, item->uses[i].to, user, true, item->waits);
    }
    CHECK(model->enqueued[queue] < MOST_ITEMS);
    model->items[queue][model->enqueued[queue]++] = *item;
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (item->uses[i].from != NOWHERE)
            CHECK(mdnn_rerun_order_note(model->order, item->uses[i].from, user, false,
                                        model->enqueued[queue]) == MDNN_STATUS_OK);
        if (item->uses[i].to != NOWHERE)
            CHECK(mdnn_rerun_order_note(model->order, item->uses[i].to, user, true,
                                        model->enqueued[queue]) == MDNN_STATUS_OK);
    }
}

/* The place is unmapped, or serves others. */
static void poison(model_t *model, uint32_t place)
{
    item_t item = {.kind = ITEM_POISON, .use_count = 1, .uses = {{.from = NOWHERE, .to = place}}};
    enqueue(model, MAPPING, &item, true);
}

#endif
