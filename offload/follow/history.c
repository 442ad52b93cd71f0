#include "config/fault.h"
#include "offload/follow/history_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_OPERATIONS = 1 << 16,
    USES_PER_OPERATION = 8,
    SEARCH_AT_LEAST = 32,
    SEARCHED_STEPS = 16
};
static const uint64_t never = UINT64_MAX;

mdnn_history_t *mdnn_history_create(const mdnn_history_limits_t *limits)
{
    mdnn_history_t *const history = calloc(1, sizeof *history);
    if (!history)
        return NULL;
    history->operation_capacity =
        limits && limits->operations ? limits->operations : DEFAULT_OPERATIONS;
    if (history->operation_capacity > MDNN_PERIOD_OPERATIONS)
        history->operation_capacity = MDNN_PERIOD_OPERATIONS;
    history->use_capacity =
        limits && limits->uses ? limits->uses : history->operation_capacity * USES_PER_OPERATION;
    history->operations = calloc(history->operation_capacity, sizeof *history->operations);
    history->uses = calloc(history->use_capacity, sizeof *history->uses);
    history->scratch = calloc(history->operation_capacity, sizeof *history->scratch);
    history->first_free = MDNN_NO_POSITION;
    history->followed = history->lost_from = -1;
    if (history->operations && history->uses && history->scratch)
        return history;
    mdnn_history_destroy(history);
    return NULL;
}

void mdnn_history_destroy(mdnn_history_t *history)
{
    if (!history)
        return;
    for (int i = 0; i < MDNN_HISTORY_PERIODS; i++)
        history_forget(&history->remembered[i]);
    free(history->operations);
    free(history->uses);
    free(history->scratch);
    free(history->ranges);
    history_variants_fini(&history->variants);
    free(history);
}

/* ---- ranges ---- */

static bool grow_ranges(mdnn_history_t *history)
{
    const uint32_t before = history->range_capacity, after = before ? 2 * before : 256;
    if (before > UINT32_MAX / 4)
        return false;
    history_range_t *const grown = reallocarray(history->ranges, after, sizeof *grown);
    if (!grown)
        return false;
    memset(grown + before, 0, (after - before) * sizeof *grown);
    for (uint32_t i = after; i-- > before;) {
        grown[i].used_operand = history->first_free;
        history->first_free = i;
    }
    history->ranges = grown;
    history->range_capacity = after;
    return true;
}

uint32_t mdnn_history_begin_range(mdnn_history_t *history, uint64_t bytes, bool stays)
{
    if (history->first_free == MDNN_NO_POSITION && !grow_ranges(history))
        return MDNN_NO_POSITION;
    const uint32_t index = history->first_free;
    history_range_t *const range = &history->ranges[index];
    history->first_free = range->used_operand;
    *range = (history_range_t){.bytes = bytes,
                               .born_at = history->recorded,
                               .died_at = never,
                               .first_used_at = never,
                               .used_at = never,
                               .lives = true,
                               .stays = stays};
    return index;
}

static void release_range(mdnn_history_t *history, uint32_t index)
{
    history_range_t *const range = &history->ranges[index];
    if (range->lives || range->references > 0)
        return;
    range->used_operand = history->first_free;
    history->first_free = index;
}

static bool is_living(const mdnn_history_t *history, uint32_t range)
{
    return range < history->range_capacity && history->ranges[range].lives;
}

void mdnn_history_set_padding(mdnn_history_t *history, uint32_t range, uint64_t padding_bytes)
{
    if (is_living(history, range))
        history->ranges[range].padding_bytes = padding_bytes;
}

void mdnn_history_end_range(mdnn_history_t *history, uint32_t range)
{
    if (!is_living(history, range))
        return;
    history->ranges[range].lives = false;
    history->ranges[range].died_at = history->recorded;
    release_range(history, range);
}

/* ---- the rings ---- */

