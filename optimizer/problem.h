/* A convolution problem: everything that determines the cost or the result of one call. Plain
 * integers with cuDNN's numeric values, so that optimizer/ needs no CUDA header. Zero all of it
 * before filling it in: it is hashed and compared as bytes (there is no padding). */
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
    int32_t type;                    /* cudnnDataType_t */
    int32_t dim_count;               /* 0: no such tensor in this problem */
    int32_t dims[MDNN_PROBLEM_DIMS]; /* n c [d] h w, filters k c [d] h w */
    /* In elements; all zero for a filter whose layout `format` gives. */
    int32_t strides[MDNN_PROBLEM_DIMS];
    int32_t format;          /* cudnnTensorFormat_t of a filter, else 0 */
    int32_t alignment_bytes; /* power of two that divides the address: at most 16, from the
                                     * legacy call (16 if unknown) or the graph's demand */
} mdnn_problem_tensor_t;

/* One pointwise operation after the convolution of a graph; the operations are in order, and each reads the result of
 * the one before it. */
typedef struct mdnn_problem_pointwise {
    int32_t mode;                     /* cudnnPointwiseMode_t */
    int32_t operand;                  /* mdnn_operand_t: the second input */
    int32_t input_type;               /* cudnnDataType_t of the previous operation's result */
    int32_t compute_type;             /* cudnnDataType_t */
    int64_t alpha1_bits, alpha2_bits; /* of the doubles that scale the first and the second input */
    /* The bits of doubles: relu's lower clip, upper clip and slope below the clip; the first is the parameter of elu,
     * softplus and swish. */
    int64_t parameter_bits[3];
} mdnn_problem_pointwise_t;

typedef enum mdnn_operand { MDNN_OPERAND_NONE, MDNN_OPERAND_Z, MDNN_OPERAND_BIAS } mdnn_operand_t;

enum { MDNN_PROBLEM_POINTWISE = 3 }; /* one residual, one bias, one activation */

/* What alpha does to a number. */
typedef enum mdnn_alpha_class {
    MDNN_ALPHA_ENLARGES = -1, /* or it is no number */
    MDNN_ALPHA_SHRINKS,       /* or keeps the magnitude, but is not 1 */
    MDNN_ALPHA_ONE
} mdnn_alpha_class_t;

/* Which interfaces can express the problem. */
enum { MDNN_INTERFACE_LEGACY = 1, MDNN_INTERFACE_GRAPH = 2 };

typedef struct mdnn_problem {
    int32_t direction;             /* mdnn_direction_t */
    int32_t device;                /* ordinal; not part of a database key */
    mdnn_problem_tensor_t x, w, y; /* y is dy, x is dx, w is dw where the direction says so */
    mdnn_problem_tensor_t z, bias; /* MDNN_BIAS_ACTIVATION_FORWARD only: z has a batch, bias none */
    int32_t spatial_dims;          /* 2 or 3 */
    int32_t pad[MDNN_PROBLEM_SPATIAL_DIMS];       /* before the first element */
    int32_t pad_after[MDNN_PROBLEM_SPATIAL_DIMS]; /* after the last element; equals `pad` in the
                                                   * legacy API */
    int32_t stride[MDNN_PROBLEM_SPATIAL_DIMS];
    int32_t dilation[MDNN_PROBLEM_SPATIAL_DIMS];
    int32_t mode;         /* cudnnConvolutionMode_t */
    int32_t compute_type; /* cudnnDataType_t */
    int32_t math_type;    /* cudnnMathType_t of the caller's descriptor */
    int32_t groups;
    int32_t reorder;         /* cudnnReorderType_t */
    int32_t beta_is_zero;    /* 1 if the caller's beta (alpha2) is 0 */
    int32_t alpha_class;     /* mdnn_alpha_class_t */
    int32_t in_place;        /* 1 if z and y (bias activation) are the same memory */
    int32_t activation_mode; /* cudnnActivationMode_t; -1 without one */
    int32_t activation_nan;
    int32_t interfaces; /* MDNN_INTERFACE_...: where candidates may come from */
    /* Bits of those of cuDNN's numerical notes that say that results are less exact, and that the caller accepts beyond
     * what the math type allows. */
    int32_t weak_notes;
    int32_t pointwise_count;             /* graphs only */
    int64_t activation_coefficient_bits; /* of the double */
    /* The bits of the doubles alpha and beta if engines of the graph API may run the problem, since an engine's plan
     * contains them; otherwise zero, since a legacy call passes them each time. */
    int64_t alpha_bits, beta_bits;
    mdnn_problem_pointwise_t pointwise[MDNN_PROBLEM_POINTWISE];
} mdnn_problem_t;

/* All zero, except for the fields whose "none" is another number. */
void mdnn_problem_init(mdnn_problem_t *problem);

mdnn_alpha_class_t mdnn_alpha_class(double alpha);

/* Whether the results of parts of the batch, each scaled with alpha and rounded to the type of the output, may be added
 * up. Always true in the directions that add nothing up. In a weight gradient, parts may cancel, so that the sum is
 * finite although a part overflows: this happens in fp16 at magnitudes that programs have, and in every type if alpha
 * enlarges the parts. */
bool mdnn_problem_parts_may_add_up(const mdnn_problem_t *problem);

uint64_t mdnn_problem_hash(const mdnn_problem_t *problem);
bool mdnn_problem_equal(const mdnn_problem_t *a, const mdnn_problem_t *b);
/* One line for people: "forward 256x64x27x27 * 192x64x5x5 pad 2 float ...". Always terminated. */
void mdnn_problem_format(const mdnn_problem_t *problem, char *buffer, size_t bytes);

/* What the convolution writes. */
static inline const mdnn_problem_tensor_t *mdnn_problem_output(const mdnn_problem_t *problem)
{
    return problem->direction == MDNN_BACKWARD_DATA     ? &problem->x
           : problem->direction == MDNN_BACKWARD_FILTER ? &problem->w
                                                        : &problem->y;
}

#endif
