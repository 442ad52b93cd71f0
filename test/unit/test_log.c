#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/log.h"

static char directory[] = "/tmp/mdnn-log.XXXXXX";
static char path[256];

static char *content_of(const char *file)
{
    static char buffer[1 << 20];
    FILE *const stream = fopen(file, "r");
    assert_non_null(stream);
    const size_t used = fread(buffer, 1, sizeof buffer - 1, stream);
    fclose(stream);
    buffer[used] = '\0';
    return buffer;
}

static int fresh_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/log", directory);
    unlink(path);
    mdnn_log_configure(MDNN_LOG_INFO, path);
    return 0;
}

static void a_line_names_process_thread_and_subsystem(void **state)
{
    (void)state;
    MDNN_LOG(MDNN_LOG_INFO, "cache", "opened %d of %s", 3, "them");
    char expected[128];
    snprintf(expected, sizeof expected, "microdnn: %d:%d cache: opened 3 of them\n", (int)getpid(),
             (int)gettid());
    assert_string_equal(content_of(path), expected);
}

static void lines_above_the_level_are_silent_and_do_not_evaluate_arguments(void **state)
{
    (void)state;
    int evaluated = 0;
    MDNN_LOG(MDNN_LOG_DEBUG, "x", "%d", ++evaluated);
    assert_int_equal(evaluated, 0);
    assert_int_equal(access(path, F_OK), -1);
    MDNN_LOG(MDNN_LOG_ERROR, "x", "%d", ++evaluated);
    assert_int_equal(evaluated, 1);
    mdnn_log_configure(MDNN_LOG_OFF, path);
    MDNN_LOG(MDNN_LOG_ERROR, "x", "%d", ++evaluated);
    assert_int_equal(evaluated, 1);
}

static void once_says_it_once_per_place(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "x", "again %d", i);
    const char *const text = content_of(path);
    assert_non_null(strstr(text, "again 0\n"));
    assert_null(strstr(text, "again 1"));
}

static void errno_is_the_same_after_a_line(void **state)
{
    (void)state;
    errno = EXDEV;
    MDNN_LOG(MDNN_LOG_WARN, "x", "text");
    assert_int_equal(errno, EXDEV);
    mdnn_log_configure(MDNN_LOG_INFO, "/nonexistent-directory/log");
    errno = EXDEV;
    MDNN_LOG(MDNN_LOG_WARN, "x", "this line goes to stderr");
    assert_int_equal(errno, EXDEV);
}

static void a_long_message_is_cut_and_control_characters_stay_in_the_line(void **state)
{
    (void)state;
    char text[8000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    MDNN_LOG(MDNN_LOG_WARN, "x", "%s", text);
    const char *written = content_of(path);
    assert_int_equal(strlen(written), 2047);
    assert_string_equal(written + 2047 - 6, "yy...\n");
    unlink(path);
    MDNN_LOG(MDNN_LOG_WARN, "x", "a\nmicrodnn: forged\x1b[2J");
    written = content_of(path);
    assert_non_null(strstr(written, "a microdnn: forged [2J\n"));
}

static void patterns_take_process_host_and_percent(void **state)
{
    (void)state;
    char host[256] = "", out[600], expected[600];
    gethostname(host, sizeof host - 1);
    mdnn_expand_pattern("/a/%p.%h.%%p.%q%", out, sizeof out);
    snprintf(expected, sizeof expected, "/a/%d.%s.%%p.%%q%%", (int)getpid(), host);
    assert_string_equal(out, expected);
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < 4; i++)
        unsetenv(ranks[i]);
    mdnn_expand_pattern("%r", out, sizeof out);
    snprintf(expected, sizeof expected, "%d", (int)getpid());
    assert_string_equal(out, expected);
    for (size_t i = 4; i-- > 0;) { /* the first one counts, if it is a number */
        snprintf(expected, sizeof expected, "%zu", 40 + i);
        setenv(ranks[i], expected, 1);
        mdnn_expand_pattern("%r", out, sizeof out);
        assert_string_equal(out, expected);
    }
    setenv("RANK", "1x", 1);
    mdnn_expand_pattern("a%rb", out, sizeof out);
    assert_string_equal(out, "a41b");
    char small[5];
    mdnn_expand_pattern("abcdefgh", small, sizeof small);
    assert_string_equal(small, "abcd");
    mdnn_expand_pattern("ab%p%p%p", small, sizeof small);
    assert_int_equal(strlen(small), 4);
}

