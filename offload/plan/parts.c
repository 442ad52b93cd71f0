#include "offload/plan/parts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 16 };

/* first[r] to first[r + 1]: the parts of range r. */
typedef struct cut {
    const mdnn_period_t *period;
    uint64_t chunk_bytes, part_bytes;
    uint32_t *first;
    mdnn_parts_t *parts;
} cut_t;

void mdnn_parts_fini(mdnn_parts_t *parts)
{
    mdnn_period_fini(&parts->period);
    free(parts->whole);
    free(parts->begin);
    *parts = (mdnn_parts_t){0};
}

static uint32_t parts_of(const cut_t *cut, uint32_t range, bool used)
{
    const mdnn_period_range_t *const whole = &cut->period->ranges[range];
    const uint64_t parts = whole->bytes / cut->part_bytes;
    /* What nothing uses may be away for good; who is which of those is known by their sizes. */
    if (whole->stays || !used || parts < 2)
        return 1;
    return parts < MOST_PARTS ? (uint32_t)parts : MOST_PARTS;
}

static mdnn_status_t count_parts(const cut_t *cut, uint32_t *use_count)
{
    const mdnn_period_t *const period = cut->period;
    uint64_t ranges = 0, uses = 0;
    bool *const used = calloc((size_t)period->range_count + 1, sizeof *used);
    if (!used)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t u = 0; u < period->use_count; u++)
        used[period->uses[u].range] = true;
    for (uint32_t r = 0; r < period->range_count; r++) {
        cut->first[r] = (uint32_t)ranges;
        ranges += parts_of(cut, r, used[r]);
    }
    cut->first[period->range_count] = (uint32_t)ranges;
    free(used);
    for (uint32_t u = 0; u < period->use_count; u++)
        uses += cut->first[period->uses[u].range + 1] - cut->first[period->uses[u].range];
    if (ranges >= MDNN_NO_POSITION || uses >= MDNN_NO_POSITION)
        return MDNN_STATUS_OVERFLOW;
    *use_count = (uint32_t)uses;
    return MDNN_STATUS_OK;
}

/* The last parts are the larger ones, by a chunk: then mdnn_parts_order sends away no less. */
static void cut_range(const cut_t *cut, uint32_t range)
{
    const mdnn_period_range_t *const whole = &cut->period->ranges[range];
    const uint32_t first = cut->first[range], count = cut->first[range + 1] - first;
    const uint64_t chunks = count > 1 ? whole->bytes / cut->chunk_bytes : 0;
    const uint64_t larger_from = count - chunks % count;
    uint64_t begin = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t most = whole->bytes - begin;
        const uint64_t bytes = (chunks / count + (i >= larger_from)) * cut->chunk_bytes;
        mdnn_period_range_t *const part = &cut->parts->period.ranges[first + i];
        *part = *whole;
        part->bytes = i + 1 < count ? bytes : most;
        part->padding_bytes = i + 1 < count                 ? 0
                              : whole->padding_bytes < most ? whole->padding_bytes
                                                            : most;
        cut->parts->whole[first + i] = range;
        cut->parts->begin[first + i] = begin;
        begin += part->bytes;
    }
}

static void cut_uses(const cut_t *cut)
{
    mdnn_period_t *const made = &cut->parts->period;
    uint32_t count = 0;
    for (uint32_t i = 0; i < made->operation_count; i++) {
        mdnn_operation_t *const operation = &made->operations[i];
        const mdnn_use_t *const uses = cut->period->uses + operation->first_use;
        const uint32_t use_count = operation->use_count;
        operation->first_use = count;
        for (uint32_t u = 0; u < use_count; u++)
            for (uint32_t p = cut->first[uses[u].range]; p < cut->first[uses[u].range + 1]; p++)
                made->uses[count++] = (mdnn_use_t){p, uses[u].role};
        operation->use_count = count - operation->first_use;
    }
}

