/* Identifies the engine of cuDNN's graph API that a configuration names, with its knobs, and reads cuDNN's notes about
 * it: whether a problem admits it, and the properties of its results. Any thread may call this. */
#ifndef MDNN_ENGINE_IDENTITY_H
#define MDNN_ENGINE_IDENTITY_H

#include "config/status.h"
#include "optimizer/micro_batch.h"
#include "optimizer/problem.h"
#include "shim/real/real.h"

typedef struct mdnn_engine_offer {
    mdnn_engine_t engine;
    bool deterministic, direct, strict; /* as in mdnn_cost_t */
    bool compiled; /* compiled when it is planned, for each shape; also false if a database names
                    * it */
    bool fallback; /* one of cuDNN's fallback engines; also false if a database names it */
} mdnn_engine_offer_t;

typedef struct mdnn_engine_plan {
    cudnnBackendDescriptor_t plan;
    uint64_t workspace_bytes;
    bool kept;
} mdnn_engine_plan_t;

/* Reads the identity of a finalised engine configuration, and its engine's numerical and behaviour
 * notes as bits (*notes_known: they could be read; else both are 0). UNSUPPORTED for unknown notes, and
 * for more knobs, or larger values, than an mdnn_engine_t holds. */
mdnn_status_t mdnn_engine_read(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t configuration,
                               mdnn_engine_t *engine, uint32_t *notes, uint32_t *behaviour,
                               bool *notes_known);

/* Reads the notes of an engine for this problem: everything in an offer except the identity. */
void mdnn_engine_judge(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour,
                       mdnn_engine_offer_t *offer);

/* The notes of an engine descriptor as bits. False, with both 0, if they cannot be read, which differs from an engine
 * without notes. */
bool mdnn_engine_read_notes(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t engine,
                            uint32_t *notes, uint32_t *behaviour);

/* Whether the results are never weaker than the caller accepts: rounded inputs and reduced precision are admissible
 * only where the caller accepted them. */
bool mdnn_engine_is_admissible(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour);

/* Numerical notes, other than tensor cores, that say that results are weaker: mdnn_problem_t's
 * weak_notes. */
enum {
    MDNN_NOTES_WEAK = 1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                      1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION
};

#endif
