/* Stream capture and graphs. */
#include <pthread.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

static cudaGraphExec_t end_and_instantiate(cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

static void replay(void)
{
    float *device = new_device(4), *host = new_pinned(4);
    cudaStream_t stream = new_stream();
    enum cudaStreamCaptureStatus status;
    *host = 0;
    OK(cudaMemsetAsync(device, 0, 4, stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    OK(launch_add(device, 1, 1, 100, stream));
    OK(launch_add(device, 2, 1, 100, stream));
    OK(cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToHost, stream));
    cudaGraphExec_t exec = end_and_instantiate(stream);
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusNone);
    OK(cudaStreamSynchronize(stream));
    CHECK(*host == 0); /* captured, not run */
    double before = sim_api()->host_time_us();
    for (int i = 0; i < 5; i++)
        OK(cudaGraphLaunch(exec, stream));
    CHECK(sim_api()->host_time_us() - before < 5.5 * sim_api()->profile(0)->launch_us);
    OK(launch_add(device, 100, 1, 100, stream));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec)); /* what is launched goes on */
    OK(cudaStreamSynchronize(stream));
    CHECK(*host == 6 * 3 + 100);
    CHECK(sim_api()->host_time_us() - before >= 13 * 100);
}

CASE(a_graph_runs_when_launched_and_in_order)
{
    for (int seed = 1; seed < 6; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        expect_success(replay, environment);
    }
}

static void fork_and_join(void)
{
    float *first = new_device(4), *second = new_device(4), result[2];
    cudaStream_t origin = new_stream(), branch = new_stream();
    cudaEvent_t forked = new_event(), joined = new_event();
    OK(cudaMemset(first, 0, 4));
    OK(cudaMemset(second, 0, 4));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    OK(launch_add(first, 1, 1, 10, origin));
    OK(cudaEventRecord(forked, origin));
    OK(cudaStreamWaitEvent(branch, forked, 0));
    OK(cudaMemcpyAsync(second, first, 4, cudaMemcpyDeviceToDevice, branch));
    OK(cudaEventRecord(joined, branch));
    OK(cudaStreamWaitEvent(origin, joined, 0));
    OK(launch_add(first, 1, 1, 10, origin));
    cudaGraphExec_t exec = end_and_instantiate(origin);
    for (int i = 0; i < 10; i++) {
        OK(cudaGraphLaunch(exec, origin));
        OK(cudaMemcpyAsync(result, first, 4, cudaMemcpyDeviceToHost, origin));
        OK(cudaMemcpyAsync(result + 1, second, 4, cudaMemcpyDeviceToHost, origin));
        CHECK(result[0] == (float)(2 * i + 2) && result[1] == (float)(2 * i + 1));
    }
    OK(cudaGraphExecDestroy(exec));
}

CASE(branches_of_a_graph_keep_their_order)
{
    for (int seed = 1; seed < 6; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        expect_success(fork_and_join, environment);
    }
}

/* *sum += *value */
static void sum_body(void *const *p)
{
    uint64_t sum_address, value_address;
    memcpy(&sum_address, p[0], sizeof sum_address);
    memcpy(&value_address, p[1], sizeof value_address);
    float *sum = sim_api()->memory(sum_address, sizeof *sum);
    const float *value = sim_api()->memory(value_address, sizeof *value);
    if (sum && value)
        *sum += *value;
}

static const sim_kernel_parameter_t sum_parameters[] = {{0, 8}, {8, 8}};
static const sim_kernel_t sum_kernel = {"test_sum", 2, sum_parameters, sum_body};

/* The last node is in a branch, so only the order of launches keeps the next one's first behind it.
 */
static void launch_in_two_streams(void)
{
    float *value = new_device(4), *sum = new_device(4), result;
    cudaStream_t streams[2] = {new_stream(), new_stream()}, branch = new_stream();
    cudaEvent_t forked = new_event(), joined = new_event();
    OK(cudaMemset(value, 0, 4));
    OK(cudaMemset(sum, 0, 4));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    OK(launch_add(value, 1, 1, 10, streams[0]));
    OK(cudaEventRecord(forked, streams[0]));
    OK(cudaStreamWaitEvent(branch, forked, 0));
    void *parameters[] = {&sum, &value};
    OK(cuLaunchKernel(sim_api()->function(&sum_kernel), 1, 1, 1, 1, 1, 1, 0, branch, parameters,
                      NULL));
    OK(cudaEventRecord(joined, branch));
    OK(cudaStreamWaitEvent(streams[0], joined, 0));
    cudaGraphExec_t exec = end_and_instantiate(streams[0]);
    for (int i = 0; i < 20; i++)
        OK(cudaGraphLaunch(exec, streams[i % 2]));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&result, sum, 4, cudaMemcpyDeviceToHost));
    CHECK(result == 20 * 21 / 2);
    OK(cudaGraphExecDestroy(exec));
}

