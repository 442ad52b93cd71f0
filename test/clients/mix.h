/* What programs under a budget are made of: checks, and a kernel whose results a model foretells,
 * on the simulated GPU and on real ones. */
#ifndef MIX_H
#define MIX_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/check.h"
#include "test/sim/sim.h"

static CUfunction mix, mix_hidden; /* of the current device */

/* ---- a[i] = 3 a[i] + b[i] + k; mix_hidden finds a and b in `table` ---- */

#define MIX_BODY                                                                                   \
    "ld.param.u32 %r0, [n];\nld.param.u32 %r1, [k];\n"                                             \
    "cvta.to.global.u64 %d0, %d0;\ncvta.to.global.u64 %d1, %d1;\n"                                 \
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"                        \
    "mad.lo.u32 %r5, %r2, %r3, %r4;\nsetp.ge.u32 %p, %r5, %r0;\n@%p bra done;\n"                   \
    "mul.wide.u32 %d2, %r5, 4;\nadd.u64 %d3, %d0, %d2;\nadd.u64 %d4, %d1, %d2;\n"                  \
    "ld.global.u32 %r6, [%d3];\nld.global.u32 %r7, [%d4];\n"                                       \
    "mad.lo.u32 %r8, %r6, 3, %r7;\nadd.u32 %r8, %r8, %r1;\nst.global.u32 [%d3], %r8;\n"            \
    "done:\nret;\n}\n"

static const char mix_ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry mix(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 k)\n{\n"
    ".reg .pred %p;\n.reg .b32 %r<10>;\n.reg .b64 %d<6>;\n"
    "ld.param.u64 %d0, [a];\nld.param.u64 %d1, [b];\n" MIX_BODY
    ".visible .entry mix_hidden(.param .u64 table, .param .u32 n, .param .u32 k)\n{\n"
    ".reg .pred %p;\n.reg .b32 %r<10>;\n.reg .b64 %d<6>;\n"
    "ld.param.u64 %d5, [table];\ncvta.to.global.u64 %d5, %d5;\n"
    "ld.global.u64 %d0, [%d5];\nld.global.u64 %d1, [%d5+8];\n" MIX_BODY;

static const sim_api_t *simulator;

/* The model of the kernel; a may be b. */
__attribute__((optimize("O3"))) static inline void mix_arrays(uint32_t *a, const uint32_t *b,
                                                              uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = 3 * a[i] + b[i] + k;
}

static void mix_words(uint64_t first, uint64_t second, uint32_t n, uint32_t k)
{
    uint32_t *const a = simulator->memory(first, n * sizeof *a);
    const uint32_t *const b = simulator->memory(second, n * sizeof *b);
    if (a && b)
        mix_arrays(a, b, n, k);
}

static void simulated_mix(void *const *parameters)
{
    mix_words(*(uint64_t *)parameters[0], *(uint64_t *)parameters[1], *(uint32_t *)parameters[2],
              *(uint32_t *)parameters[3]);
}

static void simulated_mix_hidden(void *const *parameters)
{
    const uint64_t *const table = simulator->memory(*(uint64_t *)parameters[0], 16);
    if (table)
        mix_words(table[0], table[1], *(uint32_t *)parameters[1], *(uint32_t *)parameters[2]);
}

static void load_mix(void)
{
    static const sim_kernel_parameter_t parameters[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
    static const sim_kernel_parameter_t of_hidden[] = {{0, 8}, {8, 4}, {12, 4}};
    static const sim_kernel_t kernel = {"mix", 4, parameters, simulated_mix};
    static const sim_kernel_t other = {"mix_hidden", 3, of_hidden, simulated_mix_hidden};
    sim_api_function_t api;
    void *const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    CHECK(driver);
    *(void **)(void *)&api = dlsym(driver, "sim_api");
    if (api) {
        simulator = api();
        simulator->function(&kernel);
        simulator->function(&other);
    }
    CUDA(cudaFree(NULL));
    static CUmodule modules[16]; /* not lost, for who looks for leaks */
    static int count;
    CHECK(count < 16);
    CUmodule *const module = &modules[count++];
    CHECK(cuModuleLoadData(module, mix_ptx) == CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&mix, *module, "mix") == CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&mix_hidden, *module, "mix_hidden") == CUDA_SUCCESS);
}

#endif
