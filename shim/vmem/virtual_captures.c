#include "shim/vmem/virtual_captures.h"

#include <pthread.h>

#include "shim/vmem/capture_queries.h"
#include "shim/vmem/virtual_holds_internal.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_watch.h"

static CUstream handle_of(CUstream stream, bool per_thread)
{
    return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

void mdnn_virtual_capture_begins(void)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    if (!timelines)
        return;
    const mdnn_virtual_watch_t *const watch =
        atomic_load_explicit(&mdnn_virtual_watcher, memory_order_acquire);
    mdnn_capture_begin_own();
    mdnn_timelines_capture_began(timelines); /* others may join it: all streams are prepared */
    mdnn_capture_end_own();
    if (watch)
        watch->capture_begins();
}

/* The capture under way that began in the stream (a handle_of). */
static bool find_capture(CUstream stream, mdnn_capture_t *capture)
{
    mdnn_virtual_lock_captures();
    const bool found = mdnn_captures_in(mdnn_virtual_captures(), stream, pthread_self(), capture);
    mdnn_virtual_unlock_captures();
    return found;
}

unsigned long long mdnn_virtual_capture_in(CUstream stream)
{
    mdnn_capture_t capture;
    return mdnn_virtual_captures() && find_capture(stream, &capture) ? capture.id : 0;
}

/* It is not under way any more. */
static void let_go(unsigned long long id)
{
    mdnn_timelines_capture_ended(mdnn_virtual_timelines());
    mdnn_virtual_release_holds(mdnn_holder_of_capture(id));
}

void mdnn_virtual_capture_lost(unsigned long long id)
{
    if (id == 0)
        return;
    mdnn_virtual_lock_captures();
    const bool known = mdnn_captures_end(mdnn_virtual_captures(), id);
    mdnn_virtual_unlock_captures();
    if (known)
        let_go(id);
}

void mdnn_virtual_capture_began(CUstream stream, bool per_thread, CUgraph graph, bool began)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    mdnn_capture_t capture = {.stream = handle_of(stream, per_thread),
                              .of_thread = handle_of(stream, per_thread) == CU_STREAM_PER_THREAD,
                              .thread = pthread_self(),
                              .given = graph != NULL};
    if (timelines && !began)
        mdnn_timelines_capture_ended(timelines);
    if (!timelines || !began)
        return;
    mdnn_virtual_capture_lost(
        mdnn_virtual_capture_in(capture.stream)); /* untracked, a handle ago */
    if (!mdnn_capture_asked(capture.stream, &capture.id, &capture.graph))
        return;
    if (capture.given)
        capture.graph = graph;
    mdnn_virtual_lock_captures();
    (void)mdnn_captures_begin(mdnn_virtual_captures(), &capture);
    mdnn_virtual_unlock_captures();
}

unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    unsigned long long id = 0;
    return timelines && mdnn_timelines_is_capturing(timelines) &&
                   mdnn_capture_of(handle_of(stream, per_thread), &id)
               ? id
               : 0;
}

/* An invalidated capture has no id any more, so what is remembered counts. */
void mdnn_virtual_capture_ended(CUstream stream, bool per_thread, unsigned long long id,
                                CUgraph graph)
{
    CUstream const handle = handle_of(stream, per_thread);
    mdnn_capture_t capture = {.id = id};
    if (!mdnn_virtual_timelines())
        return;
    const bool known = find_capture(handle, &capture) || id != 0;
    if (!graph && (!known || mdnn_capture_goes_on(handle)))
        return;
    mdnn_virtual_lock_captures();
    (void)mdnn_captures_end(mdnn_virtual_captures(), capture.id);
    if (!graph && !capture.given && capture.graph)
        mdnn_captures_part(mdnn_virtual_captures(), capture.graph);
    mdnn_virtual_unlock_captures();
    if (!graph && capture.given)
        graph = capture.graph; /* with the nodes up to there */
    if (graph)
        mdnn_virtual_pass_holds_on(mdnn_holder_of_capture(capture.id), mdnn_holder_of_graph(graph));
    let_go(capture.id);
}
