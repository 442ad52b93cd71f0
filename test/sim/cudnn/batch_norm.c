/* libcudnn_ops.so.9: batch normalization, spatial and per activation. A feature is what one scale
 * belongs to: a channel, or one activation of an image. A kernel treats one feature at a time. */
#include <math.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

enum { MAX_D = 5 };

typedef struct bn_tensor {
    int32_t type;
    int32_t strides[MAX_D];
} bn_tensor_t;

typedef struct bn_arguments {
    int32_t per_activation;
    int32_t dims[MAX_D];           /* n c d h w */
    bn_tensor_t x, dy, out, scale; /* out: y or dx; scale: all parameters */
    double alpha, beta, alpha_scale, beta_scale, epsilon, factor;
} bn_arguments_t;

static int64_t positions(const bn_arguments_t *arguments)
{
    return (int64_t)arguments->dims[2] * arguments->dims[3] * arguments->dims[4];
}

static int64_t features(const bn_arguments_t *arguments)
{
    return arguments->dims[1] * (arguments->per_activation ? positions(arguments) : 1);
}

/* Elements of one feature. */
static size_t feature_elements(const bn_arguments_t *arguments)
{
    return (size_t)(arguments->dims[0] * (arguments->per_activation ? 1 : positions(arguments)));
}

static int64_t position_offset(const bn_arguments_t *arguments, const bn_tensor_t *tensor,
                               int64_t at)
{
    const int64_t w = at % arguments->dims[4], dh = at / arguments->dims[4];
    return dh / arguments->dims[3] * tensor->strides[2] +
           dh % arguments->dims[3] * tensor->strides[3] + w * tensor->strides[4];
}

static int64_t feature_offset(const bn_arguments_t *arguments, const bn_tensor_t *tensor, int64_t f)
{
    if (!arguments->per_activation)
        return f * tensor->strides[1];
    const int64_t plane = positions(arguments);
    return f / plane * tensor->strides[1] + position_offset(arguments, tensor, f % plane);
}

typedef void (*row_t)(cudnnDataType_t type, void *memory, int64_t offset, int64_t stride,
                      size_t count, double *values, const bn_arguments_t *arguments);

static void load_row(cudnnDataType_t type, void *memory, int64_t offset, int64_t stride,
                     size_t count, double *values, const bn_arguments_t *arguments)
{
    (void)arguments;
    sim_row_load(type, memory, offset, stride, count, values);
}

static void blend_row(cudnnDataType_t type, void *memory, int64_t offset, int64_t stride,
                      size_t count, double *values, const bn_arguments_t *arguments)
{
    double *const scratch = sim_cudnn_scratch(SIM_SCRATCH_C, count * sizeof *scratch);
    sim_row_blend(type, memory, offset, stride, count, arguments->alpha, values, arguments->beta,
                  scratch);
}

/* Every row of feature `f`, with its part of `values`. */
static void feature_rows(const bn_arguments_t *arguments, const bn_tensor_t *tensor, void *memory,
                         int64_t f, double *values, row_t row)
{
    const cudnnDataType_t type = (cudnnDataType_t)tensor->type;
    const int64_t base = feature_offset(arguments, tensor, f);
    if (arguments->per_activation) {
        row(type, memory, base, tensor->strides[0], (size_t)arguments->dims[0], values, arguments);
        return;
    }
    const int64_t width = arguments->dims[4], rows = positions(arguments) / width;
    for (int64_t n = 0; n < arguments->dims[0]; n++)
        for (int64_t r = 0; r < rows; r++, values += width)
            row(type, memory,
                base + n * tensor->strides[0] + position_offset(arguments, tensor, r * width),
                tensor->strides[4], (size_t)width, values, arguments);
}

static double load_parameter(const bn_arguments_t *arguments, const void *memory, int64_t f)
{
    double value;
    sim_row_load((cudnnDataType_t)arguments->scale.type, memory,
                 feature_offset(arguments, &arguments->scale, f), 1, 1, &value);
    return value;
}

