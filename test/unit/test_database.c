/* The database of costs and configurations: what it keeps, and what it survives. */
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/log.h"
#include "optimizer/database.h"
#include "optimizer/database_codec.h"
#include "optimizer/database_file.h"
#include "test/unit/few.h"

static unsigned long pretended_file_system; /* 0: ask the real one */

int __real_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out)
{
    const int result = __real_statfs(path, out);
    out->f_type = (__typeof__(out->f_type))(pretended_file_system ? pretended_file_system : 0xef53);
    return result;
}

/* ---- a directory of its own for every test ---- */

static char directory[64];
static mdnn_database_t database;

static void path_in(char *path, size_t bytes, const char *name)
{
    snprintf(path, bytes, "%s/%s", directory, name);
}

static int make_directory(void **state)
{
    char path[128];
    (void)state;
    strcpy(directory, "/tmp/mdnn-database.XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    path_in(path, sizeof path, "costs.db");
    return mdnn_database_init(&database, path, NULL) != MDNN_STATUS_OK;
}

static int remove_directory(void **state)
{
    struct dirent *entry;
    DIR *const listing = opendir(directory);
    (void)state;
    while ((entry = readdir(listing)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(listing), entry->d_name, 0);
    closedir(listing);
    return rmdir(directory);
}

static int count_files(const char *part_of_name)
{
    struct dirent *entry;
    int count = 0;
    DIR *const listing = opendir(directory);
    while ((entry = readdir(listing)))
        count += strstr(entry->d_name, part_of_name) != NULL;
    closedir(listing);
    return count;
}

static size_t read_file(const char *path, unsigned char *bytes, size_t most)
{
    FILE *const file = fopen(path, "rb");
    if (!file)
        return 0;
    const size_t size = fread(bytes, 1, most, file);
    fclose(file);
    return size;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % bound;
}

/* ---- what is stored ---- */

static mdnn_problem_t problem_number(int32_t number)
{
    mdnn_problem_t problem;
    memset(&problem, 0, sizeof problem);
    problem.x = (mdnn_problem_tensor_t){0, 4, {256, 64, 27, 27}, {46656, 729, 27, 1}, 0, 16};
    problem.w = (mdnn_problem_tensor_t){0, 4, {number, 64, 5, 5}, {0}, 0, 16};
    problem.spatial_dims = 2;
    problem.groups = 1;
    return problem;
}

static const mdnn_database_environment_t ENVIRONMENT = {"NVIDIA Test", "580.1", 13000, 91900, NULL};

static mdnn_database_key_t key_number(int32_t number)
{
    const mdnn_problem_t problem = problem_number(number);
    mdnn_database_key_t key;
    assert_int_equal(mdnn_database_key(&problem, &ENVIRONMENT, &key), MDNN_STATUS_OK);
    return key;
}

/* A function of its arguments, so that whatever is read back can be checked. */
static mdnn_cost_t cost_of(int64_t images, mdnn_part_role_t role, int32_t algo)
{
    mdnn_cost_t cost;
    memset(&cost, 0, sizeof cost);
    cost.algo = algo;
    cost.math_type = algo % 3;
    cost.workspace_bytes = (uint64_t)images << (algo + 8);
    cost.time_ms = (double)images / (algo + 1) + (double)(int)role + 0.1;
    cost.deterministic = algo & 1;
    cost.direct = algo & 2;
    cost.strict = !(algo & 3);
    cost.extrapolated = algo & 4;
    if (algo > 5) {
        cost.engine.id = algo;
        cost.engine.knob_count = MDNN_ENGINE_KNOBS;
        for (int i = 0; i < MDNN_ENGINE_KNOBS; i++) {
            cost.engine.knobs[i].type = i;
            cost.engine.knobs[i].value = -i * algo;
        }
    }
    return cost;
}

/* Size `images` has images % 9 costs: some have none. */
static void put_size(mdnn_cost_memory_t *memory, int64_t images, mdnn_part_role_t role)
{
    mdnn_cost_t costs[8];
    const size_t count = (size_t)(images % 9);
    for (size_t i = 0; i < count; i++)
        costs[i] = cost_of(images, role, (int32_t)i);
    assert_int_equal(mdnn_cost_memory_put(memory, images, role, costs, count, true),
                     MDNN_STATUS_OK);
}

/* Field by field: the padding of a struct is nobody's. */
static void assert_same_cost(const mdnn_cost_t *a, const mdnn_cost_t *b)
{
    assert_int_equal(a->algo, b->algo);
    assert_int_equal(a->math_type, b->math_type);
    assert_int_equal(a->workspace_bytes, b->workspace_bytes);
    assert_true(a->time_ms == b->time_ms);
    assert_true(a->deterministic == b->deterministic && a->direct == b->direct &&
                a->strict == b->strict && a->extrapolated == b->extrapolated);
    assert_memory_equal(&a->engine, &b->engine, sizeof a->engine);
}

static void assert_entry_is_true(const mdnn_cost_entry_t *entry)
{
    assert_int_equal(entry->count, entry->images % 9);
    assert_false(entry->is_new);
    for (size_t i = 0; i < entry->count; i++) {
        const mdnn_cost_t expected = cost_of(entry->images, entry->role, (int32_t)i);
        assert_same_cost(&entry->costs[i], &expected);
    }
}

static void fill(mdnn_cost_memory_t *memory, int64_t most_images)
{
    for (int64_t images = most_images; images >= 1; images--)
        for (int role = 0; role < MDNN_PART_ROLE_COUNT; role++)
            put_size(memory, images, (mdnn_part_role_t)role);
}

static mdnn_status_t store_sizes(const mdnn_database_t *where, const mdnn_database_key_t *key,
                                 int64_t most_images)
{
    mdnn_cost_memory_t memory = {0};
    fill(&memory, most_images);
    const mdnn_status_t status = mdnn_database_store_costs(where, key, &memory);
    mdnn_cost_memory_fini(&memory);
    return status;
}

/* Loads, checks every entry against cost_of, and returns how many there were. */
static mdnn_status_t load_sizes(const mdnn_database_t *where, const mdnn_database_key_t *key,
                                size_t *count)
{
    mdnn_cost_memory_t memory = {0};
    const mdnn_status_t status = mdnn_database_load_costs(where, key, &memory);
    for (size_t i = 0; i < memory.count; i++)
        assert_entry_is_true(&memory.entries[i]);
    *count = memory.count;
    mdnn_cost_memory_fini(&memory);
    return status;
}

/* ---- round trips ---- */

static void costs_come_back_as_they_were_stored(void **state)
{
    const mdnn_database_key_t key = key_number(1), other = key_number(2);
    mdnn_cost_memory_t memory = {0};
    size_t count;
    (void)state;

    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_NOT_FOUND);
    fill(&memory, 64);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &memory), MDNN_STATUS_OK);
    for (size_t i = 0; i < memory.count; i++)
        assert_false(memory.entries[i].is_new);
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_OK);
    assert_int_equal(count, 128);
    assert_int_equal(load_sizes(&database, &other, &count), MDNN_STATUS_NOT_FOUND);

    unlink(database.path);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &memory), MDNN_STATUS_OK);
    assert_int_equal(count_files("costs.db"), 0); /* nothing was new */
    mdnn_cost_memory_fini(&memory);
}

