/* Convolutions in double precision, in the most obvious way: what tests compare with. Plain C, no
 * CUDA include. Single-threaded, allocates nothing. */
#ifndef REFERENCE_CONVOLUTION_H
#define REFERENCE_CONVOLUTION_H

#include <stdbool.h>
#include <stddef.h>

typedef enum reference_direction {
    REFERENCE_FORWARD,
    REFERENCE_BACKWARD_DATA,
    REFERENCE_BACKWARD_FILTER
} reference_direction_t;

enum { REFERENCE_DIMS = 5, REFERENCE_SPATIAL = 3 };

/* n c d h w, or k c d r s for the filter (c of one group). 2-D tensors have a depth of 1. */
typedef struct reference_tensor {
    int dims[REFERENCE_DIMS];
    long strides[REFERENCE_DIMS]; /* in elements, of any sizes and order */
} reference_tensor_t;

/* x, w, y are the tensors of the forward direction whatever the direction is. The dimensions of y
 * say how far the window goes, so that padding may be asymmetric: `pad` is the one before. */
typedef struct reference_convolution {
    reference_direction_t direction;
    int groups;
    bool flip; /* CUDNN_CONVOLUTION instead of CUDNN_CROSS_CORRELATION */
    int pad[REFERENCE_SPATIAL], stride[REFERENCE_SPATIAL], dilation[REFERENCE_SPATIAL];
    reference_tensor_t x, w, y;
} reference_convolution_t;

/* Packed strides of tensor->dims, channels first or last. */
void reference_pack(reference_tensor_t *tensor, bool channels_last);
/* Elements from the first to the last, plus one. */
size_t reference_span(const reference_tensor_t *tensor);

/* out = alpha * convolution + beta * out, where `out` is the one of x, w, y that the direction
 * writes; a beta of 0 does not read it. Elements between those that the strides name stay as they
 * are. */
void reference_convolution(const reference_convolution_t *convolution, double alpha, double beta,
                           double *x, double *w, double *y);

/* Over the elements that `tensor` names: ||actual - expected|| / ||expected||, infinite if anything
 * is not finite. An expected of all zeros gives ||actual||. */
double reference_relative_l2(const reference_tensor_t *tensor, const double *expected,
                             const double *actual);

/* Element types, with the numbers of cudnnDataType_t. */
typedef enum reference_type {
    REFERENCE_FLOAT = 0,
    REFERENCE_DOUBLE = 1,
    REFERENCE_HALF = 2,
    REFERENCE_BFLOAT16 = 9
} reference_type_t;

size_t reference_type_bytes(reference_type_t type);
/* `count` packed elements; encoding rounds to nearest even. */
void reference_encode(reference_type_t type, const double *values, size_t count, void *out);
void reference_decode(reference_type_t type, const void *elements, size_t count, double *out);

/* The next of a repeatable sequence of numbers in [-1, 1); `state` starts as anything but 0. */
double reference_random(unsigned long long *state);

#endif
