/* Decides that a range leaves, comes back or stops; memory_steps.c carries it out. Nothing here
 * waits. */
#include "offload/memory/memory_moves.h"
#include "config/fault.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_remaps.h"

void mdnn_list_add(mdnn_allocation_list_t *list, mdnn_allocation_t *allocation)
{
    allocation->next_move = NULL;
    allocation->before_move = list->last;
    *(list->last ? &list->last->next_move : &list->first) = allocation;
    list->last = allocation;
}

void mdnn_list_remove(mdnn_allocation_list_t *list, mdnn_allocation_t *allocation)
{
    *(allocation->before_move ? &allocation->before_move->next_move : &list->first) =
        allocation->next_move;
    *(allocation->next_move ? &allocation->next_move->before_move : &list->last) =
        allocation->before_move;
    allocation->next_move = allocation->before_move = NULL;
}

uint64_t mdnn_allocation_bytes_from(const mdnn_memory_t *memory,
                                    const mdnn_allocation_t *allocation, uint64_t from)
{
    const uint64_t before = from * memory->chunk_bytes;
    return before < allocation->bytes ? allocation->bytes - before : 0;
}

/* What is blank takes chunks, but nothing comes back, and of what is dropped nothing leaves. */
static bool is_no_move(mdnn_memory_event_kind_t kind, const mdnn_allocation_t *allocation)
{
    const bool is_return = kind == MDNN_MEMORY_RETURN || kind == MDNN_MEMORY_RETURNED;
    if (allocation->dropped)
        return true;
    return allocation->blank && is_return && !MDNN_FAULT(BLANK_IS_SAID_TO_RETURN);
}

void mdnn_allocation_announce(const mdnn_memory_t *memory, mdnn_memory_event_kind_t kind,
                              const mdnn_allocation_t *allocation, uint64_t from, uint64_t to)
{
    const mdnn_memory_event_t event = {.kind = kind,
                                       .address = allocation->address,
                                       .why = allocation->why,
                                       .whose = allocation->whose,
                                       .bytes =
                                           mdnn_allocation_bytes_from(memory, allocation, from) -
                                           mdnn_allocation_bytes_from(memory, allocation, to)};
    if (!is_no_move(kind, allocation))
        mdnn_memory_announce(memory, &event);
}

static void announce_end(const mdnn_memory_t *memory, mdnn_memory_event_kind_t kind,
                         const mdnn_allocation_t *allocation)
{
    const mdnn_memory_event_t event = {
        .kind = kind, .address = allocation->address, .bytes = allocation->bytes};
    if (!is_no_move(kind, allocation))
        mdnn_memory_announce(memory, &event);
}

bool mdnn_allocation_can_leave(const mdnn_allocation_t *allocation)
{
    const bool held = allocation->held > 0 && !MDNN_FAULT(LEAVES_WHILE_HELD);
    const bool pinned = allocation->pins > 0 && !MDNN_FAULT(LEAVES_WHILE_PINNED);
    return !allocation->stays && !allocation->freed && !held && !pinned;
}

/* The earliest point of its stream that has not passed, as far as this look at all moves has found. */
static mdnn_stream_point_t *undone_in(mdnn_memory_t *memory, uint64_t stream)
{
    mdnn_stream_point_t *const undone = &memory->undone[stream % MDNN_UNDONE];
    return undone->stream == stream && undone->position != 0 ? undone : NULL;
}

/* Many ranges may be about to leave, and the driver is not asked about each of them. */
static bool is_over(mdnn_memory_t *memory, mdnn_stream_point_t use)
{
    const mdnn_stream_point_t *const undone = undone_in(memory, use.stream);
    if (undone && undone->position <= use.position)
        return false;
    if (memory->device.is_done(memory->context, use))
        return true;
    if (memory->looking)
        memory->undone[use.stream % MDNN_UNDONE] = use;
    return false;
}

