/* How a child ends that does what ends a process. */
#ifndef MDNN_TEST_DEATH_OF_H
#define MDNN_TEST_DEATH_OF_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What the child says on stderr before SIGABRT; "" if it ends in order. */
static inline const char *death_of(void (*violate)(void))
{
    static char text[512];
    int ends[2], status;
    memset(text, 0, sizeof text);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL); /* cmocka's own */
        (void)dup2(ends[1], STDERR_FILENO);
        violate();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got, at = 0; (got = read(ends[0], text + at, sizeof text - 1 - (size_t)at)) > 0;)
        at += got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (text[0])
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return text;
}

#endif
