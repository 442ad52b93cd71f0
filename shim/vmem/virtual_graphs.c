#include <stdlib.h>

#include "config/fault.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_holds_internal.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"

/* ---- launches ---- */

/* What an earlier launch made must have been freed, unless the executable sees to that. */
static bool may_launch(CUgraphExec executable, const mdnn_held_t *all, size_t count)
{
    bool out = false;
    for (size_t i = 0; i < count; i++)
        out = out || (all[i].made && !all[i].ended && all[i].out);
    if (!out || MDNN_FAULT(RELAUNCHED_BEFORE_THE_FREE))
        return true;
    mdnn_virtual_lock_captures();
    const bool frees =
        mdnn_captures_frees_on_launch(mdnn_virtual_captures(), (uintptr_t)executable);
    mdnn_virtual_unlock_captures();
    return frees;
}

CUresult mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable)
{
    size_t count;
    if (!mdnn_virtual_captures())
        return CUDA_SUCCESS;
    mdnn_held_t *const all = mdnn_virtual_held(mdnn_holder_of_executable(executable), &count);
    if (!all && mdnn_virtual_holds_any(mdnn_holder_of_executable(executable))) {
        operation->overflowed = !MDNN_FAULT(GRAPHS_NAMES_LOST);
        return CUDA_SUCCESS;
    }
    const bool may = may_launch(executable, all, count);
    for (size_t i = 0; may && i < count; i++)
        mdnn_virtual_name(operation, all[i].address, MDNN_USE_UNKNOWN);
    free(all);
    return may ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Entered. Memory that each launch makes and the program is to free lives again. */
static void make_again(mdnn_virtual_device_t *device, mdnn_holder_t holder, uint64_t address)
{
    if (!MDNN_FAULT(GRAPHS_MEMORY_IS_FREED_ONCE))
        (void)mdnn_memory_revive(device->memory, address);
    mdnn_virtual_lock_captures();
    mdnn_held_t *const known =
        mdnn_captures_find(mdnn_virtual_captures(), holder.kind, holder.id, address);
    if (known)
        known->out = true;
    mdnn_virtual_unlock_captures();
}

/* Entered. Memory of another graph that each launch frees; it may have been freed before. */
static void end_others(mdnn_virtual_device_t *device, uint64_t address, uint64_t stream)
{
    mdnn_virtual_holds_freed(device, address);
    (void)mdnn_memory_free(device->memory, address, stream);
}

static void settle_launch(mdnn_holder_t holder, const mdnn_held_t *what, uint64_t stream)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(what->address);
    if (what->made == what->ended || !device)
        return;
    if (!what->made)
        mdnn_pointers_freed(what->address);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory && what->made)
        make_again(device, holder, what->address);
    else if (device->memory && !MDNN_FAULT(NOTHING_IS_FREED_BY_LAUNCHES))
        end_others(device, what->address, stream);
    mdnn_virtual_leave(device, entry);
    mdnn_pointers_changed();
}

void mdnn_virtual_graph_launched(CUgraphExec executable, CUstream stream, bool per_thread)
{
    size_t count;
    uint64_t number;
    const mdnn_holder_t holder = mdnn_holder_of_executable(executable);
    if (!mdnn_virtual_captures() || mdnn_virtual_capture(stream, per_thread) != 0)
        return;
    mdnn_held_t *const all = mdnn_virtual_held(holder, &count);
    if (count > 0 && mdnn_virtual_stream(stream, per_thread, &number) == MDNN_STATUS_OK)
        for (size_t i = 0; i < count; i++)
            settle_launch(holder, &all[i], number);
    free(all);
}

/* ---- nodes ---- */

/* What a call has taken for a node so far. */
struct mdnn_node_hold {
    struct mdnn_node_hold *next;
    uint64_t start;      /* held by the owner; 0: by the pin */
    mdnn_live_pin_t pin; /* there is no owner */
};

static bool has_owner(mdnn_node_owner_t owner)
{
    return owner.graph || owner.executable;
}

static mdnn_holder_t owner_holder(mdnn_node_owner_t owner)
{
    return owner.graph ? mdnn_holder_of_graph(owner.graph)
                       : mdnn_holder_of_executable(owner.executable);
}

static void undo(mdnn_node_owner_t owner, const struct mdnn_node_hold *taken)
{
    if (taken->start == 0) {
        mdnn_virtual_unpin_live(taken->pin);
        return;
    }
    const mdnn_holder_t holder = owner_holder(owner);
    mdnn_virtual_lock_captures();
    const bool had =
        mdnn_captures_unhold(mdnn_virtual_captures(), holder.kind, holder.id, taken->start);
    mdnn_virtual_unlock_captures();
    if (had)
        mdnn_virtual_unpin(taken->start);
}

