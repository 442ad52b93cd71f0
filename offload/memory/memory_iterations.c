/* How long an iteration takes on the device: from one operation to the same one an iteration later, in its
 * stream; where iterations are short, some iterations later, since events cost the host more than a launch
 * does. While a program is followed one stretch after the other is timed, one at a time; two events
 * each. What was cut short by a deviation does not count, and only iterations of one length are counted together. The last
 * few of them say how long one takes: the first ones passed before there was a plan. */
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
    if (status != MDNN_STATUS_OK || !watch->read_counts)
        return;
    const double each = 1.0 / iterations_together(watch->counted);
    if (watch->read_plan != 0)
        mdnn_follower_iteration_took(memory->follower, watch->read_plan, us * each);
    mdnn_watched_t *const watched = &watch->last[watch->taken++ % MDNN_WATCHED];
    *watched =
        (mdnn_watched_t){.time_us = us * each, .background_us = watch->background_read_us * each};
    mdnn_host_time_add(&watched->host, each, &watch->host_read, &(mdnn_host_time_t){{0}});
}

/* The same period as when it began. */
static bool is_whole(const mdnn_iteration_watch_t *watch, const mdnn_follower_report_t *report)
{
    return report->followed != 0 && watch->operations > 0 &&
           report->period_operations == watch->operations;
}

static void end_iteration(mdnn_memory_t *memory, const mdnn_follower_report_t *report)
{
    mdnn_iteration_watch_t *const watch = &memory->watch;
    if (watch->token == 0)
        return;
    memory->device.time_end(memory->context, watch->stream, watch->token);
    watch->read_token = watch->token;
    watch->read_counts = is_whole(watch, report);
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
    watch->next = memory->report.operations + LOOK_AGAIN;
    if (report->followed == 0 || report->period_operations == 0)
        return;
    if (watch->counted != report->period_operations) { /* the program goes on with something else */
        watch->counted = report->period_operations;
        watch->taken = 0;
    }
    watch->token = memory->device.time_begin(memory->context, stream, false);
    watch->stream = stream;
    watch->host_began = memory->report.host_time;
    watch->background_began_us = background_us(memory);
    watch->plan = mdnn_follower_followed_plan(memory->follower);
    watch->operations = report->period_operations;
    watch->next = memory->report.operations + (uint64_t)report->period_operations *
                                                  iterations_together(report->period_operations);
}

void mdnn_memory_watch_iteration(mdnn_memory_t *memory, uint64_t stream)
{
    mdnn_iteration_watch_t *const watch = &memory->watch;
    if (memory->report.operations < watch->next)
        return;
    read_ended(memory);
    if (watch->read_token != 0) { /* the device is an iteration behind: ask again */
        watch->next = memory->report.operations + ASK_AGAIN;
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

static size_t watched(const mdnn_memory_t *memory)
{
    return memory->watch.taken < MDNN_WATCHED ? memory->watch.taken : MDNN_WATCHED;
}

double mdnn_memory_iteration_us(const mdnn_memory_t *memory)
{
    const size_t count = watched(memory);
    double times_us[MDNN_WATCHED];
    for (size_t i = 0; i < count; i++)
        times_us[i] = memory->watch.last[i].time_us;
    qsort(times_us, count, sizeof times_us[0], by_time);
    return count > 0 ? times_us[count / 2] : 0;
}

mdnn_host_time_t mdnn_memory_iteration_host_time(const mdnn_memory_t *memory)
{
    const size_t count = watched(memory);
    mdnn_host_time_t mean = {{0}};
    for (size_t i = 0; i < count; i++)
        mdnn_host_time_add(&mean, 1.0 / (double)count, &memory->watch.last[i].host,
                           &(mdnn_host_time_t){{0}});
    return mean;
}

double mdnn_memory_iteration_background_us(const mdnn_memory_t *memory)
{
    const size_t count = watched(memory);
    double sum_us = 0;
    for (size_t i = 0; i < count; i++)
        sum_us += memory->watch.last[i].background_us;
    return count > 0 ? sum_us / (double)count : 0;
}
