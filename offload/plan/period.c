#include "offload/plan/period.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void mdnn_period_fini(mdnn_period_t *period)
{
    free(period->operations);
    free(period->uses);
    free(period->variants);
    free(period->ranges);
    *period = (mdnn_period_t){0};
}

static bool copy_array(void **to, const void *from, size_t count, size_t bytes)
{
    *to = calloc(count ? count : 1, bytes);
    if (*to && count)
        memcpy(*to, from, count * bytes);
    return *to != NULL;
}

mdnn_status_t mdnn_period_copy(const mdnn_period_t *period, mdnn_period_t *copy)
{
    mdnn_period_t made = *period;
    void *operations = NULL, *uses = NULL, *variants = NULL, *ranges = NULL;
    const bool ok =
        copy_array(&operations, period->operations, made.operation_count,
                   sizeof *made.operations) &&
        copy_array(&uses, period->uses, made.use_count, sizeof *made.uses) &&
        copy_array(&variants, period->variants, made.variant_count, sizeof *made.variants) &&
        copy_array(&ranges, period->ranges, made.range_count, sizeof *made.ranges);
    made.operations = operations;
    made.uses = uses;
    made.variants = variants;
    made.ranges = ranges;
    if (!ok) {
        mdnn_period_fini(&made);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    *copy = made;
    return MDNN_STATUS_OK;
}

bool mdnn_range_is_permanent(const mdnn_period_range_t *range)
{
    return range->birth == MDNN_NO_POSITION;
}

bool mdnn_range_lives_at(const mdnn_period_range_t *range, uint32_t position)
{
    if (mdnn_range_is_permanent(range))
        return true;
    if (range->birth <= range->death)
        return position >= range->birth && position <= range->death;
    return position >= range->birth || position <= range->death;
}

/* ---- checking ---- */

static mdnn_status_t check_ranges(const mdnn_period_t *period)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < period->range_count; r++) {
        const mdnn_period_range_t *const range = &period->ranges[r];
        const bool born = range->birth < period->operation_count;
        const bool dies = range->death < period->operation_count;
        if (born != dies ||
            (!born && (range->birth != MDNN_NO_POSITION || range->death != MDNN_NO_POSITION)))
            return MDNN_STATUS_INVALID_ARGUMENT;
        if (range->padding_bytes > range->bytes)
            return MDNN_STATUS_INVALID_ARGUMENT;
        if (__builtin_add_overflow(sum, range->bytes, &sum) || sum > (uint64_t)1 << 62)
            return MDNN_STATUS_OVERFLOW;
    }
    return MDNN_STATUS_OK;
}

static bool within(uint32_t first, uint32_t count, uint32_t end)
{
    return first <= end && count <= end - first;
}

static bool is_good_operation(const mdnn_period_t *period, uint32_t position)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    if (!within(operation->first_use, operation->use_count, period->use_count) ||
        !within(operation->first_variant, operation->variant_count, period->variant_count) ||
        operation->variant_count == 0 || (unsigned)operation->kind >= MDNN_OPERATION_KIND_COUNT)
        return false;
    for (uint32_t v = 0; v < operation->variant_count; v++) {
        const mdnn_variant_t *const variant = &period->variants[operation->first_variant + v];
        if (!(variant->time_us >= 0) || !isfinite(variant->time_us) ||
            variant->workspace_bytes > (uint64_t)1 << 62)
            return false;
    }
    return true;
}

/* `last` holds, for each range, the position behind the last operation that named it. */
static bool has_good_uses(const mdnn_period_t *period, uint32_t position, uint32_t *last)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_use_t *const use = &period->uses[operation->first_use + u];
        if (use->range >= period->range_count || (unsigned)use->role >= MDNN_USE_ROLE_COUNT ||
            last[use->range] == position + 1 ||
            !mdnn_range_lives_at(&period->ranges[use->range], position))
            return false;
        last[use->range] = position + 1;
    }
    return true;
}

static bool is_named_at_birth(const mdnn_period_t *period, uint32_t range)
{
    const mdnn_operation_t *const operation = &period->operations[period->ranges[range].birth];
    for (uint32_t u = 0; u < operation->use_count; u++)
        if (period->uses[operation->first_use + u].range == range)
            return true;
    return false;
}

mdnn_status_t mdnn_period_check(const mdnn_period_t *period)
{
    if (period->operation_count > MDNN_PERIOD_OPERATIONS)
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(check_ranges(period));
    uint32_t *const last = calloc((size_t)period->range_count + 1, sizeof *last);
    if (!last)
        return MDNN_STATUS_OUT_OF_MEMORY;
    bool good = true;
    for (uint32_t i = 0; good && i < period->operation_count; i++)
        good = is_good_operation(period, i) && has_good_uses(period, i, last);
    for (uint32_t r = 0; good && r < period->range_count; r++)
        good = mdnn_range_is_permanent(&period->ranges[r]) || is_named_at_birth(period, r);
    free(last);
    return good ? MDNN_STATUS_OK : MDNN_STATUS_INVALID_ARGUMENT;
}

