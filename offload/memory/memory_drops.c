/* What was dropped is made again before anything could miss it. These functions wait like demands, so nothing is held when
 * they are called, and who then holds something looks again (mdnn_memory_is_unready). */
#include "offload/memory/memory_drops.h"
#include "config/fault.h"
#include "offload/memory/memory_waits.h"

/* Captured operations run whenever their graph is launched. */
static bool may_write(const mdnn_memory_operation_t *operation, size_t i)
{
    return operation->capturing || operation->operands[i].role != MDNN_USE_READ;
}

/* Something that the operation names, or could spoil, and that is dropped; *early: it does not name it. */
static mdnn_allocation_t *find_unready(const mdnn_memory_t *memory,
                                       const mdnn_memory_operation_t *operation, bool *early)
{
    for (size_t i = 0; memory->dropped > 0 && i < operation->operand_count; i++) {
        mdnn_allocation_t *const allocation =
            mdnn_allocation_find(memory, operation->operands[i].address, operation->began);
        if (!allocation || allocation->number == operation->makes)
            continue;
        *early = !allocation->dropped;
        if (allocation->dropped)
            return allocation;
        mdnn_allocation_t *const dependent = may_write(operation, i) && !MDNN_FAULT(INPUTS_CHANGE)
                                                 ? mdnn_allocation_dropped_dependent(allocation)
                                                 : NULL;
        if (dependent && dependent->number != operation->makes)
            return dependent;
    }
    return NULL;
}

bool mdnn_memory_is_unready(const mdnn_memory_t *memory, const mdnn_memory_operation_t *operation)
{
    bool early;
    return find_unready(memory, operation, &early) != NULL;
}

/* Of what its making reads and writes; returns how many. */
static size_t list_operands(const mdnn_allocation_t *result, mdnn_memory_operand_t *operands)
{
    const mdnn_making_t *const making = result->making;
    operands[0] = (mdnn_memory_operand_t){result->address, MDNN_USE_WRITE};
    for (uint32_t i = 0; i < making->input_count; i++)
        operands[1 + i] =
            (mdnn_memory_operand_t){making->inputs[i].allocation->address, MDNN_USE_READ};
    return 1 + (size_t)making->input_count;
}

/* It is held. Another thread may have made it, or freed it, while this one waited. */
static mdnn_status_t launch_again(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                                  bool early)
{
    mdnn_allocation_t *const result =
        mdnn_allocation_find_live(memory, operation->operands[0].address);
    if (!result || result->number != operation->makes || !result->dropped)
        return MDNN_STATUS_NOT_FOUND;
    MDNN_TRY(memory->remaker->make(memory->remaker->context, result->making->launch));
    const mdnn_stream_point_t end = memory->device.mark(memory->context, memory->remaker->stream);
    if (memory->device.fix)
        memory->device.fix(memory->context, end);
    mdnn_allocation_made(memory, result, end, early ? MDNN_MAKING_EARLY : MDNN_MAKING_WANTED);
    return MDNN_STATUS_OK;
}

/* Nothing that the launch needs is ordered by the program's streams: all uses were over when the result was dropped, and
 * nothing that may write has begun since. Inputs that are dropped themselves are made again when this begins. */
static mdnn_status_t make_again(mdnn_memory_t *memory, const mdnn_allocation_t *result, bool early)
{
    mdnn_memory_operand_t operands[1 + MDNN_MAKING_INPUTS];
    mdnn_memory_call_t call = {.stream = memory->remaker->stream,
                               .began = 1}; /* neither timed nor recorded */
    mdnn_memory_operation_t operation = {.name = "a launch that is made again",
                                         .stream = memory->remaker->stream,
                                         .operands = operands,
                                         .operand_count = list_operands(result, operands),
                                         .makes = result->number,
                                         .call = &call};
    MDNN_TRY(mdnn_memory_begin(memory, &operation));
    const mdnn_status_t status = launch_again(memory, &operation, early);
    mdnn_memory_end(memory, &operation, status == MDNN_STATUS_OK);
    return status == MDNN_STATUS_NOT_FOUND ? MDNN_STATUS_OK : status;
}

mdnn_status_t mdnn_memory_make_ready(mdnn_memory_t *memory,
                                     const mdnn_memory_operation_t *operation)
{
    const mdnn_allocation_t *dropped;
    bool early;
    while ((dropped = find_unready(memory, operation, &early)))
        MDNN_TRY(make_again(memory, dropped, early));
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_make_ready_at(mdnn_memory_t *memory, uint64_t address, bool content)
{
    const mdnn_allocation_t *allocation, *dropped = NULL;
    while (memory->dropped > 0 && (allocation = mdnn_allocation_find_kept(memory, address))) {
        dropped = content && allocation->dropped ? allocation
                                                 : mdnn_allocation_dropped_dependent(allocation);
        if (!dropped || MDNN_FAULT(INPUTS_ARE_FREED))
            break;
        MDNN_TRY(make_again(memory, dropped, dropped != allocation));
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_make_all(mdnn_memory_t *memory)
{
    while (memory->dropped > 0) {
        const mdnn_allocation_t *allocation = memory->allocations;
        while (allocation && !allocation->dropped)
            allocation = allocation->next;
        if (!allocation)
            break;
        MDNN_TRY(make_again(memory, allocation, true));
    }
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (!allocation->dropped)
            mdnn_allocation_end_making(memory, allocation);
    return MDNN_STATUS_OK;
}

/* Where no stream can wait, the host does. */
static mdnn_status_t await(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                           mdnn_stream_point_t point)
{
    if (point.position == 0 || point.stream == operation->stream ||
        memory->device.is_done(memory->context, point))
        return MDNN_STATUS_OK;
    if (!operation->capturing &&
        memory->device.wait_in_stream(memory->context, operation->stream, point) == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    return mdnn_memory_wait(memory, point);
}

mdnn_status_t mdnn_memory_await_remade(mdnn_memory_t *memory,
                                       const mdnn_memory_operation_t *operation)
{
    if (memory->remade.position == 0 || MDNN_FAULT(NOBODY_WAITS_FOR_WHAT_IS_REMADE))
        return MDNN_STATUS_OK;
    if (memory->device.is_done(memory->context, memory->remade)) {
        memory->remade.position = 0;
        return MDNN_STATUS_OK;
    }
    for (size_t i = 0; i < operation->operand_count; i++) {
        const mdnn_allocation_t *const allocation =
            mdnn_allocation_find(memory, operation->operands[i].address, operation->began);
        if (allocation)
            MDNN_TRY(await(memory, operation, allocation->remade));
    }
    return MDNN_STATUS_OK;
}
