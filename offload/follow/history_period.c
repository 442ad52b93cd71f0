/* From the ring of operations to a period: which lag, and what lives when. */
#include "offload/follow/history_internal.h"

#include <stdlib.h>
#include <string.h>

void history_forget(remembered_t *remembered)
{
    mdnn_period_fini(&remembered->period);
    free(remembered->symbols);
    free(remembered->next);
    free(remembered->start_us);
    free(remembered->familiar);
    free(remembered->variants);
    *remembered = (remembered_t){0};
}

uint64_t history_familiar_hash(const uint64_t *symbols, uint32_t count, uint32_t position)
{
    uint64_t hash = 0;
    for (uint32_t back = MDNN_HISTORY_FAMILIAR; back-- > 0;)
        hash =
            history_mix(hash, symbols[(position + count * MDNN_HISTORY_FAMILIAR - back) % count]);
    return hash;
}

/* ---- the lag ---- */

static uint64_t symbol_before_last(const mdnn_history_t *history, uint64_t back)
{
    return history_operation_at(history, history->recorded - 1 - back)->symbol;
}

/* The Z algorithm on the sequence read backwards: z[lag] is the length of the run in which each
 * operation equals the one `lag` before it, up to now. */
uint32_t history_find_lag(mdnn_history_t *history, uint32_t count, uint32_t *run_of_best)
{
    uint32_t *const z = history->scratch;
    uint32_t left = 0, right = 0, best = 0;
    for (uint32_t lag = 1; lag < count; lag++) {
        uint32_t run = 0;
        if (lag < right)
            run = z[lag - left] < right - lag ? z[lag - left] : right - lag;
        while (lag + run < count &&
               symbol_before_last(history, run) == symbol_before_last(history, lag + run))
            run++;
        if (lag + run > right) {
            left = lag;
            right = lag + run;
        }
        z[lag] = run;
        if (run >= lag && (best == 0 || run > z[best]))
            best = lag;
    }
    *run_of_best = best > 0 ? z[best] : 0;
    return best;
}

/* ---- where to cut ---- */

/* change[i], for 0 < i <= lag: by how many bytes more lives behind i operations of the window that
 * begins at `begin` than behind i - 1. What is due to end at such a moment still lives then: the
 * program frees it after the operation was recorded. */
static void count_changes(const mdnn_history_t *history, uint64_t begin, uint32_t lag,
                          uint64_t *change)
{
    for (uint32_t i = 0; i < history->range_capacity; i++) {
        const history_range_t *const range = &history->ranges[i];
        if (!range->lives && range->references == 0)
            continue;
        if (range->born_at >= begin && range->born_at < begin + lag)
            change[range->born_at - begin + 1] += range->bytes;
        if (!range->lives && range->died_at >= begin && range->died_at < begin + lag)
            change[range->died_at - begin + 1] -= range->bytes;
    }
}

uint32_t history_quiet_in(const mdnn_history_t *history, uint32_t lag)
{
    uint64_t *const change = calloc((size_t)lag + 1, sizeof *change);
    const uint64_t begin = history->recorded - lag;
    int64_t living = 0, least = INT64_MAX;
    uint32_t quiet = lag;
    if (!change)
        return 0;
    count_changes(history, begin, lag, change);
    for (uint32_t i = 1; i <= lag; i++) {
        living += (int64_t)change[i];
        if (living <= least) {
            least = living;
            quiet = i;
        }
    }
    free(change);
    return quiet % lag;
}

/* ---- lives ---- */

/* While a period is built: positions are those of the window, whose end may be a while ago. */
typedef struct build {
    mdnn_history_t *history;
    uint64_t begin,
        end; /* numbers of the window's first operation, and of the one behind its last */
    uint32_t count;
    uint32_t *index; /* of each entry of history->ranges in the period's, or MDNN_NO_POSITION */
    uint32_t *first_use, *last_use; /* of each range of the period; MDNN_NO_POSITION: none */
    uint32_t *operand;              /* of the first use, as it stood an iteration before */
    uint32_t *source;               /* entry of history->ranges */
    bool *itself;                   /* it was in its own place an iteration before, too */
    mdnn_period_t period;
} build_t;

