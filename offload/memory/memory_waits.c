/* Waits of the host: for a point in a stream, and for what is under way to have moved. */
#include "offload/memory/memory_waits.h"
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_remaps.h"

#include <math.h>

static void count_wait(mdnn_memory_t *memory, mdnn_host_time_kind_t kind, uint64_t stream,
                       double begin_us)
{
    static const char *const reasons[] = {[MDNN_HOST_TIME_copies] = "copies",
                                          [MDNN_HOST_TIME_work] = "work",
                                          [MDNN_HOST_TIME_pinning] = "pinned memory"};
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_STALL,
                                       .stream = stream,
                                       .name = reasons[kind],
                                       .whose = memory->serving,
                                       .time_us =
                                           memory->device.now_us(memory->context) - begin_us};
    memory->report.host_waits++;
    memory->report.host_wait_us += event.time_us;
    mdnn_host_time_take(&memory->report.host_time, kind, event.time_us);
    mdnn_memory_announce(memory, &event);
}

static bool is_copy(const mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    for (int out = 0; out < 2; out++)
        if (memory->flights[out].count > 0 &&
            memory->flights[out].ring[memory->flights[out].first].end.stream == point.stream)
            return true;
    return false;
}

/* NOT_FOUND: the memory was closed meanwhile. */
static mdnn_status_t end_wait(const mdnn_memory_t *memory, mdnn_status_t status)
{
    return memory->closed ? MDNN_STATUS_NOT_FOUND : status;
}

/* BUSY after `seconds`; INFINITY: as long as it takes, for copies. */
static mdnn_status_t wait_counted_for(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                      double seconds, bool quiet)
{
    if (memory->closed)
        return MDNN_STATUS_NOT_FOUND;
    if (point.position == 0 || memory->device.is_done(memory->context, point))
        return MDNN_STATUS_OK;
    mdnn_memory_check(memory);
    const mdnn_host_time_kind_t kind =
        is_copy(memory, point) ? MDNN_HOST_TIME_copies : MDNN_HOST_TIME_work;
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status =
        seconds < INFINITY ? memory->device.wait_a_while(memory->context, point, seconds, quiet)
                           : memory->device.wait_on_host(memory->context, point);
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_BUSY)
        count_wait(memory, kind, point.stream, begin_us);
    return end_wait(memory, status);
}

static mdnn_status_t wait_counted(mdnn_memory_t *memory, mdnn_stream_point_t point, double seconds)
{
    return wait_counted_for(memory, point, seconds, false);
}

mdnn_status_t mdnn_memory_wait_for_copy(mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    return wait_counted(memory, point, INFINITY);
}

mdnn_patience_t mdnn_memory_patience(const mdnn_memory_t *memory)
{
    return (mdnn_patience_t){.since_us = memory->device.now_us(memory->context)};
}

bool mdnn_memory_is_patient(mdnn_memory_t *memory, mdnn_patience_t *patience)
{
    const double now_us = memory->device.now_us(memory->context);
    const uint64_t completions =
        memory->device.completions ? memory->device.completions(memory->context) : 0;
    if (completions != patience->completions) {
        patience->since_us = now_us;
        patience->completions = completions;
    }
    return memory->config.patience_s <= 0 ||
           now_us - patience->since_us < memory->config.patience_s * 1e6;
}

mdnn_status_t mdnn_memory_wait(mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_status_t status;
    while ((status = wait_counted(memory, point, mdnn_stretch_s)) == MDNN_STATUS_BUSY &&
           mdnn_memory_is_patient(memory, &patience))
        mdnn_memory_progress(memory);
    return status;
}

mdnn_status_t mdnn_memory_wait_a_while(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                       double seconds)
{
    return wait_counted(memory, point, seconds);
}

mdnn_status_t mdnn_memory_wait_for_quiet(mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    enum { SECONDS = 10 };
    return wait_counted_for(memory, point, SECONDS, true);
}

