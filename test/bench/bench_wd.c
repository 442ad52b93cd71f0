/* Time to divide one workspace among the kernels of a network: `bench_wd [microdnn-ilp]`. The problems are made up, of
 * the size of ResNet-50's (53 convolutions in three directions; Oyama 2018, IV-D: 562 variables and 5.46 ms with GLPK)
 * and larger. GLPK's times include the start of the program. Exit status 1 if a limit is missed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "optimizer/ilp_text.h"
#include "test/bench/samples.h"
#include "test/unit/random.h"

enum { MOST_KERNELS = 1000, MOST_ITEMS = 8, RUNS = 41, GLPK_RUNS = 15 };

static mdnn_knapsack_item_t items[MOST_KERNELS][MOST_ITEMS];
static mdnn_wd_kernel_t kernels[MOST_KERNELS];

static double fraction(uint64_t *state)
{
    return (double)(random_next(state) >> 11) / (double)(1ull << 53);
}

/* Fronts as convolutions have them: two to eight points, sizes over three powers of ten, and gains
 * that fall off. Two of three kernels repeat an earlier one, as blocks of a network do. */
static mdnn_wd_problem_t make_problem(size_t kernel_count, mdnn_wd_model_t model, uint32_t groups,
                                      uint64_t seed, size_t *variables)
{
    uint64_t state = seed, largest_sum = 0, largest = 0;
    *variables = 0;
    for (size_t k = 0; k < kernel_count; k++) {
        kernels[k].group = (uint32_t)(k % groups);
        if (k % 3 != 0 && k > 3) {
            kernels[k].items = kernels[k - 3].items;
            kernels[k].item_count = kernels[k - 3].item_count;
        } else {
            const size_t count = 2 + random_next(&state) % (MOST_ITEMS - 1);
            double time_ms = 0.1 + 3 * fraction(&state), bytes = 0;
            for (size_t i = 0; i < count; i++) {
                items[k][i] = (mdnn_knapsack_item_t){time_ms, (uint64_t)bytes};
                time_ms *= 0.6 + 0.38 * fraction(&state);
                bytes = (bytes + 65536) * (1 + 4 * fraction(&state));
            }
            kernels[k].items = items[k];
            kernels[k].item_count = count;
        }
        const uint64_t most = kernels[k].items[kernels[k].item_count - 1].workspace_bytes;
        largest_sum += most;
        largest = most > largest ? most : largest;
        *variables += kernels[k].item_count;
    }
    return (mdnn_wd_problem_t){model, kernels, kernel_count, groups,
                               model == MDNN_WD_SUM ? largest_sum / 5 : largest / 2 * groups};
}

static bool solve_internally(const mdnn_wd_problem_t *problem, double *took_ms, double *time_ms)
{
    static size_t choices[MOST_KERNELS];
    mdnn_wd_result_t result;
    const double begin = now_ns();
    if (mdnn_wd_solve(problem, NULL, choices, &result) != MDNN_STATUS_OK || !result.optimal)
        return false;
    *took_ms = (now_ns() - begin) * 1e-6;
    *time_ms = result.time_ms;
    return true;
}

static bool read_answer(FILE *pipe, const mdnn_wd_problem_t *problem, double *time_ms)
{
    static char answer[1 << 16];
    mdnn_ilp_cursor_t cursor = {answer, answer + fread(answer, 1, sizeof answer, pipe), 1};
    mdnn_ilp_solution_t solution;
    uint64_t bytes;
    if (mdnn_ilp_read_solution(&cursor, &solution) != MDNN_STATUS_OK)
        return false;
    const bool good =
        solution.state == MDNN_ILP_OPTIMAL &&
        mdnn_wd_evaluate(problem, solution.choices, time_ms, &bytes, NULL) == MDNN_STATUS_OK;
    mdnn_ilp_solution_fini(&solution);
    return good;
}

