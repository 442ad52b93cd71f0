/* Builds a plan: measures its problem, optimizes, stores the measurements in the database, reports, and publishes the
 * fronts. Only the planner calls it (planning.h); it takes seconds and waits for the device. */
#ifndef MDNN_PLAN_BUILD_H
#define MDNN_PLAN_BUILD_H

#include "optimizer/database.h"
#include "shim/convolution/plan_internal.h"

/* Makes the plan ready for `call` and workspaces up to `limit_bytes`. A plan never becomes less complete. BUSY: this is
 * not possible now. After any other failure the plan is given up. */
mdnn_status_t mdnn_conv_plan_build(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                   uint64_t limit_bytes);

/* Stores in the database what was measured after the last call. */
void mdnn_conv_plan_keep_costs(mdnn_conv_plan_t *plan, const mdnn_front_set_t *set,
                               mdnn_database_conflict_t conflict);

#endif
