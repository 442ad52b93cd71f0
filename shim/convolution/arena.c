#include "shim/convolution/arena.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/lock.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/wd_settings.h"
#include "shim/real/capture_mode.h"
#include "shim/real/process.h"
#include "shim/vmem/capture_queries.h"
#include "shim/vmem/virtual_memory.h"

enum { SLOTS = 16, CAPTURES = 32, IDLE_CALLS = 4096, IDLE_LOOKS = 1024 };
static const uint64_t least_bytes = (uint64_t)1 << 20;

/* A stream and its region. Written under the arena's lock for writing, or under that for reading
 * and the slot's own. */
typedef struct slot {
    mdnn_lock_t lock;
    bool taken;
    CUstream stream;
    const void *thread; /* of the per-thread default stream; else NULL */
    CUevent event;      /* NULL: there was none to be had, and uses end with a wait */
    _Atomic bool used;  /* the event stands behind the last use; others read it, too */
    uint32_t waits;     /* slots whose events the next use waits for */
    uint64_t network;   /* number of the network that `segments` are for; 0: none */
    mdnn_wd_group_t group;
    mdnn_watch_t *watch;
    _Atomic uint64_t last_call; /* value of the arena's `calls` */
} slot_t;

/* What the convolutions of one stream in one capture have for good. Written under the arena's lock
 * for writing. */
typedef struct capture {
    mdnn_lock_t lock;
    unsigned long long id;
    CUstream stream;
    mdnn_wd_segment_t memory; /* 0 bytes: there was none to be had, so far */
} capture_t;

typedef struct mdnn_arena {
    CUcontext context;
    mdnn_shared_lock_t lock; /* reading: while a convolution is enqueued; writing: regions change */
    bool tried;              /* allocated, or not to be had */
    CUdeviceptr base;
    uint64_t bytes;
    uint64_t divisible_bytes; /* the rest belongs to captures */
    uint64_t promised_bytes;  /* most that a convolution needs whose caller was told of none */
    slot_t slots[SLOTS];
    capture_t captures[CAPTURES];
    int capture_count;
    _Atomic uint64_t calls;
    _Atomic bool lost; /* order cannot be kept any more: device calls fail */
    struct mdnn_arena *next;
} arena_t;

static _Atomic(arena_t *) arenas;                        /* of all contexts; never removed */
static mdnn_lock_t arenas_lock = MDNN_LOCK_INIT(ARENAS); /* guards the adding */

/* ---- one for each context ---- */

static arena_t *find_arena(CUcontext context)
{
    arena_t *arena = atomic_load_explicit(&arenas, memory_order_acquire);
    while (arena && arena->context != context)
        arena = arena->next;
    return arena;
}

static arena_t *make_arena(CUcontext context)
{
    arena_t *const arena = calloc(1, sizeof *arena);
    if (!arena)
        return NULL;
    arena->context = context;
    mdnn_shared_lock_init(&arena->lock, MDNN_LOCK_ARENA);
    for (int i = 0; i < SLOTS; i++)
        mdnn_lock_init(&arena->slots[i].lock, MDNN_LOCK_ARENA_SLOT);
    for (int i = 0; i < CAPTURES; i++)
        mdnn_lock_init(&arena->captures[i].lock, MDNN_LOCK_ARENA_CAPTURE);
    return arena;
}

