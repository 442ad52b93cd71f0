#include "test/clients/graph_problem.h"

#include <math.h>
#include <string.h>

#include "test/clients/bail.h"

enum { GUARD_BYTES = 512, TURN_BYTES = 4096, ALIGNMENT = 32 };

static const int64_t uids[OPERANDS] = {GRAPH_UID_X, GRAPH_UID_W, GRAPH_UID_Y, GRAPH_UID_Z,
                                       GRAPH_UID_BIAS};

static reference_type_t element_type(const problem_t *problem)
{
    return (reference_type_t)graph_case_data_type(problem->test);
}

static void *allocate(size_t bytes)
{
    void *const memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        BAIL("out of memory");
    return memory;
}

static size_t elements_of(const reference_tensor_t *tensor)
{
    size_t elements = 1;
    for (int i = 0; i < REFERENCE_DIMS; i++)
        elements *= (size_t)tensor->dims[i];
    return elements;
}

/* Place of the logical element `index` in storage. */
static size_t place(const reference_tensor_t *tensor, size_t index)
{
    size_t at = 0;
    for (int i = REFERENCE_DIMS - 1; i >= 0; i--) {
        at += index % (size_t)tensor->dims[i] * (size_t)tensor->strides[i];
        index /= (size_t)tensor->dims[i];
    }
    return at;
}

/* ---- host side ---- */

static reference_tensor_t stored_as(const reference_tensor_t *packed, case_layout_t layout)
{
    reference_tensor_t stored = *packed;
    reference_pack(&stored, layout == CASE_NHWC || layout == CASE_NHWC_PADDED);
    if (layout == CASE_GAPS) { /* three elements after each row */
        long next = stored.dims[4] + 3;
        for (int i = 3; i >= 0; i--) {
            stored.strides[i] = next;
            next *= stored.dims[i];
        }
    }
    if (layout == CASE_CHWN)
        for (int i = 1; i < REFERENCE_DIMS; i++)
            stored.strides[i] *= stored.dims[0];
    if (layout == CASE_CHWN)
        stored.strides[0] = 1;
    else if (layout != CASE_NCHW && layout != CASE_NHWC)
        stored.strides[0] += 16;
    return stored;
}

static void init_operand(problem_t *problem, int which, const int *dims, case_layout_t layout)
{
    operand_t *const operand = &problem->operands[which];
    operand->uid = uids[which];
    operand->used = true;
    memcpy(operand->packed.dims, dims, sizeof operand->packed.dims);
    reference_pack(&operand->packed, false);
    operand->stored = stored_as(&operand->packed, layout);
    const size_t elements = elements_of(&operand->packed);
    operand->values = allocate(elements * sizeof *operand->values);
    operand->places = allocate(elements * sizeof *operand->places);
    for (size_t i = 0; i < elements; i++)
        operand->places[i] = place(&operand->stored, i);
    unsigned long long state = 0x9E3779B97F4A7C15ULL * ((unsigned)which + 1);
    for (size_t i = 0; i < elements; i++) {
        double wide = reference_random(&state);
        char narrow[8];
        reference_encode(element_type(problem), &wide, 1, narrow);
        reference_decode(element_type(problem), narrow, 1, &operand->values[i]);
    }
}

/* The filter has no gaps; nor has what is as small as a bias. */
static case_layout_t packed_layout(case_layout_t layout)
{
    return layout == CASE_NHWC || layout == CASE_NHWC_PADDED ? CASE_NHWC : CASE_NCHW;
}

static void init_geometry(problem_t *problem, int *y)
{
    const graph_case_t *const test = problem->test;
    reference_convolution_t *const c = &problem->convolution;
    c->direction = (reference_direction_t)test->direction;
    c->groups = test->groups;
    c->flip = test->flip;
    for (int i = 0; i < REFERENCE_SPATIAL; i++) {
        c->pad[i] = test->pre[i];
        c->stride[i] = test->stride[i];
        c->dilation[i] = test->dilation[i];
        const int reach = test->dilation[i] * (test->kernel[i] - 1) + 1;
        y[2 + i] = (test->side[i] + test->pre[i] + test->post[i] - reach) / test->stride[i] + 1;
    }
    memcpy(c->y.dims, y, sizeof c->y.dims);
    reference_pack(&c->y, false);
    c->x = problem->operands[OPERAND_X].packed;
    c->w = problem->operands[OPERAND_W].packed;
}

