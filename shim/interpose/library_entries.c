/* The exported entries of shim/interpose/library_hooks.def, without versions: such a definition satisfies a
 * reference to any version of the library. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "shim/real/called_functions.h"
#include "shim/interpose/library_hooks.h"

#define PARAMETERS(...) __VA_ARGS__
#define ARGUMENTS(...) __VA_ARGS__

typedef enum hook_id {
#define BATCH_HOOK(library, name, parameters, arguments, arrays) HOOK_##name,
#define TRANSFORM_HOOK(name, parameters, arguments) HOOK_##name,
#define FFT_HOOK TRANSFORM_HOOK
#define COLLECTIVE_HOOK(name, parameters, arguments, buffers) HOOK_##name,
#define NCCL_HOOK(name, parameters, arguments) HOOK_##name,
#define NCCL_INNER_HOOK NCCL_HOOK
#define NCCL_GROUP_HOOK(name) HOOK_##name,
#include "shim/interpose/library_hooks.def"
#undef BATCH_HOOK
#undef TRANSFORM_HOOK
#undef FFT_HOOK
#undef COLLECTIVE_HOOK
#undef NCCL_HOOK
#undef NCCL_INNER_HOOK
#undef NCCL_GROUP_HOOK
    HOOK_COUNT
} hook_id_t;

static const int not_initialized[MDNN_CALLED_COUNT] = {[MDNN_CALLED_CUBLAS] = 1,
                                                       [MDNN_CALLED_CUSOLVER] = 1,
                                                       [MDNN_CALLED_CUFFT] = 5,
                                                       [MDNN_CALLED_NCCL] = 3};

/* What the program's dlsym has found, of one copy of each library. */
static _Atomic(const mdnn_called_t *) looked_up[HOOK_COUNT];
static _Atomic bool has_other_copies;

static mdnn_called_t looked_up_function(hook_id_t hook)
{
    const mdnn_called_t *const called =
        atomic_load_explicit(&looked_up[hook], memory_order_acquire);
    return called ? *called : (mdnn_called_t){0};
}

/* A budget is on. */
static void warn_of_other_copies(void)
{
    if (atomic_load_explicit(&has_other_copies, memory_order_relaxed))
        MDNN_LOG_ONCE(
            MDNN_LOG_WARN, "memory",
            "there are several copies of cuBLAS, cuSOLVER, cuFFT or NCCL: memory that the "
            "kernels of one of them use may be away");
}

/* ---- entries ---- */

#define READS_THROUGH(array, count) mdnn_batch_array(&call, array, count, MDNN_USE_READ);
#define WRITES_THROUGH(array, count) mdnn_batch_array(&call, array, count, MDNN_USE_UNKNOWN);
#define SUM(groups, sizes)                                                                         \
    _Generic((sizes), const int * : sum_of_ints, const int64_t * : sum_of_longs)(groups, sizes)
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

