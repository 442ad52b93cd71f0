/* How good the plans of recorded runs are (`microdnn run --record`), each in the budget and over the link of its run.
 *
 *     bench_records REPLAYS RECORD...
 *
 * Prints a line of words for each record: its file; milliseconds of the plan that the library makes in a tenth of a
 * second; of the best of ten searches with ten times that effort, each of which begins with other scores; of the best
 * schedule that a search of another kind finds in so many replays: it changes single moves of the plan at random, and
 * at first accepts changes that make it slower; and of the link bound. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/best_plan.h"
#include "test/tools/record_file.h"
#include "test/unit/must.h"
#include "test/unit/random.h"

enum { SEARCHES = 10, MORE_EFFORT = 10, USUAL_EFFORT = 200 };
static const double WORSE_AT_FIRST = 0.0005; /* than the present schedule */
static const double COST_BEYOND = 3;

static mdnn_best_plan_request_t request_of(const mdnn_run_record_t *record)
{
    return (mdnn_best_plan_request_t){.plan = {.period = &record->period,
                                               .policy = MDNN_POLICY_AUTO,
                                               .link = record->link,
                                               .budget_bytes = record->ranges_bytes,
                                               .host_limit_bytes = UINT64_MAX},
                                      .chunk_bytes = record->chunk_bytes,
                                      .patient = true};
}

/* ---- random starts ---- */

static double best_of_searches_us(mdnn_best_plan_request_t request)
{
    double best_us = INFINITY;
    request.plan.effort = MORE_EFFORT * USUAL_EFFORT;
    for (uint32_t seed = 0; seed < SEARCHES; seed++) {
        mdnn_parts_t parts;
        mdnn_move_plan_t plan;
        request.plan.seed = seed;
        MUST(mdnn_best_plan(&request, &parts, &plan) == MDNN_STATUS_OK);
        best_us = fmin(best_us, plan.predicted.time_us);
        mdnn_parts_fini(&parts);
        mdnn_move_plan_fini(&plan);
    }
    return best_us;
}

/* ---- single changes ---- */

typedef struct local {
    mdnn_replay_request_t replay;
    mdnn_schedule_t schedule;
    mdnn_gap_t *gaps;
    size_t gap_count;
    uint64_t budget_bytes, random;
} local_t;

static uint64_t below(local_t *local, uint64_t end)
{
    return random_next(&local->random) % end;
}

/* Of the present schedule; what it holds beyond the budget counts as if it had to move as well, several times. */
static double cost_us(local_t *local, bool *fits)
{
    mdnn_replay_result_t result;
    uint64_t peak = 0;
    MUST(mdnn_schedule_peak(local->replay.period, &local->schedule, &peak) == MDNN_STATUS_OK);
    *fits = peak <= local->budget_bytes;
    local->replay.budget_bytes = *fits ? local->budget_bytes : peak;
    if (mdnn_replay(&local->replay, &result) != MDNN_STATUS_OK)
        return INFINITY;
    return result.time_us + (double)(local->replay.budget_bytes - local->budget_bytes) *
                                COST_BEYOND / local->replay.link.out_bytes_per_us;
}

/* A power of two at most 2^16, up or down. */
static int32_t random_step(local_t *local)
{
    const int32_t step = (int32_t)1 << below(local, 17);
    return below(local, 2) == 0 ? step : -step;
}

static void shift_return(local_t *local)
{
    mdnn_move_t *const move = &local->schedule.moves[below(local, local->schedule.move_count)];
    const int32_t to = move->return_after + random_step(local);
    if (move->return_before == MDNN_NEVER)
        return;
    move->return_after = to < move->leave_after      ? move->leave_after
                         : to >= move->return_before ? move->return_before - 1
                                                     : to;
}

static void drop_move(local_t *local)
{
    const size_t at = below(local, local->schedule.move_count);
    mdnn_move_t *const moves = local->schedule.moves;
    local->schedule.move_count--;
    memmove(&moves[at], &moves[at + 1], (local->schedule.move_count - at) * sizeof *moves);
}

