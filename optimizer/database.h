/* Measured costs (optimizer/cost_memory.h) and chosen configurations (optimizer/micro_batch.h) of convolution problems,
 * kept between runs in one SQLite file.
 *
 * A visit (every function below that reads or writes) opens the file, uses it and closes it; no
 * descriptor outlives the return. It waits and works for at most `budget_ms`; after that time it
 * ends with BUSY and changes nothing. Many processes and threads may visit at once. A process that
 * is killed at any moment leaves a readable file.
 *
 * Statuses of a visit:
 *   NOT_FOUND    nothing is known, or there is no file
 *   BUSY         the time was up
 *   IO           no such directory, read-only, or the disk is full
 *   UNSUPPORTED  a newer version wrote the file: nothing is read or written
 *   BAD_FORMAT   the file is not a database of the library, and is not changed; or it was damaged: then it was moved to
 *                `<file>.damaged-<n>` with a log line, and the next store starts a new file. A store that finds the
 *                damage moves the file, starts a new one and returns OK.
 *   OUT_OF_MEMORY */
#ifndef MDNN_DATABASE_H
#define MDNN_DATABASE_H

#include "optimizer/cost_memory.h"
#include "optimizer/problem.h"
#include "optimizer/wr.h"

enum {
    MDNN_DATABASE_SCHEMA = 2,
    MDNN_DATABASE_BUDGET_MS = 50,
    MDNN_DATABASE_PATH_BYTES = 1024 + 256,
    MDNN_DATABASE_KEY_BYTES = 4096,
    MDNN_DATABASE_TITLE_BYTES = 640
};

/* A plain value; nothing is open. */
typedef struct mdnn_database {
    char path[MDNN_DATABASE_PATH_BYTES]; /* "": nothing is kept */
    char import_path
        [MDNN_DATABASE_PATH_BYTES]; /* read for what `path` lacks, never written; "": none */
    unsigned budget_ms;
    bool automatic; /* no user named the path: its folder is made if it is missing */
} mdnn_database_t;

/* Makes both paths absolute and fills in %h (host name), %p (process id) and %r (rank), as config/log.h says; on a
 * network file system `path` gets `.<host>`, since locks cannot be trusted between hosts there. Either may be NULL or
 * "". OVERFLOW if too long. */
mdnn_status_t mdnn_database_init(mdnn_database_t *database, const char *path,
                                 const char *import_path);

/* The same for the values of the options cache.file and cache.import: the file `auto` is the user's own
 * (optimizer/database_place.h), or nothing is kept if there is no place for it; `none` keeps nothing. */
mdnn_status_t mdnn_database_init_place(mdnn_database_t *database, const char *file,
                                       const char *import_path);

/* What a cost depends on besides the problem. */
typedef struct mdnn_database_environment {
    const char *device_model; /* as the driver names it */
    const char *driver;       /* version of the driver */
    int64_t cuda_version, cudnn_version;
    const char *tf32_override; /* NVIDIA_TF32_OVERRIDE; NULL: not set */
} mdnn_database_environment_t;

/* `text` is the identity, injective in the problem (all but its device ordinal) and the
 * environment; `title` is for people. */
typedef struct mdnn_database_key {
    char text[MDNN_DATABASE_KEY_BYTES];
    char title[MDNN_DATABASE_TITLE_BYTES];
} mdnn_database_key_t;

/* OVERFLOW if a name in the environment is too long to fit. */
mdnn_status_t mdnn_database_key(const mdnn_problem_t *problem,
                                const mdnn_database_environment_t *environment,
                                mdnn_database_key_t *key);

/* Puts every known cost of the problem into `memory`, first from the file and then from the import, and marks them as
 * not new; costs that are already in `memory` stay. OK if anything was added. A whole problem takes one visit, so a
 * start with a filled database is fast. */
mdnn_status_t mdnn_database_load_costs(const mdnn_database_t *database,
                                       const mdnn_database_key_t *key, mdnn_cost_memory_t *memory);

/* Writes the new entries in one transaction and marks them as not new. An entry with candidates that were deferred to a
 * search keeps the times that the file has for them. OK without a visit if there are no new entries or no database is
 * kept. */
mdnn_status_t mdnn_database_store_costs(const mdnn_database_t *database,
                                        const mdnn_database_key_t *key, mdnn_cost_memory_t *memory);

/* The configuration that was chosen for a problem at `limit_bytes` under the options of `request` (all of them except
 * for part_overhead_ms, which is measured). The caller frees configuration->parts. A record that does not cover the
 * batch or breaks a rule of the request is NOT_FOUND. */
mdnn_status_t mdnn_database_load_configuration(const mdnn_database_t *database,
                                               const mdnn_database_key_t *key,
                                               const mdnn_wr_request_t *request,
                                               uint64_t limit_bytes,
                                               mdnn_configuration_t *configuration);

typedef enum mdnn_database_conflict {
    MDNN_DATABASE_KEEP, /* the first one that was stored wins, so that processes agree */
    MDNN_DATABASE_REPLACE
} mdnn_database_conflict_t;

/* Called before the first use of the configuration. OK even if an earlier record was kept; load the configuration to
 * see which one counts. */
mdnn_status_t mdnn_database_store_configuration(const mdnn_database_t *database,
                                                const mdnn_database_key_t *key,
                                                const mdnn_wr_request_t *request,
                                                uint64_t limit_bytes,
                                                const mdnn_configuration_t *configuration,
                                                mdnn_database_conflict_t conflict);

/* Does what mdnn_database_store_costs and mdnn_database_store_configuration do, at the limit of the request, in one
 * visit and one transaction. */
mdnn_status_t mdnn_database_store(const mdnn_database_t *database, const mdnn_database_key_t *key,
                                  mdnn_cost_memory_t *memory, const mdnn_wr_request_t *request,
                                  const mdnn_configuration_t *configuration,
                                  mdnn_database_conflict_t conflict);

/* For `microdnn cache`: paths are used as they are. A damaged file is moved aside only if it is `into` of a merge or
 * the file to clear; others are left as they are. */

/* One problem of the file. All texts are valid until `show` returns; they are as the file has them, with control
 * characters, too. */
typedef struct mdnn_database_row {
    const char *title;
    const char *problem;                     /* the title without device and version */
    const char *key;                         /* as mdnn_database_key_t has it */
    mdnn_database_environment_t environment; /* of the key; device_model NULL if it has none */
    int64_t sizes;                           /* (part size, role) pairs with costs */
    int64_t configurations;
} mdnn_database_row_t;

/* Calls `show` for every problem, by title. */
mdnn_status_t mdnn_database_list(const char *path, unsigned budget_ms,
                                 void (*show)(void *context, const mdnn_database_row_t *row),
                                 void *context);

/* Adds to `into`, which is created if it is missing, the rows of `from` that it lacks, in one
 * transaction. Export, import and merge all do this. Rows of `from` with a wrong checksum are left
 * out. INVALID_ARGUMENT if both are the same file. *added counts the rows. */
mdnn_status_t mdnn_database_merge(const char *into, const char *from, unsigned budget_ms,
                                  int64_t *added);

/* Removes every row. NOT_FOUND if there is no file. */
mdnn_status_t mdnn_database_clear(const char *path, unsigned budget_ms);

#endif
