#include "offload/remake/values.h"

#include <stdlib.h>

#include "config/fault.h"
#include "offload/remake/values_internal.h"

mdnn_values_t *mdnn_values_create(uint32_t most_recipes)
{
    mdnn_values_t *const values = calloc(1, sizeof *values);
    if (!values)
        return NULL;
    values->free_value = values->free_recipe = values->free_range = NONE;
    values->oldest = values->newest = values->released = NONE;
    values->most_recipes = most_recipes > 0 ? most_recipes : 1;
    return values;
}

void mdnn_values_destroy(mdnn_values_t *values)
{
    if (!values)
        return;
    for (uint32_t i = 0; i < values->recipe_count; i++)
        free(values->recipes[i].uses);
    for (uint32_t i = 0; i < values->range_count; i++) {
        free(values->ranges[i].derivation.recipes);
        free(values->ranges[i].derivation.touched);
    }
    free(values->values);
    free(values->recipes);
    free(values->ranges);
    free(values->dropped.items);
    free(values->stack.items);
    free(values->recipes_found.items);
    free(values->touched.items);
    free(values);
}

mdnn_status_t mdnn_values_add_range(mdnn_values_t *values, uint64_t bytes, uint32_t *range)
{
    MDNN_TRY(mdnn_values_make_room(values, 1, 0, 1));
    *range = mdnn_values_new_range(values, bytes);
    const uint32_t value = mdnn_values_new_value(values, *range);
    values->ranges[*range].current = value;
    return MDNN_STATUS_OK;
}

static bool is_live(const mdnn_values_t *values, uint32_t range)
{
    return range < values->range_count && values->ranges[range].state == RANGE_LIVES;
}

/* ---- operations ---- */

static void leave_dropped(mdnn_values_t *values, uint32_t left)
{
    list_t *const dropped = &values->dropped;
    uint32_t at = 0;
    while (dropped->items[at] != left)
        at++;
    dropped->items[at] = dropped->items[--dropped->count];
    values->ranges[left].dropped = values->ranges[left].stale = false;
    mdnn_values_end_derivation(values, left);
}

/* The inputs as they are now. NULL: memory is short, or there is to be no recipe. */
static recipe_use_t *uses_of(const mdnn_values_t *values, const mdnn_value_operation_t *operation)
{
    recipe_use_t *const uses = reallocarray(NULL, operation->use_count, sizeof *uses);
    for (uint32_t i = 0; uses && i < operation->use_count; i++) {
        const mdnn_value_use_t *const use = &operation->uses[i];
        const bool reads = use->role == MDNN_VALUE_READ ||
                           (use->role == MDNN_VALUE_UPDATE && !MDNN_FAULT(UPDATES_READ_NOTHING));
        uses[i] = (recipe_use_t){.range = use->range,
                                 .input = reads ? values->ranges[use->range].current : NONE,
                                 .output = NONE,
                                 .role = use->role};
    }
    return uses;
}

static uint32_t written_by(const mdnn_value_operation_t *operation)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < operation->use_count; i++)
        written += operation->uses[i].role != MDNN_VALUE_READ;
    return written;
}

/* Needs room. The range holds another value from now on. */
static uint32_t write_range(mdnn_values_t *values, uint32_t written)
{
    const uint32_t made = mdnn_values_new_value(values, written);
    value_range_t *const range = &values->ranges[written];
    const uint32_t before = range->current;
    if (range->dropped)
        leave_dropped(values, written);
    range->current = made;
    range->holds = true;
    mdnn_values_unreference(values, before);
    return made;
}

static void write_all(mdnn_values_t *values, const mdnn_value_operation_t *operation, uint32_t made)
{
    for (uint32_t i = 0; i < operation->use_count; i++) {
        if (operation->uses[i].role == MDNN_VALUE_READ)
            continue;
        const uint32_t value = write_range(values, operation->uses[i].range);
        if (made == NONE)
            continue;
        values->values[value].recipe = made;
        values->recipes[made].uses[i].output = value;
        values->recipes[made].outputs++;
    }
}

static void forget_old_recipes(mdnn_values_t *values)
{
    uint32_t next = values->oldest;
    while (values->live_recipes > values->most_recipes && next != NONE) {
        const uint32_t looked_at = next;
        next = values->recipes[looked_at].newer;
        if (values->recipes[looked_at].pins > 0 && !MDNN_FAULT(PINNED_RECIPES_FORGOTTEN))
            continue;
        mdnn_values_forget_recipe(values, looked_at);
        next = values->oldest; /* others may have ended with it */
    }
}

mdnn_status_t mdnn_values_operate(mdnn_values_t *values, const mdnn_value_operation_t *operation)
{
    const uint32_t written = written_by(operation);
    mdnn_value_set_t needs = {0};
    mdnn_status_t status = mdnn_values_needs_for_operation(values, operation, &needs);
    if (status == MDNN_STATUS_OK && needs.count > 0)
        status = MDNN_STATUS_BUSY;
    mdnn_value_set_fini(&needs);
    MDNN_TRY(status);
    if (written == 0)
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_values_make_room(values, written, 1, 0));
    uint32_t made = NONE;
    if (operation->repeats && operation->use_count <= MDNN_VALUE_USES) {
        recipe_use_t *const uses = uses_of(values, operation);
        if (!uses)
            return MDNN_STATUS_OUT_OF_MEMORY;
        made = mdnn_values_new_recipe(values, operation, uses);
        for (uint32_t i = 0; i < operation->use_count; i++)
            if (uses[i].input != NONE)
                values->values[uses[i].input].references++;
    }
    write_all(values, operation, made);
    forget_old_recipes(values);
    return MDNN_STATUS_OK;
}

