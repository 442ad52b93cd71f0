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

#include "offload/plan/policy.h"

/* What makes a gap a good choice at an operation where bytes are missing. */
typedef enum rule {
    RULE_FAR,   /* used again last */
    RULE_LONG,  /* longest time without a use */
    RULE_FEW,   /* moves fewest bytes for what it gives */
    RULE_LARGE, /* most bytes times time */
    RULE_COUNT
} rule_t;

typedef struct recipe {
    rule_t rule;
    bool from_peak; /* begin where most is missing, else in order */
    bool slower;    /* take a slower variant where that is cheaper than moving */
    bool early;     /* return as early as memory allows, else as late as the link allows */
    double noise;   /* scores are multiplied by 1 to 1 + noise */
    uint64_t seed;
} recipe_t;

enum { OPEN, FORBIDDEN, FORCED }; /* marks of a gap */

typedef struct chooser {
    const mdnn_move_plan_request_t *request;
    const mdnn_period_t *period;
    mdnn_move_plan_t *plan;
    mdnn_gap_t *gaps;
    size_t gap_count;
    struct away {
        int32_t from, to;
    } * away; /* of each gap: mdnn_move_away of all of it */
    uint8_t *marks;
    bool *chosen, *best_chosen;
    size_t *order; /* scratch: chosen gaps */
    uint64_t *resident;
    uint32_t *choices, *first_choices;
    double *start_us; /* of each operation in two periods, without waits */
    uint32_t replays_left;
    uint64_t random;
} chooser_t;

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t bytes_of(const chooser_t *chooser, size_t gap)
{
    return chooser->period->ranges[chooser->gaps[gap].range].bytes;
}

static const mdnn_variant_t *variant_of(const chooser_t *chooser, uint32_t position,
                                        uint32_t choice)
{
    return &chooser->period->variants[chooser->period->operations[position].first_variant + choice];
}

/* ---- where ranges are away ---- */

/* Adds `bytes` modulo 2^64 to what is resident in [from, to), counted on. */
static void add_resident(chooser_t *chooser, int32_t from, int32_t to, uint64_t bytes)
{
    const int32_t count = (int32_t)chooser->period->operation_count;
    for (int32_t i = from; i < to; i++)
        chooser->resident[i % count] += bytes;
}

static void choose(chooser_t *chooser, size_t gap, bool away)
{
    add_resident(chooser, chooser->away[gap].from, chooser->away[gap].to,
                 away ? 0 - bytes_of(chooser, gap) : bytes_of(chooser, gap));
    chooser->chosen[gap] = away;
}

static bool covers(const chooser_t *chooser, size_t gap, int32_t position)
{
    const struct away *const away = &chooser->away[gap];
    return (position >= away->from && position < away->to) ||
           (position + (int32_t)chooser->period->operation_count < away->to);
}

/* ---- choosing ---- */

static double time_of(const chooser_t *chooser, int32_t position)
{
    return chooser->start_us[position];
}

/* Larger is better. `missing` bytes at `position`. */
static double score_of(chooser_t *chooser, const recipe_t *recipe, size_t g, int32_t position,
                       uint64_t missing)
{
    const mdnn_gap_t *const gap = &chooser->gaps[g];
    const double bytes = (double)bytes_of(chooser, g), count = chooser->period->operation_count;
    if (gap->from == MDNN_GAP_ALWAYS)
        return INFINITY;
    const double long_us = time_of(chooser, gap->to) - time_of(chooser, gap->from + 1);
    const double whole_us = time_of(chooser, (int32_t)count) + 1;
    const bool wraps = position < gap->from;
    const double far_us =
        gap->one_way
            ? whole_us
            : time_of(chooser, gap->to) - time_of(chooser, position + (wraps ? (int32_t)count : 0));
    const double useful = fmin(bytes, (double)missing);
    double score = 0;
    switch (recipe->rule) {
    case RULE_FAR:
        score = far_us;
        break;
    case RULE_LONG:
        score = long_us;
        break;
    case RULE_FEW:
        score = useful / bytes * (1 + 0.5 * long_us / whole_us) * (gap->one_way ? 2 : 1);
        break;
    default:
        score = useful * long_us;
        break;
    }
    const double noise = (double)(next_random(&chooser->random) >> 11) * 0x1p-53;
    return (score + 1e-9) * (1 + recipe->noise * noise);
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
    chooser->resident[position] -= now->workspace_bytes - slower->workspace_bytes;
    chooser->choices[position] = choice;
    return true;
}

