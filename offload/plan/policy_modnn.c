/* moDNN's scheduling (Chen 2019, Algorithm 1), one simulated iteration in program order.
 * Differences: memory is chunks that any range can have, so an offloading scheme is a set of
 * ranges, not a run of neighbours, and nothing is ever defragmented (lines 5, 16 and 17 fall away:
 * where the two criteria of 5.2.1 leave too little to offload, whatever the task does not name may
 * go); weights and what else lives across the end of the period stay, as there; sub-batches are the
 * convolution's own affair. One stream carries all transfers of the simulation, as there; the
 * schedule is then timed like all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/policy.h"

typedef struct modnn {
    const mdnn_move_plan_request_t *request;
    const mdnn_period_t *period;
    mdnn_gap_t *gaps;
    size_t gap_count;
    /* Gaps of what lives within the period: in the order in which they begin; how many of them have begun before the task;
     * and those of these that are not over yet, or were not when they were looked at last. */
    uint32_t *by_begin, *around;
    uint32_t by_begin_count, begun, around_count;
    uint32_t *deaths, death_count; /* ranges in the order in which they die; how many have */
    size_t *last_move;             /* of each range; SIZE_MAX */
    uint32_t away_count;           /* ranges that are not there */
    uint64_t steps, steps_left;    /* of loops over more than what a task names */
    size_t *open;      /* of each range: the move that is away now, SIZE_MAX if it is there */
    bool *touched;     /* of each range: used since it was born or brought back (criterion 1) */
    bool *named;       /* of each range: by the task */
    bool *early;       /* of each range: brought back and not used since; nothing is copied if it
                          goes again, since it never came then */
    double *finish_us; /* of each task; +1: finish of what is before the period */
    double now_us, transfer_us; /* the current time; when the transfer stream is free */
    uint64_t resident_bytes;
    uint32_t task;
    mdnn_schedule_t schedule;
} modnn_t;

static uint64_t bytes_of(const modnn_t *modnn, uint32_t range)
{
    return modnn->period->ranges[range].bytes;
}

static double trans_us(const modnn_t *modnn, uint64_t bytes, bool out)
{
    const mdnn_link_t *const link = &modnn->request->link;
    return link->latency_us +
           (double)bytes / (out ? link->out_bytes_per_us : link->in_bytes_per_us);
}

static bool has_room(const modnn_t *modnn, uint64_t bytes)
{
    return modnn->resident_bytes <= modnn->request->budget_bytes &&
           bytes <= modnn->request->budget_bytes - modnn->resident_bytes;
}

/* ---- offloading schemes (5.2.1) ---- */

/* The gap of a resident range around the task, if it may go: it lives within the period and is not
 * named. With `strict` by the two criteria: used since it came, and not wanted at once. */
static bool may_go(const modnn_t *modnn, const mdnn_gap_t *gap, int32_t until, bool strict)
{
    const int32_t task = (int32_t)modnn->task;
    const mdnn_period_range_t *const range = &modnn->period->ranges[gap->range];
    if (mdnn_range_is_permanent(range) || range->death < range->birth ||
        modnn->open[gap->range] != SIZE_MAX || modnn->named[gap->range])
        return false;
    if (gap->from >= task || gap->to <= task || gap->to <= until)
        return false;
    return !strict || (modnn->touched[gap->range] && gap->to > task + 1);
}

/* When the transfer of a range that goes now would be over: it is put right behind the task that
 * used it last (figure 3), where the stream is free. */
static double gone_us(const modnn_t *modnn, const mdnn_gap_t *gap)
{
    if (modnn->early[gap->range])
        return modnn->finish_us[gap->from + 1];
    return fmax(modnn->transfer_us, modnn->finish_us[gap->from + 1]) +
           trans_us(modnn, bytes_of(modnn, gap->range), true);
}

/* Whether the work that was allowed for is done. */
static bool is_exhausted(modnn_t *modnn, uint64_t steps)
{
    modnn->steps += steps;
    modnn->steps_left -= steps < modnn->steps_left ? steps : modnn->steps_left;
    return modnn->steps_left == 0;
}

