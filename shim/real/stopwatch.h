/* How long a call takes where the host runs it: events around it on the host's own stream, read later,
 * without waiting. Whatever else keeps the GPU busy, or leaves it idle meanwhile, makes a call seem
 * longer, never shorter, so the least time counts. It is left idle no longer than the host takes to
 * make the call, which may be long: the thread may be preempted half-way. */
#ifndef MDNN_STOPWATCH_H
#define MDNN_STOPWATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/real/real.h"

typedef struct mdnn_stopwatch_times {
    double most_ms;   /* it takes no longer */
    double device_ms; /* nor less, but for what else kept the GPU busy */
} mdnn_stopwatch_times_t;

/* Zeroed at first; any thread, one at a time takes part. */
typedef struct mdnn_stopwatch {
    _Atomic bool taken;           /* guards the rest */
    bool under_way;               /* the events tell of a call that was not read yet */
    int times;                    /* that were read */
    double begin_us;              /* when the host began that call */
    double host_ms;               /* that it took to make it */
    mdnn_stopwatch_times_t least; /* of them */
    CUevent begin, end;           /* NULL: not made */
} mdnn_stopwatch_t;

/* Before the call is enqueued on `stream`. False if this one is not timed: the last one has not come
 * to its end, another thread times one, or the stream is being captured. Else mdnn_stopwatch_end
 * follows; a call that `failed` tells no time. */
bool mdnn_stopwatch_begin(mdnn_stopwatch_t *watch, CUstream stream);
void mdnn_stopwatch_end(mdnn_stopwatch_t *watch, CUstream stream, bool failed);
/* How many calls were timed until now, *least the least of it if there were any. */
int mdnn_stopwatch_read(mdnn_stopwatch_t *watch, mdnn_stopwatch_times_t *least);
/* Destroys the events. No call is being timed. */
void mdnn_stopwatch_fini(mdnn_stopwatch_t *watch);

#endif
