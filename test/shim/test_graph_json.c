/* Plans of the real cuDNN (test/data/plan-json) as problems, and what becomes of plans that are not
 * as those. Run in the repository's root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <float.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cudnn.h>

#include "shim/graph/graph_json.h"
#include "shim/graph/json.h"
#include "test/unit/cases.h"

#define FOLDER "test/data/plan-json/"

/* What test/tools/plan_graphs.c asked cuDNN to plan, written down once more. */
typedef enum layout { NCHW, NHWC } layout_t;
enum { RELU = 1, SIGMOID = 2, BIAS = 4, ADD = 8 };
enum { X_UID = 120, W_UID = 119, Y_UID = 121, Z_UID = 122, BIAS_UID = 98 };
typedef struct sample {
    const char *name;
    mdnn_direction_t direction;
    cudnnDataType_t type, compute;
    layout_t layout;
    int spatial, n, c, k, groups;
    int in[3], filter[3], pad[3], pad_after[3], stride[3], dilation[3];
    cudnnConvolutionMode_t mode;
    double alpha, beta, residual_scale, upper_clip;
    unsigned epilogue;
    mdnn_graph_kind_t kind;
} sample_t;

#define F32 CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT
#define F16 CUDNN_DATA_HALF, CUDNN_DATA_FLOAT
#define F16_IN_F16 CUDNN_DATA_HALF, CUDNN_DATA_HALF
#define BF16 CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT
#define F64 CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE
#define FWD MDNN_FORWARD
#define DGRAD MDNN_BACKWARD_DATA
#define WGRAD MDNN_BACKWARD_FILTER
#define CHAIN MDNN_BIAS_ACTIVATION_FORWARD
#define REST                                                                                       \
    .pad = {1, 1}, .pad_after = {1, 1}, .stride = {1, 1}, .dilation = {1, 1},                      \
    .mode = CUDNN_CROSS_CORRELATION, .alpha = 1, .residual_scale = 1, .upper_clip = DBL_MAX
#define PLANE 2, 8, 64, 64, 1, {56, 56}, {3, 3}, REST
#define GROUPS(groups) 2, 8, 64, 64, groups, {56, 56}, {3, 3}, REST
#define VOLUME                                                                                     \
    3, 8, 16, 32, 1, {8, 14, 14}, {3, 3, 3}, REST, .pad = {1, 1, 1}, .pad_after = {1, 1, 1},       \
                                                   .stride = {1, 1, 1}, .dilation = {1, 1, 1}
