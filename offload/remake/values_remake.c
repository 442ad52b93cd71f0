/* What must be remade before something happens, and the reruns that remake it. */
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "offload/remake/values_internal.h"

void mdnn_value_set_fini(mdnn_value_set_t *set)
{
    free(set->ranges);
    *set = (mdnn_value_set_t){0};
}

void mdnn_rerun_fini(mdnn_rerun_t *rerun)
{
    free(rerun->steps);
    free(rerun->uses);
    mdnn_value_set_fini(&rerun->remade);
    *rerun = (mdnn_rerun_t){0};
}

static bool has(const mdnn_value_set_t *set, uint32_t range)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->ranges[i] == range)
            return true;
    return false;
}

static mdnn_status_t add(mdnn_value_set_t *set, uint32_t range)
{
    if (has(set, range))
        return MDNN_STATUS_OK;
    list_t list = {.items = set->ranges, .count = set->count, .capacity = set->capacity};
    const mdnn_status_t status = mdnn_values_push(&list, range);
    *set = (mdnn_value_set_t){.ranges = list.items, .count = list.count, .capacity = list.capacity};
    return status;
}

/* ---- pins ---- */

/* What cannot be derived once the range holds another value, or serves others. */
static mdnn_status_t add_all_that_touch(mdnn_values_t *values, uint32_t touched,
                                        mdnn_value_set_t *needs)
{
    if (values->ranges[touched].pins == 0)
        return MDNN_STATUS_OK;
    for (uint32_t i = 0; i < values->dropped.count; i++) {
        const uint32_t range = values->dropped.items[i];
        if (mdnn_values_touches(&values->ranges[range].derivation, touched))
            MDNN_TRY(add(needs, range));
    }
    return MDNN_STATUS_OK;
}

/* What cannot be derived in the state that the caller has put the range in for now. */
static mdnn_status_t add_what_fails(mdnn_values_t *values, uint32_t touched,
                                    mdnn_value_set_t *needs)
{
    if (values->ranges[touched].pins == 0)
        return MDNN_STATUS_OK;
    for (uint32_t i = 0; i < values->dropped.count; i++) {
        const uint32_t range = values->dropped.items[i];
        if (values->ranges[range].holds || has(needs, range) ||
            !mdnn_values_touches(&values->ranges[range].derivation, touched))
            continue;
        const mdnn_status_t status = mdnn_values_walk(values, &range, 1);
        if (status == MDNN_STATUS_UNSUPPORTED)
            MDNN_TRY(add(needs, range));
        else
            MDNN_TRY(status);
    }
    return MDNN_STATUS_OK;
}

static bool is_overwritten(const mdnn_value_operation_t *operation, uint32_t range)
{
    for (uint32_t i = 0; i < operation->use_count; i++)
        if (operation->uses[i].range == range)
            return operation->uses[i].role == MDNN_VALUE_WRITE;
    return false;
}

mdnn_status_t mdnn_values_needs_for_operation(mdnn_values_t *values,
                                              const mdnn_value_operation_t *operation,
                                              mdnn_value_set_t *needs)
{
    mdnn_value_set_t pinned = {0};
    mdnn_status_t status = mdnn_values_refresh(values);
    for (uint32_t i = 0; i < operation->use_count && status == MDNN_STATUS_OK; i++) {
        const mdnn_value_use_t *const use = &operation->uses[i];
        if (values->ranges[use->range].dropped && use->role != MDNN_VALUE_WRITE)
            status = add(needs, use->range);
        if (status == MDNN_STATUS_OK && use->role != MDNN_VALUE_READ &&
            !MDNN_FAULT(WRITES_PASS_PINS))
            status = add_all_that_touch(values, use->range, &pinned);
    }
    /* What is overwritten as a whole need not be derived any more. */
    for (uint32_t i = 0; i < pinned.count && status == MDNN_STATUS_OK; i++)
        if (!is_overwritten(operation, pinned.ranges[i]))
            status = add(needs, pinned.ranges[i]);
    mdnn_value_set_fini(&pinned);
    return status;
}

mdnn_status_t mdnn_values_needs_for_free(mdnn_values_t *values, uint32_t freed,
                                         mdnn_value_rest_t rest, mdnn_value_set_t *needs)
{
    value_range_t *const range = &values->ranges[freed];
    MDNN_TRY(mdnn_values_refresh(values));
    if (rest == MDNN_REST_CONTENT || MDNN_FAULT(FREES_PASS_PINS))
        return MDNN_STATUS_OK;
    if (rest == MDNN_REST_NOTHING)
        return add_all_that_touch(values, freed, needs);
    if (!range->holds)
        return MDNN_STATUS_OK;
    range->holds = false;
    const mdnn_status_t status = add_what_fails(values, freed, needs);
    range->holds = true;
    return status;
}

mdnn_status_t mdnn_values_needs_for_unload(mdnn_values_t *values, uint64_t module,
                                           mdnn_value_set_t *needs)
{
    MDNN_TRY(mdnn_values_refresh(values));
    for (uint32_t i = 0; i < values->dropped.count; i++) {
        const uint32_t range = values->dropped.items[i];
        const derivation_t *const derivation = &values->ranges[range].derivation;
        for (uint32_t at = 0; at < derivation->recipe_count; at++)
            if (module != 0 && values->recipes[derivation->recipes[at]].module == module &&
                !MDNN_FAULT(UNLOADS_PASS_PINS))
                MDNN_TRY(add(needs, range));
    }
    return MDNN_STATUS_OK;
}

