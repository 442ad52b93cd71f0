/* For the libraries here: kernels of the simulated GPU. They follow addresses that they read in device
 * memory, so programs set MICRODNN_SIM_UNNAMED=1 (test/sim/sim.h). */
#ifndef TEST_LIBRARIES_KERNELS_H
#define TEST_LIBRARIES_KERNELS_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include <cuda.h>

#include "test/sim/sim.h"

static const sim_api_t *simulator;

static CUfunction find_kernel(const sim_kernel_t *kernel)
{
    sim_api_function_t api;
    void *const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    *(void **)(void *)&api = driver ? dlsym(driver, "sim_api") : NULL;
    if (!api)
        abort(); /* not a simulated GPU */
    simulator = api();
    return simulator->function(kernel);
}

/* 0 or 1, as the libraries' own status of success and of a failed launch are not the same number. */
static int launch_kernel(CUfunction function, CUstream stream, void **parameters)
{
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL) != CUDA_SUCCESS;
}

#endif
