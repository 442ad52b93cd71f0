/* Files in folders where others may write, too.
 *
 * Somebody who may write in a folder may put a symbolic link, a hard link, a FIFO or a file of his
 * own where a file of ours is expected. So a path is followed one component at a time, each seen
 * from the descriptor of the folder before it, and what is opened is looked at once more. Folders
 * that only root and the user (the effective one) may write in are trusted: links there may lead
 * elsewhere. A folder that may be written by its group, by everybody, or whose owner is somebody
 * else is shared: no link is followed there.
 *
 * No descriptor that these functions give is one of the three standard ones, which a program may
 * have closed; all close on exec. Thread-safe. */
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

/* openat(2), never through a link and never waiting for anybody. In a shared folder only a regular
 * file of the user's own without another name is opened. -1 with errno set: EPERM for somebody
 * else's. `flags` without O_TRUNC, which would come before the look. */
int mdnn_safe_file_open(const mdnn_safe_path_t *place, int flags, mode_t mode);

/* Both together, for one visit of a file; `flags` with O_TRUNC are allowed. */
int mdnn_safe_open(const char *path, int flags, mode_t mode);

/* Whether only the user can have written the file: his own, and the only name of it if its folder is
 * shared. */
bool mdnn_safe_is_own(const mdnn_safe_path_t *place, const struct stat *information);

/* Whether nobody but root and the user may have decided what is in the file. A group that has the
 * number of the user is taken for his own. */
bool mdnn_safe_is_trusted(const struct stat *information);

/* A descriptor above the standard three in place of `descriptor`, which may be -1. */
int mdnn_above_standard(int descriptor);

#endif
