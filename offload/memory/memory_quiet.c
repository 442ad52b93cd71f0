/* `safety = host`: whatever touches a live range without naming it is served right, for reading and
 * for writing. Two rules make that so:
 *   - What is AWAY is covered: its host copy is mapped at its own address.
 *   - A range changes mapping, and is copied, only in a quiet time: nothing is between begin and
 *     end, and all that was enqueued before, in any stream, has ended. Everything that a demand
 *     moves has arrived when the quiet time ends, so no operation is ever enqueued during a move.
 *     Each operation is therefore taken for a use of every range, and nothing moves ahead of time.
 * What else of the mechanism is as in `fast`; where a call of the device fails or the wait takes
 * too long, an address may be without memory for a while, and who touches it then faults. */
#include "config/fault.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_moves.h"
#include "offload/memory/memory_remaps.h"
#include "offload/memory/memory_waits.h"

/* ---- quiet times ---- */

/* The first operation that is not over, or not known to be; position 0: none is under way. */
static mdnn_stream_point_t next_use(mdnn_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->all.use_count; i++)
        if (memory->all.uses[i].position != 0 &&
            !memory->device.is_done(memory->context, memory->all.uses[i]))
            return memory->all.uses[i];
    return (mdnn_stream_point_t){0};
}

static void forget_use(mdnn_memory_t *memory, mdnn_stream_point_t use)
{
    for (uint32_t i = 0; i < memory->all.use_count; i++)
        if (memory->all.uses[i].stream == use.stream &&
            memory->all.uses[i].position <= use.position)
            memory->all.uses[i].position = 0;
}

