/* The kernels of a convolution: their by-value parameter, and the geometry that all three
 * directions share.
 *
 * Every direction is, for each group and image, a sum
 *     result[m][j] = sum over t of a[m][order(t)] * source[row(t) + column(j)]
 * where `source` is one image (forward and backward filter: x, backward data: y), padded and spread
 * so that no index needs a check: m            t                 j forward          k channel, tap
 * output position backward data    c            channel, tap      input position backward filter  k
 * output position   channel, tap      (summed over images too)   */
#ifndef SIM_CUDNN_CONV_KERNELS_H
#define SIM_CUDNN_CONV_KERNELS_H

#include "test/sim/cudnn/conv.h"

/* What the workspace carries from the first kernel to the second: real data, so that a workspace
 * that two streams share, or that is too small, shows in the result. */
typedef enum sim_conv_carry {
    CARRY_NOTHING,
    CARRY_ROWS,
    CARRY_OPERAND,
    CARRY_SUMS
} sim_conv_carry_t;

typedef struct sim_conv_kernel_arguments {
    sim_conv_t problem;
    sim_conv_epilogue_t epilogue;
    int32_t order, block, round_tf32, carry;
    uint64_t workspace_bytes, variation;
} sim_conv_kernel_arguments_t;

typedef struct sim_conv_geometry {
    const sim_conv_t *problem;
    int64_t m, t, j; /* extents of the sum, of one group */
    int64_t channels, taps;
    int extent[SIM_SPATIAL]; /* of the source */
    int spread[SIM_SPATIAL], shift[SIM_SPATIAL];
    int64_t plane;                   /* elements of one source channel */
    const sim_conv_tensor_t *tensor; /* that the source is read from */
    int32_t *rows, *columns;         /* scratch of this thread */
} sim_conv_geometry_t;

enum { SIM_PANEL_ROWS = 4 };

/* Host addresses of the tensors; those that a kernel does not use are NULL. */
typedef struct sim_conv_memory {
    const void *x, *w, *y;
    void *out; /* the direction's result */
    const void *addend, *bias;
    void *workspace;
    const void *operands[SIM_CONV_OPERANDS];
} sim_conv_memory_t;

/* Fills rows and columns in order; uses scratch slots A and B. */
void sim_conv_geometry(const sim_conv_kernel_arguments_t *arguments, sim_conv_geometry_t *geometry);

/* The t-th summand in order is order[t]; scratch slot C. */
const int32_t *sim_conv_summation_order(const sim_conv_kernel_arguments_t *arguments,
                                        const sim_conv_geometry_t *geometry);

/* Blends one plane (i, c) of the result and of what the epilogue adds. `values` and `scratch` hold
 * a plane each. */
void sim_conv_store_plane(const sim_conv_kernel_arguments_t *arguments,
                          const sim_conv_tensor_t *tensor, const sim_conv_memory_t *memory,
                          int64_t i, int64_t c, double *values, double *scratch);

/* Elements of the operand a for all groups, with its rows in panels. */
int64_t sim_conv_operand_elements(const sim_conv_t *problem);
/* Elements of the sums of all groups. */
int64_t sim_conv_sum_elements(const sim_conv_t *problem);

/* The sums in float and in double (conv_sum.inc). `first` and `second` are the kernels of a pair.
 */
void sim_conv_first_float(const sim_conv_kernel_arguments_t *arguments,
                          const sim_conv_memory_t *memory);
void sim_conv_first_double(const sim_conv_kernel_arguments_t *arguments,
                           const sim_conv_memory_t *memory);
void sim_conv_second_float(const sim_conv_kernel_arguments_t *arguments,
                           const sim_conv_memory_t *memory);
void sim_conv_second_double(const sim_conv_kernel_arguments_t *arguments,
                            const sim_conv_memory_t *memory);

#endif
