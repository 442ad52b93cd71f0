/* Plans: for every convolution problem that the process asks for, what was measured, the Pareto fronts
 * over workspace, and configurations ready to run (descriptors and offsets worked out).
 *
 * Plans live until the process ends. Looking one up takes one short lock. One thread plans at a time, so that
 * threads do not disturb each other's measurements, and it holds no lock meanwhile: calls of other threads run what
 * is ready, or pass, and are planned when they come again. What is published is
 * never changed: when a larger workspace admits more, a new set of fronts replaces the old one, which
 * stays valid for those who still read it.
 *
 * Who may wait for seconds: mdnn_conv_plan_for measures what it must, unless it only asks for what is known, and with
 * MDNN_CONV_PLAN_MAY_WAIT it waits behind a thread that measures, until its own problem is planned, by whomever. So
 * do mdnn_conv_plan_complete and mdnn_conv_plan_time_engine measure, which wait for nobody. All else, here and in
 * plan_questions.h and plan_engines.h, takes locks for moments at most. */
#ifndef MDNN_PLAN_H
#define MDNN_PLAN_H

#include "shim/convolution/plan_questions.h"

typedef enum mdnn_conv_plan_permission {
    MDNN_CONV_PLAN_MAY_MEASURE, /* plans if needed, unless the stream is being captured or another thread plans */
    MDNN_CONV_PLAN_MAY_WAIT, /* likewise, when the other thread has planned, unless that waits for the program: for
                           questions, whose answers hold for long */
    MDNN_CONV_PLAN_IF_KNOWN /* that good; what was deferred to a search may be measured */
} mdnn_conv_plan_permission_t;

/* The plan for the problem that `call` asks for, good for workspaces up to `limit_bytes`. NULL if the
 * call must pass; the reason is counted. */
mdnn_conv_plan_t *mdnn_conv_plan_for(const mdnn_call_t *call, uint64_t limit_bytes,
                                     mdnn_conv_plan_permission_t permission);

/* Measures what was deferred to a search, if `call` turned out to be none of it. True if anything changed;
 * two atomic reads if nothing was left. */
bool mdnn_conv_plan_complete(mdnn_conv_plan_t *plan, const mdnn_call_t *call);

#endif
