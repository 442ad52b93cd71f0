/* Random tests. each_seed(check, count) calls check with the seeds from 1 on. Where a CHECK fails, the run is repeated in
 * children of this process with ever fewer random draws (test/unit/random.h); the message names the seed and the fewest
 * draws that still fail: MDNN_TEST_SEED=SEED:DRAWS in the environment repeats just that run. */
#ifndef MDNN_TEST_EACH_SEED_H
#define MDNN_TEST_EACH_SEED_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/random.h"

static uint64_t seed_now;
static void (*seed_check)(uint64_t seed);
static bool seed_is_shrinking;

static inline void seed_run(uint64_t seed, uint64_t draws)
{
    seed_now = seed;
    random_drawn = 0;
    random_limit = draws;
    seed_check(seed);
}

/* Whether this seed fails with so few draws; a run that takes long does not count. */
static inline bool seed_fails_with(uint64_t draws)
{
    static const int crashes[] = {SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGSYS, SIGABRT};
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
            signal(crashes[i], SIG_DFL);
        setrlimit(RLIMIT_CPU, &(struct rlimit){2, 2});
        setenv("CMOCKA_TEST_ABORT", "1", true);
        freopen("/dev/null", "w", stdout);
        freopen("/dev/null", "w", stderr);
        seed_is_shrinking = true;
        seed_run(seed_now, draws);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    return WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGXCPU
                               : WEXITSTATUS(status) != 0;
}

static inline void seed_failed(const char *condition)
{
    uint64_t few = 0, enough = random_drawn;
    if (seed_is_shrinking)
        _exit(1);
    if (!seed_check) /* a test without random numbers */
        fail_msg("%s", condition);
    while (few < enough) {
        const uint64_t between = few + (enough - few) / 2;
        if (seed_fails_with(between))
            enough = between;
        else
            few = between + 1;
    }
    seed_check = NULL;
    fail_msg("%s (MDNN_TEST_SEED=%llu:%llu)", condition, (unsigned long long)seed_now,
             (unsigned long long)enough);
}

#define CHECK(condition) ((condition) ? (void)0 : seed_failed(#condition))

static inline void each_seed(void (*check)(uint64_t seed), uint64_t count)
{
    const char *const wanted = getenv("MDNN_TEST_SEED");
    char *end;
    seed_check = check;
    if (wanted) {
        const uint64_t seed = strtoull(wanted, &end, 10);
        seed_run(seed, *end == ':' ? strtoull(end + 1, NULL, 10) : UINT64_MAX);
    }
    for (uint64_t seed = 1; !wanted && seed <= count; seed++)
        seed_run(seed, UINT64_MAX);
    random_limit = UINT64_MAX;
    seed_check = NULL;
}

#endif
