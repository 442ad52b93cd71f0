#include "shim/candidates/measure.h"

#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/candidates/engine_list.h"
#include "shim/candidates/scratch.h"
#include "shim/candidates/shortlist.h"

/* Of 16-bit data the second guess is an algorithm without tensor cores. */
enum { SLICES = 8, REPEATS_MAX = 100, SHORTLIST = 3, SHORTLIST_16_BIT = 1, FEW_IMAGES = 4 };

/* Engines that are timed before a program's own search: the heuristics' first ones are seldom far from
 * the best, and what the search finds beyond them runs as well. */
enum { SEARCH_ENGINES = 4 };

/* The look itself waits for its launches, so it may seem this much slower than it is. */
static const double look_excess_ms = 0.05;
/* With a lead, which hides the launches, a look is nearly a measurement: it must be where a narrow
 * margin decides (without one, engines of several kernels seemed up to twice as slow as they ran,
 * and TF32 ResNet-50 lost 2 % to choices made on that: H200). */
static const double many_excess_ms = 0.01;
/* First runs load kernels; a candidate slower than the absurd by this much is judged by its first.
 */
static const double load_excess_ms = 50.0;
/* Kernels of one engine are loaded in less than this. */
static const double load_excess_many_ms = 8.0;
/* Runs longer than this hide their own launch. */
static const double short_ms = 1.0;
/* A timed group lasts about this long, so that launch gaps appear as they will in the run. */
static const double group_ms = 0.25;
/* Above this, the latency of the first launch no longer shows. */
static const double needs_no_lead_ms = 2.0;
/* A host makes calls faster than this. What is shorter is timed behind a hold: else candidates are
 * compared by their launches, which cost mobilenet_v3_large 1 % of its convolutions' time (H200). */
static const double needs_no_hold_ms = 0.05;

struct mdnn_measurement {
    mdnn_call_t call; /* points at scratch */
    const mdnn_problem_t *problem;
    mdnn_slices_t *slices;
    mdnn_candidate_table_t *table;
    mdnn_measure_request_t request;
    int64_t capacity_images; /* what the scratch holds; 0: not allocated yet */
    bool has_scratch;
    cudnnHandle_t own_handle; /* what is timed runs on it; cuDNN is asked with the caller's */
    bool surveyed[MDNN_PART_ROLE_COUNT];
    bool has_shortlist;
    unsigned shortlist;                 /* legacy algorithms, a bit each */
    const mdnn_engine_plan_t *own_plan; /* the caller's, being timed; else NULL */
    const mdnn_graph_uids_t *own_uids;
    int timed, untried; /* candidates in this session */
    double begin_us;
    struct {
        double lists, guesses, plans, memory;
    } us; /* of it beside the runs */
    mdnn_scratch_t scratch;
};

static const float one_float = 1.0F, zero_float = 0.0F;
static const double one_double = 1.0, zero_double = 0.0;

static void point_at_scratch(mdnn_measurement_t *measurement)
{
    const mdnn_scratch_t *const scratch = &measurement->scratch;
    mdnn_call_t *const call = &measurement->call;
    call->x = (void *)(uintptr_t)scratch->blocks[MDNN_SCRATCH_X];
    call->w = (void *)(uintptr_t)scratch->blocks[MDNN_SCRATCH_W];
    call->y = (void *)(uintptr_t)scratch->blocks[MDNN_SCRATCH_Y];
    call->z = measurement->problem->in_place ? call->y
                                             : (void *)(uintptr_t)scratch->blocks[MDNN_SCRATCH_Z];
    call->bias = (void *)(uintptr_t)scratch->blocks[MDNN_SCRATCH_BIAS];
}

static mdnn_status_t reserve_tensors(mdnn_measurement_t *measurement, int64_t images)
{
    const mdnn_problem_t *const problem = measurement->problem;
    const struct {
        mdnn_scratch_use_t use;
        const mdnn_problem_tensor_t *tensor;
    } needed[] = {{MDNN_SCRATCH_X, &problem->x},
                  {MDNN_SCRATCH_W, &problem->w},
                  {MDNN_SCRATCH_Y, &problem->y},
                  {MDNN_SCRATCH_Z, problem->in_place ? NULL : &problem->z},
                  {MDNN_SCRATCH_BIAS, &problem->bias}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!needed[i].tensor || needed[i].tensor->dim_count == 0)
            continue;
        const int64_t count = needed[i].use == MDNN_SCRATCH_X || needed[i].use == MDNN_SCRATCH_Y ||
                                      needed[i].use == MDNN_SCRATCH_Z
                                  ? images
                                  : needed[i].tensor->dims[0];
        const uint64_t bytes = mdnn_tensor_bytes(needed[i].tensor, count);
        MDNN_TRY(mdnn_scratch_reserve(&measurement->scratch, needed[i].use, bytes));
        MDNN_TRY(
            mdnn_scratch_randomize(&measurement->scratch, needed[i].use, needed[i].tensor->type));
    }
    point_at_scratch(measurement);
    return MDNN_STATUS_OK;
}

