/* Stand-ins for libcuda.so.1, libcudart.so.13 and libcudnn.so.9: every function that the library
 * hooks or calls by itself, under the real sonames and version nodes, doing next to nothing. They
 * serve where the simulated GPU does too much: benches of what the library adds to a call, and
 * tests that look at which calls it makes. A clock of their own advances by a model's cost with
 * every convolution, so that measurements find what standin_cudnn.c says. One thread only. */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

typedef enum standin_function {
#define CUDNN_HOOK(name, parameters, arguments) STANDIN_##name,
#define GRAPH_HOOK CUDNN_HOOK
#define RUNTIME_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
#define CUDNN_FUNCTION(name) STANDIN_##name,
#define DRIVER_FUNCTION(name) STANDIN_##name,
#define OPTIONAL_FUNCTION(name) /* nor ids of contexts */
#define MEMORY_FUNCTION(name)   /* the stand-in is a driver without virtual memory */
#include "shim/real/support.def"
#undef CUDNN_FUNCTION
#undef DRIVER_FUNCTION
#undef OPTIONAL_FUNCTION
#undef MEMORY_FUNCTION
    STANDIN_FUNCTION_COUNT
} standin_function_t;

/* A convolution that succeeded on memory of the host; what runs on cuMemAlloc's is a measurement.
 */
typedef struct standin_run {
    int algo;
    int images;
    int math_type;
    int x_alignment; /* largest power of two <= 16 that divides the address of x */
    size_t workspace_bytes;
    const void *x;
} standin_run_t;

enum { STANDIN_RUNS = 64 };

/* Exported by libcuda.so.1 as `standin`. Tests read and write it as they like. */
typedef struct standin {
    uint64_t calls[STANDIN_FUNCTION_COUNT];
    standin_run_t runs[STANDIN_RUNS]; /* the first ones since run_count was set to 0 */
    int run_count;
    double now_us;
    uint64_t free_bytes; /* what cuMemGetInfo answers */
    int device;
    bool capturing;
    standin_function_t fail_function; /* STANDIN_FUNCTION_COUNT: none */
    uint64_t fail_nth;     /* its call of this number (from 1 on) fails and does nothing */
    bool nested;           /* Find runs a convolution by its exported name, as a dispatcher may */
    uint64_t nested_reads; /* of descriptors, while that ran */
} standin_t;

extern standin_t standin;

#define STANDIN_COUNT(name) (standin.calls[STANDIN_##name]++)
static inline bool standin_fails(standin_function_t function)
{
    return standin.fail_function == function && --standin.fail_nth == 0;
}
/* Counts the call; returns STANDIN_FAILURE if it is the one that shall fail. */
#define STANDIN_CALL(name)                                                                         \
    do {                                                                                           \
        standin.calls[STANDIN_##name]++;                                                           \
        if (standin_fails(STANDIN_##name))                                                         \
            return STANDIN_FAILURE;                                                                \
    } while (0)
#define STANDIN_SCRATCH ((uintptr_t)1 << 46)        /* what cuMemAlloc gives begins here ... */
#define STANDIN_SCRATCH_END ((uintptr_t)0x50 << 40) /* ... and ends here */

#endif
