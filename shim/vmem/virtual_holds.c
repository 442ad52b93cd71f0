#include "shim/vmem/virtual_holds_internal.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/lock.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_pins.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_untracked.h"

static mdnn_lock_t lock = MDNN_LOCK_INIT(CAPTURES); /* of mdnn_virtual_captures() */

void mdnn_virtual_lock_captures(void)
{
    mdnn_lock(&lock);
}

void mdnn_virtual_unlock_captures(void)
{
    mdnn_unlock(&lock);
}

/* ---- holders ---- */

mdnn_holder_t mdnn_holder_of_capture(unsigned long long capture)
{
    return (mdnn_holder_t){MDNN_HOLDER_CAPTURE, capture};
}

mdnn_holder_t mdnn_holder_of_executable(CUgraphExec executable)
{
    return (mdnn_holder_t){MDNN_HOLDER_EXECUTABLE, (uintptr_t)executable};
}

/* What a part has is its whole's; and what a capture makes is the capture's, which may yet fail. */
mdnn_holder_t mdnn_holder_of_graph(CUgraph graph)
{
    mdnn_capture_t capture;
    mdnn_virtual_lock_captures();
    CUgraph const whole = mdnn_captures_whole(mdnn_virtual_captures(), graph);
    const bool made = mdnn_captures_making(mdnn_virtual_captures(), whole, &capture);
    mdnn_virtual_unlock_captures();
    return made && !capture.given ? mdnn_holder_of_capture(capture.id)
                                  : (mdnn_holder_t){MDNN_HOLDER_GRAPH, (uintptr_t)whole};
}

/* ---- holding ---- */

/* Entered. It was pinned for this; once is enough. Without memory for the note it stays so. true:
 * it is held anew. */
static bool note(mdnn_virtual_device_t *device, mdnn_holder_t holder, mdnn_held_t what)
{
    mdnn_virtual_lock_captures();
    const mdnn_status_t status =
        mdnn_captures_hold(mdnn_virtual_captures(), holder.kind, holder.id, what);
    mdnn_virtual_unlock_captures();
    if (status == MDNN_STATUS_BUSY)
        mdnn_memory_unpin(device->memory, what.address);
    return status == MDNN_STATUS_OK;
}

void mdnn_virtual_hold_pinned(mdnn_virtual_device_t *device, unsigned long long capture,
                              uint64_t start)
{
    (void)note(device, mdnn_holder_of_capture(capture), (mdnn_held_t){.address = start});
}

void mdnn_virtual_capture_allocates(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address)
{
    mdnn_held_t what = {.made = true};
    if (mdnn_virtual_pin_entered(device, address, &what.address) == MDNN_STATUS_OK)
        (void)note(device, mdnn_holder_of_capture(capture), what);
}

CUresult mdnn_virtual_hold(mdnn_holder_t holder, mdnn_held_t *what)
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

void mdnn_virtual_copy_holds(mdnn_holder_t from, mdnn_holder_t to)
{
    size_t count;
    mdnn_held_t *const all = mdnn_virtual_held(from, &count);
    for (size_t i = 0; i < count; i++)
        (void)mdnn_virtual_hold(to, &all[i]); /* cannot fail: it is pinned */
    free(all);
}

void mdnn_virtual_pass_holds_on(mdnn_holder_t from, mdnn_holder_t to)
{
    mdnn_virtual_lock_captures();
    const mdnn_status_t status =
        mdnn_captures_share(mdnn_virtual_captures(), from.kind, from.id, to.kind, to.id);
    mdnn_virtual_unlock_captures();
    if (status == MDNN_STATUS_BUSY)
        mdnn_virtual_copy_holds(from, to);
}

mdnn_held_t *mdnn_virtual_held(mdnn_holder_t holder, size_t *count)
{
    mdnn_held_t *mine = NULL;
    mdnn_virtual_lock_captures();
    const mdnn_held_t *const all =
        mdnn_captures_held(mdnn_virtual_captures(), holder.kind, holder.id, count);
    if (*count > 0 && (mine = malloc(*count * sizeof *mine)))
        memcpy(mine, all, *count * sizeof *mine);
    else if (*count > 0)
        mdnn_captures_keep(mdnn_virtual_captures(), holder.kind, holder.id);
    mdnn_virtual_unlock_captures();
    if (!mine)
        *count = 0;
    return mine;
}

bool mdnn_virtual_holds_any(mdnn_holder_t holder)
{
    size_t count;
    mdnn_virtual_lock_captures();
    (void)mdnn_captures_held(mdnn_virtual_captures(), holder.kind, holder.id, &count);
    mdnn_virtual_unlock_captures();
    return count > 0;
}

/* ---- letting go ---- */

void mdnn_virtual_unpin_held(mdnn_held_t *held, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mdnn_virtual_unpin(held[i].address);
    free(held);
}

void mdnn_virtual_release_holds(mdnn_holder_t holder)
{
    size_t count;
    mdnn_virtual_lock_captures();
    mdnn_held_t *const mine =
        mdnn_captures_release(mdnn_virtual_captures(), holder.kind, holder.id, &count);
    mdnn_virtual_unlock_captures();
    mdnn_virtual_unpin_held(mine, count);
}

/* What the capture has there is freed by it now. *made: it is its own. NOT_FOUND: no graph makes what is
 * there; BUSY: it was freed by it before; INVALID_ARGUMENT: another graph makes it. */
static mdnn_status_t end_captured(mdnn_holder_t holder, uint64_t address, bool *made)
{
    mdnn_virtual_lock_captures();
    mdnn_held_t *const known =
        mdnn_captures_find(mdnn_virtual_captures(), holder.kind, holder.id, address);
    const bool foreign = !mdnn_captures_is_made(mdnn_virtual_captures(), address) &&
                         !MDNN_FAULT(CAPTURES_FREE_ANYTHING);
    const mdnn_status_t status = foreign                 ? MDNN_STATUS_NOT_FOUND
                                 : known && known->ended ? MDNN_STATUS_BUSY
                                 : known                 ? MDNN_STATUS_OK
                                                         : MDNN_STATUS_INVALID_ARGUMENT;
    *made = known && known->made;
    if (status == MDNN_STATUS_OK)
        known->ended = true;
    mdnn_virtual_unlock_captures();
    return status;
}

CUresult mdnn_virtual_capture_frees(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address, bool *now)
{
    const mdnn_holder_t holder = mdnn_holder_of_capture(capture);
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

void mdnn_virtual_holds_freed(mdnn_virtual_device_t *device, uint64_t address)
{
    if (!mdnn_memory_is_held(device->memory, address))
        return;
    mdnn_virtual_lock_captures();
    size_t count = mdnn_captures_freed(mdnn_virtual_captures(), address);
    mdnn_virtual_unlock_captures();
    for (; count > 0; count--)
        mdnn_memory_unpin(device->memory, address);
}

void mdnn_virtual_forget_holds(uint64_t start, uint64_t bytes)
{
    mdnn_virtual_lock_captures();
    mdnn_captures_forget(mdnn_virtual_captures(), start, bytes);
    mdnn_virtual_unlock_captures();
}
