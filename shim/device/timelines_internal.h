/* What the files of timelines (timelines.h) share. The caller holds the lock in all calls below except
 * mdnn_timeline_note and mdnn_timeline_ask.
 *   timelines.c         points of streams, and ends of streams, contexts and captures
 *   timeline_streams.c  the table of streams
 *   timeline_events.c   the events of a stream, which cover its points
 *   timeline_waits.c    waits of the host */
#ifndef MDNN_TIMELINES_INTERNAL_H
#define MDNN_TIMELINES_INTERNAL_H

#include <stdatomic.h>

#include "config/lock.h"
#include "shim/device/timelines.h"

/* An event of one context, in a ring or free. */
typedef struct mdnn_timeline_event {
    struct mdnn_timeline_event *next; /* while it is free */
    CUcontext context;
    CUevent handle;
    uint64_t position; /* it covers all positions up to this one */
    int waiters;       /* host threads that wait for it: it may not be used again */
    bool dropped;      /* the last waiter frees it */
} mdnn_timeline_event_t;

typedef struct mdnn_timeline_stream {
    struct mdnn_timeline_stream *next; /* in its bucket */
    uint64_t number;
    CUstream handle;
    CUcontext context;
    bool own_of_thread; /* no other thread can name it */
    bool ended;         /* it was destroyed: its handle does not exist any more */
    uint64_t marked;    /* the last position */
    uint64_t done;      /* all positions up to this one have passed */
    mdnn_timeline_event_t **ring;
    unsigned first, count, room; /* of the ring, oldest first; room is a power of two */
} mdnn_timeline_stream_t;

struct mdnn_timelines {
    const mdnn_driver_t *driver;
    mdnn_lock_t lock;
    uint64_t now; /* the highest position of all streams */
    mdnn_timeline_stream_t **buckets;
    size_t bucket_count, stream_count;  /* a power of two */
    mdnn_timeline_event_t *free_events; /* of all contexts */
    _Atomic int captures;
    uint64_t completions; /* how many events were seen to have passed */
};

/* ---- timeline_streams.c ---- */

/* false: no memory. */
bool mdnn_timeline_make_table(mdnn_timelines_t *timelines);
/* Frees the table; the events of its streams become free events. */
void mdnn_timeline_free_table(mdnn_timelines_t *timelines);
/* NULL: it is not known. */
mdnn_timeline_stream_t *mdnn_timeline_find(const mdnn_timelines_t *timelines, uint64_t number);
/* Adds a copy of the stream `what`, whose work so far is over. Also forgets streams that were destroyed and have no
 * unfinished work; their points still count as passed. NULL: no memory. */
mdnn_timeline_stream_t *mdnn_timeline_add(mdnn_timelines_t *timelines,
                                          const mdnn_timeline_stream_t *what);
bool mdnn_timeline_has_streams(const mdnn_timelines_t *timelines, CUcontext context);
/* Forgets the streams of the context. Their events become free; events for which a thread still waits are never used
 * again. */
void mdnn_timeline_forget_streams(mdnn_timelines_t *timelines, CUcontext context);

/* ---- timeline_events.c ---- */

/* OK for a success, otherwise DEVICE. A result other than NOT_READY is kept as the failure. */
mdnn_status_t mdnn_timeline_note(CUresult result);
/* Adds the event to the free ones; if threads wait for it, the last of them adds it later. */
void mdnn_timeline_drop_event(mdnn_timelines_t *timelines, mdnn_timeline_event_t *event);
/* pop_first is called when the oldest event of the stream has passed; pop_through when all of its events up to `last`
 * have. */
void mdnn_timeline_pop_first(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream);
void mdnn_timeline_pop_through(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream,
                               const mdnn_timeline_event_t *last);
/* Whether an event may be recorded there; `by_its_thread`: this thread can name it. */
bool mdnn_timeline_may_record(mdnn_timelines_t *timelines, const mdnn_timeline_stream_t *stream,
                              bool by_its_thread);
/* Records an event after all points that are marked. NULL: that is not possible now. */
mdnn_timeline_event_t *mdnn_timeline_cover(mdnn_timelines_t *timelines,
                                           mdnn_timeline_stream_t *stream, bool by_its_thread);
/* The first event that covers the position; *place counts from the oldest event. NULL: none covers it. */
mdnn_timeline_event_t *mdnn_timeline_covering(const mdnn_timeline_stream_t *stream,
                                              uint64_t position, unsigned *place);
/* The same, but records an event if there is none. */
mdnn_timeline_event_t *mdnn_timeline_event_for(mdnn_timelines_t *timelines,
                                               mdnn_timeline_stream_t *stream, uint64_t position,
                                               unsigned *place);
/* Covers the points that are marked so far, unless they have passed. `stream` may be NULL. */
void mdnn_timeline_fix(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream,
                       bool by_its_thread);
/* Destroy the free events of the context, and all free events. */
void mdnn_timeline_destroy_events(mdnn_timelines_t *timelines, CUcontext context);
void mdnn_timeline_destroy_all_events(mdnn_timelines_t *timelines);

/* ---- timelines.c ---- */

/* OK: the point has passed. BUSY: not yet, or that cannot be known. DEVICE. */
mdnn_status_t mdnn_timeline_ask(mdnn_timelines_t *timelines, mdnn_stream_point_t point);

static inline bool mdnn_timeline_is_over(const mdnn_timeline_stream_t *stream, uint64_t position)
{
    return !stream || position <= stream->done;
}

#endif
