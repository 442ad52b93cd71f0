/* Restricts what SQLite may do with files.
 *
 * SQLite opens files by name: the database, its journal, and any file that a journal names as its
 * super-journal, which SQLite deletes. Somebody who can plant a journal could thus delete any file
 * of the user. So during a visit SQLite sees only two files, the database and its journal, both in
 * a folder that is already open: it calls the system through our functions (no other code uses this
 * copy of SQLite). For another user's file SQLite sees no journal and reads the file as it is. */
#ifndef MDNN_DATABASE_SYSTEM_H
#define MDNN_DATABASE_SYSTEM_H

#include <stdbool.h>

#include "config/safe_path.h"

enum { MDNN_SEEN_PATH_BYTES = 3 * NAME_MAX + 64 };

/* The files of one visit. A thread may nest visits, and ends each visit that it began. */
typedef struct mdnn_seen_files {
    const mdnn_safe_path_t *place; /* borrowed until the end */
    bool immutable;                /* without a journal, never written */
    int number;
    struct mdnn_seen_files *outer;
} mdnn_seen_files_t;

/* False if SQLite cannot be bound to these functions; it must not be used then. */
bool mdnn_seen_files_begin(mdnn_seen_files_t *files);
void mdnn_seen_files_end(mdnn_seen_files_t *files);

/* The name for sqlite3_open_v2, with SQLITE_OPEN_URI. */
void mdnn_seen_files_uri(const mdnn_seen_files_t *files, char uri[MDNN_SEEN_PATH_BYTES]);

#endif
