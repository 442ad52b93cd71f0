/* A program whose convolutions want workspaces that memory may hold, but not beside what they work on:
 * tight_workspaces WHAT
 *   legacy   tries the algorithms of each direction, those with most workspace first, until one gets its
 *            workspace: what was allocated must then run
 *   kept     takes 22 MiB before anything else and runs all algorithms in it that need no more, as
 *            programs do that allocate once
 *   find     takes the same memory, has each direction searched in it, and runs all that was found to run
 *   graph    the same as legacy with the plans of the backend API
 *   halves   as PyTorch's benchmark: asks all plans, halves the largest workspace until it can be had,
 *            and the first three plans that fit must run in it; all that fit with MDNN_THOROUGH
 *   late     asks all plans and keeps the one with most workspace that runs; then it takes small memory
 *            that stays, and runs it again in a workspace of which it does not ask again
 *   tensors  asks for workspaces, takes none and runs; then tensors of the same sizes must be had
 *   first    as PyTorch without a search: takes the first plan of cuDNN's list that wants a mebibyte of workspace, asks
 *            nothing of others, and runs it several times; standard error says what it takes
 * Prints a sum of each result: of small integers, whose order of summation does not matter. Knows
 * nothing of microdnn. */
#include <string.h>

#include "docs/examples/graph.h"
#include "test/clients/bail.h"

enum { IMAGES = 128, CHANNELS = 4, SIDE = 48, FILTER = 3, MOST = 32, DIRECTIONS = 3 };
enum {
    TENSOR = IMAGES * CHANNELS * SIDE * SIDE,
    WEIGHTS = CHANNELS * CHANNELS * FILTER * FILTER,
    KEPT_BYTES = 22 << 20
};

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor;
static cudnnFilterDescriptor_t filter;
static cudnnConvolutionDescriptor_t convolution;
static float *x, *y, *w;
static float host[TENSOR];

enum { FILLED = 3 };

/* Numbers are made once for each seed, from 1. */
static void fill(float *memory, int count, unsigned seed)
{
    static float numbers[FILLED][TENSOR];
    static bool made[FILLED];
    float *const from = numbers[seed - 1];
    unsigned state = seed;
    for (int i = 0; i < count && !made[seed - 1]; i++) {
        state = state * 1664525U + 1013904223U;
        from[i] = (float)(state >> 30) - 1;
    }
    made[seed - 1] = true;
    CUDA(cudaMemcpy(memory, from, (size_t)count * sizeof *from, cudaMemcpyHostToDevice));
}

static void fill_all(void)
{
    fill(x, TENSOR, 1);
    fill(y, TENSOR, 2);
    fill(w, WEIGHTS, 3);
}

static void print_sum(int direction)
{
    const float *const written[DIRECTIONS] = {y, x, w};
    const int count = direction == 2 ? WEIGHTS : TENSOR;
    double sum = 0;
    CUDA(
        cudaMemcpy(host, written[direction], (size_t)count * sizeof *host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++)
        sum += (double)host[i] * (i % 17 + 1);
    printf("direction %d: %.0f\n", direction, sum);
}

static void open_all(void)
{
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnCreateTensorDescriptor(&tensor));
    CUDNN(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, IMAGES, CHANNELS,
                                     SIDE, SIDE));
    CUDNN(cudnnCreateFilterDescriptor(&filter));
    CUDNN(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CHANNELS,
                                     CHANNELS, FILTER, FILTER));
    CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
    CUDNN(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CUDA(cudaMalloc((void **)&x, TENSOR * sizeof *x));
    CUDA(cudaMalloc((void **)&y, TENSOR * sizeof *y));
    CUDA(cudaMalloc((void **)&w, WEIGHTS * sizeof *w));
}

typedef struct choice {
    int algorithm;
    cudnnBackendDescriptor_t plan;
    size_t bytes;
} choice_t;

static int compare(const void *a, const void *b)
{
    const size_t first = ((const choice_t *)a)->bytes, second = ((const choice_t *)b)->bytes;
    return first < second ? 1 : first > second ? -1 : 0;
}

/* NULL: it is not to be had. */
static void *workspace_of(size_t bytes)
{
    void *workspace = NULL;
    if (cudaMalloc(&workspace, bytes) == cudaSuccess)
        return workspace;
    (void)cudaGetLastError();
    return NULL;
}

