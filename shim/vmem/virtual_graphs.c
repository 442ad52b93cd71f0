#include <stdlib.h>
#include <string.h>

#include "config/lock.h"
#include "shim/vmem/capture_queries.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_holds.h"
#include "shim/vmem/virtual_pins.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"

static mdnn_lock_t lock = MDNN_LOCK_INIT(CAPTURES); /* of mdnn_virtual_captures() */

static CUstream handle_of(CUstream stream, bool per_thread)
{
    return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* ---- holding and letting go ---- */

typedef struct holder {
    mdnn_holder_kind_t kind;
    uint64_t id;
} holder_t;

static holder_t capture_holder(unsigned long long capture)
{
    return (holder_t){MDNN_HOLDER_CAPTURE, capture};
}

static holder_t executable_holder(CUgraphExec executable)
{
    return (holder_t){MDNN_HOLDER_EXECUTABLE, (uintptr_t)executable};
}

/* What a part has is its whole's; and what a capture makes is the capture's, which may yet fail. */
static holder_t graph_holder(CUgraph graph)
{
    mdnn_capture_t capture;
    mdnn_lock(&lock);
    CUgraph const whole = mdnn_captures_whole(mdnn_virtual_captures(), graph);
    const bool made = mdnn_captures_making(mdnn_virtual_captures(), whole, &capture);
    mdnn_unlock(&lock);
    return made && !capture.given ? capture_holder(capture.id)
                                  : (holder_t){MDNN_HOLDER_GRAPH, (uintptr_t)whole};
}

/* Entered. It was pinned for this; once is enough. Without memory for the note it stays so. true:
 * it is held anew. */
static bool note(mdnn_virtual_device_t *device, holder_t holder, mdnn_held_t what)
{
    mdnn_lock(&lock);
    const mdnn_status_t status =
        mdnn_captures_hold(mdnn_virtual_captures(), holder.kind, holder.id, what);
    mdnn_unlock(&lock);
    if (status == MDNN_STATUS_BUSY)
        mdnn_memory_unpin(device->memory, what.address);
    return status == MDNN_STATUS_OK;
}

void mdnn_virtual_hold_pinned(mdnn_virtual_device_t *device, unsigned long long capture,
                              uint64_t start)
{
    (void)note(device, capture_holder(capture), (mdnn_held_t){.address = start});
}

void mdnn_virtual_capture_allocates(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address)
{
    mdnn_held_t what = {.made = true};
    if (mdnn_virtual_pin_entered(device, address, &what.address) == MDNN_STATUS_OK)
        (void)note(device, capture_holder(capture), what);
}

/* What the capture has there is freed by it now. *made: it is its own. NOT_FOUND: no graph makes what is
 * there; BUSY: it was freed by it before; INVALID_ARGUMENT: another graph makes it. */
static mdnn_status_t end_captured(holder_t holder, uint64_t address, bool *made)
{
    mdnn_lock(&lock);
    mdnn_held_t *const known =
        mdnn_captures_find(mdnn_virtual_captures(), holder.kind, holder.id, address);
    const mdnn_status_t status = !mdnn_captures_is_made(mdnn_virtual_captures(), address)
                                     ? MDNN_STATUS_NOT_FOUND
                                 : known && known->ended ? MDNN_STATUS_BUSY
                                 : known                 ? MDNN_STATUS_OK
                                                         : MDNN_STATUS_INVALID_ARGUMENT;
    *made = known && known->made;
    if (status == MDNN_STATUS_OK)
        known->ended = true;
    mdnn_unlock(&lock);
    return status;
}

CUresult mdnn_virtual_capture_frees(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address, bool *now)
{
    const holder_t holder = capture_holder(capture);
    mdnn_held_t what = {.ended = true};
    bool made;
    mdnn_status_t status = end_captured(holder, address, &made);
    *now = status == MDNN_STATUS_OK && made;
    if (status == MDNN_STATUS_OK)
        return CUDA_SUCCESS;
    if (status != MDNN_STATUS_INVALID_ARGUMENT)
        return CUDA_ERROR_INVALID_VALUE;
    status = mdnn_virtual_pin_entered(device, address, &what.address);
    if (status == MDNN_STATUS_OK)
        (void)note(device, holder, what);
    return mdnn_virtual_result(device, status, 0);
}

/* The allocation around what->address, be it freed and held by others only. what->address becomes
 * where it starts if it is held anew, else 0. */
static CUresult hold(holder_t holder, mdnn_held_t *what)
{
    const uint64_t address = what->address;
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    what->address = 0;
    if (!device)
        return CUDA_SUCCESS;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    mdnn_held_t found = {.by_hand = what->by_hand};
    const mdnn_status_t status = mdnn_virtual_pin_entered(device, address, &found.address);
    if (status == MDNN_STATUS_OK && note(device, holder, found))
        *what = found;
    const CUresult result = status == MDNN_STATUS_NOT_FOUND
                                ? CUDA_SUCCESS /* nothing is there */
                                : mdnn_virtual_result(device, status, 0);
    mdnn_virtual_leave(device, entry);
    return result;
}

/* Takes `held`. */
static void unpin(mdnn_held_t *held, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mdnn_virtual_unpin(held[i].address);
    free(held);
}

void mdnn_virtual_holds_freed(mdnn_virtual_device_t *device, uint64_t address)
{
    if (!mdnn_memory_is_held(device->memory, address))
        return;
    mdnn_lock(&lock);
    size_t count = mdnn_captures_freed(mdnn_virtual_captures(), address);
    mdnn_unlock(&lock);
    for (; count > 0; count--)
        mdnn_memory_unpin(device->memory, address);
}

void mdnn_virtual_forget_holds(uint64_t start, uint64_t bytes)
{
    mdnn_lock(&lock);
    mdnn_captures_forget(mdnn_virtual_captures(), start, bytes);
    mdnn_unlock(&lock);
}

static void release(holder_t holder)
{
    size_t count;
    mdnn_lock(&lock);
    mdnn_held_t *const mine =
        mdnn_captures_release(mdnn_virtual_captures(), holder.kind, holder.id, &count);
    mdnn_unlock(&lock);
    unpin(mine, count);
}

/* A copy of what the holder has, the caller's to free; NULL for nothing, and without memory: then
 * the holder never lets go. */
static mdnn_held_t *held(holder_t holder, size_t *count)
{
    mdnn_held_t *mine = NULL;
    mdnn_lock(&lock);
    const mdnn_held_t *const all =
        mdnn_captures_held(mdnn_virtual_captures(), holder.kind, holder.id, count);
    if (*count > 0 && (mine = malloc(*count * sizeof *mine)))
        memcpy(mine, all, *count * sizeof *mine);
    else if (*count > 0)
        mdnn_captures_keep(mdnn_virtual_captures(), holder.kind, holder.id);
    mdnn_unlock(&lock);
    if (!mine)
        *count = 0;
    return mine;
}

/* `to` holds what `from` does now, and what it held before. */
static void copy_holds(holder_t from, holder_t to)
{
    size_t count;
    mdnn_held_t *const all = held(from, &count);
    for (size_t i = 0; i < count; i++)
        (void)hold(to, &all[i]); /* cannot fail: it is pinned */
    free(all);
}

/* The same, where what `from` gets later may be `to`'s, too. */
static void pass_on(holder_t from, holder_t to)
{
    mdnn_lock(&lock);
    const mdnn_status_t status =
        mdnn_captures_share(mdnn_virtual_captures(), from.kind, from.id, to.kind, to.id);
    mdnn_unlock(&lock);
    if (status == MDNN_STATUS_BUSY)
        copy_holds(from, to);
}

static bool holds_any(holder_t holder)
{
    size_t count;
    mdnn_lock(&lock);
    (void)mdnn_captures_held(mdnn_virtual_captures(), holder.kind, holder.id, &count);
    mdnn_unlock(&lock);
    return count > 0;
}

/* What an earlier launch made must have been freed, unless the executable sees to that. */
static bool may_launch(CUgraphExec executable, const mdnn_held_t *all, size_t count)
{
    bool out = false;
    for (size_t i = 0; i < count; i++)
        out = out || (all[i].made && !all[i].ended && all[i].out);
    if (!out)
        return true;
    mdnn_lock(&lock);
    const bool frees =
        mdnn_captures_frees_on_launch(mdnn_virtual_captures(), (uintptr_t)executable);
    mdnn_unlock(&lock);
    return frees;
}

CUresult mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable)
{
    size_t count;
    if (!mdnn_virtual_captures())
        return CUDA_SUCCESS;
    mdnn_held_t *const all = held(executable_holder(executable), &count);
    if (!all && holds_any(executable_holder(executable))) {
        operation->overflowed = true;
        return CUDA_SUCCESS;
    }
    const bool may = may_launch(executable, all, count);
    for (size_t i = 0; may && i < count; i++)
        mdnn_virtual_name(operation, all[i].address, MDNN_USE_UNKNOWN);
    free(all);
    return may ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Entered. Memory that each launch makes and the program is to free lives again. */
static void make_again(mdnn_virtual_device_t *device, holder_t holder, uint64_t address)
{
    (void)mdnn_memory_revive(device->memory, address);
    mdnn_lock(&lock);
    mdnn_held_t *const known =
        mdnn_captures_find(mdnn_virtual_captures(), holder.kind, holder.id, address);
    if (known)
        known->out = true;
    mdnn_unlock(&lock);
}

/* Entered. Memory of another graph that each launch frees; it may have been freed before. */
static void end_others(mdnn_virtual_device_t *device, uint64_t address, uint64_t stream)
{
    mdnn_virtual_holds_freed(device, address);
    (void)mdnn_memory_free(device->memory, address, stream);
}

static void settle_launch(holder_t holder, const mdnn_held_t *what, uint64_t stream)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(what->address);
    if (what->made == what->ended || !device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory && what->made)
        make_again(device, holder, what->address);
    else if (device->memory)
        end_others(device, what->address, stream);
    mdnn_virtual_leave(device, entry);
}

