/* What the files of the plan follower (follower.h) share: a plan for one period and what makes it quick to follow, the
 * periods with their plans, the ranges. follower_check.h says what must hold. */
#ifndef MDNN_FOLLOWER_INTERNAL_H
#define MDNN_FOLLOWER_INTERNAL_H

#include "offload/follow/key_times.h"
#include "offload/plan/parts.h"
#include "offload/follow/follower.h"

/* Lists of indices, one list for each position: items[first[p]] to items[first[p + 1]]. */
typedef struct follower_lists {
    uint32_t *first, *items;
} follower_lists_t;

/* How many iterations show how fast a plan is. */
enum { FOLLOWER_ITERATIONS = 4 };

/* A range that nothing uses and that should be away for good. */
typedef struct follower_unused {
    uint64_t bytes;
    uint32_t range;
    /* at the first entry of each size: how many ranges of that size were looked at */
    uint32_t taken;
} follower_unused_t;

/* Immutable once made, except for the members marked "state". */
typedef struct follower_plan {
    mdnn_period_t period; /* owned, with measured times */
    mdnn_parts_t parts;   /* of the period: what moves in the plan */
    mdnn_move_plan_t plan;
    follower_lists_t leaves;   /* moves that leave after a position, in the schedule's order */
    follower_lists_t backs;    /* moves that return after it */
    bool *joins;               /* before each position */
    follower_unused_t *unused; /* sorted by bytes */
    size_t unused_count;
    uint64_t *workspaces;     /* of each operation: mdnn_follower_workspace */
    bool chooses;             /* one of them is not UINT64_MAX */
    uint64_t *resident_bytes; /* that the plan holds at each position */
    uint64_t budget_bytes;    /* the most that it may hold */
    double compute_us, planning_ms;
    double link_bound_us; /* mdnn_link_bound */
    uint64_t short_bytes; /* part of the budget that the plan does not use */
    uint64_t number;      /* of the plan follower's; from 1 */
    bool is_guessed;      /* not all of its times are measured */
    /* State, as the period is followed. For each range of the period, the history's range; or MDNN_NO_POSITION. */
    uint32_t *handles;
    bool *passed;                 /* of each range: away, or advised already; scratch */
    mdnn_advised_t *leave, *back; /* the advice; room for 2 * moves, and for ranges + moves */
    /* How long the last iterations under the plan took, in a ring; how many there were in all. */
    double iterations_us[FOLLOWER_ITERATIONS];
    uint64_t iterations;
} follower_plan_t;

/* Makes one plan, on a thread or immediately. */
typedef struct follower_job follower_job_t;

/* `times_us` has the time of each operation of the period; negative: unknown, and guessed from
 * operations with the same key. NULL: the period's times are right. `tells`: makes no plan, but calls config->planned,
 * since the period is followed most. Copies everything that it needs. OUT_OF_MEMORY also if no thread can be started. */
mdnn_status_t follower_job_start(const mdnn_follower_config_t *config, const mdnn_period_t *period,
                                 const double *times_us, bool tells, follower_job_t **job);

/* Never waits; costs one atomic load while the thread works. */
bool follower_job_is_done(follower_job_t *job);

/* Cancels the plan, so that finish does not wait long. */
void follower_job_give_up(follower_job_t *job);

/* Waits for the thread if it is still working, and frees the job. BUSY: it was cancelled. */
mdnn_status_t follower_job_finish(follower_job_t *job, follower_plan_t **plan);

void follower_plan_destroy(follower_plan_t *plan); /* accepts NULL */

enum {
    FOLLOWER_PERIODS = 4,     /* as many as the history remembers */
    FOLLOWER_TIMED = 1 << 13, /* records whose times may still come */
    FOLLOWER_REPLANS = 8,     /* most plans that are made again because memory was missing */
    FOLLOWER_BEGUN = 16, /* ranges that began last and may leave; some of them are not used yet */
    FOLLOWER_ASKED = 1 << 14, /* most times that are asked for while no period is known */
    FOLLOWER_TRIES = 3,       /* plans of a period that may fail for lack of host memory */
};
static const uint64_t follower_never = UINT64_MAX;

typedef enum follower_stage {
    FOLLOWER_STAGE_TIMING,
    FOLLOWER_STAGE_PLANNING,
    FOLLOWER_STAGE_PLANNED, /* `plan` exists, or never will */
} follower_stage_t;

typedef struct follower_entry {
    uint64_t number; /* the history's; 0: free */
    uint32_t count;  /* operations */
    follower_stage_t stage;
    double *times_us;   /* of each operation; negative: not yet */
    uint32_t untimed;   /* how many of these times are negative */
    uint64_t passed;    /* operations while the stage was TIMING */
    uint64_t plan_from; /* not planned before this many have passed */
    unsigned tries;
    uint64_t followed;    /* operations */
    uint64_t short_bytes; /* part of the budget that plans made now do not use */
    unsigned replans;
    follower_plan_t *plan;
    bool is_early; /* `plan` was made before all operations were timed, and another one will be */
    bool tried_early;
    uint64_t *workspaces;    /* of each operation: mdnn_follower_workspace; NULL: as asked for */
    follower_plan_t *before; /* the earlier plan, with more memory, until `plan` has proved
                              * itself */
} follower_entry_t;

/* One of the history's ranges, at the same index. */
typedef struct follower_range {
    void *owner;
    uint64_t bytes;
    uint64_t
        touched_at; /* sequence behind its last use or its beginning; `follower_never`: not alive */
    uint32_t slot;  /* its counterpart in the period of follower->active; MDNN_NO_POSITION */
    bool stays, used;
} follower_range_t;