static void newer_costs_replace_older_ones(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_cost_memory_t memory = {0}, read = {0};
    mdnn_cost_t cost = cost_of(32, MDNN_PART_FIRST, 5);
    (void)state;

    assert_int_equal(store_sizes(&database, &key, 32), MDNN_STATUS_OK);
    cost.time_ms = 77;
    assert_int_equal(mdnn_cost_memory_put(&memory, 32, MDNN_PART_FIRST, &cost, 1, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &memory), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_load_costs(&database, &key, &read), MDNN_STATUS_OK);
    const mdnn_cost_entry_t *const entry = mdnn_cost_memory_find(&read, 32, MDNN_PART_FIRST);
    assert_int_equal(entry->count, 1);
    assert_true(entry->costs[0].time_ms == 77);
    assert_int_equal(mdnn_cost_memory_find(&read, 32, MDNN_PART_REST)->count, 32 % 9);
    mdnn_cost_memory_fini(&memory);
    mdnn_cost_memory_fini(&read);
}

/* One cost of size 32, as a file gives it back; false if nothing does. */
static bool keep_cost(const mdnn_cost_t *cost, mdnn_cost_t *kept)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_cost_memory_t memory = {0}, read = {0};
    assert_int_equal(mdnn_cost_memory_put(&memory, 32, MDNN_PART_FIRST, cost, 1, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &memory), MDNN_STATUS_OK);
    const bool known = mdnn_database_load_costs(&database, &key, &read) == MDNN_STATUS_OK;
    if (known)
        *kept = mdnn_cost_memory_find(&read, 32, MDNN_PART_FIRST)->costs[0];
    mdnn_cost_memory_fini(&memory);
    mdnn_cost_memory_fini(&read);
    return known;
}

static void what_was_left_to_a_search_is_neither_timed_nor_just_untimed(void **state)
{
    mdnn_cost_t cost = cost_of(32, MDNN_PART_FIRST, 6), kept;
    (void)state;
    cost.workspace_bytes = 0;
    cost.time_ms = 0;
    cost.untimed = true;
    assert_true(keep_cost(&cost, &kept) && kept.untimed && !kept.deferred);
    cost.deferred = true;
    assert_true(keep_cost(&cost, &kept) && kept.untimed && kept.deferred);
    assert_same_cost(&kept, &cost);
    cost.workspace_bytes = 1; /* nobody planned it, so nobody knows that */
    assert_false(keep_cost(&cost, &kept));
    cost = cost_of(32, MDNN_PART_FIRST, 6);
    cost.deferred = true; /* others were */
    assert_true(keep_cost(&cost, &kept) && !kept.untimed && kept.deferred);
    assert_same_cost(&kept, &cost);
}

static void what_another_process_measured_is_not_left_again(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_cost_memory_t measured = {0}, left = {0}, read = {0};
    const mdnn_cost_t known[] = {cost_of(32, MDNN_PART_FIRST, 6), cost_of(32, MDNN_PART_FIRST, 7)};
    mdnn_cost_t ours[] = {cost_of(32, MDNN_PART_FIRST, 5), cost_of(32, MDNN_PART_FIRST, 6)};
    (void)state;
    ours[1].deferred = ours[1].untimed = true;
    ours[1].time_ms = 0;
    ours[1].workspace_bytes = 0;
    assert_int_equal(mdnn_cost_memory_put(&measured, 32, MDNN_PART_FIRST, known, 2, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_cost_memory_put(&left, 32, MDNN_PART_FIRST, ours, 2, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &measured), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &left), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_load_costs(&database, &key, &read), MDNN_STATUS_OK);
    const mdnn_cost_entry_t *const entry = mdnn_cost_memory_find(&read, 32, MDNN_PART_FIRST);
    assert_int_equal(entry->count, 3);
    assert_same_cost(&entry->costs[0], &ours[0]);
    assert_same_cost(&entry->costs[1], &known[0]);
    assert_false(entry->costs[1].deferred || entry->costs[1].untimed);
    assert_same_cost(&entry->costs[2], &known[1]);
    mdnn_cost_memory_fini(&measured);
    mdnn_cost_memory_fini(&left);
    mdnn_cost_memory_fini(&read);
}

static void a_size_that_another_process_knows_whole_leaves_nothing(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_cost_memory_t whole = {0}, partly = {0}, read = {0};
    mdnn_cost_t known[] = {cost_of(32, MDNN_PART_FIRST, 6), cost_of(32, MDNN_PART_FIRST, 7)};
    mdnn_cost_t ours[] = {cost_of(32, MDNN_PART_FIRST, 5), cost_of(32, MDNN_PART_FIRST, 6)};
    (void)state;
    ours[0].deferred = ours[1].deferred = true;
    known[0].untimed = true; /* there it was above the limit */
    known[0].time_ms = 0;
    assert_int_equal(mdnn_cost_memory_put(&whole, 32, MDNN_PART_FIRST, known, 2, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_cost_memory_put(&partly, 32, MDNN_PART_FIRST, ours, 2, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &whole), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&database, &key, &partly), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_load_costs(&database, &key, &read), MDNN_STATUS_OK);
    const mdnn_cost_entry_t *const entry = mdnn_cost_memory_find(&read, 32, MDNN_PART_FIRST);
    assert_int_equal(entry->count, 3);
    ours[0].deferred = ours[1].deferred = false;
    assert_same_cost(&entry->costs[0], &ours[0]);
    assert_same_cost(&entry->costs[1], &ours[1]);
    assert_same_cost(&entry->costs[2], &known[1]);
    mdnn_cost_memory_fini(&whole);
    mdnn_cost_memory_fini(&partly);
    mdnn_cost_memory_fini(&read);
}

