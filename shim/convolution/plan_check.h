/* Invariants of a plan (shim/convolution/plan_internal.h) and of the table of plans, which debug builds check. The
 * terms are those of shim/convolution/plan_questions.h.
 *
 * Fronts of a set, for each combination of demands
 *   A front's workspaces increase from configuration to configuration, and their times decrease.
 *   A configuration covers the batch: each part has images, each part but the last has a number of images that keeps
 *   the slices aligned, and the parts add up to the batch. Its workspace is the largest of its parts', within the set's
 *   limit; its time is the sum of theirs. Its parts satisfy the demands.
 * What is ready to run
 *   There are as many configurations as are counted; they are those of the front, in its order.
 *   A part begins where the one before it ends, and has the descriptors of its size. It has an engine's plan exactly if
 *   an engine computes it; that plan is kept, and takes no more workspace than was measured.
 *   A configuration is deterministic if all of its parts are.
 *   Only a split has a rival, which is undivided and takes no more workspace; only a split with a rival has a trial.
 * A plan
 *   All of its sets can be reached from the newest, and no set was replaced by one for smaller workspaces.
 *   A larger workspace can help only above the limit of the newest set.
 *   Each engine with which callers made plans has one entry, and its plans are never given back more often than they
 *   were counted.
 * The table
 *   Each plan is found under its own key, and there are as many plans as are counted. */
#ifndef MDNN_PLAN_CHECK_H
#define MDNN_PLAN_CHECK_H

#include "shim/convolution/plan_internal.h"

#ifdef MDNN_DEBUG
/* Whether all rules hold; *broken: the first that does not. The caller is the thread that plans, or the only one that
 * has the plan. */
bool mdnn_conv_plan_is_valid(const mdnn_conv_plan_t *plan, const char **broken);
/* The planning lock is held. */
bool mdnn_conv_plan_engines_are_valid(const mdnn_conv_plan_t *plan, const char **broken);
/* The same for the table whose first plan is `first`; its lock is held. *looks: how many plans the check looked at. */
bool mdnn_plan_table_is_valid(mdnn_conv_plan_t *first, const char **broken, uint64_t *looks);

/* Called after a change; abort the process if a rule is broken. A large table is checked only after some of the
 * changes. */
void mdnn_conv_plan_check(const mdnn_conv_plan_t *plan);
void mdnn_conv_plan_check_engines(const mdnn_conv_plan_t *plan);
void mdnn_plan_table_check(mdnn_conv_plan_t *first);
#else
static inline void mdnn_conv_plan_check(const mdnn_conv_plan_t *plan)
{
    (void)plan;
}
static inline void mdnn_conv_plan_check_engines(const mdnn_conv_plan_t *plan)
{
    (void)plan;
}
static inline void mdnn_plan_table_check(mdnn_conv_plan_t *first)
{
    (void)first;
}
#endif

#endif
