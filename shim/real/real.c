#include "shim/real/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/log.h"
#include "shim/real/capture_mode.h"
#include "shim/real/loaded_object.h"

typedef struct library_names {
    const char *version;    /* version node of its exports; NULL: any */
    const char *sonames[5]; /* searched in this order, NULL ends */
} library_names_t;

static const library_names_t names_of[MDNN_LIBRARY_COUNT] = {
    [MDNN_LIBRARY_CUDNN9] = {"libcudnn.so.9", {"libcudnn.so.9"}},
    [MDNN_LIBRARY_CUDNN9_CNN] = {"libcudnn_cnn.so.9",
                                 {"libcudnn_cnn.so.9", "libcudnn_ops.so.9", "libcudnn_graph.so.9"}},
    [MDNN_LIBRARY_CUDNN9_GRAPH] = {"libcudnn_graph.so.9",
                                   {"libcudnn_graph.so.9", "libcudnn_ops.so.9",
                                    "libcudnn_cnn.so.9"}},
    [MDNN_LIBRARY_CUDNN8] = {"libcudnn.so.8", {"libcudnn.so.8"}},
    [MDNN_LIBRARY_CUDART] = {NULL, {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}},
};

static _Atomic(void *) remembered[MDNN_LIBRARY_COUNT][MDNN_HOOK_COUNT];
static _Atomic(const mdnn_cudnn_t *) cudnn_tables[MDNN_LIBRARY_COUNT];
static _Atomic(const mdnn_cudart_t *) cudart_table;
static _Atomic(const mdnn_driver_t *) driver_table;
_Atomic(mdnn_dlsym_function_t) mdnn_dlsym_real_pointer;

/* A call in place of the stub's jump. */
static mdnn_dlsym_function_t called_dlsym;

static void *break_tail_call(void *handle, const char *name)
{
    void *volatile found = called_dlsym(handle, name);
    return found;
}

/* A sanitizer looks up what it replaces before its shadow memory exists. */
__attribute__((no_sanitize("address", "thread"))) mdnn_dlsym_function_t mdnn_real_dlsym(void)
{
    mdnn_dlsym_function_t found =
        atomic_load_explicit(&mdnn_dlsym_real_pointer, memory_order_acquire);
    if (found)
        return found;
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++) {
        void *const symbol = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&found, &symbol, sizeof found);
    }
    if (MDNN_FAULT(NOT_A_TAIL_CALL)) {
        called_dlsym = found;
        found = break_tail_call;
    }
    atomic_store_explicit(&mdnn_dlsym_real_pointer, found, memory_order_release);
    return found;
}

mdnn_library_t mdnn_library_of_soname(const char *soname)
{
    if (strncmp(soname, "libcudart.so.", 13) == 0)
        return MDNN_LIBRARY_CUDART;
    for (int library = 0; library < MDNN_LIBRARY_CUDART; library++)
        if (strcmp(soname, names_of[library].version) == 0)
            return (mdnn_library_t)library;
    return MDNN_LIBRARY_COUNT;
}

/* Handles of the loaded libraries of one table. They are kept open: our table points into them. */
typedef struct search {
    const library_names_t *names;
    void *handles[5];
    size_t handle_count;
} search_t;

