/* What SQLite may do with files.
 *
 * SQLite opens by name: the database, its journal, and whatever name stands in a journal as that of
 * a journal above it, which it deletes. Who can plant a journal could have any file of the user
 * deleted. So during a visit SQLite sees two files and no others, the database and its journal, both
 * in a folder that is open already; it calls the system through functions of ours (this copy of
 * SQLite serves nobody else). A file of somebody else has no journal there: it is read as it lies. */
#ifndef MDNN_DATABASE_SYSTEM_H
#define MDNN_DATABASE_SYSTEM_H

#include <stdbool.h>

#include "config/safe_path.h"

enum { MDNN_SEEN_PATH_BYTES = 3 * NAME_MAX + 64 };

/* The files of one visit. Visits of a thread are nested; begun and ended by the same thread. */
typedef struct mdnn_seen_files {
    const mdnn_safe_path_t *place; /* borrowed until the end */
    bool immutable;                /* without a journal, never written */
    int number;
    struct mdnn_seen_files *outer;
} mdnn_seen_files_t;

/* False if SQLite cannot be bound to these functions: then it must not be used. */
bool mdnn_seen_files_begin(mdnn_seen_files_t *files);
void mdnn_seen_files_end(mdnn_seen_files_t *files);

/* The name for sqlite3_open_v2, with SQLITE_OPEN_URI. */
void mdnn_seen_files_uri(const mdnn_seen_files_t *files, char uri[MDNN_SEEN_PATH_BYTES]);

#endif
