/* Allocations of virtual memory, pins, the report. */
#include "offload/memory/memory_acquire.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_room.h"
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_waits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- the device, as ranges.c sees it ---- */

/* What is being made room for is not there yet. */
void mdnn_memory_note_resident(mdnn_memory_t *memory)
{
    const uint64_t bytes =
        mdnn_memory_chunks_there(memory) * memory->chunk_bytes + memory->aside_bytes;
    if (memory->peak_resident_bytes < bytes)
        memory->peak_resident_bytes = bytes;
    if (memory->report.peak_other_bytes < memory->aside_bytes)
        memory->report.peak_other_bytes = memory->aside_bytes;
}

/* The only place where chunks come from, and so the one that holds the budget: in every build, and
 * whatever the bookkeeping elsewhere says. */
static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    mdnn_memory_t *const memory = context;
    const uint64_t there = mdnn_memory_chunks_there(memory);
    if (there >= memory->chunk_limit ||
        (there + 1) * memory->chunk_bytes + memory->aside_bytes + memory->claimed_bytes >
            memory->config.budget_bytes)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    const mdnn_status_t status = memory->device.create_chunk(memory->context, chunk);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        memory->chunk_limit = there; /* until the next demand */
    MDNN_TRY(status);
    memory->report.created++;
    memory->steps++;
    mdnn_memory_note_resident(memory);
    return MDNN_STATUS_OK;
}

static mdnn_status_t destroy_chunk(void *context, uint64_t chunk)
{
    mdnn_memory_t *const memory = context;
    MDNN_TRY(memory->device.destroy_chunk(memory->context, chunk));
    memory->report.destroyed++;
    memory->steps++;
    return MDNN_STATUS_OK;
}

static mdnn_status_t map_chunk(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_memory_t *const memory = context;
    return memory->device.map(memory->context, address, chunk);
}

static mdnn_status_t unmap_chunk(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_memory_t *const memory = context;
    return memory->device.unmap(memory->context, address, chunk);
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    mdnn_memory_t *const memory = context;
    return memory->device.is_done(memory->context, point);
}

static bool may_be_slabs(void *context, uint64_t chunks)
{
    return mdnn_memory_may_be_slabs(context, chunks);
}

mdnn_status_t mdnn_memory_create(const mdnn_memory_config_t *config,
                                 const mdnn_memory_device_t *device, void *context,
                                 mdnn_memory_t **memory)
{
    static const mdnn_ranges_device_t ranges_device = {create_chunk, map_chunk,     unmap_chunk,
                                                       is_done,      destroy_chunk, may_be_slabs};
    mdnn_memory_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->config = *config;
    made->device = *device;
    made->context = context;
    made->chunk_bytes = config->ranges.chunk_bytes;
    made->all.uses = made->all.first_uses;
    made->all.use_room = MDNN_INLINE_USES;
    mdnn_status_t status = mdnn_ranges_create(&config->ranges, &ranges_device, made, &made->ranges);
    if (status == MDNN_STATUS_OK) {
        made->chunk_limit = config->budget_bytes / made->chunk_bytes;
        made->follower = mdnn_follower_create(&config->follower);
        status = made->follower ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status == MDNN_STATUS_OK)
        *memory = made;
    else
        mdnn_memory_destroy(made);
    return status;
}

static void free_uses(mdnn_allocation_t *allocation)
{
    if (allocation->uses != allocation->first_uses)
        free(allocation->uses);
}

static void free_allocation(mdnn_allocation_t *allocation)
{
    free_uses(allocation);
    free(allocation->slots);
    free(allocation);
}

void mdnn_memory_destroy(mdnn_memory_t *memory)
{
    if (!memory)
        return;
    while (memory->allocations) {
        mdnn_allocation_t *const allocation = memory->allocations;
        memory->allocations = allocation->next;
        free_allocation(allocation);
    }
    free_uses(&memory->all);
    mdnn_follower_destroy(memory->follower);
    mdnn_ranges_destroy(memory->ranges);
    free(memory->uses);
    free(memory->streams);
    free(memory->untracked);
    free(memory);
}

/* ---- allocations ---- */

mdnn_allocation_t *mdnn_allocation_find(const mdnn_memory_t *memory, uint64_t address,
                                        uint64_t began)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    return allocation && allocation->born < began && began <= allocation->gone ? allocation : NULL;
}

/* Not freed. */
static mdnn_allocation_t *find_live(const mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    return allocation && !allocation->freed ? allocation : NULL;
}

