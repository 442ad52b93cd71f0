#include "shim/device/context_change.h"

mdnn_context_change_t mdnn_context_enter(const mdnn_driver_t *driver, CUcontext context)
{
    CUcontext current;
    const bool other =
        driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && context && current != context;
    return (mdnn_context_change_t){other && driver->cuCtxPushCurrent(context) == CUDA_SUCCESS};
}

void mdnn_context_leave(const mdnn_driver_t *driver, mdnn_context_change_t change)
{
    CUcontext popped;
    if (change.pushed)
        (void)driver->cuCtxPopCurrent(&popped);
}
