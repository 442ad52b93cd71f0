#include "shim/convolution/plan.h"

#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "optimizer/deterministic.h"
#include "shim/convolution/plan_build.h"
#include "shim/convolution/plan_table.h"
#include "shim/convolution/planning.h"
#include "shim/real/process.h"

/* What must not be measured now may run what is ready, for a smaller workspace if need be. */
static mdnn_conv_plan_t *plan_unmeasured(mdnn_conv_plan_t *known, mdnn_counter_t counter)
{
    if (known && atomic_load_explicit(&known->set, memory_order_acquire))
        return known;
    mdnn_count(counter, 1);
    return NULL;
}

static void report_trouble(mdnn_status_t status)
{
    if (status == MDNN_STATUS_BUSY)
        MDNN_LOG_ONCE(MDNN_LOG_INFO, "plan",
                      "the device leaves no moment to measure in: convolutions pass until it does");
    else if (status != MDNN_STATUS_OK)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "plan", "a convolution could not be planned and passes: %s",
                      mdnn_status_string(status));
}

/* What is asked for. */
typedef struct wish {
    const mdnn_call_t *call;
    const mdnn_plan_key_t *key;
    uint32_t hash;
    uint64_t limit_bytes;
} wish_t;

/* Whether somebody else has planned it meanwhile, or found that it cannot be. */
static bool is_granted(const void *context)
{
    const wish_t *const wish = context;
    const mdnn_conv_plan_t *const plan = mdnn_plan_table_find(wish->key, wish->hash);
    return plan && (mdnn_conv_plan_is_ready(plan, wish->call, wish->limit_bytes) ||
                    mdnn_conv_plan_is_given_up(plan));
}

static mdnn_conv_plan_t *plan_now(const wish_t *wish, bool may_wait)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    mdnn_conv_plan_t *plan = mdnn_plan_table_find(wish->key, wish->hash);
    const mdnn_call_t *const call = wish->call;
    const bool disturbs =
        call->problem ? MDNN_FAULT(GRAPH_MEASURED_IN_CAPTURE) : MDNN_FAULT(MEASURED_IN_CAPTURE);
    if (!disturbs && mdnn_planning_is_captured(call, driver))
        return plan_unmeasured(plan, MDNN_COUNTER_passed_capture);
    double begin_us;
    const bool begins = may_wait ? mdnn_planning_begin_in_turn(is_granted, wish, &begin_us)
                                 : mdnn_planning_begin(&begin_us);
    if (!plan)
        plan = mdnn_plan_table_find(wish->key, wish->hash);
    if (!begins)
        return plan && mdnn_conv_plan_is_given_up(plan)
                   ? plan
                   : plan_unmeasured(plan, MDNN_COUNTER_passed_busy);
    if (!plan)
        plan = mdnn_plan_table_insert(call, wish->key, wish->hash);
    const mdnn_status_t status =
        plan ? mdnn_conv_plan_build(plan, call, wish->limit_bytes) : MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_planning_end(begin_us);
    report_trouble(status);
    if (status == MDNN_STATUS_BUSY)
        return plan_unmeasured(plan, MDNN_COUNTER_passed_busy);
    return status == MDNN_STATUS_OK ? plan : NULL;
}

bool mdnn_conv_plan_complete(mdnn_conv_plan_t *plan, const mdnn_call_t *call)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!mdnn_conv_plan_has_deferred(plan) || !mdnn_search_missed(&plan->search) ||
        mdnn_conv_plan_is_given_up(plan) || !driver || mdnn_planning_is_captured(call, driver))
        return false;
    double begin_us;
    if (!mdnn_planning_begin(&begin_us))
        return false;
    const mdnn_status_t status = mdnn_conv_plan_build(plan, call, 0);
    mdnn_planning_end(begin_us);
    report_trouble(status);
    return status == MDNN_STATUS_OK;
}

/* Asked once, so that all convolutions of a program are treated alike. A program may set its environment before it first
 * uses CUDA. */
static bool keeps_bits(const mdnn_options_t *options)
{
    static _Atomic int known; /* 0: not asked yet; 1: no; 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        const bool yes = options->convolution_same_bits == MDNN_SAME_BITS_YES ||
                         (options->convolution_same_bits == MDNN_SAME_BITS_AUTO &&
                          mdnn_environment_is_deterministic());
        answer = yes ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* The counter that says why no convolution is changed; MDNN_COUNTER_COUNT: they may be. */
static mdnn_counter_t why_unchanged(void)
{
    const mdnn_options_t *const options = mdnn_process_options();
    if (options->convolution_policy == MDNN_CONVOLUTION_OFF)
        return MDNN_COUNTER_passed_disabled;
    return options->convolution_policy == MDNN_CONVOLUTION_WR &&
                   mdnn_workspace_limit() == UINT64_MAX && keeps_bits(options)
               ? MDNN_COUNTER_passed_same_bits
               : MDNN_COUNTER_COUNT;
}

mdnn_conv_plan_t *mdnn_conv_plan_for(const mdnn_call_t *call, uint64_t limit_bytes,
                                     mdnn_conv_plan_permission_t permission)
{
    mdnn_plan_key_t key;
    const mdnn_counter_t why = why_unchanged();
    if (why != MDNN_COUNTER_COUNT) {
        mdnn_count(why, 1);
        return NULL;
    }
    if (mdnn_plan_key_make(call, &key) != MDNN_STATUS_OK) {
        mdnn_count(MDNN_COUNTER_passed_unsupported, 1);
        return NULL;
    }
    const uint32_t hash = mdnn_plan_key_hash(&key);
    mdnn_conv_plan_t *plan = mdnn_plan_table_find(&key, hash);
    if (!plan || !mdnn_conv_plan_is_ready(plan, call, limit_bytes)) {
        if (permission == MDNN_CONV_PLAN_IF_KNOWN &&
            !(plan && mdnn_conv_plan_covers(plan, limit_bytes)))
            return NULL;
        if (!plan || !atomic_load_explicit(&plan->given_up, memory_order_relaxed))
            plan = plan_now(&(wish_t){call, &key, hash, limit_bytes},
                            permission == MDNN_CONV_PLAN_MAY_WAIT);
    }
    if (plan && atomic_load_explicit(&plan->given_up, memory_order_relaxed)) {
        mdnn_count(MDNN_COUNTER_passed_trouble, 1);
        return NULL;
    }
    return plan;
}
