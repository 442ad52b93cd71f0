#include "shim/convolution/plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"
#include "config/lock.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/real/capture_mode.h"
#include "shim/real/handles.h"
#include "shim/candidates/measure.h"
#include "shim/candidates/own_stream.h"
#include "shim/real/process.h"
#include "shim/candidates/cost_cache.h"
#include "shim/candidates/cost_cache_check.h"
#include "shim/convolution/wd_policy.h"

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum { MET_ENGINES = 64 };
enum { DETERMINISTIC = 1, DIRECT = 2, STRICT = 4, FLAGS = 8, ALGOS = 16 };

/* Fronts for every combination of demands, and what runs them. Immutable once published. */
typedef struct front_set {
    uint64_t limit_bytes; /* candidates up to this workspace were considered */
    bool deferred;        /* but for those that were deferred to a search */
    mdnn_front_t *fronts[FLAGS];
    mdnn_ready_t *ready[FLAGS];
    size_t counts[FLAGS];
    struct front_set *replaced; /* kept: somebody may still read it */
} front_set_t;

/* Two libraries of different major versions share nothing, so the key holds the library too. */
typedef struct plan_key {
    mdnn_problem_t problem;
    int64_t library; /* mdnn_library_t; wide, so that the key has no padding */
} plan_key_t;

struct mdnn_conv_plan {
    plan_key_t key;
    mdnn_slices_t *slices;
    mdnn_engines_t *engines; /* NULL: legacy algorithms only */
    mdnn_candidate_table_t *costs;
    mdnn_cost_cache_t cache;
    bool believes_file;                /* costs came from a database */
    mdnn_accumulator_t accumulator;    /* function NULL: not needed or not to be had */
    _Atomic(front_set_t *) set;        /* NULL until planned */
    _Atomic uint64_t next_limit;       /* a larger set pays only from this workspace on */
    _Atomic uint64_t announced[ALGOS]; /* bytes + 1; 0: nothing announced */
    _Atomic bool given_up;
    _Atomic bool generous[FLAGS];
    mdnn_search_t search;
    struct {
        mdnn_engine_t engine;
        int plans;      /* of callers with it that wait for their first use */
    } met[MET_ENGINES]; /* under planning_lock */
    int met_count;
    char title[160];
    int statistics_row; /* set before the first set of fronts is published */
    UT_hash_handle hh;
};

static mdnn_lock_t table_lock = MDNN_LOCK_INIT(PLAN_TABLE);  /* guards `table` */
static mdnn_lock_t planning_lock = MDNN_LOCK_INIT(PLANNING); /* guards what follows */
/* A thread makes plans, or keeps them: what was measured is its own, of every plan, without a lock, since that takes long
 * and waits for the device. Others do without meanwhile. */
static bool somebody_plans;
static mdnn_conv_plan_t *table;

uint64_t mdnn_workspace_limit(void)
{
    return mdnn_process_options()->convolution_workspace_limit;
}

/* Whether strictness makes a difference: fp32 data in a rounding math type may be rounded, and
 * whatever the caller accepted beyond that. */
static bool may_round(const mdnn_problem_t *problem)
{
    return (problem->x.type == CUDNN_DATA_FLOAT && problem->math_type != CUDNN_FMA_MATH) ||
           problem->weak_notes != 0;
}

static unsigned flags_of(const mdnn_problem_t *problem, const mdnn_demand_t *demand)
{
    return (demand->deterministic ? DETERMINISTIC : 0U) | (demand->direct ? DIRECT : 0U) |
           (demand->strict && may_round(problem) ? STRICT : 0U);
}

static uint32_t hash_of(const plan_key_t *key)
{
    const uint64_t hash = mdnn_problem_hash(&key->problem) + (uint64_t)key->library;
    return (uint32_t)(hash ^ hash >> 32);
}

/* False if another thread is at it. Else end_planning follows. */
static bool begin_planning(double *begin_us)
{
    mdnn_lock(&planning_lock);
    const bool begins = !somebody_plans;
    somebody_plans = true;
    mdnn_unlock(&planning_lock);
    *begin_us = mdnn_now_us();
    return begins;
}