/* False if there is nothing to choose: only forbidden gaps remain, or the plan was cancelled. */
static bool relieve(chooser_t *chooser, const recipe_t *recipe, uint32_t position)
{
    const uint64_t budget = chooser->request->budget_bytes;
    while (chooser->resident[position] > budget) {
        const uint64_t missing = chooser->resident[position] - budget;
        if (recipe->slower && take_slower(chooser, position, missing))
            continue;
        size_t best = SIZE_MAX;
        double best_score = -1;
        if (mdnn_move_plan_goes_on(chooser->request) != MDNN_STATUS_OK)
            return false;
        for (size_t g = 0; g < chooser->gap_count; g++) {
            if (chooser->chosen[g] || chooser->marks[g] == FORBIDDEN ||
                !covers(chooser, g, (int32_t)position))
                continue;
            const double score = score_of(chooser, recipe, g, (int32_t)position, missing);
            if (score > best_score) {
                best = g;
                best_score = score;
            }
        }
        if (best == SIZE_MAX)
            return false;
        choose(chooser, best, true);
    }
    return true;
}

static uint32_t position_of_peak(const chooser_t *chooser)
{
    uint32_t peak = 0;
    for (uint32_t i = 1; i < chooser->period->operation_count; i++)
        if (chooser->resident[i] > chooser->resident[peak])
            peak = i;
    return peak;
}

/* Lets ranges stay where all fits without their leaving; those with the shortest absence first. */
static void prune(chooser_t *chooser)
{
    size_t count = 0;
    for (size_t g = 0; g < chooser->gap_count; g++)
        if (chooser->chosen[g] && chooser->marks[g] != FORCED)
            chooser->order[count++] = g;
    for (size_t i = 1; i < count; i++) /* few, and mostly sorted */
        for (size_t j = i; j > 0; j--) {
            const mdnn_gap_t *const a = &chooser->gaps[chooser->order[j - 1]];
            const mdnn_gap_t *const b = &chooser->gaps[chooser->order[j]];
            if ((int64_t)a->to - a->from <= (int64_t)b->to - b->from)
                break;
            const size_t swap = chooser->order[j];
            chooser->order[j] = chooser->order[j - 1];
            chooser->order[j - 1] = swap;
        }
    for (size_t i = 0; i < count; i++) {
        const size_t g = chooser->order[i];
        const int32_t operations = (int32_t)chooser->period->operation_count;
        const int32_t from = chooser->away[g].from, to = chooser->away[g].to;
        bool fits = chooser->gaps[g].from != MDNN_GAP_ALWAYS;
        for (int32_t p = from; fits && p < to; p++)
            fits = chooser->resident[p % operations] + bytes_of(chooser, g) <=
                   chooser->request->budget_bytes;
        if (fits)
            choose(chooser, g, false);
    }
}

/* Fills chosen and choices. False if the forbidden gaps leave no way. */
static bool select_gaps(chooser_t *chooser, const recipe_t *recipe)
{
    const uint32_t count = chooser->period->operation_count;
    chooser->random = recipe->seed;
    memcpy(chooser->choices, chooser->first_choices, count * sizeof *chooser->choices);
    memset(chooser->chosen, 0, chooser->gap_count * sizeof *chooser->chosen);
    const mdnn_schedule_t nothing = {.choices = chooser->choices};
    mdnn_schedule_resident_bytes(chooser->period, &nothing, chooser->resident);
    for (size_t g = 0; g < chooser->gap_count; g++)
        if (chooser->marks[g] == FORCED)
            choose(chooser, g, true);
    if (recipe->from_peak)
        while (chooser->resident[position_of_peak(chooser)] > chooser->request->budget_bytes)
            if (!relieve(chooser, recipe, position_of_peak(chooser)))
                return false;
    for (uint32_t i = 0; i < count; i++)
        if (!relieve(chooser, recipe, i))
            return false;
    prune(chooser);
    return true;
}