/* Somewhere in the order, unless the gap has a move. */
static void add_move(local_t *local)
{
    const mdnn_move_t added = mdnn_move_of_gap(&local->gaps[below(local, local->gap_count)]);
    for (size_t m = 0; m < local->schedule.move_count; m++)
        if (local->schedule.moves[m].range == added.range &&
            local->schedule.moves[m].leave_after == added.leave_after)
            return;
    MUST(mdnn_schedule_add_move(&local->schedule, added) == MDNN_STATUS_OK);
    mdnn_move_t *const moves = local->schedule.moves;
    const size_t at = below(local, local->schedule.move_count);
    memmove(&moves[at + 1], &moves[at], (local->schedule.move_count - 1 - at) * sizeof *moves);
    moves[at] = added;
}

static void swap_moves(local_t *local)
{
    const size_t at = below(local, local->schedule.move_count);
    if (at + 1 < local->schedule.move_count) {
        const mdnn_move_t first = local->schedule.moves[at];
        local->schedule.moves[at] = local->schedule.moves[at + 1];
        local->schedule.moves[at + 1] = first;
    }
}

static void change(local_t *local)
{
    const uint64_t kind = below(local, 8);
    if (local->schedule.move_count == 0 || kind == 0)
        add_move(local);
    else if (kind == 1)
        drop_move(local);
    else if (kind == 2) { /* another range instead */
        drop_move(local);
        add_move(local);
    } else if (kind == 3)
        swap_moves(local);
    else
        shift_return(local);
}

static double best_of_changes_us(const mdnn_run_record_t *record, const mdnn_parts_t *parts,
                                 const mdnn_move_plan_t *plan, uint32_t replays)
{
    local_t local = {.replay = {.period = &parts->period, .link = record->link},
                     .budget_bytes = record->ranges_bytes,
                     .random = 1};
    const uint32_t operations = parts->period.operation_count;
    double now_us = plan->predicted.time_us, best_us = now_us;
    MUST(mdnn_period_gaps(&parts->period, &local.gaps, &local.gap_count) == MDNN_STATUS_OK);
    MUST(mdnn_schedule_copy(&plan->schedule, operations, &local.schedule) == MDNN_STATUS_OK);
    local.replay.schedule = &local.schedule;
    for (uint32_t i = 0; i < replays && local.gap_count > 0; i++) {
        mdnn_schedule_t before;
        MUST(mdnn_schedule_copy(&local.schedule, operations, &before) == MDNN_STATUS_OK);
        change(&local);
        bool fits;
        const double found_us = cost_us(&local, &fits);
        const double worse = fmax(0, WORSE_AT_FIRST * (1 - 1.25 * i / replays));
        if (found_us <= now_us * (1 + worse)) {
            now_us = found_us;
            best_us = fits ? fmin(best_us, now_us) : best_us;
            mdnn_schedule_fini(&before);
        } else {
            mdnn_schedule_fini(&local.schedule);
            local.schedule = before;
        }
    }
    mdnn_schedule_fini(&local.schedule);
    free(local.gaps);
    return best_us;
}

static void look_at(const char *path, uint32_t replays)
{
    mdnn_run_record_t record;
    mdnn_parts_t parts;
    mdnn_move_plan_t plan;
    if (!record_file_read("bench_records", path, &record))
        exit(1);
    const mdnn_best_plan_request_t request = request_of(&record);
    MUST(mdnn_best_plan(&request, &parts, &plan) == MDNN_STATUS_OK &&
         plan.verdict == MDNN_VERDICT_FITS);
    printf("%s %.3f %.3f %.3f %.3f\n", path, plan.predicted.time_us / 1e3,
           best_of_searches_us(request) / 1e3,
           best_of_changes_us(&record, &parts, &plan, replays) / 1e3, plan.link_bound_us / 1e3);
    fflush(stdout);
    mdnn_parts_fini(&parts);
    mdnn_move_plan_fini(&plan);
    mdnn_period_fini(&record.period);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    const unsigned long replays = argc > 2 ? strtoul(argv[1], &end, 10) : 0;
    if (!end || *end != 0 || replays == 0 || replays > UINT32_MAX) {
        fprintf(stderr, "usage: bench_records REPLAYS RECORD...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        look_at(argv[i], (uint32_t)replays);
    return 0;
}
