/* Plans. A plan has, for one convolution problem that the process asks for, its measurements, the Pareto fronts over
 * workspace, and configurations that are ready to run (with descriptors and offsets).
 *
 * Plans live until the process ends. Looking one up takes one short lock. One thread plans at a time, so that threads
 * do not disturb each other's measurements, and it holds no lock while it plans: calls of other threads run what is
 * ready, or pass, and are planned when they come again. A published set of fronts never changes: when a larger
 * workspace admits more, a new set replaces the old one, which stays valid for threads that still read it.
 *
 * These functions may take seconds: mdnn_conv_plan_for measures what it must, unless the caller wants only what is
 * known; with MDNN_CONV_PLAN_MAY_WAIT it also waits for a thread that measures, until some thread has planned its
 * problem. mdnn_conv_plan_complete and mdnn_conv_plan_time_engine measure as well, but wait for no other thread. All
 * other functions, here and in plan_questions.h and plan_engines.h, at most take locks for moments. */
#ifndef MDNN_PLAN_H
#define MDNN_PLAN_H

#include "shim/convolution/plan_questions.h"

typedef enum mdnn_conv_plan_permission {
    /* Plans if needed, unless the stream is being captured or another thread plans. */
    MDNN_CONV_PLAN_MAY_MEASURE,
    MDNN_CONV_PLAN_MAY_WAIT, /* the same, after the other thread has planned, unless that thread
                              * waits for the program: for questions, whose answers hold for long */
    /* NULL unless the problem was planned for such workspaces. If it was, like MAY_MEASURE: deferred candidates may be
     * measured */
    MDNN_CONV_PLAN_IF_KNOWN
} mdnn_conv_plan_permission_t;

/* The plan for the problem of `call`, for workspaces up to `limit_bytes`. NULL if the call must
 * pass; the reason is counted. */
mdnn_conv_plan_t *mdnn_conv_plan_for(const mdnn_call_t *call, uint64_t limit_bytes,
                                     mdnn_conv_plan_permission_t permission);

/* Measures what was deferred to a search if `call` turned out not to be part of one. True if anything changed; costs
 * two atomic reads if nothing was deferred. */
bool mdnn_conv_plan_complete(mdnn_conv_plan_t *plan, const mdnn_call_t *call);

#endif
