/* Virtual GPU memory in the process: one mdnn_memory_t (offload/memory/memory.h) per device under a budget, the lock
 * around it, and the functions that the driver hooks call. It is off (mdnn_virtual_on() is false) unless
 * `memory.budget` is set; while it is off, a hook costs only that test.
 *
 * An operation is what the program enqueues: a kernel, a copy, a graph. It names an allocation if the library knows
 * that it uses it. "Ours" is memory that the library manages.
 *
 * There is one lock per device, which these functions take and never hold while the program's own call runs. Any thread
 * may call them. */
#ifndef MDNN_VIRTUAL_MEMORY_H
#define MDNN_VIRTUAL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "offload/memory/memory.h"

/* Whether a budget is on in this process; reads the options at the first call. */
bool mdnn_virtual_on(void);

/* For cuMemAlloc and similar calls. CUDA_ERROR_NOT_SUPPORTED: the library does not serve the call (the device has no
 * budget, or the library failed), so the caller asks the real driver. `synchronous`: any stream may use the memory
 * immediately (cuMemAlloc), so the host waits where otherwise a stream would. */
CUresult mdnn_virtual_allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                               bool synchronous);
/* The same on a device that need not be the stream's, in the order of the stream. mdnn_virtual_allocate uses the
 * stream's device, or, for a default stream or if `synchronous`, the current device. */
CUresult mdnn_virtual_allocate_on(CUdevice ordinal, CUdeviceptr *address, size_t bytes,
                                  CUstream stream, bool per_thread);
/* CUDA_ERROR_NOT_SUPPORTED: the memory is not ours. `synchronous`: waits like cuMemFree. */
CUresult mdnn_virtual_free(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous);

/* Whether `address` lies in one of our reservations. Costs one or two comparisons, since it runs
 * for every word of every launch. */
bool mdnn_virtual_owns(uint64_t address);
bool mdnn_virtual_find(uint64_t address, uint64_t *start, uint64_t *bytes, int *device);

/* For questions to the driver about the allocation at `address`, wherever its content is. Calls `ask` with that
 * address, or with the address of other resident memory of the same kind, so that nothing has to move. `ask` may call
 * only the driver; the device is locked. false: `ask` was not called, since no memory of that kind is resident. *number
 * is different for each allocation of the process; 0: nothing lives at `address`. */
bool mdnn_virtual_ask(CUdeviceptr address, void (*ask)(void *context, CUdeviceptr address),
                      void *context, uint64_t *number);

/* Called just before a convolution runs. Returns whether an operation that names the workspace and all operands can
 * ever run in the budget on the workspace's device; true if the workspace is not ours. If it is ours and such an
 * operation can run, remembers the sizes of the workspace and the operands (shim/vmem/workspace_sizes.h). The order of
 * the operands is x, w, y, others; at most MDNN_VIRTUAL_TOGETHER - 1 of them count. */
enum { MDNN_VIRTUAL_TOGETHER = 8 };
bool mdnn_virtual_workspace_fits(uint64_t workspace, const uint64_t *operands, size_t count);
/* The most bytes of workspace that an operation may use beside operands of these sizes, on the current device;
 * UINT64_MAX without a budget. */
uint64_t mdnn_virtual_room_beside(const uint64_t *sizes, size_t count);
/* Whether operations on the current device run though there is no room for what they name (docs/design/tail.md). */
bool mdnn_virtual_has_tails(void);

/* Which memory an operation may use. */
typedef enum mdnn_virtual_reach {
    MDNN_REACH_NAMED, /* it uses what it names */
    /* It might use anything: everything is made resident, if all of it fits. */
    MDNN_REACH_WHAT_FITS,
    /* The same; if not everything fits, host memory is permanently mapped where something is away. */
    MDNN_REACH_ALL
} mdnn_virtual_reach_t;
enum { MDNN_VIRTUAL_NAMES = 512, MDNN_VIRTUAL_TABLES = 32 };
/* One operation. A hook calls mdnn_virtual_operation, adds names with mdnn_virtual_name, and then calls
 * mdnn_virtual_begin, the real function and mdnn_virtual_end. The struct must not be copied. */
