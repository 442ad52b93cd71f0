#include "offload/remake/survey.h"

#include <stdlib.h>
#include <string.h>

#include "config/extremes.h"
#include "offload/remake/values.h"

#define NOWHERE UINT32_MAX

enum { WARM_UP, LOOKED_AT, AFTERWARDS, ITERATIONS };

/* Going through iterations of a period. */
typedef struct walk {
    const mdnn_period_t *period;
    mdnn_survey_roles_t roles;
    mdnn_values_t *values;
    uint32_t *number;                    /* of each range that lives */
    uint32_t *first_birth, *first_death; /* ranges at each position, */
    uint32_t *next_birth, *next_death;   /* and behind each range */
    uint32_t *first_gap, *next_gap;      /* likewise indices into `gaps` */
    mdnn_value_use_t *uses;              /* of one operation */
    mdnn_survey_gap_t *gaps;
    bool *chosen; /* gaps that are left empty; NULL: gaps get their prices */
    double most_us_per_byte;
    uint32_t *last; /* step of a rerun that names each range */
    bool *there;    /* ranges that the rerun has made so far */
    mdnn_survey_run_t run;
    uint64_t here_bytes; /* content of ranges that live */
} walk_t;

static void *filled(size_t count)
{
    void *const made = reallocarray(NULL, count + 1, sizeof(uint32_t));
    if (made)
        memset(made, 0xff, (count + 1) * sizeof(uint32_t));
    return made;
}

static void end_walk(walk_t *walk)
{
    mdnn_values_destroy(walk->values);
    free(walk->number);
    free(walk->first_birth);
    free(walk->first_death);
    free(walk->next_birth);
    free(walk->next_death);
    free(walk->first_gap);
    free(walk->next_gap);
    free(walk->last);
    free(walk->there);
    free(walk->uses);
}

static void list_ranges(walk_t *walk)
{
    const mdnn_period_t *const period = walk->period;
    for (uint32_t i = 0; i < period->range_count; i++) {
        const mdnn_period_range_t *const range = &period->ranges[i];
        if (mdnn_range_is_permanent(range))
            continue;
        walk->next_birth[i] = walk->first_birth[range->birth];
        walk->first_birth[range->birth] = i;
        walk->next_death[i] = walk->first_death[range->death];
        walk->first_death[range->death] = i;
    }
}

static void list_gaps(walk_t *walk, size_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t from = (uint32_t)walk->gaps[i].gap.from;
        walk->next_gap[i] = walk->first_gap[from];
        walk->first_gap[from] = i;
    }
}

static mdnn_status_t begin_life(walk_t *walk, uint32_t range)
{
    const uint64_t bytes = walk->period->ranges[range].bytes;
    walk->here_bytes += bytes;
    return mdnn_values_add_range(walk->values, bytes, &walk->number[range]);
}

/* What lives when the first iteration begins. */
static mdnn_status_t begin_lives(walk_t *walk)
{
    const mdnn_period_t *const period = walk->period;
    for (uint32_t i = 0; i < period->range_count; i++)
        if (mdnn_range_lives_at(&period->ranges[i], 0) && period->ranges[i].birth != 0)
            MDNN_TRY(begin_life(walk, i));
    return MDNN_STATUS_OK;
}

static mdnn_status_t begin_walk(walk_t *walk, size_t gap_count)
{
    const mdnn_period_t *const period = walk->period;
    const size_t operations = period->operation_count, ranges = period->range_count;
    const size_t remembered = 4 * operations + 1;
    walk->values = mdnn_values_create(remembered < UINT32_MAX ? (uint32_t)remembered : UINT32_MAX);
    walk->number = filled(ranges);
    walk->first_birth = filled(operations);
    walk->first_death = filled(operations);
    walk->next_birth = filled(ranges);
    walk->next_death = filled(ranges);
    walk->first_gap = filled(operations);
    walk->next_gap = filled(gap_count);
    walk->last = filled(ranges);
    walk->there = calloc(ranges + 1, sizeof *walk->there);
    walk->uses = reallocarray(NULL, ranges + 1, sizeof *walk->uses);
    if (!walk->values || !walk->number || !walk->first_birth || !walk->first_death ||
        !walk->next_birth || !walk->next_death || !walk->first_gap || !walk->next_gap ||
        !walk->last || !walk->there || !walk->uses)
        return MDNN_STATUS_OUT_OF_MEMORY;
    list_ranges(walk);
    list_gaps(walk, gap_count);
    return begin_lives(walk);
}

