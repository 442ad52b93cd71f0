/* A library that exports functions of CUDA and cuDNN by their names, loads the real libraries when one of them is first
 * called, and looks the function up there: as libtensorflow_framework.so.2 does. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "test/clients/one_convolution.h"
#include "test/clients/one_graph.h"

enum { ARGUMENT_BYTES = 256 }; /* those on the stack */

static void *find(void **handle, const char *library, const char *name)
{
    if (!*handle)
        *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *const found = *handle ? dlsym(*handle, name) : NULL;
    if (!found)
        abort();
    return found;
}

static void *cudart, *cudnn;

/* Under another name here, since the headers declare the functions. */
#define FORWARD(handle, library, name)                                                             \
    void *forward_##name(void) __asm__(#name);                                                     \
    void *forward_##name(void)                                                                     \
    {                                                                                              \
        static void (*real)(void);                                                                 \
        void *const arguments = __builtin_apply_args();                                            \
        if (!real)                                                                                 \
            real = (void (*)(void))(size_t)find(&handle, library, #name);                          \
        __builtin_return(__builtin_apply(real, arguments, ARGUMENT_BYTES));                        \
    }
#define FORWARD_RUNTIME(name) FORWARD(cudart, "libcudart.so.13", name)
#define FORWARD_CUDNN(name) FORWARD(cudnn, "libcudnn.so.9", name)

ONE_CONVOLUTION_RUNTIME(FORWARD_RUNTIME)
ONE_CONVOLUTION_CUDNN(FORWARD_CUDNN)
FORWARD_CUDNN(cudnnBackendCreateDescriptor)
FORWARD_CUDNN(cudnnBackendDestroyDescriptor)
FORWARD_CUDNN(cudnnBackendSetAttribute)
FORWARD_CUDNN(cudnnBackendGetAttribute)
FORWARD_CUDNN(cudnnBackendFinalize)
FORWARD_CUDNN(cudnnBackendExecute)
