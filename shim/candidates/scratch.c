#include "shim/candidates/scratch.h"

#include <string.h>

#include "config/clock.h"
#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/real/public_driver.h"
#include "shim/real/kernels.h"
#include "shim/vmem/virtual_memory.h"

/* Left to the host while we hold scratch: other threads allocate too. */
static const uint64_t reserve_bytes = (uint64_t)64 << 20;

/* The host takes less for a call of one or two kernels, as a rule. */
static const double least_call_us = 10;
/* Something in a call may wait for the GPU: then the host is held up no longer than this. */
static const double longest_hold_us = 5000;

static void destroy_events(mdnn_scratch_t *scratch)
{
    for (int i = 0; i <= MDNN_SCRATCH_GROUPS && scratch->events[i]; i++)
        (void)scratch->driver->cuEventDestroy(scratch->events[i]);
}

mdnn_status_t mdnn_scratch_init(mdnn_scratch_t *scratch, const mdnn_driver_t *driver,
                                mdnn_own_stream_t *own)
{
    memset(scratch, 0, sizeof *scratch);
    scratch->driver = driver;
    scratch->own = own;
    scratch->stream = own->stream;
    for (int i = 0; i <= MDNN_SCRATCH_GROUPS; i++)
        if (driver->cuEventCreate(&scratch->events[i], CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
            scratch->events[i] = NULL;
            destroy_events(scratch);
            return MDNN_STATUS_DEVICE;
        }
    return MDNN_STATUS_OK;
}

static void release(mdnn_scratch_t *scratch, mdnn_scratch_use_t use)
{
    if (scratch->blocks[use] && !MDNN_FAULT(SCRATCH_LEAK))
        mdnn_own_stream_free(scratch->own, scratch->blocks[use]);
    scratch->blocks[use] = 0;
    scratch->bytes[use] = 0;
}

void mdnn_scratch_fini(mdnn_scratch_t *scratch)
{
    for (int use = 0; use < MDNN_SCRATCH_COUNT; use++)
        release(scratch, (mdnn_scratch_use_t)use);
    mdnn_own_stream_give_back(scratch->own);
    if (!MDNN_FAULT(EVENT_LEAK))
        destroy_events(scratch);
}

static void count_peak(const mdnn_scratch_t *scratch)
{
    uint64_t total = 0;
    for (int use = 0; use < MDNN_SCRATCH_COUNT; use++)
        total += scratch->bytes[use];
    mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, total);
}

/* OUT_OF_DEVICE_MEMORY: so much is not there beside 64 MiB for other threads and room for the largest operation that can
 * be whole; with takes_all, beside the smaller of these 64 MiB and an eighth of what can leave or is free. */