/* ---- what operations read and write ---- */

static bool makes(const mdnn_period_t *period, uint32_t position, const mdnn_use_t *use)
{
    return period->ranges[use->range].birth == position;
}

static bool is_known_to_write(const mdnn_period_t *period, uint32_t position)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    for (uint32_t i = 0; i < operation->use_count; i++) {
        const mdnn_use_t *const use = &period->uses[operation->first_use + i];
        if (use->role == MDNN_USE_WRITE ||
            (use->role != MDNN_USE_READ && makes(period, position, use)))
            return true;
    }
    return false;
}

static mdnn_value_operation_t operation_at(walk_t *walk, uint32_t position)
{
    const mdnn_period_t *const period = walk->period;
    const mdnn_operation_t *const operation = &period->operations[position];
    bool writes = walk->roles == MDNN_SURVEY_GUESS && is_known_to_write(period, position);
    bool reads = false;
    for (uint32_t i = 0; i < operation->use_count; i++) {
        const mdnn_use_t *const use = &period->uses[operation->first_use + i];
        mdnn_value_role_t role = MDNN_VALUE_UPDATE;
        if (use->role == MDNN_USE_READ)
            role = MDNN_VALUE_READ;
        else if (makes(period, position, use) ||
                 (use->role == MDNN_USE_WRITE && walk->roles == MDNN_SURVEY_GUESS))
            role = MDNN_VALUE_WRITE;
        else if (use->role == MDNN_USE_UNKNOWN && writes)
            role = MDNN_VALUE_READ;
        writes = writes || walk->roles == MDNN_SURVEY_GUESS;
        reads = reads || role != MDNN_VALUE_WRITE;
        walk->uses[i] = (mdnn_value_use_t){walk->number[use->range], role};
    }
    return (mdnn_value_operation_t){.key = position,
                                    .time_us = period->variants[operation->first_variant].time_us,
                                    .repeats = reads,
                                    .uses = walk->uses,
                                    .use_count = operation->use_count};
}

/* ---- reruns ---- */

static uint32_t range_of(const walk_t *walk, const mdnn_rerun_step_t *step, uint32_t use)
{
    const mdnn_period_t *const period = walk->period;
    return period->uses[period->operations[step->key].first_use + use].range;
}

static bool is_in(const mdnn_value_set_t *set, uint32_t range)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->ranges[i] == range)
            return true;
    return false;
}

static void note_last_steps(const walk_t *walk, const mdnn_rerun_t *rerun)
{
    for (uint32_t i = 0; i < rerun->step_count; i++)
        for (uint32_t use = 0; use < rerun->steps[i].use_count; use++)
            walk->last[range_of(walk, &rerun->steps[i], use)] = i;
}

/* What a step makes at ranges' own places. Returns what it makes elsewhere, which is of no use after it. */
static uint64_t make_outputs(walk_t *walk, const mdnn_rerun_t *rerun, const mdnn_rerun_step_t *step,
                             uint64_t *made)
{
    uint64_t scratch = 0;
    for (uint32_t use = 0; use < step->use_count; use++) {
        const mdnn_rerun_use_t *const placed = &rerun->uses[step->first_use + use];
        const uint32_t range = range_of(walk, step, use);
        const uint64_t bytes = walk->period->ranges[range].bytes;
        if (placed->to == MDNN_PLACE_SCRATCH)
            scratch += bytes;
        else if (placed->to == MDNN_PLACE_OWN && !walk->there[range]) {
            walk->there[range] = true;
            *made += bytes;
        }
    }
    return scratch;
}

