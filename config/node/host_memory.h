/* How much memory of the host the process may use. The functions open, read and close files, and are called at
 * set-up. */
#ifndef MDNN_HOST_MEMORY_H
#define MDNN_HOST_MEMORY_H

#include <stdint.h>

#include "config/node/node_registry.h"

/* The memory of the machine or, if that is less, the smallest limit among the process's control
 * groups (versions 1 and 2) and the groups around them, such as the limit of a container. `root` is
 * "" except in tests, which bring files of their own. UINT64_MAX: not known. */
uint64_t mdnn_host_memory_bytes(const char *root);

/* The same, with the scope of each limit: 0 for the limit of the machine, and for the smallest
 * limits of control groups a number on which all processes in the group agree. */
void mdnn_host_memory_limits(const char *root, mdnn_node_limits_t *limits);

#endif
