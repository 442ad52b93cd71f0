/* What must hold of allocations (offload/memory/memory_internal.h) whenever the lock of the caller is let go, as
 * checks of debug builds.
 *
 * Content
 *   mapped <= filled <= owned <= count, and clean <= filled. With VERIFY what is RESIDENT may be mapped or not.
 *   Copies in under way are of the chunks from `filled` to `in_sent`, within what it owns; copies out that count
 *   are of those from `out_sent` to `clean`.
 *   Host slots are there from `slots_from` on, which is `clean` at most. What is blank has none, unless it leaves.
 *   With HOST what is covered has a slot for each step, and nothing mapped.
 * States
 *   RESIDENT: all of it is there and mapped, and the host's copy counts for nothing.
 *   AWAY: what it has is filled, nothing comes, and something is missing.
 *   LEAVING: something is to go; what is cut off is unmapped from `target` on. Nothing else is cut off.
 *   RETURNING: so much as it can have is to come.
 *   ENDING: freed.
 *   What stays, and what is pinned, is RESIDENT, until it ends.
 *   LEAVING, RETURNING and ENDING ones stand in the list of their state once, and nobody else does.
 * Life
 *   All are in one list, newest first, each with a number of its own; each owns its address.
 *   A block of a slab stays, and has no chunks. A range takes its chunks, a block its granules.
 *   It was born before any operation that is to come; what lives can be named by each of those.
 *   What was freed is unknown to the plan follower, has no live pins, and ends unless somebody holds it.
 *   Of one stream it has one use; the first few lie in the allocation itself.
 * Sums
 *   What lives, what it takes, what it wastes, what cannot leave, and host slots in use, are sums over allocations;
 *   no range that can leave takes more than `movable_range_bytes`.
 *   Each copy under way is of an allocation that counts it; no more than there is room for.
 *   Chunks are counted as the address space counts them, and there were never more than the peak.
 *   Somebody stalls only while a demand is under way; times of operations have their places; the line of turns
 *   ends with its last. Nothing is open that is not held. */
#ifndef MDNN_MEMORY_CHECK_H
#define MDNN_MEMORY_CHECK_H

#include "offload/memory/memory.h"

#ifdef MDNN_DEBUG
/* *broken: the first rule that does not hold. *looks: what the check took. */
bool mdnn_memory_is_valid(const mdnn_memory_t *memory, const char **broken, uint64_t *looks);
/* After a change, and before the lock is let go: aborts if a rule is broken; where there is much, after some
 * changes only. */
void mdnn_memory_check(const mdnn_memory_t *memory);
#else
static inline void mdnn_memory_check(const mdnn_memory_t *memory)
{
    (void)memory;
}
#endif

#endif
