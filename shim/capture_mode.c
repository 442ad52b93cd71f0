#include "shim/capture_mode.h"

mdnn_capture_mode_t mdnn_capture_relax(void)
{
    mdnn_capture_mode_t mode = {.before = CU_STREAM_CAPTURE_MODE_RELAXED};
    mode.changed =
        mdnn_real_driver()->cuThreadExchangeStreamCaptureMode(&mode.before) == CUDA_SUCCESS;
    return mode;
}

void mdnn_capture_restore(mdnn_capture_mode_t mode)
{
    if (mode.changed)
        (void)mdnn_real_driver()->cuThreadExchangeStreamCaptureMode(&mode.before);
}

CUresult mdnn_event_query(CUevent event)
{
    const mdnn_capture_mode_t mode = mdnn_capture_relax();
    const CUresult result = mdnn_real_driver()->cuEventQuery(event);
    mdnn_capture_restore(mode);
    return result;
}