static void everything_but_the_ordinal_of_the_device_is_in_the_key(void **state)
{
    const mdnn_problem_t problem = problem_number(3);
    const mdnn_database_key_t key = key_number(3);
    mdnn_database_key_t other;
    (void)state;
    for (size_t i = 0; i < sizeof problem; i++) {
        const size_t device = offsetof(mdnn_problem_t, device);
        mdnn_problem_t changed = problem;
        ((unsigned char *)&changed)[i] ^= 1;
        assert_int_equal(mdnn_database_key(&changed, &ENVIRONMENT, &other), MDNN_STATUS_OK);
        const bool same = strcmp(key.text, other.text) == 0;
        assert_true(same == (i >= device && i < device + sizeof problem.device));
    }
    for (int i = 0; i < 6; i++) {
        mdnn_database_environment_t environment = ENVIRONMENT;
        if (i == 0)
            environment.device_model = "NVIDIA Tests";
        else if (i == 1)
            environment.driver = NULL;
        else if (i == 2)
            environment.cuda_version++;
        else if (i == 3)
            environment.cudnn_version++;
        else if (i == 4)
            environment.tf32_override = "0";
        else
            environment.tf32_override = "";
        assert_int_equal(mdnn_database_key(&problem, &environment, &other), MDNN_STATUS_OK);
        assert_string_not_equal(key.text, other.text);
    }
}

static void the_longest_problem_fits_a_key_and_a_longer_name_does_not(void **state)
{
    mdnn_problem_t problem;
    mdnn_database_key_t key;
    char name[MDNN_DATABASE_KEY_BYTES];
    mdnn_database_environment_t environment = ENVIRONMENT;
    (void)state;
    memset(&problem, 0x80, sizeof problem); /* every number is long and negative */
    environment.cuda_version = environment.cudnn_version = INT64_MIN;
    memset(name, 'x', sizeof name);
    name[255] = '\0';
    environment.device_model = name;
    assert_int_equal(mdnn_database_key(&problem, &environment, &key), MDNN_STATUS_OK);
    name[255] = 'x';
    name[sizeof name - 1] = '\0';
    assert_int_equal(mdnn_database_key(&problem, &environment, &key), MDNN_STATUS_OVERFLOW);
}

/* ---- sources ---- */

typedef struct counting_source {
    int asked;
} counting_source_t;

static mdnn_status_t find_counted(void *context, int64_t images, mdnn_part_role_t role,
                                  mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    (void)capacity;
    ((counting_source_t *)context)->asked++;
    for (int32_t i = 0; i < 5; i++)
        costs[i] = cost_of(images, role, i);
    *count = 5;
    return images == 13 ? MDNN_STATUS_DEVICE : MDNN_STATUS_OK;
}

static const mdnn_wr_request_t REQUEST = {.batch = 12,
                                          .sizes = MDNN_SIZES_ALL,
                                          .granularity = 1,
                                          .roles_differ = true,
                                          .workspace_limit_bytes = UINT64_MAX,
                                          .part_overhead_ms = 0.01};

static void second_run_measures_nothing_and_chooses_alike(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    char chosen[2][160];
    (void)state;
    for (int run = 0; run < 2; run++) {
        counting_source_t measured = {0};
        mdnn_cost_memory_t memory = {0};
        mdnn_cost_chain_t chain = {&memory, {&measured, find_counted}};
        const mdnn_cost_source_t source = mdnn_cost_chain_source(&chain);
        mdnn_front_t *front = NULL;

        assert_int_equal(mdnn_database_load_costs(&database, &key, &memory),
                         run ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND);
        assert_int_equal(mdnn_wr_optimize(&REQUEST, &source, &front), MDNN_STATUS_OK);
        assert_int_equal(measured.asked, run ? 0 : 12 + 11);
        assert_int_equal(mdnn_database_store_costs(&database, &key, &memory), MDNN_STATUS_OK);
        mdnn_configuration_format(mdnn_front_best(front, 1 << 14), chosen[run], sizeof chosen[run]);
        mdnn_front_destroy(front);
        mdnn_cost_memory_fini(&memory);
    }
    assert_string_equal(chosen[0], chosen[1]);
}

static void a_failed_measurement_is_not_remembered(void **state)
{
    counting_source_t measured = {0};
    mdnn_cost_memory_t memory = {0};
    mdnn_cost_chain_t chain = {&memory, {&measured, find_counted}};
    const mdnn_cost_source_t source = mdnn_cost_chain_source(&chain);
    mdnn_cost_t costs[MDNN_COSTS_PER_SIZE];
    size_t count;
    (void)state;
    assert_int_equal(
        source.find(source.context, 13, MDNN_PART_FIRST, costs, MDNN_COSTS_PER_SIZE, &count),
        MDNN_STATUS_DEVICE);
    assert_int_equal(memory.count, 0);
}

static void a_table_is_a_source(void **state)
{
    mdnn_cost_memory_t memory = {0};
    const mdnn_cost_source_t source = mdnn_cost_memory_source(&memory);
    mdnn_cost_t costs[MDNN_COSTS_PER_SIZE];
    size_t count = 99;
    (void)state;
    static const int64_t ORDER[] = {4, 64, 1, 16, 2, 32, 8};
    for (size_t i = 0; i < sizeof ORDER / sizeof *ORDER; i++)
        put_size(&memory, ORDER[i], i % 2 ? MDNN_PART_FIRST : MDNN_PART_REST);
    for (size_t i = 1; i < memory.count; i++)
        assert_true(memory.entries[i - 1].images > memory.entries[i].images);
    assert_int_equal(
        source.find(source.context, 8, MDNN_PART_REST, costs, MDNN_COSTS_PER_SIZE, &count),
        MDNN_STATUS_OK);
    assert_int_equal(count, 8);
    source.find(source.context, 8, MDNN_PART_FIRST, costs, MDNN_COSTS_PER_SIZE, &count);
    assert_int_equal(count, 0);
    mdnn_cost_memory_fini(&memory);
}

/* ---- configurations ---- */

static mdnn_configuration_t configuration_of(mdnn_micro_config_t *parts, size_t count)
{
    mdnn_configuration_t configuration = {0.5, 0, count, parts};
    for (size_t i = 0; i < count; i++)
        if (parts[i].cost.workspace_bytes > configuration.workspace_bytes)
            configuration.workspace_bytes = parts[i].cost.workspace_bytes;
    return configuration;
}

