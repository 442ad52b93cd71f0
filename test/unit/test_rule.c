/* The last of a broken rule, as debug builds have it, whatever this build is; and the pace of checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef MDNN_DEBUG
#define MDNN_DEBUG
#endif
#define mdnn_rule_violated checked_rule_violated /* beside the one of the archive */
#include "config/rule.c"
#include "test/unit/cases.h"
#include "test/unit/death_of.h"

static bool is_small(int number, const char **broken)
{
    MDNN_RULE(number < 10);
    MDNN_RULE(number < 20 || number > 30);
    return true;
}

CASE(the_first_broken_rule_is_named)
{
    const char *broken = "nothing";
    assert_true(is_small(9, &broken));
    assert_string_equal(broken, "nothing");
    assert_false(is_small(25, &broken));
    assert_string_equal(broken, "number < 10");
}

static void violate_a_rule(void)
{
    mdnn_rule_violated("all is well", "somewhere.c", 17);
}

CASE(what_is_broken_is_said_and_ends_the_process)
{
    assert_string_equal(death_of(violate_a_rule),
                        "microdnn: somewhere.c:17: does not hold: all is well\n");
}

/* Checks of `looks` looks are due so often in so many changes. */
static int checks_in(int changes, uint64_t looks)
{
    mdnn_rule_pace_t pace = {0};
    int checks = 0;
    for (int i = 0; i < changes; i++)
        if (mdnn_rule_is_due(&pace)) {
            mdnn_rule_took(&pace, looks);
            checks++;
        }
    return checks;
}

CASE(little_is_checked_after_each_change_and_much_less_often)
{
    assert_int_equal(checks_in(100, 1), 100);
    assert_int_equal(checks_in(100, MDNN_RULE_LOOKS), 100);
    assert_int_equal(checks_in(100, 10 * MDNN_RULE_LOOKS), 10);
}

int main(void)
{
    return run_cases("rules");
}