#define LOPSIDED .pad = {0, 1}, .pad_after = {1, 2}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* a case overrides what its macro says */
static const sample_t samples[] = {
    {"add-bias-f32", CHAIN, F32, NCHW, PLANE, .epilogue = ADD | BIAS},
    {"add-bias-relu-bf16-nhwc", CHAIN, BF16, NHWC, PLANE, .epilogue = ADD | BIAS | RELU},
    {"add-bias-relu-f16-nhwc", CHAIN, F16, NHWC, PLANE, .epilogue = ADD | BIAS | RELU,
     .residual_scale = 0.5},
    {"add-bias-relu-f32-groups", CHAIN, F32, NCHW, GROUPS(4), .epilogue = ADD | BIAS | RELU},
    {"add-bias-relu-f32-nhwc", CHAIN, F32, NHWC, PLANE, .epilogue = ADD | BIAS | RELU,
     .residual_scale = 0.5},
    {"add-bias-relu-f32", CHAIN, F32, NCHW, PLANE, .epilogue = ADD | BIAS | RELU,
     .residual_scale = 0.5},
    {"add-bias-relu-f64", CHAIN, F64, NCHW, PLANE, .epilogue = ADD | BIAS | RELU},
    {"bias-bf16-nhwc", CHAIN, BF16, NHWC, PLANE, .epilogue = BIAS},
    {"bias-f16-nhwc", CHAIN, F16, NHWC, PLANE, .epilogue = BIAS},
    {"bias-f32", CHAIN, F32, NCHW, PLANE, .epilogue = BIAS},
    {"bias-relu-bf16-nhwc", CHAIN, BF16, NHWC, PLANE, .epilogue = BIAS | RELU},
    {"bias-relu-f16-3d", CHAIN, F16, NHWC, VOLUME, .epilogue = BIAS | RELU},
    {"bias-relu-f16-nhwc", CHAIN, F16, NHWC, PLANE, .epilogue = BIAS | RELU},
    {"bias-relu-f32", CHAIN, F32, NCHW, PLANE, .epilogue = BIAS | RELU},
    {"dgrad-bf16-nhwc", DGRAD, BF16, NHWC, PLANE},
    {"dgrad-f16-nchw", DGRAD, F16, NCHW, PLANE},
    {"dgrad-f16-nhwc", DGRAD, F16, NHWC, PLANE},
    {"dgrad-f32-3d", DGRAD, F32, NCHW, VOLUME, .stride = {1, 2, 1}},
    {"dgrad-f32-asymmetric", DGRAD, F32, NCHW, PLANE, LOPSIDED},
    {"dgrad-f32-beta1", DGRAD, F32, NCHW, PLANE, .beta = 1},
    {"dgrad-f32-dilated", DGRAD, F32, NCHW, PLANE, .pad = {2, 2}, .pad_after = {2, 2},
     .dilation = {2, 2}},
    {"dgrad-f32-groups", DGRAD, F32, NCHW, GROUPS(4)},
    {"dgrad-f32-nchw", DGRAD, F32, NCHW, PLANE},
    {"dgrad-f32-nhwc", DGRAD, F32, NHWC, PLANE},
    {"dgrad-f32-strided", DGRAD, F32, NCHW, PLANE, .stride = {2, 2}},
    {"dgrad-f64-nchw", DGRAD, F64, NCHW, PLANE},
    {"fwd-bf16-nchw", FWD, BF16, NCHW, PLANE},
    {"fwd-bf16-nhwc-depthwise", FWD, BF16, NHWC, GROUPS(64)},
    {"fwd-bf16-nhwc-groups", FWD, BF16, NHWC, GROUPS(4)},
    {"fwd-bf16-nhwc", FWD, BF16, NHWC, PLANE},
    {"fwd-f16-asymmetric", FWD, F16, NHWC, PLANE, LOPSIDED},
    {"fwd-f16-convolution-mode", FWD, F16, NHWC, PLANE, .mode = CUDNN_CONVOLUTION},
    {"fwd-f16-nchw", FWD, F16, NCHW, PLANE},
    {"fwd-f16-nhwc", FWD, F16, NHWC, PLANE},
    {"fwd-f16-own-compute", FWD, F16_IN_F16, NHWC, PLANE},
    {"fwd-f32-1d-as-2d",
     FWD,
     F32,
     NCHW,
     2,
     8,
     64,
     64,
     1,
     {1, 56},
     {1, 3},
     REST,
     .pad = {0, 1},
     .pad_after = {0, 1}},
    {"fwd-f32-1d",
     FWD,
     F32,
     NCHW,
     1,
     8,
     64,
     64,
     1,
     {56},
     {3},
     REST,
     .pad = {1},
     .pad_after = {1},
     .stride = {1},
     .dilation = {1}},
    {"fwd-f32-1x1",
     FWD,
     F32,
     NCHW,
     2,
     8,
     64,
     64,
     1,
     {56, 56},
     {1, 1},
     REST,
     .pad = {0},
     .pad_after = {0}},
    {"fwd-f32-3d", FWD, F32, NCHW, VOLUME},
    {"fwd-f32-5x5",
     FWD,
     F32,
     NCHW,
     2,
     8,
     64,
     64,
     1,
     {56, 56},
     {5, 5},
     REST,
     .pad = {2, 2},
     .pad_after = {2, 2}},
    {"fwd-f32-alpha-beta", FWD, F32, NCHW, PLANE, .alpha = 1.5, .beta = -0.25},
    {"fwd-f32-asymmetric", FWD, F32, NCHW, PLANE, LOPSIDED},
    {"fwd-f32-beta1", FWD, F32, NCHW, PLANE, .beta = 1},
    {"fwd-f32-chwn", .kind = MDNN_GRAPH_LAYOUT},
    {"fwd-f32-convolution-mode", FWD, F32, NCHW, PLANE, .mode = CUDNN_CONVOLUTION},
    {"fwd-f32-depthwise", FWD, F32, NCHW, GROUPS(64)},
    {"fwd-f32-dilated", FWD, F32, NCHW, PLANE, .pad = {2, 2}, .pad_after = {2, 2},
     .dilation = {2, 2}},
    {"fwd-f32-groups", FWD, F32, NCHW, GROUPS(4)},
    {"fwd-f32-nchw", FWD, F32, NCHW, PLANE},
    {"fwd-f32-nhwc", FWD, F32, NHWC, PLANE},
    {"fwd-f32-strided", FWD, F32, NCHW, PLANE, .stride = {2, 2}},
    {"fwd-f64-nchw", FWD, F64, NCHW, PLANE},
    {"relu6-f16-nhwc", CHAIN, F16, NHWC, PLANE, .epilogue = BIAS | RELU, .upper_clip = 6},
    {"sigmoid-f16-nhwc", CHAIN, F16, NHWC, PLANE, .epilogue = BIAS | SIGMOID},
    {"wgrad-bf16-beta1", WGRAD, BF16, NHWC, PLANE, .beta = 1},
    {"wgrad-bf16-nhwc-depthwise", WGRAD, BF16, NHWC, GROUPS(64)},
    {"wgrad-bf16-nhwc", WGRAD, BF16, NHWC, PLANE},
    {"wgrad-f16-3d", WGRAD, F16, NHWC, VOLUME},
    {"wgrad-f16-beta1", WGRAD, F16, NHWC, PLANE, .beta = 1},
    {"wgrad-f16-nchw", WGRAD, F16, NCHW, PLANE},
    {"wgrad-f16-nhwc", WGRAD, F16, NHWC, PLANE},
    {"wgrad-f32-asymmetric", WGRAD, F32, NCHW, PLANE, LOPSIDED},
    {"wgrad-f32-beta1", WGRAD, F32, NCHW, PLANE, .beta = 1},
    {"wgrad-f32-convolution-mode", WGRAD, F32, NCHW, PLANE, .mode = CUDNN_CONVOLUTION},
    {"wgrad-f32-groups", WGRAD, F32, NCHW, GROUPS(4)},
    {"wgrad-f32-nchw", WGRAD, F32, NCHW, PLANE},
    {"wgrad-f32-nhwc", WGRAD, F32, NHWC, PLANE},
    {"wgrad-f64-beta", WGRAD, F64, NCHW, PLANE, .alpha = 2, .beta = 0.5},
    {"wgrad-f64-nchw", WGRAD, F64, NCHW, PLANE},
};
#pragma GCC diagnostic pop
enum { SAMPLES = sizeof samples / sizeof *samples };