void problem_init(problem_t *problem, const graph_case_t *test)
{
    *problem = (problem_t){.test = test};
    const int *const side = test->side, *const kernel = test->kernel;
    const int x[REFERENCE_DIMS] = {test->n, test->c, side[0], side[1], side[2]};
    const int w[REFERENCE_DIMS] = {test->k, test->c / test->groups, kernel[0], kernel[1],
                                   kernel[2]};
    const int small[REFERENCE_DIMS] = {1, test->k, 1, 1, 1};
    int y[REFERENCE_DIMS] = {test->n, test->k};
    init_operand(problem, OPERAND_X, x, test->layout);
    init_operand(problem, OPERAND_W, w, packed_layout(test->layout));
    init_geometry(problem, y);
    init_operand(problem, OPERAND_Y, test->reduced ? small : y,
                 test->reduced ? packed_layout(test->layout) : test->layout);
    if (test->steps & CASE_ADD)
        init_operand(problem, OPERAND_Z, y, test->layout);
    if (test->steps & CASE_BIAS)
        init_operand(problem, OPERAND_BIAS, small, packed_layout(test->layout));
    static const int outputs[] = {OPERAND_Y, OPERAND_X, OPERAND_W};
    problem->output = &problem->operands[outputs[test->direction]];
}

void problem_fini(problem_t *problem)
{
    for (int i = 0; i < OPERANDS; i++) {
        free(problem->operands[i].values);
        free(problem->operands[i].places);
        free(problem->operands[i].image);
        free(problem->operands[i].uploaded);
        if (problem->operands[i].block)
            CUDA(cudaFree(problem->operands[i].block));
    }
    free(problem->truth);
}

static double activated(cudnnPointwiseMode_t activation, double x)
{
    switch (activation) {
    case CUDNN_POINTWISE_RELU_FWD:
        return x > 0 ? x : 0;
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return 1 / (1 + exp(-x));
    case CUDNN_POINTWISE_TANH_FWD:
        return tanh(x);
    case CUDNN_POINTWISE_ELU_FWD:
        return x > 0 ? x : expm1(x);
    case CUDNN_POINTWISE_SWISH_FWD:
        return x / (1 + exp(-x));
    case CUDNN_POINTWISE_GELU_FWD:
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_ABS:
        return fabs(x);
    default:
        return x;
    }
}

/* What the convolution gives, for the steps after it: y or x, there are none after weights. */
static const reference_tensor_t *convolved_shape(const problem_t *problem)
{
    const reference_convolution_t *const c = &problem->convolution;
    return problem->test->direction == GRAPH_FORWARD ? &c->y : &c->x;
}

/* From `convolved` to the output. */
static void finish(problem_t *problem, const double *convolved)
{
    const graph_case_t *const test = problem->test;
    const reference_tensor_t *const shape = convolved_shape(problem);
    const size_t count = elements_of(shape), channels = (size_t)shape->dims[1];
    const size_t pixels = count / ((size_t)shape->dims[0] * channels);
    for (size_t i = 0; i < count; i++) {
        const size_t channel = i / pixels % channels;
        double value = convolved[i];
        if (test->steps & CASE_ADD)
            value += test->alpha2 * problem->operands[OPERAND_Z].values[i];
        if (test->steps & CASE_BIAS)
            value += problem->operands[OPERAND_BIAS].values[channel];
        value = activated(test->activation, value);
        if (test->reduced)
            problem->truth[channel] += value;
        else
            problem->truth[i] = value;
    }
}