/* The i-th gap around the task; those that are over fall out. NULL: there are no more. */
static const mdnn_gap_t *gap_around(modnn_t *modnn, uint32_t i)
{
    while (i < modnn->around_count) {
        const mdnn_gap_t *const gap = &modnn->gaps[modnn->around[i]];
        if (gap->to > (int32_t)modnn->task)
            return gap;
        modnn->around[i] = modnn->around[--modnn->around_count];
    }
    return NULL;
}

/* The range that delays least, of equals the one that is wanted last. */
static const mdnn_gap_t *best_to_go(modnn_t *modnn, int32_t until, bool strict)
{
    const mdnn_gap_t *best = NULL, *gap;
    double best_us = INFINITY;
    if (is_exhausted(modnn, modnn->around_count))
        return NULL;
    for (uint32_t i = 0; (gap = gap_around(modnn, i)) != NULL; i++) {
        if (!may_go(modnn, gap, until, strict))
            continue;
        const double delay_us = fmax(0, gone_us(modnn, gap) - modnn->now_us);
        const bool later = best && (gap->to > best->to || (gap->to == best->to && gap < best));
        if (delay_us < best_us || (delay_us == best_us && later)) {
            best = gap;
            best_us = delay_us;
        }
    }
    return best;
}

/* The move of a gap whose range was brought back too early and goes again; SIZE_MAX if there is
 * none. */
static size_t earlier_move(const modnn_t *modnn, const mdnn_gap_t *gap)
{
    const size_t last = modnn->last_move[gap->range];
    return last != SIZE_MAX && modnn->schedule.moves[last].leave_after == gap->from ? last
                                                                                    : SIZE_MAX;
}

static mdnn_status_t offload(modnn_t *modnn, const mdnn_gap_t *gap)
{
    const size_t earlier = earlier_move(modnn, gap);
    const double over_us = gone_us(modnn, gap);
    if (!modnn->early[gap->range])
        modnn->transfer_us = over_us;
    modnn->now_us = fmax(modnn->now_us, over_us); /* T_cost: the memory is wanted now */
    modnn->resident_bytes -= bytes_of(modnn, gap->range);
    modnn->away_count++;
    if (earlier != SIZE_MAX) { /* as if it had never come back */
        modnn->open[gap->range] = earlier;
        return MDNN_STATUS_OK;
    }
    modnn->open[gap->range] = modnn->last_move[gap->range] = modnn->schedule.move_count;
    return mdnn_schedule_add_move(&modnn->schedule, mdnn_move_of_gap(gap));
}

/* Whether enough could go for `bytes` to have room, judged without letting go. */
static bool can_make_room(modnn_t *modnn, uint64_t bytes, int32_t until, bool strict)
{
    uint64_t free_bytes = 0;
    const mdnn_gap_t *gap;
    if (is_exhausted(modnn, modnn->around_count))
        return false;
    for (uint32_t i = 0; (gap = gap_around(modnn, i)) != NULL; i++)
        if (may_go(modnn, gap, until, strict))
            free_bytes += bytes_of(modnn, gap->range);
    return modnn->resident_bytes - free_bytes + bytes <= modnn->request->budget_bytes;
}

/* Lines 4 and 5. NOT_FOUND if nothing more can leave. */
static mdnn_status_t make_room(modnn_t *modnn, uint64_t bytes)
{
    while (!has_room(modnn, bytes)) {
        const mdnn_gap_t *gap = best_to_go(modnn, -1, true);
        gap = gap ? gap : best_to_go(modnn, -1, false);
        if (!gap)
            return MDNN_STATUS_NOT_FOUND;
        MDNN_TRY(offload(modnn, gap));
    }
    return MDNN_STATUS_OK;
}

/* ---- loading (lines 3 and 6, 15 to 27) ---- */

static void load(modnn_t *modnn, uint32_t range)
{
    mdnn_move_t *const move = &modnn->schedule.moves[modnn->open[range]];
    move->return_after = (int32_t)modnn->task - 1;
    modnn->open[range] = SIZE_MAX;
    modnn->away_count--;
    modnn->touched[range] = false;
    modnn->early[range] = true;
    modnn->resident_bytes += bytes_of(modnn, range);
    modnn->transfer_us =
        fmax(modnn->transfer_us, modnn->now_us) + trans_us(modnn, bytes_of(modnn, range), false);
}

