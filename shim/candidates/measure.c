#include "shim/candidates/measure.h"

#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/fault.h"
#include "config/log.h"
#include "shim/candidates/candidate_call.h"
#include "shim/candidates/candidate_foresight.h"
#include "shim/candidates/candidate_table_check.h"
#include "shim/candidates/candidate_time.h"
#include "shim/candidates/engine_list.h"

enum { FEW_IMAGES = 4 };

/* Engines that are timed before a program's own search: the heuristics' first ones are seldom far from
 * the best, and what the search finds beyond them runs as well. */
enum { SEARCH_ENGINES = 4 };

/* Engines that are timed where few are wanted, the program's own included. With the legacy algorithm that cuDNN names
 * first, the simulated H200's ResNet-50 loses 0.6 % of its convolution time (TF32) against all candidates, and no more
 * with two engines than with three. */
enum { FEW_ENGINES = 2 };

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
    MDNN_TRY(mdnn_candidate_call(measurement, &few, index, &descriptors, &whole));
    MDNN_TRY(mdnn_candidate_call_bytes(&whole, &bytes));
    MDNN_TRY(mdnn_candidate_time(measurement, &whole, descriptors, bytes, 0, 0, &ms));
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
        mdnn_candidate_time(measurement, whole, descriptors, cost->workspace_bytes,
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

/* Neither planned nor timed, but remembered as offered: a tighter limit, or a caller that wants all, finds it here. */
static mdnn_status_t set_untried(mdnn_measurement_t *measurement, mdnn_cost_row_t *row, int index,
                                 mdnn_candidate_state_t state)
{
    mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (candidate->state == state ||
        (index >= MDNN_CANDIDATE_LEGACY ? !offer || !row->offered[index - MDNN_CANDIDATE_LEGACY]
                                        : !mdnn_candidate_is_algorithm(measurement, index)))
        return MDNN_STATUS_OK;
    const mdnn_call_t whole = {.direction = measurement->call.direction,
                               .algo = offer ? MDNN_ALGO_ENGINE + offer->engine.id
                                             : index % MDNN_CANDIDATE_ALGOS};
    candidate->cost = mdnn_candidate_cost(measurement, &whole, index);
    candidate->state = state;
    measurement->untried++;
    row->changed = true;
    return MDNN_STATUS_OK;
}

static bool defers(const mdnn_measurement_t *measurement)
{
    return measurement->request.caller_searches || measurement->request.few;
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

/* Whether a candidate computes no less repeatably and precisely than the caller's own engine. */
static bool serves(const mdnn_measurement_t *measurement, bool deterministic, bool strict)
{
    const mdnn_engine_offer_t *const own = measurement->request.callers_own;
    return (deterministic || !own || !own->deterministic) && (strict || !own || !own->strict);
}

/* The candidates from `first` on that were timed, serve the caller and fit within the limit. */
static int serving(const mdnn_measurement_t *measurement, const mdnn_cost_row_t *row, int first)
{
    int count = 0;
    for (int index = first; index < row->capacity; index++) {
        const mdnn_candidate_t *const candidate = &row->candidates[index];
        count += candidate->state == MDNN_CANDIDATE_TIMED &&
                 candidate->cost.workspace_bytes <= measurement->request.limit_bytes &&
                 serves(measurement, candidate->cost.deterministic, candidate->cost.strict);
    }
    return count;
}

static bool is_own(const mdnn_measurement_t *measurement, const mdnn_engine_offer_t *offer)
{
    const mdnn_engine_offer_t *const own = measurement->request.callers_own;
    return own && memcmp(&own->engine, &offer->engine, sizeof own->engine) == 0;
}

/* The program's own engine, whose workspace had no room when it was to be timed. It runs all the same, since nothing is
 * known to be faster (mdnn_conv_plan_time_engine), so no other time is of use. */
static bool is_own_untimed(const mdnn_measurement_t *measurement)
{
    const mdnn_engine_offer_t *const own = measurement->request.callers_own;
    const int64_t batch = mdnn_problem_batch(measurement->problem);
    uint64_t bytes;
    return own &&
           mdnn_candidate_table_engine_lacks_memory(measurement->table, &own->engine, batch,
                                                    &bytes) &&
           bytes <= measurement->request.limit_bytes && !MDNN_FAULT(ALL_ARE_TRIED_FOR_NOTHING);
}

/* Whether the engine or algorithm is not among the few. The program's own engine is. */
static bool is_beyond_few(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row, int index)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (!measurement->request.few)
        return false;
    if (mdnn_cost_row_look(row, index)->state == MDNN_CANDIDATE_DEFERRED ||
        (is_own_untimed(measurement) && !(offer && is_own(measurement, offer))))
        return true;
    if (index < MDNN_CANDIDATE_LEGACY)
        return !mdnn_candidate_is_shortlisted(measurement, index) ||
               !serves(measurement,
                       mdnn_algo_is_deterministic(measurement->call.direction,
                                                  index % MDNN_CANDIDATE_ALGOS),
                       mdnn_candidate_is_strict(measurement->problem, index));
    return offer && !is_own(measurement, offer) &&
           (offer->compiled || !serves(measurement, offer->deterministic, offer->strict) ||
            serving(measurement, row, MDNN_CANDIDATE_LEGACY) >= FEW_ENGINES);
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
    const bool beyond_few = is_beyond_few(measurement, row, index);
    if (beyond_few && MDNN_FAULT(FEW_FORGET_THE_REST))
        return MDNN_STATUS_OK;
    if (beyond_few || is_left_to_caller(measurement, row, index))
        return set_untried(measurement, row, index, MDNN_CANDIDATE_DEFERRED);
    const mdnn_slice_descriptors_t *descriptors;
    mdnn_call_t whole;
    candidate->state = MDNN_CANDIDATE_UNSUPPORTED;
    row->changed = true;
    if (mdnn_candidate_call(measurement, row, index, &descriptors, &whole) != MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    mdnn_cost_t cost = mdnn_candidate_cost(measurement, &whole, index);
    if (mdnn_candidate_call_bytes(&whole, &cost.workspace_bytes) != MDNN_STATUS_OK)
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

/* Asks cuDNN which engines it offers for this size: once per row, or twice if the first request deferred most of them.
 * Some engines of cuDNN 9 write into the gaps of an output that has them (seen on an H100), so only the program's own
 * engine is tried there. */
static void list_engines(mdnn_measurement_t *measurement, mdnn_cost_row_t *row)
{
    size_t count = 0;
    const bool partly = defers(measurement) && !row->listed && !MDNN_FAULT(FEW_FORGET_THE_REST);
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
    mdnn_engine_offer_t *const offers = malloc(MDNN_CANDIDATE_ENGINES * sizeof *offers);
    const double begin_us = mdnn_now_us();
    const bool fallback_known = mdnn_candidate_table_offer_fallback(
        measurement->table, mdnn_problem_batch(measurement->problem), row);
    const mdnn_status_t status =
        !offers
            ? MDNN_STATUS_OUT_OF_MEMORY
            : (partly || fallback_known ? mdnn_engines_list_instant : mdnn_engines_list)(
                  measurement->request.engines, measurement->call.handle, row->images,
                  mdnn_candidate_scaling(measurement, row), offers, MDNN_CANDIDATE_ENGINES, &count);
    for (size_t i = 0; status == MDNN_STATUS_OK && i < count; i++)
        take_offer(measurement, row, &offers[i]);
    free(offers);
    measurement->us.lists += mdnn_now_us() - begin_us;
    MDNN_LOG(MDNN_LOG_DEBUG, "measure", "listed %zu engines for %lld images in %.1f ms", count,
             (long long)row->images, (mdnn_now_us() - begin_us) / 1e3);
}

static mdnn_status_t settle_from(mdnn_measurement_t *measurement, mdnn_cost_row_t *row, int first,
                                 int end)
{
    for (int index = first; index < end; index++) {
        MDNN_TRY(settle(measurement, row, index));
        mdnn_candidate_table_check(measurement->table);
    }
    return MDNN_STATUS_OK;
}

/* Engines first, in the order of the heuristics: a good time found early spares the others theirs. */
static mdnn_status_t settle_listed(mdnn_measurement_t *measurement, mdnn_cost_row_t *row)
{
    const int count = mdnn_candidate_table_candidates(measurement->table);
    MDNN_TRY(settle_from(measurement, row, MDNN_CANDIDATE_LEGACY, count));
    return settle_from(measurement, row, 0, MDNN_CANDIDATE_LEGACY);
}

/* More would not help where nothing can be timed, since memory is short. */
static bool are_enough(const mdnn_measurement_t *measurement, const mdnn_cost_row_t *row)
{
    return serving(measurement, row, 0) > 0 || is_own_untimed(measurement) ||
           (measurement->has_scratch && measurement->capacity_images == 0);
}

/* The same for parts of this size alone, or for the whole batch. */
static bool is_size_enough(const mdnn_measurement_t *measurement, int64_t images)
{
    const mdnn_part_role_t last =
        images < mdnn_problem_batch(measurement->problem) && measurement->request.roles_differ
            ? MDNN_PART_REST
            : MDNN_PART_FIRST;
    for (int role = MDNN_PART_FIRST; role <= (int)last; role++) {
        const mdnn_cost_row_t *const row =
            mdnn_candidate_table_row(measurement->table, images, (mdnn_part_role_t)role);
        if (!row || !are_enough(measurement, row))
            return false;
    }
    return true;
}

/* The largest power of two below `images` of which the batch has a whole number; 0: none, or nothing is divided. */
static int64_t next_equal_part(const mdnn_measurement_t *measurement, int64_t images)
{
    const int64_t batch = mdnn_problem_batch(measurement->problem);
    const int64_t granularity = mdnn_problem_granularity(measurement->problem);
    int64_t part = 1;
    if (!measurement->request.divides || images <= 1)
        return 0;
    while (part * 2 < images)
        part *= 2;
    while (part > 0 && (batch % part != 0 || part % granularity != 0))
        part /= 2;
    return part;
}

/* Whether a part need not be looked at, since few candidates for the whole batch, or for larger parts, are enough. */
static bool is_larger_enough(const mdnn_measurement_t *measurement, const mdnn_cost_row_t *row)
{
    int64_t images = measurement->request.few ? mdnn_problem_batch(measurement->problem) : 0;
    while (images > row->images && !is_size_enough(measurement, images))
        images = next_equal_part(measurement, images);
    return images > row->images;
}

/* Whether what was deferred (`leaves`: if anything was) is not needed now. */
static bool may_stay_deferred(const mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                              bool leaves)
{
    return measurement->request.few ? are_enough(measurement, row)
                                    : leaves && mdnn_cost_row_runs(row);
}

static void begin_full(mdnn_measurement_t *measurement)
{
    measurement->request.caller_searches = measurement->request.few = false;
    measurement->has_shortlist = false;
}

static mdnn_status_t settle_few(mdnn_measurement_t *measurement, int64_t images,
                                mdnn_part_role_t role)
{
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(measurement->table, images, role);
    if (!row)
        return MDNN_STATUS_OUT_OF_MEMORY;
    list_engines(measurement, row);
    return settle_listed(measurement, row);
}

/* Of what has too little memory for the workspaces of its few candidates, equal parts are looked at: the largest for
 * which a few are enough (*enough) mostly run faster than what is left for the whole, which takes long to find out
 * (2.5 s for one convolution of VGG-16 with 256 images: H200). */
static mdnn_status_t settle_equal_parts(mdnn_measurement_t *measurement, int64_t whole,
                                        bool *enough)
{
    *enough = false;
    for (int64_t part = next_equal_part(measurement, whole); part > 0 && !*enough;
         part = next_equal_part(measurement, part)) {
        MDNN_TRY(settle_few(measurement, part, MDNN_PART_FIRST));
        if (measurement->request.roles_differ)
            MDNN_TRY(settle_few(measurement, part, MDNN_PART_REST));
        *enough = is_size_enough(measurement, part);
    }
    return MDNN_STATUS_OK;
}

/* Deferred candidates are tried if nothing else runs, and engines that a search is spared are listed if nothing was
 * deferred to one. */
static mdnn_status_t settle_all(mdnn_measurement_t *measurement, mdnn_cost_row_t *row, bool leaves)
{
    bool enough = false;
    if (measurement->request.few && !MDNN_FAULT(PARTS_NEED_ALL))
        MDNN_TRY(settle_equal_parts(measurement, row->images, &enough));
    if (enough)
        return MDNN_STATUS_OK;
    if (leaves || measurement->request.few)
        begin_full(measurement);
    list_engines(measurement, row);
    return settle_listed(measurement, row);
}

static mdnn_status_t settle_row(mdnn_measurement_t *measurement, mdnn_cost_row_t *row)
{
    if (measurement->request.engines && !row->listed &&
        (is_larger_enough(measurement, row) ||
         mdnn_candidate_table_is_settled(measurement->table, row, measurement->request.limit_bytes,
                                         measurement->request.brief))) {
        row->changed = false; /* unknown: a request with another limit may measure it */
        return MDNN_STATUS_OK;
    }
    const bool was_partly = row->partly;
    if (!defers(measurement) || !row->listed)
        list_engines(measurement, row);
    MDNN_TRY(settle_listed(measurement, row));
    const bool leaves = was_partly || mdnn_cost_row_has_deferred(row);
    if (!defers(measurement) || may_stay_deferred(measurement, row, leaves))
        return MDNN_STATUS_OK;
    return settle_all(measurement, row, leaves);
}

/* Measures the powers of two before many near sizes: the best rate that they show saves most of the
 * others a run. */
static mdnn_status_t survey(mdnn_measurement_t *measurement, mdnn_part_role_t role)
{
    if (!measurement->request.dense || measurement->request.few || measurement->surveyed[role])
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
    const mdnn_status_t status = settle(measurement, row, index);
    mdnn_candidate_table_check(measurement->table);
    return status;
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
    if (!MDNN_FAULT(MEASURES_ON_THE_HOSTS_DATA))
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
