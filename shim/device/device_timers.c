/* Times of stretches of streams, by two events each. */
#include "shim/device/memory_device_internal.h"

#include "config/fault.h"
#include "config/log.h"

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

/* ---- the time of a launch ---- */

typedef struct launch_trial {
    mdnn_device_memory_t *memory;
    CUstream stream;
    mdnn_device_timer_t *timer;
    CUdeviceptr device;
    uint64_t host, bytes;
} launch_trial_t;

typedef enum trial_kind {
    IDLE,   /* something small, on a device that is idle */
    BUSY,   /* the same on one that is busy until all of it is enqueued */
    NOTHING /* nothing, likewise */
} trial_kind_t;

/* The time between two events. < 0: it failed. */
static double trial_us(const launch_trial_t *trial, trial_kind_t kind)
{
    enum { SMALL_BYTES = 16, COPIES = 4 };
    const mdnn_driver_t *const driver = trial->memory->config.driver;
    float ms = -1;
    CUresult result = driver->cuStreamSynchronize(trial->stream);
    for (int i = 0; kind != IDLE && i < COPIES && result == CUDA_SUCCESS; i++)
        result = mdnn_copy_enqueue(&trial->memory->ways, true, trial->device, trial->host,
                                   trial->bytes, trial->stream);
    if (result == CUDA_SUCCESS)
        result = driver->cuEventRecord(trial->timer->begin, trial->stream);
    if (result == CUDA_SUCCESS && kind != NOTHING)
        result = driver->cuMemcpyDtoDAsync(trial->device, trial->device + trial->bytes / 2,
                                           SMALL_BYTES, trial->stream);
    if (result == CUDA_SUCCESS)
        result = driver->cuEventRecord(trial->timer->end, trial->stream);
    if (driver->cuStreamSynchronize(trial->stream) == CUDA_SUCCESS && result == CUDA_SUCCESS)
        (void)driver->cuEventElapsedTime(&ms, trial->timer->begin, trial->timer->end);
    return (double)ms * 1e3;
}

static double least_trial_us(const launch_trial_t *trial, trial_kind_t kind)
{
    enum { ROUNDS = 5 };
    double least_us = trial_us(trial, kind);
    for (int i = 1; i < ROUNDS && least_us >= 0; i++) {
        const double us = trial_us(trial, kind);
        least_us = us < least_us ? us : least_us;
    }
    return least_us;
}

void mdnn_device_measure_launch(mdnn_device_memory_t *memory, CUdeviceptr device, uint64_t host,
                                uint64_t bytes)
{
    const launch_trial_t trial = {.memory = memory,
                                  .stream = memory->copies[1].stream,
                                  .timer = &memory->timers[0],
                                  .device = device,
                                  .host = host,
                                  .bytes = bytes};
    if (trial.timer->taken || !make_timer(memory->config.driver, trial.timer))
        return;
    const double busy_us = least_trial_us(&trial, BUSY);
    const double idle_us = busy_us >= 0 ? least_trial_us(&trial, IDLE) : -1;
    const double nothing_us = idle_us >= 0 ? least_trial_us(&trial, NOTHING) : -1;
    memory->launch_us = idle_us > busy_us ? idle_us - busy_us : 0;
    memory->events_us = nothing_us > 0 && nothing_us <= busy_us ? nothing_us : 0;
    MDNN_LOG(MDNN_LOG_INFO, "memory",
             "a launch reaches an idle device in %.1f us; two events in a row are %.1f us apart",
             memory->launch_us, memory->events_us);
}

uint64_t mdnn_device_time_begin(void *context, uint64_t stream, bool operation)
{
    mdnn_device_memory_t *const memory = context;
    for (size_t i = 0; i < MDNN_DEVICE_TIMERS; i++) {
        mdnn_device_timer_t *const timer = &memory->timers[i];
        if (timer->taken)
            continue;
        if (!make_timer(memory->config.driver, timer) || !record(memory, timer->begin, stream))
            return 0;
        timer->taken = true;
        timer->operation = operation;
        timer->ended = timer->alone = false;
        return i + 1;
    }
    return 0;
}

void mdnn_device_time_end(void *context, uint64_t stream, uint64_t token)
{
    mdnn_device_memory_t *const memory = context;
    if (token == 0)
        return;
    mdnn_device_timer_t *const timer = &memory->timers[token - 1];
    timer->alone = timer->operation && memory->launch_us > 0 &&
                   memory->config.driver->cuEventQuery(timer->begin) == CUDA_SUCCESS;
    timer->ended = record(memory, timer->end, stream);
}

/* A device that is idle reaches the first event at once, and waits for the launch. The events themselves take time, which
 * is little beside a copy. */
static double time_of(const mdnn_device_memory_t *memory, const mdnn_device_timer_t *timer,
                      double elapsed_us)
{
    const double events_us =
        timer->operation && !MDNN_FAULT(EVENTS_TAKE_NO_TIME) ? memory->events_us : 0;
    const double beside_us = events_us + (timer->alone ? memory->launch_us : 0);
    return elapsed_us > beside_us ? elapsed_us - beside_us : 0;
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
    *time_us = time_of(memory, timer, (double)ms * 1e3);
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
