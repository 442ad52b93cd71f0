/* libcudnn_ops.so.9: softmax. A kernel treats one vector at a time: all of an image (INSTANCE) or
 * the channels of one position (CHANNEL). */
#include <math.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

enum { MIN_DIMS = 4 };

typedef struct softmax_tensor {
    int32_t type;
    int32_t strides[SIM_DIMS];
} softmax_tensor_t;

typedef struct softmax_arguments {
    int32_t algorithm, mode, dim_count;
    int32_t dims[SIM_DIMS];
    softmax_tensor_t in, in2, out; /* forward: x, -, y; backward: y, dy, dx */
    double alpha, beta;
} softmax_arguments_t;

/* Positions in the dimensions from `first` on. */
static uint64_t positions(const softmax_arguments_t *arguments, int first)
{
    return sim_tensor_elements(arguments->dim_count - first, arguments->dims + first);
}

static int64_t position_offset(const softmax_arguments_t *arguments, const softmax_tensor_t *tensor,
                               int first, uint64_t position)
{
    int64_t offset = 0;
    for (int d = arguments->dim_count - 1; d >= first; d--) {
        const uint64_t extent = (uint64_t)arguments->dims[d];
        offset += (int64_t)(position % extent) * tensor->strides[d];
        position /= extent;
    }
    return offset;
}

/* Vectors are gathered element by element: image `n`, and position `at` with its channels, or all.
 */
static int64_t element_offset(const softmax_arguments_t *arguments, const softmax_tensor_t *tensor,
                              int n, uint64_t at, uint64_t element)
{
    const int64_t image = (int64_t)n * tensor->strides[0];
    if (arguments->mode == CUDNN_SOFTMAX_MODE_INSTANCE)
        return image + position_offset(arguments, tensor, 1, element);
    return image + position_offset(arguments, tensor, 2, at) +
           (int64_t)element * tensor->strides[1];
}

static void gather(const softmax_arguments_t *arguments, const softmax_tensor_t *tensor,
                   const void *memory, int n, uint64_t at, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        sim_row_load((cudnnDataType_t)tensor->type, memory,
                     element_offset(arguments, tensor, n, at, i), 1, 1, &out[i]);
}

static void forward_vector(int algorithm, size_t count, double *v)
{
    double top = 0.0, sum = 0.0;
    if (algorithm != CUDNN_SOFTMAX_FAST) {
        top = v[0];
        for (size_t i = 1; i < count; i++)
            top = fmax(top, v[i]);
    }
    for (size_t i = 0; i < count; i++)
        sum += exp(v[i] - top);
    for (size_t i = 0; i < count; i++)
        v[i] = algorithm == CUDNN_SOFTMAX_LOG ? v[i] - top - log(sum) : exp(v[i] - top) / sum;
}

static void backward_vector(int algorithm, size_t count, double *y, const double *dy)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += algorithm == CUDNN_SOFTMAX_LOG ? dy[i] : dy[i] * y[i];
    for (size_t i = 0; i < count; i++)
        y[i] = algorithm == CUDNN_SOFTMAX_LOG ? dy[i] - exp(y[i]) * sum : y[i] * (dy[i] - sum);
}

static void *tensor_memory(const softmax_arguments_t *arguments, const softmax_tensor_t *tensor,
                           const void *parameter)
{
    return sim_cudnn_memory(
        *(void *const *)parameter,
        sim_tensor_span(arguments->dim_count, arguments->dims, tensor->strides) *
            sim_type_bytes((cudnnDataType_t)tensor->type));
}

static void run_vectors(const softmax_arguments_t *arguments, const void *in, const void *in2,
                        void *out)
{
    const bool instance = arguments->mode == CUDNN_SOFTMAX_MODE_INSTANCE;
    const size_t count = instance ? positions(arguments, 1) : (size_t)arguments->dims[1];
    const uint64_t vectors = instance ? 1 : positions(arguments, 2);
    double *const v = sim_cudnn_scratch(SIM_SCRATCH_A, count * sizeof *v);
    double *const slope = sim_cudnn_scratch(SIM_SCRATCH_B, count * sizeof *slope);
    for (int n = 0; n < arguments->dims[0]; n++)
        for (uint64_t at = 0; at < vectors; at++) {
            gather(arguments, &arguments->in, in, n, at, count, v);
            if (in2) {
                gather(arguments, &arguments->in2, in2, n, at, count, slope);
                backward_vector(arguments->algorithm, count, v, slope);
            } else {
                forward_vector(arguments->algorithm, count, v);
            }
            for (size_t i = 0; i < count; i++) {
                double blended;
                sim_row_blend((cudnnDataType_t)arguments->out.type, out,
                              element_offset(arguments, &arguments->out, n, at, i), 1, 1,
                              arguments->alpha, &v[i], arguments->beta, &blended);
            }
        }
}

