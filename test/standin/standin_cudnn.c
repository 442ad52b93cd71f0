/* libcudnn.so.9: descriptors that keep what they are told, and convolutions that advance a clock.
 */
#include <stdlib.h>
#include <string.h>

#include "test/standin/standin.h"

#define STANDIN_FAILURE CUDNN_STATUS_EXECUTION_FAILED

#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { DIMS = 8, ALGOS = 3, DIRECTIONS = 3 };
enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER };

struct cudnnContext {
    cudaStream_t stream;
};

/* Tensor or filter. */
struct cudnnTensorStruct {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int count, dims[DIMS], strides[DIMS];
};

struct cudnnFilterStruct {
    struct cudnnTensorStruct shape;
};

struct cudnnConvolutionStruct {
    int count, pad[DIMS], stride[DIMS], dilation[DIMS], groups;
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute_type;
    cudnnMathType_t math_type;
    cudnnReorderType_t reorder;
};

struct cudnnActivationStruct {
    cudnnActivationMode_t mode;
    cudnnNanPropagation_t nan;
    double coefficient;
};

/* What an algorithm costs. Per direction one is slow without workspace, one fast with 1 MiB an
 * image, and in the backward directions one is fastest but not deterministic. */
static const struct model {
    double image_us;
    size_t image_bytes;
    int most_images; /* more are not supported */
    int deterministic;
} models[DIRECTIONS][ALGOS] = {
    [FORWARD] = {{4, 0, 1 << 30, 1}, {1, 1 << 20, 128, 1}, {8, 0, 1 << 30, 1}},
    [BACKWARD_DATA] = {{0.5, 0, 1 << 30, 0}, {1, 1 << 20, 128, 1}, {4, 0, 1 << 30, 1}},
    [BACKWARD_FILTER] = {{0.5, 0, 1 << 30, 0}, {1, 1 << 20, 128, 1}, {4, 0, 1 << 30, 1}},
};
static const double launch_us = 1;

size_t CUDNNWINAPI cudnnGetVersion(void)
{
    STANDIN_COUNT(cudnnGetVersion);
    return CUDNN_VERSION;
}

#define CREATE(name, type)                                                                         \
    cudnnStatus_t CUDNNWINAPI name(type *made)                                                     \
    {                                                                                              \
        *made = calloc(1, sizeof **made);                                                          \
        return *made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;  \
    }
#define DESTROY(name, type)                                                                        \
    cudnnStatus_t CUDNNWINAPI name(type made)                                                      \
    {                                                                                              \
        free(made);                                                                                \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }
CREATE(cudnnCreate, cudnnHandle_t)
DESTROY(cudnnDestroy, cudnnHandle_t)
CREATE(cudnnCreateFilterDescriptor, cudnnFilterDescriptor_t)
DESTROY(cudnnDestroyFilterDescriptor, cudnnFilterDescriptor_t)
CREATE(cudnnCreateActivationDescriptor, cudnnActivationDescriptor_t)
DESTROY(cudnnDestroyActivationDescriptor, cudnnActivationDescriptor_t)

