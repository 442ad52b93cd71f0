/* Workspace Reuse (WR): the fastest way to cover a batch with micro-batches that use one workspace, one after the other
 * (Oyama 2018, III-B). The result is a Pareto front: for every workspace the fastest configuration within it, so that a
 * new limit needs no new costs. optimizer/micro_batch.h introduces the terms. */
#ifndef MDNN_WR_H
#define MDNN_WR_H

#include "config/choices.h"
#include "optimizer/micro_batch.h"

typedef struct mdnn_wr_request {
    int64_t batch;            /* >= 1 */
    mdnn_batch_sizes_t sizes; /* which sizes are tried: B | 1,2,4,...,B | 1..B */
    int64_t granularity;      /* >= 1: every part but the last has a multiple of this many images,
                                     so that slices keep the caller's alignment */
    bool roles_differ;        /* ask the source for both roles, FIRST and REST (BackwardFilter) */
    bool deterministic_only;
    bool direct_only;               /* drop costs that are not `direct` */
    bool strict_only;               /* drop costs that are not `strict` */
    uint64_t workspace_limit_bytes; /* costs above it are dropped */
    double part_overhead_ms;        /* added for each part after the first */
    double adoption_margin;         /* >= 0: a split enters the front only if its time is below
                                     (1 - margin) x the best undivided time within the same workspace */
} mdnn_wr_request_t;

typedef struct mdnn_front mdnn_front_t;

/* NOT_FOUND if no configuration covers the batch within the limit; OUT_OF_MEMORY; the source's
 * error. *front is untouched on failure. Caller frees with mdnn_front_destroy. Thread-safe: keeps
 * no state. Time O(|front| * batch * sizes). */
mdnn_status_t mdnn_wr_optimize(const mdnn_wr_request_t *request, const mdnn_cost_source_t *source,
                               mdnn_front_t **front);
void mdnn_front_destroy(mdnn_front_t *front); /* NULL accepted */

/* Points of the front, workspace ascending, time strictly descending. Immutable. */
size_t mdnn_front_count(const mdnn_front_t *front);
const mdnn_configuration_t *mdnn_front_at(const mdnn_front_t *front, size_t index);

/* Fastest configuration with workspace <= limit; NULL if none. O(log n), no allocation. */
const mdnn_configuration_t *mdnn_front_best(const mdnn_front_t *front, uint64_t limit_bytes);
/* Fastest undivided configuration (one part) with workspace <= limit, whether or not it is on the
 * front; NULL if none. */
const mdnn_configuration_t *mdnn_front_best_undivided(const mdnn_front_t *front,
                                                      uint64_t limit_bytes);

/* "256 @ 4", "4 x 64 @ 4", "3 x 64 @ 4 + 64 @ 1": runs of equal parts are joined. Always terminated. */
void mdnn_configuration_format(const mdnn_configuration_t *configuration, char *buffer,
                               size_t bytes);

#endif
