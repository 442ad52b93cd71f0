/* Invariants of a table of candidates (shim/candidates/candidate_table.h) between two calls, which debug builds check.
 *
 * Engines
 *   There are at most as many as there is room for, and no two are the same.
 * Rows
 *   Each size and role has one row. A row has images, an existing role, and room for whole groups of candidates.
 *   A row offers only engines of the table.
 * Candidates about which more is known than that they do not run
 *   A candidate of the legacy API has the number of its algorithm.
 *   A candidate of an engine belongs to the engine at its place in the table, which the row offers.
 *   Its state says whether it was deferred; its cost never does.
 *   A candidate that was timed has a time, which is not below 0, and its cost says so. */
#ifndef MDNN_CANDIDATE_TABLE_CHECK_H
#define MDNN_CANDIDATE_TABLE_CHECK_H

#include "shim/candidates/candidate_table.h"

#ifdef MDNN_DEBUG
/* *broken: the first rule that does not hold. *looks: what the check took. */
bool mdnn_candidate_table_is_valid(const mdnn_candidate_table_t *table, const char **broken,
                                   uint64_t *looks);
/* Called after a change: aborts if a rule is broken. Large tables are checked after some changes
 * only. Only the planner calls it. */
void mdnn_candidate_table_check(const mdnn_candidate_table_t *table);
#else
static inline void mdnn_candidate_table_check(const mdnn_candidate_table_t *table)
{
    (void)table;
}
#endif

#endif
