/* The demand path finds chunks for the ranges that an operation names. memory_room.c explains why a demand ends, and
 * offload/memory/memory_waits.h describes how it waits. */
#ifndef MDNN_MEMORY_ROOM_H
#define MDNN_MEMORY_ROOM_H

#include "offload/memory/memory_internal.h"

typedef struct mdnn_demand {
    mdnn_allocation_t *const *allocations; /* each held once by the demand; some may be NULL */
    size_t count;
    /* The operation that names them; NULL: there must be no tail. */
    const mdnn_memory_operation_t *operation;
} mdnn_demand_t;

/* The caller has the turn. Makes all that is demanded RESIDENT, or SPLIT if it has more chunks than there can be. BUSY:
 * the demand stalled; release the allocations, pass the turn and ask again. HOST: like mdnn_memory_quieten. */
mdnn_status_t mdnn_memory_demand(mdnn_memory_t *memory, const mdnn_demand_t *demand,
                                 mdnn_patience_t *patience);
/* The parts of a demand; the caller has the turn. Between begin_demand and end_demand planned returns get no chunks;
 * the demand needs `least` chunks in all, whatever leaves. make_room is one round: it tries to get `wanted` chunks.
 * wait_for_released waits for memory that is released but still in use. OK: go on; BUSY as above. */
void mdnn_memory_begin_demand(mdnn_memory_t *memory, const mdnn_patience_t *patience,
                              uint64_t least);
void mdnn_memory_end_demand(mdnn_memory_t *memory);
mdnn_status_t mdnn_memory_make_room(mdnn_memory_t *memory, uint64_t wanted,
                                    mdnn_patience_t *patience);
mdnn_status_t mdnn_memory_wait_for_released(mdnn_memory_t *memory, uint64_t wanted,
                                            mdnn_stream_point_t point, mdnn_patience_t *patience);

#endif
