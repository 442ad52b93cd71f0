#include "shim/device/timelines_internal.h"

#include <stdlib.h>

#include "config/fault.h"

mdnn_timelines_t *mdnn_timelines_create(const mdnn_driver_t *driver)
{
    mdnn_timelines_t *const timelines = calloc(1, sizeof *timelines);
    if (!timelines)
        return NULL;
    timelines->driver = driver;
    mdnn_lock_init(&timelines->lock, MDNN_LOCK_TIMELINES);
    if (!mdnn_timeline_make_table(timelines)) {
        mdnn_timelines_destroy(timelines);
        return NULL;
    }
    return timelines;
}

void mdnn_timelines_destroy(mdnn_timelines_t *timelines)
{
    if (!timelines)
        return;
    mdnn_timeline_free_table(timelines);
    mdnn_timeline_destroy_all_events(timelines);
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
    mdnn_timeline_stream_t what = {.handle = stream,
                                   .own_of_thread = stream == CU_STREAM_PER_THREAD};
    MDNN_TRY(mdnn_timeline_note(driver->cuStreamGetId(stream, &id)));
    what.number = *number = id;
    mdnn_lock(&timelines->lock);
    const mdnn_timeline_stream_t *found = mdnn_timeline_find(timelines, id);
    if (!found && mdnn_timeline_note(context_of(driver, stream, &what.context)) == MDNN_STATUS_OK)
        found = mdnn_timeline_add(timelines, &what);
    mdnn_unlock(&timelines->lock);
    return found ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

CUstream mdnn_timelines_handle(mdnn_timelines_t *timelines, uint64_t number, CUcontext context)
{
    mdnn_lock(&timelines->lock);
    const mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, number);
    const bool usable = stream && !stream->ended && stream->context == context;
    CUstream const handle = usable ? stream->handle : NULL;
    mdnn_unlock(&timelines->lock);
    return handle;
}

/* ---- points ---- */

mdnn_stream_point_t mdnn_timelines_mark(mdnn_timelines_t *timelines, uint64_t number)
{
    mdnn_lock(&timelines->lock);
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, number);
    if (stream && stream->ended) { /* nothing more was enqueued there */
        const mdnn_stream_point_t last = {number, stream->marked};
        mdnn_unlock(&timelines->lock);
        return last;
    }
    const mdnn_stream_point_t point = {number, ++timelines->now};
    if (stream) {
        stream->marked = point.position;
        if (stream->own_of_thread || mdnn_timelines_is_capturing(timelines))
            (void)mdnn_timeline_cover(timelines, stream, true);
    }
    mdnn_unlock(&timelines->lock);
    return point;
}

mdnn_status_t mdnn_timelines_mark_event(mdnn_timelines_t *timelines, uint64_t number,
                                        mdnn_stream_point_t *point)
{
    mdnn_lock(&timelines->lock);
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, number);
    *point = (mdnn_stream_point_t){number, ++timelines->now};
    const mdnn_timeline_event_t *event = NULL;
    if (stream) {
        stream->marked = point->position;
        event = mdnn_timeline_cover(timelines, stream, true);
    }
    mdnn_unlock(&timelines->lock);
    return event ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

mdnn_status_t mdnn_timeline_ask(mdnn_timelines_t *timelines, mdnn_stream_point_t point)
{
    unsigned place;
    mdnn_lock(&timelines->lock);
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, point.stream);
    const bool over = mdnn_timeline_is_over(stream, point.position);
    mdnn_timeline_event_t *const event =
        over ? NULL : mdnn_timeline_event_for(timelines, stream, point.position, &place);
    mdnn_status_t status = over ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
    if (event) {
        const CUresult result = timelines->driver->cuEventQuery(event->handle);
        const bool hidden = MDNN_FAULT(FAILED_QUERY_IS_OVER) && result != CUDA_ERROR_NOT_READY;
        status = mdnn_timeline_note(hidden ? CUDA_SUCCESS : result);
        if (status == MDNN_STATUS_OK)
            mdnn_timeline_pop_through(timelines, stream, event);
        else if (result == CUDA_ERROR_NOT_READY)
            status = MDNN_STATUS_BUSY;
    }
    mdnn_unlock(&timelines->lock);
    return status;
}

bool mdnn_timelines_is_done(mdnn_timelines_t *timelines, mdnn_stream_point_t point)
{
    return mdnn_timeline_ask(timelines, point) == MDNN_STATUS_OK;
}

