/* What may be dropped, what must be remade when, and what reruns do: random programs that run late, against the same
 * programs run at once, and against a search by the definition. */
#include "offload/remake/values_internal.h"
#include "test/unit/cases.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/few.h"
#include "test/unit/values_model.h"

static uint64_t all_drops, all_steps, all_scratch, all_from_copies, all_together, all_refused,
    all_rests;

/* What the call returns. In some programs memory is short now and then: then nothing may have changed, and the same call
 * does it later. */
#define CALL(model, call) (be_short(model), again((call)) ? (call) : last_status)
static mdnn_status_t last_status;

static void be_short(model_t *model)
{
    fail_allocation_at = model->memory_is_short ? 1 + pick(model, 6) : 0;
}

static bool again(mdnn_status_t status)
{
    const bool was_short = fail_allocation_at == 0 && status == MDNN_STATUS_OUT_OF_MEMORY;
    fail_allocation_at = 0;
    last_status = status;
    return was_short;
}

static uint32_t range_of(const model_t *model, uint32_t number)
{
    for (uint32_t i = model->range_count; i-- > 0;)
        if (model->ranges[i].number == number && !model->ranges[i].released)
            return i;
    CHECK(!"a range that the program knows");
    return 0;
}

static uint32_t place_of_number(const model_t *model, uint32_t number)
{
    for (uint32_t i = 0; i < COPIES; i++)
        if (model->copies[i].used && model->copies[i].number == number)
            return SLOTS + i;
    return model->ranges[range_of(model, number)].slot;
}

static uint32_t a_live_range(model_t *model)
{
    uint32_t live[SLOTS], count = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (model->user_of[slot] > 0 && model->ranges[model->user_of[slot] - 1].lives)
            live[count++] = model->user_of[slot] - 1;
    return count > 0 ? live[pick(model, count)] : NOWHERE;
}

/* ---- reruns ---- */

static const model_operation_t *operation_of(const model_t *model, uint64_t key)
{
    CHECK(key < model->operation_count);
    return &model->operations[key];
}

static void enqueue_step(model_t *model, const mdnn_rerun_t *rerun, const mdnn_rerun_step_t *step,
                         uint32_t stream)
{
    const model_operation_t *const operation = operation_of(model, step->key);
    item_t item = {.kind = ITEM_OPERATION, .key = step->key, .use_count = step->use_count};
    CHECK(operation->repeats && !model->unloaded[operation->module]);
    CHECK(step->use_count == operation->use_count);
    for (uint32_t i = 0; i < step->use_count; i++) {
        const mdnn_rerun_use_t *const use = &rerun->uses[step->first_use + i];
        const uint32_t own = model->ranges[operation->uses[i].range].slot;
        item_use_t *const placed = &item.uses[i];
        placed->from = use->from == MDNN_PLACE_OWN    ? own
                       : use->from == MDNN_PLACE_COPY ? place_of_number(model, use->copy)
                                                      : NOWHERE;
        placed->to = use->to == MDNN_PLACE_OWN ? own : NOWHERE;
        if (placed->to == own) /* nobody else's */
            CHECK(model->user_of[own] == operation->uses[i].range + 1);
        model->scratch += use->to == MDNN_PLACE_SCRATCH;
        model->from_copies += use->from == MDNN_PLACE_COPY;
    }
    enqueue(model, stream, &item, true);
    model->steps++;
}

static void remake(model_t *model, const mdnn_value_set_t *wanted)
{
    mdnn_rerun_t rerun = {0};
    const uint32_t stream = pick(model, STREAMS);
    CHECK(CALL(model, mdnn_values_remake(model->values, wanted, &rerun)) == MDNN_STATUS_OK);
    for (uint32_t i = 0; i < rerun.step_count; i++)
        enqueue_step(model, &rerun, &rerun.steps[i], stream);
    for (uint32_t i = 0; i < rerun.remade.count; i++) {
        model_range_t *const range = &model->ranges[range_of(model, rerun.remade.ranges[i])];
        CHECK(range->dropped);
        range->dropped = false;
        range->holds = true;
    }
    for (uint32_t i = 0; i < wanted->count; i++)
        CHECK(!model->ranges[range_of(model, wanted->ranges[i])].dropped);
    model->together += rerun.remade.count > wanted->count;
    mdnn_rerun_fini(&rerun);
}

/* ---- what must be remade ---- */

