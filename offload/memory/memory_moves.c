/* The way of a range out of device memory and back, step by step. Nothing here waits. */
#include "offload/memory/memory_internal.h"

#include <stdlib.h>

void mdnn_list_add(mdnn_area_list_t *list, mdnn_area_t *area)
{
    area->next_move = NULL;
    area->before_move = list->last;
    *(list->last ? &list->last->next_move : &list->first) = area;
    list->last = area;
}

void mdnn_list_remove(mdnn_area_list_t *list, mdnn_area_t *area)
{
    *(area->before_move ? &area->before_move->next_move : &list->first) = area->next_move;
    *(area->next_move ? &area->next_move->before_move : &list->last) = area->before_move;
    area->next_move = area->before_move = NULL;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes of its content from chunk `from` on. */
static uint64_t bytes_from(const mdnn_memory_t *memory, const mdnn_area_t *area, uint64_t from)
{
    const uint64_t before = from * memory->chunk_bytes;
    return before < area->bytes ? area->bytes - before : 0;
}

/* What is blank takes chunks, but nothing comes back. */
static bool is_no_move(mdnn_memory_event_kind_t kind, const mdnn_area_t *area)
{
    return area->blank && (kind == MDNN_MEMORY_RETURN || kind == MDNN_MEMORY_RETURNED);
}

/* Of what moves: chunks from `from` up to `to`. */
static void tell(const mdnn_memory_t *memory, mdnn_memory_event_kind_t kind,
                 const mdnn_area_t *area, uint64_t from, uint64_t to)
{
    const mdnn_memory_event_t event = {.kind = kind,
                                       .address = area->address,
                                       .bytes = bytes_from(memory, area, from) -
                                                bytes_from(memory, area, to)};
    if (!is_no_move(kind, area))
        mdnn_memory_tell(memory, &event);
}

static void tell_end(const mdnn_memory_t *memory, mdnn_memory_event_kind_t kind,
                     const mdnn_area_t *area)
{
    const mdnn_memory_event_t event = {
        .kind = kind, .address = area->address, .bytes = area->bytes};
    if (!is_no_move(kind, area))
        mdnn_memory_tell(memory, &event);
}

bool mdnn_area_can_leave(const mdnn_area_t *area)
{
    return !area->stays && !area->freed && area->held == 0 && area->pins == 0;
}

bool mdnn_area_uses_over(mdnn_memory_t *memory, mdnn_area_t *area)
{
    for (uint32_t i = 0; i < area->use_count; i++) {
        if (area->uses[i].moment == 0)
            continue;
        if (!memory->device.is_done(memory->context, area->uses[i]))
            return false;
        area->uses[i].moment = 0;
        memory->steps++; /* who saw it unfinished a moment ago looks again */
    }
    return mdnn_memory_unseen_over(memory);
}

/* VERIFY maps what an operation names, when it begins. */
static bool mapped_enough(const mdnn_memory_t *memory, const mdnn_area_t *area, uint64_t upto)
{
    return memory->config.safety == MDNN_SAFETY_VERIFY ||
           mdnn_range_chunks(area->range).mapped >= upto;
}

/* Gives back host slots without content, unless copies out still write them, or will. */
static void trim_slots(mdnn_memory_t *memory, mdnn_area_t *area)
{
    const uint64_t upto = area->blank ? area->count : area->clean;
    if (area->in_flight[true] > 0 || area->state == MDNN_AREA_LEAVING)
        return;
    for (; area->slots_from < upto; area->slots_from++) {
        memory->device.give_slot(memory->context, area->slots[area->slots_from]);
        memory->report.host_bytes -= memory->chunk_bytes;
    }
}

static void discard_copies_out(mdnn_area_t *area)
{
    area->discarded++;
    area->out_sent = area->clean;
}

void mdnn_area_exposed(mdnn_memory_t *memory, mdnn_area_t *area)
{
    const uint64_t mapped = mdnn_range_chunks(area->range).mapped;
    if (area->clean >= mapped)
        return;
    area->clean = mapped;
    discard_copies_out(area);
    trim_slots(memory, area);
}

void mdnn_area_stop(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->state == MDNN_AREA_LEAVING) {
        mdnn_list_remove(&memory->leaving, area);
        discard_copies_out(area);
        if (area->cut)
            tell_end(memory, MDNN_MEMORY_LEFT, area);
        area->cut = false;
    } else if (area->state == MDNN_AREA_RETURNING) {
        mdnn_list_remove(&memory->returning, area);
        if (mdnn_area_owned(area) >= area->target)
            tell_end(memory, MDNN_MEMORY_RETURNED, area);
    }
}

