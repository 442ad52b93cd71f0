/* The table of plans: which problem has which. A problem is compared by every field and by its library, never by a hash
 * alone. Plans stay until the process ends. Finding one takes one short lock; only the planner inserts. */
#ifndef MDNN_PLAN_TABLE_H
#define MDNN_PLAN_TABLE_H

#include "shim/convolution/plan_internal.h"

/* Everything that decides before a plan is looked at. UNSUPPORTED: the call is not ours. */
mdnn_status_t mdnn_plan_key_make(const mdnn_call_t *call, mdnn_plan_key_t *key);
uint32_t mdnn_plan_key_hash(const mdnn_plan_key_t *key);

mdnn_conv_plan_t *mdnn_plan_table_find(const mdnn_plan_key_t *key, uint32_t hash); /* NULL: none */
/* A plan with what the database knows of its problem, without fronts; NULL if memory is short. The planner's alone. */
mdnn_conv_plan_t *mdnn_plan_table_insert(const mdnn_call_t *call, const mdnn_plan_key_t *key,
                                         uint32_t hash);

#endif
