/* Kernels that have code here, for the simulated GPU, which runs them by their names. Each has the parameters (a, b, c, k):
 * three addresses and a number. */
#ifndef MDNN_TEST_NAMED_KERNELS_H
#define MDNN_TEST_NAMED_KERNELS_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/check.h"
#include "test/sim/sim.h"

typedef struct named_kernel {
    const char *name;
    void (*run)(void *const *parameters);
} named_kernel_t;

static const sim_api_t *simulator;
static CUmodule module;

/* What a kernel was given. */
typedef struct arrays {
    uint32_t *out, *in; /* of `bytes`; NULL: such memory is not there */
    uint64_t at;        /* c itself */
    uint32_t k;
} arrays_t;

static arrays_t arrays_in(void *const *parameters, size_t bytes)
{
    uint64_t at[3];
    arrays_t arrays;
    for (int i = 0; i < 3; i++)
        memcpy(&at[i], parameters[i], sizeof at[i]);
    memcpy(&arrays.k, parameters[3], sizeof arrays.k);
    arrays.out = simulator->memory(at[0], bytes);
    arrays.in = at[1] ? simulator->memory(at[1], bytes) : NULL;
    arrays.at = at[2];
    return arrays;
}

/* out = 2 in + k */
static inline void map_words(const arrays_t *a, int words)
{
    for (int i = 0; a->out && a->in && i < words; i++)
        a->out[i] = 2 * a->in[i] + a->k;
}

/* Code with kernels of these names. */
static CUmodule load_module(const named_kernel_t *kernels, size_t count)
{
    CUmodule loaded;
    char ptx[4096] = ".version 6.4\n.target sm_75\n.address_size 64\n";
    for (size_t i = 0; i < count; i++) {
        strcat(ptx, ".visible .entry ");
        strcat(ptx, kernels[i].name);
        strcat(ptx, "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 k)\n{\nret;\n}\n");
    }
    CHECK(cuModuleLoadData(&loaded, ptx) == CUDA_SUCCESS);
    return loaded;
}

enum { NAMED_KERNELS_MAX = 16 };

/* Makes them known to the simulator, and loads `module`. */
static void load_kernels(const named_kernel_t *kernels, size_t count)
{
    static const sim_kernel_parameter_t parameters[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}};
    static sim_kernel_t known[NAMED_KERNELS_MAX];
    sim_api_function_t api;
    void *const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    CHECK(driver && count <= NAMED_KERNELS_MAX);
    *(void **)(void *)&api = dlsym(driver, "sim_api");
    CHECK(api);
    simulator = api();
    for (size_t i = 0; i < count; i++) {
        known[i] = (sim_kernel_t){kernels[i].name, 4, parameters, kernels[i].run};
        simulator->function(&known[i]);
    }
    CUDA(cudaFree(NULL));
    module = load_module(kernels, count);
}

static void launch_shaped(const char *name, unsigned blocks, cudaStream_t stream, void *a,
                          const void *b, const void *c, uint32_t k)
{
    CUfunction function;
    void *parameters[] = {&a, (void *)&b, (void *)&c, &k};
    CHECK(cuModuleGetFunction(&function, module, name) == CUDA_SUCCESS);
    CHECK(cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, stream, parameters, NULL) ==
          CUDA_SUCCESS);
}

/* What is enqueued in `stream` from now on waits for what `other` has now. */
static void follow(cudaStream_t stream, cudaStream_t other)
{
    cudaEvent_t event;
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaEventRecord(event, other));
    CUDA(cudaStreamWaitEvent(stream, event, 0));
    CUDA(cudaEventDestroy(event));
}

#endif