void problem_solve(problem_t *problem)
{
    const graph_case_t *const test = problem->test;
    const size_t bytes = elements_of(&problem->output->packed) * sizeof(double);
    problem->truth = allocate(bytes);
    double *data[] = {problem->operands[OPERAND_X].values, problem->operands[OPERAND_W].values,
                      problem->operands[OPERAND_Y].values};
    if (!graph_case_fused(test)) {
        memcpy(problem->truth, problem->output->values, bytes);
        data[problem->output - problem->operands] = problem->truth;
        reference_convolution(&problem->convolution, test->alpha, test->beta, data[0], data[1],
                              data[2]);
        return;
    }
    double *const convolved = allocate(elements_of(convolved_shape(problem)) * sizeof(double));
    data[test->direction == GRAPH_FORWARD ? OPERAND_Y : OPERAND_X] = convolved;
    reference_convolution(&problem->convolution, test->alpha, 0, data[0], data[1], data[2]);
    finish(problem, convolved);
    free(convolved);
}

void problem_forget(problem_t *problem)
{
    for (int i = 0; i < OPERANDS; i++) {
        free(problem->operands[i].image);
        problem->operands[i].image = NULL;
    }
    free(problem->truth);
    problem->truth = NULL;
}

size_t problem_elements(const problem_t *problem)
{
    return elements_of(&problem->output->packed);
}

double problem_error(const problem_t *problem, const double *values)
{
    return reference_relative_l2(&problem->output->packed, problem->truth, values);
}

/* ---- the graph ---- */

/* Five dimensions, or four without the depth of 1. */
static graph_tensor_t describe(const problem_t *problem, int64_t uid,
                               const reference_tensor_t *tensor)
{
    const bool flat = problem->test->spatial < 3;
    const size_t element = reference_type_bytes(element_type(problem));
    graph_tensor_t described = {.uid = uid,
                                .type = graph_case_data_type(problem->test),
                                .alignment =
                                    problem->test->misaligned ? (int64_t)element : ALIGNMENT};
    for (int i = 0; i < REFERENCE_DIMS; i++)
        if (i != 2 || !flat) {
            described.dims[described.count] = tensor->dims[i];
            described.strides[described.count++] = tensor->strides[i];
        }
    return described;
}

static cudnnBackendDescriptor_t add_operand(const problem_t *problem, graph_t *graph, int which)
{
    const operand_t *const operand = &problem->operands[which];
    const graph_tensor_t tensor = describe(problem, operand->uid, &operand->stored);
    return graph_add_tensor(graph, &tensor);
}

