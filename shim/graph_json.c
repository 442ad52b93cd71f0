/* From the JSON of a plan to a problem: what kinds of operations there are, then their fields, then
 * the chain that they form, then whether its tensors are of types and layouts that we know. */
#include "shim/graph_json.h"

#include <float.h>
#include <string.h>

#include <cudnn.h>

#include "shim/json.h"

/* A chain of one convolution and three pointwise operations names at most nine tensors. */
enum { TENSORS_MAX = 9, SCHEMA_VERSION = 4, INNER_DIMS = 2 /* batch and channel */ };
enum { NOT_SAID = INT32_MIN }; /* of groups */

typedef struct tensor {
    int64_t uid;
    int32_t type, alignment, vector_count, vector_dim, reordering;
    mdnn_json_list_t dims, strides;
    bool is_virtual, by_value, used;
} tensor_t;

typedef struct convolution {
    int32_t direction; /* mdnn_direction_t */
    int32_t mode, compute_type, groups;
    double alpha, beta;
    mdnn_json_list_t pad, pad_before, pad_after, stride, dilation;
    int64_t x, w, y;
} convolution_t;

typedef struct pointwise {
    int32_t mode, compute_type;
    double alpha1, alpha2;
    double lower_clip, upper_clip, slope; /* relu */
    double parameter;                     /* elu, softplus, swish */
    int64_t x, b, y;
    bool used;
} pointwise_t;

typedef struct plan_graph {
    convolution_t convolution;
    int pointwise_count, tensor_count;
    pointwise_t pointwise[MDNN_PROBLEM_POINTWISE];
    tensor_t tensors[TENSORS_MAX];
} plan_graph_t;

#define NAME(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

static const mdnn_json_name_t TYPES[] = {NAME(CUDNN_DATA_FLOAT),
                                         NAME(CUDNN_DATA_DOUBLE),
                                         NAME(CUDNN_DATA_HALF),
                                         NAME(CUDNN_DATA_INT8),
                                         NAME(CUDNN_DATA_INT32),
                                         NAME(CUDNN_DATA_INT8x4),
                                         NAME(CUDNN_DATA_UINT8),
                                         NAME(CUDNN_DATA_UINT8x4),
                                         NAME(CUDNN_DATA_INT8x32),
                                         NAME(CUDNN_DATA_BFLOAT16),
                                         NAME(CUDNN_DATA_INT64),
                                         NAME(CUDNN_DATA_BOOLEAN),
                                         NAME(CUDNN_DATA_FP8_E4M3),
                                         NAME(CUDNN_DATA_FP8_E5M2),
                                         NAME(CUDNN_DATA_FAST_FLOAT_FOR_FP8),
                                         {NULL, 0}};

static const mdnn_json_name_t MODES[] = {
    NAME(CUDNN_CONVOLUTION), NAME(CUDNN_CROSS_CORRELATION), {NULL, 0}};

static const mdnn_json_name_t REORDERINGS[] = {NAME(CUDNN_TENSOR_REORDERING_NONE),
                                               NAME(CUDNN_TENSOR_REORDERING_INT8x32),
                                               NAME(CUDNN_TENSOR_REORDERING_F16x16),
                                               {NULL, 0}};

/* The modes that we understand; a graph with another is one of many operations. */
static const mdnn_json_name_t POINTWISE_MODES[] = {NAME(CUDNN_POINTWISE_ADD),
                                                   NAME(CUDNN_POINTWISE_RELU_FWD),
                                                   NAME(CUDNN_POINTWISE_TANH_FWD),
                                                   NAME(CUDNN_POINTWISE_SIGMOID_FWD),
                                                   NAME(CUDNN_POINTWISE_ELU_FWD),
                                                   NAME(CUDNN_POINTWISE_GELU_FWD),
                                                   NAME(CUDNN_POINTWISE_SOFTPLUS_FWD),
                                                   NAME(CUDNN_POINTWISE_SWISH_FWD),
                                                   NAME(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD),
                                                   {NULL, 0}};

