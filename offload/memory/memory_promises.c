/* Addresses that the program reserves itself, and memory that it was promised before it puts it there. */
#include "config/fault.h"
#include "offload/memory/memory_acquire.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_waits.h"

/* ---- addresses ---- */

static uint64_t room_of(const mdnn_memory_t *memory, uint64_t bytes)
{
    return mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes;
}

mdnn_status_t mdnn_memory_reserve_addresses(mdnn_memory_t *memory, uint64_t bytes,
                                            uint64_t *address)
{
    const uint64_t most = memory->config.ranges.bytes / 4;
    if (bytes <= memory->config.ranges.small_bytes || bytes > most)
        return MDNN_STATUS_INVALID_ARGUMENT;
    const uint64_t room = room_of(memory, bytes);
    if (room > most - memory->reserved_bytes)
        return MDNN_STATUS_OVERFLOW;
    MDNN_TRY(mdnn_ranges_reserve(memory->ranges, bytes, address));
    memory->reserved_bytes += room;
    return MDNN_STATUS_OK;
}

void mdnn_memory_give_addresses(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_range_t *const range = mdnn_ranges_at(memory->ranges, address);
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    if (!range)
        return;
    memory->reserved_bytes -= mdnn_range_chunks(range).count * memory->chunk_bytes;
    if (allocation)
        allocation->keeps_addresses = false; /* they go when it does */
    else
        mdnn_range_drop(memory->ranges, range);
    mdnn_memory_check(memory);
}

mdnn_status_t mdnn_memory_await_addresses(mdnn_memory_t *memory, uint64_t address)
{
    enum { ROUNDS = 500 };
    const mdnn_allocation_t *allocation;
    for (int round = 0; (allocation = mdnn_ranges_owner(memory->ranges, address)); round++) {
        if (!allocation->freed || allocation->pins > 0 || round == ROUNDS)
            return MDNN_STATUS_BUSY;
        mdnn_memory_progress(memory);
        if (!mdnn_ranges_owner(memory->ranges, address))
            break;
        mdnn_status_t status = mdnn_memory_wait_for_a_move(memory, mdnn_stretch_s);
        if (status == MDNN_STATUS_NOT_FOUND)
            status = mdnn_memory_wait_for_change(memory);
        if (status != MDNN_STATUS_BUSY)
            MDNN_TRY(status);
    }
    return MDNN_STATUS_OK;
}

/* ---- promises ---- */

static void begin_promise(mdnn_memory_t *memory, uint64_t bytes)
{
    memory->promised_bytes += bytes;
    memory->promised_room_bytes += room_of(memory, bytes);
    memory->report.live_bytes += bytes;
    memory->live_room_bytes += room_of(memory, bytes);
    mdnn_memory_note_live(memory);
    mdnn_memory_check(memory);
}

mdnn_status_t mdnn_memory_promise(mdnn_memory_t *memory, uint64_t bytes)
{
    mdnn_memory_answer_question(memory);
    if (!mdnn_memory_may_be_bare(memory, bytes))
        return MDNN_STATUS_NOT_FOUND;
    if (!mdnn_memory_could_hold(memory, bytes) && !MDNN_FAULT(PROMISES_WHAT_CANNOT_BE)) {
        if (mdnn_memory_has_tails(memory)) /* else the budget may be too small */
            memory->report.host_short++;
        mdnn_memory_refused(memory, room_of(memory, bytes) + mdnn_memory_stuck_bytes(memory),
                            false);
        mdnn_memory_note_host_needed(memory, bytes);
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    }
    begin_promise(memory, bytes);
    return MDNN_STATUS_OK;
}

void mdnn_memory_end_promise(mdnn_memory_t *memory, uint64_t bytes)
{
    if (MDNN_FAULT(PROMISED_FOR_EVER) || bytes > memory->promised_bytes)
        return; /* more than there is: it was promised before a reset */
    memory->promised_bytes -= bytes;
    memory->promised_room_bytes -= room_of(memory, bytes);
    memory->report.live_bytes -= bytes;
    memory->live_room_bytes -= room_of(memory, bytes);
    mdnn_memory_check(memory);
}

/* What a graph still holds there gets its life back, with its memory. */
static mdnn_status_t begin_at(mdnn_memory_t *memory, uint64_t address, uint64_t bytes)
{
    if (!mdnn_ranges_owner(memory->ranges, address))
        return mdnn_allocation_begin_at(memory, address, bytes);
    return mdnn_memory_revive(memory, address) ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
}

mdnn_status_t mdnn_memory_allocate_at(mdnn_memory_t *memory, uint64_t address, uint64_t bytes)
{
    if (!mdnn_memory_may_be_bare(memory, bytes))
        return MDNN_STATUS_BUSY;
    mdnn_status_t status = mdnn_memory_await_addresses(memory, address);
    if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY)
        return status;
    mdnn_memory_end_promise(memory, bytes);
    status = begin_at(memory, address, bytes);
    if (status != MDNN_STATUS_OK)
        begin_promise(memory, bytes);
    mdnn_memory_check(memory);
    return status;
}
