/* Builds the front that wr.h publishes.
 *
 * Margin and dominance. A split is admitted if it beats (1 - margin) x the best undivided time
 * within the split's own workspace; undivided configurations are always admitted. The front is the
 * Pareto set of the admitted configurations, so a rejected split hides nothing.
 *   - Only the Pareto set of all splits needs to be offered: a split that is no better in time and
 *     workspace than a rejected one would be rejected, too, since the undivided configurations that
 *     it is compared with include all those of the rejected one.
 *   - A limit above a split's workspace may admit a faster undivided configuration that the split
 *     beats by less than the margin. mdnn_front_best judges again at the limit in question and then
 *     returns the undivided configuration, although it is not on the front: "a split replaces the
 *     undivided convolution only if it is faster by more than the margin" holds at every limit. If
 *     the fastest split within the limit fails there, so do all slower ones. */
#ifndef MDNN_FRONT_H
#define MDNN_FRONT_H

#include "optimizer/costs.h"
#include "optimizer/wr.h"

/* Makes an unfinished front that knows the undivided configurations of `batch` images. */
mdnn_status_t mdnn_front_create(int64_t batch, const mdnn_cost_list_t *undivided,
                                double adoption_margin, mdnn_front_t **front);

/* Whether a split of this time and workspace would be admitted. */
bool mdnn_front_admits(const mdnn_front_t *front, double time_ms, uint64_t workspace_bytes);

/* Adds an admitted split (two parts or more); takes `split->parts` on success only. */
mdnn_status_t mdnn_front_add_split(mdnn_front_t *front, const mdnn_configuration_t *split);

/* Adds the undivided configurations and reduces to the Pareto set. */
mdnn_status_t mdnn_front_finish(mdnn_front_t *front);

#endif
