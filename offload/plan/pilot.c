#include "offload/plan/pilot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/pilot_internal.h"

enum {
    PERIODS = 4,     /* as many as the history remembers */
    TIMED = 1 << 13, /* records whose times may still come */
    REPLANS = 8,     /* for want of memory */
    BEGUN = 16,      /* ranges that began last and may leave, of which some were not used yet */
    TRIES = 3,       /* plans of a period that may fail for want of host memory */
    TAKE_UP_AHEAD =
        64 /* operations: what they use is called back when the program is found again */
};
static const uint64_t never = UINT64_MAX;
/* Of two plans whose rounds differ by less, the one that keeps to its schedule. */
static const double AS_FAST = 1.01;
/* Rounds may take so much less than is predicted: moves begin earlier than the replay has it. */
static const double PREDICTED_LONG = 1.1;

typedef enum stage {
    STAGE_TIMING,
    STAGE_PLANNING,
    STAGE_PLANNED, /* `plan` is there, or there will be none */
} stage_t;

typedef struct entry {
    uint64_t number; /* the history's; 0: free */
    uint32_t count;  /* operations */
    stage_t stage;
    double *times_us;   /* of each operation; negative: not yet */
    uint32_t untimed;   /* of them */
    uint64_t passed;    /* operations while the stage was TIMING */
    uint64_t plan_from; /* not planned before so many passed */
    unsigned tries;
    uint64_t followed;    /* operations */
    uint64_t short_bytes; /* of the budget, left alone by plans that are made now */
    unsigned replans;
    pilot_plan_t *plan;
    pilot_plan_t *before; /* the plan, with more memory, as long as `plan` has to prove itself */
} entry_t;

/* One of the history's ranges; the same index. */
typedef struct known_range {
    void *owner;
    uint64_t bytes;
    uint64_t touched_at; /* sequence behind its last use or its beginning; `never`: not alive */
    uint32_t slot;       /* in the period of pilot->active; MDNN_NO_POSITION */
    bool stays, used;
} known_range_t;

typedef struct timed {
    uint64_t sequence_end; /* sequence + 1; 0: none */
    uint64_t period;
    uint32_t position;
} timed_t;

struct mdnn_pilot {
    mdnn_pilot_config_t config;
    mdnn_history_t *history;
    uint64_t sequence; /* of the next record */
    known_range_t *ranges;
    uint32_t range_capacity;
    uint32_t begun[BEGUN]; /* a ring of those that began last */
    uint32_t begun_count;
    entry_t entries[PERIODS];
    mdnn_history_place_t place; /* of the last record */
    uint64_t followed_for;      /* records in a row that stood one behind the other there */
    uint32_t round;             /* operations of its period */
    pilot_plan_t *active;       /* whose ranges are known; of an entry */
    uint64_t flown;             /* records in a row in which it was followed */
    uint64_t short_bytes;       /* most that was missing in the last round of these, */
    uint64_t short_before;      /* and in the one before */
    pilot_job_t *job;           /* NULL: none is under way */
    uint64_t job_period;
    uint64_t plans;       /* made */
    uint64_t aside_bytes; /* of the budget */
    timed_t *timed;       /* ring of TIMED */
    uint32_t periods;
};

/* ---- life ---- */

mdnn_pilot_t *mdnn_pilot_create(const mdnn_pilot_config_t *config)
{
    mdnn_pilot_t *const pilot = calloc(1, sizeof *pilot);
    if (!pilot)
        return NULL;
    pilot->config = *config;
    pilot->history = mdnn_history_create(NULL);
    pilot->timed = calloc(TIMED, sizeof *pilot->timed);
    if (pilot->history && pilot->timed)
        return pilot;
    mdnn_pilot_destroy(pilot);
    return NULL;
}

static void forget(mdnn_pilot_t *pilot, entry_t *entry)
{
    if (entry->plan == pilot->active)
        pilot->active = NULL;
    pilot_plan_destroy(entry->plan);
    pilot_plan_destroy(entry->before);
    free(entry->times_us);
    *entry = (entry_t){0};
}

void mdnn_pilot_destroy(mdnn_pilot_t *pilot)
{
    pilot_plan_t *unwanted = NULL;
    if (!pilot)
        return;
    if (pilot->job) {
        pilot_job_give_up(pilot->job);
        if (pilot_job_finish(pilot->job, &unwanted) == MDNN_STATUS_OK)
            pilot_plan_destroy(unwanted);
    }
    for (int i = 0; i < PERIODS; i++)
        forget(pilot, &pilot->entries[i]);
    mdnn_history_destroy(pilot->history);
    free(pilot->ranges);
    free(pilot->timed);
    free(pilot);
}

