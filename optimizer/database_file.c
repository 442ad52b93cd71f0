/* Visits, set-aside and network file systems.
 *
 * synchronous=OFF: SQLite then orders its writes but never waits for the disk. A killed process
 * loses nothing (the rollback journal is in the page cache); after a power failure the file may be
 * damaged, which every reader notices (SQLite's own checks and a checksum in each row) and which
 * costs new measurements, no more. With fsync a store would exceed its 50 ms on many disks. */
#include "optimizer/database_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "config/lock.h"
#include "config/log.h"
#include "optimizer/database.h"
#include "optimizer/database_system.h"

enum {
    APPLICATION_ID = 0x6d646e6e, /* "mdnn" */
    PAGE_BYTES = 4096,
    LARGEST_VALUE_BYTES = 1 << 26, /* of a row: bounds what a hostile file can make us allocate */
    OPERATIONS_PER_LOOK = 1000,    /* virtual machine steps between looks at the clock */
    ASIDE_MOST = 9                 /* damaged files kept; the last is overwritten */
};

/* SQLite keeps its file locks by process, and closing any descriptor of a file drops them all: the
 * look at the header must not coincide with a visit of another thread. */
static mdnn_lock_t visit_mutex = MDNN_LOCK_INIT_RECURSIVE(DATABASE);

/* ---- time ---- */

typedef struct visit_clock {
    struct timespec end; /* CLOCK_MONOTONIC */
} visit_clock_t;

static struct timespec later(clockid_t clock, unsigned milliseconds)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += milliseconds / 1000;
    time.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static bool is_over(const visit_clock_t *clock)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > clock->end.tv_sec ||
           (now.tv_sec == clock->end.tv_sec && now.tv_nsec >= clock->end.tv_nsec);
}

static int wait_for_lock(void *context, int attempt)
{
    (void)attempt;
    if (is_over(context))
        return 0;
    nanosleep(&(struct timespec){0, 500000}, NULL);
    return 1;
}

static int look_at_clock(void *context)
{
    return is_over(context);
}

/* ---- what a file is ---- */

typedef enum file_kind {
    FILE_MISSING,
    FILE_EMPTY,
    FILE_OURS,
    FILE_NEWER,
    FILE_DAMAGED,
    FILE_OTHER
} file_kind_t;

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool is_all_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Whether a file that SQLite cannot use was one of our databases, since only these are moved. The
 * first page has the names of our tables; a crash of the machine leaves zeros. */
static bool was_ours(const unsigned char *page, size_t bytes)
{
    static const char magic[] = "SQLite format 3";
    if (bytes < 100)
        return memcmp(page, magic, bytes < sizeof magic ? bytes : sizeof magic) == 0;
    return big_endian(page + 68) == APPLICATION_ID || memmem(page, bytes, "microdnn_", 9) != NULL ||
           is_all_zero(page, bytes);
}

/* From the header of SQLite's file format (sqlite.org/fileformat2.html, section 1.3): 18 and 19 are
 * 1 for a rollback journal, the only one that we use; 60 is user_version, 68 application_id. */
static file_kind_t kind_of_page(const unsigned char *page, size_t bytes)
{
    if (bytes == 0)
        return FILE_EMPTY;
    if (bytes < 100 || memcmp(page, "SQLite format 3", 16) != 0)
        return was_ours(page, bytes) ? FILE_DAMAGED : FILE_OTHER;
    if (big_endian(page + 68) != APPLICATION_ID)
        return was_ours(page, bytes) ? FILE_DAMAGED : FILE_OTHER;
    if (big_endian(page + 60) > MDNN_DATABASE_SCHEMA)
        return FILE_NEWER;
    return page[18] != 1 || page[19] != 1 ? FILE_DAMAGED : FILE_OURS;
}

/* The file of a visit, in its folder. */
typedef struct visited_file {
    const char *path; /* for messages */
    mdnn_safe_path_t place;
    file_kind_t kind;
    struct stat identity; /* unless it is missing */
    bool own;             /* the user's, and nobody else can have written it */
} visited_file_t;

