/* The structures of one problem's engines, for their own files. Only the planner uses them. */
#ifndef MDNN_ENGINES_INTERNAL_H
#define MDNN_ENGINES_INTERNAL_H

#include "shim/candidates/engines.h"

typedef struct mdnn_kept_plan {
    mdnn_engine_t engine;
    bool supported;
    mdnn_engine_plan_t made;
    struct mdnn_kept_plan *next;
} mdnn_kept_plan_t;

/* The graph of one part size, and its plans. */
typedef struct mdnn_sized_graph {
    int64_t images;
    mdnn_graph_scaling_t scaling;
    cudnnBackendDescriptor_t graph; /* NULL: cuDNN has none */
    mdnn_kept_plan_t *plans;
    struct mdnn_sized_graph *next;
} mdnn_sized_graph_t;

/* cuDNN's notes about an engine, which are the same for all of its knobs and for all sizes. */
typedef struct mdnn_judged_engine {
    int32_t id;
    bool admissible;
    mdnn_engine_offer_t offer;
    struct mdnn_judged_engine *next;
} mdnn_judged_engine_t;

struct mdnn_engines {
    const mdnn_cudnn_t *cudnn;
    const mdnn_problem_t *problem;
    mdnn_graph_uids_t uids;
    bool all;
    bool first_only; /* short lists */
    mdnn_sized_graph_t *graphs;
    mdnn_judged_engine_t *judged;
};

/* The graph of a part size, made at the first request. UNSUPPORTED if cuDNN has none. */
mdnn_status_t mdnn_engines_graph(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                 mdnn_graph_scaling_t scaling, mdnn_sized_graph_t **found);

#endif