CASE(launches_of_one_instance_are_in_order)
{
    for (int seed = 1; seed < 6; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        expect_success(launch_in_two_streams, environment);
    }
}

/* Whatever voids a capture: its end says so, and the stream works again. */
static void expect_void(cudaStream_t stream)
{
    cudaGraph_t graph = (cudaGraph_t)(void *)&graph;
    enum cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
    OK(cudaStreamSynchronize(stream));
}

static cudaStream_t begin(enum cudaStreamCaptureMode mode)
{
    cudaStream_t stream = new_stream();
    OK(cudaStreamBeginCapture(stream, mode));
    return stream;
}

static void synchronise_inside(void)
{
    cudaStream_t stream = begin(cudaStreamCaptureModeRelaxed);
    CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    CHECK(launch_add(NULL, 1, 1, 1, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_void(stream);
    stream = begin(cudaStreamCaptureModeRelaxed);
    CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    expect_void(stream);
    stream = begin(cudaStreamCaptureModeRelaxed);
    CHECK(cudaStreamQuery(stream) == cudaErrorStreamCaptureUnsupported);
    expect_void(stream);
}

CASE(waiting_for_a_capturing_stream_voids_the_capture)
{
    expect_success(synchronise_inside, "");
}

static void allocate_inside(void)
{
    void *memory = new_device(64);
    cudaStream_t stream = begin(cudaStreamCaptureModeGlobal);
    CHECK(cudaMalloc(&memory, 64) == cudaErrorStreamCaptureUnsupported);
    expect_void(stream);
    stream = begin(cudaStreamCaptureModeThreadLocal);
    CHECK(cudaFree(memory) == cudaErrorStreamCaptureUnsupported);
    expect_void(stream);
    stream = begin(cudaStreamCaptureModeGlobal);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaMalloc(&memory, 64));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);
    OK(launch_add(memory, 1, 1, 1, stream));
    OK(cudaGraphExecDestroy(end_and_instantiate(stream)));
}

CASE(allocating_voids_a_capture_unless_relaxed)
{
    expect_success(allocate_inside, "");
}

static void *allocate_in_thread(void *argument)
{
    void *memory;
    *(cudaError_t *)argument = cudaMalloc(&memory, 64);
    return NULL;
}

static cudaError_t elsewhere(void)
{
    pthread_t thread;
    cudaError_t error;
    OK(pthread_create(&thread, NULL, allocate_in_thread, &error));
    OK(pthread_join(thread, NULL));
    return error;
}

static void other_threads(void)
{
    cudaStream_t stream = begin(cudaStreamCaptureModeThreadLocal);
    OK(elsewhere());
    OK(cudaGraphExecDestroy(end_and_instantiate(stream)));
    stream = begin(cudaStreamCaptureModeGlobal);
    CHECK(elsewhere() == cudaErrorStreamCaptureUnsupported);
    expect_void(stream);
}

CASE(a_global_capture_binds_other_threads_too)
{
    expect_success(other_threads, "");
}

static void use_legacy_stream(void)
{
    void *memory = new_device(64);
    enum cudaStreamCaptureStatus status;
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    CHECK(cudaStreamIsCapturing(NULL, &status) == cudaErrorStreamCaptureImplicit);
    CHECK(cudaMemset(memory, 0, 64) == cudaErrorStreamCaptureImplicit);
    expect_void(blocking);
    cudaStream_t stream = begin(cudaStreamCaptureModeGlobal);
    OK(cudaMemset(memory, 0, 64)); /* a non-blocking stream is none of its business */
    OK(cudaGraphExecDestroy(end_and_instantiate(stream)));
    CHECK(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal) ==
          cudaErrorStreamCaptureUnsupported);
}

CASE(the_legacy_stream_may_not_depend_on_a_capture)
{
    expect_success(use_legacy_stream, "");
}