static mdnn_status_t leave_room(const mdnn_scratch_t *scratch, uint64_t bytes)
{
    enum { PART = 8 };
    size_t available, total;
    if (mdnn_device_info(&available, &total) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    uint64_t left = reserve_bytes;
    if (scratch->takes_all) {
        available = mdnn_virtual_room_beside(NULL, 0);
        left = available / PART < left ? available / PART : left;
    }
    const bool too_little = available < left && !MDNN_FAULT(SIZE_UNDERFLOW);
    return too_little || bytes > available - left ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                                                  : MDNN_STATUS_OK;
}

mdnn_status_t mdnn_scratch_reserve(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, uint64_t bytes)
{
    if (bytes <= scratch->bytes[use])
        return MDNN_STATUS_OK;
    const bool grows = scratch->blocks[use] != 0;
    release(scratch, use);
    if (grows)
        mdnn_own_stream_give_back(scratch->own);
    MDNN_TRY(leave_room(scratch, bytes));
    if (mdnn_own_stream_allocate(scratch->own, &scratch->blocks[use], bytes) != CUDA_SUCCESS) {
        scratch->blocks[use] = 0;
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    }
    scratch->bytes[use] = bytes;
    count_peak(scratch);
    return MDNN_STATUS_OK;
}

static uint64_t next_random(uint64_t *state)
{
    /* xorshift64*: any spread of mantissas will do */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Random sign and mantissa with an exponent for [0.125, 1): every pattern is a normal number. */
static void random_numbers(void *block, size_t bytes, int32_t type)
{
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t bits = next_random(&state);
        const uint64_t exponent = (bits >> 20) % 3;
        switch ((cudnnDataType_t)type) {
        case CUDNN_DATA_DOUBLE:
            bits = (bits & UINT64_C(0x800FFFFFFFFFFFFF)) | (1020 + exponent) << 52;
            break;
        case CUDNN_DATA_HALF:
            bits = (bits & UINT64_C(0x83FF83FF83FF83FF)) |
                   (12 + exponent) * UINT64_C(0x0400040004000400);
            break;
        case CUDNN_DATA_BFLOAT16:
            bits = (bits & UINT64_C(0x807F807F807F807F)) |
                   (124 + exponent) * UINT64_C(0x0080008000800080);
            break;
        default:
            bits = (bits & UINT64_C(0x807FFFFF807FFFFF)) |
                   (124 + exponent) * UINT64_C(0x0080000000800000);
        }
        memcpy((char *)block + at, &bits, sizeof bits);
    }
}

mdnn_status_t mdnn_scratch_randomize(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, int32_t type)
{
    static char pattern[1 << 16]; /* measurements run one at a time */
    const uint64_t bytes = scratch->bytes[use];
    const CUdeviceptr block = scratch->blocks[use];
    random_numbers(pattern, sizeof pattern, type);
    uint64_t filled = bytes < sizeof pattern ? bytes : sizeof pattern;
    CUresult result = mdnn_public_copy_to_device(block, pattern, filled, scratch->stream);
    while (result == CUDA_SUCCESS && filled < bytes) {
        const uint64_t more = bytes - filled < filled ? bytes - filled : filled;
        result = mdnn_public_copy_on_device(block + filled, block, more, scratch->stream);
        filled += more;
    }
    return result == CUDA_SUCCESS ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

static mdnn_status_t enqueue(const mdnn_call_t *calls, size_t distinct, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mdnn_call_run(&calls[i % distinct]) != CUDNN_STATUS_SUCCESS)
            return MDNN_STATUS_UNSUPPORTED;
    return MDNN_STATUS_OK;
}

static mdnn_status_t record(mdnn_scratch_t *scratch, size_t event)
{
    return scratch->driver->cuEventRecord(scratch->events[event], scratch->stream) == CUDA_SUCCESS
               ? MDNN_STATUS_OK
               : MDNN_STATUS_DEVICE;
}

/* Keeps the stream from going on for about as long as enqueueing `calls` calls takes. Timing goes on
 * without it where it fails. */
static void hold(mdnn_scratch_t *scratch, size_t calls)
{
    const double slowest_us = 1.5 * scratch->call_us; /* calls differ */
    const double wanted_us =
        (double)calls * (slowest_us > least_call_us ? slowest_us : least_call_us);
    uint64_t ns = (uint64_t)(1e3 * (wanted_us < longest_hold_us ? wanted_us : longest_hold_us));
    void *parameters[] = {&ns};
    const mdnn_kernels_t *kernels;
    if (scratch->cannot_hold)
        return;
    scratch->cannot_hold = mdnn_kernels_get(&kernels) != MDNN_STATUS_OK ||
                           mdnn_public_launch(kernels->hold, 1, 1, 1, 1, 1, 1, 0, scratch->stream,
                                              parameters, NULL) != CUDA_SUCCESS;
    if (scratch->cannot_hold)
        MDNN_LOG_ONCE(MDNN_LOG_INFO, "measure",
                      "the kernel that holds a stream does not run here: short calls are timed at "
                      "the speed of the host");
}

static mdnn_status_t enqueue_runs(mdnn_scratch_t *scratch, const mdnn_call_t *calls,
                                  size_t distinct, const mdnn_timed_runs_t *runs)
{
    MDNN_TRY(enqueue(calls, distinct, runs->lead));
    MDNN_TRY(record(scratch, 0));
    const double begin_us = mdnn_now_us();
    for (size_t i = 0; i < runs->groups; i++) {
        MDNN_TRY(enqueue(calls, distinct, runs->count));
        MDNN_TRY(record(scratch, i + 1));
    }
    scratch->call_us = (mdnn_now_us() - begin_us) / (double)(runs->groups * runs->count);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_scratch_time(mdnn_scratch_t *scratch, const mdnn_call_t *calls, size_t distinct,
                                const mdnn_timed_runs_t *runs, double *ms)
{
    const mdnn_driver_t *const driver = scratch->driver;
    if (runs->held)
        hold(scratch, runs->lead + runs->groups * runs->count);
    MDNN_TRY(enqueue_runs(scratch, calls, distinct, runs));
    MDNN_TRY(mdnn_own_stream_wait(scratch->events[runs->groups]));
    for (size_t i = 0; i < runs->groups; i++) {
        float elapsed;
        if (driver->cuEventElapsedTime(&elapsed, scratch->events[i], scratch->events[i + 1]) !=
            CUDA_SUCCESS)
            return MDNN_STATUS_DEVICE;
        ms[i] = (double)elapsed / (double)runs->count;
    }
    return MDNN_STATUS_OK;
}
