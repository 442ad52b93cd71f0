#include "shim/vmem/stream_moments.h"

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
    uint64_t moment; /* it covers all up to this one */
    int waiters;     /* host threads that wait for it: it may not be used again */
    bool dropped;    /* the last waiter frees it */
} event_t;

typedef struct stream {
    struct stream *next; /* in its bucket */
    uint64_t number;
    CUstream handle;
    CUcontext context;
    bool own_of_thread; /* no other thread can name it */
    bool ended;         /* destroyed: the handle is no more */
    uint64_t marked;    /* the last moment */
    uint64_t done;      /* all up to this one are over */
    event_t **ring;
    unsigned first, count, room; /* of the ring, oldest first; room is a power of two */
} stream_t;

struct mdnn_moments {
    const mdnn_driver_t *driver;
    mdnn_lock_t lock;
    uint64_t now; /* the last moment of all */
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

static event_t *new_event(mdnn_moments_t *moments, CUcontext context)
{
    for (event_t **link = &moments->free_events; *link; link = &(*link)->next)
        if ((*link)->context == context) {
            event_t *const event = *link;
            *link = event->next;
            return event;
        }
    event_t *const event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->context = context;
    if (note(moments->driver->cuEventCreate(&event->handle, CU_EVENT_DISABLE_TIMING)) ==
        MDNN_STATUS_OK)
        return event;
    free(event);
    return NULL;
}

static void drop_event(mdnn_moments_t *moments, event_t *event)
{
    event->dropped = event->waiters > 0;
    if (event->dropped)
        return;
    event->next = moments->free_events;
    moments->free_events = event;
}

/* ---- the table of streams ---- */

static stream_t **bucket_of(const mdnn_moments_t *moments, uint64_t number)
{
    const uint64_t mixed = number * UINT64_C(0x9E3779B97F4A7C15);
    return &moments->buckets[mixed >> 32 & (moments->bucket_count - 1)];
}

static stream_t *find(const mdnn_moments_t *moments, uint64_t number)
{
    stream_t *stream = *bucket_of(moments, number);
    while (stream && stream->number != number)
        stream = stream->next;
    return stream;
}

static void pop_first(mdnn_moments_t *moments, stream_t *stream)
{
    event_t *const event = stream->ring[stream->first];
    if (event->moment > stream->done)
        stream->done = event->moment;
    moments->completions++;
    stream->first = (stream->first + 1) % stream->room;
    stream->count--;
    drop_event(moments, event);
}

static void free_stream(mdnn_moments_t *moments, stream_t *stream)
{
    while (stream->count > 0)
        pop_first(moments, stream);
    free(stream->ring);
    free(stream);
    moments->stream_count--;
}

/* Destroyed streams without unfinished work: whoever asks for them hears "over" as before. */
static void forget_ended(mdnn_moments_t *moments)
{
    for (size_t i = 0; i < moments->bucket_count; i++)
        for (stream_t **link = &moments->buckets[i]; *link;) {
            stream_t *const stream = *link;
            if (!stream->ended || stream->done < stream->marked) {
                link = &stream->next;
                continue;
            }
            *link = stream->next;
            free_stream(moments, stream);
        }
}

static bool grow(mdnn_moments_t *moments)
{
    const size_t old_count = moments->bucket_count;
    stream_t **const old = moments->buckets;
    stream_t **const buckets = calloc(2 * old_count, sizeof *buckets);
    if (!buckets)
        return false;
    moments->buckets = buckets;
    moments->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++)
        for (stream_t *stream = old[i], *next; stream; stream = next) {
            stream_t **const bucket = bucket_of(moments, stream->number);
            next = stream->next;
            stream->next = *bucket;
            *bucket = stream;
        }
    free(old);
    return true;
}

static stream_t *add(mdnn_moments_t *moments, const stream_t *what)
{
    if (moments->stream_count >= moments->bucket_count) {
        forget_ended(moments);
        if (moments->stream_count > moments->bucket_count / 2)
            (void)grow(moments); /* longer chains do as well */
    }
    stream_t *const stream = malloc(sizeof *stream);
    if (!stream)
        return NULL;
    stream_t **const bucket = bucket_of(moments, what->number);
    *stream = *what;
    stream->marked = stream->done = moments->now;
    stream->next = *bucket;
    *bucket = stream;
    moments->stream_count++;
    return stream;
}

