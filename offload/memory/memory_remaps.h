/* Changes of mappings that moves need, made in the background, so that the thread that enqueues work does not wait for
 * them.
 *
 * Only one such change of a range is under way at a time, and only while it is RETURNING, or LEAVING and cut off
 * (nothing uses it any more, and new work that wants to use it must first call off its leaving). Nothing else in the
 * mechanism touches the range's mappings before the change has ended, and each change of the range's state ends it.
 * While chunks are being unmapped they count as mapped, and while they are being mapped they count as not mapped. But
 * an access to a chunk that is being mapped may already write to it, so the host's copy of it counts for nothing from
 * the beginning of the change. */
#ifndef MDNN_MEMORY_REMAPS_H
#define MDNN_MEMORY_REMAPS_H

#include "offload/memory/memory_internal.h"

/* Begins to map or unmap chunks, at most MDNN_REMAP_CHUNKS of them; the goal is that the allocation's first `upto`
 * chunks are mapped, and no others. false: that cannot be done in the background, or a demand waits for it. */
bool mdnn_allocation_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto);
/* Notes what the change has done so far, and its end. A failure that ended it is also noted as the memory's
 * `trouble`. */
mdnn_status_t mdnn_allocation_note_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Ends the change after the chunk that has begun; `all`: after all chunks. Does nothing if none is under way. */
mdnn_status_t mdnn_allocation_end_remap(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                        bool all);
/* How many of the allocation's first chunks are mapped, or may be at any moment. */
uint64_t mdnn_allocation_shown(const mdnn_allocation_t *allocation);
/* Finishes changes, one after the other, until one has changed a mapping. If none of the moves' changes has, goes on
 * with those of memory_ahead.h (mdnn_memory_finish_ahead). false: nothing has changed. */
bool mdnn_memory_finish_a_remap(mdnn_memory_t *memory);

#endif
