/* Mappings of released memory that a thread of the library changes ahead of requests, so that the thread that enqueues
 * work need not:
 *   - where ranges return as planned and lack chunks, idle released memory is unmapped for them (reclaimed);
 *   - where chunks are spare and the plan says that a new range comes soon, memory for it is mapped (prepared).
 * Meanwhile the memory is a live range without an owner (mdnn_ranges_withdraw, mdnn_ranges_reserve), so no request gets
 * it. A chunk that is reclaimed serves others as soon as it is unmapped. What is prepared is released memory as soon as
 * it is mapped. A request that lacks memory ends all this. */
#ifndef MDNN_MEMORY_AHEAD_H
#define MDNN_MEMORY_AHEAD_H

#include "offload/memory/memory_internal.h"

/* Begins to unmap released memory on which no work runs, until `chunks` chunks are or will be spare. */
void mdnn_memory_reclaim(mdnn_memory_t *memory, uint64_t chunks);
/* Begins to map spare chunks for the first new range that the plan expects and that no released memory can serve. */
void mdnn_memory_prepare(mdnn_memory_t *memory);
/* Takes note of what has been unmapped and mapped. */
void mdnn_memory_note_ahead(mdnn_memory_t *memory);
/* Before a request for `chunks` chunks in a row: finishes what is being prepared for it. */
void mdnn_memory_finish_prepared(mdnn_memory_t *memory, uint64_t chunks);
/* Ends all that is under way, once the chunks that are being changed are done. false: nothing was. */
bool mdnn_memory_end_ahead(mdnn_memory_t *memory);
/* Called by a thread that has to wait anyway: it finishes these changes itself, one after the other, until a mapping
 * has changed. false: none has. */
bool mdnn_memory_finish_ahead(mdnn_memory_t *memory);

#endif
