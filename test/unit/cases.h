/* A test file defines its cases one after the other, and they run in this order:
 *
 *     CASE(what_is_freed_is_nobodys)
 *     {
 *         assert_true(...);
 *     }
 *
 *     int main(void)
 *     {
 *         return run_cases("ranges");
 *     }
 */
#ifndef MDNN_TEST_CASES_H
#define MDNN_TEST_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST_CASES = 128 };

static struct CMUnitTest all_cases[MOST_CASES];
static size_t case_count;

static void add_case(const char *name, CMUnitTestFunction run)
{
    if (case_count < MOST_CASES)
        all_cases[case_count] = (struct CMUnitTest){name, run, NULL, NULL, NULL};
    case_count++; /* run_cases checks it */
}

static int run_cases(const char *group)
{
    int failed = 0;
    assert_true(case_count <= MOST_CASES);
    if (!getenv("MDNN_FAULT"))
        return _cmocka_run_group_tests(group, all_cases, case_count, NULL, NULL);
    /* A rule is broken on purpose (config/fault.h): the first case that notices is enough. */
    for (size_t i = 0; i < case_count && failed == 0; i++)
        failed = _cmocka_run_group_tests(group, &all_cases[i], 1, NULL, NULL);
    return failed;
}

#define CASE(name)                                                                                 \
    static void name(void);                                                                        \
    static void run_##name(void **state)                                                           \
    {                                                                                              \
        (void)state;                                                                               \
        name();                                                                                    \
    }                                                                                              \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        add_case(#name, run_##name);                                                               \
    }                                                                                              \
    static void name(void)

#endif
