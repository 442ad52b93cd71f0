/* The automatic policy. Where more lives than the budget allows, ranges are chosen to be away, one
 * after another by a rule, until everything fits; then what turned out to be needless stays. They
 * leave as early as their content allows and return as late as the link allows, or as early as
 * memory allows, whichever the replay finds faster. Several rules are tried, the papers' schedules
 * are among the candidates, and the best is improved by forbidding and forcing single choices.
 *
 * O(effort * (operations * log + choices * gaps)) time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/gap_choice.h"
#include "offload/plan/policy.h"
#include "optimizer/resident_tree.h"

typedef struct recipe {
    mdnn_gap_rule_t rule;
    bool from_peak; /* from where most is missing outwards, else in order */
    bool slower;    /* take a slower variant where that is cheaper than moving */
    bool early;     /* return as early as memory allows, else as late as the link allows */
    double noise;   /* what scores go by is multiplied by 1 to 1 + noise, for each gap */
    uint64_t seed;
} recipe_t;

enum { OPEN, FORBIDDEN, FORCED }; /* marks of a gap */

/* Lists of gaps, one for each operation: items[first[p]] to items[first[p + 1]]. */
typedef struct gap_lists {
    uint32_t *first, *items;
} gap_lists_t;

typedef struct chooser {
    const mdnn_move_plan_request_t *request;
    const mdnn_period_t *period;
    mdnn_move_plan_t *plan;
    mdnn_gap_t *gaps;
    uint32_t gap_count;
    struct away {
        int32_t from, to;
    } * away; /* of each gap: mdnn_move_away of all of it */
    gap_lists_t begins,
        ends; /* gaps by the first operation of their absence, and by the one behind it */
    uint32_t *by_length,
        *by_deadline; /* all gaps: the shortest first; by their ends, then by ranges */
    uint8_t *marks;
    bool *chosen, *best_chosen;
    uint64_t *at_first; /* resident at each operation when nothing leaves, with the first choices */
    mdnn_resident_tree_t resident;
    mdnn_gap_choice_t choice;
    uint32_t *choices, *first_choices;
    double *start_us; /* of each operation in two periods, without waits */
    uint32_t replays_left, selections_left;
    uint64_t swept; /* operations and gaps that sweeps passed */
} chooser_t;

