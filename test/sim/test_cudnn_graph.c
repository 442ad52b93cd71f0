/* The backend API of the simulated cuDNN: every engine of every kind of graph against the fp64
 * reference, lists, notes, knobs, workspaces, JSON, capture. Its attribute rules:
 * test_backend_rules.c. */
#include "test/sim/graph_client.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cudnnHandle_t handle;

#define TWICE(a)                                                                                   \
    {                                                                                              \
        1, (a), (a)                                                                                \
    }
#define PLAIN                                                                                      \
    .type = CUDNN_DATA_FLOAT, .compute = CUDNN_DATA_FLOAT, .spatial = 2, .groups = 1, .n = 4,      \
    .c = 8, .k = 6, .in = {1, 9, 7}, .filter = TWICE(3), .pre = {0, 1, 1}, .post = {0, 1, 1},      \
    .stride = TWICE(1), .dilation = TWICE(1), .alpha = 1.0

typedef struct shape {
    const char *name;
    client_graph_t graph;
} shape_t;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* a shape overrides what its macro says */
static const shape_t shapes[] = {
    {"3x3", {PLAIN}},
    {"3x3 flipped, no padding", {PLAIN, .flip = true, .pre = {0}, .post = {0}}},
    {"1x1", {PLAIN, .filter = TWICE(1), .pre = {0}, .post = {0}, .c = 5}},
    {"5x5, three channels",
     {PLAIN, .filter = TWICE(5), .pre = {0, 2, 2}, .post = {0, 2, 2}, .c = 3}},
    {"asymmetric padding", {PLAIN, .pre = {0, 0, 1}, .post = {0, 2, 3}}},
    {"strides", {PLAIN, .stride = {1, 2, 3}, .flip = true}},
    {"dilation", {PLAIN, .dilation = {1, 2, 3}, .pre = {0, 2, 3}, .post = {0, 2, 3}}},
    {"groups", {PLAIN, .groups = 2}},
    {"depthwise", {PLAIN, .groups = 8, .k = 16}},
    {"odd batch", {PLAIN, .n = 3}},
    {"channels last", {PLAIN, .layout = CLIENT_NHWC}},
    {"channels last, groups, asymmetric",
     {PLAIN, .layout = CLIENT_NHWC, .groups = 2, .pre = {0, 1, 0}, .post = {0, 0, 2}}},
    {"gaps between elements", {PLAIN, .layout = CLIENT_GAPS}},
    {"batch innermost", {PLAIN, .layout = CLIENT_CHWN, .flip = true}},
    {"1-D", {PLAIN, .spatial = 1}},
    {"3-D",
     {PLAIN, .spatial = 3, .in = {5, 6, 7}, .filter = {2, 3, 3}, .pre = {1, 1, 1},
      .post = {0, 1, 1}}},
    {"3-D channels last",
     {PLAIN, .spatial = 3, .layout = CLIENT_NHWC, .in = {4, 5, 4}, .filter = {3, 3, 2}}},
};
#pragma GCC diagnostic pop

typedef struct arithmetic {
    cudnnDataType_t type, compute;
    double floor, tensor_floor; /* with tensor cores: TF32 in fp32 */
} arithmetic_t;

static const arithmetic_t fp32 = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, 1e-5, 1e-3};
static const arithmetic_t fp16 = {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, 2e-3, 2e-3};
static const arithmetic_t bf16 = {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, 1e-2, 1e-2};
static const arithmetic_t fp64 = {CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, 1e-13, 1e-13};

enum { TENSORS = 3 + CLIENT_STEPS };

/* A graph with its values: x, w, y and the operands of the steps. */
typedef struct problem {
    client_graph_t graph;
    reference_convolution_t reference;
    client_owned_t owned;
    cudnnBackendDescriptor_t whole;
    double *values[TENSORS];
    size_t spans[TENSORS];
} problem_t;

static int output_of(const problem_t *problem)
{
    static const int outputs[] = {2, 0, 1};
    return outputs[problem->graph.direction];
}

static const reference_tensor_t *shape_of(const problem_t *problem, int index)
{
    const reference_tensor_t *const shapes_[] = {&problem->reference.x, &problem->reference.w,
                                                 &problem->reference.y};
    return shapes_[index];
}

