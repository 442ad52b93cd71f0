#include "test/shim/virtual_double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real/process.h"
#include "shim/real/real.h"
#include "shim/handles/virtual_addresses.h"
#include "shim/remake/remake.h"
#include "shim/vmem/virtual_aside.h"
#include "shim/vmem/virtual_workspaces.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_untracked.h"

typedef struct allocation {
    uint64_t start, bytes;
} allocation_t;

static virtual_double_t seen;
static allocation_t allocations[256];
static size_t allocation_count;

__attribute__((visibility("default"))) virtual_double_t *virtual_double(void)
{
    return &seen;
}

static void event(const char *word)
{
    const size_t used = strlen(seen.events);
    snprintf(seen.events + used, sizeof seen.events - used, "%s ", word);
}

bool mdnn_virtual_on(void)
{
    return mdnn_process_state() != MDNN_PROCESS_DISABLED &&
           mdnn_process_options()->memory_budget != UINT64_MAX;
}

static allocation_t *find(uint64_t address)
{
    for (size_t i = 0; i < allocation_count; i++)
        if (address - allocations[i].start < allocations[i].bytes)
            return &allocations[i];
    return NULL;
}

CUresult mdnn_virtual_allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                               bool synchronous)
{
    if (seen.out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (seen.not_served || allocation_count == sizeof allocations / sizeof *allocations)
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = mdnn_real_driver()->cuMemAlloc(address, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    allocations[allocation_count++] = (allocation_t){*address, bytes};
    seen.allocated++;
    seen.allocated_in = stream;
    seen.allocated_per_thread = per_thread;
    seen.allocated_synchronous = synchronous;
    return CUDA_SUCCESS;
}

bool mdnn_virtual_is_device(CUdevice ordinal)
{
    (void)ordinal;
    return true;
}

CUresult mdnn_virtual_allocate_on(CUdevice ordinal, CUdeviceptr *address, size_t bytes,
                                  CUstream stream, bool per_thread)
{
    (void)ordinal;
    return mdnn_virtual_allocate(address, bytes, stream, per_thread, false);
}

CUresult mdnn_virtual_free(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous)
{
    allocation_t *const at = find(address);
    if (!at || at->start != address)
        return CUDA_ERROR_NOT_SUPPORTED;
    *at = allocations[--allocation_count];
    seen.freed++;
    seen.allocated_in = stream;
    seen.allocated_per_thread = per_thread;
    seen.allocated_synchronous = synchronous;
    return mdnn_real_driver()->cuMemFree(address);
}

bool mdnn_virtual_owns(uint64_t address)
{
    return find(address) != NULL;
}

bool mdnn_virtual_find(uint64_t address, uint64_t *start, uint64_t *bytes, int *device)
{
    const allocation_t *const at = find(address);
    if (!at)
        return false;
    *start = at->start;
    *bytes = at->bytes;
    *device = 0;
    return true;
}

bool mdnn_virtual_ask(CUdeviceptr address, void (*ask)(void *context, CUdeviceptr address),
                      void *context, uint64_t *number)
{
    *number = find(address) != NULL;
    if (*number > 0)
        ask(context, address);
    return *number > 0;
}

void mdnn_virtual_name(mdnn_virtual_operation_t *operation, uint64_t address, mdnn_use_role_t role)
{
    const mdnn_memory_operand_t named = {address, role};
    if (operation->name_count < MDNN_VIRTUAL_NAMES) {
        operation->names[operation->name_count++] = named;
        return;
    }
    if (!operation->more)
        operation->more = malloc((DOUBLE_NAMES - MDNN_VIRTUAL_NAMES) * sizeof named);
    if (operation->more && operation->name_count < DOUBLE_NAMES)
        operation->more[operation->name_count++ - MDNN_VIRTUAL_NAMES] = named;
}

void mdnn_pointers_may_be_at(uint64_t at, mdnn_address_list_t *values, bool captured)
{
    (void)at, (void)values, (void)captured;
}

bool mdnn_pointers_are_in(uint64_t address)
{
    (void)address;
    return true;
}

void mdnn_pointers_reach(uint64_t address, mdnn_address_list_t *list)
{
    (void)address, (void)list;
}

bool mdnn_pointers_in_host(const uint64_t *addresses, size_t count, mdnn_address_list_t *list)
{
    (void)addresses, (void)count, (void)list;
    return true;
}

void mdnn_pointers_host_ends(const void *start, size_t bytes)
{
    (void)start, (void)bytes;
}

void mdnn_virtual_name_table(mdnn_virtual_operation_t *operation, uint64_t address)
{
    (void)operation, (void)address;
}

CUresult mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable)
{
    (void)operation, (void)executable;
    event("launched");
    return CUDA_SUCCESS;
}

CUresult mdnn_virtual_begin(mdnn_virtual_operation_t *operation, uint64_t key)
{
    if (seen.refuse || operation->overflowed) {
        seen.refused++;
        free(operation->more);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    seen.begun++;
    seen.key = key;
    seen.stream = operation->stream;
    seen.per_thread = operation->per_thread;
    seen.name = operation->name;
    seen.name_count = operation->name_count;
    for (size_t i = 0; i < operation->name_count; i++)
        seen.names[i] =
            i < MDNN_VIRTUAL_NAMES ? operation->names[i] : operation->more[i - MDNN_VIRTUAL_NAMES];
    return CUDA_SUCCESS;
}

void mdnn_virtual_end(mdnn_virtual_operation_t *operation, bool enqueued)
{
    free(operation->more);
    seen.ended++;
    seen.enqueued = enqueued;
}

/* It has no memory to lend. */
void mdnn_virtual_call_is_trial(void)
{
}

bool mdnn_virtual_calls_on(void)
{
    return false;
}

bool mdnn_virtual_call_begin(mdnn_virtual_call_t *call, uint64_t workspace, uint64_t *limit_bytes)
{
    (void)call, (void)workspace, (void)limit_bytes;
    return false;
}

bool mdnn_virtual_call_lend(mdnn_virtual_call_t *call, uint64_t bytes)
{
    (void)call, (void)bytes;
    return false;
}

void mdnn_virtual_call_end(mdnn_virtual_call_t *call)
{
    (void)call;
}

void mdnn_virtual_convolution(mdnn_operation_kind_t kind, uint64_t x, uint64_t workspace,
                              uint64_t workspace_bytes)
{
    (void)workspace, (void)workspace_bytes;
    char text[64];
    snprintf(text, sizeof text, "convolution:%d:%d", (int)kind, mdnn_virtual_owns(x));
    event(text);
}

void mdnn_virtual_convolution_over(void)
{
}

/* A wait is over at once, or the second time that it is asked. */
void mdnn_virtual_progress_while_waiting(bool (*is_over)(void *context), void *context)
{
    seen.waited++;
    if (!is_over(context))
        (void)is_over(context);
}

void mdnn_virtual_capture_begins(void)
{
    event("begins");
}

void mdnn_virtual_capture_began(CUstream stream, bool per_thread, CUgraph graph, bool began)
{
    (void)stream, (void)per_thread;
    event(!began ? "not-begun" : graph ? "began-into" : "began");
}

unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread)
{
    (void)stream, (void)per_thread;
    return seen.no_capture ? 0 : 7;
}

void mdnn_virtual_capture_ended(CUstream stream, bool per_thread, unsigned long long capture,
                                CUgraph graph)
{
    (void)stream, (void)per_thread;
    event(!graph ? "failed" : capture == 7 ? "ended" : "ended-without-capture");
}

static const char *owner_word(mdnn_node_owner_t owner)
{
    return owner.graph ? "graph" : owner.executable ? "executable" : "unknown";
}

CUresult mdnn_virtual_node_operands(mdnn_node_owner_t owner, uint64_t address)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%s", mdnn_virtual_owns(address) ? "node" : "stray-node",
             owner_word(owner));
    event(text);
    return seen.refuse ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void mdnn_virtual_node_child(mdnn_node_owner_t owner, CUgraph child)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%s", child ? "child" : "no-child", owner_word(owner));
    event(text);
}