void mdnn_virtual_graph_launched(CUgraphExec executable, CUstream stream, bool per_thread)
{
    size_t count;
    uint64_t number;
    const holder_t holder = executable_holder(executable);
    if (!mdnn_virtual_captures() || mdnn_virtual_capture(stream, per_thread) != 0)
        return;
    mdnn_held_t *const all = held(holder, &count);
    if (count > 0 && mdnn_virtual_stream(stream, per_thread, &number) == MDNN_STATUS_OK)
        for (size_t i = 0; i < count; i++)
            settle_launch(holder, &all[i], number);
    free(all);
}

/* ---- captures ---- */

void mdnn_virtual_capture_begins(void)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    if (!timelines)
        return;
    mdnn_capture_begin_own();
    mdnn_timelines_capture_began(timelines); /* others may join it: all streams are prepared */
    mdnn_capture_end_own();
}

/* The capture under way that began in the stream (a handle_of). */
static bool find_capture(CUstream stream, mdnn_capture_t *capture)
{
    mdnn_lock(&lock);
    const bool found = mdnn_captures_in(mdnn_virtual_captures(), stream, pthread_self(), capture);
    mdnn_unlock(&lock);
    return found;
}

unsigned long long mdnn_virtual_capture_in(CUstream stream)
{
    mdnn_capture_t capture;
    return mdnn_virtual_captures() && find_capture(stream, &capture) ? capture.id : 0;
}

