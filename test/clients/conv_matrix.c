/* A matrix of convolutions through the legacy API, checked against cuDNN's own fp64. Knows nothing
 * of microdnn: it is run without the preload to record, and with it to check.
 *
 *   conv_matrix record FILE
 *       For each case: the fp64 result, and for every algorithm that cuDNN offers its error and a
 * hash of each image's result. conv_matrix check FILE WORKSPACE_BYTES [bitwise|close [MAX_BATCH]]
 *       Runs each case as a program would: the first deterministic algorithm that
 * Get...Algorithm_v7 names within WORKSPACE_BYTES, with the workspace that Get...WorkspaceSize
 * says. TAP. A case passes if its relative L2 error is at most max(1.2 x the worst recorded
 * algorithm, floor). With `bitwise` (a GPU whose results do not depend on the batch size, as the
 * simulated one) every image of a forward or backward-data result must also equal some recorded
 * algorithm's, bit for bit. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "test/clients/bail.h"

__extension__ typedef _Float16 half_t;

enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, FUSED, DIRECTIONS };
enum { NCHW, NHWC, STRIDED, LAYOUTS };
enum { ALGOS = 8, RESULTS = 24, DIMS_MAX = 5, GUARD_BYTES = 512 };
static const size_t record_workspace_bytes = (size_t)64 << 20;

static const char *const direction_names[] = {"forward", "backward_data", "backward_filter",
                                              "fused"};
static const char *const layout_names[] = {"nchw", "nhwc", "strided"};

typedef struct test_case {
    int direction, layout;
    cudnnDataType_t type;
    int n, c, k, side, kernel, pad, stride, dilation, groups, spatial;
    float alpha, beta;
    int in_place; /* FUSED: z is y */
} test_case_t;

/* A tensor as cuDNN sees it, and its logical values in double. */
typedef struct tensor {
    int count; /* dimensions */
    int dims[DIMS_MAX], strides[DIMS_MAX];
    size_t elements; /* logical */
    size_t span;     /* stored, gaps included */
    double *values;  /* logical order, outermost first */
    void *device;    /* element 0 */
    char *block;     /* with guards on both sides */
} tensor_t;

static cudnnHandle_t handle;
static void *workspace;

