/* What the files offload/remake/values*.c share; values.h introduces the terms. Entries of the arrays are referred to
 * by their indices; unused entries form lists. A walk is one search for what deriving a set of ranges takes. */
#ifndef MDNN_VALUES_INTERNAL_H
#define MDNN_VALUES_INTERNAL_H

#include "offload/remake/values.h"

#define NONE MDNN_NO_VALUE

typedef struct value {
    uint32_t range;      /* where it was written; NONE: this entry is unused */
    uint32_t number;     /* of the write to that range, from 0 */
    uint32_t recipe;     /* NONE: it cannot be derived */
    uint32_t copy;       /* the range that keeps a copy, or NONE */
    uint32_t references; /* recipes that read it, and one while a live range has it */
    uint32_t next;       /* in the list of unused entries, or of values that end */
    uint32_t seen, made; /* the last walk that met it; the last walk that makes it */
} value_t;

typedef struct recipe_use {
    uint32_t range, input,
        output; /* values; NONE: the use has no such side, or the output is gone */
    mdnn_value_role_t role;
} recipe_use_t;

typedef struct recipe {
    uint64_t order; /* of the operations; 0: this entry is unused */
    uint64_t key, module;
    double time_us;
    recipe_use_t *uses;
    uint32_t use_count, outputs; /* outputs that are still values */
    uint32_t pins;               /* derivations of dropped ranges that run it */
    uint32_t older, newer;       /* by order; `newer` of an unused entry: the next one */
    uint32_t seen;
} recipe_t;

/* What deriving a dropped range takes. */
typedef struct derivation {
    uint32_t *recipes, *touched; /* ranges, without its own */
    uint32_t recipe_count, touched_count;
} derivation_t;

typedef enum range_state { RANGE_LIVES, RANGE_FREED, RANGE_RELEASED, RANGE_UNUSED } range_state_t;

typedef struct value_range {
    uint64_t bytes;
    range_state_t state;
    bool holds;       /* its current value is there */
    bool dropped;     /* lives, and holds nothing */
    bool stale;       /* the derivation is to be found anew */
    bool is_copy;     /* holds a copy of the value `current` */
    uint32_t current; /* value; NONE: none any more */
    uint32_t writes;
    uint32_t values;         /* entries that were written here */
    uint32_t pins;           /* derivations that touch it */
    uint32_t next;           /* in the list of released ranges, or of unused entries */
    uint32_t seen;           /* the walk that touched it last */
    derivation_t derivation; /* while dropped */
} value_range_t;

typedef struct list {
    uint32_t *items, count, capacity;
} list_t;

struct mdnn_values {
    value_t *values;
    recipe_t *recipes;
    value_range_t *ranges;
    uint32_t value_count, value_capacity, free_value, live_values;
    uint32_t recipe_count, recipe_capacity, free_recipe, live_recipes, most_recipes;
    uint32_t oldest, newest;
    uint32_t range_count, range_capacity, free_range, released;
    uint64_t order;
    uint32_t walk;
    list_t dropped;                       /* ranges */
    list_t stack, recipes_found, touched; /* of the last walk */
};

/* values_lives.c: entries, and their ends. */
mdnn_status_t mdnn_values_push(list_t *list, uint32_t item);
mdnn_status_t mdnn_values_make_room(mdnn_values_t *values, uint32_t more_values,
                                    uint32_t more_recipes, uint32_t more_ranges);
/* These need room. The value begins with one reference. */
uint32_t mdnn_values_new_value(mdnn_values_t *values, uint32_t range);
uint32_t mdnn_values_new_range(mdnn_values_t *values, uint64_t bytes);
uint32_t mdnn_values_new_recipe(mdnn_values_t *values, const mdnn_value_operation_t *operation,
                                recipe_use_t *uses);
void mdnn_values_unreference(mdnn_values_t *values, uint32_t value);
/* Ends the recipe; the values that it made have no recipe any more. */
void mdnn_values_forget_recipe(mdnn_values_t *values, uint32_t recipe);
/* Releases the range, if nothing of it is needed any more: mdnn_values_take_released returns it later. */
void mdnn_values_release_range(mdnn_values_t *values, uint32_t range);

/* values_derive.c */
bool mdnn_values_is_held(const mdnn_values_t *values, const value_t *value);
/* Walks from the current values of these ranges, through the recipes, to values that are held. The ranges are dropped,
 * or count as dropped during the walk. Leaves the recipes and the touched ranges in the lists of mdnn_values_t, and
 * sets `made` of the values that are made on the way. UNSUPPORTED: something cannot be derived; OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_walk(mdnn_values_t *values, const uint32_t *ranges, uint32_t count);
/* Brings the derivations of all dropped ranges up to date. */
mdnn_status_t mdnn_values_refresh(mdnn_values_t *values);
/* Marks the derivations that touch the range as stale. */
void mdnn_values_set_stale(mdnn_values_t *values, uint32_t range);
void mdnn_values_end_derivation(mdnn_values_t *values, uint32_t range);
bool mdnn_values_touches(const derivation_t *derivation, uint32_t range);

/* For tests; *broken: the first rule that does not hold. */
bool mdnn_values_is_valid(mdnn_values_t *values, const char **broken);

#endif
