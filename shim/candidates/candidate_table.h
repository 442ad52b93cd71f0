/* All known costs of one convolution problem. There is a row for every size of a part (a micro-batch) and its role
 * (optimizer/micro_batch.h), and in it a candidate for every algorithm of the legacy API in every admissible math type
 * and for every engine of the graph API. Measurements fill the table; it is loaded from and stored in the database
 * (optimizer/database.h). Deferred candidates are those that the program's own search for the fastest plan times, so
 * that we take their times from there, and those beyond the few that a caller wanted. Not thread-safe: only the thread that plans uses it
 * (shim/convolution/planning.h). */
#ifndef MDNN_CANDIDATE_TABLE_H
#define MDNN_CANDIDATE_TABLE_H

#include "optimizer/cost_memory.h"
#include "optimizer/problem.h"
#include "shim/candidates/engines.h"

enum {
    MDNN_CANDIDATE_ALGOS = 8,
    MDNN_CANDIDATE_LEGACY = 2 * MDNN_CANDIDATE_ALGOS, /* the caller's math type, then FMA */
    MDNN_CANDIDATE_ENGINES = 112,
    MDNN_CANDIDATES = MDNN_CANDIDATE_LEGACY + MDNN_CANDIDATE_ENGINES
};

typedef enum mdnn_candidate_state {
    MDNN_CANDIDATE_UNKNOWN,
    MDNN_CANDIDATE_UNSUPPORTED,
    MDNN_CANDIDATE_EXCLUDED, /* its workspace was above the limit, or could not be allocated */
    /* An engine that was not tried here, since it ran within the limit at a larger size. */
    MDNN_CANDIDATE_POSTPONED,
    /* Not tried here, since it was deferred to a caller's own search, or since a caller wanted a few candidates only.
     * It is measured for callers that want all. */
    MDNN_CANDIDATE_DEFERRED,
    MDNN_CANDIDATE_TIMED
} mdnn_candidate_state_t;

typedef struct mdnn_candidate {
    mdnn_candidate_state_t state;
    mdnn_cost_t cost;
} mdnn_candidate_t;

typedef struct mdnn_cost_row {
    int64_t images;
    mdnn_part_role_t role;
    bool changed; /* since it was last remembered */
    bool listed;  /* its engines are known from cuDNN's heuristics or from a database */
    bool partly;  /* `listed`, but engines that would be deferred anyway may be missing */
    bool offered[MDNN_CANDIDATE_ENGINES]; /* by the heuristics for this size */
    /* Owned by the table. Candidates beyond `capacity` are UNKNOWN, since most rows need few. */
    int capacity;
    mdnn_candidate_t *candidates;
    struct mdnn_cost_row *next;
} mdnn_cost_row_t;

typedef struct mdnn_candidate_table mdnn_candidate_table_t;

/* A caller's own run of an engine on the whole batch. */
typedef struct mdnn_own_run {
    int64_t images;
    uint64_t workspace_bytes;
    double most_ms;   /* the engine takes no longer than this */
    double device_ms; /* it takes no less than this, even if the host was slow to make the call */
    bool chosen;      /* a search preferred it to everything else that it tried */
    double margin; /* like adoption_margin: a choice that is slower by no more than this stands */
} mdnn_own_run_t;

mdnn_status_t mdnn_candidate_table_create(mdnn_candidate_table_t **table);
void mdnn_candidate_table_destroy(mdnn_candidate_table_t *table);
/* Smallest workspace above `limit_bytes` of a candidate that was left out; UINT64_MAX if none was.
 * A limit below it admits nothing new. */
uint64_t mdnn_candidate_table_next_limit(const mdnn_candidate_table_t *table, uint64_t limit_bytes);

/* Takes what `memory`, filled from a database, has about `problem`. For a size and role that is there, nothing needs to
 * be measured, except for candidates without a time. */
mdnn_status_t mdnn_candidate_table_load(mdnn_candidate_table_t *table,
                                        const mdnn_problem_t *problem,
                                        const mdnn_cost_memory_t *memory);
