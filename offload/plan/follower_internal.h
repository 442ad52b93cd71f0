/* Private to follower.c and follower_plan.c: a plan for one period, and what makes it quick to follow. */
#ifndef MDNN_FOLLOWER_INTERNAL_H
#define MDNN_FOLLOWER_INTERNAL_H

#include "offload/plan/parts.h"
#include "offload/plan/follower.h"

/* Lists of indices, one a position: items[first[p]] to items[first[p + 1]]. */
typedef struct follower_lists {
    uint32_t *first, *items;
} follower_lists_t;

/* So many iterations show how fast a plan is. */
enum { FOLLOWER_ITERATIONS = 4 };

/* A range that should be away for good: one of those of its size that nothing uses. */
typedef struct follower_unused {
    uint64_t bytes;
    uint32_t range;
    uint32_t taken; /* at the first entry of a size: how many of that size were looked at */
} follower_unused_t;

/* Immutable once made, but for what is marked "state". */
typedef struct follower_plan {
    mdnn_period_t period; /* owned, with measured times */
    mdnn_parts_t parts;   /* of the period: what moves in the plan */
    mdnn_move_plan_t plan;
    follower_lists_t leaves;   /* moves that leave behind a position, in the schedule's order */
    follower_lists_t backs;    /* moves that return behind it */
    bool *joins;               /* before each position */
    follower_unused_t *unused; /* sorted by bytes */
    size_t unused_count;
    double compute_us, planning_ms;
    uint64_t short_bytes; /* of the budget, left alone */
    uint64_t number;      /* of the plan follower's; from 1 */
    /* State, of the period that is followed: */
    uint32_t *handles;            /* the history's, of each range of the period; MDNN_NO_POSITION */
    bool *passed;                 /* of each range: away, or advised already; scratch */
    mdnn_advised_t *leave, *back; /* the advice: moves, ranges + moves */
    double
        iterations_us[FOLLOWER_ITERATIONS]; /* those that took as long under it: the last ones, */
    uint64_t iterations;                    /* of so many */
} follower_plan_t;

/* The making of one plan, on a thread or at once. */
typedef struct follower_job follower_job_t;

/* `times_us` of each operation of the period; negative: unknown, is guessed from the same key's.
 * NULL: the period's are right. Copies all that it needs. OUT_OF_MEMORY also if there is no thread
 * to be had. */
mdnn_status_t follower_job_start(const mdnn_follower_config_t *config, const mdnn_period_t *period,
                                 const double *times_us, follower_job_t **job);

/* Never waits. A load while the thread works. */
bool follower_job_is_done(follower_job_t *job);

/* The plan is not wanted any more: finish will not wait long. */
void follower_job_give_up(follower_job_t *job);

/* Waits for the thread, if it works still; frees the job. BUSY: it was given up. */
mdnn_status_t follower_job_finish(follower_job_t *job, follower_plan_t **plan);

void follower_plan_destroy(follower_plan_t *plan); /* accepts NULL */

#endif