/* A file of the folder, or a copy with the first `from` replaced by `to`; allocated to the byte, so
 * that a sanitizer sees one byte too far. */
typedef struct plan {
    char *text;
    size_t bytes;
} plan_t;

static plan_t plan_of(const char *name)
{
    char path[128], text[8192];
    plan_t plan;
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    plan.bytes = fread(text, 1, sizeof text, file);
    assert_in_range(plan.bytes, 1, sizeof text - 1);
    fclose(file);
    plan.text = malloc(plan.bytes);
    assert_non_null(plan.text);
    memcpy(plan.text, text, plan.bytes);
    return plan;
}

static void replace(plan_t *plan, const char *from, const char *to)
{
    const char *const at = memmem(plan->text, plan->bytes, from, strlen(from));
    if (!at)
        fail_msg("no %s in the plan", from);
    const size_t before = (size_t)(at - plan->text), after = plan->bytes - before - strlen(from);
    plan_t made = {malloc(before + strlen(to) + after), before + strlen(to) + after};
    assert_non_null(made.text);
    memcpy(made.text, plan->text, before);
    memcpy(made.text + before, to, strlen(to));
    memcpy(made.text + before + strlen(to), at + strlen(from), after);
    free(plan->text);
    *plan = made;
}

static mdnn_graph_kind_t read_into(const plan_t *plan, mdnn_graph_t *graph)
{
    mdnn_graph_t before;
    mdnn_graph_kind_t kind = MDNN_GRAPH_KIND_COUNT;
    memset(graph, 0x5a, sizeof *graph);
    before = *graph;
    const mdnn_status_t status = mdnn_graph_read(plan->text, plan->bytes, graph, &kind);
    if (status == MDNN_STATUS_OK)
        assert_int_equal(kind, MDNN_GRAPH_RECOGNISED);
    else {
        assert_memory_equal(graph, &before, sizeof before);
        assert_int_not_equal(kind, MDNN_GRAPH_RECOGNISED);
        if (status != MDNN_STATUS_UNSUPPORTED) {
            assert_int_equal(status, MDNN_STATUS_BAD_FORMAT);
            assert_int_equal(kind, MDNN_GRAPH_UNKNOWN);
            return MDNN_GRAPH_KIND_COUNT; /* so that a test sees the difference */
        }
    }
    return kind;
}
#define UNREADABLE MDNN_GRAPH_KIND_COUNT

/* Packed; as the tool wrote the strides. */
static void set_tensor(mdnn_problem_tensor_t *tensor, cudnnDataType_t type, layout_t layout,
                       int outer, int channels, const int *plane, int spatial)
{
    int32_t step = layout == NHWC ? channels : 1;
    tensor->type = type;
    tensor->dim_count = spatial + 2;
    tensor->dims[0] = outer;
    tensor->dims[1] = channels;
    tensor->alignment_bytes = 32;
    for (int i = spatial - 1; i >= 0; i--) {
        tensor->dims[2 + i] = plane[i];
        tensor->strides[2 + i] = step;
        step *= plane[i];
    }
    tensor->strides[1] = layout == NHWC ? 1 : step;
    tensor->strides[0] = layout == NHWC ? step : step * channels;
}

