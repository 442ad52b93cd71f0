#include "optimizer/database_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

static const char folder_format[] = "/visit-%d/";
static const char journal[] = "-journal";

/* NULL outside of visits: then names mean what they say. */
static _Thread_local mdnn_seen_files_t *innermost __attribute__((tls_model("initial-exec")));

typedef enum seen { SEEN_NOTHING, SEEN_DATABASE, SEEN_JOURNAL } seen_t;

/* What `path` is to the visit that it belongs to. */
static seen_t find(const char *path, mdnn_seen_files_t **files)
{
    for (mdnn_seen_files_t *each = innermost; each; each = each->outer) {
        char folder[32];
        const size_t length = (size_t)snprintf(folder, sizeof folder, folder_format, each->number);
        const size_t name = strlen(each->place->name);
        if (strncmp(path, folder, length) != 0 ||
            strncmp(path + length, each->place->name, name) != 0)
            continue;
        *files = each;
        const char *const rest = path + length + name;
        if (*rest == '\0')
            return SEEN_DATABASE;
        return strcmp(rest, journal) == 0 && !each->immutable ? SEEN_JOURNAL : SEEN_NOTHING;
    }
    return SEEN_NOTHING;
}

/* The file as a place of its own. False with ENOENT for whatever SQLite is not to see. */
static bool place_of(const char *path, mdnn_safe_path_t *place, mdnn_seen_files_t **files)
{
    const seen_t seen = find(path, files);
    const size_t name = seen == SEEN_NOTHING ? 0 : strlen((*files)->place->name);
    if (seen == SEEN_NOTHING || (seen == SEEN_JOURNAL && name + sizeof journal > NAME_MAX)) {
        errno = ENOENT;
        return false;
    }
    *place = *(*files)->place;
    if (seen == SEEN_JOURNAL)
        memcpy(place->name + name, journal, sizeof journal);
    return true;
}

/* What SQLite writes, and rolls back from, is the user's own. */
static int keep_if_own(const mdnn_safe_path_t *place, int descriptor)
{
    struct stat information;
    if (descriptor < 0 ||
        (fstat(descriptor, &information) == 0 && mdnn_safe_is_own(place, &information)))
        return descriptor;
    close(descriptor);
    errno = EACCES;
    return -1;
}

static int open_seen(const char *path, int flags, int mode)
{
    mdnn_safe_path_t place;
    mdnn_seen_files_t *files;
    if (!innermost)
        return open(path, flags, mode);
    if (!place_of(path, &place, &files))
        return -1;
    if (!files->immutable)
        return keep_if_own(&place, mdnn_safe_file_open(&place, flags, (mode_t)mode));
    place.shared = false; /* whosever it is */
    return mdnn_safe_file_open(&place, O_RDONLY, 0);
}

static int access_seen(const char *path, int mode)
{
    mdnn_safe_path_t place;
    mdnn_seen_files_t *files;
    if (!innermost)
        return access(path, mode);
    return place_of(path, &place, &files) ? faccessat(place.folder, place.name, mode, 0) : -1;
}

static int stat_seen(const char *path, struct stat *information)
{
    mdnn_safe_path_t place;
    mdnn_seen_files_t *files;
    if (!innermost)
        return stat(path, information);
    return place_of(path, &place, &files)
               ? fstatat(place.folder, place.name, information, AT_SYMLINK_NOFOLLOW)
               : -1;
}

/* SQLite looks for links in every folder of a path; of those that it is shown none exists. */
static int lstat_seen(const char *path, struct stat *information)
{
    mdnn_safe_path_t place;
    mdnn_seen_files_t *files;
    if (!innermost)
        return lstat(path, information);
    if (place_of(path, &place, &files))
        return fstatat(place.folder, place.name, information, AT_SYMLINK_NOFOLLOW);
    memset(information, 0, sizeof *information);
    information->st_mode = S_IFDIR | S_IRWXU;
    return 0;
}

static int unlink_seen(const char *path)
{
    mdnn_safe_path_t place;
    mdnn_seen_files_t *files;
    if (!innermost)
        return unlink(path);
    return place_of(path, &place, &files) && !files->immutable
               ? unlinkat(place.folder, place.name, 0)
               : -1;
}

static bool bind_functions(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr function;
    } functions[] = {
        {"open", (sqlite3_syscall_ptr)open_seen},     {"access", (sqlite3_syscall_ptr)access_seen},
        {"stat", (sqlite3_syscall_ptr)stat_seen},     {"lstat", (sqlite3_syscall_ptr)lstat_seen},
        {"unlink", (sqlite3_syscall_ptr)unlink_seen},
    };
    sqlite3_vfs *const system = sqlite3_initialize() == SQLITE_OK ? sqlite3_vfs_find(NULL) : NULL;
    if (!system || system->iVersion < 3 || !system->xSetSystemCall)
        return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (system->xSetSystemCall(system, functions[i].name, functions[i].function) != SQLITE_OK)
            return false;
    return true;
}

bool mdnn_seen_files_begin(mdnn_seen_files_t *files)
{
    static enum { UNKNOWN, BOUND, UNBOUND } bound; /* under the lock of visits */
    if (bound == UNKNOWN)
        bound = bind_functions() ? BOUND : UNBOUND;
    files->outer = innermost;
    files->number = innermost ? innermost->number + 1 : 0;
    if (bound == BOUND)
        innermost = files;
    return bound == BOUND;
}

void mdnn_seen_files_end(mdnn_seen_files_t *files)
{
    if (innermost == files)
        innermost = files->outer;
}

void mdnn_seen_files_uri(const mdnn_seen_files_t *files, char uri[MDNN_SEEN_PATH_BYTES])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    int used = snprintf(uri, MDNN_SEEN_PATH_BYTES, "file:");
    used += snprintf(uri + used, MDNN_SEEN_PATH_BYTES - (size_t)used, folder_format, files->number);
    for (const char *c = files->place->name; *c != '\0'; c++)
        used += snprintf(uri + used, MDNN_SEEN_PATH_BYTES - (size_t)used,
                         strchr(plain, *c) ? "%c" : "%%%02x", (unsigned char)*c);
    snprintf(uri + used, MDNN_SEEN_PATH_BYTES - (size_t)used, "%s",
             files->immutable ? "?immutable=1" : "");
}
