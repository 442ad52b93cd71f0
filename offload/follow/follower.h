/* The plan follower watches what the program does and advises what should move. It feeds the history, the list of the
 * operations of the recent past (offload/follow/history.h), which finds periods: sequences of operations that repeat,
 * such as a training iteration (offload/plan/period.h). It has a plan made for each period (offload/plan/planner.h; on
 * a thread of its own, if it may use one), and says after each operation which ranges (allocations) should begin to
 * leave the device and which should begin to return. All of this is advice: the mechanism (offload/memory/memory.h) is
 * correct without it, and may ignore it.
 *
 * Not thread-safe: the caller holds its lock around every call. */
#ifndef MDNN_FOLLOWER_H
#define MDNN_FOLLOWER_H

#include "offload/follow/history.h"
#include "offload/plan/planner.h"

typedef struct mdnn_follower mdnn_follower_t;

typedef struct mdnn_follower_config {
    mdnn_policy_t policy;
    mdnn_variants_t variants;
    /* For ranges; see also mdnn_follower_set_aside and mdnn_follower_short. */
    uint64_t budget_bytes;
    uint64_t chunk_bytes; /* ranges may leave and return in parts of this size; 0: whole only */
    uint64_t host_limit_bytes; /* UINT64_MAX: none */
    mdnn_link_t link;
    /* See mdnn_move_plan_request_t; 0 with `background`: as much as about one second allows. */
    uint32_t effort;
    bool background; /* plan on a thread; false: within record (simulated GPU, tests) */
    bool
        forecast; /* plan for other budgets as well, so that the report says what they would cost */
    /* Called with each period that is planned, with its measured times and the budget of the plan, on the thread that
     * plans, one call at a time; once more with `most_followed` when the program has followed the period longer than any
     * other, unless it is a short loop. May be NULL. */
    void (*planned)(void *context, const mdnn_period_t *period, uint64_t budget_bytes,
                    bool most_followed);
    void *planned_context;
    /* Returns the processes (ranks) whose GPUs share a link with this one, so that the plan for the period takes
     * account of them. Called before each plan is made, on the same thread as `planned`. May be NULL. */
    mdnn_plan_ranks_t (*ranks)(void *context, const mdnn_period_t *period);
    void *ranks_context;
} mdnn_follower_config_t;

/* NULL without memory. */
mdnn_follower_t *mdnn_follower_create(const mdnn_follower_config_t *config);
void mdnn_follower_destroy(mdnn_follower_t *follower); /* accepts NULL; ends the thread */

/* Like mdnn_history_begin_range and mdnn_history_end_range. `bytes` is the memory that the range
 * takes (rounded to chunks). `owner` belongs to the caller and is returned in advice; it must be
 * valid until end_range. */
uint32_t mdnn_follower_begin_range(mdnn_follower_t *follower, uint64_t bytes, bool stays,
                                   void *owner);
/* As mdnn_history_set_padding. */
void mdnn_follower_set_padding(mdnn_follower_t *follower, uint32_t range, uint64_t padding_bytes);
void mdnn_follower_end_range(mdnn_follower_t *follower, uint32_t range);

typedef struct mdnn_advised {
    void *owner;    /* the range, as mdnn_follower_begin_range was given it */
    uint64_t bytes; /* counted from the range's beginning */
} mdnn_advised_t;

/* What to do after the operation that was just recorded. The plan follower owns the arrays, which are valid until the
 * next call. The ranges in them are alive, but may already be where they should be: a range that is to leave may be
 * away, and one that is to return may be resident. */
typedef struct mdnn_advice {
    /* These ranges begin to leave, in this order; this many bytes of each stay. */
    const mdnn_advised_t *leave;
    size_t leave_count;
    /* These ranges begin to return, in this order, as soon as memory is free, until at least this many bytes of each
     * are there. */
    const mdnn_advised_t *back;
    size_t back_count;
    bool join; /* in plans of vDNN: wait for all copies under way before the next operation */
    bool time; /* the next operation should be timed (mdnn_follower_timed) */
} mdnn_advice_t;

/* Records the operation, and gives advice. Operations are recorded in the order in which the host enqueues them.
 * They are numbered from 0 on; `sequence`, below, is such a number. */
void mdnn_follower_record(mdnn_follower_t *follower, const mdnn_history_operation_t *operation,
                          mdnn_advice_t *advice);
/* Reports the device time of operation number `sequence`. That time becomes known only after the operation was
 * recorded, so these calls may come later and in any order. Called only for operations for which `time` was advised. */
void mdnn_follower_timed(mdnn_follower_t *follower, uint64_t sequence, double time_us);
uint64_t mdnn_follower_sequence(const mdnn_follower_t *follower); /* of the next record */

/* The most bytes of workspace that the operation with this key may use if it comes next, by the plan's choice of
 * workspaces that is in effect; UINT64_MAX: as much as the program asks for, or nothing is known. The choice changes
 * only between iterations, when the period begins anew under its plan. O(1). */
uint64_t mdnn_follower_workspace(const mdnn_follower_t *follower, uint64_t key);