/* Room for what count_parts counted; operations and variants as they are. */
static mdnn_status_t make_room(const cut_t *cut, uint32_t use_count)
{
    mdnn_parts_t *const parts = cut->parts;
    const uint32_t count = cut->first[cut->period->range_count];
    MDNN_TRY(mdnn_period_copy(cut->period, &parts->period));
    free(parts->period.uses);
    free(parts->period.ranges);
    parts->period.uses = calloc((size_t)use_count + 1, sizeof *parts->period.uses);
    parts->period.ranges = calloc((size_t)count + 1, sizeof *parts->period.ranges);
    parts->period.use_count = use_count;
    parts->period.range_count = count;
    parts->whole = calloc((size_t)count + 1, sizeof *parts->whole);
    parts->begin = calloc((size_t)count + 1, sizeof *parts->begin);
    const bool ok = parts->period.uses && parts->period.ranges && parts->whole && parts->begin;
    return ok ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

mdnn_status_t mdnn_parts_cut(const mdnn_period_t *period, uint64_t chunk_bytes, uint64_t part_bytes,
                             mdnn_parts_t *parts)
{
    mdnn_parts_t made = {0};
    uint32_t use_count;
    const cut_t cut = {
        .period = period,
        .chunk_bytes = chunk_bytes,
        .part_bytes = part_bytes > chunk_bytes ? part_bytes : chunk_bytes,
        .first = calloc((size_t)period->range_count + 1, sizeof *cut.first),
        .parts = &made,
    };
    mdnn_status_t status = cut.first ? count_parts(&cut, &use_count) : MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_OK)
        status = make_room(&cut, use_count);
    for (uint32_t r = 0; status == MDNN_STATUS_OK && r < period->range_count; r++)
        cut_range(&cut, r);
    if (status == MDNN_STATUS_OK)
        cut_uses(&cut);
    free(cut.first);
    if (status == MDNN_STATUS_OK)
        *parts = made;
    else
        mdnn_parts_fini(&made);
    return status;
}

/* ---- order ---- */

typedef struct grouped {
    uint32_t whole;
    int32_t leave_after, return_before;
    int32_t return_after;
    size_t move; /* its index */
} grouped_t;

/* Moves of parts of one range in one gap are a group. */
static int compare_groups(const grouped_t *a, const grouped_t *b)
{
    if (a->whole != b->whole)
        return a->whole < b->whole ? -1 : 1;
    if (a->leave_after != b->leave_after)
        return a->leave_after < b->leave_after ? -1 : 1;
    return a->return_before < b->return_before ? -1 : a->return_before > b->return_before;
}

static int compare_moves(const void *left, const void *right)
{
    const grouped_t *const a = left, *const b = right;
    const int order = compare_groups(a, b);
    return order != 0 ? order : a->move < b->move ? -1 : 1;
}

static int compare_returns(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

static void order_group(const mdnn_parts_t *parts, mdnn_schedule_t *schedule,
                        const grouped_t *group, size_t count, int32_t *returns)
{
    uint32_t end = schedule->moves[group->move].range;
    while (end < parts->period.range_count && parts->whole[end] == group->whole)
        end++;
    for (size_t i = 0; i < count; i++)
        returns[i] = group[i].return_after;
    qsort(returns, count, sizeof *returns, compare_returns);
    for (size_t i = 0; i < count; i++) {
        mdnn_move_t *const move = &schedule->moves[group[i].move];
        move->range = end - (uint32_t)(count - i);
        move->return_after = returns[i];
    }
}

mdnn_status_t mdnn_parts_order(const mdnn_parts_t *parts, mdnn_schedule_t *schedule)
{
    const size_t count = schedule->move_count;
    grouped_t *const grouped = calloc(count + 1, sizeof *grouped);
    int32_t *const returns = calloc(count + 1, sizeof *returns);
    for (size_t m = 0; grouped && returns && m < count; m++) {
        const mdnn_move_t *const move = &schedule->moves[m];
        grouped[m] = (grouped_t){parts->whole[move->range], move->leave_after, move->return_before,
                                 move->return_after, m};
    }
    if (grouped && returns && count > 0)
        qsort(grouped, count, sizeof *grouped, compare_moves);
    for (size_t begin = 0, end; grouped && returns && begin < count; begin = end) {
        for (end = begin + 1; end < count && compare_groups(&grouped[begin], &grouped[end]) == 0;)
            end++;
        order_group(parts, schedule, &grouped[begin], end - begin, returns);
    }
    const bool ok = grouped && returns;
    free(grouped);
    free(returns);
    return ok ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}
