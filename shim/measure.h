/* Costs of micro-batches by measurement: a cost source for the optimizer.
 *
 * Every algorithm, in the caller's math type and in plain FMA (which is never weaker), is timed on
 * scratch with random data, the way it will run: true slices, beta 1 for the later parts of backward
 * filter, back to back. What was timed is kept with the problem, so that a later, larger workspace
 * limit times only what it newly admits. */
#ifndef MDNN_MEASURE_H
#define MDNN_MEASURE_H

#include "optimizer/cost_memory.h"
#include "optimizer/micro_batch.h"
#include "shim/slices.h"

/* Everything measured for one problem. */
typedef struct mdnn_cost_table mdnn_cost_table_t;

mdnn_status_t mdnn_cost_table_create(mdnn_cost_table_t **table);
void mdnn_cost_table_destroy(mdnn_cost_table_t *table);
/* Smallest workspace above `limit_bytes` of a candidate that was left out; UINT64_MAX if none was. A
 * limit below it admits nothing new. */
uint64_t mdnn_cost_table_next_limit(const mdnn_cost_table_t *table, uint64_t limit_bytes);

/* Takes what a database remembers of `problem`: a size and role that it names is settled but for the
 * untimed candidates. */
mdnn_status_t mdnn_cost_table_recall(mdnn_cost_table_t *table, const mdnn_problem_t *problem,
                                     const mdnn_cost_memory_t *memory);
/* Puts every size and role that changed since the last call into `memory`, as new. */
mdnn_status_t mdnn_cost_table_remember(mdnn_cost_table_t *table, mdnn_cost_memory_t *memory);

typedef struct mdnn_measurement mdnn_measurement_t;

/* A session for `call`, which poses `problem`. `repeats` timed groups, their median counts. Parts
 * smaller than the batch run with `accumulator` unless it is NULL. Candidates whose workspace exceeds
 * `limit_bytes` are left out. Allocates at the first need; must not run
 * during stream capture. Caller ends it. */
mdnn_status_t mdnn_measurement_begin(const mdnn_call_t *call, const mdnn_problem_t *problem,
                                     mdnn_slices_t *slices, mdnn_cost_table_t *table,
                                     const mdnn_accumulator_t *accumulator,
                                     uint64_t limit_bytes, int64_t repeats,
                                     mdnn_measurement_t **measurement);
void mdnn_measurement_end(mdnn_measurement_t *measurement); /* NULL accepted; frees the scratch */

/* The session as a cost source; valid until its end. */
mdnn_cost_source_t mdnn_measurement_source(mdnn_measurement_t *measurement);

#endif
