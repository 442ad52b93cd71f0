#include "shim/convolution/plan_internal.h"

#include "config/fault.h"
#include "shim/convolution/wd_settings.h"
#include "shim/real/process.h"

uint64_t mdnn_workspace_limit(void)
{
    return mdnn_process_options()->convolution_workspace_limit;
}

bool mdnn_conv_plan_may_round(const mdnn_problem_t *problem)
{
    return (problem->x.type == CUDNN_DATA_FLOAT && problem->math_type != CUDNN_FMA_MATH) ||
           problem->weak_notes != 0;
}

unsigned mdnn_conv_plan_flags(const mdnn_problem_t *problem, const mdnn_demand_t *demand)
{
    return (demand->deterministic ? MDNN_DEMAND_DETERMINISTIC : 0U) |
           (demand->direct ? MDNN_DEMAND_DIRECT : 0U) |
           (demand->strict && mdnn_conv_plan_may_round(problem) && !MDNN_FAULT(STRICTNESS_IGNORED)
                ? MDNN_DEMAND_STRICT
                : 0U);
}

const mdnn_ready_t *mdnn_conv_plan_best(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    const mdnn_front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    const unsigned flags = mdnn_conv_plan_flags(&plan->key.problem, demand);
    const mdnn_ready_t *best = NULL; /* workspace ascending, time descending */
    for (size_t i = 0; set && i < set->counts[flags]; i++) {
        const mdnn_ready_t *const ready = &set->ready[flags][i];
        if (ready->configuration->workspace_bytes <= demand->workspace_bytes ||
            MDNN_FAULT(LIMIT_IGNORED))
            best = ready;
    }
    return best;
}

size_t mdnn_conv_plan_items(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                            mdnn_knapsack_item_t *items, size_t capacity)
{
    const mdnn_front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    const unsigned flags = mdnn_conv_plan_flags(&plan->key.problem, demand);
    for (size_t i = 0; set && i < set->counts[flags] && i < capacity; i++) {
        const mdnn_configuration_t *const configuration = set->ready[flags][i].configuration;
        items[i] = (mdnn_knapsack_item_t){configuration->time_ms, configuration->workspace_bytes};
    }
    return set ? set->counts[flags] : 0;
}

uint64_t mdnn_conv_plan_least_bytes(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    mdnn_knapsack_item_t least;
    return mdnn_conv_plan_items(plan, demand, &least, 1) > 0 ? least.workspace_bytes : UINT64_MAX;
}

bool mdnn_conv_plan_covers(const mdnn_conv_plan_t *plan, uint64_t limit_bytes)
{
    const mdnn_front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    return set && (limit_bytes <= set->limit_bytes ||
                   limit_bytes < atomic_load_explicit(&plan->next_limit, memory_order_relaxed));
}

bool mdnn_conv_plan_has_deferred(const mdnn_conv_plan_t *plan)
{
    const mdnn_front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    return set && set->deferred;
}

bool mdnn_conv_plan_is_brief(const mdnn_conv_plan_t *plan, const mdnn_options_t *options)
{
    const mdnn_problem_t *const problem = &plan->key.problem;
    const bool plain =
        problem->x.type == CUDNN_DATA_DOUBLE ||
        (problem->x.type == CUDNN_DATA_FLOAT && problem->math_type == CUDNN_FMA_MATH);
    return plan->engines && options->convolution_engines == MDNN_ENGINES_AUTO && !plain;
}

/* Nothing of a caller's own is forbidden. */
static bool may_be_left(const mdnn_conv_plan_t *plan)
{
    return mdnn_conv_plan_is_brief(plan, mdnn_process_options()) &&
           mdnn_workspace_limit() == UINT64_MAX && !mdnn_wd_is_on();
}

bool mdnn_conv_plan_is_deferred(const mdnn_conv_plan_t *plan)
{
    return mdnn_search_goes_on(&plan->search) && may_be_left(plan);
}

