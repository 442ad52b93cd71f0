/* From what is said of a graph to a problem: whether its tensors are sane, the chain that the
 * operations form, then whether its tensors are of types and layouts that we know. */
#include "shim/graph/graph_chain.h"

#include <float.h>
#include <string.h>

#include <cudnn.h>

#include "config/fault.h"

enum { INNER_DIMS = 2 /* batch and channel */ };

typedef mdnn_chain_tensor_t tensor_t;
typedef mdnn_chain_convolution_t convolution_t;
typedef mdnn_chain_pointwise_t pointwise_t;
typedef mdnn_chain_graph_t graph_t;

mdnn_graph_kind_t mdnn_chain_survey(int convolutions, int pointwise, bool others)
{
    if (convolutions == 0)
        return MDNN_GRAPH_NO_CONVOLUTION;
    if (convolutions > 1 || pointwise > MDNN_PROBLEM_POINTWISE || others)
        return MDNN_GRAPH_MANY_OPERATIONS;
    return MDNN_GRAPH_RECOGNISED;
}

pointwise_t mdnn_chain_pointwise(void)
{
    return (pointwise_t){.alpha1 = 1, .alpha2 = 1, .upper_clip = DBL_MAX, .parameter = 1};
}

static bool has_parameter(int32_t mode)
{
    return mode == CUDNN_POINTWISE_ELU_FWD || mode == CUDNN_POINTWISE_SOFTPLUS_FWD ||
           mode == CUDNN_POINTWISE_SWISH_FWD;
}

tensor_t *mdnn_chain_find(graph_t *graph, int64_t uid)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].uid == uid)
            return &graph->tensors[i];
    return NULL;
}