mdnn_status_t mdnn_memory_wait_for_change(mdnn_memory_t *memory)
{
    if (!memory->device.wait_for_change)
        return MDNN_STATUS_NOT_FOUND; /* there is nobody else */
    if (memory->closed)
        return MDNN_STATUS_NOT_FOUND;
    mdnn_memory_check(memory);
    const double begin_us = memory->device.now_us(memory->context);
    memory->device.wait_for_change(memory->context, mdnn_stretch_s);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_threads, begin_us);
    return end_wait(memory, MDNN_STATUS_OK);
}

void mdnn_memory_close(mdnn_memory_t *memory)
{
    memory->closed = true;
}

/* ---- for what is under way ---- */

static mdnn_status_t wait_for_slot(mdnn_memory_t *memory)
{
    const double begin_us = memory->device.now_us(memory->context);
    MDNN_TRY(memory->device.wait_for_slot(memory->context));
    count_wait(memory, MDNN_HOST_TIME_pinning, 0, begin_us);
    return end_wait(memory, MDNN_STATUS_OK);
}

/* The first use of a list's ranges that nobody has seen over; position 0: there is none. */
static mdnn_stream_point_t find_use(const mdnn_allocation_list_t *list)
{
    for (const mdnn_allocation_t *allocation = list->first; allocation;
         allocation = allocation->next_move)
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].position != 0)
                return allocation->uses[i];
    return (mdnn_stream_point_t){0};
}

/* The same of what a demand has return and what operations still reach on the host. */
static mdnn_stream_point_t find_use_of_tails(const mdnn_memory_t *memory)
{
    for (const mdnn_allocation_t *allocation = memory->returning.first;
         allocation && !MDNN_FAULT(USES_OF_TAILS_NOT_WAITED_FOR);
         allocation = allocation->next_move)
        for (uint32_t i = 0; allocation->demanded && allocation->covered_from < allocation->count &&
                             i < allocation->use_count;
             i++)
            if (allocation->uses[i].position != 0)
                return allocation->uses[i];
    return (mdnn_stream_point_t){0};
}

static void note_over(const mdnn_allocation_list_t *list, mdnn_stream_point_t use)
{
    for (const mdnn_allocation_t *allocation = list->first; allocation;
         allocation = allocation->next_move)
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].stream == use.stream &&
                allocation->uses[i].position == use.position)
                allocation->uses[i].position = 0;
}

/* Each use is waited for once, even where that helps nothing (a release that lacks memory). */
static mdnn_status_t wait_for_use(mdnn_memory_t *memory, mdnn_stream_point_t use, double seconds)
{
    MDNN_TRY(wait_counted(memory, use, seconds));
    note_over(&memory->leaving, use);
    note_over(&memory->endings, use);
    note_over(&memory->returning, use);
    mdnn_memory_note_untracked_over(memory, use);
    return MDNN_STATUS_OK;
}

/* The copy that ends next; its position may be 0, of what is no copy. NULL: none is under way. */
static const mdnn_stream_point_t *next_landing(const mdnn_memory_t *memory)
{
    for (int out = 1; out >= 0; out--)
        if (memory->flights[out].count > 0)
            return &memory->flights[out].ring[memory->flights[out].first].end;
    return NULL;
}

/* What ends before the point does, as far as is known, and lets something move then. It is not
 * over yet, or will be taken note of: each wait is for something else. */
static mdnn_stream_point_t next_before(const mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    const mdnn_stream_point_t *const landing = next_landing(memory);
    if (landing)
        return *landing;
    for (const mdnn_allocation_t *allocation = memory->leaving.first; allocation;
         allocation = allocation->next_move)
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].position != 0 && allocation->uses[i].stream == point.stream &&
                allocation->uses[i].position < point.position &&
                (MDNN_FAULT(WAITS_FOR_WHAT_IS_OVER) ||
                 !memory->device.is_done(memory->context, allocation->uses[i])))
                point.position = allocation->uses[i].position;
    return point;
}

/* What a copy may take where a use may take so long: it ends by itself, so it is no reason to stall. */
static double for_copy(double seconds)
{
    return seconds > mdnn_stretch_s ? seconds : INFINITY;
}