static mdnn_status_t look_at_file(visited_file_t *file)
{
    mdnn_safe_path_t place = file->place;
    place.shared = false; /* a look changes nothing */
    const int descriptor = mdnn_safe_file_open(&place, O_RDONLY, 0);
    file->own = true;
    file->kind = FILE_MISSING;
    if (descriptor < 0 && errno == ELOOP)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache", "%s is a symbolic link: it is not used", file->path);
    if (descriptor < 0)
        return errno == ENOENT ? MDNN_STATUS_OK : MDNN_STATUS_IO;

    unsigned char page[PAGE_BYTES];
    struct stat *const identity = &file->identity;
    const bool regular = fstat(descriptor, identity) == 0 && S_ISREG(identity->st_mode);
    const ssize_t bytes = regular ? pread(descriptor, page, sizeof page, 0) : -1;
    close(descriptor);
    if (bytes < 0)
        return regular ? MDNN_STATUS_IO : MDNN_STATUS_BAD_FORMAT;
    file->own = mdnn_safe_is_own(&file->place, identity);
    file->kind = kind_of_page(page, (size_t)bytes);
    return MDNN_STATUS_OK;
}

/* A name beside the file's. False if it is too long for a name. */
static bool name_beside(const char *name, const char *ending, char beside[NAME_MAX + 1])
{
    return snprintf(beside, NAME_MAX + 1, "%s%s", name, ending) <= NAME_MAX;
}

/* A journal that somebody else made would be rolled back into the file. */
static bool has_foreign_journal(const visited_file_t *file)
{
    char name[NAME_MAX + 1];
    struct stat found;
    return name_beside(file->place.name, "-journal", name) &&
           fstatat(file->place.folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
           !mdnn_safe_is_own(&file->place, &found);
}

/* ---- setting aside ---- */

/* A name that is not taken, or the last one. */
static bool name_aside(const mdnn_safe_path_t *place, char aside[NAME_MAX + 1])
{
    bool fits = true;
    for (int n = 1; n <= ASIDE_MOST && fits; n++) {
        char ending[16];
        struct stat unused;
        snprintf(ending, sizeof ending, ".damaged-%d", n);
        fits = name_beside(place->name, ending, aside);
        if (fits && fstatat(place->folder, aside, &unused, AT_SYMLINK_NOFOLLOW) != 0)
            return true;
    }
    return fits;
}

/* The journal goes first: one that stayed behind would be rolled back into the next file. Nothing
 * is done if the path has another file by now: somebody else was quicker. */
static void set_aside(const visited_file_t *file)
{
    const int folder = file->place.folder;
    char aside[NAME_MAX + 1], journal[NAME_MAX + 1], journal_aside[NAME_MAX + 1];
    struct stat now;

    if (fstatat(folder, file->place.name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
        now.st_ino != file->identity.st_ino || now.st_dev != file->identity.st_dev ||
        !name_aside(&file->place, aside))
        return;
    if (name_beside(file->place.name, "-journal", journal) &&
        name_beside(aside, "-journal", journal_aside))
        (void)renameat(folder, journal, folder, journal_aside);
    if (renameat(folder, file->place.name, folder, aside) == 0)
        MDNN_LOG(MDNN_LOG_WARN, "cache", "%s is damaged; it is kept as %s, and a new one is begun",
                 file->path, aside);
    else
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache", "%s is damaged and cannot be moved: %s", file->path,
                      strerror(errno));
}

/* ---- one visit ---- */

mdnn_status_t mdnn_status_of_sqlite(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return MDNN_STATUS_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
        return MDNN_STATUS_BUSY;
    case SQLITE_NOMEM:
        return MDNN_STATUS_OUT_OF_MEMORY;
    case SQLITE_TOOBIG:
        return MDNN_STATUS_OVERFLOW;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR: /* our statements are right, so the tables are not */
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return MDNN_STATUS_BAD_FORMAT;
    default:
        return MDNN_STATUS_IO;
    }
}

