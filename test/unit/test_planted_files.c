/* What somebody else puts where a file of ours is expected, and a descriptor 2 that is no longer
 * standard error: nothing of ours is written there, and nothing that he decides is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/log.h"
#include "config/options.h"
#include "config/safe_path.h"
#include "config/standard_error.h"
#include "config/statistics.h"

enum { NOBODY = 65534 };
static const char precious[] = "precious";

static char folder[64];

static const char *path_in(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *const path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_text(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static bool holds(const char *path, const char *expected)
{
    char text[4096] = "";
    FILE *const file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strcmp(text, expected) == 0;
}

static bool contains(const char *path, const char *part)
{
    char text[1 << 16] = "";
    FILE *const file = fopen(path, "r");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, part) != NULL;
}

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/mdnn-planted.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_text(path_in("victim"), precious);
    return 0;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void share(mode_t mode)
{
    assert_int_equal(chmod(folder, mode), 0);
}

static int run_in_child(void (*work)(void))
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* ---- paths ---- */

static bool opens(const char *path, bool follow, bool *shared)
{
    mdnn_safe_path_t place;
    if (!mdnn_safe_path_open(path, follow, &place))
        return false;
    if (shared)
        *shared = place.shared;
    mdnn_safe_path_close(&place);
    return true;
}

static void a_folder_is_shared_if_anybody_else_may_write_on_the_way(void **state)
{
    bool shared = true;
    (void)state;
    assert_int_equal(mkdir(path_in("inner"), 0700), 0);
    assert_true(opens(path_in("inner/file"), false, &shared) && !shared);
    share(0775);
    assert_true(opens(path_in("inner/file"), false, &shared) && shared);
    share(0777);
    assert_true(opens(path_in("inner/file"), false, &shared) && shared);
    assert_true(opens(path_in("file"), false, &shared) && shared);
    share(01777); /* nobody else may move the inner folder away */
    assert_true(opens(path_in("inner/file"), false, &shared) && !shared);
    assert_true(opens(path_in("file"), false, &shared) && shared);
    if (geteuid() != 0)
        return; /* another owner stands in for another user only where we can make one */
    assert_int_equal(chown(path_in("inner"), NOBODY, NOBODY), 0);
    share(0700);
    assert_true(opens(path_in("inner/file"), false, &shared) && shared);
}

static void links_are_followed_in_trusted_folders_only(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_in("real"), 0700), 0);
    assert_int_equal(symlink("real", path_in("way")), 0);
    assert_int_equal(symlink(folder, path_in("real/back")), 0);
    assert_int_equal(symlink("loop", path_in("loop")), 0);
    assert_int_equal(symlink("victim", path_in("last")), 0);
    assert_true(opens(path_in("way/back/way/file"), false, NULL));
    assert_true(opens(path_in("last"), true, NULL));
    assert_false(opens(path_in("loop"), true, NULL));
    assert_int_equal(errno, ELOOP);
    assert_false(opens(path_in("loop/file"), false, NULL));
    share(01777);
    assert_false(opens(path_in("way/file"), false, NULL));
    assert_int_equal(errno, ELOOP);
    assert_false(opens(path_in("last"), true, NULL));
    assert_false(opens(path_in("real/back/way/file"), false, NULL));
}

static void odd_paths_are_refused(void **state)
{
    char longest[PATH_MAX + 2];
    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(opens("", false, NULL));
    assert_false(opens("/", false, NULL));
    assert_false(opens(longest, false, NULL));
    longest[NAME_MAX + 1] = '\0';
    assert_false(opens(longest, false, NULL));
    longest[NAME_MAX] = '\0';
    assert_true(opens(longest, false, NULL));
    assert_false(opens(path_in("victim/below"), false, NULL));
    assert_false(opens(path_in("missing/below"), false, NULL));
    assert_int_equal(errno, ENOENT);
}

/* ---- the log ---- */

static void say(const char *text)
{
    mdnn_log_configure(MDNN_LOG_INFO, path_in("log"));
    MDNN_LOG(MDNN_LOG_INFO, "test", "%s", text);
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
}

static void the_log_follows_no_link_and_appends_to_no_other_file(void **state)
{
    (void)state;
    assert_int_equal(symlink("victim", path_in("log")), 0);
    say("through a link");
    assert_true(holds(path_in("victim"), precious));
    assert_int_equal(unlink(path_in("log")), 0);
    assert_int_equal(link(path_in("victim"), path_in("log")), 0);
    share(01777);
    say("into another file of ours");
    assert_true(holds(path_in("victim"), precious));
    assert_int_equal(unlink(path_in("log")), 0);
    assert_int_equal(mkfifo(path_in("log"), 0600), 0);
    say("nobody waits");
    assert_int_equal(unlink(path_in("log")), 0);
    if (geteuid() == 0) {
        write_text(path_in("log"), precious);
        assert_int_equal(chown(path_in("log"), NOBODY, NOBODY), 0);
        say("into somebody's file");
        assert_true(holds(path_in("log"), precious));
        assert_int_equal(unlink(path_in("log")), 0);
    }
    say("into a file of its own");
    assert_true(contains(path_in("log"), "of its own"));
}

/* Descriptor 2 is closed, and what is opened next gets its number. */
static void reuse_standard_error(void)
{
    mdnn_standard_error_remember();
    close(STDERR_FILENO);
    if (open(path_in("data"), O_RDWR | O_CREAT, 0600) != STDERR_FILENO)
        _exit(2);
    mdnn_log_configure(MDNN_LOG_INFO, "stderr");
    MDNN_LOG(MDNN_LOG_INFO, "test", "this is no line of the data");
    mdnn_log_configure(MDNN_LOG_INFO, "/nonexistent/log");
    MDNN_LOG(MDNN_LOG_INFO, "test", "nor is this");
}