mdnn_status_t mdnn_memory_wait_and_move(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                        double seconds)
{
    while (point.position != 0 && !memory->device.is_done(memory->context, point)) {
        const double most_s = next_landing(memory) ? for_copy(seconds) : seconds;
        MDNN_TRY(wait_counted(memory, next_before(memory, point), most_s));
        mdnn_memory_progress(memory);
    }
    return MDNN_STATUS_OK;
}

/* The device is a few iterations behind the host at most. What takes longer may wait for what this
 * thread does next, or for another process. */
static double patience(const mdnn_memory_t *memory)
{
    static const double least_s = 1, most_s = 10, iterations = 3;
    const double seconds =
        least_s + iterations * mdnn_follower_report(memory->follower).predicted_us / 1e6;
    return seconds < most_s ? seconds : most_s;
}

static bool is_hasty(const mdnn_memory_t *memory)
{
    return memory->hasty_until_us > 0 &&
           memory->device.now_us(memory->context) < memory->hasty_until_us;
}

/* Waits that are given up again and again cost a hundredth of the time. */
static void be_hasty(mdnn_memory_t *memory, double waited_s)
{
    const double haste_us = MDNN_FAULT(GIVES_UP_FOR_GOOD) ? INFINITY : 100 * waited_s * 1e6;
    memory->hasty_until_us = memory->device.now_us(memory->context) + haste_us;
}

void mdnn_memory_slow_down(mdnn_memory_t *memory, mdnn_stream_point_t end)
{
    while (memory->wanted.position != 0 && memory->wanted.stream == end.stream &&
           memory->wanted.position < end.position && !is_hasty(memory)) {
        const uint64_t before = memory->steps;
        const double seconds = patience(memory);
        const mdnn_status_t status = mdnn_memory_wait_and_move(memory, memory->wanted, seconds);
        if (status == MDNN_STATUS_BUSY)
            be_hasty(memory, seconds);
        mdnn_memory_progress(memory);
        if (status != MDNN_STATUS_OK || memory->steps == before)
            return;
    }
}

mdnn_status_t mdnn_memory_wait_for_a_move(mdnn_memory_t *memory, double seconds)
{
    const uint64_t before = memory->steps;
    if (!MDNN_FAULT(REMAPS_NOT_WAITED_FOR) && mdnn_memory_finish_a_remap(memory))
        return MDNN_STATUS_OK;
    const mdnn_stream_point_t *const landing = next_landing(memory);
    mdnn_stream_point_t use = find_use(&memory->leaving);
    if (use.position == 0)
        use = find_use(&memory->endings);
    if (use.position == 0)
        use = find_use_of_tails(memory);
    if (use.position == 0 &&
        (memory->leaving.first || memory->endings.first || memory->returning.first)) {
        const mdnn_stream_point_t *const untracked =
            MDNN_FAULT(UNTRACKED_NOT_WAITED_FOR) ? NULL : mdnn_memory_untracked_use(memory);
        use = untracked ? *untracked : use;
    }
    /* Copies end soon, and more can follow then. */
    if (landing)
        return wait_counted(memory, *landing, for_copy(seconds));
    if (memory->slot_busy && memory->stalled) /* that ends, too, and what is idle waits for it */
        return wait_for_slot(memory);
    if (memory->wanted.position != 0)
        return mdnn_memory_wait_and_move(memory, memory->wanted, seconds);
    if (use.position != 0)
        return wait_for_use(memory, use, seconds);
    if (memory->slot_busy && !MDNN_FAULT(SLOT_NOT_WAITED_FOR))
        return wait_for_slot(memory);
    /* What there was to wait for may have ended while it was looked for. */
    return memory->steps != before ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND;
}

void mdnn_memory_join(mdnn_memory_t *memory)
{
    const double seconds = patience(memory);
    mdnn_status_t status = is_hasty(memory) ? MDNN_STATUS_BUSY : MDNN_STATUS_OK;
    while (status == MDNN_STATUS_OK) {
        const uint64_t before = memory->steps;
        mdnn_memory_progress(memory);
        if (memory->steps != before)
            continue;
        status = mdnn_memory_wait_for_a_move(memory, seconds);
        if (status == MDNN_STATUS_BUSY)
            be_hasty(memory, seconds);
    }
}
