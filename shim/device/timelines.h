/* Timelines of streams: what "all that was enqueued so far" means later. A mark costs no driver call;
 * an event is recorded only when somebody asks for a point that none covers yet, and then covers
 * every point before it.
 *
 * A stream has a number, the driver's own id (cuStreamGetId), so that a handle that is used again
 * is another stream. Positions count through the whole process and only grow, so a stream whose work
 * has ended can be forgotten: what is not known is over.
 *
 * No event is ever recorded in a capturing stream. While something is captured in the process every
 * mark records its event at once, and mdnn_timelines_capture_began does for all streams, so that what
 * came before a capture stays known. The same for streams of a thread's own (CU_STREAM_PER_THREAD),
 * which no other thread can name.
 *
 * Thread-safe: one lock, not held while the host waits; and none of others' that is needed meanwhile. Calls only the driver, in the stream's
 * context; the caller has relaxed the thread's capture mode. DEVICE is a failure of shim/real/failure.h.
 */
#ifndef MDNN_TIMELINES_H
#define MDNN_TIMELINES_H

#include "offload/ranges/ranges.h"
#include "shim/device/context_change.h"
#include "shim/real/real.h"

typedef struct mdnn_timelines mdnn_timelines_t;

/* The stream of memory that may be used anywhere at once (cuMemAlloc): nothing is enqueued there,
 * its points have passed, and having it wait means that the host does, who must. No stream of the driver has
 * this number. */
#define MDNN_NO_STREAM UINT64_MAX

/* NULL without memory. `driver` must live as long. */
mdnn_timelines_t *mdnn_timelines_create(const mdnn_driver_t *driver);
void mdnn_timelines_destroy(mdnn_timelines_t *timelines); /* accepts NULL; waits for nothing */

/* The number of a stream, known from then on. `per_thread`: stream 0 is the thread's own. DEVICE:
 * the driver does not know it, or may not be asked now (legacy stream beside a capture). */
mdnn_status_t mdnn_timelines_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread,
                                    uint64_t *number);
/* The handle for calls of the same thread in `context`; NULL for MDNN_NO_STREAM, forgotten streams,
 * and those of other contexts. */
CUstream mdnn_timelines_handle(mdnn_timelines_t *timelines, uint64_t number, CUcontext context);
/* Before the stream is destroyed: its work goes on, and must stay known. */
void mdnn_timelines_stream_ends(mdnn_timelines_t *timelines, CUstream stream);

/* Before a context is destroyed: waits for what its streams still do, and forgets them and their
 * events. */
void mdnn_timelines_context_ends(mdnn_timelines_t *timelines, CUcontext context);

/* The point behind everything enqueued in the stream so far. */
mdnn_stream_point_t mdnn_timelines_mark(mdnn_timelines_t *timelines, uint64_t number);
/* The same with an event: for copies, whose end is asked for in any case. */
mdnn_status_t mdnn_timelines_mark_event(mdnn_timelines_t *timelines, uint64_t number,
                                        mdnn_stream_point_t *point);

/* false also when it cannot be known. */
bool mdnn_timelines_is_done(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* BUSY: it cannot be waited for, since the stream is being captured. DEVICE. */
mdnn_status_t mdnn_timelines_wait_on_host(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* The same on the simulated GPU: BUSY also where it would wait for what the program does. */
mdnn_status_t mdnn_timelines_wait_simulated(mdnn_timelines_t *timelines, mdnn_stream_point_t point);
/* The same, asked for again and again; BUSY also after `seconds`. */
mdnn_status_t mdnn_timelines_wait_a_while(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                                          double seconds);
/* What is marked in the stream so far ends with that work, not with what is enqueued next: before
 * something is that may wait for the program. fix: by number. Nothing for unknown streams. */
void mdnn_timelines_fix(mdnn_timelines_t *timelines, uint64_t number);
void mdnn_timelines_fix_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread);
/* Grows whenever work has ended in any stream since the last question. */
uint64_t mdnn_timelines_completions(mdnn_timelines_t *timelines);
/* Enqueues the wait in stream `number`; nothing for its own timelines. BUSY: MDNN_NO_STREAM. */
mdnn_status_t mdnn_timelines_wait_in_stream(mdnn_timelines_t *timelines, uint64_t number,
                                            mdnn_stream_point_t point);

/* Counted; before the capture begins, after it ended. */
void mdnn_timelines_capture_began(mdnn_timelines_t *timelines);
void mdnn_timelines_capture_ended(mdnn_timelines_t *timelines);
bool mdnn_timelines_is_capturing(mdnn_timelines_t *timelines); /* anything in the process; a load */
/* Whether this stream takes part in a capture now. */
bool mdnn_timelines_stream_captures(mdnn_timelines_t *timelines, CUstream stream);

#endif
