#include "shim/scratch.h"

#include <string.h>

#include "config/statistics.h"
#include "shim/driver.h"
#include "shim/virtual_memory.h"

/* Left to the host while we hold scratch: other threads allocate too. */
static const uint64_t reserve_bytes = (uint64_t)64 << 20;

static void destroy_events(mdnn_scratch_t *scratch)
{
    for (int i = 0; i <= MDNN_SCRATCH_GROUPS && scratch->events[i]; i++)
        (void)scratch->driver->cuEventDestroy(scratch->events[i]);
}

mdnn_status_t mdnn_scratch_init(mdnn_scratch_t *scratch, const mdnn_driver_t *driver,
                                CUstream stream)
{
    memset(scratch, 0, sizeof *scratch);
    scratch->driver = driver;
    scratch->stream = stream;
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
    if (scratch->blocks[use])
        (void)mdnn_device_free(scratch->blocks[use]);
    scratch->blocks[use] = 0;
    scratch->bytes[use] = 0;
}

void mdnn_scratch_fini(mdnn_scratch_t *scratch)
{
    for (int use = 0; use < MDNN_SCRATCH_COUNT; use++)
        release(scratch, (mdnn_scratch_use_t)use);
    destroy_events(scratch);
}

static void count_peak(const mdnn_scratch_t *scratch)
{
    uint64_t total = 0;
    for (int use = 0; use < MDNN_SCRATCH_COUNT; use++)
        total += scratch->bytes[use];
    mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, total);
}

mdnn_status_t mdnn_scratch_reserve(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, uint64_t bytes)
{
    if (bytes <= scratch->bytes[use])
        return MDNN_STATUS_OK;
    release(scratch, use);
    size_t available, total;
    if (mdnn_device_info(&available, &total) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    if (available < reserve_bytes || bytes > available - reserve_bytes ||
        mdnn_device_allocate(&scratch->blocks[use], bytes) != CUDA_SUCCESS) {
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
    static char pattern[1 << 16]; /* measurements run one at a time, under the planning lock */
    const uint64_t bytes = scratch->bytes[use];
    const CUdeviceptr block = scratch->blocks[use];
    random_numbers(pattern, sizeof pattern, type);
    uint64_t filled = bytes < sizeof pattern ? bytes : sizeof pattern;
    CUresult result = mdnn_driver_cuMemcpyHtoDAsync_v2(block, pattern, filled, scratch->stream);
    while (result == CUDA_SUCCESS && filled < bytes) {
        const uint64_t more = bytes - filled < filled ? bytes - filled : filled;
        result = mdnn_driver_cuMemcpyDtoDAsync_v2(block + filled, block, more, scratch->stream);
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

mdnn_status_t mdnn_scratch_time_groups(mdnn_scratch_t *scratch, const mdnn_call_t *calls,
                                       size_t distinct, size_t lead, size_t count, size_t groups,
                                       double *ms)
{
    const mdnn_driver_t *const driver = scratch->driver;
    MDNN_TRY(enqueue(calls, distinct, lead));
    MDNN_TRY(record(scratch, 0));
    for (size_t i = 0; i < groups; i++) {
        MDNN_TRY(enqueue(calls, distinct, count));
        MDNN_TRY(record(scratch, i + 1));
    }
    if (driver->cuEventSynchronize(scratch->events[groups]) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    for (size_t i = 0; i < groups; i++) {
        float elapsed;
        if (driver->cuEventElapsedTime(&elapsed, scratch->events[i], scratch->events[i + 1]) !=
            CUDA_SUCCESS)
            return MDNN_STATUS_DEVICE;
        ms[i] = (double)elapsed / (double)count;
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_scratch_time(mdnn_scratch_t *scratch, const mdnn_call_t *calls, size_t distinct,
                                size_t lead, size_t count, double *ms)
{
    return mdnn_scratch_time_groups(scratch, calls, distinct, lead, count, 1, ms);
}
