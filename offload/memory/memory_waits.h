/* Waits of the host. Each lets the lock of the caller go, so anything that is not held may have changed when it
 * ends. NOT_FOUND: the memory was closed meanwhile. */
#ifndef MDNN_MEMORY_WAITS_H
#define MDNN_MEMORY_WAITS_H

#include "offload/memory/memory_internal.h"

/* A wait for what the program does is cut into such stretches. */
static const double mdnn_stretch_s = 0.02;

/* Waits on the host, counted. STUCK: the device completes nothing any more. */
mdnn_status_t mdnn_memory_wait(mdnn_memory_t *memory, mdnn_stream_point_t point);
/* The same for a copy of our own, which ends by itself. */
mdnn_status_t mdnn_memory_wait_for_copy(mdnn_memory_t *memory, mdnn_stream_point_t point);
mdnn_status_t mdnn_memory_wait_a_while(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                       double seconds); /* or BUSY */
/* Until another thread has changed something, or for a moment. NOT_FOUND also if there is none. */
mdnn_status_t mdnn_memory_wait_for_change(mdnn_memory_t *memory);
mdnn_patience_t mdnn_memory_patience(const mdnn_memory_t *memory);
/* false: the device has completed nothing for as long as the configuration says. */
bool mdnn_memory_is_patient(mdnn_memory_t *memory, mdnn_patience_t *patience);

/* ---- for what is under way ---- */
/* Waits for one thing that is. NOT_FOUND: nothing is. BUSY after `seconds`. */
mdnn_status_t mdnn_memory_wait_for_a_move(mdnn_memory_t *memory, double seconds);
/* Moves go on meanwhile: they are not to stand still for as long as an operation takes. BUSY after `seconds`. */
mdnn_status_t mdnn_memory_wait_and_move(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                        double seconds);
/* Waits until nothing moves any more (what cannot move for want of memory does not). A failure of
 * the device ends it, and a wait that takes too long. */
void mdnn_memory_join(mdnn_memory_t *memory);
/* After an operation that ends with `end`: planned returns get only memory that is idle, and what
 * the host allocates far ahead of the device would take it from them. So the host waits until they
 * have what the plan gives them, as long as that operation keeps the device at work behind it. */
void mdnn_memory_slow_down(mdnn_memory_t *memory, mdnn_stream_point_t end);

#endif
