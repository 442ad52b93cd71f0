/* Allocations of virtual memory, pins, the report. */
#include "offload/memory/memory_internal.h"

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

static bool is_done(void *context, mdnn_ticket_t ticket)
{
    mdnn_memory_t *const memory = context;
    return memory->device.is_done(memory->context, ticket);
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
        made->pilot = mdnn_pilot_create(&config->pilot);
        status = made->pilot ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status == MDNN_STATUS_OK)
        *memory = made;
    else
        mdnn_memory_destroy(made);
    return status;
}

static void free_uses(mdnn_area_t *area)
{
    if (area->uses != area->first_uses)
        free(area->uses);
}

static void free_area(mdnn_area_t *area)
{
    free_uses(area);
    free(area->slots);
    free(area);
}

void mdnn_memory_destroy(mdnn_memory_t *memory)
{
    if (!memory)
        return;
    while (memory->areas) {
        mdnn_area_t *const area = memory->areas;
        memory->areas = area->next;
        free_area(area);
    }
    free_uses(&memory->all);
    mdnn_pilot_destroy(memory->pilot);
    mdnn_ranges_destroy(memory->ranges);
    free(memory->uses);
    free(memory->streams);
    free(memory->unseen);
    free(memory);
}

/* ---- areas ---- */

mdnn_area_t *mdnn_area_find(const mdnn_memory_t *memory, uint64_t address, uint64_t began)
{
    mdnn_area_t *const area = mdnn_ranges_owner(memory->ranges, address);
    return area && area->born < began && began <= area->gone ? area : NULL;
}

/* Not freed. */
static mdnn_area_t *find_live(const mdnn_memory_t *memory, uint64_t address)
{
    mdnn_area_t *const area = mdnn_ranges_owner(memory->ranges, address);
    return area && !area->freed ? area : NULL;
}

/* Not freed, or pinned still: nobody else can have its addresses. */
static mdnn_area_t *find_kept(const mdnn_memory_t *memory, uint64_t address)
{
    mdnn_area_t *const area = mdnn_ranges_owner(memory->ranges, address);
    return area && (!area->freed || area->pins > 0) ? area : NULL;
}

mdnn_status_t mdnn_area_reserve_use(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t stream)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < area->use_count; i++)
        if (area->uses[i].stream == stream)
            return MDNN_STATUS_OK;
    if (area->use_count == area->use_room && area->held == 0) { /* none is only reserved */
        mdnn_area_uses_over(memory, area);
        for (uint32_t i = 0; i < area->use_count; i++)
            if (area->uses[i].moment != 0)
                area->uses[kept++] = area->uses[i];
        area->use_count = kept;
    }
    if (area->use_count == area->use_room) {
        const bool inside = area->uses == area->first_uses;
        mdnn_ticket_t *const uses =
            reallocarray(inside ? NULL : area->uses, area->use_room * 2, sizeof *uses);
        if (!uses)
            return MDNN_STATUS_OUT_OF_MEMORY;
        if (inside)
            memcpy(uses, area->first_uses, sizeof area->first_uses);
        area->uses = uses;
        area->use_room *= 2;
    }
    area->uses[area->use_count++] = (mdnn_ticket_t){stream, 0};
    return MDNN_STATUS_OK;
}

void mdnn_area_note_use(mdnn_area_t *area, mdnn_ticket_t ticket)
{
    for (uint32_t i = 0; i < area->use_count; i++)
        if (area->uses[i].stream == ticket.stream)
            area->uses[i].moment = ticket.moment;
}

void mdnn_memory_tell(const mdnn_memory_t *memory, const mdnn_memory_event_t *event)
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

static void begin_life(mdnn_memory_t *memory, mdnn_area_t *area)
{
    memory->report.live_bytes += area->bytes;
    memory->live_room_bytes += area->room;
    memory->loose_bytes += mdnn_area_loose_bytes(memory, area);
    if (memory->report.peak_live_bytes < memory->report.live_bytes)
        memory->report.peak_live_bytes = memory->report.live_bytes;
    area->pilot_range = mdnn_pilot_begin_range(memory->pilot, area->room, area->stays, area);
}

