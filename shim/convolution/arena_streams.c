#include "shim/convolution/arena_streams.h"

#include <stdlib.h>

#include "config/fault.h"
#include "config/statistics.h"
#include "shim/convolution/wd_settings.h"
#include "shim/real/capture_mode.h"

enum { IDLE_CALLS = 4096, IDLE_LOOKS = 1024 };

static mdnn_demand_t demand_of_bits(uint32_t bits)
{
    return (mdnn_demand_t){
        .deterministic = bits & 1, .direct = bits >> 1 & 1, .strict = bits >> 2 & 1};
}

static size_t items_of(const mdnn_network_call_t *call, mdnn_knapsack_item_t *items,
                       size_t capacity)
{
    const mdnn_demand_t demand = demand_of_bits(call->demand);
    return mdnn_conv_plan_items(call->problem, &demand, items, capacity);
}

static bool is_idle(const mdnn_arena_t *arena, const mdnn_arena_slot_t *slot)
{
    return slot->taken && atomic_load(&arena->calls) > atomic_load(&slot->last_call) + IDLE_CALLS;
}

static void replace_group(mdnn_arena_slot_t *slot, const mdnn_wd_group_t *group)
{
    free(slot->group.segments);
    slot->group = *group;
    slot->network = group->segments ? group->network->number : 0;
}

/* Whoever has other memory than before waits, at its next use, for all that used the arena. */
static void take_over(mdnn_arena_t *arena, const mdnn_wd_group_t *groups)
{
    uint32_t used = 0, changed = 0;
    for (int i = 0, g = 0; i < MDNN_ARENA_SLOTS; i++) {
        mdnn_arena_slot_t *const slot = &arena->slots[i];
        static const mdnn_wd_group_t nothing;
        const mdnn_wd_group_t *const group = slot->taken ? &groups[g++] : &nothing;
        const mdnn_wd_segment_t before = slot->group.region;
        if (slot->used)
            used |= 1U << i;
        if (before.offset != group->region.offset || before.bytes != group->region.bytes)
            changed |= 1U << i;
        replace_group(slot, group);
    }
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        if (changed >> i & 1 && !MDNN_FAULT(ARENA_TAKEN_AT_ONCE))
            arena->slots[i].waits |= used & ~(1U << i);
    if (changed)
        mdnn_count(MDNN_COUNTER_arena_divisions, 1);
}

void mdnn_arena_divide(mdnn_arena_t *arena, mdnn_arena_slot_t *keep)
{
    const mdnn_wd_settings_t settings = mdnn_wd_settings();
    mdnn_wd_group_t groups[MDNN_ARENA_SLOTS];
    size_t count = 0;
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++) {
        mdnn_arena_slot_t *const slot = &arena->slots[i];
        if (slot != keep && is_idle(arena, slot))
            slot->taken = false;
        if (slot->taken)
            groups[count++] = (mdnn_wd_group_t){.network = mdnn_watch_network(slot->watch)};
    }
    if (count > 0)
        mdnn_wd_divide(&settings, items_of, arena->divisible_bytes, groups, count);
    take_over(arena, groups);
}

static const void *thread_of(CUstream stream)
{
    static _Thread_local char here __attribute__((tls_model("initial-exec")));
    return stream == CU_STREAM_PER_THREAD ? &here : NULL;
}

/* The slot of a stream; -1 if it has none. */
int mdnn_arena_find_slot(const mdnn_arena_t *arena, CUstream stream)
{
    const void *const thread = thread_of(stream);
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        if (arena->slots[i].taken && arena->slots[i].stream == stream &&
            arena->slots[i].thread == thread)
            return i;
    return -1;
}

/* A free slot, else the one that was idle longest: its event keeps the order with who had it. */
static mdnn_arena_slot_t *choose_slot(mdnn_arena_t *arena)
{
    mdnn_arena_slot_t *chosen = &arena->slots[0];
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++) {
        mdnn_arena_slot_t *const slot = &arena->slots[i];
        if (!slot->taken)
            return slot;
        if (atomic_load(&slot->last_call) < atomic_load(&chosen->last_call))
            chosen = slot;
    }
    return chosen;
}

