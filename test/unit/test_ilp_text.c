/* The text form between the library and microdnn-ilp. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/ilp_text.h"
#include "test/unit/cases.h"
#include "test/unit/random_wd.h"

static mdnn_ilp_cursor_t cursor_over(const char *text, size_t bytes)
{
    return (mdnn_ilp_cursor_t){text, text + bytes, 1};
}

static void assert_same_problem(const mdnn_wd_problem_t *a, const mdnn_wd_problem_t *b)
{
    assert_true(a->model == b->model && a->total_bytes == b->total_bytes);
    assert_true(a->group_count == b->group_count && a->kernel_count == b->kernel_count);
    for (size_t k = 0; k < a->kernel_count; k++) {
        const mdnn_wd_kernel_t *const x = &a->kernels[k], *const y = &b->kernels[k];
        assert_true(x->group == y->group && x->item_count == y->item_count);
        for (size_t i = 0; i < x->item_count; i++)
            assert_true(x->items[i].time_ms == y->items[i].time_ms &&
                        x->items[i].workspace_bytes == y->items[i].workspace_bytes);
    }
}

CASE(problems_come_back_as_they_were)
{
    mdnn_text_t text = {0};
    random_wd_t instance;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        random_wd_fill(&instance, seed);
        instance.problem.model = (mdnn_wd_model_t)(seed % MDNN_WD_MODEL_COUNT);
        assert_int_equal(mdnn_ilp_write_problem(&text, &instance.problem), MDNN_STATUS_OK);
    }
    mdnn_ilp_cursor_t cursor = cursor_over(text.bytes, text.used);
    for (uint64_t seed = 1; seed <= 500; seed++) {
        mdnn_ilp_problem_t read;
        random_wd_fill(&instance, seed);
        instance.problem.model = (mdnn_wd_model_t)(seed % MDNN_WD_MODEL_COUNT);
        assert_int_equal(mdnn_ilp_read_problem(&cursor, &read), MDNN_STATUS_OK);
        assert_same_problem(&instance.problem, &read.problem);
        mdnn_ilp_problem_fini(&read);
    }
    mdnn_ilp_problem_t none;
    assert_int_equal(mdnn_ilp_read_problem(&cursor, &none), MDNN_STATUS_NOT_FOUND);
    free(text.bytes);
}

CASE(solutions_come_back_as_they_were)
{
    size_t choices[] = {2, 0, 17};
    const mdnn_ilp_solution_t solutions[] = {{MDNN_ILP_OPTIMAL, 1.5, 3, choices},
                                             {MDNN_ILP_FEASIBLE, 0.000000001, 1, choices},
                                             {MDNN_ILP_INFEASIBLE, 0, 0, NULL},
                                             {MDNN_ILP_FAILED, 0, 0, NULL}};
    mdnn_text_t text = {0};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(mdnn_ilp_write_solution(&text, &solutions[i]), MDNN_STATUS_OK);
    mdnn_ilp_cursor_t cursor = cursor_over(text.bytes, text.used);
    for (size_t i = 0; i < 4; i++) {
        mdnn_ilp_solution_t read;
        assert_int_equal(mdnn_ilp_read_solution(&cursor, &read), MDNN_STATUS_OK);
        assert_true(read.state == solutions[i].state && read.bound_ms == solutions[i].bound_ms);
        assert_int_equal(read.choice_count, solutions[i].choice_count);
        for (size_t k = 0; k < read.choice_count; k++)
            assert_int_equal(read.choices[k], choices[k]);
        mdnn_ilp_solution_fini(&read);
    }
    free(text.bytes);
}

/* The page in ilp_text.h, and what the writer makes of it. */
static const char page[] =
    "microdnn-ilp problem 1\nmodel sum\ntotal 125829120\ngroups 1\nkernels 2\n"
    "kernel 0 3\n0.120000000 0\n0.101500000 1024\n0.100000000 52428800\n"
    "kernel 0 1\n0.300000000 0\nend\n";

CASE(text_does_not_depend_on_the_locale)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
    mdnn_ilp_problem_t read;
    mdnn_text_t text = {0};
    mdnn_ilp_cursor_t cursor = cursor_over(page, sizeof page - 1);
    for (size_t i = 0; i < 4 && setlocale(LC_ALL, commas[i]) == NULL; i++)
        continue;
    assert_int_equal(mdnn_ilp_read_problem(&cursor, &read), MDNN_STATUS_OK);
    assert_true(read.items[1].time_ms == 0.1015 && read.items[2].workspace_bytes == 52428800);
    assert_int_equal(mdnn_ilp_write_problem(&text, &read.problem), MDNN_STATUS_OK);
    assert_int_equal(text.used, sizeof page - 1);
    assert_memory_equal(text.bytes, page, text.used);
    setlocale(LC_ALL, "C");
    mdnn_ilp_problem_fini(&read);
    free(text.bytes);
}

