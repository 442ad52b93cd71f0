/* Times a candidate's call on scratch memory with random data, as it will run: after a warm-up, in groups. A candidate
 * far behind the best is timed less often. Only the planner calls this, and it waits for the device. */
#ifndef MDNN_CANDIDATE_TIME_H
#define MDNN_CANDIDATE_TIME_H

#include "shim/candidates/measure_internal.h"

/* Points `whole` at scratch memory with a workspace of `workspace_bytes`. `best_ms`: the best known time at this size.
 * With `expected_ms` > 0 the warm-up and the first look are skipped. OUT_OF_DEVICE_MEMORY if the scratch memory is too
 * small, BUSY if there is no moment to measure in. */
mdnn_status_t mdnn_candidate_time(mdnn_measurement_t *measurement, mdnn_call_t *whole,
                                  const mdnn_slice_descriptors_t *descriptors,
                                  uint64_t workspace_bytes, double best_ms, double expected_ms,
                                  double *ms);

#endif