enum { POINTWISE = MDNN_DIRECTION_COUNT }; /* an operation that is no convolution */
#define OPERATION(name, number)                                                                    \
    {                                                                                              \
        "CUDNN_BACKEND_OPERATION_" name "_DESCRIPTOR", number                                      \
    }
static const mdnn_json_name_t OPERATIONS[] = {
    OPERATION("CONVOLUTION_FORWARD", MDNN_FORWARD),
    OPERATION("CONVOLUTION_BACKWARD_DATA", MDNN_BACKWARD_DATA),
    OPERATION("CONVOLUTION_BACKWARD_FILTER", MDNN_BACKWARD_FILTER),
    OPERATION("POINTWISE", POINTWISE),
    {NULL, 0}};

enum { OPTIONAL = false, REQUIRED = true };
#define FIELD(key, kind, need, owner, member)                                                      \
    {                                                                                              \
        key, MDNN_JSON_##kind, need, offsetof(owner, member), NULL                                 \
    }
#define NAME_FIELD(key, owner, member, names)                                                      \
    {                                                                                              \
        key, MDNN_JSON_NAME, REQUIRED, offsetof(owner, member), names                              \
    }
#define IGNORED(key)                                                                               \
    {                                                                                              \
        key, MDNN_JSON_ANYTHING, OPTIONAL, 0, NULL                                                 \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, MDNN_JSON_ANYTHING, OPTIONAL, 0, NULL                                                \
    }

static const mdnn_json_field_t TENSOR_FIELDS[] = {
    FIELD("name", DECIMAL, REQUIRED, tensor_t, uid),
    NAME_FIELD("dataType", tensor_t, type, TYPES),
    FIELD("dim", INTS, REQUIRED, tensor_t, dims),
    FIELD("stride", INTS, REQUIRED, tensor_t, strides),
    FIELD("isVirtual", BOOL, REQUIRED, tensor_t, is_virtual),
    FIELD("isByValue", BOOL, REQUIRED, tensor_t, by_value),
    FIELD("vectCount", INT, REQUIRED, tensor_t, vector_count),
    FIELD("vectDim", INT, OPTIONAL, tensor_t, vector_dim),
    FIELD("ptrAlignment", INT, REQUIRED, tensor_t, alignment),
    NAME_FIELD("reordering", tensor_t, reordering, REORDERINGS),
    END};

#define CONVOLUTION_FIELDS(x_key, w_key, y_key)                                                    \
    {                                                                                              \
        IGNORED("operation"), NAME_FIELD("mode", convolution_t, mode, MODES),                      \
            NAME_FIELD("mathPrec", convolution_t, compute_type, TYPES),                            \
            FIELD("alpha", DOUBLE, REQUIRED, convolution_t, alpha),                                \
            FIELD("beta", DOUBLE, REQUIRED, convolution_t, beta),                                  \
            FIELD("pad", INTS, OPTIONAL, convolution_t, pad),                                      \
            FIELD("pad_lower", INTS, OPTIONAL, convolution_t, pad_before),                         \
            FIELD("pad_upper", INTS, OPTIONAL, convolution_t, pad_after),                          \
            FIELD("stride", INTS, REQUIRED, convolution_t, stride),                                \
            FIELD("dilation", INTS, REQUIRED, convolution_t, dilation),                            \
            FIELD("groupCount", INT, OPTIONAL, convolution_t, groups),                             \
            FIELD(x_key, DECIMAL, REQUIRED, convolution_t, x),                                     \
            FIELD(w_key, DECIMAL, REQUIRED, convolution_t, w),                                     \
            FIELD(y_key, DECIMAL, REQUIRED, convolution_t, y), END                                 \
    }
static const mdnn_json_field_t FORWARD_FIELDS[] = CONVOLUTION_FIELDS("X", "W", "Y");
static const mdnn_json_field_t BACKWARD_DATA_FIELDS[] = CONVOLUTION_FIELDS("dX", "W", "dY");
static const mdnn_json_field_t BACKWARD_FILTER_FIELDS[] = CONVOLUTION_FIELDS("X", "dW", "dY");
static const mdnn_json_field_t *const DIRECTION_FIELDS[] = {
    [MDNN_FORWARD] = FORWARD_FIELDS,
    [MDNN_BACKWARD_DATA] = BACKWARD_DATA_FIELDS,
    [MDNN_BACKWARD_FILTER] = BACKWARD_FILTER_FIELDS};