/* old * keep + value * weight; a keep of 0 does not read. */
static void store_parameter(const bn_arguments_t *arguments, void *memory, int64_t f, double weight,
                            double value, double keep)
{
    double scratch;
    sim_row_blend((cudnnDataType_t)arguments->scale.type, memory,
                  feature_offset(arguments, &arguments->scale, f), 1, 1, weight, &value, keep,
                  &scratch);
}

typedef struct statistics {
    double mean, variance, inverse; /* of the population; inverse: 1 / sqrt(variance + epsilon) */
} statistics_t;

static statistics_t measure(const double *values, size_t count, double epsilon)
{
    statistics_t s = {0};
    for (size_t i = 0; i < count; i++)
        s.mean += values[i];
    s.mean /= (double)count;
    for (size_t i = 0; i < count; i++)
        s.variance += (values[i] - s.mean) * (values[i] - s.mean);
    s.variance /= (double)count;
    s.inverse = 1.0 / sqrt(s.variance + epsilon);
    return s;
}

static void *tensor_memory(const bn_arguments_t *arguments, const bn_tensor_t *tensor,
                           const void *parameter)
{
    void *const address = *(void *const *)parameter;
    if (!address)
        return NULL;
    return sim_cudnn_memory(address, sim_tensor_span(MAX_D, arguments->dims, tensor->strides) *
                                         sim_type_bytes((cudnnDataType_t)tensor->type));
}

static void *parameter_memory(const bn_arguments_t *arguments, const void *parameter)
{
    void *const address = *(void *const *)parameter;
    const uint64_t last =
        (uint64_t)feature_offset(arguments, &arguments->scale, features(arguments) - 1);
    if (!address)
        return NULL;
    return sim_cudnn_memory(address,
                            (last + 1) * sim_type_bytes((cudnnDataType_t)arguments->scale.type));
}

static void normalize(double *values, size_t count, double mean, double inverse, double scale,
                      double bias)
{
    for (size_t i = 0; i < count; i++)
        values[i] = scale * (values[i] - mean) * inverse + bias;
}

/* x, y, scale, bias, running mean, running variance, saved mean, saved inverse, arguments */
static void run_training(void *const *parameters)
{
    const bn_arguments_t *const arguments = parameters[8];
    void *const x = tensor_memory(arguments, &arguments->x, parameters[0]);
    void *const y = tensor_memory(arguments, &arguments->out, parameters[1]);
    void *vectors[6];
    for (int i = 0; i < 6; i++)
        vectors[i] = parameter_memory(arguments, parameters[2 + i]);
    if (!x || !y || !vectors[0] || !vectors[1])
        return;
    const size_t count = feature_elements(arguments);
    const double keep = 1.0 - arguments->factor;
    double *const values = sim_cudnn_scratch(SIM_SCRATCH_A, count * sizeof *values);
    for (int64_t f = 0; f < features(arguments); f++) {
        feature_rows(arguments, &arguments->x, x, f, values, load_row);
        const statistics_t s = measure(values, count, arguments->epsilon);
        const double unbiased =
            count > 1 ? s.variance * (double)count / (double)(count - 1) : s.variance;
        if (vectors[2] && vectors[3]) {
            store_parameter(arguments, vectors[2], f, arguments->factor, s.mean, keep);
            store_parameter(arguments, vectors[3], f, arguments->factor, unbiased, keep);
        }
        if (vectors[4] && vectors[5]) {
            store_parameter(arguments, vectors[4], f, 1.0, s.mean, 0.0);
            store_parameter(arguments, vectors[5], f, 1.0, s.inverse, 0.0);
        }
        normalize(values, count, s.mean, s.inverse, load_parameter(arguments, vectors[0], f),
                  load_parameter(arguments, vectors[1], f));
        feature_rows(arguments, &arguments->out, y, f, values, blend_row);
    }
}

