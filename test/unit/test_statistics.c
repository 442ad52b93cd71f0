#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/statistics.h"
#include "config/statistics_file.h"

/* Recording is a state of the whole process, so each test does its work in a forked child: the
 * child exits with 0, or with the number of the expectation that failed. */

static char directory[] = "/tmp/mdnn-statistics.XXXXXX";
static char target[256], live[300];

static int fresh_directory(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s/*", directory);
    snprintf(target, sizeof target, "%s/stats", directory);
    snprintf(live, sizeof live, "%s.live", target);
    return system(command);
}

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 250 + 1);                                                             \
    } while (0)

static int wait_for(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The line of the EXPECT that failed, modulo 250, plus 1; 0 if all held. */
static int run_in_child(void (*body)(void))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    const int status = wait_for(child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static mdnn_status_t start(int format, const char *file)
{
    static mdnn_options_t options;
    mdnn_options_set_defaults(&options);
    options.general_stats = format;
    snprintf(options.general_stats_file, sizeof options.general_stats_file, "%s", file);
    return mdnn_statistics_open(&options);
}

static int add_row(const char *problem, const char *configuration, double undivided_ms)
{
    mdnn_statistics_row_t row = {.workspace_bytes = UINT64_C(63) << 20,
                                 .undivided_ms = undivided_ms,
                                 .configuration_ms = 1.25};
    snprintf(row.problem, sizeof row.problem, "%s", problem);
    snprintf(row.configuration, sizeof row.configuration, "%s", configuration);
    int index = -1;
    mdnn_statistics_row(&index, &row);
    return index;
}

static char *printed(const char *path, mdnn_statistics_format_t format, mdnn_status_t expected)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    const mdnn_status_t status = mdnn_statistics_print_file(path, format, out);
    fclose(out);
    assert_int_equal(status, expected);
    return text;
}

static json_t *parsed(const char *path)
{
    char *const text = printed(path, MDNN_STATISTICS_JSON, MDNN_STATUS_OK);
    json_error_t error;
    json_t *const root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        fail_msg("%s in: %s", error.text, text);
    free(text);
    return root;
}

static json_int_t counter_of(const json_t *root, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(root, "counters"), name));
}

static void count_before_open(void)
{
    mdnn_count(MDNN_COUNTER_parts, 5);
    mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, 100);
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_parts, 2);
    mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, 99);
    mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, 101);
    mdnn_statistics_finish();
}

static void what_was_counted_before_opening_is_not_lost(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(count_before_open), 0);
    json_t *const root = parsed(target);
    assert_int_equal(counter_of(root, "parts"), 7);
    assert_int_equal(counter_of(root, "scratch_bytes_peak"), 101);
    assert_true(json_is_true(json_object_get(root, "finished")));
    json_decref(root);
}

static void finish_with_rows(void)
{
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    EXPECT(access(live, R_OK) == 0);
    EXPECT(add_row("plain", "4 x 64 @ algo 4", 3.5) == 0);
    EXPECT(add_row("quote \" backslash \\ newline \n tab \t \x7f \x1b", "\xc3\xa9 \xe2\x82\xac",
                   -1) == 1);
    EXPECT(add_row("bad utf-8 \xff \xc3( \xe2\x82 \xed\xa0\x80 \xf8", "c", NAN) == 2);
    mdnn_statistics_finish();
    mdnn_statistics_finish();
}

static void json_is_valid_whatever_the_texts_hold(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_with_rows), 0);
    json_t *const root = parsed(target);
    const json_t *const rows = json_object_get(root, "convolutions");
    assert_int_equal(json_array_size(rows), 3);
    const json_t *const first = json_array_get(rows, 0), *const second = json_array_get(rows, 1);
    assert_string_equal(json_string_value(json_object_get(first, "configuration")),
                        "4 x 64 @ algo 4");
    assert_int_equal(json_integer_value(json_object_get(first, "workspace_bytes")), 63 << 20);
    assert_true(json_number_value(json_object_get(first, "undivided_ms")) == 3.5);
    assert_true(json_is_null(json_object_get(second, "undivided_ms")));
    assert_true(json_is_null(json_object_get(json_array_get(rows, 2), "undivided_ms")));
    assert_string_equal(json_string_value(json_object_get(second, "problem")),
                        "quote \" backslash \\ newline \n tab \t \x7f \x1b");
    assert_string_equal(json_string_value(json_object_get(second, "configuration")),
                        "\xc3\xa9 \xe2\x82\xac");
    json_decref(root);
}

