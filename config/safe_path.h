/* Opens files in folders in which other users may write.
 *
 * A user who may write in a folder may put a symbolic link, a hard link, a FIFO or a file of theirs where the library
 * expects its file. So these functions follow a path one component at a time, each from the descriptor of the folder
 * before it, and examine the opened file once more. Folders that only root and the user (the effective one) may write
 * in are trusted: links there may lead elsewhere. A folder is shared if its group or everybody may write in it, or if
 * it belongs to somebody else; no link is followed there.
 *
 * These functions never return one of the three standard descriptors, which a program may have
 * closed. All descriptors close on exec. Thread-safe. */
#ifndef MDNN_SAFE_PATH_H
#define MDNN_SAFE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct mdnn_safe_path {
    int folder;  /* open with O_PATH */
    bool shared; /* others may put another file under the name */
    char name[NAME_MAX + 1];
} mdnn_safe_path_t;

/* Opens the folder that holds the last component of `path`. `follow`: a link under the last name is
 * followed as well, where its folder is trusted. False with errno set: ELOOP for a link that is not
 * followed, EISDIR for a path that names no file. Closed by the caller. */
bool mdnn_safe_path_open(const char *path, bool follow, mdnn_safe_path_t *place);
void mdnn_safe_path_close(mdnn_safe_path_t *place);

/* Like openat(2), but it follows no link and never waits. In a shared folder it opens only a
 * regular file of the user's own that has no other name. -1 with errno set: EPERM for somebody
 * else's file. `flags` must not contain O_TRUNC, which would take effect before the file is
 * examined. */
int mdnn_safe_file_open(const mdnn_safe_path_t *place, int flags, mode_t mode);

/* Both functions together, for one visit of a file; `flags` may contain O_TRUNC. */
int mdnn_safe_open(const char *path, int flags, mode_t mode);

/* Whether only the user can have written the file: it belongs to the user and, if its folder is shared, has no other
 * name. */
bool mdnn_safe_is_own(const mdnn_safe_path_t *place, const struct stat *information);

/* Whether only root and the user can have written the file. A group with the user's number is assumed to have the user
 * as its only member. */
bool mdnn_safe_is_trusted(const struct stat *information);

/* A descriptor above the standard three in place of `descriptor`, which may be -1. */
int mdnn_above_standard(int descriptor);

#endif
