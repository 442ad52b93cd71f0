/* What an iteration would take with other budgets: the period is planned again for each of them, one after the other,
 * once the program has followed its own plan for a while. Each is a job like that of a plan, so the program waits for none
 * of them. */
#include "config/fault.h"
#include "offload/follow/follower_internal.h"

enum {
    STEPS = 32,       /* budgets are multiples of a power of two, at least so many of them */
    MOST_TENTHS = 9,  /* of the memory in which nothing moves: the largest budget, */
    LEAST_TENTHS = 4, /* and the smallest */
    LOOP = 32,        /* operations; with fewer it is hardly an iteration */
    BEFORE_ITERATIONS = FOLLOWER_ITERATIONS + 1, /* under a plan, before others are made */
};

/* People can read such numbers: 7 GiB, 7.5 GiB. */
static uint64_t round_budget(uint64_t bytes, uint64_t need_bytes)
{
    uint64_t step = 1;
    while (step <= need_bytes / STEPS)
        step *= 2;
    return bytes / step * step;
}

static bool is_near(uint64_t bytes, uint64_t other, uint64_t need_bytes)
{
    const uint64_t distance = bytes > other ? bytes - other : other - bytes;
    return distance < need_bytes / (2 * STEPS);
}

/* Budgets between the least that the period needs and what it needs without moves. */
static void choose_budgets(follower_forecast_t *forecast, const follower_plan_t *plan,
                           uint64_t own_bytes, uint64_t aside_bytes)
{
    const uint64_t need_bytes = forecast->need_bytes;
    for (uint64_t tenths = MOST_TENTHS; tenths >= LEAST_TENTHS; tenths--) {
        const uint64_t bytes = round_budget(need_bytes / 10 * tenths, need_bytes);
        const bool is_new =
            forecast->count == 0 || forecast->budgets[forecast->count - 1].budget_bytes != bytes;
        if (is_new && bytes >= plan->plan.floor_bytes + aside_bytes &&
            !is_near(bytes, own_bytes, need_bytes))
            forecast->budgets[forecast->count++] = (mdnn_forecast_t){.budget_bytes = bytes};
    }
}

/* The smallest one comes first: what lies between it and the present budget can be estimated then. After it come those
 * that are nearest to the present one. false: all were tried. */
static bool choose_next(follower_forecast_t *forecast, uint64_t own_bytes)
{
    uint64_t least = UINT64_MAX;
    if (forecast->count > 0 && !forecast->tried[forecast->count - 1]) {
        forecast->current = forecast->count - 1;
        return true;
    }
    for (uint32_t i = 0; i < forecast->count; i++) {
        const uint64_t bytes = forecast->budgets[i].budget_bytes;
        const uint64_t distance = bytes > own_bytes ? bytes - own_bytes : own_bytes - bytes;
        if (!forecast->tried[i] && distance < least) {
            least = distance;
            forecast->current = i;
        }
    }
    return least < UINT64_MAX;
}

/* Where there is no plan there is none for less memory either. */
static void give_up(follower_forecast_t *forecast)
{
    for (uint32_t i = forecast->current; i < forecast->count; i++)
        forecast->tried[i] = true;
}

static void begin(mdnn_follower_t *follower, const follower_entry_t *entry)
{
    follower_forecast_t *const forecast = &follower->forecast;
    uint64_t peak_bytes = 0;
    *forecast = (follower_forecast_t){.period = entry->number};
    if (mdnn_schedule_peak(&entry->plan->period, &(mdnn_schedule_t){0}, &peak_bytes) !=
        MDNN_STATUS_OK)
        return;
    forecast->need_bytes = peak_bytes + follower->aside_bytes;
    if (forecast->need_bytes > follower->config.budget_bytes) /* else nothing has to move */
        choose_budgets(forecast, entry->plan, follower->config.budget_bytes, follower->aside_bytes);
}

static bool is_most_followed(const mdnn_follower_t *follower, const follower_entry_t *entry)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].plan && follower->entries[i].followed > entry->followed)
            return false;
    return true;
}

