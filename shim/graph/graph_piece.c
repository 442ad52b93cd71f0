#include "shim/graph/graph_piece.h"

#include <stdlib.h>
#include <string.h>

enum { IGNORED = -1, SCALE = -2 /* FLOAT or DOUBLE */ };

/* Attributes whose meaning is known, and of which type they are. */
typedef struct known {
    cudnnBackendAttributeName_t name;
    int type; /* cudnnBackendAttributeType_t, IGNORED or SCALE */
    int64_t most;
} known_t;

enum { LIST = 8 /* dimensions that cuDNN takes */, OPERATIONS = 256 };

#define ONE(name, type)                                                                            \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1                                                    \
    }
#define SOME(name, most)                                                                           \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_TYPE_INT64, most                                                  \
    }
#define SCALED(name)                                                                               \
    {                                                                                              \
        CUDNN_ATTR_##name, SCALE, 1                                                                \
    }
#define LINK(name)                                                                                 \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1                                        \
    }
#define WITHOUT_MEANING(name)                                                                      \
    {                                                                                              \
        CUDNN_ATTR_##name, IGNORED, 0                                                              \
    }
#define CONVOLUTION_OPERATION(prefix, x, w, y)                                                     \
    SCALED(prefix##_ALPHA), SCALED(prefix##_BETA), LINK(prefix##_CONV_DESC), LINK(prefix##_##x),   \
        LINK(prefix##_##w), LINK(prefix##_##y)

static const known_t KNOWN[] = {
    ONE(TENSOR_DATA_TYPE, DATA_TYPE),
    SOME(TENSOR_DIMENSIONS, LIST),
    SOME(TENSOR_STRIDES, LIST),
    ONE(TENSOR_UNIQUE_ID, INT64),
    ONE(TENSOR_BYTE_ALIGNMENT, INT64),
    ONE(TENSOR_IS_VIRTUAL, BOOLEAN),
    ONE(TENSOR_IS_BY_VALUE, BOOLEAN),
    ONE(TENSOR_VECTOR_COUNT, INT64),
    ONE(TENSOR_VECTORIZED_DIMENSION, INT64),
    ONE(TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE),
    ONE(CONVOLUTION_COMP_TYPE, DATA_TYPE),
    ONE(CONVOLUTION_CONV_MODE, CONVOLUTION_MODE),
    ONE(CONVOLUTION_SPATIAL_DIMS, INT64),
    SOME(CONVOLUTION_PRE_PADDINGS, LIST),
    SOME(CONVOLUTION_POST_PADDINGS, LIST),
    SOME(CONVOLUTION_FILTER_STRIDES, LIST),
    SOME(CONVOLUTION_DILATIONS, LIST),
    ONE(POINTWISE_MODE, POINTWISE_MODE),
    ONE(POINTWISE_MATH_PREC, DATA_TYPE),
    WITHOUT_MEANING(POINTWISE_NAN_PROPAGATION), /* nor does a plan say it in JSON */
    SCALED(POINTWISE_RELU_LOWER_CLIP),
    SCALED(POINTWISE_RELU_UPPER_CLIP),
    SCALED(POINTWISE_RELU_LOWER_CLIP_SLOPE),
    SCALED(POINTWISE_ELU_ALPHA),
    SCALED(POINTWISE_SOFTPLUS_BETA),
    SCALED(POINTWISE_SWISH_BETA),
    CONVOLUTION_OPERATION(OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    CONVOLUTION_OPERATION(OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY),
    CONVOLUTION_OPERATION(OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY),
    LINK(OPERATION_POINTWISE_PW_DESCRIPTOR),
    LINK(OPERATION_POINTWISE_XDESC),
    LINK(OPERATION_POINTWISE_BDESC),
    LINK(OPERATION_POINTWISE_YDESC),
    SCALED(OPERATION_POINTWISE_ALPHA1),
    SCALED(OPERATION_POINTWISE_ALPHA2),
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, OPERATIONS},
    WITHOUT_MEANING(OPERATIONGRAPH_HANDLE),
    LINK(ENGINEHEUR_OPERATION_GRAPH),
    WITHOUT_MEANING(ENGINEHEUR_MODE),
    WITHOUT_MEANING(ENGINEHEUR_SM_COUNT_TARGET),
    WITHOUT_MEANING(ENGINEHEUR_DEVICEPROP),
    LINK(ENGINE_OPERATION_GRAPH),
    WITHOUT_MEANING(ENGINE_GLOBAL_INDEX),
    WITHOUT_MEANING(ENGINE_SM_COUNT_TARGET),
    WITHOUT_MEANING(ENGINE_DEVICEPROP),
    LINK(ENGINECFG_ENGINE),
    WITHOUT_MEANING(ENGINECFG_KNOB_CHOICES),
    LINK(EXECUTION_PLAN_ENGINE_CONFIG),
    WITHOUT_MEANING(EXECUTION_PLAN_HANDLE),
    WITHOUT_MEANING(EXECUTION_PLAN_DEVICEPROP),
};

static const known_t *find_known(cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (KNOWN[i].name == name)
            return &KNOWN[i];
    return NULL;
}

void mdnn_piece_clear(mdnn_piece_t *piece)
{
    while (piece->attributes) {
        mdnn_piece_attribute_t *const gone = piece->attributes;
        piece->attributes = gone->next;
        free(gone);
    }
}

bool mdnn_piece_matters(cudnnBackendAttributeName_t name)
{
    const known_t *const known = find_known(name);
    return !known || known->type != IGNORED;
}

#define ELEMENT(type) (((const type *)elements)[at])

/* False for a type whose elements are not known. */
static bool copy_value(mdnn_piece_value_t *value, cudnnBackendAttributeType_t type,
                       const void *elements, int64_t at)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
        value->integer = ELEMENT(int64_t);
        return true;
    case CUDNN_TYPE_BOOLEAN:
        value->integer = ELEMENT(unsigned char) != 0;
        return true;
    case CUDNN_TYPE_FLOAT:
        value->number = (double)ELEMENT(float);
        return true;
    case CUDNN_TYPE_DOUBLE:
        value->number = ELEMENT(double);
        return true;
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        value->link.descriptor = ELEMENT(cudnnBackendDescriptor_t);
        return true;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_TENSOR_REORDERING_MODE:
        value->integer = ELEMENT(int32_t);
        return true;
    default:
        return false;
    }
}

