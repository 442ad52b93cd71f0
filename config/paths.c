#include "config/paths.h"

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
