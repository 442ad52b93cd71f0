#include "offload/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

void mdnn_schedule_fini(mdnn_schedule_t *schedule)
{
    free(schedule->moves);
    free(schedule->joins);
    free(schedule->choices);
    *schedule = (mdnn_schedule_t){0};
}

mdnn_status_t mdnn_schedule_copy(const mdnn_schedule_t *schedule, uint32_t operation_count,
                                 mdnn_schedule_t *copy)
{
    mdnn_schedule_t made = {0};
    mdnn_status_t status = MDNN_STATUS_OK;
    for (size_t i = 0; status == MDNN_STATUS_OK && i < schedule->move_count; i++)
        status = mdnn_schedule_add_move(&made, schedule->moves[i]);
    for (size_t i = 0; status == MDNN_STATUS_OK && i < schedule->join_count; i++)
        status = mdnn_schedule_add_join(&made, schedule->joins[i]);
    if (status == MDNN_STATUS_OK && schedule->choices) {
        made.choices = calloc((size_t)operation_count + 1, sizeof *made.choices);
        if (made.choices)
            memcpy(made.choices, schedule->choices, operation_count * sizeof *made.choices);
        else
            status = MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status == MDNN_STATUS_OK)
        *copy = made;
    else
        mdnn_schedule_fini(&made);
    return status;
}