void mdnn_virtual_node_made(mdnn_node_owner_t owner, bool made)
{
    (void)owner;
    if (!made)
        event("not-made");
}

void mdnn_virtual_graph_joined(CUgraph whole, CUgraph part)
{
    event(whole && part && whole != part ? "joined" : "joined-nothing");
}

void mdnn_virtual_graph_launched(CUgraphExec executable, CUstream stream, bool per_thread)
{
    (void)executable, (void)stream, (void)per_thread;
}

void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable,
                                     unsigned long long flags)
{
    (void)flags;
    event(graph && executable ? "instantiated" : "nothing-instantiated");
}

void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone)
{
    event(graph != clone ? "cloned" : "cloned-itself");
}

void mdnn_virtual_executable_updated(CUgraph graph, CUgraphExec executable, bool whole)
{
    (void)graph, (void)executable;
    event(whole ? "updated" : "updated-in-part");
}

uint64_t mdnn_virtual_graph_ends(CUgraph graph)
{
    (void)graph;
    event("ends");
    return 3;
}

void mdnn_virtual_graph_ended(CUgraph graph, uint64_t number, bool ended)
{
    (void)graph;
    event(number != 3 ? "another" : ended ? "destroyed" : "still-there");
}

uint64_t mdnn_virtual_executable_ends(CUgraphExec executable)
{
    (void)executable;
    event("executable-ends");
    return 5;
}

