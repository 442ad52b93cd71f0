/* Streams, events and host calls, and what they mean in the engine: the legacy default stream and
 * the blocking streams wait for each other, the rest is in order only within itself. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

#define EVENT_MAGIC UINT64_C(0x73696d6576656e74)

static CUevent free_events; /* never given back, so that a stale handle's magic can be read */
/* The first of all events, ended ones too. Its address is inverted, so that a leak checker, which looks for
 * addresses, does not take an event for used only because it is in this list. */
static uintptr_t made_last;
static _Thread_local char this_thread; /* whose address tells threads apart */
static _Thread_local bool zero_is_own;

void sim_use_own_stream(bool own)
{
    zero_is_own = own;
}

static double launch_us(void)
{
    return sim_device(sim_current()->device)->profile.launch_us;
}

/* Host time of recording an event or waiting for one: a quarter of a launch. An assumption. */
static double event_us(void)
{
    return launch_us() / 4;
}

CUresult sim_stream_create(CUcontext context, unsigned flags, int priority, CUstream *out)
{
    CUstream stream = sim_allocate(sizeof *stream);
    stream->context = context;
    stream->lane = sim_lane_create(context);
    stream->id = ++sim_engine.next_id;
    stream->flags = flags;
    stream->priority = priority;
    stream->next = context->streams;
    context->streams = stream;
    *out = stream;
    return CUDA_SUCCESS;
}

static bool stream_exists(CUcontext context, CUstream stream)
{
    for (CUstream each = context->streams; each; each = each->next)
        if (each == stream)
            return true;
    return false;
}

static CUstream own_stream(CUcontext context)
{
    CUstream own = context->streams;
    while (own && own->thread != &this_thread)
        own = own->next;
    if (!own) {
        sim_stream_create(context, CU_STREAM_DEFAULT, 0, &own);
        own->thread = &this_thread;
    }
    return own;
}

