#include "shim/real/kernel_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/fault.h"
#include "config/log.h"
#include "config/safe_path.h"

typedef struct list {
    char **names; /* in order */
    size_t count, capacity;
} list_t;

static char file[PATH_MAX];
static size_t home_bytes; /* of the file's name, if it lies there */
static _Atomic(const list_t *) list;

/* ---- reading ---- */

static bool set_file(const char *path)
{
    const char *const home = getenv("HOME");
    const bool at_home = strncmp(path, "~/", 2) == 0;
    if (path[0] == '\0' || (at_home && (!home || home[0] != '/')))
        return false;
    home_bytes = at_home ? strlen(home) : 0;
    const int length = at_home ? snprintf(file, sizeof file, "%s/%s", home, path + 2)
                               : snprintf(file, sizeof file, "%s", path);
    return length > 0 && (size_t)length < sizeof file;
}

static bool is_name(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static bool add_name(list_t *to, const char *name)
{
    if (to->count == to->capacity) {
        const size_t capacity = 2 * to->capacity + 16;
        char **const grown = reallocarray(to->names, capacity, sizeof *grown);
        if (!grown)
            return false;
        to->names = grown;
        to->capacity = capacity;
    }
    to->names[to->count] = strdup(name);
    return to->names[to->count] && ++to->count > 0;
}

static void read_line(list_t *to, char *text, unsigned line)
{
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] == '\0' || text[0] == '#')
        return;
    if (!is_name(text))
        MDNN_LOG(MDNN_LOG_ERROR, "memory", "%s:%u: one kernel's name without spaces is expected",
                 file, line);
    else if (!add_name(to, text))
        MDNN_LOG(MDNN_LOG_ERROR, "memory", "%s:%u: host memory is short", file, line);
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void say_unread(bool named)
{
    MDNN_LOG(named ? MDNN_LOG_WARN : MDNN_LOG_INFO, "memory", "kernels: %s: %s", file,
             strerror(errno));
}

static void read_file(list_t *to, bool named)
{
    const int descriptor = mdnn_safe_open(file, O_RDONLY, 0);
    FILE *const stream = descriptor >= 0 ? fdopen(descriptor, "r") : NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (!stream) {
        if (errno != ENOENT && errno != ENOTDIR)
            say_unread(named);
        if (descriptor >= 0)
            close(descriptor);
        return;
    }
    for (unsigned line = 1; getline(&text, &bytes, stream) >= 0; line++)
        read_line(to, text, line);
    if (ferror(stream))
        say_unread(named);
    free(text);
    fclose(stream);
}

void mdnn_kernel_list_open(const char *path, bool named)
{
    list_t *const made = !atomic_load(&list) && set_file(path) ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return;
    read_file(made, named);
    if (made->count > 0)
        qsort(made->names, made->count, sizeof *made->names, compare);
    atomic_store(&list, made);
}

/* ---- questions ---- */

bool mdnn_kernel_list_any(void)
{
    const list_t *const known = atomic_load_explicit(&list, memory_order_acquire);
    return known && known->count > 0;
}

bool mdnn_kernel_list_has(const char *name)
{
    const list_t *const known = atomic_load_explicit(&list, memory_order_acquire);
    return known && known->count > 0 && !MDNN_FAULT(LISTED_KERNELS_IGNORED) &&
           bsearch(&name, known->names, known->count, sizeof *known->names, compare) != NULL;
}

/* ---- learning ---- */

static void make_folders(void)
{
    char folder[PATH_MAX];
    for (const char *at = home_bytes > 0 ? strchr(file + home_bytes + 1, '/') : NULL; at;
         at = strchr(at + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(at - file), file);
        (void)mkdir(folder, 0700); /* if it fails, opening the file says why */
    }
}

static bool append(const char *name)
{
    char *line = NULL;
    const int length = asprintf(&line, "%s\n", name);
    const int descriptor = mdnn_safe_open(file, O_WRONLY | O_APPEND | O_CREAT, 0600);
    const bool written =
        length > 0 && descriptor >= 0 && write(descriptor, line, (size_t)length) == length;
    const int error = errno;
    if (descriptor >= 0)
        close(descriptor);
    if (length > 0)
        free(line);
    errno = error;
    return written;
}

void mdnn_kernel_list_learn(const char *name)
{
    if (!atomic_load(&list) || !is_name(name) || name[0] == '\0' || mdnn_kernel_list_has(name))
        return;
    make_folders();
    if (append(name))
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "kernel %s reaches memory that nothing names: %s has its name now, so that "
                 "safety = auto serves it",
                 name, file);
    else
        MDNN_LOG(MDNN_LOG_ERROR, "memory",
                 "kernel %s reaches memory that nothing names, and its name cannot be kept: %s: %s",
                 name, file, strerror(errno));
}