/* ---- the legacy API ---- */

/* The three results have one layout. */
static int list(int direction, choice_t *choices)
{
    cudnnConvolutionFwdAlgoPerf_t found[MOST];
    int count = 0, kept = 0;
    if (direction == 0)
        CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle, tensor, filter, convolution, tensor,
                                                     MOST, &count, found));
    else if (direction == 1)
        CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filter, tensor, convolution,
                                                          tensor, MOST, &count, (void *)found));
    else
        CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, tensor, tensor, convolution,
                                                            filter, MOST, &count, (void *)found));
    for (int i = 0; i < count; i++)
        if (found[i].status == CUDNN_STATUS_SUCCESS)
            choices[kept++] = (choice_t){(int)found[i].algo, NULL, found[i].memory};
    qsort(choices, (size_t)kept, sizeof *choices, compare);
    return kept;
}

static void run(int direction, int algorithm, void *workspace, size_t bytes)
{
    const float one = 1, zero = 0;
    if (direction == 0)
        CUDNN(cudnnConvolutionForward(handle, &one, tensor, x, filter, w, convolution,
                                      (cudnnConvolutionFwdAlgo_t)algorithm, workspace, bytes, &zero,
                                      tensor, y));
    else if (direction == 1)
        CUDNN(cudnnConvolutionBackwardData(handle, &one, filter, w, tensor, y, convolution,
                                           (cudnnConvolutionBwdDataAlgo_t)algorithm, workspace,
                                           bytes, &zero, tensor, x));
    else
        CUDNN(cudnnConvolutionBackwardFilter(handle, &one, tensor, x, tensor, y, convolution,
                                             (cudnnConvolutionBwdFilterAlgo_t)algorithm, workspace,
                                             bytes, &zero, filter, w));
}

static void try_algorithms(int direction)
{
    choice_t choices[MOST];
    const int count = list(direction, choices);
    void *workspace = NULL;
    int i = 0;
    fill_all();
    while (i < count && choices[i].bytes > 0 && !(workspace = workspace_of(choices[i].bytes)))
        i++;
    if (i == count)
        BAIL("no algorithm");
    run(direction, choices[i].algorithm, workspace, choices[i].bytes);
    print_sum(direction);
    CUDA(cudaFree(workspace));
    fprintf(stderr, "direction %d takes %zu bytes\n", direction, choices[i].bytes);
}

static void run_in_kept(int direction, void *workspace)
{
    choice_t choices[MOST];
    const int count = list(direction, choices);
    for (int i = 0; i < count; i++) {
        if (choices[i].bytes > KEPT_BYTES)
            continue;
        fill_all();
        run(direction, choices[i].algorithm, workspace, KEPT_BYTES);
        print_sum(direction);
    }
}

static int search(int direction, void *workspace, cudnnConvolutionFwdAlgoPerf_t *found)
{
    int count = 0;
    if (direction == 0)
        CUDNN(cudnnFindConvolutionForwardAlgorithmEx(handle, tensor, x, filter, w, convolution,
                                                     tensor, y, MOST, &count, found, workspace,
                                                     KEPT_BYTES));
    else if (direction == 1)
        CUDNN(cudnnFindConvolutionBackwardDataAlgorithmEx(handle, filter, w, tensor, y, convolution,
                                                          tensor, x, MOST, &count, (void *)found,
                                                          workspace, KEPT_BYTES));
    else
        CUDNN(cudnnFindConvolutionBackwardFilterAlgorithmEx(handle, tensor, x, tensor, y,
                                                            convolution, filter, w, MOST, &count,
                                                            (void *)found, workspace, KEPT_BYTES));
    return count;
}

static void search_in_kept(int direction, void *workspace)
{
    cudnnConvolutionFwdAlgoPerf_t found[MOST];
    const int count = search(direction, workspace, found);
    int ran = 0;
    for (int i = 0; i < count; i++) {
        if (found[i].status != CUDNN_STATUS_SUCCESS)
            continue;
        fill_all();
        run(direction, (int)found[i].algo, workspace, found[i].memory);
        print_sum(direction);
        ran++;
    }
    if (ran == 0)
        BAIL("nothing found");
}