static void drop_oldest(mdnn_history_t *history)
{
    const history_operation_t *const oldest = history_operation_at(history, history->first_kept++);
    for (uint32_t u = 0; u < oldest->use_count; u++) {
        const uint32_t range = history_use_at(history, oldest->first_use + u)->range;
        history->ranges[range].references--;
        release_range(history, range);
    }
}

static void make_room(mdnn_history_t *history, uint32_t uses)
{
    if (history->recorded - history->first_kept == history->operation_capacity)
        drop_oldest(history);
    while (history->first_kept < history->recorded &&
           history->uses_recorded + uses -
                   history_operation_at(history, history->first_kept)->first_use >
               history->use_capacity)
        drop_oldest(history);
}

/* Merges a range that was named before in the same operation. */
static bool is_named(mdnn_history_t *history, const history_operation_t *operation,
                     const mdnn_use_t *use)
{
    for (uint32_t u = 0; u < operation->use_count; u++) {
        mdnn_use_t *const other = history_use_at(history, operation->first_use + u);
        if (other->range != use->range)
            continue;
        if (other->role != use->role)
            other->role = MDNN_USE_UNKNOWN;
        return true;
    }
    return false;
}

/* Not by what it names: a launch's parameters hold words that only look like addresses (rests of
 * the stack in unused fields, ends of neighbours), and those change from iteration to iteration. */
static uint64_t symbol_of(const history_operation_t *operation)
{
    return history_mix(history_mix(operation->key, operation->stream), (uint64_t)operation->kind);
}

/* Those of the operation that should be the next one, if it has that key. */
static uint32_t likely_variants(const mdnn_history_t *history, uint64_t key)
{
    if (history->followed < 0)
        return 0;
    const remembered_t *const known = &history->remembered[history->followed];
    const uint32_t next = (history->position + 1) % known->period.operation_count;
    return known->period.operations[next].key == key ? known->variants[next] : 0;
}

static void append(mdnn_history_t *history, const mdnn_history_operation_t *operation,
                   uint32_t use_count)
{
    history_operation_t *const kept = history_operation_at(history, history->recorded);
    const uint32_t likely = likely_variants(history, operation->key);
    *kept = (history_operation_t){.key = operation->key,
                                  .stream = operation->stream,
                                  .kind = operation->kind,
                                  .workspace_bytes = operation->workspace_bytes,
                                  .time_us = operation->time_us,
                                  .first_use = history->uses_recorded,
                                  .variants = history_variants_note(
                                      &history->variants, operation->variants,
                                      operation->variants ? operation->variant_count : 0, likely)};
    for (uint32_t u = 0; u < use_count; u++) {
        const mdnn_use_t *const use = &operation->uses[u];
        if (!is_living(history, use->range) || is_named(history, kept, use))
            continue;
        history_range_t *const range = &history->ranges[use->range];
        *history_use_at(history, kept->first_use + kept->use_count) = *use;
        range->references++;
        if (range->first_used_at == never)
            range->first_used_at = history->recorded;
        range->used_at = history->recorded;
        range->used_operand = kept->use_count++;
        range->label_period = 0;
    }
    history->uses_recorded += kept->use_count;
    kept->symbol = symbol_of(kept);
    history->recorded++;
}

/* ---- following ---- */

/* Notes at which use of the followed period the ranges of operation `number` stand. */
static void label(mdnn_history_t *history, uint64_t number, uint32_t position, uint64_t travel)
{
    const remembered_t *const known = &history->remembered[history->followed];
    const mdnn_period_t *const period = &known->period;
    const history_operation_t *const kept = history_operation_at(history, number);
    const mdnn_operation_t *const operation = &period->operations[position];
    uint64_t *const expected = history->likenesses[1];
    const uint32_t *const match = history->match;
    const uint32_t count = history_likenesses(history, number, history->likenesses[0]);
    uint32_t expected_count = 0;
    for (; expected_count < operation->use_count && expected_count < HISTORY_MATCHED;
         expected_count++) {
        const mdnn_period_range_t *const range =
            &period->ranges[period->uses[operation->first_use + expected_count].range];
        expected[expected_count] = history_likeness(range->bytes, !mdnn_range_is_permanent(range) &&
                                                                      range->birth == position);
    }
    history_match(history->likenesses[0], count, expected, expected_count, history->match);
    for (uint32_t u = 0; u < count; u++) {
        history_range_t *const range =
            &history->ranges[history_use_at(history, kept->first_use + u)->range];
        if (match[u] == expected_count || range->used_at != number || range->used_operand != u)
            continue; /* not expected here, or named again since */
        range->label_period = known->number;
        range->label_travel = travel;
        range->label_use = operation->first_use + match[u];
    }
}