static void a_normal_end_leaves_the_target_and_no_live_file(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_with_rows), 0);
    assert_int_equal(access(target, R_OK), 0);
    assert_int_equal(access(live, F_OK), -1);
    char command[600];
    snprintf(command, sizeof command, "test $(ls %s | wc -l) = 1", directory);
    assert_int_equal(system(command), 0);
}

static void finish_as_text(void)
{
    EXPECT(start(1, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_calls_forward, 12);
    mdnn_count(MDNN_COUNTER_measure_microseconds, 9845190);
    mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, 3 << 20);
    add_row("forward x", "2 x 8 @ algo 1", 2.5);
    add_row("forward y", "1 x 8 @ algo 0", -1);
    mdnn_statistics_row(&(int){-1}, &(mdnn_statistics_row_t){.problem = "forward z",
                                                             .undivided_ms = -1,
                                                             .configuration_ms = -1});
    add_row("forward w", "16 @ algo 1", 1.25); /* which is what it takes */
    mdnn_statistics_finish();
}

static void
the_text_shows_counters_that_counted_and_a_line_for_each_convolution_that_gains(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_as_text), 0);
    char *const text = printed(target, MDNN_STATISTICS_TEXT, MDNN_STATUS_OK);
    assert_memory_equal(text, "microdnn statistics: test_statistics, process ", 46);
    const char *const body = strchr(text, '\n');
    assert_string_equal(
        body, "\n                  12  cudnnConvolutionForward calls\n"
              "             9845 ms  of host time spent measuring and optimizing\n"
              "            3.00 MiB  of the largest device scratch held while measuring\n"
              "convolutions: 4\n"
              "  forward x: 2 x 8 @ algo 1, workspace 63.0 MiB, 1.250 ms (undivided "
              "2.500 ms, 2.00x)\n"
              "  forward y: 1 x 8 @ algo 0, workspace 63.0 MiB, 1.250 ms (undivided does "
              "not fit)\n"
              "  forward z: no configuration fits, so it runs as the program asks\n"
              "  1 gains nothing, and runs undivided; --stats json lists it, too\n"
              "microdnn verdict: convolutions: 2 of 4 gain from micro-batches; all of them "
              "once take 2.5 ms, undivided 3.8; no configuration fits 1 of them\n");
    free(text);
    free(printed(target, MDNN_STATISTICS_JSON, MDNN_STATUS_BAD_FORMAT));
}

static void end_without_handlers(void)
{
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_parts, 41);
    add_row("p", "c", 1);
    mdnn_count(MDNN_COUNTER_parts, 1);
    _exit(0);
}

static void check_live_file(void)
{
    json_t *const root = parsed(live);
    assert_int_equal(counter_of(root, "parts"), 42);
    assert_int_equal(json_array_size(json_object_get(root, "convolutions")), 1);
    assert_true(json_is_false(json_object_get(root, "finished")));
    json_decref(root);
    char *const text = printed(live, MDNN_STATISTICS_TEXT, MDNN_STATUS_OK);
    assert_non_null(strstr(text, "not finished"));
    free(text);
}

