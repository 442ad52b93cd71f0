/* The backend API of the simulated cuDNN: every engine of every kind of graph against the fp64
 * reference, lists, notes, knobs, workspaces, JSON, capture. Its attribute rules:
 * test_backend_rules.c. */
#include "test/sim/graph_client.h"
#include "test/unit/few.h"

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
        return fmin(fmax(scaled, 0.0), step->upper_clip != 0.0 ? step->upper_clip : INFINITY);
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

/* What follows a convolution ------------------------------------------------------------------- */

#define ADDEND(scale)                                                                              \
    {                                                                                              \
        CUDNN_POINTWISE_ADD, STEP_ADDEND, 1.0, scale, 0.0                                          \
    }
#define BIAS                                                                                       \
    {                                                                                              \
        CUDNN_POINTWISE_ADD, STEP_BIAS, 1.0, 1.0, 0.0                                              \
    }
#define ALONE(mode)                                                                                \
    {                                                                                              \
        CUDNN_POINTWISE_##mode, STEP_ALONE, 1.0, 1.0, 0.0                                          \
    }

typedef struct chain {
    const char *finalize_mode;
    int count;
    client_step_t steps[CLIENT_STEPS];
} chain_t;

static const chain_t chains[] = {
    {"CONV_ADD_BIAS_ACT", 1, {BIAS}},
    {"CONV_ADD_BIAS_ACT", 2, {BIAS, ALONE(RELU_FWD)}},
    {"CONV_ADD_BIAS_ACT", 2, {BIAS, {CUDNN_POINTWISE_RELU_FWD, STEP_ALONE, 1.0, 1.0, 0.75}}},
    {"CONV_ADD_BIAS_ACT", 3, {ADDEND(0.5), BIAS, ALONE(RELU_FWD)}},
    {"CONV_ADD_BIAS_ACT", 2, {ADDEND(-2.0), BIAS}},
    {"CONV_ADD_BIAS_ACT", 2, {BIAS, ALONE(SIGMOID_FWD)}},
    {"GENERIC_CONV_FUSION", 1, {ADDEND(0.25)}},
    {"GENERIC_CONV_FUSION", 1, {ALONE(RELU_FWD)}},
    {"GENERIC_CONV_FUSION", 2, {ADDEND(1.0), ALONE(RELU_FWD)}},
    {"GENERIC_CONV_FUSION", 3, {BIAS, ADDEND(1.0), ALONE(RELU_FWD)}},
    {"GENERIC_CONV_FUSION", 1, {ALONE(EXP)}},
    {"GENERIC_CONV_FUSION", 2, {{CUDNN_POINTWISE_MUL, STEP_BIAS, 1.0, 0.5, 0.0}, BIAS}},
};

static client_graph_t with_chain(const client_graph_t *graph, const chain_t *chain)
{
    client_graph_t made = *graph;
    made.step_count = chain->count;
    memcpy(made.steps, chain->steps, sizeof made.steps);
    made.alpha = 0.25; /* keeps exp within bounds */
    return made;
}

static char *finalize_mode_of(const client_graph_t *graph)
{
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
    assert_true(client_list(&owned, client_build(&owned, graph, handle), NULL, CUDNN_HEUR_MODE_B,
                            configs) > 0);
    char *const json = client_json(client_plan(&owned, configs[0]));
    json_t *const root = json_loads(json, 0, NULL);
    assert_non_null(root);
    char *const mode = strdup(json_string_value(
        json_object_get(json_object_get(root, "operationGraph"), "finalizeMode")));
    json_decref(root);
    free(json);
    client_drop(&owned);
    return mode;
}

static void every_chain_equals_the_reference(void **state)
{
    (void)state;
    static const arithmetic_t *const arithmetics[] = {&fp32, &fp16, &bf16, &fp64};
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        const client_graph_t one = with_chain(&shapes[0].graph, &chains[c]);
        char *const mode = finalize_mode_of(&one);
        assert_string_equal(mode, chains[c].finalize_mode);
        free(mode);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (uint64_t a = 0; a < few(2, 4); a++) {
                const client_graph_t graph = with_chain(&shapes[s].graph, &chains[c]);
                assert_true(check_graph(&graph, arithmetics[a], shapes[s].name) > 0);
            }
    }
}

static void a_backward_data_may_be_followed_by_relu(void **state)
{
    (void)state;
    client_graph_t graph = with_chain(&shapes[0].graph, &chains[7]);
    graph.direction = REFERENCE_BACKWARD_DATA;
    assert_int_equal(check_graph(&graph, &fp16, "backward data, relu"), 3);
}

