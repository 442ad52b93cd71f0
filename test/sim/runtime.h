/* The simulated CUDA runtime's inside. Like the real one it is linked with no driver: it finds
 * libcuda.so.1 when it is first used. */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

/* An old form that the header no longer shows. */
typedef PFN_cuDevicePrimaryCtxReset_v11000 PFN_cuDevicePrimaryCtxReset_v7000;

/* The driver's functions for the legacy default stream, or for per-thread ones. */
typedef struct sim_cuda {
#define DRIVER(name, version) PFN_##name##_v##version name;
#include "test/sim/runtime_driver.def"
#undef DRIVER
} sim_cuda_t;

/* For stream 0 as the legacy stream, and as each thread's own. */
extern sim_cuda_t sim_cuda, sim_cuda_own;

/* Which of them the calling thread's present call uses. */
extern _Thread_local const sim_cuda_t *sim_calls;

/* Finds and initialises the driver once, for the whole process. Any thread. */
cudaError_t sim_cuda_load(void);

/* The driver's resolver, after a successful load. */
PFN_cuGetProcAddress_v12000 sim_cuda_resolver(void);

/* Makes sure of the driver and of a current context: the thread's, or device 0's. */
cudaError_t sim_runtime_begin(void);

/* Remembers an error for cudaGetLastError; returns it. */
cudaError_t sim_runtime_done(cudaError_t error);

/* The primary context of a device, which this copy of the runtime then retains. */
cudaError_t sim_runtime_context(int device, CUcontext *context);

/* Declared by no header for C. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **parameters,
                               size_t shared_bytes, cudaStream_t stream);

/* The body of a runtime function that is `expression` of driver functions. */
#define RUNTIME_CALL(expression)                                                                   \
    do {                                                                                           \
        cudaError_t error_ = sim_runtime_begin();                                                  \
        return sim_runtime_done(error_ != cudaSuccess ? error_ : (cudaError_t)(expression));       \
    } while (0)

/* A whole one. */
#define ENTRY(name, parameters, expression)                                                        \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        RUNTIME_CALL(expression);                                                                  \
    }

#endif
