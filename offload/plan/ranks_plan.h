/* Plans of ranks that share a link, all at once: each rank makes those of all, and takes its own. So nobody waits for
 * another one's plan. That needs the same period, budget and number of ranks in each of them. */
#ifndef MDNN_RANKS_PLAN_H
#define MDNN_RANKS_PLAN_H

#include "offload/plan/move_plan.h"

/* For request->ranks.count ranks, as request->ranks.sharing says: none plans as if each were alone, staggered is Kim
 * 2018, and auto is ours. `predicted` is in each case how long it takes beside the
 * others. plans[] are the caller's. Deterministic; fails as mdnn_move_plan does, and then leaves them untouched. */
mdnn_status_t mdnn_ranks_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plans);

/* The plan of rank request->ranks.own among these; with less than two ranks, a plan with its part of the link. */
mdnn_status_t mdnn_rank_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);

#endif