/* ---- ranges ---- */

static bool lives(const mdnn_pilot_t *pilot, uint32_t range)
{
    return range < pilot->range_capacity && pilot->ranges[range].touched_at != never;
}

static bool make_room(mdnn_pilot_t *pilot, uint32_t range)
{
    uint32_t capacity = pilot->range_capacity ? pilot->range_capacity : 256;
    if (range < pilot->range_capacity)
        return true;
    while (capacity <= range)
        capacity = capacity > UINT32_MAX / 2 ? UINT32_MAX : 2 * capacity;
    known_range_t *const grown = reallocarray(pilot->ranges, capacity, sizeof *grown);
    if (!grown)
        return false;
    for (uint32_t i = pilot->range_capacity; i < capacity; i++)
        grown[i] = (known_range_t){.touched_at = never, .slot = MDNN_NO_POSITION};
    pilot->ranges = grown;
    pilot->range_capacity = capacity;
    return true;
}

uint32_t mdnn_pilot_begin_range(mdnn_pilot_t *pilot, uint64_t bytes, bool stays, void *owner)
{
    const uint32_t range = mdnn_history_begin_range(pilot->history, bytes, stays);
    if (range == MDNN_NO_POSITION)
        return range;
    if (!make_room(pilot, range)) {
        mdnn_history_end_range(pilot->history, range);
        return MDNN_NO_POSITION;
    }
    pilot->ranges[range] = (known_range_t){.owner = owner,
                                           .bytes = bytes,
                                           .touched_at = pilot->sequence,
                                           .slot = MDNN_NO_POSITION,
                                           .stays = stays};
    if (!stays) /* nobody asks when those are used */
        pilot->begun[pilot->begun_count++ % BEGUN] = range;
    return range;
}

/* Range `range` of the history is range `slot` of the active plan's period, and no other is. */
static void assign(mdnn_pilot_t *pilot, uint32_t range, uint32_t slot)
{
    uint32_t *const handles = pilot->active->handles;
    known_range_t *const known = &pilot->ranges[range];
    if (known->slot == slot)
        return;
    if (known->slot != MDNN_NO_POSITION)
        handles[known->slot] = MDNN_NO_POSITION;
    if (slot != MDNN_NO_POSITION && handles[slot] != MDNN_NO_POSITION)
        pilot->ranges[handles[slot]].slot = MDNN_NO_POSITION;
    known->slot = slot;
    if (slot != MDNN_NO_POSITION)
        handles[slot] = range;
}

void mdnn_pilot_end_range(mdnn_pilot_t *pilot, uint32_t range)
{
    if (!lives(pilot, range))
        return;
    mdnn_history_end_range(pilot->history, range);
    if (pilot->active)
        assign(pilot, range, MDNN_NO_POSITION);
    pilot->ranges[range] = (known_range_t){.touched_at = never, .slot = MDNN_NO_POSITION};
}

/* ---- periods ---- */

static entry_t *find_entry(mdnn_pilot_t *pilot, uint64_t number)
{
    for (int i = 0; i < PERIODS; i++)
        if (pilot->entries[i].number == number)
            return &pilot->entries[i];
    return NULL;
}