static mdnn_status_t execute(sqlite3 *handle, const char *statements)
{
    return mdnn_status_of_sqlite(sqlite3_exec(handle, statements, NULL, NULL, NULL));
}

static mdnn_status_t open_handle(const mdnn_seen_files_t *files, mdnn_visit_mode_t mode,
                                 visit_clock_t *clock, sqlite3 **handle)
{
    char uri[MDNN_SEEN_PATH_BYTES];
    /* Reading opens for writing too: what a killed writer left half done must be rolled back. */
    const int flags = mode == MDNN_VISIT_FOREIGN || files->immutable ? SQLITE_OPEN_READONLY
                      : mode == MDNN_VISIT_READ                      ? SQLITE_OPEN_READWRITE
                                                : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    mdnn_seen_files_uri(files, uri);
    MDNN_TRY(mdnn_status_of_sqlite(
        sqlite3_open_v2(uri, handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL)));
    sqlite3_busy_handler(*handle, wait_for_lock, clock);
    sqlite3_progress_handler(*handle, OPERATIONS_PER_LOOK, look_at_clock, clock);
    sqlite3_limit(*handle, SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES);
    sqlite3_db_config(*handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(*handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(*handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    return execute(*handle, "PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;"
                            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON");
}

static int take_number(void *context, int columns, char **values, char **names)
{
    (void)names;
    *(long long *)context = columns == 1 && values[0] ? strtoll(values[0], NULL, 10) : -1;
    return 0;
}

static mdnn_status_t schema_of(sqlite3 *handle, long long *schema)
{
    *schema = -1;
    return mdnn_status_of_sqlite(
        sqlite3_exec(handle, "PRAGMA user_version", take_number, schema, NULL));
}

static mdnn_status_t create_tables(sqlite3 *handle)
{
    char stamp[96];
    snprintf(stamp, sizeof stamp, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             APPLICATION_ID, MDNN_DATABASE_SCHEMA);
    MDNN_TRY(execute(handle, "CREATE TABLE microdnn_problem("
                             " id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,"
                             " title TEXT NOT NULL);"
                             "CREATE TABLE microdnn_cost("
                             " problem INTEGER NOT NULL, images INTEGER NOT NULL,"
                             " role INTEGER NOT NULL, costs BLOB NOT NULL,"
                             " checksum INTEGER NOT NULL,"
                             " PRIMARY KEY(problem, images, role)) WITHOUT ROWID;"
                             "CREATE TABLE microdnn_configuration("
                             " problem INTEGER NOT NULL, request TEXT NOT NULL,"
                             " parts BLOB NOT NULL, checksum INTEGER NOT NULL,"
                             " PRIMARY KEY(problem, request)) WITHOUT ROWID"));
    return execute(handle, stamp);
}

/* Schema 1 knew no engines of the graph API: its costs say nothing about the best choice of today. */
static mdnn_status_t drop_tables(sqlite3 *handle)
{
    return execute(handle, "DROP TABLE IF EXISTS microdnn_problem;"
                           "DROP TABLE IF EXISTS microdnn_cost;"
                           "DROP TABLE IF EXISTS microdnn_configuration");
}

/* Inside the transaction: what the header said before may be different by now. */
static mdnn_status_t check_schema(sqlite3 *handle, mdnn_visit_mode_t mode)
{
    long long schema;
    MDNN_TRY(schema_of(handle, &schema));
    if (schema == MDNN_DATABASE_SCHEMA)
        return MDNN_STATUS_OK;
    if (schema > MDNN_DATABASE_SCHEMA)
        return MDNN_STATUS_UNSUPPORTED;
    if (schema < 0)
        return MDNN_STATUS_BAD_FORMAT;
    if (mode != MDNN_VISIT_WRITE)
        return MDNN_STATUS_NOT_FOUND;
    if (schema != 0)
        MDNN_TRY(drop_tables(handle));
    return create_tables(handle);
}

typedef mdnn_status_t visit_work_t(void *context, sqlite3 *handle);

static mdnn_status_t run_transaction(sqlite3 *handle, mdnn_visit_mode_t mode, visit_work_t *work,
                                     void *context)
{
    /* A write lock from the beginning: two readers that both want to write would never agree. */
    MDNN_TRY(execute(handle, mode == MDNN_VISIT_WRITE ? "BEGIN IMMEDIATE" : "BEGIN"));
    mdnn_status_t status = check_schema(handle, mode);
    if (status == MDNN_STATUS_OK)
        status = work(context, handle);
    if (status == MDNN_STATUS_OK)
        status = execute(handle, "COMMIT");
    if (status != MDNN_STATUS_OK)
        (void)execute(handle, "ROLLBACK");
    return status;
}

/* Nobody else's file is written, nor are locks or a journal of his made in its folder. */
static mdnn_status_t open_and_run(const visited_file_t *file, mdnn_visit_mode_t mode,
                                  visit_clock_t *clock, visit_work_t *work, void *context)
{
    mdnn_seen_files_t files = {.place = &file->place, .immutable = !file->own};
    sqlite3 *handle = NULL;
    if (!mdnn_seen_files_begin(&files))
        return MDNN_STATUS_UNSUPPORTED;
    mdnn_status_t status = open_handle(&files, mode, clock, &handle);
    if (status == MDNN_STATUS_OK)
        status = run_transaction(handle, mode, work, context);
    sqlite3_close(handle);
    mdnn_seen_files_end(&files);
    return status;
}

/* OK if the file may be visited so. */
static mdnn_status_t check_owner(const visited_file_t *file, mdnn_visit_mode_t mode)
{
    if (!file->own && mode == MDNN_VISIT_WRITE) {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache",
                      "%s does not belong to this user: it is read, not written", file->path);
        return MDNN_STATUS_UNSUPPORTED;
    }
    if (file->own && has_foreign_journal(file)) {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache",
                      "%s-journal does not belong to this user: the database is not used",
                      file->path);
        return MDNN_STATUS_UNSUPPORTED;
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t visit_file(visited_file_t *file, mdnn_visit_mode_t mode, visit_clock_t *clock,
                                visit_work_t *work, void *context, bool *moved)
{
    MDNN_TRY(look_at_file(file));
    const file_kind_t kind = file->kind;
    if ((kind == FILE_MISSING || kind == FILE_EMPTY) && mode != MDNN_VISIT_WRITE)
        return MDNN_STATUS_NOT_FOUND;
    if (kind == FILE_NEWER || kind == FILE_OTHER) {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache", "%s is %s; it is not used", file->path,
                      kind == FILE_NEWER ? "from a newer version" : "not a database of microdnn");
        return kind == FILE_NEWER ? MDNN_STATUS_UNSUPPORTED : MDNN_STATUS_BAD_FORMAT;
    }
    MDNN_TRY(check_owner(file, mode));
    const mdnn_status_t status = kind == FILE_DAMAGED
                                     ? MDNN_STATUS_BAD_FORMAT
                                     : open_and_run(file, mode, clock, work, context);
    if (status == MDNN_STATUS_BAD_FORMAT && mode != MDNN_VISIT_FOREIGN && file->own &&
        kind != FILE_MISSING) {
        set_aside(file);
        *moved = true;
    }
    return status;
}

static mdnn_status_t visit_once(const char *path, mdnn_visit_mode_t mode, visit_clock_t *clock,
                                visit_work_t *work, void *context, bool *moved)
{
    visited_file_t file = {.path = path};
    if (!mdnn_safe_path_open(path, false, &file.place)) {
        if (errno == ENOENT && mode != MDNN_VISIT_WRITE)
            return MDNN_STATUS_NOT_FOUND;
        if (errno == ELOOP)
            MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache",
                          "%s leads through a symbolic link in a folder that other users may "
                          "write: it is not used",
                          path);
        return MDNN_STATUS_IO;
    }
    const mdnn_status_t status = visit_file(&file, mode, clock, work, context, moved);
    mdnn_safe_path_close(&file.place);
    return status;
}

/* ---- what must not reach the host ---- */

/* A file size limit of the host would end it by SIGXFSZ; here it is an error of SQLite's. A
 * cancelled thread would leave the mutex locked. */
typedef struct host_guard {
    sigset_t mask_before;
    bool drain;
    int cancel_before;
    int error_number;
} host_guard_t;

static void guard_begin(host_guard_t *guard)
{
    sigset_t ours, pending;
    guard->error_number = errno;
    sigemptyset(&ours);
    sigaddset(&ours, SIGXFSZ);
    sigemptyset(&pending);
    sigpending(&pending);
    guard->drain = !sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &ours, &guard->mask_before);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancel_before);
}

