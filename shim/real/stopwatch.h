/* Measures how long a call takes where the program runs it, by events around it on the program's own stream, which are
 * read later without waiting. Anything that keeps the GPU busy or idle in between makes a call seem longer, never
 * shorter, so the smallest time counts. The GPU is idle no longer than the host takes to make the call, which may be
 * long if the thread is preempted half-way. */
#ifndef MDNN_STOPWATCH_H
#define MDNN_STOPWATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/real/real.h"

typedef struct mdnn_stopwatch_times {
    double most_ms;   /* the call takes no longer */
    double device_ms; /* nor does it take less, unless other work kept the GPU busy */
} mdnn_stopwatch_times_t;

/* Starts as zeros. Any thread may use it, one at a time. */
typedef struct mdnn_stopwatch {
    _Atomic bool taken;           /* guards the rest */
    bool under_way;               /* the events belong to a call whose time was not read yet */
    int times;                    /* how many times were read */
    double begin_us;              /* when the host began that call */
    double host_ms;               /* the time that the host took to make it */
    mdnn_stopwatch_times_t least; /* the least of the times that were read */
    CUevent begin, end;           /* NULL: not made */
} mdnn_stopwatch_t;

/* Called before the call is enqueued on `stream`. False if the call is not timed: the last one has
 * not ended, another thread is timing one, or the stream is being captured. Otherwise
 * mdnn_stopwatch_end follows; a call that `failed` gives no time. */
bool mdnn_stopwatch_begin(mdnn_stopwatch_t *watch, CUstream stream);
void mdnn_stopwatch_end(mdnn_stopwatch_t *watch, CUstream stream, bool failed);
/* The number of calls that were timed; *least is the smallest time if there were any. */
int mdnn_stopwatch_read(mdnn_stopwatch_t *watch, mdnn_stopwatch_times_t *least);
/* Destroys the events. No call is being timed. */
void mdnn_stopwatch_fini(mdnn_stopwatch_t *watch);

#endif