/* The history has found a period, for which it may have forgotten another. NULL without memory. */
static entry_t *make_entry(mdnn_pilot_t *pilot, uint64_t number)
{
    for (int i = 0; i < PERIODS; i++)
        if (pilot->entries[i].number != 0 &&
            !mdnn_history_period(pilot->history, pilot->entries[i].number))
            forget(pilot, &pilot->entries[i]);
    entry_t *const entry = find_entry(pilot, 0);
    const uint32_t count = mdnn_history_period(pilot->history, number)->operation_count;
    double *const times_us = malloc(((size_t)count + 1) * sizeof *times_us);
    if (!entry || !times_us) {
        free(times_us);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        times_us[i] = -1;
    *entry = (entry_t){.number = number, .count = count, .times_us = times_us, .untimed = count};
    if (number > pilot->periods)
        pilot->periods = (uint32_t)number;
    return entry;
}

/* ---- times ---- */

/* Of several times of an operation the least: what disturbs it makes it slower. */
static void set_time(entry_t *entry, uint32_t position, double time_us)
{
    if (entry->stage != STAGE_TIMING || !(time_us >= 0) || !isfinite(time_us))
        return;
    if (entry->times_us[position] < 0)
        entry->untimed--;
    else if (entry->times_us[position] <= time_us)
        return;
    entry->times_us[position] = time_us;
}

void mdnn_pilot_timed(mdnn_pilot_t *pilot, uint64_t sequence, double time_us)
{
    const timed_t *const timed = &pilot->timed[sequence % TIMED];
    if (sequence == never || timed->sequence_end != sequence + 1)
        return;
    entry_t *const entry = find_entry(pilot, timed->period);
    if (entry)
        set_time(entry, timed->position, time_us);
}

uint64_t mdnn_pilot_sequence(const mdnn_pilot_t *pilot)
{
    return pilot->sequence;
}

/* ---- planning ---- */

/* Tries again a round later, or gives up. */
static void plan_failed(entry_t *entry, mdnn_status_t status)
{
    const bool again = status == MDNN_STATUS_OUT_OF_MEMORY && ++entry->tries < TRIES;
    entry->stage = again ? STAGE_TIMING : STAGE_PLANNED;
    entry->plan_from = entry->passed + entry->count;
}

static mdnn_status_t start_job(mdnn_pilot_t *pilot, const entry_t *entry,
                               const mdnn_period_t *period, const double *times_us)
{
    mdnn_pilot_config_t config = pilot->config;
    const uint64_t alone = entry->short_bytes + pilot->aside_bytes;
    config.budget_bytes -= alone < config.budget_bytes ? alone : config.budget_bytes;
    pilot->job_period = entry->number;
    return pilot_job_start(&config, period, times_us, &pilot->job);
}

/* Once all operations were timed, or two rounds are over. */
static void start_planning(mdnn_pilot_t *pilot, entry_t *entry)
{
    const bool timed = entry->untimed == 0 || entry->passed >= 2 * (uint64_t)entry->count;
    if (!timed || pilot->job || entry->passed < entry->plan_from)
        return;
    const mdnn_status_t status = start_job(
        pilot, entry, mdnn_history_period(pilot->history, entry->number), entry->times_us);
    entry->stage = STAGE_PLANNING;
    if (status != MDNN_STATUS_OK)
        plan_failed(entry, status);
}

/* Of the last rounds under the plan the shortest: what disturbs them makes them longer. */
static double round_of(const pilot_plan_t *plan)
{
    double least_us = plan->rounds_us[0];
    for (int i = 1; i < PILOT_ROUNDS; i++)
        least_us = plan->rounds_us[i] < least_us ? plan->rounds_us[i] : least_us;
    return least_us;
}

static bool is_measured(const pilot_plan_t *plan)
{
    return plan->rounds >= PILOT_ROUNDS;
}

/* A plan with less memory may find that there is too little; and it may move so much more that what
 * is missing now costs less. */
static bool may_help(const pilot_plan_t *before, const pilot_plan_t *made)
{
    return made->plan.verdict == MDNN_VERDICT_FITS &&
           made->plan.predicted.time_us <= PREDICTED_LONG * round_of(before);
}

/* Takes over *made, if it is of use. */
static void adopt_for(mdnn_pilot_t *pilot, entry_t *entry, pilot_plan_t *made)
{
    if (entry->plan && !may_help(entry->plan, made)) {
        entry->replans = REPLANS;
        pilot_plan_destroy(made);
        return;
    }
    if (entry->plan == pilot->active)
        pilot->active = NULL;
    entry->before = entry->plan;
    entry->plan = made;
    made->number = ++pilot->plans;
    made->short_bytes = entry->short_bytes;
    entry->stage = STAGE_PLANNED;
}

/* The plan with less memory stays, or the one before does. */
static void judge_plan(mdnn_pilot_t *pilot, entry_t *entry)
{
    if (!entry->before || !is_measured(entry->plan))
        return;
    pilot_plan_t *worse = entry->before;
    if (round_of(entry->plan) > AS_FAST * round_of(entry->before)) {
        worse = entry->plan;
        entry->plan = entry->before;
        entry->replans = REPLANS;
        pilot->active = NULL;
    }
    pilot_plan_destroy(worse);
    entry->before = NULL;
}

uint64_t mdnn_pilot_followed_plan(const mdnn_pilot_t *pilot)
{
    return pilot->active && pilot->flown >= pilot->active->period.operation_count
               ? pilot->active->number
               : 0;
}

void mdnn_pilot_set_aside(mdnn_pilot_t *pilot, uint64_t bytes)
{
    pilot->aside_bytes = bytes;
}

void mdnn_pilot_round_took(mdnn_pilot_t *pilot, uint64_t plan, double time_us)
{
    for (int i = 0; i < PERIODS; i++) {
        pilot_plan_t *const followed = pilot->entries[i].plan;
        if (followed && followed->number == plan)
            followed->rounds_us[followed->rounds++ % PILOT_ROUNDS] = time_us;
    }
}

/* The plan that was being made is ready. Its period may be forgotten by now. */
static void adopt_plan(mdnn_pilot_t *pilot)
{
    pilot_plan_t *made = NULL;
    const mdnn_status_t status = pilot_job_finish(pilot->job, &made);
    entry_t *const entry = find_entry(pilot, pilot->job_period);
    pilot->job = NULL;
    if (!entry)
        pilot_plan_destroy(made);
    else if (status == MDNN_STATUS_OK)
        adopt_for(pilot, entry, made);
    else if (!entry->plan)
        plan_failed(entry, status);
    if (entry && entry->stage == STAGE_PLANNED) {
        free(entry->times_us);
        entry->times_us = NULL;
    }
}

/* After each round under the plan. What is missing in one round only comes of something else than
 * less memory: a word that looked like the address of what is away, a call that deviated. */
static void plan_with_less(mdnn_pilot_t *pilot, entry_t *entry)
{
    const uint64_t now = pilot->short_bytes, before = pilot->short_before;
    const uint64_t bytes = now < before ? now : before;
    if (pilot->job)
        return;
    pilot->short_before = bytes > 0 ? 0 : now;
    pilot->short_bytes = 0;
    if (bytes == 0 || entry->before || !is_measured(entry->plan) || entry->replans >= REPLANS ||
        bytes > pilot->config.budget_bytes - entry->short_bytes)
        return;
    entry->replans++;
    entry->short_bytes += bytes;
    if (start_job(pilot, entry, &entry->plan->period, NULL) != MDNN_STATUS_OK)
        entry->short_bytes -= bytes;
}

void mdnn_pilot_short(mdnn_pilot_t *pilot, uint64_t bytes)
{
    const entry_t *const entry =
        pilot->place.period != 0 ? find_entry(pilot, pilot->place.period) : NULL;
    if (entry && entry->plan && entry->plan == pilot->active && pilot->flown >= entry->count &&
        bytes > pilot->short_bytes)
        pilot->short_bytes = bytes;
}

/* ---- taking a plan up ---- */

static void *owner_of(const mdnn_pilot_t *pilot, uint32_t slot)
{
    const uint32_t range = pilot->active->handles[slot];
    return range == MDNN_NO_POSITION ? NULL : pilot->ranges[range].owner;
}

/* The entry for the owner among the first `count`, or the one behind them. */
static mdnn_advised_t *advised(mdnn_advised_t *entries, size_t count, const void *owner)
{
    size_t at = 0;
    while (at < count && entries[at].owner != owner)
        at++;
    return &entries[at];
}

/* All but its first `keep` bytes. */
static void add_leave(mdnn_pilot_t *pilot, uint32_t slot, uint64_t keep, mdnn_advice_t *advice)
{
    mdnn_advised_t *const leave = pilot->active->leave;
    void *const owner = owner_of(pilot, slot);
    mdnn_advised_t *const entry = advised(leave, advice->leave_count, owner);
    if (!owner || (entry < leave + advice->leave_count && entry->bytes <= keep))
        return;
    advice->leave_count += entry == leave + advice->leave_count;
    *entry = (mdnn_advised_t){owner, keep};
}

/* Its first `upto` bytes. */
static void add_back(mdnn_pilot_t *pilot, uint32_t slot, uint64_t upto, mdnn_advice_t *advice)
{
    mdnn_advised_t *const back = pilot->active->back;
    void *const owner = owner_of(pilot, slot);
    mdnn_advised_t *const entry = advised(back, advice->back_count, owner);
    if (!owner || (entry < back + advice->back_count && entry->bytes >= upto))
        return;
    advice->back_count += entry == back + advice->back_count;
    *entry = (mdnn_advised_t){owner, upto};
}

/* The last parts of a range leave, and the first of those come back first. */
static void add_move(mdnn_pilot_t *pilot, uint32_t move, bool back, mdnn_advice_t *advice)
{
    const mdnn_parts_t *const parts = &pilot->active->parts;
    const uint32_t part = pilot->active->plan.schedule.moves[move].range;
    if (back)
        add_back(pilot, parts->whole[part], parts->begin[part] + parts->period.ranges[part].bytes,
                 advice);
    else
        add_leave(pilot, parts->whole[part], parts->begin[part], advice);
}

/* A range that nothing uses is as good as any other of its size for being away for good. */
static void send_unused(mdnn_pilot_t *pilot, uint32_t range, mdnn_advice_t *advice)
{
    pilot_plan_t *const plan = pilot->active;
    const uint64_t bytes = pilot->ranges[range].bytes;
    size_t low = 0, high = plan->unused_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (plan->unused[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == plan->unused_count)
        return;
    const uint32_t first = (uint32_t)low;
    for (low += plan->unused[first].taken;
         low < plan->unused_count && plan->unused[low].bytes == bytes; low++) {
        plan->unused[first].taken++;
        if (plan->handles[plan->unused[low].range] != MDNN_NO_POSITION)
            continue;
        assign(pilot, range, plan->unused[low].range);
        add_leave(pilot, plan->unused[low].range, 0, advice);
        return;
    }
}

/* After a whole round was followed, what has no place in it is what nothing uses. */
static void send_all_unused(mdnn_pilot_t *pilot, mdnn_advice_t *advice)
{
    pilot_plan_t *const plan = pilot->active;
    const uint32_t count = plan->period.operation_count;
    bool missing = false;
    for (size_t i = 0; i < plan->unused_count; i++) {
        plan->unused[i].taken = 0;
        missing |= plan->handles[plan->unused[i].range] == MDNN_NO_POSITION;
    }
    for (uint32_t i = 0; missing && i < pilot->range_capacity; i++) {
        const known_range_t *const known = &pilot->ranges[i];
        if (lives(pilot, i) && known->slot == MDNN_NO_POSITION && !known->stays &&
            pilot->sequence - known->touched_at >= count)
            send_unused(pilot, i, advice);
    }
}

/* Which range of the period each living one is. If two claim to be the same, the one that was used
 * last. */
static void find_ranges(mdnn_pilot_t *pilot)
{
    pilot_plan_t *const plan = pilot->active;
    for (uint32_t r = 0; r < plan->period.range_count; r++)
        plan->handles[r] = MDNN_NO_POSITION;
    for (uint32_t i = 0; i < pilot->range_capacity; i++)
        pilot->ranges[i].slot = MDNN_NO_POSITION;
    for (uint32_t i = 0; i < pilot->range_capacity; i++) {
        const uint32_t slot =
            lives(pilot, i) ? mdnn_history_next_use(pilot->history, i).range : MDNN_NO_POSITION;
        if (slot == MDNN_NO_POSITION)
            continue;
        const uint32_t other = plan->handles[slot];
        if (other == MDNN_NO_POSITION ||
            pilot->ranges[other].touched_at < pilot->ranges[i].touched_at)
            assign(pilot, i, slot);
    }
}

static bool is_within(const pilot_plan_t *plan, uint32_t position, int32_t from, int32_t to)
{
    const int32_t count = (int32_t)plan->period.operation_count;
    const int32_t behind = (((int32_t)position - from) % count + count) % count;
    return behind < to - from;
}

/* passed[range]: whether the plan has it away at `position` or the next. */
static void find_away(pilot_plan_t *plan, uint32_t position)
{
    const mdnn_schedule_t *const schedule = &plan->plan.schedule;
    memset(plan->passed, 0, plan->period.range_count * sizeof *plan->passed);
    for (size_t m = 0; m < schedule->move_count; m++) {
        int32_t from, to;
        mdnn_move_away(&plan->parts.period, &schedule->moves[m], &from, &to);
        if (is_within(plan, position, from, to) || is_within(plan, position + 1, from, to))
            plan->passed[plan->parts.whole[schedule->moves[m].range]] = true;
    }
}

/* The program is where the plan is not followed yet. What should have left meanwhile stays, until
 * its turn comes again; what is used soon and should be there is called back. */
static void take_up(mdnn_pilot_t *pilot, pilot_plan_t *plan, uint32_t position,
                    mdnn_advice_t *advice)
{
    const uint32_t count = plan->period.operation_count;
    pilot->active = plan;
    pilot->flown = pilot->short_bytes = pilot->short_before = 0;
    find_ranges(pilot);
    find_away(plan, position);
    for (uint32_t ahead = 1; ahead <= TAKE_UP_AHEAD && ahead < count; ahead++) {
        const mdnn_operation_t *const operation =
            &plan->period.operations[(position + ahead) % count];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const uint32_t slot = plan->period.uses[operation->first_use + u].range;
            if (!plan->passed[slot])
                add_back(pilot, slot, UINT64_MAX, advice);
            plan->passed[slot] = true;
        }
    }
}

/* ---- following it ---- */

static void learn_ranges(mdnn_pilot_t *pilot, const mdnn_history_operation_t *operation)
{
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = operation->uses[u].range;
        if (!lives(pilot, range))
            continue;
        const uint32_t slot = mdnn_history_next_use(pilot->history, range).range;
        if (slot != MDNN_NO_POSITION)
            assign(pilot, range, slot);
    }
}

