/* What the program did, and what it will probably do next. Training repeats itself: the history
 * records operations with the ranges that they name, finds the period, follows the program through
 * it and says when a range will be used again. Operations are recognised by their keys and by the
 * sizes and roles of their ranges, never by addresses.
 *
 * It survives whatever happens. A short last batch, an evaluation, a line of logging: as long as
 * the program does something unheard of the answer is "unknown", and it finds its way back when the
 * next eight operations are familiar. Several periods are remembered (training, evaluation). Memory
 * is bounded: a ring of operations, a ring of uses, a few periods, and one entry for each range
 * that lives or is in the ring.
 *
 * Not thread-safe: the caller records operations in one order and holds a lock. */
#ifndef MDNN_HISTORY_H
#define MDNN_HISTORY_H

#include "offload/plan/period.h"

typedef struct mdnn_history mdnn_history_t;

/* Zero means the default. A period is found if two iterations of it fit. */
typedef struct mdnn_history_limits {
    uint32_t operations; /* in the ring: 65536 */
    uint32_t uses;       /* in the ring: eight an operation */
} mdnn_history_limits_t;

/* NULL without memory. */
mdnn_history_t *mdnn_history_create(const mdnn_history_limits_t *limits);
void mdnn_history_destroy(mdnn_history_t *history); /* accepts NULL */

/* A range begins and ends to live. `range` names it until it ends; MDNN_NO_POSITION without memory,
 * which every function here accepts and ignores. */
uint32_t mdnn_history_begin_range(mdnn_history_t *history, uint64_t bytes, bool stays);
void mdnn_history_end_range(mdnn_history_t *history, uint32_t range);

typedef struct mdnn_history_operation {
    uint64_t key; /* what it is: a hash of the function, say; no addresses in it */
    uint32_t stream;
    mdnn_operation_kind_t kind;
    double time_us; /* estimated; negative: unknown */
    uint64_t workspace_bytes;
    const mdnn_use_t *uses; /* borrowed; `range` as mdnn_history_begin_range gave it. In an order
                               that repeats; a range named twice counts once */
    uint32_t use_count;
} mdnn_history_operation_t;

/* O(uses) but for the search for a period, whose cost is spread: a constant for each operation.
 * Once a period is found it is built, in time linear in it. */
void mdnn_history_record(mdnn_history_t *history, const mdnn_history_operation_t *operation);

/* Where the program is: at `position`, the last operation recorded, of the period numbered `period`
 * (never reused, from 1). Period 0: unknown. */
typedef struct mdnn_history_place {
    uint64_t period;
    uint32_t position;
} mdnn_history_place_t;

mdnn_history_place_t mdnn_history_place(const mdnn_history_t *history);

/* The period of that number, NULL if it is not (or no longer) remembered. It passes
 * mdnn_period_check, begins where least lives, and is valid until the next record. */
const mdnn_period_t *mdnn_history_period(const mdnn_history_t *history, uint64_t period);

typedef enum mdnn_expectation {
    MDNN_EXPECT_UNKNOWN,
    MDNN_EXPECT_USE,  /* after `operations` more, that is `time_us` from now */
    MDNN_EXPECT_DEATH /* it ends without being used again */
} mdnn_expectation_t;

typedef struct mdnn_next_use {
    mdnn_expectation_t expectation;
    uint32_t operations; /* 1: the next operation uses it */
    double time_us;      /* of the operations between */
    uint32_t range; /* its index in the period of mdnn_history_place; MDNN_NO_POSITION if unknown */
} mdnn_next_use_t;

/* O(1). */
mdnn_next_use_t mdnn_history_next_use(const mdnn_history_t *history, uint32_t range);

#endif
