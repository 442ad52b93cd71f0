/* The lists of variants that operations of the ring had, each kept once. */
#include "offload/follow/history_internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_set(const history_variants_t *all, uint32_t set, const mdnn_variant_t *variants,
                   uint32_t count)
{
    if (set == 0 || all->sets[set - 1].count != count)
        return false;
    for (uint32_t v = 0; v < count; v++) {
        const mdnn_variant_t *const kept = &all->sets[set - 1].variants[v];
        if (kept->time_us != variants[v].time_us ||
            kept->workspace_bytes != variants[v].workspace_bytes)
            return false;
    }
    return true;
}

static bool make_room(history_variants_t *all)
{
    if (all->count < all->capacity)
        return true;
    const uint32_t capacity = all->capacity ? 2 * all->capacity : 16;
    struct history_variant_set *const grown = reallocarray(all->sets, capacity, sizeof *grown);
    if (!grown)
        return false;
    all->sets = grown;
    all->capacity = capacity;
    return true;
}

uint32_t history_variants_note(history_variants_t *all, const mdnn_variant_t *variants,
                               uint32_t count, uint32_t likely)
{
    if (count == 0 || count > HISTORY_VARIANTS)
        return 0;
    if (is_set(all, likely, variants, count))
        return likely;
    for (uint32_t set = 1; set <= all->count; set++)
        if (is_set(all, set, variants, count))
            return set;
    if (all->count == HISTORY_VARIANT_SETS || !make_room(all))
        return 0;
    mdnn_variant_t *const copy = calloc(count, sizeof *copy);
    if (!copy)
        return 0;
    memcpy(copy, variants, count * sizeof *copy);
    all->sets[all->count++] = (struct history_variant_set){copy, count};
    return all->count;
}

const mdnn_variant_t *history_variants_of(const history_variants_t *all, uint32_t set,
                                          uint32_t *count)
{
    *count = set == 0 ? 1 : all->sets[set - 1].count;
    return set == 0 ? NULL : all->sets[set - 1].variants;
}

void history_variants_fini(history_variants_t *all)
{
    for (uint32_t set = 0; set < all->count; set++)
        free(all->sets[set].variants);
    free(all->sets);
    *all = (history_variants_t){0};
}
