/* Checks what a file says about candidates. A file may keep a candidate from being used, but never admits one, whoever
 * wrote it. cuDNN and our own tables decide again whether a candidate repeats its results, is direct and strict, and
 * whether the problem admits it at all. The times in a file decide which candidate is fastest, which does no harm; the
 * workspaces in it are checked where plans are made (plan_table.c). */
#ifndef MDNN_COST_CACHE_CHECK_H
#define MDNN_COST_CACHE_CHECK_H

#include "optimizer/cost_memory.h"
#include "shim/candidates/call.h"

/* Removes from `memory`, which a database filled, everything that is not a candidate of `problem`,
 * and corrects the claims about the others. `engines`: those of the problem; NULL if it has none.
 * Only the planner calls it (planning.h), and it calls cuDNN. */
void mdnn_cost_cache_restrict(mdnn_cost_memory_t *memory, const mdnn_call_t *call,
                              const mdnn_problem_t *problem, mdnn_engines_t *engines);

#endif
