/* Chooses which ranges leave for a demand, and counts the chunks that become free by that. Nothing here waits, except
 * for HOST's quiet time. */
#ifndef MDNN_MEMORY_VICTIMS_H
#define MDNN_MEMORY_VICTIMS_H

#include "offload/memory/memory_internal.h"

/* The caller has the turn. Sends ranges away until `wanted` chunks will become free. OUT_OF_DEVICE_MEMORY: there are
 * not that many, and no range was sent away. */
mdnn_status_t mdnn_memory_send_away(mdnn_memory_t *memory, uint64_t wanted);
/* Ranges that were sent away but are still in use stay, and may be sent away again. */
void mdnn_memory_keep_what_is_in_use(mdnn_memory_t *memory);
/* The chunks that exist or could exist, except for released ones that are still in use; `idle`: only those for which no
 * use has to end first. */
uint64_t mdnn_memory_chunks_elsewhere(mdnn_memory_t *memory, bool idle);

#endif
