/* How much memory of the host the process may use. Opens, reads and closes files; for set-up. */
#ifndef MDNN_HOST_MEMORY_H
#define MDNN_HOST_MEMORY_H

#include <stdint.h>

#include "config/node_registry.h"

/* What the machine has, or the least limit among the process's control groups, versions 1 and 2,
 * and the groups around them, if that is less: a container's. `root`: "" but in tests, which bring
 * files of their own. UINT64_MAX: not known. */
uint64_t mdnn_host_memory_bytes(const char *root);

/* The same, each limit with those whom it binds: the machine's with scope 0, and the least ones of
 * control groups, each with a number that all processes in the group give it. */
void mdnn_host_memory_limits(const char *root, mdnn_node_limits_t *limits);

#endif
