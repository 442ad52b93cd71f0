/* A driver of tests that makes, records and asks for events as it is told. Include after cmocka.h; who
 * includes it defines event_elapsed, the time between two. */
#ifndef MDNN_TEST_EVENT_DRIVER_H
#define MDNN_TEST_EVENT_DRIVER_H

#include "shim/real/capture_mode.h"
#include "shim/interpose/driver.h"

static int live_events, fail_event_at, records;
static int fail_record_at; /* from now on; 0: none */
static CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
static CUresult query_result = CUDA_SUCCESS;
static CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end);

static CUresult event_create(CUevent *event, unsigned flags)
{
    (void)flags;
    if (fail_event_at > 0 && --fail_event_at == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = (CUevent)(uintptr_t)++live_events;
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    (void)event;
    live_events--;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    if (fail_record_at > 0 && --fail_record_at == 0)
        return CUDA_ERROR_UNKNOWN;
    records++;
    return CUDA_SUCCESS;
}

/* Forbidden while a thread captures, unless this one says that it is no part of that. */
static CUresult event_query(CUevent event)
{
    (void)event;
    assert_int_equal(thread_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    return query_result;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = capture;
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    const CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

const mdnn_driver_t *mdnn_real_driver(void)
{
    static mdnn_driver_t driver;
    if (driver.cuEventQuery)
        return &driver;
    driver = (mdnn_driver_t){.cuEventCreate = event_create,
                             .cuEventDestroy = event_destroy,
                             .cuEventRecord = event_record,
                             .cuEventQuery = event_query,
                             .cuEventElapsedTime = event_elapsed,
                             .cuStreamIsCapturing = is_capturing,
                             .cuThreadExchangeStreamCaptureMode = exchange_mode};
    mdnn_capture_relax_calls(&driver);
    return &driver;
}

#endif
