/* The real functions: those of CUDA and cuDNN that would run without us. A hook is our function that runs in place of a
 * library's; the host is the process that has loaded us (docs/glossary.md).
 *
 * A real function is looked for in this order: a pointer remembered from a dlsym of the host, the next definition in
 * the global scope, the library by its soname if it is loaded. RTLD_NEXT alone finds nothing inside Python, whose
 * libraries are RTLD_LOCAL. We never load a library. Tables are built without a lock and do not change once they are
 * published. One may be replaced (see below), but none is ever freed, since the program may call at any time.
 *
 * A *forwarder* is an object that exports functions of CUDA by their names and looks up the real ones when they are
 * first called, as TensorFlow's libtensorflow_framework.so.2 does. Calls to it reach our hook, whose next definition is
 * the forwarder's. When the forwarder looks up the real function, it gets our hook; if our hook went on calling the
 * forwarder, the two would call each other for ever. So from then on the hook calls the function that the lookup would
 * have found without us; for this, a new table replaces the old one. */
#ifndef MDNN_REAL_H
#define MDNN_REAL_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

/* The variants for per-thread default streams. CUDA's header declares them only if it also renames the plain functions
 * to them (CUDA_API_PER_THREAD_DEFAULT_STREAM). */
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **function,
                                                  unsigned version, unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *status);

/* A version node to which hosts bind. Each has its own set of real functions. */
typedef enum mdnn_library {
    MDNN_LIBRARY_CUDNN9,       /* libcudnn.so.9 */
    MDNN_LIBRARY_CUDNN9_CNN,   /* libcudnn_cnn.so.9, linked directly */
    MDNN_LIBRARY_CUDNN9_GRAPH, /* libcudnn_graph.so.9, linked directly */
    MDNN_LIBRARY_CUDNN8,       /* libcudnn.so.8 */
    MDNN_LIBRARY_CUDART,       /* any libcudart.so.* */
    MDNN_LIBRARY_COUNT
} mdnn_library_t;

typedef enum mdnn_hook_id {
#define CUDNN_HOOK(name, parameters, arguments) MDNN_HOOK_##name,
#define RUNTIME_HOOK CUDNN_HOOK
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
    MDNN_HOOK_COUNT
} mdnn_hook_id_t;

/* The three ...AlgoPerf_t of cuDNN have one layout; this is it under a common name. */
typedef cudnnConvolutionFwdAlgoPerf_t mdnn_algo_perf_t;

/* In this table and those below, members have the names and types of the functions; a member is NULL where the library
 * lacks the function. */
typedef struct mdnn_cudnn {
    mdnn_library_t library;
#define CUDNN_HOOK(name, parameters, arguments) __typeof__(&name) name;
#define RUNTIME_HOOK(name, parameters, arguments)
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
#define CUDNN_FUNCTION(name) __typeof__(&name) name;
#define DRIVER_FUNCTION(name)
#define OPTIONAL_FUNCTION(name)
#define MEMORY_FUNCTION(name)
#include "shim/real/support.def"
#undef CUDNN_FUNCTION
#undef DRIVER_FUNCTION
#undef OPTIONAL_FUNCTION
#undef MEMORY_FUNCTION
    bool complete;  /* all of support.def was found: the legacy API can run convolutions for us */
    bool has_graph; /* all functions of the graph API that we need were found */
    /* The table that this one replaced, which another thread may still use; NULL: none. */
    const struct mdnn_cudnn *before;
} mdnn_cudnn_t;

typedef struct mdnn_cudart {
    const struct mdnn_cudart *before; /* likewise */
#define CUDNN_HOOK(name, parameters, arguments)
#define RUNTIME_HOOK(name, parameters, arguments) __typeof__(&name) name;
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
} mdnn_cudart_t;

/* The driver serves our own allocations, copies and events: it is loaded in every process that uses
 * CUDA, while cudart may be linked statically, many times over. */
typedef struct mdnn_driver {
#define CUDNN_FUNCTION(name)
#define DRIVER_FUNCTION(name) __typeof__(&name) name;
#define OPTIONAL_FUNCTION DRIVER_FUNCTION
#define MEMORY_FUNCTION DRIVER_FUNCTION
#include "shim/real/support.def"
#undef CUDNN_FUNCTION
#undef DRIVER_FUNCTION
#undef OPTIONAL_FUNCTION
#undef MEMORY_FUNCTION
    /* The functions of shim/real/capture_unsafe.def as they were found; the members above are wrappers that relax the
     * thread's capture mode. */
    struct {
#define UNSAFE(name, parameters, arguments) __typeof__(&name) name;
#include "shim/real/capture_unsafe.def"
#undef UNSAFE
    } found;
    bool has_memory;   /* all of MEMORY_FUNCTION were found: there can be virtual memory */
    bool is_simulated; /* test/sim/: nothing in the library may depend on real time */
    /* If simulated: a cuEventSynchronize that returns CUDA_ERROR_NOT_READY if the event would wait for the program. */
    CUresult (*sim_wait_event)(CUevent event);
} mdnn_driver_t;

/* NULL if the library is not loaded in this process. Thread-safe, lock-free. */
const mdnn_cudnn_t *mdnn_real_cudnn(mdnn_library_t library);
const mdnn_cudart_t *mdnn_real_cudart(void);
/* NULL also if a DRIVER_FUNCTION of support.def is missing. */
const mdnn_driver_t *mdnn_real_driver(void);

/* The next definition of `name` in the global scope, or else that of the first library in `sonames` that has it;
 * NULL: no loaded library has it. The list ends with NULL, and has four names at most. */
void *mdnn_real_find(const char *const *sonames, const char *name);

/* Remembers the real function of `hook` in `library`, as the host's own dlsym found it for `caller`, an address in the
 * object that asked. */
void mdnn_real_remember(mdnn_library_t library, mdnn_hook_id_t hook, void *function,
                        const void *caller);

/* The library with this soname; MDNN_LIBRARY_COUNT if it is not one that we hook. */
mdnn_library_t mdnn_library_of_soname(const char *soname);

typedef void *(*mdnn_dlsym_function_t)(void *handle, const char *name);
/* glibc's own dlsym, whoever else interposes it. Never NULL after the first call in a working process. */
mdnn_dlsym_function_t mdnn_real_dlsym(void);
/* The function that mdnn_real_dlsym found, for the assembly stub; NULL: it was not called yet. */
extern _Atomic(mdnn_dlsym_function_t) mdnn_dlsym_real_pointer;

#endif
