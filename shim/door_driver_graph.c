/* Captures and graphs: what they name stays where it is as long as they can be launched. */
#include "shim/driver_names.h"
#include "shim/driver_nodes.h"
#include "shim/launch_scan.h"

/* ---- captures ---- */

static CUresult begun(CUresult result)
{
    if (result != CUDA_SUCCESS)
        mdnn_virtual_capture_ended(0, NULL);
    return result;
}

CUresult mdnn_door_cuStreamBeginCapture(CUresult (*real)(CUstream), bool own_stream,
                                        CUstream stream)
{
    mdnn_virtual_capture_began(stream, own_stream);
    return begun(real(stream));
}

CUresult mdnn_door_cuStreamBeginCapture_v2(CUresult (*real)(CUstream, CUstreamCaptureMode),
                                           bool own_stream, CUstream stream,
                                           CUstreamCaptureMode mode)
{
    mdnn_virtual_capture_began(stream, own_stream);
    return begun(real(stream, mode));
}

CUresult mdnn_door_cuStreamBeginCaptureToGraph(
    CUresult (*real)(CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                     CUstreamCaptureMode),
    bool own_stream, CUstream stream, CUgraph graph, const CUgraphNode *after,
    const CUgraphEdgeData *edges, size_t after_count, CUstreamCaptureMode mode)
{
    mdnn_virtual_capture_began(stream, own_stream);
    return begun(real(stream, graph, after, edges, after_count, mode));
}

/* An invalidated capture has no id any more, but ends here all the same; one of another thread, or
 * with nowhere to put the graph, goes on. */
CUresult mdnn_door_cuStreamEndCapture(CUresult (*real)(CUstream, CUgraph *), bool own_stream,
                                      CUstream stream, CUgraph *graph)
{
    const unsigned long long capture = mdnn_virtual_capture(stream, own_stream);
    const CUresult result = real(stream, graph);
    if (result == CUDA_SUCCESS)
        mdnn_virtual_capture_ended(capture, *graph);
    else if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
             (capture && result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
              result != CUDA_ERROR_INVALID_VALUE))
        mdnn_virtual_capture_ended(capture, NULL);
    return result;
}

/* ---- graphs and their executables ---- */

static CUresult instantiated(CUresult result, CUgraph graph, const CUgraphExec *executable)
{
    if (result == CUDA_SUCCESS)
        mdnn_virtual_graph_instantiated(graph, *executable);
    return result;
}

CUresult mdnn_door_cuGraphInstantiate(CUresult (*real)(CUgraphExec *, CUgraph, CUgraphNode *,
                                                       char *, size_t),
                                      bool own_stream, CUgraphExec *executable, CUgraph graph,
                                      CUgraphNode *bad, char *text, size_t text_bytes)
{
    (void)own_stream;
    return instantiated(real(executable, graph, bad, text, text_bytes), graph, executable);
}

CUresult mdnn_door_cuGraphInstantiateWithFlags(CUresult (*real)(CUgraphExec *, CUgraph,
                                                                unsigned long long),
                                               bool own_stream, CUgraphExec *executable,
                                               CUgraph graph, unsigned long long flags)
{
    (void)own_stream;
    return instantiated(real(executable, graph, flags), graph, executable);
}

CUresult mdnn_door_cuGraphInstantiateWithParams(CUresult (*real)(CUgraphExec *, CUgraph,
                                                                 CUDA_GRAPH_INSTANTIATE_PARAMS *),
                                                bool own_stream, CUgraphExec *executable,
                                                CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *how)
{
    (void)own_stream;
    return instantiated(real(executable, graph, how), graph, executable);
}

/* Before the real call, which may leave the executable partly updated. */
CUresult mdnn_door_cuGraphExecUpdate(CUresult (*real)(CUgraphExec, CUgraph, CUgraphNode *,
                                                      CUgraphExecUpdateResult *),
                                     bool own_stream, CUgraphExec executable, CUgraph graph,
                                     CUgraphNode *bad, CUgraphExecUpdateResult *verdict)
{
    (void)own_stream;
    mdnn_virtual_graph_instantiated(graph, executable);
    return real(executable, graph, bad, verdict);
}

CUresult mdnn_door_cuGraphExecUpdate_v2(CUresult (*real)(CUgraphExec, CUgraph,
                                                         CUgraphExecUpdateResultInfo *),
                                        bool own_stream, CUgraphExec executable, CUgraph graph,
                                        CUgraphExecUpdateResultInfo *verdict)
{
    (void)own_stream;
    mdnn_virtual_graph_instantiated(graph, executable);
    return real(executable, graph, verdict);
}

CUresult mdnn_door_cuGraphExecChildGraphNodeSetParams(CUresult (*real)(CUgraphExec, CUgraphNode,
                                                                       CUgraph),
                                                      bool own_stream, CUgraphExec executable,
                                                      CUgraphNode node, CUgraph child)
{
    (void)own_stream;
    mdnn_virtual_graph_instantiated(child, executable);
    return real(executable, node, child);
}