static mdnn_configuration_t four_four_three_one(mdnn_micro_config_t parts[4])
{
    parts[0] = (mdnn_micro_config_t){4, cost_of(4, MDNN_PART_FIRST, 3)};
    parts[1] = (mdnn_micro_config_t){4, cost_of(4, MDNN_PART_FIRST, 3)};
    parts[2] = (mdnn_micro_config_t){3, cost_of(3, MDNN_PART_REST, 2)};
    parts[3] = (mdnn_micro_config_t){1, cost_of(1, MDNN_PART_REST, 1)};
    return configuration_of(parts, 4);
}

static void assert_same_configuration(const mdnn_configuration_t *a, const mdnn_configuration_t *b)
{
    assert_true(a->time_ms == b->time_ms);
    assert_int_equal(a->workspace_bytes, b->workspace_bytes);
    assert_int_equal(a->part_count, b->part_count);
    for (size_t i = 0; i < a->part_count; i++) {
        assert_int_equal(a->parts[i].images, b->parts[i].images);
        assert_same_cost(&a->parts[i].cost, &b->parts[i].cost);
    }
}

static void configurations_come_back_as_they_were_recorded(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_configuration_t found;
    mdnn_wr_request_t request = REQUEST;
    (void)state;

    assert_int_equal(mdnn_database_load_configuration(&database, &key, &request, 1 << 20, &found),
                     MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_database_store_configuration(&database, &key, &request, 1 << 20,
                                                       &configuration, MDNN_DATABASE_KEEP),
                     MDNN_STATUS_OK);
    request.part_overhead_ms = 0.02; /* measured, not chosen */
    assert_int_equal(mdnn_database_load_configuration(&database, &key, &request, 1 << 20, &found),
                     MDNN_STATUS_OK);
    assert_same_configuration(&found, &configuration);
    free(found.parts);
}

static void a_configuration_belongs_to_its_limit_and_options(void **state)
{
    const mdnn_database_key_t key = key_number(1), other = key_number(2);
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_configuration_t found;
    (void)state;
    assert_int_equal(mdnn_database_store_configuration(&database, &key, &REQUEST, 1 << 20,
                                                       &configuration, MDNN_DATABASE_KEEP),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_load_configuration(&database, &key, &REQUEST, 1 << 21, &found),
                     MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_database_load_configuration(&database, &other, &REQUEST, 1 << 20, &found),
                     MDNN_STATUS_NOT_FOUND);
    for (int i = 0; i < 7; i++) {
        mdnn_wr_request_t request = REQUEST;
        if (i == 0)
            request.sizes = MDNN_SIZES_UNDIVIDED;
        else if (i == 1)
            request.deterministic_only = true;
        else if (i == 2)
            request.direct_only = true;
        else if (i == 3)
            request.adoption_margin = 0.01;
        else if (i == 4)
            request.granularity = 2;
        else if (i == 5)
            request.strict_only = true;
        else
            request.workspace_limit_bytes = 1 << 30;
        assert_int_equal(
            mdnn_database_load_configuration(&database, &key, &request, 1 << 20, &found),
            MDNN_STATUS_NOT_FOUND);
    }
}

static void costs_and_the_choice_among_them_are_written_together(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_configuration_t found;
    mdnn_cost_memory_t memory = {0}, read = {0};
    (void)state;
    put_size(&memory, 32, MDNN_PART_FIRST);
    assert_int_equal(
        mdnn_database_store(&database, &key, &memory, &REQUEST, &configuration, MDNN_DATABASE_KEEP),
        MDNN_STATUS_OK);
    assert_false(memory.entries[0].is_new);
    assert_int_equal(mdnn_database_load_costs(&database, &key, &read), MDNN_STATUS_OK);
    assert_int_equal(read.count, 1);
    assert_entry_is_true(&read.entries[0]);
    assert_int_equal(mdnn_database_load_configuration(&database, &key, &REQUEST,
                                                      REQUEST.workspace_limit_bytes, &found),
                     MDNN_STATUS_OK);
    assert_same_configuration(&found, &configuration);
    free(found.parts);
    mdnn_cost_memory_fini(&memory);
    mdnn_cost_memory_fini(&read);
}

static void the_first_record_is_kept_unless_it_is_to_be_replaced(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_micro_config_t parts[4], whole[1] = {{12, cost_of(12, MDNN_PART_FIRST, 0)}};
    const mdnn_configuration_t split = four_four_three_one(parts);
    const mdnn_configuration_t undivided = configuration_of(whole, 1);
    static const mdnn_database_conflict_t HOW[] = {MDNN_DATABASE_KEEP, MDNN_DATABASE_KEEP,
                                                   MDNN_DATABASE_REPLACE};
    static const size_t EXPECTED[] = {4, 4, 1};
    (void)state;
    for (int i = 0; i < 3; i++) {
        mdnn_configuration_t found;
        assert_int_equal(mdnn_database_store_configuration(&database, &key, &REQUEST, 1 << 20,
                                                           i ? &undivided : &split, HOW[i]),
                         MDNN_STATUS_OK);
        assert_int_equal(
            mdnn_database_load_configuration(&database, &key, &REQUEST, 1 << 20, &found),
            MDNN_STATUS_OK);
        assert_int_equal(found.part_count, EXPECTED[i]);
        free(found.parts);
    }
}

static mdnn_status_t decode(const mdnn_configuration_t *configuration,
                            const mdnn_wr_request_t *request, uint64_t limit)
{
    mdnn_configuration_t found;
    unsigned char *bytes;
    size_t size;
    assert_int_equal(mdnn_parts_encode(configuration, &bytes, &size), MDNN_STATUS_OK);
    const mdnn_status_t status = mdnn_parts_decode(bytes, size, request, limit, &found);
    free(bytes);
    if (status == MDNN_STATUS_OK)
        free(found.parts);
    return status;
}

static void a_record_that_breaks_a_rule_of_the_request_is_no_configuration(void **state)
{
    mdnn_micro_config_t parts[4];
    mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_wr_request_t request = REQUEST;
    (void)state;
    assert_int_equal(decode(&configuration, &request, 1 << 20), MDNN_STATUS_OK);
    assert_int_equal(decode(&configuration, &request, configuration.workspace_bytes),
                     MDNN_STATUS_OK);
    assert_int_equal(decode(&configuration, &request, configuration.workspace_bytes - 1),
                     MDNN_STATUS_BAD_FORMAT);
    for (int i = 0; i < 6; i++) {
        configuration = four_four_three_one(parts);
        request = REQUEST;
        if (i == 0)
            request.batch = 13;
        else if (i == 1)
            request.batch = 11;
        else if (i == 2)
            request.granularity = 4; /* 3 images before the last part */
        else if (i == 3)
            request.sizes = MDNN_SIZES_POWER_OF_TWO;
        else if (i == 4)
            request.deterministic_only = true;
        else
            parts[1].cost.time_ms = -1;
        assert_int_equal(decode(&configuration, &request, 1 << 20), MDNN_STATUS_BAD_FORMAT);
    }
}

