/* The kernels of the convolutions, and how a convolution is launched as one or two of them. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/conv_kernels.h"

static void *tensor_memory(const sim_conv_tensor_t *tensor, const void *parameter)
{
    void *const address = *(void *const *)parameter;
    if (!address)
        return NULL;
    return sim_cudnn_memory(address, sim_tensor_span(SIM_CONV_DIMS, tensor->dims, tensor->strides) *
                                         sim_type_bytes((cudnnDataType_t)tensor->type));
}

/* False: the context has its sticky error, or no workspace is declared. */
static bool find_workspace(const sim_conv_kernel_arguments_t *arguments, const void *parameter,
                           sim_conv_memory_t *memory)
{
    if (!arguments->workspace_bytes)
        return false;
    memory->workspace = sim_cudnn_memory(*(void *const *)parameter, arguments->workspace_bytes);
    return memory->workspace;
}

static void first(const sim_conv_kernel_arguments_t *arguments, const sim_conv_memory_t *memory)
{
    if (arguments->problem.compute_double)
        sim_conv_first_double(arguments, memory);
    else
        sim_conv_first_float(arguments, memory);
}

static void second(const sim_conv_kernel_arguments_t *arguments, const sim_conv_memory_t *memory)
{
    if (arguments->problem.compute_double)
        sim_conv_second_double(arguments, memory);
    else
        sim_conv_second_float(arguments, memory);
}

/* workspace, arguments */
static void run_index(void *const *parameters)
{
    const sim_conv_kernel_arguments_t *const arguments = parameters[1];
    sim_conv_memory_t memory = {0};
    if (find_workspace(arguments, parameters[0], &memory))
        first(arguments, &memory);
}

/* w, workspace, arguments */
static void run_transform(void *const *parameters)
{
    const sim_conv_kernel_arguments_t *const arguments = parameters[2];
    sim_conv_memory_t memory = {.w = tensor_memory(&arguments->problem.w, parameters[0])};
    if (memory.w && find_workspace(arguments, parameters[1], &memory))
        first(arguments, &memory);
}

/* x, dy, workspace, arguments */
static void run_accumulate(void *const *parameters)
{
    const sim_conv_kernel_arguments_t *const arguments = parameters[3];
    sim_conv_memory_t memory = {.x = tensor_memory(&arguments->problem.x, parameters[0]),
                                .y = tensor_memory(&arguments->problem.y, parameters[1])};
    if (memory.x && memory.y && find_workspace(arguments, parameters[2], &memory))
        first(arguments, &memory);
}

/* workspace, dw, arguments */
static void run_blend(void *const *parameters)
{
    const sim_conv_kernel_arguments_t *const arguments = parameters[2];
    sim_conv_memory_t memory = {.out = tensor_memory(&arguments->problem.w, parameters[1])};
    memory.addend = memory.out;
    if (memory.out && find_workspace(arguments, parameters[0], &memory))
        second(arguments, &memory);
}

/* The two inputs of `direction` and its output, out of x, w and y. */
static void roles(const sim_conv_t *problem, const sim_conv_tensor_t *tensors[3])
{
    const bool data = problem->direction == SIM_BACKWARD_DATA;
    const bool filter = problem->direction == SIM_BACKWARD_FILTER;
    tensors[0] = data ? &problem->y : &problem->x;
    tensors[1] = filter ? &problem->y : &problem->w;
    tensors[2] = data ? &problem->x : filter ? &problem->w : &problem->y;
}

enum { MULTIPLY_POINTERS = 6 + SIM_CONV_OPERANDS };

/* False: an operand of the steps is not there. */
static bool find_operands(const sim_conv_kernel_arguments_t *arguments, void *const *parameters,
                          sim_conv_memory_t *memory)
{
    const sim_conv_epilogue_t *const epilogue = &arguments->epilogue;
    for (int i = 0; i < epilogue->step_count; i++) {
        const int32_t operand = epilogue->steps[i].operand;
        if (operand < 0)
            continue;
        memory->operands[operand] =
            tensor_memory(&epilogue->operands[operand], parameters[operand]);
        if (!memory->operands[operand])
            return false;
    }
    return true;
}

