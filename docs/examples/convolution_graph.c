/* Convolutions through cuDNN's graph interface, as PyTorch runs them: a graph of one operation for
 * each direction, whose plans are tried in the heuristics' order or all timed. */
#include "convolution.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph.h"

typedef struct state {
    cudnnBackendDescriptor_t plans[DIRECTION_COUNT]; /* NULL: none yet */
} state_t;

/* What the heuristics offer for one direction. */
typedef struct offer {
    graph_config_t configs[GRAPH_CONFIGS];
    cudnnBackendDescriptor_t plans[GRAPH_CONFIGS]; /* NULL: cannot be made, or needs too much */
    size_t workspace_bytes[GRAPH_CONFIGS];
    int count;
} offer_t;

static void *zeroed(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        fail("out of memory");
    return memory;
}

static void init(convolution_t *convolution)
{
    convolution->state = zeroed(sizeof(state_t));
}

static void fini(convolution_t *convolution)
{
    state_t *state = convolution->state;
    for (int direction = 0; direction < DIRECTION_COUNT; direction++)
        if (state->plans[direction])
            CUDNN_CHECK(cudnnBackendDestroyDescriptor(state->plans[direction]));
    free(state);
}

/* ---- the graph ---- */

/* The largest power of two, at most 32, that divides the address. */
static int64_t alignment_of(const void *pointer)
{
    int64_t alignment = 1;
    while (alignment < 32 && (uintptr_t)pointer % (uintptr_t)(2 * alignment) == 0)
        alignment *= 2;
    return alignment;
}

static graph_tensor_t describe(const convolution_t *convolution, int64_t uid, const void *pointer,
                               const int dims[4])
{
    graph_tensor_t tensor = {.uid = uid,
                             .type = convolution_element_type(convolution->type),
                             .count = 4,
                             .alignment = alignment_of(pointer)};
    const int nchw[] = {3, 2, 1, 0}, nhwc[] = {1, 3, 2, 0}; /* innermost first */
    const int *order = convolution->layout == LAYOUT_NHWC ? nhwc : nchw;
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        tensor.dims[order[i]] = dims[order[i]];
        tensor.strides[order[i]] = stride;
        stride *= dims[order[i]];
    }
    return tensor;
}

static void build(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                  const convolution_operands_t *operands, graph_t *graph)
{
    const convolution_shape_t *s = &convolution->shape;
    const graph_tensor_t x =
        describe(convolution, GRAPH_UID_X, operands->x, (const int[]){s->n, s->c, s->h, s->w});
    const graph_tensor_t w =
        describe(convolution, GRAPH_UID_W, operands->filter, (const int[]){s->k, s->c, s->r, s->s});
    const graph_tensor_t y = describe(convolution, GRAPH_UID_Y, operands->y,
                                      (const int[]){s->n, s->k, s->out_h, s->out_w});
    const graph_convolution_t operation = {.direction = (graph_direction_t)direction,
                                           .mode = CUDNN_CROSS_CORRELATION,
                                           .compute = CUDNN_DATA_FLOAT,
                                           .spatial = 2,
                                           .pre_pads = {s->pad_h, s->pad_w},
                                           .post_pads = {s->pad_h, s->pad_w},
                                           .strides = {s->stride, s->stride},
                                           .dilations = {1, 1},
                                           .alpha = 1,
                                           .beta = (double)convolution->choices[direction].beta};
    graph_init(graph);
    cudnnBackendDescriptor_t x_descriptor = graph_add_tensor(graph, &x);
    cudnnBackendDescriptor_t w_descriptor = graph_add_tensor(graph, &w);
    cudnnBackendDescriptor_t y_descriptor = graph_add_tensor(graph, &y);
    graph_add_convolution(graph, &operation, x_descriptor, w_descriptor, y_descriptor);
    if (graph_finalize(graph, gpu->cudnn) != CUDNN_STATUS_SUCCESS)
        fail("%s: %s: %s: %s", current_activity(), direction_name(direction), graph->failed,
             cudnnGetErrorString(graph->status));
}

/* ---- plans ---- */

/* Configurations of INSTANT, then FALLBACK, without those that the type or the user refuses. A list
 * that the heuristics fail to give is empty, as it is for PyTorch. */
static void list_configs(const graph_t *graph, const convolution_t *convolution,
                         const arguments_t *options, offer_t *offer)
{
    unsigned refused = graph_refused_notes(convolution_element_type(convolution->type),
                                           options->type == TYPE_TF32, options->deterministic);
    graph_add_configs(graph, CUDNN_HEUR_MODE_INSTANT, NULL, offer->configs, GRAPH_CONFIGS,
                      &offer->count);
    graph_add_configs(graph, CUDNN_HEUR_MODE_FALLBACK, NULL, offer->configs, GRAPH_CONFIGS,
                      &offer->count);
    offer->count = graph_filter_configs(offer->configs, offer->count, refused);
}

static void drop_plan(offer_t *offer, int i)
{
    if (offer->plans[i])
        CUDNN_CHECK(cudnnBackendDestroyDescriptor(offer->plans[i]));
    offer->plans[i] = NULL;
}