static void take_tensors(int direction)
{
    choice_t choices[MOST];
    const int count = list(direction, choices);
    run(direction, 0, NULL, 0);
    for (int i = 0; i < count; i++) {
        void *other;
        if (choices[i].bytes == 0 || choices[i].bytes > KEPT_BYTES)
            continue;
        CUDA(cudaMalloc(&other, choices[i].bytes));
        CUDA(cudaMemset(other, 0, choices[i].bytes));
        CUDA(cudaFree(other));
    }
}

/* ---- the graph API ---- */

static cudnnBackendDescriptor_t add(graph_t *graph, int64_t uid, int n, int side)
{
    const graph_tensor_t added = {
        .uid = uid,
        .type = CUDNN_DATA_FLOAT,
        .count = 4,
        .dims = {n, CHANNELS, side, side},
        .strides = {(int64_t)CHANNELS * side * side, (int64_t)side * side, side, 1},
        .alignment = 16};
    return graph_add_tensor(graph, &added);
}

static int list_configs(graph_t *graph, int direction, graph_config_t *configs)
{
    const graph_convolution_t operation = {.direction = (graph_direction_t)direction,
                                           .mode = CUDNN_CROSS_CORRELATION,
                                           .compute = CUDNN_DATA_FLOAT,
                                           .spatial = 2,
                                           .pre_pads = {1, 1},
                                           .post_pads = {1, 1},
                                           .strides = {1, 1},
                                           .dilations = {1, 1},
                                           .alpha = 1};
    int count = 0;
    graph_init(graph);
    cudnnBackendDescriptor_t in = add(graph, 'x', IMAGES, SIDE);
    cudnnBackendDescriptor_t weights = add(graph, 'w', CHANNELS, FILTER);
    graph_add_convolution(graph, &operation, in, weights, add(graph, 'y', IMAGES, SIDE));
    CUDNN(graph_finalize(graph, handle));
    (void)graph_add_configs(graph, CUDNN_HEUR_MODE_INSTANT, NULL, configs, GRAPH_CONFIGS, &count);
    return graph_filter_configs(configs, count, graph_refused_notes(CUDNN_DATA_FLOAT, true, false));
}

static int list_plans(graph_t *graph, int direction, choice_t *choices)
{
    static graph_config_t configs[GRAPH_CONFIGS];
    const int count = list_configs(graph, direction, configs);
    int kept = 0;
    for (int i = 0; i < count && kept < MOST; i++) {
        choice_t *const choice = &choices[kept];
        if (graph_create_plan(handle, &configs[i], &choice->plan) != CUDNN_STATUS_SUCCESS)
            continue;
        CUDNN(graph_plan_workspace(choice->plan, &choice->bytes));
        kept++;
    }
    graph_free_configs(configs, count);
    qsort(choices, (size_t)kept, sizeof *choices, compare);
    return kept;
}

static void execute(const choice_t *choice, void *workspace)
{
    graph_pack_t pack = {.workspace = choice->bytes ? workspace : NULL};
    graph_bind(&pack, 'x', x);
    graph_bind(&pack, 'y', y);
    graph_bind(&pack, 'w', w);
    CUDNN(graph_execute(handle, choice->plan, &pack));
}

static void close_plans(graph_t *graph, const choice_t *choices, int count)
{
    for (int i = 0; i < count; i++)
        CUDNN(cudnnBackendDestroyDescriptor(choices[i].plan));
    graph_fini(graph);
}

/* The first from `*i` on whose workspace is to be had. */
static void *take_plan(const choice_t *choices, int count, int *i)
{
    for (; *i < count; (*i)++) {
        void *const workspace = choices[*i].bytes > 0 ? workspace_of(choices[*i].bytes) : NULL;
        if (workspace || choices[*i].bytes == 0)
            return workspace;
    }
    BAIL("no plan");
}