static int64_t bits_of(double number)
{
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void add_step(mdnn_problem_t *problem, int mode, int operand, const sample_t *sample)
{
    mdnn_problem_pointwise_t *const step = &problem->pointwise[problem->pointwise_count++];
    step->mode = mode;
    step->operand = operand;
    step->input_type = step->compute_type = (int32_t)sample->compute;
    step->alpha1_bits = step->alpha2_bits = bits_of(1);
    if (operand == MDNN_OPERAND_Z)
        step->alpha2_bits = bits_of(sample->residual_scale);
    if (mode == CUDNN_POINTWISE_RELU_FWD)
        step->parameter_bits[1] = bits_of(sample->upper_clip);
}

static void expect_epilogue(mdnn_graph_t *graph, const sample_t *sample)
{
    mdnn_problem_t *const problem = &graph->problem;
    static const int UNIT[3] = {1, 1, 1};
    if (sample->epilogue & ADD) {
        problem->z = problem->y;
        graph->z_uid = Z_UID;
        add_step(problem, CUDNN_POINTWISE_ADD, MDNN_OPERAND_Z, sample);
    }
    if (sample->epilogue & BIAS) {
        set_tensor(&problem->bias, sample->type, sample->layout, 1, sample->k, UNIT,
                   sample->spatial);
        graph->bias_uid = BIAS_UID;
        add_step(problem, CUDNN_POINTWISE_ADD, MDNN_OPERAND_BIAS, sample);
    }
    if (sample->epilogue & RELU)
        add_step(problem, CUDNN_POINTWISE_RELU_FWD, MDNN_OPERAND_NONE, sample);
    if (sample->epilogue & SIGMOID)
        add_step(problem, CUDNN_POINTWISE_SIGMOID_FWD, MDNN_OPERAND_NONE, sample);
}

static mdnn_graph_t expected_of(const sample_t *sample)
{
    mdnn_graph_t graph;
    mdnn_problem_t *const problem = &graph.problem;
    int out[3];
    bool lopsided = false;
    memset(&graph, 0, sizeof graph);
    mdnn_problem_init(problem);
    for (int i = 0; i < sample->spatial; i++) {
        const int reach = (sample->filter[i] - 1) * sample->dilation[i] + 1;
        out[i] =
            1 + (sample->in[i] + sample->pad[i] + sample->pad_after[i] - reach) / sample->stride[i];
        problem->pad[i] = sample->pad[i];
        problem->pad_after[i] = sample->pad_after[i];
        problem->stride[i] = sample->stride[i];
        problem->dilation[i] = sample->dilation[i];
        lopsided = lopsided || sample->pad[i] != sample->pad_after[i];
    }
    set_tensor(&problem->x, sample->type, sample->layout, sample->n, sample->c, sample->in,
               sample->spatial);
    set_tensor(&problem->w, sample->type, sample->layout, sample->k, sample->c / sample->groups,
               sample->filter, sample->spatial);
    set_tensor(&problem->y, sample->type, sample->layout, sample->n, sample->k, out,
               sample->spatial);
    problem->w.format = sample->layout == NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    problem->direction = (int32_t)sample->direction;
    problem->spatial_dims = sample->spatial;
    problem->mode = (int32_t)sample->mode;
    problem->compute_type = (int32_t)sample->compute;
    problem->groups = sample->groups;
    problem->alpha_class = mdnn_alpha_class(sample->alpha);
    problem->beta_is_zero = sample->beta == 0;
    problem->alpha_bits = bits_of(sample->alpha);
    problem->beta_bits = bits_of(sample->beta);
    problem->interfaces = sample->spatial == 1 || lopsided || sample->epilogue
                              ? MDNN_INTERFACE_GRAPH
                              : MDNN_INTERFACE_GRAPH | MDNN_INTERFACE_LEGACY;
    graph.x_uid = X_UID;
    graph.w_uid = W_UID;
    graph.y_uid = Y_UID;
    expect_epilogue(&graph, sample);
    return graph;
}

CASE(plans_of_cudnn_become_their_problems)
{
    for (int i = 0; i < SAMPLES; i++) {
        plan_t plan = plan_of(samples[i].name);
        mdnn_graph_t graph;
        const mdnn_graph_kind_t kind = read_into(&plan, &graph);
        if (kind != samples[i].kind)
            fail_msg("%s: kind %d", samples[i].name, (int)kind);
        if (kind == MDNN_GRAPH_RECOGNISED) {
            const mdnn_graph_t expected = expected_of(&samples[i]);
            for (size_t at = 0; at < sizeof graph; at++)
                if (((const char *)&graph)[at] != ((const char *)&expected)[at])
                    fail_msg("%s: byte %zu differs", samples[i].name, at);
        }
        free(plan.text);
    }
}

CASE(every_plan_is_in_the_table)
{
    int count = 0;
    DIR *const folder = opendir(FOLDER);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += strstr(entry->d_name, ".json") != NULL;
    closedir(folder);
    assert_int_equal(count, SAMPLES);
}

/* A change to a plan, and the kind that it then is of. */
typedef struct change {
    const char *name, *from, *to;
    mdnn_graph_kind_t kind;
} change_t;

static void check_change(const change_t *change)
{
    plan_t plan = plan_of(change->name);
    mdnn_graph_t graph;
    replace(&plan, change->from, change->to);
    const mdnn_graph_kind_t kind = read_into(&plan, &graph);
    if (kind != change->kind)
        fail_msg("%s with %s: kind %d", change->name, change->to, (int)kind);
    free(plan.text);
}

#define PLAN "fwd-f32-nchw"
#define FUSED "add-bias-relu-f32"
#define RELU_NODE "POINTWISE_RELU_FWD\",\"mathPrec\":\"CUDNN_DATA_FLOAT\","
#define CLIPS "\"upperClip\":1.7976931348623157e308,\"lowerClip\":0.0,\"lowerClipSlope\":0.0,"
static const change_t changes[] = {
    /* Versions and the outline. */
    {PLAN, "\"schemaVersion\":4", "\"schemaVersion\":3", UNREADABLE},
    {PLAN, "\"schemaVersion\":4", "\"schemaVersion\":5", UNREADABLE},
    {PLAN, "\"schemaVersion\":4", "\"schemaVersion\":\"4\"", UNREADABLE},
    {PLAN, "\"schemaVersion\":4,", "", UNREADABLE},
    {PLAN, "\"cudnnVersion\":91900", "\"cudnnVersion\":99999", MDNN_GRAPH_RECOGNISED},
    {PLAN, "\"engine\"", "\"motor\"", MDNN_GRAPH_RECOGNISED},
    {PLAN, "\"nodes\"", "\"knots\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"tensors\"", "\"vectors\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"finalizeMode\"", "\"isOverride\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"operationGraph\"", "\"graph\"", MDNN_GRAPH_UNKNOWN},
    /* Operations. */
    {PLAN, "CONVOLUTION_FORWARD", "MATMUL", MDNN_GRAPH_NO_CONVOLUTION},
    {PLAN, "\"nodes\":[", "\"nodes\":[{\"operation\":\"CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR\"},",
     MDNN_GRAPH_MANY_OPERATIONS},
    {PLAN, "CONVOLUTION_FORWARD", "CONVOLUTION_BACKWARD_DATA", MDNN_GRAPH_UNKNOWN},
    {FUSED, "POINTWISE_RELU_FWD", "POINTWISE_EXP", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"beta\":0.0", "\"beta\":1.0", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"Y\":\"67\"", "\"Y\":\"121\"", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"B\":\"122\"", "\"B\":\"67\"", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"B\":\"98\"", "\"B\":\"122\"", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"B\":\"122\"", "\"B\":\"121\"", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"B\":\"122\"", "\"B\":\"123\"", MDNN_GRAPH_UNKNOWN},
    {FUSED, "\"Y\":\"66\"", "\"Y\":\"600\"", MDNN_GRAPH_UNKNOWN},
    {FUSED, "\"X\":\"66\"", "\"X\":\"65\"", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"isVirtual\":true", "\"isVirtual\":false", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"isByValue\":false", "\"isByValue\":true", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"dim\":[1,64,1,1]", "\"dim\":[1,64,56,1]", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"dim\":[1,64,1,1]", "\"dim\":[1,1,1,1]", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"dim\":[8,64,56,56]", "\"dim\":[8,64,56,55]", MDNN_GRAPH_MANY_OPERATIONS},
    {FUSED, "\"upperClip\"", "\"middleClip\"", MDNN_GRAPH_UNKNOWN},
    {FUSED, "\"upperClip\"", "\"alpha\"", MDNN_GRAPH_UNKNOWN},
    {FUSED, "\"lowerClip\":0.0,", "", MDNN_GRAPH_UNKNOWN},
    {FUSED, "\"alpha1\":1.0,", "", MDNN_GRAPH_UNKNOWN},
    {FUSED, RELU_NODE CLIPS, "POINTWISE_ELU_FWD\",\"mathPrec\":\"CUDNN_DATA_FLOAT\",",
     MDNN_GRAPH_UNKNOWN},
    {FUSED, RELU_NODE CLIPS, "POINTWISE_SWISH_FWD\",\"mathPrec\":\"CUDNN_DATA_FLOAT\",",
     MDNN_GRAPH_UNKNOWN},
    {FUSED, RELU_NODE CLIPS, "POINTWISE_TANH_FWD\",\"mathPrec\":\"CUDNN_DATA_FLOAT\",",
     MDNN_GRAPH_RECOGNISED},
    {FUSED, "\"X\":\"66\"", "\"X\":\"66\",\"B\":\"98\"", MDNN_GRAPH_UNKNOWN},
    {FUSED, "1.7976931348623157e308", "1.7976931348623157e309", MDNN_GRAPH_UNKNOWN},
    {FUSED, "1.7976931348623157e308", "null", MDNN_GRAPH_UNKNOWN},
    /* Fields of the convolution. */
    {PLAN, "\"alpha\":1.0", "\"alpha\":nan", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"alpha\":1.0", "\"alpha\":1.0.0", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"alpha\":1.0", "\"alpha\":\"1.0\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"alpha\":1.0", "\"alpha\":1", MDNN_GRAPH_RECOGNISED},
    {PLAN, "\"alpha\":1.0,", "", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"alpha\":1.0", "\"alpha\":1.0,\"alpha\":1.0", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"alpha\":1.0", "\"alpha\":1.0,\"gamma\":1.0", MDNN_GRAPH_UNKNOWN},
    {PLAN, "CUDNN_CROSS_CORRELATION", "CUDNN_CORRELATION", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"mode\":\"CUDNN_CROSS", "\"mode\":\"\\u0043UDNN_CROSS", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"mathPrec\":\"CUDNN_DATA_FLOAT\"", "\"mathPrec\":\"CUDNN_DATA_HALF\"",
     MDNN_GRAPH_TYPES},
    {PLAN, "\"mathPrec\":\"CUDNN_DATA_FLOAT\"", "\"mathPrec\":\"CUDNN_DATA_POSIT\"",
     MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1,1,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1,1,1,1,1,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1,1.0]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1,[1]]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[-1,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad_lower\":[1,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1,1],\"pad_upper\":[1,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1],", "", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"stride\":[1,1]", "\"stride\":[0,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"stride\":[1,1]", "\"stride\":[2,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dilation\":[1,1]", "\"dilation\":[1,2]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dilation\":[1,1]", "\"dilation\":[2147483647,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dilation\":[1,1]", "\"dilation\":[2147483648,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"X\":\"120\"", "\"X\":\"119\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"X\":\"120\"", "\"X\":\"x\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"X\":\"120\"", "\"X\":\"99999999999999999999\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"X\":\"120\"", "\"X\":\"\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"X\":\"120\"", "\"X\":120", MDNN_GRAPH_UNKNOWN},
    {"fwd-f32-groups", "\"groupCount\":4", "\"groupCount\":8", MDNN_GRAPH_UNKNOWN},
    {"fwd-f32-groups", "\"groupCount\":4", "\"groupCount\":0", MDNN_GRAPH_UNKNOWN},
    {"fwd-f32-groups", ",\"groupCount\":4", "", MDNN_GRAPH_RECOGNISED},
    /* Fields of tensors. */
    {PLAN, "\"isByValue\":false,", "", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"isByValue\":false", "\"isByValue\":0", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"isByValue\":false", "\"isByValue\":false,\"raggedOffset\":\"7\"", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"isVirtual\":false", "\"isVirtual\":true", MDNN_GRAPH_MANY_OPERATIONS},
    {PLAN, "\"dataType\":\"CUDNN_DATA_FLOAT\"", "\"dataType\":\"CUDNN_DATA_HALF\"",
     MDNN_GRAPH_TYPES},
    {PLAN, "\"dataType\":\"CUDNN_DATA_FLOAT\"", "\"dataType\":\"CUDNN_DATA_INT8\"",
     MDNN_GRAPH_TYPES},
    {PLAN, "\"dataType\":\"CUDNN_DATA_FLOAT\"", "\"dataType\":\"CUDNN_DATA_FP2\"",
     MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"vectCount\":1", "\"vectCount\":4", MDNN_GRAPH_LAYOUT},
    {PLAN, "REORDERING_NONE", "REORDERING_F16x16", MDNN_GRAPH_LAYOUT},
    {PLAN, "REORDERING_NONE", "REORDERING_OTHER", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[200703,3136,56,1]", MDNN_GRAPH_LAYOUT},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[200705,3136,56,1]", MDNN_GRAPH_RECOGNISED},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[200704,3136,0,1]", MDNN_GRAPH_LAYOUT},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[200704,3136,-56,1]", MDNN_GRAPH_LAYOUT},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[2147483647,2147483647,2147483647,1]",
     MDNN_GRAPH_LAYOUT},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[2147483648,3136,56,1]",
     MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"stride\":[200704,3136,56,1]", "\"stride\":[3136,56,1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"stride\":[576,9,3,1]", "\"stride\":[0,9,3,1]", MDNN_GRAPH_LAYOUT},
    {PLAN, "\"dim\":[64,64,3,3]", "\"dim\":[64,48,3,3]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dim\":[64,64,3,3]", "\"dim\":[63,64,3,3]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dim\":[64,64,3,3]", "\"dim\":[64,64,3,0]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dim\":[64,64,3,3]", "\"dim\":[64,64,3,-3]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"dim\":[64,64,3,3]", "\"dim\":[64,64,3,2147483647]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"ptrAlignment\":32", "\"ptrAlignment\":0", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"ptrAlignment\":32", "\"ptrAlignment\":24", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"name\":\"121\"", "\"name\":\"120\"", MDNN_GRAPH_UNKNOWN},
    /* What is not JSON, though jsmn takes some of it. */
    {PLAN, "\"schemaVersion\":4,", "\"schemaVersion\":4", UNREADABLE},
    {PLAN, "\"schemaVersion\":4,", "\"schemaVersion\",", UNREADABLE},
    {PLAN, "\"schemaVersion\":4,", "4:\"schemaVersion\",", UNREADABLE},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1:1]", MDNN_GRAPH_UNKNOWN},
    {PLAN, "\"pad\":[1,1]", "\"pad\":[1,1}", UNREADABLE},
    {PLAN, "{\"cudnnVersion\"", "[{\"cudnnVersion\"", UNREADABLE},
    {PLAN, "{\"cudnnVersion\"", "{}{\"cudnnVersion\"", UNREADABLE},
    {PLAN, "{\"cudnnVersion\"", "{},{\"cudnnVersion\"", UNREADABLE},
};

