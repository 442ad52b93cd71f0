/* The layout of the registry that processes on one host share in a mapped file (config/node/node_registry.h,
 * node_devices.h). Processes use it without a lock between them. */
#ifndef MDNN_NODE_REGISTRY_INTERNAL_H
#define MDNN_NODE_REGISTRY_INTERNAL_H

#include "config/node/node_registry.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "config/lock.h"
#include "config/node/node_devices.h"

/* ---- the layout: version 1 ---- */

enum { NODE_VERSION = 1, NODE_HEADER_BYTES = 4096, NODE_ENTRIES = 512 };

typedef struct registry_header {
    _Atomic uint64_t magic; /* written last; 0: the file is new */
    _Atomic uint32_t version;
    _Atomic uint32_t header_bytes;
    _Atomic uint32_t entry_bytes;
    _Atomic uint32_t entries;
} registry_header_t;

/* Words of a device's entry; 0 in the entry of a process. */
enum {
    WORD_DEVICE,   /* which GPU */
    WORD_PLACE,    /* which switch it seems to be behind */
    WORD_ALONE,    /* rates while nobody else copied: mdnn_node_rates_t, out in the upper half */
    WORD_TOGETHER, /* rates while others copied, too; likewise */
    WORD_WORK,     /* what it repeats, and in how much memory */
    WORD_JOINED,   /* when it joined, which gives devices their order */
    WORD_MOVES,    /* copies under way; bit 0: out; bit 1: in */
    WORD_SPARE,
    WORD_SPARE_TOO,
    WORDS
};

/* The entry of a process, or of a device that a process uses. All zero: free. */
typedef struct registry_entry {
    _Atomic uint64_t process; /* who it is; 0: nobody */
    _Atomic uint64_t pinned_bytes;
    _Atomic uint64_t scopes[MDNN_NODE_LIMITS];
    _Atomic uint64_t words[WORDS];
    _Atomic uint64_t claimed; /* 1: the rest of the entry is the process's own */
} registry_entry_t;

typedef struct registry_map {
    registry_header_t header;
    unsigned char spare[NODE_HEADER_BYTES - sizeof(registry_header_t)];
    registry_entry_t entries[NODE_ENTRIES];
} registry_map_t;

_Static_assert(sizeof(registry_entry_t) == 128, "entries of version 1 have 128 bytes");

struct mdnn_node_device {
    mdnn_node_registry_t *registry;
    registry_entry_t *entry; /* NULL: the registry has no room for it */
    uint64_t words[WORDS];   /* what the entry says */
    mdnn_node_device_t *next;
};

struct mdnn_node_registry {
    mdnn_lock_t lock;
    char path[PATH_MAX];
    mdnn_node_limits_t limits;
    pid_t pid;
    uint64_t process; /* who we are */
    registry_map_t *map;
    registry_entry_t *own;
    mdnn_node_device_t *devices;
    dev_t device; /* `device` and `inode` are those of the mapped file */
    ino_t inode;
};

/* ---- node_entries.c ---- */

/* Who this process is: its number, when it started, and what changes with exec. 0: the system does not say. */
uint64_t mdnn_node_own_process(void);
/* Whether this process lives and still runs the program that it ran when it took the entry. Reads /proc. */
bool mdnn_node_is_alive(uint64_t process);

/* Takes the entry over from the process `before`; its words are then zero. false: another process was faster. The entry
 * counts once `claimed` is 1. */
bool mdnn_node_claim(mdnn_node_registry_t *registry, registry_entry_t *entry, uint64_t before);

/* ---- node_devices.c ---- */

/* After the registry moved to another file: takes an entry there for each device. Locked. */
void mdnn_node_devices_move(mdnn_node_registry_t *registry);
/* Frees the entries. Locked, or nobody else knows the registry. */
void mdnn_node_devices_end(mdnn_node_registry_t *registry);

#endif
