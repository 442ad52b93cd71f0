/* Convolution layers of known networks, one after the other, by the legacy API: FindEx within a
 * workspace limit, then the chosen algorithm executed. Prints a TSV row per layer and direction:
 *   net layer direction count algo workspace_bytes predicted_ms executed_ms relative_error
 * where predicted is what FindEx said and executed the median of groups of back-to-back calls. The
 * program knows nothing of microdnn: run it with and without the preload and compare.
 *
 *   layers NET fp32|tf32|fp16 LIMIT_MIB [GROUPS]        LIMIT_MIB 0: no limit (what 9 GiB allow) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "test/clients/network_layers.h"

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CUDNN(call)                                                                                \
    do {                                                                                           \
        const cudnnStatus_t status_ = (call);                                                      \
        if (status_ != CUDNN_STATUS_SUCCESS) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudnnGetErrorString(status_));      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum {
    FORWARD,
    BACKWARD_DATA,
    BACKWARD_FILTER,
    DIRECTIONS,
    RESULTS = 24,
    RUNS = 5,
    GROUPS_MAX = 64
};
static const char *const direction_names[] = {"forward", "backward_data", "backward_filter"};

typedef struct bench {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    void *x, *y, *w, *workspace;
    size_t limit, workspace_bytes;
    int algo;
    float predicted_ms;
} bench_t;

static size_t element_bytes = 4;

static void *random_device(size_t count)
{
    enum { BLOCK = 1 << 20 };
    static uint32_t host[BLOCK / 4];
    static uint32_t seed = 12345;
    for (int i = 0; i < BLOCK / 4; i++) {
        seed = seed * 1664525U + 1013904223U;
        host[i] = element_bytes == 4 ? (seed & 0x807FFFFFU) | 0x3E000000U
                                     : (seed & 0x83FF83FFU) | 0x30003000U;
    }
    char *device;
    const size_t bytes = count * element_bytes;
    CUDA(cudaMalloc((void **)&device, bytes));
    for (size_t at = 0; at < bytes; at += BLOCK)
        CUDA(cudaMemcpy(device + at, host, bytes - at < BLOCK ? bytes - at : BLOCK,
                        cudaMemcpyHostToDevice));
    return device;
}

static void set_up(bench_t *bench, const layer_t *layer, const char *arithmetic)
{
    const int half = strcmp(arithmetic, "fp16") == 0;
    const cudnnDataType_t type = half ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    const cudnnTensorFormat_t format = half ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const int p = (layer->h + 2 * layer->pad - layer->r) / layer->stride + 1;
    const int q = (layer->w + 2 * layer->pad - layer->s) / layer->stride + 1;
    CUDNN(cudnnSetTensor4dDescriptor(bench->x_desc, format, type, layer->n, layer->c, layer->h,
                                     layer->w));
    CUDNN(cudnnSetTensor4dDescriptor(bench->y_desc, format, type, layer->n, layer->k, p, q));
    CUDNN(cudnnSetFilter4dDescriptor(bench->w_desc, type, format, layer->k, layer->c, layer->r,
                                     layer->s));
    CUDNN(cudnnSetConvolution2dDescriptor(bench->conv, layer->pad, layer->pad, layer->stride,
                                          layer->stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionMathType(bench->conv, half ? CUDNN_TENSOR_OP_MATH
                                                   : strcmp(arithmetic, "fp32") == 0
                                                       ? CUDNN_FMA_MATH
                                                       : CUDNN_DEFAULT_MATH));
    bench->x =
        random_device((size_t)layer->n * (size_t)layer->c * (size_t)layer->h * (size_t)layer->w);
    bench->y = random_device((size_t)layer->n * (size_t)layer->k * (size_t)p * (size_t)q);
    bench->w =
        random_device((size_t)layer->k * (size_t)layer->c * (size_t)layer->r * (size_t)layer->s);
}

static void tear_down(bench_t *bench)
{
    CUDA(cudaFree(bench->x));
    CUDA(cudaFree(bench->y));
    CUDA(cudaFree(bench->w));
}

static void run(const bench_t *bench, int direction)
{
    const float one = 1.0F, zero = 0.0F;
    if (direction == FORWARD)
        CUDNN(cudnnConvolutionForward(bench->handle, &one, bench->x_desc, bench->x, bench->w_desc,
                                      bench->w, bench->conv, (cudnnConvolutionFwdAlgo_t)bench->algo,
                                      bench->workspace, bench->workspace_bytes, &zero,
                                      bench->y_desc, bench->y));
    else if (direction == BACKWARD_DATA)
        CUDNN(cudnnConvolutionBackwardData(
            bench->handle, &one, bench->w_desc, bench->w, bench->y_desc, bench->y, bench->conv,
            (cudnnConvolutionBwdDataAlgo_t)bench->algo, bench->workspace, bench->workspace_bytes,
            &zero, bench->x_desc, bench->x));
    else
        CUDNN(cudnnConvolutionBackwardFilter(
            bench->handle, &one, bench->x_desc, bench->x, bench->y_desc, bench->y, bench->conv,
            (cudnnConvolutionBwdFilterAlgo_t)bench->algo, bench->workspace, bench->workspace_bytes,
            &zero, bench->w_desc, bench->w));
}

/* The fastest result within the limit, whatever its position. */
#define PICK(perf_t, find_call)                                                                    \
    do {                                                                                           \
        perf_t results[RESULTS];                                                                   \
        int count = 0;                                                                             \
        const perf_t *best = NULL;                                                                 \
        CUDNN(find_call);                                                                          \
        CUDNN(find_call); /* once more: the first loads kernels */                                 \
        for (int i = 0; i < count; i++)                                                            \
            if (results[i].status == CUDNN_STATUS_SUCCESS && results[i].memory <= bench->limit &&  \
                (!best || results[i].time < best->time))                                           \
                best = &results[i];                                                                \
        if (!best)                                                                                 \
            return 0;                                                                              \
        bench->algo = (int)best->algo;                                                             \
        bench->workspace_bytes = best->memory;                                                     \
        bench->predicted_ms = best->time;                                                          \
        CUDNN(cudnnSetConvolutionMathType(bench->conv, best->mathType));                           \
    } while (0)

