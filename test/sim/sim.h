/* What the simulated libcuda.so.1 offers to the simulated libcudart and libcudnn and to tests, beyond
 * the driver API. Found with dlsym on libcuda.so.1; a real driver has none of these names.
 *
 * A simulated kernel is a C function. It is launched through cuLaunchKernel[Ex] with real parameter
 * layouts: each parameter is copied at the launch, the body runs later, when its dependencies allow
 * and something waits for it, so that a missing wait shows, and sees device memory only through
 * sim_memory, and of that only what a parameter names: a library's kernel that touches more would
 * break what was measured of the real ones, and the simulator ends the process. MICRODNN_SIM_UNNAMED=1
 * in the environment takes that check away, for programs whose own kernels follow pointers that they
 * read in device memory: then whether an access faults depends on the mapping alone, as on a real GPU.
 * Device addresses are numbers inside a PROT_NONE reservation: host code that touches one faults, as
 * with a real GPU. */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

typedef struct sim_kernel_parameter {
    uint32_t offset_bytes; /* in the kernel's parameter buffer */
    uint32_t size_bytes;
} sim_kernel_parameter_t;

typedef struct sim_kernel {
    const char *name;
    uint32_t parameter_count;
    const sim_kernel_parameter_t *parameters;
    /* parameters[i] points to a copy of the i-th parameter. Not called in timing mode. */
    void (*run)(void *const *parameters);
} sim_kernel_t;

/* The first word of a tensor map; the second is the address, exclusive-or this. */
#define SIM_TENSOR_MAP_MARK UINT64_C(0x73696d74656e736f)

typedef enum sim_mode { SIM_COMPUTE, SIM_TIMING } sim_mode_t;

/* Figures of a GPU; see test/sim/profiles.def for the sources of each. */
typedef struct sim_profile {
    const char *name;
    const char *calibration; /* "illustration", or what it was calibrated from */
    int compute_major, compute_minor, multiprocessors;
    uint64_t memory_bytes;
    double fp32_tflops;      /* plain FMA peak */
    double tf32_tflops;      /* 0: no TF32 */
    double fp16_tflops;      /* with tensor cores, or plain */
    double memory_gbps;      /* device memory */
    double link_gbps;        /* pinned, one direction */
    double link_duplex_gbps; /* each direction when both are busy */
    double launch_us;        /* host time of a launch */
    double kernel_floor_us;  /* shortest kernel */
} sim_profile_t;

/* All of these are exported by the simulated libcuda.so.1 under these names. */
typedef struct sim_api {
    uint32_t version; /* 1 */
    sim_mode_t (*mode)(void);
    const sim_profile_t *(*profile)(int device);
    /* A launchable handle for `kernel`, which must live as long as the process. Idempotent. From then
     * on, modules whose PTX has an entry of that name find it by cuModuleGetFunction, too. */
    CUfunction (*function)(const sim_kernel_t *kernel);
    /* Virtual duration of the calling thread's next launch, in microseconds. */
    void (*set_next_cost_us)(double cost_us);
    /* Host address of `bytes` bytes at device address `address` under the mappings in force now, or
     * NULL (and the context gets the sticky CUDA_ERROR_ILLEGAL_ADDRESS). For kernels only. */
    void *(*memory)(uint64_t address, uint64_t bytes);
    /* Virtual time of the host clock and total operations executed so far; for tests and tools. */
    double (*host_time_us)(void);
    uint64_t (*operations_run)(void);
    /* Fault injection: the `nth` following call (1 = next) of driver function `name` returns `code`. */
    void (*inject)(const char *name, uint64_t nth, CUresult code);
    /* How many faults, injected in whatever way, calls of the driver have had so far. */
    uint64_t (*faults_fired)(void);
    /* Bytes of that device's memory that the process holds, and the most that it has held. */
    uint64_t (*used_bytes)(int device);
    uint64_t (*most_used_bytes)(int device);
    /* Bytes of the host's memory that are pinned, registered, or a handle of the driver's. */
    uint64_t (*pinned_bytes)(void);
} sim_api_t;

/* The one extra export: const sim_api_t *sim_api(void). */
typedef const sim_api_t *(*sim_api_function_t)(void);

#endif