static void finish_briefly(void)
{
    EXPECT(start(3, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_calls_forward, 12);
    add_row("forward x", "2 x 8 @ algo 1", 2.5);
    mdnn_statistics_finish();
}

static void the_brief_form_is_the_verdict_alone(void **state)
{
    static const char line[] =
        "microdnn verdict: convolutions: 1 of 1 gain from micro-batches; all "
        "of them once take 1.3 ms, undivided 2.5\n";
    (void)state;
    assert_int_equal(run_in_child(finish_briefly), 0);
    char *const text = printed(target, MDNN_STATISTICS_TEXT, MDNN_STATUS_OK);
    assert_string_equal(text, line);
    free(text);
    free(printed(target, MDNN_STATISTICS_JSON, MDNN_STATUS_BAD_FORMAT));
}

static void nothing_is_lost_by_an_exit_without_handlers(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(end_without_handlers), 0);
    assert_int_equal(access(target, F_OK), -1);
    check_live_file();
}

static void nothing_is_lost_by_sigkill(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        EXPECT(start(2, target) == MDNN_STATUS_OK);
        mdnn_count(MDNN_COUNTER_parts, 42);
        add_row("p", "c", 1);
        kill(getpid(), SIGKILL);
        _exit(1);
    }
    const int status = wait_for(child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    check_live_file();
}

static void fork_and_count(void)
{
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_parts, 3);
    const pid_t child = fork();
    if (child == 0) {
        mdnn_statistics_after_fork();
        EXPECT(atomic_load(&atomic_load(&mdnn_counters)[MDNN_COUNTER_parts]) == 0);
        mdnn_count(MDNN_COUNTER_parts, 1000);
        EXPECT(atomic_load(&atomic_load(&mdnn_counters)[MDNN_COUNTER_parts]) == 1000);
        EXPECT(add_row("child", "c", 1) == -1);
        mdnn_statistics_finish();
        EXPECT(access(target, F_OK) != 0 && access(live, F_OK) == 0);
        _exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    mdnn_statistics_finish();
}

static void a_forked_child_counts_for_itself_and_writes_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(fork_and_count), 0);
    json_t *const root = parsed(target);
    assert_int_equal(counter_of(root, "parts"), 3);
    assert_int_equal(json_array_size(json_object_get(root, "convolutions")), 0);
    json_decref(root);
}

static void fork_without_handlers(void)
{
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    const pid_t child = fork();
    if (child == 0) {
        mdnn_statistics_finish();
        _exit(access(target, F_OK) == 0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void a_child_made_without_fork_handlers_does_not_speak_for_its_parent(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(fork_without_handlers), 0);
}

static void record_with_statistics_off(void)
{
    EXPECT(start(0, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_parts, 3);
    EXPECT(add_row("p", "c", 1) == -1);
    mdnn_statistics_finish();
    EXPECT(access(target, F_OK) != 0 && access(live, F_OK) != 0);
}

static void without_statistics_nothing_is_written(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(record_with_statistics_off), 0);
}

static void overfill(void)
{
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    for (int i = 0; i < MDNN_STATISTICS_ROWS; i++)
        EXPECT(add_row("p", "c", 1) == i);
    const int dropped = add_row("p", "c", 1);
    EXPECT(dropped >= MDNN_STATISTICS_ROWS);
    int again = dropped;
    mdnn_statistics_row(&again, &(mdnn_statistics_row_t){.problem = "again"});
    EXPECT(again == dropped);
    int third = 3;
    mdnn_statistics_row(&third, &(mdnn_statistics_row_t){.problem = "replaced"});
    EXPECT(third == 3);
    mdnn_statistics_finish();
}

static void rows_beyond_the_capacity_are_counted_and_rows_can_be_replaced(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(overfill), 0);
    json_t *const root = parsed(target);
    const json_t *const rows = json_object_get(root, "convolutions");
    assert_int_equal(json_array_size(rows), MDNN_STATISTICS_ROWS);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 3), "problem")),
                        "replaced");
    assert_int_equal(json_integer_value(json_object_get(root, "convolutions_not_recorded")), 1);
    json_decref(root);
}

/* A good record on the heap, exactly as large as a live file. */
static mdnn_statistics_region_t *good_record(void)
{
    mdnn_statistics_region_t *const record = calloc(1, sizeof *record);
    assert_non_null(record);
    mdnn_statistics_region_init(record, false);
    atomic_store(&record->header.rows_taken, 2);
    atomic_store(&record->rows[0].sequence, 2);
    atomic_store(&record->rows[1].sequence, 3);
    return record;
}