/* What goes already goes on; the rest is cut off, too. */
static void leave_more(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->cut)
        tell_end(memory, MDNN_MEMORY_LEFT, area);
    area->cut = false;
}

void mdnn_area_leave(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t keep)
{
    if (area->state == MDNN_AREA_LEAVING) {
        leave_more(memory, area);
    } else {
        mdnn_area_stop(memory, area);
        area->state = MDNN_AREA_LEAVING;
        mdnn_list_add(&memory->leaving, area);
    }
    area->target = keep;
    memory->steps++;
}

static void settle_down(mdnn_memory_t *memory, mdnn_area_t *area)
{
    area->state = MDNN_AREA_RESIDENT;
    area->blank = false;
    area->clean = area->count; /* from now on it may be written, by whoever is named or not */
    discard_copies_out(area);
    trim_slots(memory, area);
    memory->steps++;
}

static void begin_return(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t upto)
{
    area->state = MDNN_AREA_RETURNING;
    area->target = upto;
    mdnn_list_add(&memory->returning, area);
    trim_slots(memory, area);
    memory->steps++;
    if (mdnn_area_owned(area) >= upto)
        tell(memory, MDNN_MEMORY_RETURN, area, area->filled, upto);
}

static void raise_target(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t upto)
{
    if (area->target >= upto)
        return;
    area->target = upto;
    memory->steps++;
}

static void call_off(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t upto)
{
    /* What is to be there has not gone yet: it stays, and the rest goes on leaving. */
    if (upto <= area->target || (upto < area->count && upto <= area->clean)) {
        raise_target(memory, area, upto);
        return;
    }
    memory->report.called_off++;
    mdnn_area_stop(memory, area);
    if (area->filled == area->count && mapped_enough(memory, area, area->count))
        settle_down(memory, area);
    else
        begin_return(memory, area, upto);
}

void mdnn_area_return(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t upto)
{
    if (area->state == MDNN_AREA_LEAVING)
        call_off(memory, area, upto);
    else if (area->state == MDNN_AREA_RETURNING)
        raise_target(memory, area, upto);
    else if (area->state == MDNN_AREA_AWAY && mdnn_area_owned(area) < upto)
        begin_return(memory, area, upto);
}

void mdnn_area_give_up(mdnn_memory_t *memory, mdnn_area_t *area)
{
    const uint64_t owned = mdnn_area_owned(area);
    if (area->filled < owned || area->in_flight[false] > 0 ||
        (owned > 0 && mdnn_memory_serves_all(memory))) /* a part of it would be without memory */
        return;
    mdnn_list_remove(&memory->returning, area);
    area->state = MDNN_AREA_AWAY;
}

mdnn_status_t mdnn_area_show(mdnn_memory_t *memory, mdnn_area_t *area, bool shown)
{
    memory->steps++;
    return shown ? mdnn_range_show(memory->ranges, area->range, area->count)
                 : mdnn_range_hide(memory->ranges, area->range, 0);
}

/* ---- copies ---- */

static bool may_send(const mdnn_memory_t *memory, bool out)
{
    const size_t count = memory->flights[out].count;
    return count < 2 ||
           (count < MDNN_FLIGHTS && (count + 1) * memory->chunk_bytes <= MDNN_FLIGHT_BYTES);
}

