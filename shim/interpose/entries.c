#include "shim/interpose/entries.h"

#include <stdlib.h>
#include <string.h>

#include "shim/interpose/hooks.h"

#define PARAMETERS(...) __VA_ARGS__
#define ARGUMENTS(...) __VA_ARGS__

/* `remove` drops the helper's own name, so that only name@node is exported. */
#define ENTRY(node, tag, at, library, name, parameters, arguments)                                 \
    __asm__(".symver mdnn_entry_" #tag "_" #name "," #name at #node ",remove");                    \
    cudnnStatus_t mdnn_entry_##tag##_##name(parameters);                                           \
    __attribute__((visibility("default"))) cudnnStatus_t mdnn_entry_##tag##_##name(parameters)     \
    {                                                                                              \
        return mdnn_hook_##name(library, arguments);                                               \
    }

/* A name of a library is a token of its own, up to the number behind its last dot. */
/* clang-format off */
#define CUDNN_HOOK(name, parameters, arguments)                                                    \
    ENTRY(libcudnn.so.9, so9, "@@", MDNN_LIBRARY_CUDNN9, name, PARAMETERS(parameters),             \
          ARGUMENTS(arguments))                                                                    \
    ENTRY(libcudnn.so.8, so8, "@", MDNN_LIBRARY_CUDNN8, name, PARAMETERS(parameters),              \
          ARGUMENTS(arguments))                                                                    \
    ENTRY(libcudnn_cnn.so.9, cnn9, "@", MDNN_LIBRARY_CUDNN9_CNN, name, PARAMETERS(parameters),     \
          ARGUMENTS(arguments))

#define GRAPH_HOOK(name, parameters, arguments)                                                    \
    ENTRY(libcudnn.so.9, so9, "@@", MDNN_LIBRARY_CUDNN9, name, PARAMETERS(parameters),             \
          ARGUMENTS(arguments))                                                                    \
    ENTRY(libcudnn.so.8, so8, "@", MDNN_LIBRARY_CUDNN8, name, PARAMETERS(parameters),              \
          ARGUMENTS(arguments))                                                                    \
    ENTRY(libcudnn_graph.so.9, graph9, "@", MDNN_LIBRARY_CUDNN9_GRAPH, name,                       \
          PARAMETERS(parameters), ARGUMENTS(arguments))

#define RUNTIME_HOOK(name, parameters, arguments)                                                  \
    __attribute__((visibility("default"))) cudaError_t name(parameters)                            \
    {                                                                                              \
        return mdnn_hook_##name(arguments);                                                        \
    }

#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK

typedef void (*function_t)(void);

typedef struct hook_entry {
    const char *name;
    function_t entries[MDNN_LIBRARY_COUNT];
} hook_entry_t;

static const hook_entry_t hooks[MDNN_HOOK_COUNT] = {
#define CUDNN_HOOK(hook_name, parameters, arguments)                                               \
    [MDNN_HOOK_##hook_name] = {#hook_name,                                                         \
                               {[MDNN_LIBRARY_CUDNN9] = (function_t)&mdnn_entry_so9_##hook_name,       \
                                [MDNN_LIBRARY_CUDNN8] = (function_t)&mdnn_entry_so8_##hook_name,       \
                                [MDNN_LIBRARY_CUDNN9_CNN] =                                        \
                                    (function_t)&mdnn_entry_cnn9_##hook_name}},
#define GRAPH_HOOK(hook_name, parameters, arguments)                                               \
    [MDNN_HOOK_##hook_name] = {                                                                    \
        #hook_name,                                                                                \
        {[MDNN_LIBRARY_CUDNN9] = (function_t)&mdnn_entry_so9_##hook_name,                          \
         [MDNN_LIBRARY_CUDNN8] = (function_t)&mdnn_entry_so8_##hook_name,                          \
         [MDNN_LIBRARY_CUDNN9_GRAPH] = (function_t)&mdnn_entry_graph9_##hook_name}},
#define RUNTIME_HOOK(hook_name, parameters, arguments)                                             \
    [MDNN_HOOK_##hook_name] = {#hook_name, {[MDNN_LIBRARY_CUDART] = (function_t)&hook_name}},
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
};
/* clang-format on */

bool mdnn_hook_of_name(const char *name, mdnn_hook_id_t *hook)
{
    for (int i = 0; i < MDNN_HOOK_COUNT; i++) {
        if (strcmp(hooks[i].name, name) == 0) {
            *hook = (mdnn_hook_id_t)i;
            return true;
        }
    }
    return false;
}

const char *mdnn_hook_name(mdnn_hook_id_t hook)
{
    return hooks[hook].name;
}

void *mdnn_entry_of(mdnn_hook_id_t hook, mdnn_library_t library)
{
    void *address;
    memcpy(&address, &hooks[hook].entries[library], sizeof address);
    return address;
}
