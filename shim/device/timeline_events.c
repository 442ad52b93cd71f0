#include "shim/device/timelines_internal.h"

#include <stdlib.h>

#include "shim/real/failure.h"

enum { RING_FIRST = 16, RING_MOST = 1024 };

mdnn_status_t mdnn_timeline_note(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return MDNN_STATUS_OK;
    if (result != CUDA_ERROR_NOT_READY)
        (void)mdnn_failure_note(result);
    return MDNN_STATUS_DEVICE;
}

static mdnn_timeline_event_t *new_event(mdnn_timelines_t *timelines, CUcontext context)
{
    for (mdnn_timeline_event_t **link = &timelines->free_events; *link; link = &(*link)->next)
        if ((*link)->context == context) {
            mdnn_timeline_event_t *const event = *link;
            *link = event->next;
            return event;
        }
    mdnn_timeline_event_t *const event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->context = context;
    if (mdnn_timeline_note(timelines->driver->cuEventCreate(
            &event->handle, CU_EVENT_DISABLE_TIMING)) == MDNN_STATUS_OK)
        return event;
    free(event);
    return NULL;
}

void mdnn_timeline_drop_event(mdnn_timelines_t *timelines, mdnn_timeline_event_t *event)
{
    event->dropped = event->waiters > 0;
    if (event->dropped)
        return;
    event->next = timelines->free_events;
    timelines->free_events = event;
}

void mdnn_timeline_pop_first(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream)
{
    mdnn_timeline_event_t *const event = stream->ring[stream->first];
    if (event->position > stream->done)
        stream->done = event->position;
    timelines->completions++;
    stream->first = (stream->first + 1) % stream->room;
    stream->count--;
    mdnn_timeline_drop_event(timelines, event);
}

void mdnn_timeline_pop_through(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream,
                               const mdnn_timeline_event_t *last)
{
    bool found = false;
    while (stream->count > 0 && !found) {
        found = stream->ring[stream->first] == last;
        mdnn_timeline_pop_first(timelines, stream);
    }
}

bool mdnn_timeline_may_record(mdnn_timelines_t *timelines, const mdnn_timeline_stream_t *stream,
                              bool by_its_thread)
{
    return !stream->ended && (by_its_thread || !stream->own_of_thread) &&
           !mdnn_timelines_stream_captures(timelines, stream->handle);
}

/* Room for one more in the ring, as long as that makes sense: the device has queues of such lengths. */
static bool ring_has_room(mdnn_timeline_stream_t *stream)
{
    if (stream->count < stream->room)
        return true;
    const unsigned room = stream->room ? 2 * stream->room : RING_FIRST;
    mdnn_timeline_event_t **const ring =
        room <= RING_MOST ? calloc(room, sizeof(mdnn_timeline_event_t *)) : NULL;
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
static mdnn_timeline_event_t *next_event(mdnn_timelines_t *timelines,
                                         mdnn_timeline_stream_t *stream)
{
    if (!ring_has_room(stream))
        return stream->count > 0 ? stream->ring[(stream->first + stream->count - 1) % stream->room]
                                 : NULL;
    mdnn_timeline_event_t *const event = new_event(timelines, stream->context);
    if (event)
        stream->ring[(stream->first + stream->count++) % stream->room] = event;
    return event;
}

mdnn_timeline_event_t *mdnn_timeline_cover(mdnn_timelines_t *timelines,
                                           mdnn_timeline_stream_t *stream, bool by_its_thread)
{
    if (!mdnn_timeline_may_record(timelines, stream, by_its_thread))
        return NULL;
    const mdnn_context_change_t change = mdnn_context_enter(timelines->driver, stream->context);
    const unsigned before = stream->count;
    mdnn_timeline_event_t *event = next_event(timelines, stream);
    if (event && mdnn_timeline_note(timelines->driver->cuEventRecord(
                     event->handle, stream->handle)) != MDNN_STATUS_OK) {
        if (stream->count > before) {
            stream->count--;
            mdnn_timeline_drop_event(timelines, event);
        }
        event = NULL;
    }
    mdnn_context_leave(timelines->driver, change);
    if (event)
        event->position = stream->marked;
    return event;
}

mdnn_timeline_event_t *mdnn_timeline_covering(const mdnn_timeline_stream_t *stream,
                                              uint64_t position, unsigned *place)
{
    unsigned first = 0;                                /* the place is here or later, */
    for (unsigned end = stream->count; first < end;) { /* and before this; positions only grow */
        const unsigned middle = first + (end - first) / 2;
        if (stream->ring[(stream->first + middle) % stream->room]->position < position)
            first = middle + 1;
        else
            end = middle;
    }
    *place = first;
    return first < stream->count ? stream->ring[(stream->first + first) % stream->room] : NULL;
}

mdnn_timeline_event_t *mdnn_timeline_event_for(mdnn_timelines_t *timelines,
                                               mdnn_timeline_stream_t *stream, uint64_t position,
                                               unsigned *place)
{
    mdnn_timeline_event_t *const event = mdnn_timeline_covering(stream, position, place);
    if (event)
        return event;
    mdnn_timeline_event_t *const recorded = mdnn_timeline_cover(timelines, stream, false);
    *place = recorded ? stream->count - 1 : 0;
    return recorded;
}

void mdnn_timeline_fix(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream,
                       bool by_its_thread)
{
    unsigned place;
    if (stream && !mdnn_timeline_is_over(stream, stream->marked) &&
        !mdnn_timeline_covering(stream, stream->marked, &place))
        (void)mdnn_timeline_cover(timelines, stream, by_its_thread);
}

void mdnn_timeline_destroy_events(mdnn_timelines_t *timelines, CUcontext context)
{
    for (mdnn_timeline_event_t **link = &timelines->free_events; *link;) {
        mdnn_timeline_event_t *const event = *link;
        if (event->context != context) {
            link = &event->next;
            continue;
        }
        *link = event->next;
        (void)timelines->driver->cuEventDestroy(event->handle);
        free(event);
    }
}

void mdnn_timeline_destroy_all_events(mdnn_timelines_t *timelines)
{
    for (mdnn_timeline_event_t *event = timelines->free_events, *next; event; event = next) {
        next = event->next;
        (void)timelines->driver->cuEventDestroy(event->handle);
        free(event);
    }
}
