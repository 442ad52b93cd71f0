/* Invariants of the address space (offload/ranges/ranges.h) between two calls, which debug builds check.
 *
 * Steps
 *   The table of steps has a range at each of its steps, and nowhere else; these are below `end`, unless it is a slab.
 *   The last step below `end` has a range; from `end` to `top` there is none, and from `top` on there are only slabs.
 *   A range's chunks are those of its steps. While it is in use: mapped <= owned <= count, and it is as long as
 *   what was asked for needs.
 *   A range has at most one user per stream.
 * Released ranges
 *   The list of released ranges, oldest first, has each of them once.
 *   Released neighbours are one run; its first knows its length and stands among runs of that length, its last
 *   knows the first. No other runs are listed, and bits say which lists have any.
 * Chunks
 *   Each that was created and not destroyed is in one place only: in a range in use, in a released one, or among the
 *   spare ones (checked while there are few). There is room to put all of them aside.
 *   The counts say how many are in use, hidden, released and of slabs, how many steps have ranges, and how many
 *   bytes live.
 * Slabs
 *   Blocks lie one behind the other without a gap, and know their neighbours in slabs of their kind. Only a block
 *   in use may reach into the next slab. The tables say where each starts.
 *   A block in use takes less than a granule more than was asked for; a released one has no owner.
 *   A slab is released exactly while no block in use takes anything of it, and knows how much they take.
 *   Released neighbours are one run: its first knows its bytes and stands in their bin, its first and its last
 *   know each other. No other runs are in bins, and bits say which bins have any. */
#ifndef MDNN_RANGES_CHECK_H
#define MDNN_RANGES_CHECK_H

#include "offload/ranges/ranges.h"

#ifdef MDNN_DEBUG
/* *broken: the first rule that does not hold. *looks: how many looks it took. */
bool mdnn_ranges_is_valid(const mdnn_ranges_t *ranges, const char **broken, uint64_t *looks);
bool mdnn_slabs_are_valid(const mdnn_ranges_t *ranges, const char **broken, uint64_t *looks);
/* Called after a change: aborts if a rule is broken. Large address spaces are checked after some
 * changes only. */
void mdnn_ranges_check(const mdnn_ranges_t *ranges);
#else
static inline void mdnn_ranges_check(const mdnn_ranges_t *ranges)
{
    (void)ranges;
}
#endif

#endif
