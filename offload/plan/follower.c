#include "offload/plan/follower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/follower_check.h"
#include "offload/plan/follower_internal.h"

/* Of two plans whose iterations differ by less, the one that keeps to its schedule. */
static const double AS_FAST = 1.01;
/* Iterations may take so much less than is predicted: moves begin earlier than the replay has it. */
static const double PREDICTED_LONG = 1.1;

/* ---- life ---- */

mdnn_follower_t *mdnn_follower_create(const mdnn_follower_config_t *config)
{
    mdnn_follower_t *const follower = calloc(1, sizeof *follower);
    if (!follower)
        return NULL;
    follower->config = *config;
    follower->history = mdnn_history_create(NULL);
    follower->timed = calloc(FOLLOWER_TIMED, sizeof *follower->timed);
    if (follower->history && follower->timed)
        return follower;
    mdnn_follower_destroy(follower);
    return NULL;
}

static void forget(mdnn_follower_t *follower, follower_entry_t *entry)
{
    if (entry->plan == follower->active)
        follower->active = NULL;
    follower_plan_destroy(entry->plan);
    follower_plan_destroy(entry->before);
    free(entry->times_us);
    *entry = (follower_entry_t){0};
}

void mdnn_follower_destroy(mdnn_follower_t *follower)
{
    follower_plan_t *unwanted = NULL;
    if (!follower)
        return;
    if (follower->job) {
        follower_job_give_up(follower->job);
        if (follower_job_finish(follower->job, &unwanted) == MDNN_STATUS_OK)
            follower_plan_destroy(unwanted);
    }
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        forget(follower, &follower->entries[i]);
    mdnn_history_destroy(follower->history);
    free(follower->ranges);
    free(follower->timed);
    free(follower);
}

/* ---- ranges ---- */

static bool lives(const mdnn_follower_t *follower, uint32_t range)
{
    return range < follower->range_capacity && follower->ranges[range].touched_at != follower_never;
}

static bool make_room(mdnn_follower_t *follower, uint32_t range)
{
    uint32_t capacity = follower->range_capacity ? follower->range_capacity : 256;
    if (range < follower->range_capacity)
        return true;
    while (capacity <= range)
        capacity = capacity > UINT32_MAX / 2 ? UINT32_MAX : 2 * capacity;
    follower_range_t *const grown = reallocarray(follower->ranges, capacity, sizeof *grown);
    if (!grown)
        return false;
    for (uint32_t i = follower->range_capacity; i < capacity; i++)
        grown[i] = (follower_range_t){.touched_at = follower_never, .slot = MDNN_NO_POSITION};
    follower->ranges = grown;
    follower->range_capacity = capacity;
    return true;
}

uint32_t mdnn_follower_begin_range(mdnn_follower_t *follower, uint64_t bytes, bool stays,
                                   void *owner)
{
    const uint32_t range = mdnn_history_begin_range(follower->history, bytes, stays);
    if (range == MDNN_NO_POSITION)
        return range;
    if (!make_room(follower, range)) {
        mdnn_history_end_range(follower->history, range);
        return MDNN_NO_POSITION;
    }
    follower->ranges[range] = (follower_range_t){.owner = owner,
                                                 .bytes = bytes,
                                                 .touched_at = follower->sequence,
                                                 .slot = MDNN_NO_POSITION,
                                                 .stays = stays};
    if (!stays) /* nobody asks when those are used */
        follower->begun[follower->begun_count++ % FOLLOWER_BEGUN] = range;
    mdnn_follower_check(follower);
    return range;
}

/* Range `range` of the history is range `slot` of the active plan's period, and no other is. */
static void assign(mdnn_follower_t *follower, uint32_t range, uint32_t slot)
{
    uint32_t *const handles = follower->active->handles;
    follower_range_t *const known = &follower->ranges[range];
    if (known->slot == slot)
        return;
    if (known->slot != MDNN_NO_POSITION)
        handles[known->slot] = MDNN_NO_POSITION;
    if (slot != MDNN_NO_POSITION && handles[slot] != MDNN_NO_POSITION)
        follower->ranges[handles[slot]].slot = MDNN_NO_POSITION;
    known->slot = slot;
    if (slot != MDNN_NO_POSITION)
        handles[slot] = range;
}

