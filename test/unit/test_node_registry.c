/* What processes of a user add up: never more than the limit together, whoever is killed, becomes
 * another program, or finds something else in the registry's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/node/node_registry.h"
#include "test/unit/few.h"
#include "test/unit/random.h"

enum { NOBODY = 65534, PROCESSES = 8, TURNS = 4000, SCOPE = 77 };
static const uint64_t piece = 1 << 20;

static char folder[64];
static mdnn_node_registry_t *registry;
static char *own_program;

/* Seen by all processes of a test. */
typedef struct board {
    _Atomic uint64_t held, most, taken, refused;
    _Atomic int ready;
} board_t;
static board_t *board;

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/mdnn-registry.XXXXXX");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    registry = NULL;
    return board == MAP_FAILED || !mkdtemp(folder);
}

static int end(void **state)
{
    char command[128];
    (void)state;
    mdnn_node_registry_close(registry);
    munmap(board, sizeof *board);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static mdnn_status_t open_with(uint64_t scope, uint64_t bytes)
{
    const mdnn_node_limits_t limits = {.count = 1, .limits = {{scope, bytes}}};
    return mdnn_node_registry_open(folder, &limits, &registry);
}

/* The one file there; "" if there is none. */
static const char *file_path(void)
{
    static char path[512];
    struct dirent *entry;
    DIR *const listing = opendir(folder);
    path[0] = '\0';
    while ((entry = readdir(listing)))
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    closedir(listing);
    return path;
}

static pid_t start(void (*work)(int), int argument)
{
    const pid_t child = fork();
    if (child == 0) {
        registry = NULL;
        work(argument);
        _exit(0);
    }
    assert_true(child > 0);
    return child;
}

static int wait_for(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void await_ready(int count)
{
    while (atomic_load(&board->ready) < count)
        usleep(1000);
}

static void what_is_taken_is_counted_until_it_is_given(void **state)
{
    (void)state;
    assert_int_equal(open_with(0, 3 * piece), MDNN_STATUS_OK);
    assert_true(mdnn_node_registry_take(registry, 2 * piece));
    assert_false(mdnn_node_registry_take(registry, 2 * piece));
    assert_true(mdnn_node_registry_has_room(registry, piece));
    assert_false(mdnn_node_registry_has_room(registry, piece + 1));
    assert_false(mdnn_node_registry_has_room(registry, UINT64_MAX));
    assert_true(mdnn_node_registry_take(registry, piece));
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 3 * piece);
    mdnn_node_registry_give(registry, 3 * piece);
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 0);
}

static void nobody_else_may_look_and_nothing_stays_open(void **state)
{
    struct stat found;
    const int before = open("/dev/null", O_RDONLY);
    (void)state;
    close(before);
    assert_int_equal(open_with(0, piece), MDNN_STATUS_OK);
    const int after = open("/dev/null", O_RDONLY);
    close(after);
    assert_int_equal(after, before);
    assert_int_equal(stat(file_path(), &found), 0);
    assert_int_equal(found.st_mode & 07777, 0600);
}

/* The board is raised after something was taken and lowered before it is given, so it never shows more
 * than is held. */
static void take_turns(int number)
{
    uint64_t seed = (uint64_t)number + 1, held = 0;
    if (open_with(0, 20 * piece) != MDNN_STATUS_OK)
        _exit(2);
    for (uint64_t i = 0; i < few(TURNS / 4, TURNS); i++) {
        const uint64_t bytes = (1 + random_next(&seed) % 4) * piece;
        if (mdnn_node_registry_take(registry, bytes)) {
            const uint64_t now = atomic_fetch_add(&board->held, bytes) + bytes;
            uint64_t most = atomic_load(&board->most);
            while (now > most && !atomic_compare_exchange_weak(&board->most, &most, now))
                continue;
            held += bytes;
            atomic_fetch_add(&board->taken, 1);
        } else {
            atomic_fetch_add(&board->refused, 1);
        }
        if (held > 0 && random_next(&seed) % 3 == 0) {
            atomic_fetch_sub(&board->held, held);
            mdnn_node_registry_give(registry, held);
            held = 0;
        }
    }
    atomic_fetch_sub(&board->held, held);
}

static void eight_processes_never_hold_more_than_the_limit(void **state)
{
    pid_t children[PROCESSES];
    (void)state;
    for (int i = 0; i < PROCESSES; i++)
        children[i] = start(take_turns, i);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(wait_for(children[i]), 0);
    assert_true(atomic_load(&board->most) <= 20 * piece);
    assert_true(atomic_load(&board->taken) > PROCESSES && atomic_load(&board->refused) > 0);
    assert_int_equal(open_with(0, 20 * piece), MDNN_STATUS_OK);
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 0); /* the dead hold nothing */
}

