#include "shim/convolution/execute.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "config/extremes.h"
#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/lease.h"
#include "shim/convolution/loan.h"
#include "shim/convolution/wd_settings.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

static const float one_float = 1.0F;
static const double one_double = 1.0;

mdnn_demand_t mdnn_demand_of(mdnn_direction_t direction, int algo, uint64_t workspace_bytes)
{
    const bool direct_wanted = mdnn_process_options()->convolution_numerics == MDNN_NUMERICS_DIRECT;
    return (mdnn_demand_t){
        .workspace_bytes = workspace_bytes,
        .deterministic = !MDNN_FAULT(NONDETERMINISTIC_FOR_DETERMINISTIC) &&
                         mdnn_algo_is_deterministic(direction, algo),
        .direct = direct_wanted && mdnn_algo_is_direct(direction, algo),
    };
}

/* Parts of a weight gradient add up: in bf16 through the accumulator, else later parts add, with
 * beta 1, to what the first one wrote (Oyama 2018, II). */
static void add_up(const mdnn_conv_plan_t *plan, size_t index, size_t count, mdnn_call_t *part)
{
    if (part->direction != MDNN_BACKWARD_FILTER || count == 1)
        return;
    part->accumulator = mdnn_conv_plan_accumulator(plan);
    if (part->accumulator)
        part->accumulate_mode = index == 0           ? MDNN_ACCUMULATE_FIRST
                                : index == count - 1 ? MDNN_ACCUMULATE_FINISH
                                                     : MDNN_ACCUMULATE_ADD;
    else if (index > 0 && !MDNN_FAULT(BETA_NOT_ONE))
        part->beta = mdnn_conv_plan_problem(plan)->x.type == CUDNN_DATA_DOUBLE
                         ? (const void *)&one_double
                         : &one_float;
}

/* The caller's own call is as good as ever although some parts ran: it reads nothing of the output,
 * or the last part alone writes there. */
static bool may_be_redone(const mdnn_problem_t *problem, const mdnn_call_t *part)
{
    if (problem->direction == MDNN_BIAS_ACTIVATION_FORWARD)
        return !part->z || part->z != part->y;
    if (MDNN_FAULT(BETA_APPLIED_TWICE))
        return true;
    return problem->beta_is_zero || (part->accumulator && !MDNN_FAULT(FAILED_SUM_REPORTED));
}

/* For legacy callers: in the graph API a plan reports less only if one that fits is ready. */
static _Atomic bool reported_less;

void mdnn_convolution_reported_less(void)
{
    atomic_store_explicit(&reported_less, true, memory_order_relaxed);
}

/* Whether the caller's algorithm may lack the workspace that it needs because we said that less is enough. */
static bool lacks_workspace(const mdnn_call_t *call)
{
    size_t bytes;
    return atomic_load_explicit(&reported_less, memory_order_relaxed) && !call->problem &&
           mdnn_call_workspace(call, &bytes) == CUDNN_STATUS_SUCCESS &&
           bytes > (call->workspace ? call->workspace_bytes : 0) &&
           !MDNN_FAULT(LESS_WORKSPACE_IS_TOO_LITTLE);
}

static bool is_no_weaker(const mdnn_demand_t *demand, mdnn_direction_t direction, int algo)
{
    return (!demand->deterministic || mdnn_algo_is_deterministic(direction, algo)) &&
           (!demand->direct || mdnn_algo_is_direct(direction, algo));
}

/* An algorithm that runs within the workspace; -1 if there is none. */
static int find_modest(const mdnn_call_t *call, const mdnn_demand_t *demand)
{
    mdnn_call_t other = *call;
    size_t bytes;
    for (other.algo = 0; other.algo < mdnn_algo_count(call->direction); other.algo++)
        if (is_no_weaker(demand, call->direction, other.algo) &&
            mdnn_call_workspace(&other, &bytes) == CUDNN_STATUS_SUCCESS &&
            bytes <= (call->workspace ? call->workspace_bytes : 0))
            return other.algo;
    return -1;
}

/* A result that is right, but maybe not the same to the bit in each run, is better than none. */
static void say_weaker(void)
{
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "execute",
                  "a convolution has less memory than its algorithm needs%s: it runs another one, "
                  "which may not be deterministic",
                  mdnn_wd_is_on() ? " (more captured graphs than total_workspace has room for?)"
                                  : "");
}

/* Runs the call as it is. But if the caller learnt of less workspace than its algorithm needs, another algorithm runs
 * that needs no more: one that is no weaker, if there is any. */