/* ---- import ---- */

static void the_import_is_asked_second_and_never_changed(void **state)
{
    static unsigned char before[1 << 20], after[1 << 20];
    const mdnn_database_key_t key = key_number(1);
    mdnn_database_t importing, imported = database;
    char path[128];
    size_t count;
    (void)state;
    assert_int_equal(store_sizes(&imported, &key, 32), MDNN_STATUS_OK);
    const size_t size = read_file(imported.path, before, sizeof before);

    path_in(path, sizeof path, "mine.db");
    assert_int_equal(mdnn_database_init(&importing, path, imported.path), MDNN_STATUS_OK);
    assert_int_equal(load_sizes(&importing, &key, &count), MDNN_STATUS_OK);
    assert_int_equal(count, 64);
    assert_int_equal(count_files("mine.db"), 0);

    mdnn_cost_memory_t memory = {0}, read = {0};
    mdnn_cost_t mine = cost_of(7, MDNN_PART_FIRST, 1);
    mine.time_ms = 1234;
    assert_int_equal(mdnn_cost_memory_put(&memory, 7, MDNN_PART_FIRST, &mine, 1, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_costs(&importing, &key, &memory), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_load_costs(&importing, &key, &read), MDNN_STATUS_OK);
    assert_int_equal(read.count, 64);
    assert_true(mdnn_cost_memory_find(&read, 7, MDNN_PART_FIRST)->costs[0].time_ms == 1234);
    mdnn_cost_memory_fini(&memory);
    mdnn_cost_memory_fini(&read);
    assert_int_equal(read_file(imported.path, after, sizeof after), size);
    assert_memory_equal(before, after, size);

    before[70] ^= 1; /* damaged, but not ours to move */
    write_file(imported.path, before, size);
    unlink(path);
    assert_int_equal(load_sizes(&importing, &key, &count), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(count_files("damaged"), 0);
}

/* ---- files that are not as they should be ---- */

static void assert_left_alone(mdnn_status_t expected)
{
    static unsigned char before[1 << 20], after[1 << 20];
    const mdnn_database_key_t key = key_number(1);
    size_t count;
    const size_t size = read_file(database.path, before, sizeof before);
    assert_int_equal(load_sizes(&database, &key, &count), expected);
    assert_int_equal(store_sizes(&database, &key, 8), expected);
    assert_int_equal(read_file(database.path, after, sizeof after), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(count_files("damaged"), 0);
}

static void a_newer_schema_is_neither_read_nor_written(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    (void)state;
    assert_int_equal(store_sizes(&database, &key, 8), MDNN_STATUS_OK);
    run_sql(database.path, "PRAGMA user_version=3");
    assert_left_alone(MDNN_STATUS_UNSUPPORTED);
}

static void a_file_of_schema_1_is_begun_anew_by_the_next_store(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_cost_memory_t memory = {0};
    (void)state;
    assert_int_equal(store_sizes(&database, &key, 8), MDNN_STATUS_OK);
    run_sql(database.path, "PRAGMA user_version=1");
    assert_int_equal(mdnn_database_load_costs(&database, &key, &memory), MDNN_STATUS_NOT_FOUND);
    const mdnn_database_key_t other = key_number(2);
    assert_int_equal(store_sizes(&database, &other, 8), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_load_costs(&database, &key, &memory), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_database_load_costs(&database, &other, &memory), MDNN_STATUS_OK);
    mdnn_cost_memory_fini(&memory);
}

static void a_file_of_somebody_else_is_left_alone(void **state)
{
    static const char letter[] =
        "Dear diary, today I pointed cache.file at you. "
        "It is long enough to be taken for a header, is it not? Yes it is.";
    (void)state;
    write_file(database.path, letter, sizeof letter);
    assert_left_alone(MDNN_STATUS_BAD_FORMAT);
    write_file(database.path, letter, 5);
    assert_left_alone(MDNN_STATUS_BAD_FORMAT);
    unlink(database.path);
    run_sql(database.path, "CREATE TABLE bookmarks(url TEXT); INSERT INTO bookmarks VALUES('x')");
    assert_left_alone(MDNN_STATUS_BAD_FORMAT);
    unlink(database.path);
    assert_int_equal(mkfifo(database.path, 0600), 0);
    size_t count;
    const mdnn_database_key_t key = key_number(1);
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_BAD_FORMAT);
}

static void a_damaged_file_is_set_aside_reported_and_begun_anew(void **state)
{
    static unsigned char zeros[8192];
    const mdnn_database_key_t key = key_number(1);
    char log[128], journal[1600], text[512] = "";
    size_t count;
    (void)state;
    path_in(log, sizeof log, "log");
    mdnn_log_configure(MDNN_LOG_WARN, log);
    write_file(database.path, zeros, sizeof zeros);
    snprintf(journal, sizeof journal, "%s-journal", database.path);
    write_file(journal, "x", 1);

    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_BAD_FORMAT);
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    assert_int_equal(count_files("costs.db.damaged-1"), 2); /* and its journal */
    assert_int_equal(count_files("costs.db-journal"), 0);
    read_file(log, (unsigned char *)text, sizeof text - 1);
    assert_non_null(strstr(text, "is damaged"));
    assert_non_null(strstr(text, "costs.db.damaged-1"));

    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_NOT_FOUND);
    write_file(database.path, zeros, sizeof zeros);
    assert_int_equal(store_sizes(&database, &key, 8), MDNN_STATUS_OK); /* at once */
    assert_int_equal(count_files("costs.db.damaged-2"), 1);
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_OK);
}

/* Whatever is read from a damaged file is true, and after at most three rounds of storing and
 * loading all is well, unless the damage makes it look like a newer version's file or nobody's. */
static void check_damaged(const mdnn_database_key_t *key)
{
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_configuration_t found;
    mdnn_status_t stored, loaded;
    size_t count;

    (void)load_sizes(&database, key, &count);
    if (mdnn_database_load_configuration(&database, key, &REQUEST, 1 << 20, &found) ==
        MDNN_STATUS_OK) {
        assert_same_configuration(&found, &configuration);
        free(found.parts);
    }
    int round = 0;
    do {
        stored = store_sizes(&database, key, 30);
        loaded = load_sizes(&database, key, &count);
    } while (++round < 3 && (stored != MDNN_STATUS_OK || loaded != MDNN_STATUS_OK));
    if (stored == MDNN_STATUS_OK)
        assert_int_equal(loaded, MDNN_STATUS_OK);
    else
        assert_true(stored == MDNN_STATUS_UNSUPPORTED || stored == MDNN_STATUS_BAD_FORMAT);
}