/* ---- bytes and times ---- */

void mdnn_period_live_bytes(const mdnn_period_t *period, uint64_t *live_bytes)
{
    uint64_t at_start = 0;
    memset(live_bytes, 0, period->operation_count * sizeof *live_bytes);
    /* Changes first, modulo 2^64, then their sums. */
    for (uint32_t r = 0; r < period->range_count; r++) {
        const mdnn_period_range_t *const range = &period->ranges[r];
        if (mdnn_range_is_permanent(range)) {
            at_start += range->bytes;
            continue;
        }
        if (range->death < range->birth)
            at_start += range->bytes;
        live_bytes[range->birth] += range->bytes;
        if (range->death + 1 < period->operation_count)
            live_bytes[range->death + 1] -= range->bytes;
    }
    uint64_t sum = at_start;
    for (uint32_t i = 0; i < period->operation_count; i++)
        live_bytes[i] = sum += live_bytes[i];
}

static bool is_better(const mdnn_variant_t *a, const mdnn_variant_t *b, bool by_time)
{
    if (by_time && a->time_us != b->time_us)
        return a->time_us < b->time_us;
    if (a->workspace_bytes != b->workspace_bytes)
        return a->workspace_bytes < b->workspace_bytes;
    return a->time_us < b->time_us;
}

static uint32_t best_variant(const mdnn_period_t *period, uint32_t position, uint64_t limit_bytes,
                             bool by_time)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    const mdnn_variant_t *const variants = &period->variants[operation->first_variant];
    uint32_t best = MDNN_NO_POSITION;
    for (uint32_t v = 0; v < operation->variant_count; v++)
        if (variants[v].workspace_bytes <= limit_bytes &&
            (best == MDNN_NO_POSITION || is_better(&variants[v], &variants[best], by_time)))
            best = v;
    return best;
}

uint32_t mdnn_operation_fastest(const mdnn_period_t *period, uint32_t position,
                                uint64_t limit_bytes)
{
    return best_variant(period, position, limit_bytes, true);
}

uint32_t mdnn_operation_smallest(const mdnn_period_t *period, uint32_t position)
{
    return best_variant(period, position, UINT64_MAX, false);
}

mdnn_status_t mdnn_period_floor(const mdnn_period_t *period, uint64_t *floor_bytes)
{
    uint64_t *const stay = calloc((size_t)period->operation_count + 1, sizeof *stay);
    mdnn_period_range_t *const staying = calloc((size_t)period->range_count + 1, sizeof *staying);
    uint64_t most = 0;
    if (!stay || !staying) {
        free(stay);
        free(staying);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    for (uint32_t r = 0; r < period->range_count; r++) {
        staying[r] = period->ranges[r];
        staying[r].bytes = period->ranges[r].stays ? period->ranges[r].bytes : 0;
    }
    mdnn_period_t only = *period;
    only.ranges = staying;
    mdnn_period_live_bytes(&only, stay);
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        uint64_t bytes = stay[i];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const mdnn_period_range_t *const range =
                &period->ranges[period->uses[operation->first_use + u].range];
            bytes += range->stays ? 0 : range->bytes;
        }
        bytes += period->variants[operation->first_variant + mdnn_operation_smallest(period, i)]
                     .workspace_bytes;
        most = bytes > most ? bytes : most;
    }
    free(stay);
    free(staying);
    *floor_bytes = most;
    return MDNN_STATUS_OK;
}

double mdnn_period_compute_us(const mdnn_period_t *period, const uint32_t *choices)
{
    double sum_us = 0;
    for (uint32_t i = 0; i < period->operation_count; i++)
        sum_us += period->variants[period->operations[i].first_variant + (choices ? choices[i] : 0)]
                      .time_us;
    return sum_us;
}

/* ---- gaps ---- */

/* All uses sorted by range, then by position: counting sort. */
typedef struct sorted {
    int32_t *uses;   /* positions */
    uint32_t *first; /* range_count + 1 */
} sorted_t;

static void sorted_fini(sorted_t *sorted)
{
    free(sorted->uses);
    free(sorted->first);
}

