/* soak OPERATIONS [BUDGET]: one process that allocates, frees, launches, copies, and makes and ends
 * streams, events, modules and graphs, as often as it is told. What it holds at any time is
 * bounded, so its host memory must be as large at the end as it was after a quarter: the whole
 * process's, and what malloc has given out. Prints both at each quarter; exit status 0 if they are
 * flat. On the simulated GPU without bytes (MICRODNN_SIM_MODE=timing), with and without the
 * library. */
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "test/hostile/hostile.h"

enum { TENSORS = 32, STREAMS = 3, QUARTERS = 4, FIRST_LAUNCHES = 200000 };
static const uint64_t resident_slack = 1 << 20, heap_slack = 128 << 10;

typedef struct soak {
    draw_t draw;
    CUdeviceptr tensors[TENSORS];
    uint64_t bytes[TENSORS];
    CUstream streams[STREAMS];
    CUevent event;
    void *host;
} soak_t;

static void must(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("CUDA error %d: %s\n", (int)result, call);
    exit(1);
}
#define DO(call) must(call, #call)

static CUstream any_stream(soak_t *s)
{
    return s->streams[draw(&s->draw, STREAMS)];
}

static uint32_t live(soak_t *s)
{
    uint32_t i = draw(&s->draw, TENSORS);
    for (uint32_t tries = 0; tries < TENSORS && !s->tensors[i]; tries++)
        i = (i + 1) % TENSORS;
    return i;
}

/* Everything here is in one order: results do not matter, but nothing is used after its end. */
static void allocate_or_free(soak_t *s)
{
    const uint32_t i = draw(&s->draw, TENSORS);
    const bool ordered = i % 2 != 0;
    if (s->tensors[i]) {
        for (int j = 0; j < STREAMS; j++)
            DO(cuStreamSynchronize(s->streams[j]));
        DO(ordered ? cuMemFreeAsync(s->tensors[i], s->streams[0]) : cuMemFree(s->tensors[i]));
        s->tensors[i] = 0;
        return;
    }
    s->bytes[i] = draw(&s->draw, 3) == 0 ? 512 + draw(&s->draw, 300000)
                                         : MEBIBYTE + 16 + draw(&s->draw, 3 << 20);
    DO(ordered ? cuMemAllocAsync(&s->tensors[i], s->bytes[i], s->streams[0])
               : cuMemAlloc(&s->tensors[i], s->bytes[i]));
    DO(cuStreamSynchronize(s->streams[0]));
}

static void launch(CUdeviceptr tensor, CUstream stream)
{
    uint32_t n = 64, k = 1;
    void *parameters[] = {&tensor, &n, &k};
    DO(cuLaunchKernel(kernel_function(KERNEL_FILL), 1, 1, 1, 64, 1, 1, 0, stream, parameters,
                      NULL));
}

/* Many of them come first, so that records of what operations use, which are bounded, are full. */
static void launch_four(soak_t *s, CUstream stream)
{
    CUdeviceptr all[4];
    uint32_t n = 64, stride = 1, k = 1;
    void *parameters[] = {&all[0], &all[1], &all[2], &all[3], &n, &stride, &k};
    for (int i = 0; i < 4; i++)
        all[i] = s->tensors[live(s)];
    if (!all[0])
        return;
    DO(cuLaunchKernel(kernel_function(KERNEL_FOUR), 1, 1, 1, 64, 1, 1, 0, stream, parameters,
                      NULL));
}

static void work(soak_t *s)
{
    const uint32_t i = live(s), j = live(s);
    CUstream const stream = any_stream(s);
    const uint64_t bytes = s->bytes[i] < s->bytes[j] ? s->bytes[i] : s->bytes[j];
    if (!s->tensors[i])
        return;
    switch (draw(&s->draw, 8)) {
    case 0:
        DO(cuMemcpyDtoDAsync(s->tensors[i], s->tensors[j], bytes, stream));
        break;
    case 1:
        DO(cuMemcpyHtoDAsync(s->tensors[i], s->host, 512, stream));
        break;
    case 2:
        DO(cuMemsetD8Async(s->tensors[i], 1, s->bytes[i], stream));
        break;
    case 3:
        launch(s->tensors[i], stream);
        break;
    default:
        launch_four(s, stream);
    }
}