static void follow(mdnn_pilot_t *pilot, entry_t *entry, const mdnn_history_operation_t *operation,
                   mdnn_advice_t *advice)
{
    judge_plan(pilot, entry); /* first: a plan may end here */
    pilot_plan_t *const plan = entry->plan;
    const uint32_t position = pilot->place.position, count = plan->period.operation_count;
    const bool known = pilot->active == plan && pilot->followed_for > 1;
    if (known)
        learn_ranges(pilot, operation);
    else
        take_up(pilot, plan, position, advice);
    if (known ? pilot->followed_for % count == 0 : pilot->followed_for >= count)
        send_all_unused(pilot, advice);
    for (uint32_t i = plan->leaves.first[position]; i < plan->leaves.first[position + 1]; i++)
        add_move(pilot, plan->leaves.items[i], false, advice);
    for (uint32_t i = plan->backs.first[position]; i < plan->backs.first[position + 1]; i++)
        add_move(pilot, plan->backs.items[i], true, advice);
    advice->leave = plan->leave;
    advice->back = plan->back;
    advice->join = plan->joins[(position + 1) % count];
    if (++pilot->flown % count == 0)
        plan_with_less(pilot, entry);
}

/* ---- recording ---- */

static void time_round(mdnn_pilot_t *pilot, entry_t *entry, double time_us, mdnn_advice_t *advice)
{
    const uint32_t position = pilot->place.position;
    const uint64_t sequence = pilot->sequence - 1;
    pilot->timed[sequence % TIMED] = (timed_t){sequence + 1, entry->number, position};
    set_time(entry, position, time_us);
    entry->passed++;
    start_planning(pilot, entry);
    if (entry->stage == STAGE_TIMING)
        advice->time = entry->times_us[(position + 1) % entry->count] < 0;
}