#define POINTWISE_FIELDS(...)                                                                      \
    {                                                                                              \
        IGNORED("operation"), NAME_FIELD("pointwiseMode", pointwise_t, mode, POINTWISE_MODES),     \
            NAME_FIELD("mathPrec", pointwise_t, compute_type, TYPES),                              \
            FIELD("alpha1", DOUBLE, OPTIONAL, pointwise_t, alpha1),                                \
            FIELD("alpha2", DOUBLE, OPTIONAL, pointwise_t, alpha2),                                \
            FIELD("X", DECIMAL, REQUIRED, pointwise_t, x),                                         \
            FIELD("Y", DECIMAL, REQUIRED, pointwise_t, y), __VA_ARGS__, END                        \
    }
static const mdnn_json_field_t ADD_FIELDS[] =
    POINTWISE_FIELDS(FIELD("B", DECIMAL, REQUIRED, pointwise_t, b));
static const mdnn_json_field_t RELU_FIELDS[] =
    POINTWISE_FIELDS(FIELD("lowerClip", DOUBLE, OPTIONAL, pointwise_t, lower_clip),
                     FIELD("upperClip", DOUBLE, OPTIONAL, pointwise_t, upper_clip),
                     FIELD("lowerClipSlope", DOUBLE, OPTIONAL, pointwise_t, slope));
static const mdnn_json_field_t ALPHA_FIELDS[] =
    POINTWISE_FIELDS(FIELD("alpha", DOUBLE, OPTIONAL, pointwise_t, parameter));
static const mdnn_json_field_t BETA_FIELDS[] =
    POINTWISE_FIELDS(FIELD("beta", DOUBLE, OPTIONAL, pointwise_t, parameter));
static const mdnn_json_field_t PLAIN_FIELDS[] = POINTWISE_FIELDS(END);

static const mdnn_json_field_t *fields_of(int32_t pointwise_mode)
{
    switch (pointwise_mode) {
    case CUDNN_POINTWISE_ADD:
        return ADD_FIELDS;
    case CUDNN_POINTWISE_RELU_FWD:
        return RELU_FIELDS;
    case CUDNN_POINTWISE_ELU_FWD:
        return ALPHA_FIELDS;
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
    case CUDNN_POINTWISE_SWISH_FWD:
        return BETA_FIELDS;
    default:
        return PLAIN_FIELDS;
    }
}

static bool has_parameter(int32_t mode)
{
    return mode == CUDNN_POINTWISE_ELU_FWD || mode == CUDNN_POINTWISE_SOFTPLUS_FWD ||
           mode == CUDNN_POINTWISE_SWISH_FWD;
}

/* Which operations there are, before any other field is looked at: those of other operations are
 * not ours to know. */
static mdnn_graph_kind_t survey(const mdnn_json_t *json, int nodes)
{
    int convolutions = 0, pointwise = 0;
    bool others = false;
    for (int node = mdnn_json_first(json, nodes); node >= 0;
         node = mdnn_json_next(json, nodes, node)) {
        const int mode = mdnn_json_member(json, node, "pointwiseMode");
        int32_t operation, ignored;
        if (!mdnn_json_named(json, mdnn_json_member(json, node, "operation"), OPERATIONS,
                             &operation))
            others = true;
        else if (operation != POINTWISE)
            convolutions++;
        else if (mdnn_json_named(json, mode, POINTWISE_MODES, &ignored))
            pointwise++;
        else
            others = true;
    }
    if (convolutions == 0)
        return MDNN_GRAPH_NO_CONVOLUTION;
    if (convolutions > 1 || pointwise > MDNN_PROBLEM_POINTWISE || others)
        return MDNN_GRAPH_MANY_OPERATIONS;
    return MDNN_GRAPH_RECOGNISED;
}

