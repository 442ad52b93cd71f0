/* Every algorithm of every direction of the simulated cuDNN against the fp64 reference, and the
 * rules around workspaces, determinism and results of Find. */
#include "test/sim/cudnn_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum layout { NCHW, NHWC, GAPS } layout_t;

typedef struct shape {
    const char *name;
    int spatial_dims;
    layout_t layout;
    bool flip;
    int groups;
    int n, c, k; /* c and k of all groups */
    int in[3], filter[3], pad[3], stride[3], dilation[3];
} shape_t;

/* 2-D shapes leave the first of each triple at depth 1. */
#define FLAT(h, w)                                                                                 \
    {                                                                                              \
        1, (h), (w)                                                                                \
    }
#define NO_PAD                                                                                     \
    {                                                                                              \
        0, 0, 0                                                                                    \
    }
#define ONES                                                                                       \
    {                                                                                              \
        1, 1, 1                                                                                    \
    }

static const shape_t shapes[] = {
    {"3x3", 2, NCHW, false, 1, 3, 4, 6, FLAT(9, 7), FLAT(3, 3), {0, 1, 1}, ONES, ONES},
    {"3x3 flipped, no padding", 2, NCHW, true, 1, 2, 5, 3, FLAT(8, 10), FLAT(3, 3), NO_PAD, ONES,
     ONES},
    {"5x5", 2, NCHW, false, 1, 2, 3, 5, FLAT(12, 11), FLAT(5, 5), {0, 2, 2}, ONES, ONES},
    {"several tiles", 2, NCHW, false, 1, 1, 2, 3, FLAT(40, 37), FLAT(3, 3), {0, 1, 1}, ONES, ONES},
    {"1x1", 2, NCHW, false, 1, 5, 8, 7, FLAT(6, 5), FLAT(1, 1), NO_PAD, ONES, ONES},
    {"wide filter", 2, NCHW, false, 1, 2, 3, 4, FLAT(9, 14), FLAT(2, 7), {0, 1, 3}, ONES, ONES},
    {"strides", 2, NCHW, true, 1, 3, 3, 4, FLAT(11, 13), FLAT(3, 5), {0, 1, 2}, {1, 2, 3}, ONES},
    {"stride beyond the filter",
     2,
     NCHW,
     false,
     1,
     2,
     3,
     4,
     FLAT(13, 13),
     FLAT(2, 2),
     NO_PAD,
     {1, 4, 4},
     ONES},
    {"padding beyond the filter",
     2,
     NCHW,
     false,
     1,
     2,
     3,
     4,
     FLAT(4, 5),
     FLAT(2, 3),
     {0, 3, 4},
     ONES,
     ONES},
    {"dilation",
     2,
     NCHW,
     true,
     1,
     2,
     3,
     4,
     FLAT(12, 10),
     FLAT(3, 3),
     {0, 2, 3},
     {1, 2, 1},
     {1, 2, 3}},
    {"groups", 2, NCHW, false, 2, 3, 4, 6, FLAT(8, 8), FLAT(3, 3), {0, 1, 1}, ONES, ONES},
    {"depthwise", 2, NCHW, false, 5, 2, 5, 10, FLAT(7, 9), FLAT(3, 3), {0, 1, 1}, {1, 2, 2}, ONES},
    {"channels last", 2, NHWC, false, 1, 3, 8, 16, FLAT(7, 6), FLAT(3, 3), {0, 1, 1}, ONES, ONES},
    {"channels last, groups",
     2,
     NHWC,
     true,
     2,
     2,
     6,
     4,
     FLAT(7, 6),
     FLAT(3, 2),
     {0, 1, 0},
     {1, 2, 1},
     ONES},
    {"gaps between elements",
     2,
     GAPS,
     false,
     1,
     3,
     3,
     4,
     FLAT(6, 5),
     FLAT(3, 3),
     {0, 1, 1},
     ONES,
     ONES},
    {"3-D", 3, NCHW, false, 1, 2, 3, 4, {5, 6, 7}, {2, 3, 3}, {1, 1, 1}, ONES, ONES},
    {"3-D strides, groups",
     3,
     NCHW,
     true,
     2,
     2,
     4,
     4,
     {7, 6, 5},
     {3, 2, 3},
     {1, 0, 1},
     {2, 1, 2},
     {1, 2, 1}},
    {"3-D channels last", 3, NHWC, false, 1, 2, 4, 3, {4, 5, 4}, {3, 3, 2}, {1, 1, 0}, ONES, ONES},
    {"one image, one pixel",
     2,
     NCHW,
     false,
     1,
     1,
     3,
     2,
     FLAT(1, 1),
     FLAT(3, 3),
     {0, 1, 1},
     ONES,
     ONES},
};

typedef struct arithmetic {
    cudnnDataType_t type, compute;
    cudnnMathType_t math;
    double floor;
} arithmetic_t;

static const arithmetic_t fp32 = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 1e-5};
static const arithmetic_t tf32 = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 1e-3};
static const arithmetic_t fp16 = {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, 2e-3};
static const arithmetic_t bf16 = {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH,
                                  1e-2};
