/* Periods: operations are timed, then a plan is made; it is judged by how long iterations take under it, and made anew with
 * less memory where that was short. */
#include "config/fault.h"
#include "offload/follow/follower_check.h"
#include "offload/follow/follower_internal.h"

#include <math.h>
#include <stdlib.h>

void follower_forget_entry(mdnn_follower_t *follower, follower_entry_t *entry)
{
    if (entry->plan == follower->active)
        follower->active = NULL;
    follower_plan_destroy(entry->plan);
    follower_plan_destroy(entry->before);
    free(entry->times_us);
    free(entry->workspaces);
    *entry = (follower_entry_t){0};
}

/* Of two plans whose iterations differ by less, the one that keeps to its schedule. */
static const double AS_FAST = 1.01;
/* Iterations may take so much less than is predicted: moves begin earlier than the replay has it. */
static const double PREDICTED_LONG = 1.1;

follower_entry_t *follower_find_entry(mdnn_follower_t *follower, uint64_t number)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number == number)
            return &follower->entries[i];
    return NULL;
}

follower_entry_t *follower_make_entry(mdnn_follower_t *follower, uint64_t number)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number != 0 &&
            !mdnn_history_period(follower->history, follower->entries[i].number))
            follower_forget_entry(follower, &follower->entries[i]);
    follower_entry_t *const entry = follower_find_entry(follower, 0);
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

void follower_set_time(follower_entry_t *entry, uint32_t position, double time_us)
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
    mdnn_key_times_note(follower->key_times, timed->key, time_us);
    follower_entry_t *const entry =
        timed->period > 0 ? follower_find_entry(follower, timed->period) : NULL;
    if (entry)
        follower_set_time(entry, timed->position, time_us);
    mdnn_follower_check(follower);
}

/* Tries again an iteration later, or gives up. */
static void plan_failed(follower_entry_t *entry, mdnn_status_t status)
{
    const bool again = status == MDNN_STATUS_OUT_OF_MEMORY && ++entry->tries < FOLLOWER_TRIES;
    entry->stage = again ? FOLLOWER_STAGE_TIMING : FOLLOWER_STAGE_PLANNED;
    entry->is_early = entry->is_early && again; /* there will be no other */
    entry->plan_from = entry->passed + entry->count;
}

static mdnn_status_t start_job(mdnn_follower_t *follower, const follower_entry_t *entry,
                               const mdnn_period_t *period, const double *times_us, bool early)
{
    mdnn_follower_config_t config = follower->config;
    if (early)
        config.planned = NULL; /* its times are not measured */
    const uint64_t alone = entry->short_bytes + follower->aside_bytes;
    config.budget_bytes -= alone < config.budget_bytes ? alone : config.budget_bytes;
    follower->job_period = entry->number;
    follower->job_is_early = early;
    return follower_job_start(&config, period, times_us, false, &follower->job);
}

/* Another thread's call of config.planned must end first. */
static bool is_busy(const mdnn_follower_t *follower)
{
    return follower->job || follower_forecast_tells(follower);
}

/* Nine in ten operations: the others are taken to last as long as the average. */
static bool are_most(uint32_t timed, uint32_t count)
{
    return 10 * (uint64_t)timed >= 9 * (uint64_t)count;
}

void follower_start_early_plan(mdnn_follower_t *follower, follower_entry_t *entry)
{
    const uint32_t every =
        entry->count < 16 * 64 ? 16 : entry->count / 64; /* keys are timed meanwhile */
    if (entry->tried_early || entry->plan || is_busy(follower) || entry->passed % every != 1 ||
        MDNN_FAULT(NO_EARLY_PLANS))
        return;
    const mdnn_period_t *const period = mdnn_history_period(follower->history, entry->number);
    double *const times_us = malloc(((size_t)entry->count + 1) * sizeof *times_us);
    if (times_us &&
        are_most(mdnn_key_times_fill(follower->key_times, period, entry->times_us, times_us),
                 entry->count)) {
        entry->tried_early = true;
        (void)start_job(follower, entry, period, times_us, true);
    }
    free(times_us);
}

void follower_start_planning(mdnn_follower_t *follower, follower_entry_t *entry)
{
    const bool timed = entry->untimed == 0 || entry->passed >= 2 * (uint64_t)entry->count;
    if (!timed || is_busy(follower) || entry->passed < entry->plan_from)
        return;
    const mdnn_status_t status =
        start_job(follower, entry, mdnn_history_period(follower->history, entry->number),
                  entry->times_us, false);
    entry->stage = FOLLOWER_STAGE_PLANNING;
    if (status != MDNN_STATUS_OK)
        plan_failed(entry, status);
}