CASE(a_change_is_seen)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        check_change(&changes[i]);
}

CASE(a_plan_cut_short_is_no_json)
{
    const plan_t plan = plan_of("add-bias-relu-f32");
    mdnn_graph_t graph;
    size_t whole = plan.bytes;
    while (plan.text[whole - 1] != '}')
        whole--;
    for (size_t bytes = 0; bytes < whole; bytes++) {
        const plan_t cut = {malloc(bytes ? bytes : 1), bytes};
        assert_non_null(cut.text);
        memcpy(cut.text, plan.text, bytes);
        assert_int_equal(read_into(&cut, &graph), UNREADABLE);
        free(cut.text);
    }
    assert_int_equal(read_into(&(plan_t){plan.text, whole}, &graph), MDNN_GRAPH_RECOGNISED);
    free(plan.text);
}

static mdnn_graph_t changed(const char *name, const char *const (*replacements)[2], int count)
{
    plan_t plan = plan_of(name);
    mdnn_graph_t graph;
    for (int i = 0; i < count; i++)
        replace(&plan, replacements[i][0], replacements[i][1]);
    assert_int_equal(read_into(&plan, &graph), MDNN_GRAPH_RECOGNISED);
    free(plan.text);
    return graph;
}
#define CHANGED(name, ...)                                                                         \
    changed(name, (const char *const[][2]){__VA_ARGS__},                                           \
            sizeof(const char *const[][2]){__VA_ARGS__} / (2 * sizeof(char *)))

