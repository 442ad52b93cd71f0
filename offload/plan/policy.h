/* What the planner and its policies share. A policy proposes schedules; mdnn_move_plan_consider judges
 * them and keeps the best. */
#ifndef MDNN_POLICY_H
#define MDNN_POLICY_H

#include "offload/plan/planner.h"

/* BUSY if the plan is not wanted any more. */
mdnn_status_t mdnn_move_plan_goes_on(const mdnn_move_plan_request_t *request);

/* Takes over `schedule` (empty afterwards). A schedule that fits is kept in the plan if the plan
 * has none that fits, or a slower one; of equals the one that moves less, then the one that holds
 * less. Otherwise only verdict and needs are noted. `variants` says what was chosen, if anything
 * else than the policy's request.
 */
mdnn_status_t mdnn_move_plan_consider(const mdnn_move_plan_request_t *request, mdnn_policy_t policy,
                                      mdnn_variants_t variants, mdnn_schedule_t *schedule,
                                      mdnn_move_plan_t *plan);

/* Sets the schedule's choices by rule, its moves being decided. OUT_OF_MEMORY. */
mdnn_status_t mdnn_choose_variants(const mdnn_move_plan_request_t *request,
                                   mdnn_variants_t variants, mdnn_schedule_t *schedule);

/* The moves and joins of vDNN conv or all, without choices. OUT_OF_MEMORY. */
mdnn_status_t mdnn_vdnn_moves(const mdnn_period_t *period, bool all, mdnn_schedule_t *schedule);

/* Each proposes to mdnn_move_plan_consider. */
mdnn_status_t mdnn_policy_none(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_conv(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_all(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_dynamic(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_modnn(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
mdnn_status_t mdnn_policy_auto(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);

#endif
