/* Which ranges leave for a demand, and how many chunks that gives. */
#include "offload/memory/memory_victims.h"
#include "config/fault.h"
#include "offload/memory/memory_internal.h"

/* How well it would be if the range left: operations until it is used again, as far as is known;
 * else it is taken to be unused for as long again as it has been. */
static uint64_t distance(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const uint32_t known = mdnn_follower_distance(memory->follower, allocation->follower_range);
    return known > 0 ? known : memory->report.operations - allocation->last_use;
}

/* Chunks that it has and that nothing has sent away. */
static uint64_t kept_by(const mdnn_allocation_t *allocation)
{
    const uint64_t owned = mdnn_allocation_owned(allocation);
    if (allocation->state == MDNN_ALLOCATION_ENDING)
        return 0;
    if (allocation->state >= MDNN_ALLOCATION_AWAY && MDNN_FAULT(PARTS_THAT_STAYED_STAY))
        return 0;
    return allocation->state == MDNN_ALLOCATION_LEAVING && allocation->target < owned
               ? allocation->target
               : owned;
}

static bool is_victim(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const bool sent = /* a part of it, perhaps, which went */
        allocation->demand == memory->demands && !MDNN_FAULT(SAME_VICTIM_AGAIN);
    if (allocation->state == MDNN_ALLOCATION_RETURNING && MDNN_FAULT(RETURNS_KEEP_THEIR_CHUNKS))
        return false;
    return mdnn_allocation_can_leave(allocation) && kept_by(allocation) > 0 &&
           (!sent || kept_by(allocation) <= allocation->keeps);
}

/* `idle`: one that nothing uses any more. */
static mdnn_allocation_t *choose_victim(mdnn_memory_t *memory, bool idle)
{
    mdnn_allocation_t *best = NULL;
    uint64_t best_distance = 0;
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next) {
        if (!is_victim(memory, allocation) ||
            (idle && !mdnn_allocation_uses_over(memory, allocation)))
            continue;
        const uint64_t away = distance(memory, allocation);
        if (!best || away > best_distance) {
            best = allocation;
            best_distance = away;
        }
    }
    return best;
}

/* What it gives comes without anybody's having to end a use. */
static bool ends_by_itself(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    return allocation->cut || mdnn_allocation_uses_over(memory, allocation);
}

/* Chunks that are not made yet. */
static uint64_t chunks_to_make(const mdnn_memory_t *memory)
{
    const uint64_t there = mdnn_memory_chunks_there(memory);
    return memory->chunk_limit > there ? memory->chunk_limit - there : 0;
}

/* What leaves or ends gives; `idle`: that for which nobody has to end a use. */
static uint64_t chunks_on_their_way(mdnn_memory_t *memory, bool idle)
{
    uint64_t chunks = 0;
    for (mdnn_allocation_t *allocation = memory->leaving.first; allocation;
         allocation = allocation->next_move)
        if (!idle || ends_by_itself(memory, allocation))
            chunks += mdnn_allocation_owned(allocation) - kept_by(allocation);
    for (mdnn_allocation_t *allocation = memory->endings.first; allocation;
         allocation = allocation->next_move)
        if (!idle || ends_by_itself(memory, allocation))
            chunks += mdnn_allocation_owned(allocation);
    return chunks;
}

/* What could leave; `idle`: what nothing uses any more. */
static uint64_t chunks_of_victims(mdnn_memory_t *memory, bool idle)
{
    uint64_t chunks = 0;
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (is_victim(memory, allocation) &&
            (!idle || mdnn_allocation_uses_over(memory, allocation)))
            chunks += kept_by(allocation);
    return chunks;
}

/* Chunks that nobody uses or that are about to be free, after a stall without anybody's having to end a
 * use; with `victims`, those that could be, too. */
static uint64_t chunks_in_sight(mdnn_memory_t *memory, bool victims)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    /* Some released memory is still in use if a request for it had to wait. */
    const bool kept = !memory->stalled || memory->wanted.position == 0 || victims;
    return counts.chunks_spare + (kept ? counts.chunks_free : 0) + chunks_to_make(memory) +
           mdnn_memory_chunks_ahead(memory) +
           chunks_on_their_way(memory, memory->stalled && !victims) +
           (victims ? chunks_of_victims(memory, false) : 0);
}

uint64_t mdnn_memory_chunks_elsewhere(mdnn_memory_t *memory, bool idle)
{
    uint64_t chunks = mdnn_ranges_idle_chunks(memory->ranges) + chunks_to_make(memory) +
                      mdnn_memory_chunks_ahead(memory);
    chunks += chunks_on_their_way(memory, idle);
    return chunks + chunks_of_victims(memory, idle);
}

/* How many of its first chunks a victim keeps. Without a plan more will be wanted soon, and what
 * goes beside work meanwhile need not be waited for then. */
static uint64_t may_keep(const mdnn_memory_t *memory, const mdnn_allocation_t *victim,
                         uint64_t missing)
{
    const uint64_t kept = kept_by(victim);
    const bool planned = mdnn_follower_followed_plan(memory->follower) != 0;
    return planned && !mdnn_memory_serves_all(memory) && missing < kept ? kept - missing : 0;
}

/* After a stall the next victims are those that can go now, however soon they are wanted. */
static mdnn_allocation_t *next_victim(mdnn_memory_t *memory)
{
    mdnn_allocation_t *const idle = memory->stalled ? choose_victim(memory, true) : NULL;
    return idle ? idle : choose_victim(memory, false);
}

mdnn_status_t mdnn_memory_send_away(mdnn_memory_t *memory, uint64_t wanted)
{
    uint64_t in_sight = chunks_in_sight(memory, false);
    if (in_sight >= wanted)
        return memory->leaving.first ? mdnn_memory_quieten(memory) : MDNN_STATUS_OK;
    if (chunks_in_sight(memory, true) < wanted)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (mdnn_memory_serves_all(memory) && !memory->quiet) {
        MDNN_TRY(mdnn_memory_quieten(memory));
        return mdnn_memory_send_away(memory, wanted); /* after a wait */
    }
    mdnn_follower_short(memory->follower, (wanted - in_sight) * memory->chunk_bytes);
    while (in_sight < wanted) {
        mdnn_allocation_t *const victim = next_victim(memory);
        if (!victim) /* after a stall: what is in use still gives the rest */
            return memory->stalled ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
        const uint64_t keep = may_keep(memory, victim, wanted - in_sight);
        in_sight += kept_by(victim) - keep;
        victim->demand = memory->demands;
        victim->sent_away = true;
        victim->why = "memory is needed";
        victim->whose = memory->serving;
        victim->keeps = keep;
        memory->report.demand_leaves++;
        mdnn_allocation_leave(memory, victim, keep);
    }
    return MDNN_STATUS_OK;
}

void mdnn_memory_keep_what_is_in_use(mdnn_memory_t *memory)
{
    mdnn_allocation_t *next;
    for (mdnn_allocation_t *allocation = memory->leaving.first; allocation; allocation = next) {
        next = allocation->next_move;
        if (allocation->cut || allocation->demand != memory->demands || allocation->demanded ||
            mdnn_allocation_uses_over(memory, allocation))
            continue;
        allocation->demand = 0;
        mdnn_allocation_return(memory, allocation, mdnn_allocation_owned(allocation));
    }
}