/* `earlier` was in its place an iteration before, as use number `operand`. */
static void note_use(build_t *build, uint32_t position, uint32_t operand, const mdnn_use_t *use,
                     uint32_t earlier)
{
    mdnn_period_t *const period = &build->period;
    uint32_t r = build->index[use->range];
    if (r == MDNN_NO_POSITION) {
        r = build->index[use->range] = period->range_count++;
        const history_range_t *const range = &build->history->ranges[use->range];
        period->ranges[r] = (mdnn_period_range_t){
            .bytes = range->bytes, .padding_bytes = range->padding_bytes, .stays = range->stays};
        build->first_use[r] = position;
        build->operand[r] = operand;
        build->source[r] = use->range;
    }
    build->last_use[r] = position;
    build->itself[r] |= earlier == use->range;
    period->uses[period->use_count++] = (mdnn_use_t){r, use->role};
}

/* Uses that both iterations have; the others come from words that only looked like addresses. */
static void copy_uses(build_t *build, uint32_t position, const history_operation_t *kept,
                      const history_operation_t *before)
{
    mdnn_history_t *const history = build->history;
    const uint64_t number = build->begin + position;
    const uint32_t count = history_likenesses(history, number, history->likenesses[0]);
    const uint32_t earlier_count =
        history_likenesses(history, number - build->count, history->likenesses[1]);
    history_match(history->likenesses[0], count, history->likenesses[1], earlier_count,
                  history->match);
    for (uint32_t u = 0; u < count; u++)
        if (history->match[u] < earlier_count)
            note_use(build, position, history->match[u],
                     history_use_at(history, kept->first_use + u),
                     history_use_at(history, before->first_use + history->match[u])->range);
}

/* Every list has times of its own; what ran is measured, and stands first. */
static void copy_variants(build_t *build, uint32_t position, const history_operation_t *kept,
                          double time_us)
{
    mdnn_period_t *const period = &build->period;
    mdnn_operation_t *const operation = &period->operations[position];
    const mdnn_variant_t *const variants =
        history_variants_of(&build->history->variants, kept->variants, &operation->variant_count);
    operation->first_variant = period->variant_count;
    period->variant_count += operation->variant_count;
    mdnn_variant_t *const made = &period->variants[operation->first_variant];
    if (variants)
        memcpy(made, variants, operation->variant_count * sizeof *made);
    else
        *made = (mdnn_variant_t){time_us, kept->workspace_bytes};
}

static void copy_operations(build_t *build)
{
    mdnn_period_t *const period = &build->period;
    for (uint32_t i = 0; i < build->count; i++) {
        const history_operation_t *const kept =
            history_operation_at(build->history, build->begin + i);
        const history_operation_t *const before =
            history_operation_at(build->history, build->begin + i - build->count);
        const double now_us = kept->time_us >= 0 ? kept->time_us : 0;
        const double time_us = before->time_us >= 0 ? (now_us + before->time_us) / 2 : now_us;
        period->operations[i] = (mdnn_operation_t){.key = kept->key,
                                                   .stream = kept->stream,
                                                   .kind = kept->kind,
                                                   .first_use = period->use_count};
        copy_variants(build, i, kept, time_us);
        copy_uses(build, i, kept, before);
        period->operations[i].use_count = period->use_count - period->operations[i].first_use;
    }
    period->operation_count = build->count;
}

/* Whether the range lived when the window ended. */
static bool lives_on(const build_t *build, const history_range_t *range)
{
    return range->born_at <= build->end && (range->lives || range->died_at > build->end);
}

static void make_permanent(mdnn_period_range_t *range, bool stays)
{
    range->birth = range->death = MDNN_NO_POSITION;
    range->stays |= stays;
}

/* Position in the window after which a range of the history ended; MDNN_NO_POSITION if not in it.
 */
static uint32_t death_in_window(const build_t *build, const history_range_t *range)
{
    if (lives_on(build, range) || range->died_at <= build->begin)
        return MDNN_NO_POSITION;
    return (uint32_t)(range->died_at - 1 - build->begin);
}

/* A range that lives on past the window: what became of the one that was in its place an iteration
 * before, where it was used first? (What is named at its first use has just been allocated; a word
 * that only looks like an address may stand in any later one.) It is itself: permanent. It ended
 * before the window: this one is about to end. It lived on into the window: both are one that lives
 * across the end of the period. Anything else has lives that a period cannot tell; it stays. */
