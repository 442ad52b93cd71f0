#ifndef MDNN_PATHS_H
#define MDNN_PATHS_H

#include <stddef.h>

/* Makes the file pattern `pattern` (see mdnn_expand_pattern) independent of later chdir calls of
 * the host. Stays relative if the directory cannot be told or `out` is too small for it. */
void mdnn_absolute_pattern(const char *pattern, char *out, size_t bytes);

#endif