/* The program is at `position`; the last `known_count` operations led there. */
static void follow(mdnn_history_t *history, int index, uint32_t position, uint32_t known_count)
{
    const uint64_t kept = history->recorded - history->first_kept;
    const uint32_t count = history->remembered[index].period.operation_count;
    if (index == history->lost_from)
        history->travel += (position + count - history->position) % count;
    else /* far from every label */
        history->travel += MDNN_HISTORY_FAMILIAR + count;
    history->followed = history->lost_from = index;
    history->position = position;
    history->familiar_for = known_count;
    for (uint32_t back = known_count < kept ? known_count : (uint32_t)kept; back-- > 0;)
        label(history, history->recorded - 1 - back, (position + count - back % count) % count,
              history->travel - back);
}

/* How far a position is from where the program should be, either way around. */
static uint32_t detour(const mdnn_history_t *history, int index, uint32_t position)
{
    const uint32_t count = history->remembered[index].period.operation_count;
    if (index != history->lost_from)
        return position;
    const uint32_t ahead =
        (position + 2 * count - history->position - MDNN_HISTORY_FAMILIAR % count) % count;
    return ahead < count - ahead ? ahead : count - ahead;
}

/* How many of the last operations are those that lead to `position`, once around at most. */
static uint32_t familiar_run(const mdnn_history_t *history, int index, uint32_t position)
{
    const remembered_t *const known = &history->remembered[index];
    const uint32_t count = known->period.operation_count;
    const uint64_t kept = history->recorded - history->first_kept;
    uint32_t run = 0;
    while (run < count && run < kept &&
           known->symbols[(position + count - run) % count] ==
               history_operation_at(history, history->recorded - 1 - run)->symbol)
        run++;
    return run;
}

/* Looks for the last eight operations in a remembered period: in the longest that has them, next to
 * where it was left. */
static void find_way_back(mdnn_history_t *history)
{
    uint64_t symbols[MDNN_HISTORY_FAMILIAR];
    int best = -1;
    uint32_t best_position = 0;
    if (history->recorded - history->first_kept < MDNN_HISTORY_FAMILIAR)
        return;
    for (uint32_t i = 0; i < MDNN_HISTORY_FAMILIAR; i++)
        symbols[i] =
            history_operation_at(history, history->recorded - MDNN_HISTORY_FAMILIAR + i)->symbol;
    const uint64_t hash =
        history_familiar_hash(symbols, MDNN_HISTORY_FAMILIAR, MDNN_HISTORY_FAMILIAR - 1);
    for (int index = 0; index < MDNN_HISTORY_PERIODS; index++) {
        const remembered_t *const known = &history->remembered[index];
        uint32_t low = 0, high = known->number ? known->period.operation_count : 0;
        const uint32_t end = high;
        if (best >= 0 &&
            known->period.operation_count <= history->remembered[best].period.operation_count)
            continue;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (known->familiar[middle].hash < hash)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < end && known->familiar[low].hash == hash; low++)
            if (best != index || detour(history, index, known->familiar[low].position) <
                                     detour(history, index, best_position)) {
                best = index;
                best_position = known->familiar[low].position;
            }
    }
    if (best >= 0)
        follow(history, best, best_position, familiar_run(history, best, best_position));
}

