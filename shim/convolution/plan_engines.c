#include "shim/convolution/plan_engines.h"

#include <string.h>

#include "config/fault.h"
#include "shim/candidates/candidate_foresight.h"
#include "shim/candidates/measure.h"
#include "shim/convolution/plan_build.h"
#include "shim/convolution/plan_check.h"
#include "shim/convolution/planning.h"
#include "shim/real/capture_mode.h"
#include "shim/real/process.h"

double mdnn_conv_plan_engine_ms(const mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer)
{
    if (!mdnn_planning_lock_costs())
        return 0;
    const double ms = mdnn_candidate_table_engine_ms(plan->costs, &offer->engine,
                                                     mdnn_problem_batch(&plan->key.problem));
    mdnn_planning_unlock();
    return ms;
}

bool mdnn_conv_plan_engine_is_dominated(const mdnn_conv_plan_t *plan,
                                        const mdnn_engine_offer_t *offer)
{
    if (!mdnn_planning_lock_costs())
        return false;
    const bool dominated = mdnn_candidate_table_engine_is_dominated(
        plan->costs, offer, mdnn_problem_batch(&plan->key.problem));
    mdnn_planning_unlock();
    return dominated;
}

/* Adds `change` to the plans with this engine and returns how many there were; the lock is held. */
static int count_met(mdnn_conv_plan_t *plan, const mdnn_engine_t *engine, int change)
{
    int at = 0;
    while (at < plan->met_count && memcmp(&plan->met[at].engine, engine, sizeof *engine) != 0)
        at++;
    if (at == MDNN_MET_ENGINES)
        return 0;
    if (at == plan->met_count) {
        plan->met[at].engine = *engine;
        plan->met_count++;
    }
    plan->met[at].plans += change;
    mdnn_conv_plan_check_engines(plan);
    return plan->met[at].plans - change;
}

bool mdnn_conv_plan_engine_ref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer)
{
    mdnn_planning_lock();
    const int before = count_met(plan, &offer->engine, 1);
    mdnn_planning_unlock();
    return before > 0;
}

void mdnn_conv_plan_engine_unref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer)
{
    mdnn_planning_lock();
    (void)count_met(plan, &offer->engine, -1);
    mdnn_planning_unlock();
}

/* Times the engine of the caller's own plan on the whole batch; -1 if that cannot be, 0 if not now. Memory may be too
 * short to time what runs in it: then nothing is known to be faster. */
static double time_engine(mdnn_conv_plan_t *plan, const mdnn_call_t *call, uint64_t plan_bytes)
{
    mdnn_measurement_t *measurement = NULL;
    const mdnn_engine_plan_t own = {.plan = call->caller_plan, .workspace_bytes = plan_bytes};
    const mdnn_measure_request_t request = {
        .limit_bytes = UINT64_MAX,
        .repeats = mdnn_process_options()->convolution_measure_repeats,
        .engines = plan->engines,
    };
    if (!plan->engines ||
        mdnn_measurement_begin(call, &plan->key.problem, plan->slices, plan->costs, &request,
                               &measurement) != MDNN_STATUS_OK)
        return -1;
    const mdnn_status_t status = mdnn_measurement_time_engine(measurement, call->caller_engine,
                                                              own.plan ? &own : NULL, call->uids);
    mdnn_measurement_end(measurement);
    mdnn_engines_sweep(plan->engines);
    const mdnn_front_set_t *const set = atomic_load(&plan->set);
    if (set)
        mdnn_conv_plan_keep_costs(plan, set, MDNN_DATABASE_KEEP);
    const mdnn_engine_t *const engine = &call->caller_engine->engine;
    const int64_t batch = mdnn_problem_batch(&plan->key.problem);
    const double ms = mdnn_candidate_table_engine_ms(plan->costs, engine, batch);
    uint64_t bytes;
    const bool lacks_memory =
        mdnn_candidate_table_engine_lacks_memory(plan->costs, engine, batch, &bytes) &&
        !MDNN_FAULT(OWN_PLAN_GIVES_WAY_UNTIMED);
    return ms > 0 ? ms : status == MDNN_STATUS_BUSY ? 0 : lacks_memory ? MDNN_FASTEST_MS : -1;
}

double mdnn_conv_plan_time_engine(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  uint64_t plan_bytes)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!call->caller_engine || !driver || mdnn_planning_is_captured(call, driver))
        return 0;
    double begin_us;
    if (!mdnn_planning_begin(&begin_us))
        return 0;
    mdnn_capture_relax();
    const double ms = time_engine(plan, call, plan_bytes);
    mdnn_capture_restore();
    mdnn_planning_end(begin_us);
    return ms;
}

bool mdnn_conv_plan_take_run(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer,
                             uint64_t workspace_bytes, const mdnn_stopwatch_times_t *times,
                             bool chosen)
{
    const mdnn_own_run_t run = {
        .images = mdnn_problem_batch(&plan->key.problem),
        .workspace_bytes = workspace_bytes,
        .most_ms = times->most_ms,
        .device_ms = times->device_ms,
        .chosen = chosen,
        .margin = mdnn_process_options()->convolution_adoption_margin / 100.0,
    };
    if (!mdnn_planning_lock_costs())
        return false;
    const bool taken = mdnn_candidate_table_take_run(plan->costs, offer, &run);
    mdnn_planning_unlock();
    return taken;
}

void mdnn_conv_plan_remember(mdnn_conv_plan_t *plan)
{
    double begin_us;
    if (!mdnn_planning_begin(&begin_us))
        return;
    const mdnn_front_set_t *const set = atomic_load(&plan->set);
    if (set)
        mdnn_conv_plan_keep_costs(plan, set, MDNN_DATABASE_KEEP);
    mdnn_planning_end(begin_us);
}
