/* What can never leave, and how much of that there may be.
 *
 * Slabs, what is too small to move and what is pinned hold their memory. If they held so much that
 * a live range, or an operation that comes again, had no room beside them, no demand could ever
 * bring it back. So a chunk more for slabs is refused then, and small allocations get ranges of
 * their own, which can leave; and what is too small to move moves all the same. */
#include "config/extremes.h"
#include "config/fault.h"
#include "offload/memory/memory_internal.h"

uint64_t mdnn_memory_stuck_bytes(const mdnn_memory_t *memory)
{
    return memory->stuck_bytes +
           mdnn_ranges_counts(memory->ranges).chunks_slab * memory->chunk_bytes;
}

void mdnn_recent_note(mdnn_recent_t *recent, uint64_t operation, uint64_t value)
{
    enum { STRETCH = 8192 };
    if (operation - recent->since >= STRETCH && !MDNN_FAULT(LARGE_OPERATIONS_ARE_NEVER_FORGOTTEN))
        *recent = (mdnn_recent_t){.before = recent->most, .since = operation};
    if (recent->most < value)
        recent->most = value;
}

void mdnn_allocation_note_movable(mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    if (memory->movable_range_bytes < allocation->room &&
        mdnn_memory_counts(memory, allocation->room))
        memory->movable_range_bytes = allocation->room;
}

/* Most that one range takes which could be away. */
static uint64_t largest_movable(const mdnn_memory_t *memory)
{
    uint64_t most = 0;
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (allocation->range && !allocation->stays && !allocation->freed &&
            allocation->pins == 0 && most < allocation->room &&
            mdnn_memory_counts(memory, allocation->room))
            most = allocation->room;
    return most;
}

/* Of the budget, what nobody else has. */
static uint64_t bytes_allowed(const mdnn_memory_t *memory)
{
    const uint64_t others = memory->aside_bytes + memory->claimed_bytes,
                   budget = memory->config.budget_bytes;
    return others < budget ? budget - others : 0;
}

bool mdnn_memory_ranges_fit(mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t allowed = bytes_allowed(memory);
    const uint64_t held = mdnn_memory_stuck_bytes(memory) + bytes;
    if (held > allowed)
        return false;
    if (memory->movable_range_bytes > allowed - held) /* it may be gone */
        memory->movable_range_bytes = largest_movable(memory);
    return memory->movable_range_bytes <= allowed - held || MDNN_FAULT(LARGE_RANGES_ARE_LOCKED_OUT);
}

static bool can_hold(mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t operation = MDNN_FAULT(LARGE_OPERATIONS_ARE_LOCKED_OUT)
                                   ? 0
                                   : mdnn_recent_most(&memory->movable_operation_bytes);
    return mdnn_memory_ranges_fit(memory, bytes) &&
           mdnn_memory_stuck_bytes(memory) + bytes + operation <= bytes_allowed(memory);
}

/* What never leaves spares so much for ranges, even if none has come yet: allocations that find no slab take turns there.
 * Two chunks, so that an operation can copy between two of them; no more, since then small tensors that fit as slabs
 * would have to take turns, too. */
static uint64_t bytes_for_ranges(const mdnn_memory_t *memory)
{
    enum { MOST = 2, PART = 32 };
    const uint64_t chunks = bytes_allowed(memory) / memory->chunk_bytes / PART;
    return MDNN_FAULT(SLABS_FILL_THE_BUDGET) ? 0 : mdnn_min(chunks, MOST) * memory->chunk_bytes;
}

static bool leaves_some(const mdnn_memory_t *memory, uint64_t bytes)
{
    return mdnn_memory_stuck_bytes(memory) + bytes + bytes_for_ranges(memory) <=
           bytes_allowed(memory);
}

bool mdnn_memory_may_always_stay(mdnn_memory_t *memory, uint64_t bytes)
{
    return can_hold(memory, bytes) && leaves_some(memory, bytes);
}

/* A range of its own wastes most of a chunk. All of them together are to waste no more than the budget: above that, slabs
 * are made although the largest operation, which may never come again, might not fit. They may take the last chunks only
 * for little blocks; the others go on getting ranges, which waste at most fifteen times their size in host memory each. */
bool mdnn_memory_may_be_slabs(mdnn_memory_t *memory, uint64_t chunks, uint64_t room)
{
    enum { LITTLE_PARTS = 16 };
    const uint64_t bytes = chunks * memory->chunk_bytes;
    const bool wastes_all =
        memory->loose_bytes + memory->chunk_bytes > memory->config.budget_bytes &&
        !MDNN_FAULT(TINY_RANGES_WASTE_ALL);
    const bool fits = wastes_all ? mdnn_memory_ranges_fit(memory, bytes) : can_hold(memory, bytes);
    return fits && (room * LITTLE_PARTS <= memory->chunk_bytes || leaves_some(memory, bytes));
}

/* ---- what an operation names together ---- */

static bool is_stuck(const mdnn_allocation_t *allocation)
{
    return allocation->stays || allocation->pins > 0;
}