/* x, y, scale, bias, mean, variance, arguments */
static void run_inference(void *const *parameters)
{
    const bn_arguments_t *const arguments = parameters[6];
    void *const x = tensor_memory(arguments, &arguments->x, parameters[0]);
    void *const y = tensor_memory(arguments, &arguments->out, parameters[1]);
    void *vectors[4];
    for (int i = 0; i < 4; i++)
        if (!(vectors[i] = parameter_memory(arguments, parameters[2 + i])))
            return;
    if (!x || !y)
        return;
    const size_t count = feature_elements(arguments);
    double *const values = sim_cudnn_scratch(SIM_SCRATCH_A, count * sizeof *values);
    for (int64_t f = 0; f < features(arguments); f++) {
        feature_rows(arguments, &arguments->x, x, f, values, load_row);
        normalize(values, count, load_parameter(arguments, vectors[2], f),
                  1.0 / sqrt(load_parameter(arguments, vectors[3], f) + arguments->epsilon),
                  load_parameter(arguments, vectors[0], f),
                  load_parameter(arguments, vectors[1], f));
        feature_rows(arguments, &arguments->out, y, f, values, blend_row);
    }
}

/* Turns x into dx in place and gives the sums for the parameters. */
static void backward_feature(double *x, const double *dy, size_t count, double mean, double inverse,
                             double scale, double *scale_slope, double *bias_slope)
{
    *scale_slope = *bias_slope = 0.0;
    for (size_t i = 0; i < count; i++) {
        *bias_slope += dy[i];
        *scale_slope += dy[i] * (x[i] - mean) * inverse;
    }
    for (size_t i = 0; i < count; i++)
        x[i] = scale * inverse *
               (dy[i] - (*bias_slope + (x[i] - mean) * inverse * *scale_slope) / (double)count);
}

/* x, dy, dx, scale, scale slope, bias slope, saved mean, saved inverse, arguments */
static void run_backward(void *const *parameters)
{
    const bn_arguments_t *const arguments = parameters[8];
    void *const x = tensor_memory(arguments, &arguments->x, parameters[0]);
    void *const dy = tensor_memory(arguments, &arguments->dy, parameters[1]);
    void *const dx = tensor_memory(arguments, &arguments->out, parameters[2]);
    void *vectors[5];
    for (int i = 0; i < 5; i++)
        vectors[i] = parameter_memory(arguments, parameters[3 + i]);
    if (!x || !dy || !dx || !vectors[0] || !vectors[1] || !vectors[2])
        return;
    const size_t count = feature_elements(arguments);
    double *const values = sim_cudnn_scratch(SIM_SCRATCH_A, count * sizeof *values);
    double *const slopes = sim_cudnn_scratch(SIM_SCRATCH_B, count * sizeof *slopes);
    for (int64_t f = 0; f < features(arguments); f++) {
        feature_rows(arguments, &arguments->x, x, f, values, load_row);
        feature_rows(arguments, &arguments->dy, dy, f, slopes, load_row);
        statistics_t s = measure(values, count, arguments->epsilon);
        if (vectors[3] && vectors[4]) {
            s.mean = load_parameter(arguments, vectors[3], f);
            s.inverse = load_parameter(arguments, vectors[4], f);
        }
        double scale_slope, bias_slope;
        backward_feature(values, slopes, count, s.mean, s.inverse,
                         load_parameter(arguments, vectors[0], f), &scale_slope, &bias_slope);
        feature_rows(arguments, &arguments->out, dx, f, values, blend_row);
        store_parameter(arguments, vectors[1], f, arguments->alpha_scale, scale_slope,
                        arguments->beta_scale);
        store_parameter(arguments, vectors[2], f, arguments->alpha_scale, bias_slope,
                        arguments->beta_scale);
    }
}

enum { BYTES = sizeof(bn_arguments_t) };
static const sim_kernel_parameter_t eight_pointers[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, BYTES}};
static const sim_kernel_parameter_t six_pointers[] = {{0, 8},  {8, 8},  {16, 8},    {24, 8},
                                                      {32, 8}, {40, 8}, {48, BYTES}};