bool mdnn_conv_plan_defers_to_caller(const mdnn_conv_plan_t *plan, const mdnn_call_t *call)
{
    return call->caller_engine && mdnn_conv_plan_is_deferred(plan);
}

/* Whoever lets a memory policy choose among workspaces wants a choice. */
static bool is_few_the_default(const mdnn_options_t *options)
{
    return options->memory_budget != UINT64_MAX &&
           options->memory_variants == MDNN_VARIANTS_RECORDED && !MDNN_FAULT(FEW_ARE_MANY);
}

bool mdnn_conv_plan_wants_few(const mdnn_conv_plan_t *plan, const mdnn_call_t *call)
{
    const mdnn_options_t *const options = mdnn_process_options();
    return call->caller_engine && plan->engines &&
           options->convolution_engines == MDNN_ENGINES_AUTO &&
           mdnn_workspace_limit() == UINT64_MAX && !mdnn_wd_is_on() &&
           (options->convolution_candidates == MDNN_CANDIDATES_FEW ||
            (options->convolution_candidates == MDNN_CANDIDATES_AUTO &&
             is_few_the_default(options)));
}

bool mdnn_conv_plan_is_ready(const mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                             uint64_t limit_bytes)
{
    return mdnn_conv_plan_covers(plan, limit_bytes) &&
           (!mdnn_conv_plan_has_deferred(plan) || mdnn_conv_plan_defers_to_caller(plan, call));
}

mdnn_search_t *mdnn_conv_plan_search(mdnn_conv_plan_t *plan)
{
    return &plan->search;
}

const char *mdnn_conv_plan_title(const mdnn_conv_plan_t *plan)
{
    return plan->title;
}

const mdnn_graph_uids_t *mdnn_conv_plan_uids(const mdnn_conv_plan_t *plan)
{
    return plan->engines ? mdnn_engines_uids(plan->engines) : NULL;
}

int mdnn_conv_plan_statistics_row(const mdnn_conv_plan_t *plan)
{
    return plan->statistics_row;
}

const mdnn_problem_t *mdnn_conv_plan_problem(const mdnn_conv_plan_t *plan)
{
    return &plan->key.problem;
}

const mdnn_accumulator_t *mdnn_conv_plan_accumulator(const mdnn_conv_plan_t *plan)
{
    return plan->accumulator.function ? &plan->accumulator : NULL;
}

void mdnn_conv_plan_announce(mdnn_conv_plan_t *plan, int algo, uint64_t workspace_bytes)
{
    if (algo >= 0 && algo < MDNN_PLAN_ALGOS)
        atomic_store_explicit(&plan->announced[algo], workspace_bytes + 1, memory_order_relaxed);
}

bool mdnn_conv_plan_announced(const mdnn_conv_plan_t *plan, int algo, uint64_t *workspace_bytes)
{
    if (algo < 0 || algo >= MDNN_PLAN_ALGOS)
        return false;
    const uint64_t stored = atomic_load_explicit(&plan->announced[algo], memory_order_relaxed);
    if (stored > 0)
        *workspace_bytes = stored - 1;
    return stored > 0;
}

bool mdnn_conv_plan_begin_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    return !atomic_exchange(&plan->generous[mdnn_conv_plan_flags(&plan->key.problem, demand)],
                            true) ||
           MDNN_FAULT(GENEROUS_TO_ALL);
}

void mdnn_conv_plan_end_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    atomic_store(&plan->generous[mdnn_conv_plan_flags(&plan->key.problem, demand)], false);
}

void mdnn_conv_plan_give_up(mdnn_conv_plan_t *plan)
{
    atomic_store_explicit(&plan->given_up, true, memory_order_relaxed);
}

bool mdnn_conv_plan_is_given_up(const mdnn_conv_plan_t *plan)
{
    return atomic_load_explicit(&plan->given_up, memory_order_relaxed);
}
