#include "shim/candidates/own_stream.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"
#include "config/fault.h"
#include "config/log.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

enum { CONTEXTS = 16 };

/* Work of ours that takes longer is not worth it: a convolution takes milliseconds. */
static const double longest_run_us = 10e6;
/* The device is too busy at most in this part of the time. */
static const double share_of_waits = 1.0 / 32;
/* A machine that is slow may leave little of the time to us, so that both must be used up. */
enum { LOOKS_FOR_PROGRAM = 64, LOOKS_FOR_OWN = 1 << 14, LOOKS_WITHOUT_SLEEP = 200 };

static mdnn_own_stream_t streams[CONTEXTS];
static _Atomic bool waits_for_program;

bool mdnn_own_stream_waits_for_program(void)
{
    return atomic_load(&waits_for_program);
}

static CUresult query_event(const void *event)
{
    return mdnn_real_driver()->cuEventQuery((CUevent)(uintptr_t)event);
}

static CUresult query_stream(const void *stream)
{
    return mdnn_real_driver()->cuStreamQuery((CUstream)(uintptr_t)stream);
}

/* Asks until it is over, and `patience_us` and so many looks are used up. */
static mdnn_status_t wait_for(CUresult (*query)(const void *), const void *what, double patience_us,
                              int looks)
{
    static const struct timespec moment = {0, 20000};
    const double begin_us = mdnn_now_us();
    for (int look = 0;; look++) {
        const CUresult result = query(what);
        if (result != CUDA_ERROR_NOT_READY)
            return result == CUDA_SUCCESS ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
        if (look >= looks && mdnn_now_us() - begin_us >= patience_us &&
            !MDNN_FAULT(MEASURING_WAITS_FOR_EVER))
            return MDNN_STATUS_BUSY;
        if (look < LOOKS_WITHOUT_SLEEP)
            (void)sched_yield();
        else
            (void)nanosleep(&moment, NULL);
    }
}

mdnn_status_t mdnn_own_stream_wait(CUevent event)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    /* Simulated time passes for who waits; our own work needs nobody else. */
    if (driver->is_simulated)
        return driver->cuEventSynchronize(event) == CUDA_SUCCESS ? MDNN_STATUS_OK
                                                                 : MDNN_STATUS_DEVICE;
    return wait_for(query_event, event, longest_run_us, LOOKS_FOR_OWN);
}

/* For all of it, likewise. */
static mdnn_status_t wait_for_own(const mdnn_own_stream_t *own)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (driver->is_simulated)
        return driver->cuStreamSynchronize(own->stream) == CUDA_SUCCESS ? MDNN_STATUS_OK
                                                                        : MDNN_STATUS_DEVICE;
    return wait_for(query_stream, own->stream, longest_run_us, LOOKS_FOR_OWN);
}

/* ---- making ---- */

/* A context that was made anew has nothing of the old one but maybe its address; no id: drivers before CUDA 12. */
static mdnn_own_stream_t *find_place(const mdnn_driver_t *driver)
{
    mdnn_own_stream_t *place = NULL;
    CUcontext context;
    unsigned long long id = 0;
    if (driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
        (driver->cuCtxGetId && driver->cuCtxGetId(context, &id) != CUDA_SUCCESS))
        return NULL;
    for (int i = CONTEXTS; i-- > 0;)
        if (streams[i].context == context)
            place = &streams[i];
        else if (!streams[i].context && (!place || !place->context))
            place = &streams[i];
    if (place && place->context_id != id)
        memset(place, 0, sizeof *place);
    if (place) {
        place->context = context;
        place->context_id = id;
    }
    return place;
}