/* The period that the program is in, NULL if that is unknown. */
static entry_t *find_place(mdnn_pilot_t *pilot)
{
    const mdnn_history_place_t before = pilot->place;
    const mdnn_history_place_t place = pilot->place = mdnn_history_place(pilot->history);
    if (place.period == 0)
        return NULL;
    entry_t *const entry = find_entry(pilot, place.period);
    if (!entry) {
        pilot->followed_for = 1;
        pilot->round = mdnn_history_period(pilot->history, place.period)->operation_count;
        return make_entry(pilot, place.period);
    }
    const bool went_on =
        before.period == place.period && (before.position + 1) % entry->count == place.position;
    pilot->followed_for = went_on ? pilot->followed_for + 1 : 1;
    pilot->round = entry->count;
    return entry;
}

void mdnn_pilot_record(mdnn_pilot_t *pilot, const mdnn_history_operation_t *operation,
                       mdnn_advice_t *advice)
{
    *advice = (mdnn_advice_t){0};
    mdnn_history_record(pilot->history, operation);
    pilot->sequence++;
    for (uint32_t u = 0; u < operation->use_count; u++)
        if (lives(pilot, operation->uses[u].range)) {
            pilot->ranges[operation->uses[u].range].touched_at = pilot->sequence;
            pilot->ranges[operation->uses[u].range].used = true;
        }
    if (pilot->job && pilot_job_is_done(pilot->job))
        adopt_plan(pilot);
    entry_t *const entry = find_place(pilot);
    if (!entry)
        return;
    entry->followed++;
    if (entry->stage == STAGE_TIMING)
        time_round(pilot, entry, operation->time_us, advice);
    /* A plan in which nothing moves is followed, too: it may turn out that memory is short. */
    if (entry->plan && entry->plan->plan.verdict == MDNN_VERDICT_FITS &&
        pilot->config.policy != MDNN_POLICY_NONE)
        follow(pilot, entry, operation, advice);
}

