#include "shim/real/installation.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/safe_path.h"

/* The file of the mapping that holds `address`. The dynamic linker's name for it may be relative to
 * what was the current directory when the program started. */
static bool path_of_mapping(const void *address, char *path, size_t bytes)
{
    FILE *const maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        uintptr_t begin = 0, end = 0;
        int name = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end, &name) < 2 ||
            (uintptr_t)address < begin || (uintptr_t)address >= end || line[name] != '/')
            continue;
        found = snprintf(path, bytes, "%s", line + name) < (int)bytes;
    }
    if (maps)
        (void)fclose(maps);
    return found;
}

static bool is_installed(const mdnn_safe_path_t *place, uid_t library_owner)
{
    struct stat found;
    if (fstatat(place->folder, place->name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(found.st_mode) || (place->shared && found.st_nlink > 1))
        return false;
    const bool of_owner =
        found.st_uid == library_owner && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    return of_owner || mdnn_safe_is_trusted(&found);
}

static bool is_usable(const char *path, uid_t library_owner)
{
    mdnn_safe_path_t place;
    if (!mdnn_safe_path_open(path, false, &place))
        return false;
    const bool installed = is_installed(&place, library_owner);
    mdnn_safe_path_close(&place);
    return installed && access(path, X_OK) == 0;
}

bool mdnn_installation_find(const char *name, char *path, size_t bytes)
{
    /* The build tree has its programs beside the library, `make install` in a folder of theirs. */
    static const char *const folders[] = {"", "microdnn/"};
    char library[PATH_MAX];
    struct stat found;
    if (!path_of_mapping((const void *)(uintptr_t)mdnn_installation_find, library,
                         sizeof library) ||
        stat(library, &found) != 0)
        return false;
    *strrchr(library, '/') = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const int length = snprintf(path, bytes, "%s/%s%s", library, folders[i], name);
        if (length < (int)bytes && is_usable(path, found.st_uid))
            return true;
    }
    return false;
}
