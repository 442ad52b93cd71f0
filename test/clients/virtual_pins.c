/* Memory that others refer to without keeping it alive, under a budget that holds one buffer: it
 * must stay while that lasts, and be like any other memory when it was freed, when the reference
 * has ended, or when there never was one since the driver refused it. Run by
 * test/virtual_memory.sh; knows nothing of the library.
 *
 *   virtual_pins PROGRAM    one of the list at the end. Exit status 0 if all was right. */
#include <string.h>
#include <unistd.h>

#include "test/clients/mix.h"

enum { WORDS = 7 << 20, BYTES = WORDS * 4, ROUNDS = 4 };

static uint32_t *small[2]; /* an operation on these alone fits beside anything */
static cudaStream_t apart; /* waits for no other stream, nor they for it */

static uint32_t *new_buffer(int value)
{
    uint32_t *buffer;
    CUDA(cudaMalloc((void **)&buffer, BYTES));
    CUDA(cudaMemset(buffer, value, BYTES));
    return buffer;
}

static void expect(const uint32_t *device, uint32_t word)
{
    static const size_t places[] = {0, WORDS / 2 + 3, WORDS - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint32_t found;
        CUDA(cudaMemcpy(&found, device + places[i], sizeof found, cudaMemcpyDeviceToHost));
        CHECK(found == word);
    }
}

static uint32_t words_of(int value)
{
    return (uint32_t)value * 0x01010101u;
}

/* Another buffer has room. */
static void check_can_leave(const uint32_t *buffer, int value)
{
    uint32_t *const other = new_buffer(value + 1);
    expect(other, words_of(value + 1));
    expect(buffer, words_of(value));
    CUDA(cudaFree(other));
}

/* ---- what is told to others ---- */

/* As UCX and MPI do with each buffer that they meet; the driver may refuse it. */
static void attribute(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        unsigned on = 1;
        if (cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)buffer) !=
            CUDA_SUCCESS)
            check_can_leave(buffer, i);
        CUDA(cudaFree(buffer));
    }
}

static void descriptor(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        int file = -1;
        CHECK(cuMemGetHandleForAddressRange(&file, (CUdeviceptr)buffer, 5,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                            0) == CUDA_ERROR_INVALID_VALUE);
        check_can_leave(buffer, i);
        DRIVER(cuMemGetHandleForAddressRange(&file, (CUdeviceptr)buffer, BYTES,
                                             CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
        CHECK(close(file) == 0);
        CUDA(cudaFree(buffer));
    }
}

/* There is none, as of all memory of cudaMalloc. */
static void allocation_handle(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        CUmemGenericAllocationHandle handle;
        CHECK(cuMemRetainAllocationHandle(&handle, buffer) == CUDA_ERROR_INVALID_VALUE);
        check_can_leave(buffer, i);
        CUDA(cudaFree(buffer));
    }
}

/* ---- questions ---- */

static uint64_t id_of(const uint32_t *buffer)
{
    uint64_t id = 0;
    DRIVER(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)buffer));
    return id;
}

static void ask_one_by_one(const uint32_t *buffer)
{
    const CUdeviceptr start = (CUdeviceptr)buffer, at = start + BYTES / 2;
    struct cudaPointerAttributes attributes;
    unsigned type = 0;
    int device = -1;
    CUdeviceptr found = 0;
    size_t bytes = 0;
    CUcontext context = NULL, current;
    unsigned char managed = 1;
    DRIVER(cuCtxGetCurrent(&current));
    DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    DRIVER(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    DRIVER(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
    DRIVER(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    DRIVER(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    CHECK(type == CU_MEMORYTYPE_DEVICE && device == 0 && found == at && context == current);
    CHECK(managed == 0);
    DRIVER(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    DRIVER(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    CHECK(found == start && bytes == BYTES);
    DRIVER(cuMemGetAddressRange(&found, &bytes, at));
    CHECK(found == start && bytes == BYTES);
    CHECK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_HOST_POINTER, at) ==
          CUDA_ERROR_INVALID_VALUE);
    CUDA(cudaPointerGetAttributes(&attributes, (const void *)at));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == (void *)at);
}

static void ask_all(const uint32_t *buffer)
{
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER,   CU_POINTER_ATTRIBUTE_BUFFER_ID};
    unsigned type = 0;
    int device = -1;
    uint64_t start = 0, host = 1, at = 0, id = 0;
    void *answers[] = {&type, &device, &start, &host, &at, &id};
    DRIVER(cuPointerGetAttributes(6, asked, answers, (CUdeviceptr)buffer + 8));
    CHECK(type == CU_MEMORYTYPE_DEVICE && device == 0 && start == (CUdeviceptr)buffer);
    CHECK(host == 0 && at == (CUdeviceptr)buffer + 8 && id == id_of(buffer));
}

static void ask_about(const uint32_t *buffer)
{
    CUmemGenericAllocationHandle handle;
    ask_one_by_one(buffer);
    ask_all(buffer);
    CHECK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)buffer) ==
          CUDA_ERROR_INVALID_VALUE);
}

