/* Engines of cuDNN's graph API for one problem: for parts of a given size, plans ready to execute (engine_list.h says
 * which engines there are). A part's graph is the problem's with fewer images and, for the later
 * parts of backward filter, another beta, which in this API belongs to the plan.
 *
 * Everything is made at the first request and kept as long as the mdnn_engines_t. Not thread-safe:
 * the planner's alone (planning.h). Plans that were given out may be executed by any thread. */
#ifndef MDNN_ENGINES_H
#define MDNN_ENGINES_H

#include "shim/candidates/engine_identity.h"

/* What a part of the output is scaled with. */
typedef enum mdnn_graph_scaling {
    MDNN_SCALING_CALLER, /* the problem's alpha and beta */
    MDNN_SCALING_ADD,    /* the problem's alpha, beta 1: later parts of backward filter */
    MDNN_SCALING_APART,  /* the problem's alpha, beta 0: parts that an accumulator adds up */
    MDNN_SCALING_COUNT
} mdnn_graph_scaling_t;

/* Unique ids of the tensors in every graph of ours. */
typedef struct mdnn_graph_uids {
    int64_t x, w, y, z, bias;
} mdnn_graph_uids_t;

typedef struct mdnn_engines mdnn_engines_t;

/* For `problem` (borrowed; stays valid). `uids`: those of the caller's graph, so that its own variant
 * packs fit our plans; NULL for a legacy caller. */
mdnn_status_t mdnn_engines_create(const mdnn_cudnn_t *cudnn, const mdnn_problem_t *problem,
                                  const mdnn_graph_uids_t *uids, mdnn_engines_t **engines);
void mdnn_engines_destroy(mdnn_engines_t *engines); /* NULL accepted */

const mdnn_graph_uids_t *mdnn_engines_uids(const mdnn_engines_t *engines);

/* What cuDNN says of engine `id` for a part of `images` images, into *offer but for its identity: of
 * an engine that somebody else names. UNSUPPORTED if cuDNN does not know it here, or its numerics are
 * weaker than the problem allows. */
mdnn_status_t mdnn_engines_judge(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                 int32_t id, mdnn_engine_offer_t *offer);

/* UNSUPPORTED if the engine cannot run this part; that is remembered too. *plan stays valid. */
mdnn_status_t mdnn_engines_plan(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, const mdnn_engine_t *engine,
                                const mdnn_engine_plan_t **plan);

/* `plan` is needed from now on ... */
void mdnn_engines_keep(const mdnn_engine_plan_t *plan);
/* ... and those that nobody keeps are destroyed: cuDNN's plans are large. */
void mdnn_engines_sweep(mdnn_engines_t *engines);

/* Executes a plan of ours on the handle's stream. A NULL z or bias is left out of the pack. */
typedef struct mdnn_engine_operands {
    void *x, *w, *y, *z, *bias, *workspace;
} mdnn_engine_operands_t;
cudnnStatus_t mdnn_engine_execute(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan, const mdnn_graph_uids_t *uids,
                                  const mdnn_engine_operands_t *operands);

#endif
