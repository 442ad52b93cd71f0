/* libFuzzer: any bytes as a database, or as a row of one, in memory. Build and run with
 * `make fuzz-database`. The first byte chooses. 0: the rest is the whole database. Else even: it is
 * laid over a good one (two bytes say where, in steps of 8). Odd: it is a row's content, which goes
 * deeper, since a changed row fails its checksum. What a visit does with files is for
 * fuzz_database_file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/log.h"
#include "optimizer/database.h"
#include "optimizer/database_codec.h"
#include "optimizer/database_file.h"
#include "optimizer/database_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

static const mdnn_wr_request_t REQUEST = {
    .batch = 16, .sizes = MDNN_SIZES_ALL, .granularity = 2, .workspace_limit_bytes = UINT64_MAX};
static const mdnn_cost_t COST = {
    .algo = 1, .workspace_bytes = 64, .time_ms = 1, .deterministic = true};

static mdnn_database_key_t key;
static unsigned char good[1 << 16];
static size_t good_bytes;
static sqlite3 *handle;
static unsigned steps; /* of SQLite, in this execution */

static mdnn_status_t keep_content(void *context, sqlite3 *database)
{
    (void)context;
    sqlite3_int64 bytes = 0;
    unsigned char *const content = sqlite3_serialize(database, "main", &bytes, 0);
    if (!content || (size_t)bytes > sizeof good)
        abort();
    memcpy(good, content, (size_t)bytes);
    good_bytes = (size_t)bytes;
    sqlite3_free(content);
    return MDNN_STATUS_OK;
}

/* The good database is one that the library wrote. */
static void make_good(void)
{
    char path[] = "/tmp/mdnn-fuzz.XXXXXX";
    mdnn_cost_memory_t memory = {0};
    mdnn_micro_config_t parts[2] = {{8, COST}, {8, COST}};
    const mdnn_configuration_t configuration = {2, 64, 2, parts};
    mdnn_database_t database;
    const int descriptor = mkstemp(path);
    if (descriptor < 0 || close(descriptor) != 0 ||
        mdnn_database_init(&database, path, NULL) != MDNN_STATUS_OK)
        abort();
    database.budget_ms = 10000;
    for (int64_t images = 16; images > 0; images--)
        if (mdnn_cost_memory_put(&memory, images, MDNN_PART_FIRST, &COST, 1, true) !=
            MDNN_STATUS_OK)
            abort();
    if (mdnn_database_store_costs(&database, &key, &memory) != MDNN_STATUS_OK ||
        mdnn_database_store_configuration(&database, &key, &REQUEST, 64, &configuration,
                                          MDNN_DATABASE_KEEP) != MDNN_STATUS_OK ||
        mdnn_database_visit(path, MDNN_VISIT_READ, 10000, keep_content, NULL) != MDNN_STATUS_OK)
        abort();
    mdnn_cost_memory_fini(&memory);
    unlink(path);
}

/* In the place of the clock: a damaged tree may have a circle. */
static int count_steps(void *context)
{
    (void)context;
    return ++steps > 100;
}

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    static const mdnn_database_environment_t environment = {"GPU", "1", 1, 1, NULL};
    mdnn_problem_t problem;
    (void)argument_count, (void)arguments;
    memset(&problem, 0, sizeof problem);
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    if (mdnn_database_key(&problem, &environment, &key) != MDNN_STATUS_OK)
        abort();
    make_good();
    if (sqlite3_open(":memory:", &handle) != SQLITE_OK)
        abort();
    /* As a visit sets them. */
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 1 << 26);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_exec(handle, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON", NULL, NULL, NULL);
    sqlite3_progress_handler(handle, 1000, count_steps, NULL);
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

static void decode_row(const void *data, size_t bytes)
{
    mdnn_cost_t costs[MDNN_COSTS_PER_SIZE];
    mdnn_configuration_t configuration;
    size_t count;
    /* An exact heap copy lets the sanitizer see one byte too far. */
    unsigned char *const copy = malloc(bytes ? bytes : 1);
    memcpy(copy, data, bytes);
    if (mdnn_costs_decode(copy, bytes, costs, &count) == MDNN_STATUS_OK &&
        count != bytes / MDNN_COST_BYTES)
        abort();
    if (mdnn_parts_decode(copy, bytes, &REQUEST, 64, &configuration) == MDNN_STATUS_OK)
        check_configuration(&configuration);
    free(copy);
}

static mdnn_status_t take_row(void *context, const mdnn_database_blob_t *blob)
{
    (void)context;
    decode_row(blob->bytes, blob->size);
    return MDNN_STATUS_OK;
}

static void use_rows(void)
{
    mdnn_blob_query_t query = {.key = key.text};
    unsigned char bytes[MDNN_COST_BYTES];
    const mdnn_database_blob_t blob = {.images = 5, .bytes = bytes, .size = sizeof bytes};
    int written;
    mdnn_costs_encode(&COST, 1, bytes);
    for (int salvage = 0; salvage < 2; salvage++) {
        query.salvage = salvage;
        if (mdnn_problem_row_find(handle, key.text, &query.problem) != MDNN_STATUS_OK)
            continue;
        query.configurations = false;
        (void)mdnn_blobs_read(handle, &query, take_row, NULL);
        query.configurations = true;
        (void)mdnn_blobs_read(handle, &query, take_row, NULL);
    }
    if (mdnn_problem_row_make(handle, key.text, key.title, &query.problem) == MDNN_STATUS_OK)
        (void)mdnn_blob_write(handle, key.text, query.problem, &blob, MDNN_DATABASE_REPLACE,
                              &written);
}

static void read_database(const void *content, size_t bytes)
{
    unsigned char *const copy = sqlite3_malloc64(bytes + 1);
    if (!copy)
        abort();
    memcpy(copy, content, bytes);
    steps = 0;
    if (sqlite3_deserialize(handle, "main", copy, (sqlite3_int64)bytes, (sqlite3_int64)bytes,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) ==
        SQLITE_OK)
        use_rows();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char changed[sizeof good];
    if (bytes < 1)
        return 0;
    if (data[0] % 2) {
        decode_row(data + 1, bytes - 1);
    } else if (data[0] == 0) {
        read_database(data + 1, bytes - 1);
    } else if (bytes > 3) {
        const size_t at = ((size_t)data[1] << 8 | data[2]) * 8 % good_bytes;
        const size_t room = good_bytes - at;
        memcpy(changed, good, good_bytes);
        memcpy(changed + at, data + 3, bytes - 3 < room ? bytes - 3 : room);
        read_database(changed, good_bytes);
    }
    return 0;
}