static bool is_power_of_two(int32_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

static bool is_sane(const tensor_t *tensor)
{
    if (tensor->dims.count < 3 || tensor->dims.count > MDNN_PROBLEM_DIMS ||
        tensor->strides.count != tensor->dims.count || !is_power_of_two(tensor->alignment))
        return false;
    for (int i = 0; i < tensor->dims.count; i++)
        if (tensor->dims.at[i] < 1)
            return false;
    return true;
}

/* The stride of a single element says nothing, and cuDNN takes any. Elsewhere 0 means that there
 * are no strides, so it gets one that lies behind what the later dimensions reach. */
static void settle_strides(tensor_t *tensor)
{
    int64_t span = 1;
    for (int i = tensor->dims.count; i-- > 0 && span <= INT32_MAX;) {
        int32_t *const stride = &tensor->strides.at[i];
        if (tensor->dims.at[i] == 1 && *stride < 1)
            *stride = (int32_t)span;
        span += ((int64_t)tensor->dims.at[i] - 1) * (*stride > 0 ? *stride : 0);
    }
}

static bool same_list(const mdnn_json_list_t *a, const mdnn_json_list_t *b)
{
    return a->count == b->count && memcmp(a->at, b->at, (size_t)a->count * sizeof *a->at) == 0;
}

bool mdnn_chain_add_tensor(graph_t *graph, const tensor_t *tensor)
{
    if (graph->tensor_count == MDNN_CHAIN_TENSORS || !is_sane(tensor) ||
        mdnn_chain_find(graph, tensor->uid))
        return false;
    graph->tensors[graph->tensor_count] = *tensor;
    settle_strides(&graph->tensors[graph->tensor_count++]);
    return true;
}

static bool same_tensor(const tensor_t *a, const tensor_t *b)
{
    return a->uid == b->uid && a->type == b->type && a->alignment == b->alignment &&
           a->vector_count == b->vector_count && a->vector_dim == b->vector_dim &&
           a->reordering == b->reordering && a->is_virtual == b->is_virtual &&
           a->by_value == b->by_value && same_list(&a->dims, &b->dims) &&
           same_list(&a->strides, &b->strides);
}

bool mdnn_chain_use_tensor(graph_t *graph, const tensor_t *tensor)
{
    const tensor_t *const known = mdnn_chain_find(graph, tensor->uid);
    tensor_t settled = *tensor;
    if (!known)
        return mdnn_chain_add_tensor(graph, tensor);
    if (!is_sane(tensor))
        return false;
    settle_strides(&settled);
    return same_tensor(known, &settled);
}

/* The graph as a convolution and, in the order of the data, what follows it. */
typedef struct step {
    const pointwise_t *pointwise;
    const tensor_t *input;
    mdnn_operand_t operand;
    double alpha1, alpha2;
} step_t;

typedef struct chain {
    tensor_t *x, *w, *y;
    tensor_t *z, *bias; /* NULL: none */
    bool activated;
    step_t steps[MDNN_PROBLEM_POINTWISE];
} chain_t;

/* One value for each channel of `output`. */
static bool is_bias_of(const tensor_t *bias, const tensor_t *output)
{
    if (bias->dims.count != output->dims.count || bias->dims.at[1] != output->dims.at[1])
        return false;
    for (int i = 0; i < bias->dims.count; i++)
        if (i != 1 && bias->dims.at[i] != 1)
            return false;
    return true;
}

/* The operation not yet used that reads the tensor. */
static pointwise_t *reader_of(graph_t *graph, const tensor_t *tensor)
{
    for (int i = 0; i < graph->pointwise_count; i++) {
        pointwise_t *const at = &graph->pointwise[i];
        const bool reads =
            at->x == tensor->uid || (at->mode == CUDNN_POINTWISE_ADD && at->b == tensor->uid);
        if (!at->used && reads)
            return at;
    }
    return NULL;
}

/* `step` is an addition to what step->input holds: finds what is added. */
static mdnn_graph_kind_t link_operand(graph_t *graph, chain_t *chain, step_t *step)
{
    const pointwise_t *const add = step->pointwise;
    const bool swapped = add->x != step->input->uid;
    tensor_t *const operand = mdnn_chain_find(graph, swapped ? add->x : add->b);
    if (!operand)
        return MDNN_GRAPH_UNKNOWN;
    if (operand->is_virtual)
        return MDNN_GRAPH_MANY_OPERATIONS;
    operand->used = true;
    step->alpha1 = swapped ? add->alpha2 : add->alpha1;
    step->alpha2 = swapped ? add->alpha1 : add->alpha2;
    if (!chain->bias && is_bias_of(operand, step->input)) {
        chain->bias = operand;
        step->operand = MDNN_OPERAND_BIAS;
    } else if (!chain->z && same_list(&operand->dims, &step->input->dims)) {
        chain->z = operand;
        step->operand = MDNN_OPERAND_Z;
    } else
        return MDNN_GRAPH_MANY_OPERATIONS;
    return MDNN_GRAPH_RECOGNISED;
}

/* From the tensor *at to what the next operation writes. */
static mdnn_graph_kind_t link_step(graph_t *graph, chain_t *chain, step_t *step, tensor_t **at)
{
    pointwise_t *const pointwise = reader_of(graph, *at);
    if (!(*at)->is_virtual || !pointwise)
        return MDNN_GRAPH_MANY_OPERATIONS;
    pointwise->used = true;
    *step = (step_t){.pointwise = pointwise,
                     .input = *at,
                     .alpha1 = pointwise->alpha1,
                     .alpha2 = pointwise->alpha2};
    if (pointwise->mode == CUDNN_POINTWISE_ADD) {
        const mdnn_graph_kind_t kind = link_operand(graph, chain, step);
        if (kind != MDNN_GRAPH_RECOGNISED)
            return kind;
    } else if (chain->activated)
        return MDNN_GRAPH_MANY_OPERATIONS;
    else
        chain->activated = true;
    tensor_t *const output = mdnn_chain_find(graph, pointwise->y);
    if (!output)
        return MDNN_GRAPH_UNKNOWN;
    if (output->used || !same_list(&output->dims, &(*at)->dims))
        return MDNN_GRAPH_MANY_OPERATIONS;
    output->used = true;
    *at = output;
    return MDNN_GRAPH_RECOGNISED;
}

static mdnn_graph_kind_t link_steps(graph_t *graph, chain_t *chain)
{
    for (int i = 0; i < graph->pointwise_count; i++) {
        const mdnn_graph_kind_t kind = link_step(graph, chain, &chain->steps[i], &chain->y);
        if (kind != MDNN_GRAPH_RECOGNISED)
            return kind;
    }
    return MDNN_GRAPH_RECOGNISED;
}

static mdnn_graph_kind_t link_chain(graph_t *graph, chain_t *chain)
{
    const convolution_t *const convolution = &graph->convolution;
    *chain = (chain_t){.x = mdnn_chain_find(graph, convolution->x),
                       .w = mdnn_chain_find(graph, convolution->w),
                       .y = mdnn_chain_find(graph, convolution->y)};
    if (!chain->x || !chain->w || !chain->y || chain->x == chain->w || chain->x == chain->y ||
        chain->w == chain->y)
        return MDNN_GRAPH_UNKNOWN;
    chain->x->used = chain->w->used = chain->y->used = true;
    if (graph->pointwise_count > 0 &&
        (convolution->direction != MDNN_FORWARD || convolution->beta != 0))
        return MDNN_GRAPH_MANY_OPERATIONS;
    const mdnn_graph_kind_t kind = link_steps(graph, chain);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    if (chain->x->is_virtual || chain->w->is_virtual || chain->y->is_virtual)
        return MDNN_GRAPH_MANY_OPERATIONS;
    for (int i = 0; i < graph->tensor_count; i++) {
        if (!graph->tensors[i].used)
            return MDNN_GRAPH_UNKNOWN;
        if (graph->tensors[i].by_value)
            return MDNN_GRAPH_MANY_OPERATIONS;
    }
    return MDNN_GRAPH_RECOGNISED;
}

/* Padding either way as two lists. */
static bool settle_padding(convolution_t *convolution)
{
    const bool before = convolution->pad_before.count > 0, after = convolution->pad_after.count > 0;
    if (convolution->pad.count > 0) {
        if (before || after)
            return false;
        convolution->pad_before = convolution->pad_after = convolution->pad;
    }
    return true;
}

/* 1 + floor((in + padding - reach) / stride) == out, for each spatial dimension. */
static bool planes_agree(const convolution_t *convolution, const chain_t *chain)
{
    for (int i = 0; i < chain->x->dims.count - INNER_DIMS; i++) {
        const int64_t pad_before = convolution->pad_before.at[i];
        const int64_t pad_after = convolution->pad_after.at[i];
        const int64_t stride = convolution->stride.at[i], dilation = convolution->dilation.at[i];
        const int64_t filter = chain->w->dims.at[INNER_DIMS + i];
        const int64_t out = chain->y->dims.at[INNER_DIMS + i];
        if (pad_before < 0 || pad_after < 0 || stride < 1 || dilation < 1)
            return false;
        const int64_t room = chain->x->dims.at[INNER_DIMS + i] + pad_before + pad_after -
                             ((filter - 1) * dilation + 1);
        if (room < 0 || 1 + room / stride != out)
            return false;
    }
    return true;
}

/* Also works out the groups where the graph does not say them. */
static bool shapes_agree(convolution_t *convolution, const chain_t *chain)
{
    const mdnn_json_list_t *const x = &chain->x->dims, *const w = &chain->w->dims,
                                  *const y = &chain->y->dims;
    const int spatial = x->count - INNER_DIMS;
    if (!settle_padding(convolution) || w->count != x->count || y->count != x->count ||
        convolution->pad_before.count != spatial || convolution->pad_after.count != spatial ||
        convolution->stride.count != spatial || convolution->dilation.count != spatial)
        return false;
    if (convolution->groups == MDNN_CHAIN_NOT_SAID)
        convolution->groups = x->at[1] / w->at[1];
    if (convolution->groups < 1 || (int64_t)w->at[1] * convolution->groups != x->at[1] ||
        w->at[0] % convolution->groups != 0 || y->at[1] != w->at[0] || y->at[0] != x->at[0])
        return false;
    return planes_agree(convolution, chain);
}

/* Sums and what lies between operations may be wider than the data. */
static bool is_float_or(int32_t type, int32_t data)
{
    return type == CUDNN_DATA_FLOAT || type == data;
}

static bool types_are_ours(const graph_t *graph, const chain_t *chain)
{
    const int32_t data = chain->x->type;
    if (data != CUDNN_DATA_FLOAT && data != CUDNN_DATA_HALF && data != CUDNN_DATA_BFLOAT16 &&
        data != CUDNN_DATA_DOUBLE)
        return false;
    if (chain->w->type != data || chain->y->type != data ||
        !is_float_or(graph->convolution.compute_type, data))
        return false;
    for (int i = 0; i < graph->tensor_count; i++)
        if (!is_float_or(graph->tensors[i].type, data))
            return false;
    for (int i = 0; i < graph->pointwise_count; i++)
        if (!is_float_or(graph->pointwise[i].compute_type, data))
            return false;
    return true;
}

static bool is_plain(const tensor_t *tensor)
{
    for (int i = 0; i < tensor->dims.count; i++)
        if (tensor->strides.at[i] < 1)
            return false;
    return tensor->vector_count == 1 && tensor->reordering == CUDNN_TENSOR_REORDERING_NONE;
}

/* No image reaches into the next. The strides are positive (is_plain). */
static bool batch_is_outermost(const tensor_t *tensor)
{
    int64_t span = 1, part;
    if (tensor->dims.at[0] == 1)
        return true;
    for (int i = 1; i < tensor->dims.count; i++)
        if (tensor->dims.at[i] > 1 &&
            (__builtin_mul_overflow((int64_t)tensor->dims.at[i] - 1, (int64_t)tensor->strides.at[i],
                                    &part) ||
             __builtin_add_overflow(span, part, &span)))
            return false;
    return tensor->strides.at[0] >= span;
}

static bool layouts_are_ours(const graph_t *graph, const chain_t *chain)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (!is_plain(&graph->tensors[i]))
            return false;
    return batch_is_outermost(chain->x) && batch_is_outermost(chain->y) &&
           (!chain->z || batch_is_outermost(chain->z));
}

