/* A program that plans convolutions through cuDNN's backend API, in a way of its own for each: it knows
 * nothing of microdnn.
 *
 *   graph_search WAYS    a letter for each of several convolutions, all different:
 *                            s   searches: makes every plan, asks all workspaces, runs each plan twice
 *                                and keeps the fastest, as PyTorch's benchmark=True does
 *                            f   takes the first plan that can be made
 *                            a   asks as a search does, but takes the first plan without trying others
 *                            .   leaves this one out
 *
 * Then all of them run in turns, and `N us` says what the Nth one (from 1 on) takes in the last turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "docs/examples/graph.h"
#include "test/clients/bail.h"

enum { MOST = 16, TURNS = 6, IMAGES = 256, SIDE = 28, TENSOR_BYTES = 1 << 28 };

typedef struct layer {
    int channels;
    graph_t graph;
    graph_config_t configs[GRAPH_CONFIGS];
    int count;
    cudnnBackendDescriptor_t plan; /* that it keeps */
    size_t workspace_bytes;
} layer_t;

static cudnnHandle_t handle;
static cudaEvent_t begin, end;
static void *x, *w, *y, *workspace;
static size_t workspace_bytes;

static cudnnBackendDescriptor_t add_tensor(graph_t *graph, int64_t uid, int n, int c, int side)
{
    const graph_tensor_t tensor = {
        .uid = uid,
        .type = CUDNN_DATA_FLOAT,
        .count = 4,
        .dims = {n, c, side, side},
        .strides = {(int64_t)c * side * side, (int64_t)side * side, side, 1},
        .alignment = 16};
    return graph_add_tensor(graph, &tensor);
}

static void open_layer(layer_t *layer, int number)
{
    const graph_convolution_t operation = {.direction = GRAPH_FORWARD,
                                           .mode = CUDNN_CROSS_CORRELATION,
                                           .compute = CUDNN_DATA_FLOAT,
                                           .spatial = 2,
                                           .pre_pads = {1, 1},
                                           .post_pads = {1, 1},
                                           .strides = {1, 1},
                                           .dilations = {1, 1},
                                           .alpha = 1};
    layer->channels = 64 + 16 * number;
    graph_init(&layer->graph);
    cudnnBackendDescriptor_t in = add_tensor(&layer->graph, 'x', IMAGES, 128, SIDE);
    cudnnBackendDescriptor_t filter = add_tensor(&layer->graph, 'w', layer->channels, 128, 3);
    cudnnBackendDescriptor_t out = add_tensor(&layer->graph, 'y', IMAGES, layer->channels, SIDE);
    graph_add_convolution(&layer->graph, &operation, in, filter, out);
    CUDNN(graph_finalize(&layer->graph, handle));
    (void)graph_add_configs(&layer->graph, CUDNN_HEUR_MODE_INSTANT, NULL, layer->configs,
                            GRAPH_CONFIGS, &layer->count);
    (void)graph_add_configs(&layer->graph, CUDNN_HEUR_MODE_FALLBACK, NULL, layer->configs,
                            GRAPH_CONFIGS, &layer->count);
    layer->count = graph_filter_configs(layer->configs, layer->count,
                                        graph_refused_notes(CUDNN_DATA_FLOAT, true, false));
}

/* Milliseconds; negative if the plan does not run. */
static float run(cudnnBackendDescriptor_t plan, size_t bytes)
{
    graph_pack_t pack = {.workspace = bytes ? workspace : NULL};
    float ms = -1;
    graph_bind(&pack, 'x', x);
    graph_bind(&pack, 'y', y);
    graph_bind(&pack, 'w', w);
    CUDA(cudaEventRecord(begin, 0));
    const cudnnStatus_t status = graph_execute(handle, plan, &pack);
    CUDA(cudaEventRecord(end, 0));
    CUDA(cudaEventSynchronize(end));
    if (status == CUDNN_STATUS_SUCCESS)
        CUDA(cudaEventElapsedTime(&ms, begin, end));
    return ms;
}

/* NULL if it cannot be made, or takes more than there is. */
static cudnnBackendDescriptor_t make_plan(const layer_t *layer, int i, size_t *bytes)
{
    cudnnBackendDescriptor_t plan;
    if (graph_create_plan(handle, &layer->configs[i], &plan) != CUDNN_STATUS_SUCCESS)
        return NULL;
    CUDNN(graph_plan_workspace(plan, bytes));
    if (*bytes <= workspace_bytes)
        return plan;
    CUDNN(cudnnBackendDestroyDescriptor(plan));
    return NULL;
}

/* The fastest plan, or the first one if none is tried. */
static void take_best(layer_t *layer, bool tries)
{
    cudnnBackendDescriptor_t plans[GRAPH_CONFIGS];
    size_t bytes[GRAPH_CONFIGS];
    float best_ms = -1;
    for (int i = 0; i < layer->count; i++)
        plans[i] = make_plan(layer, i, &bytes[i]);
    for (int i = 0; i < layer->count; i++) {
        float ms = plans[i] && tries ? run(plans[i], bytes[i]) : -1;
        if (ms >= 0)
            ms = run(plans[i], bytes[i]);
        if (plans[i] && (!layer->plan || (ms >= 0 && ms < best_ms))) {
            best_ms = ms;
            layer->plan = plans[i];
            layer->workspace_bytes = bytes[i];
        }
    }
    for (int i = 0; i < layer->count; i++)
        if (plans[i] && plans[i] != layer->plan)
            CUDNN(cudnnBackendDestroyDescriptor(plans[i]));
}

static void take_first(layer_t *layer)
{
    for (int i = 0; i < layer->count && !layer->plan; i++)
        layer->plan = make_plan(layer, i, &layer->workspace_bytes);
}

static void plan_layer(layer_t *layer, char way)
{
    if (way == 'f')
        take_first(layer);
    else
        take_best(layer, way == 's');
    if (!layer->plan || run(layer->plan, layer->workspace_bytes) < 0)
        BAIL("no plan");
}

static void close_layer(layer_t *layer)
{
    CUDNN(cudnnBackendDestroyDescriptor(layer->plan));
    graph_free_configs(layer->configs, layer->count);
    graph_fini(&layer->graph);
}

static void prepare(void)
{
    size_t total;
    CUDNN(cudnnCreate(&handle));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaMalloc(&x, TENSOR_BYTES));
    CUDA(cudaMalloc(&w, TENSOR_BYTES));
    CUDA(cudaMalloc(&y, TENSOR_BYTES));
    CUDA(cudaMemGetInfo(&workspace_bytes, &total));
    workspace_bytes /= 4;
    CUDA(cudaMalloc(&workspace, workspace_bytes));
}

int main(int argc, char **argv)
{
    static layer_t layers[MOST];
    const char *const ways = argc == 2 ? argv[1] : "";
    const int count = (int)strlen(ways);
    if (count == 0 || count > MOST)
        BAIL("usage: graph_search WAYS");
    prepare();
    for (int i = 0; i < count; i++)
        if (ways[i] != '.') {
            open_layer(&layers[i], i);
            plan_layer(&layers[i], ways[i]);
        }
    for (int turn = 1; turn <= TURNS; turn++)
        for (int i = 0; i < count; i++) {
            const float ms = layers[i].plan ? run(layers[i].plan, layers[i].workspace_bytes) : 0;
            if (turn == TURNS && layers[i].plan)
                printf("%d %.1f us\n", i + 1, 1e3 * (double)ms);
        }
    for (int i = 0; i < count; i++)
        if (layers[i].plan)
            close_layer(&layers[i]);
    return 0;
}
