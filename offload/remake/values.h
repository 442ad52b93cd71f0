/* Values and pins: what may be dropped because it can be made again, and until when.
 *
 * A value is the content of a range after one write: (range, number of the write). An operation reads values and makes
 * new ones; the operation with its inputs is the recipe of what it makes. Bytes are lost when they are dropped, not
 * when they are wanted, so everything is decided here before it happens.
 *
 * The content of a range may be dropped only while it can be derived. To derive a value, its recipe is run again, after
 * what makes those of its inputs that are not held; inputs are held in their range (on the device or, moved there, on
 * the host) or in a copy that was kept. All runs happen in the order of the original operations and at the original
 * addresses. So a value that is needed on the way must have its place free: no other value of that range is there.
 * Since a recipe's inputs are older than what it makes, derivations form no circle; and since the original operations
 * had the same order at the same addresses, one rerun can derive any set of dropped values together.
 *
 * A derivation touches ranges: it finds a held input there, or makes a value there on the way. What it touches is
 * pinned. Before an operation writes a pinned range, before its content or its place is given up, and before a recipe
 * of it is disabled, mdnn_values_needs_for_* names the dropped values that could not be derived afterwards; they are to
 * be remade first, or what they need is to be kept. The calls that change something refuse (BUSY) while something is
 * missing.
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

/* NULL if memory is short. At most this many recipes are remembered (at least 1); the oldest that no dropped value
 * needs are forgotten first. */
mdnn_values_t *mdnn_values_create(uint32_t most_recipes);
void mdnn_values_destroy(mdnn_values_t *values); /* accepts NULL */

/* A new range. What it holds has no recipe. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_add_range(mdnn_values_t *values, uint64_t bytes, uint32_t *range);

typedef enum mdnn_value_role {
    MDNN_VALUE_READ,
    MDNN_VALUE_WRITE, /* all of it, whatever was there */
    MDNN_VALUE_UPDATE, /* reads and writes it, may do so, or writes a part: the old content is an input */
} mdnn_value_role_t;

typedef struct mdnn_value_use {
    uint32_t range;
    mdnn_value_role_t role;
} mdnn_value_use_t;

typedef struct mdnn_value_operation {
    uint64_t key;    /* the caller's: comes back in the steps of reruns */
    uint64_t module; /* what may be unloaded or destroyed; 0: nothing */
    double time_us;
    bool repeats; /* the same bytes again from the same inputs, and no other effect */
    const mdnn_value_use_t *uses; /* each range at most once */
    uint32_t use_count;
} mdnn_value_operation_t;

/* A set of ranges, owned by the caller; {0} is empty. */
typedef struct mdnn_value_set {
    uint32_t *ranges;
    uint32_t count, capacity;
} mdnn_value_set_t;
void mdnn_value_set_fini(mdnn_value_set_t *set);

/* What must be remade before the operation is enqueued: what it reads, and what could not be derived after what it
 * writes. Adds to the set. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_needs_for_operation(mdnn_values_t *values,
                                              const mdnn_value_operation_t *operation,
                                              mdnn_value_set_t *needs);
/* The operation was enqueued. BUSY, OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_operate(mdnn_values_t *values, const mdnn_value_operation_t *operation);

/* How much of a range outlives its free. */
typedef enum mdnn_value_rest {
    MDNN_REST_NOTHING, /* the address may serve others at once */
    MDNN_REST_PLACE,   /* nobody else gets the address until the place is released */
    MDNN_REST_CONTENT, /* nor is the content given up: an input is kept, if it was not dropped */
} mdnn_value_rest_t;

mdnn_status_t mdnn_values_needs_for_free(mdnn_values_t *values, uint32_t range,
                                         mdnn_value_rest_t rest, mdnn_value_set_t *needs);
/* The program freed the range: what it held need not be derived for its own sake any more. Later calls may only give up
 * more of it. BUSY; NOT_FOUND: no more is held than that. */
mdnn_status_t mdnn_values_free(mdnn_values_t *values, uint32_t range, mdnn_value_rest_t rest);

/* What is held of a range: CONTENT while it lives. Of a freed one it becomes less as soon as nothing can need it. */
mdnn_value_rest_t mdnn_values_rest(const mdnn_values_t *values, uint32_t range);
/* The next range of which nothing is needed any more, neither here nor by the program; its number may become another
 * range's. False: there is none. */
bool mdnn_values_take_released(mdnn_values_t *values, uint32_t *range);

mdnn_status_t mdnn_values_needs_for_unload(mdnn_values_t *values, uint64_t module,
                                           mdnn_value_set_t *needs);
/* No recipe of that module can run any more. BUSY. */
mdnn_status_t mdnn_values_unload(mdnn_values_t *values, uint64_t module);

/* Keeps a copy of what the range holds now, as a range of its own that the caller copies to: a pre-image of what the
 * next operation updates, or the old content of what it is about to write. *copy: the new range, which is released
 * (mdnn_values_rest) when nothing can need it. NOT_FOUND: the range does not live, or is dropped. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_keep(mdnn_values_t *values, uint32_t range, uint32_t *copy);

/* Whether the content of a live range could be given up now, and what it would take to derive it if it were derived at
 * once: the sum of the times of its recipes. UNSUPPORTED: it cannot be derived, or is not there; OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_price(mdnn_values_t *values, uint32_t range, double *time_us);
/* The content is given up. Its place stays the range's own. UNSUPPORTED: it cannot be derived; OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_drop(mdnn_values_t *values, uint32_t range);
bool mdnn_values_is_dropped(const mdnn_values_t *values, uint32_t range);

/* Where a rerun operation finds or puts what an original use named. */
typedef enum mdnn_value_place {
    MDNN_PLACE_NONE, /* the use has no such side */
    MDNN_PLACE_OWN,  /* at the range's own address */
    MDNN_PLACE_COPY, /* inputs: in the range `copy` */
    MDNN_PLACE_SCRATCH, /* outputs that nobody wants: in memory of the rerun's own, by redirected addresses */
} mdnn_value_place_t;

typedef struct mdnn_rerun_use {
    uint32_t range, copy;
    mdnn_value_place_t from, to; /* from COPY to another place: the copy is put there first */
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
    mdnn_value_set_t
        remade; /* what was wanted, and what could not have been derived once that is there */
} mdnn_rerun_t;
void mdnn_rerun_fini(mdnn_rerun_t *rerun);

/* Remakes dropped ranges, and with them what could not be derived afterwards. Ranges that are not dropped are passed
 * over. The rerun is to be enqueued before anything else that names one of its ranges; from the caller's next call on
 * all of it counts as done. OUT_OF_MEMORY. */
mdnn_status_t mdnn_values_remake(mdnn_values_t *values, const mdnn_value_set_t *wanted,
                                 mdnn_rerun_t *rerun);

typedef struct mdnn_values_report {
    uint64_t dropped_bytes, copy_bytes; /* now; copies that mdnn_values_keep made */
    uint64_t rest_bytes;                /* content of freed ranges that is kept */
    uint32_t dropped, recipes, live_values;
} mdnn_values_report_t;
mdnn_values_report_t mdnn_values_report(const mdnn_values_t *values);

#endif