/* Between convolution and steps values are fp32: one rounding to 16 bits in all. Of 2048 + 1 + 1, a
 * rounding of the first sum would leave 2048. */
static void sixteen_bit_outputs_are_rounded_once(void **state)
{
    (void)state;
    const chain_t chain = {NULL, 1, {BIAS}};
    client_graph_t graph = with_chain(&shapes[2].graph, &chain);
    graph.type = CUDNN_DATA_HALF;
    graph.alpha = 1.0;
    graph.c = 2;
    problem_t problem;
    make_problem(&problem, &graph);
    for (size_t i = 0; i < problem.spans[0]; i++)
        problem.values[0][i] = 1.0;
    for (size_t i = 0; i < problem.spans[1]; i++)
        problem.values[1][i] = i % 2 ? 1.0 : 2048.0;
    for (size_t i = 0; i < problem.spans[3]; i++)
        problem.values[3][i] = 1.0; /* 2049 + 1; 2049 alone would be rounded to 2048 */
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
    const int count = client_list(&owned, problem.whole, NULL, CUDNN_HEUR_MODE_A, configs);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        int64_t bytes;
        double *const result = run_config(&problem, configs[i], &bytes);
        assert_true(result[0] == 2050.0);
        free(result);
    }
    client_drop(&owned);
    drop_problem(&problem);
}

/* 2^24 + 1 is 2^24 in fp32: what a virtual tensor holds is of its type. */
static void virtual_tensors_are_rounded_to_their_type(void **state)
{
    (void)state;
    const chain_t chain = {NULL, 2, {BIAS, BIAS}};
    client_graph_t graph = with_chain(&shapes[2].graph, &chain);
    graph.alpha = 1.0;
    problem_t problem;
    make_problem(&problem, &graph);
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < problem.spans[i]; at++)
            problem.values[i][at] = 0.0;
    problem.values[0][0] = problem.values[1][0] = 4096.0;
    problem.values[3][0] = 1.0;
    problem.values[4][0] = -16777216.0;
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
    const int count = client_list(&owned, problem.whole, NULL, CUDNN_HEUR_MODE_A, configs);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        int64_t bytes;
        double *const result = run_config(&problem, configs[i], &bytes);
        assert_true(result[0] == 0.0);
        free(result);
    }
    client_drop(&owned);
    drop_problem(&problem);
}

/* Properties of engines -------------------------------------------------------------------------
 */

/* Two runs of one configuration; whether they agree to the last bit. */
static bool repeats(const problem_t *problem, cudnnBackendDescriptor_t config)
{
    int64_t bytes;
    const size_t span = problem->spans[output_of(problem)];
    double *const first = run_config(problem, config, &bytes);
    bool same = true;
    for (int i = 0; i < 3; i++) {
        double *const again = run_config(problem, config, &bytes);
        same = same && !memcmp(first, again, span * sizeof *first);
        free(again);
    }
    free(first);
    return same;
}