static void make_pool(const mdnn_driver_t *driver, mdnn_own_stream_t *own)
{
    CUdevice device;
    if (own->pool || MDNN_FAULT(MEASURING_WAITS_FOR_DEVICE) || !driver->cuMemPoolCreate ||
        !driver->cuMemPoolTrimTo || !driver->cuMemAllocFromPoolAsync || !driver->cuMemFreeAsync ||
        driver->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return;
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    if (!own->end && driver->cuEventCreate(&own->end, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        own->end = NULL;
    if (!own->end || driver->cuMemPoolCreate(&own->pool, &properties) != CUDA_SUCCESS)
        own->pool = NULL;
}

static bool make_stream(const mdnn_driver_t *driver, mdnn_own_stream_t *own)
{
    const unsigned flags =
        MDNN_FAULT(MEASURING_BEHIND_DEFAULT_STREAM) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    if (!own->stream && driver->cuStreamCreate(&own->stream, flags) != CUDA_SUCCESS)
        own->stream = NULL;
    if (own->stream)
        make_pool(driver, own);
    return own->stream != NULL;
}

/* A useless one stays until the process ends, since destroying it would wait for the device. */
static bool make_handle(const mdnn_cudnn_t *cudnn, mdnn_own_stream_t *own)
{
    cudnnHandle_t made;
    if (own->handles[cudnn->library])
        return true;
    if (cudnn->cudnnCreate(&made) != CUDNN_STATUS_SUCCESS)
        return false;
    if (cudnn->cudnnSetStream(made, own->stream) != CUDNN_STATUS_SUCCESS) {
        (void)cudnn->cudnnDestroy(made);
        return false;
    }
    own->handles[cudnn->library] = made;
    return true;
}

/* ---- entering ---- */

/* The default stream says so where a stream that waits for it is being captured, without ending that. */
static bool is_forbidden(const mdnn_driver_t *driver)
{
    CUstreamCaptureStatus status;
    return driver->cuStreamIsCapturing(CU_STREAM_LEGACY, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static double patience_us(const mdnn_own_stream_t *own)
{
    const double most_us = 1e3 * (double)mdnn_process_options()->convolution_measure_patience;
    const double since_us = mdnn_now_us() - own->refused_us;
    return own->refused_us > 0 && since_us * share_of_waits < most_us ? 0 : most_us;
}

/* It does for who waits, and a look takes half a microsecond of it. Not where the stream waits for the program. */
static void let_simulated_time_pass(const mdnn_own_stream_t *own, CUstream program)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (driver->is_simulated && own->end &&
        driver->cuEventRecord(own->end, program) == CUDA_SUCCESS)
        (void)driver->sim_wait_event(own->end);
}

static mdnn_status_t wait_for_program(mdnn_own_stream_t *own, CUstream program)
{
    const double patience = patience_us(own);
    mdnn_status_t status = wait_for(query_stream, program, 0, 0);
    if (status == MDNN_STATUS_BUSY && patience > 0) {
        atomic_store(&waits_for_program, true);
        let_simulated_time_pass(own, program);
        status = wait_for(query_stream, program, patience, LOOKS_FOR_PROGRAM);
        atomic_store(&waits_for_program, false);
    }
    if (status == MDNN_STATUS_OK)
        own->refused_us = 0;
    else if (patience > 0 || own->refused_us == 0)
        own->refused_us = mdnn_now_us();
    return status;
}

/* Whether earlier work of ours is over; what that used goes back. */
static bool is_clear(mdnn_own_stream_t *own)
{
    if (mdnn_real_driver()->cuStreamQuery(own->stream) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < MDNN_OWN_BLOCKS; i++)
        if (own->parked[i]) {
            (void)mdnn_device_free(own->parked[i]);
            own->parked[i] = 0;
        }
    return true;
}

mdnn_status_t mdnn_own_stream_enter(const mdnn_cudnn_t *cudnn, CUstream program,
                                    mdnn_own_stream_t **own, cudnnHandle_t *handle)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    mdnn_own_stream_t *const place = driver ? find_place(driver) : NULL;
    if (!place)
        return MDNN_STATUS_UNSUPPORTED;
    if (is_forbidden(driver))
        return MDNN_STATUS_BUSY;
    const bool has_stream = make_stream(driver, place);
    MDNN_TRY(wait_for_program(place, program));
    if (!has_stream || !make_handle(cudnn, place)) {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "measure",
                      "no stream or cuDNN handle can be made for measuring: convolutions pass");
        place->refused_us = mdnn_now_us();
        return MDNN_STATUS_BUSY;
    }
    if (!is_clear(place))
        return MDNN_STATUS_BUSY;
    *own = place;
    *handle = place->handles[cudnn->library];
    return MDNN_STATUS_OK;
}

/* ---- memory ---- */

CUresult mdnn_own_stream_allocate(const mdnn_own_stream_t *own, CUdeviceptr *address,
                                  uint64_t bytes)
{
    return own->pool && !mdnn_virtual_on()
               ? mdnn_real_driver()->cuMemAllocFromPoolAsync(address, bytes, own->pool, own->stream)
               : mdnn_device_allocate(address, bytes);
}

static void park(mdnn_own_stream_t *own, CUdeviceptr address)
{
    for (int i = 0; i < MDNN_OWN_BLOCKS; i++)
        if (!own->parked[i]) {
            own->parked[i] = address;
            return;
        }
}

void mdnn_own_stream_free(mdnn_own_stream_t *own, CUdeviceptr address)
{
    if (own->pool && !mdnn_virtual_on())
        (void)mdnn_real_driver()->cuMemFreeAsync(address, own->stream);
    else if (mdnn_real_driver()->cuStreamQuery(own->stream) == CUDA_ERROR_NOT_READY)
        park(own, address);
    else
        (void)mdnn_device_free(address);
}

/* A candidate that was not timed may have left work behind: numbers that are still being written to its tensors. */
void mdnn_own_stream_give_back(mdnn_own_stream_t *own)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (wait_for_own(own) != MDNN_STATUS_OK)
        return;
    if (own->pool && !mdnn_virtual_on())
        (void)driver->cuMemPoolTrimTo(own->pool, 0);
    else if (!MDNN_FAULT(PARKED_UNTIL_MEASURING))
        (void)is_clear(own);
}
