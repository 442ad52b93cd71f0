/* libFuzzer: any bytes as problems and as solutions. What is read must come back from what is
 * written of it. Build and run with `make fuzz-ilp_text`. */
#include <stdlib.h>
#include <string.h>

#include "optimizer/ilp_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void write_again(const mdnn_wd_problem_t *problem)
{
    mdnn_text_t text = {0};
    mdnn_ilp_problem_t again;
    if (mdnn_ilp_write_problem(&text, problem) != MDNN_STATUS_OK)
        abort();
    mdnn_ilp_cursor_t cursor = {text.bytes, text.bytes + text.used, 1};
    if (mdnn_ilp_read_problem(&cursor, &again) != MDNN_STATUS_OK || cursor.next != cursor.end ||
        again.problem.kernel_count != problem->kernel_count)
        abort();
    mdnn_ilp_problem_fini(&again);
    free(text.bytes);
}

/* Whatever stands in a problem, the solver answers and its answer fits. */
static void solve(const mdnn_wd_problem_t *problem)
{
    const mdnn_knapsack_limits_t limits = {.time_ms = 50, .states = 1000};
    size_t *const choices = calloc(problem->kernel_count + 1, sizeof *choices);
    mdnn_wd_result_t result;
    double time_ms;
    uint64_t workspace;
    if (mdnn_wd_solve(problem, &limits, choices, &result) == MDNN_STATUS_OK &&
        mdnn_wd_evaluate(problem, choices, &time_ms, &workspace, NULL) != MDNN_STATUS_OK)
        abort();
    free(choices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *const copy = malloc(bytes); /* exact, so that the sanitizer sees one byte too far */
    mdnn_ilp_problem_t problem;
    mdnn_ilp_solution_t solution;
    if (bytes > 0)
        memcpy(copy, data, bytes);
    mdnn_ilp_cursor_t cursor = {copy, copy + bytes, 1};
    while (mdnn_ilp_read_problem(&cursor, &problem) == MDNN_STATUS_OK) {
        write_again(&problem.problem);
        solve(&problem.problem);
        mdnn_ilp_problem_fini(&problem);
    }
    cursor = (mdnn_ilp_cursor_t){copy, copy + bytes, 1};
    while (mdnn_ilp_read_solution(&cursor, &solution) == MDNN_STATUS_OK) {
        mdnn_text_t text = {0};
        if (mdnn_ilp_write_solution(&text, &solution) != MDNN_STATUS_OK)
            abort();
        free(text.bytes);
        mdnn_ilp_solution_fini(&solution);
    }
    free(copy);
    return 0;
}
