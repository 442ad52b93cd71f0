/* Turns a candidate into a call that can be timed: with its algorithm or engine, in its math type, with the scalars and
 * descriptors of a part. Only the planner calls this. */
#ifndef MDNN_CANDIDATE_CALL_H
#define MDNN_CANDIDATE_CALL_H

#include "shim/candidates/measure_internal.h"

/* Fills in everything about candidate `index` of a row except its data and workspace; *descriptors stay valid.
 * UNSUPPORTED: it cannot run here, or is not worth running. */
mdnn_status_t mdnn_candidate_call(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                  int index, const mdnn_slice_descriptors_t **descriptors,
                                  mdnn_call_t *whole);
/* Whether candidate `index` is an algorithm of the legacy API that may be tried for the problem at all. */
bool mdnn_candidate_is_algorithm(const mdnn_measurement_t *measurement, int index);
/* Whether it is also one that cuDNN expects to be fast. May ask cuDNN. */
bool mdnn_candidate_is_shortlisted(mdnn_measurement_t *measurement, int index);
/* The call's workspace, including the accumulator's. */
mdnn_status_t mdnn_candidate_call_bytes(const mdnn_call_t *whole, uint64_t *bytes);
/* The properties of the call's results, as a cost without a time. */
mdnn_cost_t mdnn_candidate_cost(const mdnn_measurement_t *measurement, const mdnn_call_t *whole,
                                int index);
/* The factors with which the parts of a row are scaled. */
mdnn_graph_scaling_t mdnn_candidate_scaling(const mdnn_measurement_t *measurement,
                                            const mdnn_cost_row_t *row);

#endif