static bool send(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t index, bool out)
{
    mdnn_flights_t *const flights = &memory->flights[out];
    const uint64_t before = index * memory->chunk_bytes;
    const uint64_t left = area->bytes - before;
    const uint64_t bytes = left < memory->chunk_bytes ? left : memory->chunk_bytes;
    mdnn_flight_t *const flight = &flights->ring[(flights->first + flights->count) % MDNN_FLIGHTS];
    mdnn_status_t status = MDNN_STATUS_OK;
    flight->end = (mdnn_ticket_t){0, 0};
    if (bytes > 0) /* else it is the chunk behind an end (mdnn_ranges_config_t.ended_chunks) */
        status =
            memory->device.copy(memory->context, out, mdnn_range_chunks(area->range).chunks[index],
                                area->slots[index], bytes, &flight->end);
    if (status != MDNN_STATUS_OK) {
        memory->trouble = status;
        return false;
    }
    flight->area = area;
    flight->discarded = area->discarded;
    flights->count++;
    area->in_flight[out]++;
    *(out ? &memory->report.out_bytes : &memory->report.in_bytes) += bytes;
    memory->steps++;
    return true;
}

/* Takes note of copies that have ended. */
static void land(mdnn_memory_t *memory, bool out)
{
    mdnn_flights_t *const flights = &memory->flights[out];
    while (flights->count > 0) {
        const mdnn_flight_t *const flight = &flights->ring[flights->first];
        if (flight->end.moment != 0 && !memory->device.is_done(memory->context, flight->end))
            return;
        mdnn_area_t *const area = flight->area;
        flights->first = (flights->first + 1) % MDNN_FLIGHTS;
        flights->count--;
        area->in_flight[out]--;
        memory->steps++;
        if (!out)
            area->filled++;
        else if (flight->discarded == area->discarded)
            area->clean--;
        else
            trim_slots(memory, area);
    }
}

/* ---- out ---- */

/* One slot for each chunk whose content is not on the host. What is blank needs none, unless
 * something of it has been mapped: then what is in the slots of the rest will do. */
static mdnn_status_t take_slots(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->blank && area->clean <= area->target)
        return MDNN_STATUS_OK;
    if (!area->slots)
        area->slots = calloc(area->count, sizeof *area->slots);
    if (!area->slots)
        return MDNN_STATUS_OUT_OF_MEMORY;
    while (area->slots_from > area->target) {
        const mdnn_status_t status =
            memory->device.take_slot(memory->context, &area->slots[area->slots_from - 1]);
        memory->report.host_short += status == MDNN_STATUS_OUT_OF_MEMORY;
        MDNN_TRY(status);
        area->slots_from--;
        memory->report.host_bytes += memory->chunk_bytes;
        memory->steps++;
    }
    area->blank = false;
    return MDNN_STATUS_OK;
}

/* Copies out of what is unmapped. */
static void send_out(mdnn_memory_t *memory, mdnn_area_t *area)
{
    while (area->out_sent > area->target &&
           area->out_sent > mdnn_range_chunks(area->range).mapped && may_send(memory, true) &&
           send(memory, area, area->out_sent - 1, true))
        area->out_sent--;
}

/* All that leaves, and each chunk is copied while the next is unmapped: together that takes as long
 * as the slower of the two. */
static mdnn_status_t unmap_and_send(mdnn_memory_t *memory, mdnn_area_t *area)
{
    uint64_t mapped;
    area->cut = true;
    tell(memory, MDNN_MEMORY_LEAVE, area, area->target, mdnn_area_owned(area));
    while ((mapped = mdnn_range_chunks(area->range).mapped) > area->target) {
        MDNN_TRY(mdnn_range_hide(memory->ranges, area->range, mapped - 1));
        send_out(memory, area);
    }
    if (area->clean < mdnn_area_owned(area) && !area->blank)
        memory->report.saved_bytes +=
            bytes_from(memory, area, area->clean) - bytes_from(memory, area, mdnn_area_owned(area));
    memory->steps++;
    return MDNN_STATUS_OK;
}

/* What it has stays there; with HOST all of it, or a part would be without memory. */
static void stay(mdnn_memory_t *memory, mdnn_area_t *area)
{
    mdnn_area_return(memory, area,
                     mdnn_memory_serves_all(memory) ? area->count : mdnn_area_owned(area));
}

/* Whether nothing works on it at its own address any more, and nothing can. */
static bool cut_off(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (area->cut)
        return true;
    if (!mdnn_area_uses_over(memory, area) || area->in_flight[false] > 0 ||
        area->in_flight[true] > 0)
        return false;
    mdnn_status_t status = take_slots(memory, area);
    if (status == MDNN_STATUS_BUSY) {
        memory->slot_busy = true;
        return false;
    }
    if (status == MDNN_STATUS_OK)
        status = unmap_and_send(memory, area);
    if (status != MDNN_STATUS_OK) {
        if (status != MDNN_STATUS_OUT_OF_MEMORY)
            memory->trouble = status;
        stay(memory, area);
    }
    return status == MDNN_STATUS_OK;
}