/* Not freed, or pinned still: nobody else can have its addresses. */
static mdnn_allocation_t *find_kept(const mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    return allocation && (!allocation->freed || allocation->pins > 0) ? allocation : NULL;
}

mdnn_status_t mdnn_allocation_reserve_use(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                          uint64_t stream)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].stream == stream)
            return MDNN_STATUS_OK;
    if (allocation->use_count == allocation->use_room &&
        allocation->held == 0) { /* none is only reserved */
        mdnn_allocation_uses_over(memory, allocation);
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].position != 0)
                allocation->uses[kept++] = allocation->uses[i];
        allocation->use_count = kept;
    }
    if (allocation->use_count == allocation->use_room) {
        const bool inside = allocation->uses == allocation->first_uses;
        mdnn_stream_point_t *const uses =
            reallocarray(inside ? NULL : allocation->uses, allocation->use_room * 2, sizeof *uses);
        if (!uses)
            return MDNN_STATUS_OUT_OF_MEMORY;
        if (inside)
            memcpy(uses, allocation->first_uses, sizeof allocation->first_uses);
        allocation->uses = uses;
        allocation->use_room *= 2;
    }
    allocation->uses[allocation->use_count++] = (mdnn_stream_point_t){stream, 0};
    return MDNN_STATUS_OK;
}

void mdnn_allocation_note_use(mdnn_allocation_t *allocation, mdnn_stream_point_t point)
{
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].stream == point.stream)
            allocation->uses[i].position = point.position;
}

void mdnn_memory_announce(const mdnn_memory_t *memory, const mdnn_memory_event_t *event)
{
    if (!memory->device.event)
        return;
    mdnn_memory_event_t told = *event;
    told.resident_bytes = mdnn_ranges_counts(memory->ranges).chunks_live * memory->chunk_bytes;
    memory->device.event(memory->context, &told);
}

/* Whether the program has gone on since what was refused last: it could do without. */
static bool has_gone_on(const mdnn_memory_t *memory)
{
    enum { OPERATIONS = 100 }; /* more than the end of a program makes */
    return memory->report.operations - memory->wanting.since >= OPERATIONS;
}

static void note_wanting(mdnn_memory_t *memory, uint64_t needed_bytes)
{
    if (has_gone_on(memory)) {
        memory->report.refused_optional += memory->wanting.count;
        memory->wanting.count = memory->wanting.bytes = 0;
    }
    if (memory->wanting.bytes < needed_bytes)
        memory->wanting.bytes = needed_bytes;
    memory->wanting.count++;
    memory->wanting.since = memory->report.operations;
}

void mdnn_memory_refused(mdnn_memory_t *memory, uint64_t needed_bytes, bool needed)
{
    needed_bytes += memory->aside_bytes + memory->claimed_bytes;
    memory->report.refused++;
    if (needed)
        note_wanting(memory, needed_bytes);
    if (memory->report.refused_budget_bytes < needed_bytes)
        memory->report.refused_budget_bytes = needed_bytes;
}

/* ---- allocate ---- */

static void begin_life(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    memory->report.live_bytes += allocation->bytes;
    memory->live_room_bytes += allocation->room;
    memory->loose_bytes += mdnn_allocation_loose_bytes(memory, allocation);
    if (memory->report.peak_live_bytes < memory->report.live_bytes)
        memory->report.peak_live_bytes = memory->report.live_bytes;
    allocation->follower_range = mdnn_follower_begin_range(memory->follower, allocation->room,
                                                           allocation->stays, allocation);
}

static void link_allocation(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    allocation->next = memory->allocations;
    if (allocation->next)
        allocation->next->previous = allocation;
    memory->allocations = allocation;
    mdnn_ranges_set_owner(memory->ranges, allocation->address, allocation);
    if (allocation->range && allocation->stays)
        memory->stuck_bytes += allocation->room;
    begin_life(memory, allocation);
}