static void hold_for_ever(int pieces)
{
    if (open_with(0, 100 * piece) != MDNN_STATUS_OK ||
        !mdnn_node_registry_take(registry, (uint64_t)pieces * piece))
        _exit(2);
    atomic_fetch_add(&board->ready, 1);
    for (;;)
        pause();
}

/* Killed and not even waited for. */
static void what_the_killed_held_is_free(void **state)
{
    pid_t children[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        children[i] = start(hold_for_ever, 3);
    await_ready(3);
    assert_int_equal(open_with(0, 9 * piece), MDNN_STATUS_OK);
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 9 * piece);
    assert_false(mdnn_node_registry_take(registry, piece));
    siginfo_t ended;
    kill(children[0], SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)children[0], &ended, WEXITED | WNOWAIT), 0);
    assert_true(mdnn_node_registry_take(registry, 3 * piece));
    assert_false(mdnn_node_registry_take(registry, piece));
    for (int i = 0; i < 3; i++) {
        kill(children[i], SIGKILL);
        wait_for(children[i]);
    }
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 3 * piece);
    assert_true(mdnn_node_registry_take(registry, 6 * piece));
}

static void become_another_program(int unused)
{
    (void)unused;
    if (open_with(0, 100 * piece) != MDNN_STATUS_OK || !mdnn_node_registry_take(registry, piece))
        _exit(2);
    execl(own_program, own_program, "sleep", (char *)NULL);
    _exit(3);
}

static void a_process_that_became_another_program_holds_nothing(void **state)
{
    (void)state;
    assert_int_equal(open_with(0, piece), MDNN_STATUS_OK);
    const pid_t child = start(become_another_program, 0);
    char path[64], name[4096];
    do { /* until it sleeps: its arguments tell */
        snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)child);
        FILE *const file = fopen(path, "r");
        assert_non_null(file);
        const size_t bytes = fread(name, 1, sizeof name, file);
        fclose(file);
        if (bytes > 6 && memcmp(name + bytes - 6, "sleep", 6) == 0)
            break;
        usleep(1000);
    } while (kill(child, 0) == 0);
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 0);
    assert_true(mdnn_node_registry_take(registry, piece));
    kill(child, SIGKILL);
    wait_for(child);
}

static void a_forked_child_takes_and_gives_nothing(void **state)
{
    (void)state;
    assert_int_equal(open_with(0, 4 * piece), MDNN_STATUS_OK);
    assert_true(mdnn_node_registry_take(registry, piece));
    const pid_t child = fork();
    if (child == 0) {
        mdnn_node_registry_give(registry, piece);
        const bool took = mdnn_node_registry_take(registry, piece);
        mdnn_node_registry_close(registry);
        _exit(took);
    }
    assert_int_equal(wait_for(child), 0);
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), piece);
}

static void hold_in_scope(int scope)
{
    if (open_with((uint64_t)scope, 100 * piece) != MDNN_STATUS_OK ||
        !mdnn_node_registry_take(registry, 5 * piece))
        _exit(2);
    atomic_fetch_add(&board->ready, 1);
    for (;;)
        pause();
}

static void a_group_counts_its_own_processes_only(void **state)
{
    (void)state;
    const pid_t children[] = {start(hold_in_scope, SCOPE), start(hold_in_scope, SCOPE + 1)};
    await_ready(2);
    const mdnn_node_limits_t limits = {.count = 2, .limits = {{0, 12 * piece}, {SCOPE, 6 * piece}}};
    assert_int_equal(mdnn_node_registry_open(folder, &limits, &registry), MDNN_STATUS_OK);
    assert_int_equal(mdnn_node_registry_bytes(registry, SCOPE), 5 * piece);
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 10 * piece);
    assert_false(mdnn_node_registry_take(registry, 2 * piece));
    assert_true(mdnn_node_registry_take(registry, piece));
    for (int i = 0; i < 2; i++) {
        kill(children[i], SIGKILL);
        wait_for(children[i]);
    }
}

/* ---- what is in its place ---- */

static void overwrite(const char *path, size_t bytes, uint64_t seed)
{
    FILE *const file = fopen(path, "r+");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(seed == 0 ? 0 : random_next(&seed) & 0xff), file);
    fclose(file);
}

/* One that nobody has mapped. */
static void make_and_close(void)
{
    assert_int_equal(open_with(0, piece), MDNN_STATUS_OK);
    mdnn_node_registry_close(registry);
    registry = NULL;
}

static void assert_usable(void)
{
    assert_int_equal(open_with(0, 2 * piece), MDNN_STATUS_OK);
    assert_true(mdnn_node_registry_take(registry, 2 * piece));
    assert_false(mdnn_node_registry_take(registry, piece));
    mdnn_node_registry_close(registry);
    registry = NULL;
}

