/* Around an operation: what it names is held, marked, recorded; the pilot's advice is followed. */
#include "offload/memory/memory_internal.h"

#include <stdlib.h>

/* Constant time for each name if all that it names is RESIDENT: nothing is searched. */

typedef struct mdnn_sum {
    uint64_t bytes, movable_bytes; /* of what is named; */
    uint64_t workspace_bytes;      /* of movable_bytes, what a smaller workspace would save */
    bool workspace_named;          /* the workspace is in one of the ranges */
    bool lacking;                  /* something is not RESIDENT */
} mdnn_sum_t;

/* The allocation behind a name, the first time that this pass meets it; else NULL. */
static mdnn_area_t *meet(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation, size_t i)
{
    mdnn_area_t *const area = mdnn_area_find(memory, operation->named[i].address, operation->began);
    if (!area || area->pass == memory->passes)
        return NULL;
    area->pass = memory->passes;
    return area;
}

bool mdnn_memory_named(const mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                       size_t i, uint64_t *start)
{
    const mdnn_area_t *const area =
        mdnn_area_find(memory, operation->named[i].address, operation->began);
    if (area)
        *start = area->address;
    return area != NULL;
}

static void let_go(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation, size_t count)
{
    memory->passes++;
    memory->all.held--;
    for (size_t i = 0; i < count; i++) {
        mdnn_area_t *const area = meet(memory, operation, i);
        if (!area)
            continue;
        area->held--;
        mdnn_area_end(memory, area);
    }
}

static void add_size(mdnn_sum_t *sum, const mdnn_area_t *area, uint64_t workspace)
{
    const bool movable = area->range && !area->stays && area->pins == 0;
    const bool is_workspace = workspace - area->address < area->bytes;
    sum->bytes += area->room;
    sum->movable_bytes += movable ? area->room : 0;
    sum->workspace_bytes += movable && is_workspace ? area->room : 0;
    sum->workspace_named = sum->workspace_named || is_workspace;
}