/* The most bytes that the rerun has made and still needs, during one of its steps. */
static uint64_t most_at_once(walk_t *walk, const mdnn_rerun_t *rerun)
{
    uint64_t made = 0, most = 0;
    memset(walk->there, 0, walk->period->range_count * sizeof *walk->there);
    note_last_steps(walk, rerun);
    for (uint32_t i = 0; i < rerun->step_count; i++) {
        const mdnn_rerun_step_t *const step = &rerun->steps[i];
        const uint64_t scratch = make_outputs(walk, rerun, step, &made);
        most = mdnn_max(most, made + scratch);
        for (uint32_t use = 0; use < step->use_count; use++) {
            const uint32_t range = range_of(walk, step, use);
            if (walk->last[range] != i || !walk->there[range] ||
                is_in(&rerun->remade, rerun->uses[step->first_use + use].range))
                continue;
            walk->there[range] = false;
            made -= walk->period->ranges[range].bytes;
        }
    }
    return most;
}

/* *way: what the rerun needs beside what is wanted. */
static mdnn_status_t remake(walk_t *walk, const mdnn_value_set_t *needs, uint64_t *way)
{
    mdnn_rerun_t rerun = {0};
    const uint64_t before = mdnn_values_report(walk->values).dropped_bytes;
    const mdnn_status_t status = mdnn_values_remake(walk->values, needs, &rerun);
    if (status == MDNN_STATUS_OK) {
        const uint64_t remade = before - mdnn_values_report(walk->values).dropped_bytes;
        const uint64_t most = most_at_once(walk, &rerun);
        *way = mdnn_max(*way, most > remade ? most - remade : 0);
        walk->here_bytes += remade;
        walk->run.steps += rerun.step_count;
        for (uint32_t i = 0; i < rerun.step_count; i++)
            walk->run.rerun_us += rerun.steps[i].time_us;
    }
    mdnn_rerun_fini(&rerun);
    return status;
}

static bool is_named(const mdnn_value_operation_t *operation, uint32_t range)
{
    for (uint32_t i = 0; i < operation->use_count; i++)
        if (operation->uses[i].range == range)
            return true;
    return false;
}

static mdnn_status_t operate(walk_t *walk, uint32_t position, uint64_t *way)
{
    const mdnn_value_operation_t operation = operation_at(walk, position);
    mdnn_value_set_t needs = {0};
    mdnn_status_t status = mdnn_values_needs_for_operation(walk->values, &operation, &needs);
    for (uint32_t i = 0; i < needs.count; i++)
        walk->run.early += !is_named(&operation, needs.ranges[i]);
    if (status == MDNN_STATUS_OK && needs.count > 0)
        status = remake(walk, &needs, way);
    mdnn_value_set_fini(&needs);
    MDNN_TRY(status);
    return mdnn_values_operate(walk->values, &operation);
}

/* ---- lives and gaps ---- */

static bool is_too_dear(const walk_t *walk, double time_us, uint64_t bytes)
{
    return time_us > walk->most_us_per_byte * (double)bytes;
}

static uint64_t bytes_of(const walk_t *walk, const mdnn_value_set_t *set)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < walk->period->range_count && set->count > 0; i++)
        if (walk->number[i] != NOWHERE && is_in(set, walk->number[i]))
            bytes += walk->period->ranges[i].bytes;
    return bytes;
}

/* A freed input is given up if it can be derived cheaply itself; else it is kept if it takes fewer bytes than what it is
 * to make; else that is remade now. */
static mdnn_status_t choose_rest(walk_t *walk, uint32_t number, uint64_t bytes, uint64_t *way,
                                 mdnn_value_rest_t *rest)
{
    double time_us;
    mdnn_value_set_t needs = {0};
    *rest = MDNN_REST_PLACE;
    mdnn_status_t status =
        mdnn_values_needs_for_free(walk->values, number, MDNN_REST_NOTHING, &needs);
    if (status == MDNN_STATUS_OK && needs.count > 0) {
        const mdnn_status_t priced = mdnn_values_price(walk->values, number, &time_us);
        if (priced == MDNN_STATUS_OUT_OF_MEMORY)
            status = priced;
        else if (mdnn_values_is_dropped(walk->values, number) ||
                 (priced == MDNN_STATUS_OK && !is_too_dear(walk, time_us, bytes)))
            *rest = MDNN_REST_PLACE;
        else if (bytes < bytes_of(walk, &needs))
            *rest = MDNN_REST_CONTENT;
        else {
            walk->run.early += needs.count;
            status = remake(walk, &needs, way);
        }
    }
    mdnn_value_set_fini(&needs);
    return status;
}

