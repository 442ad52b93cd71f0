/* Work whose memory nobody knows: it may use anything. It is let through where everything is
 * RESIDENT, and then nothing is unmapped, nor handed on, before it has ended. */
#include "offload/memory/memory_internal.h"

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
        counts.chunks_spare + counts.chunks_kept + (limit > there ? limit - there : 0);
    return room > limit / SHARE_OF_ROOM;
}

bool mdnn_memory_unseen_begin(mdnn_memory_t *memory)
{
    if (memory->config.safety != MDNN_SAFETY_FAST || !has_room(memory))
        return false;
    for (const mdnn_area_t *area = memory->areas; area; area = area->next)
        if (!area->freed && area->state != MDNN_AREA_RESIDENT)
            return false;
    memory->unseen_open++;
    return true;
}

static mdnn_ticket_t *add_place(mdnn_memory_t *memory)
{
    if (memory->unseen_count == memory->unseen_room) {
        const uint32_t room = 2 * memory->unseen_room + 8;
        mdnn_ticket_t *const grown = reallocarray(memory->unseen, room, sizeof *grown);
        if (!grown)
            return NULL;
        memory->unseen = grown;
        memory->unseen_room = room;
    }
    return &memory->unseen[memory->unseen_count++];
}

/* The place for the stream's moment: its own, one that is over, or a new one. NULL without memory.
 */
static mdnn_ticket_t *place_of(mdnn_memory_t *memory, uint64_t stream)
{
    mdnn_ticket_t *over = NULL;
    for (uint32_t i = 0; i < memory->unseen_count; i++) {
        mdnn_ticket_t *const use = &memory->unseen[i];
        if (use->moment != 0 && use->stream == stream)
            return use;
        if (use->moment == 0 || memory->device.is_done(memory->context, *use))
            over = use;
    }
    return over ? over : add_place(memory);
}

void mdnn_memory_unseen_end(mdnn_memory_t *memory, uint64_t stream)
{
    if (memory->unseen_open == 0)
        return; /* it began before a reset */
    const mdnn_ticket_t end = memory->device.mark(memory->context, stream);
    mdnn_ticket_t *const place = place_of(memory, stream);
    if (place)
        *place = end;
    else if (mdnn_memory_wait(memory, end) != MDNN_STATUS_OK)
        return; /* nobody will know when it is over: it stays open, and nothing leaves any more */
    memory->unseen_open--;
    memory->steps++;
}

mdnn_ticket_t *mdnn_memory_unseen_use(mdnn_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->unseen_count; i++) {
        mdnn_ticket_t *const use = &memory->unseen[i];
        if (use->moment != 0 && !memory->device.is_done(memory->context, *use))
            return use;
        if (use->moment != 0)
            memory->steps++; /* who saw it unfinished a moment ago looks again */
        use->moment = 0;
    }
    return NULL;
}

bool mdnn_memory_unseen_over(mdnn_memory_t *memory)
{
    return memory->unseen_open == 0 && !mdnn_memory_unseen_use(memory);
}

void mdnn_memory_note_unseen_over(mdnn_memory_t *memory, mdnn_ticket_t use)
{
    for (uint32_t i = 0; i < memory->unseen_count; i++)
        if (memory->unseen[i].stream == use.stream && memory->unseen[i].moment == use.moment)
            memory->unseen[i].moment = 0;
}

mdnn_status_t mdnn_memory_wait_unseen(mdnn_memory_t *memory)
{
    const mdnn_ticket_t *use;
    while ((use = mdnn_memory_unseen_use(memory))) {
        const mdnn_ticket_t ticket = *use;
        MDNN_TRY(mdnn_memory_wait(memory, ticket));
        mdnn_memory_note_unseen_over(memory, ticket);
    }
    return MDNN_STATUS_OK;
}

/* ---- all that lives ---- */

size_t mdnn_memory_live(const mdnn_memory_t *memory, uint64_t *starts, size_t capacity, bool *fits)
{
    uint64_t movable = 0;
    size_t count = 0;
    for (const mdnn_area_t *area = memory->areas; area; area = area->next) {
        if (area->freed)
            continue;
        if (count < capacity)
            starts[count] = area->address;
        count++;
        if (area->range && !area->stays && area->pins == 0)
            movable += area->room;
    }
    *fits = movable + mdnn_memory_stuck_bytes(memory) <=
            mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes;
    return count;
}
