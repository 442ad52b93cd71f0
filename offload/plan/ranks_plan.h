/* Plans for all ranks that share a link. Each rank makes the plans of all and takes its own, so no rank waits for
 * another one's plan. For that, the period, the budget and the number of ranks must be the same in all of them. */
#ifndef MDNN_RANKS_PLAN_H
#define MDNN_RANKS_PLAN_H

#include "offload/plan/move_plan.h"

/* For request->ranks.count ranks, as request->ranks.sharing says: none plans as if each were alone, staggered is Kim
 * 2018, and auto is ours. In each plan, `predicted` is for a rank that runs beside the others. plans[] are the
 * caller's. Deterministic; fails as mdnn_move_plan does, and then leaves them untouched. */
mdnn_status_t mdnn_ranks_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plans);

/* The plan of rank request->ranks.own among these; with less than two ranks, a plan with its part of the link. */
mdnn_status_t mdnn_rank_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);

/* What the rank has of the link while all that share it copy. */
mdnn_link_t mdnn_rank_link(const mdnn_move_plan_request_t *request);

#endif