static const arithmetic_t fp64 = {CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DEFAULT_MATH, 1e-13};

/* Tensors of one convolution: the host's doubles, rounded to the type, and descriptors. Index 0 is
 * x, 1 is w, 2 is y. */
typedef struct problem {
    reference_convolution_t reference;
    arithmetic_t arithmetic;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    double *values[3];
    size_t spans[3];
} problem_t;

static cudnnHandle_t handle;

enum { DIRECTIONS = 3, MAX_ALGORITHMS = 8 };

static int algorithm_count(int direction)
{
    static const int counts[] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                                 CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                 CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};
    return counts[direction];
}

/* The tensor that a direction writes. */
static int output_of(int direction)
{
    static const int outputs[] = {2, 0, 1};
    return outputs[direction];
}

static reference_tensor_t *tensor_of(problem_t *problem, int index)
{
    reference_tensor_t *const tensors[] = {&problem->reference.x, &problem->reference.w,
                                           &problem->reference.y};
    return tensors[index];
}

static void set_reference(const shape_t *shape, reference_convolution_t *reference)
{
    const int x[] = {shape->n, shape->c}, w[] = {shape->k, shape->c / shape->groups};
    const int y[] = {shape->n, shape->k};
    reference->groups = shape->groups;
    reference->flip = shape->flip;
    for (int i = 0; i < 2; i++) {
        reference->x.dims[i] = x[i];
        reference->w.dims[i] = w[i];
        reference->y.dims[i] = y[i];
    }
    for (int i = 0; i < REFERENCE_SPATIAL; i++) {
        reference->pad[i] = shape->pad[i];
        reference->stride[i] = shape->stride[i];
        reference->dilation[i] = shape->dilation[i];
        reference->x.dims[2 + i] = shape->in[i];
        reference->w.dims[2 + i] = shape->filter[i];
        const int reach = (shape->filter[i] - 1) * shape->dilation[i] + 1;
        reference->y.dims[2 + i] =
            1 + (shape->in[i] + 2 * shape->pad[i] - reach) / shape->stride[i];
    }
    reference_pack(&reference->x, shape->layout == NHWC);
    reference_pack(&reference->w, shape->layout == NHWC);
    reference_pack(&reference->y, shape->layout == NHWC);
    for (int i = 0; shape->layout == GAPS && i < REFERENCE_DIMS; i++) {
        reference->x.strides[i] = reference->x.strides[i] * 2 + (i == 0);
        reference->y.strides[i] = reference->y.strides[i] * 3 + 2 * (i == 0);
    }
}

static cudnnTensorDescriptor_t make_tensor(const shape_t *shape, cudnnDataType_t type,
                                           const reference_tensor_t *tensor)
{
    int dims[REFERENCE_DIMS], strides[REFERENCE_DIMS], count = 0;
    for (int i = 0; i < REFERENCE_DIMS; i++)
        if (i != 2 || shape->spatial_dims == 3) {
            dims[count] = tensor->dims[i];
            strides[count++] = (int)tensor->strides[i];
        }
    cudnnTensorDescriptor_t made;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&made));
    CHECK_CUDNN(cudnnSetTensorNdDescriptor(made, type, count, dims, strides));
    return made;
}

static void make_problem(problem_t *problem, const shape_t *shape, const arithmetic_t *arithmetic)
{
    memset(problem, 0, sizeof *problem);
    problem->arithmetic = *arithmetic;
    set_reference(shape, &problem->reference);
    const int skipped = 3 - shape->spatial_dims;
    int filter[REFERENCE_DIMS] = {problem->reference.w.dims[0], problem->reference.w.dims[1]};
    for (int i = 0; i < shape->spatial_dims; i++)
        filter[2 + i] = shape->filter[skipped + i];
    problem->x = make_tensor(shape, arithmetic->type, &problem->reference.x);
    problem->y = make_tensor(shape, arithmetic->type, &problem->reference.y);
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&problem->w));
    CHECK_CUDNN(cudnnSetFilterNdDescriptor(
        problem->w, arithmetic->type, shape->layout == NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
        shape->spatial_dims + 2, filter));
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&problem->convolution));
    CHECK_CUDNN(cudnnSetConvolutionNdDescriptor(
        problem->convolution, shape->spatial_dims, shape->pad + skipped, shape->stride + skipped,
        shape->dilation + skipped, shape->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
        arithmetic->compute));
    CHECK_CUDNN(cudnnSetConvolutionGroupCount(problem->convolution, shape->groups));
    CHECK_CUDNN(cudnnSetConvolutionMathType(problem->convolution, arithmetic->math));
    for (int i = 0; i < 3; i++) {
        problem->spans[i] = reference_span(tensor_of(problem, i));
        problem->values[i] = calloc(problem->spans[i], sizeof(double));
        assert_non_null(problem->values[i]);
        client_random(arithmetic->type, 100 + (unsigned)i, problem->values[i], problem->spans[i]);
    }
}