typedef struct mdnn_virtual_operation {
    CUstream stream;
    bool per_thread;            /* the call is of the _ptsz family: stream 0 is the thread's own */
    unsigned long long capture; /* id of the capture that records the operation; 0: none */
    bool begun;                 /* mdnn_virtual_end has something to do */
    /* The operation may wait for the program, so an event is recorded in front of it, which marks the end of the
     * earlier work. */
    bool may_wait;
    bool waits_for_event; /* it is a wait for work that is enqueued already */
    /* What the operation reaches through pointers in memory is named, too (shim/vmem/virtual_pointers.h). */
    bool follows;
    bool overflowed; /* a name was lost for lack of memory: begin refuses the operation */
    /* For people; valid until the process ends. NULL: the operation runs no kernel, so it touches only the memory that
     * it names. */
    const char *name;
    size_t name_count;
    mdnn_virtual_reach_t reach;
    /* For a kernel whose name shows that it takes tables of pointers (shim/vmem/virtual_pointers.h); else NULL. */
    const struct mdnn_kernel_layout *layout;
    /* The parameters that may be addresses in pinned host memory, where such tables may lie: how many, and the
     * addresses. */
    size_t table_count;
    uint64_t tables[MDNN_VIRTUAL_TABLES];
    const struct mdnn_launch *launch; /* how the kernel is launched; NULL: it is no single launch */
    bool watched;                     /* shim/vmem/virtual_watch.h; until end */
    void *watch_state;                /* the watcher's, from begin to end */
    mdnn_memory_operand_t *more;      /* all names, if `names` is too small; owned until end */
    /* The device on which the operation may use any memory (NULL: none), and the operation's stream there. */
    struct mdnn_virtual_device *untracked;
    uint64_t untracked_stream;
    struct mdnn_virtual_part *parts; /* from begin to end, one per device with a name */
    mdnn_memory_operand_t names[MDNN_VIRTUAL_NAMES]; /* the names, unless `more` has them */
} mdnn_virtual_operation_t;

static inline void mdnn_virtual_operation(mdnn_virtual_operation_t *operation, CUstream stream,
                                          bool per_thread)
{
    operation->stream = stream;
    operation->per_thread = per_thread;
    operation->begun = operation->may_wait = operation->waits_for_event = false;
    operation->overflowed = operation->follows = false;
    operation->untracked = NULL;
    operation->reach = MDNN_REACH_NAMED;
    operation->name = NULL;
    operation->layout = NULL;
    operation->launch = NULL;
    operation->watched = false;
    operation->watch_state = NULL;
    operation->name_count = operation->table_count = 0;
    operation->more = NULL;
    operation->parts = NULL;
}

static inline const mdnn_memory_operand_t *
mdnn_virtual_names(const mdnn_virtual_operation_t *operation)
{
    return operation->more ? operation->more : operation->names;
}

/* Adds a name. Ignores an address that is not ours, and one that repeats one of the last few names. Any number of names
 * is allowed. */
void mdnn_virtual_name(mdnn_virtual_operation_t *operation, uint64_t address, mdnn_use_role_t role);
/* Called for a parameter that may be an address in pinned host memory. If the operation `follows`, mdnn_virtual_begin
 * names the memory that pointers there lead to. */
void mdnn_virtual_name_table(mdnn_virtual_operation_t *operation, uint64_t address);
/* Records an event after all work that the operation's stream has so far, so that the end of this work can be seen
 * before later work has ended. */
void mdnn_virtual_fix(const mdnn_virtual_operation_t *operation);
/* For cuGraphLaunch: names everything that the executable graph uses. Returns CUDA_SUCCESS, or, if memory that an
 * earlier launch allocated was not freed yet, the result that the hook returns instead of launching. */
CUresult mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable);
/* Called after a successful launch: memory that the graph allocates is now alive, and memory that it frees is not. */
void mdnn_virtual_graph_launched(CUgraphExec executable, CUstream stream, bool per_thread);
/* Returns CUDA_SUCCESS, and end must follow; or the result to return instead of enqueuing, usually
 * CUDA_ERROR_OUT_OF_MEMORY, and then end must not be called. An operation without names costs one comparison, except
 * for a kernel with `safety = verify`, which may access anything. `key` identifies the operation. */
CUresult mdnn_virtual_begin(mdnn_virtual_operation_t *operation, uint64_t key);
void mdnn_virtual_end(mdnn_virtual_operation_t *operation, bool enqueued);

/* Announces the convolution that the calling thread is about to enqueue. The thread's next operations, until
 * mdnn_virtual_convolution_over is called, belong to it; the first of them is recorded with kind `kind` and `x` as its
 * first operand, since the vDNN policies decide by layer inputs. `workspace`, which may be 0, is memory that a smaller
 * workspace could replace. */
void mdnn_virtual_convolution(mdnn_operation_kind_t kind, uint64_t x, uint64_t workspace,
                              uint64_t workspace_bytes);
void mdnn_virtual_convolution_over(void);

/* Called when the program waits in a blocking call, so that moves go on meanwhile. Returns when `is_over(context)` is
 * true or nothing is under way; the caller then makes its real call. */
void mdnn_virtual_progress_while_waiting(bool (*is_over)(void *context), void *context);

/* Captures and graphs: memory that was named or allocated during a capture stays as long as its
 * graph or an executable of it exists. If the program frees it before that, it ends with them. */

/* Called before the real cuStreamBeginCapture. */
void mdnn_virtual_capture_begins(void);
/* Called after it. `graph`: a graph of the program's, into which it captures; NULL: none. */
void mdnn_virtual_capture_began(CUstream stream, bool per_thread, CUgraph graph, bool began);
/* The capture in which the stream takes part; 0: none. Also called before the real
 * cuStreamEndCapture. Costs one comparison while nothing is captured. */
unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread);
/* Called after the real cuStreamEndCapture; `capture` is what mdnn_virtual_capture returned before
 * it. `graph` NULL: the call produced none; if the stream still takes part in a capture, that
 * capture goes on. */
void mdnn_virtual_capture_ended(CUstream stream, bool per_thread, unsigned long long capture,
                                CUgraph graph);

/* What a call that makes a node has pinned for it; starts as zeros. */
typedef struct mdnn_node_holds {
    struct mdnn_node_hold *taken;
    CUgraph child;
} mdnn_node_holds_t;

/* The owner of a node that uses memory: a graph, an executable, or, if both are NULL, an unknown
 * one. */
typedef struct mdnn_node_owner {
    CUgraph graph;
    CUgraphExec executable;
    mdnn_node_holds_t *holds;
} mdnn_node_owner_t;

/* A node that the program (or cuDNN) makes by hand uses `address`, so the allocation stays until the node's owner ends
 * or the allocation is freed. Returns CUDA_SUCCESS, even if nothing is there, or the result to return instead of making
 * the node. */
CUresult mdnn_virtual_node_operands(mdnn_node_owner_t owner, uint64_t address);
/* The node will be a copy of the graph `child`. */
void mdnn_virtual_node_child(mdnn_node_owner_t owner, CUgraph child);
/* Called after the real call that makes the node, or instead of it. If no node was `made`, what was held for it is
 * released. */
void mdnn_virtual_node_made(mdnn_node_owner_t owner, bool made);
/* `part` lives in `whole` and ends with it: the body of a conditional node, or a child graph whose ownership was moved
 * into `whole`. */
void mdnn_virtual_graph_joined(CUgraph whole, CUgraph part);
/* Called after success of the real call; `flags` are those of cuGraphInstantiateWithFlags. */
void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable,
                                     unsigned long long flags);
void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone);
/* Called after the real call. `whole`: all nodes of the executable are now those of the graph; otherwise some of them
 * may be. */
void mdnn_virtual_executable_updated(CUgraph graph, CUgraphExec executable, bool whole);
/* Called before the real call, after which the driver may reuse the handle; pass the result to the
 * function that is called after it. */
uint64_t mdnn_virtual_graph_ends(CUgraph graph);
uint64_t mdnn_virtual_executable_ends(CUgraphExec executable);
/* `ended` false: the object still exists. */
void mdnn_virtual_graph_ended(CUgraph graph, uint64_t number, bool ended);
void mdnn_virtual_executable_ended(CUgraphExec executable, uint64_t number, bool ended);
/* Called before the real call; after its success pass the result to mdnn_virtual_capture_lost,
 * since a capture ends with the stream in which it began. */
unsigned long long mdnn_virtual_stream_destroyed(CUstream stream);
void mdnn_virtual_capture_lost(unsigned long long capture);

/* device_ends is called before the device is reset: it releases everything that the library holds on the device, and
 * ends all allocations there. device_ended is called after the real call, which may have failed: the device gets a new
 * budget with its next allocation. */
void mdnn_virtual_device_ends(CUdevice device);
void mdnn_virtual_device_ended(CUdevice device);
/* Called before one of the program's own contexts is destroyed. */
void mdnn_virtual_context_ends(CUcontext context);
/* Called after the context was destroyed. Memory of cuMemAlloc ends with its context, but memory of pools does not.
 * Each call returns another allocation that the caller must free; false: there are no more. */
bool mdnn_virtual_take_bound(CUcontext context, CUdeviceptr *address);

/* The current device's free and total bytes as the program should see them; false: the device has no budget. */
bool mdnn_virtual_info(size_t *free_bytes, size_t *total_bytes);

/* Keeps the allocation around `address` from leaving until mdnn_virtual_unpin (shim/vmem/virtual_untracked.h).
 * CUDA_ERROR_NOT_SUPPORTED: it is not ours. */
CUresult mdnn_virtual_pin(CUdeviceptr address);
/* For memory to which an object refers without keeping it alive (such as a texture, or the registration of a buffer
 * with NCCL): keeps the memory from leaving until it is freed or the object ends. CUDA_ERROR_INVALID_VALUE: nothing
 * lives there. */
CUresult mdnn_virtual_pin_live(CUdeviceptr address, mdnn_live_pin_t *pin);
void mdnn_virtual_unpin_live(mdnn_live_pin_t pin);

/* Allocate and free the library's own device memory, such as scratch: within the budget if there is one, otherwise by
 * cuMemAlloc and cuMemFree. */
CUresult mdnn_device_allocate(CUdeviceptr *address, size_t bytes);
CUresult mdnn_device_free(CUdeviceptr address);
/* Like cuMemGetInfo; for the budget if one is on. */
CUresult mdnn_device_info(size_t *free_bytes, size_t *total_bytes);

#endif