static void run_row(int row, uint64_t stream, uint64_t x, uint64_t w, uint64_t y)
{
    mdnn_statistics_execution(&(mdnn_statistics_execution_t){row, stream, x, w, y});
}

static void execute_some(void)
{
    EXPECT(!mdnn_statistics_wants_executions());
    run_row(0, 1, 2, 3, 4);
    EXPECT(start(2, target) == MDNN_STATUS_OK && mdnn_statistics_wants_executions());
    const int first = add_row("p", "c", 1), second = add_row("q", "c", 1);
    run_row(second, 7, UINT64_C(0x7f0000000200), 0, UINT64_C(0x7f0000000400));
    run_row(-1, 7, 1, 2, 3);
    run_row(MDNN_STATISTICS_ROWS, 7, 1, 2, 3);
    run_row(first, 0, UINT64_C(0x7f0000000400), UINT64_C(0x7f0000000200), 1);
    mdnn_statistics_finish();
}

static void executions_are_in_order_and_addresses_are_small_numbers(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(execute_some), 0);
    json_t *const root = parsed(target);
    char *const text = json_dumps(json_object_get(root, "executions"), JSON_COMPACT);
    assert_string_equal(text, "[[1,0,0,1,2],[0,1,2,0,3]]");
    free(text);
    json_decref(root);
}

static void *execute_many(void *argument)
{
    (void)argument;
    for (int i = 0; i < MDNN_STATISTICS_EXECUTIONS; i++)
        run_row(0, 0, (uint64_t)i, (uint64_t)i, (uint64_t)i);
    return NULL;
}

static void execute_in_threads(void)
{
    pthread_t threads[2];
    EXPECT(start(2, target) == MDNN_STATUS_OK && add_row("p", "c", 1) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, execute_many, NULL) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    EXPECT(!mdnn_statistics_wants_executions());
    mdnn_statistics_finish();
}

/* And none is torn: what one thread wrote is in one execution. */
static void the_first_executions_are_recorded_and_others_are_not(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(execute_in_threads), 0);
    json_t *const root = parsed(target);
    const json_t *const executions = json_object_get(root, "executions"), *execution;
    size_t i;
    assert_int_equal(json_array_size(executions), MDNN_STATISTICS_EXECUTIONS);
    json_array_foreach(executions, i, execution)
        assert_int_equal(json_integer_value(json_array_get(execution, 2)),
                         json_integer_value(json_array_get(execution, 4)));
    json_decref(root);
}

static void an_execution_of_a_row_that_was_cut_off_is_left_out(void **state)
{
    (void)state;
    mdnn_statistics_region_t *const record = good_record();
    char *text = NULL;
    size_t bytes = 0;
    atomic_store(&record->rows[0].sequence, 3);
    atomic_store(&record->rows[1].sequence, 2);
    record->executions[0].row = 1;
    record->executions[1].row = 2;
    record->executions[3].row = 3;
    atomic_store(&record->header.executions_taken, 9);
    FILE *const out = open_memstream(&text, &bytes);
    assert_int_equal(
        mdnn_statistics_print_record(record, sizeof *record, MDNN_STATISTICS_JSON, out),
        MDNN_STATUS_OK);
    fclose(out);
    assert_non_null(strstr(text, "\"executions\": [\n  [0,0,0,0,0]]"));
    free(text);
    free(record);
}

enum { THREADS = 6, ROUNDS = 2000 };

static void *count_and_record(void *argument)
{
    int shared = 0;
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        mdnn_statistics_row_t row = {.undivided_ms = i};
        memset(row.problem, 'a' + i % 26, sizeof row.problem - 1);
        memset(row.configuration, 'a' + i % 26, sizeof row.configuration - 1);
        mdnn_count(MDNN_COUNTER_parts, 1);
        mdnn_count_peak(MDNN_COUNTER_scratch_bytes_peak, (uint64_t)i);
        mdnn_statistics_row(&shared, &row);
    }
    return NULL;
}

