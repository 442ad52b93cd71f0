/* Operations that name more memory than has room in the library's list of an operation, under a
 * budget, while host memory runs out for the library alone: the operation is right, or refused and
 * nothing is done. Run by test/virtual_names.sh.
 *
 *   virtual_names PROGRAM    one of the list at the end. Exit status 0 if all was right. */
#include <stdbool.h>
#include <string.h>

#include "test/clients/allocator.h"
#include "test/clients/mix.h"

enum {
    WORDS = 4 << 20,
    BYTES = WORDS * 4,
    PIECES = 700,
    PIECE_WORDS = 64,
    LARGE_WORDS = 7 << 20,
    FIRST_BEYOND = 512,
    MOST_TRIES = 100
};

/* ---- host memory that runs out ---- */

static _Thread_local int
    left; /* so many allocations of the library succeed, then one fails; 0: all do */
static bool fired;

static UNWATCHED bool is_librarys(const void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libmicrodnn.so");
}

static UNWATCHED bool fails(const void *caller)
{
    if (left == 0)
        return false;
    const int now = left;
    left = 0; /* dladdr may allocate */
    const bool librarys = is_librarys(caller);
    left = now - librarys;
    fired = fired || (librarys && left == 0);
    return librarys && left == 0;
}

UNWATCHED void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(malloc)(bytes);
}

UNWATCHED void *calloc(size_t count, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(calloc)(count, bytes);
}

UNWATCHED void *realloc(void *block, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(realloc)(block, bytes);
}

UNWATCHED void *reallocarray(void *block, size_t count, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(realloc)(block, count * bytes);
}

/* ---- ---- */

static uint32_t *new_buffer(int value)
{
    uint32_t *buffer;
    CUDA(cudaMalloc((void **)&buffer, BYTES));
    CUDA(cudaMemset(buffer, value, BYTES));
    return buffer;
}

static void expect(const uint32_t *device, uint32_t word)
{
    uint32_t found;
    CUDA(cudaMemcpy(&found, device, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(found == word);
}

/* Nothing else has room beside this. */
static void push_out(void)
{
    uint32_t *other;
    CUDA(cudaMalloc((void **)&other, 11 * (size_t)BYTES / 4));
    CUDA(cudaMemset(other, 50, 11 * (size_t)BYTES / 4));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaFree(other));
}

/* Pieces within `inside`, and one from there into `last`, which is the first that the list has no
 * room for. */
static CUresult copy_pieces(uint32_t *inside, uint32_t *last, cudaStream_t stream)
{
    static CUdeviceptr to[PIECES], from[PIECES];
    static size_t sizes[PIECES], starts[1];
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    for (int i = 0; i < PIECES; i++) {
        to[i] = (CUdeviceptr)(inside + (2 * i + 1) * PIECE_WORDS);
        from[i] = (CUdeviceptr)(inside + 2 * i * PIECE_WORDS);
        sizes[i] = PIECE_WORDS * sizeof(uint32_t);
    }
    to[FIRST_BEYOND] = (CUdeviceptr)last;
    return cuMemcpyBatchAsync(to, from, sizes, PIECES, &how, starts, 1, stream);
}

/* Whichever allocation fails: the last name counts as much as the first. */
static void of_a_batch(void)
{
    cudaStream_t stream;
    uint32_t *const inside = new_buffer(3), *const last = new_buffer(9);
    CUDA(cudaStreamCreate(&stream));
    int tries = 0, refused = 0;
    do {
        CUDA(cudaMemset(last, 9, BYTES));
        push_out();
        fired = false;
        left = ++tries;
        const CUresult result = copy_pieces(inside, last, stream);
        left = 0;
        CUDA(cudaStreamSynchronize(stream));
        CHECK(result == CUDA_SUCCESS || (fired && result == CUDA_ERROR_OUT_OF_MEMORY));
        expect(last, (result == CUDA_SUCCESS ? 3 : 9) * 0x01010101u);
        expect(last + PIECE_WORDS, 9 * 0x01010101u);
        refused += result != CUDA_SUCCESS;
    } while (fired && tries < MOST_TRIES);
    CHECK(tries < MOST_TRIES);
    printf("%d\n", refused);
    CUDA(cudaFree(inside));
    CUDA(cudaFree(last));
    CUDA(cudaStreamDestroy(stream));
}

/* A node's buffer is freed while a launch that may have lost its names uses it. */
static void of_a_graph(void)
{
    cudaStream_t stream;
    uint32_t *buffer, words = 256, k = 5;
    CUgraph graph;
    CUgraphExec executable;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    uint32_t *small;
    CUDA(cudaMallocAsync((void **)&small, 1024, stream));
    DRIVER(cuLaunchKernel(mix, 1, 1, 1, 256, 1, 1, 0, stream,
                          (void *[]){&small, &small, &words, &k}, NULL));
    CUDA(cudaFreeAsync(small, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    DRIVER(cuGraphInstantiate(&executable, graph, 0));
    size_t nodes = 16;
    CUgraphNode all[16];
    DRIVER(cuGraphGetNodes(graph, all, &nodes));
    int tries = 0, refused = 0;
    do {
        CUDA(cudaMalloc((void **)&buffer, LARGE_WORDS * 4));
        words = LARGE_WORDS;
        void *parameters[] = {&buffer, &buffer, &words, &k};
        const CUDA_KERNEL_NODE_PARAMS uses = {.func = mix,
                                              .gridDimX = LARGE_WORDS / 256,
                                              .gridDimY = 1,
                                              .gridDimZ = 1,
                                              .blockDimX = 256,
                                              .blockDimY = 1,
                                              .blockDimZ = 1,
                                              .kernelParams = parameters};
        CUresult set = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < nodes && set != CUDA_SUCCESS; i++)
            set = cuGraphExecKernelNodeSetParams(executable, all[i], &uses);
        CHECK(set == CUDA_SUCCESS);
        CUDA(cudaDeviceSynchronize());
        fired = false;
        left = ++tries;
        const CUresult result = cuGraphLaunch(executable, stream);
        left = 0;
        CHECK(result == CUDA_SUCCESS || (fired && result == CUDA_ERROR_OUT_OF_MEMORY));
        CUDA(cudaFree(buffer));
        uint32_t *next;
        CUDA(cudaMalloc((void **)&next, LARGE_WORDS * 4));
        CUDA(cudaMemset(next, 70, LARGE_WORDS * 4));
        CUDA(cudaDeviceSynchronize());
        expect(next, 70 * 0x01010101u);
        expect(next + LARGE_WORDS - 1, 70 * 0x01010101u);
        CUDA(cudaFree(next));
        refused += result != CUDA_SUCCESS;
    } while (fired && tries < MOST_TRIES);
    CHECK(tries < MOST_TRIES);
    printf("%d\n", refused);
    DRIVER(cuGraphExecDestroy(executable));
    DRIVER(cuGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"of_a_batch", of_a_batch}, {"of_a_graph", of_a_graph}};
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            load_mix();
            programs[i].run();
            return 0;
        }
    fprintf(stderr, "usage: virtual_names PROGRAM\n");
    return 2;
}
