/* Plans a list of graphs with the cuDNN that it is linked to, without a GPU if the library can, and
 * says what became of each: statuses, heuristics lists, notes, workspaces, and the plans' JSON.
 *
 *     plan_graphs DEVICEPROP.json [FOLDER [GRAPH]]
 *     plan_graphs --version
 *
 * prints lines for each graph, tabs between fields; with FOLDER, it writes the JSON of the first
 * plan that a heuristics list gives to FOLDER/NAME.json. test/data/plan-json was made with it. An
 * error is a finding, not a failure: the exit status is 0 unless a file cannot be read or written.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cudnn.h>

enum { DIMS_MAX = 5, ENGINES_MAX = 256, JSON_MAX = 1 << 20 };

typedef enum operation { FORWARD, BACKWARD_DATA, BACKWARD_FILTER } operation_t;
typedef enum layout { NCHW, NHWC, GAPS, CHWN } layout_t;

/* What follows a forward convolution; POINTWISE_FIRST.. are graphs that no one is meant to
 * recognise. */
enum epilogue {
    ADD = 1,
    BIAS = 2,
    RELU = 4,
    EXP = 8,
    SECOND_CONVOLUTION = 16,
    RELU6 = 32,
    HALF_VIRTUAL = 64,
    SIGMOID = 128,
    SWISH = 256,
    BIAS_FIRST = 512
};

typedef struct graph {
    const char *name;
    operation_t operation;
    cudnnDataType_t type, compute;
    layout_t layout;
    int spatial;
    int64_t n, c, k, groups;
    int64_t in[3], filter[3], pre[3], post[3], stride[3], dilation[3];
    cudnnConvolutionMode_t mode;
    double alpha, beta, alpha2;
    unsigned epilogue;
    cudnnDataType_t out; /* of y */
} graph_t;

#define F32 CUDNN_DATA_FLOAT
#define F16 CUDNN_DATA_HALF
#define BF16 CUDNN_DATA_BFLOAT16
#define F64 CUDNN_DATA_DOUBLE
#define CROSS CUDNN_CROSS_CORRELATION
#define PLANE                                                                                      \
    .spatial = 2, .n = 8, .c = 64, .k = 64, .groups = 1, .in = {56, 56}, .filter = {3, 3},         \
    .pre = {1, 1}, .post = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .mode = CROSS,            \
    .alpha = 1, .alpha2 = 1
