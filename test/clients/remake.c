/* Programs whose kernels can be made again, or only seem to. Each goes through some iterations and prints a sum of all that
 * it has read back, which must not depend on the library. Run by test/remake.sh; needs the simulated GPU, since the
 * kernels have no code.
 *
 *   remake PROGRAM */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/named_kernels.h"

enum { WORDS = 384 << 10, BYTES = 4 * WORDS, SMALL = 4096, ITERATIONS = 14 };

/* ---- kernels: (out, in, extra, k) ---- */

static arrays_t arrays_of(void *const *parameters)
{
    return arrays_in(parameters, BYTES);
}

static uint32_t *extra_of(const arrays_t *arrays)
{
    return simulator->memory(arrays->at, SMALL);
}

static void run_map(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    map_words(&a, WORDS);
}

/* Over and over it has the same result. */
static void run_clamp(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && i < WORDS; i++)
        a.out[i] &= ~a.k;
}

static void run_add(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] += a.in[i];
}

static void run_leave_one(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        if (i != WORDS / 2)
            a.out[i] = 2 * a.in[i] + a.k;
}

/* The first word is never twice the same; nobody reads it. */
static void run_vary(void *const *parameters)
{
    static uint32_t times;
    run_map(parameters);
    const arrays_t a = arrays_of(parameters);
    if (a.out)
        a.out[0] = ++times;
}

/* Depends on what its workspace holds, and leaves something else there. */
static void run_workspace(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const workspace = extra_of(&a);
    for (int i = 0; a.out && workspace && i < WORDS; i++)
        a.out[i] = a.in[i] + workspace[0];
    if (workspace)
        workspace[0] = a.k;
}

static void run_count(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const counter = extra_of(&a);
    for (int i = 0; a.out && counter && i < WORDS; i++)
        a.out[i] = a.in[i] + counter[0];
    if (counter)
        counter[0]++;
}

/* As batch normalization: the result does not depend on what it updates. */
static void run_statistics(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const mean = extra_of(&a);
    run_map(parameters);
    if (mean && a.in)
        mean[0] = 3 * mean[0] + a.in[0];
}

/* Writes what it mostly only reads if the flag says so. */
static void run_seldom(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    const uint32_t *const flag = extra_of(&a);
    run_map(parameters);
    if (flag && a.in && flag[0] == 5)
        a.in[1] += 12345;
}

/* One of two kernels with the same name; it reads what the other one writes, as indices, and writes what that one reads. */
static void run_twin(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++) {
        CHECK(a.out[i] < WORDS); /* a GPU would fault */
        a.in[i] = a.out[i] + a.k;
    }
}

/* Adds to its result, or writes all of it, as the number says. */
static void run_either(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    (a.k == 0 ? run_add : run_map)(parameters);
}

/* Indices. */
static void run_other_twin(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] = (a.in[i] + a.k) % WORDS;
}

/* `extra` lies OFFSET before what the kernel changes. */
enum { OFFSET = 1 << 30 };
static void run_offset(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const other = simulator->memory(a.at + OFFSET, SMALL);
    run_map(parameters);
    if (other)
        other[0] = 3 * other[0] + 1;
}

static const named_kernel_t bodies[] = {{"map", run_map},       {"clamp", run_clamp},
                                        {"add", run_add},       {"leave_one", run_leave_one},
                                        {"vary", run_vary},     {"workspace", run_workspace},
                                        {"count", run_count},   {"statistics", run_statistics},
                                        {"seldom", run_seldom}, {"offset", run_offset},
                                        {"either", run_either}};
enum { BODIES = sizeof bodies / sizeof *bodies };

static void launch(const char *name, cudaStream_t stream, void *out, const void *in,
                   const void *extra, uint32_t k)
{
    launch_shaped(name, 64, stream, out, in, extra, k);
}

/* ---- the program ---- */

static cudaStream_t first, second;
static uint64_t sum = 1469598103934665603;
static uint32_t *host;

static void *allocate(size_t bytes)
{
    void *memory;
    CUDA(cudaMallocAsync(&memory, bytes, first));
    CUDA(cudaMemsetAsync(memory, 1, bytes, first));
    return memory;
}

