/* The budget's other part: device memory that is the driver's own, and so cannot leave. What is to
 * be set aside must not be there yet; chunks make room for it, and go back to the driver. */
#include "config/extremes.h"
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_ahead.h"
#include "offload/memory/memory_room.h"
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_waits.h"

static uint64_t chunks_over(const mdnn_memory_t *memory)
{
    const uint64_t there = mdnn_memory_chunks_there(memory),
                   allowed = mdnn_memory_chunks_allowed(memory);
    return there > allowed ? there - allowed : 0;
}

/* Of the budget: what is set aside, or is to be. */
static uint64_t bytes_of_others(const mdnn_memory_t *memory)
{
    return MDNN_FAULT(SET_ASIDE_AND_USED) ? 0 : memory->claimed_bytes + memory->aside_bytes;
}

/* Of what has a tail anyhow nothing must be able to come back as a whole. */
static uint64_t if_it_counts(const mdnn_memory_t *memory, uint64_t bytes)
{
    return mdnn_memory_counts(memory, bytes) ? bytes : 0;
}

/* What could be away must be able to come back beside it: the largest range that lives, and the
 * largest operation so far, as far as so much lives. With tails they can in part, which is slow: that is not for what the
 * program can do without. */
static bool can_hold(const mdnn_memory_t *memory, uint64_t bytes, bool optional)
{
    const uint64_t held = mdnn_memory_stuck_bytes(memory) + bytes_of_others(memory) + bytes;
    uint64_t most = 0, all = 0;
    if (mdnn_memory_has_tails(memory) && !MDNN_FAULT(TAILS_KEEP_OTHERS_OUT) &&
        (!optional || MDNN_FAULT(OPTIONAL_MEMORY_MAKES_TAILS)))
        return held <= memory->config.budget_bytes;
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next) {
        if (!allocation->range || allocation->stays || allocation->freed || allocation->pins > 0)
            continue;
        all += allocation->room;
        most = mdnn_max(most, if_it_counts(memory, allocation->room));
    }
    most = mdnn_max(most, if_it_counts(memory, mdnn_min(all, memory->movable_bytes)));
    return held <= memory->config.budget_bytes && most <= memory->config.budget_bytes - held;
}

/* With the turn. */
static mdnn_status_t shrink_in_turn(mdnn_memory_t *memory, mdnn_patience_t *patience)
{
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    uint64_t over;
    mdnn_status_t status = MDNN_STATUS_OK;
    mdnn_memory_begin_demand(memory, patience,
                             mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes);
    while (status == MDNN_STATUS_OK && (over = chunks_over(memory)) > 0) {
        mdnn_memory_progress(memory);
        mdnn_memory_end_ahead(memory);
        status = mdnn_ranges_shrink(memory->ranges, over, &waits, &wait_count);
        if (status == MDNN_STATUS_BUSY)
            status = wait_count > 0
                         ? mdnn_memory_wait_for_released(memory, over, waits[0], patience)
                         : MDNN_STATUS_OK;
        else if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && (over = chunks_over(memory)) > 0)
            status = mdnn_memory_make_room(memory, over, patience);
    }
    mdnn_memory_end_demand(memory);
    mdnn_memory_end_quiet(memory);
    return status;
}

/* Destroys chunks until the claimed memory has room. Works like a demand for them
 * (offload/memory/memory_room.c). */
static mdnn_status_t shrink(mdnn_memory_t *memory)
{
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_turn_t turn;
    mdnn_status_t status;
    MDNN_TRY(mdnn_memory_take_turn(memory, &turn));
    while ((status = shrink_in_turn(memory, &patience)) == MDNN_STATUS_BUSY &&
           !mdnn_memory_serves_all(memory))
        MDNN_TRY(mdnn_memory_pass_turn(memory, &turn));
    mdnn_memory_end_turn(memory, &turn);
    return status;
}

static mdnn_status_t set_aside(mdnn_memory_t *memory, uint64_t bytes, bool optional)
{
    mdnn_memory_answer_question(memory);
    const uint64_t taken = bytes_of_others(memory), budget = memory->config.budget_bytes;
    mdnn_status_t status = MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (taken <= budget && bytes <= budget - taken && can_hold(memory, bytes, optional)) {
        memory->claimed_bytes += bytes; /* nobody else takes it meanwhile */
        status = MDNN_FAULT(SET_ASIDE_WITHOUT_ROOM) ? MDNN_STATUS_OK : shrink(memory);
        if (!MDNN_FAULT(CLAIMED_FOR_EVER))
            memory->claimed_bytes -= bytes;
    }
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        mdnn_memory_refused(memory, bytes + mdnn_memory_stuck_bytes(memory), false);
    else if (status == MDNN_STATUS_OK)
        memory->aside_bytes += bytes;
    memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
    mdnn_memory_note_resident(memory);
    mdnn_memory_check(memory);
    return status;
}

mdnn_status_t mdnn_memory_set_aside(mdnn_memory_t *memory, uint64_t bytes)
{
    return set_aside(memory, bytes, false);
}

mdnn_status_t mdnn_memory_set_aside_optional(mdnn_memory_t *memory, uint64_t bytes)
{
    return set_aside(memory, bytes, true);
}

void mdnn_memory_set_aside_all_the_same(mdnn_memory_t *memory, uint64_t bytes)
{
    memory->aside_bytes += bytes;
    (void)shrink(memory);
    memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
    mdnn_memory_note_resident(memory);
    mdnn_memory_check(memory);
}

void mdnn_memory_give_back(mdnn_memory_t *memory, uint64_t bytes)
{
    /* More than there is: it was set aside before a reset. */
    memory->aside_bytes -= bytes < memory->aside_bytes ? bytes : memory->aside_bytes;
    memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
}