static int choose(bench_t *bench, int direction)
{
    if (direction == FORWARD)
        PICK(cudnnConvolutionFwdAlgoPerf_t,
             cudnnFindConvolutionForwardAlgorithmEx(bench->handle, bench->x_desc, bench->x,
                                                    bench->w_desc, bench->w, bench->conv,
                                                    bench->y_desc, bench->y, RESULTS, &count,
                                                    results, bench->workspace, bench->limit));
    else if (direction == BACKWARD_DATA)
        PICK(cudnnConvolutionBwdDataAlgoPerf_t,
             cudnnFindConvolutionBackwardDataAlgorithmEx(bench->handle, bench->w_desc, bench->w,
                                                         bench->y_desc, bench->y, bench->conv,
                                                         bench->x_desc, bench->x, RESULTS, &count,
                                                         results, bench->workspace, bench->limit));
    else
        PICK(cudnnConvolutionBwdFilterAlgoPerf_t,
             cudnnFindConvolutionBackwardFilterAlgorithmEx(
                 bench->handle, bench->x_desc, bench->x, bench->y_desc, bench->y, bench->conv,
                 bench->w_desc, bench->w, RESULTS, &count, results, bench->workspace,
                 bench->limit));
    return 1;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float execute(const bench_t *bench, int direction, int groups)
{
    cudaEvent_t begin, end;
    float times[GROUPS_MAX];
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    run(bench, direction);
    for (int group = 0; group < groups; group++) {
        run(bench, direction); /* keeps the GPU busy while the host enqueues the timed calls */
        CUDA(cudaEventRecord(begin, NULL));
        for (int i = 0; i < RUNS; i++)
            run(bench, direction);
        CUDA(cudaEventRecord(end, NULL));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&times[group], begin, end));
    }
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    qsort(times, (size_t)groups, sizeof *times, compare_floats);
    return times[groups / 2] / RUNS;
}

static void bench_layer(bench_t *bench, const layer_t *layer, const char *arithmetic, int groups,
                        float totals[2])
{
    set_up(bench, layer, arithmetic);
    for (int direction = FORWARD; direction < DIRECTIONS; direction++) {
        if (direction == BACKWARD_DATA && layer->c == 3)
            continue; /* the first layer's input needs no gradient */
        if (!choose(bench, direction)) {
            fprintf(stderr, "%s %s %s: nothing fits\n", layer->net, layer->name,
                    direction_names[direction]);
            continue;
        }
        const float executed = execute(bench, direction, groups);
        printf("%s\t%s\t%s\t%d\t%d\t%zu\t%.4f\t%.4f\t%.3f\n", layer->net, layer->name,
               direction_names[direction], layer->count, bench->algo, bench->workspace_bytes,
               (double)bench->predicted_ms, (double)executed,
               (double)(executed / bench->predicted_ms - 1.0F));
        totals[0] += bench->predicted_ms * (float)layer->count;
        totals[1] += executed * (float)layer->count;
    }
    tear_down(bench);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: layers NET fp32|tf32|fp16 LIMIT_MIB [GROUPS]\n");
        return 2;
    }
    const size_t mib = (size_t)strtoul(argv[3], NULL, 10);
    const int groups = argc > 4 ? atoi(argv[4]) : 5;
    bench_t bench = {.limit = mib ? mib << 20 : (size_t)9 << 30};
    float totals[2] = {0, 0};
    if (groups < 1 || groups > GROUPS_MAX)
        return 2;
    element_bytes = strcmp(argv[2], "fp16") == 0 ? 2 : 4;
    CUDNN(cudnnCreate(&bench.handle));
    CUDNN(cudnnCreateTensorDescriptor(&bench.x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&bench.y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&bench.w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&bench.conv));
    CUDA(cudaMalloc(&bench.workspace, bench.limit));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (strcmp(layers[i].net, argv[1]) == 0)
            bench_layer(&bench, &layers[i], argv[2], groups, totals);
    printf("%s\ttotal\t%s\t%zu\t-\t-\t%.4f\t%.4f\t%.3f\n", argv[1], argv[2], mib, (double)totals[0],
           (double)totals[1], (double)(totals[1] / totals[0] - 1.0F));
    return 0;
}
