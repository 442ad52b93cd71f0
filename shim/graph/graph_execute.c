#include "shim/graph/graph_execute.h"

#include <string.h>

#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/execute.h"
#include "shim/convolution/lease.h"
#include "shim/convolution/loan.h"
#include "shim/graph/graph_plan.h"
#include "shim/vmem/workspace_sizes.h"

/* One call of Execute, or one that puts the same into a CUDA graph. */
typedef struct execution {
    mdnn_shadow_t *plan, *pack;
    mdnn_graph_record_t *record;
    uint64_t workspace_bytes; /* that the host provides */
    bool own_plan_may_run;
    cudnnStatus_t refusal; /* of what neither we nor the host's own plan may run */
    mdnn_call_t call;
    mdnn_demand_t demand;
    mdnn_conv_plan_t *planned; /* NULL: the call passes */
} execution_t;

/* Address of a tensor, if the problem has it; false if it has none or the graph promised a better one:
 * cuDNN refuses both. */
static bool take_pointer(const mdnn_pack_shadow_t *pack, const mdnn_problem_tensor_t *tensor,
                         int64_t uid, void **data, cudnnStatus_t *refusal)
{
    if (tensor->dim_count == 0)
        return true;
    *data = mdnn_pack_pointer(pack, uid);
    *refusal =
        *data ? CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER : CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    return *data && (uintptr_t)*data % (uint64_t)tensor->alignment_bytes == 0;
}

static bool take_data(mdnn_call_t *call, const mdnn_graph_record_t *record,
                      const mdnn_pack_shadow_t *pack, cudnnStatus_t *refusal)
{
    const mdnn_problem_t *const problem = &record->graph.problem;
    const mdnn_graph_uids_t *const uids = &record->uids;
    *refusal = CUDNN_STATUS_NOT_SUPPORTED;
    call->workspace = pack->workspace;
    return mdnn_pack_is_plain(pack) &&
           take_pointer(pack, &problem->x, uids->x, &call->x, refusal) &&
           take_pointer(pack, &problem->w, uids->w, &call->w, refusal) &&
           take_pointer(pack, &problem->y, uids->y, &call->y, refusal) &&
           take_pointer(pack, &problem->z, uids->z, &call->z, refusal) &&
           take_pointer(pack, &problem->bias, uids->bias, &call->bias, refusal);
}

static bool names_agree(const mdnn_graph_uids_t *a, const mdnn_graph_uids_t *b)
{
    return a && a->x == b->x && a->w == b->w && a->y == b->y && a->z == b->z && a->bias == b->bias;
}