static void count_in_threads(void)
{
    pthread_t threads[THREADS];
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    add_row("first", "c", 1);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, count_and_record, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mdnn_statistics_finish();
}

static void threads_lose_no_count_and_tear_no_row(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(count_in_threads), 0);
    json_t *const root = parsed(target);
    assert_int_equal(counter_of(root, "parts"), THREADS * ROUNDS);
    assert_int_equal(counter_of(root, "scratch_bytes_peak"), ROUNDS - 1);
    const json_t *const row = json_array_get(json_object_get(root, "convolutions"), 0);
    const char *const problem = json_string_value(json_object_get(row, "problem"));
    assert_int_equal(strlen(problem), 319);
    for (int i = 0; i < 319; i++)
        assert_int_equal(problem[i], problem[0]);
    assert_int_equal(json_string_value(json_object_get(row, "configuration"))[0], problem[0]);
    json_decref(root);
}

static void open_twice_under_one_name(void)
{
    int ready[2], go[2];
    char byte = 0;
    EXPECT(pipe(ready) == 0 && pipe(go) == 0);
    const pid_t child = fork();
    if (child == 0) {
        EXPECT(start(2, target) == MDNN_STATUS_OK);
        EXPECT(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
        mdnn_count(MDNN_COUNTER_parts, 1);
        mdnn_statistics_finish();
        EXPECT(access(live, F_OK) == 0);
        _exit(0);
    }
    EXPECT(read(ready[0], &byte, 1) == 1);
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_parts, 10);
    EXPECT(write(go[1], "x", 1) == 1);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    mdnn_statistics_finish();
    EXPECT(access(live, F_OK) != 0);
}

static void two_processes_under_one_name_do_not_share_a_record(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(open_twice_under_one_name), 0);
    json_t *const root = parsed(target);
    assert_int_equal(counter_of(root, "parts"), 10);
    json_decref(root);
}

static void start_in_no_directory(void)
{
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    EXPECT(start(2, "/nonexistent/stats") == MDNN_STATUS_IO);
    mdnn_count(MDNN_COUNTER_parts, 1);
    EXPECT(add_row("p", "c", 1) == 0);
    mdnn_statistics_finish();
}

static void a_place_that_cannot_be_written_is_reported_and_survived(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(start_in_no_directory), 0);
}

static void finish_on_stderr(void)
{
    const int file = open(target, O_WRONLY | O_CREAT, 0600);
    EXPECT(dup2(file, STDERR_FILENO) == STDERR_FILENO);
    EXPECT(start(1, "stderr") == MDNN_STATUS_OK);
    mdnn_count(MDNN_COUNTER_parts, 9);
    mdnn_statistics_finish();
}

static void with_stderr_as_target_there_is_no_live_file(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_on_stderr), 0);
    char *const text = printed(target, MDNN_STATISTICS_TEXT, MDNN_STATUS_OK);
    assert_non_null(strstr(text, " 9  micro-batches run\n"));
    free(text);
    assert_int_equal(access("stderr.live", F_OK), -1);
}

static int lowest_free_descriptor(void)
{
    const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(descriptor);
    return descriptor;
}

static void move_and_end(void)
{
    char pattern[300];
    EXPECT(chdir(directory) == 0);
    const int before = lowest_free_descriptor();
    snprintf(pattern, sizeof pattern, "of.%%p");
    EXPECT(start(2, pattern) == MDNN_STATUS_OK);
    EXPECT(lowest_free_descriptor() == before);
    EXPECT(chdir("/") == 0);
    mdnn_statistics_finish();
    EXPECT(lowest_free_descriptor() == before);
    snprintf(pattern, sizeof pattern, "%s/of.%d", directory, (int)getpid());
    EXPECT(access(pattern, R_OK) == 0);
}

static void a_relative_target_stays_where_it_was_and_no_descriptor_stays_open(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(move_and_end), 0);
}

static mdnn_status_t print_record(const void *record, size_t bytes, char **text)
{
    size_t text_bytes = 0;
    FILE *const out = open_memstream(text, &text_bytes);
    const mdnn_status_t status =
        mdnn_statistics_print_record(record, bytes, MDNN_STATISTICS_TEXT, out);
    fclose(out);
    return status;
}

