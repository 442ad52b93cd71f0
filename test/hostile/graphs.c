/* Captures in three modes, of one stream or two, and graphs that are launched again and again, that
 * allocate, and whose memory the program frees before they end. */
#include "test/hostile/hostile.h"

#include <unistd.h>

typedef struct capture {
    CUstreamCaptureMode mode;
    int stream, other; /* other: -1 or a second stream that joins */
    tensor_t *tensors[MOST_OPERANDS];
    unsigned count;
    CUgraph graph;
} capture_t;

static bool pick_mode(thread_t *t, CUstreamCaptureMode *mode)
{
    const uint32_t which = draw(&t->draw, 3);
    *mode = (CUstreamCaptureMode)which;
    return plan.has[which == CU_STREAM_CAPTURE_MODE_GLOBAL         ? FEATURE_global_captures
                    : which == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ? FEATURE_local_captures
                                                                   : FEATURE_relaxed_captures];
}

static graph_t *free_graph(thread_t *t)
{
    for (int i = 0; i < MOST_GRAPHS; i++)
        if (!t->graphs[i].exec)
            return &t->graphs[i];
    return NULL;
}

/* Different tensors, which are in the stream before the capture begins. */
static bool pick_tensors(thread_t *t, capture_t *c)
{
    uint64_t bytes = 0;
    const unsigned wanted = 1 + draw(&t->draw, MOST_OPERANDS);
    for (unsigned i = 0; i < wanted; i++) {
        tensor_t *const tensor = tensor_any(t);
        bool known = !tensor || tensor->kind == IN_GRAPH;
        for (unsigned j = 0; j < c->count; j++)
            known = known || c->tensors[j] == tensor;
        if (known || t->graph_bytes + bytes + footprint(tensor->bytes) > plan.caps.graphs)
            continue;
        bytes += footprint(tensor->bytes);
        c->tensors[c->count++] = tensor;
    }
    return c->count > 0 && streams_follow(t, c->stream, c->tensors, c->count);
}

static bool plan_capture(thread_t *t, capture_t *c)
{
    *c = (capture_t){.stream = stream_any(t), .other = stream_any(t)};
    const bool named = pick_mode(t, &c->mode);
    if (!named || t->gate != NO_GATE || t->blocking[c->stream])
        return false;
    if (c->other == c->stream || t->blocking[c->other])
        c->other = -1;
    return true;
}

