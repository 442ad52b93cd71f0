#include "shim/device/memory_device_internal.h"

#include "config/log.h"

/* ---- points ---- */

mdnn_stream_point_t mdnn_device_mark_point(void *context, uint64_t stream)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_mark(memory->config.timelines, stream);
}

bool mdnn_device_is_done(void *context, mdnn_stream_point_t point)
{
    mdnn_device_memory_t *const memory = context;
    if (!mdnn_timelines_is_done(memory->config.timelines, point))
        return false;
    mdnn_device_point_passed(memory, point);
    return true;
}

uint64_t mdnn_device_completions(void *context)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_completions(memory->config.timelines);
}

void mdnn_device_fix_point(void *context, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    mdnn_timelines_fix(memory->config.timelines, point.stream);
}

mdnn_status_t mdnn_device_wait_in_stream(void *context, uint64_t stream, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_wait_in_stream(memory->config.timelines, stream, point);
}

/* ---- waits of the host; the caller's lock is let go ---- */

void mdnn_device_let_go(const mdnn_device_memory_t *memory)
{
    if (memory->config.caller.let_go)
        memory->config.caller.let_go(memory->config.caller.context);
}

void mdnn_device_take_back(const mdnn_device_memory_t *memory)
{
    if (memory->config.caller.take_back)
        memory->config.caller.take_back(memory->config.caller.context);
}

mdnn_status_t mdnn_device_wait_on_host(void *context, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    mdnn_device_let_go(memory);
    const mdnn_status_t status = mdnn_timelines_wait_on_host(memory->config.timelines, point);
    mdnn_device_take_back(memory);
    return status;
}

static void say_late(bool quiet, double seconds)
{
    if (quiet)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "the device was at work for more than %.0f s: memory moves beside that work, "
                      "which must touch only memory that it names",
                      seconds);
    else
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "the device was at work for more than %.1f s: for a hundred times that time, "
                      "the program does not wait for memory that moves ahead of time",
                      seconds);
}

mdnn_status_t mdnn_device_wait_a_while(void *context, mdnn_stream_point_t point, double seconds,
                                       bool quiet)
{
    const mdnn_device_memory_t *const memory = context;
    /* The clock of the simulated GPU hardly moves while it is only asked. A wait there ends at once where the stream
     * waits for the program, which is too early for a quiet time. */
    const bool simulated = memory->config.driver->is_simulated && !quiet;
    mdnn_device_let_go(memory);
    const mdnn_status_t status =
        simulated ? mdnn_timelines_wait_simulated(memory->config.timelines, point)
                  : mdnn_timelines_wait_a_while(memory->config.timelines, point, seconds);
    mdnn_device_take_back(memory);
    if (status == MDNN_STATUS_BUSY && seconds >= 1)
        say_late(quiet, seconds);
    return status;
}

void mdnn_device_wait_for_change(void *context, double seconds)
{
    const mdnn_device_memory_t *const memory = context;
    if (memory->config.caller.wait_for_change)
        memory->config.caller.wait_for_change(memory->config.caller.context, seconds);
}

uint32_t mdnn_device_opened_here(void *context)
{
    const mdnn_device_memory_t *const memory = context;
    return memory->config.caller.opened_here
               ? memory->config.caller.opened_here(memory->config.caller.context)
               : UINT32_MAX;
}