static mdnn_status_t hold(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                          mdnn_sum_t *sum)
{
    if (memory->config.safety != MDNN_SAFETY_FAST && !operation->capturing)
        MDNN_TRY(mdnn_area_reserve_use(memory, &memory->all, operation->stream));
    memory->all.held++;
    memory->passes++;
    for (size_t i = 0; i < operation->named_count; i++) {
        mdnn_area_t *const area = meet(memory, operation, i);
        if (!area)
            continue;
        if (!operation->capturing &&
            mdnn_area_reserve_use(memory, area, operation->stream) != MDNN_STATUS_OK) {
            let_go(memory, operation, i);
            return MDNN_STATUS_OUT_OF_MEMORY;
        }
        area->held++;
        add_size(sum, area, operation->workspace);
        sum->lacking = sum->lacking || area->state != MDNN_AREA_RESIDENT;
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t reserve_pilot_uses(mdnn_memory_t *memory, size_t count)
{
    if (count <= memory->use_room)
        return MDNN_STATUS_OK;
    mdnn_use_t *const uses = reallocarray(memory->uses, count * 2, sizeof *uses);
    if (!uses)
        return MDNN_STATUS_OUT_OF_MEMORY;
    memory->uses = uses;
    memory->use_room = count * 2;
    return MDNN_STATUS_OK;
}

enum { FEW_NAMES = 16 }; /* as nearly every operation has: no memory is allocated for them */

/* With the turn. */
static mdnn_status_t demand_named(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                                  mdnn_patience_t *patience)
{
    mdnn_area_t *few[FEW_NAMES];
    mdnn_area_t **const areas = operation->named_count <= FEW_NAMES
                                    ? few
                                    : calloc(operation->named_count, sizeof(mdnn_area_t *));
    if (!areas)
        return MDNN_STATUS_OUT_OF_MEMORY;
    memory->passes++;
    for (size_t i = 0; i < operation->named_count; i++)
        areas[i] = meet(memory, operation, i);
    const mdnn_status_t status =
        mdnn_memory_demand(memory, areas, operation->named_count, patience);
    if (areas != few)
        free(areas);
    return status;
}

/* VERIFY: what is named is mapped, and nothing else but what others hold or have pinned, or what
 * other threads' operations still work on. */
static mdnn_status_t show_only_named(mdnn_memory_t *memory,
                                     const mdnn_memory_operation_t *operation)
{
    MDNN_TRY(mdnn_memory_wait_for_earlier(memory));
    for (mdnn_area_t *area = memory->areas; area; area = area->next) {
        if (!area->range || area->held + area->pins > 0 || area->state == MDNN_AREA_ENDING ||
            mdnn_range_chunks(area->range).mapped == 0 ||
            (memory->open > 0 && !mdnn_area_uses_over(memory, area)))
            continue;
        MDNN_TRY(mdnn_area_show(memory, area, false));
    }
    memory->passes++;
    for (size_t i = 0; i < operation->named_count; i++) {
        mdnn_area_t *const area = meet(memory, operation, i);
        if (area && area->range)
            MDNN_TRY(mdnn_area_show(memory, area, true));
    }
    return MDNN_STATUS_OK;
}

static void note_sizes(mdnn_memory_t *memory, const mdnn_sum_t *sum)
{
    const uint64_t needed = sum->movable_bytes - sum->workspace_bytes +
                            mdnn_memory_stuck_bytes(memory) + memory->aside_bytes;
    if (memory->report.largest_operation_bytes < sum->bytes)
        memory->report.largest_operation_bytes = sum->bytes;
    if (memory->report.smallest_budget_bytes < needed)
        memory->report.smallest_budget_bytes = needed;
}

/* What begins may do so again; but what is captured is pinned. */
static void note_movable(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                         const mdnn_sum_t *sum)
{
    if (!operation->capturing)
        mdnn_recent_note(&memory->movable_operation_bytes, memory->began,
                         sum->movable_bytes - sum->workspace_bytes);
}

static void pin_named(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation, bool pin)
{
    memory->passes++;
    for (size_t i = 0; i < operation->named_count; i++) {
        mdnn_area_t *const area = meet(memory, operation, i);
        if (area && pin)
            mdnn_area_pin(memory, area);
        else if (area)
            mdnn_area_unpin(memory, area);
    }
}

static void begin_timing(mdnn_memory_t *memory, mdnn_memory_operation_t *operation)
{
    if (!memory->time_next || memory->timing_count + memory->timings_open == MDNN_TIMINGS)
        return;
    memory->time_next = false;
    operation->time_token = memory->device.time_begin(memory->context, operation->stream);
    memory->timings_open += operation->time_token != 0;
}

/* What is held after OK is RESIDENT. BUSY: it stalled. */
static mdnn_status_t hold_resident(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                                   mdnn_patience_t *patience)
{
    mdnn_sum_t sum = {0};
    MDNN_TRY(hold(memory, operation, &sum));
    const mdnn_status_t status =
        sum.lacking ? demand_named(memory, operation, patience) : MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        mdnn_memory_refused(memory, sum.movable_bytes + mdnn_memory_stuck_bytes(memory), true);
    let_go(memory, operation, operation->named_count);
    return status;
}

/* Nothing is held while it waits for the turn. */
static mdnn_status_t hold_in_turn(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_turn_t turn;
    mdnn_status_t status;
    MDNN_TRY(mdnn_memory_take_turn(memory, &turn));
    while ((status = hold_resident(memory, operation, &patience)) == MDNN_STATUS_BUSY &&
           !mdnn_memory_serves_all(memory))
        MDNN_TRY(mdnn_memory_pass_turn(memory, &turn));
    mdnn_memory_end_turn(memory, &turn);
    return status;
}

/* Holds all that is named if it is RESIDENT. */
static mdnn_status_t hold_at_once(mdnn_memory_t *memory, mdnn_memory_operation_t *operation,
                                  mdnn_sum_t *sum)
{
    MDNN_TRY(hold(memory, operation, sum));
    note_sizes(memory, sum);
    if (sum->workspace_named) /* so it is not needed beside them */
        operation->workspace_bytes = 0;
    if (sum->lacking)
        let_go(memory, operation, operation->named_count);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_begin(mdnn_memory_t *memory, mdnn_memory_operation_t *operation)
{
    mdnn_sum_t sum = {0};
    operation->time_token = 0;
    MDNN_TRY(mdnn_memory_wait_for_noise(memory));
    operation->began = ++memory->began;
    MDNN_TRY(reserve_pilot_uses(memory, operation->named_count));
    MDNN_TRY(hold_at_once(memory, operation, &sum));
    if (sum.lacking)
        MDNN_TRY(hold_in_turn(memory, operation));
    if (memory->config.safety == MDNN_SAFETY_VERIFY) {
        const mdnn_status_t status = show_only_named(memory, operation);
        if (status != MDNN_STATUS_OK) {
            let_go(memory, operation, operation->named_count);
            return status;
        }
    }
    if (memory->movable_bytes < sum.movable_bytes - sum.workspace_bytes)
        memory->movable_bytes = sum.movable_bytes - sum.workspace_bytes;
    note_movable(memory, operation, &sum);
    mdnn_memory_progress(memory);
    memory->open++;
    if (operation->capturing)
        pin_named(memory, operation, true);
    else
        begin_timing(memory, operation);
    return MDNN_STATUS_OK;
}

/* ---- end ---- */

/* A small number for a stream; those after the first few thousand share one. */
static uint32_t stream_index(mdnn_memory_t *memory, uint64_t stream)
{
    enum { STREAMS_MOST = 4096 };
    if (memory->last_stream < memory->stream_count &&
        memory->streams[memory->last_stream] == stream)
        return memory->last_stream;
    uint32_t index = 0;
    while (index < memory->stream_count && memory->streams[index] != stream)
        index++;
    if (index == memory->stream_count && index < STREAMS_MOST) {
        if (index == memory->stream_room) {
            uint64_t *const streams =
                reallocarray(memory->streams, (size_t)index * 2 + 8, sizeof *streams);
            if (!streams)
                return index;
            memory->streams = streams;
            memory->stream_room = index * 2 + 8;
        }
        memory->streams[memory->stream_count++] = stream;
    }
    memory->last_stream = index;
    return index;
}

/* Marks all that is named, and lists it for the history. Roles of one allocation that differ are
 * UNKNOWN. */
static uint32_t mark_uses(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                          mdnn_ticket_t end)
{
    uint32_t count = 0;
    memory->passes++;
    for (size_t i = 0; i < operation->named_count; i++) {
        const mdnn_use_role_t role = operation->named[i].role;
        mdnn_area_t *const area =
            mdnn_area_find(memory, operation->named[i].address, operation->began);
        if (!area)
            continue;
        if (area->pass == memory->passes) {
            mdnn_use_t *const use = &memory->uses[area->use];
            use->role = use->role == role ? role : MDNN_USE_UNKNOWN;
            continue;
        }
        area->pass = memory->passes;
        mdnn_area_note_use(area, end);
        area->last_use = memory->report.operations;
        area->use = count;
        memory->uses[count++] =
            (mdnn_use_t){area->range ? area->pilot_range : MDNN_NO_POSITION, role};
    }
    /* What was freed meanwhile is none of the history's, nor are blocks of slabs: they never move.
     */
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++)
        if (memory->uses[i].range != MDNN_NO_POSITION)
            memory->uses[known++] = memory->uses[i];
    return known;
}

static void end_timing(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    if (operation->time_token != 0)
        memory->device.time_end(memory->context, operation->stream, operation->time_token);
}

/* Its time is to be read, for the operation that is recorded next. */
static void keep_timing(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                        bool recorded)
{
    if (operation->time_token == 0)
        return;
    memory->timings_open--;
    const size_t last = (memory->first_timing + memory->timing_count++) % MDNN_TIMINGS;
    memory->timings[last] = (mdnn_timing_t){
        operation->time_token, recorded ? mdnn_pilot_sequence(memory->pilot) : UINT64_MAX};
}

/* Those that its first `bytes` need. */
static uint64_t chunks_in(const mdnn_memory_t *memory, const mdnn_area_t *area, uint64_t bytes)
{
    const uint64_t chunks = bytes / memory->chunk_bytes + (bytes % memory->chunk_bytes > 0);
    return chunks < area->count ? chunks : area->count;
}

/* What is to come back after a join: others go on during that, so the list is copied, and nothing on
 * it ends. NULL without memory. */
static mdnn_advised_t *keep_returns(const mdnn_advice_t *advice)
{
    mdnn_advised_t *const kept = calloc(advice->back_count + 1, sizeof *kept);
    for (size_t i = 0; kept && i < advice->back_count; i++) {
        mdnn_area_t *const area = advice->back[i].owner;
        kept[i] = advice->back[i];
        area->idlers++;
    }
    return kept;
}

static void bring_back(mdnn_memory_t *memory, const mdnn_advised_t *back, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mdnn_area_t *const area = back[i].owner;
        /* What goes for another thread's demand is not called off. */
        const bool sent = memory->demanding && area->state == MDNN_AREA_LEAVING &&
                          area->demand == memory->demands;
        if (!area->freed && !sent)
            mdnn_area_return(memory, area, chunks_in(memory, area, back[i].bytes));
    }
}

static void let_returns_go(mdnn_memory_t *memory, mdnn_advised_t *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mdnn_area_t *const area = kept[i].owner;
        area->idlers--;
        mdnn_area_end(memory, area);
    }
    free(kept);
}

