/* Plans: for every convolution problem that the process asks for, what was measured, the Pareto fronts
 * over workspace, and configurations ready to run (descriptors and offsets worked out).
 *
 * Plans live until the process ends. Looking one up takes one short lock. One thread plans at a time, so that
 * threads do not disturb each other's measurements, and it holds no lock meanwhile: calls of other threads run what
 * is ready, or pass, and are planned when they come again. What is published is
 * never changed: when a larger workspace admits more, a new set of fronts replaces the old one, which
 * stays valid for those who still read it. */
#ifndef MDNN_PLAN_H
#define MDNN_PLAN_H

#include "optimizer/knapsack.h"
#include "optimizer/wr.h"
#include "shim/convolution/search.h"
#include "shim/candidates/slices.h"
#include "shim/real/stopwatch.h"
#include "shim/convolution/trial.h"

typedef struct mdnn_ready_part {
    int32_t algo;
    const mdnn_engine_plan_t *engine_plan; /* NULL: a legacy algorithm */
    cudnnConvolutionDescriptor_t convolution;
    int64_t first_image;
    const mdnn_slice_descriptors_t *descriptors;
} mdnn_ready_part_t;

typedef struct mdnn_ready {
    const mdnn_configuration_t *configuration;
    bool deterministic;
    mdnn_ready_part_t *parts; /* configuration->part_count of them, in execution order */
    /* A split has the best undivided configuration within its workspace as its rival, if there is one,
     * and a trial unless results must repeat; else NULL. */
    mdnn_trial_t *trial;
    struct mdnn_ready *rival;
} mdnn_ready_t;

typedef struct mdnn_conv_plan mdnn_conv_plan_t;

/* What a configuration must satisfy. */
typedef struct mdnn_demand {
    uint64_t workspace_bytes; /* at most this much */
    bool deterministic;       /* same result in every run */
    bool direct;              /* no FFT, no Winograd */
    bool strict; /* inputs are not rounded, although the problem's math type allows it */
} mdnn_demand_t;

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

/* Fastest configuration that satisfies `demand`; NULL if none does. No lock, no allocation. */
const mdnn_ready_t *mdnn_conv_plan_best(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* One line for people. */
const char *mdnn_conv_plan_title(const mdnn_conv_plan_t *plan);

/* The configurations that satisfy `demand` but for its workspace, workspace ascending, as input of
 * Workspace Division: fills at most `capacity`, returns how many there are. No lock. */
size_t mdnn_conv_plan_items(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                            mdnn_knapsack_item_t *items, size_t capacity);

/* Least workspace that a configuration for `demand` takes; UINT64_MAX if there is none. No lock. */
uint64_t mdnn_conv_plan_least_bytes(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

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

/* What callers do with the problem. */
mdnn_search_t *mdnn_conv_plan_search(mdnn_conv_plan_t *plan);
/* True if the program searches, and may run each of its own plans: they are deferred to its search. */
bool mdnn_conv_plan_is_deferred(const mdnn_conv_plan_t *plan);
bool mdnn_conv_plan_has_deferred(const mdnn_conv_plan_t *plan); /* something was left to one */
/* Measures what was deferred to a search, if `call` turned out to be none of it. True if anything changed;
 * two atomic reads if nothing was left. */
bool mdnn_conv_plan_complete(mdnn_conv_plan_t *plan, const mdnn_call_t *call);

/* Ids of the tensors in the plans of engines; NULL if there are none. */
const mdnn_graph_uids_t *mdnn_conv_plan_uids(const mdnn_conv_plan_t *plan);

const mdnn_problem_t *mdnn_conv_plan_problem(const mdnn_conv_plan_t *plan);

/* Its row in the statistics; none there: < 0, or beyond their capacity. */
int mdnn_conv_plan_statistics_row(const mdnn_conv_plan_t *plan);

/* What the parts of a split add up with; NULL if they write to the output directly. */
const mdnn_accumulator_t *mdnn_conv_plan_accumulator(const mdnn_conv_plan_t *plan);

/* Workspace that Get or Find last told the host for `algo`: what it will expect of WorkspaceSize. */
void mdnn_conv_plan_announce(mdnn_conv_plan_t *plan, int algo, uint64_t workspace_bytes);
/* False, and *workspace_bytes untouched, if nothing was told. */
bool mdnn_conv_plan_announced(const mdnn_conv_plan_t *plan, int algo, uint64_t *workspace_bytes);

/* For callers of the graph API, who may be told of more workspace than their own plan takes: at most
 * one such answer at a time for the same demand, until it was used. If that memory is not to be had,
 * the caller's next plans are told of no more than they take, as without us. */
bool mdnn_conv_plan_begin_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);
void mdnn_conv_plan_end_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* A configuration of this plan failed on the device: from now on its calls pass. */
void mdnn_conv_plan_give_up(mdnn_conv_plan_t *plan);
bool mdnn_conv_plan_is_given_up(const mdnn_conv_plan_t *plan);

/* Workspace that the user allows a convolution: the option, or no limit. */
uint64_t mdnn_workspace_limit(void);

#endif
