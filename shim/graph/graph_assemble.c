#include "shim/graph/graph_assemble.h"

#include <stddef.h>
#include <string.h>

typedef struct assembly {
    mdnn_piece_finder_t *find;
    mdnn_chain_graph_t said;
} assembly_t;

typedef enum form {
    INT,      /* int32_t */
    LONG,     /* int64_t */
    INTS,     /* mdnn_json_list_t */
    TRUTH,    /* bool */
    NUMBER,   /* double */
    TENSOR,   /* int64_t: the uid; the tensor itself joins the graph */
    ELSEWHERE /* a link that is read by itself */
} form_t;

enum { OPTIONAL = false, REQUIRED = true };
typedef struct field {
    cudnnBackendAttributeName_t name;
    form_t form;
    bool required;
    size_t offset;
} field_t;

/* No attribute has this name. */
#define NONE ((cudnnBackendAttributeName_t)-1)
#define FIELD(name, form, need, owner, member)                                                     \
    {                                                                                              \
        CUDNN_ATTR_##name, form, need, offsetof(owner, member)                                     \
    }
#define LINK(name)                                                                                 \
    {                                                                                              \
        CUDNN_ATTR_##name, ELSEWHERE, REQUIRED, 0                                                  \
    }
#define END                                                                                        \
    {                                                                                              \
        NONE, ELSEWHERE, OPTIONAL, 0                                                               \
    }

typedef mdnn_chain_tensor_t tensor_t;
typedef mdnn_chain_convolution_t convolution_t;
typedef mdnn_chain_pointwise_t pointwise_t;

static const field_t TENSOR_FIELDS[] = {
    FIELD(TENSOR_UNIQUE_ID, LONG, REQUIRED, tensor_t, uid),
    FIELD(TENSOR_DATA_TYPE, INT, REQUIRED, tensor_t, type),
    FIELD(TENSOR_DIMENSIONS, INTS, REQUIRED, tensor_t, dims),
    FIELD(TENSOR_STRIDES, INTS, REQUIRED, tensor_t, strides),
    FIELD(TENSOR_BYTE_ALIGNMENT, INT, REQUIRED, tensor_t, alignment),
    FIELD(TENSOR_IS_VIRTUAL, TRUTH, OPTIONAL, tensor_t, is_virtual),
    FIELD(TENSOR_IS_BY_VALUE, TRUTH, OPTIONAL, tensor_t, by_value),
    FIELD(TENSOR_VECTOR_COUNT, INT, OPTIONAL, tensor_t, vector_count),
    FIELD(TENSOR_VECTORIZED_DIMENSION, INT, OPTIONAL, tensor_t, vector_dim),
    FIELD(TENSOR_REORDERING_MODE, INT, OPTIONAL, tensor_t, reordering),
    END};

/* A convolution's description; the operation says the rest. */
typedef struct window {
    convolution_t convolution;
    int32_t spatial;
} window_t;

static const field_t WINDOW_FIELDS[] = {
    FIELD(CONVOLUTION_COMP_TYPE, INT, REQUIRED, window_t, convolution.compute_type),
    FIELD(CONVOLUTION_CONV_MODE, INT, REQUIRED, window_t, convolution.mode),
    FIELD(CONVOLUTION_SPATIAL_DIMS, INT, REQUIRED, window_t, spatial),
    FIELD(CONVOLUTION_PRE_PADDINGS, INTS, REQUIRED, window_t, convolution.pad_before),
    FIELD(CONVOLUTION_POST_PADDINGS, INTS, REQUIRED, window_t, convolution.pad_after),
    FIELD(CONVOLUTION_FILTER_STRIDES, INTS, REQUIRED, window_t, convolution.stride),
    FIELD(CONVOLUTION_DILATIONS, INTS, REQUIRED, window_t, convolution.dilation),
    END};

