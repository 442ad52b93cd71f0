/* Attributes of backend descriptors: what may be set and read, of which type and count. The rules
 * are those that test_backend_rules.c finds in the real library. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/backend.h"

typedef enum attribute_kind {
    SCALAR,
    ARRAY,
    SCALE, /* a double that is set from FLOAT or DOUBLE */
    LINK,  /* a descriptor */
    MANY   /* descriptors; each Set adds to those before */
} attribute_kind_t;

typedef struct attribute {
    int32_t descriptor, name, type;
    attribute_kind_t kind;
    bool readable;
    size_t offset, bytes; /* of one element */
    size_t count_offset;  /* ARRAY */
    int64_t most;
    int32_t read_type; /* where it is not `type`; else 0 */
} attribute_t;

#define OFFSET(field) offsetof(sim_backend_t, field), sizeof(((sim_backend_t *)0)->field)
#define ONE(descriptor, name, type, readable, field)                                               \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, SCALAR,     \
            readable, OFFSET(field), 0, 1, 0                                                       \
    }
#define ONE_READ_AS(descriptor, name, type, read_type, field)                                      \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, SCALAR,     \
            true, OFFSET(field), 0, 1, CUDNN_TYPE_##read_type                                      \
    }
#define SCALED(descriptor, name, readable, field)                                                  \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_DOUBLE, SCALE,      \
            readable, OFFSET(field), 0, 1, 0                                                       \
    }
#define SOME(descriptor, name, type, readable, field, counter)                                     \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, ARRAY,      \
            readable, offsetof(sim_backend_t, field), sizeof(((sim_backend_t *)0)->field[0]),      \
            offsetof(sim_backend_t, counter),                                                      \
            sizeof(((sim_backend_t *)0)->field) / sizeof(((sim_backend_t *)0)->field[0]), 0        \
    }
#define TO(descriptor, name, readable, link)                                                       \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, \
            LINK, readable, OFFSET(links[link]), 0, 1, 0                                           \
    }
#define TO_MANY(descriptor, name, readable)                                                        \
    {                                                                                              \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, \
            MANY, readable, OFFSET(many[0]), 0, SIM_CONFIGS_MAX, 0                                 \
    }
