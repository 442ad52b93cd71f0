/* libcudnn.so.9's backend API: descriptors that keep nothing, and plans that are one convolution,
 * 64 images of 64 x 56 x 56 with 64 filters of 3 x 3, by an engine whose index nobody is told.
 * There are no heuristics, so that what runs instead are standin_cudnn.c's algorithms. */
#include <stdlib.h>
#include <string.h>

#include "test/standin/standin.h"

#define STANDIN_FAILURE CUDNN_STATUS_EXECUTION_FAILED

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define TENSOR(name, dims, strides)                                                                \
    "{\"name\":\"" name "\",\"dataType\":\"CUDNN_DATA_FLOAT\",\"dim\":" dims                       \
    ",\"stride\":" strides                                                                         \
    ",\"isVirtual\":false,\"isByValue\":false,\"vectCount\":1,\"vectDim\":-1,\"ptrAlignment\":16," \
    "\"reordering\":\"CUDNN_TENSOR_REORDERING_NONE\"}"

static const char json[] =
    "{\"cudnnVersion\":91900,\"schemaVersion\":4,\"operationGraph\":{\"finalizeMode\":"
    "\"CONV_FORWARD\",\"tensors\":[" TENSOR("119", "[64,64,3,3]", "[576,9,3,1]") "," TENSOR(
        "120", "[64,64,56,56]",
        "[200704,3136,56,1]") "," TENSOR("121", "[64,64,56,56]",
                                         "[200704,3136,56,1]") "],"
                                                               "\"nodes\":[{\"operation\":\"CUDNN_"
                                                               "BACKEND_OPERATION_CONVOLUTION_"
                                                               "FORWARD_DESCRIPTOR\","
                                                               "\"mode\":\"CUDNN_CROSS_"
                                                               "CORRELATION\",\"mathPrec\":\"CUDNN_"
                                                               "DATA_FLOAT\",\"alpha\":1.0,"
                                                               "\"beta\":0.0,\"pad\":[1,1],"
                                                               "\"stride\":[1,1],\"dilation\":[1,1]"
                                                               ",\"X\":\"120\",\"W\":\"119\","
                                                               "\"Y\":\"121\"}]},\"GPUProfile\":{},"
                                                               "\"engine\":{\"engineId\":0,"
                                                               "\"smVersion\":900,"
                                                               "\"knobChoices\":{}}}";

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                       cudnnBackendDescriptor_t *descriptor)
{
    STANDIN_CALL(cudnnBackendCreateDescriptor);
    int *const made = malloc(64);
    if (!made)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *made = (int)type;
    *descriptor = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    free(descriptor); /* even if it is said to fail */
    STANDIN_CALL(cudnnBackendDestroyDescriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor)
{
    STANDIN_CALL(cudnnBackendInitialize);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    STANDIN_CALL(cudnnBackendFinalize);
    return *(int *)descriptor == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR ? CUDNN_STATUS_NOT_SUPPORTED
                                                                     : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t count,
                                                   const void *elements)
{
    STANDIN_CALL(cudnnBackendSetAttribute);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type,
                                                   int64_t requested, int64_t *count,
                                                   void *elements)
{
    STANDIN_CALL(cudnnBackendGetAttribute);
    *count = 1;
    switch (name) {
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        memset(elements, 0, sizeof(int64_t));
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
        memcpy(elements, json, sizeof json);
        *count = (int64_t)sizeof json - 1;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        return CUDNN_STATUS_NOT_SUPPORTED;
    default: /* descriptors are as they are */
        return CUDNN_STATUS_SUCCESS;
    }
}

cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                              cudnnBackendDescriptor_t pack)
{
    STANDIN_CALL(cudnnBackendExecute);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendPopulateCudaGraph(cudnnHandle_t handle,
                                                        cudnnBackendDescriptor_t plan,
                                                        cudnnBackendDescriptor_t pack,
                                                        cudaGraph_t graph)
{
    STANDIN_CALL(cudnnBackendPopulateCudaGraph);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                                      cudnnBackendDescriptor_t plan,
                                                      cudnnBackendDescriptor_t pack,
                                                      cudaGraph_t graph)
{
    STANDIN_CALL(cudnnBackendUpdateCudaGraph);
    return CUDNN_STATUS_SUCCESS;
}