/* input, other input, output, addend, bias, workspace, operands of the steps, arguments */
static void run_multiply(void *const *parameters)
{
    const sim_conv_kernel_arguments_t *const arguments = parameters[MULTIPLY_POINTERS];
    const sim_conv_t *const problem = &arguments->problem;
    const sim_conv_tensor_t *tensors[3];
    roles(problem, tensors);
    const void *const in = tensor_memory(tensors[0], parameters[0]);
    const void *const other = tensor_memory(tensors[1], parameters[1]);
    sim_conv_memory_t memory = {.out = tensor_memory(tensors[2], parameters[2]),
                                .addend =
                                    tensor_memory(&arguments->epilogue.addend, parameters[3])};
    if (!in || !other || !memory.out || (arguments->epilogue.beta != 0.0 && !memory.addend))
        return;
    memory.x = problem->direction == SIM_BACKWARD_DATA ? NULL : in;
    memory.y = problem->direction == SIM_BACKWARD_DATA     ? in
               : problem->direction == SIM_BACKWARD_FILTER ? other
                                                           : NULL;
    memory.w = problem->direction == SIM_BACKWARD_FILTER ? NULL : other;
    if (arguments->epilogue.has_bias) {
        const uint64_t span =
            ((uint64_t)problem->y.dims[1] - 1) * (uint64_t)arguments->epilogue.bias_stride + 1;
        memory.bias = sim_cudnn_memory(*(void *const *)parameters[4],
                                       span * sim_type_bytes((cudnnDataType_t)problem->y.type));
        if (!memory.bias)
            return;
    }
    if (!find_operands(arguments, parameters + 6, &memory))
        return;
    if (arguments->workspace_bytes && !find_workspace(arguments, parameters[5], &memory))
        return;
    second(arguments, &memory);
}

enum { BYTES = sizeof(sim_conv_kernel_arguments_t) };
static const sim_kernel_parameter_t one_pointer[] = {{0, 8}, {8, BYTES}};
static const sim_kernel_parameter_t two_pointers[] = {{0, 8}, {8, 8}, {16, BYTES}};
static const sim_kernel_parameter_t three_pointers[] = {{0, 8}, {8, 8}, {16, 8}, {24, BYTES}};
static const sim_kernel_parameter_t ten_pointers[] = {{0, 8},  {8, 8},  {16, 8},    {24, 8},
                                                      {32, 8}, {40, 8}, {48, 8},    {56, 8},
                                                      {64, 8}, {72, 8}, {80, BYTES}};
_Static_assert(sizeof ten_pointers / sizeof *ten_pointers == MULTIPLY_POINTERS + 1,
               "one for each pointer of run_multiply, and its arguments");

static const sim_kernel_t index_kernel = {"cudnn_sim_conv_index", 2, one_pointer, run_index};
static const sim_kernel_t transform_kernel = {"cudnn_sim_conv_transform_filter", 3, two_pointers,
                                              run_transform};
static const sim_kernel_t accumulate_kernel = {"cudnn_sim_conv_accumulate_filter", 4,
                                               three_pointers, run_accumulate};
static const sim_kernel_t blend_kernel = {"cudnn_sim_conv_blend_filter", 3, two_pointers,
                                          run_blend};
static const sim_kernel_t multiply_kernels[SIM_DIRECTIONS] = {
    {"cudnn_sim_conv_forward", MULTIPLY_POINTERS + 1, ten_pointers, run_multiply},
    {"cudnn_sim_conv_backward_data", MULTIPLY_POINTERS + 1, ten_pointers, run_multiply},
    {"cudnn_sim_conv_backward_filter", MULTIPLY_POINTERS + 1, ten_pointers, run_multiply}};

static uint64_t terms(const sim_conv_t *problem)
{
    const int32_t *const w = problem->w.dims, *const y = problem->y.dims;
    if (problem->direction == SIM_BACKWARD_FILTER)
        return (uint64_t)y[2] * (uint64_t)y[3] * (uint64_t)y[4];
    const uint64_t channels =
        problem->direction == SIM_FORWARD ? (uint64_t)w[1] : (uint64_t)(w[0] / problem->groups);
    return channels * (uint64_t)w[2] * (uint64_t)w[3] * (uint64_t)w[4];
}

/* The most telling thing that fits the declared workspace. */
static sim_conv_carry_t choose_carry(const sim_conv_t *problem, uint64_t workspace_bytes)
{
    const uint64_t real = problem->compute_double ? sizeof(double) : sizeof(float);
    const bool filter = problem->direction == SIM_BACKWARD_FILTER;
    const uint64_t elements =
        (uint64_t)(filter ? sim_conv_sum_elements(problem) : sim_conv_operand_elements(problem));
    if (workspace_bytes >= elements * real)
        return filter ? CARRY_SUMS : CARRY_OPERAND;
    return workspace_bytes >= terms(problem) * sizeof(int32_t) ? CARRY_ROWS : CARRY_NOTHING;
}

/* What the nth launch on this handle adds to an order that varies: as much a function of the
 * program as the timing of atomic additions on a device is not, but different from run to run of
 * the kernel. */