void mdnn_virtual_executable_ended(CUgraphExec executable, uint64_t number, bool ended)
{
    (void)executable;
    event(number != 5 ? "another" : ended ? "executable-destroyed" : "executable-still-there");
}

unsigned long long mdnn_virtual_stream_destroyed(CUstream stream)
{
    (void)stream;
    event("stream-destroyed");
    return 9;
}

void mdnn_virtual_capture_lost(unsigned long long capture)
{
    event(capture == 9 ? "lost" : "lost-another");
}

void mdnn_virtual_device_ends(CUdevice device)
{
    (void)device;
    event("device-ends");
}

void mdnn_virtual_device_ended(CUdevice device)
{
    (void)device;
    event("device-ended");
}

void mdnn_virtual_context_ends(CUcontext context)
{
    (void)context;
    event("context-ends");
}

/* The last allocation, whatever the context. */
bool mdnn_virtual_take_bound(CUcontext context, CUdeviceptr *address)
{
    (void)context;
    event("bound");
    if (allocation_count > 0)
        *address = allocations[allocation_count - 1].start;
    return allocation_count > 0;
}

bool mdnn_virtual_info(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = 111;
    *total_bytes = 222;
    return true;
}

bool mdnn_virtual_workspace_fits(uint64_t workspace, const uint64_t *operands, size_t count)
{
    (void)workspace, (void)operands, (void)count;
    return true;
}

bool mdnn_virtual_has_tails(void)
{
    return false;
}

uint64_t mdnn_virtual_room_beside(const uint64_t *sizes, size_t count)
{
    (void)sizes, (void)count;
    return UINT64_MAX;
}

CUresult mdnn_virtual_pin(CUdeviceptr address)
{
    (void)address;
    seen.pinned++;
    return CUDA_SUCCESS;
}

CUresult mdnn_device_allocate(CUdeviceptr *address, size_t bytes)
{
    return mdnn_real_driver()->cuMemAlloc(address, bytes);
}

CUresult mdnn_device_info(size_t *free_bytes, size_t *total_bytes)
{
    return mdnn_real_driver()->cuMemGetInfo(free_bytes, total_bytes);
}

CUresult mdnn_device_free(CUdeviceptr address)
{
    return mdnn_real_driver()->cuMemFree(address);
}

/* ---- for the hooks of libraries, which the tests of this double do not call ---- */

bool mdnn_virtual_any(void)
{
    return false;
}

struct mdnn_virtual_device *mdnn_virtual_untracked_begin(CUstream stream, uint64_t *number)
{
    (void)stream, (void)number;
    return NULL;
}

void mdnn_virtual_untracked_end(struct mdnn_virtual_device *device, uint64_t number)
{
    (void)device, (void)number;
}

uint32_t mdnn_virtual_untracked_open(void)
{
    return 0;
}