/* Gives its chunks from `keep` on to others. */
static void give_chunks(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t keep)
{
    if (mdnn_area_owned(area) <= keep)
        return;
    mdnn_range_give(memory->ranges, area->range, keep);
    area->filled = area->in_sent = least_of(area->filled, keep);
    memory->steps++;
}

static void step_out(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (!cut_off(memory, area))
        return;
    send_out(memory, area);
    const uint64_t stays = least_of(area->target, area->filled);
    give_chunks(memory, area, area->clean > stays ? area->clean : stays);
    if (area->clean <= stays) {
        mdnn_area_stop(memory, area);
        area->state = MDNN_AREA_AWAY;
        trim_slots(memory, area);
        mdnn_area_cover(memory, area);
    }
}

/* ---- back ---- */

/* Whether it is worth a try: in vain, it would take released ranges apart that a request could
 * have as they are. */
static bool may_take(const mdnn_memory_t *memory, const mdnn_area_t *area)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    if (area->held + area->pins > 0)
        return true;
    const uint64_t there = mdnn_ranges_chunks_there(&counts);
    const uint64_t more = memory->chunk_limit > there ? memory->chunk_limit - there : 0;
    return !memory->demanding &&
           area->target - mdnn_area_owned(area) <= counts.chunks_spare + counts.chunks_kept + more;
}