void mdnn_follower_end_range(mdnn_follower_t *follower, uint32_t range)
{
    if (!lives(follower, range))
        return;
    mdnn_history_end_range(follower->history, range);
    if (follower->active)
        assign(follower, range, MDNN_NO_POSITION);
    follower->ranges[range] =
        (follower_range_t){.touched_at = follower_never, .slot = MDNN_NO_POSITION};
    mdnn_follower_check(follower);
}

/* ---- periods ---- */

static follower_entry_t *find_entry(mdnn_follower_t *follower, uint64_t number)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number == number)
            return &follower->entries[i];
    return NULL;
}

/* The history has found a period, for which it may have forgotten another. NULL without memory. */
static follower_entry_t *make_entry(mdnn_follower_t *follower, uint64_t number)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number != 0 &&
            !mdnn_history_period(follower->history, follower->entries[i].number))
            forget(follower, &follower->entries[i]);
    follower_entry_t *const entry = find_entry(follower, 0);
    const uint32_t count = mdnn_history_period(follower->history, number)->operation_count;
    double *const times_us = malloc(((size_t)count + 1) * sizeof *times_us);
    if (!entry || !times_us) {
        free(times_us);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        times_us[i] = -1;
    *entry = (follower_entry_t){
        .number = number, .count = count, .times_us = times_us, .untimed = count};
    if (number > follower->periods)
        follower->periods = (uint32_t)number;
    return entry;
}

/* ---- times ---- */

/* Of several times of an operation the least: what disturbs it makes it slower. */
static void set_time(follower_entry_t *entry, uint32_t position, double time_us)
{
    if (entry->stage != FOLLOWER_STAGE_TIMING || !(time_us >= 0) || !isfinite(time_us))
        return;
    if (entry->times_us[position] < 0)
        entry->untimed--;
    else if (entry->times_us[position] <= time_us)
        return;
    entry->times_us[position] = time_us;
}

void mdnn_follower_timed(mdnn_follower_t *follower, uint64_t sequence, double time_us)
{
    const follower_timed_t *const timed = &follower->timed[sequence % FOLLOWER_TIMED];
    if (sequence == follower_never || timed->sequence_end != sequence + 1)
        return;
    follower_entry_t *const entry = find_entry(follower, timed->period);
    if (entry)
        set_time(entry, timed->position, time_us);
    mdnn_follower_check(follower);
}

uint64_t mdnn_follower_sequence(const mdnn_follower_t *follower)
{
    return follower->sequence;
}

/* ---- planning ---- */

/* Tries again an iteration later, or gives up. */
static void plan_failed(follower_entry_t *entry, mdnn_status_t status)
{
    const bool again = status == MDNN_STATUS_OUT_OF_MEMORY && ++entry->tries < FOLLOWER_TRIES;
    entry->stage = again ? FOLLOWER_STAGE_TIMING : FOLLOWER_STAGE_PLANNED;
    entry->plan_from = entry->passed + entry->count;
}

static mdnn_status_t start_job(mdnn_follower_t *follower, const follower_entry_t *entry,
                               const mdnn_period_t *period, const double *times_us)
{
    mdnn_follower_config_t config = follower->config;
    const uint64_t alone = entry->short_bytes + follower->aside_bytes;
    config.budget_bytes -= alone < config.budget_bytes ? alone : config.budget_bytes;
    follower->job_period = entry->number;
    return follower_job_start(&config, period, times_us, &follower->job);
}

/* Once all operations were timed, or two iterations are over. */
static void start_planning(mdnn_follower_t *follower, follower_entry_t *entry)
{
    const bool timed = entry->untimed == 0 || entry->passed >= 2 * (uint64_t)entry->count;
    if (!timed || follower->job || entry->passed < entry->plan_from)
        return;
    const mdnn_status_t status = start_job(
        follower, entry, mdnn_history_period(follower->history, entry->number), entry->times_us);
    entry->stage = FOLLOWER_STAGE_PLANNING;
    if (status != MDNN_STATUS_OK)
        plan_failed(entry, status);
}

/* Of the last iterations under the plan the shortest: what disturbs them makes them longer. */
static double round_of(const follower_plan_t *plan)
{
    double least_us = plan->iterations_us[0];
    for (int i = 1; i < FOLLOWER_ITERATIONS; i++)
        least_us = plan->iterations_us[i] < least_us ? plan->iterations_us[i] : least_us;
    return least_us;
}

static bool is_measured(const follower_plan_t *plan)
{
    return plan->iterations >= FOLLOWER_ITERATIONS;
}

