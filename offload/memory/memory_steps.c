/* Each move is taken a step further: chunks are unmapped, copied, given away, taken, mapped. Nothing here waits. */
#include "config/extremes.h"
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_moves.h"
#include "offload/memory/memory_ahead.h"
#include "offload/memory/memory_remaps.h"

#include <stdlib.h>
#include <string.h>

static bool may_send(const mdnn_memory_t *memory, bool out)
{
    const size_t count = memory->flights[out].count;
    return count < 2 ||
           (count < MDNN_FLIGHTS && (count + 1) * memory->chunk_bytes <= MDNN_FLIGHT_BYTES);
}

static bool send(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t index, bool out)
{
    mdnn_flights_t *const flights = &memory->flights[out];
    const uint64_t before = index * memory->chunk_bytes;
    const uint64_t left = allocation->bytes - before;
    const uint64_t bytes = left < memory->chunk_bytes ? left : memory->chunk_bytes;
    mdnn_flight_t *const flight = &flights->ring[(flights->first + flights->count) % MDNN_FLIGHTS];
    mdnn_status_t status = MDNN_STATUS_OK;
    flight->end = (mdnn_stream_point_t){0, 0};
    if (bytes > 0) /* else it is the chunk behind an end (mdnn_ranges_config_t.ended_chunks) */
        status = memory->device.copy(memory->context, out,
                                     mdnn_range_chunks(allocation->range).chunks[index],
                                     allocation->slots[index], bytes, &flight->end);
    if (status != MDNN_STATUS_OK) {
        memory->trouble = status;
        return false;
    }
    flight->allocation = allocation;
    flight->discarded = allocation->discarded;
    flights->count++;
    allocation->in_flight[out]++;
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
        if (flight->end.position != 0 && !memory->device.is_done(memory->context, flight->end))
            return;
        mdnn_allocation_t *const allocation = flight->allocation;
        flights->first = (flights->first + 1) % MDNN_FLIGHTS;
        flights->count--;
        allocation->in_flight[out]--;
        memory->steps++;
        if (!out)
            allocation->filled++;
        else if (flight->discarded == allocation->discarded || MDNN_FAULT(DISCARDED_COPY_COUNTS))
            allocation->clean--;
        else
            mdnn_allocation_trim_slots(memory, allocation);
    }
}

/* ---- out ---- */

mdnn_status_t mdnn_allocation_take_slots(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (!allocation->slots)
        allocation->slots = calloc(allocation->count, sizeof *allocation->slots);
    if (!allocation->slots)
        return MDNN_STATUS_OUT_OF_MEMORY;
    while (allocation->slots_from > allocation->target) {
        const mdnn_status_t status = memory->device.take_slot(
            memory->context, &allocation->slots[allocation->slots_from - 1]);
        memory->report.host_short += status == MDNN_STATUS_OUT_OF_MEMORY;
        MDNN_TRY(status);
        allocation->slots_from--;
        memory->report.host_bytes += memory->chunk_bytes;
        memory->steps++;
    }
    if (!MDNN_FAULT(BLANK_AGAIN_WHEN_IT_LEFT))
        allocation->blank = false;
    mdnn_allocation_end_question(memory, allocation);
    return MDNN_STATUS_OK;
}

/* One slot for each chunk whose content is not on the host. What is blank needs none, unless
 * something of it has been mapped: then what is in the slots of the rest will do. */
static mdnn_status_t take_slots(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const bool has_content =
        allocation->clean > allocation->target && !MDNN_FAULT(BLANK_LEAVES_WITHOUT_SLOTS);
    if (allocation->blank && !has_content && !MDNN_FAULT(BLANK_STAYS_FOR_WANT_OF_SLOTS))
        return MDNN_STATUS_OK;
    return mdnn_allocation_take_slots(memory, allocation);
}

/* Copies out of what is unmapped. */
static void send_out(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    while (!allocation->dropped && allocation->out_sent > allocation->target &&
           (allocation->out_sent > mdnn_range_chunks(allocation->range).mapped ||
            MDNN_FAULT(LEAVES_MAPPED)) &&
           may_send(memory, true) && send(memory, allocation, allocation->out_sent - 1, true))
        allocation->out_sent--;
}

static uint64_t mapped_chunks(const mdnn_allocation_t *allocation)
{
    return mdnn_range_chunks(allocation->range).mapped;
}

