/* Entries of values, recipes and ranges; what ends when nothing refers to it any more. */
#include <stdlib.h>

#include "offload/remake/values_internal.h"

mdnn_status_t mdnn_values_push(list_t *list, uint32_t item)
{
    if (list->count == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
        uint32_t *const grown = reallocarray(list->items, capacity, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return MDNN_STATUS_OK;
}

/* Room for `more` items behind `count`, of which unused ones are not counted. */
static bool make_room(void **items, uint32_t *capacity, uint32_t count, uint32_t more, size_t bytes)
{
    uint32_t wanted = *capacity ? *capacity : 16;
    if (more <= *capacity - count)
        return true;
    while (wanted - count < more) {
        if (wanted > UINT32_MAX / 4)
            return false;
        wanted *= 2;
    }
    void *const grown = reallocarray(*items, wanted, bytes);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

mdnn_status_t mdnn_values_make_room(mdnn_values_t *values, uint32_t more_values,
                                    uint32_t more_recipes, uint32_t more_ranges)
{
    return make_room((void **)&values->values, &values->value_capacity, values->value_count,
                     more_values, sizeof *values->values) &&
                   make_room((void **)&values->recipes, &values->recipe_capacity,
                             values->recipe_count, more_recipes, sizeof *values->recipes) &&
                   make_room((void **)&values->ranges, &values->range_capacity, values->range_count,
                             more_ranges, sizeof *values->ranges)
               ? MDNN_STATUS_OK
               : MDNN_STATUS_OUT_OF_MEMORY;
}

uint32_t mdnn_values_new_value(mdnn_values_t *values, uint32_t range)
{
    uint32_t made = values->free_value;
    if (made == NONE)
        made = values->value_count++;
    else
        values->free_value = values->values[made].next;
    values->values[made] = (value_t){.range = range,
                                     .number = values->ranges[range].writes++,
                                     .recipe = NONE,
                                     .copy = NONE,
                                     .references = 1,
                                     .next = NONE};
    values->ranges[range].values++;
    values->live_values++;
    return made;
}

uint32_t mdnn_values_new_range(mdnn_values_t *values, uint64_t bytes)
{
    uint32_t made = values->free_range;
    if (made == NONE)
        made = values->range_count++;
    else
        values->free_range = values->ranges[made].next;
    values->ranges[made] =
        (value_range_t){.bytes = bytes, .holds = true, .current = NONE, .next = NONE};
    return made;
}

uint32_t mdnn_values_new_recipe(mdnn_values_t *values, const mdnn_value_operation_t *operation,
                                recipe_use_t *uses)
{
    uint32_t made = values->free_recipe;
    if (made == NONE)
        made = values->recipe_count++;
    else
        values->free_recipe = values->recipes[made].newer;
    values->recipes[made] = (recipe_t){.order = ++values->order,
                                       .key = operation->key,
                                       .module = operation->module,
                                       .time_us = operation->time_us,
                                       .uses = uses,
                                       .use_count = operation->use_count,
                                       .older = values->newest,
                                       .newer = NONE};
    if (values->newest != NONE)
        values->recipes[values->newest].newer = made;
    else
        values->oldest = made;
    values->newest = made;
    values->live_recipes++;
    return made;
}

/* Takes the entry out of the order. */
static void end_recipe(mdnn_values_t *values, uint32_t ended)
{
    recipe_t *const recipe = &values->recipes[ended];
    if (recipe->older != NONE)
        values->recipes[recipe->older].newer = recipe->newer;
    else
        values->oldest = recipe->newer;
    if (recipe->newer != NONE)
        values->recipes[recipe->newer].older = recipe->older;
    else
        values->newest = recipe->older;
    free(recipe->uses);
    *recipe = (recipe_t){.newer = values->free_recipe};
    values->free_recipe = ended;
    values->live_recipes--;
}

void mdnn_values_release_range(mdnn_values_t *values, uint32_t released)
{
    value_range_t *const range = &values->ranges[released];
    range->state = RANGE_RELEASED;
    range->holds = false;
    range->current = NONE;
    if (range->values == 0) {
        range->next = values->released;
        values->released = released;
    }
}

/* A value that was written in the range, or copied there, is gone. */
static void value_left(mdnn_values_t *values, uint32_t place, uint32_t value)
{
    value_range_t *const range = &values->ranges[place];
    range->values--;
    if (range->state == RANGE_LIVES)
        return;
    if (range->current == value) {
        range->holds = false;
        range->current = NONE;
    }
    if (range->values == 0)
        mdnn_values_release_range(values, place);
}

/* Takes the reference and, where it was the last one, puts the value in a list of what ends. */
static void drop_reference(mdnn_values_t *values, uint32_t value, uint32_t *dying)
{
    if (--values->values[value].references == 0) {
        values->values[value].next = *dying;
        *dying = value;
    }
}

static void drop_inputs(mdnn_values_t *values, const recipe_t *recipe, uint32_t *dying)
{
    for (uint32_t i = 0; i < recipe->use_count; i++)
        if (recipe->uses[i].input != NONE)
            drop_reference(values, recipe->uses[i].input, dying);
}

/* The value's recipe makes one thing less, and ends with the last. */
static void leave_recipe(mdnn_values_t *values, uint32_t value, uint32_t *dying)
{
    const uint32_t left = values->values[value].recipe;
    if (left == NONE)
        return;
    recipe_t *const recipe = &values->recipes[left];
    for (uint32_t i = 0; i < recipe->use_count; i++)
        if (recipe->uses[i].output == value)
            recipe->uses[i].output = NONE;
    if (--recipe->outputs > 0)
        return;
    drop_inputs(values, recipe, dying);
    end_recipe(values, left);
}

/* Chains may be long: no recursion. */
static void end_values(mdnn_values_t *values, uint32_t dying)
{
    while (dying != NONE) {
        const uint32_t ended = dying;
        value_t *const value = &values->values[ended];
        dying = value->next;
        leave_recipe(values, ended, &dying);
        if (value->copy != NONE)
            value_left(values, value->copy, ended);
        value_left(values, value->range, ended);
        *value = (value_t){.range = NONE, .next = values->free_value};
        values->free_value = ended;
        values->live_values--;
    }
}

void mdnn_values_unreference(mdnn_values_t *values, uint32_t value)
{
    uint32_t dying = NONE;
    drop_reference(values, value, &dying);
    end_values(values, dying);
}

void mdnn_values_forget_recipe(mdnn_values_t *values, uint32_t forgotten)
{
    recipe_t *const recipe = &values->recipes[forgotten];
    uint32_t dying = NONE;
    for (uint32_t i = 0; i < recipe->use_count; i++)
        if (recipe->uses[i].output != NONE)
            values->values[recipe->uses[i].output].recipe = NONE;
    drop_inputs(values, recipe, &dying);
    end_recipe(values, forgotten);
    end_values(values, dying);
}
