/* A database in a folder where somebody else may write: what he plants there harms nobody. Where the
 * test runs as root the other one is a user without rights, else what he could make out of the
 * user's own files (hard links, links) stands for him. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"
#include "optimizer/database.h"

enum { NOBODY = 65534, PAGE_BYTES = 4096, SECTOR_BYTES = 512, BUDGET_MS = 5000 };

static char folder[64], precious[128];
static mdnn_database_t database;
static mdnn_database_key_t key;

static const char *path_in(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *const path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static bool exists(const char *path)
{
    struct stat unused;
    return lstat(path, &unused) == 0;
}

static uint64_t content_of(const char *path)
{
    uint64_t hash = 14695981039346656037u;
    FILE *const file = fopen(path, "rb");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        hash = (hash ^ (uint64_t)c) * 1099511628211u;
    fclose(file);
    return hash;
}

static void open_database(const char *path)
{
    assert_int_equal(mdnn_database_init(&database, path, NULL), MDNN_STATUS_OK);
    database.budget_ms = BUDGET_MS;
}

static int begin(void **state)
{
    const mdnn_database_environment_t environment = {"NVIDIA Test", "580.1", 13000, 91900, NULL};
    mdnn_problem_t problem;
    (void)state;
    strcpy(folder, "/tmp/mdnn-owners.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(precious, sizeof precious, "%s", path_in("precious"));
    write_file(precious, "do not delete", 13);
    memset(&problem, 0, sizeof problem);
    problem.groups = 1;
    assert_int_equal(mdnn_database_key(&problem, &environment, &key), MDNN_STATUS_OK);
    open_database(path_in("costs.db"));
    return 0;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static mdnn_status_t store(void)
{
    const mdnn_cost_t cost = {.algo = 1, .workspace_bytes = 64, .time_ms = 2};
    mdnn_cost_memory_t memory = {0};
    assert_int_equal(mdnn_cost_memory_put(&memory, 32, MDNN_PART_FIRST, &cost, 1, true),
                     MDNN_STATUS_OK);
    const mdnn_status_t status = mdnn_database_store_costs(&database, &key, &memory);
    mdnn_cost_memory_fini(&memory);
    return status;
}

static mdnn_status_t load(void)
{
    mdnn_cost_memory_t memory = {0};
    const mdnn_status_t status = mdnn_database_load_costs(&database, &key, &memory);
    mdnn_cost_memory_fini(&memory);
    return status;
}

static unsigned char *put32(unsigned char *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (unsigned char)(value >> shift);
    return at;
}

/* A journal that is to be rolled back, below the journal `above`, which SQLite deletes then
 * (sqlite.org/fileformat2.html, section 3; pager.c, readSuperJournal). */
static void plant_journal(const char *path, const char *above)
{
    static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    unsigned char bytes[SECTOR_BYTES + 1024] = {0}, *at = bytes;
    uint32_t sum = 0;
    memcpy(at, magic, sizeof magic);
    at = put32(at + sizeof magic, 0); /* no pages */
    at = put32(at, 1);                /* nonce */
    at = put32(at, 1);                /* pages of the database before */
    at = put32(at, SECTOR_BYTES);
    (void)put32(at, PAGE_BYTES);
    at = put32(bytes + SECTOR_BYTES, 0x40000000 / PAGE_BYTES + 1);
    for (const char *c = above; *c; c++) {
        sum += (uint32_t)(unsigned char)*c;
        *at++ = (unsigned char)*c;
    }
    at = put32(at, (uint32_t)strlen(above));
    at = put32(at, sum);
    memcpy(at, magic, sizeof magic);
    write_file(path, bytes, (size_t)(at + sizeof magic - bytes));
}

/* Somebody else's: his by owner where we may make it so, else by what he can make of ours. */
static void give_to_somebody(const char *path)
{
    char other[300];
    snprintf(other, sizeof other, "%s.other-name", path);
    if (geteuid() == 0)
        assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    else
        assert_int_equal(link(path, other), 0);
}

static void share(const char *path, mode_t mode)
{
    assert_int_equal(chmod(path, mode), 0);
}

static void a_journal_cannot_name_a_file_to_be_deleted(void **state)
{
    (void)state;
    assert_int_equal(store(), MDNN_STATUS_OK);
    plant_journal(path_in("costs.db-journal"), precious);
    (void)load();
    assert_true(exists(precious));
    plant_journal(path_in("costs.db-journal"), precious);
    (void)store();
    assert_true(exists(precious));
}

static void a_journal_of_somebody_else_is_not_rolled_back(void **state)
{
    static const mode_t shared_modes[] = {01777, 0777, 0775};
    (void)state;
    assert_int_equal(store(), MDNN_STATUS_OK);
    const uint64_t before = content_of(database.path);
    for (size_t i = 0; i < sizeof shared_modes / sizeof *shared_modes; i++) {
        share(folder, shared_modes[i]);
        plant_journal(path_in("costs.db-journal"), precious);
        give_to_somebody(path_in("costs.db-journal"));
        assert_int_equal(load(), MDNN_STATUS_UNSUPPORTED);
        assert_int_equal(store(), MDNN_STATUS_UNSUPPORTED);
        assert_true(exists(precious));
        assert_true(content_of(database.path) == before);
        (void)unlink(path_in("costs.db-journal.other-name"));
        assert_int_equal(unlink(path_in("costs.db-journal")), 0);
        assert_int_equal(load(), MDNN_STATUS_OK);
    }
}

