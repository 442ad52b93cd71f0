#include "shim/real/called_functions.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real/loaded_object.h"
#include "shim/real/real.h"

static const struct {
    const char *sonames[5]; /* NULL ends */
    const char *soname_start;
    const char *get_stream; /* NULL: its calls name their stream */
} libraries[MDNN_CALLED_COUNT] = {
    [MDNN_CALLED_CUBLAS] = {{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
                            "libcublas.so.",
                            "cublasGetStream_v2"},
    [MDNN_CALLED_CUSOLVER] = {{"libcusolver.so.12", "libcusolver.so.11"},
                              "libcusolver.so.",
                              "cusolverDnGetStream"},
    [MDNN_CALLED_CUFFT] = {{"libcufft.so.12", "libcufft.so.11"}, "libcufft.so.", NULL},
    [MDNN_CALLED_NCCL] = {{"libnccl.so.2"}, "libnccl.so.", NULL},
};

bool mdnn_called_is_library(mdnn_called_library_t library, const char *soname)
{
    const char *const start = libraries[library].soname_start;
    return strncmp(soname, start, strlen(start)) == 0;
}

/* ---- one function ---- */

/* In the global scope behind us. References name the version that the library has, which is its
 * soname: one to cuBLAS 13 does not end in cuBLAS 12, though that is before it. */
static void *find_next(mdnn_called_library_t library, const char *symbol, void *own)
{
    const mdnn_dlsym_function_t find = mdnn_real_dlsym();
    bool ours = false;
    const char *const soname = own ? mdnn_object_soname(own, &ours) : "";
    void *const found = mdnn_called_is_library(library, soname) ? dlvsym(RTLD_NEXT, symbol, soname)
                        : find                                  ? find(RTLD_NEXT, symbol)
                                                                : NULL;
    if (!found)
        (void)dlerror();
    else
        (void)mdnn_object_soname(found, &ours);
    return ours ? NULL : found;
}

/* As the linker would without us: in the global scope, else in the caller's own. A caller may hide
 * behind another that ends in a call of it: then any copy that is loaded. */
static void *find_function(mdnn_called_library_t library, const char *symbol, const void *caller)
{
    void *const own = mdnn_object_find(caller, symbol);
    void *const next = find_next(library, symbol, own);
    return next ? next : own ? own : mdnn_real_find(libraries[library].sonames, symbol);
}

static mdnn_get_stream_t find_get_stream(mdnn_called_library_t library, void *function,
                                         const void *caller)
{
    const char *const symbol = libraries[library].get_stream;
    void *found = symbol ? mdnn_object_find(function, symbol) : NULL;
    mdnn_get_stream_t get_stream;
    if (!found && symbol && caller)
        found = find_function(library, symbol, caller);
    if (found)
        mdnn_object_keep(found);
    memcpy(&get_stream, &found, sizeof get_stream);
    return get_stream;
}

static mdnn_called_t make_called(mdnn_called_library_t library, void *function, const void *caller)
{
    mdnn_called_t called = {.get_stream = find_get_stream(library, function, caller)};
    memcpy(&called.function, &function, sizeof called.function);
    mdnn_object_keep(function);
    return called;
}

mdnn_called_t mdnn_called_found(mdnn_called_library_t library, void *found)
{
    return make_called(library, found, NULL);
}

/* ---- where calls come from ---- */

/* A place in code from where a function is called: it leads to one copy. Never changed nor freed.
 */
typedef struct site {
    const void *caller;
    const char *symbol;
    mdnn_called_t called;
} site_t;

enum { SITES = 1024, PROBES = 16 };
static _Atomic(site_t *) sites[SITES];

static _Atomic(site_t *) *place_of(const char *symbol, const void *caller, unsigned probe)
{
    const uint64_t hash =
        ((uintptr_t)caller ^ (uintptr_t)symbol << 1) * UINT64_C(0x9e3779b97f4a7c15);
    return &sites[((hash >> 32) + probe) % SITES];
}

static bool is_of(const site_t *site, const char *symbol, const void *caller)
{
    return site->caller == caller && site->symbol == symbol;
}

static site_t *find_site(const char *symbol, const void *caller)
{
    for (unsigned i = 0; i < PROBES; i++) {
        site_t *const site =
            atomic_load_explicit(place_of(symbol, caller, i), memory_order_acquire);
        if (!site || is_of(site, symbol, caller))
            return site;
    }
    return NULL;
}

static bool keep_site(site_t *site)
{
    for (unsigned i = 0; i < PROBES; i++) {
        site_t *none = NULL;
        if (atomic_compare_exchange_strong(place_of(site->symbol, site->caller, i), &none, site))
            return true;
    }
    return false;
}

static void add_site(const char *symbol, const void *caller, const mdnn_called_t *called)
{
    site_t *const site = malloc(sizeof *site);
    if (!site)
        return;
    *site = (site_t){caller, symbol, *called};
    if (!keep_site(site))
        free(site);
}

mdnn_called_t mdnn_called_by(mdnn_called_library_t library, const char *symbol, const void *caller)
{
    const site_t *const site = find_site(symbol, caller);
    if (site)
        return site->called;
    void *const found = find_function(library, symbol, caller);
    mdnn_called_t called = {0};
    if (found) {
        called = make_called(library, found, caller);
        add_site(symbol, caller, &called);
    }
    return called;
}
