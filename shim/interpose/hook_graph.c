/* The backend graph API: what hosts put into descriptors is shadowed, what they ask about workspace is
 * answered for what will run, and execution plans that are a convolution run our configurations.
 *
 * The workspace rule: Execute gets a pointer and no size, so a plan uses at most the smallest size
 * that any query ever returned for it, and a plan that was told of less than it takes never runs
 * itself; a configuration that fits was finalised before the answer. */
#include <string.h>

#include "config/lock.h"
#include "config/extremes.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/arena.h"
#include "shim/convolution/lease.h"
#include "shim/convolution/wd_settings.h"
#include "shim/interpose/hooks.h"
#include "shim/convolution/execute.h"
#include "shim/graph/graph_follow.h"
#include "shim/graph/graph_record.h"
#include "shim/graph/graph_shadow.h"
#include "shim/real/handles.h"
#include "shim/real/process.h"
#include "shim/vmem/workspace_sizes.h"

/* The handle of the operation graph that this thread made last. Plans need none of their own. */
static _Thread_local cudnnHandle_t graph_handle __attribute__((tls_model("initial-exec")));

static mdnn_lock_t look_lock = MDNN_LOCK_INIT(RECORDS); /* guards the making of records */

/* ---- descriptors come and go, also while exit handlers run: what a plan was told of holds ---- */

cudnnStatus_t mdnn_hook_cudnnBackendCreateDescriptor(mdnn_library_t library,
                                                     cudnnBackendDescriptorType_t type,
                                                     cudnnBackendDescriptor_t *descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendCreateDescriptor);
    const cudnnStatus_t status = real->cudnnBackendCreateDescriptor(type, descriptor);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter_even_at_exit())
        return status;
    if (mdnn_shadow_wanted(type))
        mdnn_shadow_create(*descriptor, type);
    if (mdnn_follow_is_on())
        mdnn_follow_create(*descriptor, type);
    mdnn_guard_leave();
    return status;
}

/* The shadow goes first: as soon as the descriptor is gone, another thread may get its address. */
cudnnStatus_t mdnn_hook_cudnnBackendDestroyDescriptor(mdnn_library_t library,
                                                      cudnnBackendDescriptor_t descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendDestroyDescriptor);
    if (mdnn_guard_enter_even_at_exit()) {
        mdnn_shadow_destroy(descriptor);
        if (mdnn_follow_is_on())
            mdnn_follow_destroy(descriptor);
        mdnn_guard_leave();
    }
    return real->cudnnBackendDestroyDescriptor(descriptor);
}

/* As new, of the same type. Memory of the caller's own has no shadow, and passes. */
cudnnStatus_t mdnn_hook_cudnnBackendInitialize(mdnn_library_t library,
                                               cudnnBackendDescriptor_t descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendInitialize);
    const cudnnStatus_t status = real->cudnnBackendInitialize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter_even_at_exit())
        return status;
    mdnn_shadow_renew(descriptor);
    if (mdnn_follow_is_on())
        mdnn_follow_renew(descriptor);
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnBackendFinalize(mdnn_library_t library,
                                             cudnnBackendDescriptor_t descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendFinalize);
    const cudnnStatus_t status = real->cudnnBackendFinalize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter_even_at_exit())
        return status;
    if (mdnn_follow_is_on())
        mdnn_follow_finalize(descriptor);
    mdnn_shadow_finalize(descriptor);
    mdnn_guard_leave();
    return status;
}

/* ---- what hosts say ---- */

static void copy_into_pack(mdnn_pack_shadow_t *pack, cudnnBackendAttributeName_t name,
                           int64_t count, const void *elements)
{
    switch (name) {
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
        mdnn_pack_keep(&pack->uids, count, elements);
        break;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
        mdnn_pack_keep(&pack->pointers, count, elements);
        break;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        memcpy(&pack->workspace, elements, sizeof pack->workspace);
        break;
    default: /* intermediates, other shapes: nothing that we would understand */
        pack->overridden = true;
        break;
    }
}