static double random_share(uint64_t seed, uint64_t which) /* splitmix64 */
{
    uint64_t z = seed * 0xd1342543de82ef95u + (which + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static uint64_t bytes_of(const chooser_t *chooser, uint32_t gap)
{
    return chooser->period->ranges[chooser->gaps[gap].range].bytes;
}

static int64_t budget_of(const chooser_t *chooser)
{
    const uint64_t most = INT64_MAX / 4; /* a period has 2^62 bytes at most */
    return (int64_t)(chooser->request->budget_bytes < most ? chooser->request->budget_bytes : most);
}

static const mdnn_variant_t *variant_of(const chooser_t *chooser, uint32_t position,
                                        uint32_t choice)
{
    return &chooser->period->variants[chooser->period->operations[position].first_variant + choice];
}

static void choose(chooser_t *chooser, uint32_t gap, bool away)
{
    const int64_t bytes = (int64_t)bytes_of(chooser, gap);
    mdnn_resident_tree_add(&chooser->resident, chooser->away[gap].from, chooser->away[gap].to,
                           away ? -bytes : bytes);
    chooser->chosen[gap] = away;
}

/* ---- choosing ---- */

static double time_of(const chooser_t *chooser, int32_t position)
{
    return chooser->start_us[position];
}

/* What the gap is worth while a sweep is within it (mdnn_gap_choice_enter). `later`: it began in the iteration before. */
static double score_of(const chooser_t *chooser, const recipe_t *recipe, uint32_t g, bool later)
{
    const mdnn_gap_t *const gap = &chooser->gaps[g];
    if (gap->from == MDNN_GAP_ALWAYS)
        return INFINITY;
    const double whole_us = time_of(chooser, (int32_t)chooser->period->operation_count) + 1;
    const double long_us = time_of(chooser, gap->to) - time_of(chooser, gap->from + 1);
    const double noise = recipe->noise > 0 ? 1 + recipe->noise * random_share(recipe->seed, g) : 1;
    if (recipe->rule == MDNN_GAP_FAR) /* among those that the sweep is in, who ends last */
        return (gap->one_way ? 2 * whole_us
                             : time_of(chooser, gap->to) - (later ? whole_us - 1 : 0)) +
               (noise - 1) * long_us + 1e-9;
    if (recipe->rule == MDNN_GAP_FEW)
        return noise * (1 + 0.5 * long_us / whole_us) * (gap->one_way ? 2 : 1);
    return noise * (long_us + 1e-9);
}

/* Whether a slower variant costs less than moving the missing bytes out and in; takes it then. */
static bool take_slower(chooser_t *chooser, uint32_t position, uint64_t missing)
{
    const mdnn_link_t *const link = &chooser->request->link;
    const mdnn_variant_t *const now = variant_of(chooser, position, chooser->choices[position]);
    if (now->workspace_bytes < missing)
        return false;
    const uint32_t choice =
        mdnn_operation_fastest(chooser->period, position, now->workspace_bytes - missing);
    if (choice == MDNN_NO_POSITION)
        return false;
    const mdnn_variant_t *const slower = variant_of(chooser, position, choice);
    const double move_us =
        (double)missing / link->out_bytes_per_us + (double)missing / link->in_bytes_per_us;
    if (slower->time_us - now->time_us > move_us)
        return false;
    mdnn_resident_tree_add(&chooser->resident, (int32_t)position, (int32_t)position + 1,
                           (int64_t)slower->workspace_bytes - (int64_t)now->workspace_bytes);
    chooser->choices[position] = choice;
    return true;
}

/* False if there is nothing to choose: only forbidden gaps remain, or the plan was cancelled. */
static bool relieve(chooser_t *chooser, const recipe_t *recipe, uint32_t position)
{
    int64_t missing;
    while ((missing = mdnn_resident_tree_at(&chooser->resident, (int32_t)position) -
                      budget_of(chooser)) > 0) {
        if (recipe->slower && take_slower(chooser, position, (uint64_t)missing))
            continue;
        const uint32_t best = mdnn_gap_choice_best(&chooser->choice, (uint64_t)missing);
        if (best == UINT32_MAX || mdnn_move_plan_goes_on(chooser->request) != MDNN_STATUS_OK)
            return false;
        choose(chooser, best, true);
        mdnn_gap_choice_leave(&chooser->choice, best);
    }
    return true;
}

static void enter(chooser_t *chooser, const recipe_t *recipe, uint32_t g, uint32_t position)
{
    if (!chooser->chosen[g] && chooser->marks[g] != FORBIDDEN)
        mdnn_gap_choice_enter(
            &chooser->choice, g,
            score_of(chooser, recipe, g, (int32_t)position < chooser->away[g].from));
}

/* For each `gap` of a list. */
#define EACH(lists, position, gap)                                                                 \
    for (uint32_t gap##_at = (lists).first[position], gap = 0;                                     \
         gap##_at < (lists).first[(position) + 1] && (gap = (lists).items[gap##_at], true);        \
         gap##_at++)

/* To the operation behind `position`, or before it. */
static void sweep_on(chooser_t *chooser, const recipe_t *recipe, uint32_t position, bool forwards)
{
    const uint32_t to = forwards ? position + 1 : position - 1;
    chooser->swept++;
    EACH(forwards ? chooser->ends : chooser->begins, forwards ? to : position, g)
    mdnn_gap_choice_leave(&chooser->choice, g);
    EACH(forwards ? chooser->begins : chooser->ends, forwards ? to : position, g)
    enter(chooser, recipe, g, to);
}

static bool covers(const chooser_t *chooser, uint32_t gap, int32_t position)
{
    const struct away *const away = &chooser->away[gap];
    return (position >= away->from && position < away->to) ||
           (position + (int32_t)chooser->period->operation_count < away->to);
}

/* From `position` to the end or the beginning of the period. */
static bool sweep(chooser_t *chooser, const recipe_t *recipe, uint32_t position, bool forwards)
{
    const uint32_t last = forwards ? chooser->period->operation_count - 1 : 0;
    const int64_t budget = budget_of(chooser);
    chooser->swept += chooser->gap_count;
    mdnn_gap_choice_start(&chooser->choice, recipe->rule);
    for (uint32_t g = 0; g < chooser->gap_count; g++)
        if (covers(chooser, g, (int32_t)position))
            enter(chooser, recipe, g, position);
    while (relieve(chooser, recipe, position)) {
        const int32_t next =
            forwards ? mdnn_resident_tree_first_above(&chooser->resident, (int32_t)position, budget)
                     : mdnn_resident_tree_last_above(&chooser->resident, (int32_t)position, budget);
        if (position == last || next < 0)
            return true;
        for (; position != (uint32_t)next; position = forwards ? position + 1 : position - 1)
            sweep_on(chooser, recipe, position, forwards);
    }
    return false;
}

/* Lets ranges stay where all fits without their leaving; those with the shortest absence first. */
static void prune(chooser_t *chooser)
{
    for (uint32_t i = 0; i < chooser->gap_count; i++) {
        const uint32_t g = chooser->by_length[i];
        if (!chooser->chosen[g] || chooser->marks[g] == FORCED ||
            chooser->gaps[g].from == MDNN_GAP_ALWAYS)
            continue;
        const int64_t most =
            mdnn_resident_tree_most(&chooser->resident, chooser->away[g].from, chooser->away[g].to);
        if (most + (int64_t)bytes_of(chooser, g) <= budget_of(chooser))
            choose(chooser, g, false);
    }
}

/* Fills chosen and choices. False if the forbidden gaps leave no way. */
static bool select_gaps(chooser_t *chooser, const recipe_t *recipe)
{
    const uint32_t count = chooser->period->operation_count;
    memcpy(chooser->choices, chooser->first_choices, count * sizeof *chooser->choices);
    memset(chooser->chosen, 0, chooser->gap_count * sizeof *chooser->chosen);
    mdnn_resident_tree_set(&chooser->resident, chooser->at_first);
    for (uint32_t g = 0; g < chooser->gap_count; g++)
        if (chooser->marks[g] == FORCED)
            choose(chooser, g, true);
    const uint32_t begin =
        recipe->from_peak ? (uint32_t)mdnn_resident_tree_peak(&chooser->resident) : 0;
    if (count > 0 && (!sweep(chooser, recipe, begin, true) ||
                      (begin > 0 && !sweep(chooser, recipe, begin, false))))
        return false;
    prune(chooser);
    return true;
}

/* ---- when to leave and to return ---- */

/* The earliest position behind which the range may take memory again, all fitting until its use. */
static int32_t earliest_return(chooser_t *chooser, const mdnn_move_t *move)
{
    const int32_t count = (int32_t)chooser->period->operation_count;
    const int32_t least = move->leave_after + 1, end = move->return_before;
    const int64_t most = budget_of(chooser) - (int64_t)chooser->period->ranges[move->range].bytes;
    int32_t full = -1; /* the last operation before the use that has no room for it */
    if (end > count) {
        full = mdnn_resident_tree_last_above(&chooser->resident, end - count, most);
        full += full >= 0 ? count : 0;
    }
    if (full < 0)
        full = mdnn_resident_tree_last_above(&chooser->resident, end < count ? end : count, most);
    return full > least ? full : least;
}

/* The last position behind which an operation begins at `time_us` or before it; `least` if there is none behind that. */
static int32_t last_until(const chooser_t *chooser, int32_t least, int32_t end, double time_us)
{
    int32_t low = least, high = end - 1;
    while (low < high) {
        const int32_t middle = low + (high - low + 1) / 2;
        if (time_of(chooser, middle + 1) <= time_us)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Sets return_after. Early: by deadline, each as early as it can. Late: the copies are laid back to
 * back before their deadlines, the last one first, with a tenth to spare. */
static void place_returns(chooser_t *chooser, const recipe_t *recipe, mdnn_move_t *moves,
                          size_t count)
{
    const mdnn_link_t *const link = &chooser->request->link;
    double next_us = INFINITY;
    for (size_t i = count; i-- > 0 && !recipe->early;) {
        mdnn_move_t *const move = &moves[i];
        if (move->return_before == MDNN_NEVER)
            continue;
        const double bytes = (double)mdnn_range_copied_bytes(&chooser->period->ranges[move->range]);
        const double need_us = 1.1 * (link->latency_us + bytes / link->in_duplex_bytes_per_us);
        next_us = fmin(next_us, time_of(chooser, move->return_before)) - need_us;
        /* As it should be; as it can be, below. */
        move->return_after = last_until(chooser, move->leave_after, move->return_before, next_us);
    }
    for (size_t i = 0; i < count; i++) {
        mdnn_move_t *const move = &moves[i];
        if (move->return_before == MDNN_NEVER)
            continue;
        const int32_t can = earliest_return(chooser, move);
        if (recipe->early || move->return_after < can)
            move->return_after = can;
        mdnn_resident_tree_add(&chooser->resident, move->return_after + 1, move->return_before,
                               (int64_t)chooser->period->ranges[move->range].bytes);
    }
}

static mdnn_status_t propose(chooser_t *chooser, const recipe_t *recipe)
{
    mdnn_schedule_t schedule = {0};
    mdnn_status_t status = MDNN_STATUS_OK;
    const uint32_t count = chooser->period->operation_count;
    for (uint32_t i = 0; status == MDNN_STATUS_OK && i < chooser->gap_count; i++)
        if (chooser->chosen[chooser->by_deadline[i]])
            status = mdnn_schedule_add_move(
                &schedule, mdnn_move_of_gap(&chooser->gaps[chooser->by_deadline[i]]));
    schedule.choices = calloc((size_t)count + 1, sizeof *schedule.choices);
    if (status != MDNN_STATUS_OK || !schedule.choices) {
        mdnn_schedule_fini(&schedule);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    memcpy(schedule.choices, chooser->choices, count * sizeof *schedule.choices);
    place_returns(chooser, recipe, schedule.moves, schedule.move_count);
    chooser->replays_left -= chooser->replays_left > 0;
    return mdnn_move_plan_consider(chooser->request, MDNN_POLICY_AUTO, MDNN_VARIANTS_FITTING,
                                   &schedule, chooser->plan);
}

/* Selects and proposes; *better says whether the plan was improved. */
static mdnn_status_t attempt(chooser_t *chooser, const recipe_t *recipe, bool *better)
{
    const mdnn_move_plan_t before = *chooser->plan;
    *better = false;
    chooser->selections_left -= chooser->selections_left > 0;
    if (!select_gaps(chooser, recipe))
        return mdnn_move_plan_goes_on(chooser->request);
    MDNN_TRY(propose(chooser, recipe));
    *better = chooser->plan->verdict < before.verdict ||
              chooser->plan->predicted.time_us < before.predicted.time_us;
    if (*better)
        memcpy(chooser->best_chosen, chooser->chosen, chooser->gap_count * sizeof *chooser->chosen);
    return MDNN_STATUS_OK;
}

/* ---- the search ---- */

/* No schedule can do better. */
static bool is_at_bound(const chooser_t *chooser)
{
    return chooser->plan->verdict == MDNN_VERDICT_FITS &&
           chooser->plan->predicted.time_us <= chooser->plan->link_bound_us * (1 + 1e-9);
}

static uint64_t seed_of(const chooser_t *chooser, uint32_t number)
{
    return (uint64_t)chooser->request->seed << 32 | number;
}

static mdnn_status_t try_rules(chooser_t *chooser, recipe_t *best)
{
    for (unsigned i = 0; i < MDNN_GAP_RULE_COUNT * 8; i++) {
        if (i % 8 == 0 && is_at_bound(chooser))
            break;
        const recipe_t recipe = {.rule = (mdnn_gap_rule_t)(i / 8),
                                 .from_peak = i & 1,
                                 .slower = i & 2,
                                 .early = i & 4,
                                 .noise = chooser->request->seed > 0 ? 0.5 : 0,
                                 .seed = seed_of(chooser, i)};
        bool better;
        MDNN_TRY(attempt(chooser, &recipe, &better));
        if (better)
            *best = recipe;
    }
    return MDNN_STATUS_OK;
}

/* moDNN looks at all gaps around an operation, so it takes quadratic time. */
enum { STEPS_FOR_MODNN = 400 };

static mdnn_status_t try_papers(chooser_t *chooser)
{
    for (int all = 0; all < 2; all++)
        for (int joined = 0; joined < 2; joined++) {
            mdnn_schedule_t schedule = {0};
            mdnn_status_t status = mdnn_vdnn_moves(chooser->period, all, &schedule);
            if (!joined)
                schedule.join_count = 0;
            if (status == MDNN_STATUS_OK)
                status = mdnn_choose_variants(chooser->request, MDNN_VARIANTS_FITTING, &schedule);
            if (status != MDNN_STATUS_OK) {
                mdnn_schedule_fini(&schedule);
                return status;
            }
            MDNN_TRY(mdnn_move_plan_consider(chooser->request,
                                             all ? MDNN_POLICY_ALL : MDNN_POLICY_CONV,
                                             MDNN_VARIANTS_FITTING, &schedule, chooser->plan));
        }
    return mdnn_modnn_within(chooser->request,
                             STEPS_FOR_MODNN *
                                 ((uint64_t)chooser->gap_count + chooser->period->operation_count),
                             chooser->plan);
}

/* One gap after another is forbidden (if it is chosen) or forced (if not); what helps stays so. */
static mdnn_status_t improve(chooser_t *chooser, recipe_t recipe)
{
    bool helped = true;
    while (helped && chooser->replays_left > 0 && chooser->selections_left > 0 &&
           !is_at_bound(chooser)) {
        helped = false;
        for (size_t i = 0;
             i < chooser->gap_count && chooser->replays_left > 0 && chooser->selections_left > 0;
             i++) {
            bool better;
            if (chooser->marks[i] != OPEN)
                continue;
            chooser->marks[i] = chooser->best_chosen[i] ? FORBIDDEN : FORCED;
            for (unsigned early = 0; early < 2; early++) {
                recipe.early = early;
                MDNN_TRY(attempt(chooser, &recipe, &better));
                helped |= better;
                if (better)
                    break;
            }
            if (!better)
                chooser->marks[i] = OPEN;
        }
    }
    return MDNN_STATUS_OK;
}

/* The rest of the effort: scores shaken more and more. */
static mdnn_status_t shake(chooser_t *chooser)
{
    memset(chooser->marks, OPEN, chooser->gap_count);
    const uint32_t begin = chooser->replays_left;
    for (uint32_t tries = 0; tries < begin && chooser->replays_left > 0 && !is_at_bound(chooser);
         tries++) {
        const recipe_t recipe = {.rule = (mdnn_gap_rule_t)(tries % MDNN_GAP_RULE_COUNT),
                                 .from_peak = tries & 4,
                                 .slower = tries & 8,
                                 .early = tries & 16,
                                 .noise = 0.25 * (double)(1 + tries % 12),
                                 .seed = seed_of(chooser, tries)};
        bool better;
        MDNN_TRY(attempt(chooser, &recipe, &better));
    }
    return MDNN_STATUS_OK;
}

/* ---- what all attempts begin with ---- */

/* The fastest variant of each operation that fits beside what must be there while it runs; `staying`: what may not leave. */
static void first_choices(chooser_t *chooser, const uint64_t *staying)
{
    const mdnn_period_t *const period = chooser->period;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        uint64_t named = staying[i];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const mdnn_period_range_t *const range =
                &period->ranges[period->uses[operation->first_use + u].range];
            named += range->stays ? 0 : range->bytes;
        }
        const uint64_t left = chooser->request->budget_bytes - named; /* not below the floor */
        chooser->first_choices[i] = mdnn_operation_fastest(period, i, left);
        const double time_us = variant_of(chooser, i, chooser->first_choices[i])->time_us;
        chooser->start_us[i + 1] = chooser->start_us[i] + time_us;
    }
    const uint32_t count = period->operation_count;
    for (uint32_t i = 0; i <= count; i++)
        chooser->start_us[count + i] = chooser->start_us[count] + chooser->start_us[i];
}

static mdnn_status_t sum_staying(const mdnn_period_t *period, uint64_t *staying)
{
    mdnn_period_t only = *period;
    only.ranges = calloc((size_t)only.range_count + 1, sizeof *only.ranges);
    if (!only.ranges)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t r = 0; r < only.range_count; r++) {
        only.ranges[r] = period->ranges[r];
        if (!only.ranges[r].stays)
            only.ranges[r].bytes = 0;
    }
    mdnn_period_live_bytes(&only, staying);
    free(only.ranges);
    return MDNN_STATUS_OK;
}

typedef struct ranked {
    int64_t rank;
    uint32_t gap;
} ranked_t;

static int compare_ranks(const void *left, const void *right)
{
    const ranked_t *const a = left, *const b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->gap < b->gap ? -1 : a->gap > b->gap;
}

/* Gaps are ordered by range, so equals are, too. */
static mdnn_status_t rank_gaps(chooser_t *chooser, bool by_length, uint32_t **order)
{
    ranked_t *const ranked = calloc((size_t)chooser->gap_count + 1, sizeof *ranked);
    *order = calloc((size_t)chooser->gap_count + 1, sizeof **order);
    if (!ranked || !*order) {
        free(ranked);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    for (uint32_t g = 0; g < chooser->gap_count; g++) {
        const mdnn_gap_t *const gap = &chooser->gaps[g];
        const bool returns = gap->from != MDNN_GAP_ALWAYS && !gap->one_way;
        ranked[g] = (ranked_t){by_length ? (int64_t)gap->to - gap->from
                               : returns ? gap->to
                                         : MDNN_NEVER,
                               g};
    }
    if (chooser->gap_count > 0)
        qsort(ranked, chooser->gap_count, sizeof *ranked, compare_ranks);
    for (uint32_t i = 0; i < chooser->gap_count; i++)
        (*order)[i] = ranked[i].gap;
    free(ranked);
    return MDNN_STATUS_OK;
}

/* Gaps by where their absence begins, or by where it is over. */
static mdnn_status_t list_gaps(const chooser_t *chooser, bool ends, gap_lists_t *lists)
{
    const int32_t count = (int32_t)chooser->period->operation_count;
    lists->first = calloc((size_t)count + 3, sizeof *lists->first);
    lists->items = calloc((size_t)chooser->gap_count + 1, sizeof *lists->items);
    if (!lists->first || !lists->items)
        return MDNN_STATUS_OUT_OF_MEMORY;
    uint32_t *const next = lists->first + 1; /* counts up from where a list begins */
    for (uint32_t g = 0; count > 0 && g < chooser->gap_count; g++)
        next[(ends ? chooser->away[g].to : chooser->away[g].from) % count + 1]++;
    for (int32_t p = 1; p <= count; p++)
        next[p] += next[p - 1];
    for (uint32_t g = 0; count > 0 && g < chooser->gap_count; g++)
        lists->items[next[(ends ? chooser->away[g].to : chooser->away[g].from) % count]++] = g;
    return MDNN_STATUS_OK;
}

static mdnn_status_t make_room(chooser_t *chooser)
{
    const size_t count = (size_t)chooser->period->operation_count + 1;
    const size_t gaps = (size_t)chooser->gap_count + 1;
    chooser->away = calloc(gaps, sizeof *chooser->away);
    chooser->marks = calloc(gaps, sizeof *chooser->marks);
    chooser->chosen = calloc(gaps, sizeof *chooser->chosen);
    chooser->best_chosen = calloc(gaps, sizeof *chooser->best_chosen);
    chooser->at_first = calloc(count, sizeof *chooser->at_first);
    chooser->choices = calloc(count, sizeof *chooser->choices);
    chooser->first_choices = calloc(count, sizeof *chooser->first_choices);
    chooser->start_us = calloc(2 * count, sizeof *chooser->start_us);
    const bool ok = chooser->away && chooser->marks && chooser->chosen && chooser->best_chosen &&
                    chooser->at_first && chooser->choices && chooser->first_choices &&
                    chooser->start_us;
    return ok ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

static mdnn_status_t prepare(chooser_t *chooser)
{
    size_t gap_count = 0;
    MDNN_TRY(mdnn_period_gaps(chooser->period, &chooser->gaps, &gap_count));
    chooser->gap_count = (uint32_t)gap_count; /* at most the uses and ranges of a period */
    MDNN_TRY(make_room(chooser));
    for (uint32_t g = 0; g < chooser->gap_count; g++) {
        const mdnn_move_t move = mdnn_move_of_gap(&chooser->gaps[g]);
        mdnn_move_away(chooser->period, &move, &chooser->away[g].from, &chooser->away[g].to);
    }
    MDNN_TRY(list_gaps(chooser, false, &chooser->begins));
    MDNN_TRY(list_gaps(chooser, true, &chooser->ends));
    MDNN_TRY(rank_gaps(chooser, true, &chooser->by_length));
    MDNN_TRY(rank_gaps(chooser, false, &chooser->by_deadline));
    MDNN_TRY(mdnn_resident_tree_init(&chooser->resident, chooser->period->operation_count));
    MDNN_TRY(mdnn_gap_choice_init(&chooser->choice, chooser->period, chooser->gaps, gap_count));
    MDNN_TRY(sum_staying(chooser->period, chooser->at_first));
    first_choices(chooser, chooser->at_first);
    const mdnn_schedule_t nothing = {.choices = chooser->first_choices};
    mdnn_schedule_resident_bytes(chooser->period, &nothing, chooser->at_first);
    return MDNN_STATUS_OK;
}

static void chooser_fini(chooser_t *chooser)
{
    free(chooser->gaps);
    free(chooser->away);
    free(chooser->begins.first);
    free(chooser->begins.items);
    free(chooser->ends.first);
    free(chooser->ends.items);
    free(chooser->by_length);
    free(chooser->by_deadline);
    free(chooser->marks);
    free(chooser->chosen);
    free(chooser->best_chosen);
    free(chooser->at_first);
    mdnn_resident_tree_fini(&chooser->resident);
    mdnn_gap_choice_fini(&chooser->choice);
    free(chooser->choices);
    free(chooser->first_choices);
    free(chooser->start_us);
}

enum { SELECTIONS_FOR_A_REPLAY = 8 };

/* Where the request does not say it. A replay of a long period takes long, so there are fewer of them. */
static uint32_t effort_of(const mdnn_move_plan_request_t *request, const chooser_t *chooser)
{
    enum { MOST = 200, LEAST = 40, REPLAYED = 10000000 };
    const uint64_t work = (uint64_t)chooser->gap_count + chooser->period->operation_count + 1;
    if (request->effort > 0)
        return request->effort;
    const uint32_t replays = (uint32_t)(REPLAYED / work);
    return replays > MOST ? MOST : replays < LEAST ? LEAST : replays;
}

mdnn_status_t mdnn_policy_auto(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    chooser_t chooser = {.request = request, .period = request->period, .plan = plan};
    recipe_t best = {0};
    mdnn_status_t status = prepare(&chooser);
    chooser.replays_left = effort_of(request, &chooser);
    chooser.selections_left = chooser.replays_left < UINT32_MAX / SELECTIONS_FOR_A_REPLAY
                                  ? chooser.replays_left * SELECTIONS_FOR_A_REPLAY
                                  : UINT32_MAX;
    if (status == MDNN_STATUS_OK)
        status = try_rules(&chooser, &best);
    if (status == MDNN_STATUS_OK)
        status = try_papers(&chooser);
    if (status == MDNN_STATUS_OK)
        status = improve(&chooser, best);
    if (status == MDNN_STATUS_OK)
        status = shake(&chooser);
    plan->steps += chooser.resident.steps + chooser.choice.steps + chooser.swept;
    chooser_fini(&chooser);
    return status;
}