/* Behind another thread, while that gets on by itself. */
static bool begin_planning_in_turn(double *begin_us)
{
    static const struct timespec moment = {0, 100000};
    while (!begin_planning(begin_us)) {
        if (mdnn_own_stream_waits_for_program())
            return false;
        mdnn_lock_may_wait();
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

static void end_planning(double begin_us)
{
    mdnn_count(MDNN_COUNTER_measure_microseconds, (uint64_t)(mdnn_now_us() - begin_us));
    mdnn_lock(&planning_lock);
    somebody_plans = false;
    mdnn_unlock(&planning_lock);
}

/* Takes the lock to look at what was measured. False, and nothing is taken, while somebody measures. */
static bool lock_costs(void)
{
    mdnn_lock(&planning_lock);
    if (!somebody_plans)
        return true;
    mdnn_unlock(&planning_lock);
    return false;
}

static mdnn_conv_plan_t *lookup(const plan_key_t *key, uint32_t hash)
{
    mdnn_conv_plan_t *plan = NULL;
    mdnn_lock(&table_lock);
    HASH_FIND_BYHASHVALUE(hh, table, key, sizeof *key, hash, plan);
    mdnn_unlock(&table_lock);
    return plan;
}

static void destroy(mdnn_conv_plan_t *plan)
{
    mdnn_cost_cache_fini(&plan->cache);
    mdnn_candidate_table_destroy(plan->costs);
    mdnn_engines_destroy(plan->engines);
    mdnn_slices_destroy(plan->slices);
    free(plan);
}

static mdnn_status_t open_engines(const mdnn_call_t *call, mdnn_conv_plan_t *plan)
{
    if (!(plan->key.problem.interfaces & MDNN_INTERFACE_GRAPH))
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_engines_create(call->cudnn, &plan->key.problem, call->uids, &plan->engines));
    const int wanted = mdnn_process_options()->convolution_engines;
    if (wanted == MDNN_ENGINES_AUTO)
        mdnn_engines_offer_first(plan->engines);
    else if (wanted == MDNN_ENGINES_ALL)
        mdnn_engines_offer_all(plan->engines);
    return MDNN_STATUS_OK;
}

static mdnn_conv_plan_t *insert(const mdnn_call_t *call, const plan_key_t *key, uint32_t hash)
{
    mdnn_conv_plan_t *const plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->key = *key;
    mdnn_problem_format(&key->problem, plan->title, sizeof plan->title);
    plan->statistics_row = -1;
    atomic_init(&plan->next_limit, 0);
    if (mdnn_slices_create(call, &plan->key.problem, &plan->slices) != MDNN_STATUS_OK ||
        open_engines(call, plan) != MDNN_STATUS_OK ||
        mdnn_candidate_table_create(&plan->costs) != MDNN_STATUS_OK) {
        destroy(plan);
        return NULL;
    }
    mdnn_cost_cache_open(&plan->cache, call, &plan->key.problem);
    mdnn_cost_cache_restrict(&plan->cache.memory, call, &plan->key.problem, plan->engines);
    plan->believes_file = plan->cache.memory.count > 0;
    if (mdnn_candidate_table_load(plan->costs, &plan->key.problem, &plan->cache.memory) !=
        MDNN_STATUS_OK) {
        destroy(plan);
        return NULL;
    }
    mdnn_lock(&table_lock);
    HASH_ADD_BYHASHVALUE(hh, table, key, sizeof plan->key, hash, plan);
    const bool added = plan->hh.tbl != NULL;
    mdnn_unlock(&table_lock);
    if (!added) {
        destroy(plan);
        return NULL;
    }
    mdnn_count(MDNN_COUNTER_problems, 1);
    return plan;
}

/* Without the accumulator a split of a bf16 weight gradient would round after every part. */
static bool may_be_split(const mdnn_conv_plan_t *plan)
{
    const mdnn_problem_t *const problem = &plan->key.problem;
    return mdnn_problem_is_divisible(problem) && mdnn_problem_parts_may_add_up(problem) &&
           (!mdnn_accumulator_needed(problem) || mdnn_conv_plan_accumulator(plan));
}

static mdnn_wr_request_t request_for(const mdnn_conv_plan_t *plan, uint64_t limit_bytes,
                                     unsigned flags)
{
    const mdnn_problem_t *const problem = &plan->key.problem;
    const mdnn_options_t *const options = mdnn_process_options();
    return (mdnn_wr_request_t){
        .batch = mdnn_problem_batch(problem),
        .sizes = may_be_split(plan) ? (mdnn_batch_sizes_t)options->convolution_batch_sizes
                                    : MDNN_SIZES_UNDIVIDED,
        .granularity = mdnn_problem_granularity(problem),
        .roles_differ = problem->direction == MDNN_BACKWARD_FILTER && problem->beta_is_zero &&
                        !mdnn_accumulator_needed(problem),
        .deterministic_only = (flags & DETERMINISTIC) != 0,
        .direct_only = (flags & DIRECT) != 0,
        .strict_only = (flags & STRICT) != 0,
        .workspace_limit_bytes = limit_bytes,
        .adoption_margin = options->convolution_adoption_margin / 100.0,
    };
}

/* As in measure.c: what a part in this place of a split is scaled with. */
static mdnn_graph_scaling_t scaling_of(const mdnn_conv_plan_t *plan,
                                       const mdnn_configuration_t *configuration, size_t index)
{
    if (configuration->part_count == 1 || plan->key.problem.direction != MDNN_BACKWARD_FILTER)
        return MDNN_SCALING_CALLER;
    if (mdnn_conv_plan_accumulator(plan))
        return MDNN_SCALING_APART;
    return index == 0 ? MDNN_SCALING_CALLER : MDNN_SCALING_ADD;
}

static mdnn_status_t make_engine_plan(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                      const mdnn_configuration_t *configuration, size_t index,
                                      mdnn_ready_part_t *part)
{
    const mdnn_micro_config_t *const micro = &configuration->parts[index];
    if (!plan->engines)
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(mdnn_engines_plan(plan->engines, call->handle, micro->images,
                               scaling_of(plan, configuration, index), &micro->cost.engine,
                               &part->engine_plan));
    mdnn_engines_keep(part->engine_plan);
    return MDNN_STATUS_OK;
}

static mdnn_status_t algorithm_bytes(const mdnn_call_t *call, const mdnn_ready_part_t *part,
                                     size_t *bytes)
{
    mdnn_call_t whole = *call;
    whole.x_desc = part->descriptors->x;
    whole.y_desc = part->descriptors->y;
    if (part->descriptors->w)
        whole.w_desc = part->descriptors->w;
    whole.conv_desc = part->convolution;
    whole.algo = part->algo;
    return mdnn_call_workspace(&whole, bytes) == CUDNN_STATUS_SUCCESS ? MDNN_STATUS_OK
                                                                      : MDNN_STATUS_UNSUPPORTED;
}

/* How a part is computed: by an engine's plan, or by an algorithm with its descriptor. */
static mdnn_status_t make_means(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                const mdnn_configuration_t *configuration, size_t index,
                                mdnn_ready_part_t *part)
{
    const mdnn_micro_config_t *const micro = &configuration->parts[index];
    const bool adds_up = configuration->part_count > 1 &&
                         plan->key.problem.direction == MDNN_BACKWARD_FILTER &&
                         mdnn_conv_plan_accumulator(plan);
    size_t bytes = 0;
    part->algo = micro->cost.algo;
    if (part->algo < MDNN_ALGO_ENGINE) {
        MDNN_TRY(mdnn_slices_convolution(plan->slices, micro->cost.math_type, &part->convolution));
        if (plan->believes_file)
            MDNN_TRY(algorithm_bytes(call, part, &bytes));
    } else {
        MDNN_TRY(make_engine_plan(plan, call, configuration, index, part));
        bytes = part->engine_plan->workspace_bytes;
    }
    /* What was measured may have been the host's own plan of the engine, whose knobs need less; and a
     * file may say anything. */
    const uint64_t overhead_bytes = adds_up ? plan->accumulator.overhead_bytes : 0;
    return overhead_bytes <= micro->cost.workspace_bytes &&
                   bytes <= micro->cost.workspace_bytes - overhead_bytes
               ? MDNN_STATUS_OK
               : MDNN_STATUS_UNSUPPORTED;
}

/* *part: the one that cannot be made, after a failure. */
static mdnn_status_t make_ready(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                const mdnn_configuration_t *configuration, mdnn_ready_t *ready,
                                size_t *part)
{
    *part = 0;
    ready->configuration = configuration;
    ready->deterministic = true;
    ready->parts = calloc(configuration->part_count, sizeof *ready->parts);
    if (!ready->parts)
        return MDNN_STATUS_OUT_OF_MEMORY;
    int64_t first_image = 0;
    for (; *part < configuration->part_count; ++*part) {
        const mdnn_micro_config_t *const micro = &configuration->parts[*part];
        mdnn_ready_part_t *const made = &ready->parts[*part];
        made->first_image = first_image;
        first_image += micro->images;
        ready->deterministic &= micro->cost.deterministic;
        MDNN_TRY(mdnn_slices_get(plan->slices, micro->images, &made->descriptors));
        MDNN_TRY(make_means(plan, call, configuration, *part, made));
    }
    return MDNN_STATUS_OK;
}

static void destroy_rival(mdnn_ready_t *ready)
{
    mdnn_trial_destroy(ready->trial);
    if (ready->rival)
        free(ready->rival->parts);
    free(ready->rival);
    ready->trial = NULL;
    ready->rival = NULL;
}

static void destroy_ready(mdnn_ready_t *ready)
{
    free(ready->parts);
    destroy_rival(ready);
    *ready = (mdnn_ready_t){.parts = NULL};
}

/* Without a rival, or without events to time with, a split simply runs. So it does, without a
 * trial, where a graph's results must repeat (execute.c), and where the rival cannot be made. */
static void make_rival(mdnn_conv_plan_t *plan, const mdnn_call_t *call, const mdnn_front_t *front,
                       unsigned flags, mdnn_ready_t *ready)
{
    const bool must_repeat = call->problem && flags & DETERMINISTIC;
    const mdnn_configuration_t *const undivided =
        ready->configuration->part_count > 1
            ? mdnn_front_best_undivided(front, ready->configuration->workspace_bytes)
            : NULL;
    if (!undivided || (!must_repeat && mdnn_trial_create(&ready->trial) != MDNN_STATUS_OK))
        return;
    size_t part;
    ready->rival = calloc(1, sizeof *ready->rival);
    if (!ready->rival || make_ready(plan, call, undivided, ready->rival, &part) != MDNN_STATUS_OK)
        destroy_rival(ready);
}

/* cuDNN does not make this part, although it was measured: nothing is planned with it again. False if it has no
 * cost of its own, so that the same choice would come back. */
static bool refuse_part(mdnn_conv_plan_t *plan, const mdnn_configuration_t *configuration,
                        size_t part)
{
    const mdnn_micro_config_t *const micro = &configuration->parts[part];
    MDNN_LOG_ONCE(
        MDNN_LOG_INFO, "plan",
        "what was measured for %lld images (algorithm %d) cannot be made: the next best runs",
        (long long)micro->images, micro->cost.algo);
    return mdnn_candidate_table_refuse(plan->costs, micro->images, &micro->cost);
}

/* Configurations of the front, ready to run; those that cannot be made are left out, unless it is a file that names
 * them, of which nothing more is believed then. *refused: a part was struck off, so that another choice may take its
 * place. */
static mdnn_status_t make_front_ready(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                      unsigned flags, front_set_t *set, bool *refused)
{
    const mdnn_front_t *const front = set->fronts[flags];
    const size_t count = mdnn_front_count(front);
    *refused = false;
    set->ready[flags] = calloc(count, sizeof *set->ready[flags]);
    if (!set->ready[flags])
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        mdnn_ready_t *const ready = &set->ready[flags][set->counts[flags]];
        const mdnn_configuration_t *const configuration = mdnn_front_at(front, i);
        size_t part;
        const mdnn_status_t status = make_ready(plan, call, configuration, ready, &part);
        if (status == MDNN_STATUS_OK) {
            make_rival(plan, call, front, flags, ready);
            set->counts[flags]++;
            continue;
        }
        destroy_ready(ready);
        if (status == MDNN_STATUS_OUT_OF_MEMORY || plan->believes_file)
            return status;
        *refused |= refuse_part(plan, configuration, part);
    }
    return MDNN_STATUS_OK;
}

