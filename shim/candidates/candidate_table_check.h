/* Invariants of a table of candidates (shim/candidates/candidate_table.h) between two calls, which debug builds check.
 *
 * Engines
 *   There are as many as there is room for at most, and no two are the same.
 * Rows
 *   A size and role has one row. It has images, a role that there is, and room for whole groups of candidates.
 *   A row offers engines of the table only.
 * Candidates, of which more is known than that they do not run
 *   One of the legacy API has the number of its algorithm.
 *   One of an engine is of the engine at its place in the table, which the row offers.
 *   That it was deferred is what its state says, never its cost.
 *   One that was timed has a time, none below 0, and its cost says so. */
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
