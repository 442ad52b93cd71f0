/* Stream capture and graphs. A graph is a list of nodes, each after those that it follows; each
 * node knows the branch (captured stream) that it came from. An instance has one lane for each
 * branch, so a launch enqueues the nodes there and a mark in the launching stream that waits for
 * all of them. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

struct CUgraphNode_st {
    sim_work_t work;
    unsigned branch;
    sim_frontier_t follows;
};

struct CUgraph_st {
    struct CUgraphNode_st *nodes;
    unsigned count, branches;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
    const struct CUgraphNode_st *origin; /* of the graph that it was made from */
    bool frees_on_launch;                /* what the last launch allocated and nobody freed */
    sim_lane_t **lanes;
    sim_op_t *last; /* the mark of the last launch: launches of one instance are in order */
};

struct sim_capture {
    uint64_t id;
    CUgraph graph;
    CUstream origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool void_; /* invalidated */
    sim_capture_t *next;
};

static sim_capture_t *captures;
static _Thread_local CUstreamCaptureMode thread_mode; /* 0: global */

void sim_frontier_clear(sim_frontier_t *frontier)
{
    free(frontier->nodes);
    *frontier = (sim_frontier_t){0};
}

static void frontier_add(sim_frontier_t *frontier, unsigned node)
{
    for (unsigned i = 0; i < frontier->count; i++)
        if (frontier->nodes[i] == node)
            return;
    frontier->nodes = sim_resize(frontier->nodes, frontier->count + 1, sizeof *frontier->nodes);
    frontier->nodes[frontier->count++] = node;
}

static void frontier_join(sim_frontier_t *into, const sim_frontier_t *from)
{
    for (unsigned i = 0; i < from->count; i++)
        frontier_add(into, from->nodes[i]);
}

static void graph_clear(CUgraph graph)
{
    for (unsigned i = 0; i < graph->count; i++) {
        sim_work_clear(&graph->nodes[i].work);
        sim_frontier_clear(&graph->nodes[i].follows);
    }
    free(graph->nodes);
}