static CUresult create_texture(CUtexObject *object, const uint32_t *buffer, size_t bytes);

/* One that is away has no room while the other stays, and needs none: it is only asked about. What must
 * stay to be told to others is not to be had, which those calls have an error for. */
static void questions(void)
{
    uint32_t *const away = new_buffer(1), *const stays = new_buffer(2);
    const uint64_t id = id_of(away);
    CUtexObject texture;
    unsigned on = 1;
    int file;
    CHECK(id != id_of(stays));
    DRIVER(create_texture(&texture, stays, BYTES));
    ask_about(away);
    ask_about(stays);
    CHECK(id_of(away) == id);
    CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)away) !=
          CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemGetHandleForAddressRange(&file, (CUdeviceptr)away, 5,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                        0) != CUDA_ERROR_OUT_OF_MEMORY);
    DRIVER(cuTexObjectDestroy(texture));
    expect(away, words_of(1));
    CHECK(id_of(away) == id);
    CUDA(cudaFree(away));
    uint32_t *const next = new_buffer(3);
    CHECK(id_of(next) != id && id_of(next) != id_of(stays));
    CUDA(cudaFree(next));
    CUDA(cudaFree(stays));
}

/* ---- textures ---- */

static CUresult create_texture(CUtexObject *object, const uint32_t *buffer, size_t bytes)
{
    const CUDA_TEXTURE_DESC texture = {0};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    resource.res.linear.devPtr = (CUdeviceptr)buffer;
    resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = bytes;
    return cuTexObjectCreate(object, &resource, &texture, NULL);
}

static void texture(void)
{
    CUtexObject left[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        CUtexObject object;
        CHECK(create_texture(&object, buffer, 0) == CUDA_ERROR_INVALID_VALUE);
        check_can_leave(buffer, i);
        DRIVER(create_texture(&object, buffer, BYTES));
        DRIVER(cuTexObjectDestroy(object));
        check_can_leave(buffer, i);
        DRIVER(create_texture(&left[i], buffer, BYTES));
        CUDA(cudaFree(buffer)); /* the texture is not used any more, and still there */
    }
    for (int i = 0; i < ROUNDS; i++)
        DRIVER(cuTexObjectDestroy(left[i]));
}

/* The end of a texture whose memory is gone says nothing of what is there now; if it did, what the
 * kernel reaches through a table would leave. */
static void texture_after_texture(void)
{
    CUtexObject first, second;
    uint32_t *buffer = new_buffer(1);
    DRIVER(create_texture(&first, buffer, BYTES));
    CUDA(cudaFree(buffer));
    buffer = new_buffer(2);
    DRIVER(create_texture(&second, buffer, BYTES));
    DRIVER(cuTexObjectDestroy(first));
    CHECK(cuTexObjectDestroy(first) == CUDA_ERROR_INVALID_VALUE);
    uint32_t *other = NULL, *table, words = WORDS, k = 5;
    if (cudaMalloc((void **)&other, BYTES) != cudaSuccess)
        (void)cudaGetLastError(); /* there is no room beside it */
    else
        CUDA(cudaMemset(other, 3, BYTES));
    CUDA(cudaMalloc((void **)&table, 16));
    CUDA(cudaMemcpy(table, (uint32_t *[]){buffer, buffer}, 16, cudaMemcpyHostToDevice));
    DRIVER(cuLaunchKernel(mix_hidden, WORDS / 256, 1, 1, 256, 1, 1, 0, NULL,
                          (void *[]){&table, &words, &k}, NULL));
    CUDA(cudaDeviceSynchronize());
    expect(buffer, 4 * words_of(2) + 5);
    DRIVER(cuTexObjectDestroy(second));
    CUDA(cudaFree(buffer));
    if (other)
        CUDA(cudaFree(other));
    CUDA(cudaFree(table));
}

/* Copies the words by their halves, in which no one sees the pointers. */
static void hide(uint32_t *table, uint32_t *pointers[2])
{
    for (int i = 0; i < 4; i++)
        CUDA(cudaMemcpy(table + i, (uint32_t *)pointers + i, 4, cudaMemcpyHostToDevice));
}

/* A free waits for kernels that use the memory, though none of their parameters names it. */
static void freed_in_use(void)
{
    uint32_t *table, words = WORDS, k = 5;
    CUDA(cudaMalloc((void **)&table, 16));
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        CUtexObject object;
        DRIVER(create_texture(&object, buffer, BYTES));
        hide(table, (uint32_t *[]){buffer, buffer});
        CUDA(cudaDeviceSynchronize());
        DRIVER(cuLaunchKernel(mix_hidden, WORDS / 256, 1, 1, 256, 1, 1, 0, apart,
                              (void *[]){&table, &words, &k}, NULL));
        CUDA(cudaFree(buffer));
        uint32_t *const next = new_buffer(100 + i);
        CUDA(cudaDeviceSynchronize());
        expect(next, words_of(100 + i));
        CUDA(cudaFree(next));
        DRIVER(cuTexObjectDestroy(object));
    }
    CUDA(cudaFree(table));
}

