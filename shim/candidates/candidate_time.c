#include "shim/candidates/candidate_time.h"

#include <stdlib.h>

#include "config/clock.h"
#include "config/fault.h"
#include "config/statistics.h"
#include "shim/candidates/candidate_foresight.h"
#include "shim/vmem/virtual_memory.h"

enum { SLICES = 8, REPEATS_MAX = 100 };

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
/* Above this, the latency of the first launch does not matter. */
static const double needs_no_lead_ms = 2.0;
/* A host makes calls faster than this. What is shorter is timed behind a hold: else candidates are
 * compared by their launches, which cost mobilenet_v3_large 1 % of its convolutions' time (H200). */
static const double needs_no_hold_ms = 0.05;

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

/* Whether the program's own engine wants more workspace than its limit, or than there can be beside its operands. Then
 * only a measurement finds what runs in its place, so it may send away all that can leave. Other threads' operations run
 * all the same. */
static bool may_take_all(const mdnn_measurement_t *measurement)
{
    const mdnn_engine_offer_t *const own = measurement->request.callers_own;
    uint64_t bytes = 0;
    return own && mdnn_virtual_has_tails() && !MDNN_FAULT(MEASURING_LEAVES_ROOM_FOR_NOTHING) &&
           mdnn_candidate_table_engine_lacks_memory(measurement->table, &own->engine,
                                                    mdnn_problem_batch(measurement->problem),
                                                    &bytes) &&
           bytes > measurement->request.limit_bytes;
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
    measurement->scratch.takes_all = may_take_all(measurement);
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
 * of what is left, with one wait: behind a lead, or beside the look, which counts where a run takes
 * long. ResNet-50's 1,900 candidates took 13 s one wait after the other (H200). */
static mdnn_status_t time_one_of_many(mdnn_measurement_t *measurement, const mdnn_call_t *parts,
                                      size_t distinct, double best_ms, double *ms)
{
    double times[MDNN_SCRATCH_GROUPS + 1];
    mdnn_scratch_t *const scratch = &measurement->scratch;
    MDNN_TRY(look(scratch, parts, distinct, 0, ms));
    if (*ms > MDNN_HOPELESS_FACTOR * best_ms + load_excess_many_ms)
        return MDNN_STATUS_OK;
    MDNN_TRY(look(scratch, parts, distinct, *ms < short_ms ? 1 : 0, ms));
    if (*ms > MDNN_HOPELESS_FACTOR_MANY * best_ms + many_excess_ms)
        return MDNN_STATUS_OK;
    const double wanted = *ms > 0 ? group_ms / *ms : SLICES;
    const size_t runs = wanted < 1 ? 1 : wanted > 2 * SLICES ? 2 * SLICES : (size_t)wanted;
    const bool is_long = *ms >= needs_no_lead_ms;
    const int64_t repeats = (measurement->request.repeats + is_long) / (1 + is_long);
    const mdnn_timed_runs_t timed = {
        .lead = is_long ? 0 : (runs + 3) / 4,
        .count = runs,
        .groups = repeats < MDNN_SCRATCH_GROUPS ? (size_t)repeats : MDNN_SCRATCH_GROUPS,
        .held = *ms < needs_no_hold_ms,
    };
    MDNN_TRY(mdnn_scratch_time(scratch, parts, distinct, &timed, times));
    times[timed.groups] = *ms; /* the look */
    *ms = median(times, (int64_t)timed.groups + is_long);
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

mdnn_status_t mdnn_candidate_time(mdnn_measurement_t *measurement, mdnn_call_t *whole,
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