/* As many images as the device has room for; larger parts are extrapolated. */
static mdnn_status_t open_scratch(mdnn_measurement_t *measurement)
{
    if (measurement->has_scratch)
        return measurement->capacity_images > 0 ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    mdnn_own_stream_t *own;
    cudaStream_t stream;
    if (!driver || measurement->call.cudnn->cudnnGetStream(measurement->call.handle, &stream) !=
                       CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_DEVICE;
    MDNN_TRY(
        mdnn_own_stream_enter(measurement->call.cudnn, stream, &own, &measurement->own_handle));
    MDNN_TRY(mdnn_scratch_init(&measurement->scratch, driver, own));
    measurement->has_scratch = true;
    int64_t images = mdnn_problem_batch(measurement->problem);
    mdnn_status_t status;
    while ((status = reserve_tensors(measurement, images)) == MDNN_STATUS_OUT_OF_DEVICE_MEMORY &&
           images > 1)
        images /= 2;
    if (status == MDNN_STATUS_OK)
        measurement->capacity_images = images;
    return status;
}

/* Distinct slices of `images` images, spread over the scratch as over a batch. */
static size_t cut_slices(const mdnn_measurement_t *measurement, const mdnn_call_t *whole,
                         const mdnn_slice_descriptors_t *descriptors, mdnn_call_t *parts)
{
    const int64_t granularity = mdnn_problem_granularity(measurement->problem);
    const int64_t images = descriptors->images;
    const int64_t step = (images + granularity - 1) / granularity * granularity;
    size_t count = 0;
    for (int64_t first = 0; count < SLICES && first + images <= measurement->capacity_images;
         first += step)
        mdnn_slice(whole, measurement->problem, first, descriptors, &parts[count++]);
    return count;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int64_t count)
{
    qsort(times, (size_t)count, sizeof *times, compare_doubles);
    return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

/* The median of `groups` timed groups of calls that take about `expected_ms` each. */
static mdnn_status_t time_groups(mdnn_measurement_t *measurement, const mdnn_call_t *parts,
                                 size_t distinct, double expected_ms, int64_t groups, double *ms)
{
    double times[REPEATS_MAX];
    const double wanted = expected_ms > 0 ? group_ms / expected_ms : SLICES;
    const size_t runs = wanted < 1 ? 1 : wanted > 2 * SLICES ? 2 * SLICES : (size_t)wanted;
    const mdnn_timed_runs_t timed = {
        .lead = expected_ms < needs_no_lead_ms ? (runs + 3) / 4 + 1 : 0,
        .count = runs,
        .groups = 1,
        .held = expected_ms < needs_no_hold_ms,
    };
    const int64_t count = groups < REPEATS_MAX ? groups : REPEATS_MAX;
    for (int64_t i = 0; i < count; i++)
        MDNN_TRY(mdnn_scratch_time(&measurement->scratch, parts, distinct, &timed, &times[i]));
    *ms = median(times, count);
    return MDNN_STATUS_OK;
}

/* One call, behind `lead` others. */
static mdnn_status_t look(mdnn_scratch_t *scratch, const mdnn_call_t *parts, size_t distinct,
                          size_t lead, double *ms)
{
    const mdnn_timed_runs_t once = {.lead = lead, .count = 1, .groups = 1};
    return mdnn_scratch_time(scratch, parts, distinct, &once, ms);
}

/* Where candidates are many: a first run, which loads what has to be loaded, ends it for those that
 * no loading explains; then a look, behind another run where the launch would show; and the groups
 * of what is left behind one lead, with one wait. ResNet-50's 1,900 candidates took 13 s one wait
 * after the other (H200). */
static mdnn_status_t time_one_of_many(mdnn_measurement_t *measurement, const mdnn_call_t *parts,
                                      size_t distinct, double best_ms, double *ms)
{
    double times[MDNN_SCRATCH_GROUPS];
    mdnn_scratch_t *const scratch = &measurement->scratch;
    MDNN_TRY(look(scratch, parts, distinct, 0, ms));
    if (*ms > MDNN_HOPELESS_FACTOR * best_ms + load_excess_many_ms)
        return MDNN_STATUS_OK;
    MDNN_TRY(look(scratch, parts, distinct, *ms < short_ms ? 1 : 0, ms));
    if (*ms > MDNN_HOPELESS_FACTOR_MANY * best_ms + many_excess_ms)
        return MDNN_STATUS_OK;
    const double wanted = *ms > 0 ? group_ms / *ms : SLICES;
    const size_t runs = wanted < 1 ? 1 : wanted > 2 * SLICES ? 2 * SLICES : (size_t)wanted;
    const int64_t repeats = measurement->request.repeats;
    const mdnn_timed_runs_t timed = {
        .lead = (runs + 3) / 4,
        .count = runs,
        .groups = repeats < MDNN_SCRATCH_GROUPS ? (size_t)repeats : MDNN_SCRATCH_GROUPS,
        .held = *ms < needs_no_hold_ms,
    };
    MDNN_TRY(mdnn_scratch_time(scratch, parts, distinct, &timed, times));
    *ms = median(times, (int64_t)timed.groups);
    return MDNN_STATUS_OK;
}

/* Warm-up, one look, and if the look is not hopeless the groups. A near size that was timed makes
 * warm-up and look needless: `expected_ms` > 0 then. */
static mdnn_status_t time_parts(mdnn_measurement_t *measurement, const mdnn_call_t *parts,
                                size_t distinct, double best_ms, double expected_ms, double *ms)
{
    mdnn_scratch_t *const scratch = &measurement->scratch;
    double first_ms;
    mdnn_count(MDNN_COUNTER_measurements, 1);
    measurement->timed++;
    if (expected_ms > 0)
        return time_groups(measurement, parts, distinct, expected_ms,
                           (measurement->request.repeats + 1) / 2, ms);
    if (measurement->request.engines)
        return time_one_of_many(measurement, parts, distinct, best_ms, ms);
    MDNN_TRY(look(scratch, parts, distinct, 0, &first_ms));
    if (first_ms < MDNN_ABSURD_FACTOR * best_ms + load_excess_ms)
        MDNN_TRY(look(scratch, parts, distinct, 0, &first_ms));
    if (first_ms > MDNN_HOPELESS_FACTOR * best_ms + look_excess_ms) {
        *ms = first_ms;
        return MDNN_STATUS_OK;
    }
    return time_groups(measurement, parts, distinct, first_ms, measurement->request.repeats, ms);
}

static mdnn_graph_scaling_t scaling_of(const mdnn_measurement_t *measurement,
                                       const mdnn_cost_row_t *row)
{
    if (measurement->request.accumulator && row->images < mdnn_problem_batch(measurement->problem))
        return MDNN_SCALING_APART;
    return row->role == MDNN_PART_REST && measurement->problem->direction == MDNN_BACKWARD_FILTER
               ? MDNN_SCALING_ADD
               : MDNN_SCALING_CALLER;
}

static const void *scalar_of(const mdnn_problem_t *problem, bool is_one)
{
    if (problem->x.type == CUDNN_DATA_DOUBLE)
        return is_one ? &one_double : &zero_double;
    return is_one ? (const void *)&one_float : &zero_float;
}

/* The legacy algorithms worth a run beside engines: cuDNN's own guess for the whole batch. */
static unsigned legacy_shortlist(mdnn_measurement_t *measurement)
{
    const mdnn_slice_descriptors_t *descriptors;
    mdnn_call_t whole = measurement->call;
    if (measurement->has_shortlist)
        return measurement->shortlist;
    measurement->has_shortlist = true;
    measurement->shortlist = ~0U;
    if (mdnn_slices_get(measurement->slices, mdnn_problem_batch(measurement->problem),
                        &descriptors) != MDNN_STATUS_OK ||
        mdnn_slices_convolution(measurement->slices, measurement->problem->math_type,
                                &whole.conv_desc) != MDNN_STATUS_OK)
        return measurement->shortlist;
    whole.x_desc = descriptors->x;
    whole.y_desc = descriptors->y;
    if (descriptors->w)
        whole.w_desc = descriptors->w;
    const int32_t type = measurement->problem->x.type;
    const double begin_us = mdnn_now_us();
    measurement->shortlist = mdnn_shortlist(
        &whole,
        type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? SHORTLIST_16_BIT : SHORTLIST,
        measurement->request.limit_bytes);
    measurement->us.guesses += mdnn_now_us() - begin_us;
    return measurement->shortlist;
}

/* The algorithm, in the math type of the candidate. */
static mdnn_status_t pose_algorithm(mdnn_measurement_t *measurement, int index, mdnn_call_t *whole)
{
    const int math_type = mdnn_candidate_math_type(measurement->problem, index);
    const int algo = index % MDNN_CANDIDATE_ALGOS;
    if (math_type < 0 || !(measurement->problem->interfaces & MDNN_INTERFACE_LEGACY) ||
        algo >= mdnn_algo_count(measurement->call.direction))
        return MDNN_STATUS_UNSUPPORTED;
    if (measurement->request.brief &&
        (index >= MDNN_CANDIDATE_ALGOS || !(legacy_shortlist(measurement) & 1U << algo)))
        return MDNN_STATUS_UNSUPPORTED;
    whole->algo = algo;
    return mdnn_slices_convolution(measurement->slices, math_type, &whole->conv_desc);
}

static mdnn_status_t pose_engine(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                 int index, mdnn_call_t *whole)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (!offer || !measurement->request.engines || !row->offered[index - MDNN_CANDIDATE_LEGACY])
        return MDNN_STATUS_UNSUPPORTED;
    whole->algo = MDNN_ALGO_ENGINE + offer->engine.id;
    if (measurement->own_plan && row->images == mdnn_problem_batch(measurement->problem)) {
        whole->uids = measurement->own_uids;
        whole->engine_plan = measurement->own_plan;
        return MDNN_STATUS_OK;
    }
    whole->uids = mdnn_engines_uids(measurement->request.engines);
    const double begin_us = mdnn_now_us();
    const mdnn_status_t status =
        mdnn_engines_plan(measurement->request.engines, whole->handle, row->images,
                          scaling_of(measurement, row), &offer->engine, &whole->engine_plan);
    measurement->us.plans += mdnn_now_us() - begin_us;
    return status;
}

/* Fills in everything about a candidate but its data: algorithm, math type, scalars, descriptors.
 */
static mdnn_status_t request(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row, int index,
                             const mdnn_slice_descriptors_t **descriptors, mdnn_call_t *whole)
{
    const mdnn_problem_t *const problem = measurement->problem;
    *whole = measurement->call;
    whole->alpha = scalar_of(problem, true);
    whole->beta = scalar_of(problem, row->role == MDNN_PART_REST || !problem->beta_is_zero);
    if (index < MDNN_CANDIDATE_LEGACY)
        MDNN_TRY(pose_algorithm(measurement, index, whole));
    else
        MDNN_TRY(pose_engine(measurement, row, index, whole));
    MDNN_TRY(mdnn_slices_get(measurement->slices, row->images, descriptors));
    whole->x_desc = (*descriptors)->x;
    whole->y_desc = (*descriptors)->y;
    if ((*descriptors)->w)
        whole->w_desc = (*descriptors)->w;
    if (measurement->request.accumulator && row->images < mdnn_problem_batch(problem)) {
        whole->accumulator = measurement->request.accumulator;
        whole->accumulate_mode = MDNN_ACCUMULATE_ADD;
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t workspace_of(const mdnn_call_t *whole, uint64_t *bytes)
{
    size_t needed;
    if (whole->engine_plan)
        needed = whole->engine_plan->workspace_bytes;
    else if (mdnn_call_workspace(whole, &needed) != CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_UNSUPPORTED;
    *bytes = needed + (whole->accumulator ? whole->accumulator->overhead_bytes : 0);
    return MDNN_STATUS_OK;
}

static mdnn_status_t time_candidate(mdnn_measurement_t *measurement, mdnn_call_t *whole,
                                    const mdnn_slice_descriptors_t *descriptors,
                                    uint64_t workspace_bytes, double best_ms, double expected_ms,
                                    double *ms)
{
    mdnn_call_t parts[SLICES];
    const double begin_us = mdnn_now_us();
    MDNN_TRY(open_scratch(measurement));
    MDNN_TRY(mdnn_scratch_reserve(&measurement->scratch, MDNN_SCRATCH_WORKSPACE, workspace_bytes));
    measurement->us.memory += mdnn_now_us() - begin_us;
    const mdnn_call_t data = measurement->call;
    whole->handle = measurement->own_handle;
    whole->x = data.x;
    whole->w = data.w;
    whole->y = data.y;
    whole->z = data.z;
    whole->bias = data.bias;
    whole->workspace = (void *)(uintptr_t)measurement->scratch.blocks[MDNN_SCRATCH_WORKSPACE];
    whole->workspace_bytes = workspace_bytes;
    const size_t distinct = cut_slices(measurement, whole, descriptors, parts);
    return distinct == 0 ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                         : time_parts(measurement, parts, distinct, best_ms, expected_ms, ms);
}

static mdnn_status_t extrapolate(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                 int index, double *ms);

/* Engine 0 is cuDNN's plain loop over everything: up to a thousand times slower than the others,
 * and nearly half of the time that ResNet-50's candidates took (H200). Its time follows the number
 * of images, so a few of them say enough. */
static bool is_plain_loop(const mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                          int index)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    return offer && offer->engine.id == 0 && row->images >= 2 * FEW_IMAGES;
}

static mdnn_status_t time_few_images(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                     int index, mdnn_cost_t *cost)
{
    mdnn_cost_row_t few = {.images = FEW_IMAGES, .role = row->role};
    const mdnn_slice_descriptors_t *descriptors;
    mdnn_call_t whole;
    uint64_t bytes;
    double ms;
    few.offered[index - MDNN_CANDIDATE_LEGACY] = true;
    MDNN_TRY(request(measurement, &few, index, &descriptors, &whole));
    MDNN_TRY(workspace_of(&whole, &bytes));
    MDNN_TRY(time_candidate(measurement, &whole, descriptors, bytes, 0, 0, &ms));
    cost->time_ms = ms * (double)row->images / FEW_IMAGES;
    cost->extrapolated = true;
    return MDNN_STATUS_OK;
}

/* Time of one candidate into *cost: foreseen, measured, or from the largest size that the scratch
 * holds. */
static mdnn_status_t cost_time(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                               int index, mdnn_call_t *whole,
                               const mdnn_slice_descriptors_t *descriptors, mdnn_cost_t *cost)
{
    double expected_ms;
    cost->extrapolated =
        mdnn_candidate_table_foresee(measurement->table, row, index, &expected_ms, &cost->time_ms);
    if (cost->extrapolated)
        return MDNN_STATUS_OK;
    /* Few images leave most of the GPU idle: only what is far behind even so is settled by them. */
    if (is_plain_loop(measurement, row, index) &&
        time_few_images(measurement, row, index, cost) == MDNN_STATUS_OK &&
        cost->time_ms > MDNN_ABSURD_FACTOR * mdnn_cost_row_best_ms(row))
        return MDNN_STATUS_OK;
    cost->extrapolated = false;
    const double begin_us = mdnn_now_us();
    const mdnn_status_t status =
        time_candidate(measurement, whole, descriptors, cost->workspace_bytes,
                       mdnn_cost_row_best_ms(row), expected_ms, &cost->time_ms);
    MDNN_LOG(MDNN_LOG_DEBUG, "measure",
             "direction %d, %lld images, algo %d, math %d: %.4f ms, took %.1f ms",
             (int)measurement->problem->direction, (long long)row->images, cost->algo,
             cost->math_type, cost->time_ms, (mdnn_now_us() - begin_us) / 1e3);
    if (status != MDNN_STATUS_OUT_OF_DEVICE_MEMORY || measurement->capacity_images == 0 ||
        row->images <= measurement->capacity_images)
        return status;
    cost->extrapolated = true;
    return extrapolate(measurement, row, index, &cost->time_ms);
}

static mdnn_cost_t cost_without_time(const mdnn_measurement_t *measurement,
                                     const mdnn_call_t *whole, int index)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (offer)
        return (mdnn_cost_t){.algo = whole->algo,
                             .engine = offer->engine,
                             .deterministic = offer->deterministic,
                             .direct = offer->direct,
                             .strict = offer->strict};
    return (mdnn_cost_t){
        .algo = whole->algo,
        .math_type = mdnn_candidate_math_type(measurement->problem, index),
        .deterministic = mdnn_algo_is_deterministic(whole->direction, whole->algo),
        .direct = mdnn_algo_is_direct(whole->direction, whole->algo),
        .strict = mdnn_candidate_is_strict(measurement->problem, index),
    };
}

/* Neither planned nor timed, but remembered as offered: a tighter limit, or a caller that does not
 * search, finds it here. */
static mdnn_status_t set_untried(mdnn_measurement_t *measurement, mdnn_cost_row_t *row, int index,
                                 mdnn_candidate_state_t state)
{
    mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (candidate->state == state || !offer || !row->offered[index - MDNN_CANDIDATE_LEGACY])
        return MDNN_STATUS_OK;
    const mdnn_call_t whole = {.algo = MDNN_ALGO_ENGINE + offer->engine.id};
    candidate->cost = cost_without_time(measurement, &whole, index);
    candidate->state = state;
    measurement->untried++;
    row->changed = true;
    return MDNN_STATUS_OK;
}

static int timed_engines(const mdnn_cost_row_t *row)
{
    int count = 0;
    for (int index = MDNN_CANDIDATE_LEGACY; index < row->capacity; index++)
        count += row->candidates[index].state == MDNN_CANDIDATE_TIMED;
    return count;
}

/* Whether planning and timing the engine is deferred to the caller's own search. Compiling it takes as
 * long as timing dozens (50 ms each on an H200, for 0.3 % of ResNet-50's convolution time). */
static bool is_left_to_caller(const mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                              int index)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    return measurement->request.caller_searches && offer &&
           (mdnn_cost_row_look(row, index)->state == MDNN_CANDIDATE_DEFERRED || offer->compiled ||
            timed_engines(row) >= SEARCH_ENGINES);
}

/* Settles one candidate. Only a device that is broken or too busy is an error; all else is a state. */
static mdnn_status_t settle(mdnn_measurement_t *measurement, mdnn_cost_row_t *row, int index)
{
    mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
    if (!candidate)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (candidate->state == MDNN_CANDIDATE_TIMED ||
        candidate->state == MDNN_CANDIDATE_UNSUPPORTED ||
        (candidate->state == MDNN_CANDIDATE_EXCLUDED &&
         candidate->cost.workspace_bytes > measurement->request.limit_bytes))
        return MDNN_STATUS_OK;
    if (index >= MDNN_CANDIDATE_LEGACY &&
        !mdnn_candidate_table_engine_may_pay(measurement->table, row, index,
                                             measurement->request.limit_bytes))
        return set_untried(measurement, row, index, MDNN_CANDIDATE_POSTPONED);
    if (is_left_to_caller(measurement, row, index))
        return set_untried(measurement, row, index, MDNN_CANDIDATE_DEFERRED);
    const mdnn_slice_descriptors_t *descriptors;
    mdnn_call_t whole;
    candidate->state = MDNN_CANDIDATE_UNSUPPORTED;
    row->changed = true;
    if (request(measurement, row, index, &descriptors, &whole) != MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    mdnn_cost_t cost = cost_without_time(measurement, &whole, index);
    if (workspace_of(&whole, &cost.workspace_bytes) != MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    candidate->cost = cost;
    candidate->state = MDNN_CANDIDATE_EXCLUDED;
    if (cost.workspace_bytes > measurement->request.limit_bytes)
        return MDNN_STATUS_OK;
    const mdnn_status_t status = cost_time(measurement, row, index, &whole, descriptors, &cost);
    if (status == MDNN_STATUS_BUSY && !measurement->has_scratch)
        candidate->state = MDNN_CANDIDATE_UNKNOWN; /* it did not get its turn */
    else if (status == MDNN_STATUS_UNSUPPORTED || status == MDNN_STATUS_BUSY)
        candidate->state = MDNN_CANDIDATE_UNSUPPORTED; /* or too slow to be of use */
    if (status != MDNN_STATUS_OK)
        return status == MDNN_STATUS_DEVICE || status == MDNN_STATUS_BUSY ? status : MDNN_STATUS_OK;
    candidate->cost = cost;
    candidate->state = MDNN_CANDIDATE_TIMED;
    return MDNN_STATUS_OK;
}

/* Time in proportion to the images, from the largest size that the scratch holds. */
static mdnn_status_t extrapolate(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                 int index, double *ms)
{
    mdnn_cost_row_t *const base =
        mdnn_candidate_table_row(measurement->table, measurement->capacity_images, row->role);
    if (!base)
        return MDNN_STATUS_OUT_OF_MEMORY;
    MDNN_TRY(settle(measurement, base, index));
    const mdnn_candidate_t *const known = mdnn_cost_row_look(base, index);
    if (known->state != MDNN_CANDIDATE_TIMED)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    *ms = known->cost.time_ms * (double)row->images / (double)base->images;
    return MDNN_STATUS_OK;
}

static void take_offer(mdnn_measurement_t *measurement, mdnn_cost_row_t *row,
                       const mdnn_engine_offer_t *offer)
{
    const int index = mdnn_candidate_table_engine(measurement->table, offer);
    if (index >= 0)
        row->offered[index - MDNN_CANDIDATE_LEGACY] = true;
}

/* Asks cuDNN which engines it offers for this size; once a row, or twice where the first one was a
 * search that had enough. Some engines of cuDNN 9 write into the gaps of an output that has them (seen
 * on an H100): none but the host's own is tried there. */
static void list_engines(mdnn_measurement_t *measurement, mdnn_cost_row_t *row)
{
    mdnn_engine_offer_t offers[MDNN_CANDIDATE_ENGINES];
    size_t count = 0;
    const bool partly = measurement->request.caller_searches && !row->listed;
    if ((row->listed && !row->partly) || !measurement->request.engines ||
        !mdnn_candidate_table_engines_may_pay(measurement->table, row,
                                              measurement->request.limit_bytes))
        return;
    row->listed = true;
    row->changed = row->changed || row->partly != partly;
    row->partly = partly;
    if (row->images == mdnn_problem_batch(measurement->problem) && measurement->request.callers_own)
        take_offer(measurement, row, measurement->request.callers_own);
    if (mdnn_tensor_has_gaps(mdnn_problem_output(measurement->problem)))
        return;
    const double begin_us = mdnn_now_us();
    const bool fallback_known = mdnn_candidate_table_offer_fallback(
        measurement->table, mdnn_problem_batch(measurement->problem), row);
    const mdnn_status_t status =
        (partly || fallback_known ? mdnn_engines_list_instant : mdnn_engines_list)(
            measurement->request.engines, measurement->call.handle, row->images,
            scaling_of(measurement, row), offers, MDNN_CANDIDATE_ENGINES, &count);
    for (size_t i = 0; status == MDNN_STATUS_OK && i < count; i++)
        take_offer(measurement, row, &offers[i]);
    measurement->us.lists += mdnn_now_us() - begin_us;
    MDNN_LOG(MDNN_LOG_DEBUG, "measure", "listed %zu engines for %lld images in %.1f ms", count,
             (long long)row->images, (mdnn_now_us() - begin_us) / 1e3);
}

static mdnn_status_t settle_from(mdnn_measurement_t *measurement, mdnn_cost_row_t *row, int first,
                                 int end)
{
    for (int index = first; index < end; index++)
        MDNN_TRY(settle(measurement, row, index));
    return MDNN_STATUS_OK;
}

/* Engines first, in the order of the heuristics: a good time found early spares the others theirs. */
static mdnn_status_t settle_listed(mdnn_measurement_t *measurement, mdnn_cost_row_t *row)
{
    const int count = mdnn_candidate_table_candidates(measurement->table);
    MDNN_TRY(settle_from(measurement, row, MDNN_CANDIDATE_LEGACY, count));
    return settle_from(measurement, row, 0, MDNN_CANDIDATE_LEGACY);
}

/* What is deferred to a search is tried where nothing else runs, and what it is spared is listed where
 * nothing was left to it. */
static mdnn_status_t settle_row(mdnn_measurement_t *measurement, mdnn_cost_row_t *row)
{
    if (measurement->request.engines && !row->listed &&
        mdnn_candidate_table_is_settled(measurement->table, row, measurement->request.limit_bytes,
                                        measurement->request.brief)) {
        row->changed = false; /* nothing is known of it: another limit may want to know */
        return MDNN_STATUS_OK;
    }
    const bool was_partly = row->partly;
    if (!measurement->request.caller_searches || !row->listed)
        list_engines(measurement, row);
    MDNN_TRY(settle_listed(measurement, row));
    const bool leaves = was_partly || mdnn_cost_row_has_deferred(row);
    if (!measurement->request.caller_searches || (leaves && mdnn_cost_row_runs(row)))
        return MDNN_STATUS_OK;
    if (leaves)
        measurement->request.caller_searches = false;
    list_engines(measurement, row);
    return settle_listed(measurement, row);
}

/* Before many near sizes, the powers of two: what they tell about the best rate spares most of the
 * others a run. */
static mdnn_status_t survey(mdnn_measurement_t *measurement, mdnn_part_role_t role)
{
    if (!measurement->request.dense || measurement->surveyed[role])
        return MDNN_STATUS_OK;
    measurement->surveyed[role] = true;
    int64_t images = 1;
    while (images <= mdnn_problem_batch(measurement->problem) / 2)
        images *= 2;
    for (; images >= 1; images /= 2) {
        mdnn_cost_row_t *const row = mdnn_candidate_table_row(measurement->table, images, role);
        if (!row)
            return MDNN_STATUS_OUT_OF_MEMORY;
        MDNN_TRY(settle_row(measurement, row));
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_measurement_time_engine(mdnn_measurement_t *measurement,
                                           const mdnn_engine_offer_t *offer,
                                           const mdnn_engine_plan_t *plan,
                                           const mdnn_graph_uids_t *uids)
{
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(
        measurement->table, mdnn_problem_batch(measurement->problem), MDNN_PART_FIRST);
    const int index = mdnn_candidate_table_engine(measurement->table, offer);
    if (!row || index < 0)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
    if (!candidate)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (candidate->state == MDNN_CANDIDATE_UNSUPPORTED) /* it was not offered until now */
        candidate->state = MDNN_CANDIDATE_UNKNOWN;
    row->offered[index - MDNN_CANDIDATE_LEGACY] = true;
    measurement->own_plan = plan;
    measurement->own_uids = uids;
    return settle(measurement, row, index);
}

static mdnn_status_t find_costs(void *context, int64_t images, mdnn_part_role_t role,
                                mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    mdnn_measurement_t *const measurement = context;
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(measurement->table, images, role);
    if (!row)
        return MDNN_STATUS_OUT_OF_MEMORY;
    size_t found = 0;
    MDNN_TRY(survey(measurement, role));
    MDNN_TRY(settle_row(measurement, row));
    for (int i = 0; i < row->capacity; i++) {
        const mdnn_candidate_t *const candidate = &row->candidates[i];
        if (candidate->state != MDNN_CANDIDATE_TIMED || found == capacity)
            continue;
        costs[found++] = candidate->cost;
        MDNN_LOG(MDNN_LOG_TRACE, "measure",
                 "%lld images role %d algo %d math %d: %.4f ms, %llu bytes%s", (long long)images,
                 (int)role, candidate->cost.algo, candidate->cost.math_type,
                 candidate->cost.time_ms, (unsigned long long)candidate->cost.workspace_bytes,
                 candidate->cost.extrapolated ? " (extrapolated)" : "");
    }
    *count = found;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_measurement_begin(const mdnn_call_t *call, const mdnn_problem_t *problem,
                                     mdnn_slices_t *slices, mdnn_candidate_table_t *table,
                                     const mdnn_measure_request_t *request,
                                     mdnn_measurement_t **measurement)
{
    mdnn_measurement_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->call = *call;
    made->call.caller_plan = made->call.caller_pack = NULL; /* they hold the host's own data */
    made->problem = problem;
    made->slices = slices;
    made->table = table;
    made->request = *request;
    made->begin_us = mdnn_now_us();
    *measurement = made;
    return MDNN_STATUS_OK;
}

/* What a program's start costs, problem by problem. */
static void report(const mdnn_measurement_t *measurement)
{
    char title[160];
    if (measurement->timed + measurement->untried == 0)
        return;
    mdnn_problem_format(measurement->problem, title, sizeof title);
    MDNN_LOG(
        MDNN_LOG_DEBUG, "measure",
        "%s: timed %d candidates, left %d untried, in %.1f ms (lists %.1f, cuDNN's guesses %.1f, "
        "plans %.1f, memory %.1f)",
        title, measurement->timed, measurement->untried,
        (mdnn_now_us() - measurement->begin_us) / 1e3, measurement->us.lists / 1e3,
        measurement->us.guesses / 1e3, measurement->us.plans / 1e3, measurement->us.memory / 1e3);
}

void mdnn_measurement_end(mdnn_measurement_t *measurement)
{
    if (!measurement)
        return;
    if (measurement->has_scratch) {
        const double begin_us = mdnn_now_us();
        mdnn_scratch_fini(&measurement->scratch);
        measurement->us.memory += mdnn_now_us() - begin_us;
    }
    report(measurement);
    free(measurement);
}

mdnn_cost_source_t mdnn_measurement_source(mdnn_measurement_t *measurement)
{
    return (mdnn_cost_source_t){measurement, find_costs};
}