static void run_late(int direction)
{
    enum { SMALL = 14, SMALL_BYTES = 1 << 19, TURNS = 2 };
    choice_t choices[MOST] = {0};
    graph_t graph;
    void *small[SMALL];
    const int count = list_plans(&graph, direction, choices);
    int i = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        fill_all();
        void *const workspace = take_plan(choices, count, &i);
        execute(&choices[i], workspace);
        print_sum(direction);
        fprintf(stderr, "direction %d takes %zu bytes\n", direction, choices[i].bytes);
        CUDA(cudaFree(workspace));
        for (int j = 0; turn == 0 && j < SMALL; j++)
            CUDA(cudaMalloc(&small[j], SMALL_BYTES));
    }
    for (int j = 0; j < SMALL; j++)
        CUDA(cudaFree(small[j]));
    close_plans(&graph, choices, count);
}

static void try_plans(int direction, bool halves)
{
    enum { FEW = 3 }; /* of those that are left */
    int left = getenv("MDNN_THOROUGH") ? MOST : FEW;
    choice_t choices[MOST] = {0};
    graph_t graph;
    const int count = list_plans(&graph, direction, choices);
    size_t bytes = count > 0 ? choices[0].bytes : 0;
    void *workspace = NULL;
    int i = 0;
    fill_all();
    while (halves && bytes > 0 && !(workspace = workspace_of(bytes)))
        bytes /= 2;
    if (!halves)
        workspace = take_plan(choices, count, &i);
    for (int last = halves ? count : i + 1; i < last && left > 0; i++) {
        if (halves && choices[i].bytes > bytes)
            continue;
        left--;
        fill_all();
        execute(&choices[i], workspace);
        print_sum(direction);
        fprintf(stderr, "direction %d takes %zu bytes\n", direction, choices[i].bytes);
    }
    CUDA(cudaFree(workspace));
    close_plans(&graph, choices, count);
}

static choice_t first_plan(graph_t *graph, int direction)
{
    enum { LEAST = 1 << 20 };
    static graph_config_t configs[GRAPH_CONFIGS];
    choice_t choice = {0};
    const int count = list_configs(graph, direction, configs);
    for (int i = 0; i < count && !choice.plan; i++) {
        int64_t wanted = 0, found = 0;
        if (cudnnBackendGetAttribute(configs[i].descriptor, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &found,
                                     &wanted) != CUDNN_STATUS_SUCCESS ||
            wanted < LEAST)
            continue;
        CUDNN(graph_create_plan(handle, &configs[i], &choice.plan));
        CUDNN(graph_plan_workspace(choice.plan, &choice.bytes));
    }
    graph_free_configs(configs, count);
    if (!choice.plan)
        BAIL("no plan");
    return choice;
}

static void run_first(int direction)
{
    enum { RUNS = 8 };
    graph_t graph;
    cudaEvent_t begin, end;
    float ms;
    fill_all();
    const choice_t choice = first_plan(&graph, direction);
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    for (int run = 0; run < RUNS; run++) { /* a workspace for each */
        void *const workspace = choice.bytes > 0 ? workspace_of(choice.bytes) : NULL;
        if (choice.bytes > 0 && !workspace)
            BAIL("no workspace");
        CUDA(cudaEventRecord(begin, NULL));
        execute(&choice, workspace);
        CUDA(cudaEventRecord(end, NULL));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaFree(workspace));
    }
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    print_sum(direction);
    fprintf(stderr, "direction %d takes %zu bytes and %.0f us\n", direction, choice.bytes,
            (double)ms * 1e3);
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    close_plans(&graph, &choice, 1);
}

int main(int argc, char **argv)
{
    const char *const what = argc > 1 ? argv[1] : "";
    void *kept = NULL;
    open_all();
    if (strcmp(what, "kept") == 0 || strcmp(what, "find") == 0)
        CUDA(cudaMalloc(&kept, KEPT_BYTES));
    fill_all();
    for (int direction = 0; direction < DIRECTIONS; direction++)
        if (strcmp(what, "legacy") == 0)
            try_algorithms(direction);
        else if (strcmp(what, "kept") == 0)
            run_in_kept(direction, kept);
        else if (strcmp(what, "find") == 0)
            search_in_kept(direction, kept);
        else if (strcmp(what, "late") == 0)
            run_late(direction);
        else if (strcmp(what, "tensors") == 0)
            take_tensors(direction);
        else if (strcmp(what, "first") == 0)
            run_first(direction);
        else
            try_plans(direction, strcmp(what, "halves") == 0);
    return 0;
}