/* It is not under way any more. */
static void let_go(unsigned long long id)
{
    mdnn_timelines_capture_ended(mdnn_virtual_timelines());
    release(capture_holder(id));
}

void mdnn_virtual_capture_lost(unsigned long long id)
{
    if (id == 0)
        return;
    mdnn_lock(&lock);
    const bool known = mdnn_captures_end(mdnn_virtual_captures(), id);
    mdnn_unlock(&lock);
    if (known)
        let_go(id);
}

void mdnn_virtual_capture_began(CUstream stream, bool per_thread, CUgraph graph, bool began)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    mdnn_capture_t capture = {.stream = handle_of(stream, per_thread),
                              .of_thread = handle_of(stream, per_thread) == CU_STREAM_PER_THREAD,
                              .thread = pthread_self(),
                              .given = graph != NULL};
    if (timelines && !began)
        mdnn_timelines_capture_ended(timelines);
    if (!timelines || !began)
        return;
    mdnn_virtual_capture_lost(
        mdnn_virtual_capture_in(capture.stream)); /* untracked, a handle ago */
    if (!mdnn_capture_asked(capture.stream, &capture.id, &capture.graph))
        return;
    if (capture.given)
        capture.graph = graph;
    mdnn_lock(&lock);
    (void)mdnn_captures_begin(mdnn_virtual_captures(), &capture);
    mdnn_unlock(&lock);
}

unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    unsigned long long id = 0;
    return timelines && mdnn_timelines_is_capturing(timelines) &&
                   mdnn_capture_of(handle_of(stream, per_thread), &id)
               ? id
               : 0;
}

/* An invalidated capture has no id any more, so what is remembered counts. */
void mdnn_virtual_capture_ended(CUstream stream, bool per_thread, unsigned long long id,
                                CUgraph graph)
{
    CUstream const handle = handle_of(stream, per_thread);
    mdnn_capture_t capture = {.id = id};
    if (!mdnn_virtual_timelines())
        return;
    const bool known = find_capture(handle, &capture) || id != 0;
    if (!graph && (!known || mdnn_capture_goes_on(handle)))
        return;
    mdnn_lock(&lock);
    (void)mdnn_captures_end(mdnn_virtual_captures(), capture.id);
    if (!graph && !capture.given && capture.graph)
        mdnn_captures_part(mdnn_virtual_captures(), capture.graph);
    mdnn_unlock(&lock);
    if (!graph && capture.given)
        graph = capture.graph; /* with the nodes up to there */
    if (graph)
        pass_on(capture_holder(capture.id), graph_holder(graph));
    let_go(capture.id);
}

/* ---- graphs and executables ---- */

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

static holder_t owner_holder(mdnn_node_owner_t owner)
{
    return owner.graph ? graph_holder(owner.graph) : executable_holder(owner.executable);
}

