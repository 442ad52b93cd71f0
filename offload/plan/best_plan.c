#include "offload/plan/best_plan.h"

#include "offload/plan/certificate.h"
#include "offload/plan/ranks_plan.h"

/* Parts of ranges are a budget's share this large, or more, */
enum { PARTS_OF_BUDGET = 64 };
/* and a plan that moves them must be faster by this factor. */
static const double WORTH_PARTS = 1.005;

static uint32_t effort_of(const mdnn_best_plan_request_t *request, const mdnn_period_t *period)
{
    /* A tenth of a second. Ten times as many make plans for the sequences of test/bench/bench_sequence.c at most 0.2 %
     * faster; meanwhile the program goes on without one. */
    enum {
        REPLAYED_OPERATIONS = 400000,
        LEAST = 200,
        MOST = 4000
    }; /* below: as the policy likes */
    if (request->plan.effort > 0 || !request->patient)
        return request->plan.effort;
    const uint32_t work = period->operation_count + period->use_count / 8;
    const uint32_t effort = REPLAYED_OPERATIONS / (work + 1);
    return effort < LEAST ? 0 : effort > MOST ? MOST : effort;
}

/* Other parts leave and return than the planner had in mind, and that changes a little when copies begin and end. Beside
 * other ranks' plans the prediction stays as it was. */
static mdnn_status_t order_parts(const mdnn_move_plan_request_t *request, const mdnn_parts_t *parts,
                                 mdnn_move_plan_t *plan)
{
    const mdnn_replay_request_t replay = {.period = &parts->period,
                                          .schedule = &plan->schedule,
                                          .link = mdnn_rank_link(request),
                                          .budget_bytes = request->budget_bytes};
    MDNN_TRY(mdnn_parts_order(parts, &plan->schedule));
    return plan->verdict == MDNN_VERDICT_FITS && request->ranks.count < 2
               ? mdnn_replay(&replay, &plan->predicted)
               : MDNN_STATUS_OK;
}

static mdnn_status_t cut(const mdnn_best_plan_request_t *request, uint64_t part_bytes,
                         mdnn_parts_t *parts)
{
    return mdnn_parts_cut(request->plan.period, request->chunk_bytes, part_bytes, parts);
}

/* A plan for the period with ranges in parts, which are freed where there is none. */
static mdnn_status_t plan_parts(const mdnn_best_plan_request_t *request, mdnn_parts_t *parts,
                                mdnn_move_plan_t *plan)
{
    mdnn_move_plan_request_t of_parts = request->plan;
    of_parts.period = &parts->period;
    of_parts.effort = effort_of(request, &parts->period);
    mdnn_status_t status = mdnn_rank_plan(&of_parts, plan);
    if (status == MDNN_STATUS_OK) {
        status = order_parts(&of_parts, parts, plan);
        if (status != MDNN_STATUS_OK)
            mdnn_move_plan_fini(plan);
    }
    if (status != MDNN_STATUS_OK)
        mdnn_parts_fini(parts);
    return status;
}

/* Whether parts might do better than whole ranges; the papers' policies move those. */
static bool may_gain(const mdnn_best_plan_request_t *request, const mdnn_move_plan_t *whole)
{
    if (request->plan.policy != MDNN_POLICY_AUTO || request->chunk_bytes == 0)
        return false;
    return whole->verdict == MDNN_VERDICT_HOST_LIMIT ||
           (whole->verdict == MDNN_VERDICT_FITS &&
            whole->predicted.time_us > whole->predicted.compute_us * WORTH_PARTS);
}

/* The plan is replaced if that is faster: each part costs the host a little. */
static void try_parts(const mdnn_best_plan_request_t *request, mdnn_parts_t *wholes,
                      mdnn_move_plan_t *whole)
{
    mdnn_parts_t parts = {0};
    mdnn_move_plan_t plan = {0};
    if (!may_gain(request, whole) ||
        cut(request, request->plan.budget_bytes / PARTS_OF_BUDGET, &parts) != MDNN_STATUS_OK)
        return;
    if (parts.period.range_count == request->plan.period->range_count) { /* all are small */
        mdnn_parts_fini(&parts);
        return;
    }
    if (plan_parts(request, &parts, &plan) != MDNN_STATUS_OK)
        return;
    const bool better = plan.verdict < whole->verdict ||
                        (plan.verdict == whole->verdict &&
                         plan.predicted.time_us * WORTH_PARTS < whole->predicted.time_us);
    if (better) {
        const mdnn_move_plan_t slower = *whole;
        const mdnn_parts_t of_slower = *wholes;
        *whole = plan;
        *wholes = parts;
        plan = slower;
        parts = of_slower;
    }
    mdnn_move_plan_fini(&plan);
    mdnn_parts_fini(&parts);
}

/* Of any schedule, whatever parts it moves. Where ranks share the link, each has a bound of its own. */
static mdnn_status_t bound(mdnn_best_plan_request_t *request)
{
    mdnn_move_plan_request_t *const plan = &request->plan;
    if (plan->ranks.count > 1 || plan->ranks.others > 0)
        return MDNN_STATUS_OK;
    return mdnn_certificate(plan->period, &plan->link, plan->budget_bytes, request->chunk_bytes,
                            &plan->link_bound_us);
}

mdnn_status_t mdnn_best_plan(const mdnn_best_plan_request_t *asked, mdnn_parts_t *parts,
                             mdnn_move_plan_t *plan)
{
    mdnn_best_plan_request_t request = *asked;
    mdnn_parts_t wholes = {0};
    mdnn_move_plan_t whole = {0};
    MDNN_TRY(bound(&request));
    MDNN_TRY(cut(&request, UINT64_MAX, &wholes));
    MDNN_TRY(plan_parts(&request, &wholes, &whole));
    try_parts(&request, &wholes, &whole);
    *parts = wholes;
    *plan = whole;
    return MDNN_STATUS_OK;
}