/* However little text follows: a group may have no kernel. */
CASE(a_problem_may_have_many_groups)
{
    const mdnn_wd_problem_t most = {.model = MDNN_WD_SHARED, .group_count = 1 << 16},
                            too_many = {.model = MDNN_WD_SHARED, .group_count = (1 << 16) + 1};
    mdnn_ilp_problem_t read;
    mdnn_text_t text = {0};
    assert_int_equal(mdnn_ilp_write_problem(&text, &most), MDNN_STATUS_OK);
    mdnn_ilp_cursor_t cursor = cursor_over(text.bytes, text.used);
    assert_int_equal(mdnn_ilp_read_problem(&cursor, &read), MDNN_STATUS_OK);
    assert_int_equal(read.problem.group_count, most.group_count);
    mdnn_ilp_problem_fini(&read);
    assert_int_equal(mdnn_ilp_write_problem(&text, &too_many), MDNN_STATUS_INVALID_ARGUMENT);
    free(text.bytes);
}

CASE(cut_text_is_refused)
{
    for (size_t bytes = 1; bytes < sizeof page - 1; bytes++) {
        char *const copy = malloc(bytes); /* exact, so that a sanitizer sees one byte too far */
        memcpy(copy, page, bytes);
        mdnn_ilp_problem_t read;
        mdnn_ilp_cursor_t cursor = cursor_over(copy, bytes);
        assert_int_equal(mdnn_ilp_read_problem(&cursor, &read), MDNN_STATUS_BAD_FORMAT);
        free(copy);
    }
}

CASE(text_that_is_almost_right_is_refused_at_its_line)
{
    static const struct {
        const char *text;
        size_t line;
    } cases[] = {
        {"microdnn-ilp problem 2\n", 1},
        {"microdnn-ilp problem 1\nmodel sums\n", 2},
        {"microdnn-ilp problem 1\nmodel sum\ntotal -1\n", 3},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 18446744073709551616\n", 3},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 99999999999\n", 5},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 1 1\n0 0\nend\n",
         7},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 0 0\n0 0\nend\n",
         7},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 0 1\n0. 0\nend\n",
         7},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 0 1\n0,5 "
         "0\nend\n",
         7},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 0 "
         "1\n0.1234567890 0\nend\n",
         7},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 0 1\n1000000001 "
         "0\nend\n",
         7},
        {"microdnn-ilp problem 1\nmodel sum\ntotal 1\ngroups 1\nkernels 1\nkernel 0 1\n1 "
         "0\nkernel\n",
         8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mdnn_ilp_problem_t read;
        mdnn_ilp_cursor_t cursor = cursor_over(cases[i].text, strlen(cases[i].text));
        assert_int_equal(mdnn_ilp_read_problem(&cursor, &read), MDNN_STATUS_BAD_FORMAT);
        assert_int_equal(cursor.line, cases[i].line);
    }
    static const char *const solutions[] = {
        "rubbish\n",
        "microdnn-ilp solution 1\nstate splendid\n",
        "microdnn-ilp solution 1\nstate optimal\nchoices 0\nend\n",
        "microdnn-ilp solution 1\nstate optimal\nbound 1\nchoices 2\n0\nend\n",
        "microdnn-ilp solution 1\nstate optimal\nbound 1\nchoices 9999999\n0\nend\n",
        "microdnn-ilp solution 1\nstate failed\nchoices 1\n0\nend\n",
    };
    for (size_t i = 0; i < sizeof solutions / sizeof *solutions; i++) {
        mdnn_ilp_solution_t read;
        mdnn_ilp_cursor_t cursor = cursor_over(solutions[i], strlen(solutions[i]));
        assert_int_equal(mdnn_ilp_read_solution(&cursor, &read), MDNN_STATUS_BAD_FORMAT);
    }
}

CASE(times_that_the_form_cannot_hold_are_refused)
{
    const double times[] = {-1, 0.0 / 0.0, 1.0 / 0.0, 2e9};
    mdnn_text_t text = {0};
    for (size_t i = 0; i < 4; i++) {
        const mdnn_knapsack_item_t item = {times[i], 0};
        const mdnn_wd_kernel_t kernel = {&item, 1, 0};
        const mdnn_wd_problem_t problem = {MDNN_WD_SUM, &kernel, 1, 1, 0};
        assert_int_equal(mdnn_ilp_write_problem(&text, &problem), MDNN_STATUS_INVALID_ARGUMENT);
    }
    free(text.bytes);
}

int main(void)
{
    return run_cases("ilp_text");
}