static void make_problem(problem_t *problem, const client_graph_t *graph)
{
    memset(problem, 0, sizeof *problem);
    problem->graph = *graph;
    client_reference(graph, &problem->reference);
    problem->whole = client_build(&problem->owned, graph, handle);
    const reference_tensor_t *const out = shape_of(problem, output_of(problem));
    for (int i = 0; i < 3 + graph->step_count; i++) {
        problem->spans[i] = i < 3 ? reference_span(shape_of(problem, i))
                            : graph->steps[i - 3].operand == STEP_BIAS ? (size_t)out->dims[1]
                                                                       : reference_span(out);
        problem->values[i] = calloc(problem->spans[i], sizeof(double));
        assert_non_null(problem->values[i]);
        client_random(graph->type, (unsigned)i + 3, problem->values[i], problem->spans[i]);
    }
}

static void drop_problem(problem_t *problem)
{
    client_drop(&problem->owned);
    for (int i = 0; i < TENSORS; i++)
        free(problem->values[i]);
}

static double step_value(const client_step_t *step, double value, double operand)
{
    const double scaled = step->alpha1 * value;
    switch (step->mode) {
    case CUDNN_POINTWISE_ADD:
        return scaled + step->alpha2 * operand;
    case CUDNN_POINTWISE_MUL:
        return scaled * step->alpha2 * operand;
    case CUDNN_POINTWISE_RELU_FWD:
        return fmin(fmax(scaled, 0.0), step->upper_clip != 0.0 ? step->upper_clip : scaled);
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return 1.0 / (1.0 + exp(-scaled));
    case CUDNN_POINTWISE_EXP:
        return exp(scaled);
    default:
        fail_msg("the test knows no such step");
        return 0.0;
    }
}

/* One value after all steps; `at` is its place in the output, `channel` its channel. */
static double after_steps(const problem_t *problem, double value, size_t at, int channel)
{
    for (int i = 0; i < problem->graph.step_count; i++) {
        const client_step_t *const step = &problem->graph.steps[i];
        const double operand = step->operand == STEP_BIAS     ? problem->values[3 + i][channel]
                               : step->operand == STEP_ADDEND ? problem->values[3 + i][at]
                                                              : 0.0;
        value = step_value(step, value, operand);
    }
    return value;
}

/* What the graph's output should be, in doubles. */
static double *expected(const problem_t *problem)
{
    const int out = output_of(problem);
    const reference_tensor_t *const shape = shape_of(problem, out);
    double *copies[3];
    for (int i = 0; i < 3; i++) {
        copies[i] = malloc(problem->spans[i] * sizeof(double));
        assert_non_null(copies[i]);
        memcpy(copies[i], problem->values[i], problem->spans[i] * sizeof(double));
    }
    reference_convolution(&problem->reference, problem->graph.alpha, problem->graph.beta, copies[0],
                          copies[1], copies[2]);
    for (int i = 0; i < 3; i++)
        if (i != out)
            free(copies[i]);
    size_t at[REFERENCE_DIMS], place;
    const size_t elements = (size_t)shape->dims[0] * (size_t)shape->dims[1] *
                            (size_t)shape->dims[2] * (size_t)shape->dims[3] *
                            (size_t)shape->dims[4];
    for (size_t i = 0; problem->graph.step_count && i < elements; i++) {
        size_t rest = i;
        place = 0;
        for (int d = REFERENCE_DIMS - 1; d >= 0; rest /= (size_t)shape->dims[d], d--) {
            at[d] = rest % (size_t)shape->dims[d];
            place += at[d] * (size_t)shape->strides[d];
        }
        copies[out][place] = after_steps(problem, copies[out][place], place, (int)at[1]);
    }
    return copies[out];
}

/* The output of one configuration; `workspace_bytes` receives what the plan asked for. The output
 * holds NaN before where beta is 0. */