static void wrong_events(void)
{
    cudaEvent_t event = new_event();
    cudaGraph_t graph;
    cudaStream_t outside = new_stream();
    OK(cudaEventRecord(event, outside));
    cudaStream_t stream = begin(cudaStreamCaptureModeRelaxed);
    CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaErrorStreamCaptureIsolation);
    expect_void(stream);
    stream = begin(cudaStreamCaptureModeRelaxed);
    OK(launch_add(new_device(4), 1, 1, 1, stream));
    OK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
    OK(cudaStreamWaitEvent(outside, event, 0));
    OK(launch_add(new_device(4), 1, 1, 1, outside));
    CHECK(cudaStreamEndCapture(outside, &graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
    OK(cudaStreamSynchronize(outside));
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
}

CASE(events_neither_enter_nor_leave_a_capture_unnoticed)
{
    expect_success(wrong_events, "");
}

static void ask_about_capture(void)
{
    cudaStream_t stream = new_stream();
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0, other = 0;
    cudaGraph_t graph = NULL;
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL, NULL));
    CHECK(status == cudaStreamCaptureStatusNone && id == 0 && !graph);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL, NULL));
    CHECK(status == cudaStreamCaptureStatusActive && id != 0 && graph);
    cudaStream_t second = begin(cudaStreamCaptureModeRelaxed);
    OK(cudaStreamGetCaptureInfo(second, &status, &other, NULL, NULL, NULL, NULL));
    CHECK(other != id);
    OK(launch_add(new_device(4), 1, 1, 1, stream));
    OK(launch_add(new_device(4), 1, 1, 1, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    size_t count = 0;
    OK(cudaGraphGetNodes(graph, NULL, &count));
    CHECK(count == 2);
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamEndCapture(second, &graph));
    OK(cudaGraphDestroy(graph));
}

CASE(captures_have_identities)
{
    expect_success(ask_about_capture, "");
}

static size_t free_memory(void)
{
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

/* Allocated and freed in the graph: fresh at every launch, for nobody in between. */
static void allocate_in_graph(void)
{
    size_t before = free_memory();
    float *host = new_pinned(8), *inside, *outside = new_device(4);
    cudaStream_t stream = new_stream();
    OK(cudaMemset(outside, 0, 4));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync((void **)&inside, 1 << 20, stream));
    OK(cudaMemcpyAsync(host, inside, 4, cudaMemcpyDeviceToHost, stream));
    OK(cudaMemsetAsync(inside, 0, 4, stream));
    OK(launch_add(inside, 3, 1, 1, stream));
    OK(cudaMemcpyAsync(outside, inside, 4, cudaMemcpyDeviceToDevice, stream));
    OK(cudaFreeAsync(inside, stream));
    CHECK(cudaFreeAsync(inside, stream) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(outside, stream) == cudaErrorInvalidValue); /* not the graph's */
    cudaGraphExec_t exec = end_and_instantiate(stream);
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaMemcpyAsync(host + 1, outside, 4, cudaMemcpyDeviceToHost, stream));
        OK(cudaStreamSynchronize(stream));
        CHECK(host[0] != host[0] && host[1] == 3);
        void *other = new_device(1 << 20); /* is not the graph's */
        CHECK(other != inside);
        OK(cudaMemset(other, 0, 1 << 20));
        OK(cudaFree(other));
    }
    CHECK(cudaFreeAsync(inside, stream) == cudaErrorInvalidValue);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec)); /* what is launched goes on */
    OK(cudaStreamSynchronize(stream));
    CHECK(free_memory() == before - 4096); /* `outside` */
}

static void touch_between_launches(void)
{
    float *inside;
    cudaStream_t stream = new_stream();
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync((void **)&inside, 64, stream));
    OK(launch_add(inside, 3, 1, 1, stream));
    OK(cudaFreeAsync(inside, stream));
    cudaGraphExec_t exec = end_and_instantiate(stream);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(launch_add(inside, 3, 1, 1, stream));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    OK(cudaDeviceReset()); /* takes the memory, too */
    OK(cudaGraphExecDestroy(exec));
    CHECK(free_memory() == sim_api()->profile(0)->memory_bytes);
}

