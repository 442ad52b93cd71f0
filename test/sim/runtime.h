/* The simulated CUDA runtime's inside. Like the real one it is linked with no driver: it finds
 * libcuda.so.1 when it is first used. */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

/* The driver's functions for the legacy default stream, or for per-thread ones. */
typedef struct sim_cuda {
#define DRIVER(name, version) PFN_##name##_v##version name;
#include "test/sim/runtime_driver.def"
#undef DRIVER
} sim_cuda_t;

extern sim_cuda_t sim_cuda;

/* Finds and initialises the driver once, for the whole process. Any thread. */
cudaError_t sim_cuda_load(void);

/* The driver's resolver, after a successful load. */
PFN_cuGetProcAddress_v12000 sim_cuda_resolver(void);

#endif
