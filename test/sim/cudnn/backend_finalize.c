/* Finalize, one function for each type of descriptor: check what was set, copy what it points to.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/backend.h"

static const sim_profile_t *current_profile(void)
{
    const sim_driver_t *const driver = sim_driver();
    CUdevice device = 0;
    if (!driver || driver->init(0) != CUDA_SUCCESS)
        return NULL;
    if (driver->ctx_get_device(&device) != CUDA_SUCCESS)
        device = 0; /* no context yet: the first device, as the runtime would take */
    return driver->sim->profile(device);
}

const sim_profile_t *sim_backend_profile(const sim_backend_t *device, const sim_graph_t *graph)
{
    if (device)
        return device->profile;
    if (graph && graph->profile)
        return graph->profile;
    return current_profile();
}

static cudnnStatus_t finalize_tensor(sim_backend_t *descriptor)
{
    const sim_graph_tensor_t *const tensor = &descriptor->tensor;
    SIM_CUDNN_REQUIRE(sim_type_bytes((cudnnDataType_t)tensor->type), CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensor->dim_count > 0 && tensor->dim_count <= SIM_GRAPH_DIMS &&
                          tensor->stride_count == tensor->dim_count,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < tensor->dim_count; i++)
        SIM_CUDNN_REQUIRE(tensor->dims[i] > 0 && tensor->strides[i] > 0, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensor->alignment > 0 && !(tensor->alignment & (tensor->alignment - 1)),
                      CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_convolution(sim_backend_t *descriptor)
{
    const sim_graph_convolution_t *const c = &descriptor->convolution;
    const int64_t spatial = c->spatial_dims;
    SIM_CUDNN_REQUIRE(c->compute_type >= 0 && (c->mode == 0 || c->mode == 1) && spatial >= 1 &&
                          spatial <= SIM_SPATIAL,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(c->pre_count == spatial && c->post_count == spatial &&
                          c->stride_count == spatial && c->dilation_count == spatial,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < spatial; i++)
        SIM_CUDNN_REQUIRE(c->pre[i] >= 0 && c->post[i] >= 0 && c->stride[i] > 0 &&
                              c->dilation[i] > 0,
                          CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static sim_node_kind_t kind_of(const sim_backend_t *descriptor)
{
    switch (descriptor->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return NODE_FORWARD;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return NODE_BACKWARD_DATA;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return NODE_BACKWARD_FILTER;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return NODE_MATMUL;
    default:
        return NODE_POINTWISE;
    }
}

static cudnnStatus_t take_how(sim_graph_node_t *node, const sim_backend_t *how)
{
    static const int32_t types[] = {[NODE_FORWARD] = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                                    [NODE_BACKWARD_DATA] = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                                    [NODE_BACKWARD_FILTER] = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                                    [NODE_POINTWISE] = CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
                                    [NODE_MATMUL] = CUDNN_BACKEND_MATMUL_DESCRIPTOR};
    SIM_CUDNN_REQUIRE(sim_backend_ready(how, types[node->kind]), CUDNN_STATUS_BAD_PARAM);
    node->convolution = how->convolution;
    node->pointwise = how->pointwise;
    node->precision = how->matmul_precision;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_operation(sim_backend_t *descriptor)
{
    sim_backend_operation_t *const operation = &descriptor->operation;
    operation->node.kind = kind_of(descriptor);
    SIM_CUDNN_TRY(take_how(&operation->node, descriptor->links[LINK_HOW]));
    operation->has_other = descriptor->links[LINK_OTHER];
    for (int i = LINK_IN; i <= LINK_OUT; i++) {
        if (i == LINK_OTHER && !operation->has_other && operation->node.kind == NODE_POINTWISE)
            continue;
        SIM_CUDNN_REQUIRE(sim_backend_ready(descriptor->links[i], CUDNN_BACKEND_TENSOR_DESCRIPTOR),
                          CUDNN_STATUS_BAD_PARAM);
        operation->tensors[i] = descriptor->links[i]->tensor;
    }
    return sim_node_check(&operation->node, &operation->tensors[LINK_IN],
                          operation->has_other ? &operation->tensors[LINK_OTHER] : NULL,
                          &operation->tensors[LINK_OUT]);
}

static cudnnStatus_t add_operation(sim_graph_t *graph, const sim_backend_t *descriptor)
{
    const sim_backend_operation_t *const operation = &descriptor->operation;
    SIM_CUDNN_REQUIRE(graph->node_count < SIM_GRAPH_NODES, CUDNN_STATUS_NOT_SUPPORTED);
    sim_graph_node_t *const node = &graph->nodes[graph->node_count++];
    *node = operation->node;
    int *const slots[3] = {&node->in, &node->other, &node->out};
    for (int i = 0; i < 3; i++) {
        *slots[i] = -1;
        if (i == LINK_OTHER && !operation->has_other)
            continue;
        *slots[i] = sim_graph_tensor_index(graph, &operation->tensors[i]);
        SIM_CUDNN_REQUIRE(*slots[i] >= 0, CUDNN_STATUS_NOT_SUPPORTED);
    }
    return CUDNN_STATUS_SUCCESS;
}

static bool is_operation(const sim_backend_t *descriptor)
{
    return descriptor->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           kind_of(descriptor) != NODE_POINTWISE;
}

static cudnnStatus_t fill_graph(sim_graph_t *graph, const sim_backend_t *descriptor)
{
    graph->handle = descriptor->handle;
    if (graph->handle) {
        SIM_CUDNN_REQUIRE(sim_handle_valid(graph->handle), CUDNN_STATUS_BAD_PARAM);
        graph->profile = graph->handle->profile;
    }
    for (int64_t i = 0; i < descriptor->many_count; i++) {
        const sim_backend_t *const operation = descriptor->many[i];
        SIM_CUDNN_REQUIRE(sim_backend_valid(operation) && is_operation(operation),
                          CUDNN_STATUS_BAD_PARAM);
        SIM_CUDNN_REQUIRE(operation->finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        SIM_CUDNN_TRY(add_operation(graph, operation));
    }
    return sim_graph_analyze(graph);
}

static cudnnStatus_t finalize_graph(sim_backend_t *descriptor)
{
    SIM_CUDNN_REQUIRE(descriptor->many_count > 0, CUDNN_STATUS_BAD_PARAM);
    sim_graph_t *const graph = sim_graph_create();
    SIM_CUDNN_REQUIRE(graph, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    const cudnnStatus_t status = fill_graph(graph, descriptor);
    if (status == CUDNN_STATUS_SUCCESS)
        descriptor->graph = graph;
    else
        sim_graph_release(graph);
    return status;
}

/* Heuristics and engines: the graph and the device. */
static cudnnStatus_t take_graph(sim_backend_t *descriptor)
{
    const sim_backend_t *const graph = descriptor->links[LINK_GRAPH];
    const sim_backend_t *const device = descriptor->links[LINK_DEVICE];
    SIM_CUDNN_REQUIRE(sim_backend_ready(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    SIM_CUDNN_REQUIRE(!device || sim_backend_ready(device, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    sim_graph_release(descriptor->graph);
    descriptor->graph = sim_graph_share(graph->graph);
    descriptor->profile = sim_backend_profile(device, graph->graph);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_heuristics(sim_backend_t *descriptor)
{
    SIM_CUDNN_REQUIRE(descriptor->links[LINK_GRAPH] && descriptor->heuristics_mode >= 0 &&
                          descriptor->heuristics_mode < CUDNN_HEUR_MODES_COUNT,
                      CUDNN_STATUS_BAD_PARAM);
    return take_graph(descriptor);
}

static cudnnStatus_t finalize_engine(sim_backend_t *descriptor)
{
    SIM_CUDNN_REQUIRE(descriptor->links[LINK_GRAPH], CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    SIM_CUDNN_TRY(take_graph(descriptor));
    SIM_CUDNN_REQUIRE(descriptor->index_set, CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE(descriptor->index >= 0 && descriptor->index < SIM_ENGINE_COUNT,
                      CUDNN_STATUS_NOT_SUPPORTED);
    descriptor->config = sim_engine_default(descriptor->graph, descriptor->index);
    return descriptor->profile
               ? sim_engine_supported(descriptor->profile, descriptor->graph, descriptor->index)
               : CUDNN_STATUS_SUCCESS; /* the configuration will be refused */
}

static cudnnStatus_t finalize_config(sim_backend_t *descriptor)
{
    const sim_backend_t *const engine = descriptor->links[LINK_ENGINE];
    SIM_CUDNN_REQUIRE(engine, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    SIM_CUDNN_REQUIRE(descriptor->engine_was_final &&
                          sim_backend_ready(engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    SIM_CUDNN_REQUIRE(engine->profile, CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_TRY(sim_engine_supported(engine->profile, engine->graph, engine->index));
    sim_engine_config_t config = sim_engine_default(engine->graph, engine->index);
    for (int64_t i = 0; i < descriptor->many_count; i++) {
        const sim_backend_t *const choice = descriptor->many[i];
        SIM_CUDNN_REQUIRE(sim_backend_ready(choice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR),
                          CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        SIM_CUDNN_TRY(
            sim_engine_set_knob(engine->graph, &config, choice->knob.type, choice->knob.value));
    }
    sim_graph_release(descriptor->graph);
    descriptor->graph = sim_graph_share(engine->graph);
    descriptor->profile = engine->profile;
    descriptor->config = config;
    descriptor->workspace_bytes =
        sim_engine_workspace_bytes(engine->profile, engine->graph, &config);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t plan_from_json(sim_backend_t *plan)
{
    const sim_backend_t *const device = plan->links[LINK_DEVICE];
    SIM_CUDNN_REQUIRE(!device || sim_backend_ready(device, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    plan->profile = device                           ? device->profile
                    : sim_handle_valid(plan->handle) ? plan->handle->profile
                                                     : current_profile();
    SIM_CUDNN_REQUIRE(plan->profile, CUDNN_STATUS_BAD_PARAM);
    return sim_plan_parse(plan);
}

static cudnnStatus_t plan_from_config(sim_backend_t *plan)
{
    const sim_backend_t *const config = plan->links[LINK_CONFIG];
    SIM_CUDNN_REQUIRE(sim_backend_ready(config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    plan->graph = sim_graph_share(config->graph);
    plan->profile = config->profile;
    plan->config = config->config;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_plan(sim_backend_t *plan)
{
    sim_graph_release(plan->graph);
    plan->graph = NULL;
    SIM_CUDNN_TRY(plan->json ? plan_from_json(plan) : plan_from_config(plan));
    SIM_CUDNN_TRY(sim_engine_supported(plan->profile, plan->graph, plan->config.engine));
    plan->workspace_bytes = sim_engine_workspace_bytes(plan->profile, plan->graph, &plan->config);
    free(plan->json);
    plan->json = sim_plan_json(plan, &plan->json_bytes);
    SIM_CUDNN_REQUIRE(plan->json, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_device(sim_backend_t *descriptor)
{
    if (descriptor->json) {
        descriptor->profile = sim_device_parse(descriptor->json, descriptor->json_bytes);
        SIM_CUDNN_REQUIRE(descriptor->profile, CUDNN_STATUS_BAD_PARAM);
        return CUDNN_STATUS_SUCCESS;
    }
    if (descriptor->handle) {
        SIM_CUDNN_REQUIRE(sim_handle_valid(descriptor->handle), CUDNN_STATUS_BAD_PARAM);
        descriptor->profile = descriptor->handle->profile;
        descriptor->device = descriptor->handle->device;
    } else if (descriptor->device >= 0) {
        const sim_driver_t *const driver = sim_driver();
        SIM_CUDNN_REQUIRE(driver && driver->init(0) == CUDA_SUCCESS, CUDNN_STATUS_NOT_INITIALIZED);
        descriptor->profile = driver->sim->profile((int)descriptor->device);
    }
    SIM_CUDNN_REQUIRE(descriptor->profile, CUDNN_STATUS_NOT_INITIALIZED);
    descriptor->json =
        sim_device_json(descriptor->profile, (int)descriptor->device, &descriptor->json_bytes);
    SIM_CUDNN_REQUIRE(descriptor->json, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_pack(sim_backend_t *descriptor)
{
    SIM_CUDNN_REQUIRE(descriptor->pack.uid_count == descriptor->pack.pointer_count,
                      CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_backend_finalize(sim_backend_t *descriptor)
{
    switch (descriptor->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return finalize_tensor(descriptor);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return finalize_convolution(descriptor);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return finalize_operation(descriptor);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return finalize_graph(descriptor);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return finalize_heuristics(descriptor);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return finalize_engine(descriptor);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return finalize_config(descriptor);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return finalize_plan(descriptor);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return finalize_pack(descriptor);
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
        return finalize_device(descriptor);
    default: /* KNOB_INFO: made by the library alone */
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "descriptor type");
    }
}
