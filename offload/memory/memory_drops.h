/* Contents that are dropped when they leave, and made again before anything could miss them. Nothing of it happens without
 * a remaker (offload/memory/memory.h).
 *
 * A making says how an allocation's content can be made again. It is valid only if the content and the inputs have the
 * hashes that they had when the content was made, so nobody needs to know who may have written them since. An
 * allocation that leaves is hashed once all its uses are over; so are those inputs of its making that are resident. An
 * input that has left is sealed: its hash was taken when it left, and nothing can have written it since then.
 *
 * While a content is dropped, what its making needs must not change: before an operation that may write an input
 * begins, or an input is freed or pinned, the content is made again. That is a wait like those of a demand, so it
 * comes before anything is held, and who holds something looks again. A hash that is on its way does not count once an
 * operation that may write an input holds it. */
#ifndef MDNN_MEMORY_DROPS_H
#define MDNN_MEMORY_DROPS_H

#include "offload/memory/memory_internal.h"

/* ---- memory_makings.c ---- */
/* Called when nothing works on an allocation that leaves. BUSY: hashes are on their way. OK: `dropping` says whether it
 * can be dropped. */
mdnn_status_t mdnn_allocation_judge(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Its content is lost from now on. */
void mdnn_allocation_drop(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* What is on its way for its leave does not count any more. */
void mdnn_allocation_end_judging(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* An operation that holds the allocation may write it. */
void mdnn_allocation_may_change(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Forgets how it can be made again, if it can. What was dropped is lost. */
void mdnn_allocation_end_making(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* The same of all that is made of it, none of which may be dropped; and of itself. */
void mdnn_allocation_end_makings(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* The content is there again, once `end` has passed. */
void mdnn_allocation_made(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                          mdnn_stream_point_t end, mdnn_making_event_t why);
/* Something dropped that is made of it; NULL: there is nothing. */
mdnn_allocation_t *mdnn_allocation_dropped_dependent(const mdnn_allocation_t *allocation);

/* ---- memory_drops.c ---- */
/* Makes again what the operation names, and what it could spoil. Nothing is held. Waits like a demand. */
mdnn_status_t mdnn_memory_make_ready(mdnn_memory_t *memory,
                                     const mdnn_memory_operation_t *operation);
/* Whether anything of that is dropped. */
bool mdnn_memory_is_unready(const mdnn_memory_t *memory, const mdnn_memory_operation_t *operation);
/* The same for a pin or a free of the allocation around `address`; `content`: its own content is wanted, too. */
mdnn_status_t mdnn_memory_make_ready_at(mdnn_memory_t *memory, uint64_t address, bool content);
/* What the operation holds was made again in another stream: waits for that. */
mdnn_status_t mdnn_memory_await_remade(mdnn_memory_t *memory,
                                       const mdnn_memory_operation_t *operation);

#endif
