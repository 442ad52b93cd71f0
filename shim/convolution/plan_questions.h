/* Questions to a plan: its configurations, which are ready to run, and the notes that it keeps.
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

typedef struct mdnn_ready {
    const mdnn_configuration_t *configuration;
    bool deterministic;
    mdnn_ready_part_t *parts; /* configuration->part_count of them, in execution order */
    /* A split has a rival, the best undivided configuration within its workspace, if there is one,
     * and a trial unless results must repeat; otherwise NULL. */
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
/* True if the program searches and may run each of its own plans, so that these are deferred to its
 * search. */
bool mdnn_conv_plan_is_deferred(const mdnn_conv_plan_t *plan);
bool mdnn_conv_plan_has_deferred(const mdnn_conv_plan_t *plan); /* some are deferred to a search */

/* Ids of the tensors in the plans of engines; NULL if there are none. */
const mdnn_graph_uids_t *mdnn_conv_plan_uids(const mdnn_conv_plan_t *plan);

const mdnn_problem_t *mdnn_conv_plan_problem(const mdnn_conv_plan_t *plan);

/* The plan's row in the statistics. A number < 0 or beyond the capacity of the statistics means that the plan has no
 * row. */
int mdnn_conv_plan_statistics_row(const mdnn_conv_plan_t *plan);

/* The accumulator of the parts of a split; NULL if they write to the output directly. */
const mdnn_accumulator_t *mdnn_conv_plan_accumulator(const mdnn_conv_plan_t *plan);

/* Notes the workspace that Get or Find reported for `algo`, because the program expects WorkspaceSize
 * to return the same. */
void mdnn_conv_plan_announce(mdnn_conv_plan_t *plan, int algo, uint64_t workspace_bytes);
/* False, with *workspace_bytes untouched, if nothing was reported. */
bool mdnn_conv_plan_announced(const mdnn_conv_plan_t *plan, int algo, uint64_t *workspace_bytes);

/* The library may report a larger workspace to a caller of the graph API than the caller's own plan
 * takes. It gives only one such answer at a time for the same demand, until the workspace is used.
 * If the caller cannot allocate that memory, its next plans report no more than they take. */
bool mdnn_conv_plan_begin_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);
void mdnn_conv_plan_end_workspace_overcommit(mdnn_conv_plan_t *plan, const mdnn_demand_t *demand);

/* Notes that a configuration of this plan failed on the device: from now on its calls pass. */
void mdnn_conv_plan_give_up(mdnn_conv_plan_t *plan);
bool mdnn_conv_plan_is_given_up(const mdnn_conv_plan_t *plan);

/* Workspace that the user allows a convolution: the option, or no limit. */
uint64_t mdnn_workspace_limit(void);

#endif