static void go_on(mdnn_history_t *history)
{
    const uint64_t last = history->recorded - 1;
    if (history->followed >= 0) {
        remembered_t *const known = &history->remembered[history->followed];
        const uint32_t next = (history->position + 1) % known->period.operation_count;
        if (known->symbols[next] == history_operation_at(history, last)->symbol) {
            history->position = next;
            history->travel++;
            history->familiar_for++;
            known->used_at = last;
            known->followed_for++;
            label(history, last, next, history->travel);
            return;
        }
        history->followed = -1; /* lost_from says where from */
        history->lost_at = history->recorded;
        history->familiar_for = 0;
    }
    find_way_back(history);
}

/* ---- finding periods ---- */

static bool is_settled(const mdnn_history_t *history)
{
    return history->followed >= 0 &&
           history->familiar_for >=
               2 * (uint64_t)history->remembered[history->followed].period.operation_count;
}

/* Two equal operations are a period, too, and where nothing repeats itself such are found again and again. */
static bool is_proven(const remembered_t *known)
{
    return known->followed_for >= known->period.operation_count + SEARCH_AT_LEAST;
}

/* The entry for a new period: empty, or the one that was of no use for longest, among those that are not proven if there
 * are such. */
static int choose_entry(const mdnn_history_t *history)
{
    int chosen = 0;
    for (int i = 0; i < MDNN_HISTORY_PERIODS; i++) {
        const remembered_t *const known = &history->remembered[i];
        const remembered_t *const best = &history->remembered[chosen];
        if (known->number == 0)
            return i;
        if (is_proven(known) != is_proven(best) ? is_proven(best) : known->used_at < best->used_at)
            chosen = i;
    }
    return chosen;
}

/* Whether both are the same circle; made's beginning is at *turn in `known` then. */
static bool is_same(const remembered_t *known, const remembered_t *made, uint32_t *turn)
{
    const uint32_t count = known->period.operation_count;
    if (known->number == 0 || count != made->period.operation_count)
        return false;
    for (*turn = 0; *turn < count; ++*turn) {
        uint32_t i = 0;
        while (i < count && known->symbols[(*turn + i) % count] == made->symbols[i])
            i++;
        if (i == count)
            return true;
    }
    return false;
}

static int remember(mdnn_history_t *history, remembered_t *made)
{
    const int entry = choose_entry(history);
    history_forget(&history->remembered[entry]);
    history->remembered[entry] = *made;
    history->remembered[entry].number = ++history->periods_made;
    if (history->lost_from == entry)
        history->lost_from = -1;
    return entry;
}

static void learn(mdnn_history_t *history, uint32_t lag, uint32_t ago)
{
    remembered_t made = {0};
    uint32_t position, turn;
    if (!history_build(history, lag, ago, &made, &position))
        return;
    for (int i = 0; i < MDNN_HISTORY_PERIODS; i++)
        if (is_same(&history->remembered[i], &made, &turn)) {
            history_forget(&made);
            follow(history, i, (turn + position) % lag, lag);
            return;
        }
    const int entry = remember(history, &made);
    history->remembered[entry].used_at = history->recorded;
    follow(history, entry, position, lag);
}

/* The last 512 operations are searched after each 32, twice as many half as often, and so on: however much came
 * before, an iteration is found at most a quarter of one, or 32 operations, after two of them. Each operation
 * costs sixteen comparisons for each of these lengths. */
static void note_due(mdnn_history_t *history)
{
    uint64_t step = SEARCH_AT_LEAST;
    if (history->recorded % step != 0)
        return;
    while (history->recorded % (2 * step) == 0 && 2 * step < history->operation_capacity)
        step *= 2;
    const uint32_t count = (uint32_t)(step * SEARCHED_STEPS);
    history->search_in = count > history->search_in ? count : history->search_in;
}

/* The program has just got lost: what looks like a loop then is mostly a stretch of what it was in. */
static bool may_find_back(const mdnn_history_t *history)
{
    return history->followed < 0 && history->lost_at > 0 &&
           history->recorded - history->lost_at < MDNN_HISTORY_FAMILIAR;
}

