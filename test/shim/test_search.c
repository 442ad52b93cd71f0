/* When a program is taken to search: what it does before it first runs a problem's plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/search.h"

/* One problem of a program that makes so many plans of it, then runs them. */
static void pose(int plans)
{
    mdnn_search_t problem = {0};
    for (int i = 0; i < plans; i++)
        mdnn_search_met(&problem);
    for (int i = 0; i < 2 * plans; i++)
        mdnn_search_executed(&problem);
}

static int forget(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        pose(1);
    return 0;
}

static void plan_after_plan_is_a_search(void **state)
{
    (void)state;
    mdnn_search_t problem = {0};
    mdnn_search_met(&problem);
    mdnn_search_met(&problem);
    assert_false(mdnn_search_goes_on());
    mdnn_search_met(&problem);
    assert_true(mdnn_search_goes_on());
}

static void a_plan_that_runs_at_once_is_none(void **state)
{
    (void)state;
    mdnn_search_t problem = {0};
    for (int i = 0; i < 10; i++) {
        mdnn_search_met(&problem);
        mdnn_search_executed(&problem);
        assert_false(mdnn_search_goes_on());
    }
}

static void one_problem_with_few_plans_ends_no_search(void **state)
{
    (void)state;
    pose(10);
    pose(1);
    assert_true(mdnn_search_goes_on());
    pose(10);
    pose(2);
    pose(1);
    assert_true(mdnn_search_goes_on());
}

static void many_problems_without_a_search_end_it(void **state)
{
    (void)state;
    pose(10);
    for (int i = 0; i < 4; i++)
        pose(1);
    assert_false(mdnn_search_goes_on());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plan_after_plan_is_a_search, forget),
        cmocka_unit_test_setup(a_plan_that_runs_at_once_is_none, forget),
        cmocka_unit_test_setup(one_problem_with_few_plans_ends_no_search, forget),
        cmocka_unit_test_setup(many_problems_without_a_search_end_it, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
