#include "offload/plan/certificate.h"
#include "offload/plan/planner.h"

#include <stdlib.h>

#include "offload/plan/policy.h"

typedef mdnn_status_t policy_t(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);

static policy_t *const policies[MDNN_POLICY_COUNT] = {
    [MDNN_POLICY_NONE] = mdnn_policy_none,   [MDNN_POLICY_CONV] = mdnn_policy_conv,
    [MDNN_POLICY_ALL] = mdnn_policy_all,     [MDNN_POLICY_DYNAMIC] = mdnn_policy_dynamic,
    [MDNN_POLICY_MODNN] = mdnn_policy_modnn, [MDNN_POLICY_AUTO] = mdnn_policy_auto,
};

const char *mdnn_policy_name(mdnn_policy_t policy)
{
    return (unsigned)policy < MDNN_POLICY_COUNT ? mdnn_choices_memory_policy[policy] : NULL;
}

mdnn_status_t mdnn_move_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    /* Worse than whatever is considered. */
    mdnn_move_plan_t made = {.verdict = MDNN_VERDICT_BELOW_FLOOR,
                             .needed_bytes = UINT64_MAX,
                             .policy = request->policy,
                             .variants = request->variants};
    if ((unsigned)request->policy >= MDNN_POLICY_COUNT ||
        (unsigned)request->variants >= MDNN_VARIANTS_COUNT)
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(mdnn_period_floor(request->period, &made.floor_bytes));
    if (request->budget_bytes < made.floor_bytes) {
        made.needed_bytes = made.floor_bytes;
        *plan = made;
        return MDNN_STATUS_OK;
    }
    made.link_bound_us = request->link_bound_us;
    if (!(made.link_bound_us > 0))
        MDNN_TRY(mdnn_certificate(request->period, &request->link, request->budget_bytes, 0,
                                  &made.link_bound_us));
    const mdnn_status_t status = policies[request->policy](request, &made);
    if (status != MDNN_STATUS_OK || made.verdict != MDNN_VERDICT_FITS)
        mdnn_schedule_fini(&made.schedule);
    if (status == MDNN_STATUS_OK)
        *plan = made;
    return status;
}