static void run_softmax_forward(void *const *parameters)
{
    const softmax_arguments_t *const arguments = parameters[2];
    const void *const x = tensor_memory(arguments, &arguments->in, parameters[0]);
    void *const y = tensor_memory(arguments, &arguments->out, parameters[1]);
    if (x && y)
        run_vectors(arguments, x, NULL, y);
}

static void run_softmax_backward(void *const *parameters)
{
    const softmax_arguments_t *const arguments = parameters[3];
    const void *const y = tensor_memory(arguments, &arguments->in, parameters[0]);
    const void *const dy = tensor_memory(arguments, &arguments->in2, parameters[1]);
    void *const dx = tensor_memory(arguments, &arguments->out, parameters[2]);
    if (y && dy && dx)
        run_vectors(arguments, y, dy, dx);
}

enum { ARGUMENTS_BYTES = sizeof(softmax_arguments_t) };
static const sim_kernel_parameter_t forward_parameters[] = {{0, 8}, {8, 8}, {16, ARGUMENTS_BYTES}};
static const sim_kernel_parameter_t backward_parameters[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, ARGUMENTS_BYTES}};
static const sim_kernel_t forward_kernel = {"cudnn_sim_softmax_forward", 3, forward_parameters,
                                            run_softmax_forward};
static const sim_kernel_t backward_kernel = {"cudnn_sim_softmax_backward", 4, backward_parameters,
                                             run_softmax_backward};

static cudnnStatus_t set_tensor(softmax_arguments_t *arguments, softmax_tensor_t *target,
                                const struct cudnnTensorStruct *tensor)
{
    SIM_CUDNN_REQUIRE(tensor, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensor->dim_count >= MIN_DIMS, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_is_floating(tensor->type), CUDNN_STATUS_NOT_SUPPORTED);
    if (!arguments->dim_count) {
        arguments->dim_count = tensor->dim_count;
        memcpy(arguments->dims, tensor->dims, sizeof arguments->dims);
    }
    SIM_CUDNN_REQUIRE(tensor->dim_count == arguments->dim_count &&
                          !memcmp(tensor->dims, arguments->dims,
                                  (size_t)tensor->dim_count * sizeof *tensor->dims),
                      CUDNN_STATUS_BAD_PARAM);
    target->type = (int32_t)tensor->type;
    memcpy(target->strides, tensor->strides, sizeof target->strides);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_arguments(softmax_arguments_t *arguments,
                                   cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                                   const void *alpha, const void *beta,
                                   const struct cudnnTensorStruct *out)
{
    SIM_CUDNN_REQUIRE(alpha && beta && out, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE((unsigned)algorithm <= CUDNN_SOFTMAX_LOG &&
                          (unsigned)mode <= CUDNN_SOFTMAX_MODE_CHANNEL,
                      CUDNN_STATUS_BAD_PARAM);
    arguments->algorithm = (int32_t)algorithm;
    arguments->mode = (int32_t)mode;
    arguments->alpha = sim_scaling(alpha, out->type);
    arguments->beta = sim_scaling(beta, out->type);
    return set_tensor(arguments, &arguments->out, out);
}

cudnnStatus_t CUDNNWINAPI cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
                                              cudnnSoftmaxMode_t mode, const void *alpha,
                                              const cudnnTensorDescriptor_t xDesc, const void *x,
                                              const void *beta, const cudnnTensorDescriptor_t yDesc,
                                              void *y)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && x && y, CUDNN_STATUS_BAD_PARAM);
    softmax_arguments_t arguments = {0};
    SIM_CUDNN_TRY(set_arguments(&arguments, algo, mode, alpha, beta, yDesc));
    SIM_CUDNN_TRY(set_tensor(&arguments, &arguments.in, xDesc));
    void *parameters[] = {&x, &y, &arguments};
    return sim_cudnn_launch(
        handle, &forward_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 2.0 * (double)sim_tensor_bytes(yDesc)));
}

cudnnStatus_t CUDNNWINAPI cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
                                               cudnnSoftmaxMode_t mode, const void *alpha,
                                               const cudnnTensorDescriptor_t yDesc, const void *y,
                                               const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                               const void *beta,
                                               const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && y && dy && dx, CUDNN_STATUS_BAD_PARAM);
    softmax_arguments_t arguments = {0};
    SIM_CUDNN_TRY(set_arguments(&arguments, algo, mode, alpha, beta, dxDesc));
    SIM_CUDNN_TRY(set_tensor(&arguments, &arguments.in, yDesc));
    SIM_CUDNN_TRY(set_tensor(&arguments, &arguments.in2, dyDesc));
    void *parameters[] = {&y, &dy, &dx, &arguments};
    return sim_cudnn_launch(
        handle, &backward_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 3.0 * (double)sim_tensor_bytes(dxDesc)));
}
