/* Pins: what has one is RESIDENT and never leaves. Of all kinds: by address, by operation, and those that end with
 * the allocation. */
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_room.h"
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_waits.h"

void mdnn_allocation_pin(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    mdnn_allocation_end_makings(memory, allocation); /* it may be used without being named */
    if (allocation->pins++ == 0 && allocation->range && !allocation->stays)
        memory->stuck_bytes += allocation->room;
}

void mdnn_allocation_unpin(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->pins == 0 || --allocation->pins > 0)
        return;
    if (allocation->range && !allocation->stays) {
        memory->stuck_bytes -= allocation->room;
        if (!MDNN_FAULT(UNPINNED_IS_LOCKED_OUT))
            mdnn_allocation_note_movable(memory, allocation);
    }
    if (allocation->freed)
        allocation->gone = memory->began;
    mdnn_allocation_end(memory, allocation);
}

static bool is_unready(const mdnn_allocation_t *allocation)
{
    return (allocation->dropped || mdnn_allocation_dropped_dependent(allocation)) &&
           !MDNN_FAULT(PINNED_WHILE_DROPPED);
}

/* With the turn. Not ready: it is to be made again first, or what is made of it. */
static mdnn_status_t try_pin(mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                             mdnn_patience_t *patience, bool *ready)
{
    mdnn_allocation_t *const allocation = mdnn_allocation_find_kept(memory, address);
    *ready = true;
    if (!allocation)
        return MDNN_STATUS_NOT_FOUND;
    *ready = !is_unready(allocation);
    if (!*ready)
        return MDNN_STATUS_OK;
    allocation->held++;
    mdnn_allocation_may_change(memory, allocation);
    const mdnn_demand_t demand = {&allocation, 1, NULL};
    mdnn_status_t status = mdnn_memory_demand(memory, &demand, patience);
    if (status == MDNN_STATUS_OK)
        status = mdnn_memory_wait(memory, allocation->remade);
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
    mdnn_status_t status;
    bool ready;
    do {
        if (!MDNN_FAULT(PINNED_WHILE_DROPPED))
            MDNN_TRY(mdnn_memory_make_ready_at(memory, address, true));
        MDNN_TRY(mdnn_memory_take_turn(memory, &turn));
        while ((status = try_pin(memory, address, start, &patience, &ready)) == MDNN_STATUS_BUSY &&
               !mdnn_memory_serves_all(memory))
            MDNN_TRY(mdnn_memory_pass_turn(memory, &turn));
        mdnn_memory_end_turn(memory, &turn);
    } while (status == MDNN_STATUS_OK && !ready);
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
    mdnn_allocation_t *const allocation = mdnn_allocation_find_kept(memory, address);
    if (!allocation || !allocation->freed)
        return false;
    allocation->freed = false;
    mdnn_allocation_begin_life(memory, allocation);
    mdnn_memory_check(memory);
    return true;
}

bool mdnn_memory_is_held(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_kept(memory, address);
    return allocation && allocation->pins > allocation->live_pins;
}

mdnn_status_t mdnn_memory_pin_live(mdnn_memory_t *memory, uint64_t address, mdnn_live_pin_t *pin)
{
    uint64_t start;
    if (!mdnn_allocation_find_live(memory, address))
        return MDNN_STATUS_NOT_FOUND;
    MDNN_TRY(mdnn_memory_pin(memory, address, &start));
    mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, start);
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
    mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, pin.address);
    if (!allocation)
        return;
    const bool is_another = allocation->number != pin.number && !MDNN_FAULT(LIVE_PIN_OF_ANOTHER);
    const bool has_none = allocation->live_pins == 0 && !MDNN_FAULT(LIVE_PIN_OF_NOBODY);
    if (is_another || has_none)
        return;
    allocation->live_pins--;
    mdnn_allocation_unpin(memory, allocation);
    mdnn_memory_check(memory);
}

bool mdnn_memory_has_live_pins(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    return allocation && allocation->live_pins > 0;
}

bool mdnn_memory_can_stay(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_kept(memory, address);
    return !allocation || !allocation->range || allocation->stays || allocation->pins > 0 ||
           allocation->room <= mdnn_memory_room_left(memory);
}