/* Makes the plan unless it needs more than `limit_bytes`. */
static void make_plan(gpu_t *gpu, offer_t *offer, int i, size_t limit_bytes)
{
    if (graph_create_plan(gpu->cudnn, &offer->configs[i], &offer->plans[i]) != CUDNN_STATUS_SUCCESS)
        return;
    if (graph_plan_workspace(offer->plans[i], &offer->workspace_bytes[i]) != CUDNN_STATUS_SUCCESS ||
        offer->workspace_bytes[i] > limit_bytes)
        drop_plan(offer, i);
}

static cudnnStatus_t execute(gpu_t *gpu, cudnnBackendDescriptor_t plan,
                             const convolution_operands_t *operands, void *workspace)
{
    graph_pack_t pack = {.workspace = workspace, .order = GRAPH_POINTERS_FIRST};
    graph_bind(&pack, GRAPH_UID_X, operands->x);
    graph_bind(&pack, GRAPH_UID_Y, operands->y);
    graph_bind(&pack, GRAPH_UID_W, operands->filter);
    return graph_execute(gpu->cudnn, plan, &pack);
}

/* Milliseconds of the last of `repeats` runs, since the first one includes the loading of kernels;
 * negative if the plan does not run. */
static float time_plan(gpu_t *gpu, cudnnBackendDescriptor_t plan,
                       const convolution_operands_t *operands, void *workspace, int repeats)
{
    cudaEvent_t begin, end;
    float ms = -1;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < repeats && status == CUDNN_STATUS_SUCCESS; i++) {
        CUDA_CHECK(cudaEventRecord(begin, gpu->stream));
        status = execute(gpu, plan, operands, workspace);
        CUDA_CHECK(cudaEventRecord(end, gpu->stream));
    }
    CUDA_CHECK(cudaEventSynchronize(end));
    if (status == CUDNN_STATUS_SUCCESS)
        CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    return ms;
}

/* Index of the fastest of all plans, or -1: PyTorch's benchmark. */
static int find_fastest(gpu_t *gpu, offer_t *offer, const convolution_operands_t *operands,
                        buffer_t scratch, int repeats, float *best_ms)
{
    int best = -1;
    for (int i = 0; i < offer->count; i++)
        make_plan(gpu, offer, i, scratch.bytes);
    for (int i = 0; i < offer->count; i++) {
        if (!offer->plans[i])
            continue;
        float ms = time_plan(gpu, offer->plans[i], operands,
                             offer->workspace_bytes[i] ? scratch.data : NULL, repeats);
        if (ms >= 0 && (best < 0 || ms < *best_ms)) {
            best = i;
            *best_ms = ms;
        }
    }
    return best;
}

/* Index of the first plan that runs, or -1: PyTorch without benchmark. */
static int find_first(gpu_t *gpu, offer_t *offer, const convolution_operands_t *operands,
                      buffer_t scratch)
{
    for (int i = 0; i < offer->count; i++) {
        make_plan(gpu, offer, i, scratch.bytes);
        if (offer->plans[i] &&
            execute(gpu, offer->plans[i], operands,
                    offer->workspace_bytes[i] ? scratch.data : NULL) == CUDNN_STATUS_SUCCESS)
            return i;
        drop_plan(offer, i);
    }
    return -1;
}

/* Keeps the plan for the convolution's calls. */
static void take_plan(convolution_t *convolution, direction_t direction, offer_t *offer, int i,
                      float ms)
{
    convolution_choice_t *choice = &convolution->choices[direction];
    const graph_config_t *config = &offer->configs[i];
    state_t *state = convolution->state;
    bool tensor_core = config->numerical & 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    state->plans[direction] = offer->plans[i];
    offer->plans[i] = NULL;
    choice->made = true;
    snprintf(choice->algorithm, sizeof choice->algorithm, "ENGINE_%lld_%d",
             (long long)config->engine, i);
    choice->math = tensor_core ? "tensor_op" : "fma";
    choice->workspace_bytes = offer->workspace_bytes[i];
    choice->search_ms = ms;
}

static void choose(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                   const convolution_operands_t *operands, buffer_t scratch,
                   const arguments_t *options)
{
    graph_t graph;
    offer_t *offer = zeroed(sizeof *offer);
    float ms = 0;
    build(gpu, convolution, direction, operands, &graph);
    list_configs(&graph, convolution, options, offer);
    int best = options->search == SEARCH_EXHAUSTIVE
                   ? find_fastest(gpu, offer, operands, scratch, options->find_repeats, &ms)
                   : find_first(gpu, offer, operands, scratch);
    if (best >= 0)
        take_plan(convolution, direction, offer, best, ms);
    for (int i = 0; i < offer->count; i++)
        drop_plan(offer, i);
    graph_free_configs(offer->configs, offer->count);
    graph_fini(&graph);
    free(offer);
}

static cudnnStatus_t run(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                         const convolution_operands_t *operands, buffer_t workspace)
{
    const state_t *state = convolution->state;
    return execute(gpu, state->plans[direction], operands,
                   convolution->choices[direction].workspace_bytes ? workspace.data : NULL);
}

const convolution_api_t convolution_graph = {init, fini, choose, run};
