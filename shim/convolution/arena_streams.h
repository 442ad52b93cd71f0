/* The streams of an arena (shim/convolution/arena.h). Each stream has a slot with a region of the arena. The arena is
 * divided into regions again when streams come and go, and when the network that a stream runs changes
 * (optimizer/network.h watches for that). */
#ifndef MDNN_ARENA_STREAMS_H
#define MDNN_ARENA_STREAMS_H

#include "shim/convolution/arena_internal.h"

/* The slot of a stream; -1 if it has none. The arena is locked. */
int mdnn_arena_find_slot(const mdnn_arena_t *arena, CUstream stream);

/* Gives every slot in use its region. Idle slots, except for `keep`, lose theirs. The arena is locked for writing. */
void mdnn_arena_divide(mdnn_arena_t *arena, mdnn_arena_slot_t *keep);

/* Finds the stream's slot, or makes it, locks it and (for reading) the arena, and notes the call. Returns the slot's
 * index, and in *segment the part for the call; the caller must then call mdnn_arena_leave. Returns -1 and locks
 * nothing if the stream can have no slot. */
int mdnn_arena_enter(mdnn_arena_t *arena, CUstream stream, const mdnn_network_call_t *call,
                     mdnn_wd_segment_t *segment);
void mdnn_arena_leave(mdnn_arena_t *arena, int slot);

#endif
