/* GLPK, the internal solver and trying every choice agree. One run of microdnn-ilp solves all
 * instances. MDNN_TEST_SEED=n repeats the instance that a failure named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "optimizer/ilp_text.h"
#include "test/unit/cases.h"
#include "test/unit/random_wd.h"

enum { INSTANCES = 10000 };
static char program[4096];
static uint64_t first_seed = 1, last_seed = INSTANCES;

static void write_instances(const char *path)
{
    mdnn_text_t text = {0};
    random_wd_t instance;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        random_wd_fill(&instance, seed);
        for (int model = 0; model < MDNN_WD_MODEL_COUNT; model++) {
            instance.problem.model = (mdnn_wd_model_t)model;
            assert_int_equal(mdnn_ilp_write_problem(&text, &instance.problem), MDNN_STATUS_OK);
        }
    }
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.bytes, 1, text.used, file), text.used);
    assert_int_equal(fclose(file), 0);
    free(text.bytes);
}

static char *run_program(const char *path, size_t *bytes)
{
    char command[2 * sizeof program + 32];
    size_t capacity = 1 << 20;
    char *answer = malloc(capacity);
    snprintf(command, sizeof command, "exec '%s' '%s'", program, path);
    FILE *const pipe = popen(command, "r");
    assert_non_null(pipe);
    *bytes = 0;
    for (size_t more; (more = fread(answer + *bytes, 1, capacity - *bytes, pipe)) > 0;) {
        *bytes += more;
        if (*bytes == capacity)
            answer = realloc(answer, capacity *= 2);
        assert_non_null(answer);
    }
    assert_int_equal(pclose(pipe), 0);
    return answer;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s (MDNN_TEST_SEED=%llu, model %d)", #condition,                             \
                     (unsigned long long)instance->seed, (int)instance->problem.model);            \
    } while (0)

/* Whether the instance has a solution. */
static bool compare(const random_wd_t *instance, mdnn_ilp_cursor_t *cursor)
{
    mdnn_ilp_solution_t glpk;
    mdnn_wd_result_t internal;
    size_t choices[RANDOM_WD_KERNELS];
    double time_ms;
    uint64_t bytes;
    const double best_ms = random_wd_oracle(instance);
    const bool possible = best_ms < RANDOM_WD_NONE;

    CHECK(mdnn_ilp_read_solution(cursor, &glpk) == MDNN_STATUS_OK);
    CHECK(glpk.state == (possible ? MDNN_ILP_OPTIMAL : MDNN_ILP_INFEASIBLE));
    CHECK(mdnn_wd_solve(&instance->problem, NULL, choices, &internal) ==
          (possible ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND));
    if (possible) {
        CHECK(internal.optimal && internal.time_ms == best_ms);
        CHECK(glpk.choice_count == instance->problem.kernel_count);
        CHECK(mdnn_wd_evaluate(&instance->problem, glpk.choices, &time_ms, &bytes, NULL) ==
              MDNN_STATUS_OK);
        CHECK(time_ms == best_ms && glpk.bound_ms == best_ms);
    }
    mdnn_ilp_solution_fini(&glpk);
    return possible;
}

CASE(glpk_internal_solver_and_brute_force_agree_in_both_models)
{
    const char *const folder = getenv("TMPDIR");
    char path[4096];
    size_t bytes, possible = 0;
    if (access(program, X_OK) != 0) {
        print_message("# SKIP microdnn-ilp is not built: there is no GLPK (libglpk-dev)\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/ilp-agreement.%ld", folder ? folder : "/tmp", (long)getpid());
    write_instances(path);
    char *const answer = run_program(path, &bytes);
    unlink(path);
    mdnn_ilp_cursor_t cursor = {answer, answer + bytes, 1};
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        random_wd_t instance;
        random_wd_fill(&instance, seed);
        for (int model = 0; model < MDNN_WD_MODEL_COUNT; model++) {
            instance.problem.model = (mdnn_wd_model_t)model;
            possible += compare(&instance, &cursor);
        }
    }
    assert_true(cursor.next == cursor.end);
    assert_true(first_seed == last_seed || possible > INSTANCES); /* of twice as many */
    free(answer);
}

int main(void)
{
    const char *const build = getenv("MDNN_BUILD"), *const seed = getenv("MDNN_TEST_SEED");
    snprintf(program, sizeof program, "%s/microdnn-ilp", build ? build : "build");
    if (seed)
        first_seed = last_seed = strtoull(seed, NULL, 10);
    return run_cases("ilp_agreement");
}