static arena_t *current_arena(void)
{
    CUcontext context;
    if (mdnn_real_driver()->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    arena_t *arena = find_arena(context);
    if (arena)
        return arena;
    mdnn_lock(&arenas_lock);
    arena = find_arena(context);
    if (!arena && (arena = make_arena(context))) {
        arena->next = atomic_load(&arenas);
        atomic_store_explicit(&arenas, arena, memory_order_release);
    }
    mdnn_unlock(&arenas_lock);
    return arena;
}

static void allocate(arena_t *arena)
{
    uint64_t bytes = mdnn_process_options()->convolution_total_workspace;
    bytes -= bytes % MDNN_WD_ALIGNMENT_BYTES;
    const uint64_t wanted = bytes;
    arena->tried = true;
    mdnn_capture_relax();
    while (bytes > 0 && mdnn_device_allocate(&arena->base, bytes) != CUDA_SUCCESS) {
        mdnn_count(MDNN_COUNTER_arena_halvings, 1);
        bytes = bytes / 2 < least_bytes ? 0 : bytes / 2;
        bytes -= bytes % MDNN_WD_ALIGNMENT_BYTES;
    }
    mdnn_capture_restore();
    arena->bytes = arena->divisible_bytes = bytes;
    mdnn_count(MDNN_COUNTER_arena_bytes, bytes);
    if (bytes < wanted)
        MDNN_LOG(MDNN_LOG_WARN, "arena", "of %llu bytes of workspace there are %llu to be had",
                 (unsigned long long)wanted, (unsigned long long)bytes);
}

/* ---- division; the arena is locked for writing ---- */

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

static bool is_idle(const arena_t *arena, const slot_t *slot)
{
    return slot->taken && atomic_load(&arena->calls) > atomic_load(&slot->last_call) + IDLE_CALLS;
}

static void replace_group(slot_t *slot, const mdnn_wd_group_t *group)
{
    free(slot->group.segments);
    slot->group = *group;
    slot->network = group->segments ? group->network->number : 0;
}

/* Whoever has other memory than before waits, at its next use, for all that used the arena. */
static void take_over(arena_t *arena, const mdnn_wd_group_t *groups)
{
    uint32_t used = 0, changed = 0;
    for (int i = 0, g = 0; i < SLOTS; i++) {
        slot_t *const slot = &arena->slots[i];
        static const mdnn_wd_group_t nothing;
        const mdnn_wd_group_t *const group = slot->taken ? &groups[g++] : &nothing;
        const mdnn_wd_segment_t before = slot->group.region;
        if (slot->used)
            used |= 1U << i;
        if (before.offset != group->region.offset || before.bytes != group->region.bytes)
            changed |= 1U << i;
        replace_group(slot, group);
    }
    for (int i = 0; i < SLOTS; i++)
        if (changed >> i & 1)
            arena->slots[i].waits |= used & ~(1U << i);
    if (changed)
        mdnn_count(MDNN_COUNTER_arena_divisions, 1);
}

static void divide(arena_t *arena, slot_t *keep)
{
    const mdnn_wd_settings_t settings = mdnn_wd_settings();
    mdnn_wd_group_t groups[SLOTS];
    size_t count = 0;
    for (int i = 0; i < SLOTS; i++) {
        slot_t *const slot = &arena->slots[i];
        if (slot != keep && is_idle(arena, slot))
            slot->taken = false;
        if (slot->taken)
            groups[count++] = (mdnn_wd_group_t){.network = mdnn_watch_network(slot->watch)};
    }
    if (count > 0)
        mdnn_wd_divide(&settings, items_of, arena->divisible_bytes, groups, count);
    take_over(arena, groups);
}

/* ---- streams ---- */

static const void *thread_of(CUstream stream)
{
    static _Thread_local char here __attribute__((tls_model("initial-exec")));
    return stream == CU_STREAM_PER_THREAD ? &here : NULL;
}

/* The slot of a stream; -1 if it has none. */
static int find_slot(const arena_t *arena, CUstream stream)
{
    const void *const thread = thread_of(stream);
    for (int i = 0; i < SLOTS; i++)
        if (arena->slots[i].taken && arena->slots[i].stream == stream &&
            arena->slots[i].thread == thread)
            return i;
    return -1;
}

/* A free slot, else the one that was idle longest: its event keeps the order with who had it. */
static slot_t *choose_slot(arena_t *arena)
{
    slot_t *chosen = &arena->slots[0];
    for (int i = 0; i < SLOTS; i++) {
        slot_t *const slot = &arena->slots[i];
        if (!slot->taken)
            return slot;
        if (atomic_load(&slot->last_call) < atomic_load(&chosen->last_call))
            chosen = slot;
    }
    return chosen;
}

static bool add_slot_locked(arena_t *arena, CUstream stream)
{
    mdnn_watch_t *watch;
    if (find_slot(arena, stream) >= 0)
        return true;
    if (!arena->tried)
        allocate(arena);
    slot_t *const slot = choose_slot(arena);
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
    divide(arena, slot);
    return true;
}

static bool add_slot(arena_t *arena, CUstream stream)
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
static int enter(arena_t *arena, CUstream stream)
{
    for (int attempts = 0; attempts < 3; attempts++) {
        mdnn_lock_to_read(&arena->lock);
        const int slot = find_slot(arena, stream);
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

static void leave(arena_t *arena, int slot)
{
    mdnn_unlock(&arena->slots[slot].lock);
    mdnn_unlock_shared(&arena->lock);
}

/* ---- watching ---- */

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

/* A layer, by values: the network itself belongs to the slot's watch. */
typedef struct layer {
    uint64_t network; /* 0: none */
    size_t index;
} layer_t;

/* True if the arena must be divided anew. */
static bool observe(arena_t *arena, slot_t *slot, const mdnn_network_call_t *call, layer_t *layer)
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
    for (int i = 0; i < SLOTS; i++)
        if (is_idle(arena, &arena->slots[i]))
            return true;
    return false;
}

static mdnn_wd_segment_t segment_of(const slot_t *slot, const layer_t *layer)
{
    return slot->network && slot->network == layer->network ? slot->group.segments[layer->index]
                                                            : slot->group.region;
}

/* As enter, and the call's part of the arena. */
static int enter_and_observe(arena_t *arena, CUstream stream, const mdnn_network_call_t *call,
                             mdnn_wd_segment_t *segment)
{
    layer_t layer;
    int slot = enter(arena, stream);
    if (slot < 0)
        return -1;
    if (observe(arena, &arena->slots[slot], call, &layer)) {
        leave(arena, slot);
        mdnn_lock_to_write(&arena->lock);
        divide(arena, NULL);
        mdnn_unlock_shared(&arena->lock);
        slot = enter(arena, stream);
    }
    if (slot >= 0)
        *segment = segment_of(&arena->slots[slot], &layer);
    return slot;
}

/* ---- captures ---- */

static int find_capture(const arena_t *arena, unsigned long long id, CUstream stream)
{
    for (int i = 0; i < arena->capture_count; i++)
        if (arena->captures[i].id == id && arena->captures[i].stream == stream)
            return i;
    return -1;
}

/* Whether all device work in the arena has ended: a graph may run at any time. */
static bool is_at_rest(const arena_t *arena)
{
    for (int i = 0; i < SLOTS; i++)
        if (arena->slots[i].used &&
            mdnn_real_driver()->cuEventQuery(arena->slots[i].event) != CUDA_SUCCESS)
            return false;
    return true;
}

/* The host waits until it has. None of that work belongs to a capture, so it does end. */
static bool bring_to_rest(const arena_t *arena)
{
    mdnn_count(MDNN_COUNTER_arena_waits, 1);
    for (int i = 0; i < SLOTS; i++)
        if (arena->slots[i].used &&
            mdnn_real_driver()->cuEventSynchronize(arena->slots[i].event) != CUDA_SUCCESS)
            return false;
    return true;
}

/* Bytes that streams keep for one convolution, whatever captures there are. */
static uint64_t kept_bytes(const arena_t *arena)
{
    const uint64_t quarter = arena->bytes / 4;
    return arena->promised_bytes > quarter ? arena->promised_bytes : quarter;
}

/* Half of what is left, but `needed_bytes` if that is more and streams keep theirs. */
static uint64_t share_of_capture(const arena_t *arena, uint64_t needed_bytes)
{
    const uint64_t most =
        arena->divisible_bytes > kept_bytes(arena) ? arena->divisible_bytes - kept_bytes(arena) : 0;
    uint64_t share = arena->divisible_bytes / 2;
    if (share < needed_bytes)
        share = needed_bytes + MDNN_WD_ALIGNMENT_BYTES;
    if (share > most)
        share = most;
    share -= share % MDNN_WD_ALIGNMENT_BYTES;
    return share < needed_bytes || (needed_bytes == 0 && share < least_bytes) ? 0 : share;
}

static void give_to_capture(arena_t *arena, capture_t *capture, uint64_t needed_bytes)
{
    const uint64_t bytes = share_of_capture(arena, needed_bytes);
    mdnn_capture_relax();
    if (bytes > 0 && (is_at_rest(arena) || (needed_bytes > 0 && bring_to_rest(arena)))) {
        arena->divisible_bytes -= bytes;
        capture->memory = (mdnn_wd_segment_t){arena->divisible_bytes, bytes};
        divide(arena, NULL);
    }
    mdnn_capture_restore();
}

static void add_capture(arena_t *arena, unsigned long long id, CUstream stream,
                        uint64_t needed_bytes)
{
    mdnn_lock_to_write(&arena->lock);
    int index = find_capture(arena, id, stream);
    if (index < 0 && arena->capture_count < CAPTURES) {
        index = arena->capture_count++;
        arena->captures[index].id = id;
        arena->captures[index].stream = stream;
    }
    if (index >= 0 && arena->captures[index].memory.bytes == 0)
        give_to_capture(arena, &arena->captures[index], needed_bytes);
    mdnn_unlock_shared(&arena->lock);
}

/* ---- leases ---- */

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
static bool follow_slot(const slot_t *slot, CUstream stream)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!slot->used || driver->cuStreamWaitEvent(stream, slot->event, 0) == CUDA_SUCCESS)
        return true;
    mdnn_count(MDNN_COUNTER_arena_waits, 1);
    return driver->cuEventSynchronize(slot->event) == CUDA_SUCCESS;
}

