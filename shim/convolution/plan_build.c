#include "shim/convolution/plan_build.h"

#include <stdlib.h>

#include "config/log.h"
#include "config/progress.h"
#include "config/statistics.h"
#include "shim/candidates/measure.h"
#include "shim/convolution/front_set.h"
#include "shim/convolution/plan_check.h"
#include "shim/real/capture_mode.h"
#include "shim/real/process.h"
#include "shim/real/start_line.h"

static double undivided_ms(const mdnn_front_set_t *set)
{
    const mdnn_configuration_t *const undivided =
        set->fronts[0] ? mdnn_front_best_undivided(set->fronts[0], set->limit_bytes) : NULL;
    return undivided ? undivided->time_ms : -1.0;
}

static void report(mdnn_conv_plan_t *plan, const mdnn_call_t *call, const mdnn_front_set_t *set)
{
    mdnn_statistics_row_t row = {.undivided_ms = undivided_ms(set),
                                 .configuration_ms = -1.0,
                                 .device = plan->key.problem.device};
    if (mdnn_process_options()->general_stats != MDNN_STATISTICS_OFF)
        mdnn_cost_cache_key(&plan->cache, call, &plan->key.problem, row.key, sizeof row.key);
    mdnn_problem_format(&plan->key.problem, row.problem, sizeof row.problem);
    if (set->counts[0] > 0) {
        const mdnn_configuration_t *const best = set->ready[0][set->counts[0] - 1].configuration;
        mdnn_configuration_format(best, row.configuration, sizeof row.configuration);
        row.workspace_bytes = best->workspace_bytes;
        row.configuration_ms = best->time_ms;
    }
    mdnn_statistics_row(&plan->statistics_row, &row);
    MDNN_LOG(MDNN_LOG_INFO, "plan", "%s: %s, %llu bytes, %.4f ms (undivided %.4f ms)", row.problem,
             set->counts[0] ? row.configuration : "nothing fits",
             (unsigned long long)row.workspace_bytes, row.configuration_ms, row.undivided_ms);
}

static void load_accumulator(mdnn_conv_plan_t *plan)
{
    if (!mdnn_accumulator_needed(&plan->key.problem) || plan->accumulator.function)
        return;
    const mdnn_status_t status = mdnn_accumulator_init(&plan->accumulator, &plan->key.problem);
    if (status != MDNN_STATUS_OK)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "plan",
                      "bf16 weight gradients are not split: the kernel did not load (%s)",
                      mdnn_status_string(status));
}

/* Before first use, so that the next run chooses the same; nothing where nothing new was measured.
 * Whoever came first is on record, unless that was a choice among fewer candidates. */
void mdnn_conv_plan_keep_costs(mdnn_conv_plan_t *plan, const mdnn_front_set_t *set,
                               mdnn_database_conflict_t conflict)
{
    const mdnn_wr_request_t request = mdnn_conv_plan_request(plan, set->limit_bytes, 0);
    bool any;
    if (mdnn_candidate_table_remember(plan->costs, &plan->cache.memory, &any) == MDNN_STATUS_OK &&
        any)
        mdnn_cost_cache_store(
            &plan->cache, &request,
            set->counts[0] > 0 ? set->ready[0][set->counts[0] - 1].configuration : NULL, conflict);
}

static mdnn_measure_request_t measure_request(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                              uint64_t limit_bytes)
{
    const mdnn_options_t *const options = mdnn_process_options();
    const mdnn_wr_request_t division = mdnn_conv_plan_request(plan, limit_bytes, 0);
    return (mdnn_measure_request_t){
        .accumulator = mdnn_conv_plan_accumulator(plan),
        .limit_bytes = limit_bytes,
        .repeats = options->convolution_measure_repeats,
        .dense = division.sizes == MDNN_SIZES_ALL,
        .brief = mdnn_conv_plan_is_brief(plan, options),
        .caller_searches = mdnn_conv_plan_defers_to_caller(plan, call),
        .few = mdnn_conv_plan_wants_few(plan, call),
        .divides = division.sizes != MDNN_SIZES_UNDIVIDED,
        .roles_differ = division.roles_differ,
        .engines = plan->engines,
        .callers_own = call->caller_engine,
    };
}

