/* What every part of the mechanism asks and notes: how many chunks there are and may be, what was refused,
 * what happens. Moves nothing, and waits for nothing. */
#include "config/fault.h"
#include "config/extremes.h"
#include "offload/memory/memory_internal.h"

#include <stdlib.h>

bool mdnn_memory_serves_all(const mdnn_memory_t *memory)
{
    return memory->config.safety == MDNN_SAFETY_HOST;
}

bool mdnn_memory_has_tails(const mdnn_memory_t *memory)
{
    return memory->config.tail &&
           (memory->config.safety != MDNN_SAFETY_VERIFY || MDNN_FAULT(VERIFY_HAS_TAILS));
}

bool mdnn_allocation_used_by_others(const mdnn_allocation_t *allocation)
{
    return allocation->held > (allocation->demanded ? 1 : 0) &&
           !MDNN_FAULT(SPLIT_WHILE_OTHERS_HOLD_IT);
}

uint64_t mdnn_memory_chunks_ahead(const mdnn_memory_t *memory)
{
    uint64_t chunks = 0;
    for (int i = 0; i < MDNN_AHEAD; i++)
        if (memory->ahead[i].range)
            chunks += mdnn_range_chunks(memory->ahead[i].range).owned;
    return chunks;
}

uint64_t mdnn_memory_chunks_not_in_use(const mdnn_memory_t *memory)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    return counts.chunks_spare + counts.chunks_free + mdnn_memory_chunks_ahead(memory);
}

mdnn_status_t mdnn_memory_end_change(mdnn_memory_t *memory, uint64_t token, bool all,
                                     uint64_t *done)
{
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = memory->device.remap_end(memory->context, token, all, done);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_mapping, begin_us);
    return status;
}

/* Beginning it again would look like progress to who waits for that. */
void mdnn_memory_note_failed_remap(mdnn_memory_t *memory, mdnn_status_t status)
{
    memory->trouble = status;
    if (!MDNN_FAULT(FAILED_REMAPS_BEGIN_AGAIN))
        memory->remap_failed = memory->began + 1;
}

uint64_t mdnn_memory_chunks_there(const mdnn_memory_t *memory)
{
    return memory->report.created - memory->report.destroyed;
}

uint64_t mdnn_memory_chunks_allowed(const mdnn_memory_t *memory)
{
    const uint64_t others = memory->aside_bytes + memory->claimed_bytes + memory->foreign_bytes,
                   budget = memory->config.budget_bytes;
    return others < budget ? (budget - others) / memory->chunk_bytes : 0;
}

/* Another process may take what is free until the chunks are made; so they are asked for anew from time to time. */
void mdnn_memory_look_for_room(mdnn_memory_t *memory, uint64_t chunks)
{
    enum { AHEAD = 16 };
    const uint64_t there = mdnn_memory_chunks_there(memory), budget = memory->config.budget_bytes;
    if (!memory->device.room || chunks <= mdnn_max(there, memory->chunks_known) ||
        MDNN_FAULT(OTHER_PROCESSES_ARE_IGNORED))
        return;
    const uint64_t room = memory->device.room(memory->context);
    const uint64_t possible = there * memory->chunk_bytes + memory->aside_bytes + room;
    const uint64_t before = memory->foreign_bytes;
    memory->foreign_bytes = budget > possible ? budget - possible : 0;
    memory->chunks_known =
        there + mdnn_min(room / memory->chunk_bytes, mdnn_max(AHEAD, chunks - there));
    if (memory->foreign_bytes != before)
        memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
}

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

void mdnn_memory_note_live(mdnn_memory_t *memory)
{
    const uint64_t live = memory->report.live_bytes - memory->question_bytes;
    if (memory->report.peak_live_bytes < live)
        memory->report.peak_live_bytes = live;
}

void mdnn_memory_announce(const mdnn_memory_t *memory, const mdnn_memory_event_t *event)
{
    if (!memory->device.event)
        return;
    mdnn_memory_event_t announced = *event;
    announced.resident_bytes = mdnn_ranges_counts(memory->ranges).chunks_live * memory->chunk_bytes;
    memory->device.event(memory->context, &announced);
}

/* Whether the program has gone on since what was refused last: it could do without. */
bool mdnn_memory_has_gone_on(const mdnn_memory_t *memory)
{
    enum { OPERATIONS = 100 }; /* more than the end of a program makes */
    return memory->report.operations - memory->wanting.since >= OPERATIONS &&
           !MDNN_FAULT(REFUSED_IS_NEEDED_FOR_EVER);
}

void mdnn_memory_note_wanting(mdnn_memory_t *memory, uint64_t needed_bytes)
{
    if (mdnn_memory_has_gone_on(memory)) {
        memory->report.refused_optional += memory->wanting.count;
        memory->wanting.count = memory->wanting.bytes = 0;
    }
    if (memory->wanting.bytes < needed_bytes && !MDNN_FAULT(REFUSED_IS_NOT_NEEDED))
        memory->wanting.bytes = needed_bytes;
    memory->wanting.count++;
    memory->wanting.since = memory->report.operations;
}

/* What is on the host already stays: something else was to follow it. */
void mdnn_memory_note_host_needed(mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t wanted =
        bytes > 0 && !MDNN_FAULT(HOST_NEEDED_WITHOUT_REQUEST)
            ? mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes
            : 0;
    const uint64_t all = memory->live_room_bytes + wanted,
                   device = mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes;
    memory->report.host_needed_bytes =
        mdnn_max(all - mdnn_min(all, device), memory->report.host_bytes + memory->chunk_bytes);
    if (memory->report.host_short > memory->host_short_before) /* what is refused lacks it */
        memory->report.most_host_needed_bytes =
            mdnn_max(memory->report.most_host_needed_bytes, memory->report.host_needed_bytes);
}

void mdnn_memory_refused(mdnn_memory_t *memory, uint64_t needed_bytes, bool needed)
{
    needed_bytes += memory->aside_bytes + memory->claimed_bytes;
    memory->report.refused++;
    mdnn_memory_note_host_needed(memory, 0);
    if (needed)
        mdnn_memory_note_wanting(memory, needed_bytes);
    if (memory->report.refused_budget_bytes < needed_bytes)
        memory->report.refused_budget_bytes = needed_bytes;
}

void mdnn_allocation_free_uses(mdnn_allocation_t *allocation)
{
    if (allocation->uses != allocation->first_uses)
        free(allocation->uses);
}

void mdnn_allocation_destroy(mdnn_allocation_t *allocation)
{
    mdnn_allocation_free_uses(allocation);
    free(allocation->slots);
    free(allocation);
}

void mdnn_memory_note_part(mdnn_memory_t *memory, mdnn_host_time_kind_t kind, double begin_us)
{
    mdnn_host_time_take(&memory->report.host_time, kind,
                        memory->device.now_us(memory->context) - begin_us);
}

void mdnn_memory_count_mapped(mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                              uint64_t chunks)
{
    *(allocation->blank ? &memory->report.mapped_at_first_use : &memory->report.mapped_returned) +=
        chunks;
}
