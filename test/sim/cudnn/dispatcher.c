/* libcudnn.so.9: nothing but forwarders, as the real one. Each looks its own name up in a
 * sub-library with the process-wide dlsym at its first call: the lookup that makes a careless dlsym
 * interposer call itself for ever, and the reason why this library exists here. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include <cudnn.h>

typedef void (*sim_function_t)(void);

enum { LIBRARY_graph, LIBRARY_ops, LIBRARY_cnn, LIBRARY_COUNT };

static const char *const sonames[LIBRARY_COUNT] = {
    [LIBRARY_graph] = "libcudnn_graph.so.9",
    [LIBRARY_ops] = "libcudnn_ops.so.9",
    [LIBRARY_cnn] = "libcudnn_cnn.so.9",
};

static _Atomic(void *) handles[LIBRARY_COUNT];

/* NULL if the library or the name is missing. Two threads may both open a library: dlopen counts.
 */
static sim_function_t resolve(int library, const char *name)
{
    void *handle = atomic_load_explicit(&handles[library], memory_order_acquire);
    if (!handle) {
        handle = dlopen(sonames[library], RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            return NULL;
        atomic_store_explicit(&handles[library], handle, memory_order_release);
    }
    void *const address = dlsym(handle, name);
    sim_function_t function;
    memcpy(&function, &address, sizeof function); /* ISO C has no cast between the two */
    return function;
}

#define RESOLVED(library, name, on_failure)                                                        \
    static _Atomic(__typeof__(&name)) known;                                                       \
    __typeof__(&name) real = atomic_load_explicit(&known, memory_order_acquire);                   \
    if (!real) {                                                                                   \
        real = (__typeof__(&name))resolve(LIBRARY_##library, #name);                               \
        if (!real)                                                                                 \
            on_failure;                                                                            \
        atomic_store_explicit(&known, real, memory_order_release);                                 \
    }

#define FORWARD_VALUE(library, type, name, failure, parameters, arguments)                         \
    type CUDNNWINAPI name parameters                                                               \
    {                                                                                              \
        RESOLVED(library, name, return failure)                                                    \
        return real arguments;                                                                     \
    }
#define FORWARD(library, name, parameters, arguments)                                              \
    FORWARD_VALUE(library, cudnnStatus_t, name, CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,            \
                  parameters, arguments)
#define FORWARD_VOID(library, name, parameters, arguments)                                         \
    void CUDNNWINAPI name parameters                                                               \
    {                                                                                              \
        RESOLVED(library, name, return )                                                           \
        real arguments;                                                                            \
    }

#include "test/sim/cudnn/functions.def"
