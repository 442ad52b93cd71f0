#ifndef MDNN_PATHS_H
#define MDNN_PATHS_H

#include <stddef.h>

/* Makes the file pattern `pattern` (see mdnn_expand_pattern) independent of later chdir calls of
 * the program. It stays relative if the directory is unknown or `out` is too small. */
void mdnn_absolute_pattern(const char *pattern, char *out, size_t bytes);

/* Why no file can be made beside `file`, in words; NULL: its folder is there and may be written. errno stays. */
const char *mdnn_folder_trouble(const char *file);

#endif