static void exactly_the_engines_without_the_note_repeat(void **state)
{
    (void)state;
    for (int direction = 0; direction < 3; direction++) {
        client_graph_t graph = shapes[0].graph;
        graph.direction = (reference_direction_t)direction;
        problem_t problem;
        make_problem(&problem, &graph);
        cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
        client_owned_t owned = {0};
        const int count = client_list(&owned, problem.whole, NULL, CUDNN_HEUR_MODE_A, configs);
        int varying = 0;
        for (int i = 0; i < count; i++) {
            const bool noted = client_has_note(configs[i], CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
            assert_int_equal(repeats(&problem, configs[i]), !noted);
            varying += noted;
        }
        assert_true(varying > 0 && varying < count);
        client_drop(&owned);
        drop_problem(&problem);
    }
}

static void engines_sum_in_different_orders(void **state)
{
    (void)state;
    problem_t problem;
    make_problem(&problem, &shapes[0].graph);
    cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
    client_owned_t owned = {0};
    const int count = client_list(&owned, problem.whole, NULL, CUDNN_HEUR_MODE_A, configs);
    double *results[CLIENT_CONFIGS];
    int different = 0;
    for (int i = 0; i < count; i++) {
        int64_t bytes;
        results[i] = run_config(&problem, configs[i], &bytes);
        bool same = false;
        for (int j = 0; j < i; j++)
            same = same || !memcmp(results[i], results[j], problem.spans[2] * sizeof(double));
        different += !same;
    }
    assert_true(different >= 6);
    for (int i = 0; i < count; i++)
        free(results[i]);
    client_drop(&owned);
    drop_problem(&problem);
}

/* Guard bytes behind the workspace stay, every byte of it changes. */
static void a_plan_fills_its_workspace_and_no_more(void **state)
{
    (void)state;
    enum { GUARD = 256 };
    int with_workspace = 0, odd = 0;
    for (int direction = 0; direction < 3; direction++) {
        client_graph_t graph = shapes[0].graph;
        graph.direction = (reference_direction_t)direction;
        problem_t problem;
        make_problem(&problem, &graph);
        cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
        client_owned_t owned = {0};
        const int count = client_list(&owned, problem.whole, NULL, CUDNN_HEUR_MODE_A, configs);
        void *pointers[3];
        const int64_t uids[3] = {UID_X, UID_W, UID_Y};
        for (int i = 0; i < 3; i++)
            pointers[i] = client_upload(CUDNN_DATA_FLOAT, problem.values[i], problem.spans[i]);
        for (int i = 0; i < count; i++) {
            client_owned_t mine = {0};
            cudnnBackendDescriptor_t plan = client_plan(&mine, configs[i]);
            const size_t bytes = (size_t)client_workspace(plan);
            unsigned char *const content = malloc(bytes + GUARD);
            assert_non_null(content);
            void *const workspace = client_allocate(bytes + GUARD, 0x5a);
            CHECK_CUDNN(cudnnBackendExecute(
                handle, plan, client_pack(&mine, 3, uids, pointers, bytes ? workspace : NULL)));
            CHECK_CUDA(cuMemcpyDtoH(content, (CUdeviceptr)(uintptr_t)workspace, bytes + GUARD));
            with_workspace += bytes > 0;
            odd += bytes % 16 != 0;
            if (bytes)
                assert_int_not_equal(content[bytes - 1], 0x5a);
            for (size_t at = bytes; at < bytes + GUARD; at++)
                assert_int_equal(content[at], 0x5a);
            free(content);
            client_free(workspace);
            client_drop(&mine);
        }
        for (int i = 0; i < 3; i++)
            client_free(pointers[i]);
        client_drop(&owned);
        drop_problem(&problem);
    }
    assert_true(with_workspace > 10 && odd > 5);
}

/* Bytes that engine `index` asks for with this graph; -1: it refuses. */
static int64_t workspace_of(const client_graph_t *graph, int64_t index)
{
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t config =
        client_engine(&owned, client_build(&owned, graph, handle), index);
    const int64_t bytes = config ? client_workspace(client_plan(&owned, config)) : -1;
    client_drop(&owned);
    return bytes;
}

static void support_and_workspace_depend_on_batch_and_beta(void **state)
{
    (void)state;
    client_graph_t graph = shapes[0].graph;
    graph.n = 64;
    assert_int_equal(workspace_of(&graph, 3), 0);
    const int64_t even = workspace_of(&graph, 9);
    assert_true(even > 0);
    graph.n = 65;
    assert_int_equal(workspace_of(&graph, 3), -1);
    assert_int_equal(workspace_of(&graph, 9), -1); /* an odd batch */
    graph.n = 66;
    assert_true(workspace_of(&graph, 9) > even);
    assert_true(workspace_of(&graph, 14) > 0);
    graph.beta = 1.0;
    assert_int_equal(workspace_of(&graph, 14), -1);
    client_graph_t half = shapes[10].graph;
    half.type = CUDNN_DATA_HALF;
    half.direction = REFERENCE_BACKWARD_FILTER;
    const int64_t overwriting = workspace_of(&half, 8);
    half.beta = 1.0;
    assert_true(workspace_of(&half, 8) > overwriting);
}

static void an_image_does_not_depend_on_the_batch(void **state)
{
    (void)state;
    client_graph_t whole = shapes[0].graph, part = shapes[0].graph;
    part.n = 2;
    static const int64_t engines[] = {0, 1, 3, 8, 9, 12, 14};
    problem_t a, b;
    make_problem(&a, &whole);
    make_problem(&b, &part);
    memcpy(b.values[0], a.values[0], b.spans[0] * sizeof(double));
    memcpy(b.values[1], a.values[1], b.spans[1] * sizeof(double));
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        int64_t bytes;
        client_owned_t owned = {0};
        double *const left = run_config(&a, client_engine(&owned, a.whole, engines[i]), &bytes);
        double *const right = run_config(&b, client_engine(&owned, b.whole, engines[i]), &bytes);
        assert_memory_equal(left, right, b.spans[2] * sizeof(double));
        free(left);
        free(right);
        client_drop(&owned);
    }
    drop_problem(&a);
    drop_problem(&b);
}