mdnn_status_t mdnn_memory_wait_for_all(mdnn_memory_t *memory)
{
    mdnn_stream_point_t use;
    while ((use = next_use(memory)).position != 0) {
        const mdnn_status_t status = mdnn_memory_wait_for_quiet(memory, use);
        if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY)
            return status;
        forget_use(memory, use);
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_wait_for_earlier(mdnn_memory_t *memory)
{
    mdnn_stream_point_t use;
    while (memory->open == 0 && (use = next_use(memory)).position != 0 &&
           !MDNN_FAULT(VERIFY_BEGINS_BESIDE_UNPROVED))
        MDNN_TRY(mdnn_memory_wait(memory, use));
    return MDNN_STATUS_OK;
}

/* Something is between begin and end, and there is time to wait for it. */
static bool is_busy(const mdnn_memory_t *memory)
{
    return memory->open > 0 && !memory->hurried && !MDNN_FAULT(MOVES_WHILE_SOMETHING_BEGINS);
}

/* Until nothing is between begin and end and all has ended at once: others go on during a wait. */
mdnn_status_t mdnn_memory_quieten(mdnn_memory_t *memory)
{
    if (!mdnn_memory_serves_all(memory) || memory->quiet)
        return MDNN_STATUS_OK;
    if (is_busy(memory))
        return MDNN_STATUS_BUSY;
    if (!MDNN_FAULT(MOVES_WHILE_SOMETHING_RUNS))
        MDNN_TRY(mdnn_memory_wait_for_all(memory));
    if (is_busy(memory))
        return MDNN_STATUS_BUSY;
    memory->quiet = true;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_wait_for_noise(mdnn_memory_t *memory)
{
    while (memory->quiet)
        MDNN_TRY(mdnn_memory_wait_for_change(memory));
    return MDNN_STATUS_OK;
}

/* The copy that ends next. NULL: none is under way. */
static const mdnn_stream_point_t *next_landing(const mdnn_memory_t *memory)
{
    for (int out = 0; out < 2; out++)
        if (memory->flights[out].count > 0)
            return &memory->flights[out].ring[memory->flights[out].first].end;
    return NULL;
}

/* What has begun to move arrives, unless a call fails: then it stays as it is. */
static void land_all(mdnn_memory_t *memory)
{
    const mdnn_stream_point_t *landing;
    mdnn_status_t status = MDNN_STATUS_OK;
    while (memory->quiet && status == MDNN_STATUS_OK && !MDNN_FAULT(BEGINS_BEFORE_MOVES_END)) {
        const uint64_t before = memory->steps;
        mdnn_memory_progress(memory);
        if (memory->steps == before && mdnn_memory_finish_a_remap(memory))
            continue;
        if (memory->steps == before && (landing = next_landing(memory)) == NULL)
            break;
        if (memory->steps == before)
            status = mdnn_memory_wait_for_copy(memory, *landing);
    }
}

void mdnn_memory_end_quiet(mdnn_memory_t *memory)
{
    land_all(memory);
    for (mdnn_allocation_t *allocation = memory->returning.first; memory->quiet && allocation;
         allocation = allocation->next_move)
        mdnn_allocation_exposed(memory, allocation);
    memory->quiet = false;
}

void mdnn_memory_hurry(mdnn_memory_t *memory, bool hurried)
{
    memory->hurried = hurried;
}

/* ---- covers ---- */

/* With `host` it always is; what left before that may have kept a part, or have no content. */
static bool is_on_the_host(const mdnn_allocation_t *allocation)
{
    return allocation->slots && allocation->slots_from == 0 &&
           mdnn_allocation_owned(allocation) == 0;
}

void mdnn_allocation_cover(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (!mdnn_memory_serves_all(memory) || !is_on_the_host(allocation) || MDNN_FAULT(NOT_COVERED))
        return;
    (void)mdnn_allocation_cover_from(memory, allocation,
                                     0); /* else the rest faults, as in `fast` */
}

mdnn_status_t mdnn_allocation_cover_from(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                         uint64_t from)
{
    for (; allocation->covered_from > from; allocation->covered_from--) {
        const uint64_t step = allocation->covered_from - 1;
        const double begin_us = memory->device.now_us(memory->context);
        const mdnn_status_t status =
            memory->device.cover(memory->context, allocation->address + step * memory->chunk_bytes,
                                 allocation->slots[step]);
        mdnn_memory_note_part(memory, MDNN_HOST_TIME_mapping, begin_us);
        MDNN_TRY(status);
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_allocation_uncover(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    for (; allocation->covered_from < allocation->count && !MDNN_FAULT(COVERED_WHILE_IT_RETURNS);
         allocation->covered_from++) {
        const uint64_t first = allocation->covered_from;
        const double begin_us = memory->device.now_us(memory->context);
        const mdnn_status_t status = memory->device.uncover(
            memory->context, allocation->address + first * memory->chunk_bytes,
            allocation->slots[first]);
        mdnn_memory_note_part(memory, MDNN_HOST_TIME_mapping, begin_us);
        MDNN_TRY(status);
        memory->steps++;
    }
    return MDNN_STATUS_OK;
}

/* ---- from `fast` to `host` ---- */

static bool is_complete(const mdnn_allocation_t *allocation)
{
    return allocation->freed || !allocation->range ||
           allocation->state == MDNN_ALLOCATION_RESIDENT ||
           allocation->state == MDNN_ALLOCATION_SPLIT ||
           (allocation->state == MDNN_ALLOCATION_AWAY && mdnn_allocation_owned(allocation) == 0);
}

/* One of those of which a part is there, or moves. NULL: there is none. */
static mdnn_allocation_t *incomplete(const mdnn_memory_t *memory)
{
    mdnn_allocation_t *allocation = memory->allocations;
    while (allocation && is_complete(allocation))
        allocation = allocation->next;
    return allocation;
}

static mdnn_status_t wait_for_uses(mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].position != 0)
            MDNN_TRY(mdnn_memory_wait_for_quiet(memory, allocation->uses[i]));
    return MDNN_STATUS_OK;
}

/* What was covered on the way; operations use what is SPLIT. false: a call failed, and something
 * still is. */
static bool uncover_all(mdnn_memory_t *memory)
{
    bool all = true;
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (allocation->state != MDNN_ALLOCATION_SPLIT || MDNN_FAULT(TAILS_END_WITH_SERVING))
            all = mdnn_allocation_uncover(memory, allocation) == MDNN_STATUS_OK && all;
    return all;
}

/* All of which a part is away goes away. BUSY: it cannot, within that time. */
static mdnn_status_t complete_all(mdnn_memory_t *memory)
{
    mdnn_allocation_t *allocation;
    land_all(memory);
    while ((allocation = incomplete(memory))) {
        const uint64_t number = allocation->number;
        if (!mdnn_allocation_can_leave(allocation))
            return MDNN_STATUS_BUSY;
        MDNN_TRY(wait_for_uses(memory, allocation));
        allocation = incomplete(memory);
        if (!allocation || allocation->number != number)
            continue; /* freed meanwhile */
        mdnn_allocation_leave(memory, allocation, 0);
        land_all(memory);
        allocation = incomplete(memory);
        if (allocation && allocation->number == number)
            return MDNN_STATUS_BUSY;
    }
    return MDNN_STATUS_OK;
}

/* What is blank has no slots yet. */
static mdnn_status_t cover_with_slots(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    if (allocation->blank) {
        allocation->target = 0;
        status = mdnn_allocation_take_slots(memory, allocation);
    }
    if (status != MDNN_STATUS_OK) { /* some, perhaps */
        mdnn_allocation_trim_slots(memory, allocation);
        return status;
    }
    if (!MDNN_FAULT(SERVES_WITHOUT_COVERS))
        mdnn_allocation_cover(memory, allocation);
    return MDNN_STATUS_OK;
}

/* What was enqueued before uses only what it names, which stays where it is until that work has ended. */
mdnn_status_t mdnn_memory_serve_all(mdnn_memory_t *memory)
{
    mdnn_memory_answer_question(memory);
    if (mdnn_memory_serves_all(memory))
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_memory_make_all(memory));
    if (memory->open > 0 || memory->all.held > 0)
        return MDNN_STATUS_BUSY;
    const mdnn_safety_t before = memory->config.safety;
    memory->config.safety = MDNN_SAFETY_HOST;
    memory->quiet = true;
    mdnn_status_t status = complete_all(memory);
    for (mdnn_allocation_t *allocation = memory->allocations;
         status == MDNN_STATUS_OK && allocation; allocation = allocation->next)
        if (!allocation->freed && allocation->range && allocation->state == MDNN_ALLOCATION_AWAY)
            status = cover_with_slots(memory, allocation);
    if (status != MDNN_STATUS_OK && uncover_all(memory))
        memory->config.safety = before;
    memory->quiet = false;
    memory->steps++;
    mdnn_memory_check(memory);
    return status;
}