/* ---- answers ---- */

/* Whether a whole round was followed in which nothing used the range. */
static bool is_unused(const mdnn_pilot_t *pilot, uint32_t range)
{
    return lives(pilot, range) && pilot->followed_for >= pilot->round &&
           pilot->sequence - pilot->ranges[range].touched_at >= pilot->round;
}

/* That is followed where the program is. */
static const pilot_plan_t *plan_of_place(const mdnn_pilot_t *pilot)
{
    const uint64_t period = pilot->place.period;
    for (int i = 0; period != 0 && i < PERIODS; i++)
        if (pilot->entries[i].number == period && pilot->entries[i].plan == pilot->active)
            return pilot->active;
    return NULL;
}

/* Ranges of that size that began not long ago and were not used yet. */
static uint32_t unused_of(const mdnn_pilot_t *pilot, uint64_t bytes)
{
    const uint32_t count = pilot->begun_count < BEGUN ? pilot->begun_count : BEGUN;
    uint32_t unused = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t range = pilot->begun[i];
        bool again = false; /* it ended, and another began */
        for (uint32_t before = 0; before < i; before++)
            again |= pilot->begun[before] == range;
        unused += !again && lives(pilot, range) && !pilot->ranges[range].used &&
                  pilot->ranges[range].bytes == bytes;
    }
    return unused;
}

