#include "graph.h"

#include <string.h>

/* ---- attributes ---- */

/* Remembers the first failure of a graph. */
static void note(graph_t *graph, cudnnStatus_t status, const char *step)
{
    if (graph->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        graph->status = status;
        graph->failed = step;
    }
}

static void set(graph_t *graph, cudnnBackendDescriptor_t descriptor,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *values, const char *step)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        note(graph, cudnnBackendSetAttribute(descriptor, name, type, count, values), step);
}

static void set_descriptor(graph_t *graph, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value,
                           const char *step)
{
    set(graph, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, step);
}

/* In double where the sums are, else in float. */
static void set_factor(graph_t *graph, cudnnBackendDescriptor_t descriptor,
                       cudnnBackendAttributeName_t name, cudnnDataType_t compute, double factor,
                       const char *step)
{
    const float narrow = (float)factor;
    if (compute == CUDNN_DATA_DOUBLE)
        set(graph, descriptor, name, CUDNN_TYPE_DOUBLE, 1, &factor, step);
    else
        set(graph, descriptor, name, CUDNN_TYPE_FLOAT, 1, &narrow, step);
}

/* A descriptor of the graph's own; NULL after a failure. */
static cudnnBackendDescriptor_t create(graph_t *graph, cudnnBackendDescriptorType_t type,
                                       const char *step)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    if (graph->owned_count == GRAPH_DESCRIPTORS)
        note(graph, CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, step);
    if (graph->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    note(graph, cudnnBackendCreateDescriptor(type, &descriptor), step);
    if (graph->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    graph->owned[graph->owned_count++] = descriptor;
    return descriptor;
}

static void finalize(graph_t *graph, cudnnBackendDescriptor_t descriptor, const char *step)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        note(graph, cudnnBackendFinalize(descriptor), step);
}

/* ---- graphs ---- */

void graph_init(graph_t *graph)
{
    *graph = (graph_t){.status = CUDNN_STATUS_SUCCESS};
}

void graph_fini(graph_t *graph)
{
    while (graph->owned_count > 0)
        cudnnBackendDestroyDescriptor(graph->owned[--graph->owned_count]);
    graph->descriptor = NULL;
}

cudnnBackendDescriptor_t graph_add_tensor(graph_t *graph, const graph_tensor_t *tensor)
{
    static const char step[] = "tensor";
    cudnnBackendDescriptor_t d = create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR, step);
    set(graph, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type, step);
    set(graph, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor->count, tensor->dims,
        step);
    set(graph, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, tensor->count, tensor->strides,
        step);
    set(graph, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &tensor->uid, step);
    set(graph, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &tensor->alignment, step);
    if (tensor->is_virtual)
        set(graph, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &tensor->is_virtual,
            step);
    finalize(graph, d, step);
    return graph->status == CUDNN_STATUS_SUCCESS ? d : NULL;
}

static cudnnBackendDescriptor_t describe_convolution(graph_t *graph,
                                                     const graph_convolution_t *convolution)
{
    static const char step[] = "convolution";
    const int64_t spatial = convolution->spatial;
    cudnnBackendDescriptor_t d = create(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &convolution->compute,
        step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
        &convolution->mode, step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial, step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial,
        convolution->pre_pads, step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial,
        convolution->post_pads, step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial,
        convolution->dilations, step);
    set(graph, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial,
        convolution->strides, step);
    finalize(graph, d, step);
    return d;
}

/* The three operations have the same attributes under names of their own. */
typedef struct convolution_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
} convolution_names_t;

