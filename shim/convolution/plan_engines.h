/* The engines of callers' own plans, as candidates of a plan: whether such a plan of a caller is worth its run.
 *
 * Any thread. All but mdnn_conv_plan_time_engine and mdnn_conv_plan_remember take the planning lock for a moment; who
 * finds another thread planning is told so at once, and nobody waits for it. */
#ifndef MDNN_PLAN_ENGINES_H
#define MDNN_PLAN_ENGINES_H

#include "shim/convolution/plan_questions.h"
#include "shim/real/stopwatch.h"

/* Measured time of an engine on the whole batch; 0 if it was not timed, or while a thread plans. */
double mdnn_conv_plan_engine_ms(const mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer);

/* True if the caller's other plans will hold a clearly faster one that takes no more workspace; false while a thread
 * plans. */
bool mdnn_conv_plan_engine_is_dominated(const mdnn_conv_plan_t *plan,
                                        const mdnn_engine_offer_t *offer);

/* Notes that a caller made a plan with this engine, and that it ran or is gone. Meeting is true if
 * another one with it waits for its first use. */
bool mdnn_conv_plan_engine_ref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer);
void mdnn_conv_plan_engine_unref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer);

/* Likewise for call->caller_engine, which is timed now by call->caller_plan, which takes `plan_bytes`;
 * 0 during capture, while another thread plans or the device is too busy, -1 if it cannot be timed. */
double mdnn_conv_plan_time_engine(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  uint64_t plan_bytes);

/* The caller's own runs of an engine's plan, which takes `workspace_bytes`, show how long it takes.
 * True if that is all that need be known: `chosen` by a search, it is no slower than what was
 * measured, or it is far slower. mdnn_conv_plan_remember then keeps it in the database. False while a thread plans;
 * likewise nothing is kept then. */
bool mdnn_conv_plan_take_run(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer,
                             uint64_t workspace_bytes, const mdnn_stopwatch_times_t *times,
                             bool chosen);
void mdnn_conv_plan_remember(mdnn_conv_plan_t *plan);

#endif
