/* Private to pilot.c and pilot_plan.c: a plan for one period, and what makes it quick to follow. */
#ifndef MDNN_PILOT_INTERNAL_H
#define MDNN_PILOT_INTERNAL_H

#include "offload/plan/parts.h"
#include "offload/plan/pilot.h"

/* Lists of indices, one a position: items[first[p]] to items[first[p + 1]]. */
typedef struct pilot_lists {
    uint32_t *first, *items;
} pilot_lists_t;

/* So many rounds show how fast a plan is. */
enum { PILOT_ROUNDS = 4 };

/* A range that should be away for good: one of those of its size that nothing uses. */
typedef struct pilot_unused {
    uint64_t bytes;
    uint32_t range;
    uint32_t taken; /* at the first entry of a size: how many of that size were looked at */
} pilot_unused_t;

/* Immutable once made, but for what is marked "state". */
typedef struct pilot_plan {
    mdnn_period_t period; /* owned, with measured times */
    mdnn_parts_t parts;   /* of the period: what moves in the plan */
    mdnn_plan_t plan;
    pilot_lists_t leaves;   /* moves that leave behind a position, in the schedule's order */
    pilot_lists_t backs;    /* moves that return behind it */
    bool *joins;            /* before each position */
    pilot_unused_t *unused; /* sorted by bytes */
    size_t unused_count;
    double compute_us, planning_ms;
    uint64_t short_bytes; /* of the budget, left alone */
    uint64_t number;      /* of the pilot's; from 1 */
    /* State, of the period that is followed: */
    uint32_t *handles;            /* the history's, of each range of the period; MDNN_NO_POSITION */
    bool *passed;                 /* of each range: away, or advised already; scratch */
    mdnn_advised_t *leave, *back; /* the advice: moves, ranges + moves */
    double rounds_us[PILOT_ROUNDS]; /* those that took as long under it: the last ones, */
    uint64_t rounds;                /* of so many */
} pilot_plan_t;

/* The making of one plan, on a thread or at once. */
typedef struct pilot_job pilot_job_t;

/* `times_us` of each operation of the period; negative: unknown, is guessed from the same key's.
 * NULL: the period's are right. Copies all that it needs. OUT_OF_MEMORY also if there is no thread
 * to be had. */
mdnn_status_t pilot_job_start(const mdnn_pilot_config_t *config, const mdnn_period_t *period,
                              const double *times_us, pilot_job_t **job);

/* Never waits. A load while the thread works. */
bool pilot_job_is_done(pilot_job_t *job);

/* The plan is not wanted any more: finish will not wait long. */
void pilot_job_give_up(pilot_job_t *job);

/* Waits for the thread, if it works still; frees the job. BUSY: it was given up. */
mdnn_status_t pilot_job_finish(pilot_job_t *job, pilot_plan_t **plan);

void pilot_plan_destroy(pilot_plan_t *plan); /* accepts NULL */

#endif
