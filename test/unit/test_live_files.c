/* Live files by which programs find one another: whose they are, which are kept, and what a program's end leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/statistics.h"
#include "config/live_files.h"
#include "config/statistics_file.h"

static char folder[] = "/tmp/mdnn-live.XXXXXX";

static int empty_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s/*", folder);
    return system(command);
}

/* The number of a process that has ended. */
static pid_t dead_process(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

/* A file as the process would have named it, which is so many seconds old. */
static void leave(long process, int age)
{
    char own[300], name[320];
    assert_true(mdnn_live_file_name(folder, own, sizeof own));
    *strrchr(own, '-') = '\0';
    snprintf(name, sizeof name, "%s-%ld.live", own, process);
    const int descriptor = open(name, O_CREAT | O_WRONLY, 0600);
    assert_true(descriptor >= 0);
    const struct timespec times[2] = {{1000000 - age, 0}, {1000000 - age, 0}};
    assert_int_equal(futimens(descriptor, times), 0);
    close(descriptor);
}

static void files_of_others_are_passed_over(void **state)
{
    static const char *const names[] = {"microdnn-1-2.1", "x.live", "microdnn--.live"};
    mdnn_live_file_t *files;
    char name[300];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, names[i]);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    assert_true(mdnn_live_file_name(folder, name, sizeof name));
    strcpy(strrchr(name, '.'), ".live.7");
    close(open(name, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(mdnn_live_files_list(folder, &files), 0);
    free(files);
    assert_int_equal(mdnn_live_files_list("/nonexistent", &files), 0);
    free(files);
}

static void the_newest_of_dead_processes_are_kept(void **state)
{
    mdnn_live_file_t *files;
    pid_t dead[5];
    (void)state;
    for (int i = 0; i < 5; i++) {
        dead[i] = dead_process();
        leave(dead[i], 10 * i);
    }
    leave(getpid(), 1000);
    mdnn_live_files_clean(folder, 2);
    assert_int_equal(mdnn_live_files_list(folder, &files), 3);
    assert_int_equal(files[0].process, getpid()); /* the oldest first */
    assert_int_equal(files[1].process, dead[1]);
    assert_int_equal(files[2].process, dead[0]);
    assert_string_equal(files[1].name, files[1].path);
    free(files);
}

static void a_process_is_known_by_its_start(void **state)
{
    const uint64_t start = mdnn_live_process_start(getpid());
    (void)state;
    assert_true(start > 0);
    assert_true(mdnn_live_process_runs(getpid(), start));
    assert_false(mdnn_live_process_runs(getpid(), start + 1));
    assert_false(mdnn_live_process_runs(dead_process(), start));
    assert_false(mdnn_live_process_runs(getpid(), 0));
}

/* In a child, as recording is a state of the process. Returns its status; the child ends normally or not. */
static int record_in_child(mdnn_statistics_format_t format, const char *file, bool budget,
                           bool killed)
{
    const pid_t child = fork();
    if (child == 0) {
        static mdnn_options_t options;
        mdnn_options_set_defaults(&options);
        options.general_stats = (int)format;
        options.memory_budget = budget ? 1 << 20 : MDNN_SIZE_NONE;
        snprintf(options.memory_registry, sizeof options.memory_registry, "%s", folder);
        snprintf(options.general_stats_file, sizeof options.general_stats_file, "%s", file);
        if (mdnn_statistics_open(&options) != MDNN_STATUS_OK)
            _exit(1);
        mdnn_count(MDNN_COUNTER_cuda_malloc, 3);
        mdnn_memory_statistics_publish(2, &(mdnn_memory_statistics_t){.budget_bytes = 77});
        mdnn_statistics_row(&(int){-1}, &(mdnn_statistics_row_t){.problem = "p"});
        if (!killed)
            mdnn_statistics_finish();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static size_t names_in_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "test $(ls -A %s | wc -l) = 0", folder);
    return system(command) == 0 ? 0 : 1;
}

static void a_normal_end_leaves_nothing(void **state)
{
    char file[300];
    (void)state;
    snprintf(file, sizeof file, "%s/stats", folder);
    assert_int_equal(record_in_child(MDNN_STATISTICS_OFF, "stderr", true, false), 0);
    assert_int_equal(names_in_folder(), 0);
    assert_int_equal(record_in_child(MDNN_STATISTICS_OFF, "stderr", false, true), 0);
    assert_int_equal(names_in_folder(), 0); /* there was nothing to be found */
    assert_int_equal(record_in_child(MDNN_STATISTICS_JSON, file, true, false), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(names_in_folder(), 0);
}

/* What a killed process leaves can be read, whether statistics were asked for or not. */
static void a_killed_process_leaves_its_numbers(void **state)
{
    static mdnn_memory_statistics_t numbers[MDNN_DEVICES];
    bool has[MDNN_DEVICES];
    char file[300];
    (void)state;
    snprintf(file, sizeof file, "%s/stats", folder);
    for (int kind = 0; kind < 2; kind++) {
        mdnn_statistics_header_t header;
        mdnn_live_file_t *files;
        assert_int_equal(empty_folder(state), 0);
        assert_int_equal(record_in_child(kind == 0 ? MDNN_STATISTICS_OFF : MDNN_STATISTICS_JSON,
                                         kind == 0 ? "stderr" : file, true, true),
                         0);
        assert_int_equal(mdnn_live_files_list(folder, &files), 1);
        assert_int_equal(mdnn_statistics_read_memory(files[0].path, &header, numbers, has),
                         MDNN_STATUS_OK);
        assert_false(mdnn_live_process_runs(files[0].process, header.process_start));
        assert_int_equal(header.process, files[0].process);
        assert_true(has[2] && !has[0] && numbers[2].budget_bytes == 77);
        assert_int_equal(header.row_capacity, kind == 0 ? 0 : MDNN_STATISTICS_ROWS);
        char *text = NULL;
        size_t bytes = 0;
        FILE *const out = open_memstream(&text, &bytes);
        assert_int_equal(mdnn_statistics_print_file(files[0].path, MDNN_STATISTICS_JSON, out),
                         MDNN_STATUS_OK);
        fclose(out);
        assert_non_null(strstr(text, "\"cuda_malloc\": 3"));
        free(text);
        mdnn_live_file_remove(&files[0]);
        free(files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_of_others_are_passed_over, empty_folder),
        cmocka_unit_test_setup(the_newest_of_dead_processes_are_kept, empty_folder),
        cmocka_unit_test_setup(a_process_is_known_by_its_start, empty_folder),
        cmocka_unit_test_setup(a_normal_end_leaves_nothing, empty_folder),
        cmocka_unit_test_setup(a_killed_process_leaves_its_numbers, empty_folder),
    };
    if (mkdtemp(folder) == NULL)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)empty_folder(NULL);
    (void)rmdir(folder);
    return failed;
}