static bool is_in(const mdnn_value_set_t *set, uint32_t number)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->ranges[i] == number)
            return true;
    return false;
}

/* Of the state that the model is in for now. `more`: those are needed anyway. Where nothing is forgotten, the set is
 * exactly what fails. */
static void compare_needs(model_t *model, const mdnn_value_set_t *needs, const bool *dropped_before,
                          const bool *more)
{
    for (uint32_t i = 0; i < model->range_count; i++) {
        if (!dropped_before[i])
            continue;
        const bool needed =
            (more && more[i]) || (model->ranges[i].dropped && !is_derivable(model, i));
        if (needed)
            CHECK(is_in(needs, model->ranges[i].number));
        else if (!model->forgets)
            CHECK(!is_in(needs, model->ranges[i].number));
    }
}

static void note_dropped(const model_t *model, bool *dropped)
{
    for (uint32_t i = 0; i < model->range_count; i++)
        dropped[i] = model->ranges[i].dropped;
}

/* ---- operations ---- */

static void new_value(model_t *model, uint32_t range, uint32_t operation)
{
    CHECK(model->value_count < MOST_VALUES);
    model->known[model->value_count] = (model_value_t){.range = range, .operation = operation};
    model->ranges[range].current = model->value_count++;
    model->ranges[range].holds = true;
    model->ranges[range].dropped = false;
}

/* Uses of different live ranges; `first`, if any, is written as a whole. */
static void choose_uses(model_t *model, uint32_t first, mdnn_value_use_t *uses, uint32_t *ranges,
                        uint32_t *count)
{
    const uint32_t wanted = 1 + pick(model, MOST_USES);
    *count = 0;
    if (first != NOWHERE) {
        ranges[0] = first;
        uses[(*count)++] = (mdnn_value_use_t){model->ranges[first].number, MDNN_VALUE_WRITE};
    }
    for (uint32_t tries = 0; *count < wanted && tries < 8; tries++) {
        const uint32_t range = a_live_range(model);
        bool chosen = range == NOWHERE;
        for (uint32_t i = 0; i < *count; i++)
            chosen = chosen || ranges[i] == range;
        if (chosen)
            continue;
        const uint32_t role = pick(model, 8);
        ranges[*count] = range;
        uses[(*count)++] =
            (mdnn_value_use_t){model->ranges[range].number, role < 5   ? MDNN_VALUE_READ
                                                            : role < 7 ? MDNN_VALUE_WRITE
                                                                       : MDNN_VALUE_UPDATE};
    }
}

/* The needs of an operation against the search: as if it had written already. */
static void check_operation_needs(model_t *model, const mdnn_value_operation_t *operation,
                                  const uint32_t *ranges, const mdnn_value_set_t *needs)
{
    static model_t after;
    bool dropped[MOST_RANGES], read[MOST_RANGES] = {false};
    note_dropped(model, dropped);
    after = *model;
    for (uint32_t i = 0; i < operation->use_count; i++) {
        if (operation->uses[i].role != MDNN_VALUE_WRITE)
            read[ranges[i]] = true;
        if (operation->uses[i].role != MDNN_VALUE_READ)
            new_value(&after, ranges[i], NOWHERE);
    }
    compare_needs(&after, needs, dropped, read);
}

/* Old content that is pinned is kept now and then, and so are inputs that an operation updates. */
static void keep_some(model_t *model, const mdnn_value_operation_t *operation,
                      const uint32_t *ranges, uint32_t stream)
{
    for (uint32_t i = 0; i < operation->use_count; i++) {
        model_range_t *const range = &model->ranges[ranges[i]];
        if (operation->uses[i].role == MDNN_VALUE_READ || range->dropped || !one_in(model, 3) ||
            model->known[range->current].copied)
            continue;
        uint32_t copy = 0, number;
        while (copy < COPIES && model->copies[copy].used)
            copy++;
        if (copy == COPIES)
            return;
        CHECK(CALL(model, mdnn_values_keep(model->values, range->number, &number)) ==
              MDNN_STATUS_OK);
        model->copies[copy] = (model_copy_t){.used = true, .number = number};
        model->known[range->current].copied = true;
        item_t item = {
            .kind = ITEM_COPY, .use_count = 1, .uses = {{.from = range->slot, .to = SLOTS + copy}}};
        enqueue(model, stream, &item, true);
    }
}

