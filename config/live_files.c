#include "config/live_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/safe_path.h"

static const char ending[] = ".live";

/* "microdnn-1000-f0000000-": of all processes whose numbers mean the same here. */
static void name_beginning(char *text, size_t bytes)
{
    struct stat space;
    const unsigned long long number =
        stat("/proc/self/ns/pid", &space) == 0 ? (unsigned long long)space.st_ino : 0;
    snprintf(text, bytes, "microdnn-%lu-%llx-", (unsigned long)geteuid(), number);
}

bool mdnn_live_file_name(const char *folder, char *path, size_t bytes)
{
    char beginning[64];
    name_beginning(beginning, sizeof beginning);
    return snprintf(path, bytes, "%s/%s%ld%s", folder, beginning, (long)getpid(), ending) <
           (int)bytes;
}

/* The process in "microdnn-1000-f0000000-4711.live"; 0: that is something else. */
static pid_t process_of(const char *name, const char *beginning)
{
    char *end = NULL;
    const size_t length = strlen(beginning);
    if (strncmp(name, beginning, length) != 0 || name[length] < '1' || name[length] > '9')
        return 0;
    const long process = strtol(name + length, &end, 10);
    return strcmp(end, ending) == 0 && process <= INT_MAX ? (pid_t)process : 0;
}

/* false: it is not the user's, or leads nowhere. */
static bool look_at(const char *folder, const char *name, mdnn_live_file_t *file)
{
    struct stat found;
    if (snprintf(file->name, sizeof file->name, "%s/%s", folder, name) >= (int)sizeof file->name ||
        lstat(file->name, &found) != 0 || found.st_uid != geteuid())
        return false;
    file->begun = (int64_t)found.st_mtim.tv_sec * 1000000000 + found.st_mtim.tv_nsec;
    if (S_ISREG(found.st_mode)) {
        memcpy(file->path, file->name, sizeof file->path);
        return true;
    }
    const ssize_t length =
        S_ISLNK(found.st_mode) ? readlink(file->name, file->path, sizeof file->path - 1) : -1;
    if (length <= 0)
        return false;
    file->path[length] = '\0';
    return true;
}

static int compare_begun(const void *left, const void *right)
{
    const mdnn_live_file_t *const a = left, *const b = right;
    return a->begun < b->begun ? -1 : a->begun > b->begun;
}

size_t mdnn_live_files_list(const char *folder, mdnn_live_file_t **files)
{
    char beginning[64];
    size_t count = 0, room = 0;
    const int descriptor = mdnn_above_standard(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *const opened = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    *files = NULL;
    name_beginning(beginning, sizeof beginning);
    for (const struct dirent *entry; opened != NULL && (entry = readdir(opened)) != NULL;) {
        const pid_t process = process_of(entry->d_name, beginning);
        if (process == 0)
            continue;
        if (count == room) {
            room = 2 * room + 8;
            mdnn_live_file_t *const grown = reallocarray(*files, room, sizeof *grown);
            if (grown == NULL)
                break;
            *files = grown;
        }
        (*files)[count].process = process;
        count += look_at(folder, entry->d_name, &(*files)[count]);
    }
    if (opened != NULL)
        closedir(opened);
    else if (descriptor >= 0)
        close(descriptor);
    if (count > 0)
        qsort(*files, count, sizeof **files, compare_begun);
    return count;
}

uint64_t mdnn_live_process_start(pid_t process)
{
    char path[64], text[2048];
    unsigned long long start = 0;
    char state = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    const int descriptor = mdnn_above_standard(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t bytes = descriptor >= 0 ? read(descriptor, text, sizeof text - 1) : -1;
    if (descriptor >= 0)
        close(descriptor);
    if (bytes <= 0)
        return 0;
    text[bytes] = '\0';
    const char *const after_name = strrchr(text, ')'); /* which may hold anything */
    const bool read_all = after_name != NULL &&
                          sscanf(after_name + 1,
                                 " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                 "%*s %*s %*s %llu",
                                 &state, &start) == 2;
    return read_all && state != 'Z' && state != 'X' ? start : 0;
}

bool mdnn_live_process_runs(pid_t process, uint64_t start)
{
    const uint64_t now = mdnn_live_process_start(process);
    return now != 0 && now == start;
}

void mdnn_live_file_remove(const mdnn_live_file_t *file)
{
    (void)unlink(file->name);
}

/* Whether nobody runs who had that number when the file was made. */
static bool is_over(const mdnn_live_file_t *file)
{
    return mdnn_live_process_start(file->process) == 0;
}

void mdnn_live_files_clean(const char *folder, size_t kept)
{
    mdnn_live_file_t *files;
    size_t over = 0;
    const size_t count = mdnn_live_files_list(folder, &files);
    for (size_t i = count; i-- > 0;)
        if (is_over(&files[i]) && ++over > kept)
            mdnn_live_file_remove(&files[i]);
    free(files);
}
