/* Programs under a budget that is too small for them, whose kernels' results can be dropped and made again, or only seem
 * so. Each goes through some iterations and prints a sum of all that it has read back, which must not depend on the
 * library. Run by test/drops.sh; needs the simulated GPU, since the kernels have no code.
 *
 *   drops PROGRAM [SEED COUNT] */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/check.h"
#include "test/sim/sim.h"

enum { WORDS = 512 << 10, BYTES = 4 * WORDS, SMALL = 4096, LAYERS = 8, ITERATIONS = 12 };

/* ---- kernels: (out, in, other, k) ---- */

static const sim_api_t *simulator;

typedef struct arrays {
    uint32_t *out, *in, *other;
    uint32_t k;
} arrays_t;

static arrays_t arrays_of(void *const *parameters)
{
    uint64_t at[3];
    arrays_t arrays;
    for (int i = 0; i < 3; i++)
        memcpy(&at[i], parameters[i], sizeof at[i]);
    memcpy(&arrays.k, parameters[3], sizeof arrays.k);
    arrays.out = simulator->memory(at[0], BYTES);
    arrays.in = at[1] ? simulator->memory(at[1], BYTES) : NULL;
    arrays.other = at[2] ? simulator->memory(at[2], BYTES) : NULL;
    return arrays;
}

/* out = 2 in + k */
static void run_map(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] = 2 * a.in[i] + a.k;
}

/* out = 3 in + other */
static void run_back(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && a.other && i < WORDS; i++)
        a.out[i] = 3 * a.in[i] + a.other[i];
}

/* As map; from `after` launches on never twice the same. */
static uint32_t launches, after = UINT32_MAX;
static void run_unsure(void *const *parameters)
{
    run_map(parameters);
    const arrays_t a = arrays_of(parameters);
    if (a.out && ++launches > after)
        a.out[1] += launches;
}

/* Changes a word of what it seems to read, in some launches. */
static void run_secret(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] = 5 * a.in[i];
    if (a.in && a.k % 2 == 1)
        a.in[7] += a.k;
}

static void run_add(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] += a.in[i] + a.k;
}

static const struct {
    const char *name;
    void (*run)(void *const *parameters);
} bodies[] = {{"map", run_map},
              {"back", run_back},
              {"unsure", run_unsure},
              {"secret", run_secret},
              {"add", run_add}};
enum { BODIES = sizeof bodies / sizeof *bodies };

static CUmodule load_module(void)
{
    CUmodule module;
    char ptx[4096] = ".version 6.4\n.target sm_75\n.address_size 64\n";
    for (int i = 0; i < BODIES; i++) {
        strcat(ptx, ".visible .entry ");
        strcat(ptx, bodies[i].name);
        strcat(ptx, "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 k)\n{\nret;\n}\n");
    }
    CHECK(cuModuleLoadData(&module, ptx) == CUDA_SUCCESS);
    return module;
}

static CUmodule module;

static void load_kernels(void)
{
    static const sim_kernel_parameter_t parameters[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}};
    static sim_kernel_t kernels[BODIES];
    sim_api_function_t api;
    void *const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    CHECK(driver);
    *(void **)(void *)&api = dlsym(driver, "sim_api");
    CHECK(api);
    simulator = api();
    for (int i = 0; i < BODIES; i++) {
        kernels[i] = (sim_kernel_t){bodies[i].name, 4, parameters, bodies[i].run};
        simulator->function(&kernels[i]);
    }
    CUDA(cudaFree(NULL));
    module = load_module();
}

static void launch(const char *name, cudaStream_t stream, void *out, const void *in,
                   const void *other, uint32_t k)
{
    CUfunction function;
    void *parameters[] = {&out, (void *)&in, (void *)&other, &k};
    CHECK(cuModuleGetFunction(&function, module, name) == CUDA_SUCCESS);
    CHECK(cuLaunchKernel(function, 64, 1, 1, 256, 1, 1, 0, stream, parameters, NULL) ==
          CUDA_SUCCESS);
}

/* ---- the program ---- */

static cudaStream_t first, second;
static uint64_t sum = 1469598103934665603;
static uint32_t *host;

static void *allocate(size_t bytes)
{
    void *memory;
    CUDA(cudaMallocAsync(&memory, bytes, first));
    return memory;
}

static void add_to_sum(const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ words[i]) * 1099511628211;
}

static void read_back(const void *memory)
{
    CUDA(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, first));
    CUDA(cudaStreamSynchronize(first));
    add_to_sum(host, WORDS);
}

static void set_input(void *memory, uint32_t value)
{
    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = i * 2654435761U + value;
    CUDA(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, first));
    CUDA(cudaStreamSynchronize(first));
}

static void follow(cudaStream_t stream, cudaStream_t other)
{
    cudaEvent_t event;
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaEventRecord(event, other));
    CUDA(cudaStreamWaitEvent(stream, event, 0));
    CUDA(cudaEventDestroy(event));
}

/* x[0] is given, x[i + 1] is made of x[i]; a backward pass reads them in the opposite order. Between the passes
 * `between` does something with them. */
typedef struct chain {
    void *x[LAYERS + 1], *gradients[2];
    uint32_t iteration;
    bool freed; /* x[i] are freed as soon as they were read, and allocated in each iteration */
} chain_t;
typedef void (*between_t)(chain_t *chain);

static void pass_back(chain_t *chain)
{
    CUDA(cudaMemsetAsync(chain->gradients[0], 1, BYTES, first));
    for (int i = LAYERS; i > 0; i--) {
        const int from = (LAYERS - i) % 2;
        launch("back", first, chain->gradients[!from], chain->gradients[from], chain->x[i], 0);
        if (chain->freed)
            CUDA(cudaFreeAsync(chain->x[i], first));
    }
    read_back(chain->gradients[LAYERS % 2]);
}

static void run_chain(const char *kernel, bool freed, between_t between)
{
    chain_t chain = {.freed = freed};
    for (int i = 0; i < 2; i++)
        chain.gradients[i] = allocate(BYTES);
    for (int i = 0; i <= LAYERS && (i == 0 || !freed); i++)
        chain.x[i] = allocate(BYTES);
    for (; chain.iteration < ITERATIONS; chain.iteration++) {
        set_input(chain.x[0], chain.iteration);
        for (int i = 0; i < LAYERS; i++) {
            if (freed)
                chain.x[i + 1] = allocate(BYTES);
            launch(kernel, first, chain.x[i + 1], chain.x[i], NULL, 17);
        }
        if (between)
            between(&chain);
        pass_back(&chain);
    }
}

static void chain(void)
{
    run_chain("map", false, NULL);
}

static void training(void)
{
    run_chain("map", true, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"chain", chain}, {"training", training}};
    CHECK(argc >= 2);
    load_kernels();
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable));
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0)
            programs[i].run();
    CUDA(cudaDeviceSynchronize());
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
