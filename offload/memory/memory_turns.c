/* The queue of demands. */
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_waits.h"

mdnn_status_t mdnn_memory_take_turn(mdnn_memory_t *memory, mdnn_turn_t *turn)
{
    turn->next = NULL;
    *(memory->last_turn ? &memory->last_turn->next : &memory->first_turn) = turn;
    memory->last_turn = turn;
    while (memory->first_turn != turn) {
        const mdnn_status_t status = mdnn_memory_wait_for_change(memory);
        if (status != MDNN_STATUS_OK) {
            mdnn_memory_end_turn(memory, turn);
            return status;
        }
    }
    memory->host_short_before = memory->report.host_short;
    return MDNN_STATUS_OK;
}

void mdnn_memory_end_turn(mdnn_memory_t *memory, mdnn_turn_t *turn)
{
    mdnn_turn_t **link = &memory->first_turn, *previous = NULL;
    while (*link != turn) {
        previous = *link;
        link = &previous->next;
    }
    *link = turn->next;
    if (memory->last_turn == turn)
        memory->last_turn = previous;
}

mdnn_status_t mdnn_memory_pass_turn(mdnn_memory_t *memory, mdnn_turn_t *turn)
{
    mdnn_memory_end_turn(memory, turn);
    return mdnn_memory_take_turn(memory, turn);
}

bool mdnn_memory_is_alone(const mdnn_memory_t *memory)
{
    return memory->first_turn == memory->last_turn;
}

bool mdnn_memory_others_hold(const mdnn_memory_t *memory)
{
    return memory->device.opened_here &&
           memory->open + memory->untracked_open > memory->device.opened_here(memory->context);
}
