/* Planners make a schedule (what leaves and returns when, offload/plan/schedule.h) from one recorded period
 * (offload/plan/period.h), a budget and the rates of the link. This is plain computation on the host: nothing runs on
 * the GPU. Every schedule is checked against the budget and timed by the replay, a simulation of the period
 * (offload/plan/replay.h). The policies that a request may name:
 *
 *   none      nothing leaves
 *   conv      vDNN conv (Rhu 2016, 3.3): the input X of every convolution leaves in the forward pass
 *   all       vDNN all: the inputs of all operations of the forward pass leave
 *   dynamic   vDNN's profiling passes, replayed; the first configuration that fits
 *   modnn     Chen 2019, Algorithm 1: leave when memory is short, return when it is time
 *   auto      ours: tries several rules for what leaves (such as: whatever moves the fewest bytes, or goes unused the
 *             longest), has ranges leave early and return late, and improves the best schedule step by step */
#ifndef MDNN_PLANNER_H
#define MDNN_PLANNER_H

#include "offload/plan/move_plan.h"

/* Deterministic. INVALID_ARGUMENT for a link without rates, OUT_OF_MEMORY; BUSY: the plan was cancelled, which takes
 * effect within one replay or one choice of a range; *plan is then untouched. Takes milliseconds for a few thousand
 * operations; auto takes `effort` replays, each with about three times as many events as the period has operations.
 * Thread-safe: keeps no state. */
mdnn_status_t mdnn_move_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);

/* "none", "conv", ...; NULL out of bounds. */
const char *mdnn_policy_name(mdnn_policy_t policy);

#endif