CUresult sim_capture_guard(void)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    for (sim_capture_t *each = captures; each; each = each->next) {
        bool here = pthread_equal(each->thread, pthread_self());
        bool strict = here ? each->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                           : each->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                 thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (strict) {
            each->void_ = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

CUresult sim_capture_guard_wait(CUcontext context, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (CUstream each = context->streams; each; each = each->next) {
        if (each->capture && (!stream || stream == each)) {
            each->capture->void_ = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

CUresult sim_capture_guard_legacy(CUstream legacy)
{
    CUresult result = CUDA_SUCCESS;
    for (CUstream each = legacy->context->streams; each; each = each->next) {
        if (each->capture && !(each->flags & CU_STREAM_NON_BLOCKING) &&
            each->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
            each->capture->void_ = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

static unsigned add_node(CUgraph graph, CUstream stream, sim_work_t *work)
{
    graph->nodes = sim_resize(graph->nodes, graph->count + 1, sizeof *graph->nodes);
    struct CUgraphNode_st *node = &graph->nodes[graph->count];
    *node = (struct CUgraphNode_st){.work = *work, .branch = stream->branch};
    *work = (sim_work_t){0};
    frontier_join(&node->follows, &stream->frontier);
    return graph->count++;
}

CUresult sim_capture_add(CUstream stream, sim_work_t *work)
{
    if (stream->capture->void_) {
        sim_work_clear(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    unsigned node = add_node(stream->capture->graph, stream, work);
    stream->frontier.count = 0;
    frontier_add(&stream->frontier, node);
    return CUDA_SUCCESS;
}

CUresult sim_capture_record(CUstream stream, CUevent event)
{
    if (stream->capture->void_)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    sim_frontier_clear(&event->frontier);
    frontier_join(&event->frontier, &stream->frontier);
    event->capture_id = stream->capture->id;
    return CUDA_SUCCESS;
}

static sim_capture_t *capture_of(CUevent event)
{
    sim_capture_t *each = event->capture_id ? captures : NULL;
    while (each && each->id != event->capture_id)
        each = each->next;
    return each;
}

bool sim_capture_holds(CUevent event)
{
    return capture_of(event) != NULL;
}

CUresult sim_capture_wait(CUstream stream, CUevent event, bool *done)
{
    sim_capture_t *capture = capture_of(event);
    if (!capture && !stream->capture)
        return CUDA_SUCCESS;
    *done = true;
    sim_capture_t *concerned = stream->capture ? stream->capture : capture;
    if (concerned->void_)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!capture || (stream->capture && stream->capture != capture)) {
        stream->capture->void_ = true;
        return capture ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!stream->capture) {
        stream->capture = capture;
        stream->branch = capture->graph->branches++;
    }
    frontier_join(&stream->frontier, &event->frontier);
    return CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode)
{
    CUstream stream;
    if ((uintptr_t)handle <= (uintptr_t)CU_STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    sim_capture_t *capture = sim_allocate(sizeof *capture);
    *capture = (sim_capture_t){.id = ++sim_engine.next_id,
                               .origin = stream,
                               .mode = mode,
                               .thread = pthread_self(),
                               .next = captures};
    capture->graph = sim_allocate(sizeof *capture->graph);
    capture->graph->branches = 1;
    captures = capture;
    stream->capture = capture;
    stream->branch = 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
          begin_capture(stream, mode))

static void mark_ancestors(const struct CUgraph_st *graph, unsigned node, bool *seen)
{
    if (seen[node])
        return;
    seen[node] = true;
    for (unsigned i = 0; i < graph->nodes[node].follows.count; i++)
        mark_ancestors(graph, graph->nodes[node].follows.nodes[i], seen);
}

/* Does the origin stream follow everything that the other streams captured? */
static bool all_joined(const sim_capture_t *capture)
{
    const struct CUgraph_st *graph = capture->graph;
    bool *seen = sim_allocate(graph->count * sizeof *seen);
    for (unsigned i = 0; i < capture->origin->frontier.count; i++)
        mark_ancestors(graph, capture->origin->frontier.nodes[i], seen);
    bool joined = true;
    for (unsigned i = 0; i < graph->count; i++)
        joined = joined && (seen[i] || graph->nodes[i].branch == 0);
    free(seen);
    return joined;
}

static void leave_capture(sim_capture_t *capture)
{
    for (CUcontext context = NULL; (context = sim_context_after(context));) {
        for (CUstream each = context->streams; each; each = each->next) {
            if (each->capture == capture) {
                each->capture = NULL;
                sim_frontier_clear(&each->frontier);
            }
        }
    }
    sim_capture_t **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

static CUresult end_capture(CUstream handle, CUgraph *out)
{
    CUstream stream;
    CUresult result = out ? sim_stream_resolve(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    sim_capture_t *capture = stream->capture;
    *out = NULL;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->void_)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result == CUDA_SUCCESS)
        *out = capture->graph;
    else
        graph_clear(capture->graph), free(capture->graph);
    leave_capture(capture);
    return result;
}

SIM_ENTRY(CONTEXT, cuStreamEndCapture, (CUstream stream, CUgraph *graph),
          end_capture(stream, graph))

static CUstreamCaptureStatus status_of(CUstream stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->void_ ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Asking about the legacy stream while another one captures is the one query that is an error, and
 * it makes no capture void. */
static CUresult resolve_to_ask(CUstream handle, CUstream *stream)
{
    CUcontext context = sim_current();
    if ((uintptr_t)handle > (uintptr_t)CU_STREAM_LEGACY)
        return sim_stream_resolve(handle, stream);
    *stream = context->legacy;
    for (CUstream each = context->streams; each; each = each->next)
        if (each->capture && !(each->flags & CU_STREAM_NON_BLOCKING))
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;
    CUresult result = status ? resolve_to_ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *status = status_of(stream);
    return result;
}

SIM_ENTRY(CONTEXT, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
          is_capturing(stream, status))

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph)
{
    CUstream stream;
    CUresult result = status ? resolve_to_ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    *status = status_of(stream);
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id)
        *id = stream->capture->id;
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph)
        *graph = stream->capture->graph;
    return CUDA_SUCCESS;
}

/* Nodes are not named outside: callers that ask for the dependencies themselves are refused. */
SIM_ENTRY(CONTEXT, cuStreamGetCaptureInfo_v2,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **dependencies, size_t *count),
          dependencies || count ? CUDA_ERROR_NOT_SUPPORTED
                                : capture_info(stream, status, id, graph))
SIM_ENTRY(CONTEXT, cuStreamGetCaptureInfo_v3,
          (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count),
          dependencies || edges || count ? CUDA_ERROR_NOT_SUPPORTED
                                         : capture_info(stream, status, id, graph))

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode),
          exchange_mode(mode))

static CUresult graph_get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < graph->count ? &graph->nodes[i] : NULL;
    *count = nodes && *count < graph->count ? *count : graph->count;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
          graph_get_nodes(graph, nodes, count))

CUresult sim_graph_add(CUgraph graph, const CUgraphNode *after, size_t after_count,
                       sim_work_t *work, CUgraphNode *out)
{
    sim_frontier_t follows = {0};
    for (size_t i = 0; i < after_count; i++) {
        if (after[i] < graph->nodes || after[i] >= graph->nodes + graph->count) {
            sim_frontier_clear(&follows);
            sim_work_clear(work);
            return CUDA_ERROR_INVALID_VALUE;
        }
        frontier_add(&follows, (unsigned)(after[i] - graph->nodes));
    }
    graph->branches = graph->branches ? graph->branches : 1;
    graph->nodes = sim_resize(graph->nodes, graph->count + 1, sizeof *graph->nodes);
    graph->nodes[graph->count] = (struct CUgraphNode_st){.work = *work, .follows = follows};
    *out = &graph->nodes[graph->count++]; /* until another node is added */
    return CUDA_SUCCESS;
}

static CUresult node_type(CUgraphNode node, CUgraphNodeType *type)
{
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->work.kind == SIM_ACQUIRE   ? CU_GRAPH_NODE_TYPE_MEM_ALLOC
            : node->work.kind == SIM_SUSPEND ? CU_GRAPH_NODE_TYPE_MEM_FREE
            : node->work.kind == SIM_KERNEL  ? CU_GRAPH_NODE_TYPE_KERNEL
            : node->work.kind == SIM_COPY    ? CU_GRAPH_NODE_TYPE_MEMCPY
            : node->work.kind == SIM_FILL    ? CU_GRAPH_NODE_TYPE_MEMSET
                                             : CU_GRAPH_NODE_TYPE_EMPTY;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *type),
          node_type(node, type))

static CUresult allocation_of(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *how)
{
    if (!node || !how || node->work.kind != SIM_ACQUIRE)
        return CUDA_ERROR_INVALID_VALUE;
    const sim_range_t *range = sim_map_find(node->work.destination);
    *how = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, range ? range->device : 0}},
        .bytesize = range ? range->bytes : 0,
        .dptr = node->work.destination};
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphMemAllocNodeGetParams,
          (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *how), allocation_of(node, how))

