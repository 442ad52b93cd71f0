/* Invariants of a plan (shim/convolution/plan_internal.h) and of the table of plans, which debug builds check.
 *
 * Fronts of a set, for each combination of demands
 *   A front's workspaces increase from configuration to configuration, and their times decrease.
 *   A configuration covers the batch: its parts have images, all but the last as many as keep the slices aligned, and
 *   they sum to the batch. Its workspace is the largest of a part, within the set's limit; its time is the sum.
 *   Its parts satisfy the demands.
 * What is ready to run
 *   As many configurations as are counted, each of the front and in its order.
 *   A part begins where the one before it ends, and has the descriptors of its size. It has an engine's plan exactly
 *   where an engine computes it; that is kept, and takes no more workspace than was measured.
 *   A configuration is deterministic if all of its parts are.
 *   Only a split has a rival, which is undivided and takes no more workspace; only one with a rival has a trial.
 * A plan
 *   Its sets can be reached from the newest, and none was replaced by one for smaller workspaces.
 *   A larger workspace pays only above the limit of the newest.
 *   Of the engines that callers made plans with each is counted once, and never given back more often than
 *   counted.
 * The table
 *   A plan is found under its own key, and as many as are counted. */
#ifndef MDNN_PLAN_CHECK_H
#define MDNN_PLAN_CHECK_H

#include "shim/convolution/plan_internal.h"

#ifdef MDNN_DEBUG
/* *broken: the first rule that does not hold. The caller is the planner, or the only thread that
 * has the plan. */
bool mdnn_conv_plan_is_valid(const mdnn_conv_plan_t *plan, const char **broken);
/* The planning lock is held. */
bool mdnn_conv_plan_engines_are_valid(const mdnn_conv_plan_t *plan, const char **broken);
/* `first` of the table's plans, whose lock is held. *looks: what the check took. */
bool mdnn_plan_table_is_valid(mdnn_conv_plan_t *first, const char **broken, uint64_t *looks);

/* Called after a change: abort if a rule is broken. A large table is checked after some changes
 * only. */
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