/* ---- frees and unloads ---- */

mdnn_value_rest_t mdnn_values_rest(const mdnn_values_t *values, uint32_t number)
{
    const value_range_t *const range = &values->ranges[number];
    if (range->state == RANGE_LIVES)
        return MDNN_REST_CONTENT;
    if (range->state != RANGE_FREED)
        return MDNN_REST_NOTHING;
    return range->holds ? MDNN_REST_CONTENT : MDNN_REST_PLACE;
}

bool mdnn_values_take_released(mdnn_values_t *values, uint32_t *range)
{
    if (values->released == NONE)
        return false;
    *range = values->released;
    value_range_t *const taken = &values->ranges[*range];
    values->released = taken->next;
    *taken = (value_range_t){.state = RANGE_UNUSED, .current = NONE, .next = values->free_range};
    values->free_range = *range;
    return true;
}

mdnn_status_t mdnn_values_free(mdnn_values_t *values, uint32_t freed, mdnn_value_rest_t rest)
{
    if (freed >= values->range_count)
        return MDNN_STATUS_NOT_FOUND;
    value_range_t *const range = &values->ranges[freed];
    if (range->is_copy || range->state == RANGE_UNUSED ||
        (range->state != RANGE_LIVES && mdnn_values_rest(values, freed) <= rest))
        return MDNN_STATUS_NOT_FOUND;
    mdnn_value_set_t needs = {0};
    mdnn_status_t status = mdnn_values_needs_for_free(values, freed, rest, &needs);
    if (status == MDNN_STATUS_OK && needs.count > 0)
        status = MDNN_STATUS_BUSY;
    mdnn_value_set_fini(&needs);
    MDNN_TRY(status);
    const bool lived = range->state == RANGE_LIVES;
    const uint32_t current = range->current;
    if (range->dropped)
        leave_dropped(values, freed);
    if (rest != MDNN_REST_CONTENT && range->holds) {
        range->holds = false;
        mdnn_values_set_stale(values, freed);
    }
    range->state = RANGE_FREED;
    if (lived)
        mdnn_values_unreference(values, current);
    if (rest == MDNN_REST_NOTHING && range->state == RANGE_FREED)
        mdnn_values_release_range(values, freed);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_values_unload(mdnn_values_t *values, uint64_t module)
{
    mdnn_value_set_t needs = {0};
    mdnn_status_t status = mdnn_values_needs_for_unload(values, module, &needs);
    if (status == MDNN_STATUS_OK && needs.count > 0)
        status = MDNN_STATUS_BUSY;
    mdnn_value_set_fini(&needs);
    MDNN_TRY(status);
    for (uint32_t next = values->oldest; next != NONE;) {
        const uint32_t looked_at = next;
        next = values->recipes[looked_at].newer;
        if (values->recipes[looked_at].module == module && module != 0) {
            mdnn_values_forget_recipe(values, looked_at);
            next = values->oldest;
        }
    }
    return MDNN_STATUS_OK;
}

/* ---- copies and drops ---- */

mdnn_status_t mdnn_values_keep(mdnn_values_t *values, uint32_t kept, uint32_t *copy)
{
    if (!is_live(values, kept) || values->ranges[kept].dropped)
        return MDNN_STATUS_NOT_FOUND;
    const uint32_t current = values->ranges[kept].current;
    if (values->values[current].copy != NONE) {
        *copy = values->values[current].copy;
        return MDNN_STATUS_OK;
    }
    MDNN_TRY(mdnn_values_make_room(values, 0, 0, 1));
    *copy = mdnn_values_new_range(values, values->ranges[kept].bytes);
    value_range_t *const range = &values->ranges[*copy];
    range->state = RANGE_FREED;
    range->is_copy = true;
    range->current = current;
    range->values = 1;
    values->values[current].copy = *copy;
    mdnn_values_set_stale(values, kept);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_values_price(mdnn_values_t *values, uint32_t range, double *time_us)
{
    if (!is_live(values, range) || values->ranges[range].dropped)
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(mdnn_values_walk(values, &range, 1));
    *time_us = 0;
    for (uint32_t i = 0; i < values->recipes_found.count; i++)
        *time_us += values->recipes[values->recipes_found.items[i]].time_us;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_values_drop(mdnn_values_t *values, uint32_t dropped)
{
    if (!is_live(values, dropped) || values->ranges[dropped].dropped)
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(mdnn_values_refresh(values));
    MDNN_TRY(mdnn_values_walk(values, &dropped, 1));
    MDNN_TRY(mdnn_values_push(&values->dropped, dropped));
    value_range_t *const range = &values->ranges[dropped];
    range->holds = false;
    range->dropped = range->stale = true;
    mdnn_values_set_stale(values, dropped);
    return MDNN_STATUS_OK;
}

mdnn_values_report_t mdnn_values_report(const mdnn_values_t *values)
{
    mdnn_values_report_t report = {.dropped = values->dropped.count,
                                   .recipes = values->live_recipes,
                                   .live_values = values->live_values};
    for (uint32_t i = 0; i < values->range_count; i++) {
        const value_range_t *const range = &values->ranges[i];
        if (range->dropped)
            report.dropped_bytes += range->bytes;
        if (range->state == RANGE_FREED && range->holds)
            *(range->is_copy ? &report.copy_bytes : &report.rest_bytes) += range->bytes;
    }
    return report;
}
