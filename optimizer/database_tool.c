/* What `microdnn cache` asks of the database. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "optimizer/database_file.h"
#include "optimizer/database_rows.h"

typedef struct list_visit {
    void (*show)(void *context, const mdnn_database_row_t *row);
    void *context;
} list_visit_t;

/* Takes what add_name of database.c wrote under `label` at *text: cuts it off there and moves *text
 * behind it. *name may become NULL, as there. false if there is no such thing. */
static bool take_name(char **text, const char *label, const char **name)
{
    const size_t label_bytes = strlen(label);
    char *at = *text + label_bytes, *end = at;
    if (strncmp(*text, label, label_bytes) != 0)
        return false;
    const bool none = strncmp(at, "none", 4) == 0;
    const unsigned long length = none ? 4 : strtoul(at, &end, 10);
    if (!none && *end++ != ':')
        return false;
    if (length > strlen(end))
        return false;
    *name = none ? NULL : end;
    *text = end + length + (end[length] != '\0');
    end[length] = '\0';
    return true;
}

/* What mdnn_database_key wrote, into `environment`, whose texts lie in `key`. */
static void read_key(char *key, mdnn_database_environment_t *environment)
{
    mdnn_database_environment_t found = {0};
    int used = 0;
    *environment = found;
    if (sscanf(key, "microdnn %*d %n", &used) < 0 || used == 0)
        return;
    char *at = key + used;
    if (!take_name(&at, "device=", &found.device_model) ||
        !take_name(&at, "driver=", &found.driver))
        return;
    used = 0;
    if (sscanf(at, "cuda=%" SCNd64 " cudnn=%" SCNd64 " %n", &found.cuda_version,
               &found.cudnn_version, &used) != 2 ||
        used == 0)
        return;
    at += used;
    if (take_name(&at, "tf32=", &found.tf32_override))
        *environment = found;
}

static const char *problem_of(const char *title, const mdnn_database_environment_t *environment)
{
    char before[MDNN_DATABASE_TITLE_BYTES];
    if (!environment->device_model)
        return title;
    const int length = snprintf(before, sizeof before, "%s, cuDNN %" PRId64 ": ",
                                environment->device_model, environment->cudnn_version);
    if (length < 0 || (size_t)length >= sizeof before ||
        strncmp(title, before, (size_t)length) != 0)
        return title;
    return title + length;
}

static mdnn_status_t list_problems(void *context, sqlite3 *handle)
{
    const list_visit_t *const visit = context;
    sqlite3_stmt *statement = NULL;
    MDNN_TRY(mdnn_status_of_sqlite(
        sqlite3_prepare_v2(handle,
                           "SELECT title, (SELECT count(*) FROM microdnn_cost WHERE problem=id),"
                           " (SELECT count(*) FROM microdnn_configuration WHERE problem=id), key"
                           " FROM microdnn_problem ORDER BY title, key",
                           -1, &statement, NULL)));
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *const title = (const char *)sqlite3_column_text(statement, 0);
        const char *const text = (const char *)sqlite3_column_text(statement, 3);
        char key[MDNN_DATABASE_KEY_BYTES];
        snprintf(key, sizeof key, "%s", text ? text : "");
        mdnn_database_row_t row = {.title = title ? title : "",
                                   .key = text ? text : "",
                                   .sizes = sqlite3_column_int64(statement, 1),
                                   .configurations = sqlite3_column_int64(statement, 2)};
        read_key(key, &row.environment);
        row.problem = problem_of(row.title, &row.environment);
        visit->show(visit->context, &row);
    }
    sqlite3_finalize(statement);
    return mdnn_status_of_sqlite(code);
}

mdnn_status_t mdnn_database_list(const char *path, unsigned budget_ms,
                                 void (*show)(void *context, const mdnn_database_row_t *row),
                                 void *context)
{
    list_visit_t visit = {show, context};
    return mdnn_database_visit(path, MDNN_VISIT_FOREIGN, budget_ms, list_problems, &visit);
}

typedef struct merge_visit {
    const char *into;
    unsigned budget_ms;
    sqlite3 *from, *to;
    const char *key; /* of the problem that is being copied */
    int64_t problem;
    int64_t added;
    bool into_failed, from_damaged;
} merge_visit_t;

