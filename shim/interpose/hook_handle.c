/* Handles come and go. */
#include "shim/interpose/hooks.h"
#include "shim/real/handles.h"
#include "shim/real/process.h"

cudnnStatus_t mdnn_hook_cudnnCreate(mdnn_library_t library, cudnnHandle_t *handle)
{
    const mdnn_cudnn_t *const real = mdnn_real_cudnn(library);
    if (!real || !real->cudnnCreate)
        return CUDNN_STATUS_NOT_INITIALIZED;
    const cudnnStatus_t status = real->cudnnCreate(handle);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter())
        return status;
    mdnn_handle_created(*handle);
    mdnn_guard_leave();
    return status;
}

/* Ours goes first: as soon as the handle is gone, another thread may get its address. */
cudnnStatus_t mdnn_hook_cudnnDestroy(mdnn_library_t library, cudnnHandle_t handle)
{
    const mdnn_cudnn_t *const real = mdnn_real_cudnn(library);
    if (!real || !real->cudnnDestroy)
        return CUDNN_STATUS_NOT_INITIALIZED;
    if (mdnn_guard_enter()) {
        mdnn_handle_destroyed(handle);
        mdnn_guard_leave();
    }
    return real->cudnnDestroy(handle);
}
