/* From the JSON of a plan to what it says: what kinds of operations there are, then their fields.
 */
#include "shim/graph/graph_json.h"

#include <string.h>

#include <cudnn.h>

#include "shim/graph/json.h"

enum { SCHEMA_VERSION = 4 };

typedef mdnn_chain_tensor_t tensor_t;
typedef mdnn_chain_convolution_t convolution_t;
typedef mdnn_chain_pointwise_t pointwise_t;
typedef mdnn_chain_graph_t graph_t;

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

#define MODE(name) NAME(name),
static const mdnn_json_name_t POINTWISE_MODES[] = {MDNN_CHAIN_MODES(MODE){NULL, 0}};

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
            FIELD("alpha1", DOUBLE, REQUIRED, pointwise_t, alpha1),                                \
            FIELD("alpha2", DOUBLE, REQUIRED, pointwise_t, alpha2),                                \
            FIELD("X", DECIMAL, REQUIRED, pointwise_t, x),                                         \
            FIELD("Y", DECIMAL, REQUIRED, pointwise_t, y), __VA_ARGS__, END                        \
    }
static const mdnn_json_field_t ADD_FIELDS[] =
    POINTWISE_FIELDS(FIELD("B", DECIMAL, REQUIRED, pointwise_t, b));
static const mdnn_json_field_t RELU_FIELDS[] =
    POINTWISE_FIELDS(FIELD("lowerClip", DOUBLE, REQUIRED, pointwise_t, lower_clip),
                     FIELD("upperClip", DOUBLE, REQUIRED, pointwise_t, upper_clip),
                     FIELD("lowerClipSlope", DOUBLE, REQUIRED, pointwise_t, slope));
static const mdnn_json_field_t ALPHA_FIELDS[] =
    POINTWISE_FIELDS(FIELD("alpha", DOUBLE, REQUIRED, pointwise_t, parameter));
static const mdnn_json_field_t BETA_FIELDS[] =
    POINTWISE_FIELDS(FIELD("beta", DOUBLE, REQUIRED, pointwise_t, parameter));
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
    return mdnn_chain_survey(convolutions, pointwise, others);
}

static bool read_pointwise(const mdnn_json_t *json, int node, pointwise_t *pointwise)
{
    *pointwise = mdnn_chain_pointwise();
    return mdnn_json_named(json, mdnn_json_member(json, node, "pointwiseMode"), POINTWISE_MODES,
                           &pointwise->mode) &&
           mdnn_json_fields(json, node, fields_of(pointwise->mode), pointwise);
}

/* survey() has seen that the operations are ours and fit. */
static bool read_nodes(const mdnn_json_t *json, int nodes, graph_t *graph)
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
        graph->convolution.groups = MDNN_CHAIN_NOT_SAID;
        if (!mdnn_json_fields(json, node, DIRECTION_FIELDS[operation], &graph->convolution))
            return false;
    }
    return true;
}

static bool read_tensors(const mdnn_json_t *json, int tensors, graph_t *graph)
{
    for (int at = mdnn_json_first(json, tensors); at >= 0; at = mdnn_json_next(json, tensors, at)) {
        tensor_t tensor = {.vector_dim = -1};
        if (!mdnn_json_fields(json, at, TENSOR_FIELDS, &tensor) ||
            !mdnn_chain_add_tensor(graph, &tensor))
            return false;
    }
    return true;
}

static bool is_known_schema(const mdnn_json_t *json)
{
    int32_t version;
    return mdnn_json_int(json, mdnn_json_member(json, MDNN_JSON_ROOT, "schemaVersion"), &version) &&
           version == SCHEMA_VERSION;
}

static mdnn_graph_kind_t read_graph(const mdnn_json_t *json, graph_t *graph)
{
    static const mdnn_json_field_t FIELDS[] = {IGNORED("finalizeMode"), IGNORED("tensors"),
                                               IGNORED("nodes"), END};
    const int object = mdnn_json_member(json, MDNN_JSON_ROOT, "operationGraph");
    const int nodes = mdnn_json_member(json, object, "nodes");
    const int tensors = mdnn_json_member(json, object, "tensors");
    if (!mdnn_json_fields(json, object, FIELDS, NULL) || !mdnn_json_is_array(json, nodes) ||
        !mdnn_json_is_array(json, tensors))
        return MDNN_GRAPH_UNKNOWN;
    const mdnn_graph_kind_t kind = survey(json, nodes);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    return read_nodes(json, nodes, graph) && read_tensors(json, tensors, graph)
               ? MDNN_GRAPH_RECOGNISED
               : MDNN_GRAPH_UNKNOWN;
}

static mdnn_status_t recognise(const mdnn_json_t *json, mdnn_graph_t *graph,
                               mdnn_graph_kind_t *kind)
{
    graph_t said;
    memset(&said, 0, sizeof said);
    if (!is_known_schema(json))
        return MDNN_STATUS_BAD_FORMAT;
    *kind = read_graph(json, &said);
    if (*kind == MDNN_GRAPH_RECOGNISED)
        *kind = mdnn_chain_recognise(&said, graph);
    return *kind == MDNN_GRAPH_RECOGNISED ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

mdnn_status_t mdnn_graph_read(const char *json, size_t bytes, mdnn_graph_t *graph,
                              mdnn_graph_kind_t *kind)
{
    mdnn_json_t *document;
    *kind = MDNN_GRAPH_UNKNOWN;
    MDNN_TRY(mdnn_json_open(json, bytes, &document));
    const mdnn_status_t status = recognise(document, graph, kind);
    mdnn_json_close(document);
    return status;
}