/* Dense memory with the channels second or last. The stride of one element says nothing. */
static bool is_packed(const tensor_t *tensor, cudnnTensorFormat_t format)
{
    const int count = tensor->dims.count;
    int64_t expected = 1;
    for (int i = 0; i < count; i++) { /* from the innermost dimension out */
        int dim = count - 1 - i;
        if (format == CUDNN_TENSOR_NHWC && dim != 0)
            dim = i == 0 ? 1 : dim + 1;
        if (tensor->dims.at[dim] != 1 && tensor->strides.at[dim] != expected)
            return false;
        if (__builtin_mul_overflow(expected, (int64_t)tensor->dims.at[dim], &expected))
            return false;
    }
    return true;
}

static int32_t format_of(const tensor_t *w, const tensor_t *x)
{
    const bool second = is_packed(w, CUDNN_TENSOR_NCHW), last = is_packed(w, CUDNN_TENSOR_NHWC);
    const bool x_last = is_packed(x, CUDNN_TENSOR_NHWC) && !is_packed(x, CUDNN_TENSOR_NCHW);
    if (second && !(last && x_last))
        return CUDNN_TENSOR_NCHW;
    return last ? CUDNN_TENSOR_NHWC : -1;
}

static void describe_tensor(mdnn_problem_tensor_t *to, const tensor_t *from)
{
    to->type = from->type;
    to->dim_count = from->dims.count;
    memcpy(to->dims, from->dims.at, sizeof to->dims);
    memcpy(to->strides, from->strides.at, sizeof to->strides);
    to->alignment_bytes = from->alignment;
}

