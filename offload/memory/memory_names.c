/* Around an operation: what it names is held, marked, recorded; the plan follower's advice is followed. */
#include "config/fault.h"
#include "offload/memory/memory_ahead.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_moves.h"
#include "offload/memory/memory_room.h"
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_waits.h"

#include <stdlib.h>

/* Constant time for each name if all that it names is RESIDENT: nothing is searched. */

typedef struct mdnn_sum {
    uint64_t bytes, movable_bytes; /* of what is named; */
    uint64_t workspace_bytes;      /* of movable_bytes, what a smaller workspace would save */
    bool workspace_named;          /* the workspace is in one of the ranges, */
    uint64_t workspace_address, workspace_number; /* which is this one */
    bool lacking;                                 /* something is not RESIDENT */
} mdnn_sum_t;

/* The allocation behind a name, the first time that this pass meets it; else NULL. */
static mdnn_allocation_t *meet(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                               size_t i)
{
    mdnn_allocation_t *const allocation =
        mdnn_allocation_find(memory, operation->operands[i].address, operation->began);
    if (!allocation || allocation->pass == memory->passes)
        return NULL;
    allocation->pass = memory->passes;
    return allocation;
}

bool mdnn_memory_operand_start(const mdnn_memory_t *memory,
                               const mdnn_memory_operation_t *operation, size_t i, uint64_t *start)
{
    const mdnn_allocation_t *const allocation =
        mdnn_allocation_find(memory, operation->operands[i].address, operation->began);
    if (allocation)
        *start = allocation->address;
    return allocation != NULL;
}

static void let_go(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation, size_t count)
{
    memory->passes++;
    memory->all.held--;
    for (size_t i = 0; i < count; i++) {
        mdnn_allocation_t *const allocation = meet(memory, operation, i);
        if (!allocation)
            continue;
        allocation->held--;
        mdnn_allocation_end(memory, allocation);
    }
}

static void add_size(mdnn_sum_t *sum, const mdnn_allocation_t *allocation, uint64_t workspace)
{
    const bool movable = allocation->range && !allocation->stays && allocation->pins == 0;
    const bool is_workspace = workspace - allocation->address < allocation->bytes;
    sum->bytes += allocation->room;
    sum->movable_bytes += movable ? allocation->room : 0;
    sum->workspace_bytes += movable && is_workspace ? allocation->room : 0;
    if (!is_workspace)
        return;
    sum->workspace_named = true;
    sum->workspace_address = allocation->address;
    sum->workspace_number = allocation->number;
}

/* An allocation may be named several times, in different roles. */
static void note_changes(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    for (size_t i = 0; memory->remaker && i < operation->operand_count; i++) {
        mdnn_allocation_t *const allocation =
            mdnn_allocation_find(memory, operation->operands[i].address, operation->began);
        if (allocation && (operation->capturing || operation->operands[i].role != MDNN_USE_READ))
            mdnn_allocation_may_change(memory, allocation);
    }
}

static mdnn_status_t hold(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                          mdnn_sum_t *sum)
{
    note_changes(memory, operation);
    if (memory->config.safety != MDNN_SAFETY_FAST && !operation->capturing)
        MDNN_TRY(mdnn_allocation_reserve_use(memory, &memory->all, operation->stream));
    memory->all.held++;
    memory->passes++;
    for (size_t i = 0; i < operation->operand_count; i++) {
        mdnn_allocation_t *const allocation = meet(memory, operation, i);
        if (!allocation)
            continue;
        if (!operation->capturing &&
            mdnn_allocation_reserve_use(memory, allocation, operation->stream) != MDNN_STATUS_OK) {
            let_go(memory, operation, i);
            return MDNN_STATUS_OUT_OF_MEMORY;
        }
        allocation->held++;
        add_size(sum, allocation, operation->workspace);
        sum->lacking = sum->lacking || allocation->state != MDNN_ALLOCATION_RESIDENT;
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t reserve_follower_uses(mdnn_memory_t *memory, size_t count)
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
    mdnn_allocation_t *few[FEW_NAMES];
    mdnn_allocation_t **const allocations =
        operation->operand_count <= FEW_NAMES
            ? few
            : calloc(operation->operand_count, sizeof(mdnn_allocation_t *));
    if (!allocations)
        return MDNN_STATUS_OUT_OF_MEMORY;
    const bool is_captured = operation->capturing && !MDNN_FAULT(CAPTURES_HAVE_TAILS);
    memory->passes++;
    for (size_t i = 0; i < operation->operand_count; i++)
        allocations[i] = meet(memory, operation, i);
    const mdnn_demand_t demand = {allocations, operation->operand_count,
                                  is_captured ? NULL : operation};
    const mdnn_status_t status = mdnn_memory_demand(memory, &demand, patience);
    if (allocations != few)
        free(allocations);
    return status;
}

/* VERIFY: what is named is mapped, and nothing else but what others hold or have pinned, or what
 * other threads' operations still work on. */
static mdnn_status_t show_only_named(mdnn_memory_t *memory,
                                     const mdnn_memory_operation_t *operation)
{
    MDNN_TRY(mdnn_memory_wait_for_earlier(memory));
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next) {
        if (!allocation->range || allocation->held + allocation->pins > 0 ||
            allocation->state == MDNN_ALLOCATION_ENDING ||
            mdnn_range_chunks(allocation->range).mapped == 0 ||
            (memory->open > 0 && !mdnn_allocation_uses_over(memory, allocation)))
            continue;
        if (!MDNN_FAULT(VERIFY_MAPS_ALL))
            MDNN_TRY(mdnn_allocation_show(memory, allocation, false));
    }
    memory->passes++;
    for (size_t i = 0; i < operation->operand_count; i++) {
        mdnn_allocation_t *const allocation = meet(memory, operation, i);
        if (allocation && allocation->range)
            MDNN_TRY(mdnn_allocation_show(memory, allocation, true));
    }
    return MDNN_STATUS_OK;
}

