/* A plan from its JSON: the way in which cudnn_frontend deserializes. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/backend.h"
#include "test/sim/cudnn/backend_names.h"
#include "test/sim/cudnn/json_tree.h"

static bool to_uid(const char *text, int64_t *uid)
{
    char *end = NULL;
    *uid = text ? strtoll(text, &end, 10) : 0;
    return end && *end == '\0' && end != text;
}

static bool truth(const sim_json_t *value)
{
    return value && value->kind == JSON_TRUTH && value->truth;
}

static cudnnStatus_t parse_tensor(const sim_json_t *value, sim_graph_tensor_t *tensor)
{
    memset(tensor, 0, sizeof *tensor);
    tensor->type = sim_value(sim_data_types, sim_json_text(sim_json_member(value, "dataType")));
    tensor->dim_count =
        sim_json_integers(sim_json_member(value, "dim"), SIM_GRAPH_DIMS, tensor->dims);
    tensor->stride_count =
        sim_json_integers(sim_json_member(value, "stride"), SIM_GRAPH_DIMS, tensor->strides);
    tensor->alignment = sim_json_integer(sim_json_member(value, "ptrAlignment"), 0);
    tensor->vector_count = sim_json_integer(sim_json_member(value, "vectCount"), 1);
    tensor->vector_dim = sim_json_integer(sim_json_member(value, "vectDim"), -1);
    tensor->is_virtual = truth(sim_json_member(value, "isVirtual"));
    tensor->by_value = truth(sim_json_member(value, "isByValue"));
    SIM_CUDNN_REQUIRE(to_uid(sim_json_text(sim_json_member(value, "name")), &tensor->uid) &&
                          tensor->type >= 0 && tensor->dim_count > 0 &&
                          tensor->stride_count == tensor->dim_count && tensor->alignment > 0,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < tensor->dim_count; i++)
        SIM_CUDNN_REQUIRE(tensor->dims[i] > 0 && tensor->strides[i] > 0, CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t parse_tensors(const sim_json_t *list, sim_graph_t *graph)
{
    SIM_CUDNN_REQUIRE(list && list->kind == JSON_ARRAY, CUDNN_STATUS_BAD_PARAM);
    for (const sim_json_t *value = list->first; value; value = value->next) {
        sim_graph_tensor_t tensor;
        SIM_CUDNN_TRY(parse_tensor(value, &tensor));
        SIM_CUDNN_REQUIRE(sim_graph_tensor_index(graph, &tensor) == graph->tensor_count - 1,
                          CUDNN_STATUS_BAD_PARAM); /* else one uid twice, or too many */
    }
    return CUDNN_STATUS_SUCCESS;
}

