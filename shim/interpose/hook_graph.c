/* The backend graph API: what hosts put into descriptors is shadowed and followed, what they ask about workspace and
 * what they execute is handed to shim/graph. */
#include "config/fault.h"
#include "shim/graph/graph_execute.h"
#include "shim/graph/graph_follow.h"
#include "shim/graph/graph_reply.h"
#include "shim/graph/graph_shadow.h"
#include "shim/graph/shadow_attributes.h"
#include "shim/interpose/hooks.h"
#include "shim/real/process.h"

/* ---- descriptors come and go ---- */

cudnnStatus_t mdnn_hook_cudnnBackendCreateDescriptor(mdnn_library_t library,
                                                     cudnnBackendDescriptorType_t type,
                                                     cudnnBackendDescriptor_t *descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendCreateDescriptor);
    const cudnnStatus_t status = real->cudnnBackendCreateDescriptor(type, descriptor);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter())
        return status;
    if (mdnn_shadow_wanted(type))
        mdnn_shadow_create(*descriptor, type);
    if (mdnn_follow_is_on())
        mdnn_follow_create(*descriptor, type);
    mdnn_guard_leave();
    return status;
}

/* The shadow goes first: as soon as the descriptor is gone, another thread may get its address. */
cudnnStatus_t mdnn_hook_cudnnBackendDestroyDescriptor(mdnn_library_t library,
                                                      cudnnBackendDescriptor_t descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendDestroyDescriptor);
    if (mdnn_guard_enter()) {
        mdnn_shadow_destroy(descriptor);
        if (mdnn_follow_is_on())
            mdnn_follow_destroy(descriptor);
        mdnn_guard_leave();
    }
    return real->cudnnBackendDestroyDescriptor(descriptor);
}

/* As new, of the same type. Memory of the caller's own has no shadow, and passes. */
cudnnStatus_t mdnn_hook_cudnnBackendInitialize(mdnn_library_t library,
                                               cudnnBackendDescriptor_t descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendInitialize);
    const cudnnStatus_t status = real->cudnnBackendInitialize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter())
        return status;
    if (MDNN_FAULT(INITIALIZED_PASSES))
        mdnn_shadow_destroy(descriptor);
    else
        mdnn_shadow_renew(descriptor);
    if (mdnn_follow_is_on())
        mdnn_follow_renew(descriptor);
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnBackendFinalize(mdnn_library_t library,
                                             cudnnBackendDescriptor_t descriptor)
{
    REAL_OR_FAIL(real, library, cudnnBackendFinalize);
    const cudnnStatus_t status = real->cudnnBackendFinalize(descriptor);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter())
        return status;
    if (mdnn_follow_is_on())
        mdnn_follow_finalize(descriptor);
    mdnn_shadow_finalize(descriptor);
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnBackendSetAttribute(mdnn_library_t library,
                                                 cudnnBackendDescriptor_t descriptor,
                                                 cudnnBackendAttributeName_t name,
                                                 cudnnBackendAttributeType_t type, int64_t count,
                                                 const void *elements)
{
    REAL_OR_FAIL(real, library, cudnnBackendSetAttribute);
    const cudnnStatus_t status =
        real->cudnnBackendSetAttribute(descriptor, name, type, count, elements);
    if (status != CUDNN_STATUS_SUCCESS || !mdnn_guard_enter())
        return status;
    mdnn_shadow_set(descriptor, name, count, elements);
    if (mdnn_follow_is_on() && !mdnn_shadow_is_of_pack(name))
        mdnn_follow_set(descriptor, name, type, count, elements);
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnBackendGetAttribute(mdnn_library_t library,
                                                 cudnnBackendDescriptor_t const descriptor,
                                                 cudnnBackendAttributeName_t name,
                                                 cudnnBackendAttributeType_t type,
                                                 int64_t requested, int64_t *count, void *elements)
{
    REAL_OR_FAIL(real, library, cudnnBackendGetAttribute);
    const bool fills = type == CUDNN_TYPE_BACKEND_DESCRIPTOR && mdnn_follow_is_on();
    if ((!fills && !mdnn_graph_reply_concerns(name)) || requested < 1 || !elements ||
        !mdnn_guard_enter())
        return real->cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
    const cudnnStatus_t status =
        real->cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
    if (status == CUDNN_STATUS_SUCCESS && fills)
        mdnn_follow_fill(descriptor, name, requested, count ? *count : -1, elements);
    if (status == CUDNN_STATUS_SUCCESS)
        mdnn_graph_reply(real, descriptor, name, elements);
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnBackendExecute(mdnn_library_t library, cudnnHandle_t handle,
                                            cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack)
{
    REAL_OR_FAIL(real, library, cudnnBackendExecute);
    if (!mdnn_guard_enter())
        return real->cudnnBackendExecute(handle, plan, pack);
    const cudnnStatus_t status = mdnn_graph_execute(real, handle, plan, pack);
    mdnn_guard_leave();
    return status;
}

/* One hook for both: `name` is the function. */
#define CUDA_GRAPH_HOOK(name)                                                                      \
    cudnnStatus_t mdnn_hook_##name(mdnn_library_t library, cudnnHandle_t handle,                   \
                                   cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,   \
                                   cudaGraph_t graph)                                              \
    {                                                                                              \
        REAL_OR_FAIL(real, library, name);                                                         \
        const bool entered = mdnn_guard_enter();                                                   \
        const cudnnBackendDescriptor_t chosen =                                                    \
            entered ? mdnn_graph_plan_for_cuda_graph(real, handle, plan, pack) : plan;             \
        const cudnnStatus_t status =                                                               \
            chosen || !plan                                                                        \
                ? real->name(handle, chosen, pack, graph)                                          \
                : mdnn_graph_refuse(#name " is not supported", CUDNN_STATUS_NOT_SUPPORTED);        \
        if (entered)                                                                               \
            mdnn_guard_leave();                                                                    \
        return status;                                                                             \
    }

CUDA_GRAPH_HOOK(cudnnBackendPopulateCudaGraph)
CUDA_GRAPH_HOOK(cudnnBackendUpdateCudaGraph)