/* As the program would: its operations wait for its own on the same memory. */
static void wait_as_program(model_t *model, uint32_t stream, uint32_t slot, bool writes,
                            uint64_t *waits)
{
    for (uint32_t other = 0; other < STREAMS; other++) {
        uint64_t until = model->program_wrote[slot][other];
        if (writes && model->program_read[slot][other] > until)
            until = model->program_read[slot][other];
        if (other != stream && until > waits[other])
            waits[other] = until;
    }
}

static void enqueue_operation(model_t *model, const mdnn_value_operation_t *operation,
                              const uint32_t *ranges, uint32_t stream)
{
    model_operation_t *const known = &model->operations[operation->key];
    /* What does not repeat would have other results. */
    item_t item = {.kind = ITEM_OPERATION,
                   .key = operation->key + (operation->repeats ? 0 : 1 << 20),
                   .use_count = operation->use_count};
    uint64_t inputs[MOST_USES];
    *known = (model_operation_t){.module = operation->module,
                                 .repeats = operation->repeats,
                                 .use_count = operation->use_count};
    for (uint32_t i = 0; i < operation->use_count; i++) {
        const mdnn_value_role_t role = operation->uses[i].role;
        const model_range_t *const range = &model->ranges[ranges[i]];
        const bool reads = role != MDNN_VALUE_WRITE, writes = role != MDNN_VALUE_READ;
        known->uses[i] = (model_use_t){.range = ranges[i],
                                       .input = reads ? range->current : NOWHERE,
                                       .output = NOWHERE,
                                       .role = role};
        inputs[i] = reads ? range->content : 0;
        item.uses[i] = (item_use_t){.from = reads ? range->slot : NOWHERE,
                                    .to = writes ? range->slot : NOWHERE,
                                    .checked = reads,
                                    .expected = range->content};
        wait_as_program(model, stream, range->slot, writes, item.waits);
    }
    for (uint32_t i = 0; i < operation->use_count; i++)
        if (operation->uses[i].role != MDNN_VALUE_READ) {
            new_value(model, ranges[i], (uint32_t)operation->key);
            known->uses[i].output = model->ranges[ranges[i]].current;
            model->ranges[ranges[i]].content = result_of(item.key, inputs, operation->use_count, i);
        }
    enqueue(model, stream, &item, false);
    for (uint32_t i = 0; i < operation->use_count; i++) {
        const uint32_t slot = model->ranges[ranges[i]].slot;
        (operation->uses[i].role == MDNN_VALUE_READ ? model->program_read
                                                    : model->program_wrote)[slot][stream] =
            model->enqueued[stream];
    }
}

static void operate(model_t *model, uint32_t first)
{
    mdnn_value_use_t uses[MOST_USES + 1];
    uint32_t ranges[MOST_USES + 1], count;
    const uint32_t stream = pick(model, STREAMS);
    choose_uses(model, first, uses, ranges, &count);
    if (count > MOST_USES)
        count = MOST_USES;
    if (count == 0 || model->operation_count == MOST_OPERATIONS)
        return;
    const mdnn_value_operation_t operation = {.key = model->operation_count,
                                              .module = pick(model, MODULES),
                                              .time_us = 1,
                                              .repeats = !one_in(model, 10),
                                              .uses = uses,
                                              .use_count = count};
    keep_some(model, &operation, ranges, stream);
    mdnn_value_set_t needs = {0};
    CHECK(CALL(model, mdnn_values_needs_for_operation(model->values, &operation, &needs)) ==
          MDNN_STATUS_OK);
    check_operation_needs(model, &operation, ranges, &needs);
    if (needs.count > 0) {
        CHECK(CALL(model, mdnn_values_operate(model->values, &operation)) == MDNN_STATUS_BUSY);
        remake(model, &needs);
    }
    mdnn_value_set_fini(&needs);
    CHECK(CALL(model, mdnn_values_operate(model->values, &operation)) == MDNN_STATUS_OK);
    model->operation_count++;
    enqueue_operation(model, &operation, ranges, stream);
}

/* ---- lives ---- */

static void add_range(model_t *model)
{
    uint32_t slot = pick(model, SLOTS), number;
    for (uint32_t i = 0; i < SLOTS && model->user_of[slot] > 0; i++)
        slot = (slot + 1) % SLOTS;
    if (model->user_of[slot] > 0 || model->range_count == MOST_RANGES)
        return;
    CHECK(CALL(model, mdnn_values_add_range(model->values, 1 + pick(model, 4), &number)) ==
          MDNN_STATUS_OK);
    const uint32_t added = model->range_count++;
    model->ranges[added] = (model_range_t){.number = number, .slot = slot, .lives = true};
    model->user_of[slot] = added + 1;
    new_value(model, added, NOWHERE);
    operate(model, added);
}

