#include "shim/remake/made_values.h"

#include <stdlib.h>

#include "config/fault.h"

/* ---- recipes ---- */

mdnn_recipe_t *mdnn_recipe_create(uint32_t operand_count)
{
    mdnn_recipe_t *const recipe =
        calloc(1, sizeof *recipe + operand_count * sizeof recipe->operands[0]);
    if (!recipe)
        return NULL;
    recipe->references = 1;
    recipe->length = 1;
    recipe->operand_count = recipe->last_count = operand_count;
    return recipe;
}

void mdnn_recipe_drop(mdnn_recipe_t *recipe)
{
    while (recipe && atomic_fetch_sub(&recipe->references, 1) == 1) {
        mdnn_recipe_t *const before = recipe->before;
        mdnn_recorded_launch_free(recipe->launch);
        free(recipe);
        recipe = before;
    }
}

bool mdnn_recipe_is_side(const mdnn_recipe_t *recipe, uint32_t operand)
{
    const mdnn_recipe_operand_t *const named = &recipe->operands[operand];
    return recipe->key->operands[operand].changed && named->bytes <= MDNN_REMAKE_SMALL &&
           (named->plain || MDNN_FAULT(HIDDEN_RANGES_ARE_REDIRECTED));
}

uint32_t mdnn_recipe_result(const mdnn_recipe_t *recipe)
{
    uint32_t result = UINT32_MAX, count = 0;
    for (uint32_t i = 0; i < recipe->operand_count; i++) {
        if (!recipe->key->operands[i].changed || mdnn_recipe_is_side(recipe, i))
            continue;
        result = i;
        count++;
    }
    return count == 1 || MDNN_FAULT(OTHER_RESULTS_ARE_MADE_AGAIN) ? result : UINT32_MAX;
}

bool mdnn_recipe_replay(const mdnn_driver_t *driver, const mdnn_recipe_t *recipe,
                        const mdnn_redirect_t *redirects, size_t count, CUstream stream)
{
    if (recipe->before && !mdnn_recipe_replay(driver, recipe->before, redirects, count, stream))
        return false;
    return mdnn_recorded_launch_replay(driver, recipe->launch, redirects, count, stream) ==
           CUDA_SUCCESS;
}

/* ---- values ---- */

enum { FEWEST_PLACES = 1024, MOST_PLACES = 1 << 21 };

/* By start. A place is never given up, but serves the next range there. */
static mdnn_made_value_t *table;
static size_t places, used;

static mdnn_made_value_t *place_of(mdnn_made_value_t *in, size_t count, uint64_t start)
{
    size_t at = (size_t)((start >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (count - 1);
    while (in[at].start != 0 && in[at].start != start)
        at = (at + 1) & (count - 1);
    return &in[at];
}

static bool grow(void)
{
    const size_t count = places ? 2 * places : FEWEST_PLACES;
    mdnn_made_value_t *const grown = count <= MOST_PLACES ? calloc(count, sizeof *grown) : NULL;
    if (!grown)
        return false;
    for (size_t i = 0; i < places; i++)
        if (table[i].start != 0)
            *place_of(grown, count, table[i].start) = table[i];
    free(table);
    table = grown;
    places = count;
    return true;
}

/* NULL: no memory. Entries move only where a new one is made. */
static mdnn_made_value_t *entry_for(uint64_t start)
{
    mdnn_made_value_t *const place = places > 0 ? place_of(table, places, start) : NULL;
    if (place && place->start != 0)
        return place;
    if (2 * used >= places && !grow() && used + 1 >= places)
        return NULL;
    return place_of(table, places, start);
}

mdnn_made_value_t *mdnn_made_value(const mdnn_memory_t *memory, uint64_t address)
{
    uint64_t start, bytes;
    mdnn_made_value_t *const value =
        mdnn_memory_find(memory, address, &start, &bytes) ? entry_for(start) : NULL;
    const uint64_t number = value ? mdnn_memory_number(memory, start) : 0;
    if (!value || (value->start != 0 && value->number == number))
        return value;
    used += value->start == 0;
    mdnn_recipe_drop(value->recipe);
    *value = (mdnn_made_value_t){.start = start,
                                 .number = number,
                                 .bytes = bytes,
                                 .why = MDNN_REMAKE_no_kernel,
                                 .judged = true};
    return value;
}

void mdnn_made_value_written(mdnn_made_value_t *value, mdnn_recipe_t *recipe,
                             mdnn_remake_outcome_t why)
{
    if (recipe)
        recipe->references++;
    mdnn_recipe_drop(value->recipe);
    value->recipe = recipe;
    value->why = why;
    value->version++;
    value->judged = false;
}

void mdnn_made_value_made_by(mdnn_made_value_t *value, const mdnn_recipe_t *recipe,
                             uint32_t operand)
{
    value->maker = recipe && operand < recipe->operand_count ? recipe->key : NULL;
    value->maker_operand = operand;
}

mdnn_remake_outcome_t mdnn_recipe_is_ready(const mdnn_memory_t *memory, const mdnn_recipe_t *recipe)
{
    for (uint32_t i = 0; i < recipe->operand_count; i++) {
        const mdnn_recipe_operand_t *const operand = &recipe->operands[i];
        if (mdnn_memory_number(memory, operand->start) != operand->number)
            return MDNN_REMAKE_input_gone;
        const mdnn_made_value_t *const value = mdnn_made_value(memory, operand->start);
        if (!value || (value->version != operand->version && !MDNN_FAULT(CHANGED_INPUTS_SERVE)))
            return MDNN_REMAKE_input_changed;
    }
    return MDNN_REMAKE_proven;
}