static bool add_slot_locked(mdnn_arena_t *arena, CUstream stream)
{
    mdnn_watch_t *watch;
    if (mdnn_arena_find_slot(arena, stream) >= 0)
        return true;
    if (!arena->tried)
        mdnn_arena_allocate(arena);
    mdnn_arena_slot_t *const slot = choose_slot(arena);
    if (!slot->event &&
        mdnn_real_driver()->cuEventCreate(&slot->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        slot->event = NULL;
    if (mdnn_watch_create(&watch) != MDNN_STATUS_OK)
        return false;
    mdnn_watch_destroy(slot->watch);
    slot->watch = watch;
    slot->taken = true;
    slot->stream = stream;
    slot->thread = thread_of(stream);
    atomic_store(&slot->last_call, atomic_load(&arena->calls));
    mdnn_arena_divide(arena, slot);
    return true;
}

static bool add_slot(mdnn_arena_t *arena, CUstream stream)
{
    mdnn_lock_to_write(&arena->lock);
    mdnn_capture_relax();
    const bool added = add_slot_locked(arena, stream);
    mdnn_capture_restore();
    mdnn_unlock_shared(&arena->lock);
    return added;
}

/* Locks the arena for reading and the stream's slot, which is made if there is none; -1, and
 * nothing is locked, if there can be none. */
static int enter(mdnn_arena_t *arena, CUstream stream)
{
    for (int attempts = 0; attempts < 3; attempts++) {
        mdnn_lock_to_read(&arena->lock);
        const int slot = mdnn_arena_find_slot(arena, stream);
        if (slot >= 0) {
            mdnn_lock(&arena->slots[slot].lock);
            return slot;
        }
        mdnn_unlock_shared(&arena->lock);
        if (!add_slot(arena, stream))
            return -1;
    }
    return -1;
}

void mdnn_arena_leave(mdnn_arena_t *arena, int slot)
{
    mdnn_unlock(&arena->slots[slot].lock);
    mdnn_unlock_shared(&arena->lock);
}

/* A layer, by values: the network itself belongs to the slot's watch. */
typedef struct layer {
    uint64_t network; /* 0: none */
    size_t index;
} layer_t;

/* True if the arena must be divided anew. */
static bool observe(mdnn_arena_t *arena, mdnn_arena_slot_t *slot, const mdnn_network_call_t *call,
                    layer_t *layer)
{
    mdnn_network_place_t place;
    const uint64_t known = mdnn_watch_discoveries(slot->watch);
    const bool changed = mdnn_watch_call(slot->watch, call, &place);
    const uint64_t number = atomic_fetch_add(&arena->calls, 1) + 1;
    atomic_store(&slot->last_call, number);
    *layer = (layer_t){place.network ? place.network->number : 0, place.layer};
    mdnn_count(MDNN_COUNTER_networks, mdnn_watch_discoveries(slot->watch) - known);
    mdnn_count(MDNN_COUNTER_networks_followed, changed);
    if (changed || number % IDLE_LOOKS != 0)
        return changed;
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        if (is_idle(arena, &arena->slots[i]))
            return true;
    return false;
}

static mdnn_wd_segment_t segment_of(const mdnn_arena_slot_t *slot, const layer_t *layer)
{
    return slot->network && slot->network == layer->network ? slot->group.segments[layer->index]
                                                            : slot->group.region;
}

/* As enter, and the call's part of the arena. */
int mdnn_arena_enter(mdnn_arena_t *arena, CUstream stream, const mdnn_network_call_t *call,
                     mdnn_wd_segment_t *segment)
{
    layer_t layer;
    int slot = enter(arena, stream);
    if (slot < 0)
        return -1;
    if (observe(arena, &arena->slots[slot], call, &layer)) {
        mdnn_arena_leave(arena, slot);
        mdnn_lock_to_write(&arena->lock);
        mdnn_arena_divide(arena, NULL);
        mdnn_unlock_shared(&arena->lock);
        slot = enter(arena, stream);
    }
    if (slot >= 0)
        *segment = segment_of(&arena->slots[slot], &layer);
    return slot;
}