static size_t type_bytes(cudnnDataType_t type)
{
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static double rounded(double value, cudnnDataType_t type)
{
    return type == CUDNN_DATA_HALF    ? (double)(half_t)value
           : type == CUDNN_DATA_FLOAT ? (double)(float)value
                                      : value;
}

static void put(void *at, size_t index, double value, cudnnDataType_t type)
{
    if (type == CUDNN_DATA_DOUBLE)
        ((double *)at)[index] = value;
    else if (type == CUDNN_DATA_FLOAT)
        ((float *)at)[index] = (float)value;
    else
        ((half_t *)at)[index] = (half_t)value;
}

static double get(const void *at, size_t index, cudnnDataType_t type)
{
    return type == CUDNN_DATA_DOUBLE  ? ((const double *)at)[index]
           : type == CUDNN_DATA_FLOAT ? (double)((const float *)at)[index]
                                      : (double)((const half_t *)at)[index];
}

static void set_strides(tensor_t *tensor, int layout)
{
    const int last = tensor->count - 1;
    int step = 1;
    if (layout == NHWC) {
        tensor->strides[1] = 1;
        step = tensor->dims[1];
        for (int i = last; i >= 2; i--, step *= tensor->dims[i + 1])
            tensor->strides[i] = step;
    } else {
        for (int i = last; i >= 1; i--) {
            tensor->strides[i] = step;
            step *= tensor->dims[i];
            step += layout == STRIDED && i == last ? 3 : 0; /* rows with a gap */
        }
    }
    tensor->strides[0] = step + (layout == STRIDED ? 8 : 0); /* images with a gap */
    tensor->span = 1;
    for (int i = 0; i <= last; i++)
        tensor->span += (size_t)(tensor->dims[i] - 1) * (size_t)tensor->strides[i];
}

static tensor_t make_tensor(int count, const int *dims, int layout)
{
    tensor_t tensor = {.count = count, .elements = 1};
    for (int i = 0; i < count; i++) {
        tensor.dims[i] = dims[i];
        tensor.elements *= (size_t)dims[i];
    }
    set_strides(&tensor, layout);
    tensor.values = malloc(tensor.elements * sizeof *tensor.values);
    if (!tensor.values)
        BAIL("out of memory");
    return tensor;
}

static void randomize(tensor_t *tensor, uint32_t seed, cudnnDataType_t type)
{
    for (size_t i = 0; i < tensor->elements; i++) {
        seed = seed * 1664525U + 1013904223U;
        tensor->values[i] = rounded((double)(seed >> 8) / 16777216.0 - 0.5, type);
    }
}

/* Place of the logical element `index` in storage. */
static size_t place(const tensor_t *tensor, size_t index)
{
    size_t at = 0;
    for (int i = tensor->count - 1; i >= 0; i--) {
        at += index % (size_t)tensor->dims[i] * (size_t)tensor->strides[i];
        index /= (size_t)tensor->dims[i];
    }
    return at;
}

/* Stores the values in device memory between poisoned guards; without values, poison only. */
static void upload(tensor_t *tensor, cudnnDataType_t type, int with_values)
{
    const size_t bytes = tensor->span * type_bytes(type);
    char *const host = malloc(bytes);
    if (!host)
        BAIL("out of memory");
    memset(host, 0xFF, bytes); /* NaN in every type */
    for (size_t i = 0; with_values && i < tensor->elements; i++)
        put(host, place(tensor, i), tensor->values[i], type);
    if (!tensor->block)
        CUDA(cudaMalloc((void **)&tensor->block, bytes + 2 * GUARD_BYTES));
    CUDA(cudaMemset(tensor->block, 0xFF, bytes + 2 * GUARD_BYTES));
    tensor->device = tensor->block + GUARD_BYTES;
    CUDA(cudaMemcpy(tensor->device, host, bytes, cudaMemcpyHostToDevice));
    free(host);
}

/* Logical values back; true if guards and gaps are as they were. */
static int download(const tensor_t *tensor, cudnnDataType_t type, double *values)
{
    const size_t bytes = tensor->span * type_bytes(type);
    unsigned char *const host = malloc(bytes + 2 * GUARD_BYTES);
    if (!host)
        BAIL("out of memory");
    CUDA(cudaMemcpy(host, tensor->block, bytes + 2 * GUARD_BYTES, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < tensor->elements; i++) {
        values[i] = get(host + GUARD_BYTES, place(tensor, i), type);
        memset(host + GUARD_BYTES + place(tensor, i) * type_bytes(type), 0xFF, type_bytes(type));
    }
    int intact = 1;
    for (size_t i = 0; i < bytes + 2 * GUARD_BYTES; i++)
        intact &= host[i] == 0xFF;
    free(host);
    return intact;
}

static void release(tensor_t *tensor)
{
    if (tensor->block)
        CUDA(cudaFree(tensor->block));
    free(tensor->values);
}

/* One convolution with its descriptors and data. */
typedef struct problem {
    const test_case_t *test;
    cudnnDataType_t type;
    tensor_t x, w, y, z, bias;
    cudnnTensorDescriptor_t x_desc, y_desc, z_desc, bias_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t activation;
} problem_t;

static tensor_t *output_of(problem_t *problem)
{
    return problem->test->direction == BACKWARD_DATA     ? &problem->x
           : problem->test->direction == BACKWARD_FILTER ? &problem->w
                                                         : &problem->y;
}

static cudnnTensorDescriptor_t describe(const tensor_t *tensor, cudnnDataType_t type)
{
    cudnnTensorDescriptor_t descriptor;
    CUDNN(cudnnCreateTensorDescriptor(&descriptor));
    CUDNN(
        cudnnSetTensorNdDescriptor(descriptor, type, tensor->count, tensor->dims, tensor->strides));
    return descriptor;
}

static void describe_convolution(problem_t *problem)
{
    const test_case_t *const test = problem->test;
    int pad[3], stride[3], dilation[3];
    for (int i = 0; i < 3; i++) {
        pad[i] = test->pad;
        stride[i] = test->stride;
        dilation[i] = test->dilation;
    }
    CUDNN(cudnnCreateConvolutionDescriptor(&problem->conv));
    CUDNN(cudnnSetConvolutionNdDescriptor(
        problem->conv, test->spatial, pad, stride, dilation, CUDNN_CROSS_CORRELATION,
        problem->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionGroupCount(problem->conv, test->groups));
    CUDNN(cudnnSetConvolutionMathType(
        problem->conv, problem->type == CUDNN_DATA_HALF ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
}

/* The case in `type`; fp64 references are always packed NCHW. */
static problem_t pose(const test_case_t *test, cudnnDataType_t type, int layout)
{
    problem_t problem = {.test = test, .type = type};
    const int reach = test->dilation * (test->kernel - 1) + 1;
    const int out = (test->side + 2 * test->pad - reach) / test->stride + 1;
    const int count = test->spatial + 2;
    int x[DIMS_MAX] = {test->n, test->c}, w[DIMS_MAX] = {test->k, test->c / test->groups};
    int y[DIMS_MAX] = {test->n, test->k}, bias[DIMS_MAX] = {1, test->k, 1, 1, 1};
    for (int i = 2; i < count; i++) {
        x[i] = test->side;
        w[i] = test->kernel;
        y[i] = out;
    }
    problem.x = make_tensor(count, x, layout);
    problem.w = make_tensor(count, w, layout == NHWC ? NHWC : NCHW);
    problem.y = make_tensor(count, y, layout);
    problem.z = make_tensor(count, y, layout);
    problem.bias = make_tensor(count, bias, NCHW);
    randomize(&problem.x, 1, test->type);
    randomize(&problem.w, 2, test->type);
    randomize(&problem.y, 3, test->type);
    randomize(&problem.z, 4, test->type);
    randomize(&problem.bias, 5, test->type);
    problem.x_desc = describe(&problem.x, type);
    problem.y_desc = describe(&problem.y, type);
    problem.z_desc = describe(&problem.z, type);
    problem.bias_desc = describe(&problem.bias, type);
    CUDNN(cudnnCreateFilterDescriptor(&problem.w_desc));
    CUDNN(cudnnSetFilterNdDescriptor(problem.w_desc, type,
                                     layout == NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, count,
                                     problem.w.dims));
    describe_convolution(&problem);
    CUDNN(cudnnCreateActivationDescriptor(&problem.activation));
    CUDNN(cudnnSetActivationDescriptor(problem.activation, CUDNN_ACTIVATION_RELU,
                                       CUDNN_NOT_PROPAGATE_NAN, 0.0));
    return problem;
}

static void dispose(problem_t *problem)
{
    release(&problem->x);
    release(&problem->w);
    release(&problem->y);
    release(&problem->z);
    release(&problem->bias);
    CUDNN(cudnnDestroyTensorDescriptor(problem->x_desc));
    CUDNN(cudnnDestroyTensorDescriptor(problem->y_desc));
    CUDNN(cudnnDestroyTensorDescriptor(problem->z_desc));
    CUDNN(cudnnDestroyTensorDescriptor(problem->bias_desc));
    CUDNN(cudnnDestroyFilterDescriptor(problem->w_desc));
    CUDNN(cudnnDestroyConvolutionDescriptor(problem->conv));
    CUDNN(cudnnDestroyActivationDescriptor(problem->activation));
}

/* Uploads everything afresh: the output keeps its values only if beta reads them. */
static void upload_all(problem_t *problem)
{
    const tensor_t *const output = output_of(problem);
    const int keeps = problem->test->beta != 0 && problem->test->direction != FUSED;
    upload(&problem->x, problem->type, output != &problem->x || keeps);
    upload(&problem->w, problem->type, output != &problem->w || keeps);
    upload(&problem->y, problem->type, output != &problem->y || keeps);
    if (problem->test->direction == FUSED) {
        upload(&problem->bias, problem->type, 1);
        if (problem->test->in_place) {
            memcpy(problem->y.values, problem->z.values, problem->y.elements * sizeof(double));
            upload(&problem->y, problem->type, 1);
        } else {
            upload(&problem->z, problem->type, 1);
        }
    }
}

/* The real call; alpha and beta in the type that cuDNN reads. */
static cudnnStatus_t run(problem_t *problem, int direction, int algo, size_t workspace_bytes)
{
    const double wide[2] = {problem->test->alpha, problem->test->beta};
    const float narrow[2] = {problem->test->alpha, problem->test->beta};
    const int is_double = problem->type == CUDNN_DATA_DOUBLE;
    const void *const alpha = is_double ? (const void *)&wide[0] : &narrow[0];
    const void *const beta = is_double ? (const void *)&wide[1] : &narrow[1];
    void *const scratch = workspace_bytes ? workspace : NULL;
    switch (direction) {
    case FORWARD:
        return cudnnConvolutionForward(handle, alpha, problem->x_desc, problem->x.device,
                                       problem->w_desc, problem->w.device, problem->conv,
                                       (cudnnConvolutionFwdAlgo_t)algo, scratch, workspace_bytes,
                                       beta, problem->y_desc, problem->y.device);
    case BACKWARD_DATA:
        return cudnnConvolutionBackwardData(
            handle, alpha, problem->w_desc, problem->w.device, problem->y_desc, problem->y.device,
            problem->conv, (cudnnConvolutionBwdDataAlgo_t)algo, scratch, workspace_bytes, beta,
            problem->x_desc, problem->x.device);
    case BACKWARD_FILTER:
        return cudnnConvolutionBackwardFilter(
            handle, alpha, problem->x_desc, problem->x.device, problem->y_desc, problem->y.device,
            problem->conv, (cudnnConvolutionBwdFilterAlgo_t)algo, scratch, workspace_bytes, beta,
            problem->w_desc, problem->w.device);
    default:
        return cudnnConvolutionBiasActivationForward(
            handle, alpha, problem->x_desc, problem->x.device, problem->w_desc, problem->w.device,
            problem->conv, (cudnnConvolutionFwdAlgo_t)algo, scratch, workspace_bytes, beta,
            problem->z_desc, problem->test->in_place ? problem->y.device : problem->z.device,
            problem->bias_desc, problem->bias.device, problem->activation, problem->y_desc,
            problem->y.device);
    }
}

static cudnnStatus_t workspace_size(const problem_t *problem, int algo, size_t *bytes)
{
    switch (problem->test->direction) {
    case BACKWARD_DATA:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle, problem->w_desc, problem->y_desc, problem->conv, problem->x_desc,
            (cudnnConvolutionBwdDataAlgo_t)algo, bytes);
    case BACKWARD_FILTER:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle, problem->x_desc, problem->y_desc, problem->conv, problem->w_desc,
            (cudnnConvolutionBwdFilterAlgo_t)algo, bytes);
    default:
        return cudnnGetConvolutionForwardWorkspaceSize(handle, problem->x_desc, problem->w_desc,
                                                       problem->conv, problem->y_desc,
                                                       (cudnnConvolutionFwdAlgo_t)algo, bytes);
    }
}

/* First deterministic algorithm that Get names with at most `limit` workspace, with the math type
 * it names; -1 if it names none. */
#define FIRST_ALGORITHM(perf_t, get_call)                                                          \
    do {                                                                                           \
        perf_t results[RESULTS];                                                                   \
        int count = 0;                                                                             \
        CUDNN(get_call);                                                                           \
        for (int i = 0; i < count; i++)                                                            \
            if (results[i].status == CUDNN_STATUS_SUCCESS &&                                       \
                results[i].determinism == CUDNN_DETERMINISTIC && results[i].memory <= limit) {     \
                CUDNN(cudnnSetConvolutionMathType(problem->conv, results[i].mathType));            \
                return (int)results[i].algo;                                                       \
            }                                                                                      \
        return -1;                                                                                 \
    } while (0)

static int first_algorithm(const problem_t *problem, size_t limit)
{
    switch (problem->test->direction) {
    case BACKWARD_DATA:
        FIRST_ALGORITHM(cudnnConvolutionBwdDataAlgoPerf_t,
                        cudnnGetConvolutionBackwardDataAlgorithm_v7(
                            handle, problem->w_desc, problem->y_desc, problem->conv,
                            problem->x_desc, RESULTS, &count, results));
    case BACKWARD_FILTER:
        FIRST_ALGORITHM(cudnnConvolutionBwdFilterAlgoPerf_t,
                        cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                            handle, problem->x_desc, problem->y_desc, problem->conv,
                            problem->w_desc, RESULTS, &count, results));
    default:
        FIRST_ALGORITHM(cudnnConvolutionFwdAlgoPerf_t,
                        cudnnGetConvolutionForwardAlgorithm_v7(
                            handle, problem->x_desc, problem->w_desc, problem->conv,
                            problem->y_desc, RESULTS, &count, results));
    }
}

/* fp64 by the plainest algorithm; the fused tail on the host. */
static void reference(const test_case_t *test, double *values)
{
    test_case_t plain = *test;
    if (test->direction == FUSED) {
        plain.direction = FORWARD;
        plain.beta = 0;
    }
    problem_t problem = pose(&plain, CUDNN_DATA_DOUBLE, NCHW);
    const int algo = plain.direction == BACKWARD_FILTER ? (int)CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1
                     : plain.direction == BACKWARD_DATA ? (int)CUDNN_CONVOLUTION_BWD_DATA_ALGO_1
                                                        : 0;
    size_t bytes = 0;
    upload_all(&problem);
    CUDNN(workspace_size(&problem, algo, &bytes));
    if (bytes > record_workspace_bytes)
        BAIL("the fp64 reference needs too much workspace");
    CUDNN(run(&problem, plain.direction, algo, bytes));
    if (!download(output_of(&problem), CUDNN_DATA_DOUBLE, values))
        BAIL("the fp64 reference wrote outside its output");
    if (test->direction == FUSED) {
        const size_t pixels = problem.y.elements / (size_t)(test->n * test->k);
        for (size_t i = 0; i < problem.y.elements; i++) {
            const double sum = values[i] + (double)test->beta * problem.z.values[i] +
                               problem.bias.values[i / pixels % (size_t)test->k];
            values[i] = sum > 0 ? sum : 0;
        }
    }
    dispose(&problem);
}

static double relative_error(const double *values, const double *truth, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (values[i] - truth[i]) * (values[i] - truth[i]);
        norm += truth[i] * truth[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

static uint64_t hash(const double *values, size_t count)
{
    uint64_t state = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        state = (state ^ bits) * UINT64_C(0x100000001B3);
    }
    return state;
}

static void describe_case(const test_case_t *test, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "%s %s %s %dd batch %d groups %d dilation %d stride %d pad %d alpha %g beta %g%s",
             direction_names[test->direction], layout_names[test->layout],
             test->type == CUDNN_DATA_HALF ? "fp16" : "fp32", test->spatial, test->n, test->groups,
             test->dilation, test->stride, test->pad, (double)test->alpha, (double)test->beta,
             test->in_place ? " in place" : "");
}

static const int batches[] = {1, 2, 7, 127, 255, 257};

typedef void (*use_t)(const test_case_t *test, void *context);

/* What is not plain, one case each. */
static void visit_others(const test_case_t *plain, int few, use_t use, void *context)
{
    for (int kind = 0; kind < 4; kind++) {
        test_case_t test = *plain;
        if (few &&
            (kind + plain->direction + plain->layout) % 2 == (plain->type == CUDNN_DATA_HALF))
            continue;
        test.groups = kind == 0 ? 2 : 1;
        test.pad = test.dilation = kind == 1 ? 2 : 1;
        if (kind == 2) {
            test.stride = 2;
            test.pad = 0;
        } else if (kind == 3) {
            test.spatial = 3;
            test.side = 4;
            test.beta = test.direction == FUSED ? 0 : 1;
        }
        use(&test, context);
    }
    if (plain->direction == FUSED) {
        test_case_t test = *plain;
        test.beta = 1;
        test.in_place = 1;
        use(&test, context);
    }
}

/* Calls `use` for every case; with CONV_MATRIX=few for so many that every two traits meet in one. */
static void for_each_case(use_t use, void *context)
{
    const char *const text = getenv("CONV_MATRIX");
    const int few = text && strcmp(text, "few") == 0;
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int half = 0; half < 2; half++) {
                const test_case_t plain = {.direction = direction,
                                           .layout = layout,
                                           .type = half ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT,
                                           .n = 7,
                                           .c = 4,
                                           .k = 4,
                                           .side = 6,
                                           .kernel = 3,
                                           .pad = 1,
                                           .stride = 1,
                                           .dilation = 1,
                                           .groups = 1,
                                           .spatial = 2,
                                           .alpha = 1};
                if (layout == STRIDED && (half || direction == FUSED))
                    continue;
                for (int i = 0; i < (int)(sizeof batches / sizeof *batches); i++) {
                    test_case_t test = plain;
                    if (few && (direction + layout + half) % 3 != i % 3)
                        continue;
                    test.n = batches[i];
                    use(&test, context);
                    test.beta = i % 2 ? 0.5F : 1.0F;
                    test.alpha = i % 2 ? 1.0F : 0.75F;
                    use(&test, context);
                }
                visit_others(&plain, few, use, context);
            }
}

typedef struct record {
    uint64_t supported; /* 0: cuDNN runs this case with no algorithm */
    double worst_error;
    uint64_t elements;
    /* then: elements doubles, then ALGOS x n hashes (0: algorithm not supported) */
} record_t;

static void write_or_die(FILE *file, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, file) != bytes)
        BAIL("cannot write the record");
}