/* Puts the stream behind everything that used the slot's region, or behind all that used any. */
static bool wait_for_turn(arena_t *arena, slot_t *slot, uint32_t others, CUstream stream)
{
    if (!follow_slot(slot, stream))
        return false;
    for (int i = 0; i < SLOTS; i++)
        if (others >> i & 1 && !follow_slot(&arena->slots[i], stream))
            return false;
    slot->waits = 0;
    return true;
}

/* Marks the end of a use on its stream. */
static void mark_end(arena_t *arena, slot_t *slot, CUstream stream)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (slot->event && driver->cuEventRecord(slot->event, stream) == CUDA_SUCCESS) {
        slot->used = true;
        return;
    }
    mdnn_count(MDNN_COUNTER_arena_waits, 1);
    if (driver->cuStreamSynchronize(stream) == CUDA_SUCCESS)
        return;
    atomic_store(&arena->lost, true);
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "arena",
                  "the device does not keep order: convolutions run without workspace from now on");
}

static void lend(mdnn_lease_t *lease, arena_t *arena, const mdnn_wd_segment_t *segment,
                 mdnn_call_t *call, mdnn_demand_t *demand)
{
    lease->arena = arena;
    call->workspace = (void *)(uintptr_t)(arena->base + segment->offset);
    call->workspace_bytes = segment->bytes;
    call->pack_fits = false; /* the caller's variant pack has another workspace */
    demand->workspace_bytes = segment->bytes;
    mdnn_count(MDNN_COUNTER_arena_uses, 1);
}

