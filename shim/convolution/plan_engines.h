/* The engines of callers' own plans, as candidates of a plan: how long they take, and whether the caller has a plan
 * with a better one.
 *
 * Any thread may call these functions. All except mdnn_conv_plan_time_engine and mdnn_conv_plan_remember take the
 * planning lock for a moment; if another thread is planning, they return immediately, without waiting for it. */
#ifndef MDNN_PLAN_ENGINES_H
#define MDNN_PLAN_ENGINES_H

#include <float.h>

#include "shim/convolution/plan_questions.h"
#include "shim/real/stopwatch.h"

/* The measured time of an engine on the whole batch; 0 if it was not timed, or while a thread plans. */
double mdnn_conv_plan_engine_ms(const mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer);

/* True if the caller's other plans will include a clearly faster one that takes no more workspace; false while a thread
 * plans. */
bool mdnn_conv_plan_engine_is_dominated(const mdnn_conv_plan_t *plan,
                                        const mdnn_engine_offer_t *offer);

/* Note that a caller made a plan with this engine, and that the plan ran or is gone. The first
 * function returns true if another plan with the engine waits for its first use. */
bool mdnn_conv_plan_engine_ref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer);
void mdnn_conv_plan_engine_unref(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer);

/* A time that nothing beats. */
#define MDNN_FASTEST_MS DBL_MIN

/* Times call->caller_engine now, with the plan call->caller_plan, which takes `plan_bytes`; returns its time like
 * mdnn_conv_plan_engine_ms. Returns 0 during a capture, while another thread plans, or if the device is too busy;
 * MDNN_FASTEST_MS if there was too little memory, since the caller's own plan should run then; and -1 if the engine cannot
 * be timed. */
double mdnn_conv_plan_time_engine(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  uint64_t plan_bytes);

/* Reports how long the caller's own runs of an engine's plan take; the plan needs `workspace_bytes`. True if nothing
 * more has to be measured: the plan was `chosen` by a search and is no slower than the measured candidates, or it is
 * far slower. mdnn_conv_plan_remember then stores the time in the database. While a thread plans, this returns false
 * and nothing is stored. */
bool mdnn_conv_plan_take_run(mdnn_conv_plan_t *plan, const mdnn_engine_offer_t *offer,
                             uint64_t workspace_bytes, const mdnn_stopwatch_times_t *times,
                             bool chosen);
void mdnn_conv_plan_remember(mdnn_conv_plan_t *plan);

#endif
