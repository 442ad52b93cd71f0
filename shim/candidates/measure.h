/* Costs of micro-batches by measurement: a cost source for the optimizer.
 *
 * Every algorithm, in the caller's math type and in plain FMA (never less precise), and every
 * engine that the heuristics of the graph API offer for a part's size, is timed on scratch memory
 * with random data. It runs there as it will in the program: on slices that are cut in the same way,
 * with beta 1 for the later parts of backward filter, and back to back. If the output has gaps, the
 * only engine is the caller's own. The times are kept with the problem, so that under a later, larger
 * workspace limit only the candidates that it newly admits are timed. "Deferred" candidates are those
 * whose times come from the program's own search, or that a later run may want (candidate_table.h). */
#ifndef MDNN_MEASURE_H
#define MDNN_MEASURE_H

#include "optimizer/micro_batch.h"
#include "shim/candidates/candidate_table.h"
#include "shim/candidates/slices.h"

typedef struct mdnn_measurement mdnn_measurement_t;

typedef struct mdnn_measure_request {
    const mdnn_accumulator_t
        *accumulator;     /* for parts smaller than the batch; NULL if none is needed */
    uint64_t limit_bytes; /* candidates with more workspace are left out */
    int64_t repeats;      /* timed groups of each candidate; their median counts */
    bool dense;           /* nearly every size will be asked for */
    /* Measures only what a first iteration has time for: the legacy algorithms that cuDNN itself expects to be fast,
     * and parts only if a candidate for the whole batch was left out because of its workspace. */
    bool brief;
    /* The caller runs its own plans. A few engines are measured, so that something good is there immediately. The
     * others are deferred to the caller, as are those that were deferred to an earlier search. */
    bool caller_searches;
    /* Only a few candidates for the whole batch are measured, of those that compute as repeatably and as precisely as
     * `callers_own`. If none of them fits, a few for parts are, and only if none of these fits either, all. The others
     * are deferred. */
    bool few;
    bool divides;            /* the batch may be divided */
    bool roles_differ;       /* then the first part and the others have candidates of their own */
    mdnn_engines_t *engines; /* NULL: no candidates from the graph API */
    /* The engine of the caller's own plan, which is a candidate for the whole batch even if the heuristics do not offer
     * it; NULL if there is none. */
    const mdnn_engine_offer_t *callers_own;
} mdnn_measure_request_t;

/* Begins a session for `call`, which asks for `problem`. The session allocates when it first needs memory, and then
 * waits until the caller's stream is idle; if that takes too long, requests for costs end with BUSY. Must not run
 * during stream capture. There is one session at a time, and the caller ends it. */
mdnn_status_t mdnn_measurement_begin(const mdnn_call_t *call, const mdnn_problem_t *problem,
                                     mdnn_slices_t *slices, mdnn_candidate_table_t *table,
                                     const mdnn_measure_request_t *request,
                                     mdnn_measurement_t **measurement);
void mdnn_measurement_end(mdnn_measurement_t *measurement); /* NULL accepted; frees the scratch */

/* Times one engine of any origin on the whole batch and enters it into the table. `plan`, whose tensors have the ids
 * `uids`, is an existing plan of the engine; NULL if there is none. */
mdnn_status_t mdnn_measurement_time_engine(mdnn_measurement_t *measurement,
                                           const mdnn_engine_offer_t *offer,
                                           const mdnn_engine_plan_t *plan,
                                           const mdnn_graph_uids_t *uids);

/* The session as a cost source; valid until its end. */
mdnn_cost_source_t mdnn_measurement_source(mdnn_measurement_t *measurement);

#endif
