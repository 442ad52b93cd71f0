/* What captures have of an arena: memory for good, since their graphs may run at any time, each stream of each its
 * own. */
#ifndef MDNN_ARENA_CAPTURES_H
#define MDNN_ARENA_CAPTURES_H

#include "shim/convolution/arena_internal.h"

/* -1: none. The arena is locked. */
int mdnn_arena_find_capture(const mdnn_arena_t *arena, unsigned long long id, CUstream stream);

/* Gives the stream's capture memory, if it has none: half of what is left, but `needed_bytes` if that is more. Locks the
 * arena for writing; waits for the device where the capture cannot do without. */
void mdnn_arena_add_capture(mdnn_arena_t *arena, unsigned long long id, CUstream stream,
                            uint64_t needed_bytes);

#endif