static mdnn_status_t end_life(walk_t *walk, uint32_t range, uint64_t *way)
{
    const uint32_t number = walk->number[range];
    const uint64_t bytes = walk->period->ranges[range].bytes;
    mdnn_value_rest_t rest;
    MDNN_TRY(choose_rest(walk, number, bytes, way, &rest));
    if (!mdnn_values_is_dropped(walk->values, number))
        walk->here_bytes -= bytes;
    walk->number[range] = NOWHERE;
    return mdnn_values_free(walk->values, number, rest);
}

static mdnn_status_t look_at_gap(walk_t *walk, uint32_t index)
{
    mdnn_survey_gap_t *const gap = &walk->gaps[index];
    const uint32_t number = walk->number[gap->gap.range];
    if (!walk->chosen) {
        const mdnn_status_t status = mdnn_values_price(walk->values, number, &gap->time_us);
        if (status != MDNN_STATUS_OK)
            gap->time_us = -1;
        return status == MDNN_STATUS_UNSUPPORTED ? MDNN_STATUS_OK : status;
    }
    /* What was held when the price was found may be dropped now. */
    double time_us = 0;
    mdnn_status_t status = MDNN_STATUS_UNSUPPORTED;
    if (walk->chosen[index])
        status = mdnn_values_price(walk->values, number, &time_us);
    if (status == MDNN_STATUS_OK && !is_too_dear(walk, time_us, gap->bytes))
        status = mdnn_values_drop(walk->values, number);
    else if (status == MDNN_STATUS_OK)
        status = MDNN_STATUS_UNSUPPORTED;
    if (status == MDNN_STATUS_OK) {
        walk->here_bytes -= gap->bytes;
        walk->run.dropped_bytes += gap->bytes;
        walk->run.dropped++;
    }
    return status == MDNN_STATUS_UNSUPPORTED ? MDNN_STATUS_OK : status;
}

static mdnn_status_t step(walk_t *walk, uint32_t iteration, uint32_t position)
{
    const mdnn_period_t *const period = walk->period;
    uint64_t way = 0;
    for (uint32_t i = walk->first_birth[position]; i != NOWHERE; i = walk->next_birth[i])
        MDNN_TRY(begin_life(walk, i));
    MDNN_TRY(operate(walk, position, &way));
    const mdnn_values_report_t report = mdnn_values_report(walk->values);
    const uint64_t workspace =
        period->variants[period->operations[position].first_variant].workspace_bytes;
    walk->run.kept_bytes = mdnn_max(walk->run.kept_bytes, report.rest_bytes);
    if (iteration == LOOKED_AT)
        walk->run.peak_bytes =
            mdnn_max(walk->run.peak_bytes, walk->here_bytes + report.rest_bytes + workspace + way);
    for (uint32_t i = walk->first_gap[position]; iteration == LOOKED_AT && i != NOWHERE;
         i = walk->next_gap[i])
        MDNN_TRY(look_at_gap(walk, i));
    for (uint32_t i = walk->first_death[position]; i != NOWHERE; i = walk->next_death[i])
        MDNN_TRY(end_life(walk, i, &way));
    for (uint32_t released; mdnn_values_take_released(walk->values, &released);) {
    }
    return MDNN_STATUS_OK;
}

/* Through the iterations; the gaps of one are looked at. */
static mdnn_status_t go(walk_t *walk, size_t gap_count)
{
    mdnn_status_t status = begin_walk(walk, gap_count);
    for (uint32_t iteration = WARM_UP; iteration < ITERATIONS; iteration++)
        for (uint32_t i = 0; i < walk->period->operation_count && status == MDNN_STATUS_OK; i++)
            status = step(walk, iteration, i);
    end_walk(walk);
    return status;
}

/* ---- what others call ---- */

void mdnn_survey_fini(mdnn_survey_t *survey)
{
    free(survey->gaps);
    *survey = (mdnn_survey_t){0};
}

static double price_of(const mdnn_survey_gap_t *gap)
{
    return gap->time_us / (double)gap->bytes;
}

static int compare_prices(const void *left, const void *right)
{
    const mdnn_survey_gap_t *const a = left, *const b = right;
    if ((a->time_us < 0) != (b->time_us < 0))
        return a->time_us < 0 ? 1 : -1;
    if (price_of(a) < price_of(b) || price_of(a) > price_of(b))
        return price_of(a) < price_of(b) ? -1 : 1;
    return a->gap.from < b->gap.from ? -1 : a->gap.from > b->gap.from;
}

