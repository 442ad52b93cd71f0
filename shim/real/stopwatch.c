#include "shim/real/stopwatch.h"

#include "config/clock.h"
#include "shim/real/capture_mode.h"

static void keep_least(mdnn_stopwatch_t *watch, double ms)
{
    const double device_ms = ms > watch->host_ms ? ms - watch->host_ms : 0;
    const bool first = watch->times++ == 0;
    if (first || ms < watch->least.most_ms)
        watch->least.most_ms = ms;
    if (first || device_ms < watch->least.device_ms)
        watch->least.device_ms = device_ms;
}

/* Keeps what has come to its end. Callers hold the watch. */
static void collect(mdnn_stopwatch_t *watch)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    float ms;
    if (!watch->under_way)
        return;
    const CUresult ended = mdnn_real_driver()->cuEventQuery(watch->end);
    if (ended == CUDA_ERROR_NOT_READY)
        return;
    watch->under_way = false;
    if (ended == CUDA_SUCCESS &&
        driver->cuEventElapsedTime(&ms, watch->begin, watch->end) == CUDA_SUCCESS)
        keep_least(watch, (double)ms);
}

static bool has_events(mdnn_stopwatch_t *watch)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!watch->begin && driver->cuEventCreate(&watch->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        watch->begin = NULL;
    if (watch->begin && !watch->end &&
        driver->cuEventCreate(&watch->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        watch->end = NULL;
    return watch->end != NULL;
}

bool mdnn_stopwatch_begin(mdnn_stopwatch_t *watch, CUstream stream)
{
    if (mdnn_stream_is_capturing(mdnn_real_driver(), stream) ||
        atomic_exchange(&watch->taken, true))
        return false;
    collect(watch);
    if (!watch->under_way && has_events(watch)) {
        watch->begin_us = mdnn_now_us();
        if (mdnn_real_driver()->cuEventRecord(watch->begin, stream) == CUDA_SUCCESS)
            return true;
    }
    atomic_store(&watch->taken, false);
    return false;
}

void mdnn_stopwatch_end(mdnn_stopwatch_t *watch, CUstream stream, bool failed)
{
    watch->under_way =
        !failed && mdnn_real_driver()->cuEventRecord(watch->end, stream) == CUDA_SUCCESS;
    watch->host_ms = (mdnn_now_us() - watch->begin_us) / 1e3;
    atomic_store(&watch->taken, false);
}

int mdnn_stopwatch_read(mdnn_stopwatch_t *watch, mdnn_stopwatch_times_t *least)
{
    if (atomic_exchange(&watch->taken, true))
        return 0;
    collect(watch);
    const int times = watch->times;
    if (times > 0)
        *least = watch->least;
    atomic_store(&watch->taken, false);
    return times;
}

void mdnn_stopwatch_fini(mdnn_stopwatch_t *watch)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (watch->begin)
        (void)driver->cuEventDestroy(watch->begin);
    if (watch->end)
        (void)driver->cuEventDestroy(watch->end);
    *watch = (mdnn_stopwatch_t){.times = 0};
}