static cudnnDataType_t compute_type(const problem_t *problem)
{
    return problem->test->type == CASE_FP64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/* Between two steps, in the type of the sums. */
static cudnnBackendDescriptor_t add_virtual(const problem_t *problem, graph_t *graph, int64_t uid)
{
    const bool like_x = problem->test->direction == GRAPH_BACKWARD_DATA;
    const reference_tensor_t packed = like_x ? problem->convolution.x : problem->convolution.y;
    const reference_tensor_t stored = stored_as(&packed, problem->test->layout);
    graph_tensor_t tensor = describe(problem, uid, &stored);
    tensor.type = compute_type(problem);
    tensor.is_virtual = true;
    return graph_add_tensor(graph, &tensor);
}

static graph_convolution_t describe_convolution(const problem_t *problem)
{
    const graph_case_t *const test = problem->test;
    const int spatial = test->spatial < 3 ? 2 : 3, first = REFERENCE_SPATIAL - spatial;
    graph_convolution_t convolution = {.direction = test->direction,
                                       .mode =
                                           test->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
                                       .compute = compute_type(problem),
                                       .spatial = spatial,
                                       .alpha = test->alpha,
                                       .beta = test->beta};
    for (int i = 0; i < spatial; i++) {
        convolution.pre_pads[i] = test->pre[first + i];
        convolution.post_pads[i] = test->post[first + i];
        convolution.strides[i] = test->stride[first + i];
        convolution.dilations[i] = test->dilation[first + i];
    }
    return convolution;
}

/* The steps after the convolution, each from the tensor before to a virtual one, the last to y. */
typedef struct chain {
    const problem_t *problem;
    graph_t *graph;
    cudnnBackendDescriptor_t last, y;
    int left; /* steps */
} chain_t;

static void follow(chain_t *chain, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t b,
                   double alpha2, int64_t uid)
{
    const graph_pointwise_t step = {mode, compute_type(chain->problem), 1, alpha2};
    cudnnBackendDescriptor_t to =
        --chain->left ? add_virtual(chain->problem, chain->graph, uid) : chain->y;
    graph_add_pointwise(chain->graph, &step, chain->last, b, to);
    chain->last = to;
}

static void add_steps(const problem_t *problem, graph_t *graph, chain_t *chain)
{
    const graph_case_t *const test = problem->test;
    if (test->steps & CASE_ADD)
        follow(chain, CUDNN_POINTWISE_ADD, add_operand(problem, graph, OPERAND_Z), test->alpha2,
               GRAPH_UID_ADDED);
    if (test->steps & CASE_BIAS)
        follow(chain, CUDNN_POINTWISE_ADD, add_operand(problem, graph, OPERAND_BIAS), 1,
               GRAPH_UID_BIASED);
    if (test->activation != CUDNN_POINTWISE_IDENTITY)
        follow(chain, test->activation, NULL, 0, 0);
    if (test->reduced)
        graph_add_reduction(graph, CUDNN_REDUCE_TENSOR_ADD, compute_type(problem), chain->last,
                            chain->y);
}

/* Backward data gives a virtual tensor in the place of x, which what follows writes. */
static void build_backward_chain(const problem_t *problem, graph_t *graph)
{
    const graph_convolution_t convolution = describe_convolution(problem);
    cudnnBackendDescriptor_t dy = add_operand(problem, graph, OPERAND_Y);
    cudnnBackendDescriptor_t w = add_operand(problem, graph, OPERAND_W);
    cudnnBackendDescriptor_t gradient = add_virtual(problem, graph, GRAPH_UID_CONVOLVED);
    cudnnBackendDescriptor_t x = add_operand(problem, graph, OPERAND_X);
    chain_t chain = {problem, graph, gradient, x, 1}; /* one step */
    graph_add_convolution(graph, &convolution, gradient, w, dy);
    add_steps(problem, graph, &chain);
}

static void build_forward_chain(const problem_t *problem, graph_t *graph)
{
    const graph_case_t *const test = problem->test;
    const graph_convolution_t convolution = describe_convolution(problem);
    cudnnBackendDescriptor_t x = add_operand(problem, graph, OPERAND_X);
    cudnnBackendDescriptor_t w = add_operand(problem, graph, OPERAND_W);
    cudnnBackendDescriptor_t y = add_operand(problem, graph, OPERAND_Y);
    cudnnBackendDescriptor_t convolved = add_virtual(problem, graph, GRAPH_UID_CONVOLVED);
    chain_t chain = {problem, graph, convolved, y, 0};
    chain.left = !!(test->steps & CASE_ADD) + !!(test->steps & CASE_BIAS) +
                 (test->activation != CUDNN_POINTWISE_IDENTITY) + test->reduced;
    graph_add_convolution(graph, &convolution, x, w, convolved);
    add_steps(problem, graph, &chain);
}

cudnnStatus_t problem_build(const problem_t *problem, graph_t *graph, cudnnHandle_t handle)
{
    graph_init(graph);
    if (!graph_case_fused(problem->test)) {
        const graph_convolution_t convolution = describe_convolution(problem);
        cudnnBackendDescriptor_t x = add_operand(problem, graph, OPERAND_X);
        cudnnBackendDescriptor_t w = add_operand(problem, graph, OPERAND_W);
        cudnnBackendDescriptor_t y = add_operand(problem, graph, OPERAND_Y);
        graph_add_convolution(graph, &convolution, x, w, y);
    } else if (problem->test->direction == GRAPH_FORWARD) {
        build_forward_chain(problem, graph);
    } else {
        build_backward_chain(problem, graph);
    }
    return graph_finalize(graph, handle);
}

/* ---- device side ---- */

/* Where a turn puts the first element, in bytes from the start of the block. */
static size_t offset_at(const problem_t *problem, int turn)
{
    const size_t element = reference_type_bytes(element_type(problem));
    return (size_t)GUARD_BYTES + (turn % 2 ? (size_t)TURN_BYTES : 0) +
           (problem->test->misaligned ? element : 0);
}

static const char *image_of(const problem_t *problem, operand_t *operand)
{
    const size_t element = reference_type_bytes(element_type(problem));
    const size_t bytes = reference_span(&operand->stored) * element;
    if (operand->image)
        return operand->image;
    operand->image = allocate(bytes);
    memset(operand->image, 0xFF, bytes);
    for (size_t i = 0; i < elements_of(&operand->packed); i++)
        reference_encode(element_type(problem), &operand->values[i], 1,
                         operand->image + operand->places[i] * element);
    return operand->image;
}

/* `image` is NULL where nothing may be read. */
static void upload(const problem_t *problem, operand_t *operand, int turn, const char *image)
{
    const size_t element = reference_type_bytes(element_type(problem));
    const size_t bytes = reference_span(&operand->stored) * element;
    const size_t offset = offset_at(problem, turn);
    operand->block_bytes = bytes + 2 * GUARD_BYTES + TURN_BYTES + element;
    if (!operand->block) {
        CUDA(cudaMalloc((void **)&operand->block, operand->block_bytes));
        operand->uploaded = allocate(operand->block_bytes);
    }
    memset(operand->uploaded, 0xFF, operand->block_bytes);
    if (image)
        memcpy(operand->uploaded + offset, image, bytes);
    operand->device = operand->block + offset;
    CUDA(cudaMemcpy(operand->block, operand->uploaded, operand->block_bytes,
                    cudaMemcpyHostToDevice));
}

void problem_upload(problem_t *problem, int turn)
{
    const bool in_place = problem->test->in_place;
    for (int i = 0; i < OPERANDS; i++) {
        operand_t *const operand = &problem->operands[i];
        if (!operand->used || (i == OPERAND_Z && in_place))
            continue;
        if (operand == problem->output && in_place) /* both are stored alike */
            upload(problem, operand, turn, image_of(problem, &problem->operands[OPERAND_Z]));
        else if (operand == problem->output &&
                 (problem->test->beta == 0 || graph_case_fused(problem->test)))
            upload(problem, operand, turn, NULL);
        else
            upload(problem, operand, turn, image_of(problem, operand));
    }
    if (in_place)
        problem->operands[OPERAND_Z].device = problem->operands[OPERAND_Y].device;
}

void problem_bind(const problem_t *problem, graph_pack_t *pack)
{
    static const int order[] = {OPERAND_X, OPERAND_Y, OPERAND_W, OPERAND_Z, OPERAND_BIAS};
    for (int i = 0; i < OPERANDS; i++)
        if (problem->operands[order[i]].used)
            graph_bind(pack, problem->operands[order[i]].uid, problem->operands[order[i]].device);
}

static char *download(const operand_t *operand)
{
    char *const copy = allocate(operand->block_bytes);
    CUDA(cudaMemcpy(copy, operand->block, operand->block_bytes, cudaMemcpyDeviceToHost));
    return copy;
}

/* Takes the elements out of a copy of the block; true if poison is all that is left. */
static bool take(const problem_t *problem, const operand_t *operand, char *copy, double *values)
{
    const size_t element = reference_type_bytes(element_type(problem));
    char *const first = copy + ((char *)operand->device - operand->block);
    for (size_t i = 0; i < elements_of(&operand->packed); i++) {
        char *const at = first + operand->places[i] * element;
        reference_decode(element_type(problem), at, 1, &values[i]);
        memset(at, 0xFF, element);
    }
    return copy[0] == (char)0xFF && memcmp(copy, copy + 1, operand->block_bytes - 1) == 0;
}

bool problem_download(const problem_t *problem, double *values)
{
    char *copy = download(problem->output);
    bool intact = take(problem, problem->output, copy, values);
    free(copy);
    for (int i = 0; i < OPERANDS; i++) {
        const operand_t *const operand = &problem->operands[i];
        if (operand == problem->output || !operand->block)
            continue;
        copy = download(operand);
        intact = intact && memcmp(copy, operand->uploaded, operand->block_bytes) == 0;
        free(copy);
    }
    return intact;
}
