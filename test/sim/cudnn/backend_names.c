#include "test/sim/cudnn/backend_names.h"

#include <string.h>

#include "test/sim/cudnn/backend_graph.h"

#define SAME(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

const sim_named_t sim_data_types[] = {SAME(CUDNN_DATA_FLOAT),   SAME(CUDNN_DATA_DOUBLE),
                                      SAME(CUDNN_DATA_HALF),    SAME(CUDNN_DATA_BFLOAT16),
                                      SAME(CUDNN_DATA_INT8),    SAME(CUDNN_DATA_INT32),
                                      SAME(CUDNN_DATA_INT64),   SAME(CUDNN_DATA_UINT8),
                                      SAME(CUDNN_DATA_BOOLEAN), {NULL, 0}};

const sim_named_t sim_convolution_modes[] = {
    SAME(CUDNN_CONVOLUTION), SAME(CUDNN_CROSS_CORRELATION), {NULL, 0}};

const sim_named_t sim_pointwise_modes[] = {
    SAME(CUDNN_POINTWISE_ADD),       SAME(CUDNN_POINTWISE_SUB),
    SAME(CUDNN_POINTWISE_MUL),       SAME(CUDNN_POINTWISE_MAX),
    SAME(CUDNN_POINTWISE_MIN),       SAME(CUDNN_POINTWISE_RELU_FWD),
    SAME(CUDNN_POINTWISE_TANH_FWD),  SAME(CUDNN_POINTWISE_SIGMOID_FWD),
    SAME(CUDNN_POINTWISE_ELU_FWD),   SAME(CUDNN_POINTWISE_GELU_FWD),
    SAME(CUDNN_POINTWISE_SWISH_FWD), SAME(CUDNN_POINTWISE_EXP),
    SAME(CUDNN_POINTWISE_ABS),       SAME(CUDNN_POINTWISE_NEG),
    SAME(CUDNN_POINTWISE_IDENTITY),  {NULL, 0}};

const sim_named_t sim_knobs[] = {
    SAME(CUDNN_KNOB_TYPE_TILE_SIZE), SAME(CUDNN_KNOB_TYPE_SPLIT_K_BUF), {NULL, 0}};

const sim_named_t sim_operations[] = {
    {"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", NODE_FORWARD},
    {"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR", NODE_BACKWARD_DATA},
    {"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR", NODE_BACKWARD_FILTER},
    {"CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR", NODE_POINTWISE},
    {"CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR", NODE_MATMUL},
    {NULL, 0}};

const char *sim_name(const sim_named_t *list, int32_t value)
{
    for (; list->name; list++)
        if (list->value == value)
            return list->name;
    return "UNKNOWN";
}

int32_t sim_value(const sim_named_t *list, const char *name)
{
    for (; name && list->name; list++)
        if (!strcmp(list->name, name))
            return list->value;
    return -1;
}
