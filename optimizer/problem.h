/* A convolution problem: everything that decides cost or result of one call. Plain integers with
 * cuDNN's numeric values, so that optimizer/ needs no CUDA header. Zero it whole before filling:
 * it is hashed and compared as bytes (there is no padding). */
#ifndef MDNN_PROBLEM_H
#define MDNN_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mdnn_direction {
    MDNN_FORWARD,
    MDNN_BACKWARD_DATA,
    MDNN_BACKWARD_FILTER,
    MDNN_BIAS_ACTIVATION_FORWARD,
    MDNN_DIRECTION_COUNT
} mdnn_direction_t;

enum { MDNN_PROBLEM_DIMS = 5, MDNN_PROBLEM_SPATIAL_DIMS = 3 };

typedef struct mdnn_problem_tensor {
    int32_t type;                         /* cudnnDataType_t */
    int32_t dim_count;                    /* 0: no such tensor in this problem */
    int32_t dims[MDNN_PROBLEM_DIMS];      /* n c [d] h w, filters k c [d] h w */
    int32_t strides[MDNN_PROBLEM_DIMS];   /* in elements; for filters all zero, see `format` */
    int32_t format;                       /* cudnnTensorFormat_t of a filter, else 0 */
    int32_t alignment_bytes;              /* power of two <= 16 that divides the address; 16 if unknown */
} mdnn_problem_tensor_t;

typedef struct mdnn_problem {
    int32_t direction;                    /* mdnn_direction_t */
    int32_t device;                       /* ordinal; not part of a database key */
    mdnn_problem_tensor_t x, w, y;        /* y is dy, x is dx, w is dw where the direction says so */
    mdnn_problem_tensor_t z, bias;        /* MDNN_BIAS_ACTIVATION_FORWARD only */
    int32_t spatial_dims;                 /* 2 or 3 */
    int32_t pad[MDNN_PROBLEM_SPATIAL_DIMS];
    int32_t stride[MDNN_PROBLEM_SPATIAL_DIMS];
    int32_t dilation[MDNN_PROBLEM_SPATIAL_DIMS];
    int32_t mode;                         /* cudnnConvolutionMode_t */
    int32_t compute_type;                 /* cudnnDataType_t */
    int32_t math_type;                    /* cudnnMathType_t of the caller's descriptor */
    int32_t groups;
    int32_t reorder;                      /* cudnnReorderType_t */
    int32_t beta_is_zero;                 /* 1 if the caller's beta (alpha2) is 0 */
    int32_t alpha_is_one;
    int32_t in_place;                     /* 1 if z and y (bias activation) are the same memory */
    int32_t activation_mode;              /* cudnnActivationMode_t; -1 without one */
    int32_t activation_nan;
    int64_t activation_coefficient_bits;  /* of the double */
} mdnn_problem_t;

uint64_t mdnn_problem_hash(const mdnn_problem_t *problem);
bool mdnn_problem_equal(const mdnn_problem_t *a, const mdnn_problem_t *b);
/* One line for people: "forward 256x64x27x27 * 192x64x5x5 pad 2 float ...". Always terminated. */
void mdnn_problem_format(const mdnn_problem_t *problem, char *buffer, size_t bytes);

#endif