/* Which of the two files a failure is of decides which of them is damaged. */
static mdnn_status_t from_into(merge_visit_t *visit, mdnn_status_t status)
{
    visit->into_failed = visit->into_failed || status != MDNN_STATUS_OK;
    return status;
}

static mdnn_status_t copy_blob(void *context, const mdnn_database_blob_t *blob)
{
    merge_visit_t *const visit = context;
    int written;
    MDNN_TRY(from_into(visit, mdnn_blob_write(visit->to, visit->key, visit->problem, blob,
                                              MDNN_DATABASE_KEEP, &written)));
    visit->added += written;
    return MDNN_STATUS_OK;
}

static mdnn_status_t copy_problem(merge_visit_t *visit, int64_t id, const char *key,
                                  const char *title)
{
    visit->key = key;
    MDNN_TRY(from_into(visit, mdnn_problem_row_make(visit->to, key, title, &visit->problem)));
    mdnn_blob_query_t query = {.key = key, .problem = id, .salvage = true};
    MDNN_TRY(mdnn_blobs_read(visit->from, &query, copy_blob, visit));
    query.configurations = true;
    return mdnn_blobs_read(visit->from, &query, copy_blob, visit);
}

static mdnn_status_t copy_every_problem(merge_visit_t *visit)
{
    sqlite3_stmt *statement = NULL;
    mdnn_status_t status = MDNN_STATUS_OK;
    int code = SQLITE_DONE;

    MDNN_TRY(mdnn_status_of_sqlite(sqlite3_prepare_v2(
        visit->from, "SELECT id, key, title FROM microdnn_problem", -1, &statement, NULL)));
    while (status == MDNN_STATUS_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *const key = (const char *)sqlite3_column_text(statement, 1);
        const char *const title = (const char *)sqlite3_column_text(statement, 2);
        if (key && title)
            status = copy_problem(visit, sqlite3_column_int64(statement, 0), key, title);
    }
    sqlite3_finalize(statement);
    return status == MDNN_STATUS_OK ? mdnn_status_of_sqlite(code) : status;
}

/* BAD_FORMAT from here would set `into` aside. */
static mdnn_status_t copy_problems(void *context, sqlite3 *to)
{
    merge_visit_t *const visit = context;
    visit->to = to;
    visit->added = 0;
    visit->into_failed = false;
    const mdnn_status_t status = copy_every_problem(visit);
    visit->from_damaged = status == MDNN_STATUS_BAD_FORMAT && !visit->into_failed;
    return visit->from_damaged ? MDNN_STATUS_IO : status;
}

static mdnn_status_t merge_from(void *context, sqlite3 *from)
{
    merge_visit_t *const visit = context;
    visit->from = from;
    return mdnn_database_visit(visit->into, MDNN_VISIT_WRITE, visit->budget_ms, copy_problems,
                               visit);
}

mdnn_status_t mdnn_database_merge(const char *into, const char *from, unsigned budget_ms,
                                  int64_t *added)
{
    merge_visit_t visit = {.into = into, .budget_ms = budget_ms};
    struct stat a, b;

    if (stat(into, &a) == 0 && stat(from, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return MDNN_STATUS_INVALID_ARGUMENT;
    const mdnn_status_t status =
        mdnn_database_visit(from, MDNN_VISIT_FOREIGN, budget_ms, merge_from, &visit);
    if (status != MDNN_STATUS_OK)
        return visit.from_damaged ? MDNN_STATUS_BAD_FORMAT : status;
    *added = visit.added;
    return MDNN_STATUS_OK;
}

static mdnn_status_t delete_rows(void *context, sqlite3 *handle)
{
    (void)context;
    return mdnn_status_of_sqlite(sqlite3_exec(handle,
                                              "DELETE FROM microdnn_configuration;"
                                              "DELETE FROM microdnn_cost;"
                                              "DELETE FROM microdnn_problem",
                                              NULL, NULL, NULL));
}

mdnn_status_t mdnn_database_clear(const char *path, unsigned budget_ms)
{
    struct stat unused;
    if (stat(path, &unused) != 0)
        return MDNN_STATUS_NOT_FOUND;
    return mdnn_database_visit(path, MDNN_VISIT_WRITE, budget_ms, delete_rows, NULL);
}