static void link_area(mdnn_memory_t *memory, mdnn_area_t *area)
{
    area->next = memory->areas;
    if (area->next)
        area->next->previous = area;
    memory->areas = area;
    mdnn_ranges_set_owner(memory->ranges, area->address, area);
    if (area->range && area->stays)
        memory->stuck_bytes += area->room;
    begin_life(memory, area);
}

static void fill_area(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t address, uint64_t bytes)
{
    enum { GRANULE = 512 };              /* of blocks */
    static _Atomic uint64_t last_number; /* of all devices: one that was reset may have its
                                            addresses once more */
    area->number = atomic_fetch_add(&last_number, 1) + 1;
    area->address = address;
    area->bytes = bytes;
    area->range = mdnn_ranges_at(memory->ranges, address);
    if (area->range)
        area->count = mdnn_range_chunks(area->range).count;
    area->room =
        area->range ? area->count * memory->chunk_bytes : (bytes + GRANULE - 1) / GRANULE * GRANULE;
    area->stays = !area->range ||
                  (bytes < memory->config.min_bytes && mdnn_memory_can_hold(memory, area->room));
    if (!area->stays)
        mdnn_area_note_movable(memory, area);
    area->born = memory->began;
    area->gone = UINT64_MAX;
    area->freed_in = MDNN_NO_ORDER;
    area->blank = area->range && mdnn_area_owned(area) < area->count;
    area->slots_from = area->count;
    area->filled = area->in_sent = area->out_sent = area->clean = area->blank ? 0 : area->count;
    area->state = area->blank ? MDNN_AREA_AWAY : MDNN_AREA_RESIDENT;
    area->last_use = memory->report.operations;
}

/* Has `stream` wait for earlier users of the memory. Those for whom it cannot are uses of the area
 * from now on, and *host says that the host must wait for them. What they do in `stream` itself needs
 * no wait there, but must be over before the memory leaves. */
static mdnn_status_t follow_users(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t stream,
                                  const mdnn_allocation_t *got, bool *host)
{
    *host = false;
    MDNN_TRY(mdnn_area_reserve_use(memory, area, stream)); /* cannot fail: it is the first */
    for (size_t i = 0; i < got->wait_count; i++) {
        if (memory->device.wait_in_stream(memory->context, stream, got->waits[i]) == MDNN_STATUS_OK)
            continue;
        MDNN_TRY(mdnn_area_reserve_use(memory, area, got->waits[i].stream));
        mdnn_area_note_use(area, got->waits[i]);
        *host = true;
    }
    mdnn_area_note_use(area, memory->device.mark(memory->context, stream));
    return MDNN_STATUS_OK;
}

/* Held. Host wait until nothing that is known uses it. BUSY: not within `seconds`; 0: as long as the
 * device does anything. */
static mdnn_status_t wait_for_uses(mdnn_memory_t *memory, mdnn_area_t *area, double seconds)
{
    for (uint32_t i = 0; i < area->use_count;) {
        const mdnn_ticket_t use = area->uses[i];
        if (use.moment == 0 || memory->device.is_done(memory->context, use))
            i++;
        else
            MDNN_TRY(seconds > 0 ? mdnn_memory_wait_a_while(memory, use, seconds)
                                 : mdnn_memory_wait(memory, use));
    }
    return MDNN_STATUS_OK;
}