static void drop_problem(problem_t *problem)
{
    for (int i = 0; i < 3; i++)
        free(problem->values[i]);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(problem->x));
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(problem->y));
    CHECK_CUDNN(cudnnDestroyFilterDescriptor(problem->w));
    CHECK_CUDNN(cudnnDestroyConvolutionDescriptor(problem->convolution));
}

static cudnnStatus_t workspace_size(const problem_t *p, int direction, int algorithm, size_t *bytes)
{
    if (direction == REFERENCE_FORWARD)
        return cudnnGetConvolutionForwardWorkspaceSize(handle, p->x, p->w, p->convolution, p->y,
                                                       (cudnnConvolutionFwdAlgo_t)algorithm, bytes);
    if (direction == REFERENCE_BACKWARD_DATA)
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle, p->w, p->y, p->convolution, p->x, (cudnnConvolutionBwdDataAlgo_t)algorithm,
            bytes);
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, p->x, p->y, p->convolution, p->w, (cudnnConvolutionBwdFilterAlgo_t)algorithm,
        bytes);
}

/* Device memory of one run; index as in problem_t. */
typedef struct device {
    void *tensors[3];
    void *workspace;
    size_t workspace_bytes;
} device_t;

static cudnnStatus_t convolve(const problem_t *p, int direction, int algorithm, double alpha,
                              double beta, const device_t *device)
{
    const float narrow[] = {(float)alpha, (float)beta};
    const double wide[] = {alpha, beta};
    const bool is_double = p->arithmetic.type == CUDNN_DATA_DOUBLE;
    const void *const a = is_double ? (const void *)&wide[0] : &narrow[0];
    const void *const b = is_double ? (const void *)&wide[1] : &narrow[1];
    void *const *const t = device->tensors;
    if (direction == REFERENCE_FORWARD)
        return cudnnConvolutionForward(handle, a, p->x, t[0], p->w, t[1], p->convolution,
                                       (cudnnConvolutionFwdAlgo_t)algorithm, device->workspace,
                                       device->workspace_bytes, b, p->y, t[2]);
    if (direction == REFERENCE_BACKWARD_DATA)
        return cudnnConvolutionBackwardData(handle, a, p->w, t[1], p->y, t[2], p->convolution,
                                            (cudnnConvolutionBwdDataAlgo_t)algorithm,
                                            device->workspace, device->workspace_bytes, b, p->x,
                                            t[0]);
    return cudnnConvolutionBackwardFilter(handle, a, p->x, t[0], p->y, t[2], p->convolution,
                                          (cudnnConvolutionBwdFilterAlgo_t)algorithm,
                                          device->workspace, device->workspace_bytes, b, p->w,
                                          t[1]);
}

/* Uploads the problem; a beta of 0 finds NaN in the output. */
static void upload(problem_t *problem, int direction, double beta, size_t workspace_bytes,
                   device_t *device)
{
    for (int i = 0; i < 3; i++) {
        const bool poisoned = i == output_of(direction) && beta == 0.0;
        const size_t bytes =
            problem->spans[i] * reference_type_bytes((reference_type_t)problem->arithmetic.type);
        device->tensors[i] = poisoned ? client_allocate(bytes, 0xff)
                                      : client_upload(problem->arithmetic.type, problem->values[i],
                                                      problem->spans[i]);
    }
    device->workspace = client_allocate(workspace_bytes, 0);
    device->workspace_bytes = workspace_bytes;
}

static void release(device_t *device)
{
    for (int i = 0; i < 3; i++)
        client_free(device->tensors[i]);
    client_free(device->workspace);
}

/* Runs an algorithm and gives the whole span of its output, which the caller frees. */
static double *run(problem_t *problem, int direction, int algorithm, double alpha, double beta)
{
    const int out = output_of(direction);
    device_t device;
    size_t bytes;
    CHECK_CUDNN(workspace_size(problem, direction, algorithm, &bytes));
    upload(problem, direction, beta, bytes, &device);
    CHECK_CUDNN(convolve(problem, direction, algorithm, alpha, beta, &device));
    double *const result = malloc(problem->spans[out] * sizeof *result);
    assert_non_null(result);
    client_download(problem->arithmetic.type, device.tensors[out], problem->spans[out], result);
    release(&device);
    return result;
}

static double *expected(problem_t *problem, int direction, double alpha, double beta)
{
    const int out = output_of(direction);
    double *const result = malloc(problem->spans[out] * sizeof *result);
    assert_non_null(result);
    memcpy(result, problem->values[out], problem->spans[out] * sizeof *result);
    double *tensors[3] = {problem->values[0], problem->values[1], problem->values[2]};
    tensors[out] = result;
    problem->reference.direction = (reference_direction_t)direction;
    reference_convolution(&problem->reference, alpha, beta, tensors[0], tensors[1], tensors[2]);
    return result;
}

