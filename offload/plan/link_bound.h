/* The least time that an iteration can take on a link within a budget, whatever the schedule. */
#ifndef MDNN_LINK_BOUND_H
#define MDNN_LINK_BOUND_H

#include "offload/plan/replay.h"

/* No schedule takes less time than this, since the memory beyond the budget must cross the link while the operations
 * before and after run. For each operation at which more bytes live than the budget has:
 *
 *     T >= max(time before, bytes that must have left / rate) + its own time
 *          + max(time after, bytes that must return / rate)
 *
 * Ranges that live past the ends of the period do not count here, since they may leave in another iteration. Operations
 * take their fastest variant, with the least workspace. OUT_OF_MEMORY. */
mdnn_status_t mdnn_link_bound(const mdnn_period_t *period, const mdnn_link_t *link,
                              uint64_t budget_bytes, double *bound_us);

#endif