bool follower_forecast_tells(const mdnn_follower_t *follower)
{
    return follower->forecast.job && follower->forecast.tells;
}

/* A recorded run is of the period that was followed most, which is known only now; not of a loop in it. */
static bool tell_of_period(mdnn_follower_t *follower, const follower_entry_t *entry)
{
    follower_forecast_t *const forecast = &follower->forecast;
    mdnn_follower_config_t config = follower->config;
    config.budget_bytes = entry->plan->budget_bytes;
    forecast->tells = config.planned != NULL && entry->count >= LOOP && !entry->plan->is_guessed &&
                      !MDNN_FAULT(THE_LONGEST_PERIOD_IS_RECORDED) &&
                      follower_job_start(&config, &entry->plan->period, NULL, true,
                                         &forecast->job) == MDNN_STATUS_OK;
    return forecast->tells;
}

void follower_forecast_go_on(mdnn_follower_t *follower, const follower_entry_t *entry)
{
    follower_forecast_t *const forecast = &follower->forecast;
    const bool is_new = forecast->period != entry->number;
    if ((!follower->config.forecast && !follower->config.planned) || forecast->job ||
        follower->job || entry->before || entry->is_early ||
        entry->followed < (uint64_t)BEFORE_ITERATIONS * entry->count ||
        !is_most_followed(follower, entry))
        return;
    if (is_new)
        begin(follower, entry);
    if ((is_new && tell_of_period(follower, entry)) || !follower->config.forecast ||
        !choose_next(forecast, follower->config.budget_bytes))
        return;
    mdnn_follower_config_t config = follower->config;
    config.budget_bytes = forecast->budgets[forecast->current].budget_bytes - follower->aside_bytes;
    config.planned = NULL; /* nobody follows it */
    if (follower_job_start(&config, &entry->plan->period, NULL, false, &forecast->job) !=
        MDNN_STATUS_OK)
        forecast->count = 0; /* they are not worth more trouble */
}

void follower_forecast_take(mdnn_follower_t *follower)
{
    follower_forecast_t *const forecast = &follower->forecast;
    follower_plan_t *made = NULL;
    if (!forecast->job || !follower_job_is_done(forecast->job))
        return;
    const mdnn_status_t status = follower_job_finish(forecast->job, &made);
    forecast->job = NULL;
    if (forecast->tells) {
        forecast->tells = false;
        follower_plan_destroy(made);
        return;
    }
    mdnn_forecast_t *const budget = &forecast->budgets[forecast->current];
    if (status == MDNN_STATUS_OK && made->plan.verdict == MDNN_VERDICT_FITS) {
        const mdnn_replay_result_t *const predicted = &made->plan.predicted;
        budget->predicted_us = predicted->time_us;
        budget->moved_bytes = predicted->out_bytes + predicted->in_bytes;
        forecast->tried[forecast->current] = true;
    } else {
        give_up(forecast);
    }
    follower_plan_destroy(made);
}

void follower_forecast_end(mdnn_follower_t *follower)
{
    follower_plan_t *unwanted = NULL;
    if (!follower->forecast.job)
        return;
    follower_job_give_up(follower->forecast.job);
    if (follower_job_finish(follower->forecast.job, &unwanted) == MDNN_STATUS_OK)
        follower_plan_destroy(unwanted);
    follower->forecast.job = NULL;
}

void follower_forecast_report(const mdnn_follower_t *follower, const follower_entry_t *entry,
                              mdnn_follower_report_t *report)
{
    const follower_forecast_t *const forecast = &follower->forecast;
    report->forecast_count = 0;
    if (forecast->period != entry->number)
        return;
    report->need_bytes = forecast->need_bytes;
    for (uint32_t i = 0; i < forecast->count; i++)
        if (forecast->budgets[i].predicted_us > 0)
            report->forecast[report->forecast_count++] = forecast->budgets[i];
}
