/* Leads from an execution plan of the program to our plan: the record of what it computes, which is made once, and the
 * plan of that problem. Any thread may call these functions; several threads may execute one plan. */
#ifndef MDNN_GRAPH_PLAN_H
#define MDNN_GRAPH_PLAN_H

#include "shim/convolution/plan.h"
#include "shim/graph/graph_record.h"
#include "shim/graph/graph_shadow.h"

/* The record of a finalised plan; NULL if it passes. */
mdnn_graph_record_t *mdnn_graph_record_of(const mdnn_cudnn_t *real, mdnn_shadow_t *shadow);

/* The plan for the record's problem, or for one that allows more; NULL if `call` must pass. */
mdnn_conv_plan_t *mdnn_graph_plan_of(mdnn_graph_record_t *record, const mdnn_call_t *call,
                                     mdnn_conv_plan_permission_t permission);

/* Whether the program's own plan is within the user's limit. */
bool mdnn_graph_own_fits(const mdnn_graph_record_t *record);

#endif