static uint64_t next_variation(cudnnHandle_t handle)
{
    const char *const seed = secure_getenv("MICRODNN_SIM_SEED");
    uint64_t mixed = (seed ? strtoull(seed, NULL, 0) : 0) + ++handle->launches;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ mixed >> 31) >> 1;
}

static cudnnStatus_t launch_first(cudnnHandle_t handle, sim_conv_kernel_arguments_t *arguments,
                                  const sim_conv_buffers_t *buffers, double cost_us)
{
    if (arguments->carry == CARRY_OPERAND) {
        void *parameters[] = {(void *)&buffers->w, (void *)&buffers->workspace, arguments};
        return sim_cudnn_launch(handle, &transform_kernel, parameters, cost_us);
    }
    if (arguments->carry == CARRY_SUMS) {
        void *parameters[] = {(void *)&buffers->x, (void *)&buffers->y, (void *)&buffers->workspace,
                              arguments};
        return sim_cudnn_launch(handle, &accumulate_kernel, parameters, cost_us);
    }
    void *parameters[] = {(void *)&buffers->workspace, arguments};
    return sim_cudnn_launch(handle, &index_kernel, parameters, cost_us);
}

static cudnnStatus_t launch_second(cudnnHandle_t handle, sim_conv_kernel_arguments_t *arguments,
                                   const sim_conv_buffers_t *buffers, double cost_us)
{
    if (arguments->carry == CARRY_SUMS) {
        void *parameters[] = {(void *)&buffers->workspace, (void *)&buffers->w, arguments};
        return sim_cudnn_launch(handle, &blend_kernel, parameters, cost_us);
    }
    const int direction = arguments->problem.direction;
    const bool data = direction == SIM_BACKWARD_DATA, filter = direction == SIM_BACKWARD_FILTER;
    const void *const in = data ? buffers->y : buffers->x;
    const void *const other = filter ? buffers->y : buffers->w;
    const void *const out = data ? buffers->x : filter ? buffers->w : buffers->y;
    const void *const addend = arguments->epilogue.beta != 0.0 ? buffers->addend : NULL;
    void *parameters[] = {(void *)&in,
                          (void *)&other,
                          (void *)&out,
                          (void *)&addend,
                          (void *)&buffers->bias,
                          (void *)&buffers->workspace,
                          (void *)&buffers->operands[0],
                          (void *)&buffers->operands[1],
                          (void *)&buffers->operands[2],
                          (void *)&buffers->operands[3],
                          arguments};
    return sim_cudnn_launch(handle, &multiply_kernels[direction], parameters, cost_us);
}

cudnnStatus_t sim_conv_launch_sized(cudnnHandle_t handle, const sim_conv_t *problem,
                                    const sim_conv_algorithm_t *algorithm,
                                    const sim_conv_epilogue_t *epilogue,
                                    const sim_conv_buffers_t *buffers, uint64_t workspace_bytes,
                                    double cost_us)
{
    sim_conv_kernel_arguments_t arguments = {
        .problem = *problem,
        .epilogue = *epilogue,
        .order = (int32_t)algorithm->order,
        .block = algorithm->block,
        .round_tf32 = problem->x.type == CUDNN_DATA_FLOAT &&
                      sim_conv_uses_tensor_cores(handle->profile, problem, algorithm),
        .workspace_bytes = workspace_bytes};
    if (algorithm->order == ORDER_VARYING)
        arguments.variation = next_variation(handle);
    const sim_conv_carry_t carry = choose_carry(problem, workspace_bytes);
    arguments.carry = (int32_t)carry;
    if (carry == CARRY_NOTHING)
        return launch_second(handle, &arguments, buffers, cost_us);
    /* Summing is nearly all of the time, whichever of the two kernels does it. */
    const double first_share = carry == CARRY_SUMS ? 0.95 : 0.05;
    SIM_CUDNN_TRY(launch_first(handle, &arguments, buffers, cost_us * first_share));
    return launch_second(handle, &arguments, buffers, cost_us * (1.0 - first_share));
}

cudnnStatus_t sim_conv_launch(cudnnHandle_t handle, const sim_conv_t *problem,
                              const sim_conv_algorithm_t *algorithm,
                              const sim_conv_epilogue_t *epilogue,
                              const sim_conv_buffers_t *buffers)
{
    return sim_conv_launch_sized(
        handle, problem, algorithm, epilogue, buffers,
        sim_conv_workspace_bytes(handle->profile, problem, algorithm),
        sim_conv_cost_us(handle->profile, problem, algorithm, epilogue->beta != 0.0));
}
