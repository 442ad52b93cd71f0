/* What we know about an execution plan of the program: the convolution that it computes, the engine that the program
 * chose, what that choice says about the results that the program accepts, and how such a call is made. Made once per
 * plan. A search here is the program's own timing of several plans for one convolution; "deferred" to it means that we
 * take the times from there instead of measuring (optimizer/search.h). */
#ifndef MDNN_GRAPH_RECORD_H
#define MDNN_GRAPH_RECORD_H

#include "shim/graph/graph_json.h"
#include "shim/convolution/plan.h"
#include "shim/real/stopwatch.h"

typedef struct mdnn_graph_record {
    const mdnn_cudnn_t *cudnn;
    mdnn_graph_t graph;
    mdnn_graph_uids_t uids;
    mdnn_engine_offer_t engine; /* of the program's own plan */
    bool engine_known;          /* `engine` can be made again from its identity */
    uint64_t own_bytes;         /* workspace that the program's plan takes */
    uint64_t limit_bytes;       /* workspace up to which candidates are useful to the program */
    /* Measured time of the program's plan; 0: not known; MDNN_FASTEST_MS: there was too little memory for that; < 0: it
     * cannot be measured. */
    _Atomic double own_ms;
    _Atomic int runs;       /* of the plan; counted until a search must be over */
    _Atomic bool probed;    /* the plan ran in the program's own search without being timed */
    mdnn_stopwatch_t watch; /* times the program's runs of the plan */
    /* The plan that counts the engine (mdnn_conv_plan_engine_ref); NULL: none. */
    _Atomic(mdnn_conv_plan_t *) counted_in;
    /* The program has, or can get, a plan that is as good and takes no more workspace. */
    _Atomic bool expendable;
    _Atomic(mdnn_conv_plan_t *)
        planned; /* our plan for this convolution, once it was looked up; otherwise NULL */
    /* Scalars as a legacy call takes them. */
    float alpha_float, beta_float;
    double alpha_double, beta_double;
} mdnn_graph_record_t;

/* Reads a finalised plan. NULL if the plan must go to cuDNN unchanged: its graph is not recognised, which is counted by
 * kind, or memory is short. */
mdnn_graph_record_t *mdnn_graph_record_create(const mdnn_cudnn_t *cudnn,
                                              cudnnBackendDescriptor_t plan);
void mdnn_graph_record_destroy(mdnn_graph_record_t *record); /* NULL accepted */

/* The call that a plan asks for, without data: `record` is borrowed. */
mdnn_call_t mdnn_graph_call(const mdnn_graph_record_t *record, cudnnHandle_t handle);

/* Keeps `planned` for all later calls of this plan. Any thread. */
void mdnn_graph_record_settle(mdnn_graph_record_t *record, mdnn_conv_plan_t *planned);
/* The program runs this plan or gives it up, so the plan does not wait for its first use any
 * more. */
void mdnn_graph_record_leave(mdnn_graph_record_t *record);
/* Called before the program runs this plan: measures what was deferred to a search, if this run is not part of one. */
void mdnn_graph_record_run(mdnn_graph_record_t *record, mdnn_conv_plan_t *planned,
                           const mdnn_call_t *call);
/* Called after mdnn_graph_record_run: times the plan's engine if that was not done yet; in a search only if the plan
 * outlives the search and the program's own runs do not show whether anything is faster. */
void mdnn_graph_record_time_own(mdnn_graph_record_t *record, const mdnn_call_t *call);
/* Runs the program's own plan, and times it if wanted. */
cudnnStatus_t mdnn_graph_record_execute_own(mdnn_graph_record_t *record, const mdnn_cudnn_t *cudnn,
                                            cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack);
/* True if our configuration `ready` is not clearly faster than the program's own plan, which then runs if it may: the
 * choice between equals is the program's, and its own search must time the plans that it tries. */
bool mdnn_graph_prefers_own(const mdnn_graph_record_t *record, const mdnn_ready_t *ready);

/* The demand of a caller that chose this plan: at most `workspace_bytes`, and results that are as repeatable, direct
 * and strict as those of its engine, or more so (direct only if convolution.numerics asks for it). */
mdnn_demand_t mdnn_graph_demand(const mdnn_graph_record_t *record, uint64_t workspace_bytes);

#endif
