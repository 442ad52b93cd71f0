/* Rows of the three tables, seen from inside a visit. */
#ifndef MDNN_DATABASE_ROWS_H
#define MDNN_DATABASE_ROWS_H

#include <sqlite3.h>

#include "optimizer/database.h"

/* A cost or configuration row as it lies in the file. */
typedef struct mdnn_database_blob {
    bool is_configuration;
    int64_t images, role; /* of costs */
    const char *request;  /* of a configuration */
    const void *bytes;
    size_t size;
} mdnn_database_blob_t;

/* Number of the problem's row. NOT_FOUND. */
mdnn_status_t mdnn_problem_row_find(sqlite3 *handle, const char *key, int64_t *problem);
/* The same, but the row is added if it is missing. */
mdnn_status_t mdnn_problem_row_make(sqlite3 *handle, const char *key, const char *title,
                                    int64_t *problem);

/* Which rows of a problem. */
typedef struct mdnn_blob_query {
    const char *key;
    int64_t problem;
    bool configurations; /* else costs */
    const char *request; /* only this configuration; NULL: all */
    bool salvage;        /* leave rows with a wrong checksum out; else they are BAD_FORMAT */
} mdnn_blob_query_t;

/* Calls `take` for every sound row; a status other than OK from it ends the loop. */
mdnn_status_t mdnn_blobs_read(sqlite3 *handle, const mdnn_blob_query_t *query,
                              mdnn_status_t (*take)(void *context,
                                                    const mdnn_database_blob_t *blob),
                              void *context);

/* *written is 0 if an earlier row was kept. */
mdnn_status_t mdnn_blob_write(sqlite3 *handle, const char *key, int64_t problem,
                              const mdnn_database_blob_t *blob, mdnn_database_conflict_t conflict,
                              int *written);

#endif