static void forget(mdnn_memory_t *memory, mdnn_area_t *area)
{
    for (; area->live_pins > 0; area->live_pins--)
        mdnn_area_unpin(memory, area);
    area->freed = true;
    if (area->pins == 0)
        area->gone = memory->began;
    memory->report.live_bytes -= area->bytes;
    memory->live_room_bytes -= area->room;
    memory->loose_bytes -= mdnn_area_loose_bytes(memory, area);
    mdnn_pilot_end_range(memory->pilot, area->pilot_range);
    area->pilot_range = MDNN_NO_POSITION;
    mdnn_area_end(memory, area);
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
    return mdnn_pilot_first_use(memory->pilot, mdnn_ranges_chunks_for(memory->ranges, bytes) *
                                                   memory->chunk_bytes);
}

static mdnn_area_t *new_area(void)
{
    mdnn_area_t *const area = calloc(1, sizeof *area);
    if (area) {
        area->uses = area->first_uses;
        area->use_room = MDNN_INLINE_USES;
    }
    return area;
}

/* Memory whose users do not end soon is given back, and addresses alone taken, whose first use finds
 * other memory. NOT_FOUND: not here. */
static mdnn_status_t exchange(mdnn_memory_t *memory, mdnn_area_t **area, uint64_t stream)
{
    mdnn_allocation_t bare;
    const uint64_t bytes = (*area)->bytes;
    if (memory->config.safety != MDNN_SAFETY_FAST || memory->unseen_open > 0 || (*area)->stays ||
        (*area)->pins > 0)
        return MDNN_STATUS_NOT_FOUND;
    mdnn_area_t *const other = new_area();
    if (!other)
        return MDNN_STATUS_NOT_FOUND;
    if (mdnn_memory_reserve(memory, bytes, &bare) != MDNN_STATUS_OK) {
        free_area(other);
        return MDNN_STATUS_NOT_FOUND;
    }
    forget(memory, *area);
    fill_area(memory, other, bare.address, bytes);
    link_area(memory, other);
    (void)mdnn_area_reserve_use(memory, other, stream);
    mdnn_area_note_use(other, memory->device.mark(memory->context, stream));
    *area = other;
    return MDNN_STATUS_OK;
}

/* Nobody knows the allocation yet, but it must not leave meanwhile. */
static mdnn_status_t wait_for_users(mdnn_memory_t *memory, mdnn_area_t **area, uint64_t stream)
{
    static const double moment_s = 0.02;
    mdnn_area_t *const first = *area;
    first->held++;
    mdnn_status_t status = wait_for_uses(memory, first, moment_s);
    if (status == MDNN_STATUS_BUSY) {
        if (exchange(memory, area, stream) == MDNN_STATUS_OK)
            status = MDNN_STATUS_OK;
        else
            status = wait_for_uses(memory, first, 0);
    }
    first->held--;
    mdnn_area_end(memory, first); /* if it was exchanged */
    return status;
}

mdnn_status_t mdnn_memory_allocate(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                   uint64_t *address)
{
    mdnn_allocation_t got;
    mdnn_turn_t turn;
    bool host;
    mdnn_area_t *area = new_area();
    if (!area)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_status_t status =
        mdnn_memory_acquire(memory, bytes, stream, first_use(memory, bytes), &turn, &got);
    if (status != MDNN_STATUS_OK) {
        free_area(area);
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            note_refusal(memory, bytes);
        return status;
    }
    fill_area(memory, area, got.address, bytes);
    link_area(memory, area);
    status = follow_users(memory, area, stream, &got, &host);
    area->held++;
    mdnn_memory_end_quiet(memory);
    mdnn_memory_end_turn(memory, &turn);
    area->held--;
    if (status == MDNN_STATUS_OK && host)
        status = wait_for_users(memory, &area, stream);
    if (status == MDNN_STATUS_OK)
        *address = area->address;
    else
        forget(memory, area); /* ranges.c still knows the earlier users */
    return status;
}

/* ---- free ---- */

/* What is whole and mapped is released with its uses, and nobody waits. In VERIFY nothing that is
 * freed stays mapped. */
