/* Which ranges leave for a demand, and how many chunks that gives. Nothing here waits, but for HOST's quiet time. */
#ifndef MDNN_MEMORY_VICTIMS_H
#define MDNN_MEMORY_VICTIMS_H

#include "offload/memory/memory_internal.h"

/* With the turn. Sends ranges away until `wanted` chunks are in sight; none, if there are not so many:
 * OUT_OF_DEVICE_MEMORY. */
mdnn_status_t mdnn_memory_send_away(mdnn_memory_t *memory, uint64_t wanted);
/* What was sent away, and is in use still, stays, and may be sent away again. */
void mdnn_memory_keep_what_is_in_use(mdnn_memory_t *memory);
/* Chunks that there are, or could be, beside what is released and in use still; `idle`: those for
 * which nobody has to end a use. */
uint64_t mdnn_memory_chunks_elsewhere(mdnn_memory_t *memory, bool idle);

#endif
