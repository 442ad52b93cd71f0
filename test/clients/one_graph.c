#include "test/clients/one_graph.h"

enum { BATCH = 24, IN = 3, OUT = 4, SIDE = 6, KERNEL = 3 };
enum { X_COUNT = BATCH * IN * SIDE * SIDE, W_COUNT = OUT * IN * KERNEL * KERNEL };
enum { Y_COUNT = BATCH * OUT * SIDE * SIDE };
enum { OWNED = 16 };

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            return __LINE__;                                                                       \
    } while (0)
#define SET(descriptor, name, type, count, values)                                                 \
    TRY(api->cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_##name, CUDNN_TYPE_##type, count,     \
                                      values))
#define MADE(descriptor, type)                                                                     \
    TRY(api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_##type##_DESCRIPTOR, &(descriptor)));      \
    owned[(*count)++] = (descriptor)

typedef struct work {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t tensors[3], graph, configuration, plan;
    void *data[3], *workspace; /* x, w, y */
} work_t;

static const int64_t uids[] = {'x', 'w', 'y'};

static int make_tensor(const graph_api_t *api, work_t *work, int which,
                       cudnnBackendDescriptor_t *owned, int *count)
{
    static const int64_t dims[3][4] = {
        {BATCH, IN, SIDE, SIDE}, {OUT, IN, KERNEL, KERNEL}, {BATCH, OUT, SIDE, SIDE}};
    const int64_t *const dim = dims[which], alignment = 16;
    const int64_t strides[] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t tensor;
    MADE(tensor, TENSOR);
    SET(tensor, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    SET(tensor, TENSOR_DIMENSIONS, INT64, 4, dim);
    SET(tensor, TENSOR_STRIDES, INT64, 4, strides);
    SET(tensor, TENSOR_UNIQUE_ID, INT64, 1, &uids[which]);
    SET(tensor, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
    TRY(api->cudnnBackendFinalize(tensor));
    work->tensors[which] = tensor;
    return 0;
}

static int make_graph(const graph_api_t *api, work_t *work, cudnnBackendDescriptor_t *owned,
                      int *count)
{
    const int64_t ones[] = {1, 1}, spatial = 2;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const float one = 1.0F, zero = 0.0F;
    cudnnBackendDescriptor_t convolution, operation;
    for (int i = 0; i < 3; i++)
        TRY(make_tensor(api, work, i, owned, count));
    MADE(convolution, CONVOLUTION);
    SET(convolution, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type);
    SET(convolution, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    SET(convolution, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &spatial);
    SET(convolution, CONVOLUTION_PRE_PADDINGS, INT64, 2, ones);
    SET(convolution, CONVOLUTION_POST_PADDINGS, INT64, 2, ones);
    SET(convolution, CONVOLUTION_DILATIONS, INT64, 2, ones);
    SET(convolution, CONVOLUTION_FILTER_STRIDES, INT64, 2, ones);
    TRY(api->cudnnBackendFinalize(convolution));
    MADE(operation, OPERATION_CONVOLUTION_FORWARD);
    SET(operation, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, BACKEND_DESCRIPTOR, 1, &convolution);
    SET(operation, OPERATION_CONVOLUTION_FORWARD_X, BACKEND_DESCRIPTOR, 1, &work->tensors[0]);
    SET(operation, OPERATION_CONVOLUTION_FORWARD_W, BACKEND_DESCRIPTOR, 1, &work->tensors[1]);
    SET(operation, OPERATION_CONVOLUTION_FORWARD_Y, BACKEND_DESCRIPTOR, 1, &work->tensors[2]);
    SET(operation, OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT, 1, &one);
    SET(operation, OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT, 1, &zero);
    TRY(api->cudnnBackendFinalize(operation));
    MADE(work->graph, OPERATIONGRAPH);
    SET(work->graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &work->handle);
    SET(work->graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &operation);
    TRY(api->cudnnBackendFinalize(work->graph));
    return 0;
}

/* The one that the heuristics recommend where everything else fails: it needs no workspace. */
static int make_plan(const graph_api_t *api, work_t *work, cudnnBackendDescriptor_t *owned,
                     int *count)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_FALLBACK;
    cudnnBackendDescriptor_t heuristics;
    int64_t found = 0;
    MADE(heuristics, ENGINEHEUR);
    SET(heuristics, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &work->graph);
    SET(heuristics, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    TRY(api->cudnnBackendFinalize(heuristics));
    MADE(work->configuration, ENGINECFG);
    TRY(api->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found,
                                      &work->configuration));
    MADE(work->plan, EXECUTION_PLAN);
    SET(work->plan, EXECUTION_PLAN_HANDLE, HANDLE, 1, &work->handle);
    SET(work->plan, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &work->configuration);
    TRY(api->cudnnBackendFinalize(work->plan));
    return 0;
}

static int execute(const graph_api_t *api, work_t *work, cudnnBackendDescriptor_t *owned,
                   int *count)
{
    cudnnBackendDescriptor_t pack;
    int64_t bytes = 0, one;
    TRY(api->cudnnBackendGetAttribute(work->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                      CUDNN_TYPE_INT64, 1, &one, &bytes));
    if (bytes > 0)
        TRY(api->cudaMalloc(&work->workspace, (size_t)bytes));
    MADE(pack, VARIANT_PACK);
    SET(pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 3, work->data);
    SET(pack, VARIANT_PACK_UNIQUE_IDS, INT64, 3, uids);
    SET(pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &work->workspace);
    TRY(api->cudnnBackendFinalize(pack));
    TRY(api->cudnnBackendExecute(work->handle, work->plan, pack));
    TRY(api->cudaDeviceSynchronize());
    return 0;
}

static void fill(float *values, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)(seed >> 24) / 256.0F - 0.5F;
    }
}

int one_graph(const graph_api_t *api, double *checksum)
{
    static float x[X_COUNT], w[W_COUNT], y[Y_COUNT];
    cudnnBackendDescriptor_t owned[OWNED];
    work_t work = {.workspace = NULL};
    int count = 0;
    fill(x, X_COUNT, 1);
    fill(w, W_COUNT, 2);
    TRY(api->cudnnCreate(&work.handle));
    TRY(api->cudaMalloc(&work.data[0], sizeof x));
    TRY(api->cudaMalloc(&work.data[1], sizeof w));
    TRY(api->cudaMalloc(&work.data[2], sizeof y));
    TRY(api->cudaMemcpy(work.data[0], x, sizeof x, cudaMemcpyHostToDevice));
    TRY(api->cudaMemcpy(work.data[1], w, sizeof w, cudaMemcpyHostToDevice));
    TRY(api->cudaMemset(work.data[2], 0xFF, sizeof y));
    TRY(make_graph(api, &work, owned, &count));
    TRY(make_plan(api, &work, owned, &count));
    TRY(execute(api, &work, owned, &count));
    TRY(api->cudaMemcpy(y, work.data[2], sizeof y, cudaMemcpyDeviceToHost));
    *checksum = 0;
    for (int i = 0; i < Y_COUNT; i++)
        *checksum += (double)y[i] * (double)(i % 17 + 1);
    while (count > 0)
        TRY(api->cudnnBackendDestroyDescriptor(owned[--count]));
    for (int i = 0; i < 3; i++)
        TRY(api->cudaFree(work.data[i]));
    TRY(api->cudaFree(work.workspace));
    TRY(api->cudnnDestroy(work.handle));
    return 0;
}
