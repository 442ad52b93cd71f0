/* What an operation graph is: checks of single nodes, order of the chain, its pattern, and the one
 * convolution in it. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/backend_graph.h"

sim_graph_t *sim_graph_create(void)
{
    sim_graph_t *const graph = calloc(1, sizeof *graph);
    if (graph)
        atomic_init(&graph->users, 1);
    return graph;
}

sim_graph_t *sim_graph_share(sim_graph_t *graph)
{
    if (graph)
        atomic_fetch_add(&graph->users, 1);
    return graph;
}

void sim_graph_release(sim_graph_t *graph)
{
    if (graph && atomic_fetch_sub(&graph->users, 1) == 1)
        free(graph);
}

/* Single nodes --------------------------------------------------------------------------------- */

static bool has_gaps(const sim_graph_tensor_t *tensor)
{
    int64_t elements = 1, span = 1;
    for (int i = 0; i < tensor->dim_count; i++) {
        elements *= tensor->dims[i];
        span += (tensor->dims[i] - 1) * tensor->strides[i];
    }
    return span != elements;
}

static cudnnStatus_t check_convolution(const sim_graph_convolution_t *convolution,
                                       const sim_graph_tensor_t *x, const sim_graph_tensor_t *w,
                                       const sim_graph_tensor_t *y)
{
    const int64_t spatial = convolution->spatial_dims;
    SIM_CUDNN_REQUIRE(x->dim_count == spatial + 2 && w->dim_count == x->dim_count &&
                          y->dim_count == x->dim_count,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(x->dims[0] == y->dims[0] && w->dims[0] == y->dims[1] &&
                          x->dims[1] % w->dims[1] == 0 &&
                          w->dims[0] % (x->dims[1] / w->dims[1]) == 0,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(!has_gaps(w), CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < spatial; i++) {
        const int64_t reach = (w->dims[2 + i] - 1) * convolution->dilation[i] + 1;
        const int64_t room = x->dims[2 + i] + convolution->pre[i] + convolution->post[i] - reach;
        SIM_CUDNN_REQUIRE(room >= 0 && y->dims[2 + i] == 1 + room / convolution->stride[i],
                          CUDNN_STATUS_BAD_PARAM);
    }
    return CUDNN_STATUS_SUCCESS;
}

static bool takes_two(int32_t mode)
{
    return mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_SUB ||
           mode == CUDNN_POINTWISE_MUL || mode == CUDNN_POINTWISE_MAX ||
           mode == CUDNN_POINTWISE_MIN;
}

static bool takes_one(int32_t mode)
{
    return mode == CUDNN_POINTWISE_RELU_FWD || mode == CUDNN_POINTWISE_TANH_FWD ||
           mode == CUDNN_POINTWISE_SIGMOID_FWD || mode == CUDNN_POINTWISE_ELU_FWD ||
           mode == CUDNN_POINTWISE_GELU_FWD || mode == CUDNN_POINTWISE_SWISH_FWD ||
           mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_ABS ||
           mode == CUDNN_POINTWISE_NEG || mode == CUDNN_POINTWISE_IDENTITY;
}

/* Each dimension is the output's or 1. */
static bool spreads_to(const sim_graph_tensor_t *tensor, const sim_graph_tensor_t *out)
{
    if (tensor->dim_count != out->dim_count)
        return false;
    for (int i = 0; i < out->dim_count; i++)
        if (tensor->dims[i] != out->dims[i] && tensor->dims[i] != 1)
            return false;
    return true;
}

static cudnnStatus_t check_matmul(const sim_graph_tensor_t *a, const sim_graph_tensor_t *b,
                                  const sim_graph_tensor_t *c)
{
    const int64_t last = a->dim_count - 1;
    SIM_CUDNN_REQUIRE(last >= 1 && b->dim_count == last + 1 && c->dim_count == last + 1,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < last - 1; i++)
        SIM_CUDNN_REQUIRE(a->dims[i] == c->dims[i] && b->dims[i] == c->dims[i],
                          CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(a->dims[last - 1] == c->dims[last - 1] && b->dims[last] == c->dims[last] &&
                          a->dims[last] == b->dims[last - 1],
                      CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_node_check(const sim_graph_node_t *node, const sim_graph_tensor_t *in,
                             const sim_graph_tensor_t *other, const sim_graph_tensor_t *out)
{
    if (node->kind <= NODE_BACKWARD_FILTER)
        return check_convolution(&node->convolution, in, other, out);
    if (node->kind == NODE_MATMUL)
        return check_matmul(in, other, out);
    SIM_CUDNN_REQUIRE(!takes_two(node->pointwise.mode) || other, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(spreads_to(in, out) && (!other || spreads_to(other, out)),
                      CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

/* All nodes ------------------------------------------------------------------------------------ */

int sim_graph_tensor_index(sim_graph_t *graph, const sim_graph_tensor_t *tensor)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].uid == tensor->uid)
            return i;
    if (graph->tensor_count == SIM_GRAPH_TENSORS)
        return -1;
    graph->tensors[graph->tensor_count] = *tensor;
    return graph->tensor_count++;
}

/* The tensor that a node writes. */
static int written_by(const sim_graph_node_t *node)
{
    return node->kind == NODE_BACKWARD_DATA     ? node->in
           : node->kind == NODE_BACKWARD_FILTER ? node->other
                                                : node->out;
}

static bool reads(const sim_graph_node_t *node, int tensor)
{
    return tensor != written_by(node) &&
           (node->in == tensor || node->other == tensor || node->out == tensor);
}

static int writer_of(const sim_graph_t *graph, int tensor)
{
    for (int i = 0; i < graph->node_count; i++)
        if (written_by(&graph->nodes[i]) == tensor)
            return i;
    return -1;
}

static cudnnStatus_t check_writers(const sim_graph_t *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        SIM_CUDNN_REQUIRE(writer_of(graph, written_by(&graph->nodes[i])) == i,
                          CUDNN_STATUS_BAD_PARAM); /* two write one tensor */
    for (int i = 0; i < graph->tensor_count; i++)
        SIM_CUDNN_REQUIRE(!graph->tensors[i].is_virtual || writer_of(graph, i) >= 0,
                          CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

static void swap_nodes(sim_graph_t *graph, int a, int b)
{
    const sim_graph_node_t kept = graph->nodes[a];
    graph->nodes[a] = graph->nodes[b];
    graph->nodes[b] = kept;
}

/* Puts the nodes into the order of a chain: each reads what the one before wrote, which is virtual
 * and read by no one else. False: they are no chain. */
static bool order_chain(sim_graph_t *graph)
{
    for (int i = 0; i < graph->node_count; i++) {
        int next = -1;
        for (int j = i; j < graph->node_count; j++) {
            const sim_graph_node_t *const node = &graph->nodes[j];
            bool reads_later = false;
            for (int k = i; k < graph->node_count; k++)
                reads_later = reads_later || reads(node, written_by(&graph->nodes[k]));
            if (!reads_later && next < 0)
                next = j;
        }
        if (next < 0)
            return false;
        swap_nodes(graph, i, next);
        const int before = i > 0 ? written_by(&graph->nodes[i - 1]) : -1;
        if (i > 0 && (!reads(&graph->nodes[i], before) || !graph->tensors[before].is_virtual))
            return false;
    }
    return !graph->tensors[written_by(&graph->nodes[graph->node_count - 1])].is_virtual;
}

/* The convolution ------------------------------------------------------------------------------ */

static bool narrow(int64_t value, int32_t *out)
{
    *out = (int32_t)value;
    return value >= INT32_MIN && value <= INT32_MAX;
}

/* Tensors of 3 to 5 dimensions as 5-D ones. False: too large. */
static bool widen(const sim_graph_tensor_t *tensor, sim_conv_tensor_t *out)
{
    const int missing = SIM_CONV_DIMS - (int)tensor->dim_count;
    int64_t span = 1;
    bool fits = true;
    out->type = tensor->type;
    for (int i = 0; i < SIM_CONV_DIMS; i++) {
        const bool added = i >= 2 && i < 2 + missing;
        const int from = i < 2 ? i : i - missing;
        fits = narrow(added ? 1 : tensor->dims[from], &out->dims[i]) && fits;
        fits = narrow(added ? 1 : tensor->strides[from], &out->strides[i]) && fits;
        span += (int64_t)(out->dims[i] - 1) * out->strides[i];
    }
    return fits && span <= INT32_MAX;
}

static bool packed_as(const sim_conv_tensor_t *tensor, bool channels_last)
{
    static const int orders[2][SIM_CONV_DIMS] = {{4, 3, 2, 1, 0}, {1, 4, 3, 2, 0}};
    int64_t step = 1;
    for (int i = 0; i < SIM_CONV_DIMS; i++) {
        const int d = orders[channels_last][i];
        if (tensor->dims[d] > 1 && tensor->strides[d] != step)
            return false;
        step *= tensor->dims[d];
    }
    return true;
}

static bool taps_equally_far(const sim_conv_tensor_t *w)
{
    const int32_t *const d = w->dims, *const s = w->strides;
    return (d[3] == 1 || s[3] == d[4] * s[4]) && (d[2] == 1 || s[2] == d[3] * d[4] * s[4]);
}

static void set_window(const sim_graph_convolution_t *from, sim_conv_t *problem)
{
    const int missing = SIM_SPATIAL - (int)from->spatial_dims;
    for (int i = 0; i < SIM_SPATIAL; i++) {
        problem->pad[i] = i < missing ? 0 : (int32_t)from->pre[i - missing];
        problem->stride[i] = i < missing ? 1 : (int32_t)from->stride[i - missing];
        problem->dilation[i] = i < missing ? 1 : (int32_t)from->dilation[i - missing];
    }
}

static cudnnStatus_t check_types(const sim_graph_convolution_t *convolution,
                                 const sim_conv_t *problem)
{
    const int32_t type = problem->x.type;
    SIM_CUDNN_REQUIRE(sim_type_is_floating((cudnnDataType_t)type) && problem->w.type == type &&
                          problem->y.type == type,
                      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    const int32_t wanted = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const bool own_half = type == CUDNN_DATA_HALF && convolution->compute_type == CUDNN_DATA_HALF;
    SIM_CUDNN_REQUIRE(convolution->compute_type == wanted || own_half,
                      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    return CUDNN_STATUS_SUCCESS;
}

/* The problem of node 0, whose result is the tensor `result` of the graph. */
static cudnnStatus_t describe_convolution(const sim_graph_t *graph, int result, sim_conv_t *problem)
{
    const sim_graph_node_t *const node = &graph->nodes[0];
    const sim_graph_convolution_t *const convolution = &node->convolution;
    const int written = written_by(node);
    const int indices[3] = {node->in, node->other, node->out};
    sim_conv_tensor_t *const tensors[3] = {&problem->x, &problem->w, &problem->y};
    memset(problem, 0, sizeof *problem);
    for (int i = 0; i < 3; i++) {
        const int index = indices[i] == written ? result : indices[i];
        SIM_CUDNN_REQUIRE(widen(&graph->tensors[index], tensors[i]),
                          CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    }
    problem->direction = (int32_t)node->kind;
    problem->spatial_dims = convolution->spatial_dims == 3 ? 3 : 2;
    problem->compute_double = problem->x.type == CUDNN_DATA_DOUBLE;
    problem->flip = convolution->mode == CUDNN_CONVOLUTION;
    problem->groups = problem->x.dims[1] / problem->w.dims[1];
    set_window(convolution, problem);
    bool layouts[2] = {true, true};
    for (int i = 0; i < 3; i++)
        for (int last = 0; last < 2; last++)
            layouts[last] = layouts[last] && packed_as(tensors[i], last);
    problem->layout = layouts[0]   ? SIM_LAYOUT_NCHW
                      : layouts[1] ? SIM_LAYOUT_NHWC
                                   : SIM_LAYOUT_STRIDED;
    SIM_CUDNN_REQUIRE(taps_equally_far(&problem->w), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    return check_types(convolution, problem);
}

/* The steps ------------------------------------------------------------------------------------ */

/* A new operand: `tensor`, repeated where its dimensions are 1. */
static cudnnStatus_t add_operand(sim_graph_t *graph, int tensor, int32_t *operand)
{
    for (*operand = 0; *operand < SIM_CONV_OPERANDS; ++*operand)
        if (graph->operands[*operand] < 0)
            break;
    SIM_CUDNN_REQUIRE(*operand < SIM_CONV_OPERANDS, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    sim_conv_tensor_t *const made = &graph->epilogue.operands[*operand];
    SIM_CUDNN_REQUIRE(!graph->tensors[tensor].is_virtual && !graph->tensors[tensor].by_value,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_REQUIRE(widen(&graph->tensors[tensor], made) &&
                          sim_type_is_floating((cudnnDataType_t)made->type),
                      CUDNN_STATUS_NOT_SUPPORTED);
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        if (made->dims[i] == 1)
            made->strides[i] = 0;
    graph->operands[*operand] = tensor;
    return CUDNN_STATUS_SUCCESS;
}

/* Node `index` as a step on the value that tensor `value` holds. */
static cudnnStatus_t add_step(sim_graph_t *graph, int index, int value)
{
    const sim_graph_node_t *const node = &graph->nodes[index];
    const sim_graph_pointwise_t *const pointwise = &node->pointwise;
    const bool swapped = node->in != value;
    const int other = swapped ? node->in : node->other;
    SIM_CUDNN_REQUIRE(node->kind == NODE_POINTWISE && (takes_one(pointwise->mode) ||
                                                       (takes_two(pointwise->mode) && other >= 0)),
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_REQUIRE(!swapped || pointwise->mode != CUDNN_POINTWISE_SUB,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_REQUIRE(other < 0 || other != value, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    sim_conv_step_t step = {.mode = pointwise->mode,
                            .operand = -1,
                            .rounding = graph->tensors[node->out].type,
                            .alpha1 = swapped ? node->beta : node->alpha,
                            .alpha2 = swapped ? node->alpha : node->beta,
                            .lower_clip = pointwise->lower_clip,
                            .upper_clip = pointwise->upper_clip,
                            .lower_slope = pointwise->lower_slope,
                            .elu_alpha = pointwise->elu_alpha,
                            .softplus_beta = pointwise->softplus_beta,
                            .swish_beta = pointwise->swish_beta};
    if (other >= 0 && takes_two(pointwise->mode))
        SIM_CUDNN_TRY(add_operand(graph, other, &step.operand));
    graph->epilogue.steps[graph->epilogue.step_count++] = step;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t add_steps(sim_graph_t *graph, int first, int value)
{
    for (int i = first; i < graph->node_count; i++) {
        SIM_CUDNN_TRY(add_step(graph, i, value));
        value = graph->nodes[i].out;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* A bias: one value for each channel. */
static bool is_bias(const sim_conv_tensor_t *operand, const sim_conv_tensor_t *y)
{
    return operand->dims[1] == y->dims[1] && operand->dims[0] == 1 && operand->dims[2] == 1 &&
           operand->dims[3] == 1 && operand->dims[4] == 1;
}

/* Convolution, optionally an addend, a bias, optionally an activation: what cuDNN has ready-made
 * kernels for. Virtual tensors must be of the type that the convolution computes in. */
static bool is_add_bias_act(const sim_graph_t *graph)
{
    const sim_conv_epilogue_t *const epilogue = &graph->epilogue;
    int at = 0;
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].is_virtual &&
            graph->tensors[i].type !=
                (graph->problem.compute_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
            return false;
    if (graph->nodes[0].kind != NODE_FORWARD)
        return false;
    for (; at < epilogue->step_count && epilogue->steps[at].mode == CUDNN_POINTWISE_ADD; at++) {
        const bool bias =
            is_bias(&epilogue->operands[epilogue->steps[at].operand], &graph->problem.y);
        if (bias)
            return at + 1 == epilogue->step_count ||
                   (at + 2 == epilogue->step_count &&
                    epilogue->steps[at + 1].mode >= CUDNN_POINTWISE_RELU_FWD);
        if (at > 0)
            return false;
    }
    return false;
}

static cudnnStatus_t analyze_convolution(sim_graph_t *graph)
{
    const sim_graph_node_t *const node = &graph->nodes[0];
    const int result = written_by(&graph->nodes[graph->node_count - 1]);
    graph->epilogue.alpha = node->alpha;
    graph->epilogue.beta = node->beta;
    graph->epilogue.activation = CUDNN_ACTIVATION_IDENTITY;
    graph->epilogue.rounding = graph->tensors[written_by(node)].type;
    graph->pattern = graph->node_count == 1 ? PATTERN_CONVOLUTION : PATTERN_CONV_FUSION;
    SIM_CUDNN_TRY(describe_convolution(graph, result, &graph->problem));
    const sim_conv_tensor_t *const outputs[SIM_DIRECTIONS] = {&graph->problem.y, &graph->problem.x,
                                                              &graph->problem.w};
    graph->epilogue.addend = *outputs[node->kind];
    if (graph->node_count == 1)
        return CUDNN_STATUS_SUCCESS;
    SIM_CUDNN_REQUIRE(node->kind != NODE_BACKWARD_FILTER && node->beta == 0.0,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_TRY(add_steps(graph, 1, written_by(node)));
    if (is_add_bias_act(graph))
        graph->pattern = PATTERN_CONV_ADD_BIAS_ACT;
    return CUDNN_STATUS_SUCCESS;
}

/* Its value comes from the first node's `in`, and is stored as the last one's output. */
static cudnnStatus_t analyze_pointwise(sim_graph_t *graph)
{
    graph->pattern = PATTERN_POINTWISE;
    const sim_graph_tensor_t *const out = &graph->tensors[graph->nodes[graph->node_count - 1].out];
    sim_conv_tensor_t *const tensors[2] = {&graph->problem.x, &graph->problem.y};
    const sim_graph_tensor_t *const from[2] = {&graph->tensors[graph->nodes[0].in], out};
    for (int i = 0; i < 2; i++)
        SIM_CUDNN_REQUIRE(from[i]->dim_count <= SIM_CONV_DIMS && from[i]->dim_count >= 3 &&
                              widen(from[i], tensors[i]) &&
                              sim_type_is_floating((cudnnDataType_t)from[i]->type),
                          CUDNN_STATUS_NOT_SUPPORTED);
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        if (graph->problem.x.dims[i] == 1)
            graph->problem.x.strides[i] = 0;
    graph->epilogue.rounding = graph->problem.x.type;
    return add_steps(graph, 0, graph->nodes[0].in);
}

static cudnnStatus_t verdict_of(sim_graph_t *graph)
{
    SIM_CUDNN_REQUIRE(order_chain(graph), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    const sim_graph_node_t *const first = &graph->nodes[0];
    if (first->kind <= NODE_BACKWARD_FILTER)
        return analyze_convolution(graph);
    if (first->kind == NODE_POINTWISE)
        return analyze_pointwise(graph);
    graph->pattern = PATTERN_MATMUL;
    SIM_CUDNN_REQUIRE(graph->node_count == 1 && first->precision == CUDNN_DATA_FLOAT &&
                          graph->tensors[first->in].dim_count == 3,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_graph_analyze(sim_graph_t *graph)
{
    SIM_CUDNN_REQUIRE(graph->node_count > 0, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_TRY(check_writers(graph));
    graph->pattern = PATTERN_NONE;
    for (int i = 0; i < SIM_CONV_OPERANDS; i++)
        graph->operands[i] = -1;
    graph->verdict = verdict_of(graph);
    return CUDNN_STATUS_SUCCESS;
}
