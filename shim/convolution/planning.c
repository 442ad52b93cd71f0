#include "shim/convolution/planning.h"

#include <time.h>

#include "config/clock.h"
#include "config/fault.h"
#include "config/lock.h"
#include "config/statistics.h"
#include "shim/candidates/own_stream.h"
#include "shim/real/capture_mode.h"

static mdnn_lock_t planning_lock = MDNN_LOCK_INIT(PLANNING);
static bool somebody_plans;

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
    mdnn_unlock(&planning_lock);
    *begin_us = mdnn_now_us();
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
    mdnn_count(MDNN_COUNTER_measure_microseconds, (uint64_t)(mdnn_now_us() - begin_us));
    mdnn_lock(&planning_lock);
    somebody_plans = false;
    mdnn_unlock(&planning_lock);
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
