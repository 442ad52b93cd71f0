#include "shim/convolution/lease.h"

#include <string.h>

#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/arena_captures.h"
#include "shim/convolution/arena_streams.h"
#include "shim/convolution/wd_settings.h"
#include "shim/vmem/capture_queries.h"

static mdnn_network_call_t network_call(const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                                        const mdnn_demand_t *demand)
{
    return (mdnn_network_call_t){
        .problem = plan,
        .x = (uintptr_t)call->x,
        .w = (uintptr_t)call->w,
        .y = (uintptr_t)call->y,
        .demand = (uint32_t)demand->deterministic | (uint32_t)demand->direct << 1 |
                  (uint32_t)demand->strict << 2,
        .writes_weights = call->direction == MDNN_BACKWARD_FILTER,
    };
}

/* Whether so much workspace lets run what the caller's does not. */
static bool pays(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand, uint64_t bytes)
{
    mdnn_demand_t with = *demand;
    with.workspace_bytes = bytes;
    const mdnn_ready_t *const ready =
        bytes > demand->workspace_bytes ? mdnn_conv_plan_best(plan, &with) : NULL;
    return ready && ready->configuration->workspace_bytes > demand->workspace_bytes;
}

/* Puts the stream behind the last use of a slot; by waiting here if it cannot wait there. */
static bool follow_slot(const mdnn_arena_slot_t *slot, CUstream stream)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!slot->used || MDNN_FAULT(ARENA_WITHOUT_WAIT) ||
        driver->cuStreamWaitEvent(stream, slot->event, 0) == CUDA_SUCCESS)
        return true;
    mdnn_count(MDNN_COUNTER_arena_waits, 1);
    return driver->cuEventSynchronize(slot->event) == CUDA_SUCCESS;
}

/* Puts the stream behind everything that used the slot's region, or behind all that used any. */
static bool wait_for_turn(mdnn_arena_t *arena, mdnn_arena_slot_t *slot, uint32_t others,
                          CUstream stream)
{
    if (!follow_slot(slot, stream))
        return false;
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        if (others >> i & 1 && !MDNN_FAULT(ARENA_OTHERS_IGNORED) &&
            !follow_slot(&arena->slots[i], stream))
            return false;
    slot->waits = 0;
    return true;
}

/* Marks the end of a use on its stream. */
static void mark_end(mdnn_arena_t *arena, mdnn_arena_slot_t *slot, CUstream stream)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (slot->event && (MDNN_FAULT(ARENA_USE_NOT_MARKED) ||
                        driver->cuEventRecord(slot->event, stream) == CUDA_SUCCESS)) {
        slot->used = true;
        return;
    }
    mdnn_count(MDNN_COUNTER_arena_waits, 1);
    if (driver->cuStreamSynchronize(stream) == CUDA_SUCCESS)
        return;
    atomic_store(&arena->lost, true);
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "arena",
                  "the device cannot order work: convolutions run without workspace from now on");
}

static void lend(mdnn_lease_t *lease, mdnn_arena_t *arena, const mdnn_wd_segment_t *segment,
                 mdnn_call_t *call, mdnn_demand_t *demand)
{
    lease->arena = arena;
    call->workspace = (void *)(uintptr_t)(arena->base + segment->offset);
    call->workspace_bytes = segment->bytes;
    call->pack_fits = false; /* the caller's variant pack has another workspace */
    demand->workspace_bytes = segment->bytes;
    mdnn_count(MDNN_COUNTER_arena_uses, 1);
}

static void begin_captured(mdnn_lease_t *lease, mdnn_arena_t *arena, mdnn_call_t *call,
                           const mdnn_conv_plan_t *plan, mdnn_demand_t *demand)
{
    const uint64_t least = mdnn_conv_plan_least_bytes(plan, demand);
    const uint64_t needed = least <= demand->workspace_bytes ? 0 : least;
    unsigned long long id;
    if (!mdnn_capture_of(lease->stream, &id)) {
        mdnn_count(MDNN_COUNTER_arena_misses, 1);
        return;
    }
    mdnn_lock_to_read(&arena->lock);
    int index = mdnn_arena_find_capture(arena, id, lease->stream);
    if (index < 0 || arena->captures[index].memory.bytes < needed) {
        mdnn_unlock_shared(&arena->lock);
        mdnn_arena_add_capture(arena, id, lease->stream, needed);
        mdnn_lock_to_read(&arena->lock);
        index = mdnn_arena_find_capture(arena, id, lease->stream);
    }
    if (index < 0 || !pays(plan, demand, arena->captures[index].memory.bytes)) {
        mdnn_count(MDNN_COUNTER_arena_misses,
                   index < 0 || arena->captures[index].memory.bytes == 0);
        mdnn_unlock_shared(&arena->lock);
        return;
    }
    mdnn_lock(&arena->captures[index].lock);
    lease->kind = MDNN_LEASE_CAPTURE;
    lease->index = index;
    lend(lease, arena, &arena->captures[index].memory, call, demand);
}