static cudnnStatus_t pass(const mdnn_call_t *call)
{
    const mdnn_demand_t strongest = mdnn_demand_of(call->direction, call->algo, 0);
    const mdnn_demand_t weakest = {.workspace_bytes = 0};
    mdnn_call_t other = *call;
    if (!lacks_workspace(call))
        return mdnn_call_run(call);
    other.algo = find_modest(call, &strongest);
    if (other.algo < 0) {
        other.algo = find_modest(call, &weakest);
        say_weaker();
    }
    return mdnn_call_run(other.algo < 0 ? call : &other);
}

bool mdnn_convolution_fits(const mdnn_call_t *call)
{
    const uint64_t operands[] = {(uintptr_t)call->x, (uintptr_t)call->w, (uintptr_t)call->y,
                                 (uintptr_t)call->z, (uintptr_t)call->bias};
    return !call->workspace || !mdnn_virtual_owns((uintptr_t)call->workspace) ||
           mdnn_virtual_workspace_fits((uintptr_t)call->workspace, operands,
                                       sizeof operands / sizeof *operands);
}

/* A part of it would be no less: an allocation is there as a whole or not at all. */
void mdnn_convolution_fit(mdnn_call_t *call)
{
    const mdnn_demand_t weakest = {.workspace_bytes = 0};
    mdnn_call_t without = *call;
    without.workspace = NULL;
    without.workspace_bytes = 0;
    if (MDNN_FAULT(WORKSPACE_KEPT_WITH_NO_ROOM) || mdnn_convolution_fits(call) ||
        find_modest(&without, &weakest) < 0)
        return;
    *call = without;
    mdnn_convolution_reported_less();
}

/* What no part of a known problem may cost. */
static void break_steady_state(const mdnn_call_t *call)
{
    cudaStream_t stream;
    if (MDNN_FAULT(SYNC_PER_PART) &&
        call->cudnn->cudnnGetStream(call->handle, &stream) == CUDNN_STATUS_SUCCESS)
        (void)mdnn_real_driver()->cuStreamSynchronize(stream);
    void *volatile block = MDNN_FAULT(ALLOC_PER_CALL) ? malloc(64) : NULL;
    free(block);
}

static cudnnStatus_t run_parts(mdnn_conv_plan_t *plan, const mdnn_ready_t *ready,
                               const mdnn_call_t *call)
{
    const mdnn_problem_t *const problem = mdnn_conv_plan_problem(plan);
    const size_t count = ready->configuration->part_count;
    for (size_t i = 0; i < count; i++) {
        const mdnn_ready_part_t *const from = &ready->parts[i];
        mdnn_call_t part;
        mdnn_slice(call, problem, from->first_image, from->descriptors, &part);
        part.algo = from->algo;
        part.conv_desc = from->convolution;
        part.engine_plan = from->engine_plan;
        part.uids = mdnn_conv_plan_uids(plan);
        if ((count > 1 && !MDNN_FAULT(PARTS_GET_THE_WHOLE_PACK)) || !call->pack_fits)
            part.caller_pack = NULL;
        add_up(plan, i, count, &part);
        const cudnnStatus_t status = mdnn_call_run(&part);
        if (MDNN_HAS_FAULTS)
            break_steady_state(call);
        if (status == CUDNN_STATUS_SUCCESS)
            continue;
        if (!MDNN_FAULT(FAILURE_REPEATED))
            mdnn_conv_plan_give_up(plan);
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "execute",
                      "part %zu of %zu of a convolution failed with cuDNN status %d; such "
                      "convolutions run as the program asks from now on",
                      i + 1, count, (int)status);
        const bool nothing_ran = i == 0 && !MDNN_FAULT(FIRST_FAILURE_REPORTED);
        return nothing_ran || may_be_redone(problem, &part) ? pass(call)
               : MDNN_FAULT(LATER_FAILURE_HIDDEN)           ? CUDNN_STATUS_SUCCESS
                                                            : status;
    }
    mdnn_count(count > 1 ? MDNN_COUNTER_executions_split : MDNN_COUNTER_executions_undivided, 1);
    mdnn_count(MDNN_COUNTER_parts, count);
    return CUDNN_STATUS_SUCCESS;
}

