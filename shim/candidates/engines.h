/* Engines of cuDNN's graph API for one problem: what the heuristics offer for a part of a given size,
 * and plans ready to execute. A part's graph is the problem's with fewer images and, for the later
 * parts of backward filter, another beta, which in this API belongs to the plan.
 *
 * Everything is made at the first request and kept as long as the mdnn_engines_t. Not thread-safe:
 * the planner's alone (planning.h). Plans that were given out may be executed by any thread. */
#ifndef MDNN_ENGINES_H
#define MDNN_ENGINES_H

#include "config/status.h"
#include "optimizer/micro_batch.h"
#include "optimizer/problem.h"
#include "shim/real/real.h"

/* What a part of the output is scaled with. */
typedef enum mdnn_graph_scaling {
    MDNN_SCALING_CALLER, /* the problem's alpha and beta */
    MDNN_SCALING_ADD,    /* the problem's alpha, beta 1: later parts of backward filter */
    MDNN_SCALING_APART,  /* the problem's alpha, beta 0: parts that an accumulator adds up */
    MDNN_SCALING_COUNT
} mdnn_graph_scaling_t;

typedef struct mdnn_engine_offer {
    mdnn_engine_t engine;
    bool deterministic, direct, strict; /* as in mdnn_cost_t */
    bool compiled; /* when it is planned, for each shape; false also where a database names it */
    bool fallback; /* cuDNN falls back to it; likewise */
} mdnn_engine_offer_t;

typedef struct mdnn_engine_plan {
    cudnnBackendDescriptor_t plan;
    uint64_t workspace_bytes;
    bool kept;
} mdnn_engine_plan_t;

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

/* Lists go on behind the heuristics' offers, as long as there is room: every engine there is with its
 * defaults, then all engines, taking turns, with one knob set to another value. Only those that can be
 * planned, so listing takes as long as planning them. */
void mdnn_engines_offer_all(mdnn_engines_t *engines);

/* Lists end early: they have as many engines as a program's own search looks at. */
void mdnn_engines_offer_first(mdnn_engines_t *engines);

const mdnn_graph_uids_t *mdnn_engines_uids(const mdnn_engines_t *engines);

/* What the heuristics offer for `images` images, best first, without doubles and without engines
 * whose numerics are weaker than the problem allows: at most `capacity` of them. UNSUPPORTED if
 * cuDNN has no such graph. */
mdnn_status_t mdnn_engines_list(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, mdnn_engine_offer_t *offers,
                                size_t capacity, size_t *count);

/* Only those of the first list: for the few engines that it falls back to cuDNN 9 takes several times as
 * long. */
mdnn_status_t mdnn_engines_list_instant(mdnn_engines_t *engines, cudnnHandle_t handle,
                                        int64_t images, mdnn_graph_scaling_t scaling,
                                        mdnn_engine_offer_t *offers, size_t capacity,
                                        size_t *count);

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

/* Reads the identity of a finalised engine configuration, and its engine's numerical and behaviour
 * notes as bits (*notes_known: they could be read; else both are 0). UNSUPPORTED for unknown notes, and
 * for more knobs, or larger values, than an mdnn_engine_t holds. */
mdnn_status_t mdnn_engine_read(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t configuration,
                               mdnn_engine_t *engine, uint32_t *notes, uint32_t *behaviour,
                               bool *notes_known);

/* What its notes say of an engine for this problem: everything in an offer but the identity. */
void mdnn_engine_judge(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour,
                       mdnn_engine_offer_t *offer);

/* Numerical notes that say results are weaker, beside tensor cores: mdnn_problem_t's weak_notes. */
enum {
    MDNN_NOTES_WEAK = 1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                      1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION
};

/* Executes a plan of ours on the handle's stream. A NULL z or bias is left out of the pack. */
typedef struct mdnn_engine_operands {
    void *x, *w, *y, *z, *bias, *workspace;
} mdnn_engine_operands_t;
cudnnStatus_t mdnn_engine_execute(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan, const mdnn_graph_uids_t *uids,
                                  const mdnn_engine_operands_t *operands);

#endif
