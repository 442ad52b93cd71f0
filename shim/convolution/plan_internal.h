/* The structures of a plan, for the files of plans only; plan_questions.h introduces the terms. The planner is the
 * thread that plans now; there is one at a time (planning.h). Who may write what:
 *
 *   key, title, slices, engines   the planner, before the plan is in the table; what slices and engines point to: the
 *                                 planner, at any time
 *   cache                         the planner
 *   costs, believes_file          the planner; they are read under the planning lock while nobody plans
 *   accumulator, statistics_row   the planner, before the first set of fronts is published
 *   set                           the planner; the set to which it points is never changed or freed
 *   met                           any thread, under the planning lock
 *   the rest                      any thread: these members are atomic, or search protects itself */
#ifndef MDNN_PLAN_INTERNAL_H
#define MDNN_PLAN_INTERNAL_H

#include <stdatomic.h>
#include <stdlib.h>

#include "config/options.h"
#include "shim/candidates/candidate_table.h"
#include "shim/candidates/cost_cache.h"
#include "shim/convolution/plan_questions.h"

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum { MDNN_MET_ENGINES = 64, MDNN_PLAN_ALGOS = 16 };
/* A demand without its workspace, as bits. */
enum {
    MDNN_DEMAND_DETERMINISTIC = 1,
    MDNN_DEMAND_DIRECT = 2,
    MDNN_DEMAND_STRICT = 4,
    MDNN_DEMAND_FLAGS = 8
};

/* Fronts for every combination of demands, and what runs them. Immutable once published. */
typedef struct mdnn_front_set {
    uint64_t limit_bytes; /* candidates up to this workspace were considered */
    bool deferred;        /* candidates that were deferred to a search were not considered */
    mdnn_front_t *fronts[MDNN_DEMAND_FLAGS];
    mdnn_ready_t *ready[MDNN_DEMAND_FLAGS];
    size_t counts[MDNN_DEMAND_FLAGS];
    struct mdnn_front_set *replaced; /* kept, since a thread may still read it */
} mdnn_front_set_t;

/* Two libraries of different major versions share nothing, so the key also holds the library. */
typedef struct plan_key {
    mdnn_problem_t problem;
    int64_t library; /* mdnn_library_t; wide, so that the key has no padding */
} mdnn_plan_key_t;

struct mdnn_conv_plan {
    mdnn_plan_key_t key;
    mdnn_slices_t *slices;
    mdnn_engines_t *engines; /* NULL: legacy algorithms only */
    mdnn_candidate_table_t *costs;
    mdnn_cost_cache_t cache;
    bool believes_file;                          /* costs came from a database */
    mdnn_accumulator_t accumulator;              /* function NULL: not needed or not available */
    _Atomic(mdnn_front_set_t *) set;             /* NULL until planned */
    _Atomic uint64_t next_limit;                 /* a larger set pays only from this workspace on */
    _Atomic uint64_t announced[MDNN_PLAN_ALGOS]; /* bytes + 1; 0: nothing announced */
    _Atomic bool given_up;
    _Atomic bool generous[MDNN_DEMAND_FLAGS];
    mdnn_search_t search;
    struct {
        mdnn_engine_t engine;
        int plans;           /* callers' plans with this engine that wait for their first use */
    } met[MDNN_MET_ENGINES]; /* under the planning lock */
    int met_count;
    char title[160];
    int statistics_row; /* set before the first set of fronts is published */
    UT_hash_handle hh;
};

/* Whether strictness makes a difference: fp32 data may be rounded in some math types, and the
 * caller may have accepted more than that. */
bool mdnn_conv_plan_may_round(const mdnn_problem_t *problem);
unsigned mdnn_conv_plan_flags(const mdnn_problem_t *problem, const mdnn_demand_t *demand);

/* Whether there is a set for workspaces of `limit_bytes`. */
bool mdnn_conv_plan_covers(const mdnn_conv_plan_t *plan, uint64_t limit_bytes);
/* Whether there is such a set, and it lacks nothing that would be measured for `call`. */
bool mdnn_conv_plan_is_ready(const mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                             uint64_t limit_bytes);

/* Whether only the most promising candidates are measured, since a program's first iteration has little time. That is
 * possible if inputs may be rounded, as engines then include nearly all fast algorithms; for plain fp32 and fp64
 * engines lack the legacy algorithms, so all of these are tried. */
bool mdnn_conv_plan_is_brief(const mdnn_conv_plan_t *plan, const mdnn_options_t *options);
/* Whether `call` belongs to a search, to which missing measurements are deferred. */
bool mdnn_conv_plan_defers_to_caller(const mdnn_conv_plan_t *plan, const mdnn_call_t *call);
/* Whether a few candidates are enough for `call`, because nothing limits workspace: then splits seldom pay, and the
 * engine that the program chose is seldom far from the best. */
bool mdnn_conv_plan_wants_few(const mdnn_conv_plan_t *plan, const mdnn_call_t *call);

#endif
