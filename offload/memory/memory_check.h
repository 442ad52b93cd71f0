/* Invariants of allocations (offload/memory/memory_internal.h), which debug builds check. They hold whenever the
 * caller's lock is released.
 *
 * Content
 *   mapped <= filled <= owned <= count, and clean <= filled. With VERIFY what is RESIDENT may be mapped or not.
 *   Copies in under way are of the chunks from `filled` to `in_sent`, within what it owns; copies out that count
 *   are of those from `out_sent` to `clean`.
 *   Host slots are there from `slots_from` on, which is `clean` at most. What is blank has none, unless it leaves.
 *   What is covered has a slot for each step, and nothing mapped there. That is so with HOST, in SPLIT, and until
 *   earlier uses of a tail are over.
 * States
 *   RESIDENT: all of it is there and mapped, and the host's copy counts for nothing.
 *   AWAY: what it has is filled, nothing comes, and something is missing.
 *   LEAVING: something is to go; what is cut off is unmapped from `target` on. Nothing else is cut off.
 *   SPLIT: what it has is mapped, and all else is covered; nothing of it is under way.
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
/* *broken: the first rule that does not hold. *looks: how many looks it took. */
bool mdnn_memory_is_valid(const mdnn_memory_t *memory, const char **broken, uint64_t *looks);
/* Called after a change, before the lock is released: aborts if a rule is broken. With many allocations, only some of
 * the calls check. */
void mdnn_memory_check(const mdnn_memory_t *memory);
#else
static inline void mdnn_memory_check(const mdnn_memory_t *memory)
{
    (void)memory;
}
#endif

#endif