static void search_open(search_t *search, const library_names_t *names)
{
    search->names = names;
    search->handle_count = 0;
    for (size_t i = 0; names->sonames[i]; i++) {
        void *const handle = dlopen(names->sonames[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle)
            search->handles[search->handle_count++] = handle;
    }
}

static void search_close(search_t *search)
{
    for (size_t i = 0; i < search->handle_count; i++)
        dlclose(search->handles[i]);
}

/* True if `address` lies in this very library: a hook must never be its own real function. */
static bool is_our_own(void *address)
{
    Dl_info theirs, ours;
    return dladdr(address, &theirs) && dladdr((void *)&names_of, &ours) &&
           theirs.dli_fbase == ours.dli_fbase;
}

static void *search_find(const search_t *search, const char *name)
{
    const mdnn_dlsym_function_t find = mdnn_real_dlsym();
    if (!find)
        return NULL;
    void *found = search->names->version ? dlvsym(RTLD_NEXT, name, search->names->version)
                                         : find(RTLD_NEXT, name);
    for (size_t i = 0; !found && !MDNN_FAULT(RTLD_NEXT_ONLY) && i < search->handle_count; i++)
        found = find(search->handles[i], name);
    if (!found && search->names == &names_of[MDNN_LIBRARY_CUDNN9]) /* a forwarder's, see real.h */
        found = find(RTLD_NEXT, name);
    return found && !is_our_own(found) ? found : NULL;
}

/* A failed search must not leave its text for the host's next dlerror. */
static void forget_error(void)
{
    if (!MDNN_FAULT(DLERROR_LEFT))
        (void)dlerror();
}

void *mdnn_real_find(const char *const *sonames, const char *name)
{
    library_names_t names = {0};
    search_t search;
    for (size_t i = 0; i + 1 < sizeof names.sonames / sizeof *names.sonames && sonames[i]; i++)
        names.sonames[i] = sonames[i];
    search_open(&search, &names);
    void *const found = search_find(&search, name);
    if (!found) {
        search_close(&search);
        forget_error();
    }
    return found;
}

static void *hook_find(const search_t *search, mdnn_library_t library, mdnn_hook_id_t hook,
                       const char *name)
{
    void *const known = atomic_load_explicit(&remembered[library][hook], memory_order_acquire);
    return known ? known : search_find(search, name);
}

/* Fills the function pointer at `member`; object pointers and function pointers have one
 * representation on every system that has dlsym. */
static bool store(void *member, void *function)
{
    memcpy(member, &function, sizeof function);
    return function != NULL;
}

static bool fill_cudnn(mdnn_cudnn_t *table, const search_t *search)
{
    bool any = false;
#define CUDNN_HOOK(name, parameters, arguments)                                                    \
    any |= store(&table->name, hook_find(search, table->library, MDNN_HOOK_##name, #name));
#define RUNTIME_HOOK(name, parameters, arguments)
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
    table->complete = true;
#define CUDNN_FUNCTION(name) table->complete &= store(&table->name, search_find(search, #name));
#define DRIVER_FUNCTION(name)
#define OPTIONAL_FUNCTION(name)
#define MEMORY_FUNCTION(name)
#include "shim/real/support.def"
#undef CUDNN_FUNCTION
#undef DRIVER_FUNCTION
#undef OPTIONAL_FUNCTION
#undef MEMORY_FUNCTION
    table->complete &= table->cudnnConvolutionForward != NULL;
    table->has_graph = table->cudnnGetVersion && table->cudnnGetStream &&
                       table->cudnnBackendCreateDescriptor &&
                       table->cudnnBackendDestroyDescriptor && table->cudnnBackendFinalize &&
                       table->cudnnBackendSetAttribute && table->cudnnBackendGetAttribute &&
                       table->cudnnBackendExecute;
    return any;
}

/* In the place of `published`, which is NULL at first. */
static const mdnn_cudnn_t *build_cudnn(mdnn_library_t library, const mdnn_cudnn_t *published)
{
    mdnn_cudnn_t *const table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->library = library;
    search_t search;
    search_open(&search, &names_of[library]);
    const bool any = fill_cudnn(table, &search);
    table->before = published;
    forget_error();
    if (any && atomic_compare_exchange_strong(&cudnn_tables[library], &published, table)) {
        if (!table->complete && !table->has_graph)
            MDNN_LOG(MDNN_LOG_WARN, "shim",
                     "%s lacks functions that we need: its convolutions pass",
                     names_of[library].version);
        return table;
    }
    search_close(&search);
    free(table);
    return published;
}

const mdnn_cudnn_t *mdnn_real_cudnn(mdnn_library_t library)
{
    const mdnn_cudnn_t *const table =
        atomic_load_explicit(&cudnn_tables[library], memory_order_acquire);
    return table ? table : build_cudnn(library, NULL);
}

static const mdnn_cudart_t *build_cudart(const mdnn_cudart_t *published)
{
    mdnn_cudart_t *const table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    search_t search;
    search_open(&search, &names_of[MDNN_LIBRARY_CUDART]);
    bool any = false;
#define CUDNN_HOOK(name, parameters, arguments)
#define RUNTIME_HOOK(name, parameters, arguments)                                                  \
    any |= store(&table->name, hook_find(&search, MDNN_LIBRARY_CUDART, MDNN_HOOK_##name, #name));
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
    table->before = published;
    forget_error();
    if (any && atomic_compare_exchange_strong(&cudart_table, &published, table))
        return table;
    search_close(&search);
    free(table);
    return published;
}

const mdnn_cudart_t *mdnn_real_cudart(void)
{
    const mdnn_cudart_t *const table = atomic_load_explicit(&cudart_table, memory_order_acquire);
    return table ? table : build_cudart(NULL);
}

/* Whether the table has a function for the hook that lies in the object of `caller`. */
static bool is_of_caller(const void *table, mdnn_hook_id_t hook, const void *caller)
{
    static const size_t place_of[MDNN_HOOK_COUNT] = {
#define CUDNN_HOOK(name, parameters, arguments) [MDNN_HOOK_##name] = offsetof(mdnn_cudnn_t, name),
#define RUNTIME_HOOK(name, parameters, arguments)                                                  \
    [MDNN_HOOK_##name] = offsetof(mdnn_cudart_t, name),
#define GRAPH_HOOK CUDNN_HOOK
#include "shim/interpose/hooks.def"
#undef CUDNN_HOOK
#undef GRAPH_HOOK
#undef RUNTIME_HOOK
    };
    void *function = NULL;
    if (table)
        memcpy(&function, (const char *)table + place_of[hook], sizeof function);
    return function && strcmp(mdnn_object_path(function), mdnn_object_path(caller)) == 0;
}

void mdnn_real_remember(mdnn_library_t library, mdnn_hook_id_t hook, void *function,
                        const void *caller)
{
    atomic_store_explicit(&remembered[library][hook], function, memory_order_release);
    if (library == MDNN_LIBRARY_CUDART) {
        const mdnn_cudart_t *const table =
            atomic_load_explicit(&cudart_table, memory_order_acquire);
        if (is_of_caller(table, hook, caller) && !MDNN_FAULT(FORWARDER_STAYS))
            (void)build_cudart(table);
        return;
    }
    const mdnn_cudnn_t *const table =
        atomic_load_explicit(&cudnn_tables[library], memory_order_acquire);
    if (is_of_caller(table, hook, caller) && !MDNN_FAULT(FORWARDER_STAYS))
        (void)build_cudnn(library, table);
}

#define SYMBOL_TEXT(name) #name
#define SYMBOL(name) SYMBOL_TEXT(name) /* cuda.h renames: cuMemAlloc is cuMemAlloc_v2 */

static bool is_set(const char *variable)
{
    const char *const value = getenv(variable);
    return value && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
}

static const mdnn_driver_t *build_driver(void)
{
    const mdnn_dlsym_function_t find = mdnn_real_dlsym();
    void *const handle = find ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    mdnn_driver_t *const table = calloc(1, sizeof *table);
    bool complete = handle && table;
    if (complete) {
        table->has_memory = true;
        table->is_simulated = store(&table->sim_wait_event, find(handle, "sim_wait_event")) &&
                              !is_set("MICRODNN_SIM_THREADS");
#define CUDNN_FUNCTION(name)
#define DRIVER_FUNCTION(name) complete &= store(&table->name, find(handle, SYMBOL(name)));
#define OPTIONAL_FUNCTION(name) (void)store(&table->name, find(handle, SYMBOL(name)));
#define MEMORY_FUNCTION(name) table->has_memory &= store(&table->name, find(handle, SYMBOL(name)));
#include "shim/real/support.def"
#undef CUDNN_FUNCTION
#undef DRIVER_FUNCTION
#undef OPTIONAL_FUNCTION
#undef MEMORY_FUNCTION
        mdnn_capture_relax_calls(table);
    }
    forget_error();
    const mdnn_driver_t *published = NULL;
    if (complete && atomic_compare_exchange_strong(&driver_table, &published, table))
        return table;
    if (handle)
        dlclose(handle);
    free(table);
    return published;
}

const mdnn_driver_t *mdnn_real_driver(void)
{
    const mdnn_driver_t *const table = atomic_load_explicit(&driver_table, memory_order_acquire);
    return table ? table : build_driver();
}
