/* Finds the best schedule of a small period by trying all of them: every set of gaps, every position at which a copy
 * may begin and a range may return, and every variant. The result is the schedule bound of small cases, with which the
 * tests compare plans. Copies that may begin at the same position run in the order of their gaps. */
#ifndef MDNN_EXHAUSTIVE_H
#define MDNN_EXHAUSTIVE_H

#include "offload/plan/planner.h"

/* Like mdnn_move_plan, but the request's policy, variants and effort do not matter. UNSUPPORTED if there are more than
 * `most_schedules` schedules. */
mdnn_status_t mdnn_move_plan_exhaustive(const mdnn_move_plan_request_t *request,
                                        double most_schedules, mdnn_move_plan_t *plan);

#endif