CUresult sim_stream_resolve(CUstream handle, CUstream *out)
{
    CUcontext context = sim_current();
    if (handle == CU_STREAM_PER_THREAD || (!handle && zero_is_own)) {
        *out = own_stream(context);
        return CUDA_SUCCESS;
    }
    if (!handle || handle == CU_STREAM_LEGACY) {
        *out = context->legacy;
        return sim_capture_guard_legacy(*out);
    }
    for (CUcontext each = NULL; (each = sim_context_after(each));) {
        if (stream_exists(each, handle)) {
            *out = handle;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

/* Unlinks the stream; its operations go on. */
static void destroy_stream(CUstream stream)
{
    CUstream *link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    sim_frontier_clear(&stream->frontier);
    sim_lane_release(stream->lane);
    free(stream);
}

void sim_context_open(CUcontext context, int device)
{
    static uint64_t last_id;
    if (context->streams)
        return;
    context->id = ++last_id;
    context->device = device;
    sim_stream_create(context, CU_STREAM_DEFAULT, 0, &context->legacy);
    context->legacy->legacy = true;
}

/* Mappings outlive their context; memory of pools and graphs goes with the primary one. */
static bool ends_with(const sim_range_t *range, CUcontext context, bool primary)
{
    return range->place == SIM_PLACE_DEVICE && range->device == context->device &&
           !range->physical && (range->context == context || (primary && !range->context));
}

static CUevent find_event(CUevent event)
{
    return event && event->magic == EVENT_MAGIC ? event : NULL;
}

static void end_event(CUevent event)
{
    sim_op_drop(event->op);
    sim_frontier_clear(&event->frontier);
    *event = (struct CUevent_st){.next_free = free_events, .made_before = event->made_before};
    free_events = event;
}

static void end_events(uint64_t context_id)
{
    CUevent event;
    for (uintptr_t hidden = made_last; hidden; hidden = event->made_before) {
        event = (CUevent)~hidden;
        if (find_event(event) && event->context_id == context_id)
            end_event(event);
    }
}

void sim_context_close(CUcontext context)
{
    const int device = context->device;
    const bool primary = context == &sim_engine.devices[device].context;
    sim_wait_device(device);
    sim_modules_end(context->id);
    while (context->streams)
        destroy_stream(context->streams);
    end_events(context->id);
    context->legacy = NULL;
    context->sticky = CUDA_SUCCESS;
    if (primary)
        sim_pools_reset(device);
    sim_arrays_end(context, primary);
    size_t i = 0;
    for (const sim_range_t *range; (range = sim_map_at(i));) {
        if (!ends_with(range, context, primary)) {
            i++;
            continue;
        }
        const bool backed = !range->graph_memory || sim_graph_memory_lose(range->graph_memory);
        if (!range->pool && backed)
            sim_memory_given_back(&sim_engine.devices[device], range->pages_bytes);
        sim_map_remove(range->start);
    }
}

sim_op_t *sim_stream_submit(CUstream stream, sim_work_t *work, sim_op_t *const *needs,
                            unsigned count)
{
    unsigned streams = 0;
    for (CUstream each = stream->context->streams; each; each = each->next)
        streams++;
    sim_op_t **all = sim_allocate((count + streams) * sizeof *all);
    for (unsigned i = 0; i < count; i++)
        all[i] = sim_op_hold(needs[i]);
    bool blocking = !(stream->flags & CU_STREAM_NON_BLOCKING);
    for (CUstream each = stream->context->streams; each && blocking; each = each->next)
        if (each != stream && (stream->legacy || each->legacy) &&
            !(each->flags & CU_STREAM_NON_BLOCKING) && each->lane->tail)
            all[count++] = sim_op_hold(each->lane->tail);
    sim_op_t *op = sim_lane_add(stream->lane, work, all, count);
    for (unsigned i = 0; i < count; i++)
        sim_op_drop(all[i]);
    free(all);
    return op;
}

CUresult sim_stream_add(CUstream stream, sim_work_t *work, double host_us, sim_op_t **out)
{
    if (out)
        *out = NULL;
    sim_clock_spend(host_us);
    if (stream->capture)
        return sim_capture_add(stream, work);
    sim_op_t *op = sim_stream_submit(stream, work, NULL, 0);
    if (out)
        *out = op;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *out, unsigned flags, int priority)
{
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_stream_create(sim_current(), flags, priority, out);
}

SIM_ENTRY(CONTEXT, cuStreamCreate, (CUstream * stream, unsigned flags),
          stream_create(stream, flags, 0))
SIM_ENTRY(CONTEXT, cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority),
          stream_create(stream, flags, priority))

static CUresult stream_destroy(CUstream handle)
{
    CUstream stream;
    if ((uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture) {
        result = sim_capture_guard_wait(stream->context, stream);
        return result;
    }
    destroy_stream(stream);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuStreamDestroy, (CUstream stream), stream_destroy(stream))

/* What the host waits for when it waits for a stream: for the legacy one also the blocking ones. */
static CUresult stream_wait(CUstream handle, CUresult (*how)(sim_op_t *op))
{
    CUstream stream;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = sim_capture_guard_wait(stream->context, stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!stream->legacy)
        return how(stream->lane->tail);
    sim_work_t mark = {.kind = SIM_MARK};
    return how(sim_stream_submit(stream, &mark, NULL, 0));
}

static CUresult wait_op(sim_op_t *op)
{
    sim_wait(op);
    sim_pools_trim();
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuStreamSynchronize, (CUstream stream), stream_wait(stream, wait_op))

static CUresult stream_query(CUstream handle)
{
    CUstream stream;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS && stream->legacy && stream->lane->tail)
        return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                               : sim_query(stream->lane->tail);
    return result == CUDA_SUCCESS ? stream_wait(handle, sim_query) : result;
}

SIM_ENTRY(CONTEXT, cuStreamQuery, (CUstream stream), stream_query(stream))

static CUresult stream_wait_event(CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream;
    bool done = false;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!find_event(event) || (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL))
        return !find_event(event) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    sim_clock_spend(event_us());
    result = sim_capture_wait(stream, event, &done);
    if (result != CUDA_SUCCESS || done || !event->op)
        return result;
    sim_work_t mark = {.kind = SIM_MARK};
    sim_stream_submit(stream, &mark, &event->op, 1);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
          stream_wait_event(stream, event, flags))

static CUresult host_call(CUstream handle, CUhostFn function, void *data)
{
    CUstream stream;
    CUresult result = function ? sim_stream_resolve(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    sim_work_t work = {.kind = SIM_HOST_CALL, .function = function, .user_data = data};
    return sim_stream_add(stream, &work, launch_us(), NULL);
}

SIM_ENTRY(CONTEXT, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data),
          host_call(stream, function, data))

static CUresult stream_fact(CUstream handle, CUstream *stream, const void *out)
{
    return out ? sim_stream_resolve(handle, stream) : CUDA_ERROR_INVALID_VALUE;
}

#define STREAM_FACT(function, type, expression)                                                    \
    static CUresult function##_locked(CUstream handle, type *out)                                  \
    {                                                                                              \
        CUstream stream;                                                                           \
        CUresult result = stream_fact(handle, &stream, out);                                       \
        if (result == CUDA_SUCCESS)                                                                \
            *out = expression;                                                                     \
        return result;                                                                             \
    }                                                                                              \
    CUresult function(CUstream handle, type *out)                                                  \
    {                                                                                              \
        SIM_CALL(SIM_NEED_CONTEXT, function##_locked(handle, out));                                \
    }

STREAM_FACT(cuStreamGetFlags, unsigned, stream->flags)
STREAM_FACT(cuStreamGetPriority, int, stream->priority)
STREAM_FACT(cuStreamGetId, unsigned long long, stream->id)
STREAM_FACT(cuStreamGetCtx, CUcontext, stream->context)
STREAM_FACT(cuStreamGetDevice, CUdevice, stream->context->device)

static CUevent make_event(void)
{
    CUevent event = sim_allocate(sizeof *event);
    event->made_before = made_last;
    made_last = ~(uintptr_t)event;
    return event;
}

static CUresult event_create(CUevent *out, unsigned flags)
{
    if (!out || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent event = free_events;
    if (event)
        free_events = event->next_free;
    else
        event = make_event();
    *event = (struct CUevent_st){.magic = EVENT_MAGIC,
                                 .flags = flags,
                                 .context_id = sim_current()->id,
                                 .made_before = event->made_before};
    *out = event;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuEventCreate, (CUevent * event, unsigned flags), event_create(event, flags))

static CUresult event_destroy(CUevent event)
{
    if (!find_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    end_event(event);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuEventDestroy, (CUevent event), event_destroy(event))

static CUresult event_record(CUevent event, CUstream handle)
{
    CUstream stream;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || !find_event(event))
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    sim_clock_spend(event_us());
    if (stream->capture)
        return sim_capture_record(stream, event);
    sim_work_t mark = {.kind = SIM_MARK};
    if (sim_engine.event_us > 0) {
        mark.unit = SIM_UNIT_COMPUTE;
        mark.amount = sim_engine.event_us;
    }
    sim_op_t *op = sim_op_hold(sim_stream_submit(stream, &mark, NULL, 0));
    sim_op_drop(event->op);
    event->op = op;
    event->capture_id = 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuEventRecord, (CUevent event, CUstream stream), event_record(event, stream))
SIM_ENTRY(CONTEXT, cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
          flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE
                                                      : event_record(event, stream))

static CUresult event_wait(CUevent event, CUresult (*how)(sim_op_t *op))
{
    if (!find_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_holds(event))
        return CUDA_ERROR_CAPTURED_EVENT;
    return how(event->op);
}

SIM_ENTRY(CONTEXT, cuEventSynchronize, (CUevent event), event_wait(event, wait_op))

static CUresult try_wait_op(sim_op_t *op)
{
    return sim_try_wait(op) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* For the library under test, which must not wait for the program: as cuEventSynchronize, but
 * CUDA_ERROR_NOT_READY where a stream waits for a value that is not there, or for a callback. The
 * same fault, too. */
CUresult sim_wait_event(CUevent event);
CUresult sim_wait_event(CUevent event)
{
    const CUresult result = sim_enter("cuEventSynchronize", SIM_NEED_CONTEXT);
    return result != CUDA_SUCCESS ? result : sim_leave(event_wait(event, try_wait_op));
}

static CUresult event_query(CUevent event)
{
    CUresult result = sim_capture_guard();
    return result != CUDA_SUCCESS ? result : event_wait(event, sim_query);
}

SIM_ENTRY(CONTEXT, cuEventQuery, (CUevent event), event_query(event))

static CUresult event_elapsed(float *ms, CUevent start, CUevent end)
{
    if (!ms || !find_event(start) || !find_event(end) || !start->op || !end->op ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return ms ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    sim_clock_advance();
    if (!sim_op_done(start->op) || !sim_op_done(end->op))
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((end->op->end_us - start->op->end_us) / 1e3);
    return CUDA_SUCCESS;
}

/* Both the present and the old entry point. */
SIM_ENTRY(CONTEXT, cuEventElapsedTime, (float *ms, CUevent start, CUevent end),
          event_elapsed(ms, start, end))

#undef cuEventElapsedTime
SIM_ENTRY(CONTEXT, cuEventElapsedTime, (float *ms, CUevent start, CUevent end);
          CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end),
          event_elapsed(ms, start, end))

static CUresult context_synchronize(void)
{
    CUresult result = sim_capture_guard_wait(sim_current(), NULL);
    if (result == CUDA_SUCCESS)
        sim_wait_device(sim_current()->device);
    sim_pools_trim();
    return result;
}

SIM_ENTRY(CONTEXT, cuCtxSynchronize, (void), context_synchronize())