static int64_t bits_of(double number)
{
    int64_t bits;
    const double positive_zero = number == 0 ? 0 : number;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits;
}

static void describe_step(mdnn_problem_pointwise_t *to, const step_t *step)
{
    const pointwise_t *const from = step->pointwise;
    to->mode = from->mode;
    to->operand = (int32_t)step->operand;
    to->input_type = step->input->type;
    to->compute_type = from->compute_type;
    to->alpha1_bits = bits_of(step->alpha1);
    to->alpha2_bits = bits_of(step->alpha2);
    if (from->mode == CUDNN_POINTWISE_RELU_FWD) {
        to->parameter_bits[0] = bits_of(from->lower_clip);
        to->parameter_bits[1] = bits_of(from->upper_clip);
        to->parameter_bits[2] = bits_of(from->slope);
    } else if (has_parameter(from->mode))
        to->parameter_bits[0] = bits_of(from->parameter);
}

static void describe_convolution(mdnn_problem_t *problem, const convolution_t *convolution)
{
    const size_t bytes = (size_t)problem->spatial_dims * sizeof *problem->pad;
    memcpy(problem->pad, convolution->pad_before.at, bytes);
    memcpy(problem->pad_after, convolution->pad_after.at, bytes);
    memcpy(problem->stride, convolution->stride.at, bytes);
    memcpy(problem->dilation, convolution->dilation.at, bytes);
    problem->direction = convolution->direction;
    problem->mode = convolution->mode;
    problem->compute_type = convolution->compute_type;
    problem->groups = convolution->groups;
    problem->alpha_class = mdnn_alpha_class(convolution->alpha);
    problem->beta_is_zero = convolution->beta == 0;
    problem->alpha_bits = bits_of(convolution->alpha);
    problem->beta_bits = bits_of(convolution->beta);
}

