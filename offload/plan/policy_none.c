#include "offload/plan/policy.h"

mdnn_status_t mdnn_policy_none(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    mdnn_schedule_t schedule = {0};
    MDNN_TRY(mdnn_choose_variants(request, request->variants, &schedule));
    return mdnn_move_plan_consider(request, MDNN_POLICY_NONE, request->variants, &schedule, plan);
}