cudnnStatus_t CUDNNWINAPI cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *made)
{
    STANDIN_CALL(cudnnCreateTensorDescriptor);
    *made = calloc(1, sizeof **made);
    return *made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor)
{
    free(descriptor); /* even if it is said to fail */
    STANDIN_CALL(cudnnDestroyTensorDescriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *made)
{
    STANDIN_CALL(cudnnCreateConvolutionDescriptor);
    *made = calloc(1, sizeof **made);
    return *made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor)
{
    free(descriptor); /* even if it is said to fail */
    STANDIN_CALL(cudnnDestroyConvolutionDescriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    STANDIN_CALL(cudnnSetStream);
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    STANDIN_CALL(cudnnGetStream);
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                                     cudnnDataType_t type, int count,
                                                     const int dims[], const int strides[])
{
    STANDIN_CALL(cudnnSetTensorNdDescriptor);
    descriptor->type = type;
    descriptor->count = count;
    memcpy(descriptor->dims, dims, (size_t)count * sizeof *dims);
    memcpy(descriptor->strides, strides, (size_t)count * sizeof *strides);
    return CUDNN_STATUS_SUCCESS;
}

static void read_ints(int *to, const int *from, int count)
{
    for (int i = 0; to && i < count; i++)
        to[i] = from[i];
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor,
                                                     int wanted, cudnnDataType_t *type, int *count,
                                                     int dims[], int strides[])
{
    STANDIN_CALL(cudnnGetTensorNdDescriptor);
    const int given = wanted < descriptor->count ? wanted : descriptor->count;
    *type = descriptor->type;
    *count = descriptor->count;
    read_ints(dims, descriptor->dims, given);
    read_ints(strides, descriptor->strides, given);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                                     cudnnDataType_t type,
                                                     cudnnTensorFormat_t format, int count,
                                                     const int dims[])
{
    descriptor->shape.type = type;
    descriptor->shape.format = format;
    descriptor->shape.count = count;
    memcpy(descriptor->shape.dims, dims, (size_t)count * sizeof *dims);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t descriptor,
                                                     int wanted, cudnnDataType_t *type,
                                                     cudnnTensorFormat_t *format, int *count,
                                                     int dims[])
{
    STANDIN_CALL(cudnnGetFilterNdDescriptor);
    *type = descriptor->shape.type;
    *format = descriptor->shape.format;
    *count = descriptor->shape.count;
    read_ints(dims, descriptor->shape.dims, wanted < *count ? wanted : *count);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t descriptor,
                                                          int count, const int pad[],
                                                          const int stride[], const int dilation[],
                                                          cudnnConvolutionMode_t mode,
                                                          cudnnDataType_t compute_type)
{
    STANDIN_CALL(cudnnSetConvolutionNdDescriptor);
    descriptor->count = count;
    descriptor->mode = mode;
    descriptor->compute_type = compute_type;
    descriptor->groups = descriptor->groups ? descriptor->groups : 1;
    read_ints(descriptor->pad, pad, count);
    read_ints(descriptor->stride, stride, count);
    read_ints(descriptor->dilation, dilation, count);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionNdDescriptor(
    const cudnnConvolutionDescriptor_t descriptor, int wanted, int *count, int pad[], int stride[],
    int dilation[], cudnnConvolutionMode_t *mode, cudnnDataType_t *compute_type)
{
    STANDIN_CALL(cudnnGetConvolutionNdDescriptor);
    const int given = wanted < descriptor->count ? wanted : descriptor->count;
    *count = descriptor->count;
    *mode = descriptor->mode;
    *compute_type = descriptor->compute_type;
    read_ints(pad, descriptor->pad, given);
    read_ints(stride, descriptor->stride, given);
    read_ints(dilation, descriptor->dilation, given);
    return CUDNN_STATUS_SUCCESS;
}

#define PROPERTY(title, type, member, setter_type)                                                 \
    cudnnStatus_t CUDNNWINAPI cudnnSetConvolution##title(cudnnConvolutionDescriptor_t descriptor,  \
                                                         setter_type value)                        \
    {                                                                                              \
        STANDIN_CALL(cudnnSetConvolution##title);                                                  \
        descriptor->member = value;                                                                \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }                                                                                              \
    cudnnStatus_t CUDNNWINAPI cudnnGetConvolution##title(cudnnConvolutionDescriptor_t descriptor,  \
                                                         type *value)                              \
    {                                                                                              \
        STANDIN_CALL(cudnnGetConvolution##title);                                                  \
        *value = descriptor->member;                                                               \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }
PROPERTY(MathType, cudnnMathType_t, math_type, cudnnMathType_t)
PROPERTY(GroupCount, int, groups, int)
PROPERTY(ReorderType, cudnnReorderType_t, reorder, cudnnReorderType_t)

cudnnStatus_t CUDNNWINAPI cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                                       cudnnActivationMode_t mode,
                                                       cudnnNanPropagation_t nan,
                                                       double coefficient)
{
    *descriptor = (struct cudnnActivationStruct){mode, nan, coefficient};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t descriptor,
                                                       cudnnActivationMode_t *mode,
                                                       cudnnNanPropagation_t *nan,
                                                       double *coefficient)
{
    STANDIN_CALL(cudnnGetActivationDescriptor);
    *mode = descriptor->mode;
    *nan = descriptor->nan;
    *coefficient = descriptor->coefficient;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t workspace(int direction, int algo, const cudnnTensorDescriptor_t x_desc,
                               const cudnnTensorDescriptor_t y_desc, size_t *bytes)
{
    if (!bytes || x_desc->dims[0] != y_desc->dims[0])
        return CUDNN_STATUS_BAD_PARAM;
    if (algo < 0 || algo >= ALGOS || x_desc->dims[0] > models[direction][algo].most_images)
        return CUDNN_STATUS_NOT_SUPPORTED;
    *bytes = (size_t)x_desc->dims[0] * models[direction][algo].image_bytes;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t convolve(int direction, int algo, const cudnnTensorDescriptor_t x_desc,
                              const cudnnTensorDescriptor_t y_desc,
                              const cudnnConvolutionDescriptor_t conv_desc, const void *x,
                              const void *scratch, size_t scratch_bytes)
{
    size_t needed;
    const cudnnStatus_t status = workspace(direction, algo, x_desc, y_desc, &needed);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (scratch_bytes < needed || (needed && !scratch))
        return CUDNN_STATUS_BAD_PARAM;
    const int alignment = (uintptr_t)x % 16 ? 1 << __builtin_ctzll((uintptr_t)x) : 16;
    const bool measured = (uintptr_t)x >= STANDIN_SCRATCH && (uintptr_t)x < STANDIN_SCRATCH_END;
    if (!measured && standin.run_count < STANDIN_RUNS)
        standin.runs[standin.run_count++] = (standin_run_t){
            algo, x_desc->dims[0], conv_desc->math_type, alignment, scratch_bytes, x};
    standin.now_us += launch_us + x_desc->dims[0] * models[direction][algo].image_us;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_desc, const void *x,
    const cudnnFilterDescriptor_t w_desc, const void *w,
    const cudnnConvolutionDescriptor_t conv_desc, cudnnConvolutionFwdAlgo_t algo, void *scratch,
    size_t scratch_bytes, const void *beta, const cudnnTensorDescriptor_t y_desc, void *y)
{
    STANDIN_CALL(cudnnConvolutionForward);
    return convolve(FORWARD, (int)algo, x_desc, y_desc, conv_desc, x, scratch, scratch_bytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t w_desc, const void *w,
    const cudnnTensorDescriptor_t y_desc, const void *y,
    const cudnnConvolutionDescriptor_t conv_desc, cudnnConvolutionBwdDataAlgo_t algo, void *scratch,
    size_t scratch_bytes, const void *beta, const cudnnTensorDescriptor_t x_desc, void *x)
{
    STANDIN_CALL(cudnnConvolutionBackwardData);
    return convolve(BACKWARD_DATA, (int)algo, x_desc, y_desc, conv_desc, x, scratch, scratch_bytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_desc, const void *x,
    const cudnnTensorDescriptor_t y_desc, const void *y,
    const cudnnConvolutionDescriptor_t conv_desc, cudnnConvolutionBwdFilterAlgo_t algo,
    void *scratch, size_t scratch_bytes, const void *beta, const cudnnFilterDescriptor_t w_desc,
    void *w)
{
    STANDIN_CALL(cudnnConvolutionBackwardFilter);
    return convolve(BACKWARD_FILTER, (int)algo, x_desc, y_desc, conv_desc, x, scratch,
                    scratch_bytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, const cudnnTensorDescriptor_t x_desc, const void *x,
    const cudnnFilterDescriptor_t w_desc, const void *w,
    const cudnnConvolutionDescriptor_t conv_desc, cudnnConvolutionFwdAlgo_t algo, void *scratch,
    size_t scratch_bytes, const void *alpha2, const cudnnTensorDescriptor_t z_desc, const void *z,
    const cudnnTensorDescriptor_t bias_desc, const void *bias,
    const cudnnActivationDescriptor_t activation_desc, const cudnnTensorDescriptor_t y_desc,
    void *y)
{
    STANDIN_CALL(cudnnConvolutionBiasActivationForward);
    return convolve(FORWARD, (int)algo, x_desc, y_desc, conv_desc, x, scratch, scratch_bytes);
}

/* The three result types have one layout. */
static cudnnStatus_t choose(int direction, const cudnnTensorDescriptor_t x_desc, int requested,
                            int *returned, cudnnConvolutionFwdAlgoPerf_t *results)
{
    if (!returned || !results || requested < 1)
        return CUDNN_STATUS_BAD_PARAM;
    int count = 0;
    for (int algo = 0; algo < ALGOS && count < requested; algo++) {
        const struct model *const model = &models[direction][algo];
        if (x_desc->dims[0] > model->most_images)
            continue;
        const cudnnConvolutionFwdAlgoPerf_t result = {
            .algo = (cudnnConvolutionFwdAlgo_t)algo,
            .status = CUDNN_STATUS_SUCCESS,
            .time = (float)((launch_us + x_desc->dims[0] * model->image_us) / 1000),
            .memory = (size_t)x_desc->dims[0] * model->image_bytes,
            .determinism = model->deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC};
        int at = count++;
        for (; at > 0 && results[at - 1].time > result.time; at--)
            results[at] = results[at - 1];
        results[at] = result;
    }
    *returned = count;
    return CUDNN_STATUS_SUCCESS;
}

/* Calls itself by an exported name, which a preloaded library may have taken. */
static void run_nested(cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc,
                       const cudnnFilterDescriptor_t w_desc,
                       const cudnnConvolutionDescriptor_t conv_desc,
                       const cudnnTensorDescriptor_t y_desc)
{
    const float one = 1, zero = 0;
    const uint64_t before = standin.calls[STANDIN_cudnnGetTensorNdDescriptor];
    if (standin.nested)
        (void)cudnnConvolutionForward(handle, &one, x_desc, &standin, w_desc, &standin, conv_desc,
                                      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero,
                                      y_desc, &standin);
    standin.nested_reads = standin.calls[STANDIN_cudnnGetTensorNdDescriptor] - before;
}

#define PERF(results) (cudnnConvolutionFwdAlgoPerf_t *)(void *)(results)
#define CHOOSERS(title, direction, short_title, PARAMS, PARAMS_EX)                                 \
    cudnnStatus_t CUDNNWINAPI cudnnGetConvolution##title##AlgorithmMaxCount(cudnnHandle_t handle,  \
                                                                            int *count)            \
    {                                                                                              \
        STANDIN_CALL(cudnnGetConvolution##title##AlgorithmMaxCount);                               \
        *count = ALGOS;                                                                            \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }                                                                                              \
    cudnnStatus_t CUDNNWINAPI cudnnGetConvolution##title##Algorithm_v7(                            \
        cudnnHandle_t handle, PARAMS, const int requested, int *returned,                          \
        cudnnConvolution##short_title##AlgoPerf_t *results)                                        \
    {                                                                                              \
        STANDIN_CALL(cudnnGetConvolution##title##Algorithm_v7);                                    \
        return choose(direction, x_desc, requested, returned, PERF(results));                      \
    }                                                                                              \
    cudnnStatus_t CUDNNWINAPI cudnnFindConvolution##title##Algorithm(                              \
        cudnnHandle_t handle, PARAMS, const int requested, int *returned,                          \
        cudnnConvolution##short_title##AlgoPerf_t *results)                                        \
    {                                                                                              \
        STANDIN_CALL(cudnnFindConvolution##title##Algorithm);                                      \
        run_nested(handle, x_desc, w_desc, conv_desc, y_desc);                                     \
        return choose(direction, x_desc, requested, returned, PERF(results));                      \
    }                                                                                              \
    cudnnStatus_t CUDNNWINAPI cudnnFindConvolution##title##AlgorithmEx(                            \
        cudnnHandle_t handle, PARAMS_EX, const int requested, int *returned,                       \
        cudnnConvolution##short_title##AlgoPerf_t *results, void *scratch, size_t scratch_bytes)   \
    {                                                                                              \
        STANDIN_CALL(cudnnFindConvolution##title##AlgorithmEx);                                    \
        return choose(direction, x_desc, requested, returned, PERF(results));                      \
    }                                                                                              \
    cudnnStatus_t CUDNNWINAPI cudnnGetConvolution##title##WorkspaceSize(                           \
        cudnnHandle_t handle, PARAMS, cudnnConvolution##short_title##Algo_t algo, size_t *bytes)   \
    {                                                                                              \
        STANDIN_CALL(cudnnGetConvolution##title##WorkspaceSize);                                   \
        return workspace(direction, (int)algo, x_desc, y_desc, bytes);                             \
    }

#define LIST(...) __VA_ARGS__
#define TENSOR const cudnnTensorDescriptor_t
#define FILTER const cudnnFilterDescriptor_t
#define CONVOLUTION const cudnnConvolutionDescriptor_t
CHOOSERS(Forward, FORWARD, Fwd,
         LIST(TENSOR x_desc, FILTER w_desc, CONVOLUTION conv_desc, TENSOR y_desc),
         LIST(TENSOR x_desc, const void *x, FILTER w_desc, const void *w, CONVOLUTION conv_desc,
              TENSOR y_desc, void *y))
CHOOSERS(BackwardData, BACKWARD_DATA, BwdData,
         LIST(FILTER w_desc, TENSOR y_desc, CONVOLUTION conv_desc, TENSOR x_desc),
         LIST(FILTER w_desc, const void *w, TENSOR y_desc, const void *y, CONVOLUTION conv_desc,
              TENSOR x_desc, void *x))
CHOOSERS(BackwardFilter, BACKWARD_FILTER, BwdFilter,
         LIST(TENSOR x_desc, TENSOR y_desc, CONVOLUTION conv_desc, FILTER w_desc),
         LIST(TENSOR x_desc, const void *x, TENSOR y_desc, const void *y, CONVOLUTION conv_desc,
              FILTER w_desc, void *w))
