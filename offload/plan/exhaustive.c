#include "offload/plan/certificate.h"
#include "offload/plan/exhaustive.h"

#include <stdlib.h>
#include <string.h>

#include "offload/plan/policy.h"

typedef struct search {
    const mdnn_move_plan_request_t *request;
    const mdnn_period_t *period;
    mdnn_gap_t *gaps;
    size_t gap_count;
    mdnn_schedule_t now;
    mdnn_move_plan_t *plan;
} search_t;

static double ways_of_gap(const mdnn_gap_t *gap)
{
    double ways = 1;
    if (gap->from == MDNN_GAP_ALWAYS)
        return 2;
    for (int32_t leave = gap->from; leave < gap->to - 1; leave++)
        ways += gap->one_way ? 1 : gap->to - 1 - leave;
    return ways;
}

static double count_schedules(const search_t *search)
{
    double count = 1;
    for (size_t g = 0; g < search->gap_count; g++)
        count *= ways_of_gap(&search->gaps[g]);
    for (uint32_t i = 0; i < search->period->operation_count; i++)
        count *= search->period->operations[i].variant_count;
    return count;
}

static mdnn_status_t try_now(search_t *search)
{
    mdnn_schedule_t copy;
    MDNN_TRY(mdnn_schedule_copy(&search->now, search->period->operation_count, &copy));
    return mdnn_move_plan_consider(search->request, search->request->policy,
                                   search->request->variants, &copy, search->plan);
}

static mdnn_status_t try_variants(search_t *search, uint32_t position)
{
    if (position == search->period->operation_count)
        return try_now(search);
    for (uint32_t v = 0; v < search->period->operations[position].variant_count; v++) {
        search->now.choices[position] = v;
        MDNN_TRY(try_variants(search, position + 1));
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t try_gaps(search_t *search, size_t g);

static mdnn_status_t try_move(search_t *search, size_t g, mdnn_move_t move)
{
    MDNN_TRY(mdnn_schedule_add_move(&search->now, move));
    const mdnn_status_t status = try_gaps(search, g + 1);
    search->now.move_count--;
    return status;
}

static mdnn_status_t try_gaps(search_t *search, size_t g)
{
    if (g == search->gap_count)
        return try_variants(search, 0);
    const mdnn_gap_t *const gap = &search->gaps[g];
    mdnn_move_t move = mdnn_move_of_gap(gap);
    MDNN_TRY(try_gaps(search, g + 1));
    if (gap->from == MDNN_GAP_ALWAYS)
        return try_move(search, g, move);
    for (move.leave_after = gap->from; move.leave_after < gap->to - 1; move.leave_after++) {
        if (gap->one_way) {
            MDNN_TRY(try_move(search, g, move));
            continue;
        }
        for (int32_t after = move.leave_after + 1; after < gap->to; after++) {
            move.return_after = after;
            MDNN_TRY(try_move(search, g, move));
        }
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_move_plan_exhaustive(const mdnn_move_plan_request_t *request,
                                        double most_schedules, mdnn_move_plan_t *plan)
{
    mdnn_move_plan_t made = {.verdict = MDNN_VERDICT_BELOW_FLOOR,
                             .needed_bytes = UINT64_MAX,
                             .policy = request->policy,
                             .variants = request->variants};
    search_t search = {.request = request, .period = request->period, .plan = &made};
    MDNN_TRY(mdnn_period_floor(request->period, &made.floor_bytes));
    MDNN_TRY(mdnn_certificate(request->period, &request->link, request->budget_bytes, 0,
                              &made.link_bound_us));
    MDNN_TRY(mdnn_period_gaps(search.period, &search.gaps, &search.gap_count));
    mdnn_status_t status = MDNN_STATUS_UNSUPPORTED;
    if (count_schedules(&search) <= most_schedules) {
        search.now.choices =
            calloc((size_t)search.period->operation_count + 1, sizeof *search.now.choices);
        status = search.now.choices ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status == MDNN_STATUS_OK && request->budget_bytes >= made.floor_bytes)
        status = try_gaps(&search, 0);
    if (status != MDNN_STATUS_OK || made.verdict != MDNN_VERDICT_FITS)
        mdnn_schedule_fini(&made.schedule);
    mdnn_schedule_fini(&search.now);
    free(search.gaps);
    if (status == MDNN_STATUS_OK)
        *plan = made;
    return status;
}
