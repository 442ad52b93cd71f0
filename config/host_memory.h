/* How much memory of the host the process may use. Opens, reads and closes files; for set-up. */
#ifndef MDNN_HOST_MEMORY_H
#define MDNN_HOST_MEMORY_H

#include <stdint.h>

/* What the machine has, or the least limit among the process's control groups, versions 1 and 2,
 * and the groups around them, if that is less: a container's. `root`: "" but in tests, which bring
 * files of their own. UINT64_MAX: not known. */
uint64_t mdnn_host_memory_bytes(const char *root);

#endif