/* A plan with less memory may find that there is too little; and it may move so much more that what
 * is missing now costs less. */
static bool may_help(const follower_plan_t *before, const follower_plan_t *made)
{
    return made->plan.verdict == MDNN_VERDICT_FITS &&
           made->plan.predicted.time_us <= PREDICTED_LONG * round_of(before);
}

/* Takes over *made, if it is of use. */
static void adopt_for(mdnn_follower_t *follower, follower_entry_t *entry, follower_plan_t *made)
{
    if (entry->plan && !may_help(entry->plan, made)) {
        entry->replans = FOLLOWER_REPLANS;
        follower_plan_destroy(made);
        return;
    }
    if (entry->plan == follower->active)
        follower->active = NULL;
    entry->before = entry->plan;
    entry->plan = made;
    made->number = ++follower->plans;
    made->short_bytes = entry->short_bytes;
    entry->stage = FOLLOWER_STAGE_PLANNED;
}

/* The plan with less memory stays, or the one before does. */
static void judge_plan(mdnn_follower_t *follower, follower_entry_t *entry)
{
    if (!entry->before || !is_measured(entry->plan))
        return;
    follower_plan_t *worse = entry->before;
    if (round_of(entry->plan) > AS_FAST * round_of(entry->before)) {
        worse = entry->plan;
        entry->plan = entry->before;
        entry->replans = FOLLOWER_REPLANS;
        follower->active = NULL;
    }
    follower_plan_destroy(worse);
    entry->before = NULL;
}

uint64_t mdnn_follower_followed_plan(const mdnn_follower_t *follower)
{
    return follower->active && follower->flown >= follower->active->period.operation_count
               ? follower->active->number
               : 0;
}

void mdnn_follower_set_aside(mdnn_follower_t *follower, uint64_t bytes)
{
    follower->aside_bytes = bytes;
}

void mdnn_follower_iteration_took(mdnn_follower_t *follower, uint64_t plan, double time_us)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++) {
        follower_plan_t *const followed = follower->entries[i].plan;
        if (followed && followed->number == plan)
            followed->iterations_us[followed->iterations++ % FOLLOWER_ITERATIONS] = time_us;
    }
}

/* The plan that was being made is ready. Its period may be forgotten by now. */
static void adopt_plan(mdnn_follower_t *follower)
{
    follower_plan_t *made = NULL;
    const mdnn_status_t status = follower_job_finish(follower->job, &made);
    follower_entry_t *const entry = find_entry(follower, follower->job_period);
    follower->job = NULL;
    if (!entry)
        follower_plan_destroy(made);
    else if (status == MDNN_STATUS_OK)
        adopt_for(follower, entry, made);
    else if (!entry->plan)
        plan_failed(entry, status);
    if (entry && entry->stage == FOLLOWER_STAGE_PLANNED) {
        free(entry->times_us);
        entry->times_us = NULL;
    }
}

/* After each iteration under the plan. What is missing in one iteration only comes of something else than
 * less memory: a word that looked like the address of what is away, a call that deviated. */
static void plan_with_less(mdnn_follower_t *follower, follower_entry_t *entry)
{
    const uint64_t now = follower->short_bytes, before = follower->short_before;
    const uint64_t bytes = now < before ? now : before;
    if (follower->job)
        return;
    follower->short_before = bytes > 0 ? 0 : now;
    follower->short_bytes = 0;
    if (bytes == 0 || entry->before || !is_measured(entry->plan) ||
        entry->replans >= FOLLOWER_REPLANS ||
        bytes > follower->config.budget_bytes - entry->short_bytes)
        return;
    entry->replans++;
    entry->short_bytes += bytes;
    if (start_job(follower, entry, &entry->plan->period, NULL) != MDNN_STATUS_OK)
        entry->short_bytes -= bytes;
}

void mdnn_follower_short(mdnn_follower_t *follower, uint64_t bytes)
{
    const follower_entry_t *const entry =
        follower->place.period != 0 ? find_entry(follower, follower->place.period) : NULL;
    if (entry && entry->plan && entry->plan == follower->active &&
        follower->flown >= entry->count && bytes > follower->short_bytes)
        follower->short_bytes = bytes;
}

/* ---- taking a plan up ---- */