static const convolution_names_t convolution_names[] = {
    [GRAPH_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [GRAPH_BACKWARD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [GRAPH_BACKWARD_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static void add_operation(graph_t *graph, cudnnBackendDescriptor_t operation, const char *step)
{
    finalize(graph, operation, step);
    if (graph->operation_count == GRAPH_OPERATIONS)
        note(graph, CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, step);
    if (graph->status == CUDNN_STATUS_SUCCESS)
        graph->operations[graph->operation_count++] = operation;
}

void graph_add_convolution(graph_t *graph, const graph_convolution_t *convolution,
                           cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                           cudnnBackendDescriptor_t y)
{
    static const char step[] = "convolution operation";
    const convolution_names_t *names = &convolution_names[convolution->direction];
    cudnnBackendDescriptor_t description = describe_convolution(graph, convolution);
    cudnnBackendDescriptor_t d = create(graph, names->type, step);
    set_descriptor(graph, d, names->convolution, description, step);
    set_descriptor(graph, d, names->x, x, step);
    set_descriptor(graph, d, names->w, w, step);
    set_descriptor(graph, d, names->y, y, step);
    set_factor(graph, d, names->alpha, convolution->compute, convolution->alpha, step);
    set_factor(graph, d, names->beta, convolution->compute, convolution->beta, step);
    add_operation(graph, d, step);
}

void graph_add_pointwise(graph_t *graph, const graph_pointwise_t *pointwise,
                         cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                         cudnnBackendDescriptor_t y)
{
    static const char step[] = "pointwise operation";
    cudnnBackendDescriptor_t description = create(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, step);
    set(graph, description, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
        &pointwise->mode, step);
    set(graph, description, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
        &pointwise->compute, step);
    finalize(graph, description, step);
    cudnnBackendDescriptor_t d = create(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, step);
    set_descriptor(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, description, step);
    set_descriptor(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, step);
    set_descriptor(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, step);
    set_factor(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, pointwise->compute,
               pointwise->alpha1, step);
    if (b) {
        set_descriptor(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, step);
        set_factor(graph, d, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, pointwise->compute,
                   pointwise->alpha2, step);
    }
    add_operation(graph, d, step);
}

void graph_add_reduction(graph_t *graph, cudnnReduceTensorOp_t operation, cudnnDataType_t compute,
                         cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    static const char step[] = "reduction operation";
    cudnnBackendDescriptor_t description = create(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, step);
    set(graph, description, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &operation, step);
    set(graph, description, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute,
        step);
    finalize(graph, description, step);
    cudnnBackendDescriptor_t d = create(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, step);
    set_descriptor(graph, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, description, step);
    set_descriptor(graph, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, step);
    set_descriptor(graph, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, step);
    add_operation(graph, d, step);
}

cudnnStatus_t graph_finalize(graph_t *graph, cudnnHandle_t handle)
{
    static const char step[] = "operation graph";
    cudnnBackendDescriptor_t d = create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, step);
    if (handle)
        set(graph, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, step);
    set(graph, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        graph->operation_count, graph->operations, step);
    finalize(graph, d, step);
    if (graph->status == CUDNN_STATUS_SUCCESS)
        graph->descriptor = d;
    return graph->status;
}

/* ---- engine configurations ---- */

cudnnStatus_t graph_create_device(const char *json, size_t bytes, cudnnBackendDescriptor_t *device)
{
    *device = NULL;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, device);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    status = cudnnBackendSetAttribute(*device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                      CUDNN_TYPE_CHAR, (int64_t)bytes, json);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(*device);
    if (status != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(*device);
        *device = NULL;
    }
    return status;
}

static unsigned read_notes(cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int most, cudnnStatus_t *status)
{
    int notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT + CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count = 0;
    unsigned bits = 0;
    if (*status == CUDNN_STATUS_SUCCESS)
        *status = cudnnBackendGetAttribute(engine, name, type, most, &count, notes);
    for (int64_t i = 0; *status == CUDNN_STATUS_SUCCESS && i < count; i++)
        bits |= 1U << notes[i];
    return bits;
}

/* What the engine of a configuration says of itself. */
static cudnnStatus_t read_engine(graph_config_t *config)
{
    cudnnBackendDescriptor_t engine;
    int64_t count;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    status = cudnnBackendGetAttribute(config->descriptor, CUDNN_ATTR_ENGINECFG_ENGINE,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                          1, &count, &config->engine);
    config->numerical =
        read_notes(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &status);
    config->behaviour =
        read_notes(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                   CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &status);
    cudnnBackendDestroyDescriptor(engine);
    return status;
}

/* The heuristics' answers for `mode`; the caller destroys *heuristics in any case. */
static cudnnStatus_t ask_heuristics(const graph_t *graph, cudnnBackendHeurMode_t mode,
                                    cudnnBackendDescriptor_t device,
                                    cudnnBackendDescriptor_t *heuristics, int64_t *count)
{
    *heuristics = NULL;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristics);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph->descriptor);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                          CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (status == CUDNN_STATUS_SUCCESS && device)
        status = cudnnBackendSetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(*heuristics);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, count, NULL);
    return status;
}