static const sim_kernel_t training_kernel = {"cudnn_sim_bn_training", 9, eight_pointers,
                                             run_training};
static const sim_kernel_t inference_kernel = {"cudnn_sim_bn_inference", 7, six_pointers,
                                              run_inference};
static const sim_kernel_t backward_kernel = {"cudnn_sim_bn_backward", 9, eight_pointers,
                                             run_backward};

static cudnnDataType_t parameter_type(cudnnDataType_t data)
{
    return data == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/* 4-D tensors get a depth of 1. Strides of dimensions of 1 are never used. */
static void widen(const struct cudnnTensorStruct *tensor, bn_tensor_t *out)
{
    const int missing = MAX_D - tensor->dim_count;
    out->type = (int32_t)tensor->type;
    for (int i = 0; i < MAX_D; i++)
        out->strides[i] = missing && i == 2 ? 1 : tensor->strides[i <= 1 ? i : i - missing];
}

static cudnnStatus_t set_data(bn_arguments_t *arguments, bn_tensor_t *out,
                              const struct cudnnTensorStruct *tensor)
{
    SIM_CUDNN_REQUIRE(tensor && (tensor->dim_count == 4 || tensor->dim_count == 5),
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_is_floating(tensor->type), CUDNN_STATUS_NOT_SUPPORTED);
    const int missing = MAX_D - tensor->dim_count;
    int32_t dims[MAX_D];
    for (int i = 0; i < MAX_D; i++)
        dims[i] = missing && i == 2 ? 1 : tensor->dims[i <= 1 ? i : i - missing];
    if (!arguments->dims[0])
        memcpy(arguments->dims, dims, sizeof dims);
    SIM_CUDNN_REQUIRE(!memcmp(arguments->dims, dims, sizeof dims), CUDNN_STATUS_BAD_PARAM);
    widen(tensor, out);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_arguments(bn_arguments_t *arguments, cudnnHandle_t handle,
                                   cudnnBatchNormMode_t mode, const struct cudnnTensorStruct *x,
                                   const struct cudnnTensorStruct *out,
                                   const struct cudnnTensorStruct *scale, double epsilon)
{
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && epsilon >= CUDNN_BN_MIN_EPSILON,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE((unsigned)mode <= CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_STATUS_BAD_PARAM);
    *arguments = (bn_arguments_t){.per_activation = mode == CUDNN_BATCHNORM_PER_ACTIVATION,
                                  .epsilon = epsilon};
    SIM_CUDNN_TRY(set_data(arguments, &arguments->x, x));
    SIM_CUDNN_TRY(set_data(arguments, &arguments->out, out));
    SIM_CUDNN_REQUIRE(scale && scale->dim_count == x->dim_count &&
                          scale->type == parameter_type(x->type),
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < scale->dim_count; i++)
        SIM_CUDNN_REQUIRE(scale->dims[i] ==
                              (i == 1 || (i > 1 && arguments->per_activation) ? x->dims[i] : 1),
                          CUDNN_STATUS_BAD_PARAM);
    widen(scale, &arguments->scale);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derivedBnDesc,
                                                        const cudnnTensorDescriptor_t xDesc,
                                                        cudnnBatchNormMode_t mode)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(xDesc && xDesc->dim_count, CUDNN_STATUS_BAD_PARAM);
    int dims[SIM_DIMS];
    for (int i = 0; i < xDesc->dim_count; i++)
        dims[i] = i == 1 || (i > 1 && mode == CUDNN_BATCHNORM_PER_ACTIVATION) ? xDesc->dims[i] : 1;
    return cudnnSetTensorNdDescriptorEx(derivedBnDesc, CUDNN_TENSOR_NCHW,
                                        parameter_type(xDesc->type), xDesc->dim_count, dims);
}

cudnnStatus_t CUDNNWINAPI cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t xDesc, const void *x, const cudnnTensorDescriptor_t yDesc,
    void *y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void *bnScale,
    const void *bnBias, double exponentialAverageFactor, void *resultRunningMean,
    void *resultRunningVariance, double epsilon, void *resultSaveMean, void *resultSaveInvVariance)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(alpha && beta && x && y && bnScale && bnBias, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(!resultRunningMean == !resultRunningVariance &&
                          !resultSaveMean == !resultSaveInvVariance,
                      CUDNN_STATUS_BAD_PARAM);
    bn_arguments_t arguments;
    SIM_CUDNN_TRY(
        set_arguments(&arguments, handle, mode, xDesc, yDesc, bnScaleBiasMeanVarDesc, epsilon));
    arguments.alpha = sim_scaling(alpha, xDesc->type);
    arguments.beta = sim_scaling(beta, xDesc->type);
    arguments.factor = exponentialAverageFactor;
    void *parameters[] = {&x,
                          &y,
                          &bnScale,
                          &bnBias,
                          &resultRunningMean,
                          &resultRunningVariance,
                          &resultSaveMean,
                          &resultSaveInvVariance,
                          &arguments};
    return sim_cudnn_launch(
        handle, &training_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 3.0 * (double)sim_tensor_bytes(xDesc)));
}

