#include "optimizer/database_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 + 256 };

static const char file_name[] = "microdnn/costs.db";

/* The rules of XDG require that a relative XDG_CACHE_HOME is ignored. */
static int name_path(char *path, size_t bytes)
{
    const char *const cache = secure_getenv("XDG_CACHE_HOME");
    const char *const home = secure_getenv("HOME");
    if (cache && *cache == '/')
        return snprintf(path, bytes, "%s/%s", cache, file_name);
    if (home && *home == '/')
        return snprintf(path, bytes, "%s/.cache/%s", home, file_name);
    return 0;
}

/* Cuts the last component off, but not the root. False if there is none. */
static bool cut(char *path)
{
    char *const slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* Whether the folder that exists of `path` is the user's. */
static bool is_own(const char *path)
{
    char folder[PATH_BYTES];
    struct stat found;
    snprintf(folder, sizeof folder, "%s", path);
    while (cut(folder))
        if (stat(folder, &found) == 0)
            return found.st_uid == geteuid();
    return false;
}

mdnn_status_t mdnn_database_automatic_path(char *path, size_t bytes)
{
    const int length = name_path(path, bytes);
    if (length == 0)
        return MDNN_STATUS_NOT_FOUND;
    if (length < 0 || (size_t)length >= bytes || length >= PATH_BYTES)
        return MDNN_STATUS_OVERFLOW;
    return is_own(path) ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

static bool make_folder(const char *folder)
{
    return mkdir(folder, 0700) == 0 || errno == EEXIST;
}

bool mdnn_database_make_folders(const char *path)
{
    char folder[PATH_BYTES], parent[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    if (!cut(folder))
        return false;
    memcpy(parent, folder, sizeof parent);
    return make_folder(folder) ||
           (errno == ENOENT && cut(parent) && make_folder(parent) && make_folder(folder));
}
