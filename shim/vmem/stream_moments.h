/* Moments in streams: what "all that was enqueued so far" means later. A mark costs no driver call;
 * an event is recorded only when somebody asks for a moment that none covers yet, and then covers
 * every moment before it.
 *
 * A stream has a number, the driver's own id (cuStreamGetId), so that a handle that is used again
 * is another stream. Moments count through the whole process and only grow, so a stream whose work
 * has ended can be forgotten: what is not known is over.
 *
 * No event is ever recorded in a capturing stream. While something is captured in the process every
 * mark records its event at once, and mdnn_moments_capture_began does for all streams, so that what
 * came before a capture stays known. The same for streams of a thread's own (CU_STREAM_PER_THREAD),
 * which no other thread can name.
 *
 * Thread-safe: one lock, not held while the host waits; and none of others' that is needed meanwhile. Calls only the driver, in the stream's
 * context; the caller has relaxed the thread's capture mode. DEVICE is a failure of shim/real/failure.h.
 */
#ifndef MDNN_STREAM_MOMENTS_H
#define MDNN_STREAM_MOMENTS_H

#include "offload/memory/ranges.h"
#include "shim/real/real.h"

typedef struct mdnn_moments mdnn_moments_t;

/* The stream of memory that may be used anywhere at once (cuMemAlloc): nothing is enqueued there,
 * its moments are over, and having it wait means that the host does, who must. No stream of the driver has
 * this number. */
#define MDNN_NO_STREAM UINT64_MAX

/* NULL without memory. `driver` must live as long. */
mdnn_moments_t *mdnn_moments_create(const mdnn_driver_t *driver);
void mdnn_moments_destroy(mdnn_moments_t *moments); /* accepts NULL; waits for nothing */

/* The number of a stream, known from then on. `per_thread`: stream 0 is the thread's own. DEVICE:
 * the driver does not know it, or may not be asked now (legacy stream beside a capture). */
mdnn_status_t mdnn_moments_stream(mdnn_moments_t *moments, CUstream stream, bool per_thread,
                                  uint64_t *number);
/* The handle for calls of the same thread in `context`; NULL for MDNN_NO_STREAM, forgotten streams,
 * and those of other contexts. */
CUstream mdnn_moments_handle(mdnn_moments_t *moments, uint64_t number, CUcontext context);
/* Before the stream is destroyed: its work goes on, and must stay known. */
void mdnn_moments_stream_ends(mdnn_moments_t *moments, CUstream stream);

/* Before a context is destroyed: waits for what its streams still do, and forgets them and their
 * events. */
void mdnn_moments_context_ends(mdnn_moments_t *moments, CUcontext context);

/* The moment behind everything enqueued in the stream so far. */
mdnn_ticket_t mdnn_moments_mark(mdnn_moments_t *moments, uint64_t number);
/* The same with an event: for copies, whose end is asked for in any case. */
mdnn_status_t mdnn_moments_mark_event(mdnn_moments_t *moments, uint64_t number,
                                      mdnn_ticket_t *ticket);

/* false also when it cannot be known. */
bool mdnn_moments_is_done(mdnn_moments_t *moments, mdnn_ticket_t ticket);
/* BUSY: it cannot be waited for, since the stream is being captured. DEVICE. */
mdnn_status_t mdnn_moments_wait_on_host(mdnn_moments_t *moments, mdnn_ticket_t ticket);
/* The same on the simulated GPU: BUSY also where it would wait for what the program does. */
mdnn_status_t mdnn_moments_wait_simulated(mdnn_moments_t *moments, mdnn_ticket_t ticket);
/* The same, asked for again and again; BUSY also after `seconds`. */
mdnn_status_t mdnn_moments_wait_a_while(mdnn_moments_t *moments, mdnn_ticket_t ticket,
                                        double seconds);
/* What is marked in the stream so far ends with that work, not with what is enqueued next: before
 * something is that may wait for the program. fix: by number. Nothing for unknown streams. */
void mdnn_moments_fix(mdnn_moments_t *moments, uint64_t number);
void mdnn_moments_fix_stream(mdnn_moments_t *moments, CUstream stream, bool per_thread);
/* Grows whenever work has ended in any stream since the last question. */
uint64_t mdnn_moments_completions(mdnn_moments_t *moments);
/* Enqueues the wait in stream `number`; nothing for its own moments. BUSY: MDNN_NO_STREAM. */
mdnn_status_t mdnn_moments_wait_in_stream(mdnn_moments_t *moments, uint64_t number,
                                          mdnn_ticket_t ticket);

/* Counted; before the capture begins, after it ended. */
void mdnn_moments_capture_began(mdnn_moments_t *moments);
void mdnn_moments_capture_ended(mdnn_moments_t *moments);
bool mdnn_moments_is_capturing(mdnn_moments_t *moments); /* anything in the process; a load */
/* Whether this stream takes part in a capture now. */
bool mdnn_moments_stream_captures(mdnn_moments_t *moments, CUstream stream);

/* For calls in another context than the thread's: makes `context` current if it is not. */
typedef struct mdnn_context_change {
    bool pushed;
} mdnn_context_change_t;
mdnn_context_change_t mdnn_context_enter(const mdnn_driver_t *driver, CUcontext context);
void mdnn_context_leave(const mdnn_driver_t *driver, mdnn_context_change_t change);

#endif