/* Bytes and transfer time of what task `s` names and is away. */
static uint64_t missing_of(const modnn_t *modnn, uint32_t s, double *time_us)
{
    const mdnn_operation_t *const operation = &modnn->period->operations[s];
    uint64_t bytes = 0;
    *time_us = 0;
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = modnn->period->uses[operation->first_use + u].range;
        if (modnn->open[range] == SIZE_MAX)
            continue;
        bytes += bytes_of(modnn, range);
        *time_us += trans_us(modnn, bytes_of(modnn, range), false);
    }
    return bytes;
}

static void load_missing(modnn_t *modnn, uint32_t s)
{
    const mdnn_operation_t *const operation = &modnn->period->operations[s];
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = modnn->period->uses[operation->first_use + u].range;
        if (modnn->open[range] != SIZE_MAX)
            load(modnn, range);
    }
}

static double time_of(const modnn_t *modnn, uint32_t task, uint32_t choice)
{
    return modnn->period->variants[modnn->period->operations[task].first_variant + choice].time_us;
}

/* Lines 15 to 27, before a task that takes `task_us`. The expected start of a later task (5.2.2) is
 * now, and the fastest times of those between. */
static mdnn_status_t prefetch(modnn_t *modnn, double task_us)
{
    double start_us = modnn->now_us + task_us, missing_us;
    for (uint32_t s = modnn->task + 1;
         modnn->away_count > 0 && s < modnn->period->operation_count && !is_exhausted(modnn, 1);
         s++) {
        const uint64_t bytes = missing_of(modnn, s, &missing_us);
        if (bytes > 0) {
            if (modnn->now_us + task_us + missing_us <= start_us) /* equation 9 */
                return MDNN_STATUS_OK;
            if (!has_room(modnn, bytes) && !can_make_room(modnn, bytes, (int32_t)s, true))
                return MDNN_STATUS_OK;
            while (!has_room(modnn, bytes)) {
                const double now_us = modnn->now_us; /* the task does not wait for this */
                const mdnn_gap_t *const gap = best_to_go(modnn, (int32_t)s, true);
                if (!gap)
                    return MDNN_STATUS_NOT_FOUND;
                MDNN_TRY(offload(modnn, gap));
                modnn->now_us = now_us;
            }
            load_missing(modnn, s);
        }
        start_us += time_of(modnn, s, mdnn_operation_fastest(modnn->period, s, UINT64_MAX));
    }
    return MDNN_STATUS_OK;
}

/* ---- the variant (lines 9 to 14, equation 10) ---- */

/* T_off: how long room for the workspace delays the task, letting go of nothing yet: what must go
 * passes over the transfer stream. */
static double offload_us(modnn_t *modnn, uint64_t workspace_bytes)
{
    if (has_room(modnn, workspace_bytes))
        return 0;
    if (!can_make_room(modnn, workspace_bytes, -1, false))
        return INFINITY;
    const uint64_t missing = modnn->resident_bytes + workspace_bytes - modnn->request->budget_bytes;
    return fmax(0, modnn->transfer_us - modnn->now_us) + trans_us(modnn, missing, true);
}

/* T_pre: what the next task with something missing cannot prefetch beside the workspace. */
static double delayed_us(modnn_t *modnn, uint64_t workspace_bytes)
{
    for (uint32_t s = modnn->task + 1;
         modnn->away_count > 0 && s < modnn->period->operation_count && !is_exhausted(modnn, 1);
         s++) {
        double missing_us;
        const uint64_t bytes = missing_of(modnn, s, &missing_us);
        if (bytes == 0)
            continue;
        return has_room(modnn, bytes) && !has_room(modnn, bytes + workspace_bytes) ? missing_us : 0;
    }
    return 0;
}

static uint32_t choose_variant(modnn_t *modnn)
{
    const mdnn_operation_t *const operation = &modnn->period->operations[modnn->task];
    const uint32_t base = mdnn_operation_smallest(modnn->period, modnn->task);
    const double base_us = time_of(modnn, modnn->task, base);
    uint32_t best = base;
    double best_gain = -INFINITY;
    for (uint32_t v = 0; v < operation->variant_count; v++) {
        const mdnn_variant_t *const variant =
            &modnn->period->variants[operation->first_variant + v];
        const double gain = base_us - variant->time_us -
                            offload_us(modnn, variant->workspace_bytes) -
                            delayed_us(modnn, variant->workspace_bytes);
        if (gain > best_gain || (gain == best_gain && v == base)) {
            best = v;
            best_gain = gain;
        }
    }
    return best;
}