/* Allocated in the graph, freed outside, by the next launch, or with the program. */
static void outlive_launch(void)
{
    size_t before = free_memory();
    float *inside, value;
    cudaGraph_t graph;
    cudaGraphExec_t strict, relaxed;
    cudaStream_t stream = new_stream();
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync((void **)&inside, 1 << 20, stream));
    OK(cudaMemsetAsync(inside, 0, 4, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&strict, graph, 0));
    OK(cudaGraphInstantiate(&relaxed, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 2; i++) {
        OK(cudaGraphLaunch(strict, stream));
        CHECK(cudaGraphLaunch(strict, stream) == cudaErrorInvalidValue);
        OK(launch_add(inside, 4, 1, 1, stream));
        OK(cudaMemcpyAsync(&value, inside, 4, cudaMemcpyDeviceToHost, stream));
        CHECK(value == 4);
        OK(cudaFreeAsync(inside, stream));
    }
    OK(cudaGraphExecDestroy(strict));
    OK(cudaGraphLaunch(relaxed, stream));
    OK(cudaGraphLaunch(relaxed, stream));
    OK(cudaGraphExecDestroy(relaxed));
    OK(cudaMemcpyAsync(&value, inside, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(value == 0 && free_memory() == before - (1 << 20)); /* still the program's */
    OK(cudaFree(inside));
    CHECK(cudaFree(inside) == cudaErrorInvalidValue && free_memory() == before);
}

CASE(graphs_allocate_memory)
{
    for (int seed = 1; seed < 6; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        expect_success(allocate_in_graph, environment);
        expect_success(outlive_launch, environment);
        expect_success(touch_between_launches, environment);
    }
}

/* A graph that adds `amount`, twice if asked. */
static cudaGraph_t capture_adding(cudaStream_t stream, float *device, float amount, int times)
{
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < times; i++)
        OK(launch_add(device, amount, 1, 10, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void launch_and_expect(cudaGraphExec_t exec, float *device, float expected)
{
    float result;
    OK(cudaMemset(device, 0, 4));
    OK(cudaDeviceSynchronize());
    OK(cudaGraphLaunch(exec, new_stream()));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost));
    CHECK(result == expected);
}

static void graphs_of_graphs(void)
{
    float *device = new_device(4), *other = new_device(4);
    cudaStream_t stream = new_stream();
    cudaGraph_t one = capture_adding(stream, device, 1, 1);
    cudaGraph_t five = capture_adding(stream, device, 5, 1);
    cudaGraph_t twice = capture_adding(stream, device, 7, 2);
    CUgraph clone, parent;
    CUgraphNode node;
    CUgraphExecUpdateResultInfo info;
    cudaGraphExec_t exec, parents;
    OK(cuGraphClone(&clone, one));
    OK(cudaGraphDestroy(one));
    OK(cudaGraphInstantiate(&exec, clone, 0));
    launch_and_expect(exec, device, 1);
    OK(cuGraphExecUpdate(exec, five, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    launch_and_expect(exec, device, 5);
    CHECK(cuGraphExecUpdate(exec, twice, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    launch_and_expect(exec, device, 5);
    OK(cuGraphCreate(&parent, 0));
    cudaGraph_t beside = capture_adding(stream, other, 3, 1);
    OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, beside));
    OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, twice));
    CHECK(cuGraphAddChildGraphNode(&node, parent, &node, 1, twice) == CUDA_ERROR_NOT_SUPPORTED);
    OK(cudaGraphDestroy(twice));
    OK(cudaGraphInstantiate(&parents, parent, 0));
    OK(cudaGraphDestroy(parent));
    launch_and_expect(parents, device, 14);
    launch_and_expect(parents, other, 3);
    OK(cudaGraphExecDestroy(parents));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(beside));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(five));
}

CASE(graphs_are_cloned_nested_and_updated)
{
    expect_success(graphs_of_graphs, "");
}

static void set_a_kernel(void)
{
    float *value = new_device(4), *sum = new_device(4);
    cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUgraphNode node;
    size_t count = 1;
    CUDA_KERNEL_NODE_PARAMS uses = {.func = sim_api()->function(&sum_kernel)};
    void *parameters[] = {&sum, &value}, *others[] = {&value, &value};
    OK(cudaMemset(sum, 0, 4));
    OK(cudaMemset(value, 0x40, 4));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cuLaunchKernel(uses.func, 1, 1, 1, 1, 1, 1, 0, stream, others, NULL));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cuGraphGetNodes(graph, &node, &count));
    CHECK(count == 1 && cuGraphExecKernelNodeSetParams(exec, node, &uses) != CUDA_SUCCESS);
    uses.kernelParams = parameters;
    CHECK(cuGraphExecKernelNodeSetParams(exec, NULL, &uses) == CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecKernelNodeSetParams(exec, node, &uses));
    OK(cudaGraphLaunch(exec, stream));
    uint32_t found[2];
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&found[0], sum, 4, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(&found[1], value, 4, cudaMemcpyDeviceToHost));
    CHECK(found[0] == 0x40404040 && found[1] == 0x40404040);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

CASE(a_kernel_of_an_instance_is_given_other_parameters)
{
    expect_success(set_a_kernel, "");
}

int main(void)
{
    return run_cases("sim_capture");
}