static bool read_pointwise(const mdnn_json_t *json, int node, pointwise_t *pointwise)
{
    *pointwise = (pointwise_t){.alpha1 = 1, .alpha2 = 1, .upper_clip = DBL_MAX, .parameter = 1};
    return mdnn_json_named(json, mdnn_json_member(json, node, "pointwiseMode"), POINTWISE_MODES,
                           &pointwise->mode) &&
           mdnn_json_fields(json, node, fields_of(pointwise->mode), pointwise);
}

/* survey() has seen that the operations are ours and fit. */
static bool read_nodes(const mdnn_json_t *json, int nodes, plan_graph_t *graph)
{
    for (int node = mdnn_json_first(json, nodes); node >= 0;
         node = mdnn_json_next(json, nodes, node)) {
        int32_t operation = POINTWISE;
        (void)mdnn_json_named(json, mdnn_json_member(json, node, "operation"), OPERATIONS,
                              &operation);
        if (operation == POINTWISE) {
            if (!read_pointwise(json, node, &graph->pointwise[graph->pointwise_count++]))
                return false;
            continue;
        }
        graph->convolution.direction = operation;
        graph->convolution.groups = NOT_SAID;
        if (!mdnn_json_fields(json, node, DIRECTION_FIELDS[operation], &graph->convolution))
            return false;
    }
    return true;
}

static tensor_t *find(plan_graph_t *graph, int64_t uid)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].uid == uid)
            return &graph->tensors[i];
    return NULL;
}

