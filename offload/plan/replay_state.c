/* What a replay runs through: the schedule by positions, and where everything is when it begins. */
#include "offload/plan/replay_internal.h"

#include <math.h>
#include <stdlib.h>

typedef int32_t position_of_t(const replay_t *replay, uint32_t item);

/* Position of an item that may lie outside the period; NONE if it has none. */
static int32_t on_circle(const replay_t *replay, int32_t position)
{
    if (position == MDNN_NEVER || position == MDNN_GAP_ALWAYS)
        return NONE;
    return (int32_t)(((int64_t)position + replay->count) % replay->count);
}

static int32_t birth_of(const replay_t *replay, uint32_t range)
{
    return (int32_t)replay->period->ranges[range].birth; /* MDNN_NO_POSITION becomes NONE */
}

static int32_t death_of(const replay_t *replay, uint32_t range)
{
    return (int32_t)replay->period->ranges[range].death;
}

static int32_t leave_of(const replay_t *replay, uint32_t move)
{
    return on_circle(replay, replay->moves[move].leave_after);
}

static int32_t return_of(const replay_t *replay, uint32_t move)
{
    return on_circle(replay, replay->moves[move].return_after);
}

static int32_t back_of(const replay_t *replay, uint32_t move)
{
    return on_circle(replay, replay->moves[move].return_before);
}

static int32_t range_of(const replay_t *replay, uint32_t move)
{
    return (int32_t)replay->moves[move].range;
}

/* Items keep their order within a list. False without memory. */
static bool fill_lists(const replay_t *replay, replay_lists_t *lists, uint32_t list_count,
                       uint32_t item_count, position_of_t *position_of)
{
    lists->first = calloc((size_t)list_count + 2, sizeof *lists->first);
    lists->items = calloc((size_t)item_count + 1, sizeof *lists->items);
    if (!lists->first || !lists->items)
        return false;
    for (uint32_t i = 0; i < item_count; i++)
        if (position_of(replay, i) >= 0)
            lists->first[position_of(replay, i) + 2]++;
    for (uint32_t p = 2; p <= list_count; p++)
        lists->first[p] += lists->first[p - 1];
    for (uint32_t i = 0; i < item_count; i++)
        if (position_of(replay, i) >= 0)
            lists->items[lists->first[position_of(replay, i) + 1]++] = i;
    return true;
}

static void free_lists(replay_lists_t *lists)
{
    free(lists->first);
    free(lists->items);
}

/* Ranges that live across the beginning are resident, except for those whose move says
 * otherwise. */
static void begin_state(replay_t *replay)
{
    for (uint32_t r = 0; r < replay->period->range_count; r++) {
        const mdnn_period_range_t *const range = &replay->period->ranges[r];
        replay->copying[r] = NONE;
        if (mdnn_range_is_permanent(range) || range->death < range->birth)
            replay->held_bytes += range->bytes;
    }
    for (size_t m = 0; m < replay->request->schedule->move_count; m++) {
        const mdnn_move_t *const move = &replay->moves[m];
        int32_t from, to;
        mdnn_move_away(replay->period, move, &from, &to);
        if (move->leave_after != MDNN_GAP_ALWAYS && (from > replay->count || to <= replay->count))
            continue;
        replay->states[m] = (replay_move_t){.left = true, .freed = true};
        mdnn_replay_take_host(replay, move->range);
        replay->held_bytes -= mdnn_replay_bytes_of(replay, move->range);
    }
    replay->result.peak_bytes = replay->held_bytes;
}

mdnn_status_t mdnn_replay_open(replay_t *replay, const mdnn_replay_request_t *request)
{
    const mdnn_schedule_t *const schedule = request->schedule;
    *replay = (replay_t){.request = request,
                         .period = request->period,
                         .moves = schedule->moves,
                         .count = (int32_t)request->period->operation_count,
                         .most_bytes_per_us = {INFINITY, INFINITY}};
    const uint32_t count = replay->period->operation_count, ranges = replay->period->range_count;
    const uint32_t moves = (uint32_t)schedule->move_count;
    replay->joins = calloc((size_t)count + 1, sizeof *replay->joins);
    replay->copying = calloc((size_t)ranges + 1, sizeof *replay->copying);
    replay->states = calloc((size_t)moves + 1, sizeof *replay->states);
    if (!replay->joins || !replay->copying || !replay->states ||
        !fill_lists(replay, &replay->births, count, ranges, birth_of) ||
        !fill_lists(replay, &replay->deaths, count, ranges, death_of) ||
        !fill_lists(replay, &replay->leaves, count, moves, leave_of) ||
        !fill_lists(replay, &replay->returns, count, moves, return_of) ||
        !fill_lists(replay, &replay->backs, count, moves, back_of) ||
        !fill_lists(replay, &replay->of_range, ranges, moves, range_of))
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < schedule->join_count; i++)
        replay->joins[schedule->joins[i]] = true;
    begin_state(replay);
    return MDNN_STATUS_OK;
}

void mdnn_replay_fini(replay_t *replay)
{
    replay_lists_t *const all[] = {&replay->births,  &replay->deaths, &replay->leaves,
                                   &replay->returns, &replay->backs,  &replay->of_range};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_lists(all[i]);
    for (int d = 0; d < DIRECTIONS; d++)
        free(replay->engines[d].copies);
    free(replay->joins);
    free(replay->copying);
    free(replay->states);
}