/* All but the first word. */
static void read_back(const void *memory, size_t bytes)
{
    CUDA(cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, first));
    CUDA(cudaStreamSynchronize(first));
    for (size_t i = 1; i < bytes / 4; i++)
        sum = (sum ^ host[i]) * 1099511628211;
}

static void set_input(void *memory, uint32_t value)
{
    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = i * 2654435761U + value;
    CUDA(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, first));
    CUDA(cudaStreamSynchronize(first));
}

static void set_word(void *memory, uint32_t value)
{
    CUDA(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, first));
    CUDA(cudaStreamSynchronize(first));
}

/* y is made of x by the kernel, and read by another one. */
static void one_kernel(const char *kernel, bool from_old)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    void *const extra = allocate(SMALL);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(x, i);
        if (from_old)
            set_input(y, 100 + i);
        if (strcmp(kernel, "workspace") == 0)
            set_word(extra, i % 3);
        launch(kernel, first, y, x, extra, 17);
        launch("map", first, z, y, NULL, 5);
        read_back(y, BYTES);
        read_back(z, BYTES);
        read_back(extra, SMALL);
        read_back(x, BYTES);
    }
}

static void offset(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    char *const other = allocate(BYTES);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(x, i);
        launch("offset", first, y, x, other + SMALL - OFFSET, 17);
        launch("map", first, z, y, NULL, 5);
        read_back(z, BYTES);
        read_back(other, BYTES);
        CUDA(cudaMemcpyAsync(host, other + SMALL, 4, cudaMemcpyDeviceToHost, first));
        CUDA(cudaStreamSynchronize(first));
        sum += host[0];
    }
}

/* Another kernel may write x between y's making and its use; in one iteration it does. */
static void seldom(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    void *const w = allocate(BYTES), *const flag = allocate(SMALL);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(x, i);
        set_word(flag, i);
        launch("map", first, y, x, NULL, 17);
        launch("seldom", first, w, x, flag, 3);
        launch("map", first, z, y, NULL, 5);
        read_back(z, BYTES);
        read_back(w, BYTES);
        read_back(x, BYTES);
        read_back(y, BYTES);
    }
}

/* x is overwritten by another stream as soon as y is made. */
static void overwritten(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(x, i);
        launch("map", first, y, x, NULL, 17);
        follow(second, first);
        CUDA(cudaMemsetAsync(x, (int)i, BYTES, second));
        launch("map", first, z, y, NULL, 5);
        follow(first, second);
        read_back(z, BYTES);
        read_back(y, BYTES);
    }
}

static void freed(void)
{
    void *const y = allocate(BYTES), *const z = allocate(BYTES);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        void *const x = allocate(BYTES);
        set_input(x, i);
        launch("map", first, y, x, NULL, 17);
        CUDA(cudaFreeAsync(x, first));
        launch("map", first, z, y, NULL, 5);
        read_back(z, BYTES);
        read_back(y, BYTES);
    }
}

static void unload(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        CUmodule const other = load_module(bodies, BODIES);
        set_input(x, i);
        launch("map", first, y, x, NULL, 17);
        if (i >= 5)
            CHECK(cuModuleUnload(other) == CUDA_SUCCESS);
        launch("map", first, z, y, NULL, 5);
        read_back(z, BYTES);
        read_back(y, BYTES);
    }
}

/* Another stream reads what is proven, and writes other memory before and after the proof, in no order with it. */
static void streams(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    void *const w = allocate(BYTES), *const u = allocate(BYTES), *const v = allocate(BYTES);
    void *const other = allocate(BYTES);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(x, i);
        set_input(other, 7 * i);
        launch("map", first, y, x, NULL, 17);
        follow(second, first);
        launch("map", second, u, other, NULL, 1);
        launch("map", first, z, y, NULL, 5);
        for (int k = 0; k < 10; k++)
            launch("add", second, v, other, NULL, 0);
        launch("map", second, w, y, NULL, 2);
        follow(first, second);
        read_back(u, BYTES);
        read_back(v, BYTES);
        read_back(w, BYTES);
        read_back(z, BYTES);
        read_back(y, BYTES);
    }
}

