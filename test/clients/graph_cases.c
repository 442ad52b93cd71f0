#include "test/clients/graph_cases.h"

#include <stdio.h>

typedef struct visitor {
    void (*use)(const graph_case_t *test, void *context);
    void *context;
} visitor_t;

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int batches[] = {1, 2, 7, 127, 255, 257};
static const case_type_t float_types[] = {CASE_FP32, CASE_TF32, CASE_FP16, CASE_BF16};

static bool is_16_bit(case_type_t type)
{
    return type == CASE_FP16 || type == CASE_BF16;
}

static void set_square(graph_case_t *test, int side, int kernel, int pad)
{
    for (int i = 0; i < REFERENCE_SPATIAL; i++) {
        const bool there = i >= REFERENCE_SPATIAL - test->spatial;
        test->side[i] = there ? side : 1;
        test->kernel[i] = there ? kernel : 1;
        test->pre[i] = test->post[i] = there ? pad : 0;
        test->stride[i] = test->dilation[i] = 1;
    }
}

/* Large batches have small images, so that the whole takes seconds on a simulated GPU. */
static graph_case_t plain(graph_direction_t direction, case_type_t type, case_layout_t layout,
                          int n)
{
    graph_case_t test = {.direction = direction,
                         .type = type,
                         .layout = layout,
                         .n = n,
                         .c = is_16_bit(type) ? 8 : 4,
                         .k = is_16_bit(type) ? 8 : 4,
                         .groups = 1,
                         .spatial = 2,
                         .alpha = 1,
                         .alpha2 = 1,
                         .activation = CUDNN_POINTWISE_IDENTITY};
    set_square(&test, n > 100 ? 4 : 6, 3, 1);
    return test;
}

/* Every direction, type, packed layout and batch size; every two of them in those that do not repeat. */
static void visit_batches(const visitor_t *visitor)
{
    static const double alphas[] = {1, 1, 1, 0.75, 1, 1.25}, betas[] = {0, 1, 0, 0.5, 0, 1};
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++)
        for (size_t type = 0; type < COUNT(float_types); type++)
            for (case_layout_t layout = CASE_NCHW; layout <= CASE_NHWC; layout++)
                for (size_t i = 0; i < COUNT(batches); i++) {
                    graph_case_t test =
                        plain((graph_direction_t)direction, float_types[type], layout, batches[i]);
                    test.alpha = alphas[i];
                    test.beta = betas[i];
                    test.repeats = ((size_t)direction + type + 3 * layout) % COUNT(batches) != i;
                    visitor->use(&test, visitor->context);
                }
}

static void visit_double(const visitor_t *visitor, graph_direction_t direction)
{
    static const int some[] = {2, 7, 257};
    for (size_t i = 0; i < COUNT(some); i++) {
        graph_case_t test = plain(direction, CASE_FP64, CASE_NCHW, some[i]);
        test.beta = i == 1 ? 1 : 0;
        test.repeats = i != (size_t)direction;
        visitor->use(&test, visitor->context);
    }
    const graph_case_t last = plain(direction, CASE_FP64, CASE_NHWC, 7);
    visitor->use(&last, visitor->context);
}

/* Tensors with gaps between images, then also between rows. */
static void visit_gaps(const visitor_t *visitor, graph_direction_t direction)
{
    static const struct {
        case_type_t type;
        case_layout_t layout;
    } kinds[] = {{CASE_FP32, CASE_NCHW_PADDED},
                 {CASE_TF32, CASE_NHWC_PADDED},
                 {CASE_FP16, CASE_NHWC_PADDED},
                 {CASE_FP32, CASE_GAPS}};
    for (size_t kind = 0; kind < COUNT(kinds); kind++)
        for (int i = 0; i < 2; i++) {
            graph_case_t test = plain(direction, kinds[kind].type, kinds[kind].layout, i ? 127 : 7);
            test.beta = i;
            test.repeats = ((size_t)direction + kind) % 2 != (size_t)i;
            visitor->use(&test, visitor->context);
        }
}

