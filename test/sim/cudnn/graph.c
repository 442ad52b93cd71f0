/* libcudnn_graph.so.9: handles, versions and error texts, where cuDNN 9 keeps them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

enum { ERROR_TEXT_BYTES = 256 };

static _Thread_local char last_error[ERROR_TEXT_BYTES];

cudnnStatus_t sim_cudnn_fail(cudnnStatus_t status, const char *text)
{
    snprintf(last_error, sizeof last_error, "%s: %s", cudnnGetErrorString(status), text);
    return status;
}

size_t CUDNNWINAPI cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

size_t CUDNNWINAPI cudnnGetMaxDeviceVersion(void)
{
    return 1000;
}

size_t CUDNNWINAPI cudnnGetCudartVersion(void)
{
    return CUDA_VERSION;
}

cudnnStatus_t CUDNNWINAPI cudnnGraphVersionCheck(void)
{
    return CUDNN_STATUS_SUCCESS;
}

#define NAME(status)                                                                               \
    case status:                                                                                   \
        return #status

const char *CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
        NAME(CUDNN_STATUS_SUCCESS);
        NAME(CUDNN_STATUS_NOT_INITIALIZED);
        NAME(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
        NAME(CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
        NAME(CUDNN_STATUS_DEPRECATED);
        NAME(CUDNN_STATUS_LICENSE_ERROR);
        NAME(CUDNN_STATUS_RUNTIME_IN_PROGRESS);
        NAME(CUDNN_STATUS_RUNTIME_FP_OVERFLOW);
        NAME(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED);
        NAME(CUDNN_STATUS_BAD_PARAM);
        NAME(CUDNN_STATUS_INVALID_VALUE);
        NAME(CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        NAME(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
        NAME(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        NAME(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
        NAME(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
        NAME(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
        NAME(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
        NAME(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
        NAME(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
        NAME(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
        NAME(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
        NAME(CUDNN_STATUS_NOT_SUPPORTED);
        NAME(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
        NAME(CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
        NAME(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
        NAME(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
        NAME(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
        NAME(CUDNN_STATUS_NOT_SUPPORTED_PADDING);
        NAME(CUDNN_STATUS_INTERNAL_ERROR);
        NAME(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
        NAME(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
        NAME(CUDNN_STATUS_EXECUTION_FAILED);
        NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
        NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDART);
    default:
        return "CUDNN_UNKNOWN_STATUS";
    }
}

void CUDNNWINAPI cudnnGetLastErrorString(char *message, size_t max_size)
{
    if (message && max_size)
        snprintf(message, max_size, "%s", last_error);
    last_error[0] = '\0';
}

cudnnStatus_t CUDNNWINAPI cudnnGetProperty(libraryPropertyType type, int *value)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(value, CUDNN_STATUS_BAD_PARAM);
    switch (type) {
    case MAJOR_VERSION:
        *value = CUDNN_MAJOR;
        break;
    case MINOR_VERSION:
        *value = CUDNN_MINOR;
        break;
    case PATCH_LEVEL:
        *value = CUDNN_PATCHLEVEL;
        break;
    default:
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "property");
    }
    return CUDNN_STATUS_SUCCESS;
}

/* The current context and its device; device 0's primary context becomes current without one. */
static bool adopt_context(const sim_driver_t *driver, struct cudnnContext *handle)
{
    CUdevice device = 0;
    if (driver->init(0) != CUDA_SUCCESS ||
        driver->ctx_get_current(&handle->context) != CUDA_SUCCESS)
        return false;
    if (!handle->context && (driver->primary_ctx_retain(&handle->context, 0) != CUDA_SUCCESS ||
                             driver->ctx_set_current(handle->context) != CUDA_SUCCESS))
        return false;
    if (driver->ctx_get_device(&device) != CUDA_SUCCESS)
        return false;
    handle->device = device;
    handle->profile = driver->sim->profile(device);
    return handle->profile;
}

cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t *handle)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(handle, CUDNN_STATUS_BAD_PARAM);
    const sim_driver_t *const driver = sim_driver();
    SIM_CUDNN_REQUIRE(driver, CUDNN_STATUS_NOT_INITIALIZED);
    struct cudnnContext *const made = calloc(1, sizeof *made);
    SIM_CUDNN_REQUIRE(made, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    made->magic = SIM_HANDLE_MAGIC;
    if (!adopt_context(driver, made)) {
        free(made);
        return sim_cudnn_fail(CUDNN_STATUS_NOT_INITIALIZED, "no usable CUDA context");
    }
    *handle = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle), CUDNN_STATUS_BAD_PARAM);
    handle->magic = 0;
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle), CUDNN_STATUS_BAD_PARAM);
    handle->stream = (CUstream)streamId;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetStream(cudnnHandle_t handle, cudaStream_t *streamId)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && streamId, CUDNN_STATUS_BAD_PARAM);
    *streamId = (cudaStream_t)handle->stream;
    return CUDNN_STATUS_SUCCESS;
}