/* Elements between those that the strides name must keep their value (or their poison). */
static void check_gaps(problem_t *problem, int direction, double beta, const double *result)
{
    const int out = output_of(direction);
    const reference_tensor_t *const tensor = tensor_of(problem, out);
    char *const named = calloc(problem->spans[out], 1);
    assert_non_null(named);
    const int *const d = tensor->dims;
    for (int i = 0; i < d[0] * d[1] * d[2] * d[3] * d[4]; i++)
        named[i % d[4] * tensor->strides[4] + i / d[4] % d[3] * tensor->strides[3] +
              i / (d[4] * d[3]) % d[2] * tensor->strides[2] +
              i / (d[4] * d[3] * d[2]) % d[1] * tensor->strides[1] +
              i / (d[4] * d[3] * d[2] * d[1]) * tensor->strides[0]] = 1;
    for (size_t i = 0; i < problem->spans[out]; i++)
        if (!named[i])
            assert_true(beta == 0.0 ? isnan(result[i]) : result[i] == problem->values[out][i]);
    free(named);
}

/* Every algorithm that says it can; returns their set as bits. */
static unsigned check_direction(const shape_t *shape, const arithmetic_t *arithmetic, int direction)
{
    static const double scales[][2] = {{1.0, 0.0}, {1.0, 1.0}, {-1.5, 0.5}};
    unsigned ran = 0;
    problem_t problem;
    make_problem(&problem, shape, arithmetic);
    for (int scale = 0; scale < 3; scale++) {
        const double alpha = scales[scale][0], beta = scales[scale][1];
        double *const wanted = expected(&problem, direction, alpha, beta);
        for (int algorithm = 0; algorithm < algorithm_count(direction); algorithm++) {
            size_t bytes;
            const cudnnStatus_t status = workspace_size(&problem, direction, algorithm, &bytes);
            if (status == CUDNN_STATUS_NOT_SUPPORTED)
                continue;
            CHECK_STATUS(status, CUDNN_STATUS_SUCCESS);
            double *const result = run(&problem, direction, algorithm, alpha, beta);
            const double error =
                reference_relative_l2(tensor_of(&problem, output_of(direction)), wanted, result);
            if (!(error <= arithmetic->floor))
                print_error("%s, direction %d, algorithm %d, alpha %g, beta %g: error %g\n",
                            shape->name, direction, algorithm, alpha, beta, error);
            assert_true(error <= arithmetic->floor);
            check_gaps(&problem, direction, beta, result);
            free(result);
            ran |= 1u << algorithm;
        }
        free(wanted);
    }
    drop_problem(&problem);
    return ran;
}

/* Over all shapes; `wanted` are the algorithms that must have run at least once. */
static void check_all(const arithmetic_t *arithmetic, const unsigned wanted[DIRECTIONS])
{
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        unsigned ran = 0;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            ran |= check_direction(&shapes[i], arithmetic, direction);
        assert_int_equal(ran, wanted[direction]);
    }
}

static void every_algorithm_equals_the_reference_in_fp32(void **state)
{
    (void)state;
    check_all(&fp32, (const unsigned[]){0xf7, 0x3f, 0x6f});
}

static void every_algorithm_equals_the_reference_in_tf32(void **state)
{
    (void)state;
    check_all(&tf32, (const unsigned[]){0xf7, 0x3f, 0x6f});
}

static void every_algorithm_equals_the_reference_in_fp16(void **state)
{
    (void)state;
    check_all(&fp16, (const unsigned[]){0xf7, 0x3f, 0x6f});
}

static void every_algorithm_equals_the_reference_in_bf16(void **state)
{
    (void)state;
    check_all(&bf16, (const unsigned[]){0x03, 0x03, 0x03});
}

static void every_algorithm_equals_the_reference_in_fp64(void **state)
{
    (void)state;
    check_all(&fp64, (const unsigned[]){0x07, 0x03, 0x03});
}

/* TF32 rounds its inputs: the same algorithm is visibly less exact than with FMA. */
static void default_math_rounds_inputs_to_tf32(void **state)
{
    (void)state;
    problem_t problem;
    make_problem(&problem, &shapes[0], &tf32);
    double *const wanted = expected(&problem, REFERENCE_FORWARD, 1.0, 0.0);
    double *const rounded = run(&problem, REFERENCE_FORWARD, 1, 1.0, 0.0);
    assert_true(reference_relative_l2(&problem.reference.y, wanted, rounded) > 1e-5);
    CHECK_CUDNN(cudnnSetConvolutionMathType(problem.convolution, CUDNN_FMA_MATH));
    double *const exact = run(&problem, REFERENCE_FORWARD, 1, 1.0, 0.0);
    assert_true(reference_relative_l2(&problem.reference.y, wanted, exact) < 1e-6);
    free(wanted);
    free(rounded);
    free(exact);
    drop_problem(&problem);
}

/* One problem of `batch` images whose first images are those of any smaller batch. */
static void make_batch(problem_t *problem, int batch)
{
    shape_t shape = shapes[0];
    shape.n = batch;
    make_problem(problem, &shape, &fp32);
}