/* What has a tail in any case does not count. Whether none was larger. */
static bool note_whole(mdnn_memory_t *memory, uint64_t *largest, uint64_t bytes)
{
    const bool is_largest = *largest <= bytes && (mdnn_memory_counts(memory, bytes) ||
                                                  MDNN_FAULT(ONE_TAIL_TAKES_ALL_ROOM));
    if (is_largest)
        *largest = bytes;
    return is_largest;
}

static void note_sizes(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                       const mdnn_sum_t *sum)
{
    if (operation->optional && !MDNN_FAULT(PROOFS_ARE_NEEDS))
        return;
    const uint64_t beside = sum->movable_bytes - sum->workspace_bytes,
                   needed = beside + mdnn_memory_stuck_bytes(memory) + memory->aside_bytes;
    if (memory->report.largest_operation_bytes < sum->bytes)
        memory->report.largest_operation_bytes = sum->bytes;
    if (note_whole(memory, &memory->largest_whole_bytes, sum->movable_bytes)) {
        memory->whole_workspace_address = sum->workspace_address;
        memory->whole_workspace_number = sum->workspace_number;
    }
    (void)note_whole(memory, &memory->largest_beside_bytes, beside);
    if (memory->report.whole_budget_bytes < needed)
        memory->report.whole_budget_bytes = needed;
    const uint64_t least =
        mdnn_memory_has_tails(memory) ? mdnn_memory_least_budget(memory) : needed;
    if (memory->report.smallest_budget_bytes < least)
        memory->report.smallest_budget_bytes = least;
}

/* What begins may do so again; but what is captured is pinned. */
static void note_movable(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                         const mdnn_sum_t *sum)
{
    const uint64_t bytes = sum->movable_bytes - sum->workspace_bytes;
    if (operation->optional && !MDNN_FAULT(PROOFS_ARE_NEEDS))
        return;
    if (memory->movable_bytes < bytes)
        memory->movable_bytes = bytes;
    if (!operation->capturing && mdnn_memory_counts(memory, bytes))
        mdnn_recent_note(&memory->movable_operation_bytes, memory->began, bytes);
}

static void pin_named(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation, bool pin)
{
    memory->passes++;
    for (size_t i = 0; i < operation->operand_count; i++) {
        mdnn_allocation_t *const allocation = meet(memory, operation, i);
        if (allocation && pin)
            mdnn_allocation_pin(memory, allocation);
        else if (allocation)
            mdnn_allocation_unpin(memory, allocation);
    }
}

/* That are under way for the plan follower; a trace may have more of them. */
enum { PLAN_TIMINGS = 64 };

static void start_timer(mdnn_memory_t *memory, uint64_t stream, uint64_t *token)
{
    if (memory->timing_count + memory->timings_open == MDNN_TIMINGS)
        return;
    *token = memory->device.time_begin(memory->context, stream, true);
    memory->timings_open += *token != 0;
}