static void fill_allocation(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t address,
                            uint64_t bytes)
{
    enum { GRANULE = 512 };              /* of blocks */
    static _Atomic uint64_t last_number; /* of all devices: one that was reset may have its
                                            addresses once more */
    allocation->number = atomic_fetch_add(&last_number, 1) + 1;
    allocation->address = address;
    allocation->bytes = bytes;
    allocation->range = mdnn_ranges_at(memory->ranges, address);
    if (allocation->range)
        allocation->count = mdnn_range_chunks(allocation->range).count;
    allocation->room = allocation->range ? allocation->count * memory->chunk_bytes
                                         : (bytes + GRANULE - 1) / GRANULE * GRANULE;
    allocation->stays = !allocation->range || (bytes < memory->config.min_bytes &&
                                               mdnn_memory_can_hold(memory, allocation->room));
    if (!allocation->stays)
        mdnn_allocation_note_movable(memory, allocation);
    allocation->born = memory->began;
    allocation->gone = UINT64_MAX;
    allocation->freed_in = MDNN_NO_ORDER;
    allocation->blank = allocation->range && mdnn_allocation_owned(allocation) < allocation->count;
    allocation->slots_from = allocation->count;
    allocation->filled = allocation->in_sent = allocation->out_sent = allocation->clean =
        allocation->blank ? 0 : allocation->count;
    allocation->state = allocation->blank ? MDNN_ALLOCATION_AWAY : MDNN_ALLOCATION_RESIDENT;
    allocation->last_use = memory->report.operations;
}

/* Has `stream` wait for earlier users of the memory. Those for whom it cannot are uses of the allocation
 * from now on, and *host says that the host must wait for them. What they do in `stream` itself needs
 * no wait there, but must be over before the memory leaves. */
static mdnn_status_t follow_users(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                  uint64_t stream, const mdnn_acquired_t *got, bool *host)
{
    *host = false;
    MDNN_TRY(
        mdnn_allocation_reserve_use(memory, allocation, stream)); /* cannot fail: it is the first */
    for (size_t i = 0; i < got->wait_count; i++) {
        if (memory->device.wait_in_stream(memory->context, stream, got->waits[i]) == MDNN_STATUS_OK)
            continue;
        MDNN_TRY(mdnn_allocation_reserve_use(memory, allocation, got->waits[i].stream));
        mdnn_allocation_note_use(allocation, got->waits[i]);
        *host = true;
    }
    mdnn_allocation_note_use(allocation, memory->device.mark(memory->context, stream));
    return MDNN_STATUS_OK;
}

/* Held. Host wait until nothing that is known uses it. BUSY: not within `seconds`; 0: as long as the
 * device does anything. */
static mdnn_status_t wait_for_uses(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                   double seconds)
{
    for (uint32_t i = 0; i < allocation->use_count;) {
        const mdnn_stream_point_t use = allocation->uses[i];
        if (use.position == 0 || memory->device.is_done(memory->context, use))
            i++;
        else
            MDNN_TRY(seconds > 0 ? mdnn_memory_wait_a_while(memory, use, seconds)
                                 : mdnn_memory_wait(memory, use));
    }
    return MDNN_STATUS_OK;
}

static void forget(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    for (; allocation->live_pins > 0; allocation->live_pins--)
        mdnn_allocation_unpin(memory, allocation);
    allocation->freed = true;
    if (allocation->pins == 0)
        allocation->gone = memory->began;
    memory->report.live_bytes -= allocation->bytes;
    memory->live_room_bytes -= allocation->room;
    memory->loose_bytes -= mdnn_allocation_loose_bytes(memory, allocation);
    mdnn_follower_end_range(memory->follower, allocation->follower_range);
    allocation->follower_range = MDNN_NO_POSITION;
    mdnn_allocation_end(memory, allocation);
}

void mdnn_memory_judge_refusal(mdnn_memory_t *memory, uint64_t bytes, bool optional)
{
    const uint64_t room = mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes;
    if (optional)
        memory->report.refused_optional++;
    else
        note_wanting(memory, room + mdnn_memory_stuck_bytes(memory) + memory->aside_bytes);
}

static void note_refusal(mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t room = mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes;
    mdnn_memory_refused(memory, room + mdnn_memory_stuck_bytes(memory), false);
}

/* A plan has the memory from the first operation on that names it. */
static mdnn_first_use_t first_use(const mdnn_memory_t *memory, uint64_t bytes)
{
    if (!mdnn_memory_may_be_bare(memory, bytes))
        return MDNN_FIRST_USE_UNKNOWN;
    return mdnn_follower_first_use(memory->follower, mdnn_ranges_chunks_for(memory->ranges, bytes) *
                                                         memory->chunk_bytes);
}

static mdnn_allocation_t *new_allocation(void)
{
    mdnn_allocation_t *const allocation = calloc(1, sizeof *allocation);
    if (allocation) {
        allocation->uses = allocation->first_uses;
        allocation->use_room = MDNN_INLINE_USES;
    }
    return allocation;
}

