/* Errors of the convolutions of known networks, as a program gets them, against cuDNN's own fp64.
 * Knows nothing of microdnn: run it without the preload to learn the worst of stock's algorithms,
 * with it to check. The fp64 reference runs image by image, so nothing can divide it. TAP on
 * standard output.
 *
 *   layer_errors list NET
 *       names of its layers, one a line
 *   layer_errors record NET fp32|tf32|fp16 FILE [FIRST-LAST]
 *       worst relative L2 error of each layer and direction
 *   layer_errors check NET fp32|tf32|fp16 FILE LIMIT_KIB [FIRST-LAST]
 *       passes at most max(1.2 x recorded, floor)
 *
 * FIRST-LAST are the layers to look at, counted from 1; all if not given. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "test/clients/bail.h"
#include "test/clients/elements.h"
#include "test/clients/network_layers.h"

enum { Y, X, W, DIRECTIONS, ALGOS = 8 }; /* the output of each direction */
static const char *const direction_names[] = {"forward", "backward_data", "backward_filter"};
/* What recording tries: all that cuDNN returns, as far as half of the device holds it. With less, an
 * algorithm that cuDNN runs whole only in much memory would be missing, and be held against a split
 * that makes it fit. */
static size_t record_bytes;
/* More than the fp64 reference takes for an image. */
static const size_t reference_workspace_bytes = (size_t)2 << 30;
static const size_t reference_bytes = (size_t)256 << 20; /* of images in fp64 at a time */

/* A set of descriptors and device buffers: the program's own (all images, its type) or the
 * reference's (fp64, descriptors of one image, buffers of several). */
typedef struct side {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    void *device[DIRECTIONS];
} side_t;

static cudnnHandle_t handle;
static void *workspace;
static size_t workspace_bytes;

/* Page-locked, of the largest size that a layer needs: a tensor as it is copied to or from the
 * device, and the fp64 results of a direction in logical order. */
static void *staging;
static double *truth;

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void shapes_of(const layer_t *layer, int images, shape_t shapes[DIRECTIONS])
{
    shapes[X] = (shape_t){images, layer->c, layer->h, layer->w};
    shapes[W] = (shape_t){layer->k, layer->c, layer->r, layer->s};
    shapes[Y] =
        (shape_t){images, layer->k, (layer->h + 2 * layer->pad - layer->r) / layer->stride + 1,
                  (layer->w + 2 * layer->pad - layer->s) / layer->stride + 1};
}