static void begin(thread_t *t, const capture_t *c)
{
    if (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        guard_capture();
    OK(t, api.cuStreamBeginCapture(t->streams[c->stream], c->mode));
}

static void end(thread_t *t, capture_t *c)
{
    OK(t, api.cuStreamEndCapture(t->streams[c->stream], &c->graph));
    if (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        guard_capture_ends();
}

/* A relaxed capture may do what the others must not. */
static void do_unsafe(thread_t *t, const capture_t *c)
{
    CUdeviceptr address = 0;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED || draw(&t->draw, 2))
        return;
    guard_enter(t);
    OK(t, api.cuMemAlloc(&address, 4096));
    guard_leave(t);
    tensor_t *const place = tensor_place(t);
    if (place && plan.has[FEATURE_small] && t->small_bytes + 4096 <= plan.caps.small / 2) {
        place->address = address;
        for (int i = 0; i < t->stream_count; i++)
            if (i != c->stream && i != c->other) {
                tensor_allocated(t, place, PLAIN, 4096, i);
                return;
            }
        place->address = 0;
    }
    guard_enter(t);
    OK(t, api.cuMemFree(address));
    guard_leave(t);
}

static void capture_work(thread_t *t, const capture_t *c)
{
    CUstreamCaptureStatus status;
    launch_on(t, t->streams[c->stream], c->tensors, c->count);
    if (c->other >= 0) {
        OK(t, api.cuEventRecord(t->event, t->streams[c->stream]));
        OK(t, api.cuStreamWaitEvent(t->streams[c->other], t->event, 0));
        launch_on(t, t->streams[c->other], c->tensors, 1);
        OK(t, api.cuEventRecord(t->event, t->streams[c->other]));
        OK(t, api.cuStreamWaitEvent(t->streams[c->stream], t->event, 0));
    }
    OK(t, api.cuStreamIsCapturing(t->streams[c->stream], &status));
    MUST(t, status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    for (uint32_t i = draw(&t->draw, 3); i > 0; i--) {
        if (plan.threads > 1)
            usleep(draw(&t->draw, 2000)); /* others work meanwhile */
        launch_on(t, t->streams[c->stream], c->tensors, c->count);
    }
}

static void instantiate(thread_t *t, graph_t *graph, const capture_t *c)
{
    *graph = (graph_t){.stream = c->stream, .tensor_count = c->count};
    OK(t, api.cuGraphInstantiateWithFlags(&graph->exec, c->graph, 0));
    OK(t, api.cuGraphDestroy(c->graph));
    for (unsigned i = 0; i < c->count; i++) {
        graph->tensors[i] = (int)(c->tensors[i] - t->tensors);
        graph->bytes += footprint(c->tensors[i]->bytes);
        c->tensors[i]->graphs |= 1U << (graph - t->graphs);
    }
    t->graph_bytes += graph->bytes;
}

void graph_capture(thread_t *t)
{
    capture_t c;
    graph_t *const graph = free_graph(t);
    if (!graph || !plan_capture(t, &c) || !pick_tensors(t, &c))
        return;
    begin(t, &c);
    do_unsafe(t, &c);
    capture_work(t, &c);
    end(t, &c);
    if (draw(&t->draw, 6) == 0)
        OK(t, api.cuGraphDestroy(c.graph)); /* it was for nothing */
    else
        instantiate(t, graph, &c);
}

static void launch_one(thread_t *t, graph_t *graph)
{
    tensor_t *tensors[MOST_OPERANDS];
    const int stream = stream_any(t);
    for (unsigned i = 0; i < graph->tensor_count; i++)
        tensors[i] = &t->tensors[graph->tensors[i]];
    if (t->gate != NO_GATE || !streams_follow(t, stream, tensors, graph->tensor_count))
        return;
    OK(t, api.cuGraphLaunch(graph->exec, t->streams[stream]));
}

void graph_drop(thread_t *t, graph_t *graph)
{
    for (unsigned i = 0; i < graph->tensor_count; i++)
        t->tensors[graph->tensors[i]].graphs &= ~(1U << (graph - t->graphs));
    OK(t, api.cuGraphExecDestroy(graph->exec));
    t->graph_bytes -= graph->bytes;
    *graph = (graph_t){0};
}

void graph_launch(thread_t *t)
{
    graph_t *const graph = &t->graphs[draw(&t->draw, MOST_GRAPHS)];
    if (!graph->exec || t->gate != NO_GATE)
        return;
    for (uint32_t i = 1 + draw(&t->draw, 3); i > 0 && !graph->stale; i--)
        launch_one(t, graph);
    if (draw(&t->draw, 4) == 0)
        graph_drop(t, graph);
}

/* A graph that allocates, works there, adds to a tensor, and frees what it allocated. */
static void capture_allocation(thread_t *t, const capture_t *c, uint64_t bytes)
{
    CUdeviceptr inside = 0;
    CUstream const stream = t->streams[c->stream];
    OK(t, api.cuMemAllocAsync(&inside, bytes, stream));
    tensor_t made = {.address = inside, .bytes = bytes, .stream = c->stream};
    OK(t, api.cuMemsetD32Async(inside, 7, bytes / 4, stream));
    launch_on(t, stream, (tensor_t *const[]){&made, c->tensors[0]}, 2);
    launch_on(t, stream, (tensor_t *const[]){c->tensors[0], &made}, 2);
    OK(t, api.cuMemFreeAsync(inside, stream));
}

void graph_allocating(thread_t *t)
{
    capture_t c;
    const uint64_t bytes = CHUNK;
    if (!plan_capture(t, &c))
        return;
    c.tensors[0] = tensor_any(t);
    c.count = 1;
    if (!c.tensors[0] || c.tensors[0]->kind == IN_GRAPH ||
        t->graph_bytes + bytes + footprint(c.tensors[0]->bytes) > plan.caps.graphs ||
        !streams_follow(t, c.stream, c.tensors, 1))
        return;
    begin(t, &c);
    capture_allocation(t, &c, bytes);
    end(t, &c);
    graph_t graph = {.stream = c.stream};
    OK(t, api.cuGraphInstantiateWithFlags(&graph.exec, c.graph, 0));
    OK(t, api.cuGraphDestroy(c.graph));
    for (uint32_t i = 1 + draw(&t->draw, 3); i > 0; i--)
        OK(t, api.cuGraphLaunch(graph.exec, t->streams[c.stream]));
    OK(t, api.cuGraphExecDestroy(graph.exec));
    stream_wait(t, c.stream);
}

void graphs_end(thread_t *t)
{
    for (int i = 0; i < MOST_GRAPHS; i++)
        if (t->graphs[i].exec)
            graph_drop(t, &t->graphs[i]);
}