#define OF(t, m) .type = t, .compute = m, .out = t

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* a case overrides what its macro says */
static const graph_t graphs[] = {
    {.name = "fwd-f32-nchw", PLANE, OF(F32, F32)},
    {.name = "dgrad-f32-nchw", PLANE, OF(F32, F32), .operation = BACKWARD_DATA},
    {.name = "wgrad-f32-nchw", PLANE, OF(F32, F32), .operation = BACKWARD_FILTER},
    {.name = "fwd-f32-nhwc", PLANE, OF(F32, F32), .layout = NHWC},
    {.name = "dgrad-f32-nhwc", PLANE, OF(F32, F32), .layout = NHWC, .operation = BACKWARD_DATA},
    {.name = "wgrad-f32-nhwc", PLANE, OF(F32, F32), .layout = NHWC, .operation = BACKWARD_FILTER},
    {.name = "fwd-f16-nchw", PLANE, OF(F16, F32)},
    {.name = "dgrad-f16-nchw", PLANE, OF(F16, F32), .operation = BACKWARD_DATA},
    {.name = "wgrad-f16-nchw", PLANE, OF(F16, F32), .operation = BACKWARD_FILTER},
    {.name = "fwd-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC},
    {.name = "dgrad-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .operation = BACKWARD_DATA},
    {.name = "wgrad-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .operation = BACKWARD_FILTER},
    {.name = "fwd-bf16-nchw", PLANE, OF(BF16, F32)},
    {.name = "fwd-bf16-nhwc", PLANE, OF(BF16, F32), .layout = NHWC},
    {.name = "dgrad-bf16-nhwc", PLANE, OF(BF16, F32), .layout = NHWC, .operation = BACKWARD_DATA},
    {.name = "wgrad-bf16-nhwc", PLANE, OF(BF16, F32), .layout = NHWC, .operation = BACKWARD_FILTER},
    {.name = "fwd-f64-nchw", PLANE, OF(F64, F64)},
    {.name = "dgrad-f64-nchw", PLANE, OF(F64, F64), .operation = BACKWARD_DATA},
    {.name = "wgrad-f64-nchw", PLANE, OF(F64, F64), .operation = BACKWARD_FILTER},
    {.name = "fwd-f16-own-compute", PLANE, OF(F16, F16), .layout = NHWC},
    {.name = "fwd-f32-beta1", PLANE, OF(F32, F32), .beta = 1},
    {.name = "dgrad-f32-beta1", PLANE, OF(F32, F32), .beta = 1, .operation = BACKWARD_DATA},
    {.name = "wgrad-f32-beta1", PLANE, OF(F32, F32), .beta = 1, .operation = BACKWARD_FILTER},
    {.name = "wgrad-f16-beta1",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .beta = 1,
     .operation = BACKWARD_FILTER},
    {.name = "wgrad-f16-out-f32",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .operation = BACKWARD_FILTER,
     .out = F32},
    {.name = "wgrad-bf16-beta1",
     PLANE,
     OF(BF16, F32),
     .layout = NHWC,
     .beta = 1,
     .operation = BACKWARD_FILTER},
    {.name = "fwd-f32-alpha-beta", PLANE, OF(F32, F32), .alpha = 1.5, .beta = -0.25},
    {.name = "wgrad-f64-beta",
     PLANE,
     OF(F64, F64),
     .alpha = 2,
     .beta = 0.5,
     .operation = BACKWARD_FILTER},
    {.name = "fwd-f32-convolution-mode", PLANE, OF(F32, F32), .mode = CUDNN_CONVOLUTION},
    {.name = "fwd-f16-convolution-mode",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .mode = CUDNN_CONVOLUTION},
    {.name = "wgrad-f32-convolution-mode",
     PLANE,
     OF(F32, F32),
     .mode = CUDNN_CONVOLUTION,
     .operation = BACKWARD_FILTER},
    {.name = "fwd-f32-groups", PLANE, OF(F32, F32), .groups = 4},
    {.name = "dgrad-f32-groups", PLANE, OF(F32, F32), .groups = 4, .operation = BACKWARD_DATA},
    {.name = "wgrad-f32-groups", PLANE, OF(F32, F32), .groups = 4, .operation = BACKWARD_FILTER},
    {.name = "fwd-f32-depthwise", PLANE, OF(F32, F32), .groups = 64},
    {.name = "fwd-bf16-nhwc-groups", PLANE, OF(BF16, F32), .layout = NHWC, .groups = 4},
    {.name = "fwd-bf16-nhwc-depthwise", PLANE, OF(BF16, F32), .layout = NHWC, .groups = 64},
    {.name = "wgrad-bf16-nhwc-depthwise",
     PLANE,
     OF(BF16, F32),
     .layout = NHWC,
     .groups = 64,
     .operation = BACKWARD_FILTER},
    {.name = "fwd-f32-dilated",
     PLANE,
     OF(F32, F32),
     .pre = {2, 2},
     .post = {2, 2},
     .dilation = {2, 2}},
    {.name = "dgrad-f32-dilated",
     PLANE,
     OF(F32, F32),
     .pre = {2, 2},
     .post = {2, 2},
     .dilation = {2, 2},
     .operation = BACKWARD_DATA},
    {.name = "fwd-f32-strided", PLANE, OF(F32, F32), .stride = {2, 2}},
    {.name = "dgrad-f32-strided",
     PLANE,
     OF(F32, F32),
     .stride = {2, 2},
     .operation = BACKWARD_DATA},
    {.name = "fwd-f32-asymmetric", PLANE, OF(F32, F32), .pre = {0, 1}, .post = {1, 2}},
    {.name = "dgrad-f32-asymmetric",
     PLANE,
     OF(F32, F32),
     .pre = {0, 1},
     .post = {1, 2},
     .operation = BACKWARD_DATA},
    {.name = "wgrad-f32-asymmetric",
     PLANE,
     OF(F32, F32),
     .pre = {0, 1},
     .post = {1, 2},
     .operation = BACKWARD_FILTER},
    {.name = "fwd-f16-asymmetric",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .pre = {0, 1},
     .post = {1, 2}},
    {.name = "fwd-f32-gaps", PLANE, OF(F32, F32), .layout = GAPS},
    {.name = "fwd-f32-chwn", PLANE, OF(F32, F32), .layout = CHWN},
    {.name = "fwd-f32-1x1", PLANE, OF(F32, F32), .filter = {1, 1}, .pre = {0, 0}, .post = {0, 0}},
    {.name = "fwd-f32-5x5", PLANE, OF(F32, F32), .filter = {5, 5}, .pre = {2, 2}, .post = {2, 2}},
    {.name = "fwd-f32-1d", PLANE, OF(F32, F32), .spatial = 1},
    {.name = "fwd-f32-1d-as-2d",
     PLANE,
     OF(F32, F32),
     .in = {1, 56},
     .filter = {1, 3},
     .pre = {0, 1},
     .post = {0, 1}},
    {.name = "fwd-f32-3d",
     PLANE,
     OF(F32, F32),
     .spatial = 3,
     .c = 16,
     .k = 32,
     .in = {8, 14, 14},
     .filter = {3, 3, 3},
     .pre = {1, 1, 1},
     .post = {1, 1, 1},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1}},
    {.name = "dgrad-f32-3d",
     PLANE,
     OF(F32, F32),
     .spatial = 3,
     .c = 16,
     .k = 32,
     .in = {8, 14, 14},
     .filter = {3, 3, 3},
     .pre = {1, 1, 1},
     .post = {1, 1, 1},
     .stride = {1, 2, 1},
     .dilation = {1, 1, 1},
     .operation = BACKWARD_DATA},
    {.name = "wgrad-f16-3d",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .spatial = 3,
     .c = 16,
     .k = 32,
     .in = {8, 14, 14},
     .filter = {3, 3, 3},
     .pre = {1, 1, 1},
     .post = {1, 1, 1},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1},
     .operation = BACKWARD_FILTER},
    {.name = "fwd-f16-out-f32", PLANE, OF(F16, F32), .layout = NHWC, .out = F32},
    {.name = "bias-f32", PLANE, OF(F32, F32), .epilogue = BIAS},
    {.name = "bias-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = BIAS},
    {.name = "bias-bf16-nhwc", PLANE, OF(BF16, F32), .layout = NHWC, .epilogue = BIAS},
    {.name = "bias-relu-f32", PLANE, OF(F32, F32), .epilogue = BIAS | RELU},
    {.name = "bias-relu-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = BIAS | RELU},
    {.name = "bias-relu-bf16-nhwc", PLANE, OF(BF16, F32), .layout = NHWC, .epilogue = BIAS | RELU},
    {.name = "add-bias-relu-f32",
     PLANE,
     OF(F32, F32),
     .epilogue = ADD | BIAS | RELU,
     .alpha2 = 0.5},
    {.name = "add-bias-relu-f32-nhwc",
     PLANE,
     OF(F32, F32),
     .layout = NHWC,
     .epilogue = ADD | BIAS | RELU,
     .alpha2 = 0.5},
    {.name = "add-bias-relu-f16-nhwc",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .epilogue = ADD | BIAS | RELU,
     .alpha2 = 0.5},
    {.name = "add-bias-relu-bf16-nhwc",
     PLANE,
     OF(BF16, F32),
     .layout = NHWC,
     .epilogue = ADD | BIAS | RELU},
    {.name = "add-bias-relu-f64", PLANE, OF(F64, F64), .epilogue = ADD | BIAS | RELU},
    {.name = "add-bias-relu-f32-groups",
     PLANE,
     OF(F32, F32),
     .groups = 4,
     .epilogue = ADD | BIAS | RELU},
    {.name = "add-bias-f32", PLANE, OF(F32, F32), .epilogue = ADD | BIAS},
    {.name = "add-f32", PLANE, OF(F32, F32), .epilogue = ADD},
    {.name = "add-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = ADD},
    {.name = "add-relu-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = ADD | RELU},
    {.name = "bias-first-add-relu-f16-nhwc",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .epilogue = ADD | BIAS | RELU | BIAS_FIRST},
    {.name = "bias-first-add-relu-f32",
     PLANE,
     OF(F32, F32),
     .epilogue = ADD | BIAS | RELU | BIAS_FIRST},
    {.name = "relu-f32", PLANE, OF(F32, F32), .epilogue = RELU},
    {.name = "relu-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = RELU},
    {.name = "relu6-f16-nhwc",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .epilogue = BIAS | RELU | RELU6},
    {.name = "sigmoid-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = BIAS | SIGMOID},
    {.name = "swish-bf16-nhwc", PLANE, OF(BF16, F32), .layout = NHWC, .epilogue = BIAS | SWISH},
    {.name = "bias-relu-f16-half-virtual",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .epilogue = BIAS | RELU | HALF_VIRTUAL},
    {.name = "bias-relu-f16-3d",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .spatial = 3,
     .c = 16,
     .k = 32,
     .in = {8, 14, 14},
     .filter = {3, 3, 3},
     .pre = {1, 1, 1},
     .post = {1, 1, 1},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1},
     .epilogue = BIAS | RELU},
    {.name = "exp-f32", PLANE, OF(F32, F32), .epilogue = EXP},
    {.name = "exp-f16-nhwc", PLANE, OF(F16, F32), .layout = NHWC, .epilogue = EXP},
    {.name = "dgrad-relu-f16-nhwc",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .operation = BACKWARD_DATA,
     .epilogue = RELU},
    {.name = "two-convolutions-f16-nhwc",
     PLANE,
     OF(F16, F32),
     .layout = NHWC,
     .epilogue = SECOND_CONVOLUTION},
};
#pragma GCC diagnostic pop

/* Descriptors of one graph, destroyed together. */
static cudnnBackendDescriptor_t owned[64];
static int owned_count;
static const char *current;
static bool json_written; /* of this graph */

static const char *name_of(cudnnStatus_t status)
{
    return cudnnGetErrorString(status) + strlen("CUDNN_STATUS_");
}

static cudnnStatus_t report(cudnnStatus_t status, const char *what)
{
    if (status != CUDNN_STATUS_SUCCESS) {
        char text[512];
        cudnnGetLastErrorString(text, sizeof text);
        for (char *at = text; *at; at++)
            *at = *at == '\n' ? ' ' : *at;
        printf("%s\t%s\t%s\t%.200s\n", current, what, name_of(status), text);
    }
    return status;
}

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    report(cudnnBackendCreateDescriptor(type, &made), "create");
    if (owned_count < (int)(sizeof owned / sizeof *owned))
        owned[owned_count++] = made;
    return made;
}

static void drop_all(void)
{
    while (owned_count > 0)
        cudnnBackendDestroyDescriptor(owned[--owned_count]);
}

static bool set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    char what[40];
    snprintf(what, sizeof what, "set %d", (int)name);
    return report(cudnnBackendSetAttribute(to, name, type, count, values), what) ==
           CUDNN_STATUS_SUCCESS;
}

static bool set_descriptor(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    return set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void strides_of(int count, const int64_t *dims, layout_t layout, int64_t *strides)
{
    int64_t step = layout == GAPS ? 2 : 1;
    if (layout == NHWC) {
        strides[1] = 1;
        step = dims[1];
        for (int i = count - 1; i >= 2; i--, step *= dims[i + 1])
            strides[i] = step;
        strides[0] = step;
    } else if (layout == CHWN) {
        strides[0] = 1;
        step = dims[0];
        for (int i = count - 1; i >= 1; step *= dims[i], i--)
            strides[i] = step;
    } else
        for (int i = count - 1; i >= 0; step *= dims[i], i--)
            strides[i] = step;
}

static cudnnBackendDescriptor_t tensor(int64_t uid, cudnnDataType_t type, int count,
                                       const int64_t *dims, layout_t layout, bool is_virtual)
{
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t strides[DIMS_MAX], alignment = 32;
    strides_of(count, dims, layout, strides);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, count, dims);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, count, strides);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual)
        set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    report(cudnnBackendFinalize(made), "finalize tensor");
    return made;
}

static cudnnBackendDescriptor_t convolution(const graph_t *graph)
{
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const int64_t spatial = graph->spatial;
    set(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &graph->compute);
    set(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &graph->mode);
    set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, graph->pre);
    set(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, graph->post);
    set(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, graph->dilation);
    set(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, graph->stride);
    report(cudnnBackendFinalize(made), "finalize convolution");
    return made;
}

static cudnnBackendDescriptor_t convolve(const graph_t *graph, cudnnBackendDescriptor_t x,
                                         cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y)
{
    static const cudnnBackendDescriptorType_t types[] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
    static const int names[][6] = {{705, 703, 704, 702, 700, 701},
                                   {711, 709, 710, 708, 706, 707},
                                   {717, 715, 716, 714, 712, 713}};
    const int *const name = names[graph->operation];
    cudnnBackendDescriptor_t made = make(types[graph->operation]);
    set_descriptor(made, (cudnnBackendAttributeName_t)name[0], y);
    set_descriptor(made, (cudnnBackendAttributeName_t)name[1], w);
    set_descriptor(made, (cudnnBackendAttributeName_t)name[2], x);
    set_descriptor(made, (cudnnBackendAttributeName_t)name[3], convolution(graph));
    const float alpha = (float)graph->alpha, beta = (float)graph->beta;
    const bool wide = graph->type == F64;
    set(made, (cudnnBackendAttributeName_t)name[4], wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1,
        wide ? (const void *)&graph->alpha : &alpha);
    set(made, (cudnnBackendAttributeName_t)name[5], wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1,
        wide ? (const void *)&graph->beta : &beta);
    report(cudnnBackendFinalize(made), "finalize operation");
    return made;
}

static cudnnBackendDescriptor_t pointwise(const graph_t *graph, cudnnPointwiseMode_t mode,
                                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                          double alpha2, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t what = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const cudnnDataType_t precision = graph->type == F64 ? F64 : F32;
    set(what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    const double ceiling = 6.0;
    if (graph->epilogue & RELU6 && mode == CUDNN_POINTWISE_RELU_FWD)
        set(what, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &ceiling);
    report(cudnnBackendFinalize(what), "finalize pointwise");
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    set_descriptor(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_descriptor(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_descriptor(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    const float alphas[2] = {1.0f, (float)alpha2};
    set(made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &alphas[0]);
    if (b)
        set(made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &alphas[1]);
    report(cudnnBackendFinalize(made), "finalize pointwise operation");
    return made;
}

typedef struct steps {
    enum epilogue kind;
    cudnnPointwiseMode_t mode;
    int64_t uid; /* of the second input, 0: none */
    int64_t out; /* uid of the output while it is virtual */
} step_t;

/* The operations after the convolution, in order; PyTorch's uids. */
static int steps_of(unsigned epilogue, step_t steps[4])
{
    const step_t add = {ADD, CUDNN_POINTWISE_ADD, 'z', 'A'},
                 bias = {BIAS, CUDNN_POINTWISE_ADD, 'b', 'B'};
    int count = 0;
    if (epilogue & BIAS && epilogue & BIAS_FIRST)
        steps[count++] = bias;
    if (epilogue & ADD)
        steps[count++] = add;
    if (epilogue & BIAS && !(epilogue & BIAS_FIRST))
        steps[count++] = bias;
    if (epilogue & RELU)
        steps[count++] = (step_t){RELU, CUDNN_POINTWISE_RELU_FWD, 0, 'D'};
    if (epilogue & EXP)
        steps[count++] = (step_t){EXP, CUDNN_POINTWISE_EXP, 0, 'D'};
    if (epilogue & SIGMOID)
        steps[count++] = (step_t){SIGMOID, CUDNN_POINTWISE_SIGMOID_FWD, 0, 'D'};
    if (epilogue & SWISH)
        steps[count++] = (step_t){SWISH, CUDNN_POINTWISE_SWISH_FWD, 0, 'D'};
    return count;
}

static void shapes(const graph_t *graph, int64_t x[DIMS_MAX], int64_t w[DIMS_MAX],
                   int64_t y[DIMS_MAX])
{
    x[0] = y[0] = graph->n;
    x[1] = graph->c;
    w[0] = y[1] = graph->k;
    w[1] = graph->c / graph->groups;
    for (int i = 0; i < graph->spatial; i++) {
        x[2 + i] = graph->in[i];
        w[2 + i] = graph->filter[i];
        const int64_t reach = (graph->filter[i] - 1) * graph->dilation[i] + 1;
        y[2 + i] = 1 + (graph->in[i] + graph->pre[i] + graph->post[i] - reach) / graph->stride[i];
    }
}

/* The finalized operation graph of `graph`, or NULL. */
static cudnnBackendDescriptor_t build(const graph_t *graph)
{
    int64_t dims[3][DIMS_MAX], bias_dims[DIMS_MAX] = {1, graph->k, 1, 1, 1};
    shapes(graph, dims[0], dims[1], dims[2]);
    const int count = graph->spatial + 2;
    step_t steps[4];
    const int step_count = steps_of(graph->epilogue, steps);
    const bool chain = step_count || graph->epilogue & SECOND_CONVOLUTION;
    const int out = graph->operation == FORWARD ? 2 : graph->operation == BACKWARD_DATA ? 0 : 1;
    static const int64_t uids[] = {'x', 'w', 'y'};
    const cudnnDataType_t middle = graph->epilogue & HALF_VIRTUAL ? F16
                                   : graph->type == F64           ? F64
                                                                  : F32;
    cudnnBackendDescriptor_t tensors[3], operations[6];
    for (int i = 0; i < 3; i++)
        tensors[i] = tensor(i == out && chain ? 'C' : uids[i],
                            i == out ? (chain ? middle : graph->out) : graph->type, count, dims[i],
                            graph->layout, i == out && chain);
    int made = 0;
    operations[made++] = convolve(graph, tensors[0], tensors[1], tensors[2]);
    cudnnBackendDescriptor_t last = tensors[out];
    for (int i = 0; i < step_count; i++) {
        const bool final = i == step_count - 1;
        cudnnBackendDescriptor_t b = NULL;
        if (steps[i].uid)
            b = tensor(steps[i].uid, graph->type, count,
                       steps[i].kind == BIAS ? bias_dims : dims[out],
                       graph->layout == GAPS ? NCHW : graph->layout, false);
        cudnnBackendDescriptor_t to =
            tensor(final ? uids[out] : steps[i].out, final ? graph->out : middle, count, dims[out],
                   graph->layout, !final);
        operations[made++] = pointwise(graph, steps[i].mode, last, b,
                                       steps[i].kind == ADD ? graph->alpha2 : 1.0, to);
        last = to;
    }
    if (graph->epilogue & SECOND_CONVOLUTION)
        operations[made++] =
            convolve(graph, last, tensor('v', graph->type, count, dims[1], graph->layout, false),
                     tensor('y', graph->out, count, dims[2], graph->layout, false));
    cudnnBackendDescriptor_t whole = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, operations);
    if (report(cudnnBackendFinalize(whole), "finalize graph") != CUDNN_STATUS_SUCCESS)
        return NULL;
    int64_t engines = 0, returned;
    report(cudnnBackendGetAttribute(whole, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT,
                                    CUDNN_TYPE_INT64, 1, &returned, &engines),
           "engine count");
    printf("%s\tgraph\tengines=%d\n", current, (int)engines);
    return whole;
}

static void write_json(const char *folder, const char *json)
{
    char path[512];
    if (!folder || json_written)
        return;
    json_written = true;
    snprintf(path, sizeof path, "%s/%s.json", folder, current);
    FILE *const file = fopen(path, "w");
    if (!file || fputs(json, file) < 0 || fputc('\n', file) < 0 || fclose(file)) {
        perror(path);
        exit(1);
    }
}

static const char *json_of(cudnnBackendDescriptor_t plan)
{
    static char json[JSON_MAX];
    int64_t count = 0;
    if (report(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                        CUDNN_TYPE_CHAR, JSON_MAX - 1, &count, json),
               "get JSON"))
        return NULL;
    json[count] = '\0';
    return json;
}

/* "index ws=plan/config notes=a,b behaviour=c knobs=type:value" of one configuration. */
static void describe(cudnnBackendDescriptor_t config, const char *mode, int rank,
                     const char *folder)
{
    int64_t count = 0, config_bytes = -1, plan_bytes = -1, index = -1;
    cudnnBackendDescriptor_t engine, plan;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    report(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine),
           "get engine");
    report(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                    &count, &index),
           "get index");
    cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                             &count, &config_bytes);
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    const cudnnStatus_t finalized = cudnnBackendFinalize(plan);
    if (finalized == CUDNN_STATUS_SUCCESS)
        report(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        CUDNN_TYPE_INT64, 1, &count, &plan_bytes),
               "get workspace");
    printf("%s\t%s\t%d\tengine=%d\tworkspace=%lld\tconfig=%lld\t%s\tnotes=", current, mode, rank,
           (int)index, (long long)plan_bytes, (long long)config_bytes, name_of(finalized));
    int notes[16];
    if (!cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                  CUDNN_TYPE_NUMERICAL_NOTE, 16, &count, notes))
        for (int i = 0; i < count; i++)
            printf("%d,", notes[i]);
    printf("\tbehaviour=");
    if (!cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                  16, &count, notes))
        for (int i = 0; i < count; i++)
            printf("%d,", notes[i]);
    const char *const json = finalized == CUDNN_STATUS_SUCCESS ? json_of(plan) : NULL;
    const char *const knobs = json ? strstr(json, "\"engine\"") : NULL;
    printf("\t%.160s\n", knobs ? knobs : "");
    if (json)
        write_json(folder, json);
    cudnnBackendDestroyDescriptor(plan);
    cudnnBackendDestroyDescriptor(engine);
}