static void guard_end(host_guard_t *guard)
{
    sigset_t ours;
    int unused;
    sigemptyset(&ours);
    sigaddset(&ours, SIGXFSZ);
    while (guard->drain &&
           (sigtimedwait(&ours, NULL, &(struct timespec){0, 0}) > 0 || errno == EINTR))
        continue;
    pthread_sigmask(SIG_SETMASK, &guard->mask_before, NULL);
    pthread_setcancelstate(guard->cancel_before, &unused);
    errno = guard->error_number;
}

mdnn_status_t mdnn_database_visit(const char *path, mdnn_visit_mode_t mode, unsigned budget_ms,
                                  visit_work_t *work, void *context)
{
    visit_clock_t clock = {later(CLOCK_MONOTONIC, budget_ms)};
    const struct timespec lock_end = later(CLOCK_REALTIME, budget_ms);
    host_guard_t guard;
    mdnn_status_t status = MDNN_STATUS_BUSY;

    guard_begin(&guard);
    if (mdnn_timedlock(&visit_mutex, &lock_end)) {
        bool moved = false;
        status = visit_once(path, mode, &clock, work, context, &moved);
        if (moved && mode == MDNN_VISIT_WRITE)
            status = visit_once(path, mode, &clock, work, context, &moved);
        mdnn_unlock(&visit_mutex);
    }
    guard_end(&guard);
    return status;
}