static void *owner_of(const mdnn_follower_t *follower, uint32_t slot)
{
    const uint32_t range = follower->active->handles[slot];
    return range == MDNN_NO_POSITION ? NULL : follower->ranges[range].owner;
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
static void add_leave(mdnn_follower_t *follower, uint32_t slot, uint64_t keep,
                      mdnn_advice_t *advice)
{
    mdnn_advised_t *const leave = follower->active->leave;
    void *const owner = owner_of(follower, slot);
    mdnn_advised_t *const entry = advised(leave, advice->leave_count, owner);
    if (!owner || (entry < leave + advice->leave_count && entry->bytes <= keep))
        return;
    advice->leave_count += entry == leave + advice->leave_count;
    *entry = (mdnn_advised_t){owner, keep};
}

/* Its first `upto` bytes. */
static void add_back(mdnn_follower_t *follower, uint32_t slot, uint64_t upto, mdnn_advice_t *advice)
{
    mdnn_advised_t *const back = follower->active->back;
    void *const owner = owner_of(follower, slot);
    mdnn_advised_t *const entry = advised(back, advice->back_count, owner);
    if (!owner || (entry < back + advice->back_count && entry->bytes >= upto))
        return;
    advice->back_count += entry == back + advice->back_count;
    *entry = (mdnn_advised_t){owner, upto};
}

/* The last parts of a range leave, and the first of those come back first. */
static void add_move(mdnn_follower_t *follower, uint32_t move, bool back, mdnn_advice_t *advice)
{
    const mdnn_parts_t *const parts = &follower->active->parts;
    const uint32_t part = follower->active->plan.schedule.moves[move].range;
    if (back)
        add_back(follower, parts->whole[part],
                 parts->begin[part] + parts->period.ranges[part].bytes, advice);
    else
        add_leave(follower, parts->whole[part], parts->begin[part], advice);
}

/* A range that nothing uses is as good as any other of its size for being away for good. */
static void send_unused(mdnn_follower_t *follower, uint32_t range, mdnn_advice_t *advice)
{
    follower_plan_t *const plan = follower->active;
    const uint64_t bytes = follower->ranges[range].bytes;
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
        assign(follower, range, plan->unused[low].range);
        add_leave(follower, plan->unused[low].range, 0, advice);
        return;
    }
}

/* After a whole iteration was followed, what has no place in it is what nothing uses. */
static void send_all_unused(mdnn_follower_t *follower, mdnn_advice_t *advice)
{
    follower_plan_t *const plan = follower->active;
    const uint32_t count = plan->period.operation_count;
    bool missing = false;
    for (size_t i = 0; i < plan->unused_count; i++) {
        plan->unused[i].taken = 0;
        missing |= plan->handles[plan->unused[i].range] == MDNN_NO_POSITION;
    }
    for (uint32_t i = 0; missing && i < follower->range_capacity; i++) {
        const follower_range_t *const known = &follower->ranges[i];
        if (lives(follower, i) && known->slot == MDNN_NO_POSITION && !known->stays &&
            follower->sequence - known->touched_at >= count)
            send_unused(follower, i, advice);
    }
}

/* Which range of the period each living one is. If two claim to be the same, the one that was used
 * last. */
static void find_ranges(mdnn_follower_t *follower)
{
    follower_plan_t *const plan = follower->active;
    for (uint32_t r = 0; r < plan->period.range_count; r++)
        plan->handles[r] = MDNN_NO_POSITION;
    for (uint32_t i = 0; i < follower->range_capacity; i++)
        follower->ranges[i].slot = MDNN_NO_POSITION;
    for (uint32_t i = 0; i < follower->range_capacity; i++) {
        const uint32_t slot = lives(follower, i) ? mdnn_history_next_use(follower->history, i).range
                                                 : MDNN_NO_POSITION;
        if (slot == MDNN_NO_POSITION)
            continue;
        const uint32_t other = plan->handles[slot];
        if (other == MDNN_NO_POSITION ||
            follower->ranges[other].touched_at < follower->ranges[i].touched_at)
            assign(follower, i, slot);
    }
}

static bool is_within(const follower_plan_t *plan, uint32_t position, int32_t from, int32_t to)
{
    const int32_t count = (int32_t)plan->period.operation_count;
    const int32_t behind = (((int32_t)position - from) % count + count) % count;
    return behind < to - from;
}

/* passed[range]: whether the plan has it away at `position` or the next. */
static void find_away(follower_plan_t *plan, uint32_t position)
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