/* Works out everything; false if the call must pass as it is. */
static bool request(const mdnn_cudnn_t *real, cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                    cudnnBackendDescriptor_t pack, execution_t *execution)
{
    memset(execution, 0, sizeof *execution);
    execution->own_plan_may_run = true;
    execution->plan = mdnn_shadow_find(plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    execution->pack = mdnn_shadow_find(pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (!execution->plan || !(execution->record = mdnn_graph_record_of(real, execution->plan)))
        return false;
    if ((!handle || !pack) && !MDNN_FAULT(NULL_HANDLE_TAKEN))
        return false; /* cuDNN refuses that */
    if (execution->pack && !execution->pack->pack.finalized && !MDNN_FAULT(PACK_NOT_FINALIZED))
        return false; /* and that */
    const mdnn_graph_record_t *const record = execution->record;
    const uint64_t told = atomic_load(&execution->plan->plan.reported_bytes);
    execution->own_plan_may_run = told >= record->own_bytes || MDNN_FAULT(SHRUNK_PLAN_RUNS);
    execution->call = mdnn_graph_call(record, handle);
    mdnn_call_t *const call = &execution->call;
    execution->refusal = CUDNN_STATUS_BAD_PARAM;
    if (!execution->pack || !take_data(call, record, &execution->pack->pack, &execution->refusal))
        return false;
    execution->workspace_bytes = !call->workspace     ? 0
                                 : told == UINT64_MAX ? record->own_bytes
                                                      : told;
    call->workspace_bytes = execution->workspace_bytes;
    call->caller_plan = execution->own_plan_may_run ? plan : NULL;
    call->caller_pack = pack;
    execution->demand = mdnn_graph_demand(record, execution->workspace_bytes);
    return true;
}

static void find_plan(execution_t *execution)
{
    mdnn_graph_record_t *const record = execution->record;
    execution->planned = mdnn_graph_plan_of(record, &execution->call, MDNN_CONV_PLAN_MAY_MEASURE);
    if (!execution->planned && !execution->own_plan_may_run)
        execution->planned = atomic_load(&record->planned);
    if (execution->planned)
        execution->call.pack_fits =
            names_agree(mdnn_conv_plan_uids(execution->planned), &record->uids) ||
            MDNN_FAULT(FOREIGN_NAMES_FIT);
}

/* Under a budget a workspace may be too much beside the operands: then what needs none runs, if
 * anything does that the host accepts. A part of it would be no less. */
static void fit(execution_t *execution, cudnnBackendDescriptor_t plan)
{
    const mdnn_graph_record_t *const record = execution->record;
    const mdnn_demand_t nothing = mdnn_graph_demand(record, 0);
    const bool own = record->own_bytes == 0;
    mdnn_call_t *const call = &execution->call;
    if (mdnn_convolution_fits(call) ||
        (!own && !(execution->planned && mdnn_conv_plan_best(execution->planned, &nothing))))
        return;
    execution->own_plan_may_run = own;
    execution->workspace_bytes = call->workspace_bytes = 0;
    execution->demand = nothing;
    call->workspace = NULL;
    call->caller_plan = own ? plan : NULL;
    call->pack_fits = call->pack_fits && own; /* it names the workspace */
}

/* The memory of an earlier answer exists, so other plans may report as much. */
static void settle_workspace_overcommit(execution_t *execution)
{
    mdnn_conv_plan_t *const answered = atomic_load(&execution->record->planned);
    if (!answered || !atomic_load_explicit(&execution->plan->plan.generous, memory_order_relaxed))
        return;
    if (atomic_exchange(&execution->plan->plan.generous, false))
        mdnn_conv_plan_end_workspace_overcommit(answered, &execution->demand);
}

cudnnStatus_t mdnn_graph_refuse(const char *what, cudnnStatus_t status)
{
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "graph",
                  "%s: the caller's own plan takes more workspace than was reported to it", what);
    return status;
}

/* Whether the host's own plan runs rather than ours. */
static bool is_own_better(const execution_t *execution)
{
    const mdnn_ready_t *const ready =
        execution->planned ? mdnn_conv_plan_best(execution->planned, &execution->demand) : NULL;
    return ready && execution->own_plan_may_run && mdnn_graph_own_fits(execution->record) &&
           mdnn_graph_prefers_own(execution->record, ready);
}

/* The host's own plan in memory that was lent. */
static cudnnStatus_t run_own_on_loan(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                                     cudnnBackendDescriptor_t plan, const execution_t *execution)
{
    const mdnn_call_t *const call = &execution->call;
    const mdnn_engine_operands_t operands = {call->x, call->w,    call->y,
                                             call->z, call->bias, call->workspace};
    return mdnn_engine_execute(real, handle, plan, &execution->record->uids, &operands);
}

static cudnnStatus_t run_best(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                              cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                              execution_t *execution)
{
    mdnn_loan_t loan;
    mdnn_graph_record_t *const record = execution->record;
    const bool own = is_own_better(execution);
    const double own_ms = atomic_load_explicit(&record->own_ms, memory_order_relaxed);
    const mdnn_knapsack_item_t own_item = {own_ms, record->own_bytes};
    loan.open = loan.own = false;
    if (!own || own_ms > 0)
        mdnn_loan_begin(&loan, &execution->call, execution->planned, &execution->demand,
                        own ? &own_item : NULL);
    cudnnStatus_t status;
    if (own && (!loan.open || loan.own))
        mdnn_count(MDNN_COUNTER_executions_own, 1);
    if (loan.own)
        status = run_own_on_loan(real, handle, plan, execution);
    else if (own && !loan.open)
        status = mdnn_graph_record_execute_own(record, real, handle, plan, pack);
    else
        status =
            mdnn_convolution_run_planned(&execution->call, execution->planned, &execution->demand);
    mdnn_loan_end(&loan);
    return status;
}

cudnnStatus_t mdnn_graph_execute(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                                 cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    mdnn_lease_t lease;
    execution_t execution;
    mdnn_count(MDNN_COUNTER_calls_graph_execute, 1);
    mdnn_workspace_over();
    if (!request(real, handle, plan, pack, &execution)) {
        mdnn_count(MDNN_COUNTER_executions_passed, 1);
        return execution.own_plan_may_run
                   ? real->cudnnBackendExecute(handle, plan, pack)
                   : mdnn_graph_refuse("a variant pack that is not understood cannot run",
                                       execution.refusal);
    }
    if (!MDNN_FAULT(GENEROUS_NEVER_AGAIN))
        settle_workspace_overcommit(&execution);
    find_plan(&execution);
    mdnn_graph_record_leave(execution.record);
    if (execution.planned)
        mdnn_graph_record_run(execution.record, execution.planned, &execution.call);
    fit(&execution, plan);
    if (execution.own_plan_may_run && mdnn_graph_own_fits(execution.record))
        mdnn_graph_record_time_own(execution.record, &execution.call);
    mdnn_convolution_record(&execution.call, execution.planned);
    mdnn_lease_begin(&lease, &execution.call, execution.planned, &execution.demand);
    mdnn_announce_convolution(&execution.call);
    const cudnnStatus_t status = run_best(real, handle, plan, pack, &execution);
    mdnn_announce_convolution_over();
    mdnn_lease_end(&lease);
    return status;
}

cudnnBackendDescriptor_t mdnn_graph_plan_for_cuda_graph(const mdnn_cudnn_t *real,
                                                        cudnnHandle_t handle,
                                                        cudnnBackendDescriptor_t plan,
                                                        cudnnBackendDescriptor_t pack)
{
    execution_t execution;
    const bool requested = request(real, handle, plan, pack, &execution);
    if (execution.own_plan_may_run || MDNN_FAULT(SHRUNK_PLAN_IN_CUDA_GRAPH))
        return plan;
    if (!requested)
        return NULL;
    find_plan(&execution);
    const mdnn_ready_t *ready =
        execution.planned ? mdnn_conv_plan_best(execution.planned, &execution.demand) : NULL;
    if (ready && ready->rival)
        ready = ready->rival;
    return ready && ready->configuration->part_count == 1 && execution.call.pack_fits &&
                   ready->parts[0].engine_plan
               ? ready->parts[0].engine_plan->plan
               : NULL;
}