static void begin_captured(mdnn_lease_t *lease, arena_t *arena, mdnn_call_t *call,
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
    int index = find_capture(arena, id, lease->stream);
    if (index < 0 || arena->captures[index].memory.bytes < needed) {
        mdnn_unlock_shared(&arena->lock);
        add_capture(arena, id, lease->stream, needed);
        mdnn_lock_to_read(&arena->lock);
        index = find_capture(arena, id, lease->stream);
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
static void begin_whole(mdnn_lease_t *lease, arena_t *arena, mdnn_call_t *call,
                        const mdnn_conv_plan_t *plan, mdnn_demand_t *demand)
{
    mdnn_lock_to_write(&arena->lock);
    const mdnn_wd_segment_t whole = {0, arena->divisible_bytes};
    const int index = find_slot(arena, lease->stream);
    if (index < 0 || !pays(plan, demand, whole.bytes) ||
        !wait_for_turn(arena, &arena->slots[index], ~(1U << index), lease->stream)) {
        mdnn_count(MDNN_COUNTER_arena_misses, 1);
        mdnn_unlock_shared(&arena->lock);
        return;
    }
    for (int i = 0; i < SLOTS; i++)
        arena->slots[i].waits |= i == index ? 0 : 1U << index;
    lease->kind = MDNN_LEASE_WHOLE;
    lease->index = index;
    lend(lease, arena, &whole, call, demand);
}

static void begin_in_order(mdnn_lease_t *lease, arena_t *arena, mdnn_call_t *call,
                           const mdnn_conv_plan_t *plan, mdnn_demand_t *demand)
{
    const mdnn_network_call_t seen = network_call(call, plan, demand);
    const uint64_t least = mdnn_conv_plan_least_bytes(plan, demand);
    mdnn_wd_segment_t segment;
    const int index = enter_and_observe(arena, lease->stream, &seen, &segment);
    if (index < 0) {
        mdnn_count(MDNN_COUNTER_arena_misses, 1);
        return;
    }
    slot_t *const slot = &arena->slots[index];
    const bool wanted = pays(plan, demand, segment.bytes);
    if (wanted && wait_for_turn(arena, slot, slot->waits, lease->stream)) {
        lease->kind = MDNN_LEASE_REGION;
        lease->index = index;
        lend(lease, arena, &segment, call, demand);
        return;
    }
    mdnn_count(MDNN_COUNTER_arena_misses, wanted);
    leave(arena, index);
    if (!wanted && least > demand->workspace_bytes)
        begin_whole(lease, arena, call, plan, demand);
}

/* The stream of a call and whether it is being captured; false if that cannot be told. */
static bool find_stream(const mdnn_call_t *call, CUstream *stream, bool *capturing)
{
    CUstreamCaptureStatus status;
    if (call->cudnn->cudnnGetStream(call->handle, stream) != CUDNN_STATUS_SUCCESS ||
        mdnn_real_driver()->cuStreamIsCapturing(*stream, &status) != CUDA_SUCCESS ||
        status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return false;
    *capturing = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return true;
}

/* What needs more than streams keep for one convolution is promised that, if captures have not taken it,
 * and if a capture that cannot have as much finds something weaker that needs nothing. */
static bool promise(arena_t *arena, const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                    uint64_t needed_bytes)
{
    const mdnn_demand_t weaker = {.strict = demand->strict};
    if (needed_bytes <= kept_bytes(arena))
        return true;
    if (needed_bytes > arena->divisible_bytes || mdnn_conv_plan_least_bytes(plan, &weaker) > 0)
        return false;
    arena->promised_bytes = needed_bytes;
    return true;
}

bool mdnn_arena_serves(const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                       const mdnn_demand_t *demand)
{
    const uint64_t least = mdnn_conv_plan_least_bytes(plan, demand);
    CUstream stream;
    bool capturing;
    arena_t *const arena = mdnn_wd_is_on() ? current_arena() : NULL;
    if (!arena || least == UINT64_MAX)
        return mdnn_wd_is_on() && least == 0;
    mdnn_lock_to_write(&arena->lock);
    if (!arena->tried && find_stream(call, &stream, &capturing) && !capturing)
        allocate(arena);
    const bool serves = promise(arena, plan, demand, least);
    mdnn_unlock_shared(&arena->lock);
    return serves;
}

void mdnn_lease_begin(mdnn_lease_t *lease, mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                      mdnn_demand_t *demand)
{
    bool capturing;
    memset(lease, 0, sizeof *lease);
    if (!plan || !mdnn_wd_is_on())
        return;
    arena_t *const arena = current_arena();
    if (!arena || atomic_load(&arena->lost) || !find_stream(call, &lease->stream, &capturing)) {
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
    arena_t *const arena = lease->arena;
    if (!arena)
        return;
    lease->arena = NULL;
    if (lease->kind == MDNN_LEASE_CAPTURE) {
        mdnn_unlock(&arena->captures[lease->index].lock);
    } else {
        slot_t *const slot = &arena->slots[lease->index];
        mark_end(arena, slot, lease->stream);
        if (lease->kind == MDNN_LEASE_REGION)
            mdnn_unlock(&slot->lock);
    }
    mdnn_unlock_shared(&arena->lock);
}