static void destroy_front(front_set_t *set, unsigned flags)
{
    for (size_t i = 0; i < set->counts[flags]; i++)
        destroy_ready(&set->ready[flags][i]);
    free(set->ready[flags]);
    mdnn_front_destroy(set->fronts[flags]);
    set->ready[flags] = NULL;
    set->fronts[flags] = NULL;
    set->counts[flags] = 0;
}

static void destroy_set(front_set_t *set)
{
    for (unsigned flags = 0; set && flags < FLAGS; flags++)
        destroy_front(set, flags);
    free(set);
}

/* A combination that nothing satisfies simply has no configurations. Each turn but the last strikes off a
 * candidate. */
static mdnn_status_t fill_front(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                const mdnn_cost_source_t *source, unsigned flags, front_set_t *set)
{
    if (flags & STRICT && !(call->problem && may_round(&plan->key.problem)))
        return MDNN_STATUS_OK; /* nobody can ask for it */
    const mdnn_wr_request_t request = request_for(plan, set->limit_bytes, flags);
    for (bool refused = true; refused;) {
        destroy_front(set, flags);
        const mdnn_status_t status = mdnn_wr_optimize(&request, source, &set->fronts[flags]);
        if (status == MDNN_STATUS_NOT_FOUND)
            return MDNN_STATUS_OK;
        MDNN_TRY(status);
        MDNN_TRY(make_front_ready(plan, call, flags, set, &refused));
    }
    return MDNN_STATUS_OK;
}

