/* Whose turn it is to plan. One thread at a time makes plans or keeps them, so that measurements do not disturb
 * each other: "the planner". It holds no lock meanwhile, since that takes seconds and waits for the device, only the
 * word that it plans. What was measured is its own meanwhile, of every plan; others do without.
 *
 * The planning lock guards that word, and what was measured while nobody plans. It is held for moments, never while
 * something is measured. */
#ifndef MDNN_PLANNING_H
#define MDNN_PLANNING_H

#include "shim/candidates/call.h"

/* Makes this thread the planner; false if another one is. Else mdnn_planning_end follows. Never waits. */
bool mdnn_planning_begin(double *begin_us);
/* The same behind another thread, while that gets on by itself: may wait for seconds. False if it waits for the program,
 * and as soon as `is_needless` says so of `context`: others may plan one thing after the other meanwhile. */
bool mdnn_planning_begin_in_turn(bool (*is_needless)(const void *context), const void *context,
                                 double *begin_us);
void mdnn_planning_end(double begin_us);

/* The planning lock, for moments. */
void mdnn_planning_lock(void);
void mdnn_planning_unlock(void);
/* Takes the lock to look at what was measured. False, and nothing is taken, while somebody plans. */
bool mdnn_planning_lock_costs(void);

/* True while the call's stream is being captured, or if that cannot be told: then nobody may plan for it. */
bool mdnn_planning_is_captured(const mdnn_call_t *call, const mdnn_driver_t *driver);

#endif
