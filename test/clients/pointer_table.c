/* A program with a kernel that the library cannot foresee: the kernel is given a table, reads there
 * the address of a buffer that none of its parameters names and no copy has brought there, and follows it. Run by
 * test/memory_tool.sh, with and without the library; it knows nothing of it. On the simulated GPU
 * only with MICRODNN_SIM_UNNAMED=1 (test/sim/sim.h).
 *
 *   pointer_table WAY FILL_BYTES
 *
 * WAY: read    the kernel reads that buffer
 *      write   it writes there, too
 *      graph   as read, in a graph of this kernel alone
 *      pinned  as read, the table and the result in pinned memory, where the library looks for pointers
 *      back    as read, but an operation just before it names that buffer
 *      late    as write, but what fills the memory is enqueued behind the kernel, without a wait
 *      untracked  as read; what became of it is never asked
 * FILL_BYTES: of two more buffers, together, which one operation uses before the kernel; 0: none.
 *
 * Exit status: 0 right, 3 an error behind the kernel, 4 wrong content, 1 anything else. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/check.h"
#include "test/sim/sim.h"

enum { GOT_ERROR = 3, WRONG = 4, WORDS = 2 << 20, BYTES = WORDS * 4 };

/* ---- follow_table: h = *table; out[i] = 3 h[i] + 1; if (write) h[i] = out[i] ---- */

static const char follow_ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry follow_table(.param .u64 table, .param .u64 out, .param .u32 n,"
    " .param .u32 write)\n{\n"
    ".reg .pred %p;\n.reg .b32 %r<8>;\n.reg .b64 %d<6>;\n"
    "ld.param.u64 %d0, [table];\nld.param.u64 %d1, [out];\n"
    "ld.param.u32 %r0, [n];\nld.param.u32 %r1, [write];\n"
    "cvta.to.global.u64 %d0, %d0;\ncvta.to.global.u64 %d1, %d1;\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"
    "mad.lo.u32 %r5, %r2, %r3, %r4;\nsetp.ge.u32 %p, %r5, %r0;\n@%p bra done;\n"
    "ld.global.u64 %d2, [%d0];\ncvta.to.global.u64 %d2, %d2;\n"
    "mul.wide.u32 %d3, %r5, 4;\nadd.u64 %d4, %d2, %d3;\nadd.u64 %d5, %d1, %d3;\n"
    "ld.global.u32 %r6, [%d4];\nmad.lo.u32 %r7, %r6, 3, 1;\nst.global.u32 [%d5], %r7;\n"
    "setp.eq.u32 %p, %r1, 0;\n@%p bra done;\nst.global.u32 [%d4], %r7;\n"
    "done:\nret;\n}\n";

static const sim_api_t *simulator;

static void simulated_follow(void *const *parameters)
{
    const uint32_t n = *(uint32_t *)parameters[2];
    const bool write = *(uint32_t *)parameters[3] != 0;
    const uint64_t *const table = simulator->memory(*(uint64_t *)parameters[0], sizeof *table);
    uint32_t *const out = simulator->memory(*(uint64_t *)parameters[1], n * sizeof *out);
    uint32_t *const hidden = table ? simulator->memory(*table, n * sizeof *hidden) : NULL;
    for (uint32_t i = 0; hidden && out && i < n; i++) {
        out[i] = 3 * hidden[i] + 1;
        if (write)
            hidden[i] = out[i];
    }
}

static CUfunction load_follow(void)
{
    static const sim_kernel_parameter_t parameters[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
    static const sim_kernel_t kernel = {"follow_table", 4, parameters, simulated_follow};
    static CUmodule module; /* until the process ends */
    CUfunction follow;
    sim_api_function_t api;
    void *const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    CHECK(driver);
    *(void **)(void *)&api = dlsym(driver, "sim_api");
    if (api) {
        simulator = api();
        simulator->function(&kernel);
    }
    CUDA(cudaFree(NULL));
    CHECK(cuModuleLoadData(&module, follow_ptx) == CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&follow, module, "follow_table") == CUDA_SUCCESS);
    return follow;
}

/* ---- the program ---- */

typedef struct buffers {
    uint32_t *hidden, *out, *host;
    uint64_t *table;
    char *fill[2];
    size_t fill_bytes; /* of each */
} buffers_t;

static void allocate(buffers_t *b, bool pinned)
{
    CUDA(cudaMalloc((void **)&b->hidden, BYTES));
    if (pinned) {
        CUDA(cudaMallocHost((void **)&b->table, sizeof *b->table));
        CUDA(cudaMallocHost((void **)&b->out, BYTES));
    } else {
        CUDA(cudaMalloc((void **)&b->table, sizeof *b->table));
        CUDA(cudaMalloc((void **)&b->out, BYTES));
    }
    b->host = malloc(BYTES);
    CHECK(b->host);
    for (uint32_t i = 0; i < WORDS; i++)
        b->host[i] = i * 2654435761u + 17;
    const uint64_t address = (uintptr_t)b->hidden;
    CUDA(cudaMemcpy(b->hidden, b->host, BYTES, cudaMemcpyHostToDevice));
    /* In halves, as if a kernel had written it: the library follows whole pointers that copies bring. */
    CUDA(cudaMemcpy(b->table, &address, 4, cudaMemcpyDefault));
    CUDA(cudaMemcpy((char *)b->table + 4, (const char *)&address + 4, 4, cudaMemcpyDefault));
    CUDA(cudaMemset(b->out, 0xA5, BYTES));
    for (int i = 0; i < 2 && b->fill_bytes > 0; i++)
        CUDA(cudaMalloc((void **)&b->fill[i], b->fill_bytes));
}

/* Both are there at the same time when the second operation begins. */
static cudaError_t fill(const buffers_t *b)
{
    if (b->fill_bytes == 0)
        return cudaSuccess;
    const cudaError_t error = cudaMemsetAsync(b->fill[0], 0x5A, b->fill_bytes, NULL);
    return error != cudaSuccess ? error
                                : cudaMemcpyAsync(b->fill[1], b->fill[0], b->fill_bytes,
                                                  cudaMemcpyDeviceToDevice, NULL);
}

static void launch(CUfunction follow, buffers_t *b, uint32_t write, cudaStream_t stream)
{
    uint32_t words = WORDS;
    void *parameters[] = {&b->table, &b->out, &words, &write};
    CHECK(cuLaunchKernel(follow, (WORDS + 255) / 256, 1, 1, 256, 1, 1, 0, (CUstream)stream,
                         parameters, NULL) == CUDA_SUCCESS);
}

static void launch_graph(CUfunction follow, buffers_t *b)
{
    static cudaGraphExec_t executable;
    cudaGraph_t graph;
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch(follow, b, 0, stream);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaGraphLaunch(executable, NULL));
}