/* ---- nodes ---- */

typedef struct node {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec executable;
} node_t;

/* One kernel, on small memory. */
static node_t new_node(void)
{
    node_t made;
    cudaStream_t stream;
    uint32_t words = 256, k = 0;
    size_t count = 1;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    DRIVER(cuLaunchKernel(mix, 1, 1, 1, 256, 1, 1, 0, stream,
                          (void *[]){&small[0], &small[1], &words, &k}, NULL));
    CUDA(cudaStreamEndCapture(stream, &made.graph));
    DRIVER(cuGraphGetNodes(made.graph, &made.node, &count));
    DRIVER(cuGraphInstantiate(&made.executable, made.graph, 0));
    CUDA(cudaStreamDestroy(stream));
    return made;
}

static void end_node(node_t *node)
{
    DRIVER(cuGraphExecDestroy(node->executable));
    DRIVER(cuGraphDestroy(node->graph));
}

static void give(node_t *node, uint32_t *buffer, bool to_executable, CUresult expected)
{
    uint32_t words = WORDS, k = 5;
    void *parameters[] = {&buffer, &buffer, &words, &k};
    const CUDA_KERNEL_NODE_PARAMS uses = {.func = mix,
                                          .gridDimX = WORDS / 256,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 256,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = parameters};
    CHECK((to_executable ? cuGraphExecKernelNodeSetParams(node->executable, node->node, &uses)
                         : cuGraphKernelNodeSetParams(node->node, &uses)) == expected);
}

static void launch_and_check(CUgraphExec executable, const uint32_t *buffer, int value)
{
    DRIVER(cuGraphLaunch(executable, NULL));
    CUDA(cudaDeviceSynchronize());
    expect(buffer, 4 * words_of(value) + 5);
}

/* The executable gets a new buffer in each round, and the old one ends. */
static void executable_node(void)
{
    node_t node = new_node();
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        give(&node, buffer, true, CUDA_SUCCESS);
        launch_and_check(node.executable, buffer, i);
        CUDA(cudaFree(buffer));
    }
    end_node(&node);
}

/* Likewise where only the graph changes, and nobody says which one that is. */
static void graph_node(void)
{
    node_t node = new_node();
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        CUgraphExec executable;
        give(&node, buffer, false, CUDA_SUCCESS);
        DRIVER(cuGraphInstantiate(&executable, node.graph, 0));
        launch_and_check(executable, buffer, i);
        DRIVER(cuGraphExecDestroy(executable));
        CUDA(cudaFree(buffer));
    }
    end_node(&node);
}

/* What is launched still when the buffer is freed is waited for. */
static void graph_node_in_use(void)
{
    node_t node = new_node();
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        CUgraphExec executable;
        give(&node, buffer, false, CUDA_SUCCESS);
        DRIVER(cuGraphInstantiate(&executable, node.graph, 0));
        CUDA(cudaDeviceSynchronize());
        DRIVER(cuGraphLaunch(executable, apart));
        CUDA(cudaFree(buffer));
        uint32_t *const next = new_buffer(100 + i);
        CUDA(cudaDeviceSynchronize());
        expect(next, words_of(100 + i));
        CUDA(cudaFree(next));
        DRIVER(cuGraphExecDestroy(executable));
    }
    end_node(&node);
}

/* The driver refuses the change: nothing has the buffer. */
static void refused_node(void)
{
    node_t node = new_node();
    CHECK(simulator);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        uint32_t *const buffer = new_buffer(i);
        const bool to_executable = i % 2 == 0;
        simulator->inject(to_executable ? "cuGraphExecKernelNodeSetParams_v2"
                                        : "cuGraphKernelNodeSetParams_v2",
                          1, CUDA_ERROR_NOT_SUPPORTED);
        give(&node, buffer, to_executable, CUDA_ERROR_NOT_SUPPORTED);
        check_can_leave(buffer, i);
        CUDA(cudaFree(buffer));
    }
    end_node(&node);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"attribute", attribute},
                    {"descriptor", descriptor},
                    {"allocation_handle", allocation_handle},
                    {"questions", questions},
                    {"texture", texture},
                    {"texture_after_texture", texture_after_texture},
                    {"freed_in_use", freed_in_use},
                    {"executable_node", executable_node},
                    {"graph_node", graph_node},
                    {"graph_node_in_use", graph_node_in_use},
                    {"refused_node", refused_node}};
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            load_mix();
            CUDA(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
            for (int j = 0; j < 2; j++)
                CUDA(cudaMalloc((void **)&small[j], 1024));
            programs[i].run();
            for (int j = 0; j < 2; j++)
                CUDA(cudaFree(small[j]));
            CUDA(cudaStreamDestroy(apart));
            return 0;
        }
    fprintf(stderr, "usage: virtual_pins PROGRAM\n");
    return 2;
}