/* A split runs, or its rival, and is timed while its trial lasts. */
static cudnnStatus_t run_on_trial(mdnn_conv_plan_t *plan, const mdnn_ready_t *ready,
                                  const mdnn_call_t *call)
{
    cudaStream_t stream;
    int point;
    if (call->cudnn->cudnnGetStream(call->handle, &stream) != CUDNN_STATUS_SUCCESS)
        return run_parts(plan, ready, call);
    const mdnn_contender_t contender = mdnn_trial_begin(ready->trial, stream, &point);
    if (contender == MDNN_CONTENDER_RIVAL && !mdnn_trial_is_decided(ready->trial))
        mdnn_virtual_call_is_trial();
    const cudnnStatus_t status =
        run_parts(plan, contender == MDNN_CONTENDER_RIVAL ? ready->rival : ready, call);
    if (point >= 0)
        mdnn_trial_end(ready->trial, stream, point);
    return status;
}

/* What runs in order: a stream, which threads may have under one name. */
static uint64_t stream_of(const mdnn_call_t *call)
{
    cudaStream_t stream;
    if (call->cudnn->cudnnGetStream(call->handle, &stream) != CUDNN_STATUS_SUCCESS)
        return 0;
    return stream == CU_STREAM_PER_THREAD ? (uint64_t)pthread_self() : (uintptr_t)stream;
}

void mdnn_convolution_record(const mdnn_call_t *call, const mdnn_conv_plan_t *plan)
{
    if (!plan || !mdnn_statistics_wants_executions())
        return;
    mdnn_statistics_execution(
        &(mdnn_statistics_execution_t){.row = mdnn_conv_plan_statistics_row(plan),
                                       .stream = stream_of(call),
                                       .x = (uintptr_t)call->x,
                                       .w = (uintptr_t)call->w,
                                       .y = (uintptr_t)call->y});
}

static cudnnStatus_t run_in_arena(const mdnn_call_t *call, mdnn_conv_plan_t *plan,
                                  mdnn_demand_t *demand)
{
    mdnn_call_t leased = *call;
    mdnn_lease_t lease;
    mdnn_lease_begin(&lease, &leased, plan, demand);
    const cudnnStatus_t status = mdnn_convolution_run_planned(&leased, plan, demand);
    mdnn_lease_end(&lease);
    return status;
}

static cudnnStatus_t run_on_loan(const mdnn_call_t *call, mdnn_conv_plan_t *plan,
                                 mdnn_demand_t *demand)
{
    mdnn_call_t lent = *call;
    mdnn_loan_t loan;
    mdnn_loan_begin(&loan, &lent, plan, demand, NULL);
    const cudnnStatus_t status = mdnn_convolution_run_planned(&lent, plan, demand);
    mdnn_loan_end(&loan);
    return status;
}

cudnnStatus_t mdnn_convolution_run(const mdnn_call_t *call)
{
    const uint64_t workspace_bytes = call->workspace ? call->workspace_bytes : 0;
    mdnn_conv_plan_t *const plan = mdnn_conv_plan_for(
        call, mdnn_max(workspace_bytes, mdnn_wd_limit()), MDNN_CONV_PLAN_MAY_MEASURE);
    mdnn_demand_t demand = mdnn_demand_of(call->direction, call->algo, workspace_bytes);
    mdnn_convolution_record(call, plan);
    if (mdnn_wd_is_on())
        return run_in_arena(call, plan, &demand);
    return mdnn_virtual_calls_on() ? run_on_loan(call, plan, &demand)
                                   : mdnn_convolution_run_planned(call, plan, &demand);
}

/* The caller learnt that it needs no workspace, or less, and now nothing that satisfies it has enough. Either the arena
 * has no memory for a captured graph because others have taken all that they may, or the answer was for another
 * alpha. */
static const mdnn_ready_t *best_without_memory(const mdnn_conv_plan_t *plan,
                                               const mdnn_demand_t *demand)
{
    const mdnn_demand_t weaker = {.workspace_bytes = demand->workspace_bytes,
                                  .strict = demand->strict};
    const mdnn_ready_t *const ready = mdnn_conv_plan_best(plan, &weaker);
    if (ready)
        say_weaker();
    return ready;
}

cudnnStatus_t mdnn_convolution_run_planned(const mdnn_call_t *call, mdnn_conv_plan_t *plan,
                                           const mdnn_demand_t *demand)
{
    const mdnn_ready_t *ready = plan ? mdnn_conv_plan_best(plan, demand) : NULL;
    if (!ready && plan && (mdnn_wd_is_on() || lacks_workspace(call)))
        ready = best_without_memory(plan, demand);
    if (!ready) {
        mdnn_count(MDNN_COUNTER_executions_passed, 1);
        return pass(call);
    }
    /* A trial alternates and then decides by time: two runs of a program would differ. Graphs say only
     * by their engine whether that matters, so where it may there is none, and what was measured
     * stands. */
    return ready->trial ? run_on_trial(plan, ready, call) : run_parts(plan, ready, call);
}