static void a_row_that_was_cut_off_by_the_end_is_said_to_be_so(void **state)
{
    (void)state;
    mdnn_statistics_region_t *const record = good_record();
    char *text = NULL;
    assert_int_equal(print_record(record, sizeof *record, &text), MDNN_STATUS_OK);
    assert_non_null(strstr(text, "(was being written when the process ended)"));
    free(text);
    free(record);
}

static void a_damaged_record_is_bad_format_and_never_read_beyond_its_end(void **state)
{
    (void)state;
    mdnn_statistics_region_t *const record = good_record();
    char *text = NULL;
#define DAMAGE(field, value)                                                                       \
    do {                                                                                           \
        mdnn_statistics_region_t *const damaged = good_record();                                   \
        damaged->header.field = (value);                                                           \
        assert_int_equal(print_record(damaged, sizeof *damaged, &text), MDNN_STATUS_BAD_FORMAT);   \
        free(text);                                                                                \
        free(damaged);                                                                             \
    } while (0)
    DAMAGE(magic[0], 'X');
    DAMAGE(version, 1);
    DAMAGE(byte_order, 0x04030201);
    DAMAGE(names_offset, UINT64_MAX);
    DAMAGE(counters_offset, sizeof *record - 8);
    DAMAGE(rows_offset, UINT64_MAX - 100);
    DAMAGE(counter_count, 4097);
    DAMAGE(counter_count, UINT32_MAX);
    DAMAGE(row_capacity, UINT32_MAX);
    DAMAGE(row_capacity, 2 * MDNN_STATISTICS_ROWS);
    DAMAGE(name_bytes, 0);
    DAMAGE(row_bytes, 1);
    DAMAGE(memory_offset, UINT64_MAX - 100);
    DAMAGE(memory_count, MDNN_DEVICES + 1);
    DAMAGE(memory_bytes, 8);
    DAMAGE(executions_offset, UINT64_MAX - 100);
    DAMAGE(execution_capacity, UINT32_MAX);
    DAMAGE(execution_capacity, MDNN_STATISTICS_EXECUTIONS + 1);
    DAMAGE(execution_bytes, 1);
#undef DAMAGE
    for (size_t cut = 1; cut < sizeof *record; cut = cut * 3 + 1) {
        void *const copy = malloc(sizeof *record - cut);
        memcpy(copy, record, sizeof *record - cut);
        assert_int_equal(print_record(copy, sizeof *record - cut, &text), MDNN_STATUS_BAD_FORMAT);
        free(text);
        free(copy);
    }
    free(record);
}

static void other_files_are_bad_format_and_missing_ones_not_found(void **state)
{
    (void)state;
    free(printed("/bin/sh", MDNN_STATISTICS_TEXT, MDNN_STATUS_BAD_FORMAT));
    free(printed("/bin/sh", MDNN_STATISTICS_JSON, MDNN_STATUS_BAD_FORMAT));
    free(printed("/nonexistent", MDNN_STATISTICS_TEXT, MDNN_STATUS_NOT_FOUND));
    free(printed(directory, MDNN_STATISTICS_TEXT, MDNN_STATUS_IO));
    FILE *const empty = fopen(target, "w");
    assert_int_equal(fclose(empty), 0);
    free(printed(target, MDNN_STATISTICS_TEXT, MDNN_STATUS_BAD_FORMAT));
}

