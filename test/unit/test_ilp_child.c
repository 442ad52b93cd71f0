/* microdnn-ilp as a child: in hosts that ignore SIGCHLD or reap everything, and with programs in
 * its place that are missing, killed, slow, silent, or answer rubbish. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "optimizer/ilp_child.h"

/* TSan takes a clone in shared memory for a fork, and the threads that follow for the child's. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

enum { LONG_MS = 600000 }; /* more than any of them takes on a busy machine */

static char real_program[4096], fake_program[4096];

static const mdnn_knapsack_item_t steep[] = {{10, 0}, {4, 60}}, flat[] = {{10, 0}, {9, 60}};
static const mdnn_wd_kernel_t kernels[] = {{flat, 2, 0}, {steep, 2, 0}, {flat, 2, 0}};
static const mdnn_wd_problem_t problem = {MDNN_WD_SUM, kernels, 3, 1, 119};

static void need_program(void)
{
    if (access(real_program, X_OK) != 0) {
        print_message("# SKIP microdnn-ilp is not built: there is no GLPK (libglpk-dev)\n");
        skip();
    }
}

static void assert_solved(void)
{
    size_t choices[3] = {9, 9, 9};
    mdnn_wd_result_t result;
    assert_int_equal(mdnn_ilp_ask(real_program, &problem, LONG_MS, choices, &result),
                     MDNN_STATUS_OK);
    assert_true(choices[0] == 0 && choices[1] == 1 && choices[2] == 0);
    assert_true(result.time_ms == 24 && result.workspace_bytes == 60 && result.optimal);
}

/* No child of ours is left, of either kind. */
static void assert_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static int lowest_free_fd(void)
{
    const int fd = dup(0);
    close(fd);
    return fd;
}

static void it_solves_and_leaves_nothing_behind(void **state)
{
    const int before = lowest_free_fd();
    (void)state;
    need_program();
    for (int i = 0; i < 20; i++)
        assert_solved();
    assert_int_equal(lowest_free_fd(), before);
    assert_no_children();
}

static void problem_that_nothing_fits_is_an_answer(void **state)
{
    static const mdnn_knapsack_item_t large[] = {{1, 100}};
    const mdnn_wd_kernel_t kernel = {large, 1, 0};
    const mdnn_wd_problem_t tight = {MDNN_WD_SHARED, &kernel, 1, 1, 99};
    size_t choice;
    mdnn_wd_result_t result;
    (void)state;
    need_program();
    assert_int_equal(mdnn_ilp_ask(real_program, &tight, LONG_MS, &choice, &result),
                     MDNN_STATUS_NOT_FOUND);
}

static atomic_int sigchld_count;
static void count_sigchld(int number)
{
    (void)number;
    atomic_fetch_add(&sigchld_count, 1);
}

static void host_that_handles_or_ignores_sigchld_notices_nothing(void **state)
{
    (void)state;
    need_program();
    signal(SIGCHLD, SIG_IGN);
    assert_solved();
    signal(SIGCHLD, count_sigchld);
    assert_solved();
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(atomic_load(&sigchld_count), 0);
    assert_no_children();
}

static atomic_bool reaping;
static atomic_int reaped;
static void *reap_everything(void *unused)
{
    while (atomic_load(&reaping))
        if (waitpid(-1, NULL, WNOHANG) > 0)
            atomic_fetch_add(&reaped, 1);
    return unused;
}

static pthread_t begin_to_reap(void)
{
    pthread_t reaper;
    atomic_store(&reaped, 0);
    atomic_store(&reaping, true);
    assert_int_equal(pthread_create(&reaper, NULL, reap_everything, NULL), 0);
    return reaper;
}

static int end_reaping(pthread_t reaper)
{
    atomic_store(&reaping, false);
    pthread_join(reaper, NULL);
    return atomic_load(&reaped);
}

static void host_that_reaps_everything_finds_only_its_own(void **state)
{
    (void)state;
    need_program();
    const pthread_t reaper = begin_to_reap();
    const pid_t own = fork();
    if (own == 0)
        _exit(0);
    for (int i = 0; i < 10; i++)
        assert_solved();
    while (atomic_load(&reaped) == 0)
        continue;
    assert_int_equal(end_reaping(reaper), 1);
}