/* For the plan follower a call is timed from its first part to its end, for a trace each part. */
static void begin_timing(mdnn_memory_t *memory, mdnn_memory_operation_t *operation)
{
    mdnn_memory_call_t *const call = operation->call;
    const bool again = call && call->began != 0;
    if (call && !again)
        call->began = operation->began;
    const bool wanted =
        !again && memory->time_next && memory->timing_count + memory->timings_open < PLAN_TIMINGS;
    if (wanted)
        memory->time_next = false;
    operation->time_wanted = wanted && !call;
    if (wanted && call)
        start_timer(memory, operation->stream, &call->time_token);
    if (operation->time_wanted || memory->config.traces)
        start_timer(memory, operation->stream, &operation->time_token);
}

/* What is held after OK is RESIDENT. BUSY: it stalled. */
static mdnn_status_t hold_resident(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                                   mdnn_patience_t *patience)
{
    mdnn_sum_t sum = {0};
    MDNN_TRY(hold(memory, operation, &sum));
    const bool lacking = sum.lacking && !MDNN_FAULT(BEGIN_WAITS_FOR_NOTHING);
    const mdnn_status_t status =
        lacking ? demand_named(memory, operation, patience) : MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        mdnn_memory_refused(memory, sum.movable_bytes + mdnn_memory_stuck_bytes(memory), true);
    let_go(memory, operation, operation->operand_count);
    return status;
}

/* With the turn; then nothing can be dropped that the operation holds, or could spoil. */
static mdnn_status_t hold_if_ready(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                                   mdnn_patience_t *patience, bool *ready)
{
    *ready = !mdnn_memory_is_unready(memory, operation) || MDNN_FAULT(DROPPED_WHILE_IT_WAITED);
    return *ready ? hold_resident(memory, operation, patience) : MDNN_STATUS_OK;
}

/* Nothing is held while it waits for the turn. */
static mdnn_status_t hold_in_turn(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_turn_t turn;
    mdnn_status_t status;
    bool ready;
    do {
        MDNN_TRY(mdnn_memory_make_ready(memory, operation));
        MDNN_TRY(mdnn_memory_take_turn(memory, &turn));
        while ((status = hold_if_ready(memory, operation, &patience, &ready)) == MDNN_STATUS_BUSY &&
               !mdnn_memory_serves_all(memory))
            MDNN_TRY(mdnn_memory_pass_turn(memory, &turn));
        mdnn_memory_end_turn(memory, &turn);
    } while (status == MDNN_STATUS_OK && !ready);
    return status;
}

