#include "optimizer/database_rows.h"

#include <endian.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "optimizer/database_file.h"

/* Over what the row says and what it is about, so that a row under the wrong problem fails too. */
static int64_t checksum_of(const char *key, const mdnn_database_blob_t *blob)
{
    const XXH64_hash_t about = XXH3_64bits(key, strlen(key));
    const uint64_t place[2] = {htole64((uint64_t)blob->images), htole64((uint64_t)blob->role)};
    const XXH64_hash_t where =
        blob->is_configuration ? XXH3_64bits_withSeed(blob->request, strlen(blob->request), about)
                               : XXH3_64bits_withSeed(place, sizeof place, about);
    return (int64_t)XXH3_64bits_withSeed(blob->bytes, blob->size, where);
}

static mdnn_status_t prepare(sqlite3 *handle, const char *sql, sqlite3_stmt **statement)
{
    return mdnn_status_of_sqlite(sqlite3_prepare_v2(handle, sql, -1, statement, NULL));
}

/* Parameters are ours and small; the only failure is memory. */
static bool bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    return sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC) == SQLITE_OK;
}

mdnn_status_t mdnn_problem_row_find(sqlite3 *handle, const char *key, int64_t *problem)
{
    sqlite3_stmt *statement = NULL;
    MDNN_TRY(prepare(handle, "SELECT id FROM microdnn_problem WHERE key=?1", &statement));
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (bind_text(statement, 1, key)) {
        const int code = sqlite3_step(statement);
        status = code == SQLITE_DONE ? MDNN_STATUS_NOT_FOUND : mdnn_status_of_sqlite(code);
        if (code == SQLITE_ROW)
            *problem = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return status;
}

mdnn_status_t mdnn_problem_row_make(sqlite3 *handle, const char *key, const char *title,
                                    int64_t *problem)
{
    mdnn_status_t status = mdnn_problem_row_find(handle, key, problem);
    if (status != MDNN_STATUS_NOT_FOUND)
        return status;

    sqlite3_stmt *statement = NULL;
    MDNN_TRY(
        prepare(handle, "INSERT INTO microdnn_problem(key, title) VALUES(?1, ?2)", &statement));
    status = MDNN_STATUS_OUT_OF_MEMORY;
    if (bind_text(statement, 1, key) && bind_text(statement, 2, title))
        status = mdnn_status_of_sqlite(sqlite3_step(statement));
    if (status == MDNN_STATUS_OK)
        *problem = sqlite3_last_insert_rowid(handle);
    sqlite3_finalize(statement);
    return status;
}

/* Columns: images and role, or request and NULL; then the blob and its checksum. */
static mdnn_status_t take_row(sqlite3_stmt *statement, const mdnn_blob_query_t *query,
                              mdnn_status_t (*take)(void *, const mdnn_database_blob_t *),
                              void *context)
{
    mdnn_database_blob_t blob = {.is_configuration = query->configurations};
    if (query->configurations)
        blob.request = (const char *)sqlite3_column_text(statement, 0);
    else
        blob.images = sqlite3_column_int64(statement, 0);
    blob.role = sqlite3_column_int64(statement, 1);
    blob.bytes = sqlite3_column_blob(statement, 2);
    blob.size = (size_t)sqlite3_column_bytes(statement, 2);
    if (blob.bytes == NULL)
        blob.bytes = "";
    if ((!query->configurations || blob.request != NULL) &&
        sqlite3_column_int64(statement, 3) == checksum_of(query->key, &blob))
        return take(context, &blob);
    return query->salvage ? MDNN_STATUS_OK : MDNN_STATUS_BAD_FORMAT;
}

static bool bind_query(sqlite3_stmt *statement, const mdnn_blob_query_t *query)
{
    return sqlite3_bind_int64(statement, 1, query->problem) == SQLITE_OK &&
           (!query->request || bind_text(statement, 2, query->request));
}

mdnn_status_t mdnn_blobs_read(sqlite3 *handle, const mdnn_blob_query_t *query,
                              mdnn_status_t (*take)(void *context,
                                                    const mdnn_database_blob_t *blob),
                              void *context)
{
    sqlite3_stmt *statement = NULL;
    MDNN_TRY(prepare(handle,
                     query->configurations
                         ? "SELECT request, NULL, parts, checksum FROM microdnn_configuration"
                           " WHERE problem=?1 AND (?2 IS NULL OR request=?2)"
                         : "SELECT images, role, costs, checksum FROM microdnn_cost"
                           " WHERE problem=?1 ORDER BY images DESC, role",
                     &statement));
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (bind_query(statement, query)) {
        int code = SQLITE_DONE;
        status = MDNN_STATUS_OK;
        while (status == MDNN_STATUS_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
            status = take_row(statement, query, take, context);
        if (status == MDNN_STATUS_OK)
            status = mdnn_status_of_sqlite(code);
    }
    sqlite3_finalize(statement);
    return status;
}

static const char *insert_sql(bool configuration, mdnn_database_conflict_t conflict)
{
    static const char *const SQL[2][2] = {
        {"INSERT OR IGNORE INTO microdnn_cost(problem, images, role, costs, checksum)"
         " VALUES(?1, ?2, ?3, ?4, ?5)",
         "INSERT OR REPLACE INTO microdnn_cost(problem, images, role, costs, checksum)"
         " VALUES(?1, ?2, ?3, ?4, ?5)"},
        {"INSERT OR IGNORE INTO microdnn_configuration(problem, request, parts, checksum)"
         " VALUES(?1, ?2, ?4, ?5)",
         "INSERT OR REPLACE INTO microdnn_configuration(problem, request, parts, checksum)"
         " VALUES(?1, ?2, ?4, ?5)"}};
    return SQL[configuration][conflict == MDNN_DATABASE_REPLACE];
}

mdnn_status_t mdnn_blob_write(sqlite3 *handle, const char *key, int64_t problem,
                              const mdnn_database_blob_t *blob, mdnn_database_conflict_t conflict,
                              int *written)
{
    sqlite3_stmt *statement = NULL;
    MDNN_TRY(prepare(handle, insert_sql(blob->is_configuration, conflict), &statement));
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    const bool bound =
        sqlite3_bind_int64(statement, 1, problem) == SQLITE_OK &&
        (blob->is_configuration ? bind_text(statement, 2, blob->request)
                                : sqlite3_bind_int64(statement, 2, blob->images) == SQLITE_OK &&
                                      sqlite3_bind_int64(statement, 3, blob->role) == SQLITE_OK) &&
        sqlite3_bind_blob64(statement, 4, blob->bytes, blob->size, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 5, checksum_of(key, blob)) == SQLITE_OK;
    if (bound)
        status = mdnn_status_of_sqlite(sqlite3_step(statement));
    if (status == MDNN_STATUS_OK)
        *written = sqlite3_changes(handle);
    sqlite3_finalize(statement);
    return status;
}
