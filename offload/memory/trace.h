/* The trace of virtual memory: what moved when, as a file in Chrome's trace format (a JSON array),
 * which Perfetto and chrome://tracing open.
 *
 * Each device appears as a process of the trace: the first one under the number of the process, each with a name that
 * says the rank, if the launcher gives one, and the device. It has a track for each stream, on which an operation is a
 * mark at the moment when the host enqueued it; a track "on the device" for each stream, with the operations that were
 * timed (only their durations were measured: each is shown from the moment when it was enqueued, or when the one before
 * it ended); the tracks "out" and "in" (moves, from the moment when the host began them to the moment when it saw their
 * end, with the reason); and the track "host" (waits, and a mark at each iteration). The counters are "resident" bytes,
 * "planned" ones, which a plan that is followed would have resident, and the "budget". Times are the host's clock, in
 * microseconds since 1970, so that traces of several ranks and of other tools can be shown together.
 *
 * The file is opened, appended to and closed again in batches, every 64 KiB or second; no
 * descriptor stays open. The closing bracket comes with mdnn_trace_finish: without it (a killed
 * process) the file still opens, without the last batch. A child after fork writes nothing.
 *
 * Thread-safe: the trace has a lock of its own, and a thread that holds it waits for nothing but the write itself.
 * Every function accepts a NULL trace and then does nothing. The first error of the file is logged, and nothing more is
 * written. */
#ifndef MDNN_TRACE_H
#define MDNN_TRACE_H

#include <stdint.h>

#include "offload/memory/memory.h"

typedef struct mdnn_trace mdnn_trace_t;

/* The most events that memory.trace writes: about 300 MB. */
enum { MDNN_TRACE_EVENTS = 2000000 };

/* `pattern`: a path with %p and %h (config/log.h). An existing file is replaced at the first batch.
 * After `events_max` events a mark says that the trace was cut, and only the ends of moves that are
 * under way are still written. NULL if the pattern is empty or there is no memory. */
mdnn_trace_t *mdnn_trace_open(const char *pattern, uint64_t events_max);

/* Called before the first event of a device, with its name and its budget. */
void mdnn_trace_device(mdnn_trace_t *trace, int device, const char *name, uint64_t budget_bytes);

/* `now_us`: any clock that does not go back; the same for all events. */
void mdnn_trace_event(mdnn_trace_t *trace, int device, double now_us,
                      const mdnn_memory_event_t *event);

/* Ends what is under way and completes the file; later events are dropped. For the exit handler:
 * gives up if another thread is writing. Makes no CUDA call. */
void mdnn_trace_finish(mdnn_trace_t *trace);

/* Forgets the trace without finishing it. */
void mdnn_trace_close(mdnn_trace_t *trace);

#endif
