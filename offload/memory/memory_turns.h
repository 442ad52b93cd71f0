/* The queue of demands. One demand has the turn, and only that one collects chunks. A thread's place in the queue lies
 * on its stack. */
#ifndef MDNN_MEMORY_TURNS_H
#define MDNN_MEMORY_TURNS_H

#include "offload/memory/memory_internal.h"

/* Wait for the turn; the demand must hold nothing meanwhile. OK: mdnn_memory_end_turn follows; otherwise the demand is
 * not in the queue. pass_turn lets all others in the queue go first. */
mdnn_status_t mdnn_memory_take_turn(mdnn_memory_t *memory, mdnn_turn_t *turn);
mdnn_status_t mdnn_memory_pass_turn(mdnn_memory_t *memory, mdnn_turn_t *turn);
void mdnn_memory_end_turn(mdnn_memory_t *memory, mdnn_turn_t *turn);
/* Whether nobody else is in the queue. */
bool mdnn_memory_is_alone(const mdnn_memory_t *memory);
/* Whether other threads have begun operations, whose holds end when their calls return. */
bool mdnn_memory_others_hold(const mdnn_memory_t *memory);

#endif