/* ---- when to leave and to return ---- */

static int compare_returns(const void *left, const void *right)
{
    const mdnn_move_t *const a = left, *const b = right;
    if (a->return_before != b->return_before)
        return a->return_before < b->return_before ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

/* The earliest position behind which the range may take memory again, all fitting until its use. */
static int32_t earliest_return(const chooser_t *chooser, const mdnn_move_t *move)
{
    const int32_t count = (int32_t)chooser->period->operation_count;
    const uint64_t bytes = chooser->period->ranges[move->range].bytes;
    int32_t after = move->return_before - 1;
    while (after > move->leave_after + 1 &&
           chooser->resident[after % count] + bytes <= chooser->request->budget_bytes)
        after--;
    return after;
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
        const double bytes = (double)chooser->period->ranges[move->range].bytes;
        const double need_us = 1.1 * (link->latency_us + bytes / link->in_duplex_bytes_per_us);
        next_us = fmin(next_us, time_of(chooser, move->return_before)) - need_us;
        int32_t after = move->return_before - 1;
        while (after > move->leave_after && time_of(chooser, after + 1) > next_us)
            after--;
        move->return_after = after; /* as it should be; as it can be, below */
    }
    for (size_t i = 0; i < count; i++) {
        mdnn_move_t *const move = &moves[i];
        if (move->return_before == MDNN_NEVER)
            continue;
        const int32_t can = earliest_return(chooser, move);
        if (recipe->early || move->return_after < can)
            move->return_after = can;
        add_resident(chooser, move->return_after + 1, move->return_before,
                     chooser->period->ranges[move->range].bytes);
    }
}