/* What is found begins and ends where least lives: what lives across the ends of the window has to be matched with what
 * lived an iteration before, and that is a guess. If two iterations have not ended at such a moment yet, they will have
 * within one more. */
static void search(mdnn_history_t *history)
{
    const uint64_t kept = history->recorded - history->first_kept;
    const bool waited = history->learn_at > 0;
    note_due(history);
    if (waited ? history->recorded < history->learn_at : history->search_in == 0)
        return;
    if (!waited && (is_settled(history) || may_find_back(history)))
        return;
    const uint64_t wanted = waited ? history->learn_in : history->search_in;
    const uint32_t count = (uint32_t)(wanted < kept ? wanted : kept);
    history->learn_at = 0;
    history->search_in = 0;
    uint32_t run;
    const uint32_t lag = history_find_lag(history, count, &run);
    /* What is short may be a loop within what is followed; not if it got lost in each iteration. */
    if (lag == 0 || (history->followed >= 0 && history->familiar_for >= lag &&
                     lag <= history->remembered[history->followed].period.operation_count))
        return;
    const uint32_t quiet_in = waited ? 0 : history_quiet_in(history, lag);
    const uint32_t ago = quiet_in > 0 ? lag - quiet_in : 0;
    if (run >= lag + (uint64_t)ago && (ago == 0 || !MDNN_FAULT(PERIODS_WAIT_FOR_A_QUIET_MOMENT))) {
        learn(history, lag, ago);
        return;
    }
    history->learn_at = history->recorded + quiet_in;
    history->learn_in = count + quiet_in;
}

void mdnn_history_record(mdnn_history_t *history, const mdnn_history_operation_t *operation)
{
    const uint32_t uses =
        operation->use_count < history->use_capacity ? operation->use_count : history->use_capacity;
    make_room(history, uses);
    append(history, operation, uses);
    go_on(history);
    search(history);
}

/* ---- answers ---- */

mdnn_history_place_t mdnn_history_place(const mdnn_history_t *history)
{
    if (history->followed < 0)
        return (mdnn_history_place_t){0, 0};
    return (mdnn_history_place_t){history->remembered[history->followed].number, history->position};
}

const mdnn_period_t *mdnn_history_period(const mdnn_history_t *history, uint64_t period)
{
    for (int i = 0; period != 0 && i < MDNN_HISTORY_PERIODS; i++)
        if (history->remembered[i].number == period)
            return &history->remembered[i].period;
    return NULL;
}

/* Time of the operations behind `position` up to, not with, the one `operations` further on. */
static double time_between(const remembered_t *known, uint32_t position, uint32_t operations)
{
    const uint32_t count = known->period.operation_count;
    const double whole = known->start_us[count];
    const uint32_t from = position + 1, to = position + operations;
    return known->start_us[to % count] + whole * (double)(to / count) -
           known->start_us[from % count] - whole * (double)(from / count);
}

mdnn_next_use_t mdnn_history_next_use(const mdnn_history_t *history, uint32_t range)
{
    mdnn_next_use_t next = {.expectation = MDNN_EXPECT_UNKNOWN, .range = MDNN_NO_POSITION};
    if (!is_living(history, range) || history->followed < 0)
        return next;
    const history_range_t *const known_range = &history->ranges[range];
    const remembered_t *const known = &history->remembered[history->followed];
    if (known_range->label_period != known->number)
        return next;
    const uint32_t distance = known->next[known_range->label_use];
    const uint64_t passed = history->travel - known_range->label_travel;
    if (distance == 0 ? passed >= known->period.operation_count : passed >= distance)
        return next; /* it should have been used, or gone, meanwhile */
    next.range = known->period.uses[known_range->label_use].range;
    next.expectation = distance == 0 ? MDNN_EXPECT_DEATH : MDNN_EXPECT_USE;
    if (distance > 0) {
        next.operations = (uint32_t)(distance - passed);
        next.time_us = time_between(known, history->position, next.operations);
    }
    return next;
}