static bool is_power_of_two(int32_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

static bool is_sane(const tensor_t *tensor)
{
    if (tensor->dims.count < 3 || tensor->dims.count > MDNN_PROBLEM_DIMS ||
        tensor->strides.count != tensor->dims.count || !is_power_of_two(tensor->alignment))
        return false;
    for (int i = 0; i < tensor->dims.count; i++)
        if (tensor->dims.at[i] < 1)
            return false;
    return true;
}

/* The stride of a single element says nothing, and cuDNN takes any. Elsewhere 0 means that there are no
 * strides, so it gets one that lies behind what the later dimensions reach. */
static void settle_strides(tensor_t *tensor)
{
    int64_t span = 1;
    for (int i = tensor->dims.count; i-- > 0 && span <= INT32_MAX;) {
        int32_t *const stride = &tensor->strides.at[i];
        if (tensor->dims.at[i] == 1 && *stride < 1)
            *stride = (int32_t)span;
        span += ((int64_t)tensor->dims.at[i] - 1) * (*stride > 0 ? *stride : 0);
    }
}

static bool read_tensors(const mdnn_json_t *json, int tensors, plan_graph_t *graph)
{
    for (int at = mdnn_json_first(json, tensors); at >= 0; at = mdnn_json_next(json, tensors, at)) {
        tensor_t tensor = {.vector_dim = -1};
        if (graph->tensor_count == TENSORS_MAX ||
            !mdnn_json_fields(json, at, TENSOR_FIELDS, &tensor) || !is_sane(&tensor) ||
            find(graph, tensor.uid))
            return false;
        settle_strides(&tensor);
        graph->tensors[graph->tensor_count++] = tensor;
    }
    return true;
}

static mdnn_graph_kind_t read_graph(const mdnn_json_t *json, plan_graph_t *graph)
{
    static const mdnn_json_field_t FIELDS[] = {IGNORED("finalizeMode"), IGNORED("tensors"),
                                               IGNORED("nodes"), END};
    int32_t version;
    const int object = mdnn_json_member(json, MDNN_JSON_ROOT, "operationGraph");
    const int nodes = mdnn_json_member(json, object, "nodes");
    const int tensors = mdnn_json_member(json, object, "tensors");
    if (!mdnn_json_int(json, mdnn_json_member(json, MDNN_JSON_ROOT, "schemaVersion"), &version) ||
        version != SCHEMA_VERSION || !mdnn_json_fields(json, object, FIELDS, NULL) ||
        !mdnn_json_is_array(json, nodes) || !mdnn_json_is_array(json, tensors))
        return MDNN_GRAPH_UNKNOWN;
    const mdnn_graph_kind_t kind = survey(json, nodes);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    return read_nodes(json, nodes, graph) && read_tensors(json, tensors, graph)
               ? MDNN_GRAPH_RECOGNISED
               : MDNN_GRAPH_UNKNOWN;
}

/* The graph as a convolution and, in the order of the data, what follows it. */
typedef struct step {
    const pointwise_t *pointwise;
    const tensor_t *input;
    mdnn_operand_t operand;
    double alpha1, alpha2;
} step_t;

typedef struct chain {
    tensor_t *x, *w, *y;
    tensor_t *z, *bias; /* NULL: none */
    bool activated;
    step_t steps[MDNN_PROBLEM_POINTWISE];
} chain_t;

static bool same_list(const mdnn_json_list_t *a, const mdnn_json_list_t *b)
{
    return a->count == b->count && memcmp(a->at, b->at, (size_t)a->count * sizeof *a->at) == 0;
}

/* One value for each channel of `output`. */
static bool is_bias_of(const tensor_t *bias, const tensor_t *output)
{
    if (bias->dims.count != output->dims.count || bias->dims.at[1] != output->dims.at[1])
        return false;
    for (int i = 0; i < bias->dims.count; i++)
        if (i != 1 && bias->dims.at[i] != 1)
            return false;
    return true;
}

/* The operation not yet used that reads the tensor. */
static pointwise_t *reader_of(plan_graph_t *graph, const tensor_t *tensor)
{
    for (int i = 0; i < graph->pointwise_count; i++) {
        pointwise_t *const at = &graph->pointwise[i];
        const bool reads =
            at->x == tensor->uid || (at->mode == CUDNN_POINTWISE_ADD && at->b == tensor->uid);
        if (!at->used && reads)
            return at;
    }
    return NULL;
}

/* `step` is an addition to what step->input holds: finds what is added. */
static mdnn_graph_kind_t link_operand(plan_graph_t *graph, chain_t *chain, step_t *step)
{
    const pointwise_t *const add = step->pointwise;
    const bool swapped = add->x != step->input->uid;
    tensor_t *const operand = find(graph, swapped ? add->x : add->b);
    if (!operand)
        return MDNN_GRAPH_UNKNOWN;
    if (operand->is_virtual)
        return MDNN_GRAPH_MANY_OPERATIONS;
    operand->used = true;
    step->alpha1 = swapped ? add->alpha2 : add->alpha1;
    step->alpha2 = swapped ? add->alpha1 : add->alpha2;
    if (!chain->bias && is_bias_of(operand, step->input)) {
        chain->bias = operand;
        step->operand = MDNN_OPERAND_BIAS;
    } else if (!chain->z && same_list(&operand->dims, &step->input->dims)) {
        chain->z = operand;
        step->operand = MDNN_OPERAND_Z;
    } else
        return MDNN_GRAPH_MANY_OPERATIONS;
    return MDNN_GRAPH_RECOGNISED;
}

/* From the tensor *at to what the next operation writes. */
static mdnn_graph_kind_t link_step(plan_graph_t *graph, chain_t *chain, step_t *step, tensor_t **at)
{
    pointwise_t *const pointwise = reader_of(graph, *at);
    if (!(*at)->is_virtual || !pointwise)
        return MDNN_GRAPH_MANY_OPERATIONS;
    pointwise->used = true;
    *step = (step_t){.pointwise = pointwise,
                     .input = *at,
                     .alpha1 = pointwise->alpha1,
                     .alpha2 = pointwise->alpha2};
    if (pointwise->mode == CUDNN_POINTWISE_ADD) {
        const mdnn_graph_kind_t kind = link_operand(graph, chain, step);
        if (kind != MDNN_GRAPH_RECOGNISED)
            return kind;
    } else if (chain->activated)
        return MDNN_GRAPH_MANY_OPERATIONS;
    else
        chain->activated = true;
    tensor_t *const output = find(graph, pointwise->y);
    if (!output)
        return MDNN_GRAPH_UNKNOWN;
    if (output->used || !same_list(&output->dims, &(*at)->dims))
        return MDNN_GRAPH_MANY_OPERATIONS;
    output->used = true;
    *at = output;
    return MDNN_GRAPH_RECOGNISED;
}

static mdnn_graph_kind_t link_steps(plan_graph_t *graph, chain_t *chain)
{
    for (int i = 0; i < graph->pointwise_count; i++) {
        const mdnn_graph_kind_t kind = link_step(graph, chain, &chain->steps[i], &chain->y);
        if (kind != MDNN_GRAPH_RECOGNISED)
            return kind;
    }
    return MDNN_GRAPH_RECOGNISED;
}

static mdnn_graph_kind_t link_chain(plan_graph_t *graph, chain_t *chain)
{
    const convolution_t *const convolution = &graph->convolution;
    *chain = (chain_t){.x = find(graph, convolution->x),
                       .w = find(graph, convolution->w),
                       .y = find(graph, convolution->y)};
    if (!chain->x || !chain->w || !chain->y || chain->x == chain->w || chain->x == chain->y ||
        chain->w == chain->y)
        return MDNN_GRAPH_UNKNOWN;
    chain->x->used = chain->w->used = chain->y->used = true;
    if (graph->pointwise_count > 0 &&
        (convolution->direction != MDNN_FORWARD || convolution->beta != 0))
        return MDNN_GRAPH_MANY_OPERATIONS;
    const mdnn_graph_kind_t kind = link_steps(graph, chain);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    if (chain->x->is_virtual || chain->w->is_virtual || chain->y->is_virtual)
        return MDNN_GRAPH_MANY_OPERATIONS;
    for (int i = 0; i < graph->tensor_count; i++) {
        if (!graph->tensors[i].used)
            return MDNN_GRAPH_UNKNOWN;
        if (graph->tensors[i].by_value)
            return MDNN_GRAPH_MANY_OPERATIONS;
    }
    return MDNN_GRAPH_RECOGNISED;
}

/* Padding either way as two lists. */
static bool settle_padding(convolution_t *convolution)
{
    const bool before = convolution->pad_before.count > 0, after = convolution->pad_after.count > 0;
    if (convolution->pad.count > 0) {
        if (before || after)
            return false;
        convolution->pad_before = convolution->pad_after = convolution->pad;
    }
    return true;
}

/* 1 + floor((in + padding - reach) / stride) == out, for each spatial dimension. */
static bool planes_agree(const convolution_t *convolution, const chain_t *chain)
{
    for (int i = 0; i < chain->x->dims.count - INNER_DIMS; i++) {
        const int64_t pad_before = convolution->pad_before.at[i];
        const int64_t pad_after = convolution->pad_after.at[i];
        const int64_t stride = convolution->stride.at[i], dilation = convolution->dilation.at[i];
        const int64_t filter = chain->w->dims.at[INNER_DIMS + i];
        const int64_t out = chain->y->dims.at[INNER_DIMS + i];
        if (pad_before < 0 || pad_after < 0 || stride < 1 || dilation < 1)
            return false;
        const int64_t room = chain->x->dims.at[INNER_DIMS + i] + pad_before + pad_after -
                             ((filter - 1) * dilation + 1);
        if (room < 0 || 1 + room / stride != out)
            return false;
    }
    return true;
}

/* Also works out the groups where the graph does not say them. */
static bool shapes_agree(convolution_t *convolution, const chain_t *chain)
{
    const mdnn_json_list_t *const x = &chain->x->dims, *const w = &chain->w->dims,
                                  *const y = &chain->y->dims;
    const int spatial = x->count - INNER_DIMS;
    if (!settle_padding(convolution) || w->count != x->count || y->count != x->count ||
        convolution->pad_before.count != spatial || convolution->pad_after.count != spatial ||
        convolution->stride.count != spatial || convolution->dilation.count != spatial)
        return false;
    if (convolution->groups == NOT_SAID)
        convolution->groups = x->at[1] / w->at[1];
    if (convolution->groups < 1 || (int64_t)w->at[1] * convolution->groups != x->at[1] ||
        w->at[0] % convolution->groups != 0 || y->at[1] != w->at[0] || y->at[0] != x->at[0])
        return false;
    return planes_agree(convolution, chain);
}

/* Sums and what lies between operations may be wider than the data. */
static bool is_float_or(int32_t type, int32_t data)
{
    return type == CUDNN_DATA_FLOAT || type == data;
}

static bool types_are_ours(const plan_graph_t *graph, const chain_t *chain)
{
    const int32_t data = chain->x->type;
    if (data != CUDNN_DATA_FLOAT && data != CUDNN_DATA_HALF && data != CUDNN_DATA_BFLOAT16 &&
        data != CUDNN_DATA_DOUBLE)
        return false;
    if (chain->w->type != data || chain->y->type != data ||
        !is_float_or(graph->convolution.compute_type, data))
        return false;
    for (int i = 0; i < graph->tensor_count; i++)
        if (!is_float_or(graph->tensors[i].type, data))
            return false;
    for (int i = 0; i < graph->pointwise_count; i++)
        if (!is_float_or(graph->pointwise[i].compute_type, data))
            return false;
    return true;
}

static bool is_plain(const tensor_t *tensor)
{
    for (int i = 0; i < tensor->dims.count; i++)
        if (tensor->strides.at[i] < 1)
            return false;
    return tensor->vector_count == 1 && tensor->reordering == CUDNN_TENSOR_REORDERING_NONE;
}

/* No image reaches into the next. The strides are positive (is_plain). */
static bool batch_is_outermost(const tensor_t *tensor)
{
    int64_t span = 1, part;
    if (tensor->dims.at[0] == 1)
        return true;
    for (int i = 1; i < tensor->dims.count; i++)
        if (tensor->dims.at[i] > 1 &&
            (__builtin_mul_overflow((int64_t)tensor->dims.at[i] - 1, (int64_t)tensor->strides.at[i],
                                    &part) ||
             __builtin_add_overflow(span, part, &span)))
            return false;
    return tensor->strides.at[0] >= span;
}

static bool layouts_are_ours(const plan_graph_t *graph, const chain_t *chain)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (!is_plain(&graph->tensors[i]))
            return false;
    return batch_is_outermost(chain->x) && batch_is_outermost(chain->y) &&
           (!chain->z || batch_is_outermost(chain->z));
}

