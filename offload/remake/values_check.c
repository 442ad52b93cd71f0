/* The rules that hold between two calls. */
#include "config/rule.h"
#include "offload/remake/values_internal.h"

static bool recipes_are_valid(const mdnn_values_t *values, const char **broken)
{
    uint32_t count = 0;
    uint64_t before = 0;
    for (uint32_t next = values->oldest; next != NONE; next = values->recipes[next].newer) {
        const recipe_t *const recipe = &values->recipes[next];
        uint32_t outputs = 0;
        MDNN_RULE(recipe->order > before);
        before = recipe->order;
        for (uint32_t i = 0; i < recipe->use_count; i++) {
            const recipe_use_t *const use = &recipe->uses[i];
            MDNN_RULE(use->input == NONE || values->values[use->input].references > 0);
            MDNN_RULE(use->output == NONE || values->values[use->output].recipe == next);
            outputs += use->output != NONE;
        }
        MDNN_RULE(outputs == recipe->outputs && outputs > 0);
        count++;
    }
    MDNN_RULE(count == values->live_recipes);
    return true;
}

/* References of recipes and of ranges that live. */
static bool values_are_valid(const mdnn_values_t *values, const char **broken)
{
    for (uint32_t i = 0; i < values->value_count; i++) {
        const value_t *const value = &values->values[i];
        uint32_t references = 0;
        if (value->range == NONE)
            continue;
        for (uint32_t next = values->oldest; next != NONE; next = values->recipes[next].newer)
            for (uint32_t at = 0; at < values->recipes[next].use_count; at++)
                references += values->recipes[next].uses[at].input == i;
        const value_range_t *const range = &values->ranges[value->range];
        references += range->state == RANGE_LIVES && range->current == i;
        MDNN_RULE(value->references == references && references > 0);
        MDNN_RULE(range->state != RANGE_UNUSED);
        MDNN_RULE(value->copy == NONE || values->ranges[value->copy].current == i);
    }
    return true;
}

static bool pins_are_valid(const mdnn_values_t *values, const char **broken)
{
    for (uint32_t i = 0; i < values->range_count; i++) {
        const value_range_t *const range = &values->ranges[i];
        uint32_t pins = 0, listed = 0;
        for (uint32_t at = 0; at < values->dropped.count; at++) {
            pins += mdnn_values_touches(&values->ranges[values->dropped.items[at]].derivation, i);
            listed += values->dropped.items[at] == i;
        }
        MDNN_RULE(range->pins == pins);
        MDNN_RULE(range->pins == 0 || range->state == RANGE_LIVES || range->state == RANGE_FREED);
        MDNN_RULE(listed == range->dropped);
        MDNN_RULE(range->state != RANGE_LIVES || range->dropped != range->holds);
        MDNN_RULE(!range->holds || range->current != NONE);
    }
    return true;
}

/* What is dropped can be derived. */
static bool drops_are_valid(mdnn_values_t *values, const char **broken)
{
    for (uint32_t i = 0; i < values->dropped.count; i++) {
        const mdnn_status_t status = mdnn_values_walk(values, &values->dropped.items[i], 1);
        MDNN_RULE(status != MDNN_STATUS_UNSUPPORTED);
    }
    return true;
}

bool mdnn_values_is_valid(mdnn_values_t *values, const char **broken)
{
    return recipes_are_valid(values, broken) && values_are_valid(values, broken) &&
           pins_are_valid(values, broken) && drops_are_valid(values, broken);
}