static bool release(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->range && (mdnn_range_chunks(area->range).mapped < area->count ||
                        memory->config.safety == MDNN_SAFETY_VERIFY)) {
        if (!mdnn_area_uses_over(memory, area) ||
            mdnn_range_hide(memory->ranges, area->range, 0) != MDNN_STATUS_OK ||
            mdnn_area_uncover(memory, area) != MDNN_STATUS_OK)
            return false;
        mdnn_range_drop(memory->ranges, area->range);
        return true;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < area->use_count; i++)
        if (area->uses[i].moment != 0)
            area->uses[kept++] = area->uses[i];
    area->use_count = kept;
    return mdnn_ranges_release(memory->ranges, area->address, area->freed_in, area->uses, kept) ==
           MDNN_STATUS_OK;
}

void mdnn_area_end(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (!area->freed || area->held + area->pins + area->idlers > 0)
        return;
    if (area->state != MDNN_AREA_ENDING) {
        mdnn_area_stop(memory, area);
        area->state = MDNN_AREA_ENDING;
        mdnn_list_add(&memory->endings, area);
        if (area->range && area->stays)
            memory->stuck_bytes -= area->room;
    }
    if (area->in_flight[0] + area->in_flight[1] > 0 || !release(memory, area))
        return; /* mdnn_memory_progress tries again */
    memory->steps++;
    for (; area->slots_from < area->count; area->slots_from++) {
        memory->device.give_slot(memory->context, area->slots[area->slots_from]);
        memory->report.host_bytes -= memory->chunk_bytes;
    }
    mdnn_list_remove(&memory->endings, area);
    *(area->previous ? &area->previous->next : &memory->areas) = area->next;
    if (area->next)
        area->next->previous = area->previous;
    free_area(area);
}

/* Without memory to note its last use: that is over before it is freed. */
static mdnn_status_t free_later(mdnn_memory_t *memory, mdnn_area_t *area, mdnn_ticket_t now)
{
    area->held++;
    const mdnn_status_t status = mdnn_memory_wait(memory, now);
    area->held--;
    if (status == MDNN_STATUS_OK && !area->freed)
        forget(memory, area);
    else
        mdnn_area_end(memory, area); /* freed by another thread meanwhile, which is an error */
    return status;
}

mdnn_status_t mdnn_memory_free(mdnn_memory_t *memory, uint64_t address, uint64_t stream)
{
    mdnn_area_t *const area = find_live(memory, address);
    if (!area || area->address != address)
        return MDNN_STATUS_NOT_FOUND;
    const mdnn_ticket_t now = memory->device.mark(memory->context, stream);
    if (mdnn_area_reserve_use(memory, area, stream) == MDNN_STATUS_OK)
        mdnn_area_note_use(area, now);
    else
        return free_later(memory, area, now);
    if (area->pins == 0) /* else a graph may use it after this */
        area->freed_in = stream;
    forget(memory, area);
    return MDNN_STATUS_OK;
}

bool mdnn_memory_find(const mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                      uint64_t *bytes)
{
    const mdnn_area_t *const area = find_live(memory, address);
    if (!area)
        return false;
    *start = area->address;
    *bytes = area->bytes;
    return true;
}

uint64_t mdnn_memory_number(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_area_t *const area = find_live(memory, address);
    return area ? area->number : 0;
}

mdnn_status_t mdnn_memory_wait_idle(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_area_t *const area = find_live(memory, address);
    if (!area)
        return MDNN_STATUS_NOT_FOUND;
    area->idlers++;
    mdnn_status_t status = wait_for_uses(memory, area, 0);
    area->idlers--;
    mdnn_area_end(memory, area);
    if (status == MDNN_STATUS_OK)
        status = mdnn_memory_wait_unseen(memory);
    return status == MDNN_STATUS_OK ? mdnn_memory_wait_for_all(memory) : status;
}

/* ---- pins ---- */

void mdnn_area_pin(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->pins++ == 0 && area->range && !area->stays)
        memory->stuck_bytes += area->room;
}

