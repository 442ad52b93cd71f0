/* libcudnn_ops.so.9: every function that treats elements one by one. All of them are one kernel:
 * output = alpha * f(inputs) + beta * output over tensors of equal dimensions and any strides. */
#include <math.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

enum { INPUTS = 3, OPERANDS = 4, OUTPUT = 3, CHUNK = 1024 };

typedef enum map_function {
    MAP_COPY,               /* in0 */
    MAP_SET,                /* alpha alone; no input */
    MAP_OP_TENSOR,          /* in0 op alpha2 * in1, in0 scaled by alpha1 */
    MAP_ACTIVATION,         /* f(in0) */
    MAP_ACTIVATION_BACKWARD /* in0 = y, in1 = dy, in2 = x: dy * f'(x) */
} map_function_t;

typedef struct map_arguments {
    int32_t function, mode; /* mode: cudnnOpTensorOp_t or cudnnActivationMode_t */
    int32_t dim_count;
    int32_t used[OPERANDS]; /* 0: no such operand */
    int32_t types[OPERANDS];
    int32_t dims[SIM_DIMS];
    int32_t strides[OPERANDS][SIM_DIMS];
    double alpha, alpha1, alpha2, beta, coefficient, swish_beta;
} map_arguments_t;

static double op_tensor(int op, double a, double b)
{
    switch (op) {
    case CUDNN_OP_TENSOR_ADD:
        return a + b;
    case CUDNN_OP_TENSOR_MUL:
        return a * b;
    case CUDNN_OP_TENSOR_MIN:
        return fmin(a, b);
    case CUDNN_OP_TENSOR_MAX:
        return fmax(a, b);
    case CUDNN_OP_TENSOR_SQRT:
        return sqrt(a);
    default:
        return 1.0 - a; /* NOT */
    }
}

/* f'(x), where y = f(x). */
static double activation_slope(const map_arguments_t *arguments, double x, double y)
{
    switch (arguments->mode) {
    case CUDNN_ACTIVATION_SIGMOID:
        return y * (1.0 - y);
    case CUDNN_ACTIVATION_RELU:
        return x > 0.0 ? 1.0 : 0.0;
    case CUDNN_ACTIVATION_TANH:
        return 1.0 - y * y;
    case CUDNN_ACTIVATION_CLIPPED_RELU:
        return x > 0.0 && x < arguments->coefficient ? 1.0 : 0.0;
    case CUDNN_ACTIVATION_ELU:
        return x > 0.0 ? 1.0 : arguments->coefficient * exp(x);
    case CUDNN_ACTIVATION_SWISH: {
        const double s = 1.0 / (1.0 + exp(-arguments->swish_beta * x));
        return s * (1.0 + arguments->swish_beta * x * (1.0 - s));
    }
    default:
        return 1.0;
    }
}

static void map_row(const map_arguments_t *arguments, size_t count, double in[INPUTS][CHUNK])
{
    switch (arguments->function) {
    case MAP_SET:
        for (size_t i = 0; i < count; i++)
            in[0][i] = 1.0;
        break;
    case MAP_OP_TENSOR:
        for (size_t i = 0; i < count; i++)
            in[0][i] = op_tensor(arguments->mode, arguments->alpha1 * in[0][i],
                                 arguments->alpha2 * in[1][i]);
        break;
    case MAP_ACTIVATION:
        sim_activate((cudnnActivationMode_t)arguments->mode, arguments->coefficient,
                     arguments->swish_beta, count, in[0]);
        break;
    case MAP_ACTIVATION_BACKWARD:
        for (size_t i = 0; i < count; i++)
            in[0][i] = in[1][i] * activation_slope(arguments, in[2][i], in[0][i]);
        break;
    default:
        break;
    }
}