/* ---- Algorithm 1 ---- */

static void mark_named(modnn_t *modnn, bool named)
{
    const mdnn_operation_t *const operation = &modnn->period->operations[modnn->task];
    for (uint32_t u = 0; u < operation->use_count; u++)
        modnn->named[modnn->period->uses[operation->first_use + u].range] = named;
}

/* Lines 3 to 8. */
static mdnn_status_t prepare_data(modnn_t *modnn)
{
    const mdnn_operation_t *const operation = &modnn->period->operations[modnn->task];
    double missing_us;
    uint64_t bytes = missing_of(modnn, modnn->task, &missing_us);
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = modnn->period->uses[operation->first_use + u].range;
        if (modnn->period->ranges[range].birth == modnn->task)
            bytes += bytes_of(modnn, range);
    }
    MDNN_TRY(make_room(modnn, bytes));
    load_missing(modnn, modnn->task);
    if (missing_us > 0)
        modnn->now_us = fmax(modnn->now_us, modnn->transfer_us);
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = modnn->period->uses[operation->first_use + u].range;
        if (modnn->period->ranges[range].birth == modnn->task)
            modnn->resident_bytes += bytes_of(modnn, range);
    }
    return MDNN_STATUS_OK;
}

/* Lines 28 to 31. */
static void finish_task(modnn_t *modnn, double time_us, uint64_t workspace_bytes)
{
    const mdnn_operation_t *const operation = &modnn->period->operations[modnn->task];
    modnn->now_us += time_us;
    modnn->finish_us[modnn->task + 1] = modnn->now_us;
    modnn->resident_bytes -= workspace_bytes;
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_use_t *const use = &modnn->period->uses[operation->first_use + u];
        modnn->touched[use->range] |= modnn->period->ranges[use->range].birth != modnn->task;
        modnn->early[use->range] = false;
    }
    for (; modnn->death_count < modnn->period->range_count &&
           modnn->period->ranges[modnn->deaths[modnn->death_count]].death == modnn->task;
         modnn->death_count++) {
        const uint32_t range = modnn->deaths[modnn->death_count];
        if (modnn->open[range] == SIZE_MAX)
            modnn->resident_bytes -= bytes_of(modnn, range);
        else
            modnn->away_count--;
    }
}

/* Which gaps are around the task. */
static void look_around(modnn_t *modnn)
{
    while (modnn->begun < modnn->by_begin_count &&
           modnn->gaps[modnn->by_begin[modnn->begun]].from < (int32_t)modnn->task)
        modnn->around[modnn->around_count++] = modnn->by_begin[modnn->begun++];
}

static mdnn_status_t run_task(modnn_t *modnn)
{
    MDNN_TRY(mdnn_move_plan_goes_on(modnn->request));
    look_around(modnn);
    mark_named(modnn, true);
    MDNN_TRY(prepare_data(modnn));
    const uint32_t choice = choose_variant(modnn);
    const uint64_t workspace =
        modnn->period->variants[modnn->period->operations[modnn->task].first_variant + choice]
            .workspace_bytes;
    MDNN_TRY(make_room(modnn, workspace));
    modnn->resident_bytes += workspace;
    modnn->schedule.choices[modnn->task] = choice;
    MDNN_TRY(prefetch(modnn, time_of(modnn, modnn->task, choice)));
    finish_task(modnn, time_of(modnn, modnn->task, choice), workspace);
    mark_named(modnn, false);
    return MDNN_STATUS_OK;
}

typedef struct ranked {
    uint32_t position, item;
} ranked_t;

