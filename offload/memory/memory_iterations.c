/* How long an iteration takes on the device: from one operation to the same one an iteration later, in its
 * stream; where iterations are short, some iterations later, since events cost the host more than a launch
 * does. While a program is followed one stretch after the other is timed, one at a time; two events
 * each. What was cut short by a deviation does not count, and only iterations of one period are counted
 * together. The last few of them say how long one takes: the first ones passed before there was a plan. */
#include "offload/memory/memory_internal.h"

#include <stdlib.h>

enum {
    LOOK_AGAIN = 64, /* operations, while nothing is followed */
    STRETCH = 64,    /* operations that are timed together, at least */
    ASK_AGAIN = 4,   /* operations, while the device is behind */
};

static uint32_t iterations_together(uint32_t operations)
{
    return operations >= STRETCH ? 1 : (STRETCH - 1) / operations + 1;
}

static double background_us(const mdnn_memory_t *memory)
{
    return memory->device.background ? memory->device.background(memory->context).time_us : 0;
}

static mdnn_watched_period_t *find_period(mdnn_iteration_watch_t *watch, uint64_t number)
{
    for (int i = 0; i < MDNN_WATCHED_PERIODS; i++)
        if (watch->periods[i].number == number)
            return &watch->periods[i];
    return NULL;
}

/* Which of two periods is of less use, other than the one of which the report is: the one with fewer iterations, or else
 * the one that was timed longer ago. */
static bool is_of_less_use(const mdnn_watched_period_t *period, const mdnn_watched_period_t *other,
                           uint64_t reported)
{
    if ((period->number == reported) != (other->number == reported))
        return other->number == reported;
    return period->taken != other->taken ? period->taken < other->taken
                                         : period->since < other->since;
}

/* Short loops come and go, so the iterations of others must not give way to them. */
static void note_period(mdnn_iteration_watch_t *watch, uint64_t number, uint64_t reported,
                        uint64_t now)
{
    mdnn_watched_period_t *period = find_period(watch, number);
    if (!period) {
        period = &watch->periods[0];
        for (int i = 1; i < MDNN_WATCHED_PERIODS; i++)
            if (is_of_less_use(&watch->periods[i], period, reported))
                period = &watch->periods[i];
        *period = (mdnn_watched_period_t){.number = number};
    }
    period->since = now;
}

static void read_ended(mdnn_memory_t *memory)
{
    mdnn_iteration_watch_t *const watch = &memory->watch;
    double us = 0;
    if (watch->read_token == 0)
        return;
    const mdnn_status_t status = memory->device.time_read(memory->context, watch->read_token, &us);
    if (status == MDNN_STATUS_BUSY)
        return;
    watch->read_token = 0;
    mdnn_watched_period_t *const period = find_period(watch, watch->read_period);
    if (status != MDNN_STATUS_OK || !watch->read_counts || !period)
        return;
    const double each = 1.0 / watch->read_together;
    if (watch->read_plan != 0)
        mdnn_follower_iteration_took(memory->follower, watch->read_plan, us * each);
    if (watch->read_plan != 0 && !period->is_planned) {
        period->is_planned = true;
        period->taken = 0; /* those before had no plan */
    }
    mdnn_watched_t *const watched = &period->last[period->taken++ % MDNN_WATCHED];
    *watched =
        (mdnn_watched_t){.time_us = us * each, .background_us = watch->background_read_us * each};
    mdnn_host_time_add(&watched->host, each, &watch->host_read, &(mdnn_host_time_t){{0}});
}

/* It was in the same period all the time. */
static bool is_whole(const mdnn_iteration_watch_t *watch, const mdnn_follower_report_t *report)
{
    return watch->operations > 0 && report->place_period == watch->period &&
           report->in_step > (uint64_t)watch->operations * iterations_together(watch->operations);
}

