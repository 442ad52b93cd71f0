/* Execution of a plan: a convolution goes the way of the legacy API's, the rest is one kernel. */
#include <string.h>

#include "test/sim/cudnn/backend.h"

typedef struct chain_arguments {
    sim_conv_tensor_t x, y;
    sim_conv_epilogue_t epilogue;
} chain_arguments_t;

static void *memory_of(const sim_conv_tensor_t *tensor, const void *parameter)
{
    void *const address = *(void *const *)parameter;
    return address ? sim_cudnn_memory(
                         address, sim_tensor_span(SIM_CONV_DIMS, tensor->dims, tensor->strides) *
                                      sim_type_bytes((cudnnDataType_t)tensor->type))
                   : NULL;
}

static int64_t offset_of(const sim_conv_tensor_t *tensor, const int at[SIM_CONV_DIMS])
{
    int64_t offset = 0;
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        offset += (int64_t)at[i] * tensor->strides[i];
    return offset;
}

static double load(const sim_conv_tensor_t *tensor, const void *memory, const int at[SIM_CONV_DIMS])
{
    double value;
    sim_row_load((cudnnDataType_t)tensor->type, memory, offset_of(tensor, at), 1, 1, &value);
    return value;
}

/* x, y, operands, arguments */
static void run_chain(void *const *parameters)
{
    const chain_arguments_t *const arguments = parameters[2 + SIM_CONV_OPERANDS];
    const sim_conv_epilogue_t *const epilogue = &arguments->epilogue;
    const void *const x = memory_of(&arguments->x, parameters[0]);
    void *const y = memory_of(&arguments->y, parameters[1]);
    const void *operands[SIM_CONV_OPERANDS] = {NULL};
    for (int i = 0; i < epilogue->step_count; i++) {
        const int32_t operand = epilogue->steps[i].operand;
        if (operand >= 0)
            operands[operand] = memory_of(&epilogue->operands[operand], parameters[2 + operand]);
        if (operand >= 0 && !operands[operand])
            return;
    }
    if (!x || !y)
        return;
    int at[SIM_CONV_DIMS];
    const uint64_t elements = sim_tensor_elements(SIM_CONV_DIMS, arguments->y.dims);
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t rest = i;
        for (int d = SIM_CONV_DIMS - 1; d >= 0; rest /= (uint64_t)arguments->y.dims[d], d--)
            at[d] = (int)(rest % (uint64_t)arguments->y.dims[d]);
        double value = load(&arguments->x, x, at), operand = 0.0;
        for (int s = 0; s < epilogue->step_count; s++) {
            const sim_conv_step_t *const step = &epilogue->steps[s];
            if (step->operand >= 0)
                operand = load(&epilogue->operands[step->operand], operands[step->operand], at);
            sim_conv_step(step, 1, &operand, &value);
        }
        sim_row_store((cudnnDataType_t)arguments->y.type, y, offset_of(&arguments->y, at), 1, 1,
                      &value);
    }
}

enum { CHAIN_POINTERS = 2 + SIM_CONV_OPERANDS };
static const sim_kernel_parameter_t chain_parameters[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, sizeof(chain_arguments_t)}};
static const sim_kernel_t chain_kernel = {"cudnn_sim_pointwise_chain", CHAIN_POINTERS + 1,
                                          chain_parameters, run_chain};

/* Tensors of three dimensions: batch, rows, columns. */
typedef struct matmul_arguments {
    sim_conv_tensor_t a, b, c;
} matmul_arguments_t;

static void run_matmul(void *const *parameters)
{
    const matmul_arguments_t *const arguments = parameters[3];
    const sim_conv_tensor_t *const a = &arguments->a, *const b = &arguments->b,
                                   *const c = &arguments->c;
    const void *const left = memory_of(a, parameters[0]), *const right =
                                                              memory_of(b, parameters[1]);
    void *const out = memory_of(c, parameters[2]);
    if (!left || !right || !out)
        return;
    for (int batch = 0; batch < c->dims[2]; batch++)
        for (int row = 0; row < c->dims[3]; row++)
            for (int column = 0; column < c->dims[4]; column++) {
                float sum = 0.0f;
                for (int i = 0; i < a->dims[4]; i++)
                    sum += (float)load(a, left, (const int[]){0, 0, batch, row, i}) *
                           (float)load(b, right, (const int[]){0, 0, batch, i, column});
                const double value = (double)sum;
                sim_row_store((cudnnDataType_t)c->type, out,
                              offset_of(c, (const int[]){0, 0, batch, row, column}), 1, 1, &value);
            }
}

static const sim_kernel_parameter_t matmul_parameters[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, sizeof(matmul_arguments_t)}};
static const sim_kernel_t matmul_kernel = {"cudnn_sim_matmul", 4, matmul_parameters, run_matmul};

/* Pointers ------------------------------------------------------------------------------------- */

