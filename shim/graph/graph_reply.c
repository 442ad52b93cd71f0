#include "shim/graph/graph_reply.h"

#include <string.h>

#include "config/extremes.h"
#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/arena.h"
#include "shim/convolution/wd_settings.h"
#include "shim/graph/graph_plan.h"
#include "shim/real/handles.h"
#include "shim/vmem/workspace_sizes.h"

/* Whether the plan may report more workspace than it takes. The program may have a limit of its own
 * and then drop the plan, so this must be a plan that it can spare. */
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
    return ready && mdnn_graph_own_fits(record) && mdnn_graph_prefers_own(record, ready) ? NULL
                                                                                         : ready;
}

/* Workspace of what will run; the plan's own if nothing of ours will. */
static uint64_t find_answer(mdnn_shadow_t *shadow, mdnn_graph_record_t *record)
{
    mdnn_plan_shadow_t *const plan = &shadow->plan;
    const mdnn_call_t call = mdnn_graph_call(record, plan->handle);
    mdnn_conv_plan_t *const planned = mdnn_graph_plan_of(record, &call, MDNN_CONV_PLAN_MAY_WAIT);
    if (!planned)
        return record->own_bytes;
    const mdnn_demand_t nothing = mdnn_graph_demand(record, 0);
    if (mdnn_wd_is_on() && mdnn_arena_serves(&call, planned, &nothing))
        return 0;
    const mdnn_ready_t *const ready = choose(plan, record, planned);
    uint64_t answer = ready ? ready->configuration->workspace_bytes : record->own_bytes;
    /* Whether its own plan is faster shows when it first runs: until then there must be room for it. */
    if (record->engine_known && atomic_load(&record->own_ms) == 0 && answer < record->own_bytes &&
        mdnn_graph_own_fits(record))
        answer = record->own_bytes;
    MDNN_LOG(MDNN_LOG_DEBUG, "graph", "engine %d of %s: takes %llu bytes, %.4f ms; reported %llu%s",
             (int)record->engine.engine.id, mdnn_conv_plan_title(planned),
             (unsigned long long)record->own_bytes, atomic_load(&record->own_ms),
             (unsigned long long)answer, atomic_load(&plan->generous) ? ", generous" : "");
    return answer;
}

static void answer_plan(const mdnn_cudnn_t *real, mdnn_shadow_t *shadow, int64_t *bytes)
{
    mdnn_count(MDNN_COUNTER_calls_graph_workspace, 1);
    mdnn_graph_record_t *const record = mdnn_graph_record_of(real, shadow);
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
    if (plan && configuration && !MDNN_FAULT(GIVEN_CONFIGURATION_IGNORED))
        mdnn_shadow_fill(&plan->plan, &configuration->configuration);
}

bool mdnn_graph_reply_concerns(cudnnBackendAttributeName_t name)
{
    return name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
           name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG ||
           name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE;
}

void mdnn_graph_reply(const mdnn_cudnn_t *real, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, void *elements)
{
    int64_t bytes;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        follow_configuration(descriptor, elements);
    } else if (mdnn_graph_reply_concerns(name)) {
        memcpy(&bytes, elements, sizeof bytes);
        answer_attribute(real, descriptor, name, &bytes);
        memcpy(elements, &bytes, sizeof bytes);
    }
}