/* What a demand can have, some time. */
uint64_t mdnn_memory_bytes_for_demands(const mdnn_memory_t *memory)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes,
                   stuck = MDNN_FAULT(NOTHING_IS_STUCK) ? 0 : mdnn_memory_stuck_bytes(memory);
    return stuck < allowed ? allowed - stuck : 0;
}

bool mdnn_memory_counts(const mdnn_memory_t *memory, uint64_t bytes)
{
    return !mdnn_memory_has_tails(memory) || MDNN_FAULT(WHAT_HAS_A_TAIL_LOCKS_OUT) ||
           bytes <= mdnn_memory_bytes_for_demands(memory);
}

uint64_t mdnn_memory_least_budget(const mdnn_memory_t *memory)
{
    return mdnn_memory_stuck_bytes(memory) + memory->aside_bytes + memory->chunk_bytes;
}

/* What they take of what can leave. */
static uint64_t movable_bytes(mdnn_memory_t *memory, const uint64_t *addresses, size_t count)
{
    uint64_t bytes = 0;
    memory->passes++;
    for (size_t i = 0; i < count; i++) {
        mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, addresses[i]);
        if (!allocation || allocation->freed ||
            (allocation->pass == memory->passes && !MDNN_FAULT(NAMES_COUNT_TWICE)))
            continue;
        allocation->pass = memory->passes;
        const bool can_leave = !is_stuck(allocation) || MDNN_FAULT(STUCK_COUNTS_TWICE);
        bytes += allocation->range && can_leave ? allocation->room : 0;
    }
    return bytes;
}

bool mdnn_memory_fit_together(mdnn_memory_t *memory, const uint64_t *addresses, size_t count)
{
    return movable_bytes(memory, addresses, count) <= mdnn_memory_bytes_for_demands(memory);
}

static uint64_t room_for(const mdnn_memory_t *memory, uint64_t bytes)
{
    return mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes;
}

/* What an operand of this size takes at least of what can leave. It may be an allocation of that
 * size, or lie in a larger one; in a slab, or in what is pinned, it takes nothing. */
static uint64_t operand_room(const mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t room = room_for(memory, bytes);
    bool alone = false, in_stuck = false;
    if (bytes <= memory->config.ranges.small_bytes)
        return 0;
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next) {
        if (!allocation->range || allocation->bytes < bytes)
            continue;
        if (is_stuck(allocation) && allocation->room == room && !MDNN_FAULT(PINNED_OPERAND_COUNTS))
            return 0;
        in_stuck = in_stuck || is_stuck(allocation);
        alone = alone || (!allocation->freed && allocation->room == room);
    }
    return alone ? room : in_stuck ? 0 : bytes;
}

uint64_t mdnn_memory_room_beside(const mdnn_memory_t *memory, const uint64_t *sizes, size_t count)
{
    uint64_t left = mdnn_memory_bytes_for_demands(memory);
    for (size_t i = 0; i < count; i++) {
        const uint64_t room = operand_room(memory, sizes[i]);
        left -= room < left ? room : left;
    }
    return left;
}

bool mdnn_memory_has_room_with(mdnn_memory_t *memory, uint64_t bytes, const uint64_t *addresses,
                               size_t count)
{
    return movable_bytes(memory, addresses, count) + room_for(memory, bytes) <=
           mdnn_memory_bytes_for_demands(memory);
}

static bool lives_with_size(const mdnn_memory_t *memory, uint64_t bytes)
{
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (!allocation->freed && allocation->bytes == bytes)
            return !MDNN_FAULT(TENSOR_TAKEN_FOR_WORKSPACE);
    return false;
}

/* No operand takes more than a range of its own does. That needs no look at what is alive, and is mostly enough. */
static bool surely_fits(const mdnn_memory_t *memory, uint64_t room, const uint64_t *sizes,
                        size_t count)
{
    uint64_t left = mdnn_memory_bytes_for_demands(memory);
    for (size_t i = 0; i < count; i++)
        left -= mdnn_min(room_for(memory, sizes[i]), left);
    return room <= left;
}

bool mdnn_memory_workspace_fits(mdnn_memory_t *memory, uint64_t bytes, const uint64_t *sizes,
                                size_t count)
{
    const uint64_t room = room_for(memory, bytes);
    if (bytes <= memory->config.ranges.small_bytes || surely_fits(memory, room, sizes, count))
        return true;
    const uint64_t left = mdnn_memory_room_beside(memory, sizes, count);
    if (room <= left || lives_with_size(memory, bytes))
        return true;
    mdnn_memory_refused(
        memory, room + mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes - left, false);
    return false;
}

uint64_t mdnn_allocation_loose_bytes(const mdnn_memory_t *memory,
                                     const mdnn_allocation_t *allocation)
{
    const bool small = allocation->bytes <= memory->config.ranges.small_bytes;
    return allocation->range && small ? allocation->room - allocation->bytes : 0;
}
