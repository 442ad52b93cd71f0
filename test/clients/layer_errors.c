/* Errors of the convolutions of known networks, as a program gets them, against cuDNN's own fp64.
 * Knows nothing of microdnn: run it without the preload to learn the worst of stock's algorithms,
 * with it to check. The fp64 reference runs image by image, so nothing can divide it. TAP on
 * standard output.
 *
 *   layer_errors record NET fp32|tf32|fp16 FILE          worst relative L2 error of each layer,
 * direction layer_errors check NET fp32|tf32|fp16 FILE LIMIT_KIB passes at most max(1.2 x recorded,
 * floor) */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "test/clients/bail.h"
#include "test/clients/network_layers.h"

__extension__ typedef _Float16 half_t;

enum { Y, X, W, DIRECTIONS, ALGOS = 8 }; /* the output of each direction */
static const char *const direction_names[] = {"forward", "backward_data", "backward_filter"};
static const size_t record_bytes = (size_t)2 << 30;

/* A set of descriptors and device buffers: the program's own (all images, its type) or the
 * reference's (one image, fp64). */
typedef struct side {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    void *device[DIRECTIONS];
} side_t;

typedef struct shape {
    int n, c, h, w;
} shape_t;

static cudnnHandle_t handle;
static void *workspace;

static void *must(void *memory)
{
    if (!memory)
        BAIL("out of memory");
    return memory;
}