bool mdnn_allocation_uses_over(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    for (uint32_t i = 0; i < allocation->use_count; i++) {
        if (allocation->uses[i].position == 0)
            continue;
        if (!is_over(memory, allocation->uses[i]))
            return false;
        allocation->uses[i].position = 0;
        memory->steps++; /* who saw it unfinished a moment ago looks again */
    }
    return MDNN_FAULT(LEAVES_WHILE_USED_UNTRACKED) || mdnn_memory_untracked_over(memory);
}

bool mdnn_allocation_mapped_enough(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                                   uint64_t upto)
{
    return memory->config.safety == MDNN_SAFETY_VERIFY ||
           mdnn_range_chunks(allocation->range).mapped >= upto;
}

void mdnn_allocation_trim_slots(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const bool blank = allocation->blank && !MDNN_FAULT(BLANK_KEEPS_SLOTS);
    const uint64_t upto = blank ? allocation->count : allocation->clean;
    if (allocation->in_flight[true] > 0 || allocation->state == MDNN_ALLOCATION_LEAVING)
        return;
    for (; allocation->slots_from < upto; allocation->slots_from++) {
        if (!MDNN_FAULT(PINNED_POOL_LEAK))
            memory->device.give_slot(memory->context, allocation->slots[allocation->slots_from]);
        memory->report.host_bytes -= memory->chunk_bytes;
    }
}

static void discard_copies_out(mdnn_allocation_t *allocation)
{
    allocation->discarded++;
    allocation->out_sent = allocation->clean;
}

void mdnn_allocation_exposed(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t shown = mdnn_allocation_shown(allocation);
    if (allocation->clean >= shown || MDNN_FAULT(TRUSTS_IT_HALF_WAY_BACK))
        return;
    allocation->clean = shown;
    discard_copies_out(allocation);
    mdnn_allocation_trim_slots(memory, allocation);
}

void mdnn_allocation_stop(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    (void)mdnn_allocation_end_remap(memory, allocation, false);
    if (allocation->state == MDNN_ALLOCATION_LEAVING) {
        mdnn_list_remove(&memory->leaving, allocation);
        mdnn_allocation_end_judging(memory, allocation);
        discard_copies_out(allocation);
        if (allocation->cut)
            announce_end(memory, MDNN_MEMORY_LEFT, allocation);
        allocation->cut = false;
    } else if (allocation->state == MDNN_ALLOCATION_RETURNING) {
        mdnn_list_remove(&memory->returning, allocation);
        allocation->covers = false;
        if (mdnn_allocation_owned(allocation) >= allocation->target)
            announce_end(memory, MDNN_MEMORY_RETURNED, allocation);
    }
}

/* What goes already goes on; the rest is cut off, too. */
static void leave_more(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->cut)
        announce_end(memory, MDNN_MEMORY_LEFT, allocation);
    allocation->cut = false;
}

void mdnn_allocation_leave(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t keep)
{
    if (allocation->state == MDNN_ALLOCATION_LEAVING) {
        leave_more(memory, allocation);
    } else {
        mdnn_allocation_stop(memory, allocation);
        mdnn_allocation_end_judging(memory, allocation);
        allocation->state = MDNN_ALLOCATION_LEAVING;
        mdnn_list_add(&memory->leaving, allocation);
    }
    allocation->target = keep;
    memory->steps++;
}

void mdnn_allocation_settle_down(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    allocation->state = MDNN_ALLOCATION_RESIDENT;
    allocation->blank = allocation->sealed = false;
    mdnn_allocation_end_question(memory, allocation);
    if (!MDNN_FAULT(TRUSTS_THE_KEPT_HOST_COPY))
        allocation->clean = allocation->count; /* from now on anyone may write it, named or not */
    discard_copies_out(allocation);
    mdnn_allocation_trim_slots(memory, allocation);
    memory->steps++;
}

static void begin_return(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    allocation->state = MDNN_ALLOCATION_RETURNING;
    allocation->target = upto;
    mdnn_list_add(&memory->returning, allocation);
    mdnn_allocation_trim_slots(memory, allocation);
    memory->steps++;
    if (mdnn_allocation_owned(allocation) >= upto)
        mdnn_allocation_announce(memory, MDNN_MEMORY_RETURN, allocation, allocation->filled, upto);
}