static void host_without_standard_descriptors_is_served(void **state)
{
    (void)state;
    need_program();
    const int in = dup(0), out = dup(1);
    close(0);
    close(1);
    size_t choices[3];
    mdnn_wd_result_t result;
    const mdnn_status_t status = mdnn_ilp_ask(real_program, &problem, LONG_MS, choices, &result);
    dup2(in, 0);
    dup2(out, 1);
    close(in);
    close(out);
    assert_int_equal(status, MDNN_STATUS_OK);
}

static void *ask_often(void *unused)
{
    for (int i = 0; i < 10; i++)
        assert_solved();
    return unused;
}

static void threads_ask_at_the_same_time(void **state)
{
    pthread_t threads[3];
    (void)state;
    need_program();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_no_children();
}

/* ---- programs in its place ---- */

static mdnn_status_t ask_fake(const char *script, double time_limit_ms)
{
    size_t choices[3] = {7, 7, 7};
    mdnn_wd_result_t result = {.time_ms = 5};
    FILE *const file = fopen(fake_program, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(fake_program, 0755), 0);
    const int before = lowest_free_fd();
    const mdnn_status_t status =
        mdnn_ilp_ask(fake_program, &problem, time_limit_ms, choices, &result);
    assert_int_equal(lowest_free_fd(), before);
    if (status != MDNN_STATUS_OK)
        assert_true(choices[0] == 7 && result.time_ms == 5);
    assert_no_children();
    return status;
}

#define ANSWER(state, choices)                                                                     \
    "cat >/dev/null; printf 'microdnn-ilp solution 1\\nstate " state                               \
    "\\nbound 1\\nchoices " choices "end\\n'"

static void programs_that_do_not_answer_are_io(void **state)
{
    size_t choices[3];
    mdnn_wd_result_t result;
    (void)state;
    assert_int_equal(mdnn_ilp_ask("/no/such/program", &problem, LONG_MS, choices, &result),
                     MDNN_STATUS_IO);
    assert_int_equal(mdnn_ilp_ask("/dev/null", &problem, LONG_MS, choices, &result),
                     MDNN_STATUS_IO);
    assert_int_equal(ask_fake("exit 0", LONG_MS), MDNN_STATUS_IO);
    assert_int_equal(ask_fake("exec /no/such/program 2>/dev/null", LONG_MS), MDNN_STATUS_IO);
    assert_int_equal(ask_fake("kill -9 $$", LONG_MS), MDNN_STATUS_IO);
    assert_int_equal(ask_fake("cat >/dev/null; kill -9 $$", LONG_MS), MDNN_STATUS_IO);
}

