/* Invariants of allocations (offload/memory/memory_internal.h), which debug builds check. They hold whenever the
 * caller's lock is released.
 *
 * Content
 *   mapped <= filled <= owned <= count, and clean <= filled. With VERIFY a RESIDENT allocation may be mapped or not.
 *   Copies in that are under way fill the chunks from `filled` to `in_sent`, which the allocation owns; copies out
 *   that are under way and will be used read the chunks from `out_sent` to `clean`.
 *   Host slots are there from `slots_from` on, which is `clean` at most. A blank allocation has none, unless it is
 *   leaving.
 *   Each covered step has a slot, and no chunk mapped there. Steps are covered with HOST, in the state SPLIT, and until
 *   earlier uses of a tail are over.
 * States
 *   RESIDENT: all chunks are there and mapped, and the host's copy counts for nothing.
 *   AWAY: the chunks that it has are filled, none is coming, and some are missing.
 *   LEAVING: some chunks are to go; one that is cut off is unmapped from `target` on. No allocation in another state is
 *   cut off.
 *   SPLIT: the chunks that it has are mapped, and all other steps are covered; nothing is under way.
 *   RETURNING: as many chunks as it can have are to come.
 *   ENDING: it was freed.
 *   An allocation that stays or is pinned is RESIDENT until it ends.
 *   An allocation that is LEAVING, RETURNING or ENDING is in the list of its state once, and no other allocation is.
 * Life
 *   All allocations are in one list, newest first; each has a number of its own and owns its address.
 *   A block of a slab stays, and has no chunks. A range takes its chunks, a block its granules.
 *   An allocation was born before any operation that is to come; one that lives can be named by each of those.
 *   An allocation that was freed is unknown to the plan follower, has no live pins, and ends unless somebody holds it.
 *   It has one use per stream; the first few uses lie in the allocation itself.
 * Sums
 *   These are sums over allocations: the bytes that live, that these take, that these waste, and that cannot leave, and
 *   the host slots in use. No range that can leave takes more than `movable_range_bytes`.
 *   Each copy under way is of an allocation that counts it, and there is room for all of them.
 *   Chunks are counted as the address space counts them, and there were never more than the peak.
 *   A stall is noted only while a demand is under way. There is room for the times of all operations that are being
 *   timed. The turn that is known as the last is the last of the queue. Each operation between begin and end is counted
 *   as a hold. */
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
