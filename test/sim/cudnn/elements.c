/* Element types: rows of any stride to doubles and back. */
#include <math.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

size_t sim_type_bytes(cudnnDataType_t type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
        return 4;
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
        return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
        return 1;
    default:
        return 0;
    }
}

bool sim_type_is_floating(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
           type == CUDNN_DATA_BFLOAT16;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t rest = half & 0x7fffu;
    if (rest >= 0x7c00u)
        return float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* Shifted into a float's places the exponent is 112 too small; the product mends it, for
     * subnormals too. */
    return float_of_bits(sign | bits_of_float(float_of_bits(rest << 13) * 0x1p112f));
}

static uint16_t float_to_half(float value)
{
    const uint32_t bits = bits_of_float(value);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return sign | 0x7e00u;
    if (rest >= 0x477ff000u) /* 65520: the first that rounds to infinity */
        return sign | 0x7c00u;
    if (rest < 0x38800000u) { /* subnormal: adding 0.5 leaves the rounded count of 2^-24 below */
        const float shifted = float_of_bits(rest) + 0.5f;
        return (uint16_t)(sign | (bits_of_float(shifted) - 0x3f000000u));
    }
    const uint32_t even = rest >> 13 & 1u;
    return (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + even) >> 13);
}

static uint16_t float_to_bfloat(float value)
{
    const uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#define LOAD_ROW(source_type, expression)                                                          \
    do {                                                                                           \
        const source_type *const source = (const source_type *)base + offset;                      \
        for (size_t i = 0; i < count; i++) {                                                       \
            const source_type element = source[(int64_t)i * stride];                               \
            out[i] = (expression);                                                                 \
        }                                                                                          \
    } while (0)

void sim_row_load(cudnnDataType_t type, const void *base, int64_t offset, int64_t stride,
                  size_t count, double *out)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        LOAD_ROW(float, (double)element);
        break;
    case CUDNN_DATA_DOUBLE:
        LOAD_ROW(double, element);
        break;
    case CUDNN_DATA_HALF:
        LOAD_ROW(uint16_t, (double)half_to_float(element));
        break;
    case CUDNN_DATA_BFLOAT16:
        LOAD_ROW(uint16_t, (double)float_of_bits((uint32_t)element << 16));
        break;
    default:
        memset(out, 0, count * sizeof *out);
        break;
    }
}

void sim_row_load_float(cudnnDataType_t type, const void *base, int64_t offset, int64_t stride,
                        size_t count, float *out)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        if (stride == 1)
            memcpy(out, (const float *)base + offset, count * sizeof *out);
        else
            LOAD_ROW(float, element);
        break;
    case CUDNN_DATA_DOUBLE:
        LOAD_ROW(double, (float)element);
        break;
    case CUDNN_DATA_HALF:
        LOAD_ROW(uint16_t, half_to_float(element));
        break;
    case CUDNN_DATA_BFLOAT16:
        LOAD_ROW(uint16_t, float_of_bits((uint32_t)element << 16));
        break;
    default:
        memset(out, 0, count * sizeof *out);
        break;
    }
}

#define STORE_ROW(target_type, expression)                                                         \
    do {                                                                                           \
        target_type *const target = (target_type *)base + offset;                                  \
        for (size_t i = 0; i < count; i++) {                                                       \
            const double value = values[i];                                                        \
            target[(int64_t)i * stride] = (expression);                                            \
        }                                                                                          \
    } while (0)

void sim_row_store(cudnnDataType_t type, void *base, int64_t offset, int64_t stride, size_t count,
                   const double *values)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        STORE_ROW(float, (float)value);
        break;
    case CUDNN_DATA_DOUBLE:
        STORE_ROW(double, value);
        break;
    case CUDNN_DATA_HALF:
        STORE_ROW(uint16_t, float_to_half((float)value));
        break;
    case CUDNN_DATA_BFLOAT16:
        STORE_ROW(uint16_t, float_to_bfloat((float)value));
        break;
    default:
        break;
    }
}

void sim_row_round(cudnnDataType_t type, size_t count, double *values)
{
    if (type == CUDNN_DATA_DOUBLE)
        return;
    for (size_t i = 0; i < count; i++) {
        const float value = (float)values[i];
        values[i] = type == CUDNN_DATA_HALF ? (double)half_to_float(float_to_half(value))
                    : type == CUDNN_DATA_BFLOAT16
                        ? (double)float_of_bits((uint32_t)float_to_bfloat(value) << 16)
                        : (double)value;
    }
}

void sim_row_blend(cudnnDataType_t type, void *base, int64_t offset, int64_t stride, size_t count,
                   double alpha, const double *values, double beta, double *scratch)
{
    if (beta == 0.0) {
        for (size_t i = 0; i < count; i++)
            scratch[i] = alpha * values[i];
    } else {
        sim_row_load(type, base, offset, stride, count, scratch);
        for (size_t i = 0; i < count; i++)
            scratch[i] = alpha * values[i] + beta * scratch[i];
    }
    sim_row_store(type, base, offset, stride, count, scratch);
}

uint64_t sim_tensor_span(int dim_count, const int *dims, const int *strides)
{
    uint64_t last = 0;
    for (int i = 0; i < dim_count; i++)
        last += (uint64_t)(dims[i] - 1) * (uint64_t)strides[i];
    return last + 1;
}

uint64_t sim_tensor_elements(int dim_count, const int *dims)
{
    uint64_t elements = 1;
    for (int i = 0; i < dim_count; i++)
        elements *= (uint64_t)dims[i];
    return elements;
}

uint64_t sim_tensor_bytes(const struct cudnnTensorStruct *tensor)
{
    return sim_tensor_span(tensor->dim_count, tensor->dims, tensor->strides) *
           sim_type_bytes(tensor->type);
}

double sim_scaling(const void *value, cudnnDataType_t type)
{
    return type == CUDNN_DATA_DOUBLE ? *(const double *)value : (double)*(const float *)value;
}

void sim_activate(cudnnActivationMode_t mode, double coefficient, double swish_beta, size_t count,
                  double *values)
{
    if (mode == CUDNN_ACTIVATION_IDENTITY)
        return;
    for (size_t i = 0; i < count; i++) {
        const double x = values[i];
        switch (mode) {
        case CUDNN_ACTIVATION_SIGMOID:
            values[i] = 1.0 / (1.0 + exp(-x));
            break;
        case CUDNN_ACTIVATION_RELU:
            values[i] = x > 0.0 ? x : x * 0.0;
            break; /* NaN stays NaN */
        case CUDNN_ACTIVATION_TANH:
            values[i] = tanh(x);
            break;
        case CUDNN_ACTIVATION_CLIPPED_RELU:
            values[i] = fmin(fmax(x, 0.0), coefficient);
            break;
        case CUDNN_ACTIVATION_ELU:
            values[i] = x > 0.0 ? x : coefficient * expm1(x);
            break;
        case CUDNN_ACTIVATION_SWISH:
            values[i] = x / (1.0 + exp(-swish_beta * x));
            break;
        default:
            break;
        }
    }
}