mdnn_moments_t *mdnn_moments_create(const mdnn_driver_t *driver)
{
    mdnn_moments_t *const moments = calloc(1, sizeof *moments);
    if (!moments)
        return NULL;
    moments->driver = driver;
    moments->bucket_count = FIRST_BUCKETS;
    moments->buckets = calloc(FIRST_BUCKETS, sizeof *moments->buckets);
    mdnn_lock_init(&moments->lock, MDNN_LOCK_MOMENTS);
    if (!moments->buckets) {
        mdnn_moments_destroy(moments);
        return NULL;
    }
    return moments;
}

void mdnn_moments_destroy(mdnn_moments_t *moments)
{
    if (!moments)
        return;
    for (size_t i = 0; moments->buckets && i < moments->bucket_count; i++)
        for (stream_t *stream = moments->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            free_stream(moments, stream);
        }
    for (event_t *event = moments->free_events, *next; event; event = next) {
        next = event->next;
        (void)moments->driver->cuEventDestroy(event->handle);
        free(event);
    }
    free(moments->buckets);
    mdnn_lock_destroy(&moments->lock);
    free(moments);
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

mdnn_status_t mdnn_moments_stream(mdnn_moments_t *moments, CUstream stream, bool per_thread,
                                  uint64_t *number)
{
    const mdnn_driver_t *const driver = moments->driver;
    unsigned long long id;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    stream_t what = {.handle = stream, .own_of_thread = stream == CU_STREAM_PER_THREAD};
    MDNN_TRY(note(driver->cuStreamGetId(stream, &id)));
    what.number = *number = id;
    mdnn_lock(&moments->lock);
    const stream_t *found = find(moments, id);
    if (!found && note(context_of(driver, stream, &what.context)) == MDNN_STATUS_OK)
        found = add(moments, &what);
    mdnn_unlock(&moments->lock);
    return found ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

CUstream mdnn_moments_handle(mdnn_moments_t *moments, uint64_t number, CUcontext context)
{
    mdnn_lock(&moments->lock);
    const stream_t *const stream = find(moments, number);
    const bool usable = stream && !stream->ended && stream->context == context;
    CUstream const handle = usable ? stream->handle : NULL;
    mdnn_unlock(&moments->lock);
    return handle;
}

/* ---- events in streams; locked ---- */

bool mdnn_moments_stream_captures(mdnn_moments_t *moments, CUstream stream)
{
    CUstreamCaptureStatus status;
    return mdnn_moments_is_capturing(moments) &&
           (moments->driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static bool may_record(mdnn_moments_t *moments, const stream_t *stream, bool by_its_thread)
{
    return !stream->ended && (by_its_thread || !stream->own_of_thread) &&
           !mdnn_moments_stream_captures(moments, stream->handle);
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
 * full, whose earlier moments then seem over later than they are. NULL without memory. */
static event_t *next_event(mdnn_moments_t *moments, stream_t *stream)
{
    if (!ring_has_room(stream))
        return stream->count > 0 ? stream->ring[(stream->first + stream->count - 1) % stream->room]
                                 : NULL;
    event_t *const event = new_event(moments, stream->context);
    if (event)
        stream->ring[(stream->first + stream->count++) % stream->room] = event;
    return event;
}

/* An event behind all marked moments. NULL: there can be none now. */
static event_t *cover(mdnn_moments_t *moments, stream_t *stream, bool by_its_thread)
{
    if (!may_record(moments, stream, by_its_thread))
        return NULL;
    const mdnn_context_change_t change = mdnn_context_enter(moments->driver, stream->context);
    const unsigned before = stream->count;
    event_t *event = next_event(moments, stream);
    if (event &&
        note(moments->driver->cuEventRecord(event->handle, stream->handle)) != MDNN_STATUS_OK) {
        if (stream->count > before) {
            stream->count--;
            drop_event(moments, event);
        }
        event = NULL;
    }
    mdnn_context_leave(moments->driver, change);
    if (event)
        event->moment = stream->marked;
    return event;
}

/* The first event that covers the moment, its place counted from the oldest. */
static event_t *covering(const stream_t *stream, uint64_t moment, unsigned *place)
{
    for (unsigned i = 0; i < stream->count; i++) {
        event_t *const event = stream->ring[(stream->first + i) % stream->room];
        if (event->moment >= moment) {
            *place = i;
            return event;
        }
    }
    return NULL;
}

static event_t *event_for(mdnn_moments_t *moments, stream_t *stream, uint64_t moment,
                          unsigned *place)
{
    event_t *const event = covering(stream, moment, place);
    if (event)
        return event;
    event_t *const recorded = cover(moments, stream, false);
    *place = recorded ? stream->count - 1 : 0;
    return recorded;
}

static bool is_over(const stream_t *stream, uint64_t moment)
{
    return !stream || moment <= stream->done;
}

static void pop_through(mdnn_moments_t *moments, stream_t *stream, const event_t *last)
{
    bool found = false;
    while (stream->count > 0 && !found) {
        found = stream->ring[stream->first] == last;
        pop_first(moments, stream);
    }
}

/* ---- moments ---- */

mdnn_ticket_t mdnn_moments_mark(mdnn_moments_t *moments, uint64_t number)
{
    mdnn_lock(&moments->lock);
    stream_t *const stream = find(moments, number);
    if (stream && stream->ended) { /* nothing more was enqueued there */
        const mdnn_ticket_t last = {number, stream->marked};
        mdnn_unlock(&moments->lock);
        return last;
    }
    const mdnn_ticket_t ticket = {number, ++moments->now};
    if (stream) {
        stream->marked = ticket.moment;
        if (stream->own_of_thread || mdnn_moments_is_capturing(moments))
            (void)cover(moments, stream, true);
    }
    mdnn_unlock(&moments->lock);
    return ticket;
}

mdnn_status_t mdnn_moments_mark_event(mdnn_moments_t *moments, uint64_t number,
                                      mdnn_ticket_t *ticket)
{
    mdnn_lock(&moments->lock);
    stream_t *const stream = find(moments, number);
    *ticket = (mdnn_ticket_t){number, ++moments->now};
    const event_t *event = NULL;
    if (stream) {
        stream->marked = ticket->moment;
        event = cover(moments, stream, true);
    }
    mdnn_unlock(&moments->lock);
    return event ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

/* OK: over. BUSY: not yet, or it cannot be known. */
static mdnn_status_t ask(mdnn_moments_t *moments, mdnn_ticket_t ticket)
{
    unsigned place;
    mdnn_lock(&moments->lock);
    stream_t *const stream = find(moments, ticket.stream);
    const bool over = is_over(stream, ticket.moment);
    event_t *const event = over ? NULL : event_for(moments, stream, ticket.moment, &place);
    mdnn_status_t status = over ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
    if (event) {
        const CUresult result = moments->driver->cuEventQuery(event->handle);
        status = note(result);
        if (status == MDNN_STATUS_OK)
            pop_through(moments, stream, event);
        else if (result == CUDA_ERROR_NOT_READY)
            status = MDNN_STATUS_BUSY;
    }
    mdnn_unlock(&moments->lock);
    return status;
}

bool mdnn_moments_is_done(mdnn_moments_t *moments, mdnn_ticket_t ticket)
{
    return ask(moments, ticket) == MDNN_STATUS_OK;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

mdnn_status_t mdnn_moments_wait_a_while(mdnn_moments_t *moments, mdnn_ticket_t ticket,
                                        double seconds)
{
    /* A copy takes a fraction of a millisecond, and the next one waits for the host. A sleep ends
     * some 50 us late (timer slack), so it is for what takes longer. */
    static const double eager_s = 0.005;
    static const struct timespec pause = {.tv_nsec = 20000};
    mdnn_status_t status;
    const double begin_s = now_s();
    while ((status = ask(moments, ticket)) == MDNN_STATUS_BUSY) {
        const double waited_s = now_s() - begin_s;
        if (waited_s >= seconds)
            break;
        if (waited_s < eager_s)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    return status == MDNN_STATUS_DEVICE ? mdnn_moments_wait_on_host(moments, ticket) : status;
}

/* After a wait without the lock: the stream may be forgotten by now, and the event may stand for a
 * later moment than the one that is over. */
static void finish_wait(mdnn_moments_t *moments, mdnn_ticket_t ticket, event_t *event, bool over)
{
    stream_t *const stream = find(moments, ticket.stream);
    if (--event->waiters == 0 && event->dropped)
        drop_event(moments, event);
    if (!over || !stream)
        return;
    if (stream->done < ticket.moment)
        stream->done = ticket.moment;
    while (stream->count > 0 && stream->ring[stream->first]->moment <= stream->done)
        pop_first(moments, stream);
}

/* `wait` is the driver's; CUDA_ERROR_NOT_READY: BUSY. */
static mdnn_status_t wait_without_lock(mdnn_moments_t *moments, mdnn_ticket_t ticket,
                                       CUresult (*wait)(CUevent event))
{
    unsigned place;
    mdnn_lock_may_wait();
    mdnn_lock(&moments->lock);
    stream_t *const stream = find(moments, ticket.stream);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!is_over(stream, ticket.moment)) {
        event_t *const event = event_for(moments, stream, ticket.moment, &place);
        status = event                                ? MDNN_STATUS_OK
                 : may_record(moments, stream, false) ? MDNN_STATUS_DEVICE
                                                      : MDNN_STATUS_BUSY;
        if (event) {
            event->waiters++;
            mdnn_unlock(&moments->lock);
            const CUresult result = wait(event->handle);
            status = result == CUDA_ERROR_NOT_READY ? MDNN_STATUS_BUSY : note(result);
            mdnn_lock(&moments->lock);
            finish_wait(moments, ticket, event, status == MDNN_STATUS_OK);
        }
    }
    mdnn_unlock(&moments->lock);
    return status;
}

mdnn_status_t mdnn_moments_wait_on_host(mdnn_moments_t *moments, mdnn_ticket_t ticket)
{
    return wait_without_lock(moments, ticket, moments->driver->cuEventSynchronize);
}

mdnn_status_t mdnn_moments_wait_simulated(mdnn_moments_t *moments, mdnn_ticket_t ticket)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    const mdnn_status_t status =
        wait_without_lock(moments, ticket, moments->driver->sim_wait_event);
    if (status == MDNN_STATUS_BUSY)
        nanosleep(&pause, NULL); /* for other threads of the program */
    return status;
}

static void fix(mdnn_moments_t *moments, stream_t *stream, bool by_its_thread)
{
    unsigned place;
    if (stream && !is_over(stream, stream->marked) && !covering(stream, stream->marked, &place))
        (void)cover(moments, stream, by_its_thread);
}

void mdnn_moments_fix(mdnn_moments_t *moments, uint64_t number)
{
    mdnn_lock(&moments->lock);
    fix(moments, find(moments, number), true);
    mdnn_unlock(&moments->lock);
}

void mdnn_moments_fix_stream(mdnn_moments_t *moments, CUstream stream, bool per_thread)
{
    unsigned long long id;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (moments->driver->cuStreamGetId(stream, &id) == CUDA_SUCCESS)
        mdnn_moments_fix(moments, id);
}

/* Whether its first event has passed; one is recorded if there is none. */
static void look_at(mdnn_moments_t *moments, stream_t *stream)
{
    fix(moments, stream, false);
    while (stream->count > 0 &&
           moments->driver->cuEventQuery(stream->ring[stream->first]->handle) == CUDA_SUCCESS)
        pop_first(moments, stream);
}

uint64_t mdnn_moments_completions(mdnn_moments_t *moments)
{
    mdnn_lock(&moments->lock);
    for (size_t i = 0; i < moments->bucket_count; i++)
        for (stream_t *stream = moments->buckets[i]; stream; stream = stream->next)
            if (!is_over(stream, stream->marked))
                look_at(moments, stream);
    const uint64_t completions = moments->completions;
    mdnn_unlock(&moments->lock);
    return completions;
}

mdnn_status_t mdnn_moments_wait_in_stream(mdnn_moments_t *moments, uint64_t number,
                                          mdnn_ticket_t ticket)
{
    unsigned place;
    if (number == MDNN_NO_STREAM)
        return mdnn_moments_is_done(moments, ticket) ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
    if (number == ticket.stream)
        return MDNN_STATUS_OK;
    mdnn_lock(&moments->lock);
    stream_t *const of = find(moments, ticket.stream);
    const stream_t *const waiter = find(moments, number);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!is_over(of, ticket.moment)) {
        const event_t *const event = event_for(moments, of, ticket.moment, &place);
        status = MDNN_STATUS_DEVICE;
        if (event && waiter && !waiter->ended) {
            const mdnn_context_change_t change =
                mdnn_context_enter(moments->driver, waiter->context);
            status = note(moments->driver->cuStreamWaitEvent(waiter->handle, event->handle,
                                                             CU_EVENT_WAIT_DEFAULT));
            mdnn_context_leave(moments->driver, change);
        }
    }
    mdnn_unlock(&moments->lock);
    return status;
}

/* ---- ends of streams, captures ---- */

static void cover_all(mdnn_moments_t *moments)
{
    unsigned place;
    for (size_t i = 0; i < moments->bucket_count; i++)
        for (stream_t *stream = moments->buckets[i]; stream; stream = stream->next)
            if (!is_over(stream, stream->marked) && !covering(stream, stream->marked, &place))
                (void)cover(moments, stream, false);
}

/* Without the lock; its work is over then. */
static void wait_for_stream(mdnn_moments_t *moments, CUstream handle, uint64_t id)
{
    mdnn_lock_may_wait();
    if (moments->driver->cuStreamSynchronize(handle) != CUDA_SUCCESS)
        return;
    mdnn_lock(&moments->lock);
    stream_t *const stream = find(moments, id);
    if (stream)
        stream->done = stream->marked;
    mdnn_unlock(&moments->lock);
}

void mdnn_moments_stream_ends(mdnn_moments_t *moments, CUstream handle)
{
    unsigned long long id;
    unsigned place;
    if (is_default(handle) || moments->driver->cuStreamGetId(handle, &id) != CUDA_SUCCESS)
        return;
    mdnn_lock(&moments->lock);
    stream_t *const stream = find(moments, id);
    const bool unknown = stream && !is_over(stream, stream->marked) &&
                         !event_for(moments, stream, stream->marked, &place);
    if (stream)
        stream->ended = true;
    mdnn_unlock(&moments->lock);
    if (unknown)
        wait_for_stream(moments, handle, id);
}

static bool has_streams(const mdnn_moments_t *moments, CUcontext context)
{
    for (size_t i = 0; i < moments->bucket_count; i++)
        for (const stream_t *stream = moments->buckets[i]; stream; stream = stream->next)
            if (stream->context == context)
                return true;
    return false;
}

/* Its events go to the free ones; those that somebody still waits for are never used again. */
static void forget_streams(mdnn_moments_t *moments, CUcontext context)
{
    for (size_t i = 0; i < moments->bucket_count; i++)
        for (stream_t **link = &moments->buckets[i]; *link;) {
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
            free_stream(moments, stream);
        }
}

static void destroy_events(mdnn_moments_t *moments, CUcontext context)
{
    for (event_t **link = &moments->free_events; *link;) {
        event_t *const event = *link;
        if (event->context != context) {
            link = &event->next;
            continue;
        }
        *link = event->next;
        (void)moments->driver->cuEventDestroy(event->handle);
        free(event);
    }
}

/* Where the wait fails the context is broken, and nothing of it runs any more. */
void mdnn_moments_context_ends(mdnn_moments_t *moments, CUcontext context)
{
    mdnn_lock(&moments->lock);
    const bool known = has_streams(moments, context);
    mdnn_unlock(&moments->lock);
    if (known) {
        const mdnn_context_change_t change = mdnn_context_enter(moments->driver, context);
        (void)moments->driver->cuCtxSynchronize();
        mdnn_context_leave(moments->driver, change);
    }
    mdnn_lock(&moments->lock);
    forget_streams(moments, context);
    destroy_events(moments, context);
    mdnn_unlock(&moments->lock);
}

void mdnn_moments_capture_began(mdnn_moments_t *moments)
{
    mdnn_lock(&moments->lock);
    if (!mdnn_moments_is_capturing(moments))
        cover_all(moments);
    atomic_fetch_add(&moments->captures, 1);
    mdnn_unlock(&moments->lock);
}

void mdnn_moments_capture_ended(mdnn_moments_t *moments)
{
    atomic_fetch_sub(&moments->captures, 1);
}

bool mdnn_moments_is_capturing(mdnn_moments_t *moments)
{
    return atomic_load_explicit(&moments->captures, memory_order_relaxed) > 0;
}
