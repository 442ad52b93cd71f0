/* Decides whose turn it is to plan. One thread at a time, "the planner", makes plans or stores them, so that
 * measurements do not disturb each other. It holds no lock while it plans, since that takes seconds and waits for the
 * device; a flag says that it plans. Meanwhile the measurements of every plan belong to it, and other threads do
 * without them.
 *
 * The planning lock guards the flag and, while nobody plans, the measurements. It is held for moments, never while
 * something is measured. */
#ifndef MDNN_PLANNING_H
#define MDNN_PLANNING_H

#include "shim/candidates/call.h"

/* Makes this thread the planner; false if another thread is. mdnn_planning_end follows success.
 * Never waits. */
bool mdnn_planning_begin(double *begin_us);
/* The same, but if another thread plans, waits for it as long as that makes progress by itself, perhaps for seconds.
 * False if that thread waits for the program, or as soon as `is_needless(context)` is true: other threads may take turn
 * after turn, although what this one needs is already there. */
bool mdnn_planning_begin_in_turn(bool (*is_needless)(const void *context), const void *context,
                                 double *begin_us);
void mdnn_planning_end(double begin_us);

/* Take and release the planning lock, for moments. */
void mdnn_planning_lock(void);
void mdnn_planning_unlock(void);
/* Takes the lock to look at measurements. False, without the lock, while a thread plans. */
bool mdnn_planning_lock_costs(void);

/* True while the call's stream is being captured, or if that is not known: no thread may plan for
 * the call then. */
bool mdnn_planning_is_captured(const mdnn_call_t *call, const mdnn_driver_t *driver);

#endif