static size_t bytes_of(cudnnDataType_t type)
{
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static size_t count_of(shape_t shape)
{
    return (size_t)shape.n * (size_t)shape.c * (size_t)shape.h * (size_t)shape.w;
}

static void shapes_of(const layer_t *layer, int images, shape_t shapes[DIRECTIONS])
{
    shapes[X] = (shape_t){images, layer->c, layer->h, layer->w};
    shapes[W] = (shape_t){layer->k, layer->c, layer->r, layer->s};
    shapes[Y] =
        (shape_t){images, layer->k, (layer->h + 2 * layer->pad - layer->r) / layer->stride + 1,
                  (layer->w + 2 * layer->pad - layer->s) / layer->stride + 1};
}

static side_t open_side(const layer_t *layer, int images, cudnnDataType_t type,
                        cudnnTensorFormat_t format, cudnnMathType_t math)
{
    side_t side = {.type = type, .format = format};
    shape_t shapes[DIRECTIONS];
    shapes_of(layer, images, shapes);
    CUDNN(cudnnCreateTensorDescriptor(&side.x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&side.y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&side.w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&side.conv));
    CUDNN(cudnnSetTensor4dDescriptor(side.x_desc, format, type, shapes[X].n, shapes[X].c,
                                     shapes[X].h, shapes[X].w));
    CUDNN(cudnnSetTensor4dDescriptor(side.y_desc, format, type, shapes[Y].n, shapes[Y].c,
                                     shapes[Y].h, shapes[Y].w));
    CUDNN(cudnnSetFilter4dDescriptor(side.w_desc, type, format, shapes[W].n, shapes[W].c,
                                     shapes[W].h, shapes[W].w));
    CUDNN(cudnnSetConvolution2dDescriptor(side.conv, layer->pad, layer->pad, layer->stride,
                                          layer->stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                          type == CUDNN_DATA_DOUBLE ? type : CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionMathType(side.conv, math));
    for (int i = 0; i < DIRECTIONS; i++)
        CUDA(cudaMalloc(&side.device[i], count_of(shapes[i]) * bytes_of(type)));
    return side;
}

static void close_side(side_t *side)
{
    CUDNN(cudnnDestroyTensorDescriptor(side->x_desc));
    CUDNN(cudnnDestroyTensorDescriptor(side->y_desc));
    CUDNN(cudnnDestroyFilterDescriptor(side->w_desc));
    CUDNN(cudnnDestroyConvolutionDescriptor(side->conv));
    for (int i = 0; i < DIRECTIONS; i++)
        CUDA(cudaFree(side->device[i]));
}

/* Place of the logical element (n c h w order) in storage. */
static size_t place(shape_t shape, cudnnTensorFormat_t format, size_t index)
{
    const size_t pixels = (size_t)shape.h * (size_t)shape.w, c = (size_t)shape.c;
    if (format != CUDNN_TENSOR_NHWC)
        return index;
    return index / (pixels * c) * pixels * c + index % pixels * c + index / pixels % c;
}

static void upload(const side_t *side, int which, shape_t shape, const float *values)
{
    const size_t count = count_of(shape);
    char *const host = must(malloc(count * bytes_of(side->type)));
    for (size_t i = 0; i < count; i++) {
        const size_t at = place(shape, side->format, i);
        if (side->type == CUDNN_DATA_DOUBLE)
            ((double *)(void *)host)[at] = (double)values[i];
        else if (side->type == CUDNN_DATA_FLOAT)
            ((float *)(void *)host)[at] = values[i];
        else
            ((half_t *)(void *)host)[at] = (half_t)values[i];
    }
    CUDA(cudaMemcpy(side->device[which], host, count * bytes_of(side->type),
                    cudaMemcpyHostToDevice));
    free(host);
}

static void download(const side_t *side, int which, shape_t shape, double *values)
{
    const size_t count = count_of(shape);
    char *const host = must(malloc(count * bytes_of(side->type)));
    CUDA(cudaMemcpy(host, side->device[which], count * bytes_of(side->type),
                    cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        const size_t at = place(shape, side->format, i);
        values[i] = side->type == CUDNN_DATA_DOUBLE  ? ((double *)(void *)host)[at]
                    : side->type == CUDNN_DATA_FLOAT ? (double)((float *)(void *)host)[at]
                                                     : (double)((half_t *)(void *)host)[at];
    }
    free(host);
}

static cudnnStatus_t run(const side_t *side, int direction, int algo, size_t bytes,
                         double beta_value)
{
    const float one = 1.0F, beta = (float)beta_value;
    const double wide_one = 1.0;
    const int wide = side->type == CUDNN_DATA_DOUBLE;
    const void *const a = wide ? (const void *)&wide_one : &one;
    const void *const b = wide ? (const void *)&beta_value : &beta;
    void *const scratch = bytes ? workspace : NULL;
    if (direction == Y)
        return cudnnConvolutionForward(handle, a, side->x_desc, side->device[X], side->w_desc,
                                       side->device[W], side->conv, (cudnnConvolutionFwdAlgo_t)algo,
                                       scratch, bytes, b, side->y_desc, side->device[Y]);
    if (direction == X)
        return cudnnConvolutionBackwardData(
            handle, a, side->w_desc, side->device[W], side->y_desc, side->device[Y], side->conv,
            (cudnnConvolutionBwdDataAlgo_t)algo, scratch, bytes, b, side->x_desc, side->device[X]);
    return cudnnConvolutionBackwardFilter(
        handle, a, side->x_desc, side->device[X], side->y_desc, side->device[Y], side->conv,
        (cudnnConvolutionBwdFilterAlgo_t)algo, scratch, bytes, b, side->w_desc, side->device[W]);
}

static cudnnStatus_t workspace_size(const side_t *side, int direction, int algo, size_t *bytes)
{
    if (direction == Y)
        return cudnnGetConvolutionForwardWorkspaceSize(handle, side->x_desc, side->w_desc,
                                                       side->conv, side->y_desc,
                                                       (cudnnConvolutionFwdAlgo_t)algo, bytes);
    if (direction == X)
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle, side->w_desc, side->y_desc, side->conv, side->x_desc,
            (cudnnConvolutionBwdDataAlgo_t)algo, bytes);
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        handle, side->x_desc, side->y_desc, side->conv, side->w_desc,
        (cudnnConvolutionBwdFilterAlgo_t)algo, bytes);
}

/* One layer: logical inputs on the host, the fp64 truth of a direction. */
typedef struct subject {
    const layer_t *layer;
    shape_t shapes[DIRECTIONS], single[DIRECTIONS];
    float *values[DIRECTIONS];
    double *truth, *result;
    side_t own, reference;
} subject_t;

static void subject_open(subject_t *subject, const layer_t *layer, const char *arithmetic)
{
    const int half = strcmp(arithmetic, "fp16") == 0;
    uint32_t seed = 1;
    size_t largest = 0;
    subject->layer = layer;
    shapes_of(layer, layer->n, subject->shapes);
    shapes_of(layer, 1, subject->single);
    subject->own = open_side(layer, layer->n, half ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT,
                             half ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                             half                              ? CUDNN_TENSOR_OP_MATH
                             : strcmp(arithmetic, "fp32") == 0 ? CUDNN_FMA_MATH
                                                               : CUDNN_DEFAULT_MATH);
    subject->reference =
        open_side(layer, 1, CUDNN_DATA_DOUBLE, CUDNN_TENSOR_NCHW, CUDNN_DEFAULT_MATH);
    for (int which = 0; which < DIRECTIONS; which++) {
        const size_t count = count_of(subject->shapes[which]);
        subject->values[which] = must(malloc(count * sizeof(float)));
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1664525U + 1013904223U;
            const float value = (float)(seed >> 8) / 16777216.0F - 0.5F;
            subject->values[which][i] = half ? (float)(half_t)value : value;
        }
        largest = count > largest ? count : largest;
    }
    subject->truth = must(malloc(largest * sizeof(double)));
    subject->result = must(malloc(largest * sizeof(double)));
}

static void subject_close(subject_t *subject)
{
    close_side(&subject->own);
    close_side(&subject->reference);
    for (int which = 0; which < DIRECTIONS; which++)
        free(subject->values[which]);
    free(subject->truth);
    free(subject->result);
}

