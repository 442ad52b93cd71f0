/* Places of equal size that serve again once the work that may still use them is over. The caller has entered the device. */
#ifndef MDNN_SLOTS_H
#define MDNN_SLOTS_H

#include "shim/device/timelines.h"

enum { MDNN_NO_SLOT = -1 };

typedef struct mdnn_slot {
    bool taken;
    mdnn_stream_point_t end; /* of all work on it; position 0: it is over */
} mdnn_slot_t;

typedef struct mdnn_slots {
    mdnn_slot_t *all;
    int count;
    int next; /* to be looked at */
    int taken;
} mdnn_slots_t;

/* MDNN_NO_SLOT: there is none now. */
int mdnn_slots_take(mdnn_slots_t *slots);
/* Ignored if the slot is not taken. `end`: of all work on it. */
void mdnn_slots_give(mdnn_slots_t *slots, int slot, mdnn_stream_point_t end);

#endif