static mdnn_status_t measure_fronts(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                    const mdnn_measure_request_t *request, mdnn_front_set_t *set)
{
    mdnn_measurement_t *measurement = NULL;
    mdnn_start_line(plan->key.problem.device);
    mdnn_progress_show("measures the convolution %s", plan->title);
    mdnn_status_t status = mdnn_measurement_begin(call, &plan->key.problem, plan->slices,
                                                  plan->costs, request, &measurement);
    if (status != MDNN_STATUS_OK)
        return status;
    const mdnn_cost_source_t source = mdnn_measurement_source(measurement);
    for (unsigned flags = 0; status == MDNN_STATUS_OK && flags < MDNN_DEMAND_FLAGS; flags++)
        status = mdnn_front_set_fill(plan, call, &source, flags, set);
    mdnn_measurement_end(measurement);
    mdnn_progress_end();
    return status;
}

static void publish(mdnn_conv_plan_t *plan, mdnn_front_set_t *set)
{
    set->replaced = atomic_load(&plan->set);
    atomic_store(&plan->next_limit, mdnn_candidate_table_next_limit(plan->costs, set->limit_bytes));
    atomic_store_explicit(&plan->set, set, memory_order_release);
    mdnn_conv_plan_check(plan);
}

/* Measures and optimizes for workspaces up to `limit_bytes`; publishes the result. */
static mdnn_status_t build_locked(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  uint64_t limit_bytes)
{
    mdnn_front_set_t *const set = calloc(1, sizeof *set);
    if (!set)
        return MDNN_STATUS_OUT_OF_MEMORY;
    set->limit_bytes = limit_bytes;
    load_accumulator(plan);
    const bool completes = mdnn_candidate_table_has_deferred(plan->costs);
    const mdnn_measure_request_t request = measure_request(plan, call, limit_bytes);
    const mdnn_status_t status = measure_fronts(plan, call, &request, set);
    if (status != MDNN_STATUS_OK) {
        mdnn_front_set_destroy(set);
        return status;
    }
    if (plan->engines)
        mdnn_engines_sweep(plan->engines);
    report(plan, call, set);
    mdnn_conv_plan_keep_costs(plan, set,
                              completes && !request.caller_searches && !request.few
                                  ? MDNN_DATABASE_REPLACE
                                  : MDNN_DATABASE_KEEP);
    set->deferred = request.caller_searches && mdnn_candidate_table_has_deferred(plan->costs);
    publish(plan, set);
    return MDNN_STATUS_OK;
}

/* We allocate, too. */
static mdnn_status_t build_relaxed(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                   uint64_t limit_bytes)
{
    mdnn_capture_relax();
    const mdnn_status_t status = build_locked(plan, call, limit_bytes);
    mdnn_capture_restore();
    return status;
}

/* The file was wrong about the problem: continues as if it had said nothing. True if it had said
 * anything. */
static bool forget_file(mdnn_conv_plan_t *plan)
{
    mdnn_candidate_table_t *empty;
    if (!plan->believes_file || mdnn_candidate_table_create(&empty) != MDNN_STATUS_OK)
        return false;
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache",
                  "the database is wrong about a convolution, which is measured again: %s",
                  plan->title);
    mdnn_candidate_table_destroy(plan->costs);
    plan->costs = empty;
    plan->believes_file = false;
    return true;
}

mdnn_status_t mdnn_conv_plan_build(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                   uint64_t limit_bytes)
{
    if (mdnn_conv_plan_is_ready(plan, call, limit_bytes) || atomic_load(&plan->given_up))
        return MDNN_STATUS_OK;
    const mdnn_front_set_t *const set = atomic_load(&plan->set);
    const uint64_t most = set && set->limit_bytes > limit_bytes ? set->limit_bytes : limit_bytes;
    mdnn_status_t status = build_relaxed(plan, call, most);
    if (status == MDNN_STATUS_UNSUPPORTED && forget_file(plan))
        status = build_relaxed(plan, call, most);
    if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY)
        mdnn_conv_plan_give_up(plan);
    return status;
}
