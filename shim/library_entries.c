/* The exported entries of shim/library_hooks.def, without versions: such a definition satisfies a
 * reference to any version of the library. */
#include <stdatomic.h>
#include <string.h>

#include "shim/library_doors.h"
#include "shim/plain_memory.h"
#include "shim/real.h"

#define PARAMETERS(...) __VA_ARGS__
#define ARGUMENTS(...) __VA_ARGS__

typedef void (*function_t)(void);


typedef enum hook_id {
#define BATCH_HOOK(library, name, parameters, arguments, arrays) HOOK_##name,
#define COLLECTIVE_HOOK(name, parameters, arguments, buffers) HOOK_##name,
#define NCCL_HOOK(name, parameters, arguments) HOOK_##name,
#define NCCL_INNER_HOOK NCCL_HOOK
#define NCCL_GROUP_HOOK(name) HOOK_##name,
#include "shim/library_hooks.def"
#undef BATCH_HOOK
#undef COLLECTIVE_HOOK
#undef NCCL_HOOK
#undef NCCL_INNER_HOOK
#undef NCCL_GROUP_HOOK
    HOOK_COUNT
} hook_id_t;

static const struct {
    const char *sonames[5]; /* NULL ends */
    const char *soname_start;
    int not_initialized; /* what the library calls that */
} libraries[MDNN_CALLED_COUNT] = {
    [MDNN_CALLED_CUBLAS] = {{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
                            "libcublas.so.", 1},
    [MDNN_CALLED_CUSOLVER] = {{"libcusolver.so.12", "libcusolver.so.11"}, "libcusolver.so.", 1},
    [MDNN_CALLED_NCCL] = {{"libnccl.so.2"}, "libnccl.so.", 3},
};

static _Atomic(function_t) reals[HOOK_COUNT];

static function_t function_of(void *symbol)
{
    function_t function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static void remember(hook_id_t hook, mdnn_called_library_t library, void *found)
{
    if (library == MDNN_CALLED_NCCL)
        mdnn_plain_memory_of(found);
    atomic_store_explicit(&reals[hook], function_of(found), memory_order_release);
}

void *mdnn_library_function(mdnn_called_library_t library, const char *symbol)
{
    return mdnn_real_find(libraries[library].sonames, symbol);
}

static function_t real_of(hook_id_t hook, mdnn_called_library_t library, const char *symbol)
{
    function_t real = atomic_load_explicit(&reals[hook], memory_order_acquire);
    void *const found = real ? NULL : mdnn_library_function(library, symbol);
    if (found)
        remember(hook, library, found);
    return real ? real : function_of(found);
}

/* ---- entries ---- */

#define READS_THROUGH(array, count) mdnn_batch_array(&call, array, count, MDNN_USE_READ);
#define WRITES_THROUGH(array, count) mdnn_batch_array(&call, array, count, MDNN_USE_UNKNOWN);
#define SUM(groups, sizes)                                                                         \
    _Generic((sizes), const int *: sum_of_ints, const int64_t *: sum_of_longs)(groups, sizes)
#define READS(buffer) mdnn_collective_buffer(&call, buffer, MDNN_USE_READ);
#define WRITES(buffer) mdnn_collective_buffer(&call, buffer, MDNN_USE_UNKNOWN);

static int64_t sum_of_ints(int count, const int *sizes)
{
    int64_t sum = 0;
    for (int i = 0; sizes && i < count; i++)
        sum += sizes[i];
    return sum;
}

static int64_t sum_of_longs(int64_t count, const int64_t *sizes)
{
    int64_t sum = 0;
    for (int64_t i = 0; sizes && i < count; i++)
        sum += sizes[i];
    return sum;
}

#define ENTRY(library, name, parameters, arguments, door)                                          \
    int name(parameters);                                                                          \
    __attribute__((visibility("default"))) int name(parameters)                                    \
    {                                                                                              \
        int (*const real)(parameters) =                                                            \
            (int (*)(parameters))real_of(HOOK_##name, MDNN_CALLED_##library, #name);               \
        int result;                                                                                \
        if (!real)                                                                                 \
            return libraries[MDNN_CALLED_##library].not_initialized;                               \
        if (!mdnn_virtual_on())                                                                    \
            return real(arguments);                                                                \
        door;                                                                                      \
        return result;                                                                             \
    }

#define BATCH_HOOK(library, name, parameters, arguments, arrays)                                   \
    ENTRY(library, name, PARAMETERS(parameters), ARGUMENTS(arguments), {                           \
        mdnn_batch_t call;                                                                         \
        mdnn_batch_begin(&call, MDNN_CALLED_##library, handle, #name);                             \
        arrays;                                                                                    \
        result = real(arguments);                                                                  \
        mdnn_batch_end(&call);                                                                     \
    })
#define COLLECTIVE_HOOK(name, parameters, arguments, buffers)                                      \
    ENTRY(NCCL, name, PARAMETERS(parameters), ARGUMENTS(arguments), {                              \
        mdnn_collective_t call;                                                                    \
        mdnn_collective_begin(&call, comm);                                                        \
        buffers;                                                                                   \
        result = real(arguments);                                                                  \
        mdnn_collective_end(&call, result);                                                        \
    })
#define NCCL_HOOK(name, parameters, arguments)                                                     \
    ENTRY(NCCL, name, PARAMETERS(parameters), ARGUMENTS(arguments),                                \
          result = mdnn_door_##name(real, ARGUMENTS(arguments)))
#define NCCL_GROUP_HOOK(name) ENTRY(NCCL, name, void, , result = mdnn_door_##name(real))
#define NCCL_INNER_HOOK(name, parameters, arguments)                                               \
    ENTRY(NCCL, name, PARAMETERS(parameters), ARGUMENTS(arguments), {                              \
        mdnn_nccl_enter();                                                                         \
        result = real(arguments);                                                                  \
        mdnn_nccl_leave();                                                                         \
    })
#include "shim/library_hooks.def"
#undef BATCH_HOOK
#undef COLLECTIVE_HOOK
#undef NCCL_HOOK
#undef NCCL_GROUP_HOOK
#undef NCCL_INNER_HOOK

/* ---- dlsym ---- */

static const struct {
    const char *name;
    mdnn_called_library_t called;
    function_t entry;
} hooks[HOOK_COUNT] = {
#define BATCH_HOOK(library, name, parameters, arguments, arrays)                                   \
    [HOOK_##name] = {#name, MDNN_CALLED_##library, (function_t)&name},
#define COLLECTIVE_HOOK(name, parameters, arguments, buffers)                                      \
    [HOOK_##name] = {#name, MDNN_CALLED_NCCL, (function_t)&name},
#define NCCL_HOOK(name, parameters, arguments)                                                     \
    [HOOK_##name] = {#name, MDNN_CALLED_NCCL, (function_t)&name},
#define NCCL_INNER_HOOK NCCL_HOOK
#define NCCL_GROUP_HOOK(name) [HOOK_##name] = {#name, MDNN_CALLED_NCCL, (function_t)&name},
#include "shim/library_hooks.def"
#undef BATCH_HOOK
#undef COLLECTIVE_HOOK
#undef NCCL_HOOK
#undef NCCL_INNER_HOOK
#undef NCCL_GROUP_HOOK
};

static hook_id_t hook_of_symbol(const char *symbol)
{
    int hook = 0;
    while (hook < HOOK_COUNT && strcmp(hooks[hook].name, symbol) != 0)
        hook++;
    return (hook_id_t)hook;
}

bool mdnn_library_has_symbol(const char *symbol)
{
    return hook_of_symbol(symbol) != HOOK_COUNT;
}

void *mdnn_library_entry_of_symbol(const char *symbol, const char *soname, void *found)
{
    const hook_id_t hook = hook_of_symbol(symbol);
    void *entry;
    if (hook == HOOK_COUNT)
        return NULL;
    const char *const start = libraries[hooks[hook].called].soname_start;
    if (strncmp(soname, start, strlen(start)) != 0)
        return NULL;
    remember(hook, hooks[hook].called, found);
    memcpy(&entry, &hooks[hook].entry, sizeof entry);
    return entry;
}