static void find_truth(subject_t *subject, int direction)
{
    const int algo = direction == Y ? 0 : 1; /* implicit GEMM; the deterministic plain ones */
    size_t bytes;
    CUDNN(workspace_size(&subject->reference, direction, algo, &bytes));
    upload(&subject->reference, W, subject->single[W], subject->values[W]);
    for (int i = 0; i < subject->layer->n; i++) {
        const size_t x = count_of(subject->single[X]), y = count_of(subject->single[Y]);
        if (direction != X)
            upload(&subject->reference, X, subject->single[X], subject->values[X] + (size_t)i * x);
        if (direction != Y)
            upload(&subject->reference, Y, subject->single[Y], subject->values[Y] + (size_t)i * y);
        CUDNN(run(&subject->reference, direction, algo, bytes, direction == W && i > 0));
        if (direction != W)
            download(&subject->reference, direction, subject->single[direction],
                     subject->truth + (size_t)i * (direction == X ? x : y));
    }
    if (direction == W)
        download(&subject->reference, W, subject->single[W], subject->truth);
}

/* Relative L2 error of one run; infinite if it does not run. */
static double error_of(subject_t *subject, int direction, int algo, size_t bytes)
{
    const size_t count = count_of(subject->shapes[direction]);
    double difference = 0, norm = 0;
    for (int which = 0; which < DIRECTIONS; which++)
        if (which != direction)
            upload(&subject->own, which, subject->shapes[which], subject->values[which]);
    CUDA(cudaMemset(subject->own.device[direction], 0xFF, count * bytes_of(subject->own.type)));
    if (run(&subject->own, direction, algo, bytes, 0) != CUDNN_STATUS_SUCCESS)
        return INFINITY;
    download(&subject->own, direction, subject->shapes[direction], subject->result);
    for (size_t i = 0; i < count; i++) {
        const double error = subject->result[i] - subject->truth[i];
        difference += error * error;
        norm += subject->truth[i] * subject->truth[i];
    }
    return isfinite(difference) ? sqrt(difference / norm) : INFINITY;
}

static double worst_of_stock(subject_t *subject, int direction)
{
    double worst = 0;
    for (int algo = 0; algo < ALGOS; algo++) {
        size_t bytes;
        if (workspace_size(&subject->own, direction, algo, &bytes) != CUDNN_STATUS_SUCCESS ||
            bytes > record_bytes)
            continue;
        const double error = error_of(subject, direction, algo, bytes);
        worst = isfinite(error) && error > worst ? error : worst;
    }
    return worst;
}

static void check(FILE *file, subject_t *subject, int direction, double floor, size_t limit,
                  int number, int *failed)
{
    double recorded;
    if (fscanf(file, "%lf", &recorded) != 1)
        BAIL("the record does not match");
    const double gate = 1.2 * recorded > floor ? 1.2 * recorded : floor;
    /* Algorithm 0 needs no workspace and allows everything; what runs is whatever fits best. The
     * later runs see what was planned and, if there is one, the rival on trial. */
    double error = 0;
    for (int i = 0; i < 5; i++) {
        const double each = error_of(subject, direction, 0, limit);
        error = each > error ? each : error;
    }
    const int passed = error <= gate;
    printf("%sok %d - %s %s %s\n# error %.3g, worst of stock %.3g, gate %.3g\n",
           passed ? "" : "not ", number, subject->layer->net, subject->layer->name,
           direction_names[direction], error, recorded, gate);
    fflush(stdout);
    *failed += !passed;
}

int main(int argc, char **argv)
{
    const int recording = argc == 5 && strcmp(argv[1], "record") == 0;
    if (!recording && !(argc == 6 && strcmp(argv[1], "check") == 0)) {
        fprintf(stderr, "usage: layer_errors record NET fp32|tf32|fp16 FILE\n"
                        "       layer_errors check NET fp32|tf32|fp16 FILE LIMIT_KIB\n");
        return 2;
    }
    const double floor = strcmp(argv[3], "fp32") == 0   ? 1e-5
                         : strcmp(argv[3], "tf32") == 0 ? 1e-3
                                                        : 2e-3;
    const size_t limit = recording ? 0 : (size_t)strtoul(argv[5], NULL, 10) << 10;
    FILE *const file = fopen(argv[4], recording ? "w" : "r");
    int number = 0, failed = 0;
    if (!file)
        BAIL("cannot open the record");
    CUDNN(cudnnCreate(&handle));
    CUDA(cudaMalloc(&workspace, recording || limit < record_bytes ? record_bytes : limit));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (strcmp(layers[i].net, argv[2]) != 0)
            continue;
        subject_t subject;
        subject_open(&subject, &layers[i], argv[3]);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            find_truth(&subject, direction);
            if (recording)
                fprintf(file, "%.17g\n", worst_of_stock(&subject, direction));
            else
                check(file, &subject, direction, floor, limit, ++number, &failed);
        }
        subject_close(&subject);
    }
    if (!recording)
        printf("1..%d\n", number);
    CUDA(cudaFree(workspace));
    CUDNN(cudnnDestroy(handle));
    if (fclose(file) != 0 || (!recording && number == 0))
        BAIL("nothing was checked, or the record could not be written");
    return failed > 0;
}