static void a_journal_may_be_no_link(void **state)
{
    (void)state;
    assert_int_equal(store(), MDNN_STATUS_OK);
    share(folder, 01777);
    plant_journal(path_in("elsewhere"), precious);
    assert_int_equal(symlink(path_in("elsewhere"), path_in("costs.db-journal")), 0);
    assert_int_equal(store(), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(load(), MDNN_STATUS_UNSUPPORTED);
    assert_true(exists(precious) && exists(path_in("elsewhere")));
}

static void a_database_of_somebody_else_is_read_and_never_written(void **state)
{
    (void)state;
    assert_int_equal(store(), MDNN_STATUS_OK);
    share(folder, 01777);
    give_to_somebody(database.path);
    plant_journal(path_in("costs.db-journal"), precious);
    const uint64_t before = content_of(database.path);
    const uint64_t journal_before = content_of(path_in("costs.db-journal"));
    assert_int_equal(load(), MDNN_STATUS_OK);
    assert_int_equal(store(), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(mdnn_database_clear(database.path, BUDGET_MS), MDNN_STATUS_UNSUPPORTED);
    assert_true(content_of(database.path) == before);
    assert_true(content_of(path_in("costs.db-journal")) == journal_before);
    assert_true(exists(precious));
}

static void damage_in_somebody_elses_file_moves_nothing(void **state)
{
    unsigned char zeros[2 * PAGE_BYTES] = {0};
    (void)state;
    write_file(database.path, zeros, sizeof zeros);
    share(folder, 0777);
    give_to_somebody(database.path);
    assert_int_not_equal(load(), MDNN_STATUS_OK);
    assert_true(exists(database.path));
    assert_false(exists(path_in("costs.db.damaged-1")));
}

static void no_link_leads_to_a_database(void **state)
{
    (void)state;
    assert_int_equal(store(), MDNN_STATUS_OK);
    const uint64_t before = content_of(database.path);
    assert_int_equal(symlink("costs.db", path_in("link.db")), 0);
    assert_int_equal(symlink("made.db", path_in("dangling.db")), 0);
    open_database(path_in("link.db"));
    assert_int_not_equal(store(), MDNN_STATUS_OK);
    assert_int_not_equal(load(), MDNN_STATUS_OK);
    assert_true(content_of(path_in("costs.db")) == before);
    open_database(path_in("dangling.db"));
    assert_int_not_equal(store(), MDNN_STATUS_OK);
    assert_false(exists(path_in("made.db")));
}

static void a_folder_behind_a_link_is_used_where_nobody_else_can_move_the_link(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_in("real"), 0700), 0);
    assert_int_equal(symlink("real", path_in("way")), 0);
    open_database(path_in("way/costs.db"));
    assert_int_equal(store(), MDNN_STATUS_OK);
    assert_true(exists(path_in("real/costs.db")));
    share(folder, 01777);
    assert_int_not_equal(store(), MDNN_STATUS_OK);
    assert_int_not_equal(load(), MDNN_STATUS_OK);
    share(folder, 0770);
    assert_int_not_equal(store(), MDNN_STATUS_OK);
    share(folder, 0700);
    assert_int_equal(load(), MDNN_STATUS_OK);
}

static void a_name_for_sqlite_is_no_more_than_a_name(void **state)
{
    static const char *const names[] = {"a%20b.db", "q?mode=memory", "x#y", "\xc3\xbc&nolock=1"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        /* '%' is doubled: patterns are expanded */
        char pattern[64];
        snprintf(pattern, sizeof pattern, "%s%s", i == 0 ? "a%" : "",
                 i == 0 ? names[i] + 1 : names[i]);
        open_database(path_in(pattern));
        assert_int_equal(store(), MDNN_STATUS_OK);
        assert_true(exists(path_in(names[i])));
        assert_int_equal(load(), MDNN_STATUS_OK);
    }
}

/* A program that closed its standard descriptors opens what it likes there. */
static void standard_descriptors_stay_closed(void **state)
{
    int kept[3];
    bool closed = true;
    (void)state;
    for (int i = 0; i < 3; i++) {
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
        close(i);
    }
    const mdnn_status_t stored = store(), loaded = load();
    for (int i = 0; i < 3; i++) {
        closed = closed && fcntl(i, F_GETFD) < 0;
        dup2(kept[i], i);
        close(kept[i]);
    }
    assert_int_equal(stored, MDNN_STATUS_OK);
    assert_int_equal(loaded, MDNN_STATUS_OK);
    assert_true(closed);
}

static int silence_log(void **state)
{
    (void)state;
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_journal_cannot_name_a_file_to_be_deleted),
        TEST(a_journal_of_somebody_else_is_not_rolled_back),
        TEST(a_journal_may_be_no_link),
        TEST(a_database_of_somebody_else_is_read_and_never_written),
        TEST(damage_in_somebody_elses_file_moves_nothing),
        TEST(no_link_leads_to_a_database),
        TEST(a_folder_behind_a_link_is_used_where_nobody_else_can_move_the_link),
        TEST(a_name_for_sqlite_is_no_more_than_a_name),
        TEST(standard_descriptors_stay_closed),
    };
    return cmocka_run_group_tests(tests, silence_log, NULL);
}
