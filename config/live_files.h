/* Where processes keep their live statistics so that `microdnn top` finds them: one file per process in the folder of
 * the registry ([memory] registry), named after the user, the namespace of process numbers and the process. A program
 * whose statistics go to a file has its live file beside that, and a link of that name leads there.
 *
 * A file whose process has ended was left by one that was killed. Of these the newest few are kept, to be looked at. */
#ifndef MDNN_LIVE_FILES_H
#define MDNN_LIVE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct mdnn_live_file {
    char name[PATH_MAX]; /* in the folder */
    char path[PATH_MAX]; /* of the statistics */
    pid_t process;
    int64_t begun; /* when the name was made, in nanoseconds since 1970 */
} mdnn_live_file_t;

/* The name for this process; false if it is too long. */
bool mdnn_live_file_name(const char *folder, char *path, size_t bytes);

/* The user's live files in the folder, the oldest first; the caller frees *files. 0 if there is no such folder. */
size_t mdnn_live_files_list(const char *folder, mdnn_live_file_t **files);

/* When the process was started, in clock ticks since the machine was; 0: it does not run. */
uint64_t mdnn_live_process_start(pid_t process);
/* Whether the process with this number and start still runs. */
bool mdnn_live_process_runs(pid_t process, uint64_t start);

/* Removes a name, and the statistics if they are in the folder. */
void mdnn_live_file_remove(const mdnn_live_file_t *file);
/* Removes what processes that do not run any more have left, except for the newest `kept`. */
void mdnn_live_files_clean(const char *folder, size_t kept);

#endif