/* ---- reruns ---- */

static void set_held(mdnn_values_t *values, const mdnn_value_set_t *set, uint32_t first, bool held)
{
    for (uint32_t i = first; i < set->count; i++)
        values->ranges[set->ranges[i]].holds = held;
}

/* Adds what cannot be derived once all of the set is there, until nothing is to be added. */
static mdnn_status_t add_others(mdnn_values_t *values, mdnn_value_set_t *set)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    set_held(values, set, 0, true);
    for (uint32_t i = 0; i < set->count && status == MDNN_STATUS_OK; i++) {
        const uint32_t known = set->count;
        if (!MDNN_FAULT(OTHERS_LEFT_BEHIND))
            status = add_what_fails(values, set->ranges[i], set);
        set_held(values, set, known, true);
    }
    set_held(values, set, 0, false);
    return status;
}

static int compare_order(const void *left, const void *right)
{
    const recipe_t *const *const a = left, *const *const b = right;
    return (*a)->order < (*b)->order ? -1 : (*a)->order > (*b)->order;
}

static mdnn_rerun_use_t place_use(const mdnn_values_t *values, const recipe_use_t *use)
{
    mdnn_rerun_use_t placed = {.range = use->range, .copy = NONE, .role = use->role};
    if (use->input != NONE) {
        const value_t *const input = &values->values[use->input];
        const bool copied = input->made != values->walk && input->copy != NONE;
        placed.from = copied ? MDNN_PLACE_COPY : MDNN_PLACE_OWN;
        placed.copy = copied ? input->copy : NONE;
    }
    if (use->role == MDNN_VALUE_READ)
        return placed;
    if ((use->output != NONE && values->values[use->output].made == values->walk) ||
        placed.from == MDNN_PLACE_OWN || MDNN_FAULT(SIDE_OUTPUTS_IN_PLACE))
        placed.to = MDNN_PLACE_OWN;
    else
        placed.to = MDNN_PLACE_SCRATCH;
    return placed;
}

static mdnn_status_t add_step(const mdnn_values_t *values, const recipe_t *recipe,
                              mdnn_rerun_t *rerun)
{
    if (rerun->step_count == rerun->step_capacity) {
        const uint32_t capacity = 2 * rerun->step_capacity + 16;
        mdnn_rerun_step_t *const grown = reallocarray(rerun->steps, capacity, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        rerun->steps = grown;
        rerun->step_capacity = capacity;
    }
    if (recipe->use_count > rerun->use_capacity - rerun->use_count) {
        const uint32_t capacity = 2 * rerun->use_capacity + recipe->use_count + 16;
        mdnn_rerun_use_t *const grown = reallocarray(rerun->uses, capacity, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        rerun->uses = grown;
        rerun->use_capacity = capacity;
    }
    rerun->steps[rerun->step_count++] = (mdnn_rerun_step_t){.key = recipe->key,
                                                            .time_us = recipe->time_us,
                                                            .first_use = rerun->use_count,
                                                            .use_count = recipe->use_count};
    for (uint32_t i = 0; i < recipe->use_count; i++)
        rerun->uses[rerun->use_count++] = place_use(values, &recipe->uses[i]);
    return MDNN_STATUS_OK;
}

/* In the order of the original operations. */
static mdnn_status_t add_steps(mdnn_values_t *values, mdnn_rerun_t *rerun)
{
    const list_t *const found = &values->recipes_found;
    const recipe_t **const sorted = reallocarray(NULL, found->count + 1, sizeof *sorted);
    if (!sorted)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < found->count; i++)
        sorted[i] = &values->recipes[found->items[i]];
    if (!MDNN_FAULT(RERUNS_IN_ANY_ORDER))
        qsort(sorted, found->count, sizeof *sorted, compare_order);
    mdnn_status_t status = MDNN_STATUS_OK;
    for (uint32_t i = 0; i < found->count && status == MDNN_STATUS_OK; i++)
        status = add_step(values, sorted[i], rerun);
    free(sorted);
    return status;
}

static void be_there(mdnn_values_t *values, uint32_t remade)
{
    list_t *const dropped = &values->dropped;
    value_range_t *const range = &values->ranges[remade];
    for (uint32_t i = 0; i < dropped->count; i++)
        if (dropped->items[i] == remade)
            dropped->items[i--] = dropped->items[--dropped->count];
    mdnn_values_end_derivation(values, remade);
    mdnn_values_set_stale(values, remade);
    range->dropped = range->stale = false;
    range->holds = true;
}

mdnn_status_t mdnn_values_remake(mdnn_values_t *values, const mdnn_value_set_t *wanted,
                                 mdnn_rerun_t *rerun)
{
    mdnn_value_set_t *const remade = &rerun->remade;
    remade->count = rerun->step_count = rerun->use_count = 0;
    MDNN_TRY(mdnn_values_refresh(values));
    for (uint32_t i = 0; i < wanted->count; i++)
        if (mdnn_values_is_dropped(values, wanted->ranges[i]))
            MDNN_TRY(add(remade, wanted->ranges[i]));
    MDNN_TRY(add_others(values, remade));
    MDNN_TRY(mdnn_values_walk(values, remade->ranges, remade->count));
    MDNN_TRY(add_steps(values, rerun));
    for (uint32_t i = 0; i < remade->count; i++)
        be_there(values, remade->ranges[i]);
    return MDNN_STATUS_OK;
}
