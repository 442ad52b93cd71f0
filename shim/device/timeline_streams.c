#include "shim/device/timelines_internal.h"

#include <stdlib.h>

#include "config/fault.h"

enum { FIRST_BUCKETS = 64 };

static mdnn_timeline_stream_t **bucket_of(const mdnn_timelines_t *timelines, uint64_t number)
{
    const uint64_t mixed = number * UINT64_C(0x9E3779B97F4A7C15);
    return &timelines->buckets[mixed >> 32 & (timelines->bucket_count - 1)];
}

mdnn_timeline_stream_t *mdnn_timeline_find(const mdnn_timelines_t *timelines, uint64_t number)
{
    mdnn_timeline_stream_t *stream = *bucket_of(timelines, number);
    while (stream && stream->number != number)
        stream = stream->next;
    return stream;
}

static void free_stream(mdnn_timelines_t *timelines, mdnn_timeline_stream_t *stream)
{
    while (stream->count > 0)
        mdnn_timeline_pop_first(timelines, stream);
    free(stream->ring);
    free(stream);
    timelines->stream_count--;
}

/* Destroyed streams without unfinished work: whoever asks for them hears "over" as before. */
static void forget_ended(mdnn_timelines_t *timelines)
{
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (mdnn_timeline_stream_t **link = &timelines->buckets[i]; *link;) {
            mdnn_timeline_stream_t *const stream = *link;
            if (!stream->ended ||
                (stream->done < stream->marked && !MDNN_FAULT(STREAM_FORGOTTEN_AT_WORK))) {
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
    mdnn_timeline_stream_t **const old = timelines->buckets;
    mdnn_timeline_stream_t **const buckets = calloc(2 * old_count, sizeof *buckets);
    if (!buckets)
        return false;
    timelines->buckets = buckets;
    timelines->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++)
        for (mdnn_timeline_stream_t *stream = old[i], *next; stream; stream = next) {
            mdnn_timeline_stream_t **const bucket = bucket_of(timelines, stream->number);
            next = stream->next;
            stream->next = *bucket;
            *bucket = stream;
        }
    free(old);
    return true;
}

mdnn_timeline_stream_t *mdnn_timeline_add(mdnn_timelines_t *timelines,
                                          const mdnn_timeline_stream_t *what)
{
    if (timelines->stream_count >= timelines->bucket_count) {
        forget_ended(timelines);
        if (timelines->stream_count > timelines->bucket_count / 2)
            (void)grow(timelines); /* longer chains do as well */
    }
    mdnn_timeline_stream_t *const stream = malloc(sizeof *stream);
    if (!stream)
        return NULL;
    mdnn_timeline_stream_t **const bucket = bucket_of(timelines, what->number);
    *stream = *what;
    stream->marked = stream->done = timelines->now;
    stream->next = *bucket;
    *bucket = stream;
    timelines->stream_count++;
    return stream;
}

bool mdnn_timeline_has_streams(const mdnn_timelines_t *timelines, CUcontext context)
{
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (const mdnn_timeline_stream_t *stream = timelines->buckets[i]; stream;
             stream = stream->next)
            if (stream->context == context)
                return true;
    return false;
}

void mdnn_timeline_forget_streams(mdnn_timelines_t *timelines, CUcontext context)
{
    for (size_t i = 0; i < timelines->bucket_count; i++)
        for (mdnn_timeline_stream_t **link = &timelines->buckets[i]; *link;) {
            mdnn_timeline_stream_t *const stream = *link;
            if (stream->context != context) {
                link = &stream->next;
                continue;
            }
            for (unsigned j = 0; j < stream->count; j++) {
                mdnn_timeline_event_t *const event =
                    stream->ring[(stream->first + j) % stream->room];
                event->context = event->waiters > 0 ? NULL : context;
            }
            *link = stream->next;
            free_stream(timelines, stream);
        }
}

bool mdnn_timeline_make_table(mdnn_timelines_t *timelines)
{
    timelines->bucket_count = FIRST_BUCKETS;
    timelines->buckets = calloc(FIRST_BUCKETS, sizeof *timelines->buckets);
    return timelines->buckets != NULL;
}

void mdnn_timeline_free_table(mdnn_timelines_t *timelines)
{
    for (size_t i = 0; timelines->buckets && i < timelines->bucket_count; i++)
        for (mdnn_timeline_stream_t *stream = timelines->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            free_stream(timelines, stream);
        }
    free(timelines->buckets);
}
