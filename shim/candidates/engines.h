/* Engines of cuDNN's graph API for one convolution problem, with plans, ready to execute, for parts of a given number
 * of images (shim/candidates/engine_list.h lists the engines). A part's graph is that of the problem with fewer images
 * and, for the later parts of backward filter, another beta, since beta belongs to the plan in this API.
 *
 * Everything is made at the first request, and kept as long as the mdnn_engines_t exists. Not thread-safe: only the
 * thread that plans uses it (shim/convolution/planning.h). Any thread may execute a plan that it got. */
#ifndef MDNN_ENGINES_H
#define MDNN_ENGINES_H

#include "shim/candidates/engine_identity.h"

/* The factors alpha and beta in the plan of a part. */
typedef enum mdnn_graph_scaling {
    MDNN_SCALING_CALLER, /* the problem's alpha and beta */
    MDNN_SCALING_ADD,    /* the problem's alpha, beta 1: later parts of backward filter */
    MDNN_SCALING_APART,  /* the problem's alpha, beta 0: parts that an accumulator adds up */
    MDNN_SCALING_COUNT
} mdnn_graph_scaling_t;

/* Unique ids of the tensors in our graphs. */
typedef struct mdnn_graph_uids {
    int64_t x, w, y, z, bias;
} mdnn_graph_uids_t;

typedef struct mdnn_engines mdnn_engines_t;

/* Makes the engines of `problem` (borrowed; must stay valid). `uids` are those of the caller's
 * graph, so that its own variant packs fit our plans; NULL for a legacy caller. */
mdnn_status_t mdnn_engines_create(const mdnn_cudnn_t *cudnn, const mdnn_problem_t *problem,
                                  const mdnn_graph_uids_t *uids, mdnn_engines_t **engines);
void mdnn_engines_destroy(mdnn_engines_t *engines); /* NULL accepted */

const mdnn_graph_uids_t *mdnn_engines_uids(const mdnn_engines_t *engines);

/* Fills *offer, except for the identity, with what cuDNN says about engine `id` for a part of `images` images; for an
 * engine that did not come from a list. UNSUPPORTED if cuDNN does not know it here, or if its numerics are weaker than
 * the problem allows. */
mdnn_status_t mdnn_engines_judge(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                 int32_t id, mdnn_engine_offer_t *offer);

/* Makes the plan for a part of `images` images, or finds it. UNSUPPORTED if the engine cannot run this part; that is
 * remembered, too. *plan is valid until mdnn_engines_sweep destroys it. */
mdnn_status_t mdnn_engines_plan(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, const mdnn_engine_t *engine,
                                const mdnn_engine_plan_t **plan);

/* Marks `plan` as needed, for mdnn_engines_sweep. */
void mdnn_engines_keep(const mdnn_engine_plan_t *plan);
/* Destroys the plans that are not marked, since cuDNN's plans are large. */
void mdnn_engines_sweep(mdnn_engines_t *engines);

/* Executes a plan of ours on the handle's stream. A NULL z or bias is left out of the pack. */
typedef struct mdnn_engine_operands {
    void *x, *w, *y, *z, *bias, *workspace;
} mdnn_engine_operands_t;
cudnnStatus_t mdnn_engine_execute(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan, const mdnn_graph_uids_t *uids,
                                  const mdnn_engine_operands_t *operands);

#endif
