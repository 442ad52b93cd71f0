/* Timelines of streams remember points in the streams' work, so that one can ask later whether all work before a point
 * has ended. Marking a point costs no driver call. An event is recorded only when somebody asks for a point that no
 * event covers yet; it then covers every point before it, too.
 *
 * A stream has a number, the driver's own id (cuStreamGetId), so that a handle that is used again is another stream.
 * Positions are unique in the process and only grow, so a stream whose work has ended can be forgotten: an unknown
 * point has passed.
 *
 * No event is ever recorded in a capturing stream. While something is being captured in the process, every mark records
 * its event immediately, and mdnn_timelines_capture_began records one in every stream, so that the work before a
 * capture stays known. Marks also record their events immediately in streams of a thread's own (CU_STREAM_PER_THREAD),
 * which no other thread can name.
 *
 * Thread-safe: one lock, which is not held while the host waits, and no other lock is taken while it is held. Calls
 * only the driver, in the stream's context; the caller has relaxed the thread's capture mode. The status DEVICE means
 * that a driver call failed; mdnn_failure_take (shim/real/failure.h) returns its result. */
#ifndef MDNN_TIMELINES_H
#define MDNN_TIMELINES_H

#include "offload/ranges/ranges.h"
#include "shim/device/context_change.h"
#include "shim/real/real.h"

typedef struct mdnn_timelines mdnn_timelines_t;

/* A number that stands for no stream; the driver gives it to none. It is the stream of memory that any stream may use
 * immediately (cuMemAlloc). Nothing is enqueued in it, and its points have passed; where this stream would have to
 * wait, the host must wait instead. */
#define MDNN_NO_STREAM UINT64_MAX

/* NULL if memory is short. `driver` must live as long. */
mdnn_timelines_t *mdnn_timelines_create(const mdnn_driver_t *driver);
void mdnn_timelines_destroy(mdnn_timelines_t *timelines); /* accepts NULL; waits for nothing */

/* The number of a stream, which is known from then on. `per_thread`: stream 0 is the thread's own. DEVICE: the driver
 * does not know it, or may not be asked now (legacy stream beside a capture). */
mdnn_status_t mdnn_timelines_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread,
                                    uint64_t *number);
/* The handle for calls of the same thread in `context`; NULL for MDNN_NO_STREAM, forgotten streams,
 * and those of other contexts. */
CUstream mdnn_timelines_handle(mdnn_timelines_t *timelines, uint64_t number, CUcontext context);
/* Called before the stream is destroyed: its work goes on, and must stay known. */
void mdnn_timelines_stream_ends(mdnn_timelines_t *timelines, CUstream stream);

/* Called before a context is destroyed: waits for the work of its streams, and forgets them and
 * their events. */
void mdnn_timelines_context_ends(mdnn_timelines_t *timelines, CUcontext context);

/* The point after everything that is enqueued in the stream so far. */
mdnn_stream_point_t mdnn_timelines_mark(mdnn_timelines_t *timelines, uint64_t number);
/* The same, and records an event; for copies, because somebody always asks for their end. */
mdnn_status_t mdnn_timelines_mark_event(mdnn_timelines_t *timelines, uint64_t number,
                                        mdnn_stream_point_t *point);

/* Whether the point has passed; false also if that cannot be known. */
bool mdnn_timelines_is_done(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* BUSY: nobody can wait for the point, since the stream is being captured. DEVICE. */
mdnn_status_t mdnn_timelines_wait_on_host(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* The same; on the simulated GPU also BUSY if it would wait for the program. */
mdnn_status_t mdnn_timelines_wait_simulated(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* The same, but by polling; BUSY also after `seconds`. */
mdnn_status_t mdnn_timelines_wait_a_while(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                                          double seconds);
/* Called before work is enqueued that may wait for the program: makes sure that the points that are marked so far pass
 * as soon as the work before them has ended, and not only with later work. fix takes the stream's number, fix_stream
 * its handle. Do nothing for unknown streams. */
void mdnn_timelines_fix(mdnn_timelines_t *timelines, uint64_t number);
void mdnn_timelines_fix_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread);
/* A number that grows from one call to the next if work has ended in any stream between them. */
uint64_t mdnn_timelines_completions(mdnn_timelines_t *timelines);
/* Makes stream `number` wait for the point; does nothing if the point is in that stream. BUSY: MDNN_NO_STREAM. */
mdnn_status_t mdnn_timelines_wait_in_stream(mdnn_timelines_t *timelines, uint64_t number,
                                            mdnn_stream_point_t point);
/* Makes stream `number` wait for all that is enqueued in all other streams. BUSY: one of them is being captured, or belongs
 * to another thread; then the stream may wait for some of them. DEVICE. */
mdnn_status_t mdnn_timelines_wait_for_all(mdnn_timelines_t *timelines, uint64_t number);

/* Called before a capture begins, and after it has ended. The calls are counted. */
void mdnn_timelines_capture_began(mdnn_timelines_t *timelines);
void mdnn_timelines_capture_ended(mdnn_timelines_t *timelines);
/* Whether a capture is under way anywhere in the process. Costs one load. */
bool mdnn_timelines_is_capturing(mdnn_timelines_t *timelines);
/* Whether this stream takes part in a capture now. */
bool mdnn_timelines_stream_captures(mdnn_timelines_t *timelines, CUstream stream);

#endif
