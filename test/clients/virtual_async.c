/* Memory in the order of streams and of graphs, under a budget: on the device of its stream or
 * pool, and made anew by each launch of a graph that allocates it. Run by test/virtual_async.sh;
 * knows nothing of the library.
 *
 *   virtual_async PROGRAM    one of the list at the end. Exit status 0 if all was right. */
#include <string.h>

#include "test/clients/mix.h"

enum { WORDS = 1 << 20, BYTES = WORDS * 4, VALUE = 7, ROUNDS = 4 };

static cudaStream_t stream;
static uint32_t host[WORDS];

static void expect(const uint32_t *device, uint32_t word)
{
    CUDA(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WORDS; i++)
        CHECK(host[i] == word);
}

static uint32_t words_of(int value)
{
    return (uint32_t)value * 0x01010101u;
}

static void expect_refused(cudaError_t error)
{
    CHECK(error == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

/* ---- devices ---- */

static int device_of(const void *memory)
{
    int ordinal = -1;
    DRIVER(
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)memory));
    return ordinal;
}

/* With another device current than the stream's, either way round. */
static void stream_of_another_device(void)
{
    for (int its = 0; its < 2; its++) {
        cudaStream_t there;
        uint32_t *memory;
        CUDA(cudaSetDevice(its));
        CUDA(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
        CUDA(cudaSetDevice(1 - its));
        CUDA(cudaMallocAsync((void **)&memory, BYTES, there));
        CHECK(device_of(memory) == its);
        CUDA(cudaMemsetAsync(memory, VALUE, BYTES, there));
        CUDA(cudaStreamSynchronize(there));
        CUDA(cudaSetDevice(its));
        expect(memory, words_of(VALUE));
        CUDA(cudaSetDevice(1 - its));
        CUDA(cudaFreeAsync(memory, there));
        CUDA(cudaMallocAsync((void **)&memory, BYTES, NULL)); /* the current device's */
        CHECK(device_of(memory) == 1 - its);
        CUDA(cudaFreeAsync(memory, NULL));
        CUDA(cudaStreamSynchronize(there));
        CUDA(cudaStreamDestroy(there));
    }
}

/* A pool's memory is where the pool is, in the order of a stream of any device. */
static void pool_of_another_device(void)
{
    for (int its = 1; its >= 0; its--) {
        CUmemoryPool pool;
        CUdeviceptr memory;
        CUDA(cudaSetDevice(1 - its));
        DRIVER(cuDeviceGetDefaultMemPool(&pool, its));
        DRIVER(cuMemAllocFromPoolAsync(&memory, BYTES, pool, NULL));
        CHECK(device_of((void *)memory) == its);
        CUDA(cudaStreamSynchronize(NULL));
        CUDA(cudaSetDevice(its));
        CUDA(cudaMemset((void *)memory, VALUE, BYTES));
        expect((uint32_t *)memory, words_of(VALUE));
        CUDA(cudaFree((void *)memory));
    }
}

/* What the program allocates from a pool of its own is in there. */
static void own_pool(void)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool, found = NULL;
    CUdeviceptr memory;
    cuuint64_t used;
    CUDA(cudaSetDevice(0));
    DRIVER(cuMemPoolCreate(&pool, &properties));
    DRIVER(cuMemAllocFromPoolAsync(&memory, BYTES, pool, NULL));
    CUDA(cudaMemset((void *)memory, VALUE, BYTES));
    expect((uint32_t *)memory, words_of(VALUE));
    DRIVER(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
    CHECK(found == pool);
    DRIVER(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == BYTES);
    DRIVER(cuMemFreeAsync(memory, NULL));
    DRIVER(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == 0);
    DRIVER(cuMemPoolDestroy(pool));
}

/* ---- streams that end ---- */

/* What is enqueued in a stream that ends goes on, and the memory is not another's before that,
 * however many streams come and go meanwhile. */
static void work_of_a_stream_that_ends(void)
{
    enum { MANY = 300, LARGE_WORDS = 6 * WORDS, LOOKS = 50 };
    cudaStream_t other;
    uint32_t *memory, *gate, words = LARGE_WORDS, k = 5;
    CUdeviceptr gate_address;
    DRIVER(cuMemHostAlloc((void **)&gate, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    DRIVER(cuMemHostGetDevicePointer(&gate_address, gate, 0));
    *gate = 0;
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA(cudaMallocAsync((void **)&memory, LARGE_WORDS * 4, other));
    CUDA(cudaMemsetAsync(memory, VALUE, LARGE_WORDS * 4, other));
    DRIVER(cuStreamWaitValue32(other, gate_address, 1, CU_STREAM_WAIT_VALUE_EQ));
    DRIVER(cuLaunchKernel(mix, LARGE_WORDS / 256, 1, 1, 256, 1, 1, 0, other,
                          (void *[]){&memory, &memory, &words, &k}, NULL));
    CUDA(cudaFreeAsync(memory, other));
    CUDA(cudaStreamDestroy(other));
    for (int i = 0; i < MANY; i++) {
        CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        CUDA(cudaMallocAsync((void **)&memory, 1024, other));
        CUDA(cudaFreeAsync(memory, other));
        CUDA(cudaStreamDestroy(other));
    }
    CUDA(cudaMallocAsync((void **)&memory, LARGE_WORDS * 4, stream));
    CUDA(cudaMemsetAsync(memory, 9, LARGE_WORDS * 4, stream));
    for (int i = 0; i < LOOKS; i++)
        (void)cudaStreamQuery(stream);
    *(volatile uint32_t *)gate = 1;
    CUDA(cudaDeviceSynchronize());
    expect(memory, words_of(9));
    expect(memory + LARGE_WORDS - WORDS, words_of(9));
    CUDA(cudaFree(memory));
    DRIVER(cuMemFreeHost(gate));
}

/* ---- graphs ---- */

static uint32_t *out;

static cudaGraphExec_t instance_of(cudaGraph_t graph, unsigned flags)
{
    cudaGraphExec_t executable;
    CUDA(cudaGraphInstantiate(&executable, graph, flags));
    CUDA(cudaGraphDestroy(graph));
    return executable;
}

/* It allocates, and leaves 3 * VALUE's words + 7's there. */
static cudaGraph_t allocating_graph(uint32_t **memory)
{
    uint32_t words = WORDS, k = 5;
    cudaGraph_t graph;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaMallocAsync((void **)memory, BYTES, stream));
    CUDA(cudaMemsetAsync(*memory, VALUE, BYTES, stream));
    DRIVER(cuLaunchKernel(mix, WORDS / 256, 1, 1, 256, 1, 1, 0, stream,
                          (void *[]){memory, memory, &words, &k}, NULL));
    CUDA(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static cudaGraph_t freeing_graph(uint32_t *memory)
{
    cudaGraph_t graph;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaMemcpyAsync(out, memory, BYTES, cudaMemcpyDeviceToDevice, stream));
    CUDA(cudaFreeAsync(memory, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void launch_and_check(cudaGraphExec_t executable, const uint32_t *memory)
{
    CUDA(cudaGraphLaunch(executable, stream));
    CUDA(cudaStreamSynchronize(stream));
    expect(memory, 4 * words_of(VALUE) + 5);
}

/* What lives beside it is untouched. */
static void work_beside(void)
{
    uint32_t *others[4];
    for (int i = 0; i < 4; i++) {
        CUDA(cudaMalloc((void **)&others[i], 3 * BYTES));
        CUDA(cudaMemset(others[i], 20 + i, 3 * BYTES));
    }
    for (int i = 0; i < 4; i++) {
        expect(others[i], words_of(20 + i));
        CUDA(cudaFree(others[i]));
    }
}

/* Each launch allocates, the program frees, in one way and the other. */
static void freed_after_each_launch(void)
{
    uint32_t *memory;
    cudaGraphExec_t const executable = instance_of(allocating_graph(&memory), 0);
    for (int i = 0; i < ROUNDS; i++) {
        launch_and_check(executable, memory);
        expect_refused(cudaGraphLaunch(executable, stream)); /* it is not free yet */
        expect(memory, 4 * words_of(VALUE) + 5);
        if (i % 2)
            CUDA(cudaFree(memory));
        else
            CUDA(cudaFreeAsync(memory, stream));
        expect_refused(cudaFreeAsync(memory, stream));
        work_beside();
    }
    launch_and_check(executable, memory);
    CUDA(cudaGraphExecDestroy(executable));
    work_beside();
    expect(memory, 4 * words_of(VALUE) + 5); /* it outlives the graph */
    CUDA(cudaFree(memory));
}

/* Some executables free what their last launch made. */
static void freed_by_the_next_launch(void)
{
    uint32_t *memory;
    cudaGraphExec_t const executable =
        instance_of(allocating_graph(&memory), cudaGraphInstantiateFlagAutoFreeOnLaunch);
    for (int i = 0; i < ROUNDS; i++)
        launch_and_check(executable, memory);
    CUDA(cudaFreeAsync(memory, stream));
    launch_and_check(executable, memory);
    CUDA(cudaFree(memory));
    CUDA(cudaGraphExecDestroy(executable));
}

static void freed_by_another_graph(void)
{
    uint32_t *memory;
    cudaGraph_t const first = allocating_graph(&memory);
    cudaGraphExec_t const frees = instance_of(freeing_graph(memory), 0);
    cudaGraphExec_t const makes = instance_of(first, 0);
    for (int i = 0; i < ROUNDS; i++) {
        launch_and_check(makes, memory);
        CUDA(cudaGraphLaunch(frees, stream));
        CUDA(cudaStreamSynchronize(stream));
        expect(out, 4 * words_of(VALUE) + 5);
        work_beside();
    }
    CUDA(cudaGraphExecDestroy(frees));
    CUDA(cudaGraphExecDestroy(makes));
}

/* So PyTorch's backend cudaMallocAsync asks, before each search of a convolution, how much a workspace may take. */
static void takes_all_that_is_free(bool uses_it)
{
    enum { KEPT = 5 };
    uint32_t *kept[KEPT], *all;
    for (int i = 0; i < KEPT; i++) {
        CUDA(cudaMallocAsync((void **)&kept[i], BYTES, stream));
        CUDA(cudaMemsetAsync(kept[i], i + 1, BYTES, stream));
    }
    for (int round = 0; round < ROUNDS; round++) {
        size_t available, total;
        CUDA(cudaMemGetInfo(&available, &total));
        CHECK(available >= BYTES);
        CUDA(cudaMallocAsync((void **)&all, available, stream));
        if (uses_it)
            CUDA(
                cudaMemsetAsync(all, VALUE, available < 8 * BYTES ? available : 8 * BYTES, stream));
        CUDA(cudaFreeAsync(all, stream));
        CUDA(cudaStreamSynchronize(stream)); /* the driver's pool gives it back */
    }
    for (int i = 0; i < KEPT; i++)
        expect(kept[i], words_of(i + 1));
}

static void asks_what_is_free(void)
{
    takes_all_that_is_free(false);
}

static void uses_what_is_free(void)
{
    takes_all_that_is_free(true);
}

/* A capture frees only what a graph allocates; else the memory stays the program's. */
static void not_a_graphs(void)
{
    uint32_t *memory;
    cudaGraph_t graph;
    CUDA(cudaMallocAsync((void **)&memory, BYTES, stream));
    CUDA(cudaMemsetAsync(memory, VALUE, BYTES, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    expect_refused(cudaFreeAsync(memory, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphDestroy(graph));
    work_beside();
    expect(memory, words_of(VALUE));
    CUDA(cudaFreeAsync(memory, stream));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"stream_of_another_device", stream_of_another_device},
                    {"pool_of_another_device", pool_of_another_device},
                    {"own_pool", own_pool},
                    {"work_of_a_stream_that_ends", work_of_a_stream_that_ends},
                    {"freed_after_each_launch", freed_after_each_launch},
                    {"freed_by_the_next_launch", freed_by_the_next_launch},
                    {"freed_by_another_graph", freed_by_another_graph},
                    {"asks_what_is_free", asks_what_is_free},
                    {"uses_what_is_free", uses_what_is_free},
                    {"not_a_graphs", not_a_graphs}};
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            load_mix();
            CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            CUDA(cudaMalloc((void **)&out, BYTES));
            programs[i].run();
            return 0;
        }
    fprintf(stderr, "usage: virtual_async PROGRAM\n");
    return 2;
}
