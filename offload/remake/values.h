/* Values and pins: which content of device memory may be dropped because it can be made again, and until when. A range
 * is the memory of one allocation; an operation is a kernel or a copy that the program enqueues.
 *
 * A value is the content of a range after one write: (range, number of the write). An operation reads values and makes
 * new ones; the operation with its inputs is the recipe of what it makes. Bytes are lost when they are dropped, not
 * when they are wanted, so everything is decided here before it happens.
 *
 * The content of a range may be dropped only while it can be derived. To derive a value, the recipes of those of its
 * inputs that are not held are run first, and then its own recipe. An input is held in its range (on the device, or
 * moved to the host) or in a copy that was kept. All runs happen in the order of the original operations and at the
 * original addresses (a range's place). So when a value is made on the way, its place must be free: no other value may
 * be there. Since a recipe's inputs are older than what it makes, derivations form no circle; and since the original
 * operations had the same order at the same addresses, one rerun can derive any set of dropped values together.
 *
 * A derivation touches ranges: it finds a held input there, or makes a value there on the way. A range that the
 * derivation of a dropped value touches is pinned. Three things could make that derivation impossible: an operation
 * that writes a pinned range, giving up the range's content or place, and unloading a recipe's module. Before each of
 * them, mdnn_values_needs_for_* names the dropped values that could not be derived afterwards; the caller remakes these
 * first, or keeps what they need. The calls that change something refuse (BUSY) while this has not been done.
 *
 * This is bookkeeping: no bytes, no streams (offload/remake/rerun_order.h) and no thread of its own; the caller holds a
 * lock. A call that fails has changed nothing. */
#ifndef MDNN_VALUES_H
#define MDNN_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_values mdnn_values_t;

#define MDNN_NO_VALUE UINT32_MAX
enum { MDNN_VALUE_USES = 256 }; /* of an operation; with more it has no recipe */

/* NULL if memory is short. At most `most_recipes` (at least 1) are remembered; of those that no dropped value needs,
 * the oldest are forgotten first. */
mdnn_values_t *mdnn_values_create(uint32_t most_recipes);
void mdnn_values_destroy(mdnn_values_t *values); /* accepts NULL */

/* A new range. What it holds has no recipe. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_add_range(mdnn_values_t *values, uint64_t bytes, uint32_t *range);

typedef enum mdnn_value_role {
    MDNN_VALUE_READ,
    MDNN_VALUE_WRITE, /* all of it, whatever was there */
    MDNN_VALUE_UPDATE, /* reads and writes it, may do so, or writes a part: so the old content is an input */
} mdnn_value_role_t;

typedef struct mdnn_value_use {
    uint32_t range;
    mdnn_value_role_t role;
} mdnn_value_use_t;

typedef struct mdnn_value_operation {
    uint64_t key;    /* the caller's: comes back in the steps of reruns */
    uint64_t module; /* code that the operation needs, and that may be unloaded; 0: none */
    double time_us;
    /* Run again, it makes the same bytes from the same inputs, and has no other effect. */
    bool repeats;
    const mdnn_value_use_t *uses; /* each range at most once */
    uint32_t use_count;
} mdnn_value_operation_t;

/* A set of ranges, owned by the caller; {0} is empty. */
typedef struct mdnn_value_set {
    uint32_t *ranges;
    uint32_t count, capacity;
} mdnn_value_set_t;
void mdnn_value_set_fini(mdnn_value_set_t *set);

/* Adds to the set what must be remade before the operation is enqueued: dropped ranges that it reads, and those that
 * could not be derived any more once it has written. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_needs_for_operation(mdnn_values_t *values,
                                              const mdnn_value_operation_t *operation,
                                              mdnn_value_set_t *needs);
/* Reports that the operation is enqueued. BUSY: something must be remade first. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_operate(mdnn_values_t *values, const mdnn_value_operation_t *operation);

/* How much of a range outlives its free. */
typedef enum mdnn_value_rest {
    MDNN_REST_NOTHING, /* the address may serve others at once */
    MDNN_REST_PLACE,   /* nobody else gets the address until the place is released */
    MDNN_REST_CONTENT, /* the place, and its content, if that was not dropped: it may be an input */
} mdnn_value_rest_t;

