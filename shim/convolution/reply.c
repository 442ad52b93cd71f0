#include "shim/convolution/reply.h"

#include <stddef.h>
#include <string.h>

#include "config/extremes.h"
#include "config/fault.h"
#include "config/statistics.h"
#include "shim/convolution/arena.h"
#include "shim/convolution/execute.h"
#include "shim/convolution/plan.h"
#include "shim/convolution/wd_settings.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/workspace_sizes.h"

enum { RESULTS_MAX = 64 };

/* Under a budget a workspace is of no use that cannot be resident together with what the convolution
 * works on. */
static uint64_t limit_beside(const mdnn_call_t *call)
{
    uint64_t sizes[MDNN_WORKSPACE_OPERANDS];
    mdnn_problem_t problem;
    const uint64_t limit = mdnn_workspace_limit();
    if (!mdnn_virtual_on() || mdnn_call_problem(call, &problem) != MDNN_STATUS_OK)
        return limit;
    mdnn_workspace_operand_sizes(&problem, sizes);
    return mdnn_min(limit, mdnn_virtual_room_beside(sizes, MDNN_WORKSPACE_OPERANDS));
}

/* The part that the host will read as "the algorithm": the one with most images, the first of equals. */
static const mdnn_micro_config_t *leading_part(const mdnn_configuration_t *configuration)
{
    const mdnn_micro_config_t *leading = &configuration->parts[0];
    for (size_t i = 1; i < configuration->part_count; i++)
        if (configuration->parts[i].images > leading->images)
            leading = &configuration->parts[i];
    return leading;
}

/* The workspace that is reported for a configuration: 0 if the arena provides it. */
static uint64_t reported_bytes(const mdnn_conv_plan_t *plan, const mdnn_call_t *call, int algo,
                               const mdnn_ready_t *ready)
{
    const mdnn_demand_t nothing = mdnn_demand_of(call->direction, algo, 0);
    return mdnn_wd_is_on() && mdnn_arena_serves(call, plan, &nothing)
               ? 0
               : ready->configuration->workspace_bytes;
}

static void describe(const mdnn_ready_t *ready, uint64_t bytes, mdnn_algo_perf_t *perf)
{
    perf->status = CUDNN_STATUS_SUCCESS;
    perf->time = (float)ready->configuration->time_ms;
    perf->memory = bytes;
    perf->determinism = ready->deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
}

static void sort_by_time(mdnn_algo_perf_t *results, int count)
{
    for (int i = 1; i < count; i++) {
        const mdnn_algo_perf_t moving = results[i];
        int at = i;
        for (; at > 0 && results[at - 1].time > moving.time; at--)
            results[at] = results[at - 1];
        results[at] = moving;
    }
}

/* Least workspace in which a call under this number can run. */
static uint64_t least_bytes(const mdnn_conv_plan_t *plan, const mdnn_call_t *call, int algo)
{
    const mdnn_demand_t demand = mdnn_demand_of(call->direction, algo, 0);
    return mdnn_conv_plan_least_bytes(plan, &demand);
}

/* Under policy wd: the number that demands the same bits each time only where that costs no workspace.
 * What a host may call it by, the arena must always have room for, and a division must fit. */
static int least_demanding(const mdnn_conv_plan_t *plan, const mdnn_call_t *call, int algo)
{
    const bool direct = mdnn_algo_is_direct(call->direction, algo);
    for (int other = 0; other < mdnn_algo_count(call->direction); other++)
        if (mdnn_algo_is_direct(call->direction, other) == direct &&
            !mdnn_algo_is_deterministic(call->direction, other) &&
            least_bytes(plan, call, other) < least_bytes(plan, call, algo))
            return other;
    return algo;
}

/* The entry of our best configuration, under the number of its leading algorithm; an engine has none
 * and goes by that of stock's first answer. */
static int lead_with(mdnn_conv_plan_t *plan, const mdnn_call_t *call, const mdnn_ready_t *best,
                     const mdnn_algo_perf_t *stock, mdnn_algo_perf_t *results)
{
    const int algo = leading_part(best->configuration)->cost.algo;
    memset(&results[0], 0, sizeof results[0]);
    const int own = algo < MDNN_ALGO_ENGINE ? algo : (int)stock[0].algo;
    results[0].algo =
        (cudnnConvolutionFwdAlgo_t)(mdnn_wd_is_on() ? least_demanding(plan, call, own) : own);
    results[0].mathType = (cudnnMathType_t)mdnn_conv_plan_problem(plan)->math_type;
    describe(best, reported_bytes(plan, call, (int)results[0].algo, best), &results[0]);
    if (!mdnn_algo_is_deterministic(call->direction, (int)results[0].algo))
        results[0].determinism = CUDNN_NON_DETERMINISTIC;
    mdnn_conv_plan_announce(plan, (int)results[0].algo, results[0].memory);
    return 1;
}