/* Holds all that is named if it is RESIDENT. */
static mdnn_status_t hold_at_once(mdnn_memory_t *memory, mdnn_memory_operation_t *operation,
                                  mdnn_sum_t *sum)
{
    MDNN_TRY(hold(memory, operation, sum));
    operation->named_bytes = sum->bytes;
    note_sizes(memory, operation, sum);
    if (sum->workspace_named) /* so it is not needed beside them */
        operation->workspace_bytes = 0;
    if (sum->lacking)
        let_go(memory, operation, operation->operand_count);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_begin(mdnn_memory_t *memory, mdnn_memory_operation_t *operation)
{
    mdnn_sum_t sum = {0};
    operation->time_token = 0;
    mdnn_memory_answer_question(memory);
    MDNN_TRY(mdnn_memory_wait_for_noise(memory));
    operation->began = ++memory->began;
    MDNN_TRY(mdnn_memory_make_ready(memory, operation));
    memory->serving = operation->name ? operation->name : "an operation";
    MDNN_TRY(reserve_follower_uses(memory, operation->operand_count));
    MDNN_TRY(hold_at_once(memory, operation, &sum));
    if (sum.lacking)
        MDNN_TRY(hold_in_turn(memory, operation));
    mdnn_status_t status = mdnn_memory_await_remade(memory, operation);
    if (status == MDNN_STATUS_OK && memory->config.safety == MDNN_SAFETY_VERIFY)
        status = show_only_named(memory, operation);
    if (status != MDNN_STATUS_OK) {
        let_go(memory, operation, operation->operand_count);
        return status;
    }
    note_movable(memory, operation, &sum);
    mdnn_memory_progress(memory);
    memory->open++;
    if (operation->capturing)
        pin_named(memory, operation, true);
    else
        begin_timing(memory, operation);
    mdnn_memory_check(memory);
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

/* What is SPLIT. */
typedef struct mdnn_split {
    uint64_t device_bytes, host_bytes;
} mdnn_split_t;

/* The range by which the history knows the use. What is SPLIT is none of a plan's: it would not fit. */
static uint32_t follower_range_of(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                                  mdnn_split_t *split)
{
    const bool is_split =
        allocation->state == MDNN_ALLOCATION_SPLIT && !MDNN_FAULT(PLANS_FOR_WHOLE_TAILS);
    if (is_split) {
        const uint64_t owned = mdnn_allocation_owned(allocation);
        split->device_bytes +=
            MDNN_FAULT(PLANS_KNOW_NOTHING_OF_TAILS) ? 0 : owned * memory->chunk_bytes;
        split->host_bytes += mdnn_allocation_bytes_from(memory, allocation, owned);
    }
    return allocation->range && !is_split ? allocation->follower_range : MDNN_NO_POSITION;
}

/* Marks all that is named, and lists it for the history. Roles of one allocation that differ are
 * UNKNOWN. */
static uint32_t mark_uses(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                          mdnn_stream_point_t end, mdnn_split_t *split)
{
    uint32_t count = 0;
    memory->passes++;
    for (size_t i = 0; i < operation->operand_count; i++) {
        const mdnn_use_role_t role = operation->operands[i].role;
        mdnn_allocation_t *const allocation =
            mdnn_allocation_find(memory, operation->operands[i].address, operation->began);
        if (!allocation)
            continue;
        if (allocation->pass == memory->passes) {
            mdnn_use_t *const use = &memory->uses[allocation->use];
            use->role = use->role == role ? role : MDNN_USE_UNKNOWN;
            continue;
        }
        allocation->pass = memory->passes;
        mdnn_allocation_note_use(allocation, end);
        allocation->last_use = memory->report.operations;
        allocation->use = count;
        memory->uses[count++] = (mdnn_use_t){follower_range_of(memory, allocation, split), role};
    }
    /* What was freed meanwhile is none of the history's, nor are blocks of slabs: they never move.
     */
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++)
        if (memory->uses[i].range != MDNN_NO_POSITION)
            memory->uses[known++] = memory->uses[i];
    return known;
}

/* The number of the next record, if that is of what was timed. */
static uint64_t sequence_if(const mdnn_memory_t *memory, bool recorded)
{
    return recorded ? mdnn_follower_sequence(memory->follower) : UINT64_MAX;
}

static void end_timing(mdnn_memory_t *memory, uint64_t stream, uint64_t token)
{
    if (token != 0)
        memory->device.time_end(memory->context, stream, token);
}

/* Its time is to be read. */
static void keep_timing(mdnn_memory_t *memory, mdnn_timing_t timing)
{
    if (timing.token == 0)
        return;
    memory->timings_open--;
    const size_t last = (memory->first_timing + memory->timing_count++) % MDNN_TIMINGS;
    memory->timings[last] = timing;
}

static mdnn_timing_t timing_of(const mdnn_memory_t *memory,
                               const mdnn_memory_operation_t *operation, bool enqueued)
{
    mdnn_timing_t timing = {.token = operation->time_token,
                            .sequence = sequence_if(memory, enqueued && operation->time_wanted)};
    if (!memory->config.traces || operation->time_token == 0)
        return timing;
    timing.traced = enqueued;
    timing.key = operation->key;
    timing.stream = operation->stream;
    timing.name = operation->name;
    timing.enqueued_us = memory->device.now_us(memory->context);
    return timing;
}

/* Those that its first `bytes` need. */
static uint64_t chunks_in(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                          uint64_t bytes)
{
    const uint64_t chunks = bytes / memory->chunk_bytes + (bytes % memory->chunk_bytes > 0);
    return chunks < allocation->count ? chunks : allocation->count;
}

/* What is to come back after a join: others go on during that, so the list is copied, and nothing on
 * it ends. NULL without memory. */
static mdnn_advised_t *keep_returns(const mdnn_advice_t *advice)
{
    mdnn_advised_t *const kept = calloc(advice->back_count + 1, sizeof *kept);
    for (size_t i = 0; kept && i < advice->back_count; i++) {
        mdnn_allocation_t *const allocation = advice->back[i].owner;
        kept[i] = advice->back[i];
        allocation->idlers++;
    }
    return kept;
}

static void bring_back(mdnn_memory_t *memory, const mdnn_advised_t *back, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mdnn_allocation_t *const allocation = back[i].owner;
        /* What goes for another thread's demand is not called off. */
        const bool sent = memory->demanding && allocation->state == MDNN_ALLOCATION_LEAVING &&
                          allocation->demand == memory->demands;
        /* Nor is a tail that another operation uses between its begin and end. */
        const bool used = allocation->state == MDNN_ALLOCATION_SPLIT &&
                          mdnn_allocation_used_by_others(allocation);
        if (allocation->freed || sent || used || allocation->dropped)
            continue;
        if (allocation->state != MDNN_ALLOCATION_RETURNING) {
            allocation->why = "the plan";
            allocation->whose = NULL;
        }
        mdnn_allocation_return(memory, allocation, chunks_in(memory, allocation, back[i].bytes));
    }
}