static void shadow_plan_attribute(mdnn_plan_shadow_t *plan, cudnnBackendAttributeName_t name,
                                  const void *elements)
{
    cudnnBackendDescriptor_t configuration;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) {
        memcpy(&plan->handle, elements, sizeof plan->handle);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        /* The host may allocate what it heard of the configuration, before any plan was there. */
        memcpy(&configuration, elements, sizeof configuration);
        mdnn_shadow_t *const shadow =
            mdnn_shadow_find(configuration, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        atomic_store(&plan->configuration, 0);
        atomic_store(&plan->reported_bytes, UINT64_MAX); /* of another configuration, if anything */
        if (shadow)
            mdnn_shadow_join(plan, &shadow->configuration);
        if (!plan->deviceless && !plan->handle)
            plan->handle = graph_handle;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) {
        plan->deviceless = true; /* maybe there is no device at all */
        plan->handle = NULL;
    }
}

static bool is_of_pack(cudnnBackendAttributeName_t name)
{
    return name >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS &&
           name <= CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES;
}

static void shadow_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                             int64_t count, const void *elements)
{
    if (!elements || count < 1)
        return;
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        memcpy(&graph_handle, elements, sizeof graph_handle);
    if (is_of_pack(name)) {
        mdnn_shadow_t *const shadow =
            mdnn_shadow_find(descriptor, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        if (shadow)
            copy_into_pack(&shadow->pack, name, count, elements);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE ||
               name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG ||
               name == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) {
        mdnn_shadow_t *const shadow =
            mdnn_shadow_find(descriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (shadow)
            shadow_plan_attribute(&shadow->plan, name, elements);
    }
}

cudnnStatus_t mdnn_hook_cudnnBackendSetAttribute(mdnn_library_t library,
                                                 cudnnBackendDescriptor_t descriptor,
                                                 cudnnBackendAttributeName_t name,
                                                 cudnnBackendAttributeType_t type, int64_t count,
                                                 const void *elements)
{
    REAL_OR_FAIL(real, library, cudnnBackendSetAttribute);
    const cudnnStatus_t status =
        real->cudnnBackendSetAttribute(descriptor, name, type, count, elements);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter_even_at_exit())
        return status;
    shadow_attribute(descriptor, name, count, elements);
    if (mdnn_follow_is_on() && !is_of_pack(name))
        mdnn_follow_set(descriptor, name, type, count, elements);
    mdnn_guard_leave();
    return status;
}

/* ---- what hosts ask ---- */

/* The record of a finalised plan; NULL if it passes. Several threads may execute one plan. */
static mdnn_graph_record_t *look_at(const mdnn_cudnn_t *real, mdnn_shadow_t *shadow)
{
    mdnn_plan_shadow_t *const plan = &shadow->plan;
    if (atomic_load_explicit(&plan->looked_at, memory_order_acquire))
        return plan->record;
    if (!atomic_load(&plan->finalized))
        return NULL; /* cuDNN refuses it; it may be finalized later */
    mdnn_lock(&look_lock);
    if (!atomic_load_explicit(&plan->looked_at, memory_order_relaxed)) {
        if (real->has_graph)
            plan->record = mdnn_graph_record_create(real, shadow->descriptor);
        atomic_store_explicit(&plan->looked_at, true, memory_order_release);
    }
    mdnn_unlock(&look_lock);
    return plan->record;
}

/* A problem that allows more than this plan's, if the host has used one: its measurements hold what
 * the plan needs. */
static mdnn_conv_plan_t *look_for_weaker(const mdnn_graph_record_t *record, const mdnn_call_t *call)
{
    static const int32_t weak_notes[] = {0, 1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                                         1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                                         MDNN_NOTES_WEAK};
    mdnn_problem_t weaker = *call->problem;
    mdnn_call_t other = *call;
    mdnn_conv_plan_t *known = NULL;
    other.problem = &weaker;
    if (weaker.x.type == CUDNN_DATA_FLOAT)
        weaker.math_type = CUDNN_DEFAULT_MATH;
    for (size_t i = 0; !known && i < sizeof weak_notes / sizeof *weak_notes; i++) {
        weaker.weak_notes = weak_notes[i];
        if (weaker.weak_notes != call->problem->weak_notes ||
            weaker.math_type != call->problem->math_type)
            known = mdnn_conv_plan_for(&other, record->limit_bytes, MDNN_CONV_PLAN_IF_KNOWN);
    }
    return known;
}

static mdnn_conv_plan_t *look_for_plan(const mdnn_graph_record_t *record, const mdnn_call_t *call,
                                       mdnn_conv_plan_permission_t permission)
{
    mdnn_conv_plan_t *const weaker = record->engine.strict ? look_for_weaker(record, call) : NULL;
    return weaker ? weaker : mdnn_conv_plan_for(call, record->limit_bytes, permission);
}

/* NULL if the call must pass. */
static mdnn_conv_plan_t *plan_of(mdnn_graph_record_t *record, const mdnn_call_t *call,
                                 mdnn_conv_plan_permission_t permission)
{
    mdnn_conv_plan_t *const known = atomic_load_explicit(&record->planned, memory_order_acquire);
    if (known && !mdnn_conv_plan_is_given_up(known))
        return known;
    mdnn_conv_plan_t *const planned = look_for_plan(record, call, permission);
    if (planned)
        mdnn_graph_record_settle(record, planned);
    return planned;
}

/* Whether the host may be told of more than its plan takes. It may have a limit of its own and then
 * drop the plan, so this must be one that it can spare. */
static bool be_generous(mdnn_plan_shadow_t *plan, const mdnn_graph_record_t *record,
                        mdnn_conv_plan_t *planned, const mdnn_demand_t *demand)
{
    if (atomic_load(&plan->generous))
        return true;
    if (atomic_load(&plan->reported_bytes) != UINT64_MAX || !atomic_load(&record->expendable) ||
        !mdnn_conv_plan_begin_workspace_overcommit(planned, demand))
        return false;
    atomic_store(&plan->generous, true);
    return true;
}

/* The host's own plan is within the user's limit. */
static bool own_fits(const mdnn_graph_record_t *record)
{
    return record->own_bytes <= record->limit_bytes;
}

/* What will run for the host: ours, or NULL for its own plan. */
static const mdnn_ready_t *choose(mdnn_plan_shadow_t *plan, const mdnn_graph_record_t *record,
                                  mdnn_conv_plan_t *planned)
{
    mdnn_demand_t demand = mdnn_graph_demand(record, record->limit_bytes);
    const mdnn_ready_t *ready = mdnn_conv_plan_best(planned, &demand);
    if (ready && ready->configuration->workspace_bytes > record->own_bytes &&
        !mdnn_graph_prefers_own(record, ready) && !be_generous(plan, record, planned, &demand)) {
        demand.workspace_bytes = mdnn_min(record->limit_bytes, record->own_bytes);
        ready = mdnn_conv_plan_best(planned, &demand);
    }
    return ready && own_fits(record) && mdnn_graph_prefers_own(record, ready) ? NULL : ready;
}

/* Workspace of what will run; the plan's own if nothing of ours will. */
static uint64_t find_answer(mdnn_shadow_t *shadow, mdnn_graph_record_t *record)
{
    mdnn_plan_shadow_t *const plan = &shadow->plan;
    const mdnn_call_t call = mdnn_graph_call(record, plan->handle);
    mdnn_conv_plan_t *const planned = plan_of(record, &call, MDNN_CONV_PLAN_MAY_WAIT);
    if (!planned)
        return record->own_bytes;
    const mdnn_demand_t nothing = mdnn_graph_demand(record, 0);
    if (mdnn_wd_is_on() && mdnn_arena_serves(&call, planned, &nothing))
        return 0;
    const mdnn_ready_t *const ready = choose(plan, record, planned);
    uint64_t answer = ready ? ready->configuration->workspace_bytes : record->own_bytes;
    /* Whether its own plan is faster shows when it first runs: until then there must be room for it. */
    if (record->engine_known && atomic_load(&record->own_ms) == 0 && answer < record->own_bytes &&
        own_fits(record))
        answer = record->own_bytes;
    MDNN_LOG(MDNN_LOG_DEBUG, "graph", "engine %d of %s: takes %llu bytes, %.4f ms; told %llu%s",
             (int)record->engine.engine.id, mdnn_conv_plan_title(planned),
             (unsigned long long)record->own_bytes, atomic_load(&record->own_ms),
             (unsigned long long)answer, atomic_load(&plan->generous) ? ", generous" : "");
    return answer;
}

static void answer_plan(const mdnn_cudnn_t *real, mdnn_shadow_t *shadow, int64_t *bytes)
{
    mdnn_count(MDNN_COUNTER_calls_graph_workspace, 1);
    mdnn_graph_record_t *const record = look_at(real, shadow);
    uint64_t answer = (uint64_t)*bytes;
    if (record && shadow->plan.handle && mdnn_handle_is_usable_now(shadow->plan.handle))
        answer = find_answer(shadow, record);
    *bytes = (int64_t)mdnn_shadow_report(&shadow->plan, answer);
    if (record)
        mdnn_workspace_note((uint64_t)*bytes, &record->graph.problem);
}

static void answer_attribute(const mdnn_cudnn_t *real, cudnnBackendDescriptor_t descriptor,
                             cudnnBackendAttributeName_t name, int64_t *bytes)
{
    mdnn_shadow_t *shadow;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        shadow = mdnn_shadow_find(descriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (shadow && *bytes >= 0)
            answer_plan(real, shadow, bytes);
    } else {
        shadow = mdnn_shadow_find(descriptor, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (shadow && *bytes >= 0)
            mdnn_shadow_report_configuration(&shadow->configuration, (uint64_t)*bytes);
    }
}

/* cuDNN has filled a configuration that the host may ask instead of its plan. */
static void follow_configuration(cudnnBackendDescriptor_t descriptor, const void *elements)
{
    cudnnBackendDescriptor_t filled;
    memcpy(&filled, elements, sizeof filled);
    mdnn_shadow_t *const plan =
        mdnn_shadow_find(descriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    mdnn_shadow_t *const configuration =
        mdnn_shadow_find(filled, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (plan && configuration)
        mdnn_shadow_fill(&plan->plan, &configuration->configuration);
}

static bool is_answered_by_us(cudnnBackendAttributeName_t name)
{
    return name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
           name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG ||
           name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE;
}

/* cuDNN has answered; the host may get another answer. */
static void replace_answer(const mdnn_cudnn_t *real, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, void *elements)
{
    int64_t bytes;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        follow_configuration(descriptor, elements);
    } else if (is_answered_by_us(name)) {
        memcpy(&bytes, elements, sizeof bytes);
        answer_attribute(real, descriptor, name, &bytes);
        memcpy(elements, &bytes, sizeof bytes);
    }
}

cudnnStatus_t mdnn_hook_cudnnBackendGetAttribute(mdnn_library_t library,
                                                 cudnnBackendDescriptor_t const descriptor,
                                                 cudnnBackendAttributeName_t name,
                                                 cudnnBackendAttributeType_t type,
                                                 int64_t requested, int64_t *count, void *elements)
{
    REAL_OR_FAIL(real, library, cudnnBackendGetAttribute);
    const bool fills = type == CUDNN_TYPE_BACKEND_DESCRIPTOR && mdnn_follow_is_on();
    if ((!fills && !is_answered_by_us(name)) || requested < 1 || !elements || !mdnn_guard_enter())
        return real->cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
    const cudnnStatus_t status =
        real->cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
    if (status == CUDNN_STATUS_SUCCESS && fills)
        mdnn_follow_fill(descriptor, name, requested, count ? *count : -1, elements);
    if (status == CUDNN_STATUS_SUCCESS)
        replace_answer(real, descriptor, name, elements);
    mdnn_guard_leave();
    return status;
}

/* ---- execution ---- */

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
    if (!execution->plan || !(execution->record = look_at(real, execution->plan)))
        return false;
    if (!handle || !pack || (execution->pack && !execution->pack->pack.finalized))
        return false; /* cuDNN refuses that */
    const mdnn_graph_record_t *const record = execution->record;
    const uint64_t told = atomic_load(&execution->plan->plan.reported_bytes);
    execution->own_plan_may_run = told >= record->own_bytes;
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
    execution->planned = plan_of(record, &execution->call, MDNN_CONV_PLAN_MAY_MEASURE);
    if (!execution->planned && !execution->own_plan_may_run)
        execution->planned = atomic_load(&record->planned);
    if (execution->planned)
        execution->call.pack_fits =
            names_agree(mdnn_conv_plan_uids(execution->planned), &record->uids);
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

/* The memory that was told of is there: others may be told as much. */
static void settle_workspace_overcommit(execution_t *execution)
{
    mdnn_conv_plan_t *const answered = atomic_load(&execution->record->planned);
    if (!answered || !atomic_load_explicit(&execution->plan->plan.generous, memory_order_relaxed))
        return;
    if (atomic_exchange(&execution->plan->plan.generous, false))
        mdnn_conv_plan_end_workspace_overcommit(answered, &execution->demand);
}

static cudnnStatus_t refuse(const char *what, cudnnStatus_t status)
{
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "graph",
                  "%s: the caller was told of less workspace than its own plan takes", what);
    return status;
}

static cudnnStatus_t run_best(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                              cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                              const execution_t *execution)
{
    const mdnn_ready_t *const ready =
        execution->planned ? mdnn_conv_plan_best(execution->planned, &execution->demand) : NULL;
    if (ready && execution->own_plan_may_run && own_fits(execution->record) &&
        mdnn_graph_prefers_own(execution->record, ready)) {
        mdnn_count(MDNN_COUNTER_executions_own, 1);
        return mdnn_graph_record_execute_own(execution->record, real, handle, plan, pack);
    }
    return mdnn_convolution_run_planned(&execution->call, execution->planned, &execution->demand);
}

static cudnnStatus_t execute(const mdnn_cudnn_t *real, cudnnHandle_t handle,
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
                   : refuse("a variant pack that is not understood cannot run", execution.refusal);
    }
    settle_workspace_overcommit(&execution);
    find_plan(&execution);
    mdnn_graph_record_leave(execution.record);
    if (execution.planned)
        mdnn_graph_record_run(execution.record, execution.planned, &execution.call);
    fit(&execution, plan);
    if (execution.own_plan_may_run && own_fits(execution.record))
        mdnn_graph_record_time_own(execution.record, &execution.call);
    mdnn_convolution_record(&execution.call, execution.planned);
    mdnn_lease_begin(&lease, &execution.call, execution.planned, &execution.demand);
    mdnn_announce_convolution(&execution.call);
    const cudnnStatus_t status = run_best(real, handle, plan, pack, &execution);
    mdnn_announce_convolution_over();
    mdnn_lease_end(&lease);
    return status;
}

/* While exit handlers run calls pass, but not such a plan. */
static bool is_shrunk_at_exit(cudnnBackendDescriptor_t plan)
{
    if (mdnn_process_state() != MDNN_PROCESS_EXITING)
        return false;
    mdnn_shadow_t *const shadow = mdnn_shadow_find(plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    return shadow && atomic_load(&shadow->plan.looked_at) && shadow->plan.record &&
           atomic_load(&shadow->plan.reported_bytes) < shadow->plan.record->own_bytes;
}

cudnnStatus_t mdnn_hook_cudnnBackendExecute(mdnn_library_t library, cudnnHandle_t handle,
                                            cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack)
{
    REAL_OR_FAIL(real, library, cudnnBackendExecute);
    if (!mdnn_guard_enter())
        return is_shrunk_at_exit(plan) ? execute(real, handle, plan, pack)
                                       : real->cudnnBackendExecute(handle, plan, pack);
    const cudnnStatus_t status = execute(real, handle, plan, pack);
    mdnn_guard_leave();
    return status;
}

/* The plan that may go into a CUDA graph: the host's own, or in its place an engine that takes no
 * more than the host was told of. NULL if there is none; parts cannot be put there. */
static cudnnBackendDescriptor_t plan_for_cuda_graph(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                                                    cudnnBackendDescriptor_t plan,
                                                    cudnnBackendDescriptor_t pack)
{
    execution_t execution;
    const bool requested = request(real, handle, plan, pack, &execution);
    if (execution.own_plan_may_run)
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

/* One hook for both: `name` is the function. */
#define CUDA_GRAPH_HOOK(name)                                                                      \
    cudnnStatus_t mdnn_hook_##name(mdnn_library_t library, cudnnHandle_t handle,                   \
                                   cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,   \
                                   cudaGraph_t graph)                                              \
    {                                                                                              \
        REAL_OR_FAIL(real, library, name);                                                         \
        const bool entered = mdnn_guard_enter();                                                   \
        const cudnnBackendDescriptor_t chosen =                                                    \
            entered || is_shrunk_at_exit(plan) ? plan_for_cuda_graph(real, handle, plan, pack)     \
                                               : plan;                                             \
        const cudnnStatus_t status =                                                               \
            chosen || !plan ? real->name(handle, chosen, pack, graph)                              \
                            : refuse(#name " is not supported", CUDNN_STATUS_NOT_SUPPORTED);       \
        if (entered)                                                                               \
            mdnn_guard_leave();                                                                    \
        return status;                                                                             \
    }

CUDA_GRAPH_HOOK(cudnnBackendPopulateCudaGraph)
CUDA_GRAPH_HOOK(cudnnBackendUpdateCudaGraph)