/* Stock's other entries: what runs under each number within that entry's own workspace. */
static int add_stock(mdnn_conv_plan_t *plan, const mdnn_call_t *call, uint64_t limit_bytes,
                     const mdnn_algo_perf_t *stock, int stock_count, mdnn_algo_perf_t *results,
                     int count)
{
    for (int i = 0; i < stock_count && count < RESULTS_MAX; i++) {
        if (stock[i].status != CUDNN_STATUS_SUCCESS || stock[i].algo == results[0].algo)
            continue;
        const mdnn_demand_t demand =
            mdnn_demand_of(call->direction, (int)stock[i].algo,
                           mdnn_wd_is_on() ? limit_bytes : mdnn_min(stock[i].memory, limit_bytes));
        const mdnn_ready_t *const ready = mdnn_conv_plan_best(plan, &demand);
        if (!ready)
            continue;
        results[count] = stock[i];
        describe(ready, reported_bytes(plan, call, (int)stock[i].algo, ready), &results[count]);
        mdnn_conv_plan_announce(plan, (int)stock[i].algo, results[count].memory);
        count++;
    }
    return count;
}

/* Entries that stock could not run stay at the end, as stock reports them. */
static int add_failures(const mdnn_algo_perf_t *stock, int stock_count, mdnn_algo_perf_t *results,
                        int count)
{
    const mdnn_algo_perf_t lead = results[0];
    for (int i = 0; i < stock_count && count < RESULTS_MAX; i++)
        if (stock[i].status != CUDNN_STATUS_SUCCESS &&
            (stock[i].algo != lead.algo || stock[i].mathType != lead.mathType))
            results[count++] = stock[i];
    return count;
}

void mdnn_reply_algorithms(const mdnn_call_t *call, uint64_t limit_bytes, int requested,
                           int *returned, mdnn_algo_perf_t *results)
{
    const uint64_t limit =
        mdnn_wd_is_on() ? mdnn_wd_limit() : mdnn_min(limit_bytes, limit_beside(call));
    if (requested <= 0 || !returned || !results || *returned < 0 || *returned > requested)
        return;
    mdnn_conv_plan_t *const plan = mdnn_conv_plan_for(call, limit, MDNN_CONV_PLAN_MAY_WAIT);
    const mdnn_demand_t any = {.workspace_bytes = limit};
    const mdnn_ready_t *const best = plan ? mdnn_conv_plan_best(plan, &any) : NULL;
    if (!best)
        return;
    mdnn_algo_perf_t answer[RESULTS_MAX];
    if (*returned == 0 && leading_part(best->configuration)->cost.algo >= MDNN_ALGO_ENGINE)
        return;
    int count = lead_with(plan, call, best, results, answer);
    if (answer[0].memory > limit_bytes)
        return;
    count = add_stock(plan, call, limit, results, *returned, answer, count);
    sort_by_time(answer + 1, count - 1);
    count = add_failures(results, *returned, answer, count);
    mdnn_convolution_reported_less(); /* what leads may take less under its number than stock would */
    const int given = count < requested ? count : requested;
    if (!MDNN_FAULT(RETURNED_COUNT_NOT_WRITTEN))
        *returned = given;
    memcpy(results, answer, (size_t)given * sizeof *results);
}

/* Whether the host need not bring workspace for call->algo. */
static bool is_served_by_arena(const mdnn_call_t *call, bool is_stock)
{
    const mdnn_demand_t nothing = mdnn_demand_of(call->direction, call->algo, 0);
    uint64_t announced;
    if (!mdnn_wd_is_on())
        return false;
    mdnn_conv_plan_t *const plan = mdnn_conv_plan_for(
        call, mdnn_wd_limit(), is_stock ? MDNN_CONV_PLAN_MAY_WAIT : MDNN_CONV_PLAN_IF_KNOWN);
    return plan && (is_stock || mdnn_conv_plan_announced(plan, call->algo, &announced)) &&
           mdnn_arena_serves(call, plan, &nothing);
}

bool mdnn_reply_workspace(const mdnn_call_t *call, uint64_t stock_bytes, uint64_t *bytes)
{
    /* Plan for the user's limit where there is one, else for what this algorithm would take. What
     * cuDNN does not support for the whole batch has an answer only if we named it ourselves. */
    const bool is_stock = stock_bytes != UINT64_MAX;
    if (is_served_by_arena(call, is_stock)) {
        *bytes = 0;
        mdnn_convolution_reported_less();
        return true;
    }
    const uint64_t user_limit = limit_beside(call);
    mdnn_conv_plan_t *const plan =
        mdnn_conv_plan_for(call, is_stock ? mdnn_min(user_limit, stock_bytes) : 0,
                           is_stock ? MDNN_CONV_PLAN_MAY_WAIT : MDNN_CONV_PLAN_IF_KNOWN);
    uint64_t allowed = stock_bytes;
    if (!plan || (!mdnn_conv_plan_announced(plan, call->algo, &allowed) && !is_stock))
        return false;
    if (MDNN_FAULT(NAMED_ALGORITHM_REFUSED) && !is_stock)
        return false;
    const mdnn_demand_t demand =
        mdnn_demand_of(call->direction, call->algo, mdnn_min(allowed, user_limit));
    const mdnn_ready_t *const ready = mdnn_conv_plan_best(plan, &demand);
    if (!ready)
        return false;
    *bytes = MDNN_FAULT(WORKSPACE_TOO_LARGE_ANSWER) ? stock_bytes
                                                    : ready->configuration->workspace_bytes;
    if (*bytes < stock_bytes)
        mdnn_convolution_reported_less();
    return true;
}
