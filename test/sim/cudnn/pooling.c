/* libcudnn_ops.so.9: pooling in 2-D and 3-D. A kernel treats one plane (image, channel) at a time.
 */
#include <math.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

enum { D = 5, PLANE = 2 }; /* dimensions n c d h w; the first of a plane */

typedef struct plane {
    int32_t type;
    int32_t dims[D];
    int32_t strides[D];
} plane_t;

typedef struct pooling_arguments {
    int32_t mode, propagate_nan;
    int32_t window[SIM_SPATIAL], pad[SIM_SPATIAL], stride[SIM_SPATIAL];
    plane_t x, y, dy, dx;
    double alpha, beta;
} pooling_arguments_t;

static size_t plane_elements(const plane_t *plane)
{
    return (size_t)plane->dims[2] * (size_t)plane->dims[3] * (size_t)plane->dims[4];
}

static int64_t row_offset(const plane_t *tensor, int n, int c, int d, int h)
{
    return (int64_t)n * tensor->strides[0] + (int64_t)c * tensor->strides[1] +
           (int64_t)d * tensor->strides[2] + (int64_t)h * tensor->strides[3];
}

static void load_plane(const plane_t *tensor, const void *memory, int n, int c, double *out)
{
    for (int d = 0; d < tensor->dims[2]; d++)
        for (int h = 0; h < tensor->dims[3]; h++, out += tensor->dims[4])
            sim_row_load((cudnnDataType_t)tensor->type, memory, row_offset(tensor, n, c, d, h),
                         tensor->strides[4], (size_t)tensor->dims[4], out);
}

static void store_plane(const plane_t *tensor, void *memory, int n, int c, double alpha,
                        const double *values, double beta, double *scratch)
{
    for (int d = 0; d < tensor->dims[2]; d++)
        for (int h = 0; h < tensor->dims[3]; h++, values += tensor->dims[4])
            sim_row_blend((cudnnDataType_t)tensor->type, memory, row_offset(tensor, n, c, d, h),
                          tensor->strides[4], (size_t)tensor->dims[4], alpha, values, beta,
                          scratch);
}

/* One window, cut at the borders of the input. */
typedef struct window {
    int begin[SIM_SPATIAL], end[SIM_SPATIAL];
    double elements; /* that an average divides by */
} window_t;

