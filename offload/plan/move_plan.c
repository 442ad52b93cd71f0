#include "offload/plan/move_plan.h"

#include <math.h>
#include <stdlib.h>

void mdnn_move_plan_fini(mdnn_move_plan_t *plan)
{
    mdnn_schedule_fini(&plan->schedule);
}

mdnn_status_t mdnn_choose_variants(const mdnn_move_plan_request_t *request,
                                   mdnn_variants_t variants, mdnn_schedule_t *schedule)
{
    const mdnn_period_t *const period = request->period;
    const size_t count = (size_t)period->operation_count + 1;
    uint32_t *const choices = calloc(count, sizeof *choices);
    uint64_t *const resident = calloc(count, sizeof *resident);
    if (!choices || !resident) {
        free(choices);
        free(resident);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; variants != MDNN_VARIANTS_RECORDED && i < period->operation_count; i++)
        choices[i] = variants == MDNN_VARIANTS_FASTEST
                         ? mdnn_operation_fastest(period, i, UINT64_MAX)
                         : mdnn_operation_smallest(period, i);
    free(schedule->choices);
    schedule->choices = choices;
    mdnn_schedule_resident_bytes(period, schedule, resident);
    for (uint32_t i = 0; variants == MDNN_VARIANTS_FITTING && i < period->operation_count; i++) {
        const uint64_t least =
            period->variants[period->operations[i].first_variant + choices[i]].workspace_bytes;
        if (resident[i] <= request->budget_bytes)
            choices[i] =
                mdnn_operation_fastest(period, i, request->budget_bytes - resident[i] + least);
    }
    free(resident);
    return MDNN_STATUS_OK;
}

static bool is_better(const mdnn_move_plan_t *plan, mdnn_verdict_t verdict, uint64_t needed_bytes,
                      const mdnn_replay_result_t *result)
{
    if (verdict != plan->verdict)
        return verdict < plan->verdict; /* verdicts are in order of preference */
    if (verdict == MDNN_VERDICT_NEEDS_MORE)
        return needed_bytes < plan->needed_bytes;
    if (fabs(result->time_us - plan->predicted.time_us) > 1e-9 * plan->predicted.time_us)
        return result->time_us < plan->predicted.time_us;
    const uint64_t moved = result->out_bytes + result->in_bytes;
    const uint64_t moved_before = plan->predicted.out_bytes + plan->predicted.in_bytes;
    if (moved != moved_before)
        return moved < moved_before;
    return result->average_bytes < plan->predicted.average_bytes;
}

/* The proposal, by itself or among the schedules of others. */
static mdnn_status_t replay_proposal(const mdnn_move_plan_request_t *request,
                                     const mdnn_schedule_t *proposal, mdnn_replay_result_t *result)
{
    const mdnn_plan_beside_t *const beside = request->beside;
    mdnn_replay_request_t replays[MDNN_RANKS];
    mdnn_replay_result_t results[MDNN_RANKS];
    const mdnn_replay_request_t alone = {.period = request->period,
                                         .schedule = proposal,
                                         .link = beside ? beside->link : request->link,
                                         .budget_bytes = request->budget_bytes};
    if (!beside)
        return mdnn_replay(&alone, result);
    for (uint32_t i = 0; i < beside->count; i++) {
        replays[i] = alone;
        if (i != beside->own && beside->schedules[i])
            replays[i].schedule = beside->schedules[i];
    }
    MDNN_TRY(mdnn_ranks_replay(replays, beside->count, results));
    *result = results[beside->own];
    return MDNN_STATUS_OK;
}

static mdnn_status_t judge(const mdnn_move_plan_request_t *request, const mdnn_schedule_t *schedule,
                           mdnn_verdict_t *verdict, uint64_t *needed_bytes,
                           mdnn_replay_result_t *result)
{
    MDNN_TRY(mdnn_move_plan_goes_on(request));
    MDNN_TRY(mdnn_schedule_peak(request->period, schedule, needed_bytes));
    *verdict = MDNN_VERDICT_NEEDS_MORE;
    if (*needed_bytes > request->budget_bytes)
        return MDNN_STATUS_OK;
    const mdnn_status_t status = replay_proposal(request, schedule, result);
    if (status == MDNN_STATUS_NOT_FOUND)
        return MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OK)
        *verdict = result->host_peak_bytes > request->host_limit_bytes ? MDNN_VERDICT_HOST_LIMIT
                                                                       : MDNN_VERDICT_FITS;
    return status;
}

mdnn_status_t mdnn_move_plan_goes_on(const mdnn_move_plan_request_t *request)
{
    return request->unwanted && atomic_load_explicit(request->unwanted, memory_order_relaxed)
               ? MDNN_STATUS_BUSY
               : MDNN_STATUS_OK;
}

mdnn_status_t mdnn_move_plan_consider(const mdnn_move_plan_request_t *request, mdnn_policy_t policy,
                                      mdnn_variants_t variants, mdnn_schedule_t *schedule,
                                      mdnn_move_plan_t *plan)
{
    mdnn_verdict_t verdict;
    uint64_t needed_bytes;
    mdnn_replay_result_t result = {0};
    const mdnn_status_t status = judge(request, schedule, &verdict, &needed_bytes, &result);
    plan->steps += result.steps;
    if (status == MDNN_STATUS_OK && is_better(plan, verdict, needed_bytes, &result)) {
        mdnn_schedule_fini(&plan->schedule);
        plan->schedule = *schedule;
        plan->verdict = verdict;
        plan->predicted = result;
        plan->needed_bytes = needed_bytes;
        plan->policy = policy;
        plan->variants = variants;
        *schedule = (mdnn_schedule_t){0};
    }
    mdnn_schedule_fini(schedule);
    return status;
}
