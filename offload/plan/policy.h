/* The policies. Each of them proposes schedules to mdnn_move_plan_consider. */
#ifndef MDNN_POLICY_H
#define MDNN_POLICY_H

#include "offload/plan/move_plan.h"

/* The moves and joins of vDNN conv or all, without choices. OUT_OF_MEMORY. */
mdnn_status_t mdnn_vdnn_moves(const mdnn_period_t *period, bool all, mdnn_schedule_t *schedule);

mdnn_status_t mdnn_policy_none(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_conv(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_all(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_dynamic(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_modnn(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_auto(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);

/* The policy modnn, but it ends after about `steps` looks at gaps and at operations ahead. If that is not enough, its
 * schedule ends there, and seldom fits. */
mdnn_status_t mdnn_modnn_within(const mdnn_move_plan_request_t *request, uint64_t steps,
                                mdnn_move_plan_t *plan);

#endif
