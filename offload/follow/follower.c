/* The life of a plan follower, and each record: where the program is, and who has to know. */
#include "config/fault.h"
#include "offload/follow/follower_check.h"
#include "offload/follow/follower_internal.h"

#include <stdlib.h>

mdnn_follower_t *mdnn_follower_create(const mdnn_follower_config_t *config)
{
    mdnn_follower_t *const follower = calloc(1, sizeof *follower);
    if (!follower)
        return NULL;
    follower->config = *config;
    follower->history = mdnn_history_create(NULL);
    follower->timed = calloc(FOLLOWER_TIMED, sizeof *follower->timed);
    follower->key_times = calloc(1, sizeof *follower->key_times);
    if (follower->history && follower->timed && follower->key_times)
        return follower;
    mdnn_follower_destroy(follower);
    return NULL;
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
    follower_forecast_end(follower);
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        follower_forget_entry(follower, &follower->entries[i]);
    mdnn_history_destroy(follower->history);
    free(follower->ranges);
    free(follower->timed);
    free(follower->key_times);
    free(follower);
}

/* Its time may be reported. */
static void note_timed(mdnn_follower_t *follower, uint64_t key)
{
    const uint64_t sequence = follower->sequence - 1;
    follower->timed[sequence % FOLLOWER_TIMED] =
        (follower_timed_t){sequence + 1, key, follower->place.period, follower->place.position};
}

/* While no period is known any operation may be one of the next period's. Where nothing has had to leave, no plan is
 * awaited. */
static void time_anything(mdnn_follower_t *follower, mdnn_advice_t *advice)
{
    if (!follower->was_short || follower->asked_anywhere >= FOLLOWER_ASKED ||
        follower->config.policy == MDNN_POLICY_NONE || MDNN_FAULT(ONLY_PERIODS_ARE_TIMED))
        return;
    follower->asked_anywhere++;
    advice->time = true;
}

static void time_iteration(mdnn_follower_t *follower, follower_entry_t *entry, double time_us,
                           mdnn_advice_t *advice)
{
    const uint32_t position = follower->place.position;
    follower_set_time(entry, position, time_us);
    entry->passed++;
    follower_start_early_plan(follower, entry);
    follower_start_planning(follower, entry);
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
    follower_entry_t *const entry = follower_find_entry(follower, place.period);
    if (!entry) {
        follower->followed_for = 1;
        follower->iteration = mdnn_history_period(follower->history, place.period)->operation_count;
        return follower_make_entry(follower, place.period);
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
        if (follower_lives(follower, operation->uses[u].range)) {
            follower->ranges[operation->uses[u].range].touched_at = follower->sequence;
            follower->ranges[operation->uses[u].range].used = true;
        }
    if (follower->job && follower_job_is_done(follower->job))
        follower_adopt_plan(follower);
    follower_forecast_take(follower);
    follower_entry_t *const entry = find_place(follower);
    note_timed(follower, operation->key);
    mdnn_key_times_note(follower->key_times, operation->key, operation->time_us);
    if (!entry) {
        time_anything(follower, advice);
        return;
    }
    entry->followed++;
    if (entry->stage == FOLLOWER_STAGE_TIMING)
        time_iteration(follower, entry, operation->time_us, advice);
    /* A plan in which nothing moves is followed, too: it may turn out that memory is short. */
    if (entry->plan && entry->plan->plan.verdict == MDNN_VERDICT_FITS &&
        follower->config.policy != MDNN_POLICY_NONE)
        follower_follow(follower, entry, operation, advice);
}

void mdnn_follower_record(mdnn_follower_t *follower, const mdnn_history_operation_t *operation,
                          mdnn_advice_t *advice)
{
    record(follower, operation, advice);
    mdnn_follower_check(follower);
}
