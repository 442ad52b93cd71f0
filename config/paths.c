#include "config/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void mdnn_absolute_pattern(const char *pattern, char *out, size_t bytes)
{
    char directory[PATH_MAX];
    if (*pattern != '/' && getcwd(directory, sizeof directory) != NULL) {
        size_t used = 0;
        for (const char *c = directory; *c != '\0' && used + 2 < bytes; c++) {
            /* A '%' in the directory is no placeholder. */
            if (*c == '%')
                out[used++] = '%';
            out[used++] = *c;
        }
        if (used + strlen(pattern) + 1 < bytes) {
            snprintf(out + used, bytes - used, "/%s", pattern);
            return;
        }
    }
    snprintf(out, bytes, "%s", pattern);
}

const char *mdnn_folder_trouble(const char *file)
{
    char folder[PATH_MAX];
    const char *const slash = strrchr(file, '/');
    const int length = slash ? (int)(slash - file) : 0;
    const int saved = errno;
    snprintf(folder, sizeof folder, "%.*s/", slash ? length : 1, slash ? file : ".");
    const char *const words = access(folder, W_OK | X_OK) == 0 ? NULL : strerrordesc_np(errno);
    errno = saved;
    return words;
}
