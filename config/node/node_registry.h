/* The bytes of pinned host memory that all processes of a user hold together on this machine.
 *
 * The registry is a small file in shared memory that every process maps when it pins memory
 * (docs/design/locks-and-files.md). Each process has an entry that only it changes, so there is no lock that a killed
 * process could hold. An entry counts as long as its process lives and runs the same program. The entry of a process
 * that was killed, or that has become another program by exec, does not count, and the next process takes it over.
 *
 * A process adds to its own entry first and then adds up all entries. Processes that take memory at the same time may
 * all be refused, but together they never exceed the limit.
 *
 * Thread-safe. A forked child takes and gives back nothing. */
#ifndef MDNN_NODE_REGISTRY_H
#define MDNN_NODE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_node_registry mdnn_node_registry_t;

enum { MDNN_NODE_LIMITS = 4 };

/* `scope`: a group of processes that share a limit (a control group); 0: all processes of the
 * user. */
typedef struct mdnn_node_limit {
    uint64_t scope;
    uint64_t bytes;
} mdnn_node_limit_t;

typedef struct mdnn_node_limits {
    mdnn_node_limit_t limits[MDNN_NODE_LIMITS];
    size_t count;
} mdnn_node_limits_t;

/* Opens the registry in `folder`, and creates it if it is not there. The process's entry holds the scopes of `limits`.
 * It opens, maps and closes files; nothing is open afterwards. UNSUPPORTED: the file belongs to somebody else. IO: a
 * file cannot be opened, read or mapped, for the reason in errno (0: none is known). OUT_OF_MEMORY: too many processes.
 * The registry lives until the process ends. */
mdnn_status_t mdnn_node_registry_open(const char *folder, const mdnn_node_limits_t *limits,
                                      mdnn_node_registry_t **registry);
/* Gives everything back. For tests. */
void mdnn_node_registry_close(mdnn_node_registry_t *registry);

/* Counts these bytes if they are within all limits, and returns whether they are. */
bool mdnn_node_registry_take(mdnn_node_registry_t *registry, uint64_t bytes);
void mdnn_node_registry_give(mdnn_node_registry_t *registry, uint64_t bytes);
/* Whether mdnn_node_registry_take would succeed now. */
bool mdnn_node_registry_has_room(mdnn_node_registry_t *registry, uint64_t bytes);
/* What all processes of a scope hold. */
uint64_t mdnn_node_registry_bytes(mdnn_node_registry_t *registry, uint64_t scope);

#endif
