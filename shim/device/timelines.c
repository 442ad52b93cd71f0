#include "shim/device/timelines.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/lock.h"
#include "shim/real/failure.h"

enum { RING_FIRST = 16, RING_MOST = 1024, FIRST_BUCKETS = 64 };

/* An event of one context, in a ring or free. */
typedef struct event {
    struct event *next; /* while it is free */
    CUcontext context;
    CUevent handle;
    uint64_t position; /* it covers all up to this one */
    int waiters;       /* host threads that wait for it: it may not be used again */
    bool dropped;      /* the last waiter frees it */
} event_t;

typedef struct stream {
    struct stream *next; /* in its bucket */
    uint64_t number;
    CUstream handle;
    CUcontext context;
    bool own_of_thread; /* no other thread can name it */
    bool ended;         /* destroyed: the handle is no more */
    uint64_t marked;    /* the last position */
    uint64_t done;      /* all up to this one are over */
    event_t **ring;
    unsigned first, count, room; /* of the ring, oldest first; room is a power of two */
} stream_t;

struct mdnn_timelines {
    const mdnn_driver_t *driver;
    mdnn_lock_t lock;
    uint64_t now; /* the last position of all */
    stream_t **buckets;
    size_t bucket_count, stream_count; /* a power of two */
    event_t *free_events;              /* of all contexts */
    _Atomic int captures;
    uint64_t completions; /* counted where they are seen */
};

/* ---- contexts ---- */

mdnn_context_change_t mdnn_context_enter(const mdnn_driver_t *driver, CUcontext context)
{
    CUcontext current;
    const bool other =
        driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && context && current != context;
    return (mdnn_context_change_t){other && driver->cuCtxPushCurrent(context) == CUDA_SUCCESS};
}

void mdnn_context_leave(const mdnn_driver_t *driver, mdnn_context_change_t change)
{
    CUcontext popped;
    if (change.pushed)
        (void)driver->cuCtxPopCurrent(&popped);
}

static mdnn_status_t note(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return MDNN_STATUS_OK;
    if (result != CUDA_ERROR_NOT_READY)
        (void)mdnn_failure_note(result);
    return MDNN_STATUS_DEVICE;
}

/* ---- events ---- */

static event_t *new_event(mdnn_timelines_t *timelines, CUcontext context)
{
    for (event_t **link = &timelines->free_events; *link; link = &(*link)->next)
        if ((*link)->context == context) {
            event_t *const event = *link;
            *link = event->next;
            return event;
        }
    event_t *const event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->context = context;
    if (note(timelines->driver->cuEventCreate(&event->handle, CU_EVENT_DISABLE_TIMING)) ==
        MDNN_STATUS_OK)
        return event;
    free(event);
    return NULL;
}

static void drop_event(mdnn_timelines_t *timelines, event_t *event)
{
    event->dropped = event->waiters > 0;
    if (event->dropped)
        return;
    event->next = timelines->free_events;
    timelines->free_events = event;
}

/* ---- the table of streams ---- */

static stream_t **bucket_of(const mdnn_timelines_t *timelines, uint64_t number)
{
    const uint64_t mixed = number * UINT64_C(0x9E3779B97F4A7C15);
    return &timelines->buckets[mixed >> 32 & (timelines->bucket_count - 1)];
}

static stream_t *find(const mdnn_timelines_t *timelines, uint64_t number)
{
    stream_t *stream = *bucket_of(timelines, number);
    while (stream && stream->number != number)
        stream = stream->next;
    return stream;
}

static void pop_first(mdnn_timelines_t *timelines, stream_t *stream)
{
    event_t *const event = stream->ring[stream->first];
    if (event->position > stream->done)
        stream->done = event->position;
    timelines->completions++;
    stream->first = (stream->first + 1) % stream->room;
    stream->count--;
    drop_event(timelines, event);
}

static void free_stream(mdnn_timelines_t *timelines, stream_t *stream)
{
    while (stream->count > 0)
        pop_first(timelines, stream);
    free(stream->ring);
    free(stream);
    timelines->stream_count--;
}

