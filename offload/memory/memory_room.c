/* The demand path: chunks for an allocation or for ranges that an operation names, now.
 *
 * Every wait of the host lets the lock of the caller go, so anything may have changed when it ends:
 * what is not held may be gone, and other threads begin and end operations, allocate and free. So
 * nothing is kept over a wait but what the demand holds, and each round looks at everything anew.
 *
 * Demands take turns. One of them has the turn, holds what it names and goes round: take every move
 * a step further; if that changed nothing, wait for one thing that is under way; if nothing is,
 * fail. Copies end by themselves: they wait for no work of the program. Only the end of a use may
 * depend on what the program does next, and is waited for a stretch at a time. When a stretch ends
 * without it, the demand stalls:
 *   - It looks for ranges whose uses have ended already, though they are wanted sooner. If those are
 *     enough, it is served: nothing else can take them, and copies end.
 *   - If they are not, and others wait for the turn, it lets go of all that it holds, has collected
 *     or sent away, and goes to the end of the line: one on which it depends is served before that.
 *   - It waits on, for as long as the device completes anything (mdnn_memory_config_t.patience_s).
 * What other threads hold between begin and end is waited for likewise.
 *
 * Why a demand ends that nobody disturbs (I4). What leaves for a demand does not return before its
 * end, unless it cannot leave, and then it is not sent again (allocation->demand); planned returns get no
 * chunks meanwhile (memory->demanding), and nothing else begins to move. So the number of copies,
 * unmappings and mappings that can still happen is finite and falls with every change, and an iteration
 * without a change ends one of finitely many points. A device call that fails is no change, so a
 * device that fails for good ends the demand with its status.
 *
 * Only the demand that has the turn holds chunks while it waits for more; what a planned return has
 * taken can be taken back, and so can what a demand had taken that failed or stalled. So no two
 * demands and returns can block each other. */
#include "offload/memory/memory_room.h"
#include "config/extremes.h"
#include "config/fault.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_moves.h"
#include "offload/memory/memory_ahead.h"
#include "offload/memory/memory_tail.h"
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_victims.h"
#include "offload/memory/memory_waits.h"

void mdnn_memory_begin_demand(mdnn_memory_t *memory, const mdnn_patience_t *patience,
                              uint64_t least)
{
    memory->demanding = true;
    memory->stalled = patience->stalled;
    memory->least_chunks = least;
    memory->demands++;
    memory->trouble = MDNN_STATUS_OK;
    if (memory->foreign_bytes > 0)
        mdnn_memory_look_for_room(memory, mdnn_memory_chunks_there(memory) + 1);
    memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
}

/* After a stall more may have been sent away than it took. */
void mdnn_memory_end_demand(mdnn_memory_t *memory)
{
    if (memory->stalled)
        mdnn_memory_keep_what_is_in_use(memory);
    memory->demanding = memory->stalled = false;
}

/* OK: go on, with what nothing uses. BUSY: that was not enough, and another demand may be what this
 * one depends on. STUCK: the device does nothing any more. */
static mdnn_status_t stall(mdnn_memory_t *memory, mdnn_patience_t *patience)
{
    const bool first = !memory->stalled;
    if (!mdnn_memory_is_patient(memory, patience))
        return MDNN_STATUS_STUCK;
    memory->stalled = patience->stalled = true;
    if (first)
        mdnn_memory_keep_what_is_in_use(memory);
    return first || mdnn_memory_is_alone(memory) ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
}

/* Nothing is under way, and nothing can leave. What other threads hold can once their calls return,
 * and may be enough then. */
static mdnn_status_t wait_for_others(mdnn_memory_t *memory, mdnn_patience_t *patience,
                                     mdnn_status_t otherwise)
{
    if (!mdnn_memory_others_hold(memory) ||
        memory->least_chunks > mdnn_memory_chunks_allowed(memory))
        return otherwise;
    MDNN_TRY(mdnn_memory_wait_for_change(memory));
    return stall(memory, patience);
}

/* One round for `wanted` chunks. OK: go on. */
mdnn_status_t mdnn_memory_make_room(mdnn_memory_t *memory, uint64_t wanted,
                                    mdnn_patience_t *patience)
{
    const uint64_t before = memory->steps;
    const mdnn_status_t trouble =
        MDNN_FAULT(FAILURES_COUNT_AS_REFUSALS) ? MDNN_STATUS_OK : memory->trouble;
    memory->trouble = MDNN_STATUS_OK;
    mdnn_memory_end_ahead(memory);
    mdnn_status_t status = mdnn_memory_send_away(memory, wanted);
    if (status ==
        MDNN_STATUS_OUT_OF_DEVICE_MEMORY) /* what could not leave, since a call failed, may when asked again */
        return wait_for_others(memory, patience, trouble != MDNN_STATUS_OK ? trouble : status);
    MDNN_TRY(status);
    mdnn_memory_progress(memory);
    if (memory->steps != before)
        return MDNN_STATUS_OK;
    status = MDNN_FAULT(GIVES_UP_TOO_EARLY) ? MDNN_STATUS_NOT_FOUND
                                            : mdnn_memory_wait_for_a_move(memory, mdnn_stretch_s);
    if (status == MDNN_STATUS_BUSY)
        return stall(memory, patience);
    if (status != MDNN_STATUS_NOT_FOUND || memory->closed)
        return status;
    status = memory->trouble != MDNN_STATUS_OK ? memory->trouble : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    return wait_for_others(memory, patience, status);
}

