/* An allocation ends: at once, or when the last copy, hold and pin of it has. */
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_waits.h"

#include <stdlib.h>

void mdnn_allocation_forget(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    mdnn_allocation_end_makings(memory, allocation);
    mdnn_allocation_end_judging(memory, allocation);
    for (; allocation->live_pins > 0 && !MDNN_FAULT(LIVE_PIN_OUTLIVES_THE_FREE);
         allocation->live_pins--)
        mdnn_allocation_unpin(memory, allocation);
    allocation->freed = true;
    if (allocation->pins == 0)
        allocation->gone = memory->began;
    memory->report.live_bytes -= allocation->bytes;
    mdnn_allocation_end_question(memory, allocation);
    memory->live_room_bytes -= allocation->room;
    memory->loose_bytes -= mdnn_allocation_loose_bytes(memory, allocation);
    mdnn_follower_end_range(memory->follower, allocation->follower_range);
    allocation->follower_range = MDNN_NO_POSITION;
    mdnn_allocation_end(memory, allocation);
}

/* Its chunks serve others, and nothing is mapped there. */
static void end_range(mdnn_memory_t *memory, mdnn_allocation_t *allocation, bool keeps_addresses)
{
    if (!keeps_addresses) {
        mdnn_range_drop(memory->ranges, allocation->range);
        return;
    }
    mdnn_range_give(memory->ranges, allocation->range, 0);
    mdnn_ranges_set_owner(memory->ranges, allocation->address, NULL);
}

/* What is whole and mapped is released with its uses, and nobody waits. In VERIFY nothing that is
 * freed stays mapped. */
static bool release(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const bool keeps = allocation->keeps_addresses && !MDNN_FAULT(ADDRESSES_END_WITH_CONTENT);
    if (allocation->range && (mdnn_range_chunks(allocation->range).mapped < allocation->count ||
                              memory->config.safety == MDNN_SAFETY_VERIFY || keeps)) {
        if (!mdnn_allocation_uses_over(memory, allocation) ||
            mdnn_range_hide(memory->ranges, allocation->range, 0) != MDNN_STATUS_OK ||
            mdnn_allocation_uncover(memory, allocation) != MDNN_STATUS_OK)
            return false;
        end_range(memory, allocation, keeps);
        return true;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].position != 0)
            allocation->uses[kept++] = allocation->uses[i];
    allocation->use_count = kept;
    return mdnn_ranges_release(memory->ranges, allocation->address, allocation->freed_in,
                               allocation->uses,
                               MDNN_FAULT(FREED_WITHOUT_ITS_USES) ? 0 : kept) == MDNN_STATUS_OK;
}

void mdnn_allocation_end(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const uint32_t held = MDNN_FAULT(FREED_WHILE_HELD) ? 0 : allocation->held;
    if (!allocation->freed || held + allocation->pins + allocation->idlers > 0)
        return;
    if (allocation->state != MDNN_ALLOCATION_ENDING) {
        mdnn_allocation_stop(memory, allocation);
        allocation->state = MDNN_ALLOCATION_ENDING;
        mdnn_list_add(&memory->endings, allocation);
        if (allocation->range && allocation->stays)
            memory->stuck_bytes -= allocation->room;
    }
    const bool copies_run = allocation->in_flight[0] + allocation->in_flight[1] > 0 &&
                            !MDNN_FAULT(FREED_WHILE_COPIES_RUN);
    if (copies_run || !release(memory, allocation))
        return; /* mdnn_memory_progress tries again */
    memory->steps++;
    for (; allocation->slots_from < allocation->count; allocation->slots_from++) {
        memory->device.give_slot(memory->context, allocation->slots[allocation->slots_from]);
        memory->report.host_bytes -= memory->chunk_bytes;
    }
    mdnn_list_remove(&memory->endings, allocation);
    *(allocation->previous ? &allocation->previous->next : &memory->allocations) = allocation->next;
    if (allocation->next)
        allocation->next->previous = allocation->previous;
    mdnn_allocation_destroy(allocation);
}

/* Without memory to note its last use: that is over before it is freed. */
static mdnn_status_t free_later(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                mdnn_stream_point_t now)
{
    allocation->held++;
    mdnn_allocation_may_change(memory, allocation);
    const mdnn_status_t status = mdnn_memory_wait(memory, now);
    allocation->held--;
    if (status == MDNN_STATUS_OK && !allocation->freed)
        mdnn_allocation_forget(memory, allocation);
    else
        mdnn_allocation_end(memory,
                            allocation); /* freed by another thread meanwhile, which is an error */
    mdnn_memory_check(memory);
    return status;
}

mdnn_status_t mdnn_memory_free(mdnn_memory_t *memory, uint64_t address, uint64_t stream)
{
    MDNN_TRY(mdnn_memory_make_ready_at(memory, address, false));
    mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    if (!allocation || allocation->address != address)
        return MDNN_STATUS_NOT_FOUND;
    const mdnn_stream_point_t now = memory->device.mark(memory->context, stream);
    if (mdnn_allocation_reserve_use(memory, allocation, stream) == MDNN_STATUS_OK)
        mdnn_allocation_note_use(allocation, now);
    else
        return free_later(memory, allocation, now);
    const bool pinned = allocation->pins > 0; /* a graph may use it after this */
    if (!pinned && !MDNN_FAULT(FREED_IN_NOBODYS_ORDER))
        allocation->freed_in = stream;
    mdnn_allocation_forget(memory, allocation);
    mdnn_memory_check(memory);
    return MDNN_STATUS_OK;
}
