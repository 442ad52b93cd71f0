/* Chains of launches. A kernel that works in place, adds to what is there, or writes a part of its result cannot make the
 * result again by itself. But if another launch has made what it finds there, both together can, one after the other: so a
 * batch normalization and the activation that follows it in place have one recipe. All launches of a chain write the same
 * range.
 *
 * Nothing may have happened to any operand in between. So no operation at all may have named one, not even one that is
 * known to only read. A chain has a key of its own, made of those of its launches, and is proven as a whole.
 * The caller holds the lock. */
#ifndef MDNN_CHAINS_H
#define MDNN_CHAINS_H

#include "shim/remake/made_values.h"

/* `last` is the recipe of a launch that is about to be enqueued; the reference is passed on. Returns it, or a chain that
 * ends with it, in which case that of the launches before is counted. */
mdnn_recipe_t *mdnn_chain(const mdnn_memory_t *memory, mdnn_recipe_t *last, uint64_t code,
                          uint64_t unknown, bool *is_new);

#endif