/* One row of the innermost dimension, in chunks that stay in the cache. */
static void run_row(const map_arguments_t *arguments, void *const memory[OPERANDS],
                    const int64_t offsets[OPERANDS])
{
    static _Thread_local double in[INPUTS][CHUNK], blended[CHUNK];
    const int inner = arguments->dim_count - 1;
    for (int64_t at = 0; at < arguments->dims[inner]; at += CHUNK) {
        const int64_t left = arguments->dims[inner] - at;
        const size_t count = (size_t)(left < CHUNK ? left : CHUNK);
        for (int i = 0; i < INPUTS; i++)
            if (arguments->used[i])
                sim_row_load((cudnnDataType_t)arguments->types[i], memory[i],
                             offsets[i] + at * arguments->strides[i][inner],
                             arguments->strides[i][inner], count, in[i]);
        map_row(arguments, count, in);
        sim_row_blend((cudnnDataType_t)arguments->types[OUTPUT], memory[OUTPUT],
                      offsets[OUTPUT] + at * arguments->strides[OUTPUT][inner],
                      arguments->strides[OUTPUT][inner], count, arguments->alpha, in[0],
                      arguments->beta, blended);
    }
}

static void run_map(void *const *parameters)
{
    const map_arguments_t *const arguments = parameters[OPERANDS];
    void *memory[OPERANDS] = {NULL};
    for (int i = 0; i < OPERANDS; i++) {
        if (!arguments->used[i])
            continue;
        memory[i] = sim_cudnn_memory(
            *(void *const *)parameters[i],
            sim_tensor_span(arguments->dim_count, arguments->dims, arguments->strides[i]) *
                sim_type_bytes((cudnnDataType_t)arguments->types[i]));
        if (!memory[i])
            return;
    }
    int32_t at[SIM_DIMS] = {0};
    for (;;) {
        int64_t offsets[OPERANDS] = {0};
        for (int i = 0; i < OPERANDS; i++)
            for (int d = 0; d < arguments->dim_count - 1; d++)
                offsets[i] += (int64_t)at[d] * arguments->strides[i][d];
        run_row(arguments, memory, offsets);
        int d = arguments->dim_count - 2;
        while (d >= 0 && ++at[d] == arguments->dims[d])
            at[d--] = 0;
        if (d < 0)
            return;
    }
}

static const sim_kernel_parameter_t map_parameters[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, sizeof(map_arguments_t)}};
static const sim_kernel_t map_kernel = {"cudnn_sim_map", 5, map_parameters, run_map};

/* Joins neighbouring dimensions that every operand walks as one, so that rows are long. */
static void join_dims(map_arguments_t *arguments)
{
    for (int d = arguments->dim_count - 2; d >= 0; d--) {
        bool joined = true;
        for (int i = 0; i < OPERANDS && joined; i++)
            joined = (int64_t)arguments->strides[i][d + 1] * arguments->dims[d + 1] ==
                     arguments->strides[i][d];
        if (!joined)
            continue;
        const size_t rest = (size_t)(arguments->dim_count - d - 2);
        arguments->dims[d] *= arguments->dims[d + 1];
        memmove(&arguments->dims[d + 1], &arguments->dims[d + 2], rest * sizeof(int32_t));
        for (int i = 0; i < OPERANDS; i++)
            memmove(&arguments->strides[i][d], &arguments->strides[i][d + 1],
                    (rest + 1) * sizeof(int32_t));
        arguments->dim_count--;
    }
}