typedef struct follower_timed {
    uint64_t sequence_end; /* sequence + 1; 0: none */
    uint64_t key;
    uint64_t period; /* 0: in none */
    uint32_t position;
} follower_timed_t;

/* What other budgets would cost. */
typedef struct follower_forecast {
    follower_job_t *job; /* for budgets[current]; NULL: none is under way */
    uint64_t period;     /* its number; 0: none yet */
    bool tells;          /* `job` only tells config.planned of the period */
    uint64_t need_bytes; /* budget in which nothing moves; 0: unknown */
    uint32_t count, current;
    mdnn_forecast_t budgets
        [MDNN_FORECASTS]; /* the largest first; predicted_us 0: not planned, or there is no plan */
    bool tried[MDNN_FORECASTS];
} follower_forecast_t;

struct mdnn_follower {
    mdnn_follower_config_t config;
    mdnn_history_t *history;
    uint64_t sequence; /* of the next record */
    follower_range_t *ranges;
    uint32_t range_capacity;
    uint32_t begun[FOLLOWER_BEGUN]; /* a ring of the ranges that began last */
    uint32_t begun_count;
    follower_entry_t entries[FOLLOWER_PERIODS];
    mdnn_history_place_t place; /* of the last record */
    /* Records in a row, each of which came right after the one before it in the period of `place`. */
    uint64_t followed_for;
    uint32_t iteration;      /* how many operations that period has */
    follower_plan_t *active; /* the plan of an entry whose ranges are known */
    uint64_t flown;          /* records in a row in which the active plan was followed */
    uint64_t short_bytes;    /* the most that was missing in the last iteration of these */
    uint64_t short_before;   /* the most that was missing in the iteration before that */
    follower_job_t *job;     /* NULL: none is under way */
    uint64_t job_period;
    bool job_is_early;
    uint64_t plans;          /* made */
    uint64_t aside_bytes;    /* of the budget */
    follower_timed_t *timed; /* ring of FOLLOWER_TIMED */
    mdnn_key_times_t *key_times;
    uint32_t asked_anywhere; /* times of operations of which no period is known */
    bool was_short;          /* something had to leave on demand */
    uint32_t periods;
    follower_forecast_t forecast;
};

/* ---- follower_ranges.c ---- */
bool follower_lives(const mdnn_follower_t *follower, uint32_t range);
/* Makes range `range` of the history, and no other, range `slot` of the active plan's period. */
void follower_assign(mdnn_follower_t *follower, uint32_t range, uint32_t slot);
/* Finds which range of the period each live range is. If two claim the same one, the range that was
 * used last gets it. */
void follower_find_ranges(mdnn_follower_t *follower);
/* The same for the ranges that the operation uses. */
void follower_learn_ranges(mdnn_follower_t *follower, const mdnn_history_operation_t *operation);
/* Whether the program was followed for a whole iteration in which nothing used the range. */
bool follower_is_unused(const mdnn_follower_t *follower, uint32_t range);
/* How many recent ranges of that size were not used yet. */
uint32_t follower_unused_of(const mdnn_follower_t *follower, uint64_t bytes);
/* The bytes of such ranges of all sizes. */
uint64_t follower_unused_bytes(const mdnn_follower_t *follower);

/* ---- follower_periods.c ---- */
/* The entry of period `number`, or a free one for number 0. NULL: there is none. */
follower_entry_t *follower_find_entry(mdnn_follower_t *follower, uint64_t number);
/* Makes an entry when the history has found a period, for which it may have forgotten another period. NULL: out of
 * memory. */
follower_entry_t *follower_make_entry(mdnn_follower_t *follower, uint64_t number);
void follower_forget_entry(mdnn_follower_t *follower, follower_entry_t *entry);
/* Keeps the smallest of several times of an operation, since disturbances only make it slower. */
void follower_set_time(follower_entry_t *entry, uint32_t position, double time_us);
/* Called when an operation of the period was recorded that is to be timed: begins to plan with the times of other operations
 * with the same keys, once these are known. */
void follower_start_early_plan(mdnn_follower_t *follower, follower_entry_t *entry);
/* Called once all operations were timed, or two iterations are over. */
void follower_start_planning(mdnn_follower_t *follower, follower_entry_t *entry);
/* Called when a plan is ready. Its period may already be forgotten. */
void follower_adopt_plan(mdnn_follower_t *follower);
/* Decides whether the plan with less memory stays or the earlier one does. */
void follower_judge_plan(mdnn_follower_t *follower, follower_entry_t *entry);
/* Called after each iteration under the plan. Makes the plan again if two iterations had less memory than it
 * expects. */
void follower_plan_with_less(mdnn_follower_t *follower, follower_entry_t *entry);

/* ---- follower_forecast.c ---- */
/* Called after each iteration under the entry's plan: begins to plan for the next budget. */
void follower_forecast_go_on(mdnn_follower_t *follower, const follower_entry_t *entry);
/* Whether config.planned is called by a thread now. */
bool follower_forecast_tells(const mdnn_follower_t *follower);
/* Takes what was planned, if it is done. Never waits. */
void follower_forecast_take(mdnn_follower_t *follower);
/* Waits for the thread, as follower_job_finish does. */
void follower_forecast_end(mdnn_follower_t *follower);
void follower_forecast_report(const mdnn_follower_t *follower, const follower_entry_t *entry,
                              mdnn_follower_report_t *report);

/* ---- follower_advice.c ---- */
/* Called after an operation that has a place in the entry's period. */
void follower_follow(mdnn_follower_t *follower, follower_entry_t *entry,
                     const mdnn_history_operation_t *operation, mdnn_advice_t *advice);

#endif
