/* Captures and graphs: what they name stays where it is as long as they can be launched. */
#include "config/log.h"
#include "shim/interpose/driver_names.h"
#include "shim/interpose/driver_nodes.h"
#include "shim/vmem/graph_memory.h"
#include "shim/vmem/kernel_tables.h"
#include "shim/vmem/launch_scan.h"

/* ---- captures ---- */

CUresult mdnn_hook_cuStreamBeginCapture(CUresult (*real)(CUstream), bool own_stream,
                                        CUstream stream)
{
    mdnn_virtual_capture_begins();
    const CUresult result = real(stream);
    mdnn_virtual_capture_began(stream, own_stream, NULL, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuStreamBeginCapture_v2(CUresult (*real)(CUstream, CUstreamCaptureMode),
                                           bool own_stream, CUstream stream,
                                           CUstreamCaptureMode mode)
{
    mdnn_virtual_capture_begins();
    const CUresult result = real(stream, mode);
    mdnn_virtual_capture_began(stream, own_stream, NULL, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuStreamBeginCaptureToGraph(
    CUresult (*real)(CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                     CUstreamCaptureMode),
    bool own_stream, CUstream stream, CUgraph graph, const CUgraphNode *after,
    const CUgraphEdgeData *edges, size_t after_count, CUstreamCaptureMode mode)
{
    mdnn_virtual_capture_begins();
    const CUresult result = real(stream, graph, after, edges, after_count, mode);
    mdnn_virtual_capture_began(stream, own_stream, graph, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuStreamEndCapture(CUresult (*real)(CUstream, CUgraph *), bool own_stream,
                                      CUstream stream, CUgraph *graph)
{
    const unsigned long long capture = mdnn_virtual_capture(stream, own_stream);
    const CUresult result = real(stream, graph);
    mdnn_virtual_capture_ended(stream, own_stream, capture, result == CUDA_SUCCESS ? *graph : NULL);
    return result;
}

/* ---- graphs and their executables ---- */

static CUresult instantiated(CUresult result, CUgraph graph, const CUgraphExec *executable,
                             unsigned long long flags)
{
    if (result != CUDA_SUCCESS)
        return result;
    mdnn_virtual_graph_instantiated(graph, *executable, flags);
    if (mdnn_graph_memory_instantiated(graph, *executable))
        return CUDA_SUCCESS;
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "memory that a graph allocates counts only when it is there: host memory is short");
    return CUDA_SUCCESS;
}

CUresult mdnn_hook_cuGraphInstantiate(CUresult (*real)(CUgraphExec *, CUgraph, CUgraphNode *,
                                                       char *, size_t),
                                      bool own_stream, CUgraphExec *executable, CUgraph graph,
                                      CUgraphNode *bad, char *text, size_t text_bytes)
{
    (void)own_stream;
    return instantiated(real(executable, graph, bad, text, text_bytes), graph, executable, 0);
}

CUresult mdnn_hook_cuGraphInstantiateWithFlags(CUresult (*real)(CUgraphExec *, CUgraph,
                                                                unsigned long long),
                                               bool own_stream, CUgraphExec *executable,
                                               CUgraph graph, unsigned long long flags)
{
    (void)own_stream;
    return instantiated(real(executable, graph, flags), graph, executable, flags);
}

CUresult mdnn_hook_cuGraphInstantiateWithParams(CUresult (*real)(CUgraphExec *, CUgraph,
                                                                 CUDA_GRAPH_INSTANTIATE_PARAMS *),
                                                bool own_stream, CUgraphExec *executable,
                                                CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *how)
{
    (void)own_stream;
    return instantiated(real(executable, graph, how), graph, executable, how ? how->flags : 0);
}

/* A failure may leave the executable partly updated. */
static CUresult updated(CUresult result, CUgraph graph, CUgraphExec executable)
{
    mdnn_virtual_executable_updated(graph, executable, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuGraphExecUpdate(CUresult (*real)(CUgraphExec, CUgraph, CUgraphNode *,
                                                      CUgraphExecUpdateResult *),
                                     bool own_stream, CUgraphExec executable, CUgraph graph,
                                     CUgraphNode *bad, CUgraphExecUpdateResult *verdict)
{
    (void)own_stream;
    return updated(real(executable, graph, bad, verdict), graph, executable);
}

CUresult mdnn_hook_cuGraphExecUpdate_v2(CUresult (*real)(CUgraphExec, CUgraph,
                                                         CUgraphExecUpdateResultInfo *),
                                        bool own_stream, CUgraphExec executable, CUgraph graph,
                                        CUgraphExecUpdateResultInfo *verdict)
{
    (void)own_stream;
    return updated(real(executable, graph, verdict), graph, executable);
}

/* A node is a copy of the graph `child` now. */
static void take_child(mdnn_node_owner_t owner, CUgraph child)
{
    mdnn_node_holds_t holds = {0};
    owner.holds = &holds;
    mdnn_virtual_node_child(owner, child);
    mdnn_virtual_node_made(owner, true);
}

CUresult mdnn_hook_cuGraphExecChildGraphNodeSetParams(CUresult (*real)(CUgraphExec, CUgraphNode,
                                                                       CUgraph),
                                                      bool own_stream, CUgraphExec executable,
                                                      CUgraphNode node, CUgraph child)
{
    (void)own_stream;
    const CUresult result = real(executable, node, child);
    if (result == CUDA_SUCCESS)
        take_child((mdnn_node_owner_t){.executable = executable}, child);
    return result;
}

CUresult mdnn_hook_cuGraphLaunch(CUresult (*real)(CUgraphExec, CUstream), bool own_stream,
                                 CUgraphExec executable, CUstream stream)
{
    mdnn_virtual_operation_t operation;
    mdnn_graph_growth_t growth;
    CUresult result = mdnn_graph_memory_begin(executable, &growth);
    if (result != CUDA_SUCCESS)
        return result;
    mdnn_virtual_operation(&operation, stream, own_stream);
    result = mdnn_virtual_name_graph(&operation, executable);
    operation.name = "a graph (cuGraphLaunch)";
    operation.follows = true;
    operation.may_wait = true;
    if (result == CUDA_SUCCESS)
        result = mdnn_virtual_begin(
            &operation, mdnn_driver_hash(MDNN_DRIVER_HASH_START, MDNN_DRIVER_cuGraphLaunch));
    if (result == CUDA_SUCCESS) {
        result = real(executable, stream);
        if (result == CUDA_SUCCESS)
            mdnn_virtual_graph_launched(executable, stream, own_stream);
        mdnn_virtual_end(&operation, result == CUDA_SUCCESS);
    }
    mdnn_graph_memory_end(&growth, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuGraphUpload(CUresult (*real)(CUgraphExec, CUstream), bool own_stream,
                                 CUgraphExec executable, CUstream stream)
{
    (void)own_stream;
    mdnn_graph_growth_t growth;
    CUresult result = mdnn_graph_memory_begin(executable, &growth);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(executable, stream);
    mdnn_graph_memory_end(&growth, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuGraphAddMemAllocNode(CUresult (*real)(CUgraphNode *, CUgraph,
                                                           const CUgraphNode *, size_t,
                                                           CUDA_MEM_ALLOC_NODE_PARAMS *),
                                          bool own_stream, CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *after, size_t after_count,
                                          CUDA_MEM_ALLOC_NODE_PARAMS *uses)
{
    (void)own_stream;
    mdnn_graph_memory_seen();
    return real(node, graph, after, after_count, uses);
}

CUresult mdnn_hook_cuDeviceGraphMemTrim(CUresult (*real)(CUdevice), bool own_stream,
                                        CUdevice device)
{
    (void)own_stream;
    const CUresult result = real(device);
    if (result == CUDA_SUCCESS)
        mdnn_graph_memory_trimmed(device);
    return result;
}

CUresult mdnn_hook_cuGraphExecDestroy(CUresult (*real)(CUgraphExec), bool own_stream,
                                      CUgraphExec executable)
{
    (void)own_stream;
    mdnn_graph_memory_executable_ends(executable);
    const uint64_t number = mdnn_virtual_executable_ends(executable);
    const CUresult result = real(executable);
    mdnn_virtual_executable_ended(executable, number, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuGraphDestroy(CUresult (*real)(CUgraph), bool own_stream, CUgraph graph)
{
    (void)own_stream;
    const uint64_t number = mdnn_virtual_graph_ends(graph);
    const CUresult result = real(graph);
    mdnn_virtual_graph_ended(graph, number, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuGraphClone(CUresult (*real)(CUgraph *, CUgraph), bool own_stream,
                                CUgraph *clone, CUgraph graph)
{
    (void)own_stream;
    const CUresult result = real(clone, graph);
    if (result == CUDA_SUCCESS)
        mdnn_virtual_graph_cloned(graph, *clone);
    return result;
}

CUresult mdnn_hook_cuGraphAddChildGraphNode(
    CUresult (*real)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph), bool own_stream,
    CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t after_count, CUgraph child)
{
    (void)own_stream;
    const CUresult result = real(node, graph, after, after_count, child);
    if (result == CUDA_SUCCESS)
        take_child((mdnn_node_owner_t){.graph = graph}, child);
    return result;
}

/* ---- nodes ---- */

static CUresult use(mdnn_node_owner_t owner, uint64_t address)
{
    return mdnn_virtual_owns(address) ? mdnn_virtual_node_operands(owner, address) : CUDA_SUCCESS;
}

typedef struct node_use {
    mdnn_node_owner_t owner;
    CUresult result;
} node_use_t;

static void use_visited(void *context, uint64_t address)
{
    node_use_t *const node = context;
    const CUresult result = use(node->owner, address);
    if (result != CUDA_SUCCESS)
        node->result = result;
}

static CUresult use_kernel(mdnn_node_owner_t owner, CUfunction function, void **parameters,
                           void **extra)
{
    node_use_t node = {owner, CUDA_SUCCESS};
    if (!function)
        return CUDA_SUCCESS;
    const mdnn_kernel_layout_t *const layout = mdnn_kernel_layout(function);
    if (!mdnn_launch_scan(layout, parameters, extra, use_visited, &node))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (layout && layout->table_count > 0 && node.result == CUDA_SUCCESS)
        mdnn_kernel_tables_written(layout, parameters, extra, true);
    return node.result;
}

CUresult mdnn_node_kernel_v1(mdnn_node_owner_t owner, const CUDA_KERNEL_NODE_PARAMS_v1 *uses)
{
    return uses ? use_kernel(owner, uses->func, uses->kernelParams, uses->extra) : CUDA_SUCCESS;
}

CUresult mdnn_node_kernel_v2(mdnn_node_owner_t owner, const CUDA_KERNEL_NODE_PARAMS_v2 *uses)
{
    if (!uses)
        return CUDA_SUCCESS;
    return use_kernel(owner, uses->func ? uses->func : (CUfunction)(void *)uses->kern,
                      uses->kernelParams, uses->extra);
}

/* What an operation of that kind would name: two at most. */
static CUresult use_named(mdnn_node_owner_t owner, mdnn_virtual_operation_t *operation)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < operation->name_count && result == CUDA_SUCCESS; i++)
        result = use(owner, operation->names[i].address);
    return result;
}

CUresult mdnn_node_copy(mdnn_node_owner_t owner, const CUDA_MEMCPY3D *uses)
{
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, NULL, false);
    MDNN_NAME_BOX_3D(&operation, uses)
    return use_named(owner, &operation);
}

CUresult mdnn_node_memset(mdnn_node_owner_t owner, const CUDA_MEMSET_NODE_PARAMS *uses)
{
    return uses ? use(owner, uses->dst) : CUDA_SUCCESS;
}

static CUresult use_values(mdnn_node_owner_t owner, const CUstreamBatchMemOpParams *list,
                           size_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; list && i < count && result == CUDA_SUCCESS; i++) {
        mdnn_virtual_operation_t operation;
        mdnn_virtual_operation(&operation, NULL, false);
        mdnn_name_values(&operation, &list[i], 1);
        result = use_named(owner, &operation);
    }
    return result;
}

CUresult mdnn_node_values(mdnn_node_owner_t owner, const CUDA_BATCH_MEM_OP_NODE_PARAMS *uses)
{
    return uses ? use_values(owner, uses->paramArray, uses->count) : CUDA_SUCCESS;
}

CUresult mdnn_node_any(mdnn_node_owner_t owner, const CUgraphNodeParams *uses)
{
    if (!uses)
        return CUDA_SUCCESS;
    switch (uses->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return use_kernel(
            owner, uses->kernel.func ? uses->kernel.func : (CUfunction)(void *)uses->kernel.kern,
            uses->kernel.kernelParams, uses->kernel.extra);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return mdnn_node_copy(owner, &uses->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return use(owner, uses->memset.dst);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return use_values(owner, uses->memOp.paramArray, uses->memOp.count);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        mdnn_graph_memory_seen();
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (uses->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
            mdnn_virtual_node_child(owner, uses->graph.graph);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

/* ---- nodes of any kind ---- */

/* Graphs that live in the new node from now on. */
static void join_parts(CUgraph graph, const CUgraphNodeParams *uses)
{
    if (uses->type == CU_GRAPH_NODE_TYPE_GRAPH &&
        uses->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
        mdnn_virtual_graph_joined(graph, uses->graph.graph);
    for (unsigned i = 0; uses->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < uses->conditional.size;
         i++)
        mdnn_virtual_graph_joined(graph, uses->conditional.phGraph_out[i]);
}

CUresult mdnn_hook_cuGraphAddNode(CUresult (*real)(CUgraphNode *, CUgraph, const CUgraphNode *,
                                                   size_t, CUgraphNodeParams *),
                                  bool own_stream, CUgraphNode *node, CUgraph graph,
                                  const CUgraphNode *after, size_t after_count,
                                  CUgraphNodeParams *uses)
{
    (void)own_stream;
    mdnn_node_holds_t holds = {0};
    const mdnn_node_owner_t owner = {.graph = graph, .holds = &holds};
    CUresult result = mdnn_node_any(owner, uses);
    if (result == CUDA_SUCCESS)
        result = real(node, graph, after, after_count, uses);
    mdnn_virtual_node_made(owner, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        join_parts(graph, uses);
    return result;
}

CUresult mdnn_hook_cuGraphAddNode_v2(CUresult (*real)(CUgraphNode *, CUgraph, const CUgraphNode *,
                                                      const CUgraphEdgeData *, size_t,
                                                      CUgraphNodeParams *),
                                     bool own_stream, CUgraphNode *node, CUgraph graph,
                                     const CUgraphNode *after, const CUgraphEdgeData *edges,
                                     size_t after_count, CUgraphNodeParams *uses)
{
    (void)own_stream;
    mdnn_node_holds_t holds = {0};
    const mdnn_node_owner_t owner = {.graph = graph, .holds = &holds};
    CUresult result = mdnn_node_any(owner, uses);
    if (result == CUDA_SUCCESS)
        result = real(node, graph, after, edges, after_count, uses);
    mdnn_virtual_node_made(owner, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        join_parts(graph, uses);
    return result;
}
