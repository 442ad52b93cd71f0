#include "shim/remake/slots.h"

#include "shim/vmem/virtual_shared.h"

static bool is_free(mdnn_slot_t *slot)
{
    if (slot->taken)
        return false;
    if (slot->end.position != 0 && !mdnn_timelines_is_done(mdnn_virtual_timelines(), slot->end))
        return false;
    slot->end.position = 0;
    return true;
}

/* The one that was given back longest ago is most likely to be over. */
int mdnn_slots_take(mdnn_slots_t *slots)
{
    for (int i = 0; i < slots->count; i++) {
        const int slot = slots->next;
        slots->next = (slots->next + 1) % slots->count;
        if (!is_free(&slots->all[slot]))
            continue;
        slots->all[slot].taken = true;
        slots->taken++;
        return slot;
    }
    return MDNN_NO_SLOT;
}

void mdnn_slots_give(mdnn_slots_t *slots, int slot, mdnn_stream_point_t end)
{
    if (slot == MDNN_NO_SLOT || !slots->all[slot].taken)
        return;
    slots->taken--;
    slots->all[slot].taken = false;
    slots->all[slot].end = end;
}
