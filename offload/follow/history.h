/* The history knows what the program did, and what it will probably do next. Training repeats itself: the history
 * records operations (kernels, copies, convolutions) with the ranges (allocations) that they name, finds the period,
 * which is the sequence of operations that repeats (offload/plan/period.h), follows the program through it and says
 * when a range will be used again. Operations are recognised by their keys and by the sizes and roles of their ranges,
 * never by addresses.
 *
 * The history copes with interruptions such as a short last batch, an evaluation, or logging. While the program does
 * something unfamiliar, its place is "unknown"; the history knows the place again after eight familiar operations.
 * Several periods are remembered (training, evaluation). Memory is bounded: a ring of operations, a ring of their uses
 * of ranges, a few periods, and one entry for each range that lives or is in the ring.
 *
 * Not thread-safe: the caller records operations in one order and holds a lock. */
#ifndef MDNN_HISTORY_H
#define MDNN_HISTORY_H

#include "offload/plan/period.h"

typedef struct mdnn_history mdnn_history_t;

/* Zero means the default. A period is found if two iterations of it fit. */
typedef struct mdnn_history_limits {
    uint32_t operations; /* size of their ring: 65536 */
    uint32_t uses;       /* size of their ring: eight per operation */
} mdnn_history_limits_t;

/* NULL if memory is short. */
mdnn_history_t *mdnn_history_create(const mdnn_history_limits_t *limits);
void mdnn_history_destroy(mdnn_history_t *history); /* accepts NULL */

/* Begin and end the life of a range. `stays`: it may never leave the device. The number that begin_range returns
 * identifies the range until it ends. If memory is short, that is MDNN_NO_POSITION, which every function here accepts
 * and ignores. */
uint32_t mdnn_history_begin_range(mdnn_history_t *history, uint64_t bytes, bool stays);
/* So much of the range holds nothing, because its memory is rounded to chunks: nobody copies it. */
void mdnn_history_set_padding(mdnn_history_t *history, uint32_t range, uint64_t padding_bytes);
void mdnn_history_end_range(mdnn_history_t *history, uint32_t range);

typedef struct mdnn_history_operation {
    uint64_t key; /* identity, such as a hash of the function; contains no addresses */
    uint32_t stream;
    mdnn_operation_kind_t kind;
    double time_us; /* an estimate; negative: unknown */
    uint64_t workspace_bytes;
    /* The ways to run it, copied; the first is what the program asked for, even if another one runs now. NULL: the only
     * way is the one that runs now, with `time_us` and `workspace_bytes`. */
    const mdnn_variant_t *variants;
    uint32_t variant_count;
    /* Borrowed; `range` is from mdnn_history_begin_range. An operation that repeats must name its ranges in the same
     * order again; a range that is named twice counts once. */
    const mdnn_use_t *uses;
    uint32_t use_count;
} mdnn_history_operation_t;

/* Takes O(uses), plus a constant for the search for a period, which is spread evenly over the calls. When a period is
 * found, building it takes time linear in its length. */
void mdnn_history_record(mdnn_history_t *history, const mdnn_history_operation_t *operation);

/* Where the program is: the last recorded operation is at `position` of the period with the number
 * `period` (from 1, never reused). Period 0: unknown. */
typedef struct mdnn_history_place {
    uint64_t period;
    uint32_t position;
} mdnn_history_place_t;

mdnn_history_place_t mdnn_history_place(const mdnn_history_t *history);

/* The period with the number `period`, or NULL if it is not remembered. It passes mdnn_period_check, begins where the
 * fewest bytes live, and is valid until the next mdnn_history_record. */
const mdnn_period_t *mdnn_history_period(const mdnn_history_t *history, uint64_t period);

typedef enum mdnn_expectation {
    MDNN_EXPECT_UNKNOWN,
    /* The range will be used; `operations` and `time_us` say when. */
    MDNN_EXPECT_USE,
    MDNN_EXPECT_DEATH /* the range ends without being used again */
} mdnn_expectation_t;

typedef struct mdnn_next_use {
    mdnn_expectation_t expectation;
    uint32_t operations; /* 1: the next operation uses it; 2: the one after that; and so on */
    double time_us;      /* sum over the operations between the last one and that use */
    uint32_t range; /* its index in the period of mdnn_history_place; MDNN_NO_POSITION if unknown */
} mdnn_next_use_t;

/* When the range is used next, counted from the last recorded operation. O(1). */
mdnn_next_use_t mdnn_history_next_use(const mdnn_history_t *history, uint32_t range);

#endif