/* Puts every size and role that changed since the last call into `memory`, marked as new (not in the database yet);
 * *any says whether there was one. */
mdnn_status_t mdnn_candidate_table_remember(mdnn_candidate_table_t *table,
                                            mdnn_cost_memory_t *memory, bool *any);

/* Whether a candidate of any size was deferred, or not even listed. */
bool mdnn_candidate_table_has_deferred(const mdnn_candidate_table_t *table);

/* The row of a size and role, which is made if it does not exist; NULL if memory is short. Stays
 * valid. */
mdnn_cost_row_t *mdnn_candidate_table_row(mdnn_candidate_table_t *table, int64_t images,
                                          mdnn_part_role_t role);
/* Candidate `index` of a row, for writing; NULL if memory is short. Valid until the next call for
 * this row. */
mdnn_candidate_t *mdnn_cost_row_candidate(mdnn_cost_row_t *row, int index);
/* The same for reading. */
const mdnn_candidate_t *mdnn_cost_row_look(const mdnn_cost_row_t *row, int index);
/* Whether an engine is known to run at this row's size and role, or was not tried there yet. */
bool mdnn_cost_row_has_engines(const mdnn_cost_row_t *row);
bool mdnn_cost_row_runs(const mdnn_cost_row_t *row);         /* something was timed */
bool mdnn_cost_row_has_deferred(const mdnn_cost_row_t *row); /* a candidate was deferred */
/* The best known time at this size; a huge number before the first. */
double mdnn_cost_row_best_ms(const mdnn_cost_row_t *row);

/* The index of the candidate for an engine, which is made if it does not exist; -1 if the table has
 * no room. */
int mdnn_candidate_table_engine(mdnn_candidate_table_t *table, const mdnn_engine_offer_t *offer);
/* The engine of candidate `index`; NULL for an algorithm of the legacy API and for none. */
const mdnn_engine_offer_t *mdnn_candidate_engine(const mdnn_candidate_table_t *table, int index);
/* Whether an engine could not be timed in the role FIRST at a size, since its workspace of *bytes was above the limit, or
 * memory was too short for it. */
bool mdnn_candidate_table_engine_lacks_memory(const mdnn_candidate_table_t *table,
                                              const mdnn_engine_t *engine, int64_t images,
                                              uint64_t *bytes);
/* Time of an engine in the role FIRST at a size; 0 if it was not timed there. */
double mdnn_candidate_table_engine_ms(const mdnn_candidate_table_t *table,
                                      const mdnn_engine_t *engine, int64_t images);
/* Takes an upper bound for the time of an engine on the whole batch, from a caller's own run. True if the engine need
 * not be measured and now counts as timed: it is `chosen` and at most `margin` slower than the best known one, or it
 * was deferred to a search and is far slower than the best known one. */
bool mdnn_candidate_table_take_run(mdnn_candidate_table_t *table, const mdnn_engine_offer_t *offer,
                                   const mdnn_own_run_t *run);
/* Removes, in both roles at one size, the candidate that has the cost `cost`, since cuDNN cannot make a plan for it
 * there. False if there is none. It stays in the database, since another version of the library may be able to use it.
 */
bool mdnn_candidate_table_refuse(mdnn_candidate_table_t *table, int64_t images,
                                 const mdnn_cost_t *cost);
/* The candidates are numbered from 0 to this number - 1. */
int mdnn_candidate_table_candidates(const mdnn_candidate_table_t *table);

/* Math type of candidate `index` (algorithm index % MDNN_CANDIDATE_ALGOS); -1 if there is no such candidate for the
 * problem. FMA never rounds inputs, so it is admissible wherever the caller allows more. */
int mdnn_candidate_math_type(const mdnn_problem_t *problem, int index);

/* Whether candidate `index` computes with unrounded inputs: only fp32 data may be rounded. */
bool mdnn_candidate_is_strict(const mdnn_problem_t *problem, int index);

#endif