static void an_image_does_not_depend_on_the_batch(void **state)
{
    (void)state;
    problem_t large, small;
    make_batch(&large, 7);
    make_batch(&small, 2);
    for (int direction = 0; direction < 2; direction++)
        for (int algorithm = 0; algorithm < algorithm_count(direction); algorithm++) {
            size_t bytes;
            const bool varies = direction == REFERENCE_BACKWARD_DATA && algorithm == 0;
            if (varies ||
                workspace_size(&small, direction, algorithm, &bytes) != CUDNN_STATUS_SUCCESS)
                continue;
            double *const whole = run(&large, direction, algorithm, 1.0, 0.0);
            double *const part = run(&small, direction, algorithm, 1.0, 0.0);
            assert_memory_equal(whole, part, small.spans[output_of(direction)] * sizeof *part);
            free(whole);
            free(part);
        }
    drop_problem(&large);
    drop_problem(&small);
}

static void algorithms_sum_in_different_orders(void **state)
{
    (void)state;
    problem_t problem;
    make_batch(&problem, 3);
    double *const first = run(&problem, REFERENCE_FORWARD, 0, 1.0, 0.0);
    for (int algorithm = 1; algorithm < algorithm_count(REFERENCE_FORWARD); algorithm++) {
        size_t bytes;
        if (workspace_size(&problem, REFERENCE_FORWARD, algorithm, &bytes) != CUDNN_STATUS_SUCCESS)
            continue;
        double *const other = run(&problem, REFERENCE_FORWARD, algorithm, 1.0, 0.0);
        assert_memory_not_equal(first, other, problem.spans[2] * sizeof *other);
        free(other);
    }
    free(first);
    drop_problem(&problem);
}

static bool repeats(problem_t *problem, int direction, int algorithm)
{
    bool same = true;
    double *const first = run(problem, direction, algorithm, 1.0, 0.0);
    for (int i = 0; i < 4; i++) {
        double *const again = run(problem, direction, algorithm, 1.0, 0.0);
        same = same && !memcmp(first, again, problem->spans[output_of(direction)] * sizeof *again);
        free(again);
    }
    free(first);
    return same;
}

static void exactly_the_algorithms_called_deterministic_repeat(void **state)
{
    (void)state;
    static const unsigned varying[DIRECTIONS] = {0, 1u << 0, 1u << 0 | 1u << 3};
    problem_t problem;
    make_batch(&problem, 5);
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int algorithm = 0; algorithm < algorithm_count(direction); algorithm++) {
            size_t bytes;
            if (workspace_size(&problem, direction, algorithm, &bytes) == CUDNN_STATUS_SUCCESS)
                assert_int_equal(repeats(&problem, direction, algorithm),
                                 !(varying[direction] >> algorithm & 1));
        }
    drop_problem(&problem);
}

static void a_workspace_too_small_is_refused(void **state)
{
    (void)state;
    problem_t problem;
    make_batch(&problem, 2);
    unsigned refused = 0;
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int algorithm = 0; algorithm < algorithm_count(direction); algorithm++) {
            size_t bytes;
            if (workspace_size(&problem, direction, algorithm, &bytes) != CUDNN_STATUS_SUCCESS ||
                !bytes)
                continue;
            device_t device;
            upload(&problem, direction, 0.0, bytes, &device);
            device.workspace_bytes = bytes - 1;
            CHECK_STATUS(convolve(&problem, direction, algorithm, 1.0, 0.0, &device),
                         CUDNN_STATUS_BAD_PARAM);
            device.workspace_bytes = bytes;
            CHECK_CUDNN(convolve(&problem, direction, algorithm, 1.0, 0.0, &device));
            release(&device);
            refused++;
        }
    assert_true(refused >= 14);
    drop_problem(&problem);
}

/* Nothing of what was there survives, and the bytes behind it are left alone. */
static void a_kernel_fills_the_workspace_that_it_declared_and_no_more(void **state)
{
    (void)state;
    enum { BEHIND = 4096, UNTOUCHED = 0x5a };
    problem_t problem;
    make_batch(&problem, 3);
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int algorithm = 0; algorithm < algorithm_count(direction); algorithm++) {
            size_t bytes, left = 0;
            if (workspace_size(&problem, direction, algorithm, &bytes) != CUDNN_STATUS_SUCCESS)
                continue;
            device_t device;
            upload(&problem, direction, 0.0, bytes + BEHIND, &device);
            CHECK_CUDA(
                cuMemsetD8((CUdeviceptr)(uintptr_t)device.workspace, UNTOUCHED, bytes + BEHIND));
            CHECK_CUDNN(convolve(&problem, direction, algorithm, 1.0, 0.0, &device));
            unsigned char *const content = malloc(bytes + BEHIND);
            assert_non_null(content);
            CHECK_CUDA(
                cuMemcpyDtoH(content, (CUdeviceptr)(uintptr_t)device.workspace, bytes + BEHIND));
            for (size_t i = 0; i < bytes; i++)
                left += content[i] == UNTOUCHED;
            assert_true(left <= bytes / 64); /* a byte of a float may have that value */
            for (size_t i = bytes; i < bytes + BEHIND; i++)
                assert_int_equal(content[i], UNTOUCHED);
            free(content);
            release(&device);
        }
    drop_problem(&problem);
}

