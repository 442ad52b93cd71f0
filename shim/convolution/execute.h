/* Runs configurations: the caller's one convolution as a sequence of convolutions over slices. */
#ifndef MDNN_EXECUTE_H
#define MDNN_EXECUTE_H

#include "shim/convolution/plan.h"

/* Runs the convolution `call` with the best configuration that fits call->workspace_bytes and is no
 * weaker than the caller's algorithm, or exactly as called if there is none. Stream-ordered like
 * the call itself; no host synchronisation and no allocation once the problem is planned. */
cudnnStatus_t mdnn_convolution_run(const mdnn_call_t *call);

/* The same for a call whose plan (NULL: the call passes) and demand (mdnn_demand_t) are known. */
cudnnStatus_t mdnn_convolution_run_planned(const mdnn_call_t *call, mdnn_conv_plan_t *plan,
                                           const mdnn_demand_t *demand);

/* Called before a legacy call runs under a budget. Drops a workspace that cannot be resident
 * together with the operands, if the convolution can run without it. */
void mdnn_convolution_fit(mdnn_call_t *call);
/* Whether the workspace and the operands of `call` can be resident together. */
bool mdnn_convolution_fits(const mdnn_call_t *call);

/* Called when a smaller workspace size than an algorithm may take was reported to a caller of the legacy API. From then
 * on, a call that brings too little workspace for its own algorithm runs with another algorithm. */
void mdnn_convolution_reported_less(void);

/* Records in the statistics that `call` runs. Called before it is enqueued. `plan` NULL: does nothing. */
void mdnn_convolution_record(const mdnn_call_t *call, const mdnn_conv_plan_t *plan);

/* What a configuration must promise (repeatable results, no transforms) if the caller named this algorithm, and that it
 * takes at most `workspace_bytes`. */
mdnn_demand_t mdnn_demand_of(mdnn_direction_t direction, int algo, uint64_t workspace_bytes);

#endif