/* All that leaves, and each chunk is copied while the next is unmapped: together that takes as long
 * as the slower of the two. */
static mdnn_status_t unmap_and_send(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    MDNN_TRY(mdnn_allocation_note_remap(memory, allocation));
    if (allocation->remap != 0 || mapped_chunks(allocation) <= allocation->target ||
        mdnn_allocation_remap(memory, allocation, allocation->target))
        return MDNN_STATUS_OK;
    while (mapped_chunks(allocation) > allocation->target && !MDNN_FAULT(LEAVES_MAPPED)) {
        MDNN_TRY(mdnn_range_hide(memory->ranges, allocation->range, mapped_chunks(allocation) - 1));
        send_out(memory, allocation);
    }
    memory->steps++;
    return MDNN_STATUS_OK;
}

/* Nothing works on it any more. */
static mdnn_status_t begin_to_unmap(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t owned = mdnn_allocation_owned(allocation);
    allocation->cut = true;
    allocation->departures += !allocation->dropped;
    memory->steps++;
    mdnn_allocation_announce(memory, MDNN_MEMORY_LEAVE, allocation, allocation->target, owned);
    if (allocation->clean < owned && !allocation->blank)
        memory->report.saved_bytes +=
            mdnn_allocation_bytes_from(memory, allocation, allocation->clean) -
            mdnn_allocation_bytes_from(memory, allocation, owned);
    return unmap_and_send(memory, allocation);
}

/* What it has stays there; with HOST all of it, or a part would be without memory. */
static void stay(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    mdnn_allocation_return(memory, allocation,
                           mdnn_memory_serves_all(memory) ? allocation->count
                                                          : mdnn_allocation_owned(allocation));
}

/* OK: it is unmapped from `target` on, or will be. BUSY: not yet. */
static mdnn_status_t cut_off(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->cut)
        return unmap_and_send(memory, allocation);
    MDNN_TRY(mdnn_allocation_note_remap(memory, allocation));
    const bool in_use =
        (!mdnn_allocation_uses_over(memory, allocation) && !MDNN_FAULT(LEAVES_WHILE_IN_USE)) ||
        (allocation->demanded && mdnn_allocation_used_by_others(allocation));
    if (in_use || allocation->in_flight[false] > 0 || allocation->in_flight[true] > 0 ||
        allocation->remap != 0)
        return MDNN_STATUS_BUSY;
    MDNN_TRY(mdnn_allocation_judge(memory, allocation));
    MDNN_TRY(mdnn_allocation_uncover(memory, allocation));
    if (allocation->dropping) {
        mdnn_allocation_drop(memory, allocation);
        return begin_to_unmap(memory, allocation);
    }
    const mdnn_status_t status = take_slots(memory, allocation);
    memory->slot_busy = memory->slot_busy || status == MDNN_STATUS_BUSY;
    MDNN_TRY(status);
    return begin_to_unmap(memory, allocation);
}

/* Gives its chunks from `keep` on to others. */
static void give_chunks(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t keep)
{
    if (mdnn_allocation_owned(allocation) <= keep)
        return;
    mdnn_range_give(memory->ranges, allocation->range, keep);
    if (!MDNN_FAULT(KEEPS_NOTHING_BUT_SAYS_SO))
        allocation->filled = allocation->in_sent = mdnn_min(allocation->filled, keep);
    memory->steps++;
}

static void step_out(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const mdnn_status_t status = cut_off(memory, allocation);
    if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY) {
        if (status != MDNN_STATUS_OUT_OF_MEMORY)
            memory->trouble = status;
        stay(memory, allocation);
    }
    if (status != MDNN_STATUS_OK)
        return;
    send_out(memory, allocation);
    if (allocation->dropped)
        allocation->clean = allocation->out_sent =
            mdnn_min(allocation->clean, mapped_chunks(allocation));
    const uint64_t stays = mdnn_min(allocation->target, allocation->filled);
    const uint64_t not_copied =
        MDNN_FAULT(GIVES_BEFORE_THE_COPY_ENDED) ? allocation->out_sent : allocation->clean;
    give_chunks(memory, allocation, not_copied > stays ? not_copied : stays);
    if (allocation->clean <= stays && allocation->remap == 0) {
        mdnn_allocation_stop(memory, allocation);
        allocation->state = MDNN_ALLOCATION_AWAY;
        memory->steps++; /* who waits for that may go on, though nothing else has changed */
        mdnn_allocation_trim_slots(memory, allocation);
        mdnn_allocation_cover(memory, allocation);
    }
}

