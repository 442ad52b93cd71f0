#include "shim/remake/chains.h"

#include <string.h>

#include "config/fault.h"
#include "shim/real/operation_key.h"

enum { MOST_LAUNCHES = 4 };

/* Its launches were seen not to make the same again where they find what they have made. */
static bool needs_what_was_there(const mdnn_launch_key_t *key)
{
    return key->watches >= MDNN_REMAKE_WATCHES &&
           (key->barred == MDNN_REMAKE_differs || key->barred == MDNN_REMAKE_old_content ||
            key->barred == MDNN_REMAKE_partial);
}

static bool is_untouched(const mdnn_memory_t *memory, const mdnn_recipe_t *recipe)
{
    for (uint32_t i = 0; i < recipe->operand_count; i++) {
        const mdnn_recipe_operand_t *const operand = &recipe->operands[i];
        const mdnn_made_value_t *const value = mdnn_made_value(memory, operand->start);
        if (!value || value->number != operand->number ||
            (value->named != operand->named && !MDNN_FAULT(CHAINS_HAVE_GAPS)))
            return false;
    }
    return true;
}

/* What has made the content that the launch finds in its result. */
static mdnn_recipe_t *find_before(const mdnn_memory_t *memory, const mdnn_recipe_t *last,
                                  uint64_t code, uint64_t unknown)
{
    const uint32_t result = needs_what_was_there(last->key) ? mdnn_recipe_result(last) : UINT32_MAX;
    const mdnn_made_value_t *const value =
        result != UINT32_MAX ? mdnn_made_value(memory, last->operands[result].start) : NULL;
    mdnn_recipe_t *const before = value ? value->recipe : NULL;
    if (!before || before->code != code || before->unknown != unknown ||
        before->length == MOST_LAUNCHES || before->key->watches < MDNN_REMAKE_WATCHES ||
        before->key->barred != MDNN_REMAKE_proven)
        return NULL;
    const uint32_t its_result = mdnn_recipe_result(before);
    return its_result != UINT32_MAX && before->operands[its_result].start == value->start &&
                   is_untouched(memory, before)
               ? before
               : NULL;
}

static uint32_t place_of(const mdnn_recipe_t *recipe, uint32_t count, uint64_t start)
{
    uint32_t i = 0;
    while (i < count && recipe->operands[i].start != start)
        i++;
    return i;
}

/* What both name, the operands of the later launch first; `key` is that of the chain. NULL: too much, or no memory. */
static mdnn_recipe_t *join(const mdnn_recipe_t *last, const mdnn_recipe_t *before, uint64_t key[2],
                           uint32_t places[MDNN_REMAKE_OPERANDS])
{
    const uint32_t most = last->operand_count + before->operand_count;
    mdnn_recipe_t *const chain = most <= MDNN_REMAKE_OPERANDS ? mdnn_recipe_create(most) : NULL;
    uint32_t count = last->operand_count;
    if (!chain)
        return NULL;
    memcpy(chain->operands, last->operands, count * sizeof *chain->operands);
    key[0] = mdnn_driver_hash(last->key->hash[0], before->key->hash[0]);
    key[1] = mdnn_driver_hash(last->key->hash[1], before->key->hash[1]);
    for (uint32_t i = 0; i < before->operand_count; i++) {
        places[i] = place_of(chain, count, before->operands[i].start);
        if (places[i] == count)
            chain->operands[count++] = before->operands[i];
        else /* each launch must have it so */
            chain->operands[places[i]].plain &= before->operands[i].plain;
        key[0] = mdnn_driver_hash(key[0], places[i]);
    }
    chain->operand_count = count;
    chain->last_count = last->operand_count;
    return chain;
}

/* What any of the launches changes. */
static void learn_from_parts(mdnn_launch_key_t *key, const mdnn_recipe_t *last,
                             const mdnn_recipe_t *before, const uint32_t *places)
{
    for (uint32_t i = 0; i < last->operand_count; i++)
        key->operands[i].changed = last->key->operands[i].changed;
    for (uint32_t i = 0; i < before->operand_count; i++)
        if (before->key->operands[i].changed)
            key->operands[places[i]].changed = true;
    key->watches = MDNN_REMAKE_WATCHES;
}

mdnn_recipe_t *mdnn_chain(const mdnn_memory_t *memory, mdnn_recipe_t *last, uint64_t code,
                          uint64_t unknown, bool *is_new)
{
    uint64_t hash[2];
    uint32_t places[MDNN_REMAKE_OPERANDS];
    mdnn_recipe_t *const before = find_before(memory, last, code, unknown);
    mdnn_recipe_t *const chain = before ? join(last, before, hash, places) : NULL;
    *is_new = false;
    mdnn_launch_key_t *const key =
        chain ? mdnn_launch_key(hash, chain->operand_count, is_new) : NULL;
    if (!key) {
        mdnn_recipe_drop(chain);
        return last;
    }
    if (*is_new)
        learn_from_parts(key, last, before, places);
    key->before = before->key;
    before->references++;
    chain->before = before;
    chain->length = before->length + 1;
    chain->key = key;
    chain->code = code;
    chain->launch = last->launch;
    last->launch = NULL;
    mdnn_recipe_drop(last);
    return chain;
}