static size_t forward_workspace(int batch, cudnnConvolutionFwdAlgo_t algorithm)
{
    problem_t problem;
    size_t bytes;
    make_batch(&problem, batch);
    CHECK_CUDNN(workspace_size(&problem, REFERENCE_FORWARD, (int)algorithm, &bytes));
    drop_problem(&problem);
    return bytes;
}

static void workspaces_grow_with_the_batch_but_not_always(void **state)
{
    (void)state;
    const cudnnConvolutionFwdAlgo_t fft = CUDNN_CONVOLUTION_FWD_ALGO_FFT;
    const cudnnConvolutionFwdAlgo_t winograd = CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    const cudnnConvolutionFwdAlgo_t gemm = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
    assert_int_equal(forward_workspace(257, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), 0);
    assert_true(forward_workspace(16, fft) > 10 * forward_workspace(1, fft) / 2);
    assert_true(forward_workspace(16, winograd) > 10 * forward_workspace(1, winograd) / 2);
    assert_true(forward_workspace(256, gemm) > forward_workspace(257, gemm));
}

static void find_sorts_by_time_and_explains_what_did_not_run(void **state)
{
    (void)state;
    cudnnConvolutionFwdAlgoPerf_t results[MAX_ALGORITHMS];
    problem_t problem;
    device_t device;
    int count;
    size_t fft_bytes, gemm_bytes;
    make_batch(&problem, 16);
    CHECK_CUDNN(workspace_size(&problem, 0, CUDNN_CONVOLUTION_FWD_ALGO_FFT, &fft_bytes));
    CHECK_CUDNN(workspace_size(&problem, 0, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &gemm_bytes));
    assert_true(gemm_bytes < fft_bytes);
    upload(&problem, 0, 0.0, fft_bytes - 1, &device);
    CHECK_CUDNN(cudnnFindConvolutionForwardAlgorithmEx(
        handle, problem.x, device.tensors[0], problem.w, device.tensors[1], problem.convolution,
        problem.y, device.tensors[2], MAX_ALGORITHMS, &count, results, device.workspace,
        device.workspace_bytes));
    assert_int_equal(count, 8);
    bool over = false;
    unsigned seen = 0;
    for (int i = 0; i < count; i++) {
        seen |= 1u << results[i].algo;
        const bool ran = results[i].status == CUDNN_STATUS_SUCCESS;
        assert_false(ran && over);
        over = over || !ran;
        if (ran)
            assert_true(results[i].time > 0.0f &&
                        (i == 0 || results[i].time >= results[i - 1].time));
        else
            assert_true(results[i].time == -1.0f);
        if (results[i].algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT) {
            assert_int_equal(results[i].status, CUDNN_STATUS_ALLOC_FAILED);
            assert_int_equal(results[i].memory, fft_bytes);
        }
        if (results[i].algo == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT)
            assert_int_equal(results[i].status, CUDNN_STATUS_NOT_SUPPORTED);
    }
    assert_int_equal(seen, 0xff);
    /* It really ran: the NaN in the output is gone. */
    double *const result = malloc(problem.spans[2] * sizeof *result);
    assert_non_null(result);
    client_download(CUDNN_DATA_FLOAT, device.tensors[2], problem.spans[2], result);
    for (size_t i = 0; i < problem.spans[2]; i++)
        assert_true(isfinite(result[i]));
    free(result);
    release(&device);
    drop_problem(&problem);
}

static void the_other_finds_and_the_heuristics_list_every_algorithm(void **state)
{
    (void)state;
    problem_t p;
    int count, most;
    cudnnConvolutionFwdAlgoPerf_t forward[MAX_ALGORITHMS];
    cudnnConvolutionBwdDataAlgoPerf_t data[MAX_ALGORITHMS];
    cudnnConvolutionBwdFilterAlgoPerf_t filter[MAX_ALGORITHMS];
    make_batch(&p, 4);
    CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithmMaxCount(handle, &most));
    CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x, p.w, p.convolution, p.y,
                                                       MAX_ALGORITHMS, &count, forward));
    assert_int_equal(count, most);
    assert_true(forward[0].time == -1.0f && forward[0].status == CUDNN_STATUS_SUCCESS);
    CHECK_CUDNN(cudnnFindConvolutionForwardAlgorithm(handle, p.x, p.w, p.convolution, p.y, 2,
                                                     &count, forward));
    assert_int_equal(count, 2);
    assert_true(forward[0].time > 0.0f && forward[1].time >= forward[0].time);
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, &most));
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.w, p.y, p.convolution, p.x,
                                                            MAX_ALGORITHMS, &count, data));
    assert_int_equal(count, most);
    CHECK_CUDNN(cudnnFindConvolutionBackwardDataAlgorithm(handle, p.w, p.y, p.convolution, p.x,
                                                          MAX_ALGORITHMS, &count, data));
    assert_int_equal(count, most);
    for (int i = 0; i < count; i++)
        assert_int_equal(data[i].determinism, data[i].algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0
                                                  ? CUDNN_NON_DETERMINISTIC
                                                  : CUDNN_DETERMINISTIC);
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, &most));
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p.x, p.y, p.convolution, p.w,
                                                              MAX_ALGORITHMS, &count, filter));
    assert_int_equal(count, most);
    CHECK_CUDNN(cudnnFindConvolutionBackwardFilterAlgorithm(handle, p.x, p.y, p.convolution, p.w,
                                                            MAX_ALGORITHMS, &count, filter));
    assert_int_equal(count, most);
    drop_problem(&p);
}

