#include "config/host_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t machine_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
}

/* UINT64_MAX: there is no such file, or it says "max". */
static uint64_t limit_in(const char *path)
{
    char text[32] = "", *end = text;
    FILE *const file = fopen(path, "re");
    if (!file)
        return UINT64_MAX;
    const bool read = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    errno = 0;
    const unsigned long long value = read ? strtoull(text, &end, 10) : 0;
    return end > text && errno == 0 ? value : UINT64_MAX;
}

/* Of a group and all around it. In a container the path may be the host's, which is not there: then
 * what the mount itself says is left. `path` is cut. */
static uint64_t least_limit(const char *mount, char *path, const char *name)
{
    uint64_t least = UINT64_MAX;
    for (char *cut = path;; *cut = '\0') {
        char file[2 * PATH_MAX];
        if (snprintf(file, sizeof file, "%s%s/%s", mount, path, name) < (int)sizeof file) {
            const uint64_t limit = limit_in(file);
            least = limit < least ? limit : least;
        }
        if (!(cut = strrchr(path, '/')))
            return least;
    }
}

/* A line of /proc/self/cgroup: number:controllers:path, without controllers for version 2. */
static uint64_t limit_of_line(const char *root, char *line)
{
    char mount[PATH_MAX], *rest = line;
    line[strcspn(line, "\n")] = '\0';
    (void)strsep(&rest, ":");
    char *controllers = rest ? strsep(&rest, ":") : NULL;
    if (!rest)
        return UINT64_MAX;
    const bool second = *controllers == '\0';
    bool memory = false;
    for (const char *one; (one = strsep(&controllers, ","));)
        memory |= strcmp(one, "memory") == 0;
    const char *const under = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    if ((!second && !memory) ||
        snprintf(mount, sizeof mount, "%s%s", root, under) >= (int)sizeof mount)
        return UINT64_MAX;
    return least_limit(mount, rest, second ? "memory.max" : "memory.limit_in_bytes");
}

uint64_t mdnn_host_memory_bytes(const char *root)
{
    uint64_t least = machine_bytes();
    char path[PATH_MAX], line[2 * PATH_MAX];
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path)
        return least;
    FILE *const file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        const uint64_t limit = limit_of_line(root, line);
        least = limit < least ? limit : least;
    }
    if (file)
        (void)fclose(file);
    return least;
}