static void garbage_is_replaced_or_means_nothing(void **state)
{
    struct stat found;
    (void)state;
    make_and_close();
    assert_int_equal(stat(file_path(), &found), 0);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        overwrite(file_path(), (size_t)found.st_size, seed); /* no header */
        assert_usable();
        char header[24];
        FILE *const file = fopen(file_path(), "r");
        assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
        fclose(file);
        overwrite(file_path(), (size_t)found.st_size, seed);
        FILE *const again = fopen(file_path(), "r+");
        assert_int_equal(fwrite(header, 1, sizeof header, again), sizeof header);
        fclose(again);
        assert_usable(); /* entries of processes that never were */
    }
    assert_int_equal(truncate(file_path(), 100), 0);
    assert_usable();
    assert_int_equal(truncate(file_path(), 1 << 20), 0);
    assert_usable();
    assert_int_equal(truncate(file_path(), 0), 0);
    assert_usable();
    assert_int_equal(chmod(file_path(), 0666), 0);
    assert_usable();
    assert_int_equal(stat(file_path(), &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
}

static void what_is_planted_is_neither_used_nor_changed(void **state)
{
    char path[512], victim[128], other[600];
    struct stat before, after;
    (void)state;
    make_and_close();
    strcpy(path, file_path());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    snprintf(victim, sizeof victim, "%s/.victim", folder);
    FILE *const file = fopen(victim, "w");
    fputs("precious", file);
    fclose(file);
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(open_with(0, piece), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(victim, path), 0);
    assert_int_equal(stat(victim, &before), 0);
    assert_int_equal(open_with(0, piece), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(stat(victim, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_with(0, piece), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(unlink(path), 0);
    make_and_close();
    snprintf(other, sizeof other, "%s/.other-name", folder);
    if (geteuid() == 0)
        assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    else /* what another user could make of a file of ours stands for his own */
        assert_int_equal(link(path, other), 0);
    assert_int_equal(open_with(0, piece), MDNN_STATUS_UNSUPPORTED);
    assert_null(registry);
}

static void who_works_moves_to_the_new_file_when_the_old_one_is_removed(void **state)
{
    (void)state;
    const pid_t child = start(hold_for_ever, 3);
    await_ready(1);
    assert_int_equal(open_with(0, 9 * piece), MDNN_STATUS_OK);
    assert_true(mdnn_node_registry_take(registry, 2 * piece));
    assert_int_equal(unlink(file_path()), 0);
    assert_true(mdnn_node_registry_take(registry, piece));
    assert_int_equal(mdnn_node_registry_bytes(registry, 0), 3 * piece); /* the child moves later */
    assert_string_not_equal(file_path(), "");
    mdnn_node_registry_give(registry, 3 * piece);
    kill(child, SIGKILL);
    wait_for(child);
}

static void take_and_end(int unused)
{
    (void)unused;
    if (open_with(0, 1000 * piece) != MDNN_STATUS_OK || !mdnn_node_registry_take(registry, piece))
        _exit(2);
}

static void entries_of_the_dead_are_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < 600; i++) /* there are 512 */
        assert_int_equal(wait_for(start(take_and_end, 0)), 0);
}

static void open_beyond_the_size_of_files(int unused)
{
    const struct rlimit limit = {4096, 4096};
    (void)unused;
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(open_with(0, 1000 * piece) == MDNN_STATUS_IO && errno == EFBIG ? 0 : 1);
}

static void open_without_descriptors(int unused)
{
    const struct rlimit none = {0, 0};
    (void)unused;
    (void)setrlimit(RLIMIT_NOFILE, &none);
    _exit(open_with(0, 1000 * piece) == MDNN_STATUS_IO && errno == EMFILE ? 0 : 1);
}

static void the_reason_is_in_errno(void **state)
{
    (void)state;
    assert_int_equal(wait_for(start(open_without_descriptors, 0)), 0);
}

/* Its signal would end a program that writes no file at all. */
static void a_limit_of_file_sizes_costs_the_registry_and_not_the_process(void **state)
{
    (void)state;
    assert_int_equal(wait_for(start(open_beyond_the_size_of_files, 0)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_taken_is_counted_until_it_is_given),
        TEST(nobody_else_may_look_and_nothing_stays_open),
        TEST(eight_processes_never_hold_more_than_the_limit),
        TEST(what_the_killed_held_is_free),
        TEST(a_process_that_became_another_program_holds_nothing),
        TEST(a_forked_child_takes_and_gives_nothing),
        TEST(a_group_counts_its_own_processes_only),
        TEST(garbage_is_replaced_or_means_nothing),
        TEST(what_is_planted_is_neither_used_nor_changed),
        TEST(who_works_moves_to_the_new_file_when_the_old_one_is_removed),
        TEST(the_reason_is_in_errno),
        TEST(entries_of_the_dead_are_used_again),
        TEST(a_limit_of_file_sizes_costs_the_registry_and_not_the_process),
    };
    own_program = arguments[0];
    if (count > 1)
        for (;;)
            pause();
    return cmocka_run_group_tests_name("node registry", tests, NULL, NULL);
}
