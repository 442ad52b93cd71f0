/* Hooks: what each hooked function does before it forwards. A hook decides only at the outermost call
 * of a thread; cuDNN's inner calls and our own go straight to the real function. */
#ifndef MDNN_HOOKS_H
#define MDNN_HOOKS_H

#include "shim/real/real.h"

#define PARAMETERS(...) __VA_ARGS__
#define CUDNN_HOOK(name, parameters, arguments)                                                    \
    cudnnStatus_t mdnn_hook_##name(mdnn_library_t library, parameters);
#define RUNTIME_HOOK(name, parameters, arguments) cudaError_t mdnn_hook_##name(parameters);
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
#undef PARAMETERS

/* The real function behind a hook, or the status for a library that has none. */
#define REAL_OR_FAIL(real, library, name)                                                          \
    const mdnn_cudnn_t *const real = mdnn_real_cudnn(library);                                     \
    if (!real || !real->name)                                                                      \
    return CUDNN_STATUS_NOT_INITIALIZED

#endif