static void settle_living(build_t *build, uint32_t r)
{
    mdnn_history_t *const history = build->history;
    const history_range_t *const range = &history->ranges[build->source[r]];
    const history_operation_t *const before =
        history_operation_at(history, build->begin + build->first_use[r] - build->count);
    const uint32_t other = history_use_at(history, before->first_use + build->operand[r])->range;
    mdnn_period_range_t *const made = &build->period.ranges[r];
    if (build->itself[r]) {
        make_permanent(made, false);
        return;
    }
    const uint32_t death = death_in_window(build, &history->ranges[other]);
    if (range->first_used_at >= build->begin && death == MDNN_NO_POSITION &&
        build->end == history->recorded &&
        !lives_on(build, &history->ranges[other])) { /* its end is due now */
        made->birth = build->first_use[r];
        made->death = build->count - 1;
        return;
    }
    if (range->first_used_at < build->begin || death == MDNN_NO_POSITION ||
        death >= build->first_use[r] || history->ranges[other].first_used_at >= build->begin) {
        make_permanent(made, true);
        return;
    }
    made->birth = build->first_use[r];
    made->death = death;
    const uint32_t twin = build->index[other];
    if (twin != MDNN_NO_POSITION)
        build->last_use[twin] = r; /* with birth MDNN_NO_POSITION: uses go to r */
    if (twin != MDNN_NO_POSITION)
        build->first_use[twin] = MDNN_NO_POSITION;
}

/* Those that live on come first: they may take others, which began before the window, with them. */
static void settle_lives(build_t *build)
{
    mdnn_period_t *const period = &build->period;
    mdnn_history_t *const history = build->history;
    for (uint32_t r = 0; r < period->range_count; r++)
        if (lives_on(build, &history->ranges[build->source[r]]))
            settle_living(build, r);
    for (uint32_t r = 0; r < period->range_count; r++) {
        const history_range_t *const range = &history->ranges[build->source[r]];
        if (lives_on(build, range) || build->first_use[r] == MDNN_NO_POSITION)
            continue;
        if (range->first_used_at < build->begin) {
            make_permanent(&period->ranges[r], true);
            continue;
        }
        period->ranges[r].birth = build->first_use[r];
        period->ranges[r].death = death_in_window(build, range);
    }
    for (uint32_t u = 0; u < period->use_count; u++)
        if (build->first_use[period->uses[u].range] == MDNN_NO_POSITION)
            period->uses[u].range = build->last_use[period->uses[u].range];
}

/* Ranges that went into others leave the list; what lives and is never used joins it. */
static void compact(build_t *build)
{
    mdnn_period_t *const period = &build->period;
    mdnn_history_t *const history = build->history;
    uint32_t kept = 0;
    for (uint32_t r = 0; r < period->range_count; r++) {
        if (build->first_use[r] == MDNN_NO_POSITION)
            continue;
        period->ranges[kept] = period->ranges[r];
        build->operand[r] = kept++; /* its new index */
    }
    for (uint32_t u = 0; u < period->use_count; u++)
        period->uses[u].range = build->operand[period->uses[u].range];
    for (uint32_t i = 0; i < history->range_capacity; i++) {
        const history_range_t *const range = &history->ranges[i];
        if (range->born_at < build->begin && range->lives && build->index[i] == MDNN_NO_POSITION)
            period->ranges[kept++] = (mdnn_period_range_t){.bytes = range->bytes,
                                                           .padding_bytes = range->padding_bytes,
                                                           .birth = MDNN_NO_POSITION,
                                                           .death = MDNN_NO_POSITION,
                                                           .stays = range->stays};
    }
    period->range_count = kept;
}

/* ---- the beginning of the circle ---- */

/* The position before which least lives across, of equals the last before memory grows again. */
static uint32_t find_beginning(const mdnn_period_t *period, uint64_t *live)
{
    const uint32_t count = period->operation_count;
    uint32_t peak = 0, best = 0;
    uint64_t least = UINT64_MAX;
    mdnn_period_live_bytes(period, live);
    for (uint32_t i = 1; i < count; i++)
        peak = live[i] > live[peak] ? i : peak;
    for (uint32_t r = 0; r < period->range_count; r++)
        if (!mdnn_range_is_permanent(&period->ranges[r]))
            live[period->ranges[r].birth] -= period->ranges[r].bytes;
    for (uint32_t step = 1; step <= count; step++) {
        const uint32_t i = (peak + step) % count;
        if (live[i] <= least) {
            least = live[i];
            best = i;
        }
    }
    return best;
}