#define CONVOLUTION_OPERATION(descriptor, prefix, x, w, y)                                         \
    TO(descriptor, prefix##_##x, true, LINK_IN), TO(descriptor, prefix##_##w, true, LINK_OTHER),   \
        TO(descriptor, prefix##_##y, true, LINK_OUT),                                              \
        TO(descriptor, prefix##_CONV_DESC, true, LINK_HOW),                                        \
        SCALED(descriptor, prefix##_ALPHA, true, operation.node.alpha),                            \
        SCALED(descriptor, prefix##_BETA, true, operation.node.beta)

static const attribute_t attributes[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, true, tensor.type),
    SOME(TENSOR, TENSOR_DIMENSIONS, INT64, true, tensor.dims, tensor.dim_count),
    SOME(TENSOR, TENSOR_STRIDES, INT64, true, tensor.strides, tensor.stride_count),
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64, true, tensor.uid),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, false, tensor.alignment),
    ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, true, tensor.is_virtual),
    ONE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, true, tensor.by_value),
    ONE(TENSOR, TENSOR_VECTOR_COUNT, INT64, true, tensor.vector_count),
    ONE(TENSOR, TENSOR_VECTORIZED_DIMENSION, INT64, true, tensor.vector_dim),
    ONE_READ_AS(TENSOR, TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE, DATA_TYPE,
                tensor.reordering),

    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, true, convolution.compute_type),
    ONE_READ_AS(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, DATA_TYPE, convolution.mode),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, true, convolution.spatial_dims),
    SOME(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, true, convolution.pre,
         convolution.pre_count),
    SOME(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, true, convolution.post,
         convolution.post_count),
    SOME(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, true, convolution.stride,
         convolution.stride_count),
    SOME(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, true, convolution.dilation,
         convolution.dilation_count),

    ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, false, pointwise.mode),
    ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, false, pointwise.precision),
    ONE(POINTWISE, POINTWISE_NAN_PROPAGATION, NAN_PROPOGATION, false, pointwise.nan),
    SCALED(POINTWISE, POINTWISE_RELU_LOWER_CLIP, false, pointwise.lower_clip),
    SCALED(POINTWISE, POINTWISE_RELU_UPPER_CLIP, false, pointwise.upper_clip),
    SCALED(POINTWISE, POINTWISE_RELU_LOWER_CLIP_SLOPE, false, pointwise.lower_slope),
    SCALED(POINTWISE, POINTWISE_ELU_ALPHA, false, pointwise.elu_alpha),
    SCALED(POINTWISE, POINTWISE_SOFTPLUS_BETA, false, pointwise.softplus_beta),
    SCALED(POINTWISE, POINTWISE_SWISH_BETA, false, pointwise.swish_beta),

    CONVOLUTION_OPERATION(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    CONVOLUTION_OPERATION(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA, DX,
                          W, DY),
    CONVOLUTION_OPERATION(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER,
                          X, DW, DY),
    TO(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, false, LINK_IN),
    TO(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, false, LINK_OTHER),
    TO(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, false, LINK_OUT),
    TO(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, false, LINK_HOW),
    SCALED(OPERATION_POINTWISE, OPERATION_POINTWISE_ALPHA1, false, operation.node.alpha),
    SCALED(OPERATION_POINTWISE, OPERATION_POINTWISE_ALPHA2, false, operation.node.beta),
    ONE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, false, matmul_precision),
    TO(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, false, LINK_IN),
    TO(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, false, LINK_OTHER),
    TO(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, false, LINK_OUT),
    TO(OPERATION_MATMUL, OPERATION_MATMUL_DESC, false, LINK_HOW),

    TO_MANY(OPERATIONGRAPH, OPERATIONGRAPH_OPS, false),
    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, false, handle),

    TO(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, true, LINK_GRAPH),
    TO(ENGINEHEUR, ENGINEHEUR_DEVICEPROP, false, LINK_DEVICE),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, true, heuristics_mode),
    ONE(ENGINEHEUR, ENGINEHEUR_SM_COUNT_TARGET, INT32, true, sm_count),

    TO(ENGINE, ENGINE_OPERATION_GRAPH, true, LINK_GRAPH),
    TO(ENGINE, ENGINE_DEVICEPROP, false, LINK_DEVICE),
    ONE(ENGINE, ENGINE_GLOBAL_INDEX, INT64, true, index),
    ONE(ENGINE, ENGINE_SM_COUNT_TARGET, INT32, true, sm_count),

    TO(ENGINECFG, ENGINECFG_ENGINE, true, LINK_ENGINE),
    TO_MANY(ENGINECFG, ENGINECFG_KNOB_CHOICES, true),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, true, knob.type),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64, true, knob.value),
    ONE(KNOB_INFO, KNOB_INFO_TYPE, KNOB_TYPE, true, knob.type),
    ONE(KNOB_INFO, KNOB_INFO_MAXIMUM_VALUE, INT64, true, knob_maximum),
    ONE(KNOB_INFO, KNOB_INFO_MINIMUM_VALUE, INT64, true, knob_minimum),
    ONE(KNOB_INFO, KNOB_INFO_STRIDE, INT64, true, knob_stride),

    TO(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, true, LINK_CONFIG),
    TO(EXECUTION_PLAN, EXECUTION_PLAN_DEVICEPROP, false, LINK_DEVICE),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, true, handle),

    SOME(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, false, pack.uids, pack.uid_count),
    SOME(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, false, pack.pointers,
         pack.pointer_count),
    ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, true, pack.workspace),

    ONE(DEVICEPROP, DEVICEPROP_DEVICE_ID, INT64, true, device),
    ONE(DEVICEPROP, DEVICEPROP_HANDLE, HANDLE, false, handle),
};