/* The strict heuristics see more than the instant ones: same engines, truer order. */
static void lists_differ_in_order_and_end_with_what_always_works(void **state)
{
    (void)state;
    client_owned_t owned = {0};
    client_graph_t graph = shapes[0].graph;
    graph.n = 32;
    graph.c = graph.k = 64;
    graph.in[1] = graph.in[2] = 28;
    cudnnBackendDescriptor_t whole = client_build(&owned, &graph, handle);
    cudnnBackendDescriptor_t lists[3][CLIENT_CONFIGS];
    const int instant = client_list(&owned, whole, NULL, CUDNN_HEUR_MODE_INSTANT, lists[0]);
    client_owned_t others = {0};
    const int better = client_list(&others, whole, NULL, CUDNN_HEUR_MODE_B, lists[1]);
    const int fallback = client_list(&others, whole, NULL, CUDNN_HEUR_MODE_FALLBACK, lists[2]);
    assert_int_equal(instant, better);
    assert_true(instant >= 6);
    assert_int_equal(fallback, 2);
    bool moved = false;
    for (int i = 0; i < instant; i++)
        moved = moved || client_engine_index(lists[0][i]) != client_engine_index(lists[1][i]);
    assert_true(moved);
    for (int i = 0; i < fallback; i++)
        assert_true(client_workspace(client_plan(&others, lists[2][i])) <= 4096);
    client_drop(&others);
    client_drop(&owned);
}