/* A child's nodes are the graph's own. */
SIM_ENTRY(CONTEXT, cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *graph),
          node &&graph ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE)

static CUresult graph_destroy(CUgraph graph)
{
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    graph_clear(graph);
    free(graph);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphDestroy, (CUgraph graph), graph_destroy(graph))

static void copy_nodes(struct CUgraph_st *into, const struct CUgraph_st *from)
{
    into->nodes = sim_resize(into->nodes, into->count + from->count, sizeof *into->nodes);
    for (unsigned i = 0; i < from->count; i++) {
        const struct CUgraphNode_st *node = &from->nodes[i];
        struct CUgraphNode_st *copy = &into->nodes[into->count + i];
        *copy = (struct CUgraphNode_st){.work = sim_work_copy(&node->work),
                                        .branch = into->branches + node->branch};
        for (unsigned j = 0; j < node->follows.count; j++)
            frontier_add(&copy->follows, into->count + node->follows.nodes[j]);
    }
    into->count += from->count;
    into->branches += from->branches;
}

static CUresult graph_instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    if (!out || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec exec = sim_allocate(sizeof *exec);
    exec->origin = graph->nodes;
    exec->frees_on_launch = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    copy_nodes(&exec->graph, graph);
    exec->lanes = sim_allocate(graph->branches * sizeof(sim_lane_t *));
    for (unsigned i = 0; i < graph->branches; i++)
        exec->lanes[i] = sim_lane_create(sim_current());
    *out = exec;
    return CUDA_SUCCESS;
}