static double undivided_ms(const front_set_t *set)
{
    const mdnn_configuration_t *const undivided =
        set->fronts[0] ? mdnn_front_best_undivided(set->fronts[0], set->limit_bytes) : NULL;
    return undivided ? undivided->time_ms : -1.0;
}

static void report(mdnn_conv_plan_t *plan, const mdnn_call_t *call, const front_set_t *set)
{
    mdnn_statistics_row_t row = {.undivided_ms = undivided_ms(set),
                                 .configuration_ms = -1.0,
                                 .device = plan->key.problem.device};
    if (mdnn_process_options()->general_stats != 0)
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
static void remember(mdnn_conv_plan_t *plan, const front_set_t *set,
                     mdnn_database_conflict_t conflict)
{
    const mdnn_wr_request_t request = request_for(plan, set->limit_bytes, 0);
    bool any;
    if (mdnn_candidate_table_remember(plan->costs, &plan->cache.memory, &any) == MDNN_STATUS_OK &&
        any)
        mdnn_cost_cache_store(
            &plan->cache, &request,
            set->counts[0] > 0 ? set->ready[0][set->counts[0] - 1].configuration : NULL, conflict);
}

/* A first iteration has little time. Where inputs may be rounded the engines have nearly
 * everything; for plain fp32 and fp64 the legacy algorithms are what they lack, and all are tried.
 */
static bool is_brief(const mdnn_conv_plan_t *plan, const mdnn_options_t *options)
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
    return is_brief(plan, mdnn_process_options()) && mdnn_workspace_limit() == UINT64_MAX &&
           !mdnn_wd_is_on();
}