static void stop_at(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    printf("error: %s\n", cudaGetErrorString(error));
    exit(GOT_ERROR);
}

static void check_content(const buffers_t *b, const uint32_t *device, bool followed)
{
    uint32_t *const got = malloc(BYTES);
    CHECK(got);
    stop_at(cudaMemcpy(got, device, BYTES, cudaMemcpyDefault));
    for (uint32_t i = 0; i < WORDS; i++) {
        const uint32_t expected = followed ? 3 * b->host[i] + 1 : b->host[i];
        if (got[i] == expected)
            continue;
        printf("word %u of %s is %08x, not %08x\n", i, device == b->out ? "out" : "the buffer",
               got[i], expected);
        exit(WRONG);
    }
    free(got);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr,
                "usage: pointer_table read|write|graph|pinned|back|late|untracked FILL_BYTES\n");
        return 1;
    }
    const bool late = !strcmp(argv[1], "late"), write = late || !strcmp(argv[1], "write");
    static buffers_t b; /* likewise */
    b.fill_bytes = strtoull(argv[2], NULL, 10) / 2;
    CUfunction const follow = load_follow();
    allocate(&b, !strcmp(argv[1], "pinned"));
    if (!late)
        CUDA(fill(&b));
    if (!strcmp(argv[1], "back"))
        CUDA(cudaMemcpyAsync(b.out, b.hidden, BYTES, cudaMemcpyDeviceToDevice, NULL));
    CUDA(cudaGetLastError());
    if (!strcmp(argv[1], "graph"))
        launch_graph(follow, &b);
    else
        launch(follow, &b, write, NULL);
    if (!strcmp(argv[1], "untracked"))
        return 0;
    stop_at(late ? fill(&b) : cudaDeviceSynchronize());
    check_content(&b, b.hidden, write); /* late: named again before the kernel has run */
    check_content(&b, b.out, true);
    puts("right");
    return 0;
}