static bool turn(mdnn_period_t *period, uint32_t begin)
{
    const uint32_t count = period->operation_count;
    mdnn_operation_t *const operations = calloc((size_t)count + 1, sizeof *operations);
    mdnn_use_t *const uses = calloc((size_t)period->use_count + 1, sizeof *uses);
    uint32_t used = 0;
    if (!operations || !uses) {
        free(operations);
        free(uses);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const mdnn_operation_t *const from = &period->operations[(begin + i) % count];
        operations[i] = *from;
        operations[i].first_use = used;
        if (from->use_count > 0)
            memcpy(uses + used, period->uses + from->first_use, from->use_count * sizeof *uses);
        used += from->use_count;
    }
    for (uint32_t r = 0; r < period->range_count; r++) {
        mdnn_period_range_t *const range = &period->ranges[r];
        if (mdnn_range_is_permanent(range))
            continue;
        range->birth = (range->birth + count - begin) % count;
        range->death = (range->death + count - begin) % count;
    }
    free(period->operations);
    free(period->uses);
    period->operations = operations;
    period->uses = uses;
    return true;
}

/* ---- what makes it easy to follow ---- */

static int compare_familiar(const void *left, const void *right)
{
    const struct familiar *const a = left, *const b = right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* next[use], by walking twice backwards around the circle. `seen` has an entry for each range. */
static void link_uses(remembered_t *made, uint64_t *seen)
{
    const mdnn_period_t *const period = &made->period;
    const uint32_t count = period->operation_count;
    for (uint32_t r = 0; r < period->range_count; r++)
        seen[r] = UINT64_MAX;
    for (uint64_t at = 2 * (uint64_t)count; at-- > 0;) {
        const mdnn_operation_t *const operation = &period->operations[at % count];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const uint32_t use = operation->first_use + u, r = period->uses[use].range;
            const mdnn_period_range_t *const range = &period->ranges[r];
            made->next[use] = seen[r] == UINT64_MAX ? 0 : (uint32_t)(seen[r] - at);
            seen[r] = at;
            /* What was before its birth is another one. */
            if (!mdnn_range_is_permanent(range) && range->birth == at % count)
                seen[r] = UINT64_MAX;
        }
    }
}

static bool index_symbols(remembered_t *made, const build_t *build, uint32_t begin)
{
    const uint32_t count = build->count;
    made->symbols = calloc(count, sizeof *made->symbols);
    made->familiar = calloc(count, sizeof *made->familiar);
    made->next = calloc((size_t)made->period.use_count + 1, sizeof *made->next);
    made->start_us = calloc((size_t)count + 1, sizeof *made->start_us);
    made->variants = calloc(count, sizeof *made->variants);
    uint64_t *const seen = calloc((size_t)made->period.range_count + 1, sizeof *seen);
    const bool ok =
        made->symbols && made->familiar && made->next && made->start_us && made->variants && seen;
    for (uint32_t i = 0; ok && i < count; i++) {
        const uint64_t number = build->begin + (begin + i) % count;
        made->symbols[i] = history_operation_at(build->history, number)->symbol;
        made->variants[i] = history_operation_at(build->history, number)->variants;
        made->start_us[i + 1] =
            made->start_us[i] +
            made->period.variants[made->period.operations[i].first_variant].time_us;
    }
    for (uint32_t i = 0; ok && i < count; i++)
        made->familiar[i] = (struct familiar){history_familiar_hash(made->symbols, count, i), i};
    if (ok) {
        qsort(made->familiar, count, sizeof *made->familiar, compare_familiar);
        link_uses(made, seen);
    }
    free(seen);
    return ok;
}

/* ---- all together ---- */

static size_t count_variants(const build_t *build)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < build->count; i++) {
        uint32_t count;
        (void)history_variants_of(&build->history->variants,
                                  history_operation_at(build->history, build->begin + i)->variants,
                                  &count);
        sum += count;
    }
    return sum;
}

