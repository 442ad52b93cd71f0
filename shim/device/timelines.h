/* Timelines of streams record what "all work that is enqueued now" means later. A mark costs no driver call. An event
 * is recorded only when a point is asked for that no event covers yet, and then covers every point before it.
 *
 * A stream has a number, the driver's own id (cuStreamGetId), so that a handle that is used again is another stream.
 * Positions are unique in the process and only grow, so a stream whose work has ended can be forgotten: an unknown
 * point is over.
 *
 * No event is ever recorded in a capturing stream. While something is captured in the process, every mark records its
 * event at once, and mdnn_timelines_capture_began records one in every stream, so that work before a capture stays
 * known. Marks also record at once in streams of a thread's own (CU_STREAM_PER_THREAD), which no other thread can name.
 *
 * Thread-safe: one lock, which is not held while the host waits, and no other lock is needed in that time. Calls only
 * the driver, in the stream's context; the caller has relaxed the thread's capture mode. DEVICE is a failure of
 * shim/real/failure.h. */
#ifndef MDNN_TIMELINES_H
#define MDNN_TIMELINES_H

#include "offload/ranges/ranges.h"
#include "shim/device/context_change.h"
#include "shim/real/real.h"

typedef struct mdnn_timelines mdnn_timelines_t;

/* The stream of memory that may be used anywhere at once (cuMemAlloc). Nothing is enqueued in it and its points have
 * passed; instead of this stream, the host must wait. No stream of the driver has this number. */
#define MDNN_NO_STREAM UINT64_MAX

/* NULL if memory is short. `driver` must live as long. */
mdnn_timelines_t *mdnn_timelines_create(const mdnn_driver_t *driver);
void mdnn_timelines_destroy(mdnn_timelines_t *timelines); /* accepts NULL; waits for nothing */

/* The number of a stream, known from then on. `per_thread`: stream 0 is the thread's own. DEVICE:
 * the driver does not know it, or may not be asked now (legacy stream beside a capture). */
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

/* The point behind everything enqueued in the stream so far. */
mdnn_stream_point_t mdnn_timelines_mark(mdnn_timelines_t *timelines, uint64_t number);
/* The same with an event, for copies, whose end is always asked for. */
mdnn_status_t mdnn_timelines_mark_event(mdnn_timelines_t *timelines, uint64_t number,
                                        mdnn_stream_point_t *point);

/* false also when it cannot be known. */
bool mdnn_timelines_is_done(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* BUSY: it cannot be waited for, since the stream is being captured. DEVICE. */
mdnn_status_t mdnn_timelines_wait_on_host(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* The same; on the simulated GPU also BUSY if it would wait for the program. */
mdnn_status_t mdnn_timelines_wait_simulated(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* The same, but by polling; BUSY also after `seconds`. */
mdnn_status_t mdnn_timelines_wait_a_while(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                                          double seconds);
/* Called before work is enqueued that may wait for the program: makes the points that are marked so
 * far end with their own work, not with the next work. fix: by number. Does nothing for unknown
 * streams. */
void mdnn_timelines_fix(mdnn_timelines_t *timelines, uint64_t number);
void mdnn_timelines_fix_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread);
/* Grows whenever work has ended in any stream since the last question. */
uint64_t mdnn_timelines_completions(mdnn_timelines_t *timelines);
/* Enqueues the wait in stream `number`; nothing for its own timelines. BUSY: MDNN_NO_STREAM. */
mdnn_status_t mdnn_timelines_wait_in_stream(mdnn_timelines_t *timelines, uint64_t number,
                                            mdnn_stream_point_t point);

/* Calls are counted. Called before the capture begins, and after it has ended. */
void mdnn_timelines_capture_began(mdnn_timelines_t *timelines);
void mdnn_timelines_capture_ended(mdnn_timelines_t *timelines);
bool mdnn_timelines_is_capturing(mdnn_timelines_t *timelines); /* anything in the process; a load */
/* Whether this stream takes part in a capture now. */
bool mdnn_timelines_stream_captures(mdnn_timelines_t *timelines, CUstream stream);

#endif
