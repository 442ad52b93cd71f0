/* The table of plans: finds the plan of a problem. Problems are compared by every field and by their library, never by
 * a hash alone. Plans stay until the process ends. Finding a plan takes one short lock; only the planner inserts
 * plans. */
#ifndef MDNN_PLAN_TABLE_H
#define MDNN_PLAN_TABLE_H

#include "shim/convolution/plan_internal.h"

/* Makes the key with which the plan of the call is found. UNSUPPORTED: the library does not serve the call. */
mdnn_status_t mdnn_plan_key_make(const mdnn_call_t *call, mdnn_plan_key_t *key);
uint32_t mdnn_plan_key_hash(const mdnn_plan_key_t *key);

mdnn_conv_plan_t *mdnn_plan_table_find(const mdnn_plan_key_t *key, uint32_t hash); /* NULL: none */
/* Makes a plan with what the database knows about its problem, without fronts; NULL if memory is
 * short. Only the planner calls it. */
mdnn_conv_plan_t *mdnn_plan_table_insert(const mdnn_call_t *call, const mdnn_plan_key_t *key,
                                         uint32_t hash);

#endif
