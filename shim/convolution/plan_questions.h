/* Questions to a plan. A plan belongs to one convolution problem: it has the configurations that were measured for it,
 * ready to run, and keeps some notes. A configuration divides the batch into parts and names what computes each
 * (optimizer/micro_batch.h); a front is the set of configurations that no other beats in both time and workspace; a
 * plan has one for each combination of demands, and the fronts that were made together are a set.
 *
 * None of these functions waits, takes a lock, allocates or calls a library. Any thread may call them at any time, even
 * while a stream is captured or another thread plans. A set of fronts is immutable and stays until the process ends. */
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

/* A configuration that is ready to run. */
typedef struct mdnn_ready {
    const mdnn_configuration_t *configuration;
    bool deterministic;
    mdnn_ready_part_t *parts; /* configuration->part_count of them, in execution order */
    /* Of a split: the best undivided configuration within its workspace, and the trial that compares the two while the
     * program runs (shim/convolution/trial.h). NULL if there is no such configuration; the trial also if results must
     * repeat. */
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

/* The problem in one line, for people. */
const char *mdnn_conv_plan_title(const mdnn_conv_plan_t *plan);

/* The configurations that satisfy `demand`, whatever their workspace, with the workspace ascending,
 * as input of Workspace Division. Fills at most `capacity` and returns how many there are. */
size_t mdnn_conv_plan_items(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                            mdnn_knapsack_item_t *items, size_t capacity);

/* The least workspace that a configuration for `demand` takes; UINT64_MAX if there is none. */
uint64_t mdnn_conv_plan_least_bytes(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* What is known about whether the callers of the problem search for plans themselves. */
mdnn_search_t *mdnn_conv_plan_search(mdnn_conv_plan_t *plan);
/* True if the program searches and may run each of its own plans, so that their engines are deferred to its search: the
 * times come from there. */
bool mdnn_conv_plan_is_deferred(const mdnn_conv_plan_t *plan);
/* Whether some engines of the plan are deferred to a search. */
bool mdnn_conv_plan_has_deferred(const mdnn_conv_plan_t *plan);

/* Ids of the tensors in the plans of engines; NULL if there are none. */
const mdnn_graph_uids_t *mdnn_conv_plan_uids(const mdnn_conv_plan_t *plan);

const mdnn_problem_t *mdnn_conv_plan_problem(const mdnn_conv_plan_t *plan);

/* The plan's row in the statistics. A number < 0 or beyond the capacity of the statistics means that the plan has no
 * row. */
int mdnn_conv_plan_statistics_row(const mdnn_conv_plan_t *plan);

/* The accumulator of the parts of a split; NULL if they write to the output directly. */
const mdnn_accumulator_t *mdnn_conv_plan_accumulator(const mdnn_conv_plan_t *plan);

/* Notes the workspace that cudnnGet...Algorithm or cudnnFind...Algorithm reported for `algo`, because the program
 * expects that cudnnGet...WorkspaceSize returns the same. */
void mdnn_conv_plan_announce(mdnn_conv_plan_t *plan, int algo, uint64_t workspace_bytes);
/* The workspace that was noted for `algo`; false, with *workspace_bytes untouched, if none was. */
bool mdnn_conv_plan_announced(const mdnn_conv_plan_t *plan, int algo, uint64_t *workspace_bytes);

/* The library may report a larger workspace to a caller of the graph API than the caller's own plan takes. begin
 * returns true if it may, and then false for the same demand until end is called, which happens when that workspace is
 * used. So if the caller cannot allocate it, its next plans report no more than they take. */
bool mdnn_conv_plan_begin_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);
void mdnn_conv_plan_end_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* Notes that a configuration of this plan failed on the device: from now on its calls go to cuDNN unchanged. */
void mdnn_conv_plan_give_up(mdnn_conv_plan_t *plan);
bool mdnn_conv_plan_is_given_up(const mdnn_conv_plan_t *plan);

/* Workspace that the user allows a convolution: the option, or no limit. */
uint64_t mdnn_workspace_limit(void);

#endif
