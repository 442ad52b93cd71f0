/* Which launch may have made the content of each range. A range is the memory of one allocation; each write, and whatever
 * may be one, gives its content another number. A launch is made again only while everything that it names has the
 * numbers that it had when the launch was over. The caller holds the lock. */
#ifndef MDNN_MADE_VALUES_H
#define MDNN_MADE_VALUES_H

#include <stdatomic.h>

#include "offload/memory/memory.h"
#include "shim/remake/launch_keys.h"
#include "shim/remake/recorded_launch.h"

typedef struct mdnn_recipe_operand {
    uint64_t start, bytes;
    /* Whether its address stands among the parameters as such, and no address of its end does. */
    bool plain;
    uint64_t number;  /* of the allocation */
    uint64_t version; /* of its content, after the launch, */
    uint64_t named;   /* and how many operations had named the allocation by then */
} mdnn_recipe_operand_t;

/* A launch with all that it names; or a chain of launches, all of which write the same result (chains.h), with all that
 * any of them names. Counted; owns the launch. */
typedef struct mdnn_recipe {
    _Atomic uint32_t references; /* drops give theirs back without the lock */
    mdnn_recorded_launch_t *launch;
    struct mdnn_recipe *before; /* what is made again first: one reference; NULL: nothing */
    struct mdnn_drop *drop; /* the launch's, while it is known (drops.h); guarded by the device */
    uint32_t length;        /* launches */
    mdnn_launch_key_t *key;
    uint64_t code;    /* how often code had been unloaded */
    uint64_t unknown; /* how many operations had written nobody knows what */
    uint32_t operand_count;
    uint32_t last_count; /* of the last launch: the first ones of all */
    mdnn_recipe_operand_t operands[];
} mdnn_recipe_t;

/* Begins with one reference. NULL: memory is short. */
mdnn_recipe_t *mdnn_recipe_create(uint32_t operand_count);
void mdnn_recipe_drop(mdnn_recipe_t *recipe); /* accepts NULL */
/* Whether the operand is a side: a small result beside the large one. Launches that are made again get a copy of it
 * (images.h). */
bool mdnn_recipe_is_side(const mdnn_recipe_t *recipe, uint32_t operand);
/* The only operand besides that its launches change. UINT32_MAX: there is none, or there are others. */
uint32_t mdnn_recipe_result(const mdnn_recipe_t *recipe);
/* Enqueues its launches once more. false: a call failed. */
bool mdnn_recipe_replay(const mdnn_driver_t *driver, const mdnn_recipe_t *recipe,
                        const mdnn_redirect_t *redirects, size_t count, CUstream stream);

typedef struct mdnn_made_value {
    uint64_t start; /* 0: the place is empty */
    uint64_t number, bytes, version;
    uint64_t named;      /* how many operations have named the range */
    uint64_t departures; /* of the range, when the content was made, or may have been written */
    mdnn_launch_key_t
        *maker; /* of the last launch that is known to have written it; NULL: something else did */
    uint32_t maker_operand;
    mdnn_recipe_t *recipe; /* NULL: there is none, for this reason: */
    mdnn_remake_outcome_t why;
    bool judged; /* an operation has named this content */
} mdnn_made_value_t;

/* The entry of a live range; valid until another range gets its first entry. NULL: nothing lives there, or memory is
 * short. */
mdnn_made_value_t *mdnn_made_value(const mdnn_memory_t *memory, uint64_t address);
/* Its content is new. `recipe` may be NULL; it gets one more reference. */
void mdnn_made_value_written(mdnn_made_value_t *value, mdnn_recipe_t *recipe,
                             mdnn_remake_outcome_t why);
/* Notes which launch that was, whatever else may be named later that perhaps only reads it. `recipe` may be NULL. */
void mdnn_made_value_made_by(mdnn_made_value_t *value, const mdnn_recipe_t *recipe,
                             uint32_t operand);
/* Whether all that the recipe names is as it was: proven, input_changed or input_gone. */
mdnn_remake_outcome_t mdnn_recipe_is_ready(const mdnn_memory_t *memory,
                                           const mdnn_recipe_t *recipe);

#endif