static bool is_legacy(const mdnn_problem_t *problem)
{
    return problem->x.dim_count >= 4 && problem->pointwise_count == 0 && problem->w.format >= 0 &&
           memcmp(problem->pad, problem->pad_after, sizeof problem->pad) == 0;
}

static void describe(const graph_t *from, const chain_t *chain, mdnn_graph_t *graph)
{
    mdnn_problem_t *const problem = &graph->problem;
    memset(graph, 0, sizeof *graph);
    mdnn_problem_init(problem);
    describe_tensor(&problem->x, chain->x);
    describe_tensor(&problem->w, chain->w);
    describe_tensor(&problem->y, chain->y);
    problem->w.format = format_of(chain->w, chain->x);
    problem->spatial_dims = chain->x->dims.count - INNER_DIMS;
    describe_convolution(problem, &from->convolution);
    graph->x_uid = chain->x->uid;
    graph->w_uid = chain->w->uid;
    graph->y_uid = chain->y->uid;
    if (chain->z) {
        describe_tensor(&problem->z, chain->z);
        graph->z_uid = chain->z->uid;
    }
    if (chain->bias) {
        describe_tensor(&problem->bias, chain->bias);
        graph->bias_uid = chain->bias->uid;
    }
    problem->pointwise_count = from->pointwise_count;
    for (int i = 0; i < from->pointwise_count; i++)
        describe_step(&problem->pointwise[i], &chain->steps[i]);
    if (from->pointwise_count > 0)
        problem->direction = MDNN_BIAS_ACTIVATION_FORWARD;
    problem->interfaces = MDNN_INTERFACE_GRAPH | (is_legacy(problem) ? MDNN_INTERFACE_LEGACY : 0);
}

mdnn_graph_kind_t mdnn_chain_recognise(graph_t *said, mdnn_graph_t *graph)
{
    chain_t chain;
    const mdnn_graph_kind_t kind = link_chain(said, &chain);
    if (kind != MDNN_GRAPH_RECOGNISED)
        return kind;
    if (!types_are_ours(said, &chain))
        return MDNN_GRAPH_TYPES;
    if (!layouts_are_ours(said, &chain) && !MDNN_FAULT(ANY_LAYOUT_TAKEN))
        return MDNN_GRAPH_LAYOUT;
    if (!shapes_agree(&said->convolution, &chain))
        return MDNN_GRAPH_UNKNOWN;
    describe(said, &chain, graph);
    return MDNN_GRAPH_RECOGNISED;
}
