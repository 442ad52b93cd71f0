/* Assertions, as debug builds check them, whatever this build is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef MDNN_DEBUG
#define MDNN_DEBUG
#endif
#define mdnn_assertion_failed checked_assertion_failed /* beside the one of the archive */
#include "config/assertion.c"

static void what_holds_has_no_effect(void **state)
{
    (void)state;
    MDNN_ASSERT(1 + 1 == 2);
}

static void what_does_not_hold_is_named_and_ends_the_process(void **state)
{
    (void)state;
    char text[256] = {0};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL); /* cmocka's own */
        (void)dup2(ends[1], STDERR_FILENO);
        MDNN_ASSERT(child > 0);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "does not hold: child > 0"));
    assert_non_null(strstr(text, "test_assertion.c:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_has_no_effect),
        cmocka_unit_test(what_does_not_hold_is_named_and_ends_the_process),
    };
    return cmocka_run_group_tests_name("assertions", tests, NULL, NULL);
}
