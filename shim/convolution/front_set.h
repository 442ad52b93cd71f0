/* The fronts of one plan, ready to run: for every combination of demands, the configurations that no other beats in
 * both time and workspace, with their engines' plans, descriptors and offsets, and with the rivals of splits.
 *
 * The planner makes a set and publishes all of it at once. After that it never changes, and any thread reads it without
 * a lock. */
#ifndef MDNN_FRONT_SET_H
#define MDNN_FRONT_SET_H

#include "shim/convolution/plan_internal.h"

/* Whether the problem may be split. A bf16 weight gradient may not if it has no accumulator, since the sum would then
 * be rounded after every part. */
bool mdnn_conv_plan_may_be_split(const mdnn_conv_plan_t *plan);
/* The optimizer's request for demands with these flags. */
mdnn_wr_request_t mdnn_conv_plan_request(const mdnn_conv_plan_t *plan, uint64_t limit_bytes,
                                         unsigned flags);

/* Makes the front for `flags` up to set->limit_bytes, with costs from `source`. A combination that nothing satisfies
 * has no configurations. Only the planner calls it. After a failure destroy the set. */
mdnn_status_t mdnn_front_set_fill(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  const mdnn_cost_source_t *source, unsigned flags,
                                  mdnn_front_set_t *set);
void mdnn_front_set_destroy(mdnn_front_set_t *set); /* NULL accepted; only before it is published */

#endif