static void undo(mdnn_node_owner_t owner, const struct mdnn_node_hold *taken)
{
    if (taken->start == 0) {
        mdnn_virtual_unpin_live(taken->pin);
        return;
    }
    const holder_t holder = owner_holder(owner);
    mdnn_lock(&lock);
    const bool had =
        mdnn_captures_unhold(mdnn_virtual_captures(), holder.kind, holder.id, taken->start);
    mdnn_unlock(&lock);
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
    const CUresult result = has_owner(owner) ? hold(owner_holder(owner), &what)
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
    const holder_t from = graph_holder(child);
    if (has_owner(owner)) {
        copy_holds(from, owner_holder(owner));
        return;
    }
    mdnn_lock(&lock);
    mdnn_captures_keep(mdnn_virtual_captures(), from.kind, from.id);
    mdnn_unlock(&lock);
}

void mdnn_virtual_node_made(mdnn_node_owner_t owner, bool made)
{
    for (struct mdnn_node_hold *each = owner.holds->taken, *next; each; each = next) {
        next = each->next;
        if (!made)
            undo(owner, each);
        free(each);
    }
    if (made && owner.holds->child && mdnn_virtual_captures())
        take_child(owner, owner.holds->child);
    *owner.holds = (mdnn_node_holds_t){0};
}

void mdnn_virtual_graph_joined(CUgraph whole, CUgraph part)
{
    if (!mdnn_virtual_captures())
        return;
    const holder_t from = graph_holder(part);
    copy_holds(from, graph_holder(whole));
    mdnn_lock(&lock);
    const bool joined = mdnn_captures_join(mdnn_virtual_captures(), whole, part);
    mdnn_unlock(&lock);
    if (joined)
        release(from);
}

void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable,
                                     unsigned long long flags)
{
    if (!mdnn_virtual_captures())
        return;
    pass_on(graph_holder(graph), executable_holder(executable));
    mdnn_lock(&lock);
    mdnn_captures_set_frees_on_launch(mdnn_virtual_captures(), (uintptr_t)executable,
                                      flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    mdnn_unlock(&lock);
}

void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone)
{
    if (mdnn_virtual_captures())
        pass_on(graph_holder(graph), graph_holder(clone));
}

void mdnn_virtual_executable_updated(CUgraph graph, CUgraphExec executable, bool whole)
{
    size_t count;
    if (!mdnn_virtual_captures())
        return;
    const holder_t from = graph_holder(graph), to = executable_holder(executable);
    if (!whole) {
        pass_on(from, to);
        return;
    }
    mdnn_lock(&lock);
    const bool frees = mdnn_captures_frees_on_launch(mdnn_virtual_captures(), to.id);
    mdnn_held_t *const before =
        mdnn_captures_release(mdnn_virtual_captures(), to.kind, to.id, &count);
    (void)mdnn_captures_share(mdnn_virtual_captures(), from.kind, from.id, to.kind, to.id);
    mdnn_captures_set_frees_on_launch(mdnn_virtual_captures(), to.id, frees);
    mdnn_unlock(&lock);
    unpin(before, count);
}

/* ---- ends ---- */

/* No handle is odd. 0: nothing is held. */
static uint64_t set_aside(holder_t holder)
{
    static uint64_t last = 1;
    if (!mdnn_virtual_captures())
        return 0;
    mdnn_lock(&lock);
    const uint64_t number = last += 2;
    mdnn_captures_rename(mdnn_virtual_captures(), holder.kind, holder.id, number);
    mdnn_unlock(&lock);
    return number;
}

static void end(holder_t holder, uint64_t number, bool ended)
{
    if (number == 0)
        return;
    mdnn_lock(&lock);
    if (!ended)
        mdnn_captures_rename(mdnn_virtual_captures(), holder.kind, number, holder.id);
    else if (holder.kind == MDNN_HOLDER_GRAPH)
        mdnn_captures_part(mdnn_virtual_captures(), (CUgraph)(uintptr_t)number);
    mdnn_unlock(&lock);
    if (ended)
        release((holder_t){holder.kind, number});
}

uint64_t mdnn_virtual_graph_ends(CUgraph graph)
{
    return set_aside((holder_t){MDNN_HOLDER_GRAPH, (uintptr_t)graph});
}

uint64_t mdnn_virtual_executable_ends(CUgraphExec executable)
{
    return set_aside(executable_holder(executable));
}

void mdnn_virtual_graph_ended(CUgraph graph, uint64_t number, bool ended)
{
    end((holder_t){MDNN_HOLDER_GRAPH, (uintptr_t)graph}, number, ended);
}

void mdnn_virtual_executable_ended(CUgraphExec executable, uint64_t number, bool ended)
{
    end(executable_holder(executable), number, ended);
}