/* y = relu(alpha1 * conv(x) + alpha2 * z + bias), z apart and in place. */
static void bias_activation_adds_z_and_bias_before_relu(void **state)
{
    (void)state;
    problem_t p;
    make_batch(&p, 2);
    const int k = p.reference.y.dims[1];
    const size_t span = p.spans[2], plane = span / (size_t)(p.reference.y.dims[0] * k);
    double *const wanted = expected(&p, REFERENCE_FORWARD, 1.5, 0.5), bias[16];
    client_random(CUDNN_DATA_FLOAT, 9, bias, (size_t)k);
    for (size_t i = 0; i < span; i++)
        wanted[i] = fmax(wanted[i] + bias[i / plane % (size_t)k], 0.0);
    cudnnTensorDescriptor_t bias_descriptor;
    cudnnActivationDescriptor_t relu;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&bias_descriptor));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(bias_descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                           k, 1, 1));
    CHECK_CUDNN(cudnnCreateActivationDescriptor(&relu));
    CHECK_CUDNN(
        cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0.0));
    void *const device_bias = client_upload(CUDNN_DATA_FLOAT, bias, (size_t)k);
    for (int in_place = 0; in_place < 2; in_place++) {
        device_t device;
        size_t bytes;
        CHECK_CUDNN(workspace_size(&p, 0, 7, &bytes));
        upload(&p, 0, in_place ? 1.0 : 0.0, bytes, &device);
        void *const z = client_upload(CUDNN_DATA_FLOAT, p.values[2], span);
        const float alpha1 = 1.5f, alpha2 = 0.5f;
        CHECK_CUDNN(cudnnConvolutionBiasActivationForward(
            handle, &alpha1, p.x, device.tensors[0], p.w, device.tensors[1], p.convolution,
            CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, device.workspace, bytes, &alpha2, p.y,
            in_place ? device.tensors[2] : z, bias_descriptor, device_bias, relu, p.y,
            device.tensors[2]));
        double *const result = malloc(span * sizeof *result);
        assert_non_null(result);
        client_download(CUDNN_DATA_FLOAT, device.tensors[2], span, result);
        assert_true(reference_relative_l2(&p.reference.y, wanted, result) < 1e-5);
        free(result);
        client_free(z);
        release(&device);
    }
    client_free(device_bias);
    free(wanted);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(bias_descriptor));
    CHECK_CUDNN(cudnnDestroyActivationDescriptor(relu));
    drop_problem(&p);
}

static void backward_bias_sums_all_but_channels(void **state)
{
    (void)state;
    enum { N = 3, C = 4, H = 5, W = 2, COUNT = N * C * H * W };
    double dy[COUNT], wanted[C] = {0}, result[C];
    const double old[C] = {1, 2, 3, 4};
    client_random(CUDNN_DATA_FLOAT, 3, dy, COUNT);
    for (int i = 0; i < COUNT; i++)
        wanted[i / (H * W) % C] += 2.0 * dy[i];
    cudnnTensorDescriptor_t dy_descriptor, db_descriptor;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&dy_descriptor));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&db_descriptor));
    CHECK_CUDNN(
        cudnnSetTensor4dDescriptor(dy_descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    CHECK_CUDNN(
        cudnnSetTensor4dDescriptor(db_descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, C, 1, 1));
    void *const device_dy = client_upload(CUDNN_DATA_FLOAT, dy, COUNT);
    void *const device_db = client_upload(CUDNN_DATA_FLOAT, old, C);
    const float alpha = 2.0f, beta = 1.0f;
    CHECK_CUDNN(cudnnConvolutionBackwardBias(handle, &alpha, dy_descriptor, device_dy, &beta,
                                             db_descriptor, device_db));
    client_download(CUDNN_DATA_FLOAT, device_db, C, result);
    for (int i = 0; i < C; i++)
        assert_true(fabs(result[i] - wanted[i] - old[i]) < 1e-5);
    client_free(device_dy);
    client_free(device_db);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(dy_descriptor));
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(db_descriptor));
}