mdnn_first_use_t mdnn_pilot_first_use(const mdnn_pilot_t *pilot, uint64_t bytes)
{
    const pilot_plan_t *const plan = plan_of_place(pilot);
    if (!plan || pilot->flown == 0 || plan->plan.schedule.move_count == 0)
        return MDNN_FIRST_USE_UNKNOWN;
    const mdnn_period_t *const period = &plan->period;
    const uint32_t next = (pilot->place.position + 1) % period->operation_count;
    const mdnn_operation_t *const operation = &period->operations[next];
    uint32_t births = 0;
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_period_range_t *const range =
            &period->ranges[period->uses[operation->first_use + u].range];
        births += range->birth == next && range->bytes == bytes;
    }
    return births > 0 && births > unused_of(pilot, bytes) ? MDNN_FIRST_USE_NEXT
                                                          : MDNN_FIRST_USE_LATER;
}

uint32_t mdnn_pilot_distance(const mdnn_pilot_t *pilot, uint32_t range)
{
    const mdnn_next_use_t next = mdnn_history_next_use(pilot->history, range);
    if (next.expectation == MDNN_EXPECT_USE)
        return next.operations;
    if (next.expectation == MDNN_EXPECT_DEATH)
        return UINT32_MAX;
    return pilot->place.period != 0 && is_unused(pilot, range) ? UINT32_MAX : 0;
}

static void report_plan(mdnn_pilot_report_t *report, const pilot_plan_t *made)
{
    report->period_operations = made->period.operation_count;
    report->verdict = made->plan.verdict;
    report->policy = made->plan.policy;
    report->floor_bytes = made->plan.floor_bytes;
    report->compute_us = made->compute_us;
    report->predicted_us = made->plan.predicted.time_us;
    report->link_bound_us = made->plan.link_bound_us;
    report->planning_ms = made->planning_ms;
    report->out_bytes = made->plan.predicted.out_bytes;
    report->in_bytes = made->plan.predicted.in_bytes;
}

mdnn_pilot_report_t mdnn_pilot_report(const mdnn_pilot_t *pilot)
{
    mdnn_pilot_report_t report = {.operations = pilot->sequence,
                                  .periods = pilot->periods,
                                  .followed = pilot->place.period != 0,
                                  .policy = pilot->config.policy};
    uint64_t most = 0;
    for (int i = 0; i < PERIODS; i++) {
        const entry_t *const entry = &pilot->entries[i];
        if (!entry->plan || entry->followed < most)
            continue;
        most = entry->followed;
        report_plan(&report, entry->plan);
        report.short_bytes = entry->plan->short_bytes;
    }
    return report;
}