/* Operand `index` of the map; a dimension of 1 is repeated where `repeat` allows it. */
static cudnnStatus_t set_operand(map_arguments_t *arguments, int index,
                                 const struct cudnnTensorStruct *tensor, bool repeat)
{
    SIM_CUDNN_REQUIRE(tensor, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensor->dim_count == arguments->dim_count, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_is_floating(tensor->type), CUDNN_STATUS_NOT_SUPPORTED);
    for (int d = 0; d < tensor->dim_count; d++) {
        const bool repeated = repeat && tensor->dims[d] == 1;
        SIM_CUDNN_REQUIRE(repeated || tensor->dims[d] == arguments->dims[d],
                          CUDNN_STATUS_BAD_PARAM);
        arguments->strides[index][d] = repeated ? 0 : tensor->strides[d];
    }
    arguments->types[index] = (int32_t)tensor->type;
    arguments->used[index] = 1;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_output(map_arguments_t *arguments, const struct cudnnTensorStruct *tensor)
{
    SIM_CUDNN_REQUIRE(tensor && tensor->dim_count, CUDNN_STATUS_BAD_PARAM);
    arguments->dim_count = tensor->dim_count;
    for (int d = 0; d < tensor->dim_count; d++)
        arguments->dims[d] = tensor->dims[d];
    return set_operand(arguments, OUTPUT, tensor, false);
}

static cudnnStatus_t launch_map(cudnnHandle_t handle, map_arguments_t *arguments, const void *in0,
                                const void *in1, const void *in2, void *out)
{
    SIM_CUDNN_REQUIRE(out, CUDNN_STATUS_BAD_PARAM);
    const void *const inputs[INPUTS] = {in0, in1, in2};
    double bytes = 0.0;
    for (int i = 0; i < OPERANDS; i++) {
        SIM_CUDNN_REQUIRE(i == OUTPUT || !arguments->used[i] || inputs[i], CUDNN_STATUS_BAD_PARAM);
        if (arguments->used[i])
            bytes += (double)sim_tensor_elements(arguments->dim_count, arguments->dims) *
                     (double)sim_type_bytes((cudnnDataType_t)arguments->types[i]);
    }
    join_dims(arguments);
    void *parameters[] = {&in0, &in1, &in2, &out, arguments};
    return sim_cudnn_launch(handle, &map_kernel, parameters,
                            sim_cudnn_memory_cost_us(handle->profile, bytes));
}

/* alpha * copy(in) + beta * out: TransformTensor and AddTensor. */
static cudnnStatus_t blend(cudnnHandle_t handle, const void *alpha,
                           const struct cudnnTensorStruct *in_tensor, const void *in,
                           const void *beta, const struct cudnnTensorStruct *out_tensor, void *out,
                           bool repeat)
{
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && alpha && beta, CUDNN_STATUS_BAD_PARAM);
    map_arguments_t arguments = {.function = MAP_COPY};
    SIM_CUDNN_TRY(set_output(&arguments, out_tensor));
    SIM_CUDNN_TRY(set_operand(&arguments, 0, in_tensor, repeat));
    arguments.alpha = sim_scaling(alpha, out_tensor->type);
    arguments.beta = sim_scaling(beta, out_tensor->type);
    return launch_map(handle, &arguments, in, NULL, NULL, out);
}

cudnnStatus_t CUDNNWINAPI cudnnTransformTensor(cudnnHandle_t handle, const void *alpha,
                                               const cudnnTensorDescriptor_t xDesc, const void *x,
                                               const void *beta,
                                               const cudnnTensorDescriptor_t yDesc, void *y)
{
    SIM_CUDNN_ENTRY();
    return blend(handle, alpha, xDesc, x, beta, yDesc, y, false);
}

cudnnStatus_t CUDNNWINAPI cudnnAddTensor(cudnnHandle_t handle, const void *alpha,
                                         const cudnnTensorDescriptor_t aDesc, const void *A,
                                         const void *beta, const cudnnTensorDescriptor_t cDesc,
                                         void *C)
{
    SIM_CUDNN_ENTRY();
    return blend(handle, alpha, aDesc, A, beta, cDesc, C, true);
}

cudnnStatus_t CUDNNWINAPI cudnnOpTensor(cudnnHandle_t handle,
                                        const cudnnOpTensorDescriptor_t opTensorDesc,
                                        const void *alpha1, const cudnnTensorDescriptor_t aDesc,
                                        const void *A, const void *alpha2,
                                        const cudnnTensorDescriptor_t bDesc, const void *B,
                                        const void *beta, const cudnnTensorDescriptor_t cDesc,
                                        void *C)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && opTensorDesc && alpha1 && beta,
                      CUDNN_STATUS_BAD_PARAM);
    map_arguments_t arguments = {
        .function = MAP_OP_TENSOR, .mode = (int32_t)opTensorDesc->op, .alpha = 1.0};
    SIM_CUDNN_TRY(set_output(&arguments, cDesc));
    SIM_CUDNN_TRY(set_operand(&arguments, 0, aDesc, false));
    arguments.alpha1 = sim_scaling(alpha1, opTensorDesc->compute_type);
    arguments.beta = sim_scaling(beta, opTensorDesc->compute_type);
    if (opTensorDesc->op != CUDNN_OP_TENSOR_SQRT && opTensorDesc->op != CUDNN_OP_TENSOR_NOT) {
        SIM_CUDNN_REQUIRE(alpha2, CUDNN_STATUS_BAD_PARAM);
        arguments.alpha2 = sim_scaling(alpha2, opTensorDesc->compute_type);
        SIM_CUDNN_TRY(set_operand(&arguments, 1, bDesc, true));
    }
    return launch_map(handle, &arguments, A, B, NULL, C);
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t yDesc,
                                         void *y, const void *valuePtr)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && valuePtr, CUDNN_STATUS_BAD_PARAM);
    map_arguments_t arguments = {.function = MAP_SET};
    SIM_CUDNN_TRY(set_output(&arguments, yDesc));
    /* The value has the type of the tensor, unlike scaling factors. */
    sim_row_load(yDesc->type, valuePtr, 0, 1, 1, &arguments.alpha);
    return launch_map(handle, &arguments, NULL, NULL, NULL, y);
}