static void what_contradicts_itself_is_a_bad_parameter(void **state)
{
    (void)state;
    problem_t a, b;
    size_t bytes;
    make_batch(&a, 2);
    make_batch(&b, 3);
    CHECK_STATUS(cudnnGetConvolutionForwardWorkspaceSize(handle, a.x, a.w, a.convolution, b.y,
                                                         CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(cudnnGetConvolutionForwardWorkspaceSize(handle, a.x, a.w, a.convolution, a.y,
                                                         CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &bytes),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(cudnnGetConvolutionForwardWorkspaceSize(handle, NULL, a.w, a.convolution, a.y,
                                                         CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_CUDNN(cudnnSetConvolutionGroupCount(a.convolution, 3));
    CHECK_STATUS(cudnnGetConvolutionForwardWorkspaceSize(handle, a.x, a.w, a.convolution, a.y,
                                                         CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes),
                 CUDNN_STATUS_BAD_PARAM);
    drop_problem(&a);
    drop_problem(&b);
}

static void calls_return_before_the_work_is_done(void **state)
{
    (void)state;
    problem_t problem;
    device_t device;
    size_t bytes;
    make_batch(&problem, 16);
    CHECK_CUDNN(workspace_size(&problem, 0, 4, &bytes));
    upload(&problem, 0, 0.0, bytes, &device);
    CHECK_CUDA(cuCtxSynchronize());
    const uint64_t before = client_sim()->operations_run();
    for (int i = 0; i < 10; i++)
        CHECK_CUDNN(convolve(&problem, 0, 4, 1.0, 0.0, &device));
    assert_true(client_sim()->operations_run() - before == 0);
    CHECK_CUDA(cuCtxSynchronize());
    assert_true(client_sim()->operations_run() - before >= 20); /* two kernels each */
    release(&device);
    drop_problem(&problem);
}

/* The same convolution on two streams with one workspace, but other filters: the workspace carries
 * what the first kernel made of the filter, so without a dependency the results get mixed up. */
static void a_workspace_shared_by_two_streams_spoils_results(void **state)
{
    (void)state;
    enum { STREAMS = 2, ROUNDS = 16 };
    problem_t problem;
    size_t bytes;
    CUstream streams[STREAMS];
    device_t devices[STREAMS];
    int spoilt = 0;
    make_batch(&problem, 2);
    double *const wanted = run(&problem, 0, 4, 1.0, 0.0);
    double *const result = malloc(problem.spans[2] * sizeof *result);
    assert_non_null(result);
    CHECK_CUDNN(workspace_size(&problem, 0, 4, &bytes));
    for (int i = 0; i < STREAMS; i++) {
        CHECK_CUDA(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        upload(&problem, 0, 0.0, bytes, &devices[i]);
        client_random(CUDNN_DATA_FLOAT, 55, problem.values[1], problem.spans[1]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        device_t shared = devices[1];
        shared.workspace = devices[0].workspace;
        CHECK_CUDNN(cudnnSetStream(handle, (cudaStream_t)streams[0]));
        CHECK_CUDNN(convolve(&problem, 0, 4, 1.0, 0.0, &devices[0]));
        CHECK_CUDNN(cudnnSetStream(handle, (cudaStream_t)streams[1]));
        CHECK_CUDNN(convolve(&problem, 0, 4, 1.0, 0.0, &shared));
        CHECK_CUDA(cuCtxSynchronize());
        client_download(CUDNN_DATA_FLOAT, devices[0].tensors[2], problem.spans[2], result);
        spoilt += memcmp(wanted, result, problem.spans[2] * sizeof *result) != 0;
    }
    assert_true(spoilt > 0 && spoilt < ROUNDS);
    CHECK_CUDNN(cudnnSetStream(handle, NULL));
    for (int i = 0; i < STREAMS; i++) {
        release(&devices[i]);
        CHECK_CUDA(cuStreamDestroy(streams[i]));
    }
    free(wanted);
    free(result);
    drop_problem(&problem);
}

static int create_handle(void **state)
{
    (void)state;
    return cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
}

static int destroy_handle(void **state)
{
    (void)state;
    return cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_equals_the_reference_in_fp32),
        cmocka_unit_test(every_algorithm_equals_the_reference_in_tf32),
        cmocka_unit_test(every_algorithm_equals_the_reference_in_fp16),
        cmocka_unit_test(every_algorithm_equals_the_reference_in_bf16),
        cmocka_unit_test(every_algorithm_equals_the_reference_in_fp64),
        cmocka_unit_test(default_math_rounds_inputs_to_tf32),
        cmocka_unit_test(an_image_does_not_depend_on_the_batch),
        cmocka_unit_test(algorithms_sum_in_different_orders),
        cmocka_unit_test(exactly_the_algorithms_called_deterministic_repeat),
        cmocka_unit_test(a_workspace_too_small_is_refused),
        cmocka_unit_test(a_kernel_fills_the_workspace_that_it_declared_and_no_more),
        cmocka_unit_test(workspaces_grow_with_the_batch_but_not_always),
        cmocka_unit_test(find_sorts_by_time_and_explains_what_did_not_run),
        cmocka_unit_test(the_other_finds_and_the_heuristics_list_every_algorithm),
        cmocka_unit_test(bias_activation_adds_z_and_bias_before_relu),
        cmocka_unit_test(backward_bias_sums_all_but_channels),
        cmocka_unit_test(what_contradicts_itself_is_a_bad_parameter),
        cmocka_unit_test(a_workspace_shared_by_two_streams_spoils_results),
        cmocka_unit_test(calls_return_before_the_work_is_done),
    };
    return cmocka_run_group_tests(tests, create_handle, destroy_handle);
}
