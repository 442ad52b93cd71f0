/* What all processes of a user hold together on this machine: bytes of pinned host memory.
 *
 * A small file in shared memory, mapped by every process that pins (docs/design/locks-and-files.md). Each process has
 * an entry that only it changes, so there is no lock that a killed process could hold. An entry
 * counts as long as the process lives that it names, in the program that it ran then: one that was
 * killed, or that has become another program by exec, counts no more, and who comes next takes its
 * entry over.
 *
 * A process adds to its entry first and then adds up: processes that take at the same time may all be
 * refused, but never have more than the limit together.
 *
 * Thread-safe. In a forked child nothing is taken and nothing given. */
#ifndef MDNN_NODE_REGISTRY_H
#define MDNN_NODE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_node_registry mdnn_node_registry_t;

enum { MDNN_NODE_LIMITS = 4 };

/* `scope`: a group of processes that share a limit (a control group); 0: all of the user's. */
typedef struct mdnn_node_limit {
    uint64_t scope;
    uint64_t bytes;
} mdnn_node_limit_t;

typedef struct mdnn_node_limits {
    mdnn_node_limit_t limits[MDNN_NODE_LIMITS];
    size_t count;
} mdnn_node_limits_t;

/* The registry in `folder`, made if it is not there; of its limits the scopes stand in the process's
 * entry. Opens, maps and closes files; nothing is open afterwards. UNSUPPORTED: what is there belongs
 * to somebody else. IO. OUT_OF_MEMORY: too many processes. The registry lives as long as the process.
 */
mdnn_status_t mdnn_node_registry_open(const char *folder, const mdnn_node_limits_t *limits,
                                      mdnn_node_registry_t **registry);
/* Gives everything back. For tests. */
void mdnn_node_registry_close(mdnn_node_registry_t *registry);

/* True if these bytes are within all limits, and then they are counted. */
bool mdnn_node_registry_take(mdnn_node_registry_t *registry, uint64_t bytes);
void mdnn_node_registry_give(mdnn_node_registry_t *registry, uint64_t bytes);
/* Whether they would be, now. */
bool mdnn_node_registry_has_room(mdnn_node_registry_t *registry, uint64_t bytes);
/* What all processes of a scope hold. */
uint64_t mdnn_node_registry_bytes(mdnn_node_registry_t *registry, uint64_t scope);

#endif