static void read_or_die(FILE *file, void *data, size_t bytes)
{
    if (fread(data, 1, bytes, file) != bytes)
        BAIL("the record does not match");
}

static void record_case(const test_case_t *test, void *context)
{
    problem_t problem = pose(test, test->type, test->layout);
    const size_t elements = output_of(&problem)->elements;
    double *const truth = malloc(elements * sizeof *truth);
    double *const values = malloc(elements * sizeof *values);
    uint64_t *const hashes = calloc((size_t)(ALGOS * test->n), sizeof *hashes);
    if (!truth || !values || !hashes)
        BAIL("out of memory");
    record_t record = {.elements = elements};
    reference(test, truth);
    for (int algo = 0; algo < ALGOS; algo++) {
        size_t bytes;
        if (workspace_size(&problem, algo, &bytes) != CUDNN_STATUS_SUCCESS ||
            bytes > record_workspace_bytes)
            continue;
        upload_all(&problem);
        if (run(&problem, test->direction, algo, bytes) != CUDNN_STATUS_SUCCESS)
            continue;
        if (!download(output_of(&problem), test->type, values))
            BAIL("cuDNN wrote outside its output");
        const double error = relative_error(values, truth, elements);
        record.supported = 1;
        record.worst_error = error > record.worst_error ? error : record.worst_error;
        const size_t image = elements / (size_t)test->n;
        for (int i = 0; test->direction != BACKWARD_FILTER && i < test->n; i++)
            hashes[algo * test->n + i] = hash(values + (size_t)i * image, image);
    }
    write_or_die(context, &record, sizeof record);
    write_or_die(context, truth, elements * sizeof *truth);
    write_or_die(context, hashes, (size_t)(ALGOS * test->n) * sizeof *hashes);
    free(truth);
    free(values);
    free(hashes);
    dispose(&problem);
}

