/* What deriving a value takes. */
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "offload/remake/values_internal.h"

bool mdnn_values_is_held(const mdnn_values_t *values, const value_t *value)
{
    const value_range_t *const range = &values->ranges[value->range];
    return value->copy != NONE || (range->holds && &values->values[range->current] == value);
}

bool mdnn_values_is_dropped(const mdnn_values_t *values, uint32_t range)
{
    return range < values->range_count && values->ranges[range].dropped;
}

static mdnn_status_t touch(mdnn_values_t *values, uint32_t range)
{
    if (values->ranges[range].seen == values->walk)
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_values_push(&values->touched, range));
    values->ranges[range].seen = values->walk;
    return MDNN_STATUS_OK;
}

static mdnn_status_t meet(mdnn_values_t *values, uint32_t met)
{
    if (values->values[met].seen == values->walk)
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_values_push(&values->stack, met));
    values->values[met].seen = values->walk;
    return MDNN_STATUS_OK;
}

/* The value is to be made at its own place, which must be free. Meets the inputs of its recipe. */
static mdnn_status_t make(mdnn_values_t *values, uint32_t made)
{
    value_t *const value = &values->values[made];
    const value_range_t *const range = &values->ranges[value->range];
    if (value->recipe == NONE || range->state == RANGE_RELEASED)
        return MDNN_STATUS_UNSUPPORTED;
    if (range->holds && !MDNN_FAULT(PLACE_OF_ANOTHER_VALUE))
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(touch(values, value->range));
    value->made = values->walk;
    recipe_t *const recipe = &values->recipes[value->recipe];
    if (recipe->seen == values->walk)
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_values_push(&values->recipes_found, value->recipe));
    recipe->seen = values->walk;
    for (uint32_t i = 0; i < recipe->use_count; i++)
        if (recipe->uses[i].input != NONE)
            MDNN_TRY(meet(values, recipe->uses[i].input));
    return MDNN_STATUS_OK;
}

static mdnn_status_t walk_on(mdnn_values_t *values)
{
    while (values->stack.count > 0) {
        const uint32_t met = values->stack.items[--values->stack.count];
        const value_t *const value = &values->values[met];
        if (mdnn_values_is_held(values, value))
            MDNN_TRY(touch(values, value->copy != NONE ? value->copy : value->range));
        else
            MDNN_TRY(make(values, met));
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t walk_from(mdnn_values_t *values, const uint32_t *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t current = values->ranges[ranges[i]].current;
        values->values[current].seen = values->walk;
        MDNN_TRY(make(values, current));
    }
    return walk_on(values);
}

mdnn_status_t mdnn_values_walk(mdnn_values_t *values, const uint32_t *ranges, uint32_t count)
{
    values->walk++;
    values->stack.count = values->recipes_found.count = values->touched.count = 0;
    const bool held = count == 1 && values->ranges[ranges[0]].holds;
    if (held)
        values->ranges[ranges[0]].holds = false;
    const mdnn_status_t status = walk_from(values, ranges, count);
    if (held)
        values->ranges[ranges[0]].holds = true;
    return status;
}

bool mdnn_values_touches(const derivation_t *derivation, uint32_t range)
{
    for (uint32_t i = 0; i < derivation->touched_count; i++)
        if (derivation->touched[i] == range)
            return true;
    return false;
}

void mdnn_values_end_derivation(mdnn_values_t *values, uint32_t ended)
{
    derivation_t *const derivation = &values->ranges[ended].derivation;
    for (uint32_t i = 0; i < derivation->recipe_count; i++)
        values->recipes[derivation->recipes[i]].pins--;
    for (uint32_t i = 0; i < derivation->touched_count; i++)
        values->ranges[derivation->touched[i]].pins--;
    free(derivation->recipes);
    free(derivation->touched);
    *derivation = (derivation_t){0};
}

/* Takes what the last walk found, but for the range itself. */
static mdnn_status_t take_derivation(mdnn_values_t *values, uint32_t derived)
{
    const list_t *const recipes = &values->recipes_found, *const touched = &values->touched;
    derivation_t found = {.recipes = reallocarray(NULL, recipes->count + 1, sizeof(uint32_t)),
                          .touched = reallocarray(NULL, touched->count + 1, sizeof(uint32_t))};
    if (!found.recipes || !found.touched) {
        free(found.recipes);
        free(found.touched);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    found.recipe_count = recipes->count;
    memcpy(found.recipes, recipes->items, recipes->count * sizeof(uint32_t));
    for (uint32_t i = 0; i < touched->count; i++)
        if (touched->items[i] != derived)
            found.touched[found.touched_count++] = touched->items[i];
    mdnn_values_end_derivation(values, derived);
    for (uint32_t i = 0; i < found.recipe_count; i++)
        values->recipes[found.recipes[i]].pins++;
    for (uint32_t i = 0; i < found.touched_count; i++)
        values->ranges[found.touched[i]].pins++;
    values->ranges[derived].derivation = found;
    values->ranges[derived].stale = false;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_values_refresh(mdnn_values_t *values)
{
    for (uint32_t i = 0; i < values->dropped.count; i++) {
        const uint32_t range = values->dropped.items[i];
        if (!values->ranges[range].stale)
            continue;
        MDNN_TRY(mdnn_values_walk(values, &range, 1));
        MDNN_TRY(take_derivation(values, range));
    }
    return MDNN_STATUS_OK;
}

void mdnn_values_set_stale(mdnn_values_t *values, uint32_t touched)
{
    if (values->ranges[touched].pins == 0)
        return;
    for (uint32_t i = 0; i < values->dropped.count; i++) {
        value_range_t *const range = &values->ranges[values->dropped.items[i]];
        if (mdnn_values_touches(&range->derivation, touched))
            range->stale = true;
    }
}