cudnnStatus_t CUDNNWINAPI cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t xDesc, const void *x, const cudnnTensorDescriptor_t yDesc,
    void *y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void *bnScale,
    const void *bnBias, const void *estimatedMean, const void *estimatedVariance, double epsilon)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(alpha && beta && x && y && bnScale && bnBias && estimatedMean &&
                          estimatedVariance,
                      CUDNN_STATUS_BAD_PARAM);
    bn_arguments_t arguments;
    SIM_CUDNN_TRY(
        set_arguments(&arguments, handle, mode, xDesc, yDesc, bnScaleBiasMeanVarDesc, epsilon));
    arguments.alpha = sim_scaling(alpha, xDesc->type);
    arguments.beta = sim_scaling(beta, xDesc->type);
    void *parameters[] = {&x,        &y, &bnScale, &bnBias, &estimatedMean, &estimatedVariance,
                          &arguments};
    return sim_cudnn_launch(
        handle, &inference_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 2.0 * (double)sim_tensor_bytes(xDesc)));
}

cudnnStatus_t CUDNNWINAPI cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alphaDataDiff,
    const void *betaDataDiff, const void *alphaParamDiff, const void *betaParamDiff,
    const cudnnTensorDescriptor_t xDesc, const void *x, const cudnnTensorDescriptor_t dyDesc,
    const void *dy, const cudnnTensorDescriptor_t dxDesc, void *dx,
    const cudnnTensorDescriptor_t dBnScaleBiasDesc, const void *bnScale, void *dBnScaleResult,
    void *dBnBiasResult, double epsilon, const void *savedMean, const void *savedInvVariance)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(alphaDataDiff && betaDataDiff && alphaParamDiff && betaParamDiff && x && dy &&
                          dx && bnScale && dBnScaleResult && dBnBiasResult,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(!savedMean == !savedInvVariance, CUDNN_STATUS_BAD_PARAM);
    bn_arguments_t arguments;
    SIM_CUDNN_TRY(
        set_arguments(&arguments, handle, mode, xDesc, dxDesc, dBnScaleBiasDesc, epsilon));
    SIM_CUDNN_TRY(set_data(&arguments, &arguments.dy, dyDesc));
    arguments.alpha = sim_scaling(alphaDataDiff, xDesc->type);
    arguments.beta = sim_scaling(betaDataDiff, xDesc->type);
    arguments.alpha_scale = sim_scaling(alphaParamDiff, xDesc->type);
    arguments.beta_scale = sim_scaling(betaParamDiff, xDesc->type);
    void *parameters[] = {&x,
                          &dy,
                          &dx,
                          &bnScale,
                          &dBnScaleResult,
                          &dBnBiasResult,
                          &savedMean,
                          &savedInvVariance,
                          &arguments};
    return sim_cudnn_launch(
        handle, &backward_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 5.0 * (double)sim_tensor_bytes(xDesc)));
}