static bool is_as_known(const known_t *known, cudnnBackendAttributeType_t type, int64_t count)
{
    const bool scale = type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE;
    return known && count >= 1 && count <= known->most &&
           (known->type == SCALE ? scale : (int)type == known->type);
}

mdnn_piece_attribute_t *mdnn_piece_copy(cudnnBackendAttributeName_t name,
                                        cudnnBackendAttributeType_t type, int64_t count,
                                        const void *elements)
{
    if (!elements || !is_as_known(find_known(name), type, count))
        return NULL;
    mdnn_piece_attribute_t *const copy =
        calloc(1, sizeof *copy + (size_t)count * sizeof *copy->values);
    if (!copy)
        return NULL;
    copy->name = name;
    copy->count = count;
    for (int64_t i = 0; i < count; i++)
        if (!copy_value(&copy->values[i], type, elements, i)) {
            free(copy);
            return NULL;
        }
    return copy;
}

bool mdnn_piece_is_link(const mdnn_piece_attribute_t *attribute)
{
    const known_t *const known = find_known(attribute->name);
    return known && known->type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

const mdnn_piece_attribute_t *mdnn_piece_find(const mdnn_piece_t *piece,
                                              cudnnBackendAttributeName_t name)
{
    const mdnn_piece_attribute_t *at = piece->attributes;
    while (at && at->name != name)
        at = at->next;
    return at;
}

/* Operations add to those before, everything else takes the place of what was there; both would be
 * to know, so only what changes nothing is taken. Values are compared as bytes: calloc has cleared
 * them. */
static bool says_the_same(const mdnn_piece_attribute_t *a, const mdnn_piece_attribute_t *b)
{
    return a->name != CUDNN_ATTR_OPERATIONGRAPH_OPS && a->count == b->count &&
           memcmp(a->values, b->values, (size_t)a->count * sizeof *a->values) == 0;
}

void mdnn_piece_add(mdnn_piece_t *piece, mdnn_piece_attribute_t *attribute)
{
    const mdnn_piece_attribute_t *const before =
        attribute ? mdnn_piece_find(piece, attribute->name) : NULL;
    if (attribute && !before) {
        attribute->next = piece->attributes;
        piece->attributes = attribute;
        return;
    }
    piece->gap = piece->gap || !attribute || !says_the_same(before, attribute);
    free(attribute);
}