static void a_line_lands_in_no_file_that_took_the_place_of_standard_error(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(reuse_standard_error), 0);
    assert_true(holds(path_in("data"), ""));
}

/* Files are born at ticks of the coarse clock. A process may see a tick that files are not yet born at,
 * but then not the next one. */
static void await_ticks(void)
{
    struct timespec last, now;
    clock_gettime(CLOCK_REALTIME_COARSE, &last);
    for (int ticks = 0; ticks < 2; ticks++) {
        do
            clock_gettime(CLOCK_REALTIME_COARSE, &now);
        while (now.tv_sec == last.tv_sec && now.tv_nsec == last.tv_nsec);
        last = now;
    }
}

static void reuse_inode(void)
{
    const int before = open(path_in("before"), O_RDWR | O_CREAT, 0600);
    dup2(before, STDERR_FILENO);
    close(before);
    mdnn_standard_error_remember();
    unlink(path_in("before"));
    await_ticks();
    reuse_standard_error();
}

/* The first test: the child must be the first that looks at descriptor 2. */
static void a_file_that_got_the_number_of_its_file_is_not_standard_error(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(reuse_inode), 0);
    assert_true(holds(path_in("data"), ""));
}

static void reuse_with_a_socket(void)
{
    int ends[2];
    char byte;
    mdnn_standard_error_remember();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        _exit(2);
    dup2(ends[1], STDERR_FILENO);
    mdnn_log_configure(MDNN_LOG_INFO, "stderr");
    MDNN_LOG(MDNN_LOG_INFO, "test", "this is no protocol");
    if (recv(ends[0], &byte, 1, MSG_DONTWAIT) >= 0)
        _exit(3);
}

static void nor_in_a_socket(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(reuse_with_a_socket), 0);
}

static void finish_where_standard_error_was(void)
{
    mdnn_options_t options;
    mdnn_standard_error_remember();
    close(STDERR_FILENO);
    if (open(path_in("data"), O_RDWR | O_CREAT, 0600) != STDERR_FILENO)
        _exit(2);
    mdnn_options_set_defaults(&options);
    options.general_stats = 1;
    if (mdnn_statistics_open(&options) != MDNN_STATUS_OK)
        _exit(3);
    mdnn_statistics_finish();
}

static void nor_do_statistics(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_where_standard_error_was), 0);
    assert_true(holds(path_in("data"), ""));
}

/* ---- statistics ---- */

static void finish_into_target(void)
{
    mdnn_options_t options;
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    mdnn_options_set_defaults(&options);
    options.general_stats = 1;
    snprintf(options.general_stats_file, sizeof options.general_stats_file, "%s",
             path_in("target"));
    char temporary[300];
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path_in("target"), (long)getpid());
    if (symlink("victim", temporary) != 0)
        _exit(2);
    (void)mdnn_statistics_open(&options);
    mdnn_count(MDNN_COUNTER_parts, 5);
    mdnn_statistics_finish();
}

static void statistics_follow_no_link(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(finish_into_target), 0);
    assert_true(contains(path_in("target"), " 5  micro-batches run"));
    assert_true(holds(path_in("victim"), precious));
    assert_int_equal(unlink(path_in("target")), 0);
    assert_int_equal(symlink("victim", path_in("target")), 0);
    assert_int_equal(run_in_child(finish_into_target), 0);
    assert_true(holds(path_in("victim"), precious));
}

/* ---- INI files ---- */

static bool is_read(const char *path)
{
    mdnn_options_t options;
    mdnn_options_set_defaults(&options);
    (void)mdnn_options_load_file(&options, path, NULL, NULL);
    return options.general_log == MDNN_LOG_OFF;
}

static void options_that_others_decide_are_not_read(void **state)
{
    const char *const ini = path_in("own.ini");
    (void)state;
    write_text(ini, "[general]\nlog = off\n");
    assert_int_equal(chmod(ini, 0644), 0);
    assert_true(is_read(ini));
    share(01777); /* it is his own wherever it lies */
    assert_true(is_read(ini));
    assert_int_equal(symlink("own.ini", path_in("link.ini")), 0);
    assert_false(is_read(path_in("link.ini")));
    share(0700);
    assert_true(is_read(path_in("link.ini")));
    assert_int_equal(chmod(ini, 0646), 0);
    assert_false(is_read(ini));
    assert_int_equal(chmod(ini, 0664), 0);
    assert_int_equal(is_read(ini), getegid() == geteuid() && getegid() >= 1000);
    assert_int_equal(chmod(ini, 0644), 0);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(ini, NOBODY, NOBODY), 0);
    assert_false(is_read(ini));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_got_the_number_of_its_file_is_not_standard_error),
        TEST(a_folder_is_shared_if_anybody_else_may_write_on_the_way),
        TEST(links_are_followed_in_trusted_folders_only),
        TEST(odd_paths_are_refused),
        TEST(the_log_follows_no_link_and_appends_to_no_other_file),
        TEST(a_line_lands_in_no_file_that_took_the_place_of_standard_error),
        TEST(nor_in_a_socket),
        TEST(nor_do_statistics),
        TEST(statistics_follow_no_link),
        TEST(options_that_others_decide_are_not_read),
    };
    return cmocka_run_group_tests_name("planted files", tests, NULL, NULL);
}