static void let_returns_go(mdnn_memory_t *memory, mdnn_advised_t *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mdnn_allocation_t *const allocation = kept[i].owner;
        allocation->idlers--;
        mdnn_allocation_end(memory, allocation);
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
    const bool moves = /* HOST: nothing moves ahead of time */
        !mdnn_memory_serves_all(memory) || MDNN_FAULT(MOVES_AHEAD_OF_TIME);
    for (size_t i = 0; moves && i < advice->leave_count; i++) {
        mdnn_allocation_t *const allocation = advice->leave[i].owner;
        const uint64_t keep = chunks_in(memory, allocation, advice->leave[i].bytes);
        if (allocation->state == MDNN_ALLOCATION_RESIDENT &&
            mdnn_allocation_can_leave(allocation) && keep < allocation->count) {
            memory->report.planned_leaves++;
            allocation->sent_away = false;
            allocation->why = "the plan";
            allocation->whose = NULL;
            mdnn_allocation_leave(memory, allocation, keep);
        }
    }
    memory->time_next = memory->time_next || advice->time;
    if (advice->join) /* before returns begin that are to run beside the next operation */
        join_and_bring_back(memory, advice, moves);
    else
        bring_back(memory, advice->back, moves ? advice->back_count : 0);
}

/* A period begins: how long it takes, and should. */
static void announce_iteration(mdnn_memory_t *memory)
{
    const mdnn_follower_report_t report = mdnn_follower_report(memory->follower);
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_ITERATION,
                                       .key = ++memory->rounds,
                                       .time_us = mdnn_memory_iteration_us(memory),
                                       .planned_us = report.predicted_us};
    mdnn_memory_announce(memory, &event);
}

static void announce_operation(mdnn_memory_t *memory, uint64_t key, const char *name,
                               uint64_t stream, uint64_t slab_chunks)
{
    const uint64_t planned_bytes =
        memory->config.traces ? mdnn_follower_planned_bytes(memory->follower) : 0;
    const mdnn_memory_event_t event = {
        .kind = MDNN_MEMORY_OPERATION,
        .key = key,
        .name = name,
        .stream = stream,
        .planned_bytes = planned_bytes > 0 ? planned_bytes + slab_chunks * memory->chunk_bytes : 0};
    if (memory->config.traces && mdnn_follower_begins_period(memory->follower))
        announce_iteration(memory);
    mdnn_memory_announce(memory, &event);
}

/* What `recorded` lacks is filled in: the stream's number, and what memory->uses lists. */
static void record(mdnn_memory_t *memory, mdnn_history_operation_t recorded, const char *name,
                   uint64_t stream)
{
    mdnn_advice_t advice = {0};
    recorded.stream = stream_index(memory, stream);
    recorded.time_us = -1;
    recorded.uses = memory->uses;
    /* What slabs give back they will want again in the next iteration. */
    mdnn_recent_note(&memory->slab_chunks, memory->began,
                     mdnn_ranges_counts(memory->ranges).chunks_slab);
    const uint64_t slab_chunks = MDNN_FAULT(SLABS_OF_THIS_MOMENT_FOR_PLANS)
                                     ? mdnn_ranges_counts(memory->ranges).chunks_slab
                                     : mdnn_recent_most(&memory->slab_chunks);
    mdnn_follower_set_aside(memory->follower,
                            memory->aside_bytes + slab_chunks * memory->chunk_bytes);
    const double begin_us = memory->device.now_us(memory->context);
    mdnn_follower_record(memory->follower, &recorded, &advice);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_planning, begin_us);
    announce_operation(memory, recorded.key, name, stream, slab_chunks);
    mdnn_memory_watch_iteration(memory, stream);
    follow_advice(memory, &advice);
}

static void record_operation(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                             uint32_t use_count, const mdnn_split_t *split)
{
    record(memory,
           (mdnn_history_operation_t){.key = operation->key,
                                      .kind = operation->kind,
                                      .workspace_bytes =
                                          operation->workspace_bytes + split->device_bytes,
                                      .use_count = use_count},
           operation->name, operation->stream);
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
static void fix_end(mdnn_memory_t *memory, mdnn_stream_point_t end)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory) * memory->chunk_bytes;
    if (memory->device.fix && memory->live_room_bytes > allowed / 4 * 3)
        memory->device.fix(memory->context, end);
}

