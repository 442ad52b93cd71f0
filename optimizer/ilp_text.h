/* Problems of Workspace Division and their solutions, as the text that `microdnn-ilp` reads and writes: one or more,
 * one after another. Lines end with a newline, and words are separated by one space.
 *
 *     microdnn-ilp problem 1
 *     model sum                     or shared
 *     total 125829120               bytes
 *     groups 1
 *     kernels 2
 *     kernel 0 3                    its group and the number of its items, which follow:
 *     0.120000000 0                 milliseconds, at most nine decimals, and bytes
 *     0.101500000 1024
 *     0.100000000 52428800
 *     kernel 0 1
 *     0.3 0
 *     end
 *
 *     microdnn-ilp solution 1
 *     state optimal                 or feasible (not proven), infeasible, failed (no solution in time)
 *     bound 0.4                     ms; no solution is faster. Only if optimal or feasible
 *     choices 2                     0 unless optimal or feasible
 *     2                             the item of each kernel, from 0
 *     0
 *     end
 *
 * Times are rounded to 1e-9 ms, numbers are written and read without the locale. */
#ifndef MDNN_ILP_TEXT_H
#define MDNN_ILP_TEXT_H

#include "config/text.h"
#include "optimizer/wd.h"

/* Appends to the text. OUT_OF_MEMORY; INVALID_ARGUMENT for times that are negative, not finite or above 1e9 ms, and for
 * more than 65,536 groups. On failure the text may have grown by a part of it. */
mdnn_status_t mdnn_ilp_write_problem(mdnn_text_t *text, const mdnn_wd_problem_t *problem);

typedef enum mdnn_ilp_state {
    MDNN_ILP_OPTIMAL,
    MDNN_ILP_FEASIBLE,
    MDNN_ILP_INFEASIBLE,
    MDNN_ILP_FAILED,
    MDNN_ILP_STATE_COUNT
} mdnn_ilp_state_t;

typedef struct mdnn_ilp_solution {
    mdnn_ilp_state_t state;
    double bound_ms;
    size_t choice_count;
    size_t *choices; /* owned; NULL if choice_count is 0 */
} mdnn_ilp_solution_t;

mdnn_status_t mdnn_ilp_write_solution(mdnn_text_t *text, const mdnn_ilp_solution_t *solution);
void mdnn_ilp_solution_fini(mdnn_ilp_solution_t *solution);

/* A place in a text that need not end with a NUL. */
typedef struct mdnn_ilp_cursor {
    const char *next, *end;
    size_t line; /* of `next`, from 1; after BAD_FORMAT the line at fault */
} mdnn_ilp_cursor_t;

/* A problem and everything that it points to, in memory of its own. */
typedef struct mdnn_ilp_problem {
    mdnn_wd_problem_t problem;
    mdnn_wd_kernel_t *kernels;
    mdnn_knapsack_item_t *items;
} mdnn_ilp_problem_t;

/* Reads one problem (or solution) and moves the cursor past it. NOT_FOUND at the end of the text; BAD_FORMAT;
 * OUT_OF_MEMORY. Never takes more memory than a small multiple of the text's size. */
mdnn_status_t mdnn_ilp_read_problem(mdnn_ilp_cursor_t *cursor, mdnn_ilp_problem_t *problem);
void mdnn_ilp_problem_fini(mdnn_ilp_problem_t *problem);
mdnn_status_t mdnn_ilp_read_solution(mdnn_ilp_cursor_t *cursor, mdnn_ilp_solution_t *solution);

#endif
