/* The file of the database: how one visit goes, and what happens to a damaged file. */
#ifndef MDNN_DATABASE_FILE_H
#define MDNN_DATABASE_FILE_H

#include <stddef.h>

#include <sqlite3.h>

#include "config/status.h"

typedef enum mdnn_visit_mode {
    MDNN_VISIT_READ,   /* of our own file: a damaged one is renamed */
    MDNN_VISIT_WRITE,  /* the same; the file is made if missing */
    MDNN_VISIT_FOREIGN /* of a file that is not ours: never changed */
} mdnn_visit_mode_t;

/* Runs `work` inside one transaction that is committed if it returns OK. `work` returns the status
 * of its SQLite calls through mdnn_status_of_sqlite; it may run twice (WRITE, after a damaged file
 * was renamed), so it must keep nothing from its first run. Visits of one process run one after
 * the other; `work` may visit another file. */
mdnn_status_t mdnn_database_visit(const char *path, mdnn_visit_mode_t mode, unsigned budget_ms,
                                  mdnn_status_t (*work)(void *context, sqlite3 *handle),
                                  void *context);

/* OK for SQLITE_OK, SQLITE_ROW and SQLITE_DONE. */
mdnn_status_t mdnn_status_of_sqlite(int code);

/* Appends `.<host name>` if the file's directory is on a network file system. */
mdnn_status_t mdnn_database_local_path(char *path, size_t bytes);

#endif
