/* What a plan says to those who use it: its configurations, ready to run, and what is noted with it.
 *
 * None of these waits, takes a lock, allocates or calls a library: any thread, at any time, also while a stream is
 * captured and while another thread plans. What a set of fronts holds is immutable and stays until the process ends. */
#ifndef MDNN_PLAN_QUESTIONS_H
#define MDNN_PLAN_QUESTIONS_H

#include "optimizer/knapsack.h"
#include "optimizer/wr.h"
#include "shim/candidates/slices.h"
#include "optimizer/search.h"
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

/* Fastest configuration that satisfies `demand`; NULL if none does. */
const mdnn_ready_t *mdnn_conv_plan_best(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* One line for people. */
const char *mdnn_conv_plan_title(const mdnn_conv_plan_t *plan);

/* The configurations that satisfy `demand` but for its workspace, workspace ascending, as input of
 * Workspace Division: fills at most `capacity`, returns how many there are. */
size_t mdnn_conv_plan_items(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                            mdnn_knapsack_item_t *items, size_t capacity);

/* Least workspace that a configuration for `demand` takes; UINT64_MAX if there is none. */
uint64_t mdnn_conv_plan_least_bytes(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* What callers do with the problem. */
mdnn_search_t *mdnn_conv_plan_search(mdnn_conv_plan_t *plan);
/* True if the program searches, and may run each of its own plans: they are deferred to its search. */
bool mdnn_conv_plan_is_deferred(const mdnn_conv_plan_t *plan);
bool mdnn_conv_plan_has_deferred(const mdnn_conv_plan_t *plan); /* something was left to one */

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