/* One case of each shape; `at` says which. False when there is none any more. */
static bool shape(graph_case_t *test, int at)
{
    switch (at) {
    case 0:
        test->spatial = 1;
        set_square(test, 12, 3, 1);
        return true;
    case 1:
        test->spatial = 3;
        set_square(test, 4, 3, 1);
        return true;
    case 2:
        test->groups = 2;
        test->c *= 2;
        test->k *= 2;
        return true;
    case 3: /* depthwise, two outputs a channel */
        test->groups = test->c;
        test->k = 2 * test->c;
        return true;
    case 4:
        set_square(test, 7, 3, 2);
        test->dilation[1] = test->dilation[2] = 2;
        return true;
    case 5:
        set_square(test, 7, 3, 0);
        test->stride[1] = test->stride[2] = 2;
        return true;
    case 6: /* the way "same" pads with a stride */
        test->post[1] = test->post[2] = 2;
        test->stride[1] = 2;
        return true;
    case 7:
        test->flip = true;
        return true;
    case 8:
        set_square(test, 6, 1, 0);
        return true;
    case 9:
        test->c = 3;
        test->k = 5;
        set_square(test, 9, 5, 2);
        test->pre[2] = test->post[2] = 1;
        return true;
    case 10:
        test->misaligned = true;
        return true;
    case 11:
        test->n = 33;
        test->alpha = -2;
        return true;
    default:
        return false;
    }
}

static void visit_shapes(const visitor_t *visitor, graph_direction_t direction)
{
    for (int half = 0; half < 2; half++)
        for (int at = 0;; at++) {
            graph_case_t test =
                plain(direction, half ? CASE_FP16 : CASE_FP32, half ? CASE_NHWC : CASE_NCHW, 7);
            if (!shape(&test, at))
                break;
            test.repeats = (at + (int)direction) % 2 != half;
            visitor->use(&test, visitor->context);
        }
    for (int at = 1; at < 4; at++) { /* 3-D, groups and depthwise in the other types */
        graph_case_t test =
            plain(direction, at == 2 ? CASE_BF16 : CASE_TF32, at == 1 ? CASE_NHWC : CASE_NCHW, 33);
        shape(&test, at);
        test.repeats = at != 1 + (int)direction;
        visitor->use(&test, visitor->context);
    }
}

static const struct {
    int steps;
    cudnnPointwiseMode_t activation;
} fusions[] = {
    {CASE_BIAS, CUDNN_POINTWISE_IDENTITY},
    {CASE_BIAS, CUDNN_POINTWISE_RELU_FWD},
    {CASE_ADD | CASE_BIAS, CUDNN_POINTWISE_RELU_FWD},
    {CASE_ADD | CASE_BIAS, CUDNN_POINTWISE_IDENTITY},
    {0, CUDNN_POINTWISE_RELU_FWD},
    {CASE_ADD, CUDNN_POINTWISE_IDENTITY},
    {CASE_ADD, CUDNN_POINTWISE_RELU_FWD},
    {CASE_BIAS, CUDNN_POINTWISE_SIGMOID_FWD},
    {CASE_BIAS, CUDNN_POINTWISE_TANH_FWD},
    {CASE_BIAS, CUDNN_POINTWISE_ELU_FWD},
    {CASE_BIAS, CUDNN_POINTWISE_SWISH_FWD},
    {0, CUDNN_POINTWISE_GELU_FWD},
};

static graph_case_t fused(case_type_t type, int n, size_t fusion)
{
    graph_case_t test = plain(GRAPH_FORWARD, type, type == CASE_FP32 ? CASE_NCHW : CASE_NHWC, n);
    test.steps = fusions[fusion].steps;
    test.activation = fusions[fusion].activation;
    test.alpha2 = fusion % 2 ? 1 : 0.5;
    return test;
}

static void visit_fused(const visitor_t *visitor, case_type_t type)
{
    for (size_t fusion = 0; fusion < COUNT(fusions); fusion++) {
        graph_case_t test = fused(type, 7, fusion);
        test.repeats = (fusion + type) % 4 > 1;
        visitor->use(&test, visitor->context);
    }
    for (size_t i = 0; i < COUNT(batches); i += 2) { /* PyTorch's own: 1, 7 in place, 255 */
        graph_case_t test = fused(type, batches[i], 2);
        test.in_place = i == 2;
        test.repeats = i != 2 * (type % 3);
        visitor->use(&test, visitor->context);
    }
    graph_case_t test = fused(type, 127, 1);
    test.groups = 2;
    test.alpha = 0.5;
    visitor->use(&test, visitor->context);
    test = fused(type, 33, 2);
    test.spatial = 3;
    set_square(&test, 4, 3, 1);
    visitor->use(&test, visitor->context);
}

