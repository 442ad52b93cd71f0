#include "shim/graph/graph_plan.h"

#include "config/lock.h"

static mdnn_lock_t look_lock = MDNN_LOCK_INIT(RECORDS); /* guards the making of records */

mdnn_graph_record_t *mdnn_graph_record_of(const mdnn_cudnn_t *real, mdnn_shadow_t *shadow)
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

mdnn_conv_plan_t *mdnn_graph_plan_of(mdnn_graph_record_t *record, const mdnn_call_t *call,
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

bool mdnn_graph_own_fits(const mdnn_graph_record_t *record)
{
    return record->own_bytes <= record->limit_bytes;
}
