/* Divides what an operation names between device memory and the host, if not all of it fits. Nothing here waits. */
#ifndef MDNN_MEMORY_TAIL_H
#define MDNN_MEMORY_TAIL_H

#include "offload/memory/memory_room.h"

/* Sets the field `whole` of each allocation that is demanded. `least`: the chunks that would be needed without a tail;
 * `tail`: the tail must have at least this many. Returns how many chunks are missing even so. */
uint64_t mdnn_memory_divide(mdnn_memory_t *memory, const mdnn_demand_t *demand, uint64_t least,
                            uint64_t tail);
/* Whether the allocation is divided as `whole` says, so that an operation can use it. */
bool mdnn_allocation_is_as_divided(const mdnn_allocation_t *allocation);

#endif
