/* Waits of the host. Each wait releases the caller's lock, so anything that is not held may have changed when the wait
 * ends. NOT_FOUND: the memory was closed during the wait. */
#ifndef MDNN_MEMORY_WAITS_H
#define MDNN_MEMORY_WAITS_H

#include "offload/memory/memory_internal.h"

/* A wait for the program is cut into stretches of this length. */
static const double mdnn_stretch_s = 0.02;

/* Waits on the host, and counts the time. STUCK: the device completes nothing any more. */
mdnn_status_t mdnn_memory_wait(mdnn_memory_t *memory, mdnn_stream_point_t point);
/* The same for one of the library's own copies, which ends by itself. */
mdnn_status_t mdnn_memory_wait_for_copy(mdnn_memory_t *memory, mdnn_stream_point_t point);
/* Waits on the host for at most `seconds`, and counts the time. BUSY: the point has not passed by then. */
mdnn_status_t mdnn_memory_wait_a_while(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                       double seconds);
/* The same for a quiet time, and for at most 10 s: what does not end by then may itself wait for what this thread would
 * do next. */
mdnn_status_t mdnn_memory_wait_for_quiet(mdnn_memory_t *memory, mdnn_stream_point_t point);
/* Waits until another thread has changed something, or for a moment. NOT_FOUND also if there is no
 * other thread. */
mdnn_status_t mdnn_memory_wait_for_change(mdnn_memory_t *memory);
mdnn_patience_t mdnn_memory_patience(const mdnn_memory_t *memory);
/* false: the device has completed nothing for as long as the configuration says. */
bool mdnn_memory_is_patient(mdnn_memory_t *memory, mdnn_patience_t *patience);

/* ---- for what is under way ---- */
/* Waits for one thing that is under way. NOT_FOUND: nothing is. BUSY after `seconds`. */
mdnn_status_t mdnn_memory_wait_for_a_move(mdnn_memory_t *memory, double seconds);
/* Moves go on during the wait, since they must not stand still for as long as an operation takes.
 * BUSY after `seconds`. */
mdnn_status_t mdnn_memory_wait_and_move(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                        double seconds);
/* Waits until nothing moves (a range that lacks memory does not move). A failure of the device ends
 * the wait, and so does one that takes too long. */
void mdnn_memory_join(mdnn_memory_t *memory);
/* Called after an operation that ends with `end`. Planned returns get only idle memory, and a host that allocates far
 * ahead of the device would take it from them. So the host waits until the returns have what the plan gives them, but
 * only while that operation keeps the device busy. */
void mdnn_memory_slow_down(mdnn_memory_t *memory, mdnn_stream_point_t end);

#endif
