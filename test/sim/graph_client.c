#include "test/sim/graph_client.h"

#include <stdlib.h>
#include <string.h>

cudnnBackendDescriptor_t client_make(client_owned_t *owned, cudnnBackendDescriptorType_t type)
{
    assert_true(owned->count < CLIENT_OWNED);
    cudnnBackendDescriptor_t made = NULL;
    CHECK_CUDNN(cudnnBackendCreateDescriptor(type, &made));
    owned->descriptors[owned->count++] = made;
    return made;
}

void client_drop(client_owned_t *owned)
{
    while (owned->count > 0)
        CHECK_CUDNN(cudnnBackendDestroyDescriptor(owned->descriptors[--owned->count]));
}

void client_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    const cudnnStatus_t status = cudnnBackendSetAttribute(descriptor, name, type, count, values);
    if (status != CUDNN_STATUS_SUCCESS)
        print_error("attribute %d: %s\n", (int)name, cudnnGetErrorString(status));
    assert_int_equal(status, CUDNN_STATUS_SUCCESS);
}

void client_link(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                 cudnnBackendDescriptor_t value)
{
    client_set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

cudnnBackendDescriptor_t client_tensor(client_owned_t *owned, int64_t uid, cudnnDataType_t type,
                                       int64_t count, const int64_t *dims, const int64_t *strides,
                                       bool is_virtual)
{
    cudnnBackendDescriptor_t made = client_make(owned, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;
    client_set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    client_set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, count, dims);
    client_set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, count, strides);
    client_set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    client_set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    client_set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    CHECK_CUDNN(cudnnBackendFinalize(made));
    return made;
}

static void lay_out(client_layout_t layout, reference_tensor_t *tensor, bool is_filter)
{
    reference_pack(tensor, layout == CLIENT_NHWC);
    for (int i = 0; layout == CLIENT_GAPS && !is_filter && i < REFERENCE_DIMS; i++)
        tensor->strides[i] = tensor->strides[i] * 2 + (i == 0);
    if (layout == CLIENT_CHWN) {
        tensor->strides[0] = 1;
        long step = tensor->dims[0];
        for (int i = REFERENCE_DIMS - 1; i >= 1; step *= tensor->dims[i], i--)
            tensor->strides[i] = step;
    }
}

void client_reference(const client_graph_t *graph, reference_convolution_t *reference)
{
    memset(reference, 0, sizeof *reference);
    reference->direction = graph->direction;
    reference->groups = graph->groups;
    reference->flip = graph->flip;
    reference_tensor_t *const x = &reference->x, *const w = &reference->w, *const y = &reference->y;
    x->dims[0] = y->dims[0] = graph->n;
    x->dims[1] = graph->c;
    w->dims[0] = y->dims[1] = graph->k;
    w->dims[1] = graph->c / graph->groups;
    for (int i = 0; i < REFERENCE_SPATIAL; i++) {
        const bool used = i >= REFERENCE_SPATIAL - graph->spatial;
        const int filter = used ? graph->filter[i] : 1;
        reference->pad[i] = used ? graph->pre[i] : 0;
        reference->stride[i] = used ? graph->stride[i] : 1;
        reference->dilation[i] = used ? graph->dilation[i] : 1;
        x->dims[2 + i] = used ? graph->in[i] : 1;
        w->dims[2 + i] = filter;
        const int reach = (filter - 1) * reference->dilation[i] + 1;
        const int room = x->dims[2 + i] + reference->pad[i] + (used ? graph->post[i] : 0) - reach;
        y->dims[2 + i] = 1 + room / reference->stride[i];
    }
    lay_out(graph->layout, x, false);
    lay_out(graph->layout, w, true);
    lay_out(graph->layout, y, false);
}

/* As many dimensions as the problem has. */
static int64_t shape_of(const client_graph_t *graph, const reference_tensor_t *tensor,
                        int64_t *dims, int64_t *strides)
{
    int64_t count = 0;
    for (int i = 0; i < REFERENCE_DIMS; i++)
        if (i < 2 || i >= REFERENCE_DIMS - graph->spatial) {
            dims[count] = tensor->dims[i];
            strides[count++] = tensor->strides[i];
        }
    return count;
}

static cudnnBackendDescriptor_t tensor_like(client_owned_t *owned, const client_graph_t *graph,
                                            const reference_tensor_t *tensor, int64_t uid,
                                            cudnnDataType_t type, bool is_virtual)
{
    int64_t dims[REFERENCE_DIMS], strides[REFERENCE_DIMS];
    const int64_t count = shape_of(graph, tensor, dims, strides);
    return client_tensor(owned, uid, type, count, dims, strides, is_virtual);
}