static void a_full_disk_costs_the_statistics_and_not_the_process(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        EXPECT(start(2, "/dev/full") == MDNN_STATUS_OK);
        add_row("p", "c", 1);
        mdnn_statistics_finish();
        _exit(0);
    }
    const int status = wait_for(child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Its signal would end a program that writes no file at all. */
static void a_limit_of_file_sizes_costs_the_statistics_and_not_the_process(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {4096, 4096};
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        (void)start(2, target);
        add_row("p", "c", 1);
        mdnn_statistics_finish();
        _exit(0);
    }
    const int status = wait_for(child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool two_devices(int device, mdnn_memory_statistics_t *numbers)
{
    if (device != 0 && device != 3)
        return false;
    *numbers = (mdnn_memory_statistics_t){.budget_bytes = UINT64_C(12) << 30,
                                          .peak_resident_bytes = UINT64_C(11) << 30,
                                          .average_resident_bytes = UINT64_C(9) << 30,
                                          .peak_other_bytes = UINT64_C(1) << 30,
                                          .peak_live_bytes = UINT64_C(17) << 30,
                                          .largest_operation_bytes = UINT64_C(3) << 30,
                                          .pinned_live_bytes = UINT64_C(2) << 30,
                                          .smallest_budget_bytes = UINT64_C(5) << 30,
                                          .refused_budget_bytes = UINT64_C(20) << 30,
                                          .refused = 4,
                                          .operations = 1000 + (uint64_t)device,
                                          .period_operations = 100,
                                          .compute_ms = 177.5,
                                          .link_bound_ms = 200,
                                          .predicted_ms = 250,
                                          .round_ms = 400,
                                          .policy = "auto",
                                          .safety = "verify"};
    if (device == 3) {
        numbers->predicted_ms = 500;
        numbers->unnamed_accesses = 2;
        numbers->tail_operations = 6;
        snprintf(numbers->tails, sizeof numbers->tails, "softmax 6 x 1.00 GiB");
        snprintf(numbers->first_unnamed, sizeof numbers->first_unnamed, "kernel \"k\" \x1b \xff");
    }
    return true;
}

static void finish_with_memory(void)
{
    mdnn_memory_statistics_register(two_devices);
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_statistics_finish();
}

static void the_end_asks_for_the_memory_of_each_device(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_with_memory), 0);
    json_t *const root = parsed(target);
    const json_t *const memory = json_object_get(root, "memory");
    assert_int_equal(json_array_size(memory), 2);
    const json_t *const first = json_array_get(memory, 0), *const other = json_array_get(memory, 1);
    assert_int_equal(json_integer_value(json_object_get(first, "device")), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "operations")), 1000);
    assert_int_equal(json_integer_value(json_object_get(first, "budget_bytes")), INT64_C(12) << 30);
    assert_true(json_real_value(json_object_get(first, "compute_ms")) == 177.5);
    assert_string_equal(json_string_value(json_object_get(first, "policy")), "auto");
    assert_int_equal(json_integer_value(json_object_get(other, "device")), 3);
    assert_int_equal(json_integer_value(json_object_get(other, "unnamed_accesses")), 2);
    assert_string_equal(json_string_value(json_object_get(other, "tails")), "softmax 6 x 1.00 GiB");
    assert_string_equal(json_string_value(json_object_get(other, "first_unnamed")),
                        "kernel \"k\" \x1b \xef\xbf\xbd");
    json_decref(root);
}

static void finish_with_memory_as_text(void)
{
    mdnn_memory_statistics_register(two_devices);
    EXPECT(start(1, target) == MDNN_STATUS_OK);
    mdnn_statistics_finish();
}

static void the_text_says_what_memory_was_held_and_how_near_the_bounds_are(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_with_memory_as_text), 0);
    char *const text = printed(target, MDNN_STATISTICS_TEXT, MDNN_STATUS_OK);
    static const char *const expected[] = {
        "virtual memory of device 0: budget 12.0 GiB, policy auto, safety verify\n",
        "11.0 GiB held at most, 9.00 GiB in use on average; the program had 17.0 GiB at once\n",
        "1.00 GiB of that at most: memory that the program has in other ways\n",
        "400.00 ms, 50 % of the speed at the link bound, 63 % of the speed at the schedule bound\n",
        "5.00 GiB, as far as is known (largest operation 3.00 GiB, cannot leave 2.00 GiB)\n",
        "4; the largest would need a budget of 20.0 GiB\n",
        "virtual memory of device 3",
        "400.00 ms, 50 % of the speed at the link bound, less than its schedule was expected to "
        "take\n",
        "2; the first: kernel \"k\" ? ?\n",
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        if (strstr(text, expected[i]) == NULL)
            fail_msg("no '%s' in: %s", expected[i], text);
    }
    free(text);
}