static void the_file_name_has_the_process_that_writes(void **state)
{
    (void)state;
    char pattern[300], mine[300], childs[300];
    snprintf(pattern, sizeof pattern, "%s/of.%%p", directory);
    mdnn_log_configure(MDNN_LOG_INFO, pattern);
    MDNN_LOG(MDNN_LOG_INFO, "x", "parent");
    const pid_t child = fork();
    if (child == 0) {
        MDNN_LOG(MDNN_LOG_INFO, "x", "child");
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(mine, sizeof mine, "%s/of.%d", directory, (int)getpid());
    snprintf(childs, sizeof childs, "%s/of.%d", directory, (int)child);
    assert_non_null(strstr(content_of(mine), "parent\n"));
    assert_null(strstr(content_of(mine), "child"));
    assert_non_null(strstr(content_of(childs), "child\n"));
}

static void a_relative_file_stays_where_it_was_when_the_host_changes_directory(void **state)
{
    (void)state;
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    mdnn_log_configure(MDNN_LOG_INFO, "relative");
    assert_int_equal(chdir("/"), 0);
    MDNN_LOG(MDNN_LOG_INFO, "x", "moved");
    assert_int_equal(chdir(before), 0);
    char expected[300];
    snprintf(expected, sizeof expected, "%s/relative", directory);
    assert_non_null(strstr(content_of(expected), "moved\n"));
}

static int lowest_free_descriptor(void)
{
    const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(descriptor);
    return descriptor;
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    const int before = lowest_free_descriptor();
    for (int i = 0; i < 10; i++)
        MDNN_LOG(MDNN_LOG_INFO, "x", "line");
    assert_int_equal(lowest_free_descriptor(), before);
}

enum { THREADS = 8, LINES = 200 };

static void *write_lines(void *argument)
{
    const int id = *(const int *)argument;
    for (int i = 0; i < LINES; i++)
        MDNN_LOG(MDNN_LOG_INFO, "thread", "id %d line %d %0*d end", id, i, 50 + id * 40, 0);
    return NULL;
}

static void lines_of_threads_and_processes_are_never_torn(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int ids[THREADS];
    const pid_t child = fork();
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    int seen[THREADS] = {0}, lines = 0;
    char *save = NULL;
    for (char *line = strtok_r(content_of(path), "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save), lines++) {
        int process = 0, thread = 0, id = -1, number = -1, zeros = -1, end = -1;
        assert_int_equal(sscanf(line, "microdnn: %d:%d thread: id %d line %d %n%*[0]%n end",
                                &process, &thread, &id, &number, &zeros, &end),
                         4);
        assert_in_range(id, 0, THREADS - 1);
        assert_int_equal(end - zeros, 50 + id * 40);
        assert_string_equal(line + end, " end");
        seen[id]++;
    }
    assert_int_equal(lines, 2 * THREADS * LINES);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(seen[i], 2 * LINES);
}

static void a_reader_that_went_away_does_not_kill_the_host(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        int ends[2];
        signal(SIGPIPE, SIG_DFL);
        if (pipe(ends) != 0)
            _exit(2);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        mdnn_log_configure(MDNN_LOG_INFO, "stderr");
        MDNN_LOG(MDNN_LOG_INFO, "x", "nobody reads this");
        sigset_t pending;
        sigpending(&pending);
        _exit(sigismember(&pending, SIGPIPE) ? 3 : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_fifo_that_nobody_reads_does_not_stop_the_host(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    MDNN_LOG(MDNN_LOG_INFO, "x", "this line goes to stderr");
    unlink(path);
}

int main(void)
{
    if (mkdtemp(directory) == NULL)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_line_names_process_thread_and_subsystem, fresh_file),
        cmocka_unit_test_setup(lines_above_the_level_are_silent_and_do_not_evaluate_arguments,
                               fresh_file),
        cmocka_unit_test_setup(once_says_it_once_per_place, fresh_file),
        cmocka_unit_test_setup(errno_is_the_same_after_a_line, fresh_file),
        cmocka_unit_test_setup(a_long_message_is_cut_and_control_characters_stay_in_the_line,
                               fresh_file),
        cmocka_unit_test(patterns_take_process_host_and_percent),
        cmocka_unit_test_setup(the_file_name_has_the_process_that_writes, fresh_file),
        cmocka_unit_test_setup(a_relative_file_stays_where_it_was_when_the_host_changes_directory,
                               fresh_file),
        cmocka_unit_test_setup(no_descriptor_stays_open, fresh_file),
        cmocka_unit_test_setup(lines_of_threads_and_processes_are_never_torn, fresh_file),
        cmocka_unit_test_setup(a_reader_that_went_away_does_not_kill_the_host, fresh_file),
        cmocka_unit_test_setup(a_fifo_that_nobody_reads_does_not_stop_the_host, fresh_file),
    };
    const int failed = cmocka_run_group_tests_name("log", tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? failed : 1;
}