static size_t make_file_to_damage(unsigned char *bytes, size_t most)
{
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    for (int32_t i = 1; i <= 3; i++) {
        const mdnn_database_key_t key = key_number(i);
        assert_int_equal(store_sizes(&database, &key, 30), MDNN_STATUS_OK);
        assert_int_equal(mdnn_database_store_configuration(&database, &key, &REQUEST, 1 << 20,
                                                           &configuration, MDNN_DATABASE_KEEP),
                         MDNN_STATUS_OK);
    }
    return read_file(database.path, bytes, most);
}

static void remove_damaged(void)
{
    char path[1600];
    unlink(database.path);
    for (int n = 1; n <= 9; n++) {
        snprintf(path, sizeof path, "%s.damaged-%d", database.path, n);
        unlink(path);
    }
}

static void random_damage_never_gives_a_wrong_cost(void **state)
{
    static unsigned char sound[1 << 20], bytes[1 << 20];
    const mdnn_database_key_t key = key_number(2);
    const size_t size = make_file_to_damage(sound, sizeof sound);
    (void)state;
    assert_true(size > 8192);
    for (int round = 0; round < 300; round++) {
        size_t length = size;
        memcpy(bytes, sound, size);
        if (round % 3 == 0)
            length = random_below(size);
        else
            for (uint64_t flips = 1 + random_below(round % 3 == 1 ? 3 : 200); flips > 0; flips--)
                bytes[random_below(round % 2 ? size : 6000)] ^=
                    (unsigned char)(1u << random_below(8));
        remove_damaged();
        write_file(database.path, bytes, length);
        check_damaged(&key);
    }
}

/* What SQLite itself does not notice. */
static void a_row_that_was_changed_damages_our_file_and_is_left_out_of_an_import(void **state)
{
    static const char *const CHANGES[] = {
        "UPDATE microdnn_cost SET costs=zeroblob(28) WHERE images=10 AND role=0",
        "UPDATE microdnn_cost SET checksum=checksum+1 WHERE images=9 AND role=1",
        "UPDATE microdnn_cost SET images=21 WHERE images=8 AND role=0"};
    const mdnn_database_key_t key = key_number(1);
    mdnn_database_t importing;
    char path[128];
    size_t count;
    (void)state;
    path_in(path, sizeof path, "mine.db");
    for (size_t i = 0; i < 3; i++) {
        unlink(database.path);
        assert_int_equal(store_sizes(&database, &key, 20), MDNN_STATUS_OK);
        run_sql(database.path, CHANGES[i]);
        assert_int_equal(mdnn_database_init(&importing, path, database.path), MDNN_STATUS_OK);
        assert_int_equal(load_sizes(&importing, &key, &count), MDNN_STATUS_OK);
        assert_int_equal(count, 39);
        assert_int_equal(count_files("damaged"), i);
        load_sizes(&database, &key, &count);
        assert_true(count < 40);
        assert_int_equal(count_files("damaged"), i + 1);
    }
}

/* ---- many at once, and killed at any moment ---- */

static mdnn_status_t store_patiently(const mdnn_database_key_t *key, int64_t images)
{
    mdnn_cost_memory_t memory = {0};
    mdnn_status_t status = MDNN_STATUS_BUSY;
    put_size(&memory, images, MDNN_PART_FIRST);
    for (int attempt = 0; attempt < 200 && status == MDNN_STATUS_BUSY; attempt++)
        status = mdnn_database_store_costs(&database, key, &memory);
    mdnn_cost_memory_fini(&memory);
    return status;
}

static void eight_processes_store_at_once_and_nothing_is_lost(void **state)
{
    enum { PROCESSES = 8, STORES = 200 };
    pid_t children[PROCESSES];
    (void)state;
    for (int32_t i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            const mdnn_database_key_t key = key_number(i);
            for (int64_t images = 1; images <= (int64_t)few(STORES / 4, STORES); images++)
                if (store_patiently(&key, images) != MDNN_STATUS_OK)
                    _exit(1);
            _exit(0);
        }
    }
    for (int32_t i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    for (int32_t i = 0; i < PROCESSES; i++) {
        const mdnn_database_key_t key = key_number(i);
        size_t count;
        assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_OK);
        assert_int_equal(count, few(STORES / 4, STORES));
    }
    assert_int_equal(count_files("damaged"), 0);
}

/* Threads that wait for each other may find the time over; nothing else may go wrong. */
static void *store_from_thread(void *argument)
{
    const int32_t number = *(const int32_t *)argument;
    const mdnn_database_key_t key = key_number(number);
    intptr_t failures = 0;
    for (int64_t images = 1; images <= 40; images++) {
        size_t count;
        failures += store_patiently(&key, images) != MDNN_STATUS_OK;
        const mdnn_status_t status = load_sizes(&database, &key, &count);
        failures +=
            status != MDNN_STATUS_BUSY && (status != MDNN_STATUS_OK || (int64_t)count != images);
    }
    return (void *)failures;
}

static void threads_store_at_once_and_nothing_is_lost(void **state)
{
    pthread_t threads[4];
    static int32_t numbers[4] = {0, 1, 2, 3};
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, store_from_thread, &numbers[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_null(failures);
    }
}

static int take_text(void *context, int columns, char **values, char **names)
{
    (void)names;
    snprintf(context, 64, "%s", columns == 1 && values[0] ? values[0] : "");
    return 0;
}

static void assert_sound(const char *path)
{
    sqlite3 *handle;
    char verdict[64] = "";
    assert_int_equal(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, "PRAGMA integrity_check", take_text, verdict, NULL),
                     SQLITE_OK);
    sqlite3_close(handle);
    assert_string_equal(verdict, "ok");
}