/* What the library holds no more is gone. */
static void follow_rests(model_t *model)
{
    for (uint32_t i = 0; i < model->range_count; i++) {
        model_range_t *const range = &model->ranges[i];
        if (range->lives || range->released)
            continue;
        const mdnn_value_rest_t rest = mdnn_values_rest(model->values, range->number);
        if (range->holds && rest != MDNN_REST_CONTENT) {
            range->holds = false;
            poison(model, range->slot);
        }
        if (rest == MDNN_REST_NOTHING) {
            range->released = true;
            model->user_of[range->slot] = 0;
        } else {
            model->rests++;
        }
    }
    for (uint32_t i = 0; i < COPIES; i++)
        if (model->copies[i].used &&
            mdnn_values_rest(model->values, model->copies[i].number) == MDNN_REST_NOTHING) {
            model->copies[i].used = false;
            poison(model, SLOTS + i);
        }
    for (uint32_t released; mdnn_values_take_released(model->values, &released);)
        for (uint32_t i = 0; i < model->range_count; i++)
            CHECK(model->ranges[i].number != released || model->ranges[i].released);
}

static void check_free_needs(model_t *model, uint32_t freed, mdnn_value_rest_t rest,
                             const mdnn_value_set_t *needs)
{
    static model_t after;
    bool dropped[MOST_RANGES];
    note_dropped(model, dropped);
    after = *model;
    model_range_t *const range = &after.ranges[freed];
    range->dropped = false;
    range->holds = range->holds && rest == MDNN_REST_CONTENT;
    range->released = rest == MDNN_REST_NOTHING;
    dropped[freed] = false;
    compare_needs(&after, needs, dropped, NULL);
}

/* One that lives, or more of one whose content or place is still held. */
static void free_range(model_t *model)
{
    const uint32_t slot = pick(model, SLOTS);
    if (model->user_of[slot] == 0)
        return;
    const uint32_t freed = model->user_of[slot] - 1;
    model_range_t *const range = &model->ranges[freed];
    const mdnn_value_rest_t rest = (mdnn_value_rest_t)pick(model, 3);
    if (!range->lives && mdnn_values_rest(model->values, range->number) <= rest) {
        CHECK(CALL(model, mdnn_values_free(model->values, range->number, rest)) ==
              MDNN_STATUS_NOT_FOUND);
        return;
    }
    mdnn_value_set_t needs = {0};
    CHECK(CALL(model, mdnn_values_needs_for_free(model->values, range->number, rest, &needs)) ==
          MDNN_STATUS_OK);
    check_free_needs(model, freed, rest, &needs);
    if (needs.count > 0) {
        CHECK(CALL(model, mdnn_values_free(model->values, range->number, rest)) ==
              MDNN_STATUS_BUSY);
        remake(model, &needs);
    }
    mdnn_value_set_fini(&needs);
    CHECK(CALL(model, mdnn_values_free(model->values, range->number, rest)) == MDNN_STATUS_OK);
    range->lives = range->dropped = false;
}

static void unload(model_t *model)
{
    const uint32_t module = 1 + pick(model, MODULES - 1);
    static model_t after;
    bool dropped[MOST_RANGES];
    mdnn_value_set_t needs = {0};
    CHECK(CALL(model, mdnn_values_needs_for_unload(model->values, module, &needs)) ==
          MDNN_STATUS_OK);
    note_dropped(model, dropped);
    after = *model;
    after.unloaded[module] = true;
    compare_needs(&after, &needs, dropped, NULL);
    if (needs.count > 0) {
        CHECK(CALL(model, mdnn_values_unload(model->values, module)) == MDNN_STATUS_BUSY);
        remake(model, &needs);
    }
    mdnn_value_set_fini(&needs);
    CHECK(CALL(model, mdnn_values_unload(model->values, module)) == MDNN_STATUS_OK);
    /* Modules of that number that are loaded later are others: what it did does not repeat any more. */
    for (uint32_t i = 0; i < model->operation_count; i++)
        if (model->operations[i].module == module)
            model->operations[i].repeats = false;
}