CASE(alpha1_belongs_to_the_chain_whatever_the_input_is_called)
{
    const mdnn_graph_t plain = CHANGED(FUSED, {"\"alpha1\":1.0", "\"alpha1\":0.75"});
    const mdnn_graph_t swapped =
        CHANGED(FUSED, {"\"alpha1\":1.0,\"alpha2\":0.5,\"X\":\"67\",\"Y\":\"65\",\"B\":\"122\"",
                        "\"alpha1\":0.5,\"alpha2\":0.75,\"X\":\"122\",\"Y\":\"65\",\"B\":\"67\""});
    assert_int_equal(plain.problem.pointwise[0].alpha1_bits, bits_of(0.75));
    assert_int_equal(plain.problem.pointwise[0].alpha2_bits, bits_of(0.5));
    assert_memory_equal(&plain, &swapped, sizeof plain);
}

CASE(the_order_is_that_of_the_data)
{
    /* The additions named the other way round in the text. */
    const mdnn_graph_t plain = CHANGED(FUSED, {"\"alpha2\":0.5", "\"alpha2\":1.0"});
    const mdnn_graph_t moved = CHANGED(
        FUSED, {"\"alpha2\":0.5", "\"alpha2\":1.0"},
        {"\"X\":\"67\",\"Y\":\"65\",\"B\":\"122\"", "@"},
        {"\"X\":\"65\",\"Y\":\"66\",\"B\":\"98\"", "\"X\":\"67\",\"Y\":\"65\",\"B\":\"122\""},
        {"@", "\"X\":\"65\",\"Y\":\"66\",\"B\":\"98\""});
    assert_memory_equal(&plain, &moved, sizeof plain);
    /* The bias first. */
    const mdnn_graph_t bias = CHANGED(FUSED, {"\"B\":\"122\"", "@"},
                                      {"\"B\":\"98\"", "\"B\":\"122\""}, {"@", "\"B\":\"98\""});
    assert_int_equal(bias.problem.pointwise[0].operand, MDNN_OPERAND_BIAS);
    assert_int_equal(bias.problem.pointwise[1].operand, MDNN_OPERAND_Z);
    assert_int_equal(bias.bias_uid, BIAS_UID);
    assert_int_equal(bias.z_uid, Z_UID);
}

