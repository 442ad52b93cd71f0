#include "shim/device/timelines_internal.h"

#include <sched.h>
#include <time.h>

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
    while ((status = mdnn_timeline_ask(timelines, point)) == MDNN_STATUS_BUSY) {
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
static void finish_wait(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                        mdnn_timeline_event_t *event, bool over)
{
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, point.stream);
    if (--event->waiters == 0 && event->dropped)
        mdnn_timeline_drop_event(timelines, event);
    if (!over || !stream)
        return;
    if (stream->done < point.position)
        stream->done = point.position;
    while (stream->count > 0 && stream->ring[stream->first]->position <= stream->done)
        mdnn_timeline_pop_first(timelines, stream);
}

/* `wait` is the driver's; CUDA_ERROR_NOT_READY: BUSY. */
static mdnn_status_t wait_without_lock(mdnn_timelines_t *timelines, mdnn_stream_point_t point,
                                       CUresult (*wait)(CUevent event))
{
    unsigned place;
    mdnn_lock_may_wait();
    mdnn_lock(&timelines->lock);
    mdnn_timeline_stream_t *const stream = mdnn_timeline_find(timelines, point.stream);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!mdnn_timeline_is_over(stream, point.position)) {
        mdnn_timeline_event_t *const event =
            mdnn_timeline_event_for(timelines, stream, point.position, &place);
        status = event                                                ? MDNN_STATUS_OK
                 : mdnn_timeline_may_record(timelines, stream, false) ? MDNN_STATUS_DEVICE
                                                                      : MDNN_STATUS_BUSY;
        if (event) {
            event->waiters++;
            mdnn_unlock(&timelines->lock);
            const CUresult result = wait(event->handle);
            status = result == CUDA_ERROR_NOT_READY ? MDNN_STATUS_BUSY : mdnn_timeline_note(result);
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