static int compare_ranks(const void *left, const void *right)
{
    const ranked_t *const a = left, *const b = right;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

static mdnn_status_t sort_items(ranked_t *ranked, uint32_t count, uint32_t **sorted)
{
    *sorted = calloc((size_t)count + 1, sizeof **sorted);
    if (!*sorted)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (count > 0)
        qsort(ranked, count, sizeof *ranked, compare_ranks);
    for (uint32_t i = 0; i < count; i++)
        (*sorted)[i] = ranked[i].item;
    return MDNN_STATUS_OK;
}

/* Gaps of what lives within the period by their beginnings, and ranges by their deaths. */
static mdnn_status_t sort_by_positions(modnn_t *modnn, ranked_t *ranked)
{
    const mdnn_period_range_t *const ranges = modnn->period->ranges;
    for (size_t g = 0; g < modnn->gap_count; g++) {
        const mdnn_gap_t *const gap = &modnn->gaps[g];
        if (!mdnn_range_is_permanent(&ranges[gap->range]) &&
            ranges[gap->range].death >= ranges[gap->range].birth)
            ranked[modnn->by_begin_count++] = (ranked_t){(uint32_t)gap->from, (uint32_t)g};
    }
    MDNN_TRY(sort_items(ranked, modnn->by_begin_count, &modnn->by_begin));
    for (uint32_t r = 0; r < modnn->period->range_count; r++)
        ranked[r] = (ranked_t){ranges[r].death, r};
    return sort_items(ranked, modnn->period->range_count, &modnn->deaths);
}

static mdnn_status_t prepare(modnn_t *modnn)
{
    const size_t ranges = (size_t)modnn->period->range_count + 1;
    const size_t tasks = (size_t)modnn->period->operation_count + 1;
    MDNN_TRY(mdnn_period_gaps(modnn->period, &modnn->gaps, &modnn->gap_count));
    modnn->open = calloc(ranges, sizeof *modnn->open);
    modnn->touched = calloc(ranges, sizeof *modnn->touched);
    modnn->named = calloc(ranges, sizeof *modnn->named);
    modnn->early = calloc(ranges, sizeof *modnn->early);
    modnn->finish_us = calloc(tasks, sizeof *modnn->finish_us);
    modnn->schedule.choices = calloc(tasks, sizeof *modnn->schedule.choices);
    modnn->around = calloc(modnn->gap_count + 1, sizeof *modnn->around);
    modnn->last_move = calloc(ranges, sizeof *modnn->last_move);
    ranked_t *const ranked = calloc(ranges + modnn->gap_count, sizeof *ranked);
    if (!modnn->open || !modnn->touched || !modnn->named || !modnn->early || !modnn->finish_us ||
        !modnn->schedule.choices || !modnn->around || !modnn->last_move || !ranked) {
        free(ranked);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    const mdnn_status_t status = sort_by_positions(modnn, ranked);
    free(ranked);
    MDNN_TRY(status);
    for (uint32_t r = 0; r < modnn->period->range_count; r++) {
        const mdnn_period_range_t *const range = &modnn->period->ranges[r];
        modnn->open[r] = modnn->last_move[r] = SIZE_MAX;
        if (mdnn_range_is_permanent(range) || range->death < range->birth)
            modnn->resident_bytes += range->bytes;
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_policy_modnn(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    return mdnn_modnn_within(request, UINT64_MAX, plan);
}

mdnn_status_t mdnn_modnn_within(const mdnn_move_plan_request_t *request, uint64_t steps,
                                mdnn_move_plan_t *plan)
{
    modnn_t modnn = {.request = request, .period = request->period, .steps_left = steps};
    mdnn_status_t status = prepare(&modnn);
    for (; status == MDNN_STATUS_OK && modnn.task < modnn.period->operation_count; modnn.task++)
        status = run_task(&modnn);
    if (status == MDNN_STATUS_NOT_FOUND) { /* considered all the same, for what it would need */
        for (; modnn.task < modnn.period->operation_count; modnn.task++)
            modnn.schedule.choices[modnn.task] = mdnn_operation_smallest(modnn.period, modnn.task);
        status = MDNN_STATUS_OK;
    }
    if (status == MDNN_STATUS_OK)
        status = mdnn_move_plan_consider(request, MDNN_POLICY_MODNN, MDNN_VARIANTS_FITTING,
                                         &modnn.schedule, plan);
    plan->steps += modnn.steps;
    mdnn_schedule_fini(&modnn.schedule);
    free(modnn.gaps);
    free(modnn.open);
    free(modnn.touched);
    free(modnn.named);
    free(modnn.early);
    free(modnn.finish_us);
    free(modnn.by_begin);
    free(modnn.around);
    free(modnn.deaths);
    free(modnn.last_move);
    return status;
}