/* ---- back ---- */

/* Whether it is worth a try: in vain, it would take released ranges apart that a request could
 * have as they are. */
static bool may_take(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    if (allocation->held + allocation->pins > 0)
        return true;
    const uint64_t there = mdnn_ranges_chunks_there(&counts);
    const uint64_t more = memory->chunk_limit > there ? memory->chunk_limit - there : 0;
    const bool demanding = memory->demanding && !MDNN_FAULT(RETURNS_TAKE_FROM_DEMANDS);
    return !demanding && allocation->target - mdnn_allocation_owned(allocation) <=
                             mdnn_memory_chunks_not_in_use(memory) + more;
}

/* All or none of the chunks up to `upto`. What the host would have to wait for is `wanted`. */
static bool take_chunks(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    if (allocation->held + allocation->pins > 0)
        mdnn_memory_end_ahead(memory);
    const mdnn_status_t status =
        mdnn_range_take(memory->ranges, allocation->range, upto, &waits, &wait_count);
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
static void take_some(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (mdnn_memory_serves_all(memory))
        return;
    do {
        const uint64_t spare = mdnn_ranges_counts(memory->ranges).chunks_spare;
        const uint64_t upto = mdnn_allocation_owned(allocation) + (spare > 0 ? spare : 1);
        if (!take_chunks(memory, allocation, mdnn_min(upto, allocation->target)))
            return;
    } while (mdnn_allocation_owned(allocation) < allocation->target);
}

/* What is not waited for takes what is spare, and the rest is unmapped for it in the background. false: that will not
 * be enough, or cannot be done. */
static bool take_later(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t missing = allocation->target - mdnn_allocation_owned(allocation);
    if (allocation->held + allocation->pins > 0 || mdnn_memory_serves_all(memory) ||
        mdnn_memory_chunks_there(memory) < memory->chunk_limit)
        return false;
    mdnn_memory_reclaim(memory, missing);
    const uint64_t spare = mdnn_ranges_counts(memory->ranges).chunks_spare;
    if (spare + mdnn_memory_chunks_ahead(memory) < missing)
        return false;
    if (spare > 0)
        (void)take_chunks(memory, allocation,
                          mdnn_allocation_owned(allocation) + mdnn_min(spare, missing));
    return true;
}

/* false: it lacks chunks. */
static bool find_chunks(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t owned = mdnn_allocation_owned(allocation);
    if (owned < allocation->target && may_take(memory, allocation) &&
        !take_later(memory, allocation) && !take_chunks(memory, allocation, allocation->target))
        take_some(memory, allocation);
    const bool has_all = mdnn_allocation_owned(allocation) >= allocation->target;
    if (mdnn_allocation_owned(allocation) == owned)
        return has_all;
    memory->steps++;
    if (owned == allocation->filled) /* else some of it is under way already */
        mdnn_allocation_announce(memory, MDNN_MEMORY_RETURN, allocation, allocation->filled,
                                 allocation->target);
    if (has_all && allocation->held + allocation->pins == 0 &&
        allocation->target == allocation->count)
        memory->report.planned_returns++;
    return has_all;
}

/* What is blank has no slots yet. */
static mdnn_status_t take_slots_for_cover(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    return allocation->blank && !MDNN_FAULT(BLANK_TAIL_HAS_NO_SLOTS)
               ? mdnn_allocation_take_slots(memory, allocation)
               : MDNN_STATUS_OK;
}

static void take_back_covers(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t before = memory->steps;
    if (!MDNN_FAULT(FAILED_COVERS_STAY))
        (void)mdnn_allocation_uncover(memory, allocation);
    memory->steps = before; /* nothing has changed for who waits */
}

/* Covers what lies behind the chunks that it has: it is SPLIT. If slots or calls fail, it stays as it is. */
static void end_split(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->in_flight[false] + allocation->in_flight[true] > 0)
        return; /* a copy out that does not count any more may write to a slot */
    mdnn_status_t status = take_slots_for_cover(memory, allocation);
    if (status == MDNN_STATUS_BUSY)
        memory->slot_busy = true;
    if (status == MDNN_STATUS_OK) {
        status = mdnn_allocation_cover_from(memory, allocation, allocation->target);
        if (status != MDNN_STATUS_OK) {
            memory->trouble = status;
            take_back_covers(memory, allocation);
        }
    }
    if (status != MDNN_STATUS_OK)
        return;
    mdnn_allocation_stop(memory, allocation);
    allocation->state = MDNN_ALLOCATION_SPLIT;
    allocation->sealed = false;
    mdnn_allocation_trim_slots(memory, allocation);
    memory->steps++;
}