void mdnn_timelines_fix(mdnn_timelines_t *timelines, uint64_t number)
{
    mdnn_lock(&timelines->lock);
    mdnn_timeline_fix(timelines, mdnn_timeline_find(timelines, number), true);
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
static void look_at(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream)
{
    mdnn_timeline_fix(timelines, stream, false);
    while (stream->count > 0 &&
           timelines->driver->cuEventQuery(stream->ring[stream->first]->handle) == CUDA_SUCCESS)
        mdnn_timeline_pop_first(timelines, stream);
}

uint64_t mdnn_timelines_completions(mdnn_timelines_t *timelines)
{
    mdnn_lock(&timelines->lock);
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (mdnn_timeline_stream_t *stream = timelines->buckets[i]; stream; stream = stream->next)
            if (!mdnn_timeline_is_over(stream, stream->marked))
                look_at(timelines, stream);
    const uint64_t completions = timelines->completions;
    mdnn_unlock(&timelines->lock);
    return completions;
}

/* Locked. */
static mdnn_status_t wait_for_event(mdnn_timelines_t *timelines,
                                    const mdnn_timeline_stream_t *waiter,
                                    const mdnn_timeline_event_t *event)
{
    const mdnn_context_change_t change = mdnn_context_enter(timelines->driver, waiter->context);
    const mdnn_status_t status = mdnn_timeline_note(
        timelines->driver->cuStreamWaitEvent(waiter->handle, event->handle, CU_EVENT_WAIT_DEFAULT));
    mdnn_context_leave(timelines->driver, change);
    return status;
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
    mdnn_timeline_stream_t *const of = mdnn_timeline_find(timelines, point.stream);
    const mdnn_timeline_stream_t *const waiter = mdnn_timeline_find(timelines, number);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!mdnn_timeline_is_over(of, point.position)) {
        const mdnn_timeline_event_t *const event =
            mdnn_timeline_event_for(timelines, of, point.position, &place);
        status = event && waiter && !waiter->ended ? wait_for_event(timelines, waiter, event)
                                                   : MDNN_STATUS_DEVICE;
    }
    mdnn_unlock(&timelines->lock);
    return status;
}

/* Locked. */
static mdnn_status_t wait_for_stream_in(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *of,
                                        const mdnn_timeline_stream_t *waiter)
{
    unsigned place;
    if (!of->ended)
        of->marked = ++timelines->now;
    if (of == waiter || mdnn_timeline_is_over(of, of->marked))
        return MDNN_STATUS_OK;
    const mdnn_timeline_event_t *const event =
        mdnn_timeline_event_for(timelines, of, of->marked, &place);
    return event ? wait_for_event(timelines, waiter, event) : MDNN_STATUS_BUSY;
}

mdnn_status_t mdnn_timelines_wait_for_all(mdnn_timelines_t *timelines, uint64_t number)
{
    mdnn_lock(&timelines->lock);
    const mdnn_timeline_stream_t *const waiter = mdnn_timeline_find(timelines, number);
    mdnn_status_t status = waiter && !waiter->ended ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
    for (size_t i = 0; status == MDNN_STATUS_OK && i < timelines->bucket_count; i++)
        for (mdnn_timeline_stream_t *of = timelines->buckets[i]; of && status == MDNN_STATUS_OK;
             of = of->next)
            status = wait_for_stream_in(timelines, of, waiter);
    mdnn_unlock(&timelines->lock);
    return status;
}

/* ---- ends of streams and contexts ---- */

/* Without the lock; its work is over then. */
static void wait_for_stream(mdnn_timelines_t *timelines, CUstream handle, uint64_t id)
{
    mdnn_lock_may_wait();
    if (timelines->driver->cuStreamSynchronize(handle) != CUDA_SUCCESS)
        return;
    mdnn_lock(&timelines->lock);
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, id);
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
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, id);
    const bool unknown = stream && !mdnn_timeline_is_over(stream, stream->marked) &&
                         !mdnn_timeline_event_for(timelines, stream, stream->marked, &place);
    if (stream)
        stream->ended = true;
    mdnn_unlock(&timelines->lock);
    if (unknown)
        wait_for_stream(timelines, handle, id);
}

/* Where the wait fails the context is broken, and nothing of it runs any more. */
void mdnn_timelines_context_ends(mdnn_timelines_t *timelines, CUcontext context)
{
    mdnn_lock(&timelines->lock);
    const bool known = mdnn_timeline_has_streams(timelines, context);
    mdnn_unlock(&timelines->lock);
    if (known) {
        const mdnn_context_change_t change = mdnn_context_enter(timelines->driver, context);
        (void)timelines->driver->cuCtxSynchronize();
        mdnn_context_leave(timelines->driver, change);
    }
    mdnn_lock(&timelines->lock);
    mdnn_timeline_forget_streams(timelines, context);
    mdnn_timeline_destroy_events(timelines, context);
    mdnn_unlock(&timelines->lock);
}

/* ---- captures ---- */

bool mdnn_timelines_is_capturing(mdnn_timelines_t *timelines)
{
    return atomic_load_explicit(&timelines->captures, memory_order_relaxed) > 0;
}

bool mdnn_timelines_stream_captures(mdnn_timelines_t *timelines, CUstream stream)
{
    CUstreamCaptureStatus status;
    return mdnn_timelines_is_capturing(timelines) &&
           (timelines->driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static void cover_all(mdnn_timelines_t *timelines)
{
    unsigned place;
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (mdnn_timeline_stream_t *stream = timelines->buckets[i]; stream; stream = stream->next)
            if (!mdnn_timeline_is_over(stream, stream->marked) &&
                !mdnn_timeline_covering(stream, stream->marked, &place))
                (void)mdnn_timeline_cover(timelines, stream, false);
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