/* All or none of the chunks up to `upto`. What the host would have to wait for is `wanted`. */
static bool take_chunks(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t upto)
{
    const mdnn_ticket_t *waits;
    size_t wait_count;
    const mdnn_status_t status =
        mdnn_range_take(memory->ranges, area->range, upto, &waits, &wait_count);
    if (status == MDNN_STATUS_BUSY && wait_count > 0)
        memory->wanted = waits[0];
    else if (status == MDNN_STATUS_BUSY)
        memory->steps++; /* over meanwhile: ask again */
    else if (status != MDNN_STATUS_OK && status != MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        memory->trouble = status;
    return status == MDNN_STATUS_OK;
}

/* It takes what there is, and its copies begin: what is planned has its memory in the plan, and
 * what is waited for would get it anyway. Then that waits for what is free next, not for all that
 * it lacks. With HOST an address would be without memory for longer. */
static void take_some(mdnn_memory_t *memory, mdnn_area_t *area)
{
    if (mdnn_memory_serves_all(memory))
        return;
    do {
        const uint64_t spare = mdnn_ranges_counts(memory->ranges).chunks_spare;
        const uint64_t upto = mdnn_area_owned(area) + (spare > 0 ? spare : 1);
        if (!take_chunks(memory, area, least_of(upto, area->target)))
            return;
    } while (mdnn_area_owned(area) < area->target);
}

/* false: it lacks chunks. */
static bool find_chunks(mdnn_memory_t *memory, mdnn_area_t *area)
{
    const uint64_t owned = mdnn_area_owned(area);
    if (owned < area->target && may_take(memory, area) && !take_chunks(memory, area, area->target))
        take_some(memory, area);
    const bool has_all = mdnn_area_owned(area) >= area->target;
    if (mdnn_area_owned(area) == owned)
        return has_all;
    memory->steps++;
    if (owned == area->filled) /* else some of it is under way already */
        tell(memory, MDNN_MEMORY_RETURN, area, area->filled, area->target);
    if (has_all && area->held + area->pins == 0 && area->target == area->count)
        memory->report.planned_returns++;
    return has_all;
}

/* As much of it is there as is to be there. */
static void end_return(mdnn_memory_t *memory, mdnn_area_t *area)
{
    mdnn_area_stop(memory, area);
    if (area->target == area->count) {
        settle_down(memory, area);
        return;
    }
    area->state = MDNN_AREA_AWAY;
    give_chunks(memory, area, area->target);
    trim_slots(memory, area);
}

/* Copies to its first chunks, which it has. */
static void send_in(mdnn_memory_t *memory, mdnn_area_t *area, uint64_t upto)
{
    if (area->blank && area->filled < upto) { /* there is nothing to wait for */
        area->filled = area->in_sent = upto;
        memory->steps++;
    }
    while (area->in_sent < upto && may_send(memory, false) &&
           send(memory, area, area->in_sent, false))
        area->in_sent++;
}

/* Copies to and maps the chunks that it has. */
static void fill_chunks(mdnn_memory_t *memory, mdnn_area_t *area)
{
    const uint64_t upto = least_of(mdnn_area_owned(area), area->target);
    mdnn_status_t status = mdnn_area_uncover(memory, area);
    if (status != MDNN_STATUS_OK) {
        memory->trouble = status;
        return;
    }
    send_in(memory, area, upto);
    const uint64_t before = mdnn_range_chunks(area->range).mapped;
    if (memory->config.safety != MDNN_SAFETY_VERIFY)
        status = mdnn_range_show(memory->ranges, area->range, least_of(area->filled, upto));
    memory->steps += mdnn_range_chunks(area->range).mapped - before;
    if (mdnn_range_chunks(area->range).mapped > before)
        mdnn_area_exposed(memory, area);
    if (status != MDNN_STATUS_OK)
        memory->trouble = status;
    if (area->filled >= area->target && mapped_enough(memory, area, area->target) &&
        (area->target == area->count || area->in_flight[false] == 0)) /* what it gives is idle */
        end_return(memory, area);
}

/* false: it lacks chunks. */
static bool step_back(mdnn_memory_t *memory, mdnn_area_t *area)
{
    const bool has_all = find_chunks(memory, area);
    if (has_all || !mdnn_memory_serves_all(memory))
        fill_chunks(memory, area);
    return has_all;
}

/* What is waited for comes first; of what was planned, nothing overtakes one that lacks chunks. */
static void step_all_back(mdnn_memory_t *memory)
{
    mdnn_area_t *next;
    bool blocked = false;
    for (mdnn_area_t *area = memory->returning.first; area; area = next) {
        next = area->next_move;
        if (area->held + area->pins > 0)
            step_back(memory, area);
    }
    for (mdnn_area_t *area = memory->returning.first; area; area = next) {
        next = area->next_move;
        if (area->held + area->pins == 0 && (!blocked || mdnn_area_owned(area) >= area->target))
            blocked = !step_back(memory, area) || blocked;
    }
}

static void read_timings(mdnn_memory_t *memory)
{
    while (memory->timing_count > 0) {
        const mdnn_timing_t timing = memory->timings[memory->first_timing];
        double time_us;
        const mdnn_status_t status =
            memory->device.time_read(memory->context, timing.token, &time_us);
        if (status == MDNN_STATUS_BUSY)
            return;
        if (status == MDNN_STATUS_OK && timing.sequence != UINT64_MAX)
            mdnn_pilot_timed(memory->pilot, timing.sequence, time_us);
        memory->first_timing = (memory->first_timing + 1) % MDNN_TIMINGS;
        memory->timing_count--;
    }
}

bool mdnn_memory_progress(mdnn_memory_t *memory)
{
    mdnn_area_t *next;
    const uint64_t before = memory->steps;
    read_timings(memory);
    memory->slot_busy = false;
    memory->wanted.moment = 0;
    if (!memory->leaving.first && !memory->returning.first && !memory->endings.first &&
        memory->flights[0].count + memory->flights[1].count == 0)
        return false;
    land(memory, true);
    land(memory, false);
    for (mdnn_area_t *area = memory->endings.first; area; area = next) {
        next = area->next_move;
        mdnn_area_end(memory, area);
    }
    const bool may_move = memory->quiet || !mdnn_memory_serves_all(memory);
    bool waiting = false;
    for (mdnn_area_t *area = may_move ? memory->leaving.first : NULL; area; area = next) {
        next = area->next_move;
        step_out(memory, area);
        waiting =
            waiting || (area->state == MDNN_AREA_LEAVING && !mdnn_area_uses_over(memory, area));
    }
    if (may_move)
        step_all_back(memory);
    return waiting || memory->slot_busy || memory->steps != before ||
           memory->flights[0].count + memory->flights[1].count > 0;
}
