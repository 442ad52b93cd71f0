/* An exact solver of the multiple-choice knapsack: chooses one item of each class with the least total time, so that
 * the total workspace is within a capacity. Workspace Division is this problem (Oyama 2018, equations 1 to 4). */
#ifndef MDNN_KNAPSACK_H
#define MDNN_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_knapsack_item {
    double time_ms; /* finite, >= 0 */
    uint64_t workspace_bytes;
} mdnn_knapsack_item_t;

/* Items may come in any order, and may include some that other items beat. */
typedef struct mdnn_knapsack_class {
    const mdnn_knapsack_item_t *items;
    size_t count; /* >= 1 */
} mdnn_knapsack_class_t;

/* Zero means the default. A problem that exceeds a limit is solved as well as the limits allow. */
typedef struct mdnn_knapsack_limits {
    double time_ms; /* no limit */
    size_t states;  /* partial solutions held at once: 2^16, of a few hundred bytes each */
} mdnn_knapsack_limits_t;

typedef struct mdnn_knapsack_result {
    double time_ms;
    uint64_t workspace_bytes;
    double bound_ms; /* no solution is faster; equals time_ms, up to rounding, if optimal */
    bool optimal;    /* proven, to one part in 10^12 */
} mdnn_knapsack_result_t;

/* choices[i] becomes the item of class i. NOT_FOUND if nothing fits; INVALID_ARGUMENT for an empty
 * class or a bad time; OVERFLOW if the workspaces add up to 2^62 or more; OUT_OF_MEMORY. On failure
 * choices and *result are untouched. Deterministic unless the time limit ends it. Thread-safe:
 * keeps no state. */
mdnn_status_t mdnn_knapsack_solve(const mdnn_knapsack_class_t *classes, size_t class_count,
                                  uint64_t capacity_bytes, const mdnn_knapsack_limits_t *limits,
                                  size_t *choices, mdnn_knapsack_result_t *result);

#endif