static mdnn_status_t sort_uses(const mdnn_period_t *period, sorted_t *sorted)
{
    sorted->uses = calloc((size_t)period->use_count + 1, sizeof *sorted->uses);
    sorted->first = calloc((size_t)period->range_count + 3, sizeof *sorted->first);
    if (!sorted->uses || !sorted->first) {
        sorted_fini(sorted);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    uint32_t *const next = sorted->first + 1; /* first[r + 1] counts up from where r begins */
    for (uint32_t i = 0; i < period->operation_count; i++)
        for (uint32_t u = 0; u < period->operations[i].use_count; u++)
            sorted->first[period->uses[period->operations[i].first_use + u].range + 2]++;
    for (uint32_t r = 2; r <= period->range_count + 1; r++)
        sorted->first[r] += sorted->first[r - 1];
    for (uint32_t i = 0; i < period->operation_count; i++)
        for (uint32_t u = 0; u < period->operations[i].use_count; u++) {
            const mdnn_use_t *const use = &period->uses[period->operations[i].first_use + u];
            sorted->uses[next[use->range]++] = (int32_t)i;
        }
    return MDNN_STATUS_OK;
}

/* The uses of one range in the order of its life. */
typedef struct life {
    const int32_t *uses;
    int32_t count, first; /* the use with which life begins */
    int32_t period;       /* operations */
    int32_t end;          /* one behind the death, counted on; without meaning if permanent */
    bool permanent;
} life_t;

/* Position of the k-th use, k <= count, counted on past the end of the period. */
static int32_t use_position(const life_t *life, int32_t k)
{
    const int32_t at = life->first + k;
    return life->uses[at % life->count] + at / life->count * life->period;
}

static size_t gaps_of_life(const life_t *life, uint32_t range, mdnn_gap_t *gaps)
{
    size_t made = 0;
    for (int32_t k = 0; k < life->count; k++) {
        const bool one_way = k + 1 == life->count && !life->permanent;
        mdnn_gap_t gap = {.range = range,
                          .from = use_position(life, k),
                          .to = one_way ? life->end : use_position(life, k + 1),
                          .one_way = one_way};
        if (gap.to <= gap.from + 1)
            continue;
        const int32_t back = gap.from >= life->period ? life->period : 0;
        gap.from -= back;
        gap.to -= back;
        gaps[made++] = gap;
    }
    return made;
}

static size_t gaps_of_range(const mdnn_period_t *period, const sorted_t *sorted, uint32_t r,
                            mdnn_gap_t *gaps)
{
    const mdnn_period_range_t *const range = &period->ranges[r];
    const bool permanent = mdnn_range_is_permanent(range);
    const uint32_t first = sorted->first[r], count = sorted->first[r + 1] - first;
    if (range->stays || range->bytes == 0)
        return 0;
    if (count == 0) {
        gaps[0] = (mdnn_gap_t){r, MDNN_GAP_ALWAYS, MDNN_GAP_ALWAYS, false};
        return 1;
    }
    const int32_t operations = (int32_t)period->operation_count;
    life_t life = {sorted->uses + first, (int32_t)count, 0, operations, 0, permanent};
    if (!permanent) {
        while ((uint32_t)life.uses[life.first] != range->birth)
            life.first++;
        life.end = (int32_t)range->death + 1 + (range->death < range->birth ? operations : 0);
    }
    return gaps_of_life(&life, r, gaps);
}

mdnn_status_t mdnn_period_gaps(const mdnn_period_t *period, mdnn_gap_t **gaps, size_t *count)
{
    sorted_t sorted;
    size_t made = 0;
    MDNN_TRY(sort_uses(period, &sorted));
    mdnn_gap_t *const all =
        calloc((size_t)period->use_count + period->range_count + 1, sizeof *all);
    if (!all) {
        sorted_fini(&sorted);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    for (uint32_t r = 0; r < period->range_count; r++)
        made += gaps_of_range(period, &sorted, r, all + made);
    sorted_fini(&sorted);
    *gaps = all;
    *count = made;
    return MDNN_STATUS_OK;
}

/* FNV-1a, by words. */
static void add_word(uint64_t *hash, uint64_t word)
{
    *hash = (*hash ^ word) * UINT64_C(0x100000001b3);
}

uint64_t mdnn_period_shape(const mdnn_period_t *period)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        add_word(&hash, (uint64_t)operation->kind << 32 | operation->use_count);
        for (uint32_t u = 0; u < operation->use_count; u++)
            add_word(&hash, period->uses[operation->first_use + u].range);
    }
    for (uint32_t r = 0; r < period->range_count; r++) {
        const mdnn_period_range_t *const range = &period->ranges[r];
        add_word(&hash, range->bytes);
        add_word(&hash, range->padding_bytes);
        add_word(&hash, (uint64_t)range->birth << 32 | range->death);
    }
    return hash ? hash : 1;
}
