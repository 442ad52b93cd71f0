/* A survey of what could be remade, that is, dropped from device memory and made again by running the program's
 * operations once more: which bytes of an iteration, and in how many microseconds. Nothing is really dropped: the
 * survey goes through a recorded period (offload/plan/period.h) with the bookkeeping of offload/remake/values.h alone,
 * so that the record of any run says what remaking would be worth.
 *
 * A record says only of few uses whether they read or write. For the others one of two assumptions is made:
 *   - CAUTIOUS: the use may write, and perhaps only a part; but the first use of a range writes all of it.
 *   - GUESS: the use reads. If no use of the operation is known to write, the first range that the operation names is
 *     updated, since kernels commonly name their result first. What is known to be written is written as a whole.
 * So what really can be remade lies between what these two assumptions give. In both cases, an operation that reads
 * nothing on the device counts as one that would not make the same bytes again: it may copy from the host, or draw
 * random numbers. Whether other operations make the same bytes again can only be tested on the device. */
#ifndef MDNN_SURVEY_H
#define MDNN_SURVEY_H

#include "offload/plan/period.h"

typedef enum mdnn_survey_roles { MDNN_SURVEY_CAUTIOUS, MDNN_SURVEY_GUESS } mdnn_survey_roles_t;

/* A gap in which a range is not used, and what it would take to derive its content if all else stayed. */
typedef struct mdnn_survey_gap {
    mdnn_gap_t gap;
    uint64_t bytes;
    double time_us; /* negative: it cannot be derived */
} mdnn_survey_gap_t;

typedef struct mdnn_survey {
    /* Gaps of ranges of at least `least_bytes`, the cheapest per byte first; those that cannot be derived last. */
    mdnn_survey_gap_t *gaps;
    size_t count;
    /* The most that lives at one operation, with the recorded variants' workspaces. */
    uint64_t peak_bytes;
    uint32_t peak;     /* the position of that operation */
    double compute_us; /* of the whole period */
} mdnn_survey_t;

/* Fills *survey, which the caller ends with mdnn_survey_fini. OUT_OF_MEMORY. */
mdnn_status_t mdnn_survey(const mdnn_period_t *period, mdnn_survey_roles_t roles,
                          uint64_t least_bytes, mdnn_survey_t *survey);
void mdnn_survey_fini(mdnn_survey_t *survey);

/* An iteration in which the content of the cheapest gaps is dropped, as many as the budget demands. */
typedef struct mdnn_survey_run {
    /* The peak, with what reruns make on the way and with freed inputs that are kept. */
    uint64_t peak_bytes;
    uint64_t dropped_bytes; /* of all gaps together */
    uint64_t kept_bytes;    /* freed inputs that are kept: the most at one time */
    uint32_t dropped;       /* gaps whose content was dropped */
    uint32_t steps;         /* operations of all reruns */
    uint32_t early;         /* ranges remade before their next use: an input was about to go */
    double rerun_us;        /* time of all reruns */
} mdnn_survey_run_t;

/* Simulates such an iteration. Content that takes longer than `most_us_per_byte` to derive stays, because moving it
 * would be cheaper. `survey` is of the same period and roles. OUT_OF_MEMORY. */
mdnn_status_t mdnn_survey_run(const mdnn_period_t *period, mdnn_survey_roles_t roles,
                              const mdnn_survey_t *survey, uint64_t budget_bytes,
                              double most_us_per_byte, mdnn_survey_run_t *run);

#endif
