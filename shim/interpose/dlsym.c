/* Decides what a dlsym of the host gets. Called by the assembly stub for names
 * that begin with "cu" or "nc"; everything undecided goes to the real dlsym by a jump. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "config/fault.h"
#include "shim/interpose/driver.h"
#include "shim/interpose/entries.h"
#include "shim/interpose/library_hooks.h"
#include "shim/real/loaded_object.h"
#include "shim/real/process.h"
#include "shim/real/real.h"

/* Returned in two registers to the stub: `decided` 0 means jump to the real dlsym. */
typedef struct dlsym_answer {
    void *result;
    void *decided;
} dlsym_answer_t;

dlsym_answer_t mdnn_dlsym_decide(void *handle, const char *name, void *caller);

static const dlsym_answer_t undecided = {NULL, NULL};

static dlsym_answer_t answer(void *result)
{
    return (dlsym_answer_t){result, (void *)&undecided};
}

/* One that precedes us: the program's own, or another preload's. */
static void *find_before_us(mdnn_dlsym_function_t find, const char *name)
{
    bool ours = false;
    void *const found = find(RTLD_DEFAULT, name);
    if (found)
        (void)mdnn_object_soname(found, &ours);
    return ours ? NULL : found;
}

/* The definition that the caller would see if we were not here: the first other one in the global scope,
 * else one in the scope of the caller's own object (an RTLD_LOCAL extension with its libraries). */
static void *find_without_us(mdnn_dlsym_function_t find, const char *name, void *caller)
{
    void *const before = find_before_us(find, name);
    void *const found = before ? before : find(RTLD_NEXT, name);
    return found ? found : mdnn_object_find(caller, name);
}

/* A table of finished lookups: true from the second lookup on. */
static bool break_second_lookup(mdnn_hook_id_t hook)
{
    static bool seen[MDNN_HOOK_COUNT];
    const bool again = seen[hook];
    seen[hook] = true;
    return again;
}

/* Owner-of-result rule: only what lies in the library that hosts call is replaced. cuDNN's dispatcher
 * looks up the same names in its sub-libraries; those results pass, or the hook would call itself. */
static dlsym_answer_t decide_by_owner(mdnn_hook_id_t hook, void *found, const void *caller)
{
    if (MDNN_FAULT(DLSYM_BY_NAME))
        return answer(mdnn_entry_of(hook, MDNN_LIBRARY_CUDNN9));
    if (MDNN_FAULT(SECOND_LOOKUP_NULL) && break_second_lookup(hook))
        return answer(NULL);
    bool ours;
    const mdnn_library_t library = mdnn_library_of_soname(mdnn_object_soname(found, &ours));
    if (library == MDNN_LIBRARY_COUNT || library == MDNN_LIBRARY_CUDNN9_CNN ||
        library == MDNN_LIBRARY_CUDNN9_GRAPH)
        return undecided;
    void *const entry = mdnn_entry_of(hook, library);
    if (!entry)
        return undecided;
    mdnn_real_remember(library, hook, found, caller);
    return answer(entry);
}

/* Likewise for the driver, which may look up functions of its own. */
static dlsym_answer_t decide_driver(const char *name, void *found, void *caller)
{
    bool ours;
    if (strcmp(mdnn_object_soname(found, &ours), "libcuda.so.1") != 0 ||
        strcmp(mdnn_object_soname(caller, &ours), "libcuda.so.1") == 0)
        return undecided;
    return answer(mdnn_driver_entry_of_symbol(name, found));
}

/* Likewise for cuBLAS, cuSOLVER, cuFFT and NCCL, which look up functions of one another. */
static dlsym_answer_t decide_library(const char *name, void *found)
{
    bool ours;
    void *const hook = mdnn_library_entry_of_symbol(name, mdnn_object_soname(found, &ours), found);
    return hook ? answer(hook) : undecided;
}

dlsym_answer_t mdnn_dlsym_decide(void *handle, const char *name, void *caller)
{
    mdnn_hook_id_t hook;
    const mdnn_dlsym_function_t find = mdnn_real_dlsym();
    if (!find || handle == RTLD_NEXT)
        return undecided;
    const bool of_driver = mdnn_driver_has_symbol(name);
    const bool of_library = !of_driver && mdnn_library_has_symbol(name);
    if (!of_driver && !of_library && !mdnn_hook_of_name(name, &hook))
        return undecided;
    void *found = handle == RTLD_DEFAULT
                      ? NULL
                      : find(MDNN_FAULT(HANDLE_IGNORED) ? RTLD_DEFAULT : handle, name);
    bool ours = handle == RTLD_DEFAULT;
    if (found)
        (void)mdnn_object_soname(found, &ours);
    if (ours && MDNN_FAULT(DEFAULT_PRETENDS))
        return undecided;
    if (ours) {
        /* Our exports alone must not make a process without CUDA look like one with it. */
        found = find_without_us(find, name, caller);
        if (!found)
            return answer(find(RTLD_NEXT, name)); /* NULL, and dlerror says so */
    }
    if (mdnn_process_disabled_by_environment())
        return ours ? answer(found) : undecided;
    if (!found)
        return MDNN_FAULT(FAILED_LOOKUP_SILENT) && dlerror() ? answer(NULL) : undecided;
    const dlsym_answer_t decided = of_driver    ? decide_driver(name, found, caller)
                                   : of_library ? decide_library(name, found)
                                                : decide_by_owner(hook, found, caller);
    return !decided.decided && ours ? answer(found) : decided;
}
