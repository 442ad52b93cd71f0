/* The hooks of the driver's functions (shim/interpose/driver_hooks.def): their list, and how lookups lead to them. A
 * hook is our function that runs in place of the driver's, the real function; an entry is the address of a hook that a
 * caller gets when it looks the function up. Everything that CUDA does in a process passes here, whoever calls, since
 * every copy of cudart gets the driver's functions by cuGetProcAddress.
 *
 * While no budget is on, a hook only checks whether one is, and lookups return real pointers. */
#ifndef MDNN_DRIVER_H
#define MDNN_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "shim/real/driver_queries.h"
#include "shim/real/failure.h"
#include "shim/real/operation_key.h"
#include "shim/real/plain_memory.h"
#include "shim/vmem/virtual_memory.h"

/* Old forms that the driver still has and the header does not declare. */
typedef CUresult (*PFN_cuCtxDestroy_v2000)(CUcontext context);
typedef CUresult (*PFN_cuDevicePrimaryCtxReset_v7000)(CUdevice device);
typedef CUresult (*PFN_cuStreamBeginCapture_v10000)(CUstream stream);
typedef CUresult (*PFN_cuStreamBeginCapture_v10000_ptsz)(CUstream stream);
typedef CUresult (*PFN_cuGraphInstantiate_v10000)(CUgraphExec *executable, CUgraph graph,
                                                  CUgraphNode *bad, char *text, size_t text_bytes);
typedef PFN_cuGraphInstantiate_v10000 PFN_cuGraphInstantiate_v11000;

typedef enum mdnn_driver_hook {
#define DRIVER_HOOK(symbol, type, hook, own, parameters, arguments) MDNN_DRIVER_##symbol,
#define DRIVER_OPERATION(symbol, type, own, stream, names, parameters, arguments)                  \
    MDNN_DRIVER_##symbol,
#define DRIVER_NODE(symbol, type, owner, uses, parameters, arguments) MDNN_DRIVER_##symbol,
#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK
#undef DRIVER_OPERATION
#undef DRIVER_NODE
    MDNN_DRIVER_COUNT
} mdnn_driver_hook_t;

/* The exported entries, under our own names, since the symbols' names are macros in cuda.h. Our own operations on
 * memory that may be virtual go through them. */
#define PARAMETERS(...) __VA_ARGS__
#define DRIVER_HOOK(symbol, type, hook, own, parameters, arguments)                                \
    CUresult mdnn_driver_##symbol(parameters) __asm__(#symbol);
#define DRIVER_OPERATION(symbol, type, own, stream, names, parameters, arguments)                  \
    CUresult mdnn_driver_##symbol(parameters) __asm__(#symbol);
#define DRIVER_NODE(symbol, type, owner, uses, parameters, arguments)                              \
    CUresult mdnn_driver_##symbol(parameters) __asm__(#symbol);
#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK
#undef DRIVER_OPERATION
#undef DRIVER_NODE

/* The hooks that are written by hand. `real` is the function that was called; `own_stream`: stream 0 is the thread's
 * own. They are called only inside mdnn_driver_enter. */
#define DRIVER_HOOK(symbol, type, hook, own, parameters, arguments)                                \
    CUresult mdnn_hook_##hook(CUresult (*real)(parameters), bool own_stream, parameters);
#define DRIVER_OPERATION(symbol, type, own, stream, names, parameters, arguments)
#define DRIVER_NODE(symbol, type, owner, uses, parameters, arguments)
#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK
#undef DRIVER_OPERATION
#undef DRIVER_NODE
#undef PARAMETERS

/* Whether a hook has something to do: a budget is on, and the calling thread is not in a hook
 * already. false: call the real function. Every true needs one mdnn_driver_leave. */
bool mdnn_driver_enter(void);
void mdnn_driver_leave(void);
/* An address in the code that called the driver. Called only inside a hook. */
const void *mdnn_driver_caller(void);
void mdnn_driver_set_caller(const void *address);
/* Called after the real call for memory that a library wanted to stay on the device; logs one line if that failed. */
void mdnn_driver_note_plain(mdnn_plain_memory_t wanted, CUresult result);
/* The failure that has ended the current context; CUDA_SUCCESS: none has. Asks the driver, but only after a call was seen
 * to fail so. */
CUresult mdnn_driver_failure_of_context(void);

/* The entry that replaces `function`, which the driver returned for the function `name` in this version. `own_stream`:
 * the form in which stream 0 is the thread's own. Returns `function` itself if it is not hooked. */
void *mdnn_driver_route(const char *name, void *function, int version, bool own_stream);

/* For dlsym: whether a symbol of that name is hooked, and the entry that replaces `found`, which is the driver's
 * function. */
bool mdnn_driver_has_symbol(const char *symbol);
void *mdnn_driver_entry_of_symbol(const char *symbol, void *found);

/* Names those of an operation's addresses that are ours. */
static inline void mdnn_driver_name(mdnn_virtual_operation_t *operation, uint64_t address,
                                    mdnn_use_role_t role)
{
    if (mdnn_virtual_owns(address))
        mdnn_virtual_name(operation, address, role);
}

#endif
