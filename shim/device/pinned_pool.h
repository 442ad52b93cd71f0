/* Pinned (page-locked) host memory in slots of equal size, made ahead of need; content of the device's memory that is
 * away lies there.
 *
 * A thread of the library creates pieces of 64 MiB or more and cuts them into slots. The pieces are handles of the
 * driver's virtual memory API on the device's NUMA node: creating them disturbs nobody, while cuMemHostAlloc stops
 * every launch of the process (docs/benchmarks/h200-virtual-memory.md). Without such handles the thread uses
 * cuMemHostAlloc. On the simulated GPU, and once the thread has ended in an exit handler, the request for a slot makes
 * a piece.
 *
 * Slots that can also be mapped at other addresses are one handle each, since only whole handles can be mapped.
 *
 * Nothing is given back to the driver before the pool ends. The thread blocks all signals, starts at the first
 * request for a slot and stops in an exit handler. Thread-safe: it has a lock of its own, which is
 * not held while the driver works. */
#ifndef MDNN_PINNED_POOL_H
#define MDNN_PINNED_POOL_H

#include "config/node/node_registry.h"
#include "config/status.h"
#include "shim/real/real.h"

typedef struct mdnn_pinned_pool mdnn_pinned_pool_t;

/* What the pools of a process share: the limit of the process, and the registry of limits that several processes share
 * (config/node/node_registry.h). */
typedef struct mdnn_host_account {
    uint64_t limit_bytes;           /* on made_bytes */
    mdnn_node_registry_t *registry; /* NULL: the process shares no limit */
    _Atomic uint64_t made_bytes;    /* in all pools */
} mdnn_host_account_t;

typedef struct mdnn_pinned_pool_config {
    const mdnn_driver_t *driver;
    CUdevice device;
    CUcontext context;
    uint64_t slot_bytes;          /* a power of two, at least 2 MiB */
    mdnn_host_account_t *account; /* borrowed until destroy */
    bool background;              /* the thread makes slots; false: the request for a slot does */
    bool mappable;                /* each slot can be mapped at another address, too */
    bool is_trial;                /* failures are not logged: the caller reports them */
} mdnn_pinned_pool_config_t;

/* OUT_OF_MEMORY, DEVICE. UNSUPPORTED: mappable, but the driver has no such handles. */
mdnn_status_t mdnn_pinned_pool_create(const mdnn_pinned_pool_config_t *config,
                                      mdnn_pinned_pool_t **slots);
/* Ends the thread; gives all memory back to the driver. Accepts NULL. */
void mdnn_pinned_pool_destroy(mdnn_pinned_pool_t *slots);

/* Makes the pool grow to at least this many bytes, within the limit; a later call can only raise the number.
 * Memory that other pools of the account took is not available. */
void mdnn_pinned_pool_want(mdnn_pinned_pool_t *slots, uint64_t bytes);

/* Takes a slot. *slot: its address, for copies to and from the device (cuMemcpy*Async). BUSY: none is free, and more
 * are being made. OUT_OF_MEMORY: the limit is reached, or the host has no more. */
mdnn_status_t mdnn_pinned_pool_take(mdnn_pinned_pool_t *slots, uint64_t *slot);
void mdnn_pinned_pool_give(mdnn_pinned_pool_t *slots, uint64_t slot);
/* Waits until take would not answer BUSY. */
mdnn_status_t mdnn_pinned_pool_wait(mdnn_pinned_pool_t *slots);

/* Maps a slot, which the caller took from a pool that is `mappable`, at `address` as well, for the devices that
 * `access` names, until unmap. A map that fails has changed nothing. One thread at a time. */
CUresult mdnn_pinned_pool_map(mdnn_pinned_pool_t *slots, uint64_t slot, CUdeviceptr address,
                              const CUmemAccessDesc *access, size_t count);
CUresult mdnn_pinned_pool_unmap(mdnn_pinned_pool_t *slots, uint64_t slot);
/* Gives further access to all slots that are mapped by mdnn_pinned_pool_map. */
CUresult mdnn_pinned_pool_let(mdnn_pinned_pool_t *slots, const CUmemAccessDesc *access);

/* Why there are no more slots; CUDA_SUCCESS: there may be more. */
CUresult mdnn_pinned_pool_error(mdnn_pinned_pool_t *slots);
uint64_t mdnn_pinned_pool_bytes(mdnn_pinned_pool_t *slots); /* made so far */

/* Ends the threads of all pools, for good, and waits until none is in a call of the driver. The pools go on. */
void mdnn_pinned_pool_stop_all(void);

#endif