/* The caller's address for a tensor of the graph; NULL for virtual ones. */
static cudnnStatus_t find_pointer(const sim_graph_t *graph, const sim_backend_pack_t *pack,
                                  int index, const void **pointer)
{
    *pointer = NULL;
    if (index < 0 || graph->tensors[index].is_virtual)
        return CUDNN_STATUS_SUCCESS;
    const sim_graph_tensor_t *const tensor = &graph->tensors[index];
    for (int64_t i = 0; i < pack->uid_count; i++)
        if (pack->uids[i] == tensor->uid)
            *pointer = pack->pointers[i];
    SIM_CUDNN_REQUIRE(*pointer, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    SIM_CUDNN_REQUIRE((uintptr_t)*pointer % (uint64_t)tensor->alignment == 0,
                      CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t find_operands(const sim_graph_t *graph, const sim_backend_pack_t *pack,
                                   const void *operands[SIM_CONV_OPERANDS])
{
    for (int i = 0; i < SIM_CONV_OPERANDS; i++)
        SIM_CUDNN_TRY(find_pointer(graph, pack, graph->operands[i], &operands[i]));
    return CUDNN_STATUS_SUCCESS;
}

/* The tensor that a chain's last node writes takes the place of the convolution's virtual result.
 */
static cudnnStatus_t find_buffers(const sim_graph_t *graph, const sim_backend_pack_t *pack,
                                  sim_conv_buffers_t *buffers)
{
    const sim_graph_node_t *const first = &graph->nodes[0];
    const int last = graph->nodes[graph->node_count - 1].out;
    const bool chain = graph->node_count > 1;
    const bool data = first->kind == NODE_BACKWARD_DATA;
    SIM_CUDNN_TRY(find_pointer(graph, pack, chain && data ? last : first->in, &buffers->x));
    SIM_CUDNN_TRY(find_pointer(graph, pack, first->other, &buffers->w));
    SIM_CUDNN_TRY(find_pointer(graph, pack, chain && !data ? last : first->out, &buffers->y));
    const void *const outputs[SIM_DIRECTIONS] = {buffers->y, buffers->x, buffers->w};
    buffers->addend = outputs[first->kind];
    return find_operands(graph, pack, buffers->operands);
}

/* Launching ------------------------------------------------------------------------------------ */

static cudnnStatus_t execute_convolution(cudnnHandle_t handle, const sim_backend_t *plan,
                                         const sim_backend_pack_t *pack, double cost_us)
{
    sim_conv_buffers_t buffers = {.workspace = pack->workspace};
    sim_conv_t problem;
    sim_conv_algorithm_t algorithm;
    SIM_CUDNN_TRY(find_buffers(plan->graph, pack, &buffers));
    sim_engine_algorithm(plan->graph, &plan->config, &problem, &algorithm);
    return sim_conv_launch_sized(handle, &problem, &algorithm, &plan->graph->epilogue, &buffers,
                                 plan->workspace_bytes, cost_us);
}

static cudnnStatus_t execute_chain(cudnnHandle_t handle, const sim_graph_t *graph,
                                   const sim_backend_pack_t *pack, double cost_us)
{
    chain_arguments_t arguments = {
        .x = graph->problem.x, .y = graph->problem.y, .epilogue = graph->epilogue};
    const void *x, *y, *operands[SIM_CONV_OPERANDS];
    SIM_CUDNN_TRY(find_pointer(graph, pack, graph->nodes[0].in, &x));
    SIM_CUDNN_TRY(find_pointer(graph, pack, graph->nodes[graph->node_count - 1].out, &y));
    SIM_CUDNN_TRY(find_operands(graph, pack, operands));
    void *parameters[] = {(void *)&x,
                          (void *)&y,
                          (void *)&operands[0],
                          (void *)&operands[1],
                          (void *)&operands[2],
                          (void *)&operands[3],
                          &arguments};
    return sim_cudnn_launch(handle, &chain_kernel, parameters, cost_us);
}

static sim_conv_tensor_t matrix(const sim_graph_tensor_t *from)
{
    sim_conv_tensor_t made = {.type = from->type, .dims = {1, 1}, .strides = {1, 1}};
    for (int i = 0; i < 3; i++) {
        made.dims[2 + i] = (int32_t)from->dims[i];
        made.strides[2 + i] = (int32_t)from->strides[i];
    }
    return made;
}

static cudnnStatus_t execute_matmul(cudnnHandle_t handle, const sim_graph_t *graph,
                                    const sim_backend_pack_t *pack, double cost_us)
{
    const sim_graph_node_t *const node = &graph->nodes[0];
    matmul_arguments_t arguments = {matrix(&graph->tensors[node->in]),
                                    matrix(&graph->tensors[node->other]),
                                    matrix(&graph->tensors[node->out])};
    const void *a, *b, *c;
    SIM_CUDNN_TRY(find_pointer(graph, pack, node->in, &a));
    SIM_CUDNN_TRY(find_pointer(graph, pack, node->other, &b));
    SIM_CUDNN_TRY(find_pointer(graph, pack, node->out, &c));
    void *parameters[] = {(void *)&a, (void *)&b, (void *)&c, &arguments};
    return sim_cudnn_launch(handle, &matmul_kernel, parameters, cost_us);
}

cudnnStatus_t sim_plan_execute(cudnnHandle_t handle, const sim_backend_t *plan,
                               const sim_backend_pack_t *pack)
{
    const sim_graph_t *const graph = plan->graph;
    SIM_CUDNN_REQUIRE(!strcmp(handle->profile->name, plan->profile->name),
                      CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
    SIM_CUDNN_REQUIRE(!plan->workspace_bytes || pack->workspace,
                      CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    SIM_CUDNN_REQUIRE(!plan->workspace_bytes || (uintptr_t)pack->workspace % 16 == 0,
                      CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    const double cost_us = sim_engine_cost_us(handle->profile, graph, &plan->config);
    if (graph->pattern <= PATTERN_CONV_FUSION)
        return execute_convolution(handle, plan, pack, cost_us);
    if (graph->pattern == PATTERN_POINTWISE)
        return execute_chain(handle, graph, pack, cost_us);
    return execute_matmul(handle, graph, pack, cost_us);
}