/* What no library between program and cuDNN needs to know. */
static void visit_uncommon(const visitor_t *visitor, case_type_t type)
{
    graph_case_t test = plain(GRAPH_FORWARD, type, CASE_NHWC, 7);
    test.activation = CUDNN_POINTWISE_EXP;
    visitor->use(&test, visitor->context);
    test.activation = CUDNN_POINTWISE_ABS;
    test.steps = CASE_BIAS;
    visitor->use(&test, visitor->context);
    test = plain(GRAPH_FORWARD, type, CASE_NHWC, 7);
    test.reduced = true;
    visitor->use(&test, visitor->context);
    test = plain(GRAPH_BACKWARD_DATA, type, CASE_NHWC, 7);
    test.activation = CUDNN_POINTWISE_RELU_FWD;
    visitor->use(&test, visitor->context);
}

void graph_cases_visit(void (*use)(const graph_case_t *test, void *context), void *context)
{
    const visitor_t visitor = {use, context};
    visit_batches(&visitor);
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++) {
        visit_double(&visitor, (graph_direction_t)direction);
        visit_gaps(&visitor, (graph_direction_t)direction);
        visit_shapes(&visitor, (graph_direction_t)direction);
    }
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++)
        for (case_type_t type = CASE_FP32; type <= CASE_TF32; type++) {
            const graph_case_t test = plain((graph_direction_t)direction, type, CASE_CHWN, 33);
            visitor.use(&test, visitor.context);
        }
    for (size_t type = 0; type < COUNT(float_types); type++) {
        visit_fused(&visitor, float_types[type]);
        visit_uncommon(&visitor, float_types[type]);
    }
}

static void count_case(const graph_case_t *test, void *context)
{
    (void)test;
    ++*(int *)context;
}

int graph_cases_count(void)
{
    int count = 0;
    graph_cases_visit(count_case, &count);
    return count;
}

bool graph_case_common(const graph_case_t *test)
{
    if (test->reduced || test->layout == CASE_CHWN ||
        (test->direction != GRAPH_FORWARD && graph_case_fused(test)))
        return false;
    return test->activation != CUDNN_POINTWISE_EXP && test->activation != CUDNN_POINTWISE_ABS;
}

bool graph_case_fused(const graph_case_t *test)
{
    return test->steps || test->activation != CUDNN_POINTWISE_IDENTITY || test->reduced;
}

cudnnDataType_t graph_case_data_type(const graph_case_t *test)
{
    static const cudnnDataType_t types[] = {
        [CASE_FP32] = CUDNN_DATA_FLOAT,  [CASE_TF32] = CUDNN_DATA_FLOAT,
        [CASE_FP16] = CUDNN_DATA_HALF,   [CASE_BF16] = CUDNN_DATA_BFLOAT16,
        [CASE_FP64] = CUDNN_DATA_DOUBLE,
    };
    return types[test->type];
}

static const char *activation_name(const graph_case_t *test)
{
    switch (test->activation) {
    case CUDNN_POINTWISE_RELU_FWD:
        return "+relu";
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return "+sigmoid";
    case CUDNN_POINTWISE_TANH_FWD:
        return "+tanh";
    case CUDNN_POINTWISE_ELU_FWD:
        return "+elu";
    case CUDNN_POINTWISE_SWISH_FWD:
        return "+swish";
    case CUDNN_POINTWISE_GELU_FWD:
        return "+gelu";
    case CUDNN_POINTWISE_EXP:
        return "+exp";
    case CUDNN_POINTWISE_ABS:
        return "+abs";
    default:
        return "";
    }
}

void graph_case_name(const graph_case_t *test, char *text, size_t bytes)
{
    static const char *const directions[] = {"forward", "backward_data", "backward_filter"};
    static const char *const types[] = {"fp32", "tf32", "fp16", "bf16", "fp64"};
    static const char *const layouts[] = {"nchw",        "nhwc", "nchw_padded",
                                          "nhwc_padded", "gaps", "chwn"};
    snprintf(text, bytes,
             "%s%s%s%s%s %s %s %dd batch %d channels %d to %d kernel %d groups %d stride %dx%d "
             "dilation %d pad %d-%d%s alpha %g beta %g%s%s",
             directions[test->direction], test->steps & CASE_ADD ? "+add" : "",
             test->steps & CASE_BIAS ? "+bias" : "", activation_name(test),
             test->reduced ? "+sum" : "", types[test->type], layouts[test->layout], test->spatial,
             test->n, test->c, test->k, test->kernel[2], test->groups, test->stride[1],
             test->stride[2], test->dilation[2], test->pre[2], test->post[2],
             test->flip ? " flipped" : "", test->alpha, test->beta,
             test->in_place ? " in place" : "", test->misaligned ? " misaligned" : "");
}