/* Of the last iterations under the plan the shortest: what disturbs them makes them longer. */
static double iteration_us_of(const follower_plan_t *plan)
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
           made->plan.predicted.time_us <= PREDICTED_LONG * iteration_us_of(before);
}

static void replace_plan(mdnn_follower_t *follower, follower_entry_t *entry, follower_plan_t *made)
{
    if (entry->plan == follower->active)
        follower->active = NULL;
    if (entry->is_early)
        follower_plan_destroy(entry->plan);
    else
        entry->before = entry->plan;
    entry->plan = made;
    made->number = ++follower->plans;
    made->short_bytes = entry->short_bytes;
}

/* Takes over *made, if it is of use. */
static void adopt_for(mdnn_follower_t *follower, follower_entry_t *entry, follower_plan_t *made)
{
    const bool was_early = entry->is_early;
    const bool helps = was_early ? made->plan.verdict == MDNN_VERDICT_FITS
                                 : !entry->plan || may_help(entry->plan, made);
    entry->stage = FOLLOWER_STAGE_PLANNED;
    if (!helps) {
        entry->is_early = false; /* it stays */
        entry->replans = was_early ? entry->replans : FOLLOWER_REPLANS;
        follower_plan_destroy(made);
        return;
    }
    replace_plan(follower, entry, made);
    entry->is_early = false;
}

/* The operations are still being timed. */
static void adopt_early(mdnn_follower_t *follower, follower_entry_t *entry, follower_plan_t *made)
{
    if (made->plan.verdict != MDNN_VERDICT_FITS) {
        follower_plan_destroy(made);
        return;
    }
    replace_plan(follower, entry, made);
    made->is_guessed = true;
    entry->is_early = true;
}

static bool is_slower_than_before(const follower_entry_t *entry)
{
    if (MDNN_FAULT(FASTER_PLAN_IS_TAKEN_BACK))
        return true;
    return iteration_us_of(entry->plan) > AS_FAST * iteration_us_of(entry->before) &&
           !MDNN_FAULT(SLOWER_PLAN_STAYS);
}

void follower_judge_plan(mdnn_follower_t *follower, follower_entry_t *entry)
{
    if (!entry->before || !is_measured(entry->plan))
        return;
    follower_plan_t *worse = entry->before;
    if (is_slower_than_before(entry)) {
        worse = entry->plan;
        entry->plan = entry->before;
        entry->replans = FOLLOWER_REPLANS;
        follower->active = NULL;
    }
    follower_plan_destroy(worse);
    entry->before = NULL;
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

void follower_adopt_plan(mdnn_follower_t *follower)
{
    follower_plan_t *made = NULL;
    const mdnn_status_t status = follower_job_finish(follower->job, &made);
    follower_entry_t *const entry = follower_find_entry(follower, follower->job_period);
    follower->job = NULL;
    if (!entry)
        follower_plan_destroy(made);
    else if (status == MDNN_STATUS_OK && follower->job_is_early)
        adopt_early(follower, entry, made);
    else if (status == MDNN_STATUS_OK)
        adopt_for(follower, entry, made);
    else if (entry->stage == FOLLOWER_STAGE_PLANNING)
        plan_failed(entry, status);
    if (entry && entry->stage == FOLLOWER_STAGE_PLANNED) {
        free(entry->times_us);
        entry->times_us = NULL;
    }
}

/* After each iteration under the plan. What is missing in one iteration only comes of something else than
 * less memory: a word that looked like the address of what is away, a call that deviated. */
void follower_plan_with_less(mdnn_follower_t *follower, follower_entry_t *entry)
{
    const uint64_t now = follower->short_bytes, before = follower->short_before;
    const uint64_t bytes = now < before ? now : before;
    if (is_busy(follower) || entry->is_early)
        return;
    follower->short_before = bytes > 0 ? 0 : now;
    follower->short_bytes = 0;
    if (bytes == 0 || entry->before || !is_measured(entry->plan) ||
        entry->replans >= FOLLOWER_REPLANS ||
        bytes > follower->config.budget_bytes - entry->short_bytes)
        return;
    entry->replans++;
    entry->short_bytes += bytes;
    if (start_job(follower, entry, &entry->plan->period, NULL, false) != MDNN_STATUS_OK)
        entry->short_bytes -= bytes;
}

void mdnn_follower_short(mdnn_follower_t *follower, uint64_t bytes)
{
    const follower_entry_t *const entry =
        follower->place.period != 0 ? follower_find_entry(follower, follower->place.period) : NULL;
    follower->was_short = true;
    if (entry && entry->plan && entry->plan == follower->active &&
        follower->flown >= entry->count && bytes > follower->short_bytes)
        follower->short_bytes = bytes;
}
