#include "shim/device/memory_device_internal.h"

static bool make_timer(const mdnn_driver_t *driver, mdnn_device_timer_t *timer)
{
    if (timer->begin || timer->failed)
        return !timer->failed;
    timer->failed = driver->cuEventCreate(&timer->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                    driver->cuEventCreate(&timer->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS;
    return !timer->failed;
}

/* Not in a stream of another device, whose events are others. */
static bool record(mdnn_device_memory_t *memory, CUevent event, uint64_t number)
{
    CUstream const stream =
        mdnn_timelines_handle(memory->config.timelines, number, memory->config.context);
    return stream && !mdnn_timelines_stream_captures(memory->config.timelines, stream) &&
           memory->config.driver->cuEventRecord(event, stream) == CUDA_SUCCESS;
}

uint64_t mdnn_device_time_begin(void *context, uint64_t stream)
{
    mdnn_device_memory_t *const memory = context;
    for (size_t i = 0; i < MDNN_DEVICE_TIMERS; i++) {
        mdnn_device_timer_t *const timer = &memory->timers[i];
        if (timer->taken)
            continue;
        if (!make_timer(memory->config.driver, timer) || !record(memory, timer->begin, stream))
            return 0;
        timer->taken = true;
        timer->ended = false;
        return i + 1;
    }
    return 0;
}

void mdnn_device_time_end(void *context, uint64_t stream, uint64_t token)
{
    mdnn_device_memory_t *const memory = context;
    if (token > 0)
        memory->timers[token - 1].ended = record(memory, memory->timers[token - 1].end, stream);
}

mdnn_status_t mdnn_device_time_read(void *context, uint64_t token, double *time_us)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    mdnn_device_timer_t *const timer = &memory->timers[token - 1];
    float ms = 0;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (timer->ended) {
        result = driver->cuEventQuery(timer->end);
        if (result == CUDA_ERROR_NOT_READY)
            return MDNN_STATUS_BUSY;
        if (result == CUDA_SUCCESS)
            result = driver->cuEventElapsedTime(&ms, timer->begin, timer->end);
    }
    timer->taken = false;
    *time_us = (double)ms * 1e3;
    return result == CUDA_SUCCESS ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE; /* nobody needs it */
}

void mdnn_device_destroy_timers(mdnn_device_memory_t *memory)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    for (size_t i = 0; i < MDNN_DEVICE_TIMERS; i++) {
        if (memory->timers[i].begin)
            (void)driver->cuEventDestroy(memory->timers[i].begin);
        if (memory->timers[i].end)
            (void)driver->cuEventDestroy(memory->timers[i].end);
    }
}
