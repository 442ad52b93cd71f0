/* The GPUs of all processes of a user on this machine, and what they do on their links to the host.
 *
 * Processes that train side by side move memory over links that some of their GPUs share. Each process puts an entry
 * for each device that it uses under a budget into the registry of the node (config/node/node_registry.h), and reads
 * those of the others. As for all entries there, only the owner changes an entry, so nobody waits for a process that is
 * gone: the entry of a dead process is not listed, and the next process that starts takes it over or frees it.
 *
 * Thread-safe. In a forked child nothing is changed. */
#ifndef MDNN_NODE_DEVICES_H
#define MDNN_NODE_DEVICES_H

#include "config/node/node_registry.h"

typedef struct mdnn_node_device mdnn_node_device_t;

/* Rates of copies from and to the device, in MB/s. 0: not measured. */
typedef struct mdnn_node_rates {
    uint32_t out, in;
} mdnn_node_rates_t;

/* An entry, as it was read. */
typedef struct mdnn_node_peer {
    uint64_t process; /* equal for devices of one process */
    uint64_t device;  /* which GPU: equal in all processes, never 0 */
    uint64_t place;   /* equal for devices on one link to the host; 0: not known */
    /* alone: while nobody else copied; together: while others copied, too */
    mdnn_node_rates_t alone, together;
    uint64_t work;   /* what it repeats, and its budget: mdnn_node_device_works; 0: not known */
    uint64_t joined; /* when the device joined */
    bool moves_out, moves_in; /* whether copies are under way now */
    bool is_own;              /* it is the device that was asked about */
} mdnn_node_peer_t;

enum { MDNN_NODE_PEERS = 64 };

/* Makes the device visible to others. OUT_OF_MEMORY: there are too many entries, or no memory. *joined belongs to the
 * registry and lives until mdnn_node_device_leave or the registry's end. */
mdnn_status_t mdnn_node_device_join(mdnn_node_registry_t *registry, uint64_t device, uint64_t place,
                                    mdnn_node_rates_t alone, mdnn_node_device_t **joined);
void mdnn_node_device_leave(mdnn_node_device_t *device); /* accepts NULL */

/* These change what others read of the device. They accept NULL. A call that changes nothing takes no lock. */
void mdnn_node_device_moves(mdnn_node_device_t *device, bool out, bool in);
void mdnn_node_device_together(mdnn_node_device_t *device, mdnn_node_rates_t rates);
void mdnn_node_device_works(mdnn_node_device_t *device, uint64_t work);

/* The devices of living processes, this one among them, in an order that is the same for all processes: by the time
 * when they joined, and at equal times by their place in the file. Returns how many there are, of which at most
 * `capacity` are listed. Reads /proc once for each. */
size_t mdnn_node_device_list(mdnn_node_device_t *device, mdnn_node_peer_t *peers, size_t capacity);

#endif