uint64_t *mdnn_virtual_live(size_t *count, bool *fits)
{
    *count = 0;
    *fits = true;
    return NULL;
}

CUresult mdnn_virtual_read(uint64_t *words, const void *address, size_t count, CUstream stream)
{
    (void)words, (void)address, (void)count, (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

void mdnn_virtual_devices_meet(void)
{
}

bool mdnn_virtual_can_stay(CUdeviceptr address)
{
    (void)address;
    return true;
}

CUresult mdnn_virtual_pin_live(CUdeviceptr address, mdnn_live_pin_t *pin)
{
    seen.pinned++;
    *pin = (mdnn_live_pin_t){.address = address};
    return CUDA_SUCCESS;
}

void mdnn_virtual_unpin_live(mdnn_live_pin_t pin)
{
    (void)pin;
    seen.unpinned++;
}

void mdnn_virtual_unpin(CUdeviceptr address)
{
    (void)address;
}

/* In bytes as they are asked for. */
CUresult mdnn_virtual_set_aside(CUdevice device, uint64_t bytes, mdnn_aside_kind_t kind, bool quiet)
{
    (void)device, (void)quiet;
    (void)kind;
    if (seen.not_served)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (seen.out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    seen.aside_bytes += bytes;
    return CUDA_SUCCESS;
}

void mdnn_virtual_set_aside_all_the_same(CUdevice device, uint64_t bytes)
{
    (void)device;
    seen.aside_bytes += bytes;
}

void mdnn_virtual_give_back(CUdevice device, uint64_t bytes, mdnn_aside_kind_t kind)
{
    (void)device, (void)kind;
    seen.aside_bytes -= bytes;
}

CUresult mdnn_virtual_current_context(CUdevice *device, CUcontext *context)
{
    *device = 0;
    return mdnn_real_driver()->cuCtxGetCurrent(context);
}

/* ---- pointers ---- */

void mdnn_transfer(mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer)
{
    transfers->count++;
    seen.transfers++;
    seen.transfer = *transfer;
}

void mdnn_transfers_enqueued(const mdnn_transfers_t *transfers,
                             const mdnn_virtual_operation_t *operation)
{
    (void)operation;
    seen.transfers_enqueued += transfers->count;
}

void mdnn_pointers_host_waits(void)
{
}

void mdnn_transfers_free(mdnn_transfers_t *transfers)
{
    (void)transfers;
}

/* ---- handles: none is virtual ---- */

CUresult mdnn_virtual_reserve_addresses(uint64_t bytes, uint64_t alignment, CUdevice *device,
                                        CUdeviceptr *address)
{
    (void)bytes, (void)alignment, (void)device, (void)address;
    return CUDA_ERROR_NOT_SUPPORTED;
}

void mdnn_virtual_give_addresses(CUdeviceptr address)
{
    (void)address;
}

CUresult mdnn_virtual_promise(CUdevice device, uint64_t bytes)
{
    (void)device, (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

void mdnn_virtual_end_promise(CUdevice device, uint64_t bytes)
{
    (void)device, (void)bytes;
}

CUresult mdnn_virtual_allocate_at(CUdeviceptr address, uint64_t bytes)
{
    (void)address, (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult mdnn_virtual_end_at(CUdeviceptr address)
{
    (void)address;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult mdnn_virtual_await_addresses(CUdeviceptr address)
{
    (void)address;
    return CUDA_SUCCESS;
}

uint64_t mdnn_virtual_keep_chunk(CUdevice device)
{
    (void)device;
    return 0;
}

bool mdnn_virtual_is_held(CUdeviceptr address)
{
    (void)address;
    return false;
}

CUresult mdnn_virtual_copy_out(CUdeviceptr address, CUdeviceptr to, uint64_t bytes)
{
    (void)address, (void)to, (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

void mdnn_remake_note_launch(mdnn_virtual_operation_t *operation, mdnn_launch_t *launch,
                             const void *caller)
{
    (void)operation, (void)launch, (void)caller;
}

void mdnn_remake_code_ends(void)
{
}

void mdnn_remake_context_failed(void)
{
}

void mdnn_remake_device_ends(int ordinal)
{
    (void)ordinal;
}
