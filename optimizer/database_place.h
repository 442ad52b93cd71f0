/* Where the database is if no user names a place. The environment is read with secure_getenv. Thread-safe. */
#ifndef MDNN_DATABASE_PLACE_H
#define MDNN_DATABASE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/status.h"

/* $XDG_CACHE_HOME/microdnn/costs.db, or ~/.cache/microdnn/costs.db. A folder that is missing is made when the database
 * is first written, but only within a folder of the user's own: what root made in somebody's home, its owner could not
 * use. NOT_FOUND: neither variable names an absolute path; UNSUPPORTED: the folder belongs to somebody else; OVERFLOW:
 * the path is too long. `path` has the path in each case but the first. */
mdnn_status_t mdnn_database_automatic_path(char *path, size_t bytes);

/* Makes the last two folders of an automatic path where they are missing, for the user alone. */
bool mdnn_database_make_folders(const char *path);

#endif
