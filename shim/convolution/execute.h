/* Runs configurations: a configuration computes the caller's one convolution as a sequence of convolutions over slices
 * of the batch. The plan of a problem (shim/convolution/plan.h) has the configurations that were measured for it. */
#ifndef MDNN_EXECUTE_H
#define MDNN_EXECUTE_H

#include "shim/convolution/plan.h"

/* Runs the convolution `call` with the fastest configuration that fits call->workspace_bytes and promises at least what
 * the caller's algorithm does (mdnn_demand_of), or exactly as called if there is none. Stream-ordered like the call
 * itself; no host synchronisation and no allocation once the problem is planned. */
cudnnStatus_t mdnn_convolution_run(const mdnn_call_t *call);

/* The same for a call whose plan (NULL: the call goes to cuDNN unchanged) and demand (mdnn_demand_t) are known. */
cudnnStatus_t mdnn_convolution_run_planned(const mdnn_call_t *call, mdnn_conv_plan_t *plan,
                                           const mdnn_demand_t *demand);

/* Called before a legacy call runs under a budget. Drops a workspace that cannot be resident
 * together with the operands, if the convolution can run without it. */
void mdnn_convolution_fit(mdnn_call_t *call);
/* Whether the workspace and the operands of `call` can be resident together. */
bool mdnn_convolution_fits(const mdnn_call_t *call);

/* Called when a caller of the legacy API got a smaller workspace size than its algorithm may take. From then on, a
 * call that brings too little workspace for its own algorithm runs with another algorithm. */
void mdnn_convolution_reported_less(void);

/* Records in the statistics that `call` runs. Called before it is enqueued. `plan` NULL: does nothing. */
void mdnn_convolution_record(const mdnn_call_t *call, const mdnn_conv_plan_t *plan);

/* The demand on a configuration if the caller named this algorithm: the promises that it must keep (repeatable results,
 * no transforms), and a workspace of at most `workspace_bytes`. */
mdnn_demand_t mdnn_demand_of(mdnn_direction_t direction, int algo, uint64_t workspace_bytes);

#endif