mdnn_status_t mdnn_values_needs_for_free(mdnn_values_t *values, uint32_t range,
                                         mdnn_value_rest_t rest, mdnn_value_set_t *needs);
/* Reports that the program freed the range: its content need not be derived for the program any more. Later calls may
 * only give up more of it. BUSY: something must be remade first. NOT_FOUND: no more than `rest` is held already. */
mdnn_status_t mdnn_values_free(mdnn_values_t *values, uint32_t range, mdnn_value_rest_t rest);

/* What is held of a range: CONTENT while it lives. Of a freed range, less is held as soon as nothing can need more. */
mdnn_value_rest_t mdnn_values_rest(const mdnn_values_t *values, uint32_t range);
/* Gives the next range of which nothing is needed any more, neither here nor by the program; its number may be used
 * again for a new range. false: there is none. */
bool mdnn_values_take_released(mdnn_values_t *values, uint32_t *range);

mdnn_status_t mdnn_values_needs_for_unload(mdnn_values_t *values, uint64_t module,
                                           mdnn_value_set_t *needs);
/* Reports that no recipe of that module can run any more. BUSY: something must be remade first. */
mdnn_status_t mdnn_values_unload(mdnn_values_t *values, uint64_t module);

/* Keeps a copy of what the range holds now, as a range of its own that the caller copies to: a pre-image of what the
 * next operation updates, or the old content of what it is about to write. *copy: the new range, which is released
 * (mdnn_values_rest) when nothing can need it. NOT_FOUND: the range does not live, or is dropped. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_keep(mdnn_values_t *values, uint32_t range, uint32_t *copy);

/* Whether the content of a live range could be dropped now. *time_us: what it would take to derive it immediately
 * afterwards, the sum of the times of its recipes. UNSUPPORTED: it cannot be derived, or is not there; OUT_OF_MEMORY.
 * */
mdnn_status_t mdnn_values_price(mdnn_values_t *values, uint32_t range, double *time_us);
/* Reports that the content was dropped. The range keeps its place. UNSUPPORTED: it cannot be derived; OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_drop(mdnn_values_t *values, uint32_t range);
bool mdnn_values_is_dropped(const mdnn_values_t *values, uint32_t range);

/* Where a rerun operation finds or puts what an original use named. */
typedef enum mdnn_value_place {
    MDNN_PLACE_NONE,    /* the use has no such side */
    MDNN_PLACE_OWN,     /* at the range's own address */
    MDNN_PLACE_COPY,    /* inputs: in the range `copy` */
    MDNN_PLACE_SCRATCH, /* outputs that nobody wants: in scratch memory, by redirected addresses */
} mdnn_value_place_t;

typedef struct mdnn_rerun_use {
    uint32_t range, copy;
    /* Where the step reads and writes the range. `from` COPY and `to` another place: the copy is put there first. */
    mdnn_value_place_t from, to;
    mdnn_value_role_t role;
} mdnn_rerun_use_t;

typedef struct mdnn_rerun_step {
    uint64_t key;
    double time_us;
    uint32_t first_use, use_count;
} mdnn_rerun_step_t;

/* Operations to be enqueued one after the other. Owned by the caller; {0} is empty. */
typedef struct mdnn_rerun {
    mdnn_rerun_step_t *steps;
    mdnn_rerun_use_t *uses;
    uint32_t step_count, use_count, step_capacity, use_capacity;
    /* The ranges that were wanted, and those that could not be derived any more once the wanted ones are there. */
    mdnn_value_set_t remade;
} mdnn_rerun_t;
void mdnn_rerun_fini(mdnn_rerun_t *rerun);

/* Makes the rerun that derives the `wanted` ranges, and with them those that could not be derived afterwards. Ranges
 * that are not dropped are skipped. The caller enqueues the rerun before anything else that names one of its ranges;
 * from the caller's next call on, all of it counts as done. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_remake(mdnn_values_t *values, const mdnn_value_set_t *wanted,
                                 mdnn_rerun_t *rerun);

typedef struct mdnn_values_report {
    uint64_t dropped_bytes, copy_bytes; /* now; copies that mdnn_values_keep made */
    uint64_t rest_bytes;                /* content of freed ranges that is kept */
    uint32_t dropped, recipes, live_values;
} mdnn_values_report_t;
mdnn_values_report_t mdnn_values_report(const mdnn_values_t *values);

#endif