static bool solve_with_glpk(const char *program, const mdnn_wd_problem_t *problem, double *took_ms,
                            double *time_ms)
{
    char path[] = "/tmp/bench_wd.XXXXXX", command[4096];
    mdnn_text_t text = {0};
    const int file = mkstemp(path);
    bool good = file >= 0 && mdnn_ilp_write_problem(&text, problem) == MDNN_STATUS_OK &&
                write(file, text.bytes, text.used) == (ssize_t)text.used;
    if (file >= 0)
        close(file);
    free(text.bytes);
    snprintf(command, sizeof command, "exec '%s' --time-limit 10 '%s'", program, path);
    const double begin = now_ns();
    FILE *const pipe = good ? popen(command, "r") : NULL;
    good = pipe && read_answer(pipe, problem, time_ms);
    good = pipe && pclose(pipe) == 0 && good;
    *took_ms = (now_ns() - begin) * 1e-6;
    unlink(path);
    return good;
}

typedef struct bench_case {
    const char *name;
    size_t kernel_count;
    mdnn_wd_model_t model;
    uint32_t groups;
    double limit_ms, glpk_limit_ms; /* medians; 0: for information, and GLPK is not asked */
} bench_case_t;

static bool report(const char *solver, const bench_case_t *bench, double *took_ms, size_t runs,
                   size_t variables, double limit_ms)
{
    const double middle_ms = median(took_ms, runs);
    const bool good = limit_ms <= 0 || middle_ms <= limit_ms;
    printf("wd\t%s %s\t%.3f\tms\tworst %.3f\t%zu variables\tlimit %g\t%s\n", solver, bench->name,
           middle_ms, took_ms[runs - 1], variables, limit_ms, good ? "ok" : "MISSED");
    return good;
}

static bool run(const bench_case_t *bench, const char *program)
{
    double internal_ms[RUNS], glpk_ms[GLPK_RUNS];
    size_t variables = 0;
    for (size_t i = 0; i < RUNS; i++) {
        double best_ms, glpk_best_ms;
        const mdnn_wd_problem_t problem =
            make_problem(bench->kernel_count, bench->model, bench->groups, i + 1, &variables);
        if (problem.kernel_count > MOST_KERNELS ||
            !solve_internally(&problem, &internal_ms[i], &best_ms)) {
            fprintf(stderr, "bench_wd: not solved (%s, run %zu)\n", bench->name, i);
            return false;
        }
        if (!program || bench->glpk_limit_ms <= 0 || i >= GLPK_RUNS)
            continue;
        if (!solve_with_glpk(program, &problem, &glpk_ms[i], &glpk_best_ms) ||
            glpk_best_ms > best_ms * (1 + 1e-7) || glpk_best_ms < best_ms * (1 - 1e-7)) {
            fprintf(stderr, "bench_wd: GLPK disagrees (%s, run %zu)\n", bench->name, i);
            return false;
        }
    }
    bool good = report("internal", bench, internal_ms, RUNS, variables, bench->limit_ms);
    if (program && bench->glpk_limit_ms > 0)
        good = report("GLPK", bench, glpk_ms, GLPK_RUNS, variables, bench->glpk_limit_ms) && good;
    return good;
}

int main(int argc, char **argv)
{
    const char *const program = argc > 1 && access(argv[1], X_OK) == 0 ? argv[1] : NULL;
    const bench_case_t cases[] = {
        {"sum, 160 kernels", 160, MDNN_WD_SUM, 1, 5, 20},
        {"shared, 160 kernels, 1 group", 160, MDNN_WD_SHARED, 1, 5, 20},
        {"shared, 160 kernels, 4 groups", 160, MDNN_WD_SHARED, 4, 5, 0},
        {"sum, 1000 kernels", 1000, MDNN_WD_SUM, 1, 50, 0},
        {"shared, 1000 kernels, 8 groups", 1000, MDNN_WD_SHARED, 8, 50, 0},
    };
    bool good = true;
    if (!program)
        fprintf(stderr, "bench_wd: no microdnn-ilp (there is no GLPK): internal solver only\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        good = run(&cases[i], program) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
