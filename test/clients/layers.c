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

typedef struct layer {
    const char *net, *name;
    int n, c, h, w, k, r, s, stride, pad, count; /* count: how often the net has it */
} layer_t;

/* Geometry of torchvision's networks, then of Caffe's AlexNet, which runs the groups of conv2, conv4
 * and conv5 one after the other, and of table 2 of the cuDNN paper (Chetlur et al. 2014). */
static const layer_t layers[] = {
    {"alexnet", "conv1", 256, 3, 224, 224, 64, 11, 11, 4, 2, 1},
    {"alexnet", "conv2", 256, 64, 27, 27, 192, 5, 5, 1, 2, 1},
    {"alexnet", "conv3", 256, 192, 13, 13, 384, 3, 3, 1, 1, 1},
    {"alexnet", "conv4", 256, 384, 13, 13, 256, 3, 3, 1, 1, 1},
    {"alexnet", "conv5", 256, 256, 13, 13, 256, 3, 3, 1, 1, 1},
    {"vgg16", "conv1_1", 64, 3, 224, 224, 64, 3, 3, 1, 1, 1},
    {"vgg16", "conv1_2", 64, 64, 224, 224, 64, 3, 3, 1, 1, 1},
    {"vgg16", "conv2_1", 64, 64, 112, 112, 128, 3, 3, 1, 1, 1},
    {"vgg16", "conv2_2", 64, 128, 112, 112, 128, 3, 3, 1, 1, 1},
    {"vgg16", "conv3_1", 64, 128, 56, 56, 256, 3, 3, 1, 1, 1},
    {"vgg16", "conv3_2", 64, 256, 56, 56, 256, 3, 3, 1, 1, 2},
    {"vgg16", "conv4_1", 64, 256, 28, 28, 512, 3, 3, 1, 1, 1},
    {"vgg16", "conv4_2", 64, 512, 28, 28, 512, 3, 3, 1, 1, 2},
    {"vgg16", "conv5", 64, 512, 14, 14, 512, 3, 3, 1, 1, 3},
    {"resnet50", "conv1", 128, 3, 224, 224, 64, 7, 7, 2, 3, 1},
    {"resnet50", "2a", 128, 64, 56, 56, 64, 1, 1, 1, 0, 1},
    {"resnet50", "2b", 128, 64, 56, 56, 64, 3, 3, 1, 1, 3},
    {"resnet50", "2c", 128, 64, 56, 56, 256, 1, 1, 1, 0, 4},
    {"resnet50", "2a'", 128, 256, 56, 56, 64, 1, 1, 1, 0, 2},
    {"resnet50", "3a", 128, 256, 56, 56, 128, 1, 1, 1, 0, 1},
    {"resnet50", "3b/2", 128, 128, 56, 56, 128, 3, 3, 2, 1, 1},
    {"resnet50", "3c", 128, 128, 28, 28, 512, 1, 1, 1, 0, 4},
    {"resnet50", "3d", 128, 256, 56, 56, 512, 1, 1, 2, 0, 1},
    {"resnet50", "3a'", 128, 512, 28, 28, 128, 1, 1, 1, 0, 3},
    {"resnet50", "3b", 128, 128, 28, 28, 128, 3, 3, 1, 1, 3},
    {"resnet50", "4a", 128, 512, 28, 28, 256, 1, 1, 1, 0, 1},
    {"resnet50", "4b/2", 128, 256, 28, 28, 256, 3, 3, 2, 1, 1},
    {"resnet50", "4c", 128, 256, 14, 14, 1024, 1, 1, 1, 0, 6},
    {"resnet50", "4d", 128, 512, 28, 28, 1024, 1, 1, 2, 0, 1},
    {"resnet50", "4a'", 128, 1024, 14, 14, 256, 1, 1, 1, 0, 5},
    {"resnet50", "4b", 128, 256, 14, 14, 256, 3, 3, 1, 1, 5},
    {"resnet50", "5a", 128, 1024, 14, 14, 512, 1, 1, 1, 0, 1},
    {"resnet50", "5b/2", 128, 512, 14, 14, 512, 3, 3, 2, 1, 1},
    {"resnet50", "5c", 128, 512, 7, 7, 2048, 1, 1, 1, 0, 3},
    {"resnet50", "5d", 128, 1024, 14, 14, 2048, 1, 1, 2, 0, 1},
    {"resnet50", "5a'", 128, 2048, 7, 7, 512, 1, 1, 1, 0, 2},
    {"resnet50", "5b", 128, 512, 7, 7, 512, 3, 3, 1, 1, 2},
    {"caffe", "conv1", 256, 3, 227, 227, 96, 11, 11, 4, 0, 1},
    {"caffe", "conv2", 256, 48, 27, 27, 128, 5, 5, 1, 2, 2},
    {"caffe", "conv3", 256, 256, 13, 13, 384, 3, 3, 1, 1, 1},
    {"caffe", "conv4", 256, 192, 13, 13, 192, 3, 3, 1, 1, 2},
    {"caffe", "conv5", 256, 192, 13, 13, 128, 3, 3, 1, 1, 2},
    {"cudnn14", "layer1", 128, 3, 128, 128, 96, 11, 11, 1, 0, 1},
    {"cudnn14", "layer2", 128, 96, 64, 64, 128, 9, 9, 1, 0, 1},
    {"cudnn14", "layer3", 128, 128, 32, 32, 128, 9, 9, 1, 0, 1},
    {"cudnn14", "layer4", 128, 128, 16, 16, 128, 7, 7, 1, 0, 1},
    {"cudnn14", "layer5", 128, 128, 13, 13, 384, 3, 3, 1, 0, 1},
};

enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS, RESULTS = 24, RUNS = 5, GROUPS_MAX = 64 };
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
                                      : strcmp(arithmetic, "fp32") == 0 ? CUDNN_FMA_MATH
                                                                        : CUDNN_DEFAULT_MATH));
    bench->x = random_device((size_t)layer->n * (size_t)layer->c * (size_t)layer->h * (size_t)layer->w);
    bench->y = random_device((size_t)layer->n * (size_t)layer->k * (size_t)p * (size_t)q);
    bench->w = random_device((size_t)layer->k * (size_t)layer->c * (size_t)layer->r * (size_t)layer->s);
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
             cudnnFindConvolutionForwardAlgorithmEx(
                 bench->handle, bench->x_desc, bench->x, bench->w_desc, bench->w, bench->conv,
                 bench->y_desc, bench->y, RESULTS, &count, results, bench->workspace,
                 bench->limit));
    else if (direction == BACKWARD_DATA)
        PICK(cudnnConvolutionBwdDataAlgoPerf_t,
             cudnnFindConvolutionBackwardDataAlgorithmEx(
                 bench->handle, bench->w_desc, bench->w, bench->y_desc, bench->y, bench->conv,
                 bench->x_desc, bench->x, RESULTS, &count, results, bench->workspace,
                 bench->limit));
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