static void a_process_killed_at_any_moment_leaves_a_sound_file(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    _Atomic int64_t *const stored =
        mmap(NULL, sizeof *stored, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_true(stored != MAP_FAILED);
    for (int round = 0; round < 100; round++) {
        if (round % 10 == 0) { /* also while the file is being made */
            unlink(database.path);
            *stored = 0;
        }
        const pid_t child = fork();
        if (child == 0) {
            for (int64_t images = *stored + 1;; images++)
                if (store_patiently(&key, images) == MDNN_STATUS_OK)
                    *stored = images;
        }
        nanosleep(&(struct timespec){0, (long)random_below(6000000)}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);

        size_t count = 0;
        const int64_t least = *stored;
        mdnn_database_t patient =
            database; /* a hot journal is played back first: slow on a busy disk */
        patient.budget_ms = 5000;
        const mdnn_status_t status = load_sizes(&patient, &key, &count);
        assert_true(status == MDNN_STATUS_OK || (status == MDNN_STATUS_NOT_FOUND && least == 0));
        assert_true((int64_t)count == least || (int64_t)count == least + 1);
        *stored = (int64_t)count;
        assert_int_equal(count_files("damaged"), 0);
        if (least > 0)
            assert_sound(database.path);
    }
    munmap((void *)stored, sizeof *stored);
}

/* ---- in nobody's way ---- */

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void a_locked_file_is_given_up_after_the_budget(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    int ready[2], done[2];
    char byte = 0;
    size_t count;
    (void)state;
    assert_int_equal(store_sizes(&database, &key, 8), MDNN_STATUS_OK);
    assert_int_equal(pipe(ready) | pipe(done), 0);
    const pid_t child = fork();
    if (child == 0) {
        sqlite3 *handle;
        close(done[1]);
        if (sqlite3_open(database.path, &handle) != SQLITE_OK ||
            sqlite3_exec(handle, "BEGIN EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK)
            _exit(1);
        (void)!write(ready[1], &byte, 1);
        (void)!read(done[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);

    const double begin = now_ms();
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_BUSY);
    const double middle = now_ms();
    assert_int_equal(store_sizes(&database, &key, 9), MDNN_STATUS_BUSY);
    const double end = now_ms();
    close(done[1]);
    waitpid(child, NULL, 0);
    close(done[0]), close(ready[0]), close(ready[1]);
    assert_true(middle - begin >= 45 && end - middle >= 45);
    assert_true(middle - begin < 150 && end - middle < 150); /* the machine may be busy too */
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_OK);
    assert_int_equal(count, 16);
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *const listing = opendir("/proc/self/fd");
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

static void ignore_row(void *context, const mdnn_database_row_t *row)
{
    (void)context, (void)row;
}

static void no_descriptor_is_left_open(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_configuration_t found;
    static unsigned char zeros[8192];
    char other[128];
    int64_t added;
    size_t count;
    (void)state;
    path_in(other, sizeof other, "other.db");
    const int before = open_descriptors();
    for (int i = 0; i < 3; i++) {
        store_sizes(&database, &key, 8);
        load_sizes(&database, &key, &count);
        mdnn_database_store_configuration(&database, &key, &REQUEST, 1 << 20, &configuration,
                                          MDNN_DATABASE_REPLACE);
        if (mdnn_database_load_configuration(&database, &key, &REQUEST, 1 << 20, &found) ==
            MDNN_STATUS_OK)
            free(found.parts);
        mdnn_database_list(database.path, 50, ignore_row, NULL);
        mdnn_database_merge(other, database.path, 50, &added);
        mdnn_database_clear(other, 50);
        assert_int_equal(open_descriptors(), before);
        write_file(database.path, zeros, i ? 50 : sizeof zeros);
        load_sizes(&database, &key, &count);
        assert_int_equal(open_descriptors(), before);
    }
}

static void errno_of_the_caller_is_kept(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    size_t count;
    (void)state;
    errno = 4711;
    load_sizes(&database, &key, &count);
    assert_int_equal(errno, 4711);
}

static void a_directory_that_cannot_be_written_is_an_error_and_no_more(void **state)
{
    static const char *const PATHS[] = {"/proc/self/costs.db", "/nonexistent/directory/costs.db",
                                        "/dev/null/costs.db"};
    const mdnn_database_key_t key = key_number(1);
    (void)state;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        mdnn_database_t nowhere;
        size_t count;
        assert_int_equal(mdnn_database_init(&nowhere, PATHS[i], NULL), MDNN_STATUS_OK);
        assert_int_equal(store_sizes(&nowhere, &key, 8), MDNN_STATUS_IO);
        assert_int_not_equal(load_sizes(&nowhere, &key, &count), MDNN_STATUS_OK);
    }
}

/* A file size limit stands in for a full disk; its signal would end the process. */
static void a_full_disk_is_an_error_and_the_file_stays_sound(void **state)
{
    const mdnn_database_key_t key = key_number(1), other = key_number(2);
    struct stat before;
    size_t count;
    int status;
    (void)state;
    assert_int_equal(store_sizes(&database, &key, 30), MDNN_STATUS_OK);
    assert_int_equal(stat(database.path, &before), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {(rlim_t)before.st_size + 4096, (rlim_t)before.st_size + 4096};
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        const mdnn_status_t stored = store_sizes(&database, &other, 300);
        _exit(stored == MDNN_STATUS_IO && load_sizes(&database, &key, &count) == MDNN_STATUS_OK
                  ? 0
                  : 100 + (int)stored);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_sound(database.path);
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_OK);
    assert_int_equal(count, 60);
    assert_int_equal(load_sizes(&database, &other, &count), MDNN_STATUS_NOT_FOUND);
}

static void without_a_file_nothing_is_kept_and_nothing_fails(void **state)
{
    const mdnn_database_key_t key = key_number(1);
    mdnn_database_t none;
    size_t count;
    (void)state;
    assert_int_equal(mdnn_database_init(&none, "", ""), MDNN_STATUS_OK);
    assert_int_equal(store_sizes(&none, &key, 8), MDNN_STATUS_OK);
    assert_int_equal(load_sizes(&none, &key, &count), MDNN_STATUS_NOT_FOUND);
}

static void on_a_network_file_system_each_host_has_its_file(void **state)
{
    static const unsigned long NETWORK[] = {0x6969, 0xff534d42, 0xfe534d42, 0x0bd00bd0, 0x65735546};
    char host[256] = "", path[128], expected[512];
    mdnn_database_t remote;
    (void)state;
    gethostname(host, sizeof host - 1);
    path_in(path, sizeof path, "costs.db");
    snprintf(expected, sizeof expected, "%s.%s", path, host);
    for (size_t i = 0; i < sizeof NETWORK / sizeof *NETWORK; i++) {
        pretended_file_system = NETWORK[i];
        const mdnn_status_t status = mdnn_database_init(&remote, path, path);
        pretended_file_system = 0;
        assert_int_equal(status, MDNN_STATUS_OK);
        assert_string_equal(remote.path, expected);
        assert_string_equal(remote.import_path, path);
    }
    assert_int_equal(mdnn_database_init(&remote, path, NULL), MDNN_STATUS_OK);
    assert_string_equal(remote.path, path);
}

/* ---- the tool's side ---- */

typedef struct listing {
    int problems;
    int64_t sizes, configurations;
} listing_t;

static void add_row(void *context, const mdnn_database_row_t *row)
{
    listing_t *const listing = context;
    assert_non_null(strstr(row->title, "NVIDIA Test, cuDNN 91900: forward 256x64x27x27 * "));
    assert_memory_equal(row->problem, "forward 256x64x27x27 * ", 23);
    assert_string_equal(row->environment.device_model, "NVIDIA Test");
    assert_string_equal(row->environment.driver, "580.1");
    assert_int_equal(row->environment.cuda_version, 13000);
    assert_int_equal(row->environment.cudnn_version, 91900);
    assert_null(row->environment.tf32_override);
    listing->problems++;
    listing->sizes += row->sizes;
    listing->configurations += row->configurations;
}

static void assert_listing(const char *path, int problems, int64_t sizes, int64_t configurations)
{
    listing_t listing = {0};
    assert_int_equal(mdnn_database_list(path, 1000, add_row, &listing), MDNN_STATUS_OK);
    assert_int_equal(listing.problems, problems);
    assert_int_equal(listing.sizes, sizes);
    assert_int_equal(listing.configurations, configurations);
}

static void files_are_listed_merged_and_cleared(void **state)
{
    const mdnn_database_key_t one = key_number(1), two = key_number(2);
    mdnn_micro_config_t parts[4];
    const mdnn_configuration_t configuration = four_four_three_one(parts);
    mdnn_database_t other = database;
    int64_t added = -1;
    size_t count;
    (void)state;
    path_in(other.path, sizeof other.path, "other.db");
    assert_int_equal(mdnn_database_clear(database.path, 1000), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(store_sizes(&database, &one, 5), MDNN_STATUS_OK);
    assert_int_equal(store_sizes(&other, &one, 7), MDNN_STATUS_OK);
    assert_int_equal(store_sizes(&other, &two, 3), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_store_configuration(&other, &two, &REQUEST, 1 << 20,
                                                       &configuration, MDNN_DATABASE_KEEP),
                     MDNN_STATUS_OK);
    assert_listing(other.path, 2, 20, 1);

    assert_int_equal(mdnn_database_merge(database.path, other.path, 1000, &added), MDNN_STATUS_OK);
    assert_int_equal(added, 4 + 6 + 1);
    assert_listing(database.path, 2, 20, 1);
    assert_int_equal(load_sizes(&database, &two, &count), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_merge(database.path, other.path, 1000, &added), MDNN_STATUS_OK);
    assert_int_equal(added, 0);
    assert_int_equal(mdnn_database_merge(database.path, database.path, 1000, &added),
                     MDNN_STATUS_INVALID_ARGUMENT);

    assert_int_equal(mdnn_database_clear(database.path, 1000), MDNN_STATUS_OK);
    assert_listing(database.path, 0, 0, 0);
    assert_listing(other.path, 2, 20, 1);
}

/* Page 3 and later hold rows: the header is sound, reading them is not possible. */
static void a_damaged_source_of_a_merge_hurts_nobody(void **state)
{
    static unsigned char bytes[1 << 20];
    const mdnn_database_key_t key = key_number(1);
    mdnn_database_t other = database;
    int64_t added;
    size_t count;
    (void)state;
    path_in(other.path, sizeof other.path, "other.db");
    assert_int_equal(store_sizes(&other, &key, 100), MDNN_STATUS_OK);
    const size_t size = read_file(other.path, bytes, sizeof bytes);
    for (size_t page = 2; page < size / 4096; page++)
        memset(bytes + page * 4096, 0xff, 64);
    write_file(other.path, bytes, size);
    assert_int_equal(store_sizes(&database, &key, 5), MDNN_STATUS_OK);
    assert_int_equal(mdnn_database_merge(database.path, other.path, 1000, &added),
                     MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(count_files("damaged"), 0);
    assert_int_equal(load_sizes(&database, &key, &count), MDNN_STATUS_OK);
    assert_int_equal(count, 10);
}

static int silence_log(void **state)
{
    (void)state;
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(costs_come_back_as_they_were_stored),
        TEST(newer_costs_replace_older_ones),
        TEST(what_was_left_to_a_search_is_neither_timed_nor_just_untimed),
        TEST(what_another_process_measured_is_not_left_again),
        TEST(a_size_that_another_process_knows_whole_leaves_nothing),
        TEST(everything_but_the_ordinal_of_the_device_is_in_the_key),
        TEST(the_longest_problem_fits_a_key_and_a_longer_name_does_not),
        TEST(second_run_measures_nothing_and_chooses_alike),
        TEST(a_failed_measurement_is_not_remembered),
        TEST(a_table_is_a_source),
        TEST(configurations_come_back_as_they_were_recorded),
        TEST(a_configuration_belongs_to_its_limit_and_options),
        TEST(costs_and_the_choice_among_them_are_written_together),
        TEST(the_first_record_is_kept_unless_it_is_to_be_replaced),
        TEST(a_record_that_breaks_a_rule_of_the_request_is_no_configuration),
        TEST(the_import_is_asked_second_and_never_changed),
        TEST(a_newer_schema_is_neither_read_nor_written),
        TEST(a_file_of_schema_1_is_begun_anew_by_the_next_store),
        TEST(a_file_of_somebody_else_is_left_alone),
        TEST(a_damaged_file_is_set_aside_reported_and_begun_anew),
        TEST(random_damage_never_gives_a_wrong_cost),
        TEST(a_row_that_was_changed_damages_our_file_and_is_left_out_of_an_import),
        TEST(eight_processes_store_at_once_and_nothing_is_lost),
        TEST(threads_store_at_once_and_nothing_is_lost),
        TEST(a_process_killed_at_any_moment_leaves_a_sound_file),
        TEST(a_locked_file_is_given_up_after_the_budget),
        TEST(no_descriptor_is_left_open),
        TEST(errno_of_the_caller_is_kept),
        TEST(a_directory_that_cannot_be_written_is_an_error_and_no_more),
        TEST(a_full_disk_is_an_error_and_the_file_stays_sound),
        TEST(without_a_file_nothing_is_kept_and_nothing_fails),
        TEST(on_a_network_file_system_each_host_has_its_file),
        TEST(files_are_listed_merged_and_cleared),
        TEST(a_damaged_source_of_a_merge_hurts_nobody),
    };
    return cmocka_run_group_tests(tests, silence_log, NULL);
}
