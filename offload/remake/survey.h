/* What could be remade in an iteration that a program repeats: which bytes, and by how many milliseconds of its own
 * operations. Nothing is dropped: the survey goes through the iteration with nothing more than the bookkeeping of
 * values (offload/remake/values.h), so that a record of any run says what remaking would be worth.
 *
 * A record says only of few uses whether they read or write. For the others one of two assumptions is made:
 *   - CAUTIOUS: the use may write, and perhaps only a part; but the first use of a range writes all of it.
 *   - GUESS: the use reads. If no use of the operation is known to write, the first range that the operation names is
 *     updated, since kernels commonly name their result first. What is known to be written is written as a whole.
 * So what really can be remade lies between the two. In both, an operation that reads nothing on the device counts as
 * one that does not repeat: it may copy from the host, or draw random numbers. Whether other operations give the same
 * bytes again can only be tested on the device. */
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
    mdnn_survey_gap_t
        *gaps; /* of at least so many bytes, cheapest first; those that cannot be derived last */
    size_t count;
    uint64_t peak_bytes; /* with the workspaces of the recorded variants */
    uint32_t peak;       /* position */
    double compute_us;
} mdnn_survey_t;

/* The caller's `survey` is ended by mdnn_survey_fini. OUT_OF_MEMORY. */
mdnn_status_t mdnn_survey(const mdnn_period_t *period, mdnn_survey_roles_t roles,
                          uint64_t least_bytes, mdnn_survey_t *survey);
void mdnn_survey_fini(mdnn_survey_t *survey);

/* An iteration in which the cheapest gaps are left empty, as many as the budget demands. */
typedef struct mdnn_survey_run {
    uint64_t
        peak_bytes; /* reached, with what reruns make on the way and with freed inputs that are kept */
    uint64_t dropped_bytes; /* of all gaps together */
    uint64_t kept_bytes;    /* freed inputs, at most at once */
    uint32_t dropped, steps;
    uint32_t early; /* remade before their next use, because an input was about to go */
    double rerun_us;
} mdnn_survey_run_t;

/* What takes longer than `most_us_per_byte` to derive stays, because moving it would be cheaper. `survey` is of the
 * same period and roles. OUT_OF_MEMORY. */
mdnn_status_t mdnn_survey_run(const mdnn_period_t *period, mdnn_survey_roles_t roles,
                              const mdnn_survey_t *survey, uint64_t budget_bytes,
                              double most_us_per_byte, mdnn_survey_run_t *run);

#endif
