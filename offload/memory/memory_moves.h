/* What the files about moves share: memory_moves.c decides what becomes of a range, and
 * memory_steps.c does it. */
#ifndef MDNN_MEMORY_MOVES_H
#define MDNN_MEMORY_MOVES_H

#include "offload/memory/memory_internal.h"

/* How many bytes of the allocation's content lie from chunk `from` on. */
uint64_t mdnn_allocation_bytes_from(const mdnn_memory_t *memory,
                                    const mdnn_allocation_t *allocation, uint64_t from);
/* Reports an event about chunks that move, from `from` up to `to`. */
void mdnn_allocation_announce(const mdnn_memory_t *memory, mdnn_memory_event_kind_t kind,
                              const mdnn_allocation_t *allocation, uint64_t from, uint64_t to);
/* Whether the first `upto` chunks are mapped, or VERIFY will map them when the operation begins. */
bool mdnn_allocation_mapped_enough(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                                   uint64_t upto);
/* Takes a slot for each chunk from `target` on that has none. The allocation is then not blank any more. BUSY: slots
 * are being made. */
mdnn_status_t mdnn_allocation_take_slots(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Gives back host slots without content, unless copies out are writing to them, or will. */
void mdnn_allocation_trim_slots(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* An allocation that returns in order to be SPLIT is to become RESIDENT instead. */
void mdnn_allocation_end_covering(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Takes the range a step towards the state SPLIT with its first `whole` chunks on the device. Called in any state, and
 * again until the range is SPLIT in that way. */
void mdnn_allocation_split(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t whole);
/* Called when all of the allocation is there: it becomes RESIDENT. */
void mdnn_allocation_settle_down(mdnn_memory_t *memory, mdnn_allocation_t *allocation);

#endif