static bool is_deferred_to_search(const mdnn_conv_plan_t *plan, const mdnn_call_t *call)
{
    return call->caller_engine && mdnn_conv_plan_is_deferred(plan);
}

/* Measures and optimizes for workspaces up to `limit_bytes`; publishes the result. */
static mdnn_status_t build_locked(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  uint64_t limit_bytes)
{
    front_set_t *const set = calloc(1, sizeof *set);
    if (!set)
        return MDNN_STATUS_OUT_OF_MEMORY;
    set->limit_bytes = limit_bytes;
    load_accumulator(plan);
    const bool completes = mdnn_candidate_table_has_deferred(plan->costs);
    mdnn_measurement_t *measurement = NULL;
    mdnn_status_t status;
    const mdnn_options_t *const options = mdnn_process_options();
    const mdnn_measure_request_t request = {
        .accumulator = mdnn_conv_plan_accumulator(plan),
        .limit_bytes = limit_bytes,
        .repeats = options->convolution_measure_repeats,
        .dense = options->convolution_batch_sizes == MDNN_SIZES_ALL && may_be_split(plan),
        .brief = is_brief(plan, options),
        .caller_searches = is_deferred_to_search(plan, call),
        .engines = plan->engines,
        .callers_own = call->caller_engine,
    };
    MDNN_TRY_GOTO(mdnn_measurement_begin(call, &plan->key.problem, plan->slices, plan->costs,
                                         &request, &measurement),
                  status, failed);
    const mdnn_cost_source_t source = mdnn_measurement_source(measurement);
    for (unsigned flags = 0; flags < FLAGS; flags++)
        MDNN_TRY_GOTO(fill_front(plan, call, &source, flags, set), status, failed);
    mdnn_measurement_end(measurement);
    if (plan->engines)
        mdnn_engines_sweep(plan->engines);
    report(plan, call, set);
    remember(plan, set,
             completes && !request.caller_searches ? MDNN_DATABASE_REPLACE : MDNN_DATABASE_KEEP);
    set->deferred = request.caller_searches && mdnn_candidate_table_has_deferred(plan->costs);
    set->replaced = atomic_load(&plan->set);
    atomic_store(&plan->next_limit, mdnn_candidate_table_next_limit(plan->costs, limit_bytes));
    atomic_store_explicit(&plan->set, set, memory_order_release);
    return MDNN_STATUS_OK;
failed:
    mdnn_measurement_end(measurement);
    destroy_set(set);
    return status;
}