/* A stream waits for a word that the program writes only after it has read z back. */
static void waits(void)
{
    uint32_t *word;
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    CUDA(cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocPortable));
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        *word = 0;
        set_input(x, i);
        CHECK(cuStreamWaitValue32(second, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ) ==
              CUDA_SUCCESS);
        launch("map", first, y, x, NULL, 17);
        launch("map", first, z, y, NULL, 5);
        read_back(z, BYTES);
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        CUDA(cudaStreamSynchronize(second));
    }
}

/* Half of the iterations before a reset, half after it. */
static void reset(void)
{
    for (int half = 0; half < 3; half++) {
        one_kernel("map", false);
        CUDA(cudaDeviceReset());
        CUDA(cudaFree(NULL));
        module = load_module(bodies, BODIES);
        CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        CUDA(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable));
    }
    one_kernel("map", false);
}

/* Launches in a context that ends. Those before it make the kernel known. */
static void context(void)
{
    CUcontext primary, own;
    void *const x = allocate(BYTES), *const y = allocate(BYTES);
    cudaStream_t const before = first;
    CHECK(cuCtxGetCurrent(&primary) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(x, i);
        if (i < 3) {
            launch("map", first, y, x, NULL, 17);
            continue;
        }
        CUmodule const ours = module;
        CHECK(cuCtxCreate(&own, NULL, 0, 0) == CUDA_SUCCESS);
        module = load_module(bodies, BODIES);
        CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
        launch("map", first, y, x, NULL, 17);
        CHECK(cuStreamSynchronize(first) == CUDA_SUCCESS);
        CHECK(cuCtxDestroy(own) == CUDA_SUCCESS);
        CHECK(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
        module = ours;
        first = before;
        read_back(y, BYTES);
    }
}

/* Each launch gets another number, as kernels get their seeds. */
static void seeds(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    for (uint32_t i = 0; i < 3 * ITERATIONS; i++) {
        set_input(x, i);
        launch("map", first, y, x, NULL, 1000 + i);
        launch("map", first, z, y, NULL, 2000 + i);
        read_back(y, BYTES);
        read_back(z, BYTES);
    }
}

/* A number says what the kernel does. */
static void flags(void)
{
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    for (uint32_t i = 0; i < 2 * ITERATIONS; i++) {
        set_input(x, i);
        set_input(y, 100 + i);
        launch("either", first, y, x, NULL, i % 2);
        launch("map", first, z, y, NULL, 5);
        read_back(y, BYTES);
        read_back(z, BYTES);
    }
}

static void twin(const sim_kernel_t *kernel, void *out, void *in)
{
    uint64_t extra = 0;
    uint32_t k = 3;
    void *parameters[] = {&out, &in, &extra, &k};
    CHECK(cuLaunchKernel(simulator->function(kernel), 64, 1, 1, 256, 1, 1, 0, first, parameters,
                         NULL) == CUDA_SUCCESS);
}

static void twins(void)
{
    static const sim_kernel_parameter_t parameters[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}};
    static const sim_kernel_t one = {"twin", 4, parameters, run_other_twin},
                              other = {"twin", 4, parameters, run_twin};
    void *const x = allocate(BYTES), *const y = allocate(BYTES), *const z = allocate(BYTES);
    for (int i = 0; i < 3; i++)
        twin(&one, y, x);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        for (uint32_t k = 0; k < WORDS; k++)
            host[k] = (k + i) % WORDS;
        CUDA(cudaMemcpyAsync(y, host, BYTES, cudaMemcpyHostToDevice, first));
        CUDA(cudaStreamSynchronize(first));
        twin(&other, y, z);
        read_back(y, BYTES);
        read_back(z, BYTES);
    }
}

static void run(const char *program)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"offset", offset}, {"seldom", seldom}, {"overwritten", overwritten},
                    {"freed", freed},   {"unload", unload}, {"streams", streams},
                    {"waits", waits},   {"reset", reset},   {"context", context},
                    {"twins", twins},   {"seeds", seeds},   {"flags", flags}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(program, programs[i].name) == 0) {
            programs[i].run();
            return;
        }
    one_kernel(program, strcmp(program, "clamp") == 0 || strcmp(program, "add") == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    load_kernels(bodies, BODIES);
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable));
    run(argv[1]);
    CUDA(cudaDeviceSynchronize());
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
