#include "config/node/host_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* The least ones are kept. 0 is no scope. */
static void add_limit(mdnn_node_limits_t *limits, uint64_t scope, uint64_t bytes)
{
    size_t at = limits->count;
    if (at == MDNN_NODE_LIMITS)
        for (size_t i = at = 0; i < MDNN_NODE_LIMITS; i++)
            at = limits->limits[i].bytes > limits->limits[at].bytes ? i : at;
    else
        limits->limits[limits->count++].bytes = UINT64_MAX;
    if (bytes < limits->limits[at].bytes)
        limits->limits[at] = (mdnn_node_limit_t){scope, bytes};
}

/* The number of a group's folder is the group's own for as long as it is there. */
static uint64_t scope_of(const char *file)
{
    struct stat found;
    return stat(file, &found) == 0 ? (uint64_t)found.st_ino ^ (uint64_t)found.st_dev << 48 : 0;
}

/* The limit of a group and all groups around it. In a container the path may be the host's, which does not exist there:
 * then only the mount's own limit counts. `path` is cut. No path is on the stack, which may be a small thread's. */
static void add_groups(const char *mount, char *path, const char *name, mdnn_node_limits_t *limits)
{
    for (char *cut = path;; *cut = '\0') {
        char *file;
        if (asprintf(&file, "%s%s/%s", mount, path, name) >= 0) {
            const uint64_t limit = limit_in(file);
            if (limit < machine_bytes())
                add_limit(limits, scope_of(file), limit);
            free(file);
        }
        if (!(cut = strrchr(path, '/')))
            return;
    }
}

/* A line of /proc/self/cgroup: number:controllers:path, without controllers for version 2. */
static void add_line(const char *root, char *line, mdnn_node_limits_t *limits)
{
    char *mount, *rest = line;
    line[strcspn(line, "\n")] = '\0';
    (void)strsep(&rest, ":");
    char *controllers = rest ? strsep(&rest, ":") : NULL;
    if (!rest)
        return;
    const bool second = *controllers == '\0';
    bool memory = false;
    for (const char *one; (one = strsep(&controllers, ","));)
        memory |= strcmp(one, "memory") == 0;
    const char *const under = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    if ((!second && !memory) || asprintf(&mount, "%s%s", root, under) < 0)
        return;
    add_groups(mount, rest, second ? "memory.max" : "memory.limit_in_bytes", limits);
    free(mount);
}

void mdnn_host_memory_limits(const char *root, mdnn_node_limits_t *limits)
{
    char *path, *line = NULL;
    size_t bytes = 0;
    *limits = (mdnn_node_limits_t){.count = 1, .limits = {{0, machine_bytes()}}};
    if (asprintf(&path, "%s/proc/self/cgroup", root) < 0)
        return;
    FILE *const file = fopen(path, "re");
    free(path);
    while (file && getline(&line, &bytes, file) >= 0)
        add_line(root, line, limits);
    free(line);
    if (file)
        (void)fclose(file);
}

uint64_t mdnn_host_memory_bytes(const char *root)
{
    mdnn_node_limits_t limits;
    uint64_t least = UINT64_MAX;
    mdnn_host_memory_limits(root, &limits);
    for (size_t i = 0; i < limits.count; i++)
        least = limits.limits[i].bytes < least ? limits.limits[i].bytes : least;
    return least;
}