/* cuDNN 9.19 asks for these fields, every one, when it reads a plan. */
CASE(activations_keep_their_parameters)
{
    static const struct {
        const char *name, *fields;
        int mode;
        double parameters[3];
    } cases[] = {
        {"RELU",
         "\"upperClip\":6.5,\"lowerClip\":-1.0,\"lowerClipSlope\":0.25,",
         CUDNN_POINTWISE_RELU_FWD,
         {-1, 6.5, 0.25}},
        {"ELU", "\"alpha\":0.3,", CUDNN_POINTWISE_ELU_FWD, {0.3}},
        {"SOFTPLUS", "\"beta\":0.3,", CUDNN_POINTWISE_SOFTPLUS_FWD, {0.3}},
        {"SWISH", "\"beta\":2.0,", CUDNN_POINTWISE_SWISH_FWD, {2}},
        {"TANH", "", CUDNN_POINTWISE_TANH_FWD, {0}},
        {"SIGMOID", "", CUDNN_POINTWISE_SIGMOID_FWD, {0}},
        {"GELU", "", CUDNN_POINTWISE_GELU_FWD, {0}},
        {"GELU_APPROX_TANH", "", CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char mode[64];
        snprintf(mode, sizeof mode, "POINTWISE_%s_FWD", cases[i].name);
        const mdnn_graph_t graph =
            CHANGED(FUSED, {CLIPS, cases[i].fields}, {"POINTWISE_RELU_FWD", mode});
        const mdnn_problem_pointwise_t *const last = &graph.problem.pointwise[2];
        assert_int_equal(last->mode, cases[i].mode);
        for (int at = 0; at < 3; at++)
            assert_int_equal(last->parameter_bits[at], bits_of(cases[i].parameters[at]));
    }
}

CASE(filters_have_a_format_where_the_legacy_api_has_it)
{
    const mdnn_graph_t gaps = CHANGED(PLAN, {"[576,9,3,1]", "[1152,18,6,2]"});
    assert_int_equal(gaps.problem.w.format, -1);
    assert_int_equal(gaps.problem.interfaces, MDNN_INTERFACE_GRAPH);
    const mdnn_graph_t last = CHANGED(PLAN, {"[576,9,3,1]", "[576,1,192,64]"});
    assert_int_equal(last.problem.w.format, CUDNN_TENSOR_NHWC);
    /* One element a plane fits both: as x. The strides of one element may be anything. */
    const mdnn_graph_t point = CHANGED("fwd-f32-1x1", {"[64,1,1,1]", "[64,1,0,-7]"});
    assert_int_equal(point.problem.w.format, CUDNN_TENSOR_NCHW);
    const mdnn_graph_t channels_last =
        CHANGED("fwd-f32-1x1", {"[200704,3136,56,1]", "[200704,1,3584,64]"},
                {"[200704,3136,56,1]", "[200704,1,3584,64]"});
    assert_int_equal(channels_last.problem.w.format, CUDNN_TENSOR_NHWC);
}

CASE(a_single_element_has_a_stride)
{
    const mdnn_graph_t image =
        CHANGED(PLAN, {"\"dim\":[8,64,56,56]", "\"dim\":[1,64,56,56]"},
                {"\"dim\":[8,64,56,56]", "\"dim\":[1,64,56,56]"},
                {"[200704,3136,56,1]", "[0,3200,57,1]"}, {"[200704,3136,56,1]", "[-9,3136,56,1]"});
    const mdnn_problem_tensor_t *const x = &image.problem.x, *const y = &image.problem.y;
    const int32_t padded = x->strides[1] == 3200 ? x->strides[0] : y->strides[0];
    const int32_t dense = x->strides[1] == 3200 ? y->strides[0] : x->strides[0];
    assert_int_equal(padded, 63 * 3200 + 55 * 57 + 55 + 1);
    assert_int_equal(dense, 64 * 56 * 56);
    const mdnn_graph_t point = CHANGED("fwd-f32-1x1", {"[64,1,1,1]", "[64,1,0,-7]"});
    assert_int_equal(point.problem.w.strides[2], 1);
    assert_int_equal(point.problem.w.strides[3], 1);
}

CASE(wider_sums_and_operands_are_taken)
{
    const mdnn_graph_t graph =
        CHANGED("bias-f16-nhwc",
                {"98\",\"dataType\":\"CUDNN_DATA_HALF\"", "98\",\"dataType\":\"CUDNN_DATA_FLOAT\""},
                {"67\",\"dataType\":\"CUDNN_DATA_FLOAT\"", "67\",\"dataType\":\"CUDNN_DATA_HALF\""},
                {"\"ptrAlignment\":32", "\"ptrAlignment\":16"},
                {"\"ptrAlignment\":32", "\"ptrAlignment\":4"});
    assert_int_equal(graph.problem.bias.type, CUDNN_DATA_FLOAT);
    assert_int_equal(graph.problem.bias.alignment_bytes, 4);
    assert_int_equal(graph.problem.pointwise[0].input_type, CUDNN_DATA_HALF);
}

CASE(a_decimal_comma_changes_nothing)
{
    static const char *const NAMES[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8", "ru_RU.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && !found; i++)
        found = setlocale(LC_NUMERIC, NAMES[i]) && *localeconv()->decimal_point == ',';
    if (!found)
        skip();
    const mdnn_graph_t graph = CHANGED(PLAN, {"\"alpha\":1.0", "\"alpha\":1.5"});
    assert_int_equal(graph.problem.alpha_bits, bits_of(1.5));
    setlocale(LC_NUMERIC, "C");
}

CASE(what_is_too_large_passes)
{
    plan_t plan = plan_of(PLAN);
    mdnn_graph_t graph;
    char *const spaces = malloc(MDNN_JSON_BYTES + 1);
    assert_non_null(spaces);
    memset(spaces, ' ', MDNN_JSON_BYTES + 1);
    memcpy(spaces, plan.text, plan.bytes);
    assert_int_equal(read_into(&(plan_t){spaces, MDNN_JSON_BYTES}, &graph), MDNN_GRAPH_RECOGNISED);
    assert_int_equal(read_into(&(plan_t){spaces, MDNN_JSON_BYTES + 1}, &graph), MDNN_GRAPH_UNKNOWN);
    memset(spaces, '[', MDNN_JSON_BYTES);
    assert_int_equal(read_into(&(plan_t){spaces, MDNN_JSON_BYTES}, &graph), UNREADABLE);
    free(spaces);
    free(plan.text);
}

int main(void)
{
    return run_cases("graph_json");
}