/* Memory whose users do not end soon is given back, and addresses alone taken, whose first use finds
 * other memory. NOT_FOUND: not here. */
static mdnn_status_t exchange(mdnn_memory_t *memory, mdnn_allocation_t **allocation,
                              uint64_t stream)
{
    mdnn_acquired_t bare;
    const uint64_t bytes = (*allocation)->bytes;
    if (memory->config.safety != MDNN_SAFETY_FAST || memory->untracked_open > 0 ||
        (*allocation)->stays || (*allocation)->pins > 0)
        return MDNN_STATUS_NOT_FOUND;
    mdnn_allocation_t *const other = new_allocation();
    if (!other)
        return MDNN_STATUS_NOT_FOUND;
    if (mdnn_memory_reserve(memory, bytes, &bare) != MDNN_STATUS_OK) {
        free_allocation(other);
        return MDNN_STATUS_NOT_FOUND;
    }
    forget(memory, *allocation);
    fill_allocation(memory, other, bare.address, bytes);
    link_allocation(memory, other);
    (void)mdnn_allocation_reserve_use(memory, other, stream);
    mdnn_allocation_note_use(other, memory->device.mark(memory->context, stream));
    *allocation = other;
    return MDNN_STATUS_OK;
}

/* Nobody knows the allocation yet, but it must not leave meanwhile. */
static mdnn_status_t wait_for_users(mdnn_memory_t *memory, mdnn_allocation_t **allocation,
                                    uint64_t stream)
{
    static const double moment_s = 0.02;
    mdnn_allocation_t *const first = *allocation;
    first->held++;
    mdnn_status_t status = wait_for_uses(memory, first, moment_s);
    if (status == MDNN_STATUS_BUSY) {
        if (exchange(memory, allocation, stream) == MDNN_STATUS_OK)
            status = MDNN_STATUS_OK;
        else
            status = wait_for_uses(memory, first, 0);
    }
    first->held--;
    mdnn_allocation_end(memory, first); /* if it was exchanged */
    return status;
}

mdnn_status_t mdnn_memory_allocate(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                   uint64_t *address)
{
    mdnn_acquired_t got;
    mdnn_turn_t turn;
    bool host;
    mdnn_allocation_t *allocation = new_allocation();
    if (!allocation)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_status_t status =
        mdnn_memory_acquire(memory, bytes, stream, first_use(memory, bytes), &turn, &got);
    if (status != MDNN_STATUS_OK) {
        free_allocation(allocation);
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            note_refusal(memory, bytes);
        return status;
    }
    fill_allocation(memory, allocation, got.address, bytes);
    link_allocation(memory, allocation);
    status = follow_users(memory, allocation, stream, &got, &host);
    allocation->held++;
    mdnn_memory_end_quiet(memory);
    mdnn_memory_end_turn(memory, &turn);
    allocation->held--;
    if (status == MDNN_STATUS_OK && host)
        status = wait_for_users(memory, &allocation, stream);
    if (status == MDNN_STATUS_OK)
        *address = allocation->address;
    else
        forget(memory, allocation); /* ranges.c still knows the earlier users */
    mdnn_memory_check(memory);
    return status;
}

/* ---- free ---- */

/* What is whole and mapped is released with its uses, and nobody waits. In VERIFY nothing that is
 * freed stays mapped. */
static bool release(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->range && (mdnn_range_chunks(allocation->range).mapped < allocation->count ||
                              memory->config.safety == MDNN_SAFETY_VERIFY)) {
        if (!mdnn_allocation_uses_over(memory, allocation) ||
            mdnn_range_hide(memory->ranges, allocation->range, 0) != MDNN_STATUS_OK ||
            mdnn_allocation_uncover(memory, allocation) != MDNN_STATUS_OK)
            return false;
        mdnn_range_drop(memory->ranges, allocation->range);
        return true;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].position != 0)
            allocation->uses[kept++] = allocation->uses[i];
    allocation->use_count = kept;
    return mdnn_ranges_release(memory->ranges, allocation->address, allocation->freed_in,
                               allocation->uses, kept) == MDNN_STATUS_OK;
}

