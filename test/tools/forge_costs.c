/* Rewrites a database of costs as somebody who means harm would, with right checksums.
 *
 *   forge_costs FILE flags|workspace
 *       flags: every candidate is said to be deterministic, direct and strict, and the slowest the
 *   fastest. workspace: every candidate is said to need none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/database_codec.h"
#include "optimizer/database_file.h"
#include "optimizer/database_rows.h"

enum { BUDGET_MS = 10000, ROWS_MOST = 4096 };

typedef struct row {
    int64_t images, role;
    unsigned char bytes[MDNN_COSTS_BYTES];
    size_t size;
} row_t;

static row_t *rows;
static size_t row_count;
static bool forge_flags;

static mdnn_status_t take(void *context, const mdnn_database_blob_t *blob)
{
    mdnn_cost_t costs[MDNN_COSTS_PER_SIZE];
    row_t *const row = &rows[row_count++];
    size_t count;
    (void)context;
    if (row_count == ROWS_MOST ||
        mdnn_costs_decode(blob->bytes, blob->size, costs, &count) != MDNN_STATUS_OK)
        abort();
    for (size_t i = 0; i < count; i++) {
        if (forge_flags)
            costs[i].deterministic = costs[i].direct = costs[i].strict = true;
        else if (!costs[i].untimed)
            costs[i].workspace_bytes = 0;
        if (forge_flags && !costs[i].untimed)
            costs[i].time_ms = 1 / costs[i].time_ms;
    }
    *row = (row_t){.images = blob->images, .role = blob->role, .size = blob->size};
    mdnn_costs_encode(costs, count, row->bytes);
    return MDNN_STATUS_OK;
}

static mdnn_status_t forge_problem(sqlite3 *handle, int64_t id, const char *key)
{
    int written;
    row_count = 0;
    MDNN_TRY(mdnn_blobs_read(handle, &(mdnn_blob_query_t){.key = key, .problem = id}, take, NULL));
    for (size_t i = 0; i < row_count; i++) {
        const mdnn_database_blob_t blob = {.images = rows[i].images,
                                           .role = rows[i].role,
                                           .bytes = rows[i].bytes,
                                           .size = rows[i].size};
        MDNN_TRY(mdnn_blob_write(handle, key, id, &blob, MDNN_DATABASE_REPLACE, &written));
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t forge(void *context, sqlite3 *handle)
{
    sqlite3_stmt *statement;
    mdnn_status_t status = MDNN_STATUS_OK;
    (void)context;
    if (sqlite3_prepare_v2(handle, "SELECT id, key FROM microdnn_problem", -1, &statement, NULL) !=
        SQLITE_OK)
        return MDNN_STATUS_BAD_FORMAT;
    while (status == MDNN_STATUS_OK && sqlite3_step(statement) == SQLITE_ROW)
        status = forge_problem(handle, sqlite3_column_int64(statement, 0),
                               (const char *)sqlite3_column_text(statement, 1));
    sqlite3_finalize(statement);
    return status;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    forge_flags = strcmp(arguments[2], "flags") == 0;
    rows = calloc(ROWS_MOST, sizeof *rows);
    const mdnn_status_t status =
        rows ? mdnn_database_visit(arguments[1], MDNN_VISIT_WRITE, BUDGET_MS, forge, NULL)
             : MDNN_STATUS_OUT_OF_MEMORY;
    if (status != MDNN_STATUS_OK)
        fprintf(stderr, "forge_costs: %s\n", mdnn_status_string(status));
    free(rows);
    return status != MDNN_STATUS_OK;
}