typedef struct checking {
    FILE *file;
    size_t workspace_bytes;
    int bitwise;
    int max_batch; /* cases of larger batches are skipped */
    int number, failed;
} checking_t;

static int images_match(const test_case_t *test, const double *values, const uint64_t *hashes,
                        size_t elements)
{
    const size_t image = elements / (size_t)test->n;
    for (int i = 0; i < test->n; i++) {
        const uint64_t mine = hash(values + (size_t)i * image, image);
        int found = 0;
        for (int algo = 0; algo < ALGOS; algo++)
            found |= hashes[algo * test->n + i] == mine;
        if (!found)
            return 0;
    }
    return 1;
}

static const char nothing_fits[] = "no deterministic algorithm fits the workspace";

/* Twice: the second run uses what the first one planned. */
static const char *check_run(problem_t *problem, const checking_t *checking, const record_t *record,
                             const double *truth, const uint64_t *hashes, double *error)
{
    const test_case_t *const test = problem->test;
    const double floor = test->type == CUDNN_DATA_HALF ? 2e-3 : 1e-5;
    const double gate = 1.2 * record->worst_error > floor ? 1.2 * record->worst_error : floor;
    static double *values;
    const char *failure = NULL;
    values = realloc(values, record->elements * sizeof *values);
    const int algo = first_algorithm(problem, checking->workspace_bytes);
    size_t bytes = 0;
    if (!values)
        return "out of memory";
    if (algo < 0)
        return nothing_fits;
    if (workspace_size(problem, algo, &bytes) != CUDNN_STATUS_SUCCESS)
        return "WorkspaceSize refuses the algorithm that Get named";
    if (bytes > checking->workspace_bytes)
        return "WorkspaceSize wants more than Get said";
    for (int i = 0; i < 2 && !failure; i++) {
        upload_all(problem);
        if (run(problem, test->direction, algo, bytes) != CUDNN_STATUS_SUCCESS)
            return "the convolution fails";
        if (!download(output_of(problem), test->type, values))
            return "wrote outside its output";
        *error = relative_error(values, truth, record->elements);
        if (!(*error <= gate))
            failure = "error above the gate";
        else if (checking->bitwise && test->direction != BACKWARD_FILTER &&
                 !images_match(test, values, hashes, record->elements))
            failure = "an image equals no algorithm's result bit for bit";
    }
    return failure;
}