#define CONVOLUTION_FIELDS(prefix, x_name, w_name, y_name)                                         \
    {                                                                                              \
        FIELD(prefix##_ALPHA, NUMBER, OPTIONAL, convolution_t, alpha),                             \
            FIELD(prefix##_BETA, NUMBER, OPTIONAL, convolution_t, beta), LINK(prefix##_CONV_DESC), \
            FIELD(prefix##_##x_name, TENSOR, REQUIRED, convolution_t, x),                          \
            FIELD(prefix##_##w_name, TENSOR, REQUIRED, convolution_t, w),                          \
            FIELD(prefix##_##y_name, TENSOR, REQUIRED, convolution_t, y), END                      \
    }
static const field_t FORWARD_FIELDS[] = CONVOLUTION_FIELDS(OPERATION_CONVOLUTION_FORWARD, X, W, Y);
static const field_t BACKWARD_DATA_FIELDS[] =
    CONVOLUTION_FIELDS(OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY);
static const field_t BACKWARD_FILTER_FIELDS[] =
    CONVOLUTION_FIELDS(OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY);

static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t description;
    const field_t *fields;
} CONVOLUTIONS[] = {
    [MDNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, FORWARD_FIELDS},
    [MDNN_BACKWARD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                            BACKWARD_DATA_FIELDS},
    [MDNN_BACKWARD_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                              BACKWARD_FILTER_FIELDS}};

#define POINTWISE_FIELDS(...)                                                                      \
    {                                                                                              \
        FIELD(POINTWISE_MODE, INT, REQUIRED, pointwise_t, mode),                                   \
            FIELD(POINTWISE_MATH_PREC, INT, REQUIRED, pointwise_t, compute_type), __VA_ARGS__, END \
    }
#define PARAMETER(name, member) FIELD(name, NUMBER, OPTIONAL, pointwise_t, member)
static const field_t RELU_FIELDS[] =
    POINTWISE_FIELDS(PARAMETER(POINTWISE_RELU_LOWER_CLIP, lower_clip),
                     PARAMETER(POINTWISE_RELU_UPPER_CLIP, upper_clip),
                     PARAMETER(POINTWISE_RELU_LOWER_CLIP_SLOPE, slope));
static const field_t ELU_FIELDS[] = POINTWISE_FIELDS(PARAMETER(POINTWISE_ELU_ALPHA, parameter));
static const field_t SOFTPLUS_FIELDS[] =
    POINTWISE_FIELDS(PARAMETER(POINTWISE_SOFTPLUS_BETA, parameter));
static const field_t SWISH_FIELDS[] = POINTWISE_FIELDS(PARAMETER(POINTWISE_SWISH_BETA, parameter));
static const field_t PLAIN_FIELDS[] = POINTWISE_FIELDS(END);

#define STEP_FIELDS(...)                                                                           \
    {                                                                                              \
        LINK(OPERATION_POINTWISE_PW_DESCRIPTOR),                                                   \
            FIELD(OPERATION_POINTWISE_XDESC, TENSOR, REQUIRED, pointwise_t, x),                    \
            FIELD(OPERATION_POINTWISE_YDESC, TENSOR, REQUIRED, pointwise_t, y),                    \
            FIELD(OPERATION_POINTWISE_ALPHA1, NUMBER, OPTIONAL, pointwise_t, alpha1),              \
            FIELD(OPERATION_POINTWISE_ALPHA2, NUMBER, OPTIONAL, pointwise_t, alpha2), __VA_ARGS__, \
            END                                                                                    \
    }
static const field_t STEP_FIELDS_OF_TWO[] =
    STEP_FIELDS(FIELD(OPERATION_POINTWISE_BDESC, TENSOR, REQUIRED, pointwise_t, b));
static const field_t STEP_FIELDS_OF_ONE[] = STEP_FIELDS(END);

static const field_t *fields_of(int64_t mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_RELU_FWD:
        return RELU_FIELDS;
    case CUDNN_POINTWISE_ELU_FWD:
        return ELU_FIELDS;
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
        return SOFTPLUS_FIELDS;
    case CUDNN_POINTWISE_SWISH_FWD:
        return SWISH_FIELDS;
    default:
        return PLAIN_FIELDS;
    }
}

static bool is_our_mode(int64_t mode)
{
    switch (mode) {
#define MODE(name) case name:
        MDNN_CHAIN_MODES(MODE)
#undef MODE
        return true;
    default:
        return false;
    }
}

static bool read_ints(const mdnn_piece_attribute_t *attribute, mdnn_json_list_t *list)
{
    if (attribute->count > MDNN_JSON_LIST)
        return false;
    list->count = (int32_t)attribute->count;
    for (int i = 0; i < list->count; i++) {
        list->at[i] = (int32_t)attribute->values[i].integer;
        if (list->at[i] != attribute->values[i].integer)
            return false;
    }
    return true;
}

static bool read_fields(assembly_t *assembly, const mdnn_piece_t *piece, const field_t *fields,
                        void *into);

static bool read_tensor(assembly_t *assembly, const mdnn_piece_link_t *link, int64_t *uid)
{
    const mdnn_piece_t *const piece = assembly->find(link);
    tensor_t tensor = {.vector_count = 1, .vector_dim = -1};
    if (!piece || piece->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
        !read_fields(assembly, piece, TENSOR_FIELDS, &tensor))
        return false;
    *uid = tensor.uid;
    return mdnn_chain_use_tensor(&assembly->said, &tensor);
}

static bool read_value(assembly_t *assembly, const mdnn_piece_attribute_t *attribute, form_t form,
                       void *into)
{
    const mdnn_piece_value_t *const first = attribute->values;
    const int32_t narrow = (int32_t)first->integer;
    switch (form) {
    case INT:
        memcpy(into, &narrow, sizeof narrow);
        return narrow == first->integer;
    case LONG:
        memcpy(into, &first->integer, sizeof first->integer);
        return true;
    case INTS:
        return read_ints(attribute, into);
    case TRUTH:
        *(bool *)into = first->integer != 0;
        return true;
    case NUMBER:
        memcpy(into, &first->number, sizeof first->number);
        return __builtin_isfinite(first->number);
    case TENSOR:
        return read_tensor(assembly, &first->link, into);
    default:
        return true;
    }
}

static const field_t *find_field(const field_t *fields, cudnnBackendAttributeName_t name)
{
    while (fields->name != NONE && fields->name != name)
        fields++;
    return fields->name == NONE ? NULL : fields;
}

/* Fields that were not set keep their values. */
static bool read_fields(assembly_t *assembly, const mdnn_piece_t *piece, const field_t *fields,
                        void *into)
{
    const mdnn_piece_attribute_t *at = piece->attributes;
    if (piece->gap)
        return false;
    for (const field_t *field = fields; field->name != NONE; field++)
        if (field->required && !mdnn_piece_find(piece, field->name))
            return false;
    for (; at; at = at->next) {
        const field_t *const field = find_field(fields, at->name);
        if (!field || !read_value(assembly, at, field->form, (char *)into + field->offset))
            return false;
    }
    return true;
}

/* What an operation's link `name` means, of that type; NULL if that is not known. */
static const mdnn_piece_t *description_of(const assembly_t *assembly, const mdnn_piece_t *operation,
                                          cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type)
{
    const mdnn_piece_attribute_t *const link = mdnn_piece_find(operation, name);
    const mdnn_piece_t *const piece = link ? assembly->find(&link->values->link) : NULL;
    return piece && piece->type == type ? piece : NULL;
}

/* The direction of a convolution, else MDNN_DIRECTION_COUNT. */
static int direction_of(const mdnn_piece_t *operation)
{
    for (int i = MDNN_FORWARD; i <= MDNN_BACKWARD_FILTER; i++)
        if (operation->type == CONVOLUTIONS[i].type)
            return i;
    return MDNN_DIRECTION_COUNT;
}

static bool read_convolution(assembly_t *assembly, const mdnn_piece_t *operation, int direction)
{
    const mdnn_piece_t *const description =
        description_of(assembly, operation, CONVOLUTIONS[direction].description,
                       CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    window_t window = {
        .convolution = {.direction = direction, .groups = MDNN_CHAIN_NOT_SAID, .alpha = 1}};
    if (!description || !read_fields(assembly, description, WINDOW_FIELDS, &window) ||
        window.convolution.pad_before.count != window.spatial)
        return false;
    assembly->said.convolution = window.convolution;
    return read_fields(assembly, operation, CONVOLUTIONS[direction].fields,
                       &assembly->said.convolution);
}

static const mdnn_piece_t *pointwise_of(const assembly_t *assembly, const mdnn_piece_t *operation)
{
    return description_of(assembly, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                          CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
}

/* survey() has seen its mode. */
static bool read_pointwise(assembly_t *assembly, const mdnn_piece_t *operation)
{
    const mdnn_piece_t *const description = pointwise_of(assembly, operation);
    const int64_t mode = mdnn_piece_find(description, CUDNN_ATTR_POINTWISE_MODE)->values->integer;
    pointwise_t *const pointwise = &assembly->said.pointwise[assembly->said.pointwise_count++];
    *pointwise = mdnn_chain_pointwise();
    return read_fields(assembly, description, fields_of(mode), pointwise) &&
           read_fields(assembly, operation,
                       mode == CUDNN_POINTWISE_ADD ? STEP_FIELDS_OF_TWO : STEP_FIELDS_OF_ONE,
                       pointwise);
}

/* Whether it is pointwise with a mode that we know; also false if that is unknown, as *known
 * says. */
static bool is_our_pointwise(const assembly_t *assembly, const mdnn_piece_t *operation, bool *known)
{
    if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        return false;
    const mdnn_piece_t *const description = pointwise_of(assembly, operation);
    const mdnn_piece_attribute_t *const mode =
        description ? mdnn_piece_find(description, CUDNN_ATTR_POINTWISE_MODE) : NULL;
    *known = *known && mode;
    return mode && is_our_mode(mode->values->integer);
}

static mdnn_graph_kind_t survey(const assembly_t *assembly,
                                const mdnn_piece_attribute_t *operations)
{
    int convolutions = 0, pointwise = 0;
    bool others = false, known = true;
    for (int64_t i = 0; known && i < operations->count; i++) {
        const mdnn_piece_t *const operation = assembly->find(&operations->values[i].link);
        if (!operation)
            known = false;
        else if (direction_of(operation) != MDNN_DIRECTION_COUNT)
            convolutions++;
        else if (is_our_pointwise(assembly, operation, &known))
            pointwise++;
        else
            others = true;
    }
    return known ? mdnn_chain_survey(convolutions, pointwise, others) : MDNN_GRAPH_UNKNOWN;
}

/* survey() has seen that the operations are ours and fit. */
static bool read_operations(assembly_t *assembly, const mdnn_piece_attribute_t *operations)
{
    for (int64_t i = 0; i < operations->count; i++) {
        const mdnn_piece_t *const operation = assembly->find(&operations->values[i].link);
        const int direction = direction_of(operation);
        if (direction == MDNN_DIRECTION_COUNT ? !read_pointwise(assembly, operation)
                                              : !read_convolution(assembly, operation, direction))
            return false;
    }
    return true;
}

mdnn_graph_kind_t mdnn_graph_assemble(const mdnn_piece_t *operation_graph,
                                      mdnn_piece_finder_t *find, mdnn_graph_t *graph)
{
    assembly_t assembly;
    const mdnn_piece_attribute_t *const operations =
        mdnn_piece_find(operation_graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    memset(&assembly, 0, sizeof assembly);
    assembly.find = find;
    if (operation_graph->gap || !operations)
        return MDNN_GRAPH_UNKNOWN;
    const mdnn_graph_kind_t kind = survey(&assembly, operations);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    return read_operations(&assembly, operations) ? mdnn_chain_recognise(&assembly.said, graph)
                                                  : MDNN_GRAPH_UNKNOWN;
}