/* Destroyed streams without unfinished work: whoever asks for them hears "over" as before. */
static void forget_ended(mdnn_timelines_t *timelines)
{
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (stream_t **link = &timelines->buckets[i]; *link;) {
            stream_t *const stream = *link;
            if (!stream->ended || stream->done < stream->marked) {
                link = &stream->next;
                continue;
            }
            *link = stream->next;
            free_stream(timelines, stream);
        }
}

static bool grow(mdnn_timelines_t *timelines)
{
    const size_t old_count = timelines->bucket_count;
    stream_t **const old = timelines->buckets;
    stream_t **const buckets = calloc(2 * old_count, sizeof *buckets);
    if (!buckets)
        return false;
    timelines->buckets = buckets;
    timelines->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++)
        for (stream_t *stream = old[i], *next; stream; stream = next) {
            stream_t **const bucket = bucket_of(timelines, stream->number);
            next = stream->next;
            stream->next = *bucket;
            *bucket = stream;
        }
    free(old);
    return true;
}

static stream_t *add(mdnn_timelines_t *timelines, const stream_t *what)
{
    if (timelines->stream_count >= timelines->bucket_count) {
        forget_ended(timelines);
        if (timelines->stream_count > timelines->bucket_count / 2)
            (void)grow(timelines); /* longer chains do as well */
    }
    stream_t *const stream = malloc(sizeof *stream);
    if (!stream)
        return NULL;
    stream_t **const bucket = bucket_of(timelines, what->number);
    *stream = *what;
    stream->marked = stream->done = timelines->now;
    stream->next = *bucket;
    *bucket = stream;
    timelines->stream_count++;
    return stream;
}

mdnn_timelines_t *mdnn_timelines_create(const mdnn_driver_t *driver)
{
    mdnn_timelines_t *const timelines = calloc(1, sizeof *timelines);
    if (!timelines)
        return NULL;
    timelines->driver = driver;
    timelines->bucket_count = FIRST_BUCKETS;
    timelines->buckets = calloc(FIRST_BUCKETS, sizeof *timelines->buckets);
    mdnn_lock_init(&timelines->lock, MDNN_LOCK_TIMELINES);
    if (!timelines->buckets) {
        mdnn_timelines_destroy(timelines);
        return NULL;
    }
    return timelines;
}

void mdnn_timelines_destroy(mdnn_timelines_t *timelines)
{
    if (!timelines)
        return;
    for (size_t i = 0; timelines->buckets && i < timelines->bucket_count; i++)
        for (stream_t *stream = timelines->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            free_stream(timelines, stream);
        }
    for (event_t *event = timelines->free_events, *next; event; event = next) {
        next = event->next;
        (void)timelines->driver->cuEventDestroy(event->handle);
        free(event);
    }
    free(timelines->buckets);
    mdnn_lock_destroy(&timelines->lock);
    free(timelines);
}

/* ---- streams ---- */