/* Dense memory with the channels second or last. The stride of one element says nothing. */
static bool is_packed(const tensor_t *tensor, cudnnTensorFormat_t format)
{
    const int count = tensor->dims.count;
    int64_t expected = 1;
    for (int i = 0; i < count; i++) { /* from the innermost dimension out */
        int dim = count - 1 - i;
        if (format == CUDNN_TENSOR_NHWC && dim != 0)
            dim = i == 0 ? 1 : dim + 1;
        if (tensor->dims.at[dim] != 1 && tensor->strides.at[dim] != expected)
            return false;
        if (__builtin_mul_overflow(expected, (int64_t)tensor->dims.at[dim], &expected))
            return false;
    }
    return true;
}

static int32_t format_of(const tensor_t *w, const tensor_t *x)
{
    const bool second = is_packed(w, CUDNN_TENSOR_NCHW), last = is_packed(w, CUDNN_TENSOR_NHWC);
    const bool x_last = is_packed(x, CUDNN_TENSOR_NHWC) && !is_packed(x, CUDNN_TENSOR_NCHW);
    if (second && !(last && x_last))
        return CUDNN_TENSOR_NCHW;
    return last ? CUDNN_TENSOR_NHWC : -1;
}

static void describe_tensor(mdnn_problem_tensor_t *to, const tensor_t *from)
{
    to->type = from->type;
    to->dim_count = from->dims.count;
    memcpy(to->dims, from->dims.at, sizeof to->dims);
    memcpy(to->strides, from->strides.at, sizeof to->strides);
    to->alignment_bytes = from->alignment;
}

