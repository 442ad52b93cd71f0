/* Virtual GPU memory in the process: one mdnn_memory_t a device under a budget, the lock around it,
 * and what the driver hooks call. Off (mdnn_virtual_on() false) unless `memory.budget` is set, and
 * then no hook costs more than that question.
 *
 * Locks: one a device, taken inside these functions and never held while the host's own call runs.
 */
#ifndef MDNN_VIRTUAL_MEMORY_H
#define MDNN_VIRTUAL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "offload/memory/memory.h"

/* Whether a budget is on in this process; reads the options at the first call. */
bool mdnn_virtual_on(void);

/* cuMemAlloc and its kin. CUDA_ERROR_NOT_SUPPORTED: not served by us (no budget on this device, a
 * failure of ours): the caller asks the real driver. `synchronous`: the memory may be used in any
 * stream at once (cuMemAlloc), so the host waits where a stream would have to. */
CUresult mdnn_virtual_allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                               bool synchronous);
/* Likewise on a device that need not be the stream's, in the order of the stream. mdnn_virtual_allocate
 * takes the stream's device, for a default stream and `synchronous` the current one. */
CUresult mdnn_virtual_allocate_on(CUdevice ordinal, CUdeviceptr *address, size_t bytes,
                                  CUstream stream, bool per_thread);
/* CUDA_ERROR_NOT_SUPPORTED: not ours. `synchronous`: waits as cuMemFree does. */
CUresult mdnn_virtual_free(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous);

/* Whether `address` lies in one of our reservations. A compare or two: for every word of every
 * launch. */
bool mdnn_virtual_owns(uint64_t address);
bool mdnn_virtual_find(uint64_t address, uint64_t *start, uint64_t *bytes, int *device);

/* What the driver says of the allocation at `address`, wherever it is: `ask` is called with that, or with
 * another address of the same kind of memory that is there, so that nothing needs room. It calls the
 * driver alone; the device is locked. false: it was not called, since nothing of that kind is there.
 * *number: another one for each allocation of the process; 0: nothing lives at `address`. */
bool mdnn_virtual_ask(CUdeviceptr address, void (*ask)(void *context, CUdeviceptr address),
                      void *context, uint64_t *number);

/* Whether an operation that names the workspace and all operands can ever run in the budget, on the
 * device of the workspace; true of what is not ours. The convolution that asks runs now: what it uses is
 * remembered (shim/vmem/workspace_sizes.h), and the order of the operands is x, w, y, others. */
enum { MDNN_VIRTUAL_TOGETHER = 8 };
bool mdnn_virtual_workspace_fits(uint64_t workspace, const uint64_t *operands, size_t count);
/* Most that memory may take which an operation is to use beside operands of these sizes, on the current
 * device; UINT64_MAX without a budget. */
uint64_t mdnn_virtual_room_beside(const uint64_t *sizes, size_t count);

/* Around each operation. A hook begins with mdnn_virtual_operation, fills in names with
 * mdnn_virtual_name, then begin, the real call, end. Not to be copied. */
enum { MDNN_VIRTUAL_NAMES = 512 };
typedef struct mdnn_virtual_operation {
    CUstream stream;
    bool per_thread;            /* the _ptsz family: stream 0 is the thread's own */
    unsigned long long capture; /* whose capture it goes into; 0: none */
    bool begun;                 /* end has something to do */
    bool may_wait;              /* for the program: what is enqueued before it ends without it */
    bool overflowed;            /* a name was lost for want of memory: begin refuses */
    const char *name; /* for people; valid until the process ends. NULL: runs no kernel, so that it
                         touches nothing but what it names */
    size_t name_count;
    mdnn_memory_operand_t *more;     /* what does not fit in `names`; owned until end */
    struct mdnn_virtual_part *parts; /* from begin to end, one a device that is named */
    mdnn_memory_operand_t names[MDNN_VIRTUAL_NAMES]; /* the first of name_count */
} mdnn_virtual_operation_t;

static inline void mdnn_virtual_operation(mdnn_virtual_operation_t *operation, CUstream stream,
                                          bool per_thread)
{
    operation->stream = stream;
    operation->per_thread = per_thread;
    operation->begun = operation->may_wait = operation->overflowed = false;
    operation->name = NULL;
    operation->name_count = 0;
    operation->more = NULL;
    operation->parts = NULL;
}

/* Passes over what is not ours, and what was just named. Any number of names. */
void mdnn_virtual_name(mdnn_virtual_operation_t *operation, uint64_t address, mdnn_use_role_t role);
/* The end of all that is enqueued in its stream so far is known apart from that of what comes next. */
void mdnn_virtual_fix(const mdnn_virtual_operation_t *operation);
/* Names all that the executable graph uses; for cuGraphLaunch. CUDA_SUCCESS, or what to return instead:
 * memory that an earlier launch made was not freed yet. */
CUresult mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable);
/* After success: what each launch makes lives, what each launch frees does not. */
void mdnn_virtual_graph_launched(CUgraphExec executable, CUstream stream, bool per_thread);
/* CUDA_SUCCESS, or what to return instead of enqueuing, CUDA_ERROR_OUT_OF_MEMORY as a rule; nothing
 * is to be ended then. An operation without names costs a compare, but a
 * kernel's in `safety = verify`, which may reach anything all the same. `key`: what it is. Always
 * followed by end if it succeeds. */
CUresult mdnn_virtual_begin(mdnn_virtual_operation_t *operation, uint64_t key);
void mdnn_virtual_end(mdnn_virtual_operation_t *operation, bool enqueued);