/* True while the call's stream is being captured, or if that cannot be told. */
static bool is_capturing(const mdnn_call_t *call, const mdnn_driver_t *driver)
{
    cudaStream_t stream;
    return call->cudnn->cudnnGetStream(call->handle, &stream) != CUDNN_STATUS_SUCCESS ||
           mdnn_stream_is_capturing(driver, stream);
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

bool mdnn_conv_plan_has_deferred(const mdnn_conv_plan_t *plan)
{
    const front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    return set && set->deferred;
}

static bool covers(const mdnn_conv_plan_t *plan, uint64_t limit_bytes)
{
    const front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    return set && (limit_bytes <= set->limit_bytes ||
                   limit_bytes < atomic_load_explicit(&plan->next_limit, memory_order_relaxed));
}

static bool is_ready(const mdnn_conv_plan_t *plan, const mdnn_call_t *call, uint64_t limit_bytes)
{
    return covers(plan, limit_bytes) &&
           (!mdnn_conv_plan_has_deferred(plan) || is_deferred_to_search(plan, call));
}

/* What must not be measured now may run what is ready, for a smaller workspace if need be. */
static mdnn_conv_plan_t *plan_unmeasured(mdnn_conv_plan_t *known, mdnn_counter_t counter)
{
    if (known && atomic_load_explicit(&known->set, memory_order_acquire))
        return known;
    mdnn_count(counter, 1);
    return NULL;
}

/* What a file said of the problem was not so: as if it had said nothing. True if it had. */
static bool forget_file(mdnn_conv_plan_t *plan)
{
    mdnn_candidate_table_t *empty;
    if (!plan->believes_file || mdnn_candidate_table_create(&empty) != MDNN_STATUS_OK)
        return false;
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache",
                  "what the database says of a convolution is not so, and is measured anew: %s",
                  plan->title);
    mdnn_candidate_table_destroy(plan->costs);
    plan->costs = empty;
    plan->believes_file = false;
    return true;
}

/* What is there stays at least as complete. BUSY: not now. The caller plans. */
static mdnn_status_t make_ready_for(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                    uint64_t limit_bytes)
{
    if (is_ready(plan, call, limit_bytes) || atomic_load(&plan->given_up))
        return MDNN_STATUS_OK;
    const front_set_t *const set = atomic_load(&plan->set);
    const uint64_t most = set && set->limit_bytes > limit_bytes ? set->limit_bytes : limit_bytes;
    mdnn_status_t status = build_relaxed(plan, call, most);
    if (status == MDNN_STATUS_UNSUPPORTED && forget_file(plan))
        status = build_relaxed(plan, call, most);
    if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY)
        mdnn_conv_plan_give_up(plan);
    return status;
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

static mdnn_conv_plan_t *plan_now(const mdnn_call_t *call, const plan_key_t *key, uint32_t hash,
                                  uint64_t limit_bytes, bool may_wait)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    mdnn_conv_plan_t *plan = lookup(key, hash);
    if (is_capturing(call, driver))
        return plan_unmeasured(plan, MDNN_COUNTER_passed_capture);
    double begin_us;
    if (!(may_wait ? begin_planning_in_turn : begin_planning)(&begin_us))
        return plan_unmeasured(plan, MDNN_COUNTER_passed_busy);
    if (!plan && !(plan = lookup(key, hash)))
        plan = insert(call, key, hash);
    const mdnn_status_t status =
        plan ? make_ready_for(plan, call, limit_bytes) : MDNN_STATUS_OUT_OF_MEMORY;
    end_planning(begin_us);
    report_trouble(status);
    if (status == MDNN_STATUS_BUSY)
        return plan_unmeasured(plan, MDNN_COUNTER_passed_busy);
    return status == MDNN_STATUS_OK ? plan : NULL;
}