static const attribute_t *find(int32_t descriptor, int32_t name)
{
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].descriptor == descriptor && attributes[i].name == name)
            return &attributes[i];
    return NULL;
}

/* Set ------------------------------------------------------------------------------------------ */

static cudnnStatus_t set_json(sim_backend_t *descriptor, int32_t type, int64_t count,
                              const void *values)
{
    SIM_CUDNN_REQUIRE(type == CUDNN_TYPE_CHAR, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    SIM_CUDNN_REQUIRE(count > 0, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    char *const kept = malloc((size_t)count + 1);
    SIM_CUDNN_REQUIRE(kept, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    memcpy(kept, values, (size_t)count);
    kept[count] = '\0';
    free(descriptor->json);
    descriptor->json = kept;
    descriptor->json_bytes = (int64_t)strlen(kept);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_links(sim_backend_t *descriptor, const attribute_t *attribute,
                               int64_t count, const void *values)
{
    sim_backend_t *const *const links = values;
    const bool many = attribute->kind == MANY;
    SIM_CUDNN_REQUIRE(many ? count >= 0 : count == 1, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(!many || descriptor->many_count + count <= attribute->most,
                      CUDNN_STATUS_NOT_SUPPORTED);
    for (int64_t i = 0; i < count; i++)
        SIM_CUDNN_REQUIRE(sim_backend_valid(links[i]), CUDNN_STATUS_BAD_PARAM);
    if (many)
        for (int64_t i = 0; i < count; i++)
            descriptor->many[descriptor->many_count++] = links[i];
    else
        memcpy((char *)descriptor + attribute->offset, values, sizeof *links);
    if (attribute->name == CUDNN_ATTR_ENGINECFG_ENGINE)
        descriptor->engine_was_final = links[0]->finalized;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_scale(void *field, int32_t type, int64_t count, const void *values)
{
    SIM_CUDNN_REQUIRE(type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE,
                      CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    SIM_CUDNN_REQUIRE(count == 1, CUDNN_STATUS_BAD_PARAM);
    *(double *)field =
        type == CUDNN_TYPE_DOUBLE ? *(const double *)values : (double)*(const float *)values;
    return CUDNN_STATUS_SUCCESS;
}

static bool is_json(const sim_backend_t *descriptor, int32_t attribute)
{
    return (descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
            attribute == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) ||
           (descriptor->type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR &&
            attribute == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

/* Where the real library says so, and where this one has no such thing. */
static bool refused(int32_t attribute)
{
    return attribute == CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES ||
           (attribute >= CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS &&
            attribute <= CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES) ||
           attribute == CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE ||
           attribute == CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED ||
           attribute == CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC ||
           attribute == CUDNN_ATTR_POINTWISE_AXIS ||
           (attribute >= CUDNN_ATTR_OPERATION_POINTWISE_DXDESC &&
            attribute <= CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
}

static cudnnStatus_t set_plain(sim_backend_t *descriptor, const attribute_t *attribute,
                               int64_t count, const void *values)
{
    if (attribute->kind == ARRAY) {
        SIM_CUDNN_REQUIRE(count > 0 && count <= attribute->most, CUDNN_STATUS_BAD_PARAM);
        memcpy((char *)descriptor + attribute->count_offset, &count, sizeof count);
    } else
        SIM_CUDNN_REQUIRE(count == 1, CUDNN_STATUS_BAD_PARAM);
    if (attribute->type == CUDNN_TYPE_HANDLE && attribute->name != CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        SIM_CUDNN_REQUIRE(*(const cudnnHandle_t *)values, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    memcpy((char *)descriptor + attribute->offset, values, (size_t)count * attribute->bytes);
    descriptor->index_set =
        descriptor->index_set || attribute->name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_backend_set(sim_backend_t *descriptor, int32_t name, int32_t type, int64_t count,
                              const void *values)
{
    SIM_CUDNN_REQUIRE(values, CUDNN_STATUS_BAD_PARAM);
    if (is_json(descriptor, name))
        return set_json(descriptor, type, count, values);
    SIM_CUDNN_REQUIRE(!refused(name), CUDNN_STATUS_NOT_SUPPORTED);
    const attribute_t *const attribute = find(descriptor->type, name);
    SIM_CUDNN_REQUIRE(attribute, CUDNN_STATUS_BAD_PARAM);
    if (attribute->kind == SCALE)
        return set_scale((char *)descriptor + attribute->offset, type, count, values);
    const bool pack = descriptor->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
    SIM_CUDNN_REQUIRE(type == attribute->type,
                      pack ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    if (attribute->kind == LINK || attribute->kind == MANY)
        return set_links(descriptor, attribute, count, values);
    return set_plain(descriptor, attribute, count, values);
}

/* Get ------------------------------------------------------------------------------------------ */

/* Writes `have` elements, or as many as fit; the count is what was written, or what there is when
 * nothing was asked for. */
static cudnnStatus_t give(const void *from, size_t bytes, int64_t have, int64_t requested,
                          int64_t *count, void *values)
{
    SIM_CUDNN_REQUIRE(requested >= 0, CUDNN_STATUS_BAD_PARAM);
    const int64_t given = requested && requested < have ? requested : have;
    if (count)
        *count = given;
    if (values && requested)
        memcpy(values, from, (size_t)given * bytes);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_one(const void *from, size_t bytes, int64_t requested, int64_t *count,
                              void *values)
{
    SIM_CUDNN_REQUIRE(requested == 0 || requested == 1, CUDNN_STATUS_BAD_PARAM);
    return give(from, bytes, 1, requested, count, values);
}

static cudnnStatus_t get_json(const sim_backend_t *descriptor, int64_t requested, int64_t *count,
                              void *values)
{
    const int64_t bytes = descriptor->json_bytes;
    SIM_CUDNN_REQUIRE(descriptor->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
                          sim_plan_schema() > 0,
                      CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE(count && requested >= 0, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(requested == 0 || requested >= bytes,
                      CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    return give(descriptor->json, 1, bytes, requested, count, values);
}

/* A tensor as an operation gives it back: five dimensions with the groups, and no uid. */
static void fill_operation_tensor(const sim_backend_t *operation, int which, sim_backend_t *out)
{
    const sim_backend_operation_t *const from = &operation->operation;
    const sim_graph_tensor_t *const tensor = &from->tensors[which];
    const int64_t groups = from->tensors[LINK_IN].dims[1] / from->tensors[LINK_OTHER].dims[1];
    const bool filter = which == LINK_OTHER;
    out->tensor = *tensor;
    out->tensor.uid = -1;
    out->tensor.dim_count = out->tensor.stride_count = tensor->dim_count + 1;
    for (int64_t i = tensor->dim_count; i > (filter ? 0 : 1); i--) {
        out->tensor.dims[i] = tensor->dims[i - 1];
        out->tensor.strides[i] = tensor->strides[i - 1];
    }
    const int split = filter ? 0 : 1;
    out->tensor.dims[split] = groups;
    out->tensor.dims[split + 1] = tensor->dims[split] / groups;
    out->tensor.strides[split] = out->tensor.dims[split + 1] * tensor->strides[split];
}

static int32_t type_of_link(const sim_backend_t *descriptor, const attribute_t *attribute)
{
    switch (descriptor->type) {
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    default:
        return attribute->offset == offsetof(sim_backend_t, links[LINK_HOW])
                   ? CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
                   : CUDNN_BACKEND_TENSOR_DESCRIPTOR;
    }
}

static void fill_link(const sim_backend_t *from, int32_t wanted, const attribute_t *attribute,
                      sim_backend_t *out)
{
    if (wanted == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
        const size_t first = offsetof(sim_backend_t, links[0]);
        fill_operation_tensor(from, (int)((attribute->offset - first) / sizeof(void *)), out);
    } else if (wanted == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        out->convolution = from->operation.node.convolution;
    else {
        sim_graph_release(out->graph);
        out->graph = sim_graph_share(from->graph);
        out->profile = from->profile;
        out->index = from->config.engine;
        out->config = from->config;
        out->workspace_bytes = from->workspace_bytes;
    }
    out->finalized = true;
}

/* Fills a descriptor that the caller made, of the right type. */
static cudnnStatus_t get_link(const sim_backend_t *descriptor, const attribute_t *attribute,
                              int64_t requested, int64_t *count, void *values)
{
    SIM_CUDNN_REQUIRE(requested == 1 && values, CUDNN_STATUS_NOT_INITIALIZED);
    sim_backend_t *const out = *(sim_backend_t **)values;
    const int32_t wanted = type_of_link(descriptor, attribute);
    SIM_CUDNN_REQUIRE(sim_backend_valid(out) && out->type == wanted, CUDNN_STATUS_BAD_PARAM);
    fill_link(descriptor, wanted, attribute, out);
    if (count)
        *count = 1;
    return CUDNN_STATUS_SUCCESS;
}

/* The slots that the caller made, up to the first that is unfit; a finalized one is. */
static int64_t fill_slots(int32_t type, int64_t have, int64_t requested, void *values,
                          sim_backend_t *slots[])
{
    int64_t filled = 0;
    while (values && filled < requested && filled < have) {
        sim_backend_t *const slot = ((sim_backend_t **)values)[filled];
        if (!sim_backend_valid(slot) || slot->type != type || slot->finalized)
            break;
        slots[filled++] = slot;
    }
    return filled;
}

static cudnnStatus_t get_results(const sim_backend_t *descriptor, int64_t requested, int64_t *count,
                                 void *values)
{
    sim_engine_config_t configs[SIM_CONFIGS_MAX];
    sim_backend_t *slots[SIM_CONFIGS_MAX];
    SIM_CUDNN_REQUIRE(requested >= 0, CUDNN_STATUS_BAD_PARAM);
    const int64_t have = descriptor->profile
                             ? sim_engine_list(descriptor->profile, descriptor->graph,
                                               descriptor->heuristics_mode, configs)
                             : 0;
    /* What the real library says beforehand is a bound. */
    int64_t filled = descriptor->profile ? have + 1 : 0;
    if (requested)
        filled = fill_slots(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, have, requested, values, slots);
    for (int64_t i = 0; requested && i < filled; i++) {
        slots[i]->graph = sim_graph_share(descriptor->graph);
        slots[i]->profile = descriptor->profile;
        slots[i]->config = configs[i];
        slots[i]->workspace_bytes =
            sim_engine_workspace_bytes(descriptor->profile, descriptor->graph, &configs[i]);
        slots[i]->finalized = true;
    }
    if (count)
        *count = filled;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_knob_infos(const sim_backend_t *engine, int64_t requested, int64_t *count,
                                    void *values)
{
    sim_knob_t greatest[SIM_KNOBS];
    sim_backend_t *slots[SIM_CONFIGS_MAX];
    const int64_t have = sim_engine_knobs(engine->graph, engine->index, greatest);
    int64_t filled = have;
    if (requested)
        filled = fill_slots(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, have, requested, values, slots);
    for (int64_t i = 0; requested && i < filled; i++) {
        slots[i]->knob = greatest[i];
        slots[i]->knob_maximum = greatest[i].value;
        slots[i]->knob_stride = 1;
        slots[i]->finalized = true;
    }
    if (count)
        *count = filled;
    return CUDNN_STATUS_SUCCESS;
}

/* Asked for a count alone, the real library says 0. */
static cudnnStatus_t get_knob_choices(const sim_backend_t *config, int64_t requested,
                                      int64_t *count, void *values)
{
    sim_backend_t *slots[SIM_CONFIGS_MAX];
    const int64_t filled = fill_slots(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                      config->config.knob_count, requested, values, slots);
    for (int64_t i = 0; i < filled; i++) {
        slots[i]->knob = config->config.knobs[i];
        slots[i]->finalized = true;
    }
    if (count)
        *count = filled;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_notes(const sim_backend_t *engine, bool numerical, int32_t type,
                               int64_t requested, int64_t *count, void *values)
{
    int32_t notes[16];
    SIM_CUDNN_REQUIRE(type == (numerical ? CUDNN_TYPE_NUMERICAL_NOTE : CUDNN_TYPE_BEHAVIOR_NOTE),
                      CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    const int have = numerical ? sim_engine_numerical_notes(engine->graph, engine->index, notes)
                               : sim_engine_behavior_notes(engine->graph, engine->index, notes);
    return give(notes, sizeof *notes, have, requested, count, values);
}

static cudnnStatus_t give_int64(int64_t value, int32_t type, int64_t requested, int64_t *count,
                                void *values)
{
    SIM_CUDNN_REQUIRE(type == CUDNN_TYPE_INT64, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    return give_one(&value, sizeof value, requested, count, values);
}

/* Attributes that are computed. NULL pointers and types were not looked at yet. */
static cudnnStatus_t get_computed(const sim_backend_t *descriptor, int32_t name, int32_t type,
                                  int64_t requested, int64_t *count, void *values, bool *known)
{
    *known = true;
    switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        return give_int64(SIM_ENGINE_COUNT, type, requested, count, values);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        return give_int64((int64_t)descriptor->workspace_bytes, type, requested, count, values);
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return get_results(descriptor, requested, count, values);
    case CUDNN_ATTR_ENGINE_KNOB_INFO:
        return get_knob_infos(descriptor, requested, count, values);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        return get_knob_choices(descriptor, requested, count, values);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        return get_notes(descriptor, true, type, requested, count, values);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        return get_notes(descriptor, false, type, requested, count, values);
    case CUDNN_ATTR_ENGINE_LAYOUT_INFO:
    case CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO:
        return give(NULL, 0, 0, 0, count, values);
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
    case CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS:
    case CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS:
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "attribute");
    default:
        *known = false;
        return CUDNN_STATUS_BAD_PARAM;
    }
}

/* Names are numbered by descriptor in hundreds; these are the computed ones' owners. */
static bool belongs(const sim_backend_t *descriptor, int32_t name)
{
    switch (descriptor->type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return name / 100 == 8;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return name / 100 == 2;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return name / 100 == 13;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return name / 100 == 3;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return name / 100 == 4;
    default:
        return false;
    }
}

cudnnStatus_t sim_backend_get(sim_backend_t *descriptor, int32_t name, int32_t type,
                              int64_t requested, int64_t *count, void *values)
{
    if (is_json(descriptor, name))
        return get_json(descriptor, requested, count, values);
    bool known = false;
    if (belongs(descriptor, name)) {
        const cudnnStatus_t status =
            get_computed(descriptor, name, type, requested, count, values, &known);
        if (known)
            return status;
    }
    const attribute_t *const attribute = find(descriptor->type, name);
    SIM_CUDNN_REQUIRE(attribute, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(attribute->readable, CUDNN_STATUS_NOT_SUPPORTED);
    const int32_t wanted = attribute->read_type ? attribute->read_type : attribute->type;
    const bool scale = attribute->kind == SCALE;
    SIM_CUDNN_REQUIRE(type == wanted,
                      scale ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    if (attribute->kind == LINK)
        return get_link(descriptor, attribute, requested, count, values);
    const char *const field = (const char *)descriptor + attribute->offset;
    if (attribute->kind != ARRAY)
        return give_one(field, attribute->bytes, requested, count, values);
    int64_t have;
    memcpy(&have, (const char *)descriptor + attribute->count_offset, sizeof have);
    return give(field, attribute->bytes, have, requested, count, values);
}
