/* Convolutions of the simulated cuDNN: one problem, its algorithms, its arithmetic. */
#ifndef SIM_CUDNN_CONV_H
#define SIM_CUDNN_CONV_H

#include "test/sim/cudnn/internal.h"

typedef enum sim_conv_direction {
    SIM_FORWARD,
    SIM_BACKWARD_DATA,
    SIM_BACKWARD_FILTER,
    SIM_DIRECTIONS
} sim_conv_direction_t;

typedef enum sim_conv_layout {
    SIM_LAYOUT_NCHW,   /* everything packed, channels first */
    SIM_LAYOUT_NHWC,   /* everything packed, channels last */
    SIM_LAYOUT_STRIDED /* the rest */
} sim_conv_layout_t;

enum { SIM_CONV_DIMS = 5 };

typedef struct sim_conv_tensor {
    int32_t type;
    int32_t dims[SIM_CONV_DIMS];    /* n c d h w; a filter: k c d r s */
    int32_t strides[SIM_CONV_DIMS]; /* in elements */
} sim_conv_tensor_t;

/* 2-D problems have a depth of 1. x, w, y are the tensors of the forward direction whatever the
 * direction is. Passed by value to the kernels. */
typedef struct sim_conv {
    int32_t direction;
    int32_t spatial_dims;
    int32_t layout;
    int32_t math_type; /* cudnnMathType_t of the descriptor */
    int32_t compute_double, flip, groups;
    int32_t pad[SIM_SPATIAL], stride[SIM_SPATIAL], dilation[SIM_SPATIAL];
    sim_conv_tensor_t x, w, y;
} sim_conv_t;

/* From the caller's descriptors. BAD_PARAM where they contradict each other, NOT_SUPPORTED for
 * types and ranks that no algorithm takes. */
cudnnStatus_t sim_conv_describe(sim_conv_direction_t direction, const struct cudnnTensorStruct *x,
                                const struct cudnnFilterStruct *w,
                                const struct cudnnConvolutionStruct *convolution,
                                const struct cudnnTensorStruct *y, sim_conv_t *problem);

/* Algorithms (conv_costs.def) ------------------------------------------------------------------ */

typedef enum sim_conv_kind {
    KIND_UNIMPLEMENTED,
    KIND_IMPLICIT,
    KIND_PRECOMPUTED,
    KIND_EXPLICIT,
    KIND_FFT,
    KIND_FFT_TILING,
    KIND_WINOGRAD,
    KIND_WINOGRAD_NONFUSED
} sim_conv_kind_t;

typedef enum sim_conv_order {            /* of the terms of one output's sum */
                              ORDER_CRS, /* channel, filter row, filter column */
                              ORDER_RSC,
                              ORDER_REVERSED,
                              ORDER_EVEN_ODD,
                              ORDER_VARYING /* another one with every launch: not deterministic */
} sim_conv_order_t;

enum sim_conv_flag {
    FLAG_TENSOR = 1, /* has a variant for tensor cores */
    FLAG_3D = 2,
    FLAG_GROUPS = 4,
    FLAG_DILATION = 8,
    FLAG_DOUBLE = 16,
    FLAG_BF16 = 32,
    FLAG_NHWC = 64,
    FLAG_STRIDED = 128
};

typedef struct sim_conv_algorithm {
    const char *name;
    sim_conv_kind_t kind;
    sim_conv_order_t order;
    int block; /* terms in one partial sum; 0: one running sum */
    unsigned flags;
    double efficiency, tensor_efficiency; /* of the peak, all multiprocessors busy */
    double workspace_passes;              /* how often the workspace goes through memory */
    int kernels;
    double half_waves;  /* waves of blocks at which half of that efficiency is reached */
    double half_terms;  /* terms of a sum at which half of the tensor cores' is reached */
    double beta_factor; /* time with beta != 0, beyond reading the output */
} sim_conv_algorithm_t;