static double *run_config(const problem_t *problem, cudnnBackendDescriptor_t config,
                          int64_t *workspace_bytes)
{
    client_owned_t owned = {0};
    const int out = output_of(problem);
    const cudnnDataType_t type = problem->graph.type;
    int64_t uids[TENSORS] = {UID_X, UID_W, UID_Y}, count = 0;
    void *pointers[TENSORS], *all[TENSORS];
    for (int i = 0; i < 3 + problem->graph.step_count; i++) {
        if (i >= 3 && problem->graph.steps[i - 3].operand == STEP_ALONE)
            continue;
        const int64_t uid = i < 3 ? uids[i] : UID_STEP + i - 3;
        all[count] = client_upload(type, problem->values[i], problem->spans[i]);
        if (i == out && problem->graph.beta == 0.0)
            CHECK_CUDA(
                cuMemsetD8((CUdeviceptr)(uintptr_t)all[count], 0xff,
                           problem->spans[i] * reference_type_bytes((reference_type_t)type)));
        pointers[count] = all[count];
        uids[count++] = uid;
    }
    cudnnBackendDescriptor_t plan = client_plan(&owned, config);
    *workspace_bytes = client_workspace(plan);
    void *const workspace = client_allocate((size_t)*workspace_bytes, 0x55);
    CHECK_CUDNN(
        cudnnBackendExecute(handle, plan, client_pack(&owned, count, uids, pointers, workspace)));
    double *const result = malloc(problem->spans[out] * sizeof *result);
    assert_non_null(result);
    client_download(type, all[out], problem->spans[out], result);
    for (int64_t i = 0; i < count; i++)
        client_free(all[i]);
    client_free(workspace);
    client_drop(&owned);
    return result;
}

static double bound_of(const arithmetic_t *arithmetic, cudnnBackendDescriptor_t config)
{
    return client_has_note(config, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ? arithmetic->tensor_floor
                                                                     : arithmetic->floor;
}

/* Every engine that takes the graph, with every configuration of the lists; how many ran. */
static int check_graph(const client_graph_t *graph, const arithmetic_t *arithmetic,
                       const char *name)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    problem_t problem;
    client_graph_t typed = *graph;
    int ran = 0;
    typed.type = arithmetic->type;
    typed.compute = arithmetic->compute;
    make_problem(&problem, &typed);
    double *const wanted = expected(&problem);
    for (int m = 0; m < 2; m++) {
        client_owned_t owned = {0};
        cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
        const int count = client_list(&owned, problem.whole, NULL, modes[m], configs);
        for (int i = 0; i < count; i++, ran++) {
            int64_t bytes;
            double *const result = run_config(&problem, configs[i], &bytes);
            const double error =
                reference_relative_l2(shape_of(&problem, output_of(&problem)), wanted, result);
            if (!(error <= bound_of(arithmetic, configs[i])))
                print_error("%s, direction %d, engine %d: relative error %g\n", name,
                            (int)typed.direction, (int)client_engine_index(configs[i]), error);
            assert_true(error <= bound_of(arithmetic, configs[i]));
            free(result);
        }
        client_drop(&owned);
    }
    free(wanted);
    drop_problem(&problem);
    return ran;
}

static void check_all_shapes(const arithmetic_t *arithmetic, int least)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int direction = 0; direction < 3; direction++) {
            client_graph_t graph = shapes[s].graph;
            graph.direction = (reference_direction_t)direction;
            assert_true(check_graph(&graph, arithmetic, shapes[s].name) >= least);
            graph.alpha = 1.5;
            graph.beta = direction == REFERENCE_BACKWARD_FILTER ? 1.0 : -0.5;
            assert_true(check_graph(&graph, arithmetic, shapes[s].name) >= least);
        }
}

static void every_engine_equals_the_reference_in_fp32(void **state)
{
    (void)state;
    check_all_shapes(&fp32, 5);
}

static void every_engine_equals_the_reference_in_fp16(void **state)
{
    (void)state;
    check_all_shapes(&fp16, 5);
}

static void every_engine_equals_the_reference_in_bf16(void **state)
{
    (void)state;
    check_all_shapes(&bf16, 5);
}

static void every_engine_equals_the_reference_in_fp64(void **state)
{
    (void)state;
    check_all_shapes(&fp64, 4);
}

static int create_handle(void **state)
{
    (void)state;
    return cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
}

static int destroy_handle(void **state)
{
    (void)state;
    return cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_equals_the_reference_in_fp32),
        cmocka_unit_test(every_engine_equals_the_reference_in_fp16),
        cmocka_unit_test(every_engine_equals_the_reference_in_bf16),
        cmocka_unit_test(every_engine_equals_the_reference_in_fp64),
    };
    return cmocka_run_group_tests(tests, create_handle, destroy_handle);
}