/* As much of it is there as is to be there. */
static void end_return(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->covers) {
        give_chunks(memory, allocation, allocation->target);
        end_split(memory, allocation);
        return;
    }
    mdnn_allocation_stop(memory, allocation);
    if (allocation->target == allocation->count) {
        mdnn_allocation_settle_down(memory, allocation);
        return;
    }
    allocation->state = MDNN_ALLOCATION_AWAY;
    give_chunks(memory, allocation, allocation->target);
    mdnn_allocation_trim_slots(memory, allocation);
}

/* Copies to its first chunks, which it has. */
static void send_in(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    const bool has_content = !allocation->blank || MDNN_FAULT(BLANK_IS_COPIED_IN);
    if (!has_content && allocation->filled < upto) { /* there is nothing to wait for */
        allocation->filled = allocation->in_sent = upto;
        memory->steps++;
    }
    while (allocation->in_sent < upto && may_send(memory, false) &&
           send(memory, allocation, allocation->in_sent, false))
        allocation->in_sent++;
}

/* Whether no slot is mapped where chunks are to be, or where nothing is to be. It may be in use still. false: not yet.
 */
static bool bare(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const bool may_be_covered = allocation->covers || mdnn_memory_serves_all(memory);
    if (allocation->covered_from == allocation->count ||
        (may_be_covered && allocation->covered_from >= allocation->target))
        return true;
    const bool in_use =
        !mdnn_allocation_uses_over(memory, allocation) && !MDNN_FAULT(UNCOVERED_WHILE_IN_USE);
    if (in_use || mdnn_allocation_used_by_others(allocation))
        return false;
    const mdnn_status_t status = mdnn_allocation_uncover(memory, allocation);
    if (status != MDNN_STATUS_OK)
        memory->trouble = status;
    return status == MDNN_STATUS_OK;
}

/* Maps its first `upto` chunks, which have their content. */
static mdnn_status_t map_chunks(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    const uint64_t before = mapped_chunks(allocation);
    if (memory->config.safety == MDNN_SAFETY_VERIFY || before >= upto)
        return MDNN_STATUS_OK;
    if (mdnn_allocation_remap(memory, allocation, upto)) {
        mdnn_allocation_exposed(memory, allocation);
        return MDNN_STATUS_OK;
    }
    const mdnn_status_t status = mdnn_range_show(memory->ranges, allocation->range, upto);
    memory->steps += mapped_chunks(allocation) - before;
    mdnn_memory_count_mapped(memory, allocation, mapped_chunks(allocation) - before);
    if (mapped_chunks(allocation) > before)
        mdnn_allocation_exposed(memory, allocation);
    return status;
}

/* The same; BUSY: it is done in the background. What is waited for is not left to that. */
static mdnn_status_t go_on_mapping(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                   uint64_t upto)
{
    const bool wanted = allocation->held + allocation->pins > 0;
    MDNN_TRY(wanted ? mdnn_allocation_end_remap(memory, allocation, true)
                    : mdnn_allocation_note_remap(memory, allocation));
    return allocation->remap != 0 ? MDNN_STATUS_BUSY : map_chunks(memory, allocation, upto);
}

/* Copies to and maps the chunks that it has. */
static void fill_chunks(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t upto = mdnn_min(mdnn_allocation_owned(allocation), allocation->target);
    if (!bare(memory, allocation))
        return;
    send_in(memory, allocation, upto);
    const uint64_t arrived =
        MDNN_FAULT(MAPS_BEFORE_THE_COPY_ENDED) ? allocation->in_sent : allocation->filled;
    const mdnn_status_t status = go_on_mapping(memory, allocation, mdnn_min(arrived, upto));
    if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY)
        memory->trouble = status;
    if (allocation->filled >= allocation->target &&
        mdnn_allocation_mapped_enough(memory, allocation, allocation->target) &&
        (allocation->target == allocation->count || allocation->in_flight[false] == 0 ||
         MDNN_FAULT(GIVES_WHILE_A_COPY_COMES))) /* what it gives is idle */
        end_return(memory, allocation);
}