void mdnn_area_unpin(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->pins == 0 || --area->pins > 0)
        return;
    if (area->range && !area->stays) {
        memory->stuck_bytes -= area->room;
        mdnn_area_note_movable(memory, area);
    }
    if (area->freed)
        area->gone = memory->began;
    mdnn_area_end(memory, area);
}

/* With the turn. */
static mdnn_status_t try_pin(mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                             mdnn_patience_t *patience)
{
    mdnn_area_t *const area = find_kept(memory, address);
    if (!area)
        return MDNN_STATUS_NOT_FOUND;
    area->held++;
    mdnn_status_t status = mdnn_memory_demand(memory, &area, 1, patience);
    if (status == MDNN_STATUS_OK && memory->config.safety == MDNN_SAFETY_VERIFY && area->range) {
        status = mdnn_memory_wait_for_earlier(memory);
        if (status == MDNN_STATUS_OK)
            status = mdnn_area_show(memory, area, true);
    }
    area->held--;
    if (status == MDNN_STATUS_OK) {
        mdnn_area_pin(memory, area);
        *start = area->address;
    } else if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {
        mdnn_memory_refused(memory, area->room + mdnn_memory_stuck_bytes(memory), false);
    }
    if (status != MDNN_STATUS_OK)
        mdnn_area_end(memory, area); /* it may have been freed meanwhile */
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
    return status;
}

void mdnn_memory_unpin(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_area_t *const area = mdnn_ranges_owner(memory->ranges, address);
    if (area)
        mdnn_area_unpin(memory, area);
}

bool mdnn_memory_revive(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_area_t *const area = find_kept(memory, address);
    if (!area || !area->freed)
        return false;
    area->freed = false;
    begin_life(memory, area);
    return true;
}

bool mdnn_memory_is_held(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_area_t *const area = find_kept(memory, address);
    return area && area->pins > area->live_pins;
}

mdnn_status_t mdnn_memory_pin_live(mdnn_memory_t *memory, uint64_t address, mdnn_live_pin_t *pin)
{
    uint64_t start;
    if (!find_live(memory, address))
        return MDNN_STATUS_NOT_FOUND;
    MDNN_TRY(mdnn_memory_pin(memory, address, &start));
    mdnn_area_t *const area = find_live(memory, start);
    if (!area) { /* freed while it was made resident */
        mdnn_memory_unpin(memory, start);
        return MDNN_STATUS_NOT_FOUND;
    }
    area->live_pins++;
    *pin = (mdnn_live_pin_t){start, area->number};
    return MDNN_STATUS_OK;
}

void mdnn_memory_unpin_live(mdnn_memory_t *memory, mdnn_live_pin_t pin)
{
    mdnn_area_t *const area = find_live(memory, pin.address);
    if (!area || area->number != pin.number || area->live_pins == 0)
        return;
    area->live_pins--;
    mdnn_area_unpin(memory, area);
}

bool mdnn_memory_has_live_pins(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_area_t *const area = find_live(memory, address);
    return area && area->live_pins > 0;
}

bool mdnn_memory_can_stay(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_area_t *const area = find_kept(memory, address);
    return !area || !area->range || area->stays || area->pins > 0 ||
           area->room <= mdnn_memory_available(memory);
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
    if (memory->watch.rounds > 0)
        report.round_us = memory->watch.sum_us / (double)memory->watch.rounds;
    return report;
}

mdnn_pilot_report_t mdnn_memory_pilot_report(const mdnn_memory_t *memory)
{
    return mdnn_pilot_report(memory->pilot);
}

uint64_t mdnn_memory_available(const mdnn_memory_t *memory)
{
    const uint64_t largest = memory->report.largest_operation_bytes,
                   live = memory->live_room_bytes; /* no operation on what is alive takes more */
    const uint64_t taken = mdnn_memory_stuck_bytes(memory) + (largest < live ? largest : live);
    const uint64_t budget = memory->chunk_limit * memory->chunk_bytes;
    return budget > taken ? budget - taken : 0;
}
