/* Invariants of the plan follower (offload/plan/follower_internal.h) between two calls, which debug builds check.
 *
 * Ranges
 *   One that is not alive has no slot; one that lives was touched at a sequence that is over.
 *   Of the plan that is followed each slot has one range at most, and slot and range know each other.
 * Periods
 *   Each number stands in one entry at most; numbers are those of periods that were found. A free entry has nothing.
 *   Until a plan was made, or will not be, the times are there, and so many are missing as `untimed` says.
 *   While an entry waits for its plan, a job for it is under way.
 *   Plans that are tried again, and what they leave alone, have their limits.
 * Plans
 *   The plan that is followed is that of an entry, and the one before it is not.
 *   A plan has a number that was given, and as many operations as its entry. Its lists have a stretch for each
 *   position and name its moves; what is unused is sorted by bytes. */
#ifndef MDNN_FOLLOWER_CHECK_H
#define MDNN_FOLLOWER_CHECK_H

#include "offload/plan/follower.h"

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