void mdnn_allocation_end(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (!allocation->freed || allocation->held + allocation->pins + allocation->idlers > 0)
        return;
    if (allocation->state != MDNN_ALLOCATION_ENDING) {
        mdnn_allocation_stop(memory, allocation);
        allocation->state = MDNN_ALLOCATION_ENDING;
        mdnn_list_add(&memory->endings, allocation);
        if (allocation->range && allocation->stays)
            memory->stuck_bytes -= allocation->room;
    }
    if (allocation->in_flight[0] + allocation->in_flight[1] > 0 || !release(memory, allocation))
        return; /* mdnn_memory_progress tries again */
    memory->steps++;
    for (; allocation->slots_from < allocation->count; allocation->slots_from++) {
        memory->device.give_slot(memory->context, allocation->slots[allocation->slots_from]);
        memory->report.host_bytes -= memory->chunk_bytes;
    }
    mdnn_list_remove(&memory->endings, allocation);
    *(allocation->previous ? &allocation->previous->next : &memory->allocations) = allocation->next;
    if (allocation->next)
        allocation->next->previous = allocation->previous;
    free_allocation(allocation);
}

/* Without memory to note its last use: that is over before it is freed. */
static mdnn_status_t free_later(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                mdnn_stream_point_t now)
{
    allocation->held++;
    const mdnn_status_t status = mdnn_memory_wait(memory, now);
    allocation->held--;
    if (status == MDNN_STATUS_OK && !allocation->freed)
        forget(memory, allocation);
    else
        mdnn_allocation_end(memory,
                            allocation); /* freed by another thread meanwhile, which is an error */
    mdnn_memory_check(memory);
    return status;
}

mdnn_status_t mdnn_memory_free(mdnn_memory_t *memory, uint64_t address, uint64_t stream)
{
    mdnn_allocation_t *const allocation = find_live(memory, address);
    if (!allocation || allocation->address != address)
        return MDNN_STATUS_NOT_FOUND;
    const mdnn_stream_point_t now = memory->device.mark(memory->context, stream);
    if (mdnn_allocation_reserve_use(memory, allocation, stream) == MDNN_STATUS_OK)
        mdnn_allocation_note_use(allocation, now);
    else
        return free_later(memory, allocation, now);
    if (allocation->pins == 0) /* else a graph may use it after this */
        allocation->freed_in = stream;
    forget(memory, allocation);
    mdnn_memory_check(memory);
    return MDNN_STATUS_OK;
}

bool mdnn_memory_find(const mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                      uint64_t *bytes)
{
    const mdnn_allocation_t *const allocation = find_live(memory, address);
    if (!allocation)
        return false;
    *start = allocation->address;
    *bytes = allocation->bytes;
    return true;
}

uint64_t mdnn_memory_number(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = find_live(memory, address);
    return allocation ? allocation->number : 0;
}

mdnn_status_t mdnn_memory_wait_idle(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = find_live(memory, address);
    if (!allocation)
        return MDNN_STATUS_NOT_FOUND;
    allocation->idlers++;
    mdnn_status_t status = wait_for_uses(memory, allocation, 0);
    allocation->idlers--;
    mdnn_allocation_end(memory, allocation);
    if (status == MDNN_STATUS_OK)
        status = mdnn_memory_wait_untracked(memory);
    return status == MDNN_STATUS_OK ? mdnn_memory_wait_for_all(memory) : status;
}

/* ---- pins ---- */

void mdnn_allocation_pin(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->pins++ == 0 && allocation->range && !allocation->stays)
        memory->stuck_bytes += allocation->room;
}

void mdnn_allocation_unpin(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->pins == 0 || --allocation->pins > 0)
        return;
    if (allocation->range && !allocation->stays) {
        memory->stuck_bytes -= allocation->room;
        mdnn_allocation_note_movable(memory, allocation);
    }
    if (allocation->freed)
        allocation->gone = memory->began;
    mdnn_allocation_end(memory, allocation);
}

/* With the turn. */
static mdnn_status_t try_pin(mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                             mdnn_patience_t *patience)
{
    mdnn_allocation_t *const allocation = find_kept(memory, address);
    if (!allocation)
        return MDNN_STATUS_NOT_FOUND;
    allocation->held++;
    mdnn_status_t status = mdnn_memory_demand(memory, &allocation, 1, patience);
    if (status == MDNN_STATUS_OK && memory->config.safety == MDNN_SAFETY_VERIFY &&
        allocation->range) {
        status = mdnn_memory_wait_for_earlier(memory);
        if (status == MDNN_STATUS_OK)
            status = mdnn_allocation_show(memory, allocation, true);
    }
    allocation->held--;
    if (status == MDNN_STATUS_OK) {
        mdnn_allocation_pin(memory, allocation);
        *start = allocation->address;
    } else if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {
        mdnn_memory_refused(memory, allocation->room + mdnn_memory_stuck_bytes(memory), false);
    }
    if (status != MDNN_STATUS_OK)
        mdnn_allocation_end(memory, allocation); /* it may have been freed meanwhile */
    return status;
}