/* Operations: what they use is called back when the program is found again. */
enum { TAKE_UP_AHEAD = 64 };

/* The program is where the plan is not followed yet. What should have left meanwhile stays, until
 * its turn comes again; what is used soon and should be there is called back. */
static void take_up(mdnn_follower_t *follower, follower_plan_t *plan, uint32_t position,
                    mdnn_advice_t *advice)
{
    const uint32_t count = plan->period.operation_count;
    follower->active = plan;
    follower->flown = follower->short_bytes = follower->short_before = 0;
    find_ranges(follower);
    find_away(plan, position);
    for (uint32_t ahead = 1; ahead <= TAKE_UP_AHEAD && ahead < count; ahead++) {
        const mdnn_operation_t *const operation =
            &plan->period.operations[(position + ahead) % count];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const uint32_t slot = plan->period.uses[operation->first_use + u].range;
            if (!plan->passed[slot])
                add_back(follower, slot, UINT64_MAX, advice);
            plan->passed[slot] = true;
        }
    }
}

/* ---- following it ---- */

static void learn_ranges(mdnn_follower_t *follower, const mdnn_history_operation_t *operation)
{
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = operation->uses[u].range;
        if (!lives(follower, range))
            continue;
        const uint32_t slot = mdnn_history_next_use(follower->history, range).range;
        if (slot != MDNN_NO_POSITION)
            assign(follower, range, slot);
    }
}

static void follow(mdnn_follower_t *follower, follower_entry_t *entry,
                   const mdnn_history_operation_t *operation, mdnn_advice_t *advice)
{
    judge_plan(follower, entry); /* first: a plan may end here */
    follower_plan_t *const plan = entry->plan;
    const uint32_t position = follower->place.position, count = plan->period.operation_count;
    const bool known = follower->active == plan && follower->followed_for > 1;
    if (known)
        learn_ranges(follower, operation);
    else
        take_up(follower, plan, position, advice);
    if (known ? follower->followed_for % count == 0 : follower->followed_for >= count)
        send_all_unused(follower, advice);
    for (uint32_t i = plan->leaves.first[position]; i < plan->leaves.first[position + 1]; i++)
        add_move(follower, plan->leaves.items[i], false, advice);
    for (uint32_t i = plan->backs.first[position]; i < plan->backs.first[position + 1]; i++)
        add_move(follower, plan->backs.items[i], true, advice);
    advice->leave = plan->leave;
    advice->back = plan->back;
    advice->join = plan->joins[(position + 1) % count];
    if (++follower->flown % count == 0)
        plan_with_less(follower, entry);
}

/* ---- recording ---- */

static void time_round(mdnn_follower_t *follower, follower_entry_t *entry, double time_us,
                       mdnn_advice_t *advice)
{
    const uint32_t position = follower->place.position;
    const uint64_t sequence = follower->sequence - 1;
    follower->timed[sequence % FOLLOWER_TIMED] =
        (follower_timed_t){sequence + 1, entry->number, position};
    set_time(entry, position, time_us);
    entry->passed++;
    start_planning(follower, entry);
    if (entry->stage == FOLLOWER_STAGE_TIMING)
        advice->time = entry->times_us[(position + 1) % entry->count] < 0;
}

/* The period that the program is in, NULL if that is unknown. */
static follower_entry_t *find_place(mdnn_follower_t *follower)
{
    const mdnn_history_place_t before = follower->place;
    const mdnn_history_place_t place = follower->place = mdnn_history_place(follower->history);
    if (place.period == 0)
        return NULL;
    follower_entry_t *const entry = find_entry(follower, place.period);
    if (!entry) {
        follower->followed_for = 1;
        follower->iteration = mdnn_history_period(follower->history, place.period)->operation_count;
        return make_entry(follower, place.period);
    }
    const bool went_on =
        before.period == place.period && (before.position + 1) % entry->count == place.position;
    follower->followed_for = went_on ? follower->followed_for + 1 : 1;
    follower->iteration = entry->count;
    return entry;
}

