/* Where measurements are kept if nobody says where. */
#include "cases.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "optimizer/database.h"
#include "optimizer/database_place.h"

enum { NOBODY = 65534, NFS = 0x6969 };

static char folder[64];
static bool network; /* what does not exist lies on a network file system */

int __real_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out)
{
    const int result = __real_statfs(path, out);
    if (network)
        out->f_type = NFS;
    return result;
}

/* A home of its own, which the first case makes. */
static const char *at(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *const path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static mdnn_status_t store(const mdnn_database_t *database)
{
    const mdnn_database_environment_t environment = {"NVIDIA Test", "580.1", 13000, 91900, NULL};
    const mdnn_cost_t cost = {.time_ms = 1};
    mdnn_database_key_t key;
    mdnn_problem_t problem;
    mdnn_cost_memory_t memory = {0};
    memset(&problem, 0, sizeof problem);
    problem.groups = 1;
    assert_int_equal(mdnn_database_key(&problem, &environment, &key), MDNN_STATUS_OK);
    assert_int_equal(mdnn_cost_memory_put(&memory, 8, MDNN_PART_FIRST, &cost, 1, true),
                     MDNN_STATUS_OK);
    const mdnn_status_t status = mdnn_database_store_costs(database, &key, &memory);
    mdnn_cost_memory_fini(&memory);
    return status;
}

CASE(it_is_in_the_cache_folder_of_the_user)
{
    char path[256];
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/mdnn-place.XXXXXX")));
    setenv("HOME", at("home %p"), 1);
    setenv("XDG_CACHE_HOME", at("xdg"), 1);
    assert_int_equal(mkdir(at("home %p"), 0700), 0);
    assert_int_equal(mkdir(at("xdg"), 0700), 0);
    assert_int_equal(mdnn_database_automatic_path(path, sizeof path), MDNN_STATUS_OK);
    assert_string_equal(path, at("xdg/microdnn/costs.db"));
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(mdnn_database_automatic_path(path, sizeof path), MDNN_STATUS_OK);
    assert_string_equal(path, at("home %p/.cache/microdnn/costs.db"));
    assert_int_equal(mdnn_database_automatic_path(path, 10), MDNN_STATUS_OVERFLOW);
}

CASE(only_a_store_makes_the_folder_and_for_the_user_alone)
{
    mdnn_database_t database;
    struct stat made;
    assert_int_equal(mdnn_database_init_place(&database, "auto", ""), MDNN_STATUS_OK);
    assert_string_equal(database.path, at("home %p/.cache/microdnn/costs.db"));
    assert_int_not_equal(access(at("home %p/.cache"), F_OK), 0);
    assert_int_equal(store(&database), MDNN_STATUS_OK);
    assert_int_equal(stat(at("home %p/.cache/microdnn"), &made), 0);
    assert_int_equal(made.st_mode & 0777, 0700);
    assert_int_equal(access(database.path, R_OK), 0);
}

CASE(a_home_that_is_missing_is_not_made)
{
    mdnn_database_t database;
    setenv("HOME", at("none"), 1);
    assert_int_equal(mdnn_database_init_place(&database, "auto", ""), MDNN_STATUS_OK);
    assert_int_equal(store(&database), MDNN_STATUS_IO);
    assert_int_not_equal(access(at("none"), F_OK), 0);
    setenv("HOME", at("home %p"), 1);
}

CASE(none_and_an_empty_text_keep_nothing_and_a_file_is_a_file)
{
    mdnn_database_t database;
    assert_int_equal(mdnn_database_init_place(&database, "none", ""), MDNN_STATUS_OK);
    assert_string_equal(database.path, "");
    assert_int_equal(mdnn_database_init_place(&database, "", at("other.db")), MDNN_STATUS_OK);
    assert_string_equal(database.path, "");
    assert_string_equal(database.import_path, at("other.db"));
    assert_int_equal(mdnn_database_init_place(&database, at("deep/none"), ""), MDNN_STATUS_OK);
    assert_string_equal(database.path, at("deep/none"));
    assert_int_equal(store(&database), MDNN_STATUS_IO); /* only our own folder is made */
}

CASE(on_a_network_file_system_the_file_is_the_hosts_even_before_its_folder_is_there)
{
    char host[256] = "", expected[512];
    mdnn_database_t database;
    gethostname(host, sizeof host - 1);
    setenv("XDG_CACHE_HOME", at("home %p/net"), 1);
    snprintf(expected, sizeof expected, "%s.%s", at("home %p/net/microdnn/costs.db"), host);
    network = true;
    assert_int_equal(mdnn_database_init_place(&database, "auto", ""), MDNN_STATUS_OK);
    network = false;
    assert_string_equal(database.path, expected);
    unsetenv("XDG_CACHE_HOME");
}

CASE(without_a_home_nothing_is_kept)
{
    char path[256];
    mdnn_database_t database;
    unsetenv("HOME");
    assert_int_equal(mdnn_database_automatic_path(path, sizeof path), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_database_init_place(&database, "auto", ""), MDNN_STATUS_OK);
    assert_string_equal(database.path, "");
    assert_int_equal(store(&database), MDNN_STATUS_OK);
    setenv("HOME", at("home %p"), 1);
}

/* As for root with another user's HOME. */
CASE(in_somebody_elses_folder_nothing_is_kept)
{
    char path[256];
    mdnn_database_t database;
    setenv("XDG_CACHE_HOME", geteuid() == 0 ? at("foreign") : "/root-owned", 1);
    if (geteuid() == 0) {
        assert_int_equal(mkdir(at("foreign"), 0777), 0);
        assert_int_equal(chown(at("foreign"), NOBODY, NOBODY), 0);
    }
    assert_int_equal(mdnn_database_automatic_path(path, sizeof path), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(mdnn_database_init_place(&database, "auto", ""), MDNN_STATUS_OK);
    assert_string_equal(database.path, "");
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    return run_cases("database_place");
}
