/* The parts of an arena (shim/convolution/arena.h) that belong to captures: each stream of each capture has memory of
 * its own for good, since the captured graphs may run at any time. */
#ifndef MDNN_ARENA_CAPTURES_H
#define MDNN_ARENA_CAPTURES_H

#include "shim/convolution/arena_internal.h"

/* The index of the stream's part in that capture; -1: none. The arena is locked. */
int mdnn_arena_find_capture(const mdnn_arena_t *arena, unsigned long long id, CUstream stream);

/* Gives the stream's capture memory if it has none: half of the remaining memory, or `needed_bytes` if that is more.
 * Locks the arena for writing; waits for the device if the capture cannot run without that memory. */
void mdnn_arena_add_capture(mdnn_arena_t *arena, unsigned long long id, CUstream stream,
                            uint64_t needed_bytes);

#endif
