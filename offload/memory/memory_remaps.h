/* Mappings of moves that change in the background, so that the thread that enqueues work does not wait for them.
 *
 * Only one such change of a range is under way at a time, and only while it is LEAVING and cut off, or RETURNING. Nothing
 * else of the mechanism touches its mappings before that has ended, and each change of its state ends it. While chunks
 * are unmapped they count as mapped, and while they are mapped as not mapped; but whoever reaches one of these may write
 * already, so the host's copies count for nothing from the beginning on. */
#ifndef MDNN_MEMORY_REMAPS_H
#define MDNN_MEMORY_REMAPS_H

#include "offload/memory/memory_internal.h"

/* Begins: its first `upto` chunks will be mapped, or at least not many more; no others. false: that cannot be done in the
 * background, or a demand waits for it. */
bool mdnn_allocation_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto);
/* Notes what has been done, and the end. The failure that ended it is `trouble`, too. */
mdnn_status_t mdnn_allocation_note_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Ends it, after what has begun; `all`: after all of it. Does nothing if none is under way. */
mdnn_status_t mdnn_allocation_end_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                        bool all);
/* So many of its first chunks are mapped, or may be at any time. */
uint64_t mdnn_allocation_shown(const mdnn_allocation_t *allocation);
/* Sees to the whole of one that is under way. false: none changed anything. */
bool mdnn_memory_finish_a_remap(mdnn_memory_t *memory);

#endif