/* Descriptors of `images` images, buffers of `held`. */
static side_t open_side(const layer_t *layer, int images, int held, cudnnDataType_t type,
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
    shapes_of(layer, held, shapes);
    for (int i = 0; i < DIRECTIONS; i++)
        CUDA(cudaMalloc(&side.device[i], shape_count(shapes[i]) * element_bytes(type)));
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

typedef struct arithmetic {
    const char *name;
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    cudnnMathType_t math;
    double floor; /* of the gate */
} arithmetic_t;

static const arithmetic_t arithmetics[] = {
    {"fp32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CUDNN_FMA_MATH, 1e-5},
    {"tf32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CUDNN_DEFAULT_MATH, 1e-3},
    {"fp16", CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, CUDNN_TENSOR_OP_MATH, 2e-3},
};

/* One layer in the program's type and in fp64. */
typedef struct subject {
    const layer_t *layer;
    shape_t shapes[DIRECTIONS];
    int chunk, half; /* images that the reference holds; inputs are rounded to half */
    side_t own, reference;
} subject_t;

/* Images that the reference takes at a time. */
static int chunk_of(const layer_t *layer)
{
    shape_t single[DIRECTIONS];
    shapes_of(layer, 1, single);
    const size_t fit =
        reference_bytes / (larger(shape_count(single[X]), shape_count(single[Y])) * sizeof(double));
    return fit < 1 ? 1 : fit < (size_t)layer->n ? (int)fit : layer->n;
}

static void subject_open(subject_t *subject, const layer_t *layer, const arithmetic_t *arithmetic)
{
    subject->layer = layer;
    subject->half = arithmetic->type == CUDNN_DATA_HALF;
    subject->chunk = chunk_of(layer);
    shapes_of(layer, layer->n, subject->shapes);
    subject->own = open_side(layer, layer->n, layer->n, arithmetic->type, arithmetic->format,
                             arithmetic->math);
    subject->reference = open_side(layer, 1, subject->chunk, CUDNN_DATA_DOUBLE, CUDNN_TENSOR_NCHW,
                                   CUDNN_DEFAULT_MATH);
}

static void subject_close(subject_t *subject)
{
    close_side(&subject->own);
    close_side(&subject->reference);
}

static void upload(const subject_t *subject, const side_t *side, int which, shape_t shape,
                   size_t first)
{
    const storage_t storage = {side->type, side->format, shape};
    elements_fill(storage, staging, (uint32_t)which + 1, first, subject->half);
    CUDA(cudaMemcpy(side->device[which], staging, shape_count(shape) * element_bytes(side->type),
                    cudaMemcpyHostToDevice));
}

/* Results that nothing computed must not look like results: NaN in every type. */
static void poison(const side_t *side, int which, shape_t shape)
{
    CUDA(cudaMemset(side->device[which], 0xFF, shape_count(shape) * element_bytes(side->type)));
}

/* The reference, its buffers from image `i` on. */
static side_t image_of(const subject_t *subject, int i)
{
    side_t side = subject->reference;
    shape_t single[DIRECTIONS];
    shapes_of(subject->layer, 1, single);
    for (int which = Y; which <= X; which++)
        side.device[which] =
            (char *)side.device[which] + (size_t)i * shape_count(single[which]) * sizeof(double);
    return side;
}

/* Queues the reference of images `first` to `first + images - 1`. The device works on them while
 * the host writes the inputs of the next; the copy of those waits for it. */
static void queue_truth(subject_t *subject, int direction, int algo, size_t bytes, int first,
                        int images)
{
    const side_t *const side = &subject->reference;
    shape_t shapes[DIRECTIONS];
    shapes_of(subject->layer, images, shapes);
    for (int which = Y; which <= X; which++)
        if (which != direction)
            upload(subject, side, which, shapes[which],
                   shape_count(shapes[which]) / (size_t)images * (size_t)first);
    if (direction != W)
        poison(side, direction, shapes[direction]);
    for (int i = 0; i < images; i++) {
        const side_t image = image_of(subject, i);
        CUDNN(run(&image, direction, algo, bytes, direction == W && first + i > 0));
    }
    if (direction == W)
        return;
    const size_t count = shape_count(shapes[direction]);
    CUDA(cudaMemcpyAsync(truth + count / (size_t)images * (size_t)first, side->device[direction],
                         count * sizeof(double), cudaMemcpyDeviceToHost, NULL));
}

static void find_truth(subject_t *subject, int direction)
{
    const int algo = direction == Y ? 0 : 1; /* implicit GEMM; the deterministic plain ones */
    const side_t *const side = &subject->reference;
    const shape_t filter = subject->shapes[W];
    size_t bytes;
    CUDNN(workspace_size(side, direction, algo, &bytes));
    if (bytes > workspace_bytes)
        BAIL("the reference needs more workspace");
    if (direction == W)
        poison(side, W, filter);
    else
        upload(subject, side, W, filter, 0);
    for (int first = 0; first < subject->layer->n; first += subject->chunk) {
        const int rest = subject->layer->n - first;
        queue_truth(subject, direction, algo, bytes, first,
                    rest < subject->chunk ? rest : subject->chunk);
    }
    if (direction == W)
        CUDA(cudaMemcpy(truth, side->device[W], shape_count(filter) * sizeof(double),
                        cudaMemcpyDeviceToHost));
    CUDA(cudaDeviceSynchronize());
}

/* For all runs of a direction. */
static void upload_inputs(const subject_t *subject, int direction)
{
    for (int which = 0; which < DIRECTIONS; which++)
        if (which != direction)
            upload(subject, &subject->own, which, subject->shapes[which], 0);
}

/* Relative L2 error of one run; infinite if it does not run. */
static double error_of(const subject_t *subject, int direction, int algo, size_t bytes)
{
    const side_t *const own = &subject->own;
    const storage_t storage = {own->type, own->format, subject->shapes[direction]};
    poison(own, direction, storage.shape);
    if (run(own, direction, algo, bytes, 0) != CUDNN_STATUS_SUCCESS)
        return INFINITY;
    CUDA(cudaMemcpy(staging, own->device[direction],
                    shape_count(storage.shape) * element_bytes(own->type), cudaMemcpyDeviceToHost));
    return elements_error(storage, staging, truth);
}

static double worst_of_stock(const subject_t *subject, int direction)
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

/* What was recorded of this layer and direction, which must be next. */
static double recorded_error(FILE *file, const subject_t *subject, int direction)
{
    char layer[32], name[32];
    double recorded;
    if (fscanf(file, "%31s %31s %lf", layer, name, &recorded) != 3 ||
        strcmp(layer, subject->layer->name) != 0 || strcmp(name, direction_names[direction]) != 0)
        BAIL("the record does not match");
    return recorded;
}

static int check(const subject_t *subject, int direction, double recorded, double floor,
                 size_t limit, int number)
{
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
    return passed;
}

/* The chosen layers, one after the other in the list. */
typedef struct choice {
    const layer_t *layers;
    int count;
} choice_t;

static choice_t choose(const char *net, const char *range)
{
    const layer_t *const end = layers + sizeof layers / sizeof *layers, *begin = layers;
    int first = 1, last = 0;
    while (begin < end && strcmp(begin->net, net) != 0)
        begin++;
    while (begin + last < end && strcmp(begin[last].net, net) == 0)
        last++;
    const int all = last;
    if (range && sscanf(range, "%d-%d", &first, &last) != 2)
        BAIL("layers are given as FIRST-LAST");
    if (first < 1 || first > last || last > all)
        BAIL("the net has no such layers");
    return (choice_t){begin + first - 1, last - first + 1};
}

static void memory_open(choice_t choice, const arithmetic_t *arithmetic, size_t limit)
{
    size_t staged = 0, results = 0;
    for (int i = 0; i < choice.count; i++) {
        shape_t shapes[DIRECTIONS], chunk[DIRECTIONS];
        shapes_of(&choice.layers[i], choice.layers[i].n, shapes);
        shapes_of(&choice.layers[i], chunk_of(&choice.layers[i]), chunk);
        for (int which = 0; which < DIRECTIONS; which++) {
            const size_t count = shape_count(shapes[which]);
            results = larger(results, count * sizeof(double));
            staged = larger(staged, count * element_bytes(arithmetic->type));
            staged = larger(staged, shape_count(chunk[which]) * sizeof(double));
        }
    }
    size_t free_bytes, total_bytes;
    CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    record_bytes = total_bytes / 2 < free_bytes ? total_bytes / 2 : free_bytes / 2;
    workspace_bytes = limit ? larger(limit, reference_workspace_bytes) : record_bytes;
    CUDA(cudaMallocHost(&staging, staged));
    CUDA(cudaMallocHost((void **)&truth, results));
    CUDA(cudaMalloc(&workspace, workspace_bytes));
}

static void memory_close(void)
{
    CUDA(cudaFreeHost(staging));
    CUDA(cudaFreeHost(truth));
    CUDA(cudaFree(workspace));
}

/* Records all chosen layers, or checks them; the number that failed. */
static int go_through(choice_t choice, const arithmetic_t *arithmetic, FILE *file, int recording,
                      size_t limit)
{
    int number = 0, failed = 0;
    for (int i = 0; i < choice.count; i++) {
        subject_t subject;
        subject_open(&subject, &choice.layers[i], arithmetic);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            find_truth(&subject, direction);
            upload_inputs(&subject, direction);
            if (recording)
                fprintf(file, "%s %s %.17g\n", subject.layer->name, direction_names[direction],
                        worst_of_stock(&subject, direction));
            else
                failed += !check(&subject, direction, recorded_error(file, &subject, direction),
                                 arithmetic->floor, limit, ++number);
        }
        subject_close(&subject);
    }
    if (!recording)
        printf("1..%d\n", number);
    return failed;
}

static int list(choice_t choice)
{
    for (int i = 0; i < choice.count; i++)
        printf("%s\n", choice.layers[i].name);
    return 0;
}

static const arithmetic_t *find_arithmetic(const char *name)
{
    for (size_t i = 0; i < sizeof arithmetics / sizeof *arithmetics; i++)
        if (strcmp(arithmetics[i].name, name) == 0)
            return &arithmetics[i];
    BAIL("neither fp32, tf32 nor fp16");
}

int main(int argc, char **argv)
{
    const int recording = argc >= 5 && argc <= 6 && strcmp(argv[1], "record") == 0;
    if (argc == 3 && strcmp(argv[1], "list") == 0)
        return list(choose(argv[2], NULL));
    if (!recording && !(argc >= 6 && argc <= 7 && strcmp(argv[1], "check") == 0)) {
        fprintf(stderr, "usage: layer_errors list NET\n"
                        "       layer_errors record NET fp32|tf32|fp16 FILE [FIRST-LAST]\n"
                        "       layer_errors check NET fp32|tf32|fp16 FILE LIMIT_KIB "
                        "[FIRST-LAST]\n");
        return 2;
    }
    const choice_t choice = choose(argv[2], argv[recording ? 5 : 6]);
    const arithmetic_t *const arithmetic = find_arithmetic(argv[3]);
    const size_t limit = recording ? 0 : (size_t)strtoul(argv[5], NULL, 10) << 10;
    FILE *const file = fopen(argv[4], recording ? "w" : "r");
    if (!file)
        BAIL("cannot open the record");
    memory_open(choice, arithmetic, limit);
    CUDNN(cudnnCreate(&handle));
    const int failed = go_through(choice, arithmetic, file, recording, limit);
    CUDNN(cudnnDestroy(handle));
    memory_close();
    if (fclose(file) != 0)
        BAIL("the record could not be written");
    return failed > 0;
}