/* ---- network file systems ---- */

/* From linux/magic.h and statfs(2), where not every name has a macro in every header. */
static bool is_network_type(unsigned long type)
{
    static const uint32_t TYPES[] = {
        0x6969,     /* NFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x517b,     /* SMB */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x65735546, /* FUSE: sshfs, GlusterFS, s3fs and the like */
        0x01021997, /* 9P */
        0x5346414f, /* AFS */
        0x6b414653, /* kAFS */
        0x00c36400, /* Ceph */
        0x19830326, /* BeeGFS */
        0xaad7aaea, /* PanFS */
        0x73757245, /* Coda */
        0x7461636f, /* OCFS2 */
        0x01161970, /* GFS2 */
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (type == TYPES[i])
            return true;
    return false;
}

/* Of the folder, or of the nearest one above that exists: it will be made there. */
static bool find_file_system(char *directory, struct statfs *system)
{
    while (statfs(directory, system) != 0) {
        directory[strlen(directory) - 1] = '\0';
        char *const slash = strrchr(directory, '/');
        if (errno != ENOENT || !slash)
            return false;
        slash[1] = '\0';
    }
    return true;
}

mdnn_status_t mdnn_database_local_path(char *path, size_t bytes)
{
    char directory[MDNN_DATABASE_PATH_BYTES], host[256] = "localhost";
    struct statfs system;
    const size_t used = strlen(path);
    const char *const slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) : 0;

    if (used >= sizeof directory)
        return MDNN_STATUS_OVERFLOW;
    memcpy(directory, path, length);
    snprintf(directory + length, sizeof directory - length, "%s", slash ? "/" : ".");
    if (!find_file_system(directory, &system) ||
        !is_network_type((unsigned long)system.f_type & 0xffffffff))
        return MDNN_STATUS_OK;
    (void)gethostname(host, sizeof host - 1);
    const int added = snprintf(path + used, bytes - used, ".%s", host);
    if (added < 0 || (size_t)added >= bytes - used) {
        path[used] = '\0';
        return MDNN_STATUS_OVERFLOW;
    }
    return MDNN_STATUS_OK;
}
