/* The pointwise operations that may follow a convolution in the backend API, on rows of doubles. */
#include <math.h>

#include "test/sim/cudnn/conv.h"

/* Two operands, already scaled. */
static double combine(int32_t mode, double a, double b)
{
    switch ((cudnnPointwiseMode_t)mode) {
    case CUDNN_POINTWISE_ADD:
        return a + b;
    case CUDNN_POINTWISE_SUB:
        return a - b;
    case CUDNN_POINTWISE_MUL:
        return a * b;
    case CUDNN_POINTWISE_MAX:
        return a > b || isnan(a) ? a : b;
    default:
        return a < b || isnan(a) ? a : b; /* CUDNN_POINTWISE_MIN */
    }
}

static double relu(const sim_conv_step_t *step, double x)
{
    if (x < step->lower_clip)
        return step->lower_clip + step->lower_slope * (x - step->lower_clip);
    return x > step->upper_clip ? step->upper_clip : x; /* NaN stays NaN */
}

static double apply(const sim_conv_step_t *step, double x)
{
    switch ((cudnnPointwiseMode_t)step->mode) {
    case CUDNN_POINTWISE_RELU_FWD:
        return relu(step, x);
    case CUDNN_POINTWISE_TANH_FWD:
        return tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return 1.0 / (1.0 + exp(-x));
    case CUDNN_POINTWISE_ELU_FWD:
        return x > 0.0 ? x : step->elu_alpha * expm1(x);
    case CUDNN_POINTWISE_GELU_FWD:
        return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    case CUDNN_POINTWISE_SWISH_FWD:
        return x / (1.0 + exp(-step->swish_beta * x));
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_ABS:
        return fabs(x);
    case CUDNN_POINTWISE_NEG:
        return -x;
    default:
        return x; /* CUDNN_POINTWISE_IDENTITY */
    }
}

void sim_conv_step(const sim_conv_step_t *step, size_t count, const double *operand, double *values)
{
    for (size_t i = 0; i < count; i++) {
        const double scaled = step->alpha1 * values[i];
        values[i] = step->operand >= 0 ? combine(step->mode, scaled, step->alpha2 * operand[i])
                                       : apply(step, scaled);
    }
    sim_row_round((cudnnDataType_t)step->rounding, count, values);
}