static void join_and_bring_back(mdnn_memory_t *memory, const mdnn_advice_t *advice, bool moves)
{
    const size_t count = advice->back_count;
    mdnn_advised_t *const kept = keep_returns(advice);
    if (!kept) {
        bring_back(memory, advice->back, moves ? count : 0); /* beside the next operation, too */
        return;
    }
    mdnn_memory_join(memory);
    bring_back(memory, kept, moves ? count : 0);
    let_returns_go(memory, kept, count);
}

static void follow_advice(mdnn_memory_t *memory, const mdnn_advice_t *advice)
{
    const bool moves = !mdnn_memory_serves_all(memory); /* HOST: nothing moves ahead of time */
    for (size_t i = 0; moves && i < advice->leave_count; i++) {
        mdnn_area_t *const area = advice->leave[i].owner;
        const uint64_t keep = chunks_in(memory, area, advice->leave[i].bytes);
        if (area->state == MDNN_AREA_RESIDENT && mdnn_area_can_leave(area) && keep < area->count) {
            memory->report.planned_leaves++;
            mdnn_area_leave(memory, area, keep);
        }
    }
    memory->time_next = memory->time_next || advice->time;
    if (advice->join) /* before returns begin that are to run beside the next operation */
        join_and_bring_back(memory, advice, moves);
    else
        bring_back(memory, advice->back, moves ? advice->back_count : 0);
}