/* Fetches at most `room` results into `configs`; *count is how many there are then. */
static cudnnStatus_t fetch_configs(cudnnBackendDescriptor_t heuristics, int64_t expected, int room,
                                   graph_config_t *configs, int *count)
{
    cudnnBackendDescriptor_t found[GRAPH_CONFIGS];
    int64_t filled = 0;
    int created = 0;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    int wanted = expected < room ? (int)expected : room;
    wanted = wanted < GRAPH_CONFIGS ? wanted : GRAPH_CONFIGS;
    for (; created < wanted && status == CUDNN_STATUS_SUCCESS; created++)
        status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &found[created]);
    if (status != CUDNN_STATUS_SUCCESS)
        created--;
    else if (wanted > 0)
        status = cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, &filled, found);
    *count = 0;
    for (int i = 0; i < created; i++) {
        graph_config_t config = {.descriptor = found[i]};
        /* The first count was an upper bound: what was not filled cannot be read. */
        if (status == CUDNN_STATUS_SUCCESS && i < filled &&
            read_engine(&config) == CUDNN_STATUS_SUCCESS)
            configs[(*count)++] = config;
        else
            cudnnBackendDestroyDescriptor(found[i]);
    }
    return status;
}

cudnnStatus_t graph_add_configs(const graph_t *graph, cudnnBackendHeurMode_t mode,
                                cudnnBackendDescriptor_t device, graph_config_t *configs, int max,
                                int *count)
{
    cudnnBackendDescriptor_t heuristics;
    int64_t expected = 0;
    int fetched = 0;
    if (graph->status != CUDNN_STATUS_SUCCESS)
        return graph->status;
    cudnnStatus_t status = ask_heuristics(graph, mode, device, &heuristics, &expected);
    if (status == CUDNN_STATUS_SUCCESS)
        status = fetch_configs(heuristics, expected, max - *count, configs + *count, &fetched);
    if (heuristics)
        cudnnBackendDestroyDescriptor(heuristics);
    *count += fetched;
    return status;
}

void graph_free_configs(graph_config_t *configs, int count)
{
    for (int i = 0; i < count; i++)
        cudnnBackendDestroyDescriptor(configs[i].descriptor);
}

unsigned graph_refused_notes(cudnnDataType_t type, bool tf32, bool deterministic)
{
    unsigned refused = 1U << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (type == CUDNN_DATA_FLOAT && !tf32)
        refused |= 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (deterministic)
        refused |= 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return refused;
}

int graph_filter_configs(graph_config_t *configs, int count, unsigned refused)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (configs[i].numerical & refused)
            cudnnBackendDestroyDescriptor(configs[i].descriptor);
        else
            configs[kept++] = configs[i];
    return kept;
}

/* ---- plans ---- */

cudnnStatus_t graph_create_plan(cudnnHandle_t handle, const graph_config_t *config,
                                cudnnBackendDescriptor_t *plan)
{
    *plan = NULL;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (handle)
        status = cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                          CUDNN_TYPE_HANDLE, 1, &handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config->descriptor);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(*plan);
    if (status != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(*plan);
        *plan = NULL;
    }
    return status;
}

cudnnStatus_t graph_plan_workspace(cudnnBackendDescriptor_t plan, size_t *bytes)
{
    int64_t count = 0, size = 0;
    cudnnStatus_t status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                    CUDNN_TYPE_INT64, 1, &count, &size);
    *bytes = status == CUDNN_STATUS_SUCCESS && size > 0 ? (size_t)size : 0;
    return status;
}

void graph_bind(graph_pack_t *pack, int64_t uid, void *pointer)
{
    if (pack->count < GRAPH_PACK) {
        pack->uids[pack->count] = uid;
        pack->pointers[pack->count++] = pointer;
    }
}

static cudnnStatus_t fill_pack(cudnnBackendDescriptor_t descriptor, const graph_pack_t *pack)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int step = 0; step < 2 && status == CUDNN_STATUS_SUCCESS; step++)
        if ((step == 0) == (pack->order == GRAPH_POINTERS_FIRST))
            status = cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                              CUDNN_TYPE_VOID_PTR, pack->count, pack->pointers);
        else
            status = cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                              CUDNN_TYPE_INT64, pack->count, pack->uids);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &pack->workspace);
    return status == CUDNN_STATUS_SUCCESS ? cudnnBackendFinalize(descriptor) : status;
}

cudnnStatus_t graph_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            const graph_pack_t *pack)
{
    cudnnBackendDescriptor_t descriptor;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &descriptor);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    status = fill_pack(descriptor, pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(handle, plan, descriptor);
    cudnnBackendDestroyDescriptor(descriptor);
    return status;
}
