/* The runtime's functions for per-thread default streams. */
#include "test/sim/runtime.h"

#define OWN(name, suffix, parameters, arguments)                                                   \
    cudaError_t name##_##suffix parameters;                                                        \
    cudaError_t name##_##suffix parameters                                                         \
    {                                                                                              \
        sim_calls = &sim_cuda_own;                                                                 \
        cudaError_t error = name arguments;                                                        \
        sim_calls = &sim_cuda;                                                                     \
        return error;                                                                              \
    }
/* The old form of cudaGetDriverEntryPoint is one of them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "test/sim/runtime_own.def"
