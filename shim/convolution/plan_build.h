/* Building a plan: measures its problem, optimizes, keeps what was measured in the database, reports, and publishes the
 * fronts. The planner's alone (planning.h), in seconds, and with waits for the device. */
#ifndef MDNN_PLAN_BUILD_H
#define MDNN_PLAN_BUILD_H

#include "optimizer/database.h"
#include "shim/convolution/plan_internal.h"

/* Has the plan ready for `call` and workspaces up to `limit_bytes`; what is there stays at least as complete. BUSY: not
 * now. Any other failure gives the plan up. */
mdnn_status_t mdnn_conv_plan_build(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                   uint64_t limit_bytes);

/* Keeps in the database what was measured since the last time. */
void mdnn_conv_plan_keep_costs(mdnn_conv_plan_t *plan, const mdnn_front_set_t *set,
                               mdnn_database_conflict_t conflict);

#endif
