#include "shim/vmem/virtual_streams.h"

#include "shim/real/capture_mode.h"
#include "shim/real/failure.h"
#include "shim/vmem/virtual_captures.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_shared.h"

mdnn_status_t mdnn_virtual_stream(CUstream stream, bool per_thread, uint64_t *number)
{
    mdnn_timelines_t *const all = mdnn_virtual_known_timelines();
    mdnn_failure_forget();
    const mdnn_status_t status = mdnn_timelines_stream(all, stream, per_thread, number);
    return status == MDNN_STATUS_DEVICE ? mdnn_timelines_stream(all, stream, per_thread, number)
                                        : status;
}

void mdnn_virtual_fix(const mdnn_virtual_operation_t *operation)
{
    mdnn_timelines_t *const all = mdnn_virtual_known_timelines();
    if (!all)
        return;
    mdnn_capture_begin_own();
    mdnn_failure_forget();
    mdnn_timelines_fix_stream(all, operation->stream, operation->per_thread);
    mdnn_failure_forget();
    mdnn_capture_end_own();
}

unsigned long long mdnn_virtual_stream_destroyed(CUstream stream)
{
    mdnn_timelines_t *const all = mdnn_virtual_known_timelines();
    if (!all)
        return 0;
    mdnn_capture_begin_own();
    mdnn_timelines_stream_ends(all, stream);
    mdnn_capture_end_own();
    return mdnn_virtual_capture_in(stream);
}
