/* How what an operation names is divided between device memory and the host, if not all of it fits. Nothing here
 * waits. */
#ifndef MDNN_MEMORY_TAIL_H
#define MDNN_MEMORY_TAIL_H

#include "offload/memory/memory_room.h"

/* Sets `whole` of all that is demanded. `least`: chunks that would be needed without a tail; `tail`: it must have so
 * many at least. Returns how many chunks are missing all the same. */
uint64_t mdnn_memory_divide(mdnn_memory_t *memory, const mdnn_demand_t *demand, uint64_t least,
                            uint64_t tail);
/* Whether an operation can use it, divided in this way. */
bool mdnn_allocation_is_as_divided(const mdnn_allocation_t *allocation);

#endif