/* Those whose range is used again, and has so many bytes. */
static mdnn_status_t find_gaps(const mdnn_period_t *period, uint64_t least_bytes,
                               mdnn_survey_t *survey)
{
    mdnn_gap_t *gaps;
    size_t count;
    MDNN_TRY(mdnn_period_gaps(period, &gaps, &count));
    survey->gaps = reallocarray(NULL, count + 1, sizeof *survey->gaps);
    for (size_t i = 0; survey->gaps && i < count; i++) {
        const uint64_t bytes = period->ranges[gaps[i].range].bytes;
        if (gaps[i].from >= 0 && !gaps[i].one_way && bytes > 0 && bytes >= least_bytes)
            survey->gaps[survey->count++] =
                (mdnn_survey_gap_t){.gap = gaps[i], .bytes = bytes, .time_us = -1};
    }
    free(gaps);
    return survey->gaps ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

static mdnn_status_t live_bytes(const mdnn_period_t *period, uint64_t **live)
{
    *live = reallocarray(NULL, period->operation_count + 1, sizeof **live);
    if (!*live)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_period_live_bytes(period, *live);
    for (uint32_t i = 0; i < period->operation_count; i++)
        (*live)[i] += period->variants[period->operations[i].first_variant].workspace_bytes;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_survey(const mdnn_period_t *period, mdnn_survey_roles_t roles,
                          uint64_t least_bytes, mdnn_survey_t *survey)
{
    mdnn_survey_t made = {.compute_us = mdnn_period_compute_us(period, NULL)};
    uint64_t *live = NULL;
    mdnn_status_t status = find_gaps(period, least_bytes, &made);
    walk_t walk = {.period = period, .roles = roles, .gaps = made.gaps};
    if (status == MDNN_STATUS_OK)
        status = live_bytes(period, &live);
    if (status == MDNN_STATUS_OK)
        status = go(&walk, made.count);
    if (status != MDNN_STATUS_OK) {
        free(live);
        mdnn_survey_fini(&made);
        return status;
    }
    for (uint32_t i = 0; i < period->operation_count; i++)
        if (live[i] > made.peak_bytes) {
            made.peak_bytes = live[i];
            made.peak = i;
        }
    free(live);
    qsort(made.gaps, made.count, sizeof *made.gaps, compare_prices);
    *survey = made;
    return MDNN_STATUS_OK;
}

/* Takes the gap out of the live bytes. False: nothing there is beyond the budget. */
static bool relieves(const mdnn_period_t *period, const mdnn_survey_gap_t *gap, uint64_t *live,
                     uint64_t budget)
{
    bool any = false;
    for (int32_t at = gap->gap.from + 1; at < gap->gap.to; at++)
        any = any || live[(uint32_t)at % period->operation_count] > budget;
    for (int32_t at = gap->gap.from + 1; any && at < gap->gap.to; at++)
        live[(uint32_t)at % period->operation_count] -= gap->bytes;
    return any;
}

mdnn_status_t mdnn_survey_run(const mdnn_period_t *period, mdnn_survey_roles_t roles,
                              const mdnn_survey_t *survey, uint64_t budget_bytes,
                              double most_us_per_byte, mdnn_survey_run_t *run)
{
    uint64_t *live = NULL;
    walk_t walk = {.period = period,
                   .roles = roles,
                   .gaps = survey->gaps,
                   .most_us_per_byte = most_us_per_byte,
                   .chosen = calloc(survey->count + 1, sizeof *walk.chosen)};
    mdnn_status_t status = walk.chosen ? live_bytes(period, &live) : MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; status == MDNN_STATUS_OK && i < survey->count; i++)
        if (survey->gaps[i].time_us >= 0 &&
            !is_too_dear(&walk, survey->gaps[i].time_us, survey->gaps[i].bytes))
            walk.chosen[i] = relieves(period, &survey->gaps[i], live, budget_bytes);
    if (status == MDNN_STATUS_OK)
        status = go(&walk, survey->count);
    if (status == MDNN_STATUS_OK)
        *run = walk.run;
    free(walk.chosen);
    free(live);
    return status;
}