static bool is_default(CUstream stream)
{
    return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static CUresult context_of(const mdnn_driver_t *driver, CUstream handle, CUcontext *context)
{
    return is_default(handle) ? driver->cuCtxGetCurrent(context)
                              : driver->cuStreamGetCtx(handle, context);
}

mdnn_status_t mdnn_timelines_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread,
                                    uint64_t *number)
{
    const mdnn_driver_t *const driver = timelines->driver;
    unsigned long long id;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    stream_t what = {.handle = stream, .own_of_thread = stream == CU_STREAM_PER_THREAD};
    MDNN_TRY(note(driver->cuStreamGetId(stream, &id)));
    what.number = *number = id;
    mdnn_lock(&timelines->lock);
    const stream_t *found = find(timelines, id);
    if (!found && note(context_of(driver, stream, &what.context)) == MDNN_STATUS_OK)
        found = add(timelines, &what);
    mdnn_unlock(&timelines->lock);
    return found ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

CUstream mdnn_timelines_handle(mdnn_timelines_t *timelines, uint64_t number, CUcontext context)
{
    mdnn_lock(&timelines->lock);
    const stream_t *const stream = find(timelines, number);
    const bool usable = stream && !stream->ended && stream->context == context;
    CUstream const handle = usable ? stream->handle : NULL;
    mdnn_unlock(&timelines->lock);
    return handle;
}

/* ---- events in streams; locked ---- */

bool mdnn_timelines_stream_captures(mdnn_timelines_t *timelines, CUstream stream)
{
    CUstreamCaptureStatus status;
    return mdnn_timelines_is_capturing(timelines) &&
           (timelines->driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static bool may_record(mdnn_timelines_t *timelines, const stream_t *stream, bool by_its_thread)
{
    return !stream->ended && (by_its_thread || !stream->own_of_thread) &&
           !mdnn_timelines_stream_captures(timelines, stream->handle);
}

/* Room for one more in the ring, as long as that makes sense: the device has queues of such lengths. */
static bool ring_has_room(stream_t *stream)
{
    if (stream->count < stream->room)
        return true;
    const unsigned room = stream->room ? 2 * stream->room : RING_FIRST;
    event_t **const ring = room <= RING_MOST ? calloc(room, sizeof(event_t *)) : NULL;
    if (!ring)
        return false;
    for (unsigned i = 0; i < stream->count; i++)
        ring[i] = stream->ring[(stream->first + i) % stream->room];
    free(stream->ring);
    stream->ring = ring;
    stream->first = 0;
    stream->room = room;
    return true;
}

/* The event that ends up last in the ring: a new one, or the last one once more if the ring is
 * full, whose earlier points then seem to pass later than they are. NULL without memory. */
static event_t *next_event(mdnn_timelines_t *timelines, stream_t *stream)
{
    if (!ring_has_room(stream))
        return stream->count > 0 ? stream->ring[(stream->first + stream->count - 1) % stream->room]
                                 : NULL;
    event_t *const event = new_event(timelines, stream->context);
    if (event)
        stream->ring[(stream->first + stream->count++) % stream->room] = event;
    return event;
}

/* An event behind all marked timelines. NULL: there can be none now. */
static event_t *cover(mdnn_timelines_t *timelines, stream_t *stream, bool by_its_thread)
{
    if (!may_record(timelines, stream, by_its_thread))
        return NULL;
    const mdnn_context_change_t change = mdnn_context_enter(timelines->driver, stream->context);
    const unsigned before = stream->count;
    event_t *event = next_event(timelines, stream);
    if (event &&
        note(timelines->driver->cuEventRecord(event->handle, stream->handle)) != MDNN_STATUS_OK) {
        if (stream->count > before) {
            stream->count--;
            drop_event(timelines, event);
        }
        event = NULL;
    }
    mdnn_context_leave(timelines->driver, change);
    if (event)
        event->position = stream->marked;
    return event;
}

/* The first event that covers the position, its place counted from the oldest. */
static event_t *covering(const stream_t *stream, uint64_t position, unsigned *place)
{
    for (unsigned i = 0; i < stream->count; i++) {
        event_t *const event = stream->ring[(stream->first + i) % stream->room];
        if (event->position >= position) {
            *place = i;
            return event;
        }
    }
    return NULL;
}

static event_t *event_for(mdnn_timelines_t *timelines, stream_t *stream, uint64_t position,
                          unsigned *place)
{
    event_t *const event = covering(stream, position, place);
    if (event)
        return event;
    event_t *const recorded = cover(timelines, stream, false);
    *place = recorded ? stream->count - 1 : 0;
    return recorded;
}

static bool is_over(const stream_t *stream, uint64_t position)
{
    return !stream || position <= stream->done;
}

static void pop_through(mdnn_timelines_t *timelines, stream_t *stream, const event_t *last)
{
    bool found = false;
    while (stream->count > 0 && !found) {
        found = stream->ring[stream->first] == last;
        pop_first(timelines, stream);
    }
}

/* ---- points ---- */

mdnn_stream_point_t mdnn_timelines_mark(mdnn_timelines_t *timelines, uint64_t number)
{
    mdnn_lock(&timelines->lock);
    stream_t *const stream = find(timelines, number);
    if (stream && stream->ended) { /* nothing more was enqueued there */
        const mdnn_stream_point_t last = {number, stream->marked};
        mdnn_unlock(&timelines->lock);
        return last;
    }
    const mdnn_stream_point_t point = {number, ++timelines->now};
    if (stream) {
        stream->marked = point.position;
        if (stream->own_of_thread || mdnn_timelines_is_capturing(timelines))
            (void)cover(timelines, stream, true);
    }
    mdnn_unlock(&timelines->lock);
    return point;
}

mdnn_status_t mdnn_timelines_mark_event(mdnn_timelines_t *timelines, uint64_t number,
                                        mdnn_stream_point_t *point)
{
    mdnn_lock(&timelines->lock);
    stream_t *const stream = find(timelines, number);
    *point = (mdnn_stream_point_t){number, ++timelines->now};
    const event_t *event = NULL;
    if (stream) {
        stream->marked = point->position;
        event = cover(timelines, stream, true);
    }
    mdnn_unlock(&timelines->lock);
    return event ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

/* OK: over. BUSY: not yet, or it cannot be known. */
static mdnn_status_t ask(mdnn_timelines_t *timelines, mdnn_stream_point_t point)
{
    unsigned place;
    mdnn_lock(&timelines->lock);
    stream_t *const stream = find(timelines, point.stream);
    const bool over = is_over(stream, point.position);
    event_t *const event = over ? NULL : event_for(timelines, stream, point.position, &place);
    mdnn_status_t status = over ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
    if (event) {
        const CUresult result = timelines->driver->cuEventQuery(event->handle);
        status = note(result);
        if (status == MDNN_STATUS_OK)
            pop_through(timelines, stream, event);
        else if (result == CUDA_ERROR_NOT_READY)
            status = MDNN_STATUS_BUSY;
    }
    mdnn_unlock(&timelines->lock);
    return status;
}

bool mdnn_timelines_is_done(mdnn_timelines_t *timelines, mdnn_stream_point_t point)
{
    return ask(timelines, point) == MDNN_STATUS_OK;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

mdnn_status_t mdnn_timelines_wait_a_while(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                                          double seconds)
{
    /* A copy takes a fraction of a millisecond, and the next one waits for the host. A sleep ends
     * some 50 us late (timer slack), so it is for what takes longer. */
    static const double eager_s = 0.005;
    static const struct timespec pause = {.tv_nsec = 20000};
    mdnn_status_t status;
    const double begin_s = now_s();
    while ((status = ask(timelines, point)) == MDNN_STATUS_BUSY) {
        const double waited_s = now_s() - begin_s;
        if (waited_s >= seconds)
            break;
        if (waited_s < eager_s)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    return status == MDNN_STATUS_DEVICE ? mdnn_timelines_wait_on_host(timelines, point) : status;
}

/* After a wait without the lock: the stream may be forgotten by now, and the event may stand for a
 * later position than the one that has passed. */
static void finish_wait(mdnn_timelines_t *timelines, mdnn_stream_point_t point, event_t *event,
                        bool over)
{
    stream_t *const stream = find(timelines, point.stream);
    if (--event->waiters == 0 && event->dropped)
        drop_event(timelines, event);
    if (!over || !stream)
        return;
    if (stream->done < point.position)
        stream->done = point.position;
    while (stream->count > 0 && stream->ring[stream->first]->position <= stream->done)
        pop_first(timelines, stream);
}

/* `wait` is the driver's; CUDA_ERROR_NOT_READY: BUSY. */
static mdnn_status_t wait_without_lock(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                                       CUresult (*wait)(CUevent event))
{
    unsigned place;
    mdnn_lock_may_wait();
    mdnn_lock(&timelines->lock);
    stream_t *const stream = find(timelines, point.stream);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!is_over(stream, point.position)) {
        event_t *const event = event_for(timelines, stream, point.position, &place);
        status = event                                  ? MDNN_STATUS_OK
                 : may_record(timelines, stream, false) ? MDNN_STATUS_DEVICE
                                                        : MDNN_STATUS_BUSY;
        if (event) {
            event->waiters++;
            mdnn_unlock(&timelines->lock);
            const CUresult result = wait(event->handle);
            status = result == CUDA_ERROR_NOT_READY ? MDNN_STATUS_BUSY : note(result);
            mdnn_lock(&timelines->lock);
            finish_wait(timelines, point, event, status == MDNN_STATUS_OK);
        }
    }
    mdnn_unlock(&timelines->lock);
    return status;
}

mdnn_status_t mdnn_timelines_wait_on_host(mdnn_timelines_t *timelines, mdnn_stream_point_t point)
{
    return wait_without_lock(timelines, point, timelines->driver->cuEventSynchronize);
}

mdnn_status_t mdnn_timelines_wait_simulated(mdnn_timelines_t *timelines, mdnn_stream_point_t point)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    const mdnn_status_t status =
        wait_without_lock(timelines, point, timelines->driver->sim_wait_event);
    if (status == MDNN_STATUS_BUSY)
        nanosleep(&pause, NULL); /* for other threads of the program */
    return status;
}

static void fix(mdnn_timelines_t *timelines, stream_t *stream, bool by_its_thread)
{
    unsigned place;
    if (stream && !is_over(stream, stream->marked) && !covering(stream, stream->marked, &place))
        (void)cover(timelines, stream, by_its_thread);
}

void mdnn_timelines_fix(mdnn_timelines_t *timelines, uint64_t number)
{
    mdnn_lock(&timelines->lock);
    fix(timelines, find(timelines, number), true);
    mdnn_unlock(&timelines->lock);
}

void mdnn_timelines_fix_stream(mdnn_timelines_t *timelines, CUstream stream, bool per_thread)
{
    unsigned long long id;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (timelines->driver->cuStreamGetId(stream, &id) == CUDA_SUCCESS)
        mdnn_timelines_fix(timelines, id);
}

/* Whether its first event has passed; one is recorded if there is none. */
static void look_at(mdnn_timelines_t *timelines, stream_t *stream)
{
    fix(timelines, stream, false);
    while (stream->count > 0 &&
           timelines->driver->cuEventQuery(stream->ring[stream->first]->handle) == CUDA_SUCCESS)
        pop_first(timelines, stream);
}

uint64_t mdnn_timelines_completions(mdnn_timelines_t *timelines)
{
    mdnn_lock(&timelines->lock);
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (stream_t *stream = timelines->buckets[i]; stream; stream = stream->next)
            if (!is_over(stream, stream->marked))
                look_at(timelines, stream);
    const uint64_t completions = timelines->completions;
    mdnn_unlock(&timelines->lock);
    return completions;
}

mdnn_status_t mdnn_timelines_wait_in_stream(mdnn_timelines_t *timelines, uint64_t number,
                                            mdnn_stream_point_t point)
{
    unsigned place;
    if (number == MDNN_NO_STREAM)
        return mdnn_timelines_is_done(timelines, point) ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
    if (number == point.stream)
        return MDNN_STATUS_OK;
    mdnn_lock(&timelines->lock);
    stream_t *const of = find(timelines, point.stream);
    const stream_t *const waiter = find(timelines, number);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!is_over(of, point.position)) {
        const event_t *const event = event_for(timelines, of, point.position, &place);
        status = MDNN_STATUS_DEVICE;
        if (event && waiter && !waiter->ended) {
            const mdnn_context_change_t change =
                mdnn_context_enter(timelines->driver, waiter->context);
            status = note(timelines->driver->cuStreamWaitEvent(waiter->handle, event->handle,
                                                               CU_EVENT_WAIT_DEFAULT));
            mdnn_context_leave(timelines->driver, change);
        }
    }
    mdnn_unlock(&timelines->lock);
    return status;
}

/* ---- ends of streams, captures ---- */

static void cover_all(mdnn_timelines_t *timelines)
{
    unsigned place;
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (stream_t *stream = timelines->buckets[i]; stream; stream = stream->next)
            if (!is_over(stream, stream->marked) && !covering(stream, stream->marked, &place))
                (void)cover(timelines, stream, false);
}

/* Without the lock; its work is over then. */
static void wait_for_stream(mdnn_timelines_t *timelines, CUstream handle, uint64_t id)
{
    mdnn_lock_may_wait();
    if (timelines->driver->cuStreamSynchronize(handle) != CUDA_SUCCESS)
        return;
    mdnn_lock(&timelines->lock);
    stream_t *const stream = find(timelines, id);
    if (stream)
        stream->done = stream->marked;
    mdnn_unlock(&timelines->lock);
}

void mdnn_timelines_stream_ends(mdnn_timelines_t *timelines, CUstream handle)
{
    unsigned long long id;
    unsigned place;
    if (is_default(handle) || timelines->driver->cuStreamGetId(handle, &id) != CUDA_SUCCESS)
        return;
    mdnn_lock(&timelines->lock);
    stream_t *const stream = find(timelines, id);
    const bool unknown = stream && !is_over(stream, stream->marked) &&
                         !event_for(timelines, stream, stream->marked, &place);
    if (stream)
        stream->ended = true;
    mdnn_unlock(&timelines->lock);
    if (unknown)
        wait_for_stream(timelines, handle, id);
}

static bool has_streams(const mdnn_timelines_t *timelines, CUcontext context)
{
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (const stream_t *stream = timelines->buckets[i]; stream; stream = stream->next)
            if (stream->context == context)
                return true;
    return false;
}

/* Its events go to the free ones; those that somebody still waits for are never used again. */
static void forget_streams(mdnn_timelines_t *timelines, CUcontext context)
{
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (stream_t **link = &timelines->buckets[i]; *link;) {
            stream_t *const stream = *link;
            if (stream->context != context) {
                link = &stream->next;
                continue;
            }
            for (unsigned j = 0; j < stream->count; j++) {
                event_t *const event = stream->ring[(stream->first + j) % stream->room];
                event->context = event->waiters > 0 ? NULL : context;
            }
            *link = stream->next;
            free_stream(timelines, stream);
        }
}

static void destroy_events(mdnn_timelines_t *timelines, CUcontext context)
{
    for (event_t **link = &timelines->free_events; *link;) {
        event_t *const event = *link;
        if (event->context != context) {
            link = &event->next;
            continue;
        }
        *link = event->next;
        (void)timelines->driver->cuEventDestroy(event->handle);
        free(event);
    }
}

/* Where the wait fails the context is broken, and nothing of it runs any more. */
void mdnn_timelines_context_ends(mdnn_timelines_t *timelines, CUcontext context)
{
    mdnn_lock(&timelines->lock);
    const bool known = has_streams(timelines, context);
    mdnn_unlock(&timelines->lock);
    if (known) {
        const mdnn_context_change_t change = mdnn_context_enter(timelines->driver, context);
        (void)timelines->driver->cuCtxSynchronize();
        mdnn_context_leave(timelines->driver, change);
    }
    mdnn_lock(&timelines->lock);
    forget_streams(timelines, context);
    destroy_events(timelines, context);
    mdnn_unlock(&timelines->lock);
}

void mdnn_timelines_capture_began(mdnn_timelines_t *timelines)
{
    mdnn_lock(&timelines->lock);
    if (!mdnn_timelines_is_capturing(timelines))
        cover_all(timelines);
    atomic_fetch_add(&timelines->captures, 1);
    mdnn_unlock(&timelines->lock);
}

void mdnn_timelines_capture_ended(mdnn_timelines_t *timelines)
{
    atomic_fetch_sub(&timelines->captures, 1);
}

bool mdnn_timelines_is_capturing(mdnn_timelines_t *timelines)
{
    return atomic_load_explicit(&timelines->captures, memory_order_relaxed) > 0;
}
