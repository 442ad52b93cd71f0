/* libFuzzer: any bytes as a database file, through the whole of a visit. Build and run with
 * `make fuzz-database_file`; fuzz_database does the same without a file, much faster. The first
 * byte chooses. 0: the rest is the whole file. Else it is laid over a good file (two bytes say
 * where, in steps of 8). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/log.h"
#include "optimizer/database.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

static const mdnn_wr_request_t REQUEST = {
    .batch = 16, .sizes = MDNN_SIZES_ALL, .granularity = 2, .workspace_limit_bytes = UINT64_MAX};
static const mdnn_cost_t COST = {
    .algo = 1, .workspace_bytes = 64, .time_ms = 1, .deterministic = true};

static char directory[] = "/dev/shm/mdnn-fuzz.XXXXXX"; /* memory: a disk would be the bottleneck */
static mdnn_database_t database;
static mdnn_database_key_t key;
static unsigned char good[1 << 16];
static size_t good_bytes;

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *const file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        abort();
}

static void remove_files(void)
{
    char path[MDNN_DATABASE_PATH_BYTES + 32];
    unlink(database.path);
    for (int n = 1; n <= 3; n++) {
        snprintf(path, sizeof path, "%s.damaged-%d", database.path, n);
        unlink(path);
        snprintf(path, sizeof path, "%s.damaged-%d-journal", database.path, n);
        unlink(path);
    }
}

static void remove_directory(void)
{
    remove_files();
    rmdir(directory);
}

static void store(void)
{
    mdnn_cost_memory_t memory = {0};
    mdnn_micro_config_t parts[2] = {{8, COST}, {8, COST}};
    const mdnn_configuration_t configuration = {2, 64, 2, parts};
    for (int64_t images = 16; images > 0; images--)
        if (mdnn_cost_memory_put(&memory, images, MDNN_PART_FIRST, &COST, 1, true) !=
            MDNN_STATUS_OK)
            abort();
    (void)mdnn_database_store_costs(&database, &key, &memory);
    (void)mdnn_database_store_configuration(&database, &key, &REQUEST, 64, &configuration,
                                            MDNN_DATABASE_KEEP);
    mdnn_cost_memory_fini(&memory);
}

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    static const mdnn_database_environment_t environment = {"GPU", "1", 1, 1, NULL};
    char path[64];
    mdnn_problem_t problem;
    (void)argument_count, (void)arguments;
    memset(&problem, 0, sizeof problem);
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    if (!mkdtemp(directory))
        abort();
    atexit(remove_directory);
    snprintf(path, sizeof path, "%s/costs.db", directory);
    if (mdnn_database_init(&database, path, NULL) != MDNN_STATUS_OK ||
        mdnn_database_key(&problem, &environment, &key) != MDNN_STATUS_OK)
        abort();
    store();
    FILE *const file = fopen(database.path, "rb");
    if (!file)
        abort();
    good_bytes = fread(good, 1, sizeof good, file);
    fclose(file);
    return 0;
}

static void check_configuration(mdnn_configuration_t *configuration)
{
    int64_t images = 0;
    for (size_t i = 0; i < configuration->part_count; i++)
        images += configuration->parts[i].images;
    if (images != REQUEST.batch || configuration->workspace_bytes > 64)
        abort();
    free(configuration->parts);
}

static void show(void *context, const mdnn_database_row_t *row)
{
    *(size_t *)context += strlen(row->title);
}

static void visit_file(const void *bytes, size_t count)
{
    mdnn_configuration_t configuration;
    mdnn_cost_memory_t memory = {0};
    size_t total = 0;

    remove_files();
    write_file(database.path, bytes, count);
    (void)mdnn_database_list(database.path, MDNN_DATABASE_BUDGET_MS, show, &total);
    (void)mdnn_database_load_costs(&database, &key, &memory);
    for (size_t i = 0; i < memory.count; i++)
        for (size_t k = 0; k < memory.entries[i].count; k++)
            if (!(memory.entries[i].costs[k].time_ms > 0))
                abort();
    mdnn_cost_memory_fini(&memory);
    if (mdnn_database_load_configuration(&database, &key, &REQUEST, 64, &configuration) ==
        MDNN_STATUS_OK)
        check_configuration(&configuration);
    store();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char changed[sizeof good];
    if (bytes < 1)
        return 0;
    if (data[0] == 0) {
        visit_file(data + 1, bytes - 1);
    } else if (bytes > 3) {
        const size_t at = ((size_t)data[1] << 8 | data[2]) * 8 % good_bytes;
        const size_t room = good_bytes - at;
        memcpy(changed, good, good_bytes);
        memcpy(changed + at, data + 3, bytes - 3 < room ? bytes - 3 : room);
        visit_file(changed, good_bytes);
    }
    return 0;
}
