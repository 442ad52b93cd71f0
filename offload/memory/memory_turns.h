/* The line of demands: one of them has the turn, and only that one collects chunks. A thread's place in it lies on
 * its stack. */
#ifndef MDNN_MEMORY_TURNS_H
#define MDNN_MEMORY_TURNS_H

#include "offload/memory/memory_internal.h"

/* Waits for the turn, with nothing held. OK: end_turn follows; else it is not in line. pass: lets
 * all others in line go first. */
mdnn_status_t mdnn_memory_take_turn(mdnn_memory_t *memory, mdnn_turn_t *turn);
mdnn_status_t mdnn_memory_pass_turn(mdnn_memory_t *memory, mdnn_turn_t *turn);
void mdnn_memory_end_turn(mdnn_memory_t *memory, mdnn_turn_t *turn);
/* Nobody else is in line. */
bool mdnn_memory_is_alone(const mdnn_memory_t *memory);
/* Operations that other threads have begun, and what they hold ends when their calls return. */
bool mdnn_memory_others_hold(const mdnn_memory_t *memory);

#endif
