#include "shim/convolution/planning.h"

#include <math.h>
#include <time.h>

#include "config/clock.h"
#include "config/fault.h"
#include "config/lock.h"
#include "config/statistics.h"
#include "shim/candidates/own_stream.h"
#include "shim/real/capture_mode.h"

static mdnn_lock_t planning_lock = MDNN_LOCK_INIT(PLANNING);
static bool somebody_plans;
/* Since the first plan was begun; microseconds. */
static double first_us, spent_us;

/* Locked. Everybody waits for whoever plans. */
static void break_planning(void)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    while (somebody_plans) {
        mdnn_unlock(&planning_lock);
        (void)nanosleep(&moment, NULL);
        mdnn_lock(&planning_lock);
    }
}

bool mdnn_planning_begin(double *begin_us)
{
    mdnn_lock(&planning_lock);
    if (MDNN_FAULT(PLANNER_STOPS_OTHERS))
        break_planning();
    const bool begins = !somebody_plans;
    somebody_plans = true;
    *begin_us = mdnn_now_us();
    if (first_us == 0)
        first_us = *begin_us;
    mdnn_unlock(&planning_lock);
    return begins;
}

bool mdnn_planning_begin_in_turn(bool (*is_needless)(const void *context), const void *context,
                                 double *begin_us)
{
    static const struct timespec moment = {0, 100000};
    while (!mdnn_planning_begin(begin_us)) {
        if (mdnn_own_stream_waits_for_program() || is_needless(context))
            return false;
        mdnn_lock_may_wait();
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

void mdnn_planning_end(double begin_us)
{
    const double took_us = mdnn_now_us() - begin_us;
    mdnn_count(MDNN_COUNTER_measure_microseconds, (uint64_t)took_us);
    mdnn_lock(&planning_lock);
    somebody_plans = false;
    spent_us += took_us;
    mdnn_unlock(&planning_lock);
}

/* Locked. */
static bool is_spent(double part_us)
{
    enum { PARTS = 10 };
    const double since_us = first_us > 0 ? mdnn_now_us() - first_us : 0;
    return spent_us >= part_us * (1 + floor(since_us / (PARTS * part_us)));
}

bool mdnn_planning_is_postponed(const mdnn_call_t *call, const mdnn_options_t *options)
{
    const double part_us = 1000.0 * (double)options->convolution_measure_time;
    const bool is_for_memory = options->memory_budget != MDNN_SIZE_NONE &&
                               options->convolution_workspace_limit == MDNN_SIZE_NONE &&
                               options->convolution_policy == MDNN_CONVOLUTION_WR;
    if (!call->problem || !is_for_memory || part_us == 0 || MDNN_FAULT(MEASURES_AT_ONCE))
        return false;
    mdnn_lock(&planning_lock);
    const bool spent = is_spent(part_us);
    mdnn_unlock(&planning_lock);
    return spent;
}

void mdnn_planning_lock(void)
{
    mdnn_lock(&planning_lock);
}

void mdnn_planning_unlock(void)
{
    mdnn_unlock(&planning_lock);
}

bool mdnn_planning_lock_costs(void)
{
    mdnn_lock(&planning_lock);
    if (!somebody_plans)
        return true;
    mdnn_unlock(&planning_lock);
    return false;
}

bool mdnn_planning_is_captured(const mdnn_call_t *call, const mdnn_driver_t *driver)
{
    cudaStream_t stream;
    return call->cudnn->cudnnGetStream(call->handle, &stream) != CUDNN_STATUS_SUCCESS ||
           mdnn_stream_is_capturing(driver, stream);
}