static void set_window(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                       int spatial, const int values[3])
{
    int64_t wide[3];
    for (int i = 0; i < spatial; i++)
        wide[i] = values[3 - spatial + i];
    client_set(descriptor, name, CUDNN_TYPE_INT64, spatial, wide);
}

static cudnnBackendDescriptor_t build_convolution(client_owned_t *owned,
                                                  const client_graph_t *graph)
{
    cudnnBackendDescriptor_t made = client_make(owned, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnConvolutionMode_t mode = graph->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
    const int64_t spatial = graph->spatial;
    client_set(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &graph->compute);
    client_set(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    client_set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set_window(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, graph->spatial, graph->pre);
    set_window(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, graph->spatial, graph->post);
    set_window(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, graph->spatial, graph->stride);
    set_window(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, graph->spatial, graph->dilation);
    CHECK_CUDNN(cudnnBackendFinalize(made));
    return made;
}

static void set_scale(cudnnBackendDescriptor_t made, cudnnBackendAttributeName_t name,
                      cudnnDataType_t type, double value)
{
    const float narrow = (float)value;
    if (type == CUDNN_DATA_DOUBLE)
        client_set(made, name, CUDNN_TYPE_DOUBLE, 1, &value);
    else
        client_set(made, name, CUDNN_TYPE_FLOAT, 1, &narrow);
}

/* x, w, y of the forward direction. */
static cudnnBackendDescriptor_t build_operation(client_owned_t *owned, const client_graph_t *graph,
                                                const cudnnBackendDescriptor_t tensors[3])
{
    static const cudnnBackendDescriptorType_t types[] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
    static const cudnnBackendAttributeName_t names[][6] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    const cudnnBackendAttributeName_t *const name = names[graph->direction];
    cudnnBackendDescriptor_t made = client_make(owned, types[graph->direction]);
    for (int i = 0; i < 3; i++)
        client_link(made, name[i], tensors[i]);
    client_link(made, name[3], build_convolution(owned, graph));
    set_scale(made, name[4], graph->type, graph->alpha);
    set_scale(made, name[5], graph->type, graph->beta);
    CHECK_CUDNN(cudnnBackendFinalize(made));
    return made;
}

static cudnnBackendDescriptor_t build_step(client_owned_t *owned, const client_graph_t *graph,
                                           const client_step_t *step, cudnnBackendDescriptor_t from,
                                           cudnnBackendDescriptor_t operand,
                                           cudnnBackendDescriptor_t to)
{
    cudnnBackendDescriptor_t how = client_make(owned, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const cudnnDataType_t precision =
        graph->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    client_set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &step->mode);
    client_set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (step->upper_clip != 0.0)
        client_set(how, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1,
                   &step->upper_clip);
    CHECK_CUDNN(cudnnBackendFinalize(how));
    cudnnBackendDescriptor_t made =
        client_make(owned, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    client_link(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    client_link(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    client_link(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    set_scale(made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, graph->type, step->alpha1);
    if (operand) {
        client_link(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand);
        set_scale(made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, graph->type, step->alpha2);
    }
    CHECK_CUDNN(cudnnBackendFinalize(made));
    return made;
}

static cudnnBackendDescriptor_t operand_of(client_owned_t *owned, const client_graph_t *graph,
                                           const reference_tensor_t *out, int index)
{
    const client_step_t *const step = &graph->steps[index];
    reference_tensor_t bias = {{1, out->dims[1], 1, 1, 1}, {0}};
    if (step->operand == STEP_ALONE)
        return NULL;
    reference_pack(&bias, graph->layout == CLIENT_NHWC);
    return tensor_like(owned, graph, step->operand == STEP_BIAS ? &bias : out, UID_STEP + index,
                       graph->type, false);
}

cudnnBackendDescriptor_t client_build(client_owned_t *owned, const client_graph_t *graph,
                                      cudnnHandle_t handle)
{
    static const int64_t uids[] = {UID_X, UID_W, UID_Y};
    static const int outputs[] = {2, 0, 1};
    const int out = outputs[graph->direction];
    const cudnnDataType_t middle =
        graph->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    reference_convolution_t reference;
    client_reference(graph, &reference);
    const reference_tensor_t *const shapes[] = {&reference.x, &reference.w, &reference.y};
    cudnnBackendDescriptor_t tensors[3], operations[1 + CLIENT_STEPS];
    for (int i = 0; i < 3; i++) {
        const bool hidden = i == out && graph->step_count;
        tensors[i] = tensor_like(owned, graph, shapes[i], hidden ? 'C' : uids[i],
                                 hidden ? middle : graph->type, hidden);
    }
    operations[0] = build_operation(owned, graph, tensors);
    cudnnBackendDescriptor_t last = tensors[out];
    for (int i = 0; i < graph->step_count; i++) {
        const bool hidden = i < graph->step_count - 1;
        cudnnBackendDescriptor_t operand = operand_of(owned, graph, shapes[out], i);
        cudnnBackendDescriptor_t to =
            tensor_like(owned, graph, shapes[out], hidden ? 'D' + i : uids[out],
                        hidden ? middle : graph->type, hidden);
        operations[1 + i] = build_step(owned, graph, &graph->steps[i], last, operand, to);
        last = to;
    }
    cudnnBackendDescriptor_t whole = client_make(owned, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    client_set(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               1 + graph->step_count, operations);
    if (handle)
        client_set(whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    CHECK_CUDNN(cudnnBackendFinalize(whole));
    return whole;
}

int client_list(client_owned_t *owned, cudnnBackendDescriptor_t graph,
                cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                cudnnBackendDescriptor_t configs[CLIENT_CONFIGS])
{
    cudnnBackendDescriptor_t heuristics = client_make(owned, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t bound = 0, count = 0;
    client_link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    client_set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (device)
        client_link(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    CHECK_CUDNN(cudnnBackendFinalize(heuristics));
    CHECK_CUDNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &bound, NULL));
    assert_true(bound <= CLIENT_CONFIGS);
    for (int i = 0; i < bound; i++)
        configs[i] = client_make(owned, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CHECK_CUDNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, bound, &count, configs));
    assert_true(count <= bound);
    return (int)count;
}

cudnnBackendDescriptor_t client_engine(client_owned_t *owned, cudnnBackendDescriptor_t graph,
                                       int64_t index)
{
    cudnnBackendDescriptor_t engine = client_make(owned, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    client_link(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    client_set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    if (cudnnBackendFinalize(engine) != CUDNN_STATUS_SUCCESS)
        return NULL;
    cudnnBackendDescriptor_t config = client_make(owned, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    client_link(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    CHECK_CUDNN(cudnnBackendFinalize(config));
    return config;
}

cudnnBackendDescriptor_t client_plan(client_owned_t *owned, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t plan = client_make(owned, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    client_link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    CHECK_CUDNN(cudnnBackendFinalize(plan));
    return plan;
}

int64_t client_workspace(cudnnBackendDescriptor_t plan)
{
    int64_t bytes = -1, count = 0;
    CHECK_CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &bytes));
    assert_int_equal(count, 1);
    return bytes;
}

static cudnnBackendDescriptor_t engine_of(client_owned_t *owned, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = client_make(owned, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    CHECK_CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
    return engine;
}

int64_t client_engine_index(cudnnBackendDescriptor_t config)
{
    client_owned_t owned = {0};
    int64_t index = -1, count = 0;
    CHECK_CUDNN(cudnnBackendGetAttribute(engine_of(&owned, config), CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                         CUDNN_TYPE_INT64, 1, &count, &index));
    client_drop(&owned);
    return index;
}

bool client_has_note(cudnnBackendDescriptor_t config, cudnnBackendNumericalNote_t note)
{
    client_owned_t owned = {0};
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    bool has = false;
    CHECK_CUDNN(cudnnBackendGetAttribute(
        engine_of(&owned, config), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
    for (int64_t i = 0; i < count; i++)
        has = has || notes[i] == note;
    client_drop(&owned);
    return has;
}

char *client_json(cudnnBackendDescriptor_t plan)
{
    int64_t bytes = 0, count = 0;
    CHECK_CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, 0, &bytes, NULL));
    char *const json = malloc((size_t)bytes + 1);
    assert_non_null(json);
    CHECK_CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, bytes, &count, json));
    assert_int_equal(count, bytes);
    json[bytes] = '\0';
    return json;
}

cudnnBackendDescriptor_t client_pack(client_owned_t *owned, int64_t count, const int64_t *uids,
                                     void *const *pointers, void *workspace)
{
    cudnnBackendDescriptor_t pack = client_make(owned, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    client_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    client_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    client_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    CHECK_CUDNN(cudnnBackendFinalize(pack));
    return pack;
}
