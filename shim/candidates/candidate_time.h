/* How long a candidate's call takes: on scratch with random data, as it will run, behind a warm-up, in groups. What is far
 * behind the best gets fewer looks. The planner's alone; waits for the device. */
#ifndef MDNN_CANDIDATE_TIME_H
#define MDNN_CANDIDATE_TIME_H

#include "shim/candidates/measure_internal.h"

/* `whole` is pointed at scratch, with a workspace of `workspace_bytes`. `best_ms`: of what is known at this size.
 * `expected_ms` > 0 makes the warm-up and the first look needless. OUT_OF_DEVICE_MEMORY if the scratch does not hold
 * it, BUSY if there is no moment to measure in. */
mdnn_status_t mdnn_candidate_time(mdnn_measurement_t *measurement, mdnn_call_t *whole,
                                  const mdnn_slice_descriptors_t *descriptors,
                                  uint64_t workspace_bytes, double best_ms, double expected_ms,
                                  double *ms);

#endif