int sim_conv_algorithm_count(sim_conv_direction_t direction);
/* NULL for a number that the enumeration does not have. */
const sim_conv_algorithm_t *sim_conv_algorithm(sim_conv_direction_t direction, int number);

/* CUDNN_STATUS_SUCCESS or why `algorithm` cannot run `problem`. */
cudnnStatus_t sim_conv_supported(const sim_profile_t *profile, const sim_conv_t *problem,
                                 const sim_conv_algorithm_t *algorithm);
/* Bytes that a supported algorithm declares, and fills. */
uint64_t sim_conv_workspace_bytes(const sim_profile_t *profile, const sim_conv_t *problem,
                                  const sim_conv_algorithm_t *algorithm);
/* Virtual duration of the whole convolution. */
double sim_conv_cost_us(const sim_profile_t *profile, const sim_conv_t *problem,
                        const sim_conv_algorithm_t *algorithm, bool reads_output);
/* The tensor-core variant runs: fp32 inputs are then rounded to TF32. */
bool sim_conv_uses_tensor_cores(const sim_profile_t *profile, const sim_conv_t *problem,
                                const sim_conv_algorithm_t *algorithm);

/* Arithmetic ----------------------------------------------------------------------------------- */

enum { SIM_CONV_STEPS = 6, SIM_CONV_OPERANDS = 4 };

/* One pointwise operation of the backend API on the value so far: mode(alpha1 * value,
 * alpha2 * operand). */
typedef struct sim_conv_step {
    int32_t mode;    /* cudnnPointwiseMode_t */
    int32_t operand; /* of the launch's operands; -1: none */
    int32_t
        rounding; /* cudnnDataType_t of the result, when the graph keeps it: virtual tensors too */
    double alpha1, alpha2;
    double lower_clip, upper_clip, lower_slope, elu_alpha, softplus_beta, swish_beta;
} sim_conv_step_t;

/* What the fused convolution adds: y = act(alpha * conv + beta * z + bias). z is y in the plain
 * one. In the backend API, what comes after alpha and beta is the steps, in order. */
typedef struct sim_conv_epilogue {
    double alpha, beta;
    sim_conv_tensor_t addend; /* dimensions of the output */
    int32_t has_bias, bias_stride;
    int32_t activation; /* cudnnActivationMode_t */
    double coefficient, swish_beta;
    int32_t step_count, rounding; /* of the convolution's own result, if steps follow */
    sim_conv_step_t steps[SIM_CONV_STEPS];
    sim_conv_tensor_t operands[SIM_CONV_OPERANDS]; /* strides of 0 where they are repeated */
} sim_conv_epilogue_t;

typedef struct sim_conv_buffers {
    const void *x, *w, *y; /* device addresses; the direction's output is written */
    const void *addend, *bias;
    void *workspace;
    const void *operands[SIM_CONV_OPERANDS];
} sim_conv_buffers_t;

/* Applies one step to `count` values whose operands are `operand`. */
void sim_conv_step(const sim_conv_step_t *step, size_t count, const double *operand,
                   double *values);

/* Launches the kernels of one convolution, which fill `workspace_bytes` of the workspace and take
 * `cost_us` together. */
cudnnStatus_t sim_conv_launch_sized(cudnnHandle_t handle, const sim_conv_t *problem,
                                    const sim_conv_algorithm_t *algorithm,
                                    const sim_conv_epilogue_t *epilogue,
                                    const sim_conv_buffers_t *buffers, uint64_t workspace_bytes,
                                    double cost_us);

/* The same with the algorithm's own workspace, sim_conv_workspace_bytes, and time. */
cudnnStatus_t sim_conv_launch(cudnnHandle_t handle, const sim_conv_t *problem,
                              const sim_conv_algorithm_t *algorithm,
                              const sim_conv_epilogue_t *epilogue,
                              const sim_conv_buffers_t *buffers);

#endif