mdnn_status_t mdnn_schedule_add_move(mdnn_schedule_t *schedule, mdnn_move_t move)
{
    if (schedule->move_count == schedule->move_capacity) {
        const size_t capacity = schedule->move_capacity ? 2 * schedule->move_capacity : 16;
        mdnn_move_t *const grown = reallocarray(schedule->moves, capacity, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        schedule->moves = grown;
        schedule->move_capacity = capacity;
    }
    schedule->moves[schedule->move_count++] = move;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_schedule_add_join(mdnn_schedule_t *schedule, uint32_t before)
{
    if (schedule->join_count == schedule->join_capacity) {
        const size_t capacity = schedule->join_capacity ? 2 * schedule->join_capacity : 16;
        uint32_t *const grown = reallocarray(schedule->joins, capacity, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        schedule->joins = grown;
        schedule->join_capacity = capacity;
    }
    schedule->joins[schedule->join_count++] = before;
    return MDNN_STATUS_OK;
}

mdnn_move_t mdnn_move_of_gap(const mdnn_gap_t *gap)
{
    if (gap->from == MDNN_GAP_ALWAYS)
        return (mdnn_move_t){gap->range, MDNN_GAP_ALWAYS, MDNN_NEVER, MDNN_NEVER};
    if (gap->one_way)
        return (mdnn_move_t){gap->range, gap->from, MDNN_NEVER, MDNN_NEVER};
    return (mdnn_move_t){gap->range, gap->from, gap->to - 1, gap->to};
}

void mdnn_move_away(const mdnn_period_t *period, const mdnn_move_t *move, int32_t *from,
                    int32_t *to)
{
    const int32_t count = (int32_t)period->operation_count;
    if (move->leave_after == MDNN_GAP_ALWAYS) {
        *from = 0;
        *to = count;
        return;
    }
    *from = move->leave_after + 1;
    if (move->return_before != MDNN_NEVER) {
        *to = move->return_after + 1;
        return;
    }
    const int32_t death = (int32_t)period->ranges[move->range].death;
    *to = death + 1 + (death < move->leave_after ? count : 0);
}

/* Adds to bytes[i], modulo 2^64, for i in [from, to) on the circle, as changes to be summed up. */
static void add_circular(uint64_t *changes, int32_t count, int32_t from, int32_t to, uint64_t bytes)
{
    if (from >= to)
        return;
    if (from >= count) {
        from -= count;
        to -= count;
    }
    changes[from] += bytes;
    if (to < count)
        changes[to] -= bytes;
    if (to > count) {
        changes[0] += bytes;
        changes[to - count] -= bytes;
    }
}

void mdnn_schedule_resident_bytes(const mdnn_period_t *period, const mdnn_schedule_t *schedule,
                                  uint64_t *resident_bytes)
{
    const int32_t count = (int32_t)period->operation_count;
    mdnn_period_live_bytes(period, resident_bytes);
    for (int32_t i = count - 1; i > 0; i--) /* back to changes */
        resident_bytes[i] -= resident_bytes[i - 1];
    for (size_t m = 0; m < schedule->move_count; m++) {
        int32_t from, to;
        mdnn_move_away(period, &schedule->moves[m], &from, &to);
        add_circular(resident_bytes, count, from, to,
                     0 - period->ranges[schedule->moves[m].range].bytes);
    }
    for (int32_t i = 1; i < count; i++)
        resident_bytes[i] += resident_bytes[i - 1];
    for (int32_t i = 0; i < count; i++) {
        const uint32_t choice = schedule->choices ? schedule->choices[i] : 0;
        resident_bytes[i] +=
            period->variants[period->operations[i].first_variant + choice].workspace_bytes;
    }
}

mdnn_status_t mdnn_schedule_peak(const mdnn_period_t *period, const mdnn_schedule_t *schedule,
                                 uint64_t *peak_bytes)
{
    uint64_t *const resident = calloc((size_t)period->operation_count + 1, sizeof *resident);
    uint64_t peak = 0;
    if (!resident)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_schedule_resident_bytes(period, schedule, resident);
    for (uint32_t i = 0; i < period->operation_count; i++)
        peak = resident[i] > peak ? resident[i] : peak;
    free(resident);
    *peak_bytes = peak;
    return MDNN_STATUS_OK;
}

/* ---- checking ---- */

static bool lies_in(const mdnn_move_t *move, const mdnn_gap_t *gap)
{
    if (move->range != gap->range)
        return false;
    if (gap->from == MDNN_GAP_ALWAYS || move->leave_after == MDNN_GAP_ALWAYS)
        return gap->from == move->leave_after && move->return_before == MDNN_NEVER;
    const bool leaves = move->leave_after >= gap->from && move->leave_after < gap->to - 1;
    if (gap->one_way)
        return leaves && move->return_before == MDNN_NEVER;
    return leaves && move->return_before == gap->to && move->return_after >= move->leave_after &&
           move->return_after < gap->to;
}

/* Gaps are ordered by range. taken[g] counts the moves within gap g. */
static bool finds_gap(const mdnn_gap_t *gaps, size_t count, const mdnn_move_t *move, bool *taken)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (gaps[middle].range < move->range)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && gaps[low].range == move->range; low++)
        if (lies_in(move, &gaps[low])) {
            const bool is_free = !taken[low];
            taken[low] = true;
            return is_free;
        }
    return false;
}

static bool has_good_choices(const mdnn_period_t *period, const mdnn_schedule_t *schedule)
{
    for (uint32_t i = 0; schedule->choices && i < period->operation_count; i++)
        if (schedule->choices[i] >= period->operations[i].variant_count)
            return false;
    for (size_t i = 0; i < schedule->join_count; i++)
        if (schedule->joins[i] >= period->operation_count ||
            (i > 0 && schedule->joins[i] <= schedule->joins[i - 1]))
            return false;
    return true;
}

mdnn_status_t mdnn_schedule_check(const mdnn_period_t *period, const mdnn_schedule_t *schedule)
{
    mdnn_gap_t *gaps;
    size_t count;
    if (!has_good_choices(period, schedule))
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(mdnn_period_gaps(period, &gaps, &count));
    bool *const taken = calloc(count + 1, sizeof *taken);
    bool good = taken != NULL;
    for (size_t m = 0; good && m < schedule->move_count; m++)
        good = finds_gap(gaps, count, &schedule->moves[m], taken);
    const mdnn_status_t status = !taken ? MDNN_STATUS_OUT_OF_MEMORY
                                 : good ? MDNN_STATUS_OK
                                        : MDNN_STATUS_INVALID_ARGUMENT;
    free(taken);
    free(gaps);
    return status;
}
