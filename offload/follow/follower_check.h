/* Invariants of the plan follower (offload/follow/follower_internal.h) between two calls, which debug builds check.
 *
 * Ranges
 *   A range that is not alive has no counterpart in the plan that is followed; one that is alive was last touched at an
 *   earlier sequence.
 *   Each range of that plan's period is the counterpart of at most one range, and the two refer to each other.
 * Periods
 *   Each number is in at most one entry; numbers are those of periods that were found. A free entry has nothing.
 *   Until a plan was made, or will never be, the times are there, and as many are missing as `untimed` says.
 *   While an entry waits for its plan, a job for it is under way.
 *   The number of plans that are made again, and the bytes that these do not use, have limits.
 * Plans
 *   The plan that is followed is the current plan of an entry, not an earlier one.
 *   A plan has a number that was given out, and as many operations as its entry. Its lists have a stretch for each
 *   position and name its moves; its unused ranges are sorted by bytes. */
#ifndef MDNN_FOLLOWER_CHECK_H
#define MDNN_FOLLOWER_CHECK_H

#include "offload/follow/follower.h"

#ifdef MDNN_DEBUG
/* *broken: the first rule that does not hold. *looks: how many looks it took. */
bool mdnn_follower_is_valid(const mdnn_follower_t *follower, const char **broken, uint64_t *looks);
/* Called after a change: aborts if a rule is broken. A large follower is checked after some changes
 * only. */
void mdnn_follower_check(const mdnn_follower_t *follower);
#else
static inline void mdnn_follower_check(const mdnn_follower_t *follower)
{
    (void)follower;
}
#endif

#endif