static void publish_and_die(void)
{
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_memory_statistics_t numbers = {.operations = 5};
    mdnn_memory_statistics_publish(1, &numbers);
    numbers.operations = 7;
    mdnn_memory_statistics_publish(1, &numbers);
    mdnn_memory_statistics_publish(MDNN_DEVICES, &numbers);
    mdnn_memory_statistics_publish(-1, &numbers);
    _exit(0);
}

static void a_killed_process_leaves_the_memory_that_was_published_last(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(publish_and_die), 0);
    json_t *const root = parsed(live);
    const json_t *const memory = json_object_get(root, "memory");
    assert_int_equal(json_array_size(memory), 1);
    const json_t *const only = json_array_get(memory, 0);
    assert_int_equal(json_integer_value(json_object_get(only, "device")), 1);
    assert_int_equal(json_integer_value(json_object_get(only, "operations")), 7);
    json_decref(root);
}

static void a_child_speaks_for_its_parent(void)
{
    mdnn_memory_statistics_register(two_devices);
    EXPECT(start(2, target) == MDNN_STATUS_OK);
    mdnn_statistics_after_fork();
    const mdnn_memory_statistics_t numbers = {.operations = 5};
    mdnn_memory_statistics_publish(0, &numbers);
    mdnn_statistics_finish();
}

static void a_forked_child_publishes_no_memory(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(a_child_speaks_for_its_parent), 0);
    assert_int_equal(access(target, F_OK), -1);
    json_t *const root = parsed(live);
    assert_int_equal(json_array_size(json_object_get(root, "memory")), 0);
    json_decref(root);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh_directory)

int main(void)
{
    if (mkdtemp(directory) == NULL)
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(what_was_counted_before_opening_is_not_lost),
        TEST(json_is_valid_whatever_the_texts_hold),
        TEST(a_normal_end_leaves_the_target_and_no_live_file),
        TEST(the_text_shows_counters_that_counted_and_a_line_for_each_convolution_that_gains),
        TEST(the_brief_form_is_the_verdict_alone),
        TEST(nothing_is_lost_by_an_exit_without_handlers),
        TEST(nothing_is_lost_by_sigkill),
        TEST(a_forked_child_counts_for_itself_and_writes_nothing),
        TEST(a_child_made_without_fork_handlers_does_not_speak_for_its_parent),
        TEST(without_statistics_nothing_is_written),
        TEST(rows_beyond_the_capacity_are_counted_and_rows_can_be_replaced),
        TEST(executions_are_in_order_and_addresses_are_small_numbers),
        TEST(the_first_executions_are_recorded_and_others_are_not),
        TEST(an_execution_of_a_row_that_was_cut_off_is_left_out),
        TEST(threads_lose_no_count_and_tear_no_row),
        TEST(two_processes_under_one_name_do_not_share_a_record),
        TEST(a_place_that_cannot_be_written_is_reported_and_survived),
        TEST(with_stderr_as_target_there_is_no_live_file),
        TEST(a_relative_target_stays_where_it_was_and_no_descriptor_stays_open),
        TEST(a_row_that_was_cut_off_by_the_end_is_said_to_be_so),
        TEST(a_damaged_record_is_bad_format_and_never_read_beyond_its_end),
        TEST(other_files_are_bad_format_and_missing_ones_not_found),
        TEST(a_full_disk_costs_the_statistics_and_not_the_process),
        TEST(a_limit_of_file_sizes_costs_the_statistics_and_not_the_process),
        TEST(the_end_asks_for_the_memory_of_each_device),
        TEST(the_text_says_what_memory_was_held_and_how_near_the_bounds_are),
        TEST(a_killed_process_leaves_the_memory_that_was_published_last),
        TEST(a_forked_child_publishes_no_memory),
    };
    const int failed = cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? failed : 1;
}
