/* When a program is taken to search: what it does before it first runs a problem's plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "optimizer/search.h"

/* One problem of a program that makes so many plans of it, runs some twice and then one of them. */
static void pose(mdnn_search_t *problem, int plans, int tried)
{
    for (int i = 0; i < plans; i++)
        mdnn_search_met(problem);
    for (int i = 0; i < tried; i++)
        for (int run = 1; run <= MDNN_SEARCH_PROBES; run++)
            mdnn_search_ran(problem, run);
    mdnn_search_ran(problem, MDNN_SEARCH_PROBES + 1);
}

static bool goes_on(void) /* for a problem that is new */
{
    return mdnn_search_goes_on(&(mdnn_search_t){0});
}

static void forget_patience(void)
{
    for (int i = 0; i < 100; i++)
        pose(&(mdnn_search_t){0}, 1, 1);
}

static int forget(void **state)
{
    (void)state;
    forget_patience();
    return 0;
}

static void plan_after_plan_is_a_search(void **state)
{
    (void)state;
    mdnn_search_t problem = {0};
    mdnn_search_met(&problem);
    mdnn_search_met(&problem);
    assert_false(goes_on());
    mdnn_search_met(&problem);
    assert_true(goes_on() && mdnn_search_goes_on(&problem));
}

static void a_plan_that_runs_at_once_is_none(void **state)
{
    (void)state;
    mdnn_search_t problem = {0};
    for (int i = 0; i < 10; i++) {
        mdnn_search_met(&problem);
        mdnn_search_ran(&problem, 1);
        assert_false(goes_on());
    }
}

static void one_problem_with_few_plans_ends_no_search(void **state)
{
    (void)state;
    mdnn_search_t few[3] = {{0}};
    pose(&(mdnn_search_t){0}, 10, 10);
    pose(&few[0], 1, 1);
    assert_true(goes_on() && !mdnn_search_missed(&few[0]));
    pose(&(mdnn_search_t){0}, 10, 10);
    pose(&few[1], 2, 2);
    pose(&few[2], 1, 1);
    assert_true(goes_on() && !mdnn_search_missed(&few[1]));
}

static void many_problems_without_a_search_end_it(void **state)
{
    (void)state;
    mdnn_search_t first = {0}, last = {0};
    pose(&(mdnn_search_t){0}, 10, 10);
    pose(&first, 1, 1);
    assert_false(mdnn_search_missed(&first));
    for (int i = 0; i < 2; i++)
        pose(&(mdnn_search_t){0}, 1, 1);
    pose(&last, 1, 1);
    assert_false(goes_on());
    assert_true(mdnn_search_missed(&first) && mdnn_search_missed(&last));
}

static void what_a_search_chose_stays_chosen_when_searches_end(void **state)
{
    (void)state;
    mdnn_search_t problem = {0};
    pose(&problem, 10, 10);
    forget_patience();
    assert_false(mdnn_search_missed(&problem));
    assert_false(mdnn_search_goes_on(&problem)); /* a plan that is made now is another matter */
}

static void whoever_tries_no_other_plan_does_not_search(void **state)
{
    (void)state;
    mdnn_search_t problem = {0};
    pose(&problem, 10, 1);
    assert_true(mdnn_search_missed(&problem));
    assert_false(mdnn_search_goes_on(&problem));
    pose(&problem, 10, 10);
    assert_false(mdnn_search_missed(&problem));
    assert_true(mdnn_search_goes_on(&problem));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plan_after_plan_is_a_search, forget),
        cmocka_unit_test_setup(a_plan_that_runs_at_once_is_none, forget),
        cmocka_unit_test_setup(one_problem_with_few_plans_ends_no_search, forget),
        cmocka_unit_test_setup(many_problems_without_a_search_end_it, forget),
        cmocka_unit_test_setup(what_a_search_chose_stays_chosen_when_searches_end, forget),
        cmocka_unit_test_setup(whoever_tries_no_other_plan_does_not_search, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