static void drop(model_t *model)
{
    const uint32_t dropped = a_live_range(model);
    if (dropped == NOWHERE)
        return;
    model_range_t *const range = &model->ranges[dropped];
    double time_us;
    const mdnn_status_t priced =
        CALL(model, mdnn_values_price(model->values, range->number, &time_us));
    const bool may = priced == MDNN_STATUS_OK;
    const bool can = !range->dropped && is_derivable(model, dropped);
    CHECK(may || priced == MDNN_STATUS_UNSUPPORTED);
    CHECK(can || !may);
    CHECK(model->forgets || may == can);
    CHECK(CALL(model, mdnn_values_drop(model->values, range->number)) ==
          (may ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED));
    model->refused += !may;
    if (!may)
        return;
    range->dropped = true;
    range->holds = false;
    poison(model, range->slot);
    model->drops++;
}

static void remake_some(model_t *model)
{
    uint32_t wanted[2];
    mdnn_value_set_t set = {.ranges = wanted};
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t range = a_live_range(model);
        if (range != NOWHERE && (i == 0 || wanted[0] != model->ranges[range].number))
            wanted[set.count++] = model->ranges[range].number;
    }
    remake(model, &set);
}

/* ---- programs ---- */

static void check_state(model_t *model)
{
    const char *broken = NULL;
    if (!mdnn_values_is_valid(model->values, &broken)) {
        fprintf(stderr, "# %s\n", broken);
        CHECK(!"a valid state");
    }
    for (uint32_t i = 0; i < model->range_count; i++) {
        const model_range_t *const range = &model->ranges[i];
        if (range->lives)
            CHECK(mdnn_values_is_dropped(model->values, range->number) == range->dropped);
        if (range->dropped)
            CHECK(is_derivable(model, i));
    }
}

static void act(model_t *model)
{
    const uint32_t action = pick(model, 100);
    if (action < 48)
        operate(model, NOWHERE);
    else if (action < 76)
        drop(model);
    else if (action < 85)
        add_range(model);
    else if (action < 93)
        free_range(model);
    else if (action < 95)
        unload(model);
    else
        remake_some(model);
    follow_rests(model);
    run_some(model, pick(model, 8));
}

/* All that was dropped comes back. */
static void check_end(model_t *model)
{
    for (uint32_t i = 0; i < model->range_count; i++) {
        uint32_t number = model->ranges[i].number;
        if (model->ranges[i].dropped)
            remake(model, &(mdnn_value_set_t){.ranges = &number, .count = 1});
    }
    run_all(model);
    for (uint32_t i = 0; i < model->range_count; i++)
        if (model->ranges[i].lives && model->known[model->ranges[i].current].operation != NOWHERE)
            CHECK(model->memory[model->ranges[i].slot] == model->ranges[i].content);
}

static void check_program(uint64_t seed)
{
    static model_t model;
    memset(&model, 0, sizeof model);
    model.random = seed;
    model.forgets = one_in(&model, 4);
    model.memory_is_short = one_in(&model, 8);
    model.values = mdnn_values_create(model.forgets ? 1 + pick(&model, 20) : 100000);
    model.order = mdnn_rerun_order_create(QUEUES);
    CHECK(model.values && model.order);
    const uint32_t actions = 20 + pick(&model, 100);
    for (uint32_t i = 0; i < actions; i++) {
        act(&model);
        check_state(&model);
    }
    check_end(&model);
    all_drops += model.drops;
    all_steps += model.steps;
    all_scratch += model.scratch;
    all_from_copies += model.from_copies;
    all_together += model.together;
    all_refused += model.refused;
    all_rests += model.rests;
    mdnn_values_destroy(model.values);
    mdnn_rerun_order_destroy(model.order);
    CHECK(live_allocations == 0);
}

CASE(programs_find_what_they_wrote)
{
    each_seed(check_program, few(600, 20000));
    print_message("# %llu drops, %llu refused, %llu steps of reruns, %llu side outputs, %llu "
                  "inputs from copies, %llu reruns of more than was wanted\n",
                  (unsigned long long)all_drops, (unsigned long long)all_refused,
                  (unsigned long long)all_steps, (unsigned long long)all_scratch,
                  (unsigned long long)all_from_copies, (unsigned long long)all_together);
    if (!getenv("MDNN_TEST_SEED"))
        assert_true(all_drops && all_steps && all_scratch && all_from_copies && all_together &&
                    all_refused && all_rests);
}

int main(void)
{
    return run_cases("values");
}
