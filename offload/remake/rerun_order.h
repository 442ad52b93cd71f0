/* What reruns and the program's operations must wait for in other streams.
 *
 * A program orders its own operations, by the order in which it enqueues them and by events. It knows nothing of
 * reruns. So a rerun waits for whatever wrote what it reads and for whatever used the places that it writes. An
 * operation of the program waits for reruns that wrote what it names and, if it writes, for reruns that read it,
 * because the program does not make a later writer in another stream wait for a rerun.
 *
 * Places are numbers of the caller's, one for each stretch of addresses, whoever has it. Streams are numbers below a
 * limit. Not thread-safe. */
#ifndef MDNN_RERUN_ORDER_H
#define MDNN_RERUN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_rerun_order mdnn_rerun_order_t;

/* NULL if memory is short. */
mdnn_rerun_order_t *mdnn_rerun_order_create(uint32_t streams);
void mdnn_rerun_order_destroy(mdnn_rerun_order_t *order); /* accepts NULL */

typedef struct mdnn_rerun_user {
    uint32_t stream;
    bool
        rerun; /* or whatever else is not the program's: a copy that is kept, a change of the mapping */
} mdnn_rerun_user_t;

/* For each stream, raises waits[stream] to the position that this use of the place must wait for. Never in its own
 * stream. */
void mdnn_rerun_order_wait(const mdnn_rerun_order_t *order, uint32_t place, mdnn_rerun_user_t user,
                           bool writes, uint64_t *waits);
/* The use is enqueued at that position, which is not 0 and grows within a stream. OUT_OF_MEMORY: nothing is noted. */
mdnn_status_t mdnn_rerun_order_note(mdnn_rerun_order_t *order, uint32_t place,
                                    mdnn_rerun_user_t user, bool writes, uint64_t position);

#endif
