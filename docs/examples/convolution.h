/* One convolution of a network in its three directions: descriptors, the choice of algorithms, the
 * calls. The rest of the program does not know which cuDNN interface runs it. */
#ifndef TRAIN_CNN_CONVOLUTION_H
#define TRAIN_CNN_CONVOLUTION_H

#include "arguments.h"
#include "gpu.h"

typedef enum direction { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTION_COUNT } direction_t;

typedef struct convolution_shape {
    int n, c, h, w; /* input */
    int k, r, s, stride, pad_h, pad_w;
    int out_h, out_w;
} convolution_shape_t;

typedef struct convolution_choice {
    bool made;
    int algorithm; /* of cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t */
    cudnnMathType_t math_type;
    cudnnConvolutionDescriptor_t descriptor; /* of its own, since the math type is part of it */
    size_t workspace_bytes;
    float search_ms; /* what the search measured */
} convolution_choice_t;

typedef struct convolution {
    convolution_shape_t shape;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t filter;
    convolution_choice_t choices[DIRECTION_COUNT];
    buffer_t workspace; /* its own, or no memory where all share one */
} convolution_t;

/* Device addresses of one call; which one is written depends on the direction. */
typedef struct convolution_operands {
    void *x, *filter, *y;
} convolution_operands_t;

void convolution_init(convolution_t *convolution, const convolution_shape_t *shape,
                      data_type_t type, layout_t layout);
void convolution_fini(gpu_t *gpu, convolution_t *convolution);

/* Measures all algorithms on the real buffers (what the direction writes is lost) with `scratch` as
 * workspace, and keeps the fastest whose workspace is at most `scratch.bytes`; of `options` it
 * looks at the type, the repeats and whether only deterministic algorithms may be taken. Waits for
 * the device. */
void convolution_choose(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                        const convolution_operands_t *operands, buffer_t scratch,
                        const arguments_t *options);

/* Enqueues the convolution: the output becomes result + beta * output. A choice must have been
 * made, and `workspace` be as large as it asks. */
void convolution_run(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                     const convolution_operands_t *operands, buffer_t workspace, float beta);

const char *direction_name(direction_t direction);
/* "IMPLICIT_GEMM" and the like. */
const char *algorithm_name(direction_t direction, int algorithm);
const char *math_type_name(cudnnMathType_t math_type);

#endif
