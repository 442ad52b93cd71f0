#include "shim/interpose/driver.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/log.h"
#include "shim/interpose/driver_names.h"
#include "shim/interpose/driver_nodes.h"
#include "shim/interpose/last_kernels.h"
#include "shim/real/process.h"
#include "shim/interpose/pytorch.h"
#include "shim/real/real.h"
#include "shim/remake/remake.h"

#define PARAMETERS(...) __VA_ARGS__
#define ARGUMENTS(...) __VA_ARGS__

typedef mdnn_driver_function_t function_t;

static _Atomic(function_t) reals[MDNN_DRIVER_COUNT];
static _Atomic bool lacks[MDNN_DRIVER_COUNT]; /* looked for, and this driver does not have it */
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

static function_t function_of(void *symbol)
{
    function_t function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static function_t real_of(mdnn_driver_hook_t hook, const char *symbol)
{
    function_t real = atomic_load_explicit(&reals[hook], memory_order_acquire);
    bool loaded;
    if (real || atomic_load_explicit(&lacks[hook], memory_order_relaxed))
        return real;
    real = mdnn_driver_find(symbol, &loaded);
    atomic_store_explicit(&lacks[hook], loaded && !real, memory_order_relaxed);
    atomic_store_explicit(&reals[hook], real, memory_order_release);
    return real;
}

/* ---- entries ---- */

#define WRITES(address) mdnn_driver_name(&operation, address, MDNN_USE_WRITE);
#define READS(address) mdnn_driver_name(&operation, address, MDNN_USE_READ);
#define WRITES_POINTER(pointer) WRITES((uintptr_t)(pointer))
#define READS_POINTER(pointer) READS((uintptr_t)(pointer))
#define WRITES_EACH(addresses, number)                                                             \
    mdnn_name_each(&operation, addresses, number, MDNN_USE_WRITE);
#define READS_EACH(addresses, number) mdnn_name_each(&operation, addresses, number, MDNN_USE_READ);
#define BOX_2D(box) mdnn_name_box_2d(&operation, box);
#define BOX_3D(box) MDNN_NAME_BOX_3D(&operation, box)
#define BOXES_3D(boxes, number) mdnn_name_boxes_3d(&operation, boxes, number);
#define DECOMPRESSED(list, number) mdnn_name_decompressed(&operation, list, number);
#define VALUES(list, number) mdnn_name_values(&operation, list, number);
#define WAITS_FOR_CONTEXT() mdnn_wait_for_context();
#define MAY_WAIT() operation.may_wait = true;
#define WAITS_FOR_EVENT() MAY_WAIT() operation.waits_for_event = true;
#define WAITS_FOR_HOST() MAY_WAIT() mdnn_pointers_host_waits();
/* What is written to device memory; _LATER: perhaps from what the host may change until then. */
#define COPIES(to, from, bytes) mdnn_copies(&transfers, to, (uintptr_t)(from), bytes, false);
#define COPIES_LATER(to, from, bytes) mdnn_copies(&transfers, to, (uintptr_t)(from), bytes, true);
#define COPIES_EACH(to, from, bytes, number, attributes, starts, attribute_number)                 \
    mdnn_copies_each(&transfers, to, from, bytes, number,                                          \
                     mdnn_orders(attributes, starts, attribute_number));
#define COPIES_BOX_2D(box) mdnn_copies_box_2d(&transfers, box, false);
#define COPIES_BOX_2D_LATER(box) mdnn_copies_box_2d(&transfers, box, true);
#define COPIES_BOX_3D(box) MDNN_COPIES_BOX_3D(&transfers, box, false)
#define COPIES_BOX_3D_LATER(box) MDNN_COPIES_BOX_3D(&transfers, box, true)
#define COPIES_BOXES_3D(boxes, number) mdnn_copies_boxes_3d(&transfers, boxes, number);
#define SETS(to, bytes) mdnn_copies(&transfers, to, 0, bytes, false);
#define SETS_ROWS(to, pitch, width, rows) mdnn_sets_rows(&transfers, to, pitch, width, rows);
#define NAMES(...) __VA_ARGS__

static void leave(CUresult result)
{
    if (result != CUDA_SUCCESS)
        mdnn_failure_see(result);
    if (mdnn_failure_is_final(result))
        mdnn_remake_context_failed();
    if (result == CUDA_ERROR_ILLEGAL_ADDRESS)
        mdnn_last_kernels_say();
    mdnn_driver_leave();
}

static CUresult begin(mdnn_virtual_operation_t *operation, const mdnn_transfers_t *transfers,
                      mdnn_driver_hook_t hook)
{
    operation->overflowed = operation->overflowed || transfers->lost;
    return mdnn_virtual_begin(operation, mdnn_driver_hash(MDNN_DRIVER_HASH_START, hook));
}

static void end(mdnn_virtual_operation_t *operation, const mdnn_transfers_t *transfers,
                bool enqueued)
{
    if (transfers->count > 0 && enqueued)
        mdnn_transfers_enqueued(transfers, operation);
    mdnn_virtual_end(operation, enqueued);
}

/* That the entry has the type that cuda.h gives to the symbol is checked by the initialisation. */
#define ENTRY(symbol, type, parameters, arguments, handle)                                         \
    __attribute__((visibility("default"))) CUresult mdnn_driver_##symbol(parameters)               \
    {                                                                                              \
        _Static_assert(__builtin_types_compatible_p(type, __typeof__(&mdnn_driver_##symbol)),      \
                       #symbol " is not a " #type);                                                \
        const type real = (type)real_of(MDNN_DRIVER_##symbol, #symbol);                            \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        if (!mdnn_driver_enter())                                                                  \
            return real(arguments);                                                                \
        CUresult result;                                                                           \
        mdnn_driver_set_caller(__builtin_return_address(0));                                       \
        handle;                                                                                    \
        leave(result);                                                                             \
        return result;                                                                             \
    }

#define DRIVER_HOOK(symbol, type, hook, own, parameters, arguments)                                \
    ENTRY(symbol, type, PARAMETERS(parameters), ARGUMENTS(arguments),                              \
          result = mdnn_hook_##hook(real, own, ARGUMENTS(arguments)))

#define DRIVER_OPERATION(symbol, type, own, in_stream, names, parameters, arguments)               \
    ENTRY(symbol, type, PARAMETERS(parameters), ARGUMENTS(arguments), {                            \
        mdnn_virtual_operation_t operation;                                                        \
        mdnn_transfers_t transfers = {0};                                                          \
        mdnn_virtual_operation(&operation, in_stream, own);                                        \
        names;                                                                                     \
        result = begin(&operation, &transfers, MDNN_DRIVER_##symbol);                              \
        if (result == CUDA_SUCCESS) {                                                              \
            result = real(arguments);                                                              \
            end(&operation, &transfers, result == CUDA_SUCCESS);                                   \
        }                                                                                          \
        mdnn_transfers_free(&transfers);                                                           \
    })

#define OF_GRAPH(of) ((mdnn_node_owner_t){.graph = of, .holds = &holds})
#define OF_EXECUTABLE(of) ((mdnn_node_owner_t){.executable = of, .holds = &holds})
#define OF_UNKNOWN ((mdnn_node_owner_t){.holds = &holds})
#define KERNEL_NODE(node) mdnn_node_kernel(into, node)
#define COPY_NODE(node) mdnn_node_copy(into, node)
#define MEMSET_NODE(node) mdnn_node_memset(into, node)
#define VALUES_NODE(node) mdnn_node_values(into, node)
#define ANY_NODE(node) mdnn_node_any(into, node)
#define DRIVER_NODE(symbol, type, owner, uses, parameters, arguments)                              \
    ENTRY(symbol, type, PARAMETERS(parameters), ARGUMENTS(arguments), {                            \
        mdnn_node_holds_t holds = {0};                                                             \
        const mdnn_node_owner_t into = owner;                                                      \
        result = uses;                                                                             \
        if (result == CUDA_SUCCESS)                                                                \
            result = real(arguments);                                                              \
        mdnn_virtual_node_made(into, result == CUDA_SUCCESS);                                      \
    })

#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK
#undef DRIVER_OPERATION
#undef DRIVER_NODE

/* ---- lookups ---- */

typedef struct hook {
    const char *symbol;
    const char *type; /* PFN_<name of the API>_v<version>[_ptsz] */
    bool own;
    function_t entry;
} hook_t;

static const hook_t hooks[MDNN_DRIVER_COUNT] = {
#define DRIVER_HOOK(hook_symbol, hook_type, hook, hook_own, parameters, arguments)                 \
    [MDNN_DRIVER_##hook_symbol] = {#hook_symbol, #hook_type, hook_own,                             \
                                   (function_t)&mdnn_driver_##hook_symbol},
#define DRIVER_OPERATION(hook_symbol, hook_type, hook_own, stream, names, parameters, arguments)   \
    DRIVER_HOOK(hook_symbol, hook_type, , hook_own, , )
#define DRIVER_NODE(hook_symbol, hook_type, owner, uses, parameters, arguments)                    \
    DRIVER_HOOK(hook_symbol, hook_type, , false, , )
#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK
#undef DRIVER_OPERATION
#undef DRIVER_NODE
};

static void *entry_of(const hook_t *hook)
{
    void *address;
    memcpy(&address, &hook->entry, sizeof address);
    return address;
}

/* The version from which on the API `name` is this symbol; 0 if it is another API's. */
static int version_of(const hook_t *hook, const char *name)
{
    const char *const api = hook->type + strlen("PFN_");
    const size_t length = strlen(name);
    if (strncmp(api, name, length) != 0 || strncmp(api + length, "_v", 2) != 0)
        return 0;
    return atoi(api + length + 2);
}

/* The hook whose real function this is. Several symbols may share one function: then the name and
 * the family that were asked for decide. */
static const hook_t *hook_of_function(const char *name, function_t function, bool own_stream)
{
    const hook_t *best = NULL;
    int best_fit = 0;
    for (int i = 0; i < MDNN_DRIVER_COUNT; i++) {
        if (real_of((mdnn_driver_hook_t)i, hooks[i].symbol) != function)
            continue;
        const int fit = 1 + 2 * (version_of(&hooks[i], name) > 0) + (hooks[i].own == own_stream);
        if (fit > best_fit) {
            best = &hooks[i];
            best_fit = fit;
        }
    }
    return best;
}

/* By name, version and family, for drivers whose answers are none of their exported functions. */
static const hook_t *hook_of_name(const char *name, int version, bool own_stream)
{
    const hook_t *best = NULL;
    int best_fit = 0;
    for (int i = 0; i < MDNN_DRIVER_COUNT; i++) {
        const int since = version_of(&hooks[i], name);
        if (since == 0 || since > version || (hooks[i].own && !own_stream))
            continue;
        const int fit = 2 * since + hooks[i].own * 1000000;
        if (fit > best_fit) {
            best = &hooks[i];
            best_fit = fit;
        }
    }
    return best;
}

/* Its name as an exported symbol, NULL if it is none. */
static const char *symbol_at(void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_saddr == function ? info.dli_sname : NULL;
}

static bool is_ours(void *function)
{
    for (int i = 0; i < MDNN_DRIVER_COUNT; i++)
        if (entry_of(&hooks[i]) == function)
            return true;
    return false;
}

void *mdnn_driver_route(const char *name, void *function, int version, bool own_stream)
{
    if (!name || !*name || !function || is_ours(function))
        return function;
    const hook_t *hook = hook_of_function(name, function_of(function), own_stream);
    if (hook)
        return entry_of(hook);
    hook = hook_of_name(name, version, own_stream);
    if (!hook)
        return function;
    const char *const symbol = symbol_at(function);
    if (symbol) { /* a form that is not known here: it may have other parameters */
        MDNN_LOG(MDNN_LOG_WARN, "shim", "%s (version %d) is not watched: the driver gave %s", name,
                 version, symbol);
        return function;
    }
    atomic_store_explicit(&reals[hook - hooks], function_of(function), memory_order_release);
    return entry_of(hook);
}

static const hook_t *hook_of_symbol(const char *symbol)
{
    for (int i = 0; i < MDNN_DRIVER_COUNT; i++)
        if (strcmp(hooks[i].symbol, symbol) == 0)
            return &hooks[i];
    return NULL;
}

bool mdnn_driver_has_symbol(const char *symbol)
{
    return hook_of_symbol(symbol) != NULL;
}

void *mdnn_driver_entry_of_symbol(const char *symbol, void *found)
{
    const hook_t *const hook = hook_of_symbol(symbol);
    if (hook == &hooks[MDNN_DRIVER_cuGetProcAddress] ||
        hook == &hooks[MDNN_DRIVER_cuGetProcAddress_v2])
        mdnn_pytorch_prepare();
    atomic_store_explicit(&reals[hook - hooks], function_of(found), memory_order_release);
    return entry_of(hook);
}

/* ---- inside ---- */

/* Another thread may be reading the options just now, from a slow file system perhaps: what it will
 * find decides, so wait for it. Not for ever: in a child it is gone. */
static mdnn_process_state_t settled_state(void)
{
    enum { YIELDS = 1000, SLEEPS = 60000 };
    const struct timespec millisecond = {.tv_nsec = 1000000};
    mdnn_process_state_t state = mdnn_process_state();
    for (int i = 0; state == MDNN_PROCESS_STARTING && i < YIELDS + SLEEPS; i++) {
        mdnn_cancel_hold();
        if (i < YIELDS)
            sched_yield();
        else
            nanosleep(&millisecond, NULL);
        mdnn_cancel_allow();
        state = mdnn_process_state();
    }
    return state;
}

bool mdnn_driver_enter(void)
{
    if (inside)
        return false;
    inside = true;
    const mdnn_process_state_t state = settled_state();
    if (state == MDNN_PROCESS_ACTIVE)
        mdnn_process_see_cuda();
    inside = (state == MDNN_PROCESS_ACTIVE || state == MDNN_PROCESS_EXITING) && mdnn_virtual_on();
    if (inside)
        mdnn_cancel_hold();
    return inside;
}

void mdnn_driver_leave(void)
{
    inside = false;
    mdnn_cancel_allow();
}

CUresult mdnn_driver_failure_of_context(void)
{
    size_t free_bytes, total_bytes;
    const mdnn_driver_t *const driver = mdnn_failure_any_final() ? mdnn_real_driver() : NULL;
    const CUresult result = driver ? driver->cuMemGetInfo(&free_bytes, &total_bytes) : CUDA_SUCCESS;
    return mdnn_failure_is_final(result) ? result : CUDA_SUCCESS;
}