/* The index of the tensor that member `name` names, -1 if there is no such member. */
static cudnnStatus_t parse_use(const sim_json_t *node, const char *name, const sim_graph_t *graph,
                               int *index)
{
    const sim_json_t *const value = sim_json_member(node, name);
    int64_t uid;
    *index = -1;
    if (!value)
        return CUDNN_STATUS_SUCCESS;
    SIM_CUDNN_REQUIRE(to_uid(sim_json_text(value), &uid), CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].uid == uid)
            *index = i;
    SIM_CUDNN_REQUIRE(*index >= 0, CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t parse_window(const sim_json_t *node, sim_graph_convolution_t *c)
{
    const bool both = sim_json_member(node, "pad");
    c->pre_count =
        sim_json_integers(sim_json_member(node, both ? "pad" : "pad_lower"), SIM_SPATIAL, c->pre);
    c->post_count =
        sim_json_integers(sim_json_member(node, both ? "pad" : "pad_upper"), SIM_SPATIAL, c->post);
    c->stride_count = sim_json_integers(sim_json_member(node, "stride"), SIM_SPATIAL, c->stride);
    c->dilation_count =
        sim_json_integers(sim_json_member(node, "dilation"), SIM_SPATIAL, c->dilation);
    c->spatial_dims = c->pre_count;
    SIM_CUDNN_REQUIRE(c->pre_count > 0 && c->post_count == c->pre_count &&
                          c->stride_count == c->pre_count && c->dilation_count == c->pre_count,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < c->pre_count; i++)
        SIM_CUDNN_REQUIRE(c->pre[i] >= 0 && c->post[i] >= 0 && c->stride[i] > 0 &&
                              c->dilation[i] > 0,
                          CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t parse_convolution(const sim_json_t *value, sim_graph_node_t *node)
{
    sim_graph_convolution_t *const c = &node->convolution;
    node->alpha = sim_json_number(sim_json_member(value, "alpha"), 1.0);
    node->beta = sim_json_number(sim_json_member(value, "beta"), 0.0);
    c->mode = sim_value(sim_convolution_modes, sim_json_text(sim_json_member(value, "mode")));
    c->compute_type = node->precision;
    SIM_CUDNN_REQUIRE(c->mode >= 0, CUDNN_STATUS_BAD_PARAM);
    return parse_window(value, c);
}

static cudnnStatus_t parse_pointwise(const sim_json_t *value, sim_graph_node_t *node)
{
    sim_graph_pointwise_t *const pointwise = &node->pointwise;
    node->alpha = sim_json_number(sim_json_member(value, "alpha1"), 1.0);
    node->beta = sim_json_number(sim_json_member(value, "alpha2"), 1.0);
    pointwise->mode =
        sim_value(sim_pointwise_modes, sim_json_text(sim_json_member(value, "pointwiseMode")));
    pointwise->precision = node->precision;
    pointwise->upper_clip = sim_json_number(sim_json_member(value, "upperClip"), DBL_MAX);
    pointwise->lower_clip = sim_json_number(sim_json_member(value, "lowerClip"), 0.0);
    pointwise->lower_slope = sim_json_number(sim_json_member(value, "lowerClipSlope"), 0.0);
    pointwise->elu_alpha = sim_json_number(sim_json_member(value, "alpha"), 1.0);
    pointwise->softplus_beta = pointwise->swish_beta =
        sim_json_number(sim_json_member(value, "beta"), 1.0);
    SIM_CUDNN_REQUIRE(pointwise->mode >= 0, CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t parse_node(const sim_json_t *value, sim_graph_t *graph)
{
    static const char *const names[][3] = {[NODE_FORWARD] = {"X", "W", "Y"},
                                           [NODE_BACKWARD_DATA] = {"dX", "W", "dY"},
                                           [NODE_BACKWARD_FILTER] = {"X", "dW", "dY"},
                                           [NODE_POINTWISE] = {"X", "B", "Y"},
                                           [NODE_MATMUL] = {"A", "B", "C"}};
    SIM_CUDNN_REQUIRE(graph->node_count < SIM_GRAPH_NODES, CUDNN_STATUS_NOT_SUPPORTED);
    sim_graph_node_t *const node = &graph->nodes[graph->node_count++];
    const int32_t kind =
        sim_value(sim_operations, sim_json_text(sim_json_member(value, "operation")));
    SIM_CUDNN_REQUIRE(kind >= 0, CUDNN_STATUS_BAD_PARAM);
    node->kind = (sim_node_kind_t)kind;
    node->precision = sim_value(sim_data_types, sim_json_text(sim_json_member(value, "mathPrec")));
    SIM_CUDNN_REQUIRE(node->precision >= 0, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_TRY(parse_use(value, names[kind][0], graph, &node->in));
    SIM_CUDNN_TRY(parse_use(value, names[kind][1], graph, &node->other));
    SIM_CUDNN_TRY(parse_use(value, names[kind][2], graph, &node->out));
    SIM_CUDNN_REQUIRE(node->in >= 0 && node->out >= 0 &&
                          (node->other >= 0 || kind == NODE_POINTWISE),
                      CUDNN_STATUS_BAD_PARAM);
    if (kind <= NODE_BACKWARD_FILTER)
        SIM_CUDNN_TRY(parse_convolution(value, node));
    else if (kind == NODE_POINTWISE)
        SIM_CUDNN_TRY(parse_pointwise(value, node));
    return sim_node_check(node, &graph->tensors[node->in],
                          node->other >= 0 ? &graph->tensors[node->other] : NULL,
                          &graph->tensors[node->out]);
}

static cudnnStatus_t parse_graph(const sim_json_t *value, sim_graph_t *graph)
{
    const sim_json_t *const nodes = sim_json_member(value, "nodes");
    SIM_CUDNN_TRY(parse_tensors(sim_json_member(value, "tensors"), graph));
    SIM_CUDNN_REQUIRE(nodes && nodes->kind == JSON_ARRAY, CUDNN_STATUS_BAD_PARAM);
    for (const sim_json_t *node = nodes->first; node; node = node->next)
        SIM_CUDNN_TRY(parse_node(node, graph));
    return sim_graph_analyze(graph);
}

static cudnnStatus_t parse_engine(const sim_json_t *value, sim_backend_t *plan)
{
    const int64_t index = sim_json_integer(sim_json_member(value, "engineId"), -1);
    SIM_CUDNN_TRY(sim_engine_supported(plan->profile, plan->graph, index));
    plan->config = sim_engine_default(plan->graph, index);
    const sim_json_t *const knobs = sim_json_member(value, "knobChoices");
    for (const sim_json_t *knob = knobs ? knobs->first : NULL; knob; knob = knob->next)
        SIM_CUDNN_TRY(sim_engine_set_knob(plan->graph, &plan->config,
                                          sim_value(sim_knobs, knob->name),
                                          sim_json_integer(knob, -2)));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t parse_plan(const sim_json_t *root, sim_backend_t *plan)
{
    SIM_CUDNN_REQUIRE(root, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_json_integer(sim_json_member(root, "schemaVersion"), -1) ==
                          sim_plan_schema(),
                      CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
    plan->graph = sim_graph_create();
    SIM_CUDNN_REQUIRE(plan->graph, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    SIM_CUDNN_TRY(parse_graph(sim_json_member(root, "operationGraph"), plan->graph));
    return parse_engine(sim_json_member(root, "engine"), plan);
}

cudnnStatus_t sim_plan_parse(sim_backend_t *plan)
{
    const sim_json_t *const root = sim_json_read(plan->json);
    const cudnnStatus_t status = parse_plan(root, plan);
    sim_json_free(root);
    return status;
}

/* Profiles of the driver, by the name of the device in lower case; "NVIDIA H200" is h200. */
static const sim_profile_t profiles[] = {
#define PROFILE(name, calibration, major, minor, multiprocessors, memory, fp32, tf32, fp16,        \
                memory_gbps, link, duplex, launch, floor)                                          \
    {#name, calibration, major,       minor, multiprocessors, memory, fp32,                        \
     tf32,  fp16,        memory_gbps, link,  duplex,          launch, floor},
#include "test/sim/profiles.def"
#undef PROFILE
};

const sim_profile_t *sim_device_parse(const char *json, int64_t bytes)
{
    (void)bytes;
    const sim_json_t *const root = sim_json_read(json);
    const char *const name = sim_json_text(sim_json_member(root, "deviceName"));
    const sim_profile_t *found = NULL;
    for (size_t i = 0; name && i < sizeof profiles / sizeof *profiles; i++)
        if (strcasestr(name, profiles[i].name))
            found = &profiles[i];
    sim_json_free(root);
    return found;
}