/* Milliseconds of one execution between two events. */
static float time_of(const problem_t *problem, cudnnBackendDescriptor_t config)
{
    client_owned_t owned = {0};
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void *pointers[3];
    CUevent begin, end;
    float milliseconds;
    for (int i = 0; i < 3; i++)
        pointers[i] = client_upload(problem->graph.type, problem->values[i], problem->spans[i]);
    cudnnBackendDescriptor_t plan = client_plan(&owned, config);
    void *const workspace = client_allocate((size_t)client_workspace(plan), 0);
    cudnnBackendDescriptor_t pack = client_pack(&owned, 3, uids, pointers, workspace);
    CHECK_CUDA(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CHECK_CUDA(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CHECK_CUDA(cuEventRecord(begin, NULL));
    CHECK_CUDNN(cudnnBackendExecute(handle, plan, pack));
    CHECK_CUDA(cuEventRecord(end, NULL));
    CHECK_CUDA(cuEventSynchronize(end));
    CHECK_CUDA(cuEventElapsedTime(&milliseconds, begin, end));
    CHECK_CUDA(cuEventDestroy(begin));
    CHECK_CUDA(cuEventDestroy(end));
    for (int i = 0; i < 3; i++)
        client_free(pointers[i]);
    client_free(workspace);
    client_drop(&owned);
    return milliseconds;
}

static void times_repeat_and_tell_engines_apart(void **state)
{
    (void)state;
    client_graph_t graph = shapes[0].graph;
    graph.c = graph.k = 32;
    graph.n = 16;
    problem_t problem;
    make_problem(&problem, &graph);
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t slow = client_engine(&owned, problem.whole, 0);
    cudnnBackendDescriptor_t fast = client_engine(&owned, problem.whole, 12);
    const float first = time_of(&problem, slow);
    assert_true(first == time_of(&problem, slow));
    assert_true(time_of(&problem, fast) < first);
    client_drop(&owned);
    drop_problem(&problem);
}

/* Knobs, plans as text --------------------------------------------------------------------------
 */

static void knobs_are_told_and_obeyed(void **state)
{
    (void)state;
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t whole = client_build(&owned, &shapes[0].graph, handle);
    cudnnBackendDescriptor_t engine = client_make(&owned, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const int64_t index = 9;
    client_link(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, whole);
    client_set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    CHECK_CUDNN(cudnnBackendFinalize(engine));
    cudnnBackendDescriptor_t infos[4];
    int64_t count = 0, most[4];
    cudnnBackendKnobType_t types[4];
    for (int i = 0; i < 4; i++)
        infos[i] = client_make(&owned, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    CHECK_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_KNOB_INFO,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 4, &count, infos));
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) {
        int64_t one;
        CHECK_CUDNN(cudnnBackendGetAttribute(infos[i], CUDNN_ATTR_KNOB_INFO_TYPE,
                                             CUDNN_TYPE_KNOB_TYPE, 1, &one, &types[i]));
        CHECK_CUDNN(cudnnBackendGetAttribute(infos[i], CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE,
                                             CUDNN_TYPE_INT64, 1, &one, &most[i]));
    }
    assert_int_equal(types[1], CUDNN_KNOB_TYPE_SPLIT_K_BUF);
    int64_t workspaces[2];
    for (int i = 0; i < 2; i++) {
        const int64_t value = i ? most[1] : 0;
        cudnnBackendDescriptor_t choice = client_make(&owned, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        client_set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &types[1]);
        client_set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
        CHECK_CUDNN(cudnnBackendFinalize(choice));
        cudnnBackendDescriptor_t config = client_make(&owned, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        client_link(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
        client_link(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice);
        CHECK_CUDNN(cudnnBackendFinalize(config));
        workspaces[i] = client_workspace(client_plan(&owned, config));
    }
    assert_true(workspaces[1] > workspaces[0]);
    client_drop(&owned);
}

/* A plan that is made from another's JSON says the same and computes the same. */
static void a_plan_survives_its_json(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        client_owned_t owned = {0};
        const client_graph_t graph = with_chain(&shapes[c % 6].graph, &chains[c]);
        cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
        assert_true(client_list(&owned, client_build(&owned, &graph, handle), NULL,
                                CUDNN_HEUR_MODE_A, configs) > 0);
        cudnnBackendDescriptor_t plan = client_plan(&owned, configs[0]);
        char *const json = client_json(plan);
        const int64_t bytes = client_workspace(plan);
        client_drop(&owned); /* the text needs nothing of what it was made from */
        cudnnBackendDescriptor_t again =
            client_make(&owned, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        client_set(again, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        client_set(again, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   (int64_t)strlen(json), json);
        CHECK_CUDNN(cudnnBackendFinalize(again));
        char *const json_again = client_json(again);
        assert_string_equal(json, json_again);
        assert_int_equal(client_workspace(again), bytes);
        free(json);
        free(json_again);
        client_drop(&owned);
    }
}

/* Every prefix of a plan's JSON, and the whole with one byte spoilt, is refused or understood, but
 * never more: no crash. */
static void broken_json_is_refused(void **state)
{
    (void)state;
    client_owned_t owned = {0};
    cudnnBackendDescriptor_t config =
        client_engine(&owned, client_build(&owned, &shapes[0].graph, handle), 8);
    char *const json = client_json(client_plan(&owned, config));
    const size_t length = strlen(json);
    for (size_t i = 1; i < length; i += 7) {
        cudnnBackendDescriptor_t plan;
        CHECK_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
        client_set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)i,
                   json);
        assert_int_not_equal(cudnnBackendFinalize(plan), CUDNN_STATUS_SUCCESS);
        const char kept = json[i];
        json[i] = '9';
        client_set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   (int64_t)length, json);
        (void)cudnnBackendFinalize(plan);
        json[i] = kept;
        CHECK_CUDNN(cudnnBackendDestroyDescriptor(plan));
    }
    free(json);
    client_drop(&owned);
}

/* Graphs of other kinds -------------------------------------------------------------------------
 */

static void a_matrix_product_plans_and_runs(void **state)
{
    (void)state;
    enum { B = 2, M = 3, K = 4, N = 5 };
    client_owned_t owned = {0};
    const int64_t dims[3][3] = {{B, M, K}, {B, K, N}, {B, M, N}};
    const int64_t strides[3][3] = {{M * K, K, 1}, {K * N, N, 1}, {M * N, N, 1}};
    const int64_t uids[3] = {1, 2, 3};
    const cudnnBackendAttributeName_t names[3] = {CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                                  CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                                                  CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = client_make(&owned, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    client_set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    CHECK_CUDNN(cudnnBackendFinalize(how));
    cudnnBackendDescriptor_t product =
        client_make(&owned, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    for (int i = 0; i < 3; i++)
        client_link(
            product, names[i],
            client_tensor(&owned, uids[i], CUDNN_DATA_FLOAT, 3, dims[i], strides[i], false));
    client_link(product, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    CHECK_CUDNN(cudnnBackendFinalize(product));
    cudnnBackendDescriptor_t whole = client_make(&owned, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    client_link(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, product);
    CHECK_CUDNN(cudnnBackendFinalize(whole));
    cudnnBackendDescriptor_t configs[CLIENT_CONFIGS];
    assert_int_equal(client_list(&owned, whole, NULL, CUDNN_HEUR_MODE_A, configs), 1);
    cudnnBackendDescriptor_t plan = client_plan(&owned, configs[0]);
    double a[B * M * K], b[B * K * N], c[B * M * N];
    client_random(CUDNN_DATA_FLOAT, 1, a, B * M * K);
    client_random(CUDNN_DATA_FLOAT, 2, b, B * K * N);
    void *pointers[3] = {client_upload(CUDNN_DATA_FLOAT, a, B * M * K),
                         client_upload(CUDNN_DATA_FLOAT, b, B * K * N),
                         client_allocate(B * M * N * sizeof(float), 0xff)};
    CHECK_CUDNN(cudnnBackendExecute(handle, plan, client_pack(&owned, 3, uids, pointers, NULL)));
    client_download(CUDNN_DATA_FLOAT, pointers[2], B * M * N, c);
    for (int i = 0; i < B * M * N; i++) {
        double sum = 0.0;
        for (int k = 0; k < K; k++)
            sum +=
                a[i / (M * N) * M * K + i / N % M * K + k] * b[i / (M * N) * K * N + k * N + i % N];
        assert_true(fabs(sum - c[i]) < 1e-5);
    }
    for (int i = 0; i < 3; i++)
        client_free(pointers[i]);
    client_drop(&owned);
}

/* y = relu(x + bias) with no convolution. */
static void a_pointwise_chain_plans_and_runs(void **state)
{
    (void)state;
    enum { N = 2, C = 3, H = 4, COUNT = N * C * H * H };
    client_owned_t owned = {0};
    const int64_t dims[4] = {N, C, H, H}, strides[4] = {C * H * H, H * H, H, 1};
    const int64_t bias_dims[4] = {1, C, 1, 1}, bias_strides[4] = {C, 1, 1, 1};
    const int64_t uids[3] = {1, 2, 3};
    cudnnBackendDescriptor_t tensors[4] = {
        client_tensor(&owned, 1, CUDNN_DATA_FLOAT, 4, dims, strides, false),
        client_tensor(&owned, 2, CUDNN_DATA_FLOAT, 4, bias_dims, bias_strides, false),
        client_tensor(&owned, 9, CUDNN_DATA_FLOAT, 4, dims, strides, true),
        client_tensor(&owned, 3, CUDNN_DATA_FLOAT, 4, dims, strides, false)};
    cudnnBackendDescriptor_t operations[2];
    static const cudnnPointwiseMode_t modes[2] = {CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_RELU_FWD};
    for (int i = 0; i < 2; i++) {
        cudnnBackendDescriptor_t how = client_make(&owned, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        client_set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &modes[i]);
        CHECK_CUDNN(cudnnBackendFinalize(how));
        operations[i] = client_make(&owned, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        client_link(operations[i], CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
        client_link(operations[i], CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors[i ? 2 : 0]);
        if (!i)
            client_link(operations[i], CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors[1]);
        client_link(operations[i], CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors[2 + i]);
        CHECK_CUDNN(cudnnBackendFinalize(operations[i]));
    }
    cudnnBackendDescriptor_t whole = client_make(&owned, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    client_set(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 2, operations);
    CHECK_CUDNN(cudnnBackendFinalize(whole));
    cudnnBackendDescriptor_t config = client_engine(&owned, whole, 0);
    assert_non_null(config);
    double x[COUNT], bias[C], y[COUNT];
    client_random(CUDNN_DATA_FLOAT, 1, x, COUNT);
    client_random(CUDNN_DATA_FLOAT, 2, bias, C);
    void *pointers[3] = {client_upload(CUDNN_DATA_FLOAT, x, COUNT),
                         client_upload(CUDNN_DATA_FLOAT, bias, C),
                         client_allocate(COUNT * sizeof(float), 0xff)};
    CHECK_CUDNN(cudnnBackendExecute(handle, client_plan(&owned, config),
                                    client_pack(&owned, 3, uids, pointers, NULL)));
    client_download(CUDNN_DATA_FLOAT, pointers[2], COUNT, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabs(y[i] - fmax(x[i] + bias[i / (H * H) % C], 0.0)) < 1e-6);
    for (int i = 0; i < 3; i++)
        client_free(pointers[i]);
    client_drop(&owned);
}

/* Execution -------------------------------------------------------------------------------------
 */

typedef struct ready {
    client_owned_t owned;
    problem_t problem;
    cudnnBackendDescriptor_t plan, pack;
    void *pointers[3], *workspace;
} ready_t;

static const int64_t xwy[] = {UID_X, UID_W, UID_Y};

static void make_ready(ready_t *ready, int64_t engine)
{
    memset(ready, 0, sizeof *ready);
    make_problem(&ready->problem, &shapes[0].graph);
    for (int i = 0; i < 3; i++)
        ready->pointers[i] =
            client_upload(CUDNN_DATA_FLOAT, ready->problem.values[i], ready->problem.spans[i]);
    ready->plan =
        client_plan(&ready->owned, client_engine(&ready->owned, ready->problem.whole, engine));
    ready->workspace = client_allocate((size_t)client_workspace(ready->plan), 0);
    ready->pack = client_pack(&ready->owned, 3, xwy, ready->pointers, ready->workspace);
}

static void drop_ready(ready_t *ready)
{
    for (int i = 0; i < 3; i++)
        client_free(ready->pointers[i]);
    client_free(ready->workspace);
    client_drop(&ready->owned);
    drop_problem(&ready->problem);
}

static void execution_is_queued_on_the_handles_stream(void **state)
{
    (void)state;
    ready_t ready;
    CUstream stream;
    make_ready(&ready, 8);
    CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    CHECK_CUDA(cuCtxSynchronize());
    const uint64_t before = client_sim()->operations_run();
    for (int i = 0; i < 10; i++)
        CHECK_CUDNN(cudnnBackendExecute(handle, ready.plan, ready.pack));
    assert_true(client_sim()->operations_run() == before);
    CHECK_CUDA(cuStreamSynchronize(stream));
    assert_true(client_sim()->operations_run() - before >= 20);
    CHECK_CUDNN(cudnnSetStream(handle, NULL));
    CHECK_CUDA(cuStreamDestroy(stream));
    drop_ready(&ready);
}

/* Captured once, replayed with other inputs: descriptors may be gone by then. */
static void a_captured_execution_replays(void **state)
{
    (void)state;
    ready_t ready;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    make_ready(&ready, 8);
    const size_t span = ready.problem.spans[2];
    CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_CUDNN(cudnnBackendExecute(handle, ready.plan, ready.pack));
    CHECK_CUDA(cuStreamEndCapture(stream, &graph));
    CHECK_CUDNN(cudnnSetStream(handle, NULL));
    CHECK_CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
    client_drop(&ready.owned);
    double *const wanted = expected(&ready.problem), *const result = malloc(span * sizeof *result);
    assert_non_null(result);
    CHECK_CUDA(cuMemsetD8((CUdeviceptr)(uintptr_t)ready.pointers[2], 0xff, span * sizeof(float)));
    CHECK_CUDA(cuCtxSynchronize());
    CHECK_CUDA(cuGraphLaunch(exec, stream));
    CHECK_CUDA(cuStreamSynchronize(stream));
    client_download(CUDNN_DATA_FLOAT, ready.pointers[2], span, result);
    assert_true(reference_relative_l2(&ready.problem.reference.y, wanted, result) < 1e-3);
    free(wanted);
    free(result);
    CHECK_CUDA(cuGraphExecDestroy(exec));
    CHECK_CUDA(cuGraphDestroy(graph));
    CHECK_CUDA(cuStreamDestroy(stream));
    drop_ready(&ready);
}

static void what_is_missing_is_refused(void **state)
{
    (void)state;
    ready_t ready;
    make_ready(&ready, 8);
    void *moved[3] = {(char *)ready.pointers[0] + 4, ready.pointers[1], ready.pointers[2]};
    CHECK_STATUS(
        cudnnBackendExecute(handle, ready.plan,
                            client_pack(&ready.owned, 2, xwy, ready.pointers, ready.workspace)),
        CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(cudnnBackendExecute(handle, ready.plan,
                                     client_pack(&ready.owned, 3, xwy, moved, ready.workspace)),
                 CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    CHECK_STATUS(cudnnBackendExecute(handle, ready.plan,
                                     client_pack(&ready.owned, 3, xwy, ready.pointers, NULL)),
                 CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CHECK_STATUS(cudnnBackendExecute(handle, ready.plan,
                                     client_pack(&ready.owned, 3, xwy, ready.pointers,
                                                 (char *)ready.workspace + 8)),
                 CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    CHECK_STATUS(cudnnBackendExecute(NULL, ready.plan, ready.pack), CUDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(cudnnBackendExecute(handle, ready.pack, ready.plan), CUDNN_STATUS_BAD_PARAM);
    drop_ready(&ready);
}

/* No engine claims that it can, so no client tries; one that does is told. */
static void cuda_graphs_are_not_populated(void **state)
{
    (void)state;
    ready_t ready;
    make_ready(&ready, 8);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(cudnnBackendPopulateCudaGraph(handle, ready.plan, ready.pack, NULL),
                     CUDNN_STATUS_NOT_SUPPORTED);
        CHECK_STATUS(cudnnBackendUpdateCudaGraph(handle, ready.plan, ready.pack, NULL),
                     CUDNN_STATUS_NOT_SUPPORTED);
        CHECK_CUDNN(cudnnBackendInitialize(ready.plan));
    }
    drop_ready(&ready);
}

/* The same numbers by both APIs where both have the algorithm. */
static void engine_and_algorithm_of_one_kind_agree_to_the_bit(void **state)
{
    (void)state;
    problem_t problem;
    make_problem(&problem, &shapes[0].graph);
    const reference_convolution_t *const r = &problem.reference;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&x));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&y));
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&w));
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, r->x.dims[0],
                                           r->x.dims[1], r->x.dims[3], r->x.dims[4]));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, r->y.dims[0],
                                           r->y.dims[1], r->y.dims[3], r->y.dims[4]));
    CHECK_CUDNN(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, r->w.dims[0],
                                           r->w.dims[1], r->w.dims[3], r->w.dims[4]));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CHECK_CUDNN(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
    void *pointers[3];
    for (int i = 0; i < 3; i++)
        pointers[i] = client_upload(CUDNN_DATA_FLOAT, problem.values[i], problem.spans[i]);
    const float one = 1.0f, zero = 0.0f;
    CHECK_CUDNN(cudnnConvolutionForward(handle, &one, x, pointers[0], w, pointers[1], convolution,
                                        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero, y,
                                        pointers[2]));
    client_owned_t owned = {0};
    int64_t bytes;
    double *const legacy = malloc(problem.spans[2] * sizeof *legacy);
    assert_non_null(legacy);
    client_download(CUDNN_DATA_FLOAT, pointers[2], problem.spans[2], legacy);
    double *const graph = run_config(&problem, client_engine(&owned, problem.whole, 0), &bytes);
    assert_memory_equal(legacy, graph, problem.spans[2] * sizeof *legacy);
    free(legacy);
    free(graph);
    for (int i = 0; i < 3; i++)
        client_free(pointers[i]);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(x));
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(y));
    CHECK_CUDNN(cudnnDestroyFilterDescriptor(w));
    CHECK_CUDNN(cudnnDestroyConvolutionDescriptor(convolution));
    client_drop(&owned);
    drop_problem(&problem);
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

/* With a name, that test alone. */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_equals_the_reference_in_fp32),
        cmocka_unit_test(every_engine_equals_the_reference_in_fp16),
        cmocka_unit_test(every_engine_equals_the_reference_in_bf16),
        cmocka_unit_test(every_engine_equals_the_reference_in_fp64),
        cmocka_unit_test(every_chain_equals_the_reference),
        cmocka_unit_test(a_backward_data_may_be_followed_by_relu),
        cmocka_unit_test(sixteen_bit_outputs_are_rounded_once),
        cmocka_unit_test(virtual_tensors_are_rounded_to_their_type),
        cmocka_unit_test(exactly_the_engines_without_the_note_repeat),
        cmocka_unit_test(engines_sum_in_different_orders),
        cmocka_unit_test(a_plan_fills_its_workspace_and_no_more),
        cmocka_unit_test(support_and_workspace_depend_on_batch_and_beta),
        cmocka_unit_test(an_image_does_not_depend_on_the_batch),
        cmocka_unit_test(lists_differ_in_order_and_end_with_what_always_works),
        cmocka_unit_test(times_repeat_and_tell_engines_apart),
        cmocka_unit_test(knobs_are_told_and_obeyed),
        cmocka_unit_test(a_plan_survives_its_json),
        cmocka_unit_test(broken_json_is_refused),
        cmocka_unit_test(a_matrix_product_plans_and_runs),
        cmocka_unit_test(a_pointwise_chain_plans_and_runs),
        cmocka_unit_test(execution_is_queued_on_the_handles_stream),
        cmocka_unit_test(a_captured_execution_replays),
        cmocka_unit_test(what_is_missing_is_refused),
        cmocka_unit_test(cuda_graphs_are_not_populated),
        cmocka_unit_test(engine_and_algorithm_of_one_kind_agree_to_the_bit),
    };
    return cmocka_run_group_tests(tests, create_handle, destroy_handle);
}
