#include "shim/device/copy_ways.h"

#include "config/extremes.h"
#include "config/log.h"
#include "shim/real/kernels.h"

/* A few blocks keep a link of 64 GB/s busy, and leave most of the device to others. */
enum { UNIT = 16, BLOCKS = 4, THREADS = 512 };

void mdnn_copy_ways_init(const mdnn_driver_t *driver, mdnn_copies_t choice, mdnn_copy_ways_t *ways)
{
    const mdnn_kernels_t *kernels;
    *ways = (mdnn_copy_ways_t){.driver = driver};
    if (choice != MDNN_COPIES_ENGINE && mdnn_kernels_get(&kernels) == MDNN_STATUS_OK)
        ways->kernel = kernels->copy;
    ways->by_kernel[false] = ways->by_kernel[true] = choice == MDNN_COPIES_KERNEL && ways->kernel;
}

static CUresult launch(const mdnn_copy_ways_t *ways, CUdeviceptr to, CUdeviceptr from,
                       uint64_t bytes, CUstream stream)
{
    uint64_t count = bytes / UNIT;
    void *parameters[] = {&to, &from, &count};
    return ways->driver->cuLaunchKernel(ways->kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream,
                                        parameters, NULL);
}

CUresult mdnn_copy_enqueue(const mdnn_copy_ways_t *ways, bool out, CUdeviceptr device,
                           uint64_t host, uint64_t bytes, CUstream stream)
{
    const CUdeviceptr to = out ? host : device, from = out ? device : host;
    if (ways->by_kernel[out] && bytes % UNIT == 0 &&
        launch(ways, to, from, bytes, stream) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    return out ? ways->driver->cuMemcpyDtoHAsync((void *)(uintptr_t)host, device, bytes, stream)
               : ways->driver->cuMemcpyHtoDAsync(device, (const void *)(uintptr_t)host, bytes,
                                                 stream);
}

/* ---- the trial ---- */

enum { SAMPLES = 5 };
static const uint64_t trial_bytes = (uint64_t)128 << 20;
/* A mapping waits if it takes so many times as long as on an idle device; a kernel helps if it waits so much less, and
 * copies that fast. */
static const double waits = 4, helps = 0.5, fast_enough = 0.75;

/* Of one way in one direction. */
typedef struct measured {
    double change_us; /* the median while copies are under way; negative: unknown */
    double copies_us;
} measured_t;

static double median(double *values, int count)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && values[k - 1] > values[k]; k--) {
            const double value = values[k];
            values[k] = values[k - 1];
            values[k - 1] = value;
        }
    return count > 0 ? values[count / 2] : -1;
}

static double idle_change_us(const mdnn_copy_trial_t *trial)
{
    double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = trial->change_us(trial->context);
        if (samples[i] < 0)
            return -1;
    }
    return median(samples, SAMPLES);
}

static bool enqueue_all(const mdnn_copy_trial_t *trial, const mdnn_copy_ways_t *ways, bool out)
{
    const uint64_t copies = mdnn_max(trial_bytes / trial->bytes, 4);
    for (uint64_t i = 0; i < copies; i++)
        if (mdnn_copy_enqueue(ways, out, trial->device, trial->host, trial->bytes,
                              trial->streams[out]) != CUDA_SUCCESS)
            return false;
    return true;
}

/* Only changes during which copies were under way all the time. */
static double busy_change_us(const mdnn_copy_trial_t *trial, const mdnn_copy_ways_t *ways, bool out)
{
    double samples[SAMPLES];
    int count = 0;
    bool good = enqueue_all(trial, ways, out);
    while (good && count < SAMPLES) {
        const double change_us = trial->change_us(trial->context);
        good = change_us >= 0;
        if (ways->driver->cuStreamQuery(trial->streams[out]) != CUDA_ERROR_NOT_READY)
            break;
        samples[count++] = change_us;
    }
    (void)ways->driver->cuStreamSynchronize(trial->streams[out]);
    return good ? median(samples, count) : -1;
}

static double copies_us(const mdnn_copy_trial_t *trial, const mdnn_copy_ways_t *ways, bool out)
{
    const double begin_us = trial->now_us(trial->context);
    const bool good = enqueue_all(trial, ways, out);
    return ways->driver->cuStreamSynchronize(trial->streams[out]) == CUDA_SUCCESS && good
               ? trial->now_us(trial->context) - begin_us
               : -1;
}

static measured_t measure(const mdnn_copy_trial_t *trial, const mdnn_copy_ways_t *ways, bool out)
{
    const double change_us = busy_change_us(trial, ways, out);
    return (measured_t){change_us, copies_us(trial, ways, out)};
}

static void choose(const mdnn_copy_trial_t *trial, mdnn_copy_ways_t *ways, bool out, double idle_us)
{
    ways->by_kernel[out] = false;
    const measured_t engine = measure(trial, ways, out);
    if (engine.change_us < waits * idle_us)
        return;
    ways->by_kernel[out] = true;
    (void)copies_us(trial, ways, out); /* the first launch loads it */
    const measured_t kernel = measure(trial, ways, out);
    ways->by_kernel[out] = kernel.change_us >= 0 && kernel.change_us < helps * engine.change_us &&
                           kernel.copies_us > 0 &&
                           kernel.copies_us * fast_enough <= engine.copies_us;
    MDNN_LOG(MDNN_LOG_INFO, "memory",
             "copies %s by %s: mapping takes %.0f us beside the copy engine, %.0f beside the "
             "kernel, %.0f beside "
             "neither; the copies take %.1f and %.1f ms",
             out ? "to the host" : "from the host", ways->by_kernel[out] ? "kernel" : "engine",
             engine.change_us, kernel.change_us, idle_us, engine.copies_us / 1e3,
             kernel.copies_us / 1e3);
}

void mdnn_copy_ways_choose(const mdnn_copy_trial_t *trial, mdnn_copy_ways_t *ways)
{
    if (!ways->kernel)
        return;
    const double idle_us = idle_change_us(trial);
    for (int out = 0; out < 2 && idle_us > 0; out++)
        choose(trial, ways, out, idle_us);
}