/* What is released and in use still would be enough; what is idle serves sooner, if that does not
 * end. */
mdnn_status_t mdnn_memory_wait_for_released(mdnn_memory_t *memory, uint64_t wanted,
                                            mdnn_stream_point_t point, mdnn_patience_t *patience)
{
    mdnn_status_t status;
    memory->wanted = point;
    if (memory->stalled) {
        status = mdnn_memory_make_room(memory, wanted, patience);
        if (status != MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            return status;
    }
    status = mdnn_memory_wait_and_move(memory, point, mdnn_stretch_s);
    return status == MDNN_STATUS_BUSY ? stall(memory, patience) : status;
}

/* It was asked to leave in part, and could not. */
static bool has_failed_to_leave(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const bool asked =
        allocation->demand == memory->demands && allocation->keeps == allocation->whole;
    const bool leaves =
        allocation->state == MDNN_ALLOCATION_LEAVING && allocation->target == allocation->whole;
    return asked && !leaves && mdnn_allocation_owned(allocation) > allocation->whole;
}

/* false: it cannot become what it is to be. */
static bool bring_one(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (allocation->whole == allocation->count) {
        mdnn_allocation_return(memory, allocation, allocation->count);
        return true;
    }
    if (has_failed_to_leave(memory, allocation) && !MDNN_FAULT(LEAVES_IN_PART_FOR_EVER))
        return false;
    mdnn_allocation_split(memory, allocation, allocation->whole);
    if (allocation->state == MDNN_ALLOCATION_LEAVING) {
        allocation->demand = memory->demands;
        allocation->keeps = allocation->whole;
    }
    return true;
}

/* Sets all that is demanded on its way. *lacking: the number of chunks that it lacks. OK: all is as it is to be; BUSY:
 * something is under way. */
static mdnn_status_t bring(mdnn_memory_t *memory, const mdnn_demand_t *demand, uint64_t *lacking)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    *lacking = 0;
    for (size_t i = 0; i < demand->count; i++) {
        mdnn_allocation_t *const allocation = demand->allocations[i];
        if (!allocation || mdnn_allocation_is_as_divided(allocation))
            continue;
        const bool used = mdnn_allocation_used_by_others(allocation); /* until the other one ends */
        if (!used && !bring_one(memory, allocation))
            return memory->trouble != MDNN_STATUS_OK ? memory->trouble
                                                     : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
        if (mdnn_allocation_is_as_divided(allocation))
            continue;
        const uint64_t owned = mdnn_allocation_owned(allocation);
        *lacking += !used && allocation->whole > owned ? allocation->whole - owned : 0;
        status = MDNN_STATUS_BUSY;
    }
    return status;
}

/* Something must move for it. */
static bool is_lacking(const mdnn_demand_t *demand)
{
    for (size_t i = 0; i < demand->count; i++)
        if (demand->allocations[i] && !mdnn_allocation_is_as_divided(demand->allocations[i]))
            return true;
    return false;
}

static mdnn_late_return_t why_late(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    if (mdnn_follower_followed_plan(memory->follower) == 0)
        return MDNN_LATE_RETURN_unplanned;
    if (!mdnn_follower_knows(memory->follower, allocation->follower_range))
        return MDNN_LATE_RETURN_unknown;
    return allocation->sent_away ? MDNN_LATE_RETURN_sent_away : MDNN_LATE_RETURN_late;
}

static void count_demand_return(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    static const char *const reasons[] = {
        [MDNN_LATE_RETURN_unplanned] = "demand: no plan is followed",
        [MDNN_LATE_RETURN_unknown] = "demand: the plan does not know it",
        [MDNN_LATE_RETURN_sent_away] = "demand: it had left on demand",
        [MDNN_LATE_RETURN_late] = "demand: the plan began too late"};
    const mdnn_late_return_t reason = why_late(memory, allocation);
    memory->report.demand_returns++;
    memory->report.late_returns[reason]++;
    allocation->why = reasons[reason];
    allocation->whose = memory->serving;
}

static void count_returns(mdnn_memory_t *memory, const mdnn_demand_t *demand)
{
    for (size_t i = 0; i < demand->count; i++) {
        mdnn_allocation_t *const allocation = demand->allocations[i];
        if (!allocation || mdnn_allocation_owned(allocation) >= allocation->whole)
            continue;
        if (allocation->blank && allocation->filled == 0 && !MDNN_FAULT(BLANK_RETURNS_ON_DEMAND))
            continue; /* it has never been anywhere else */
        if (allocation->state == MDNN_ALLOCATION_AWAY ||
            allocation->state == MDNN_ALLOCATION_SPLIT ||
            (allocation->state == MDNN_ALLOCATION_RETURNING &&
             allocation->target < allocation->whole))
            count_demand_return(memory, allocation);
        else if (allocation->state ==
                 MDNN_ALLOCATION_RETURNING) /* there was no memory for it yet */
            memory->report.planned_returns++;
    }
}