bool mdnn_conv_plan_complete(mdnn_conv_plan_t *plan, const mdnn_call_t *call)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!mdnn_conv_plan_has_deferred(plan) || !mdnn_search_missed(&plan->search) ||
        mdnn_conv_plan_is_given_up(plan) || !driver || is_capturing(call, driver))
        return false;
    double begin_us;
    if (!begin_planning(&begin_us))
        return false;
    const mdnn_status_t status = make_ready_for(plan, call, 0);
    end_planning(begin_us);
    report_trouble(status);
    return status == MDNN_STATUS_OK;
}

/* Everything that decides before a plan is looked at. */
static mdnn_status_t make_key(const mdnn_call_t *call, plan_key_t *key)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    memset(key, 0, sizeof *key);
    if (!driver || !(call->problem ? call->cudnn->has_graph : call->cudnn->complete))
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(mdnn_call_problem(call, &key->problem));
    if (!call->cudnn->complete)
        key->problem.interfaces &= ~MDNN_INTERFACE_LEGACY;
    CUdevice device;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        !mdnn_handle_is_usable(call->handle, device))
        return MDNN_STATUS_UNSUPPORTED;
    key->problem.device = device;
    key->library = call->cudnn->library;
    return MDNN_STATUS_OK;
}

enum { POLICY_OFF };

mdnn_conv_plan_t *mdnn_conv_plan_for(const mdnn_call_t *call, uint64_t limit_bytes,
                                     mdnn_conv_plan_permission_t permission)
{
    plan_key_t key;
    if (mdnn_process_options()->convolution_policy == POLICY_OFF) {
        mdnn_count(MDNN_COUNTER_passed_disabled, 1);
        return NULL;
    }
    if (make_key(call, &key) != MDNN_STATUS_OK) {
        mdnn_count(MDNN_COUNTER_passed_unsupported, 1);
        return NULL;
    }
    const uint32_t hash = hash_of(&key);
    mdnn_conv_plan_t *plan = lookup(&key, hash);
    if (!plan || !is_ready(plan, call, limit_bytes)) {
        if (permission == MDNN_CONV_PLAN_IF_KNOWN && !(plan && covers(plan, limit_bytes)))
            return NULL;
        if (!plan || !atomic_load_explicit(&plan->given_up, memory_order_relaxed))
            plan = plan_now(call, &key, hash, limit_bytes, permission == MDNN_CONV_PLAN_MAY_WAIT);
    }
    if (plan && atomic_load_explicit(&plan->given_up, memory_order_relaxed)) {
        mdnn_count(MDNN_COUNTER_passed_trouble, 1);
        return NULL;
    }
    return plan;
}

const mdnn_ready_t *mdnn_conv_plan_best(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    const front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    const unsigned flags = flags_of(&plan->key.problem, demand);
    const mdnn_ready_t *best = NULL; /* workspace ascending, time descending */
    for (size_t i = 0; set && i < set->counts[flags]; i++) {
        const mdnn_ready_t *const ready = &set->ready[flags][i];
        if (ready->configuration->workspace_bytes <= demand->workspace_bytes)
            best = ready;
    }
    return best;
}

bool mdnn_conv_plan_engine_is_dominated(const mdnn_conv_plan_t *plan,
                                        const mdnn_engine_offer_t *offer)
{
    if (!lock_costs())
        return false;
    const bool dominated = mdnn_candidate_table_engine_is_dominated(
        plan->costs, offer, mdnn_problem_batch(&plan->key.problem));
    mdnn_unlock(&planning_lock);
    return dominated;
}

/* Adds `change` to the plans with this engine and returns how many there were; the lock is held. */
static int count_met(mdnn_conv_plan_t *plan, const mdnn_engine_t *engine, int change)
{
    int at = 0;
    while (at < plan->met_count && memcmp(&plan->met[at].engine, engine, sizeof *engine) != 0)
        at++;
    if (at == MET_ENGINES)
        return 0;
    if (at == plan->met_count) {
        plan->met[at].engine = *engine;
        plan->met_count++;
    }
    plan->met[at].plans += change;
    return plan->met[at].plans - change;
}