static int64_t bits_of(double number)
{
    int64_t bits;
    const double positive_zero = number == 0 ? 0 : number;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits;
}

static void describe_step(mdnn_problem_pointwise_t *to, const step_t *step)
{
    const pointwise_t *const from = step->pointwise;
    to->mode = from->mode;
    to->operand = (int32_t)step->operand;
    to->input_type = step->input->type;
    to->compute_type = from->compute_type;
    to->alpha1_bits = bits_of(step->alpha1);
    to->alpha2_bits = bits_of(step->alpha2);
    if (from->mode == CUDNN_POINTWISE_RELU_FWD) {
        to->parameter_bits[0] = bits_of(from->lower_clip);
        to->parameter_bits[1] = bits_of(from->upper_clip);
        to->parameter_bits[2] = bits_of(from->slope);
    } else if (has_parameter(from->mode))
        to->parameter_bits[0] = bits_of(from->parameter);
}

static void describe_convolution(mdnn_problem_t *problem, const convolution_t *convolution)
{
    const size_t bytes = (size_t)problem->spatial_dims * sizeof *problem->pad;
    memcpy(problem->pad, convolution->pad_before.at, bytes);
    memcpy(problem->pad_after, convolution->pad_after.at, bytes);
    memcpy(problem->stride, convolution->stride.at, bytes);
    memcpy(problem->dilation, convolution->dilation.at, bytes);
    problem->direction = convolution->direction;
    problem->mode = convolution->mode;
    problem->compute_type = convolution->compute_type;
    problem->groups = convolution->groups;
    problem->alpha_is_one = convolution->alpha == 1;
    problem->beta_is_zero = convolution->beta == 0;
    problem->alpha_bits = bits_of(convolution->alpha);
    problem->beta_bits = bits_of(convolution->beta);
}

