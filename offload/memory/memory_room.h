/* The demand path: chunks for what an operation names, now. memory_room.c says why it ends. Waits as in
 * offload/memory/memory_waits.h. */
#ifndef MDNN_MEMORY_ROOM_H
#define MDNN_MEMORY_ROOM_H

#include "offload/memory/memory_internal.h"

/* With the turn. Has all of `allocations`, which are held or pinned, RESIDENT; NULL ones are passed over.
 * BUSY: it stalled; let go of them, pass the turn and ask again. HOST: as quieten. */
mdnn_status_t mdnn_memory_demand(mdnn_memory_t *memory, mdnn_allocation_t *const *allocations,
                                 size_t count, mdnn_patience_t *patience);
/* Parts of these, with the turn. Between begin and end planned returns get nothing; the demand needs
 * `least` chunks in all, whatever leaves. One round for `wanted` chunks, or for what is released and
 * in use still: OK: go on; BUSY as above. */
void mdnn_memory_begin_demand(mdnn_memory_t *memory, const mdnn_patience_t *patience,
                              uint64_t least);
void mdnn_memory_end_demand(mdnn_memory_t *memory);
mdnn_status_t mdnn_memory_make_room(mdnn_memory_t *memory, uint64_t wanted,
                                    mdnn_patience_t *patience);
mdnn_status_t mdnn_memory_wait_for_released(mdnn_memory_t *memory, uint64_t wanted,
                                            mdnn_stream_point_t point, mdnn_patience_t *patience);

#endif