static void record(mdnn_follower_t *follower, const mdnn_history_operation_t *operation,
                   mdnn_advice_t *advice)
{
    *advice = (mdnn_advice_t){0};
    mdnn_history_record(follower->history, operation);
    follower->sequence++;
    for (uint32_t u = 0; u < operation->use_count; u++)
        if (lives(follower, operation->uses[u].range)) {
            follower->ranges[operation->uses[u].range].touched_at = follower->sequence;
            follower->ranges[operation->uses[u].range].used = true;
        }
    if (follower->job && follower_job_is_done(follower->job))
        adopt_plan(follower);
    follower_entry_t *const entry = find_place(follower);
    if (!entry)
        return;
    entry->followed++;
    if (entry->stage == FOLLOWER_STAGE_TIMING)
        time_round(follower, entry, operation->time_us, advice);
    /* A plan in which nothing moves is followed, too: it may turn out that memory is short. */
    if (entry->plan && entry->plan->plan.verdict == MDNN_VERDICT_FITS &&
        follower->config.policy != MDNN_POLICY_NONE)
        follow(follower, entry, operation, advice);
}

void mdnn_follower_record(mdnn_follower_t *follower, const mdnn_history_operation_t *operation,
                          mdnn_advice_t *advice)
{
    record(follower, operation, advice);
    mdnn_follower_check(follower);
}

/* ---- answers ---- */

/* Whether a whole iteration was followed in which nothing used the range. */
static bool is_unused(const mdnn_follower_t *follower, uint32_t range)
{
    return lives(follower, range) && follower->followed_for >= follower->iteration &&
           follower->sequence - follower->ranges[range].touched_at >= follower->iteration;
}

/* That is followed where the program is. */
static const follower_plan_t *plan_of_place(const mdnn_follower_t *follower)
{
    const uint64_t period = follower->place.period;
    for (int i = 0; period != 0 && i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number == period && follower->entries[i].plan == follower->active)
            return follower->active;
    return NULL;
}

/* Ranges of that size that began not long ago and were not used yet. */
static uint32_t unused_of(const mdnn_follower_t *follower, uint64_t bytes)
{
    const uint32_t count =
        follower->begun_count < FOLLOWER_BEGUN ? follower->begun_count : FOLLOWER_BEGUN;
    uint32_t unused = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t range = follower->begun[i];
        bool again = false; /* it ended, and another began */
        for (uint32_t before = 0; before < i; before++)
            again |= follower->begun[before] == range;
        unused += !again && lives(follower, range) && !follower->ranges[range].used &&
                  follower->ranges[range].bytes == bytes;
    }
    return unused;
}

mdnn_first_use_t mdnn_follower_first_use(const mdnn_follower_t *follower, uint64_t bytes)
{
    const follower_plan_t *const plan = plan_of_place(follower);
    if (!plan || follower->flown == 0 || plan->plan.schedule.move_count == 0)
        return MDNN_FIRST_USE_UNKNOWN;
    const mdnn_period_t *const period = &plan->period;
    const uint32_t next = (follower->place.position + 1) % period->operation_count;
    const mdnn_operation_t *const operation = &period->operations[next];
    uint32_t births = 0;
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_period_range_t *const range =
            &period->ranges[period->uses[operation->first_use + u].range];
        births += range->birth == next && range->bytes == bytes;
    }
    return births > 0 && births > unused_of(follower, bytes) ? MDNN_FIRST_USE_NEXT
                                                             : MDNN_FIRST_USE_LATER;
}

uint32_t mdnn_follower_distance(const mdnn_follower_t *follower, uint32_t range)
{
    const mdnn_next_use_t next = mdnn_history_next_use(follower->history, range);
    if (next.expectation == MDNN_EXPECT_USE)
        return next.operations;
    if (next.expectation == MDNN_EXPECT_DEATH)
        return UINT32_MAX;
    return follower->place.period != 0 && is_unused(follower, range) ? UINT32_MAX : 0;
}

static void report_plan(mdnn_follower_report_t *report, const follower_plan_t *made)
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

mdnn_follower_report_t mdnn_follower_report(const mdnn_follower_t *follower)
{
    mdnn_follower_report_t report = {.operations = follower->sequence,
                                     .periods = follower->periods,
                                     .followed = follower->place.period != 0,
                                     .policy = follower->config.policy};
    uint64_t most = 0;
    for (int i = 0; i < FOLLOWER_PERIODS; i++) {
        const follower_entry_t *const entry = &follower->entries[i];
        if (!entry->plan || entry->followed < most)
            continue;
        most = entry->followed;
        report_plan(&report, entry->plan);
        report.short_bytes = entry->plan->short_bytes;
    }
    return report;
}