static void rubbish_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ask_fake("cat /dev/zero 2>/dev/null | head -c 100000", LONG_MS),
                     MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(ask_fake("cat", LONG_MS), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(ask_fake(ANSWER("optimal", "2\\n0\\n0\\n"), LONG_MS), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(ask_fake(ANSWER("optimal", "3\\n0\\n2\\n0\\n"), LONG_MS),
                     MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(ask_fake(ANSWER("optimal", "3\\n1\\n1\\n0\\n"), LONG_MS),
                     MDNN_STATUS_BAD_FORMAT); /* 120 of 119 bytes */
    assert_int_equal(ask_fake(ANSWER("optimal", "3\\n0\\n1\\n0\\n") "; echo more", LONG_MS),
                     MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(ask_fake(ANSWER("feasible", "3\\n0\\n1\\n0\\n"), LONG_MS), MDNN_STATUS_OK);
}

static void slow_programs_are_ended(void **state)
{
    static const char *const scripts[] = {
        "exec sleep 3600", "trap '' TERM INT HUP; exec sleep 3600",
        "while :; do echo x; sleep 0.01; done", "exec cat /dev/zero"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const mdnn_status_t status = ask_fake(scripts[i], 50);
        assert_true(status == MDNN_STATUS_BUSY || status == MDNN_STATUS_OUT_OF_MEMORY);
    }
}

/* Whatever a host does with its children, it finds none of ours, and we find what became of ours.
 */
static void trouble_is_the_same_in_every_host(void **state)
{
    static void (*const handlers[])(int) = {SIG_IGN, count_sigchld};
    static void (*const troubles[])(void **) = {programs_that_do_not_answer_are_io,
                                                rubbish_is_refused, slow_programs_are_ended};
    atomic_store(&sigchld_count, 0);
    for (size_t i = 0; i < 2 * 3; i++) {
        signal(SIGCHLD, handlers[i % 2]);
        troubles[i / 2](state);
    }
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(atomic_load(&sigchld_count), 0);
    const pthread_t reaper = begin_to_reap();
    for (size_t i = 0; i < 3; i++)
        troubles[i](state);
    assert_int_equal(end_reaping(reaper), 0);
}

static void child_inherits_neither_environment_nor_descriptors(void **state)
{
    const int secret = open("/dev/null", O_RDONLY); /* no O_CLOEXEC */
    char script[512];
    (void)state;
    assert_true(secret > 2);
    setenv("LD_PRELOAD_PROBE", "x", 1);
    snprintf(script, sizeof script,
             "[ -z \"$LD_PRELOAD_PROBE\" ] && [ ! -e /proc/self/fd/%d ] || exit 1\n%s", secret,
             ANSWER("optimal", "3\\n0\\n1\\n0\\n"));
    assert_int_equal(ask_fake(script, LONG_MS), MDNN_STATUS_OK);
    close(secret);
}

static void solution_is_replaced_only_by_a_better_one(void **state)
{
    size_t choices[3] = {0, 0, 0};
    mdnn_wd_result_t result = {.time_ms = 30, .bound_ms = 20};
    bool improved = false;
    (void)state;
    assert_int_equal(ask_fake(ANSWER("feasible", "3\\n1\\n0\\n0\\n"), LONG_MS), MDNN_STATUS_OK);
    assert_int_equal(mdnn_ilp_improve(fake_program, &problem, LONG_MS, choices, &result, &improved),
                     MDNN_STATUS_OK);
    assert_true(improved && choices[0] == 1 && result.time_ms == 29 && !result.optimal);
    assert_int_equal(mdnn_ilp_improve(fake_program, &problem, LONG_MS, choices, &result, &improved),
                     MDNN_STATUS_OK);
    assert_false(improved); /* the same again */
    choices[0] = 0;
    choices[1] = 1;
    result = (mdnn_wd_result_t){.time_ms = 24, .bound_ms = 24, .workspace_bytes = 60};
    assert_int_equal(mdnn_ilp_improve(fake_program, &problem, LONG_MS, choices, &result, &improved),
                     MDNN_STATUS_OK);
    assert_true(!improved && choices[1] == 1 && result.time_ms == 24);
}

int main(void)
{
    const char *const build = getenv("MDNN_BUILD"), *const folder = getenv("TMPDIR");
    snprintf(real_program, sizeof real_program, "%s/microdnn-ilp", build ? build : "build");
    snprintf(fake_program, sizeof fake_program, "%s/ilp-child.%ld", folder ? folder : "/tmp",
             (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_solves_and_leaves_nothing_behind),
        cmocka_unit_test(problem_that_nothing_fits_is_an_answer),
        cmocka_unit_test(threads_ask_at_the_same_time),
        cmocka_unit_test(host_that_handles_or_ignores_sigchld_notices_nothing),
        cmocka_unit_test(host_that_reaps_everything_finds_only_its_own),
        cmocka_unit_test(host_without_standard_descriptors_is_served),
        cmocka_unit_test(programs_that_do_not_answer_are_io),
        cmocka_unit_test(rubbish_is_refused),
        cmocka_unit_test(slow_programs_are_ended),
        cmocka_unit_test(trouble_is_the_same_in_every_host),
        cmocka_unit_test(child_inherits_neither_environment_nor_descriptors),
        cmocka_unit_test(solution_is_replaced_only_by_a_better_one),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(fake_program);
    return failed;
}