CUresult mdnn_door_cuGraphLaunch(CUresult (*real)(CUgraphExec, CUstream), bool own_stream,
                                 CUgraphExec executable, CUstream stream)
{
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, stream, own_stream);
    mdnn_virtual_name_graph(&operation, executable);
    operation.name = "cuGraphLaunch";
    CUresult result = mdnn_virtual_begin(
        &operation, mdnn_driver_hash(MDNN_DRIVER_HASH_START, MDNN_DRIVER_cuGraphLaunch));
    if (result == CUDA_SUCCESS) {
        result = real(executable, stream);
        mdnn_virtual_end(&operation, result == CUDA_SUCCESS);
    }
    return result;
}

CUresult mdnn_door_cuGraphExecDestroy(CUresult (*real)(CUgraphExec), bool own_stream,
                                      CUgraphExec executable)
{
    (void)own_stream;
    mdnn_virtual_executable_destroyed(executable);
    return real(executable);
}

CUresult mdnn_door_cuGraphDestroy(CUresult (*real)(CUgraph), bool own_stream, CUgraph graph)
{
    (void)own_stream;
    mdnn_virtual_graph_destroyed(graph);
    return real(graph);
}

CUresult mdnn_door_cuGraphClone(CUresult (*real)(CUgraph *, CUgraph), bool own_stream,
                                CUgraph *clone, CUgraph graph)
{
    (void)own_stream;
    const CUresult result = real(clone, graph);
    if (result == CUDA_SUCCESS)
        mdnn_virtual_graph_cloned(graph, *clone);
    return result;
}

CUresult mdnn_door_cuGraphAddChildGraphNode(
    CUresult (*real)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph), bool own_stream,
    CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t after_count, CUgraph child)
{
    (void)own_stream;
    const CUresult result = real(node, graph, after, after_count, child);
    if (result == CUDA_SUCCESS)
        mdnn_virtual_graph_cloned(child, graph);
    return result;
}

/* ---- nodes ---- */

static CUresult use(CUgraph graph, uint64_t address)
{
    if (!mdnn_virtual_owns(address))
        return CUDA_SUCCESS;
    if (!graph)
        return mdnn_virtual_pin(address);
    mdnn_virtual_graph_named(graph, address);
    return CUDA_SUCCESS;
}

typedef struct node_use {
    CUgraph graph;
    CUresult result;
} node_use_t;

static void use_visited(void *context, uint64_t address)
{
    node_use_t *const node = context;
    const CUresult result = use(node->graph, address);
    if (result != CUDA_SUCCESS)
        node->result = result;
}

static CUresult use_kernel(CUgraph graph, CUfunction function, void **parameters, void **extra)
{
    node_use_t node = {graph, CUDA_SUCCESS};
    if (!function)
        return CUDA_SUCCESS;
    if (!mdnn_launch_scan(mdnn_kernel_layout(function), parameters, extra, use_visited, &node))
        return CUDA_ERROR_NOT_SUPPORTED;
    return node.result;
}

CUresult mdnn_node_kernel_v1(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS_v1 *uses)
{
    return uses ? use_kernel(graph, uses->func, uses->kernelParams, uses->extra) : CUDA_SUCCESS;
}

CUresult mdnn_node_kernel_v2(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS_v2 *uses)
{
    if (!uses)
        return CUDA_SUCCESS;
    return use_kernel(graph, uses->func ? uses->func : (CUfunction)(void *)uses->kern,
                      uses->kernelParams, uses->extra);
}

/* What an operation of that kind would name: two at most. */
static CUresult use_named(CUgraph graph, mdnn_virtual_operation_t *operation)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < operation->name_count && result == CUDA_SUCCESS; i++)
        result = use(graph, operation->names[i].address);
    return result;
}

CUresult mdnn_node_copy(CUgraph graph, const CUDA_MEMCPY3D *uses)
{
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, NULL, false);
    MDNN_NAME_BOX_3D(&operation, uses)
    return use_named(graph, &operation);
}

CUresult mdnn_node_memset(CUgraph graph, const CUDA_MEMSET_NODE_PARAMS *uses)
{
    return uses ? use(graph, uses->dst) : CUDA_SUCCESS;
}

static CUresult use_values(CUgraph graph, const CUstreamBatchMemOpParams *list, size_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; list && i < count && result == CUDA_SUCCESS; i++) {
        mdnn_virtual_operation_t operation;
        mdnn_virtual_operation(&operation, NULL, false);
        mdnn_name_values(&operation, &list[i], 1);
        result = use_named(graph, &operation);
    }
    return result;
}

CUresult mdnn_node_values(CUgraph graph, const CUDA_BATCH_MEM_OP_NODE_PARAMS *uses)
{
    return uses ? use_values(graph, uses->paramArray, uses->count) : CUDA_SUCCESS;
}

CUresult mdnn_node_any(CUgraph graph, const CUgraphNodeParams *uses)
{
    if (!uses)
        return CUDA_SUCCESS;
    switch (uses->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return use_kernel(
            graph, uses->kernel.func ? uses->kernel.func : (CUfunction)(void *)uses->kernel.kern,
            uses->kernel.kernelParams, uses->kernel.extra);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return mdnn_node_copy(graph, &uses->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return use(graph, uses->memset.dst);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return use_values(graph, uses->memOp.paramArray, uses->memOp.count);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (graph)
            mdnn_virtual_graph_cloned(uses->graph.graph, graph);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}
