/* libcudnn_graph.so.9: the entry points of the backend API. Where the real library follows a bad
 * pointer, this one gives BAD_PARAM. */
#include <float.h>
#include <stdlib.h>

#include "test/sim/cudnn/backend.h"

bool sim_backend_valid(const sim_backend_t *descriptor)
{
    return descriptor && descriptor->magic == SIM_BACKEND_MAGIC;
}

bool sim_backend_ready(const sim_backend_t *descriptor, int32_t type)
{
    return sim_backend_valid(descriptor) && descriptor->type == type && descriptor->finalized;
}

static bool is_simulated(cudnnBackendDescriptorType_t type)
{
    switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
        return true;
    default:
        return false;
    }
}

/* What a descriptor says before anything is set. */
static void begin(sim_backend_t *descriptor, int32_t type)
{
    *descriptor = (sim_backend_t){.magic = SIM_BACKEND_MAGIC, .type = type};
    descriptor->tensor.type = -1;
    descriptor->tensor.vector_count = 1;
    descriptor->tensor.vector_dim = -1;
    descriptor->convolution.compute_type = descriptor->convolution.mode = -1;
    descriptor->pointwise.upper_clip = DBL_MAX;
    descriptor->pointwise.elu_alpha = descriptor->pointwise.softplus_beta =
        descriptor->pointwise.swish_beta = 1.0;
    descriptor->operation.node.alpha = 1.0;
    descriptor->operation.node.beta =
        descriptor->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ? 1.0 : 0.0;
    descriptor->device = -1;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                                       cudnnBackendDescriptor_t *descriptor)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(descriptor, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE((unsigned)descriptorType <= CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
                      CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    SIM_CUDNN_REQUIRE(is_simulated(descriptorType), CUDNN_STATUS_NOT_SUPPORTED);
    sim_backend_t *const made = calloc(1, sizeof *made);
    SIM_CUDNN_REQUIRE(made, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    begin(made, (int32_t)descriptorType);
    *descriptor = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(descriptor, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    sim_backend_t *const gone = descriptor;
    SIM_CUDNN_REQUIRE(sim_backend_valid(gone), CUDNN_STATUS_BAD_PARAM);
    sim_graph_release(gone->graph);
    free(gone->json);
    gone->magic = 0;
    free(gone);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor)
{
    SIM_CUDNN_ENTRY();
    sim_backend_t *const again = descriptor;
    SIM_CUDNN_REQUIRE(sim_backend_valid(again), CUDNN_STATUS_BAD_PARAM);
    sim_graph_release(again->graph);
    free(again->json);
    begin(again, again->type);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    SIM_CUDNN_ENTRY();
    sim_backend_t *const made = descriptor;
    SIM_CUDNN_REQUIRE(made, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    SIM_CUDNN_REQUIRE(sim_backend_valid(made) && !made->finalized, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_TRY(sim_backend_finalize(made));
    made->finalized = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t attributeName,
                                                   cudnnBackendAttributeType_t attributeType,
                                                   int64_t elementCount,
                                                   const void *arrayOfElements)
{
    SIM_CUDNN_ENTRY();
    sim_backend_t *const to = descriptor;
    SIM_CUDNN_REQUIRE(to, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    SIM_CUDNN_REQUIRE(sim_backend_valid(to) && !to->finalized, CUDNN_STATUS_BAD_PARAM);
    return sim_backend_set(to, (int32_t)attributeName, (int32_t)attributeType, elementCount,
                           arrayOfElements);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                   cudnnBackendAttributeName_t attributeName,
                                                   cudnnBackendAttributeType_t attributeType,
                                                   int64_t requestedElementCount,
                                                   int64_t *elementCount, void *arrayOfElements)
{
    SIM_CUDNN_ENTRY();
    sim_backend_t *const from = descriptor;
    SIM_CUDNN_REQUIRE(sim_backend_valid(from), CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(from->finalized, CUDNN_STATUS_NOT_INITIALIZED);
    return sim_backend_get(from, (int32_t)attributeName, (int32_t)attributeType,
                           requestedElementCount, elementCount, arrayOfElements);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t handle,
                                              cudnnBackendDescriptor_t executionPlan,
                                              cudnnBackendDescriptor_t variantPack)
{
    SIM_CUDNN_ENTRY();
    sim_backend_t *const plan = executionPlan, *const pack = variantPack;
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && sim_backend_valid(plan) &&
                          sim_backend_valid(pack) &&
                          plan->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
                          pack->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(plan->finalized && pack->finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    return sim_plan_execute(handle, plan, &pack->pack);
}

/* The simulated driver makes graphs by capture alone, and no engine here has the note
 * SUPPORTS_CUDA_GRAPH_NATIVE_API: a client that reads notes never comes here. */
static cudnnStatus_t refuse_graph(cudnnHandle_t handle, const sim_backend_t *plan,
                                  const sim_backend_t *pack)
{
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && sim_backend_valid(plan) &&
                          sim_backend_valid(pack),
                      CUDNN_STATUS_BAD_PARAM);
    return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "the engine has no native CUDA graph");
}

cudnnStatus_t CUDNNWINAPI cudnnBackendPopulateCudaGraph(cudnnHandle_t handle,
                                                        cudnnBackendDescriptor_t executionPlan,
                                                        cudnnBackendDescriptor_t variantPack,
                                                        cudaGraph_t graph)
{
    SIM_CUDNN_ENTRY();
    (void)graph;
    return refuse_graph(handle, executionPlan, variantPack);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                                      cudnnBackendDescriptor_t executionPlan,
                                                      cudnnBackendDescriptor_t variantPack,
                                                      cudaGraph_t graph)
{
    SIM_CUDNN_ENTRY();
    (void)graph;
    return refuse_graph(handle, executionPlan, variantPack);
}