/* So many chunks it needs though all else has left. */
static uint64_t least_chunks(const mdnn_memory_t *memory, const mdnn_demand_t *demand)
{
    uint64_t chunks = mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes;
    for (size_t i = 0; i < demand->count; i++) {
        const mdnn_allocation_t *const allocation = demand->allocations[i];
        if (allocation && allocation->range && !allocation->stays && allocation->pins == 0)
            chunks += allocation->count;
    }
    return chunks;
}

static uint64_t tail_chunks(const mdnn_demand_t *demand)
{
    uint64_t chunks = 0;
    for (size_t i = 0; i < demand->count; i++)
        if (demand->allocations[i])
            chunks += demand->allocations[i]->count - demand->allocations[i]->whole;
    return chunks;
}

static void mark_demanded(const mdnn_demand_t *demand, bool demanded)
{
    for (size_t i = 0; i < demand->count; i++)
        if (demand->allocations[i])
            demand->allocations[i]->demanded = demanded;
}

/* Divides it. What other threads hold must be split, or not be: that is waited for. BUSY: as for a stall. */
static mdnn_status_t divide(mdnn_memory_t *memory, const mdnn_demand_t *demand, uint64_t wanted,
                            mdnn_patience_t *patience)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    for (;;) {
        const uint64_t least = least_chunks(memory, demand);
        const uint64_t missing = mdnn_memory_divide(memory, demand, least, wanted);
        const uint64_t tail = tail_chunks(demand);
        memory->least_chunks = least - mdnn_min(least, tail + missing);
        if (missing == 0)
            return MDNN_STATUS_OK;
        status = wait_for_others(memory, patience, MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        if (status != MDNN_STATUS_OK)
            return status;
    }
}

/* Nothing more can leave: what this thread's other operations hold is missing as well, or the device has less. What is
 * lacking becomes a part of the tail. */
static mdnn_status_t divide_again(mdnn_memory_t *memory, const mdnn_demand_t *demand,
                                  uint64_t lacking, mdnn_patience_t *patience)
{
    const uint64_t there = mdnn_memory_chunks_elsewhere(memory, false), tail = tail_chunks(demand);
    if (!demand->operation || !mdnn_memory_has_tails(memory) || lacking <= there ||
        MDNN_FAULT(WHAT_IS_LACKING_IS_NO_TAIL))
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    MDNN_TRY(divide(memory, demand, tail + lacking - there, patience));
    return tail_chunks(demand) > tail ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
}

static mdnn_status_t collect(mdnn_memory_t *memory, const mdnn_demand_t *demand,
                             mdnn_patience_t *patience)
{
    uint64_t lacking;
    mdnn_status_t status;
    MDNN_TRY(divide(memory, demand, 0, patience));
    count_returns(memory, demand);
    memory->trouble = MDNN_STATUS_OK;
    while ((status = bring(memory, demand, &lacking)) == MDNN_STATUS_BUSY) {
        status = mdnn_memory_make_room(memory, lacking, patience);
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            status = divide_again(memory, demand, lacking, patience);
        MDNN_TRY(status);
    }
    return status;
}

/* What lacks chunks becomes AWAY again. */
static void give_up(mdnn_memory_t *memory, const mdnn_demand_t *demand)
{
    for (size_t i = 0; i < demand->count; i++) {
        mdnn_allocation_t *const allocation = demand->allocations[i];
        if (!allocation || allocation->state != MDNN_ALLOCATION_RETURNING)
            continue;
        mdnn_allocation_end_covering(memory, allocation);
        if (mdnn_allocation_owned(allocation) < allocation->count)
            mdnn_allocation_give_up(memory, allocation);
    }
}

mdnn_status_t mdnn_memory_demand(mdnn_memory_t *memory, const mdnn_demand_t *demand,
                                 mdnn_patience_t *patience)
{
    mark_demanded(demand, true);
    (void)mdnn_memory_divide(memory, demand, least_chunks(memory, demand), 0);
    mdnn_status_t status = is_lacking(demand) ? mdnn_memory_quieten(memory) : MDNN_STATUS_OK;
    if (status != MDNN_STATUS_OK) {
        mark_demanded(demand, false);
        return status;
    }
    mdnn_memory_begin_demand(memory, patience, least_chunks(memory, demand));
    status = collect(memory, demand, patience);
    if (status != MDNN_STATUS_OK)
        mark_demanded(demand, false);
    mdnn_memory_end_demand(memory);
    if (status != MDNN_STATUS_OK)
        give_up(memory, demand);
    mdnn_memory_end_quiet(memory);
    mark_demanded(demand, false);
    return status;
}