/* Without memory for it there is no node. */
static CUresult remember(mdnn_node_owner_t owner, struct mdnn_node_hold taken)
{
    struct mdnn_node_hold *const made = malloc(sizeof *made);
    if (!made) {
        undo(owner, &taken);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = taken;
    made->next = owner.holds->taken;
    owner.holds->taken = made;
    return CUDA_SUCCESS;
}

CUresult mdnn_virtual_node_operands(mdnn_node_owner_t owner, uint64_t address)
{
    struct mdnn_node_hold taken = {0};
    mdnn_held_t what = {.address = address, .by_hand = true};
    if (!mdnn_virtual_captures())
        return CUDA_SUCCESS;
    const CUresult result = has_owner(owner) ? mdnn_virtual_hold(owner_holder(owner), &what)
                                             : mdnn_virtual_pin_live(address, &taken.pin);
    if (!has_owner(owner) && result == CUDA_ERROR_INVALID_VALUE)
        return CUDA_SUCCESS; /* nothing lives there */
    taken.start = has_owner(owner) ? what.address : 0;
    if (result != CUDA_SUCCESS || (has_owner(owner) && taken.start == 0))
        return result;
    return remember(owner, taken);
}

void mdnn_virtual_node_child(mdnn_node_owner_t owner, CUgraph child)
{
    owner.holds->child = child;
}

static void take_child(mdnn_node_owner_t owner, CUgraph child)
{
    const mdnn_holder_t from = mdnn_holder_of_graph(child);
    if (has_owner(owner)) {
        mdnn_virtual_copy_holds(from, owner_holder(owner));
        return;
    }
    mdnn_virtual_lock_captures();
    mdnn_captures_keep(mdnn_virtual_captures(), from.kind, from.id);
    mdnn_virtual_unlock_captures();
}

void mdnn_virtual_node_made(mdnn_node_owner_t owner, bool made)
{
    for (struct mdnn_node_hold *each = owner.holds->taken, *next; each; each = next) {
        next = each->next;
        if (!made && !MDNN_FAULT(REFUSED_NODE_HOLDS))
            undo(owner, each);
        free(each);
    }
    if (made && owner.holds->child && mdnn_virtual_captures())
        take_child(owner, owner.holds->child);
    *owner.holds = (mdnn_node_holds_t){0};
}

/* ---- graphs and executables ---- */

void mdnn_virtual_graph_joined(CUgraph whole, CUgraph part)
{
    if (!mdnn_virtual_captures())
        return;
    const mdnn_holder_t from = mdnn_holder_of_graph(part);
    mdnn_virtual_copy_holds(from, mdnn_holder_of_graph(whole));
    mdnn_virtual_lock_captures();
    const bool joined = mdnn_captures_join(mdnn_virtual_captures(), whole, part);
    mdnn_virtual_unlock_captures();
    if (joined)
        mdnn_virtual_release_holds(from);
}

void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable,
                                     unsigned long long flags)
{
    if (!mdnn_virtual_captures())
        return;
    mdnn_virtual_pass_holds_on(mdnn_holder_of_graph(graph), mdnn_holder_of_executable(executable));
    mdnn_virtual_lock_captures();
    mdnn_captures_set_frees_on_launch(mdnn_virtual_captures(), (uintptr_t)executable,
                                      flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    mdnn_virtual_unlock_captures();
}

void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone)
{
    if (mdnn_virtual_captures())
        mdnn_virtual_pass_holds_on(mdnn_holder_of_graph(graph), mdnn_holder_of_graph(clone));
}

void mdnn_virtual_executable_updated(CUgraph graph, CUgraphExec executable, bool whole)
{
    size_t count;
    if (!mdnn_virtual_captures())
        return;
    const mdnn_holder_t from = mdnn_holder_of_graph(graph),
                        to = mdnn_holder_of_executable(executable);
    if (!whole) {
        mdnn_virtual_pass_holds_on(from, to);
        return;
    }
    mdnn_virtual_lock_captures();
    const bool frees = mdnn_captures_frees_on_launch(mdnn_virtual_captures(), to.id);
    mdnn_held_t *const before =
        mdnn_captures_release(mdnn_virtual_captures(), to.kind, to.id, &count);
    (void)mdnn_captures_share(mdnn_virtual_captures(), from.kind, from.id, to.kind, to.id);
    mdnn_captures_set_frees_on_launch(mdnn_virtual_captures(), to.id, frees);
    mdnn_virtual_unlock_captures();
    mdnn_virtual_unpin_held(before, count);
}

/* ---- ends ---- */

/* No handle is odd. 0: nothing is held. */
static uint64_t set_aside(mdnn_holder_t holder)
{
    static uint64_t last = 1;
    if (!mdnn_virtual_captures())
        return 0;
    mdnn_virtual_lock_captures();
    const uint64_t number = last += 2;
    mdnn_captures_rename(mdnn_virtual_captures(), holder.kind, holder.id, number);
    mdnn_virtual_unlock_captures();
    return number;
}

static void end(mdnn_holder_t holder, uint64_t number, bool ended)
{
    if (number == 0)
        return;
    mdnn_virtual_lock_captures();
    if (!ended)
        mdnn_captures_rename(mdnn_virtual_captures(), holder.kind, number, holder.id);
    else if (holder.kind == MDNN_HOLDER_GRAPH)
        mdnn_captures_part(mdnn_virtual_captures(), (CUgraph)(uintptr_t)number);
    mdnn_virtual_unlock_captures();
    if (ended)
        mdnn_virtual_release_holds((mdnn_holder_t){holder.kind, number});
}

uint64_t mdnn_virtual_graph_ends(CUgraph graph)
{
    return set_aside((mdnn_holder_t){MDNN_HOLDER_GRAPH, (uintptr_t)graph});
}

uint64_t mdnn_virtual_executable_ends(CUgraphExec executable)
{
    return set_aside(mdnn_holder_of_executable(executable));
}

void mdnn_virtual_graph_ended(CUgraph graph, uint64_t number, bool ended)
{
    end((mdnn_holder_t){MDNN_HOLDER_GRAPH, (uintptr_t)graph}, number, ended);
}

void mdnn_virtual_executable_ended(CUgraphExec executable, uint64_t number, bool ended)
{
    end(mdnn_holder_of_executable(executable), number, ended);
}