static CUresult graph_create(CUgraph *out, unsigned flags)
{
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_allocate(sizeof **out);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphCreate, (CUgraph * graph, unsigned flags), graph_create(graph, flags))

static CUresult graph_clone(CUgraph *clone, CUgraph graph)
{
    if (!clone || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    *clone = sim_allocate(sizeof **clone);
    copy_nodes(*clone, graph);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphClone, (CUgraph * clone, CUgraph graph), graph_clone(clone, graph))

/* The child's nodes become the graph's own, beside what it has; the node that is given out is none
 * of them, and nothing can be asked about it. */
static CUresult add_child(CUgraphNode *node, CUgraph graph, size_t after_count, CUgraph child)
{
    static struct CUgraphNode_st nameless;
    if (!node || !graph || !child || graph == child)
        return CUDA_ERROR_INVALID_VALUE;
    if (after_count > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    copy_nodes(graph, child);
    *node = &nameless;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                  size_t after_count, CUgraph child)
{
    (void)after;
    SIM_CALL(SIM_NEED_CONTEXT, add_child(node, graph, after_count, child));
}

/* The other flags concern uploads, priorities and launches from the device. */
SIM_ENTRY(CONTEXT, cuGraphInstantiateWithFlags,
          (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
          graph_instantiate(exec, graph, flags))

static CUresult graph_exec_destroy(CUgraphExec exec)
{
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < exec->graph.branches; i++)
        sim_lane_release(exec->lanes[i]); /* what runs goes on */
    sim_op_drop(exec->last);
    graph_clear(&exec->graph);
    free(exec->lanes);
    free(exec);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphExecDestroy, (CUgraphExec exec), graph_exec_destroy(exec))

static bool same_shape(const struct CUgraph_st *a, const struct CUgraph_st *b)
{
    bool same = a->count == b->count && a->branches == b->branches;
    for (unsigned i = 0; same && i < a->count; i++) {
        const struct CUgraphNode_st *left = &a->nodes[i], *right = &b->nodes[i];
        same = left->work.kind == right->work.kind && left->branch == right->branch &&
               left->follows.count == right->follows.count &&
               (left->follows.count == 0 ||
                memcmp(left->follows.nodes, right->follows.nodes,
                       left->follows.count * sizeof *left->follows.nodes) == 0);
    }
    return same;
}

/* Nodes pair in the order in which they were captured. */
static CUresult graph_exec_update(CUgraphExec exec, CUgraph graph,
                                  CUgraphExecUpdateResultInfo *info)
{
    if (!exec || !graph || !info)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    if (!same_shape(&exec->graph, graph)) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    for (unsigned i = 0; i < graph->count; i++) {
        sim_work_clear(&exec->graph.nodes[i].work);
        exec->graph.nodes[i].work = sim_work_copy(&graph->nodes[i].work);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphExecUpdate_v2,
          (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
          graph_exec_update(exec, graph, info))

static CUresult replace_kernel(sim_work_t *work, const CUDA_KERNEL_NODE_PARAMS_v2 *uses)
{
    sim_work_t fresh;
    if (!uses || !uses->func || work->kind != SIM_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_work_kernel(&fresh, uses->func->kernel, uses->kernelParams, uses->extra);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work_clear(work);
    *work = fresh;
    return CUDA_SUCCESS;
}

/* `node` is of the graph that the instance was made from, which is still there. */
static CUresult set_kernel(CUgraphExec exec, CUgraphNode node,
                           const CUDA_KERNEL_NODE_PARAMS_v2 *uses)
{
    if (!exec || node < exec->origin || node >= exec->origin + exec->graph.count)
        return CUDA_ERROR_INVALID_VALUE;
    return replace_kernel(&exec->graph.nodes[node - exec->origin].work, uses);
}

SIM_ENTRY(CONTEXT, cuGraphKernelNodeSetParams_v2,
          (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *uses),
          node ? replace_kernel(&node->work, uses) : CUDA_ERROR_INVALID_VALUE)
SIM_ENTRY(CONTEXT, cuGraphExecKernelNodeSetParams_v2,
          (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *uses),
          set_kernel(exec, node, uses))

static void submit_nodes(CUgraphExec exec, sim_op_t *entry, sim_op_t **ops)
{
    const struct CUgraph_st *graph = &exec->graph;
    for (unsigned i = 0; i < graph->count; i++) {
        const sim_frontier_t *follows = &graph->nodes[i].follows;
        sim_op_t **needs = sim_allocate((follows->count + 1) * sizeof(sim_op_t *));
        needs[0] = entry;
        for (unsigned j = 0; j < follows->count; j++)
            needs[j + 1] = ops[follows->nodes[j]];
        sim_work_t work = sim_work_copy(&graph->nodes[i].work);
        ops[i] = sim_op_hold(
            sim_lane_add(exec->lanes[graph->nodes[i].branch], &work, needs, follows->count + 1));
        free(needs);
    }
}

/* May the graph's memory be allocated (again), and then it is. */
static bool allocate_memory(CUgraphExec exec)
{
    for (unsigned i = 0; i < exec->graph.count; i++)
        if (sim_graph_memory_is_live(&exec->graph.nodes[i].work) && !exec->frees_on_launch)
            return false;
    for (unsigned i = 0; i < exec->graph.count; i++)
        sim_graph_memory_launch(&exec->graph.nodes[i].work);
    return true;
}

static CUresult back_memory(CUgraphExec exec)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < exec->graph.count && result == CUDA_SUCCESS; i++)
        result = sim_graph_memory_back(&exec->graph.nodes[i].work);
    return result;
}

static CUresult graph_launch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    CUresult result = exec ? sim_stream_resolve(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture)
        return CUDA_ERROR_NOT_SUPPORTED; /* child graphs */
    result = back_memory(exec);
    if (result != CUDA_SUCCESS)
        return result;
    if (!allocate_memory(exec))
        return CUDA_ERROR_INVALID_VALUE;
    sim_clock_spend(sim_device(stream->context->device)->profile.launch_us);
    sim_work_t mark = {.kind = SIM_MARK};
    sim_op_t *entry = sim_op_hold(sim_stream_submit(stream, &mark, &exec->last, 1));
    sim_op_t **ops = sim_allocate(exec->graph.count * sizeof(sim_op_t *));
    submit_nodes(exec, entry, ops);
    mark = (sim_work_t){.kind = SIM_MARK};
    sim_op_t *exit_mark = sim_stream_submit(stream, &mark, ops, exec->graph.count);
    sim_op_drop(exec->last);
    exec->last = sim_op_hold(exit_mark);
    for (unsigned i = 0; i < exec->graph.count; i++)
        sim_op_drop(ops[i]);
    free(ops);
    sim_op_drop(entry);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuGraphLaunch, (CUgraphExec exec, CUstream stream), graph_launch(exec, stream))

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    SIM_CALL(SIM_NEED_CONTEXT, exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