static void check_case(const test_case_t *test, void *context)
{
    checking_t *const checking = context;
    record_t record;
    char name[256];
    describe_case(test, name, sizeof name);
    read_or_die(checking->file, &record, sizeof record);
    double *const truth = malloc(record.elements * sizeof *truth);
    uint64_t *const hashes = malloc((size_t)(ALGOS * test->n) * sizeof *hashes);
    if (!truth || !hashes)
        BAIL("out of memory");
    read_or_die(checking->file, truth, record.elements * sizeof *truth);
    read_or_die(checking->file, hashes, (size_t)(ALGOS * test->n) * sizeof *hashes);
    checking->number++;
    if (!record.supported || test->n > checking->max_batch) {
        printf("ok %d - %s # SKIP %s\n", checking->number, name,
               record.supported ? "too large a batch" : "cuDNN does not support it");
    } else {
        double error = NAN;
        problem_t problem = pose(test, test->type, test->layout);
        const char *failure = check_run(&problem, checking, &record, truth, hashes, &error);
        dispose(&problem);
        if (failure == nothing_fits) {
            printf("ok %d - %s # SKIP %s\n", checking->number, name, failure);
            failure = NULL;
        } else {
            printf("%sok %d - %s\n", failure ? "not " : "", checking->number, name);
        }
        if (failure)
            printf("# %s: error %g, worst of stock %g\n", failure, error, record.worst_error);
        checking->failed += failure != NULL;
    }
    free(truth);
    free(hashes);
}

