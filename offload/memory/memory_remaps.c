#include "offload/memory/memory_remaps.h"
#include "offload/memory/memory_ahead.h"
#include "config/extremes.h"
#include "config/fault.h"

/* It was sent away for the demand that has the turn, and waits for it. */
static bool is_waited_for(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const bool sent = memory->demanding && allocation->state == MDNN_ALLOCATION_LEAVING &&
                      allocation->demand == memory->demands;
    return sent || allocation->held + allocation->pins > 0;
}

/* What a thread waits for it maps sooner itself, and where addresses must never be without memory nothing may be late.
 */
static bool may_be_later(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    return memory->device.remap_begin && !is_waited_for(memory, allocation) && !memory->quiet &&
           !memory->closed && memory->config.safety == MDNN_SAFETY_FAST &&
           memory->remap_failed != memory->began + 1;
}

bool mdnn_allocation_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto)
{
    const uint64_t mapped = mdnn_range_chunks(allocation->range).mapped;
    const mdnn_remap_t remap =
        mdnn_range_remap(memory->ranges, allocation->range, upto, MDNN_REMAP_CHUNKS);
    uint64_t token;
    if (!may_be_later(memory, allocation) ||
        memory->device.remap_begin(memory->context, &remap, &token) != MDNN_STATUS_OK)
        return false;
    allocation->remap = token;
    allocation->remap_upto = remap.map ? mapped + remap.count : mapped - remap.count;
    allocation->remapped = 0;
    memory->remaps++;
    memory->steps++;
    return true;
}

static bool maps(const mdnn_allocation_t *allocation)
{
    return allocation->remap_upto > mdnn_range_chunks(allocation->range).mapped;
}

static void note(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t done)
{
    const uint64_t more = done - allocation->remapped;
    if (more == 0)
        return;
    const bool was_map = maps(allocation);
    mdnn_range_remapped(memory->ranges, allocation->range, was_map, more);
    if (was_map)
        mdnn_memory_count_mapped(memory, allocation, more);
    allocation->remapped = done;
    memory->steps++;
}

mdnn_status_t mdnn_allocation_end_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                        bool all)
{
    if (allocation->remap == 0 || MDNN_FAULT(REMAPS_GO_ON))
        return MDNN_STATUS_OK;
    uint64_t done;
    const mdnn_status_t status = mdnn_memory_end_change(memory, allocation->remap, all, &done);
    note(memory, allocation, done);
    allocation->remap = 0;
    memory->remaps--;
    memory->steps++;
    if (status != MDNN_STATUS_OK)
        mdnn_memory_note_failed_remap(memory, status);
    return status;
}

mdnn_status_t mdnn_allocation_note_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    bool over = false;
    if (allocation->remap == 0)
        return MDNN_STATUS_OK;
    note(memory, allocation, memory->device.remap_done(memory->context, allocation->remap, &over));
    return over ? mdnn_allocation_end_remap(memory, allocation, false) : MDNN_STATUS_OK;
}

uint64_t mdnn_allocation_shown(const mdnn_allocation_t *allocation)
{
    const uint64_t mapped = mdnn_range_chunks(allocation->range).mapped;
    const bool comes = allocation->remap != 0 && !MDNN_FAULT(REMAPPED_LATE_IS_TRUSTED);
    return comes ? mdnn_max(mapped, allocation->remap_upto) : mapped;
}

static bool finish_one_of(mdnn_memory_t *memory, const mdnn_allocation_list_t *list)
{
    for (mdnn_allocation_t *allocation = list->first; allocation;
         allocation = allocation->next_move) {
        const uint64_t mapped = mdnn_range_chunks(allocation->range).mapped;
        if (allocation->remap == 0)
            continue;
        (void)mdnn_allocation_end_remap(memory, allocation, true);
        if (mdnn_range_chunks(allocation->range).mapped != mapped)
            return true;
    }
    return false;
}

bool mdnn_memory_finish_a_remap(mdnn_memory_t *memory)
{
    return (memory->remaps > 0 && (finish_one_of(memory, &memory->leaving) ||
                                   finish_one_of(memory, &memory->returning))) ||
           mdnn_memory_finish_ahead(memory);
}