void mdnn_allocation_end_covering(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    allocation->covers = false;
    if (allocation->blank && !MDNN_FAULT(BLANK_KEEPS_SLOTS_FOR_COVERS)) /* some slots, perhaps */
        mdnn_allocation_trim_slots(memory, allocation);
}

static void raise_target(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    if (allocation->target >= upto)
        return;
    mdnn_allocation_end_covering(memory, allocation);
    if (allocation->state == MDNN_ALLOCATION_LEAVING)
        (void)mdnn_allocation_end_remap(memory, allocation, false);
    allocation->target = upto;
    memory->steps++;
}

static void call_off(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    /* What is to be there has not gone yet: it stays, and the rest goes on leaving. */
    if (upto <= allocation->target || (upto < allocation->count && upto <= allocation->clean)) {
        raise_target(memory, allocation, upto);
        return;
    }
    memory->report.called_off++;
    mdnn_allocation_stop(memory, allocation);
    if (allocation->filled == allocation->count &&
        mdnn_allocation_mapped_enough(memory, allocation, allocation->count))
        mdnn_allocation_settle_down(memory, allocation);
    else
        begin_return(memory, allocation, upto);
}

void mdnn_allocation_return(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    const bool has_less = mdnn_allocation_owned(allocation) < upto;
    if (allocation->state == MDNN_ALLOCATION_LEAVING)
        call_off(memory, allocation, upto);
    else if (allocation->state == MDNN_ALLOCATION_RETURNING)
        raise_target(memory, allocation, upto);
    else if (has_less && (allocation->state == MDNN_ALLOCATION_AWAY ||
                          allocation->state == MDNN_ALLOCATION_SPLIT))
        begin_return(memory, allocation, upto);
}

void mdnn_allocation_give_up(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint64_t owned = mdnn_allocation_owned(allocation);
    (void)mdnn_allocation_end_remap(memory, allocation, true);
    if (allocation->filled < owned || allocation->in_flight[false] > 0 ||
        (owned > 0 && mdnn_memory_serves_all(memory))) /* a part of it would be without memory */
        return;
    const bool covered =
        allocation->covered_from < allocation->count && !mdnn_memory_serves_all(memory);
    const bool is_split =
        allocation->covered_from <= owned &&
        mdnn_allocation_mapped_enough(memory, allocation,
                                      owned); /* else a call failed, and will be made again */
    if (covered && !is_split && !MDNN_FAULT(SPLIT_THOUGH_HALF_COVERED))
        return;
    mdnn_allocation_end_covering(memory, allocation);
    mdnn_list_remove(&memory->returning, allocation);
    allocation->state = covered ? MDNN_ALLOCATION_SPLIT : MDNN_ALLOCATION_AWAY;
}

void mdnn_allocation_split(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t whole)
{
    const uint64_t owned = mdnn_allocation_owned(allocation);
    const bool moves = allocation->state == MDNN_ALLOCATION_LEAVING ||
                       allocation->state == MDNN_ALLOCATION_RETURNING;
    (void)mdnn_allocation_end_remap(memory, allocation, false);
    if (allocation->state == MDNN_ALLOCATION_LEAVING && allocation->target < whole)
        mdnn_allocation_return(memory, allocation, whole);
    else if (owned > whole &&
             !(allocation->state == MDNN_ALLOCATION_LEAVING && allocation->target == whole))
        mdnn_allocation_leave(memory, allocation, whole);
    else if (!moves && owned <= whole)
        begin_return(memory, allocation, whole);
    if (allocation->state != MDNN_ALLOCATION_RETURNING)
        return;
    if (allocation->target != whole)
        memory->steps++;
    allocation->target = whole;
    allocation->covers = true;
}

mdnn_status_t mdnn_allocation_show(mdnn_memory_t *memory, mdnn_allocation_t *allocation, bool shown)
{
    memory->steps++;
    return shown ? mdnn_range_show(memory->ranges, allocation->range, allocation->count)
                 : mdnn_range_hide(memory->ranges, allocation->range, 0);
}