static void count_case(const test_case_t *test, void *context)
{
    (void)test;
    ++*(int *)context;
}

int main(int argc, char **argv)
{
    const int recording = argc == 3 && strcmp(argv[1], "record") == 0;
    if (!recording && !(argc >= 4 && strcmp(argv[1], "check") == 0)) {
        fprintf(stderr, "usage: conv_matrix record FILE | check FILE WORKSPACE_BYTES "
                        "[bitwise|close [MAX_BATCH]]\n");
        return 2;
    }
    FILE *const file = fopen(argv[2], recording ? "wb" : "rb");
    if (!file)
        BAIL("cannot open the record");
    CUDNN(cudnnCreate(&handle));
    CUDA(cudaMalloc(&workspace, record_workspace_bytes));
    checking_t checking = {.file = file};
    if (recording) {
        for_each_case(record_case, file);
    } else {
        int count = 0;
        checking.workspace_bytes = (size_t)strtoull(argv[3], NULL, 10);
        if (checking.workspace_bytes > record_workspace_bytes)
            checking.workspace_bytes = record_workspace_bytes;
        checking.bitwise = argc > 4 && strcmp(argv[4], "bitwise") == 0;
        checking.max_batch = argc > 5 ? atoi(argv[5]) : 1 << 30;
        for_each_case(count_case, &count);
        printf("1..%d\n", count);
        for_each_case(check_case, &checking);
    }
    CUDNN(cudnnDestroy(handle));
    if (fclose(file) != 0)
        BAIL("cannot write the record");
    return checking.failed > 0;
}