/* For what runs in nothing less: all that streams have, with everybody else kept out meanwhile. */
static void begin_whole(mdnn_lease_t *lease, mdnn_arena_t *arena, mdnn_call_t *call,
                        const mdnn_conv_plan_t *plan, mdnn_demand_t *demand)
{
    mdnn_lock_to_write(&arena->lock);
    const mdnn_wd_segment_t whole = {0, arena->divisible_bytes};
    const int index = mdnn_arena_find_slot(arena, lease->stream);
    if (index < 0 || !pays(plan, demand, whole.bytes) ||
        !wait_for_turn(arena, &arena->slots[index], ~(1U << index), lease->stream)) {
        mdnn_count(MDNN_COUNTER_arena_misses, 1);
        mdnn_unlock_shared(&arena->lock);
        return;
    }
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        arena->slots[i].waits |= i == index ? 0 : 1U << index;
    lease->kind = MDNN_LEASE_WHOLE;
    lease->index = index;
    lend(lease, arena, &whole, call, demand);
}

static void begin_in_order(mdnn_lease_t *lease, mdnn_arena_t *arena, mdnn_call_t *call,
                           const mdnn_conv_plan_t *plan, mdnn_demand_t *demand)
{
    const mdnn_network_call_t seen = network_call(call, plan, demand);
    const uint64_t least = mdnn_conv_plan_least_bytes(plan, demand);
    mdnn_wd_segment_t segment;
    const int index = mdnn_arena_enter(arena, lease->stream, &seen, &segment);
    if (index < 0) {
        mdnn_count(MDNN_COUNTER_arena_misses, 1);
        return;
    }
    mdnn_arena_slot_t *const slot = &arena->slots[index];
    const bool wanted = pays(plan, demand, segment.bytes);
    if (wanted && wait_for_turn(arena, slot, slot->waits, lease->stream)) {
        lease->kind = MDNN_LEASE_REGION;
        lease->index = index;
        lend(lease, arena, &segment, call, demand);
        return;
    }
    mdnn_count(MDNN_COUNTER_arena_misses, wanted);
    mdnn_arena_leave(arena, index);
    if (!wanted && least > demand->workspace_bytes && !MDNN_FAULT(ARENA_NOT_PROMISED))
        begin_whole(lease, arena, call, plan, demand);
}

void mdnn_lease_begin(mdnn_lease_t *lease, mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                      mdnn_demand_t *demand)
{
    bool capturing;
    memset(lease, 0, sizeof *lease);
    if (!plan || !mdnn_wd_is_on())
        return;
    mdnn_arena_t *const arena = mdnn_arena_current();
    if (!arena || atomic_load(&arena->lost) ||
        !mdnn_arena_find_stream(call, &lease->stream, &capturing)) {
        mdnn_count(MDNN_COUNTER_arena_misses, 1);
        return;
    }
    if (capturing)
        begin_captured(lease, arena, call, plan, demand);
    else
        begin_in_order(lease, arena, call, plan, demand);
}

void mdnn_lease_end(mdnn_lease_t *lease)
{
    mdnn_arena_t *const arena = lease->arena;
    if (!arena)
        return;
    lease->arena = NULL;
    if (lease->kind == MDNN_LEASE_CAPTURE) {
        mdnn_unlock(&arena->captures[lease->index].lock);
    } else {
        mdnn_arena_slot_t *const slot = &arena->slots[lease->index];
        mark_end(arena, slot, lease->stream);
        if (lease->kind == MDNN_LEASE_REGION)
            mdnn_unlock(&slot->lock);
    }
    mdnn_unlock_shared(&arena->lock);
}