/* The convolution that the calling thread is about to enqueue: the next operations of this thread
 * up to the call of over belong to it; the first is recorded as `kind` with `x` first (vDNN's
 * layers). `workspace`, which may be 0, is what a smaller one could stand in for. */
void mdnn_virtual_convolution(mdnn_operation_kind_t kind, uint64_t x, uint64_t workspace,
                              uint64_t workspace_bytes);
void mdnn_virtual_convolution_over(void);

/* A blocking wait of the program: moves go on meanwhile. Returns when `is_over(context)` or nothing
 * is under way any more; the caller then makes its real call. */
void mdnn_virtual_progress_while_waiting(bool (*is_over)(void *context), void *context);

/* Captures and graphs: what was named or allocated during a capture stays as long as its graph or
 * an executable of it does; what the program frees meanwhile is freed then. */

/* Before the real cuStreamBeginCapture. */
void mdnn_virtual_capture_begins(void);
/* After it. `graph`: the program's, which it captures into; NULL: none. */
void mdnn_virtual_capture_began(CUstream stream, bool per_thread, CUgraph graph, bool began);
/* The capture that the stream takes part in, 0: none. To be asked before the real
 * cuStreamEndCapture, too. Costs a compare while nothing is captured. */
unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread);
/* After the real cuStreamEndCapture: `capture` is what mdnn_virtual_capture said before it. `graph`
 * NULL: none came of it; if the stream still takes part in a capture then, that goes on. */
void mdnn_virtual_capture_ended(CUstream stream, bool per_thread, unsigned long long capture,
                                CUgraph graph);

/* What a call that makes a node has taken for it; all zero at first. */
typedef struct mdnn_node_holds {
    struct mdnn_node_hold *taken;
    CUgraph child;
} mdnn_node_holds_t;

/* What uses memory in a node: a graph, an executable, or (both NULL) nobody knows whose the node
 * is. */
typedef struct mdnn_node_owner {
    CUgraph graph;
    CUgraphExec executable;
    mdnn_node_holds_t *holds;
} mdnn_node_owner_t;

/* A node that the program (or cuDNN) makes by hand uses `address`: it stays until its owner ends,
 * or it is freed. CUDA_SUCCESS, also where nothing is there, or what to return instead of making
 * the node.
 */
CUresult mdnn_virtual_node_operands(mdnn_node_owner_t owner, uint64_t address);
/* The node will be a copy of the graph `child`. */
void mdnn_virtual_node_child(mdnn_node_owner_t owner, CUgraph child);
/* After the real call, or in its place: without a node nothing is held for it. */
void mdnn_virtual_node_made(mdnn_node_owner_t owner, bool made);
/* `part` lives in `whole` and ends with it: the body of a conditional node, a child that moved. */
void mdnn_virtual_graph_joined(CUgraph whole, CUgraph part);
/* After success of the real call; `flags` of cuGraphInstantiateWithFlags. */
void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable,
                                     unsigned long long flags);
void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone);
/* After the real call. `whole`: all nodes are the graph's now, else some may be. */
void mdnn_virtual_executable_updated(CUgraph graph, CUgraphExec executable, bool whole);
/* Before the real call, which lets the driver give the handle to another; what is returned goes to
 * the call after it. */
uint64_t mdnn_virtual_graph_ends(CUgraph graph);
uint64_t mdnn_virtual_executable_ends(CUgraphExec executable);
/* `ended` false: it is still there. */
void mdnn_virtual_graph_ended(CUgraph graph, uint64_t number, bool ended);
void mdnn_virtual_executable_ended(CUgraphExec executable, uint64_t number, bool ended);
/* Before the real call; what is returned is passed on after its success: captures end with the
 * stream in which they began. */
unsigned long long mdnn_virtual_stream_destroyed(CUstream stream);
void mdnn_virtual_capture_lost(unsigned long long capture);

/* The device is about to be reset: all that we have of it is given back, all allocations there end.
 * After the real call, which may have failed: it gets a budget anew with its next allocation. */
void mdnn_virtual_device_ends(CUdevice device);
void mdnn_virtual_device_ended(CUdevice device);
/* A context of the program's own is about to be destroyed. */
void mdnn_virtual_context_ends(CUcontext context);
/* Memory of cuMemAlloc ends with its context, that of pools does not: an allocation that is to be
 * freed, told once; false: there are no more. After success of the real call. */
bool mdnn_virtual_take_bound(CUcontext context, CUdeviceptr *address);

/* Free and total as the program should see them; false: not under a budget. */
bool mdnn_virtual_info(size_t *free_bytes, size_t *total_bytes);

/* Memory of ours, or a library's own: never leaves, until mdnn_virtual_unpin. */
CUresult mdnn_virtual_pin(CUdeviceptr address);
/* What others refer to without keeping it alive (a texture, a registration, a device that is told
 * where it lies): never leaves until it is freed, or that ends. CUDA_ERROR_INVALID_VALUE: nothing
 * lives there. */
CUresult mdnn_virtual_pin_live(CUdeviceptr address, mdnn_live_pin_t *pin);
void mdnn_virtual_unpin_live(mdnn_live_pin_t pin);

/* Our own scratch and arenas, inside the budget when one is on, else cuMemAlloc and cuMemFree. */
CUresult mdnn_device_allocate(CUdeviceptr *address, size_t bytes);
CUresult mdnn_device_free(CUdeviceptr address);
/* As cuMemGetInfo, of the budget when one is on. */
CUresult mdnn_device_info(size_t *free_bytes, size_t *total_bytes);

#endif