/* Two ways in, with a real function each: the linker's and dlsym's. */
#define ENTRY(library, name, parameters, arguments, hook)                                          \
    int name(parameters);                                                                          \
    __attribute__((visibility("default"))) int name(parameters)                                    \
    {                                                                                              \
        const mdnn_called_t called =                                                               \
            mdnn_called_by(MDNN_CALLED_##library, #name, __builtin_return_address(0));             \
        RUN(library, PARAMETERS(parameters), ARGUMENTS(arguments), hook)                           \
    }                                                                                              \
    static int looked_up_##name(parameters)                                                        \
    {                                                                                              \
        const mdnn_called_t called = looked_up_function(HOOK_##name);                              \
        RUN(library, PARAMETERS(parameters), ARGUMENTS(arguments), hook)                           \
    }
#define RUN(library, parameters, arguments, hook)                                                  \
    int (*const real)(parameters) = (int (*)(parameters))called.function;                          \
    int result;                                                                                    \
    if (!real)                                                                                     \
        return not_initialized[MDNN_CALLED_##library];                                             \
    if (!mdnn_virtual_on())                                                                        \
        return real(arguments);                                                                    \
    warn_of_other_copies();                                                                        \
    hook;                                                                                          \
    return result;

#define BATCH_HOOK(library, name, parameters, arguments, arrays)                                   \
    ENTRY(library, name, PARAMETERS(parameters), ARGUMENTS(arguments), {                           \
        mdnn_batch_t call;                                                                         \
        mdnn_batch_begin(&call, called.get_stream, handle, #name);                                 \
        arrays;                                                                                    \
        result = real(arguments);                                                                  \
        mdnn_batch_end(&call);                                                                     \
    })
#define TRANSFORM_HOOK(name, parameters, arguments)                                                \
    ENTRY(CUFFT, name, PARAMETERS(parameters), ARGUMENTS(arguments), {                             \
        mdnn_indirect_operands_t operands;                                                         \
        mdnn_transform_begin(&operands, plan, in, out);                                            \
        result = real(arguments);                                                                  \
        mdnn_transform_end(&operands);                                                             \
    })
#define FFT_HOOK(name, parameters, arguments)                                                      \
    ENTRY(CUFFT, name, PARAMETERS(parameters), ARGUMENTS(arguments),                               \
          result = mdnn_hook_##name(real, ARGUMENTS(arguments)))
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
          result = mdnn_hook_##name(real, ARGUMENTS(arguments)))
#define NCCL_GROUP_HOOK(name) ENTRY(NCCL, name, void, , result = mdnn_hook_##name(real))
#define NCCL_INNER_HOOK(name, parameters, arguments)                                               \
    ENTRY(NCCL, name, PARAMETERS(parameters), ARGUMENTS(arguments), {                              \
        mdnn_nccl_enter();                                                                         \
        result = real(arguments);                                                                  \
        mdnn_nccl_leave();                                                                         \
    })
#include "shim/interpose/library_hooks.def"
#undef BATCH_HOOK
#undef TRANSFORM_HOOK
#undef FFT_HOOK
#undef COLLECTIVE_HOOK
#undef NCCL_HOOK
#undef NCCL_GROUP_HOOK
#undef NCCL_INNER_HOOK

/* ---- dlsym ---- */

static const struct {
    const char *name;
    mdnn_called_library_t called;
    mdnn_function_t entry;
} hooks[HOOK_COUNT] = {
#define BATCH_HOOK(library, name, parameters, arguments, arrays)                                   \
    [HOOK_##name] = {#name, MDNN_CALLED_##library, (mdnn_function_t)&looked_up_##name},
#define TRANSFORM_HOOK(name, parameters, arguments)                                                \
    [HOOK_##name] = {#name, MDNN_CALLED_CUFFT, (mdnn_function_t)&looked_up_##name},
#define FFT_HOOK TRANSFORM_HOOK
#define COLLECTIVE_HOOK(name, parameters, arguments, buffers)                                      \
    [HOOK_##name] = {#name, MDNN_CALLED_NCCL, (mdnn_function_t)&looked_up_##name},
#define NCCL_HOOK(name, parameters, arguments)                                                     \
    [HOOK_##name] = {#name, MDNN_CALLED_NCCL, (mdnn_function_t)&looked_up_##name},
#define NCCL_INNER_HOOK NCCL_HOOK
#define NCCL_GROUP_HOOK(name)                                                                      \
    [HOOK_##name] = {#name, MDNN_CALLED_NCCL, (mdnn_function_t)&looked_up_##name},
#include "shim/interpose/library_hooks.def"
#undef BATCH_HOOK
#undef TRANSFORM_HOOK
#undef FFT_HOOK
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

/* false: it is another copy's function, or memory is short: the program calls it itself. */
static bool keep_looked_up(hook_id_t hook, void *found)
{
    const mdnn_called_t *known = atomic_load(&looked_up[hook]);
    mdnn_called_t *const made = known ? NULL : malloc(sizeof *made);
    if (made) {
        *made = mdnn_called_found(hooks[hook].called, found);
        if (atomic_compare_exchange_strong(&looked_up[hook], &known, made))
            return true;
        free(made);
    }
    const bool same = known && memcmp(&known->function, &found, sizeof found) == 0;
    if (known && !same)
        atomic_store(&has_other_copies, true);
    return same;
}

void *mdnn_library_entry_of_symbol(const char *symbol, const char *soname, void *found)
{
    const hook_id_t hook = hook_of_symbol(symbol);
    void *entry;
    if (hook == HOOK_COUNT)
        return NULL;
    if (!mdnn_called_is_library(hooks[hook].called, soname) || !keep_looked_up(hook, found))
        return NULL;
    memcpy(&entry, &hooks[hook].entry, sizeof entry);
    return entry;
}