static window_t window_at(const pooling_arguments_t *arguments, const int out[SIM_SPATIAL])
{
    window_t window = {.elements = 1.0};
    double inside = 1.0;
    for (int i = 0; i < SIM_SPATIAL; i++) {
        const int begin = out[i] * arguments->stride[i] - arguments->pad[i];
        const int end = begin + arguments->window[i];
        const int limit = arguments->x.dims[PLANE + i];
        window.begin[i] = begin > 0 ? begin : 0;
        window.end[i] = end < limit ? end : limit;
        window.elements *= arguments->window[i];
        inside *= window.end[i] - window.begin[i];
    }
    if (arguments->mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
        window.elements = inside;
    return window;
}

static bool is_max(const pooling_arguments_t *arguments)
{
    return arguments->mode == CUDNN_POOLING_MAX ||
           arguments->mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

/* The first of the largest elements, or the first NaN where NaN counts. */
static size_t largest(const pooling_arguments_t *arguments, const window_t *window,
                      const double *plane)
{
    const size_t width = (size_t)arguments->x.dims[4], height = (size_t)arguments->x.dims[3];
    size_t best = SIZE_MAX;
    for (int d = window->begin[0]; d < window->end[0]; d++)
        for (int h = window->begin[1]; h < window->end[1]; h++)
            for (int w = window->begin[2]; w < window->end[2]; w++) {
                const size_t at = ((size_t)d * height + (size_t)h) * width + (size_t)w;
                if (isnan(plane[at]) && arguments->propagate_nan)
                    return at;
                if (best == SIZE_MAX || plane[at] > plane[best] || isnan(plane[best]))
                    best = at;
            }
    return best;
}

static double window_sum(const pooling_arguments_t *arguments, const window_t *window,
                         const double *plane)
{
    const size_t width = (size_t)arguments->x.dims[4], height = (size_t)arguments->x.dims[3];
    double sum = 0.0;
    for (int d = window->begin[0]; d < window->end[0]; d++)
        for (int h = window->begin[1]; h < window->end[1]; h++)
            for (int w = window->begin[2]; w < window->end[2]; w++)
                sum += plane[((size_t)d * height + (size_t)h) * width + (size_t)w];
    return sum;
}

static void window_add(const pooling_arguments_t *arguments, const window_t *window, double value,
                       double *plane)
{
    const size_t width = (size_t)arguments->x.dims[4], height = (size_t)arguments->x.dims[3];
    for (int d = window->begin[0]; d < window->end[0]; d++)
        for (int h = window->begin[1]; h < window->end[1]; h++)
            for (int w = window->begin[2]; w < window->end[2]; w++)
                plane[((size_t)d * height + (size_t)h) * width + (size_t)w] += value;
}

static void pool_plane(const pooling_arguments_t *arguments, const double *in, double *out)
{
    int at[SIM_SPATIAL];
    for (at[0] = 0; at[0] < arguments->y.dims[2]; at[0]++)
        for (at[1] = 0; at[1] < arguments->y.dims[3]; at[1]++)
            for (at[2] = 0; at[2] < arguments->y.dims[4]; at[2]++) {
                const window_t window = window_at(arguments, at);
                *out++ = is_max(arguments) ? in[largest(arguments, &window, in)]
                                           : window_sum(arguments, &window, in) / window.elements;
            }
}

static void unpool_plane(const pooling_arguments_t *arguments, const double *in, const double *dy,
                         double *dx)
{
    int at[SIM_SPATIAL];
    memset(dx, 0, plane_elements(&arguments->x) * sizeof *dx);
    for (at[0] = 0; at[0] < arguments->y.dims[2]; at[0]++)
        for (at[1] = 0; at[1] < arguments->y.dims[3]; at[1]++)
            for (at[2] = 0; at[2] < arguments->y.dims[4]; at[2]++, dy++) {
                const window_t window = window_at(arguments, at);
                if (is_max(arguments))
                    dx[largest(arguments, &window, in)] += *dy;
                else
                    window_add(arguments, &window, *dy / window.elements, dx);
            }
}

static void *plane_memory(const plane_t *tensor, const void *parameter)
{
    return sim_cudnn_memory(*(void *const *)parameter,
                            sim_tensor_span(D, tensor->dims, tensor->strides) *
                                sim_type_bytes((cudnnDataType_t)tensor->type));
}

static void run_pooling_forward(void *const *parameters)
{
    const pooling_arguments_t *const arguments = parameters[2];
    const void *const x = plane_memory(&arguments->x, parameters[0]);
    void *const y = plane_memory(&arguments->y, parameters[1]);
    if (!x || !y)
        return;
    double *const in = sim_cudnn_scratch(SIM_SCRATCH_A, plane_elements(&arguments->x) * sizeof *in);
    double *const out =
        sim_cudnn_scratch(SIM_SCRATCH_B, plane_elements(&arguments->y) * sizeof *out);
    double *const row =
        sim_cudnn_scratch(SIM_SCRATCH_C, (size_t)arguments->y.dims[4] * sizeof *row);
    for (int n = 0; n < arguments->x.dims[0]; n++)
        for (int c = 0; c < arguments->x.dims[1]; c++) {
            load_plane(&arguments->x, x, n, c, in);
            pool_plane(arguments, in, out);
            store_plane(&arguments->y, y, n, c, arguments->alpha, out, arguments->beta, row);
        }
}

static void run_pooling_backward(void *const *parameters)
{
    const pooling_arguments_t *const arguments = parameters[4];
    const void *const x = plane_memory(&arguments->x, parameters[2]);
    const void *const dy = plane_memory(&arguments->dy, parameters[1]);
    void *const dx = plane_memory(&arguments->dx, parameters[3]);
    if (!x || !dy || !dx)
        return;
    const size_t in_bytes = plane_elements(&arguments->x) * sizeof(double);
    double *const in = sim_cudnn_scratch(SIM_SCRATCH_A, in_bytes);
    double *const slope =
        sim_cudnn_scratch(SIM_SCRATCH_B, plane_elements(&arguments->dy) * sizeof *slope);
    double *const row =
        sim_cudnn_scratch(SIM_SCRATCH_C, (size_t)arguments->x.dims[4] * sizeof *row);
    double *const out = sim_cudnn_scratch(SIM_SCRATCH_D, in_bytes);
    for (int n = 0; n < arguments->x.dims[0]; n++)
        for (int c = 0; c < arguments->x.dims[1]; c++) {
            load_plane(&arguments->x, x, n, c, in);
            load_plane(&arguments->dy, dy, n, c, slope);
            unpool_plane(arguments, in, slope, out);
            store_plane(&arguments->dx, dx, n, c, arguments->alpha, out, arguments->beta, row);
        }
}

enum { ARGUMENTS_BYTES = sizeof(pooling_arguments_t) };
static const sim_kernel_parameter_t forward_parameters[] = {{0, 8}, {8, 8}, {16, ARGUMENTS_BYTES}};
static const sim_kernel_parameter_t backward_parameters[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, ARGUMENTS_BYTES}};
static const sim_kernel_t forward_kernel = {"cudnn_sim_pooling_forward", 3, forward_parameters,
                                            run_pooling_forward};
static const sim_kernel_t backward_kernel = {"cudnn_sim_pooling_backward", 5, backward_parameters,
                                             run_pooling_backward};

/* 4-D tensors get a depth of 1. */
static cudnnStatus_t set_plane(plane_t *plane, const struct cudnnTensorStruct *tensor,
                               int spatial_dims)
{
    SIM_CUDNN_REQUIRE(tensor, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensor->dim_count == spatial_dims + 2, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_is_floating(tensor->type), CUDNN_STATUS_NOT_SUPPORTED);
    const int missing = D - tensor->dim_count;
    plane->type = (int32_t)tensor->type;
    for (int i = 0; i < D; i++) {
        const int from = i < PLANE ? i : i - missing;
        plane->dims[i] = i >= PLANE && from < PLANE ? 1 : tensor->dims[from];
        plane->strides[i] = i >= PLANE && from < PLANE ? 1 : tensor->strides[from];
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_arguments(pooling_arguments_t *arguments,
                                   const struct cudnnPoolingStruct *pooling,
                                   const struct cudnnTensorStruct *x,
                                   const struct cudnnTensorStruct *y)
{
    SIM_CUDNN_REQUIRE(pooling && pooling->spatial_dims, CUDNN_STATUS_BAD_PARAM);
    arguments->mode = (int32_t)pooling->mode;
    arguments->propagate_nan = pooling->nan == CUDNN_PROPAGATE_NAN;
    const int missing = SIM_SPATIAL - pooling->spatial_dims;
    for (int i = 0; i < SIM_SPATIAL; i++) {
        arguments->window[i] = i < missing ? 1 : pooling->window[i - missing];
        arguments->pad[i] = i < missing ? 0 : pooling->pad[i - missing];
        arguments->stride[i] = i < missing ? 1 : pooling->stride[i - missing];
    }
    SIM_CUDNN_TRY(set_plane(&arguments->x, x, pooling->spatial_dims));
    SIM_CUDNN_TRY(set_plane(&arguments->y, y, pooling->spatial_dims));
    for (int i = 0; i < PLANE; i++)
        SIM_CUDNN_REQUIRE(arguments->x.dims[i] == arguments->y.dims[i], CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < SIM_SPATIAL; i++) {
        const int out =
            1 + (arguments->x.dims[PLANE + i] + 2 * arguments->pad[i] - arguments->window[i]) /
                    arguments->stride[i];
        SIM_CUDNN_REQUIRE(arguments->y.dims[PLANE + i] == out, CUDNN_STATUS_BAD_PARAM);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnPoolingForward(cudnnHandle_t handle,
                                              const cudnnPoolingDescriptor_t poolingDesc,
                                              const void *alpha,
                                              const cudnnTensorDescriptor_t xDesc, const void *x,
                                              const void *beta, const cudnnTensorDescriptor_t yDesc,
                                              void *y)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && alpha && beta && x && y, CUDNN_STATUS_BAD_PARAM);
    pooling_arguments_t arguments = {0};
    SIM_CUDNN_TRY(set_arguments(&arguments, poolingDesc, xDesc, yDesc));
    arguments.alpha = sim_scaling(alpha, yDesc->type);
    arguments.beta = sim_scaling(beta, yDesc->type);
    void *parameters[] = {&x, &y, &arguments};
    return sim_cudnn_launch(
        handle, &forward_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, (double)sim_tensor_bytes(xDesc) +
                                                      (double)sim_tensor_bytes(yDesc)));
}

static bool same_dims(const plane_t *a, const plane_t *b)
{
    return !memcmp(a->dims, b->dims, sizeof a->dims);
}

cudnnStatus_t CUDNNWINAPI cudnnPoolingBackward(
    cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc, const void *alpha,
    const cudnnTensorDescriptor_t yDesc, const void *y, const cudnnTensorDescriptor_t dyDesc,
    const void *dy, const cudnnTensorDescriptor_t xDesc, const void *x, const void *beta,
    const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && alpha && beta && x && y && dy && dx,
                      CUDNN_STATUS_BAD_PARAM);
    pooling_arguments_t arguments = {0};
    SIM_CUDNN_TRY(set_arguments(&arguments, poolingDesc, xDesc, yDesc));
    SIM_CUDNN_TRY(set_plane(&arguments.dy, dyDesc, poolingDesc->spatial_dims));
    SIM_CUDNN_TRY(set_plane(&arguments.dx, dxDesc, poolingDesc->spatial_dims));
    SIM_CUDNN_REQUIRE(same_dims(&arguments.dy, &arguments.y) &&
                          same_dims(&arguments.dx, &arguments.x),
                      CUDNN_STATUS_BAD_PARAM);
    arguments.alpha = sim_scaling(alpha, dxDesc->type);
    arguments.beta = sim_scaling(beta, dxDesc->type);
    void *parameters[] = {&y, &dy, &x, &dx, &arguments};
    return sim_cudnn_launch(
        handle, &backward_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 2.0 * (double)sim_tensor_bytes(xDesc) +
                                                      2.0 * (double)sim_tensor_bytes(yDesc)));
}