static bool is_legacy(const mdnn_problem_t *problem)
{
    return problem->x.dim_count >= 4 && problem->pointwise_count == 0 && problem->w.format >= 0 &&
           memcmp(problem->pad, problem->pad_after, sizeof problem->pad) == 0;
}

static void describe(const plan_graph_t *from, const chain_t *chain, mdnn_graph_t *graph)
{
    mdnn_problem_t *const problem = &graph->problem;
    memset(graph, 0, sizeof *graph);
    mdnn_problem_init(problem);
    describe_tensor(&problem->x, chain->x);
    describe_tensor(&problem->w, chain->w);
    describe_tensor(&problem->y, chain->y);
    problem->w.format = format_of(chain->w, chain->x);
    problem->spatial_dims = chain->x->dims.count - INNER_DIMS;
    describe_convolution(problem, &from->convolution);
    graph->x_uid = chain->x->uid;
    graph->w_uid = chain->w->uid;
    graph->y_uid = chain->y->uid;
    if (chain->z) {
        describe_tensor(&problem->z, chain->z);
        graph->z_uid = chain->z->uid;
    }
    if (chain->bias) {
        describe_tensor(&problem->bias, chain->bias);
        graph->bias_uid = chain->bias->uid;
    }
    problem->pointwise_count = from->pointwise_count;
    for (int i = 0; i < from->pointwise_count; i++)
        describe_step(&problem->pointwise[i], &chain->steps[i]);
    if (from->pointwise_count > 0)
        problem->direction = MDNN_BIAS_ACTIVATION_FORWARD;
    problem->interfaces = MDNN_INTERFACE_GRAPH | (is_legacy(problem) ? MDNN_INTERFACE_LEGACY : 0);
}

static mdnn_graph_kind_t recognise(const mdnn_json_t *json, mdnn_graph_t *graph)
{
    plan_graph_t read;
    chain_t chain;
    memset(&read, 0, sizeof read);
    mdnn_graph_kind_t kind = read_graph(json, &read);
    if (kind == MDNN_GRAPH_RECOGNISED)
        kind = link_chain(&read, &chain);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    if (!types_are_ours(&read, &chain))
        return MDNN_GRAPH_TYPES;
    if (!layouts_are_ours(&read, &chain))
        return MDNN_GRAPH_LAYOUT;
    if (!shapes_agree(&read.convolution, &chain))
        return MDNN_GRAPH_UNKNOWN;
    describe(&read, &chain, graph);
    return MDNN_GRAPH_RECOGNISED;
}

mdnn_status_t mdnn_graph_read(const char *json, size_t bytes, mdnn_graph_t *graph,
                              mdnn_graph_kind_t *kind)
{
    mdnn_json_t *document;
    *kind = MDNN_GRAPH_UNKNOWN;
    MDNN_TRY(mdnn_json_open(json, bytes, &document));
    *kind = recognise(document, graph);
    mdnn_json_close(document);
    return *kind == MDNN_GRAPH_RECOGNISED ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}