static void record(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                   uint32_t use_count)
{
    mdnn_advice_t advice = {0};
    const mdnn_history_operation_t recorded = {
        .key = operation->key,
        .stream = stream_index(memory, operation->stream),
        .kind = operation->kind,
        .time_us = -1,
        .workspace_bytes = operation->workspace_bytes,
        .uses = memory->uses,
        .use_count = use_count,
    };
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_OPERATION,
                                       .key = operation->key,
                                       .name = operation->name,
                                       .stream = operation->stream};
    mdnn_memory_tell(memory, &event);
    /* What slabs give back they will want again in the next round. */
    mdnn_recent_note(&memory->slab_chunks, memory->began,
                     mdnn_ranges_counts(memory->ranges).chunks_slab);
    mdnn_pilot_set_aside(memory->pilot,
                         memory->aside_bytes +
                             mdnn_recent_most(&memory->slab_chunks) * memory->chunk_bytes);
    mdnn_pilot_record(memory->pilot, &recorded, &advice);
    mdnn_memory_watch_round(memory, operation->stream);
    follow_advice(memory, &advice);
}

/* VERIFY: all earlier operations have ended well, so a failure of the device is this one's. */
static void prove(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                  mdnn_status_t status)
{
    if (status != MDNN_STATUS_DEVICE)
        return;
    if (memory->report.unnamed_accesses++ > 0)
        return;
    memory->report.unnamed_key = operation->key;
    memory->report.unnamed_name = operation->name;
}

/* Where much of the budget is in use, others may ask soon when the operation is over; what is
 * enqueued behind it may wait for the program. */
static void fix_end(mdnn_memory_t *memory, mdnn_ticket_t end)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes;
    if (memory->device.fix && memory->live_room_bytes > allowed / 4 * 3)
        memory->device.fix(memory->context, end);
}

/* Enqueued: from now on others may have to wait for it. */
static mdnn_ticket_t mark_end(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    const mdnn_ticket_t end = memory->device.mark(memory->context, operation->stream);
    fix_end(memory, end);
    memory->report.operations++;
    memory->resident_sum += mdnn_ranges_counts(memory->ranges).chunks_live;
    mdnn_area_note_use(&memory->all, end);           /* with FAST it has no place for it */
    if (memory->config.safety == MDNN_SAFETY_VERIFY) /* before anything is unmapped */
        prove(memory, operation, mdnn_memory_wait(memory, end));
    return end;
}

void mdnn_memory_end(mdnn_memory_t *memory, mdnn_memory_operation_t *operation, bool enqueued)
{
    uint32_t use_count = 0;
    mdnn_ticket_t end = {0};
    if (operation->capturing && !enqueued)
        pin_named(memory, operation, false);
    if (!operation->capturing)
        end_timing(memory, operation);
    const bool runs = enqueued && !operation->capturing;
    if (runs) {
        end = mark_end(memory, operation);
        use_count = mark_uses(memory, operation, end);
    }
    memory->open--;
    let_go(memory, operation, operation->named_count);
    if (!operation->capturing)
        keep_timing(memory, operation, enqueued);
    if (runs)
        record(memory, operation, use_count);
    mdnn_memory_progress(memory);
    mdnn_memory_slow_down(memory, end);
}