static void replace_stream(soak_t *s)
{
    const uint32_t i = draw(&s->draw, STREAMS);
    DO(cuEventRecord(s->event, s->streams[i]));
    DO(cuStreamDestroy(s->streams[i]));
    DO(cuStreamCreate(&s->streams[i], CU_STREAM_NON_BLOCKING));
    DO(cuStreamWaitEvent(s->streams[i], s->event, 0));
    DO(cuEventDestroy(s->event));
    DO(cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING));
}

static void make_graph(soak_t *s)
{
    const uint32_t i = live(s);
    CUgraph graph;
    CUgraphExec exec;
    if (!s->tensors[i])
        return;
    DO(cuStreamBeginCapture(s->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(s->tensors[i], s->streams[0]);
    DO(cuStreamEndCapture(s->streams[0], &graph));
    DO(cuGraphInstantiateWithFlags(&exec, graph, 0));
    DO(cuGraphLaunch(exec, s->streams[0]));
    DO(cuGraphDestroy(graph));
    DO(cuGraphExecDestroy(exec));
}

static void load_module(soak_t *s)
{
    CUmodule module;
    CUfunction function;
    uint32_t n = 16, k = 2;
    const uint32_t i = live(s);
    void *parameters[] = {&s->tensors[i], &n, &k};
    DO(cuModuleLoadData(&module, kernels_ptx));
    DO(cuModuleGetFunction(&function, module, "hostile_fill"));
    if (s->tensors[i])
        DO(cuLaunchKernel(function, 1, 1, 1, 16, 1, 1, 0, s->streams[1], parameters, NULL));
    DO(cuStreamSynchronize(s->streams[1]));
    DO(cuModuleUnload(module));
}

static void pin(soak_t *s)
{
    void *memory;
    (void)s;
    DO(cuMemHostAlloc(&memory, 4096, 0));
    DO(cuMemFreeHost(memory));
}

static void step(soak_t *s)
{
    const uint32_t which = draw(&s->draw, 100);
    if (which < 25)
        allocate_or_free(s);
    else if (which < 88)
        work(s);
    else if (which < 92)
        replace_stream(s);
    else if (which < 96)
        make_graph(s);
    else if (which < 98)
        load_module(s);
    else
        pin(s);
}

static uint64_t resident(void)
{
    unsigned long long size = 0, pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu %llu", &size, &pages) != 2)
        exit(2);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool run(uint64_t operations)
{
    soak_t s = {.draw = draw_of(1, 2, 3, 4)};
    uint64_t heap[QUARTERS + 1], whole[QUARTERS + 1];
    for (int i = 0; i < STREAMS; i++)
        DO(cuStreamCreate(&s.streams[i], CU_STREAM_NON_BLOCKING));
    DO(cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING));
    DO(cuMemHostAlloc(&s.host, 4096, 0));
    for (int i = 0; i < 2 * TENSORS; i++)
        allocate_or_free(&s);
    for (int i = 0; i < FIRST_LAUNCHES; i++)
        launch_four(&s, any_stream(&s));
    for (int quarter = 1; quarter <= QUARTERS; quarter++) {
        for (uint64_t i = 0; i < operations / QUARTERS; i++)
            step(&s);
        DO(cuCtxSynchronize());
        heap[quarter] = mallinfo2().uordblks + mallinfo2().hblkhd;
        whole[quarter] = resident();
        printf("after %llu operations: %llu KiB resident, %llu KiB from malloc\n",
               (unsigned long long)(operations / QUARTERS * (unsigned)quarter),
               (unsigned long long)whole[quarter] >> 10, (unsigned long long)heap[quarter] >> 10);
        fflush(stdout);
    }
    /* Tables that double do so for the last time within half a million operations. */
    return heap[QUARTERS] <= heap[2] + heap_slack && whole[QUARTERS] <= whole[2] + resident_slack;
}

int main(int argc, char **argv)
{
    CUcontext context;
    setenv("MICRODNN_SIM_MODE", "timing", 1);
    if (argc > 2)
        setenv("MICRODNN_MEMORY_BUDGET", argv[2], 1);
    kernels_register();
    DO(cuInit(0));
    DO(cuDevicePrimaryCtxRetain(&context, 0));
    DO(cuCtxSetCurrent(context));
    const bool flat = run(argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000);
    printf(flat ? "flat\n" : "host memory grows\n");
    return !flat;
}
