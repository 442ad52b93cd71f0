/* Graphs that hold memory which the program has freed, under a budget: it must not serve anything
 * else as long as a graph can be launched that uses it, and it must serve again from then on. Run
 * by test/virtual_memory.sh with the library; knows nothing of it.
 *
 *   virtual_graphs PROGRAM    one of the list at the end. Exit status 0 if all was right. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "test/clients/mix.h"

enum { WORDS = 1 << 19, BYTES = WORDS * 4, VALUE = 7 };

static cudaStream_t stream;
static uint32_t *out, host[WORDS];

static size_t free_bytes(void)
{
    size_t bytes, total;
    CUDA(cudaMemGetInfo(&bytes, &total));
    return bytes;
}

/* ---- graphs with scratch memory: out = 3 out + scratch, where scratch is VALUE ---- */

static void capture_mix(uint32_t *a, uint32_t *b)
{
    uint32_t words = WORDS, k = 0;
    void *parameters[] = {&a, &b, &words, &k};
    DRIVER(cuLaunchKernel(mix, WORDS / 256, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

static uint32_t *capture_scratch(void)
{
    uint32_t *scratch;
    CUDA(cudaMallocAsync((void **)&scratch, BYTES, stream));
    CUDA(cudaMemsetAsync(scratch, VALUE, BYTES, stream));
    capture_mix(out, scratch);
    CUDA(cudaFreeAsync(scratch, stream));
    return scratch;
}

static cudaGraph_t new_graph(void)
{
    cudaGraph_t graph;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    capture_scratch();
    CUDA(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static cudaGraphExec_t instance_of(cudaGraph_t graph)
{
    cudaGraphExec_t executable;
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

/* ---- all else that lives ---- */

enum { OTHERS = 12 }; /* with what graphs hold, more than the budget */
static uint32_t *others[OTHERS];

static void expect_words(const uint32_t *device, uint32_t word)
{
    CUDA(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WORDS; i++)
        CHECK(host[i] == word);
}

/* They get whatever is free. */
static void fill_others(void)
{
    for (int i = 0; i < OTHERS; i++) {
        CUDA(cudaMalloc((void **)&others[i], BYTES));
        CUDA(cudaMemset(others[i], 100 + i, BYTES));
    }
}

static void check_others(void)
{
    for (int i = 0; i < OTHERS; i++) {
        expect_words(others[i], (100u + (uint32_t)i) * 0x01010101u);
        CUDA(cudaFree(others[i]));
    }
}

/* It computes what it was made for, again and again, and nothing else changes. */
static void replay(cudaGraphExec_t executable)
{
    const uint32_t scratch = VALUE * 0x01010101u;
    uint32_t expected = 0;
    CUDA(cudaMemset(out, 0, BYTES));
    CUDA(cudaDeviceSynchronize());
    fill_others();
    for (int i = 0; i < 3; i++) {
        CUDA(cudaGraphLaunch(executable, stream));
        expected = 3 * expected + scratch;
    }
    CUDA(cudaStreamSynchronize(stream));
    expect_words(out, expected);
    check_others();
}

/* Nothing else is held any more. */
static void check_free(size_t expected)
{
    const size_t now = free_bytes();
    if (now != expected)
        printf("%zu bytes are free, not %zu\n", now, expected);
    CHECK(now == expected);
}

static void replay_and_end(cudaGraphExec_t executable, size_t free_afterwards)
{
    replay(executable);
    CUDA(cudaGraphExecDestroy(executable));
    check_free(free_afterwards);
}

/* The graph itself ends. */
static cudaGraphExec_t only_instance_of(cudaGraph_t graph)
{
    cudaGraphExec_t const executable = instance_of(graph);
    CUDA(cudaGraphDestroy(graph));
    return executable;
}

static CUDA_KERNEL_NODE_PARAMS mix_node(unsigned blocks, void **parameters)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = mix,
                                     .gridDimX = blocks,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = parameters};
}

/* ---- who gets what a graph holds ---- */

static void cloned(void)
{
    const size_t before = free_bytes();
    cudaGraph_t const graph = new_graph();
    CUgraph copy;
    DRIVER(cuGraphClone(&copy, graph));
    CUDA(cudaGraphDestroy(graph));
    cudaGraphExec_t const executable = only_instance_of(copy);
    replay_and_end(executable, before);
}

/* A graph that has memory of its own already, and one that has none. */
static void child(void)
{
    const size_t before = free_bytes();
    for (int own = 0; own < 2; own++) {
        cudaGraph_t const graph = new_graph();
        CUgraph parent;
        CUgraphNode node;
        DRIVER(cuGraphCreate(&parent, 0));
        if (own) {
            cudaGraph_t const first = new_graph();
            DRIVER(cuGraphAddChildGraphNode(&node, parent, NULL, 0, first));
            CUDA(cudaGraphDestroy(first));
            check_free(before - 2 * BYTES);
        }
        DRIVER(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
        CUDA(cudaGraphDestroy(graph));
        cudaGraphExec_t const executable = only_instance_of(parent);
        CUDA(cudaMemset(out, 0, BYTES));
        fill_others();
        CUDA(cudaGraphLaunch(executable, stream));
        CUDA(cudaStreamSynchronize(stream));
        check_others();
        CUDA(cudaGraphExecDestroy(executable));
        check_free(before);
    }
}

/* A parent's end gives back what is its own, though the child is there for other parents yet. */
static void child_of_many(void)
{
    const size_t before = free_bytes();
    cudaGraph_t const graph = new_graph();
    for (int i = 0; i < 3; i++) {
        CUgraph parent;
        CUgraphNode node;
        cudaGraph_t const other = new_graph();
        DRIVER(cuGraphCreate(&parent, 0));
        DRIVER(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
        DRIVER(cuGraphAddChildGraphNode(&node, parent, NULL, 0, other));
        CUDA(cudaGraphDestroy(other));
        CUDA(cudaGraphDestroy(parent));
        check_free(before - BYTES);
    }
    CUDA(cudaGraphDestroy(graph));
    check_free(before);
}

static CUresult update(cudaGraphExec_t executable, cudaGraph_t graph)
{
    CUgraphExecUpdateResultInfo info;
    return cuGraphExecUpdate(executable, graph, &info);
}

/* The executable has another graph's memory from then on, and no more than that. */
static void updated(void)
{
    const size_t before = free_bytes();
    cudaGraph_t graph = new_graph();
    cudaGraphExec_t const executable = only_instance_of(graph);
    for (int i = 0; i < 4; i++) {
        graph = new_graph();
        check_free(before - 2 * BYTES);
        DRIVER(update(executable, graph));
        CUDA(cudaGraphDestroy(graph));
        check_free(before - BYTES);
        replay(executable);
    }
    CUDA(cudaGraphExecDestroy(executable));
    check_free(before);
}

/* A launch is still under way when the executable loses what it uses. */
static void updated_under_way(void)
{
    const size_t before = free_bytes();
    cudaGraph_t const first = new_graph(), second = new_graph();
    cudaGraphExec_t const executable = instance_of(first);
    CUDA(cudaMemset(out, 0, BYTES));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaGraphDestroy(first));
    CUDA(cudaGraphLaunch(executable, stream));
    DRIVER(update(executable, second));
    CUDA(cudaGraphDestroy(second));
    fill_others();
    CUDA(cudaStreamSynchronize(stream));
    expect_words(out, VALUE * 0x01010101u);
    check_others();
    CUDA(cudaGraphExecDestroy(executable));
    check_free(before);
}

/* Then it has what it had, and perhaps some of the other's. */
static void update_fails(void)
{
    const size_t before = free_bytes();
    cudaGraph_t const graph = new_graph();
    cudaGraphExec_t const executable = only_instance_of(graph);
    cudaGraph_t longer;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    capture_scratch();
    capture_scratch();
    CUDA(cudaStreamEndCapture(stream, &longer));
    CHECK(update(executable, longer) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CUDA(cudaGraphDestroy(longer));
    replay_and_end(executable, before);
}

/* A node is given memory that the program freed and another graph holds, and that graph ends. */
static void node_set(void)
{
    const size_t before = free_bytes();
    cudaGraph_t first, second;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    capture_mix(out, out);
    CUDA(cudaStreamEndCapture(stream, &first));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    uint32_t *scratch = capture_scratch();
    CUDA(cudaStreamEndCapture(stream, &second));
    cudaGraphExec_t const executable = instance_of(first);
    CUgraphNode node;
    size_t nodes = 1;
    uint32_t *inside = scratch + WORDS / 2, words = WORDS / 2, k = 5;
    void *parameters[] = {&inside, &out, &words, &k};
    const CUDA_KERNEL_NODE_PARAMS uses = mix_node(WORDS / 512, parameters);
    DRIVER(cuGraphGetNodes(first, &node, &nodes));
    DRIVER(cuGraphExecKernelNodeSetParams(executable, node, &uses));
    CUDA(cudaGraphDestroy(second));
    fill_others();
    CUDA(cudaGraphLaunch(executable, stream));
    CUDA(cudaStreamSynchronize(stream));
    check_others();
    CUDA(cudaGraphDestroy(first));
    CUDA(cudaGraphExecDestroy(executable));
    check_free(before);
}

/* An address that leads nowhere is none of our business. */
static void node_set_astray(void)
{
    cudaGraph_t graph;
    uint32_t *gone;
    CUDA(cudaMalloc((void **)&gone, BYTES));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    capture_mix(out, out);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaFree(gone));
    cudaGraphExec_t const executable = instance_of(graph);
    CUgraphNode node;
    size_t nodes = 1;
    uint32_t words = 0, k = 5;
    void *parameters[] = {&out, &gone, &words, &k};
    const CUDA_KERNEL_NODE_PARAMS uses = mix_node(1, parameters);
    DRIVER(cuGraphGetNodes(graph, &node, &nodes));
    DRIVER(cuGraphExecKernelNodeSetParams(executable, node, &uses));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphExecDestroy(executable));
}

/* The driver refuses to destroy them at first. */
static void destroyed_later(void)
{
    const size_t before = free_bytes();
    cudaGraph_t const graph = new_graph();
    cudaGraphExec_t executable = instance_of(graph);
    CHECK(simulator);
    simulator->inject("cuGraphExecDestroy", 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cudaGraphExecDestroy(executable) == cudaErrorStreamCaptureUnsupported);
    simulator->inject("cuGraphDestroy", 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cudaGraphDestroy(graph) == cudaErrorStreamCaptureUnsupported);
    (void)cudaGetLastError();
    check_free(before - BYTES);
    replay(executable);
    CUDA(cudaGraphExecDestroy(executable));
    executable = only_instance_of(graph);
    replay_and_end(executable, before);
}

/* A kernel is given both halves of it; what has one pin must not lose two. */
static void named_twice(void)
{
    const size_t before = free_bytes();
    cudaGraph_t graph;
    uint32_t *scratch, *half, words = WORDS / 2, k = 3;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaMallocAsync((void **)&scratch, BYTES, stream));
    half = scratch + WORDS / 2;
    CUDA(cudaMemsetAsync(scratch, 1, BYTES, stream));
    for (int i = 0; i < 3; i++)
        DRIVER(cuLaunchKernel(mix, WORDS / 512, 1, 1, 256, 1, 1, 0, stream,
                              (void *[]){&scratch, &half, &words, &k}, NULL));
    CUDA(cudaMemsetAsync(scratch, VALUE, BYTES, stream));
    capture_mix(out, scratch);
    CUDA(cudaFreeAsync(scratch, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t const executable = only_instance_of(graph);
    check_free(before - BYTES);
    replay_and_end(executable, before);
}

/* A launch that fails takes nothing from those that were captured before it. */
static void launch_fails(void)
{
    const size_t before = free_bytes();
    uint32_t *scratch, words = WORDS, k = 0;
    void *parameters[] = {&scratch, &scratch, &words, &k};
    cudaGraph_t graph;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaMallocAsync((void **)&scratch, BYTES, stream));
    CUDA(cudaMemsetAsync(scratch, VALUE, BYTES, stream));
    capture_mix(out, scratch);
    for (int i = 0; i < 3; i++)
        CHECK(cuLaunchKernel(mix, 0, 1, 1, 256, 1, 1, 0, stream, parameters, NULL) ==
              CUDA_ERROR_INVALID_VALUE);
    CUDA(cudaFreeAsync(scratch, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t const executable = only_instance_of(graph);
    replay_and_end(executable, before);
}

/* ---- captures that come to nothing ---- */

static void invalidated(void)
{
    const size_t before = free_bytes();
    cudaGraph_t graph;
    for (int i = 0; i < 4; i++) {
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        capture_scratch();
        check_free(before - BYTES);
        CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
        CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
        (void)cudaGetLastError();
        check_free(before);
    }
}

/* Two at once; one of them is invalidated, the other's memory stays. */
static void invalidated_beside_another(void)
{
    const size_t before = free_bytes();
    cudaStream_t const first = stream, second = cudaStreamPerThread;
    cudaGraph_t graph, none;
    CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaStreamBeginCapture(second, cudaStreamCaptureModeThreadLocal));
    capture_scratch();
    stream = second;
    capture_scratch();
    check_free(before - 2 * BYTES);
    CHECK(cudaStreamSynchronize(second) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(second, &none) == cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    check_free(before - BYTES);
    stream = first;
    CUDA(cudaStreamEndCapture(first, &graph));
    cudaGraphExec_t const executable = only_instance_of(graph);
    replay_and_end(executable, before);
}

static void unjoined(void)
{
    const size_t before = free_bytes();
    cudaStream_t const origin = stream;
    cudaStream_t branch;
    cudaEvent_t event;
    cudaGraph_t graph;
    CUDA(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaEventRecord(event, origin));
    CUDA(cudaStreamWaitEvent(branch, event, 0));
    stream = branch;
    capture_scratch();
    stream = origin;
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureUnjoined);
    (void)cudaGetLastError();
    check_free(before);
    CUDA(cudaStreamDestroy(branch));
    CUDA(cudaEventDestroy(event));
}

static void *end_elsewhere(void *context)
{
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(context, &graph) == cudaErrorStreamCaptureWrongThread);
    return NULL;
}

/* Where it cannot end it goes on, with all that it holds. */
static void ended_wrongly(void)
{
    const size_t before = free_bytes();
    cudaStream_t branch;
    cudaEvent_t event;
    cudaGraph_t graph;
    pthread_t thread;
    CUDA(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaStreamWaitEvent(branch, event, 0));
    capture_scratch();
    CHECK(cudaStreamEndCapture(branch, &graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(stream, NULL) == cudaErrorInvalidValue);
    CHECK(pthread_create(&thread, NULL, end_elsewhere, stream) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    (void)cudaGetLastError();
    check_free(before - BYTES);
    CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t const executable = only_instance_of(graph);
    replay(executable);
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaStreamDestroy(branch));
    CUDA(cudaEventDestroy(event));
    check_free(before);
}

/* ---- */

/* What is done once is remembered: the largest operation. A graph stays that has `out`, so that
 * free bytes tell of scratch memory only. */
static void warm_up(void)
{
    static cudaGraph_t graph;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&out, BYTES));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 4; i++)
        capture_scratch();
    CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t const executable = instance_of(graph);
    CUDA(cudaGraphLaunch(executable, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    capture_mix(out, out);
    CUDA(cudaStreamEndCapture(stream, &graph));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"cloned", cloned},
                    {"child", child},
                    {"child_of_many", child_of_many},
                    {"updated", updated},
                    {"updated_under_way", updated_under_way},
                    {"update_fails", update_fails},
                    {"node_set", node_set},
                    {"node_set_astray", node_set_astray},
                    {"destroyed_later", destroyed_later},
                    {"named_twice", named_twice},
                    {"launch_fails", launch_fails},
                    {"invalidated", invalidated},
                    {"invalidated_beside_another", invalidated_beside_another},
                    {"unjoined", unjoined},
                    {"ended_wrongly", ended_wrongly}};
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            load_mix();
            warm_up();
            programs[i].run();
            return 0;
        }
    fprintf(stderr, "usage: virtual_graphs PROGRAM\n");
    return 2;
}