/* Enqueued: from now on others may have to wait for it. */
static mdnn_stream_point_t mark_end(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    const mdnn_stream_point_t end = memory->device.mark(memory->context, operation->stream);
    fix_end(memory, end);
    memory->report.operations++;
    memory->resident_sum += mdnn_ranges_counts(memory->ranges).chunks_live;
    if (!MDNN_FAULT(ONE_STREAM_STANDS_FOR_ALL))
        mdnn_allocation_note_use(&memory->all, end); /* with FAST it has no place for it */
    if (memory->config.safety == MDNN_SAFETY_VERIFY) /* before anything is unmapped */
        prove(memory, operation, mdnn_memory_wait(memory, end));
    return end;
}

void mdnn_memory_end(mdnn_memory_t *memory, mdnn_memory_operation_t *operation, bool enqueued)
{
    uint32_t use_count = 0;
    mdnn_split_t split = {0};
    mdnn_stream_point_t end = {0};
    if (operation->capturing && !enqueued)
        pin_named(memory, operation, false);
    if (!operation->capturing)
        end_timing(memory, operation->stream, operation->time_token);
    const bool runs = enqueued && !operation->capturing;
    if (runs) {
        end = mark_end(memory, operation);
        use_count = mark_uses(memory, operation, end, &split);
        if (split.host_bytes > 0)
            mdnn_memory_count_tail(memory, operation, split.host_bytes);
    }
    memory->open--;
    let_go(memory, operation, operation->operand_count);
    if (!operation->capturing)
        keep_timing(memory, timing_of(memory, operation, enqueued));
    if (runs && operation->call)
        operation->call->enqueued = true;
    else if (runs)
        record_operation(memory, operation, use_count, &split);
    mdnn_memory_progress(memory);
    mdnn_memory_prepare(memory);
    mdnn_memory_slow_down(memory, end);
    mdnn_memory_check(memory);
}

/* ---- calls ---- */

uint64_t mdnn_memory_call_begin(mdnn_memory_t *memory, mdnn_memory_call_t *call)
{
    for (uint32_t v = 0; v < call->variant_count; v++)
        call->variants[v].workspace_bytes =
            mdnn_ranges_chunks_for(memory->ranges, call->variants[v].workspace_bytes) *
            memory->chunk_bytes;
    call->time_token = call->began = 0;
    call->enqueued = call->is_trial = false;
    return mdnn_follower_workspace(memory->follower, call->key);
}

/* What the operands are in, for the history. */
static uint32_t list_uses(mdnn_memory_t *memory, const mdnn_memory_call_t *call,
                          mdnn_split_t *split)
{
    uint32_t count = 0;
    memory->passes++;
    for (size_t i = 0; i < call->operand_count; i++) {
        mdnn_allocation_t *const allocation =
            mdnn_allocation_find(memory, call->operands[i].address, call->began);
        if (!allocation || allocation->pass == memory->passes)
            continue;
        allocation->pass = memory->passes;
        const uint32_t range = follower_range_of(memory, allocation, split);
        if (range != MDNN_NO_POSITION)
            memory->uses[count++] = (mdnn_use_t){range, call->operands[i].role};
    }
    return count;
}

void mdnn_memory_call_end(mdnn_memory_t *memory, mdnn_memory_call_t *call)
{
    mdnn_split_t split = {0};
    const bool recorded =
        call->enqueued && reserve_follower_uses(memory, call->operand_count) == MDNN_STATUS_OK;
    end_timing(memory, call->stream, call->time_token);
    const bool timed = recorded && (!call->is_trial || MDNN_FAULT(TRIALS_ARE_TIMED));
    keep_timing(memory,
                (mdnn_timing_t){.token = call->time_token, .sequence = sequence_if(memory, timed)});
    if (recorded) {
        const uint32_t use_count = list_uses(memory, call, &split);
        record(memory,
               (mdnn_history_operation_t){.key = call->key,
                                          .kind = call->kind,
                                          .workspace_bytes =
                                              call->workspace_bytes + split.device_bytes,
                                          .variants = call->variants,
                                          .variant_count = call->variant_count,
                                          .use_count = use_count},
               call->name, call->stream);
    }
    mdnn_memory_progress(memory);
    mdnn_memory_check(memory);
}