cudnnStatus_t CUDNNWINAPI cudnnScaleTensor(cudnnHandle_t handle,
                                           const cudnnTensorDescriptor_t yDesc, void *y,
                                           const void *alpha)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && alpha, CUDNN_STATUS_BAD_PARAM);
    map_arguments_t arguments = {.function = MAP_COPY};
    SIM_CUDNN_TRY(set_output(&arguments, yDesc));
    SIM_CUDNN_TRY(set_operand(&arguments, 0, yDesc, false));
    arguments.alpha = sim_scaling(alpha, yDesc->type);
    return launch_map(handle, &arguments, y, NULL, NULL, y);
}

cudnnStatus_t CUDNNWINAPI cudnnActivationForward(cudnnHandle_t handle,
                                                 cudnnActivationDescriptor_t activationDesc,
                                                 const void *alpha,
                                                 const cudnnTensorDescriptor_t xDesc, const void *x,
                                                 const void *beta,
                                                 const cudnnTensorDescriptor_t yDesc, void *y)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && activationDesc && alpha && beta,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(activationDesc->mode != CUDNN_ACTIVATION_IDENTITY, CUDNN_STATUS_BAD_PARAM);
    map_arguments_t arguments = {.function = MAP_ACTIVATION,
                                 .mode = (int32_t)activationDesc->mode,
                                 .coefficient = activationDesc->coefficient,
                                 .swish_beta = activationDesc->swish_beta};
    SIM_CUDNN_TRY(set_output(&arguments, yDesc));
    SIM_CUDNN_TRY(set_operand(&arguments, 0, xDesc, false));
    arguments.alpha = sim_scaling(alpha, yDesc->type);
    arguments.beta = sim_scaling(beta, yDesc->type);
    return launch_map(handle, &arguments, x, NULL, NULL, y);
}

cudnnStatus_t CUDNNWINAPI cudnnActivationBackward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t activationDesc, const void *alpha,
    const cudnnTensorDescriptor_t yDesc, const void *y, const cudnnTensorDescriptor_t dyDesc,
    const void *dy, const cudnnTensorDescriptor_t xDesc, const void *x, const void *beta,
    const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && activationDesc && alpha && beta,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(activationDesc->mode != CUDNN_ACTIVATION_IDENTITY, CUDNN_STATUS_BAD_PARAM);
    map_arguments_t arguments = {.function = MAP_ACTIVATION_BACKWARD,
                                 .mode = (int32_t)activationDesc->mode,
                                 .coefficient = activationDesc->coefficient,
                                 .swish_beta = activationDesc->swish_beta};
    SIM_CUDNN_TRY(set_output(&arguments, dxDesc));
    SIM_CUDNN_TRY(set_operand(&arguments, 0, yDesc, false));
    SIM_CUDNN_TRY(set_operand(&arguments, 1, dyDesc, false));
    SIM_CUDNN_TRY(set_operand(&arguments, 2, xDesc, false));
    arguments.alpha = sim_scaling(alpha, dxDesc->type);
    arguments.beta = sim_scaling(beta, dxDesc->type);
    return launch_map(handle, &arguments, y, dy, x, dx);
}