bool mdnn_conv_plan_engine_ref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer)
{
    mdnn_lock(&planning_lock);
    const int before = count_met(plan, &offer->engine, 1);
    mdnn_unlock(&planning_lock);
    return before > 0;
}

void mdnn_conv_plan_engine_unref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer)
{
    mdnn_lock(&planning_lock);
    (void)count_met(plan, &offer->engine, -1);
    mdnn_unlock(&planning_lock);
}

/* Times the engine of the caller's own plan on the whole batch; -1 if that cannot be, 0 if not now. */
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
    const front_set_t *const set = atomic_load(&plan->set);
    if (set)
        remember(plan, set, MDNN_DATABASE_KEEP);
    const double ms = mdnn_candidate_table_engine_ms(plan->costs, &call->caller_engine->engine,
                                                     mdnn_problem_batch(&plan->key.problem));
    return ms > 0 ? ms : status == MDNN_STATUS_BUSY ? 0 : -1;
}

double mdnn_conv_plan_time_engine(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  uint64_t plan_bytes)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!call->caller_engine || !driver || is_capturing(call, driver))
        return 0;
    double begin_us;
    if (!begin_planning(&begin_us))
        return 0;
    mdnn_capture_relax();
    const double ms = time_engine(plan, call, plan_bytes);
    mdnn_capture_restore();
    end_planning(begin_us);
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
    if (!lock_costs())
        return false;
    const bool taken = mdnn_candidate_table_take_run(plan->costs, offer, &run);
    mdnn_unlock(&planning_lock);
    return taken;
}

void mdnn_conv_plan_remember(mdnn_conv_plan_t *plan)
{
    double begin_us;
    if (!begin_planning(&begin_us))
        return;
    const front_set_t *const set = atomic_load(&plan->set);
    if (set)
        remember(plan, set, MDNN_DATABASE_KEEP);
    end_planning(begin_us);
}

mdnn_search_t *mdnn_conv_plan_search(mdnn_conv_plan_t *plan)
{
    return &plan->search;
}

bool mdnn_conv_plan_is_deferred(const mdnn_conv_plan_t *plan)
{
    return mdnn_search_goes_on(&plan->search) && may_be_left(plan);
}

const char *mdnn_conv_plan_title(const mdnn_conv_plan_t *plan)
{
    return plan->title;
}

size_t mdnn_conv_plan_items(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                            mdnn_knapsack_item_t *items, size_t capacity)
{
    const front_set_t *const set = atomic_load_explicit(&plan->set, memory_order_acquire);
    const unsigned flags = flags_of(&plan->key.problem, demand);
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

double mdnn_conv_plan_engine_ms(const mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer)
{
    if (!lock_costs())
        return 0;
    const double ms = mdnn_candidate_table_engine_ms(plan->costs, &offer->engine,
                                                     mdnn_problem_batch(&plan->key.problem));
    mdnn_unlock(&planning_lock);
    return ms;
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
    if (algo >= 0 && algo < ALGOS)
        atomic_store_explicit(&plan->announced[algo], workspace_bytes + 1, memory_order_relaxed);
}

bool mdnn_conv_plan_announced(const mdnn_conv_plan_t *plan, int algo, uint64_t *workspace_bytes)
{
    if (algo < 0 || algo >= ALGOS)
        return false;
    const uint64_t stored = atomic_load_explicit(&plan->announced[algo], memory_order_relaxed);
    if (stored > 0)
        *workspace_bytes = stored - 1;
    return stored > 0;
}

bool mdnn_conv_plan_begin_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    return !atomic_exchange(&plan->generous[flags_of(&plan->key.problem, demand)], true);
}

void mdnn_conv_plan_end_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand)
{
    atomic_store(&plan->generous[flags_of(&plan->key.problem, demand)], false);
}

void mdnn_conv_plan_give_up(mdnn_conv_plan_t *plan)
{
    atomic_store_explicit(&plan->given_up, true, memory_order_relaxed);
}

bool mdnn_conv_plan_is_given_up(const mdnn_conv_plan_t *plan)
{
    return atomic_load_explicit(&plan->given_up, memory_order_relaxed);
}