static mdnn_status_t propose(chooser_t *chooser, const recipe_t *recipe)
{
    mdnn_schedule_t schedule = {0};
    mdnn_status_t status = MDNN_STATUS_OK;
    const uint32_t count = chooser->period->operation_count;
    for (size_t g = 0; status == MDNN_STATUS_OK && g < chooser->gap_count; g++)
        if (chooser->chosen[g])
            status = mdnn_schedule_add_move(&schedule, mdnn_move_of_gap(&chooser->gaps[g]));
    schedule.choices = calloc((size_t)count + 1, sizeof *schedule.choices);
    if (status != MDNN_STATUS_OK || !schedule.choices) {
        mdnn_schedule_fini(&schedule);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    memcpy(schedule.choices, chooser->choices, count * sizeof *schedule.choices);
    if (schedule.move_count > 0)
        qsort(schedule.moves, schedule.move_count, sizeof *schedule.moves, compare_returns);
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

static mdnn_status_t try_rules(chooser_t *chooser, recipe_t *best)
{
    for (unsigned i = 0; i < RULE_COUNT * 8; i++) {
        if (i % 8 == 0 && is_at_bound(chooser))
            break;
        const recipe_t recipe = {.rule = (rule_t)(i / 8),
                                 .from_peak = i & 1,
                                 .slower = i & 2,
                                 .early = i & 4,
                                 .seed = i};
        bool better;
        MDNN_TRY(attempt(chooser, &recipe, &better));
        if (better)
            *best = recipe;
    }
    return MDNN_STATUS_OK;
}

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
    return mdnn_policy_modnn(chooser->request, chooser->plan);
}

/* One gap after another is forbidden (if it is chosen) or forced (if not); what helps stays so. */
static mdnn_status_t improve(chooser_t *chooser, recipe_t recipe)
{
    bool helped = true;
    while (helped && chooser->replays_left > 0 && !is_at_bound(chooser)) {
        helped = false;
        for (size_t i = 0; i < chooser->gap_count && chooser->replays_left > 0; i++) {
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
        const recipe_t recipe = {.rule = (rule_t)(tries % RULE_COUNT),
                                 .from_peak = tries & 4,
                                 .slower = tries & 8,
                                 .early = tries & 16,
                                 .noise = 0.25 * (double)(1 + tries % 12),
                                 .seed = tries};
        bool better;
        MDNN_TRY(attempt(chooser, &recipe, &better));
    }
    return MDNN_STATUS_OK;
}

/* The fastest variant of each operation that fits beside what must be there while it runs. */
static void first_choices(chooser_t *chooser)
{
    const mdnn_period_t *const period = chooser->period;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        uint64_t named = chooser->resident[i]; /* what stays: sum_staying */
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

/* resident becomes what stays. */
static mdnn_status_t sum_staying(chooser_t *chooser)
{
    mdnn_period_t staying = *chooser->period;
    staying.ranges = calloc((size_t)staying.range_count + 1, sizeof *staying.ranges);
    if (!staying.ranges)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t r = 0; r < staying.range_count; r++) {
        staying.ranges[r] = chooser->period->ranges[r];
        if (!staying.ranges[r].stays)
            staying.ranges[r].bytes = 0;
    }
    mdnn_period_live_bytes(&staying, chooser->resident);
    free(staying.ranges);
    return MDNN_STATUS_OK;
}

static mdnn_status_t prepare(chooser_t *chooser)
{
    const size_t count = (size_t)chooser->period->operation_count + 1;
    MDNN_TRY(mdnn_period_gaps(chooser->period, &chooser->gaps, &chooser->gap_count));
    const size_t gaps = chooser->gap_count + 1;
    chooser->away = calloc(gaps, sizeof *chooser->away);
    chooser->marks = calloc(gaps, sizeof *chooser->marks);
    chooser->chosen = calloc(gaps, sizeof *chooser->chosen);
    chooser->best_chosen = calloc(gaps, sizeof *chooser->best_chosen);
    chooser->order = calloc(gaps, sizeof *chooser->order);
    chooser->resident = calloc(count, sizeof *chooser->resident);
    chooser->choices = calloc(count, sizeof *chooser->choices);
    chooser->first_choices = calloc(count, sizeof *chooser->first_choices);
    chooser->start_us = calloc(2 * count, sizeof *chooser->start_us);
    if (!chooser->away || !chooser->marks || !chooser->chosen || !chooser->best_chosen ||
        !chooser->order || !chooser->resident || !chooser->choices || !chooser->first_choices ||
        !chooser->start_us)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t g = 0; g < chooser->gap_count; g++) {
        const mdnn_move_t move = mdnn_move_of_gap(&chooser->gaps[g]);
        mdnn_move_away(chooser->period, &move, &chooser->away[g].from, &chooser->away[g].to);
    }
    MDNN_TRY(sum_staying(chooser));
    first_choices(chooser);
    return MDNN_STATUS_OK;
}

static void chooser_fini(chooser_t *chooser)
{
    free(chooser->gaps);
    free(chooser->away);
    free(chooser->marks);
    free(chooser->chosen);
    free(chooser->best_chosen);
    free(chooser->order);
    free(chooser->resident);
    free(chooser->choices);
    free(chooser->first_choices);
    free(chooser->start_us);
}

enum { DEFAULT_EFFORT = 200 };

mdnn_status_t mdnn_policy_auto(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    chooser_t chooser = {.request = request,
                         .period = request->period,
                         .plan = plan,
                         .replays_left = request->effort ? request->effort : DEFAULT_EFFORT};
    recipe_t best = {0};
    mdnn_status_t status = prepare(&chooser);
    if (status == MDNN_STATUS_OK)
        status = try_rules(&chooser, &best);
    if (status == MDNN_STATUS_OK)
        status = try_papers(&chooser);
    if (status == MDNN_STATUS_OK)
        status = improve(&chooser, best);
    if (status == MDNN_STATUS_OK)
        status = shake(&chooser);
    chooser_fini(&chooser);
    return status;
}
