/* What a file says of candidates may keep some from being used, and no more: whoever wrote it, none is
 * admitted by its word. Whether a candidate repeats its results, is direct and strict, and whether the
 * problem admits it at all, is asked of cuDNN and of our own tables again. What it says of times
 * decides what is fastest, which is no harm; what it says of workspace is checked where plans are
 * made (plan_table.c). */
#ifndef MDNN_COST_CACHE_CHECK_H
#define MDNN_COST_CACHE_CHECK_H

#include "optimizer/cost_memory.h"
#include "shim/candidates/call.h"

/* Takes out of `memory`, which a database filled, whatever is no candidate of `problem`, and weakens
 * what is said of the others to what is so. `engines`: of the problem, NULL if it has none. The
 * planner's alone (planning.h); cuDNN is called. */
void mdnn_cost_cache_restrict(mdnn_cost_memory_t *memory, const mdnn_call_t *call,
                              const mdnn_problem_t *problem, mdnn_engines_t *engines);

#endif