static void list(cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t properties,
                 cudnnBackendHeurMode_t mode, const char *name, const char *folder)
{
    cudnnBackendDescriptor_t heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
                             configs[ENGINES_MAX];
    set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (properties)
        set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
    if (report(cudnnBackendFinalize(heuristics), name) != CUDNN_STATUS_SUCCESS)
        return;
    int64_t bound = 0, count = 0;
    report(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &bound, NULL),
           "results bound");
    for (int i = 0; i < ENGINES_MAX; i++)
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    report(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    bound < ENGINES_MAX ? bound : ENGINES_MAX, &count, configs),
           "results");
    printf("%s\t%s\tbound=%d\tcount=%d\n", current, name, (int)bound, (int)count);
    for (int i = 0; i < count; i++)
        describe(configs[i], name, i, folder);
    for (int i = 0; i < ENGINES_MAX; i++)
        cudnnBackendDestroyDescriptor(configs[i]);
}

static cudnnBackendDescriptor_t device_properties(const char *path)
{
    static char json[1 << 16];
    FILE *const file = fopen(path, "r");
    const size_t bytes = file ? fread(json, 1, sizeof json - 1, file) : 0;
    if (!bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    cudnnBackendDescriptor_t made;
    current = "device";
    if (report(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made), "create"))
        exit(1);
    set(made, (cudnnBackendAttributeName_t)CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
        CUDNN_TYPE_CHAR, (int64_t)bytes + 1, json);
    report(cudnnBackendFinalize(made), "finalize");
    return made;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "--version"))
        return printf("%zu\n", cudnnGetVersion()) < 0;
    const char *const folder = argc > 2 ? argv[2] : NULL, *const only = argc > 3 ? argv[3] : NULL;
    cudnnBackendDescriptor_t properties = device_properties(argv[1]);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        current = graphs[i].name;
        if (only && strcmp(only, current) != 0)
            continue;
        json_written = false;
        cudnnBackendDescriptor_t graph = build(&graphs[i]);
        if (graph) {
            list(graph, properties, CUDNN_HEUR_MODE_INSTANT, "instant", folder);
            list(graph, properties, CUDNN_HEUR_MODE_B, "b", folder);
            list(graph, properties, CUDNN_HEUR_MODE_FALLBACK, "fallback", folder);
        }
        drop_all();
        fflush(stdout);
    }
    cudnnBackendDestroyDescriptor(properties);
    return 0;
}