mdnn_status_t mdnn_memory_pin(mdnn_memory_t *memory, uint64_t address, uint64_t *start)
{
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_turn_t turn;
    MDNN_TRY(mdnn_memory_take_turn(memory, &turn));
    mdnn_status_t status;
    while ((status = try_pin(memory, address, start, &patience)) == MDNN_STATUS_BUSY &&
           !mdnn_memory_serves_all(memory))
        MDNN_TRY(mdnn_memory_pass_turn(memory, &turn));
    mdnn_memory_end_turn(memory, &turn);
    mdnn_memory_check(memory);
    return status;
}

void mdnn_memory_unpin(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    if (allocation)
        mdnn_allocation_unpin(memory, allocation);
    mdnn_memory_check(memory);
}

bool mdnn_memory_revive(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = find_kept(memory, address);
    if (!allocation || !allocation->freed)
        return false;
    allocation->freed = false;
    begin_life(memory, allocation);
    mdnn_memory_check(memory);
    return true;
}

bool mdnn_memory_is_held(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = find_kept(memory, address);
    return allocation && allocation->pins > allocation->live_pins;
}

mdnn_status_t mdnn_memory_pin_live(mdnn_memory_t *memory, uint64_t address, mdnn_live_pin_t *pin)
{
    uint64_t start;
    if (!find_live(memory, address))
        return MDNN_STATUS_NOT_FOUND;
    MDNN_TRY(mdnn_memory_pin(memory, address, &start));
    mdnn_allocation_t *const allocation = find_live(memory, start);
    if (!allocation) { /* freed while it was made resident */
        mdnn_memory_unpin(memory, start);
        return MDNN_STATUS_NOT_FOUND;
    }
    allocation->live_pins++;
    *pin = (mdnn_live_pin_t){start, allocation->number};
    return MDNN_STATUS_OK;
}

void mdnn_memory_unpin_live(mdnn_memory_t *memory, mdnn_live_pin_t pin)
{
    mdnn_allocation_t *const allocation = find_live(memory, pin.address);
    if (!allocation || allocation->number != pin.number || allocation->live_pins == 0)
        return;
    allocation->live_pins--;
    mdnn_allocation_unpin(memory, allocation);
    mdnn_memory_check(memory);
}

bool mdnn_memory_has_live_pins(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = find_live(memory, address);
    return allocation && allocation->live_pins > 0;
}

bool mdnn_memory_can_stay(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = find_kept(memory, address);
    return !allocation || !allocation->range || allocation->stays || allocation->pins > 0 ||
           allocation->room <= mdnn_memory_available(memory);
}

/* ---- report ---- */

mdnn_memory_report_t mdnn_memory_report(const mdnn_memory_t *memory)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    mdnn_memory_report_t report = memory->report;
    report.budget_bytes = memory->config.budget_bytes;
    report.resident_bytes =
        mdnn_ranges_chunks_there(&counts) * memory->chunk_bytes + memory->aside_bytes;
    report.other_bytes = memory->aside_bytes;
    report.peak_resident_bytes = memory->peak_resident_bytes;
    if (report.operations > 0)
        report.average_resident_bytes =
            memory->resident_sum / report.operations * memory->chunk_bytes;
    report.pinned_live_bytes = mdnn_memory_stuck_bytes(memory);
    if (has_gone_on(memory))
        report.refused_optional += memory->wanting.count;
    else
        report.wanting_bytes = memory->wanting.bytes;
    report.mapped = counts.mapped;
    report.unmapped = counts.unmapped;
    if (memory->watch.iterations > 0)
        report.iteration_us = memory->watch.sum_us / (double)memory->watch.iterations;
    return report;
}

mdnn_follower_report_t mdnn_memory_follower_report(const mdnn_memory_t *memory)
{
    return mdnn_follower_report(memory->follower);
}

uint64_t mdnn_memory_available(const mdnn_memory_t *memory)
{
    const uint64_t largest = memory->report.largest_operation_bytes,
                   live = memory->live_room_bytes; /* no operation on what is alive takes more */
    const uint64_t taken = mdnn_memory_stuck_bytes(memory) + (largest < live ? largest : live);
    const uint64_t budget = memory->chunk_limit * memory->chunk_bytes;
    return budget > taken ? budget - taken : 0;
}