static void end_iteration(mdnn_memory_t *memory, const mdnn_follower_report_t *report)
{
    mdnn_iteration_watch_t *const watch = &memory->watch;
    if (watch->token == 0)
        return;
    memory->device.time_end(memory->context, watch->stream, watch->token);
    watch->read_token = watch->token;
    watch->read_counts = is_whole(watch, report);
    watch->read_period = watch->period;
    watch->read_together = watch->read_counts ? iterations_together(watch->operations) : 1;
    watch->host_read = (mdnn_host_time_t){{0}};
    mdnn_host_time_add(&watch->host_read, 1, &memory->report.host_time, &watch->host_began);
    watch->background_read_us = background_us(memory) - watch->background_began_us;
    watch->read_plan =
        watch->plan == mdnn_follower_followed_plan(memory->follower) ? watch->plan : 0;
    watch->token = 0;
}

static void begin_iteration(mdnn_memory_t *memory, uint64_t stream,
                            const mdnn_follower_report_t *report)
{
    mdnn_iteration_watch_t *const watch = &memory->watch;
    const uint64_t now = mdnn_follower_sequence(memory->follower);
    watch->next = now + LOOK_AGAIN;
    if (report->place_period == 0)
        return;
    note_period(watch, report->place_period, report->period, now);
    watch->token = memory->device.time_begin(memory->context, stream, false);
    watch->stream = stream;
    watch->host_began = memory->report.host_time;
    watch->background_began_us = background_us(memory);
    watch->plan = mdnn_follower_followed_plan(memory->follower);
    watch->period = report->place_period;
    watch->operations = report->place_operations;
    watch->next = now + (uint64_t)watch->operations * iterations_together(watch->operations);
}

void mdnn_memory_watch_iteration(mdnn_memory_t *memory, uint64_t stream)
{
    mdnn_iteration_watch_t *const watch = &memory->watch;
    const uint64_t now = mdnn_follower_sequence(memory->follower); /* the parts of a call are one */
    if (now < watch->next)
        return;
    read_ended(memory);
    if (watch->read_token != 0) { /* the device is an iteration behind: ask again */
        watch->next = now + ASK_AGAIN;
        if (watch->token != 0)
            watch->operations = 0; /* too long by now */
        return;
    }
    const mdnn_follower_report_t report = mdnn_follower_report(memory->follower);
    end_iteration(memory, &report);
    begin_iteration(memory, stream, &report);
}

static int by_time(const void *first, const void *second)
{
    const double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* The iterations of the period that the follower's report is about. */
static size_t watched(const mdnn_memory_t *memory, const mdnn_watched_t **last)
{
    const uint64_t number = mdnn_follower_report(memory->follower).period;
    const mdnn_watched_period_t *const periods = memory->watch.periods;
    for (int i = 0; number != 0 && i < MDNN_WATCHED_PERIODS; i++)
        if (periods[i].number == number) {
            *last = periods[i].last;
            return periods[i].taken < MDNN_WATCHED ? periods[i].taken : MDNN_WATCHED;
        }
    *last = NULL;
    return 0;
}

double mdnn_memory_iteration_us(const mdnn_memory_t *memory)
{
    const mdnn_watched_t *last;
    const size_t count = watched(memory, &last);
    double times_us[MDNN_WATCHED];
    for (size_t i = 0; i < count; i++)
        times_us[i] = last[i].time_us;
    qsort(times_us, count, sizeof times_us[0], by_time);
    return count > 0 ? times_us[count / 2] : 0;
}

mdnn_host_time_t mdnn_memory_iteration_host_time(const mdnn_memory_t *memory)
{
    const mdnn_watched_t *last;
    const size_t count = watched(memory, &last);
    mdnn_host_time_t mean = {{0}};
    for (size_t i = 0; i < count; i++)
        mdnn_host_time_add(&mean, 1.0 / (double)count, &last[i].host, &(mdnn_host_time_t){{0}});
    return mean;
}

double mdnn_memory_iteration_background_us(const mdnn_memory_t *memory)
{
    const mdnn_watched_t *last;
    const size_t count = watched(memory, &last);
    double sum_us = 0;
    for (size_t i = 0; i < count; i++)
        sum_us += last[i].background_us;
    return count > 0 ? sum_us / (double)count : 0;
}
