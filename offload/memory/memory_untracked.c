/* Work whose memory nobody knows: it may use anything. It is let through where everything is
 * RESIDENT, and then nothing is unmapped, nor handed on, before it has ended. */
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_waits.h"

#include <stdlib.h>

/* A library that is called may want memory of its own; what it asks for finds room without anything
 * leaving. */
enum { SHARE_OF_ROOM = 8 };

static bool has_room(const mdnn_memory_t *memory)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    const uint64_t limit = mdnn_memory_chunks_allowed(memory);
    const uint64_t there = mdnn_ranges_chunks_there(&counts);
    const uint64_t room =
        mdnn_memory_chunks_not_in_use(memory) + (limit > there ? limit - there : 0);
    return room > limit / SHARE_OF_ROOM;
}

bool mdnn_memory_untracked_begin(mdnn_memory_t *memory)
{
    mdnn_memory_answer_question(memory);
    if (memory->config.safety != MDNN_SAFETY_FAST || !has_room(memory))
        return false;
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (!allocation->freed &&
            (allocation->state != MDNN_ALLOCATION_RESIDENT || allocation->dropped) &&
            !MDNN_FAULT(UNTRACKED_ALTHOUGH_AWAY))
            return false;
    memory->untracked_open++;
    return true;
}

static mdnn_stream_point_t *add_place(mdnn_memory_t *memory)
{
    if (memory->untracked_count == memory->untracked_room) {
        const uint32_t room = 2 * memory->untracked_room + 8;
        mdnn_stream_point_t *const grown = reallocarray(memory->untracked, room, sizeof *grown);
        if (!grown)
            return NULL;
        memory->untracked = grown;
        memory->untracked_room = room;
    }
    return &memory->untracked[memory->untracked_count++];
}

/* The place for the stream's point: its own, one that has passed, or a new one. NULL without memory.
 */
static mdnn_stream_point_t *place_of(mdnn_memory_t *memory, uint64_t stream)
{
    mdnn_stream_point_t *over = NULL;
    for (uint32_t i = 0; i < memory->untracked_count; i++) {
        mdnn_stream_point_t *const use = &memory->untracked[i];
        if (use->position != 0 && use->stream == stream)
            return use;
        if (use->position == 0 || memory->device.is_done(memory->context, *use))
            over = use;
    }
    return over ? over : add_place(memory);
}

void mdnn_memory_untracked_end(mdnn_memory_t *memory, uint64_t stream)
{
    if (memory->untracked_open == 0)
        return; /* it began before a reset */
    const mdnn_stream_point_t end = memory->device.mark(memory->context, stream);
    mdnn_stream_point_t *const place = place_of(memory, stream);
    if (place)
        *place = end;
    else if (mdnn_memory_wait(memory, end) != MDNN_STATUS_OK &&
             !MDNN_FAULT(UNTRACKED_END_UNKNOWN_YET_OVER))
        return; /* nobody will know when it is over: it stays open, and nothing leaves any more */
    memory->untracked_open--;
    memory->steps++;
    mdnn_memory_check(memory);
}

mdnn_stream_point_t *mdnn_memory_untracked_use(mdnn_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->untracked_count; i++) {
        mdnn_stream_point_t *const use = &memory->untracked[i];
        if (use->position != 0 && !memory->device.is_done(memory->context, *use))
            return use;
        if (use->position != 0)
            memory->steps++; /* who saw it unfinished a moment ago looks again */
        use->position = 0;
    }
    return NULL;
}

bool mdnn_memory_untracked_over(mdnn_memory_t *memory)
{
    const bool begins = memory->untracked_open > 0 && !MDNN_FAULT(LEAVES_WHILE_UNTRACKED_BEGINS);
    return !begins && !mdnn_memory_untracked_use(memory);
}

void mdnn_memory_note_untracked_over(mdnn_memory_t *memory, mdnn_stream_point_t use)
{
    for (uint32_t i = 0; i < memory->untracked_count; i++)
        if (memory->untracked[i].stream == use.stream &&
            memory->untracked[i].position == use.position)
            memory->untracked[i].position = 0;
}

mdnn_status_t mdnn_memory_wait_untracked(mdnn_memory_t *memory)
{
    const mdnn_stream_point_t *use;
    while ((use = mdnn_memory_untracked_use(memory))) {
        const mdnn_stream_point_t point = *use;
        MDNN_TRY(mdnn_memory_wait(memory, point));
        mdnn_memory_note_untracked_over(memory, point);
    }
    return MDNN_STATUS_OK;
}

/* ---- all that lives ---- */

size_t mdnn_memory_live(const mdnn_memory_t *memory, uint64_t *starts, size_t capacity, bool *fits)
{
    uint64_t movable = 0;
    size_t count = 0;
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next) {
        if (allocation->freed)
            continue;
        if (count < capacity)
            starts[count] = allocation->address;
        count++;
        if (allocation->range && !allocation->stays && allocation->pins == 0)
            movable += allocation->room;
    }
    *fits = movable + mdnn_memory_stuck_bytes(memory) <=
            mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes;
    return count;
}