static bool prepare(build_t *build)
{
    const mdnn_history_t *const history = build->history;
    const history_operation_t *const first = history_operation_at(history, build->begin);
    const size_t uses = (size_t)(history->uses_recorded - first->first_use) + 1;
    const size_t count = (size_t)build->count + 1;
    const size_t ranges = (size_t)history->range_capacity + 1;
    mdnn_period_t *const period = &build->period;
    build->index = malloc(ranges * sizeof *build->index);
    build->first_use = calloc(ranges, sizeof *build->first_use);
    build->last_use = calloc(ranges, sizeof *build->last_use);
    build->operand = calloc(ranges, sizeof *build->operand);
    build->source = calloc(ranges, sizeof *build->source);
    build->itself = calloc(ranges, sizeof *build->itself);
    period->operations = calloc(count, sizeof *period->operations);
    period->uses = calloc(uses, sizeof *period->uses);
    period->variants = calloc(count_variants(build) + 1, sizeof *period->variants);
    period->ranges = calloc(ranges, sizeof *period->ranges);
    if (!build->index || !build->first_use || !build->last_use || !build->operand ||
        !build->source || !build->itself || !period->operations || !period->uses ||
        !period->variants || !period->ranges)
        return false;
    for (size_t i = 0; i < ranges; i++)
        build->index[i] = MDNN_NO_POSITION;
    return true;
}

static bool build_period(build_t *build, remembered_t *made, uint32_t *position)
{
    copy_operations(build);
    settle_lives(build);
    compact(build);
    made->period = build->period;
    build->period = (mdnn_period_t){0};
    uint64_t *const live = calloc(build->count, sizeof *live);
    if (!live)
        return false;
    const uint32_t begin = find_beginning(&made->period, live);
    free(live);
    const uint32_t ago = (uint32_t)(build->history->recorded - build->end);
    *position = (2 * build->count - 1 - begin + ago) % build->count;
    return turn(&made->period, begin) && mdnn_period_check(&made->period) == MDNN_STATUS_OK &&
           index_symbols(made, build, begin);
}

bool history_build(mdnn_history_t *history, uint32_t lag, uint32_t ago, remembered_t *made,
                   uint32_t *position)
{
    const uint64_t end = history->recorded - ago;
    build_t build = {.history = history, .begin = end - lag, .end = end, .count = lag};
    const bool ok = prepare(&build) && build_period(&build, made, position);
    if (!ok)
        history_forget(made);
    free(build.index);
    free(build.first_use);
    free(build.last_use);
    free(build.operand);
    free(build.source);
    free(build.itself);
    mdnn_period_fini(&build.period);
    return ok;
}

/* ---- likenesses ---- */

/* Uses of one operation in two iterations, of which some are none: the common subsequence that is worth most. Sizes
 * must be equal. First uses, whose places are certain, count most; a first use and a later one are a pair only if there
 * is no better match (a range that always lives had its first use once). */
enum { SHORT = 16, SAME_SIZE = 1, BOTH_LATER = 2, BOTH_FIRST = 4 };

static uint8_t worth(uint64_t a, uint64_t b)
{
    if (a >> 1 != b >> 1)
        return 0;
    return a != b ? SAME_SIZE : a & 1 ? BOTH_FIRST : BOTH_LATER;
}

static void match_from_front(const uint64_t *a, uint32_t a_count, const uint64_t *b,
                             uint32_t b_count, uint32_t *match)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < a_count; i++) {
        uint32_t at = next;
        while (at < b_count && worth(a[i], b[at]) == 0)
            at++;
        match[i] = at;
        if (at < b_count)
            next = at + 1;
    }
}

void history_match(const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count,
                   uint32_t *match)
{
    uint8_t most[SHORT + 1][SHORT + 1] = {{0}}; /* of what is behind i and j */
    bool same = a_count == b_count;
    for (uint32_t i = 0; same && i < a_count; i++)
        same = a[i] == b[i];
    if (same || a_count > SHORT || b_count > SHORT) {
        match_from_front(a, a_count, b, b_count, match);
        return;
    }
    for (uint32_t i = a_count; i-- > 0;)
        for (uint32_t j = b_count; j-- > 0;) {
            const uint8_t skip = most[i + 1][j] > most[i][j + 1] ? most[i + 1][j] : most[i][j + 1];
            const uint8_t own = worth(a[i], b[j]);
            const uint8_t pair = own > 0 ? (uint8_t)(most[i + 1][j + 1] + own) : 0;
            most[i][j] = pair > skip ? pair : skip;
        }
    for (uint32_t i = 0, j = 0; i < a_count; i++) {
        while (j < b_count && most[i][j] == most[i][j + 1] && most[i][j] > most[i + 1][j])
            j++;
        const uint8_t own = j < b_count ? worth(a[i], b[j]) : 0;
        const bool paired = own > 0 && most[i][j] == most[i + 1][j + 1] + own;
        match[i] = paired ? j : b_count;
        j += paired;
    }
}