/* false: it lacks chunks. */
static bool step_back(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const bool has_all = find_chunks(memory, allocation);
    if (has_all || !mdnn_memory_serves_all(memory))
        fill_chunks(memory, allocation);
    return has_all;
}

/* What is waited for comes first; of what was planned, nothing overtakes one that lacks chunks. */
static void step_all_back(mdnn_memory_t *memory)
{
    mdnn_allocation_t *next;
    bool blocked = false, fits = true;
    uint64_t missing = 0;
    for (mdnn_allocation_t *allocation = memory->returning.first; allocation; allocation = next) {
        next = allocation->next_move;
        if (allocation->held + allocation->pins > 0)
            step_back(memory, allocation);
    }
    for (mdnn_allocation_t *allocation = memory->returning.first; allocation; allocation = next) {
        next = allocation->next_move;
        if (allocation->held + allocation->pins > 0)
            continue;
        if (!blocked || mdnn_allocation_owned(allocation) >= allocation->target)
            blocked = !step_back(memory, allocation) || blocked;
        if (allocation->state != MDNN_ALLOCATION_RETURNING || !fits)
            continue;
        const uint64_t lacks =
            allocation->target - mdnn_min(allocation->target, mdnn_allocation_owned(allocation));
        fits = missing + lacks <= mdnn_memory_chunks_not_in_use(memory) ||
               MDNN_FAULT(TAKEN_APART_IN_VAIN);
        missing += fits ? lacks : 0;
    }
    if (blocked && !memory->demanding && mdnn_memory_chunks_there(memory) >= memory->chunk_limit)
        mdnn_memory_reclaim(memory, missing);
}

static void announce_ran(const mdnn_memory_t *memory, const mdnn_timing_t *timing, double time_us)
{
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_RAN,
                                       .key = timing->key,
                                       .name = timing->name,
                                       .stream = timing->stream,
                                       .time_us = time_us,
                                       .enqueued_us = timing->enqueued_us};
    mdnn_memory_announce(memory, &event);
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
            mdnn_follower_timed(memory->follower, timing.sequence, time_us);
        if (status == MDNN_STATUS_OK && timing.traced)
            announce_ran(memory, &timing, time_us);
        memory->first_timing = (memory->first_timing + 1) % MDNN_TIMINGS;
        memory->timing_count--;
    }
}

static void end_look(mdnn_memory_t *memory)
{
    memset(memory->undone, 0, sizeof memory->undone);
    memory->looking = false;
}

bool mdnn_memory_progress(mdnn_memory_t *memory)
{
    mdnn_allocation_t *next;
    const uint64_t before = memory->steps;
    read_timings(memory);
    memory->slot_busy = false;
    memory->wanted.position = 0;
    mdnn_memory_note_ahead(memory);
    if (!memory->leaving.first && !memory->returning.first && !memory->endings.first &&
        memory->flights[0].count + memory->flights[1].count == 0)
        return mdnn_memory_chunks_ahead(memory) > 0;
    land(memory, true);
    land(memory, false);
    memory->looking = true;
    for (mdnn_allocation_t *allocation = memory->endings.first; allocation; allocation = next) {
        next = allocation->next_move;
        mdnn_allocation_end(memory, allocation);
    }
    const bool may_move =
        memory->quiet || !mdnn_memory_serves_all(memory) || MDNN_FAULT(MOVES_GO_ON_AFTERWARDS);
    bool waiting = false;
    for (mdnn_allocation_t *allocation = may_move ? memory->leaving.first : NULL; allocation;
         allocation = next) {
        next = allocation->next_move;
        step_out(memory, allocation);
        waiting = waiting || (allocation->state == MDNN_ALLOCATION_LEAVING &&
                              !mdnn_allocation_uses_over(memory, allocation));
    }
    if (may_move)
        step_all_back(memory);
    end_look(memory);
    mdnn_memory_check(memory);
    return waiting || memory->slot_busy || memory->steps != before || memory->remaps > 0 ||
           mdnn_memory_chunks_ahead(memory) > 0 ||
           memory->flights[0].count + memory->flights[1].count > 0;
}
