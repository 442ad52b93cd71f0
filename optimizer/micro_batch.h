/* Micro-batches: the terms and types of the optimizer. Plain C, no CUDA.
 *
 * Glossary (Oyama 2018, section III-A):
 *   batch                 the N images of one convolution call
 *   part, micro-batch     a contiguous run of images computed by one cuDNN call
 *   micro-configuration   algorithm and number of images of one part
 *   configuration         list of micro-configurations that covers the batch, in execution order
 *   first / rest          the part that runs with the caller's beta / every later part. They differ only
 *                         for BackwardFilter, where later parts accumulate with beta 1 (III-A)
 *   front                 Pareto set of configurations in (time, workspace); a split reuses one
 *                         workspace, so its workspace is the maximum over its parts, its time the sum */
#ifndef MDNN_MICRO_BATCH_H
#define MDNN_MICRO_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

typedef enum mdnn_part_role {
    MDNN_PART_FIRST,
    MDNN_PART_REST,
    MDNN_PART_ROLE_COUNT
} mdnn_part_role_t;

/* An engine of cuDNN's graph API with its knobs: the identity of a candidate in that API. Opaque to
 * the optimizer. Unused knobs are zero. */
enum { MDNN_ENGINE_KNOBS = 14 };
typedef struct mdnn_engine {
    int32_t id; /* global index, unique among the engines of one kind of graph */
    int32_t knob_count;
    struct mdnn_knob {
        int32_t type, value; /* cudnnBackendKnobType_t; ascending by type */
    } knobs[MDNN_ENGINE_KNOBS];
} mdnn_engine_t;

/* The member `algo` of an engine's cost is this number plus the engine's id, so that tables for people can name the
 * engine by one number. */
enum { MDNN_ALGO_ENGINE = 1000 };

/* One way to run a part of a given size. `algo` and `math_type` are opaque to the optimizer. */
typedef struct mdnn_cost {
    int32_t algo;
    int32_t math_type;
    mdnn_engine_t engine; /* all zero for an algorithm of the legacy API */
    uint64_t workspace_bytes;
    double time_ms; /* > 0; 0 if untimed */
    bool deterministic;
    bool direct;       /* neither FFT nor Winograd */
    bool strict;       /* no avoidable rounding on the way: no TF32 */
    bool extrapolated; /* not measured at this size */
    /* Only the workspace is known, which was above the limit. Such a cost is never in a configuration, but it is
     * remembered, so that a larger limit knows what it would admit. */
    bool untimed;
    /* With `untimed`: not even the workspace is known, since a caller that searches by itself times this candidate.
     * Otherwise: there are further deferred candidates, which are not named here. Remembered for callers that do not
     * search. */
    bool deferred;
} mdnn_cost_t;

typedef struct mdnn_micro_config {
    int64_t images;
    mdnn_cost_t cost; /* of this part in its role */
} mdnn_micro_config_t;

typedef struct mdnn_configuration {
    double time_ms; /* sum over parts, part_overhead_ms for each part after the first included */
    uint64_t workspace_bytes; /* maximum over parts */
    size_t part_count;
    mdnn_micro_config_t *parts; /* in execution order; owned by the front */
} mdnn_configuration_t;

/* Where costs come from: a table, a measurement, a database. `find` writes up to `capacity` costs of running one part
 * of `images` images in `role`, and their number to *count (0: this size cannot be run, which is not an error). An
 * error ends the optimization. `find` is called once per (images, role), from the largest size down. In directions
 * without accumulation it returns the same costs for role REST as for FIRST. */
typedef struct mdnn_cost_source {
    void *context;
    mdnn_status_t (*find)(void *context, int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs,
                          size_t capacity, size_t *count);
} mdnn_cost_source_t;
enum { MDNN_COSTS_PER_SIZE = 128 };

#endif
