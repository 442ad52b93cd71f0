#include "shim/real/capture_mode.h"

#include "config/fault.h"

/* initial-exec: see shim/real/process.c. */
static _Thread_local struct {
    unsigned depth;
    bool relaxed; /* `before` is the mode as the program left it */
    CUstreamCaptureMode before;
} own __attribute__((tls_model("initial-exec")));

static void relax(void)
{
    if (own.relaxed)
        return;
    own.before = CU_STREAM_CAPTURE_MODE_RELAXED;
    own.relaxed =
        mdnn_real_driver()->cuThreadExchangeStreamCaptureMode(&own.before) == CUDA_SUCCESS;
}

void mdnn_capture_begin_own(void)
{
    own.depth++;
}

void mdnn_capture_end_own(void)
{
    if (--own.depth > 0 || !own.relaxed || MDNN_FAULT(CAPTURE_MODE_KEPT))
        return;
    (void)mdnn_real_driver()->cuThreadExchangeStreamCaptureMode(&own.before);
    own.relaxed = false;
}

void mdnn_capture_relax(void)
{
    mdnn_capture_begin_own();
    relax();
}

void mdnn_capture_restore(void)
{
    mdnn_capture_end_own();
}

#define UNSAFE(name, parameters, arguments)                                                        \
    static CUresult CUDAAPI relaxed_##name parameters                                              \
    {                                                                                              \
        mdnn_capture_relax();                                                                      \
        const CUresult result = mdnn_real_driver()->found.name arguments;                          \
        mdnn_capture_restore();                                                                    \
        return result;                                                                             \
    }
#include "shim/real/capture_unsafe.def"
#undef UNSAFE

void mdnn_capture_relax_calls(mdnn_driver_t *table)
{
#define UNSAFE(name, parameters, arguments)                                                        \
    table->found.name = table->name;                                                               \
    if (table->name)                                                                               \
        table->name = relaxed_##name;
#include "shim/real/capture_unsafe.def"
#undef UNSAFE
}

bool mdnn_stream_is_capturing(const mdnn_driver_t *driver, CUstream stream)
{
    CUstreamCaptureStatus status;
    return driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}