/* How many operations there are until the next use of the range, for choosing what leaves on demand: the range with the
 * largest number leaves first. UINT32_MAX: the range is not used again before it dies, or not used at all in the
 * current iteration. 0: unknown; of such ranges, the caller takes the least recently used one. O(1). */
uint32_t mdnn_follower_distance(const mdnn_follower_t *follower, uint32_t range);

/* Reports that `bytes` were missing and had to be found on demand. If that happens although the plan has been followed
 * for a whole iteration, and again in the next one, there is less memory than the budget says (slabs that are not full,
 * pinned ranges, ranges that the period does not know). The period is then planned again with a smaller budget, if that
 * is expected to help: smaller by the lesser of the two iterations' largest shortages. */
void mdnn_follower_short(mdnn_follower_t *follower, uint64_t bytes);

/* Reports the bytes of the budget that ranges cannot use now (slabs, memory that is set aside):
 * later plans do not use them. */
void mdnn_follower_set_aside(mdnn_follower_t *follower, uint64_t bytes);

/* Reports how long an iteration of the program took on the device under plan number `plan`. A plan with less
 * memory is kept only if iterations do not take longer with it. */
void mdnn_follower_iteration_took(mdnn_follower_t *follower, uint64_t plan, double time_us);

/* The plan that the program has followed for at least the last whole iteration; 0: none. */
uint64_t mdnn_follower_followed_plan(const mdnn_follower_t *follower);

/* The bytes that the plan has resident after the last recorded operation; 0: no plan is followed there. */
uint64_t mdnn_follower_planned_bytes(const mdnn_follower_t *follower);
/* Whether the last record was the first of the period that the report is about. */
bool mdnn_follower_begins_period(const mdnn_follower_t *follower);

/* Whether the range belongs to the period whose plan is followed. */
bool mdnn_follower_knows(const mdnn_follower_t *follower, uint32_t range);

/* How soon an operation names a new range of `bytes`, according to a plan that moves something. */
typedef enum mdnn_first_use {
    MDNN_FIRST_USE_UNKNOWN, /* no such plan is followed */
    /* The next operation names it; or a later one does, but the plan has room for the range until then. */
    MDNN_FIRST_USE_NEXT,
    /* Any other case: a later operation names it and the plan has no room until then, or none is known to name it soon. */
    MDNN_FIRST_USE_LATER,
} mdnn_first_use_t;
mdnn_first_use_t mdnn_follower_first_use(const mdnn_follower_t *follower, uint64_t bytes);

/* The sizes of the ranges that are new in the next few operations of the period whose plan is followed, in the order in
 * which they are first used. Returns how many there are. */
enum { MDNN_BIRTHS_AHEAD = 8 };
size_t mdnn_follower_births(const mdnn_follower_t *follower, uint64_t bytes[MDNN_BIRTHS_AHEAD]);

/* What one iteration would cost with another budget, as predicted by the replay, which is a simulation of the period on
 * the host (offload/plan/replay.h). */
enum { MDNN_FORECASTS = 6 };
typedef struct mdnn_forecast {
    uint64_t budget_bytes; /* as config.budget_bytes */
    double predicted_us;
    uint64_t moved_bytes; /* out and in */
} mdnn_forecast_t;

/* Where the program is, and whether its plan is followed there. */
typedef enum mdnn_plan_state {
    MDNN_PLAN_SEARCHING, /* no period was found yet */
    MDNN_PLAN_LOST,      /* the program does something other than a known period */
    MDNN_PLAN_TIMING,    /* the period's operations are being timed */
    MDNN_PLAN_PLANNING,  /* the period's plan is being made */
    MDNN_PLAN_FOLLOWED,
    MDNN_PLAN_IMPOSSIBLE, /* no plan fits the budget */
} mdnn_plan_state_t;

typedef struct mdnn_follower_report {
    mdnn_plan_state_t state;
    uint64_t operations;       /* recorded */
    uint32_t periods;          /* periods found */
    uint32_t followed;         /* 1 if the program is in a known period now */
    uint64_t place_period;     /* its number; 0: it is in none */
    uint32_t place_operations; /* of that period */
    uint64_t in_step;          /* records in a row that followed it */
    /* The fields below are about the period that has a plan and was followed for the most operations, since a short
     * loop may have a plan, too. */
    uint64_t period;            /* its number; 0: no plan yet */
    uint32_t period_operations; /* 0: no plan yet */
    mdnn_verdict_t verdict;     /* of its plan */
    mdnn_policy_t policy;       /* that the plan uses */
    uint64_t floor_bytes;       /* smallest budget for the period; 0 if unknown */
    double compute_us;          /* of one iteration, measured */
    double predicted_us;        /* of one iteration with the plan, as the replay predicts */
    double link_bound_us;
    double planning_ms;   /* host time of the plan */
    uint64_t short_bytes; /* part of the budget that the plan does not use (mdnn_follower_short) */
    uint64_t out_bytes, in_bytes; /* of one iteration, planned */
    uint64_t need_bytes;     /* budget in which the period would run without moves; 0: unknown */
    uint32_t forecast_count; /* of the period; the largest budget first */
    mdnn_forecast_t forecast[MDNN_FORECASTS];
} mdnn_follower_report_t;

mdnn_follower_report_t mdnn_follower_report(const mdnn_follower_t *follower);

#endif
