/* Pinned host memory in equal slots, made ahead of need.
 *
 * Pieces of 64 MiB or more are created by a thread of ours, as handles of the driver's virtual
 * memory API on the device's NUMA node (that disturbs nobody, while cuMemHostAlloc stops every
 * launch of the process: docs/benchmarks/h200-virtual-memory.md), and cut into slots. Where there
 * are no such handles, cuMemHostAlloc it is. On the simulated GPU there is no thread: a piece is
 * made when a slot is asked for, so that runs repeat.
 *
 * Slots that can be mapped elsewhere, too, are a handle each, since handles map whole only.
 *
 * Nothing is ever given back to the driver. The thread blocks all signals, starts at the first
 * slot that is wanted and stops in an exit handler. Thread-safe: a lock of its own, not held while
 * the driver works. */
#ifndef MDNN_PINNED_POOL_H
#define MDNN_PINNED_POOL_H

#include "config/node_registry.h"
#include "config/status.h"
#include "shim/real/real.h"

typedef struct mdnn_pinned_pool mdnn_pinned_pool_t;

/* What all slots of the process share: one limit, and the limits that it shares with other processes.
 */
typedef struct mdnn_host_account {
    uint64_t limit_bytes;
    mdnn_node_registry_t *registry; /* NULL: it shares with nobody */
    _Atomic uint64_t made_bytes;
} mdnn_host_account_t;

typedef struct mdnn_pinned_pool_config {
    const mdnn_driver_t *driver;
    CUdevice device;
    CUcontext context;
    uint64_t slot_bytes;          /* a power of two, at least 2 MiB */
    mdnn_host_account_t *account; /* outlives it */
    bool background;              /* with the thread */
    bool mappable;                /* each slot can be mapped at another address, too */
} mdnn_pinned_pool_config_t;

/* OUT_OF_MEMORY, DEVICE. UNSUPPORTED: mappable, but the driver has no such handles. */
mdnn_status_t mdnn_pinned_pool_create(const mdnn_pinned_pool_config_t *config,
                                      mdnn_pinned_pool_t **slots);
/* Ends the thread; gives all memory back to the driver. For tests. Accepts NULL. */
void mdnn_pinned_pool_destroy(mdnn_pinned_pool_t *slots);

/* Have at least so many bytes made, within the limit; only grows. What other slots of the account
 * took is not to be had. */
void mdnn_pinned_pool_want(mdnn_pinned_pool_t *slots, uint64_t bytes);

/* *slot: an address for copies to and from the device (cuMemcpy*Async). BUSY: none is free, more
 * are being made (and more than asked for before). OUT_OF_MEMORY: no more than this. */
mdnn_status_t mdnn_pinned_pool_take(mdnn_pinned_pool_t *slots, uint64_t *slot);
void mdnn_pinned_pool_give(mdnn_pinned_pool_t *slots, uint64_t slot);
/* Waits until take would not answer BUSY. */
mdnn_status_t mdnn_pinned_pool_wait(mdnn_pinned_pool_t *slots);

/* A mappable slot that is taken is seen at `address`, too, by those that `access` names, until
 * unmap. A map that fails has changed nothing. Not for several threads at once. */
CUresult mdnn_pinned_pool_map(mdnn_pinned_pool_t *slots, uint64_t slot, CUdeviceptr address,
                              const CUmemAccessDesc *access, size_t count);
CUresult mdnn_pinned_pool_unmap(mdnn_pinned_pool_t *slots, uint64_t slot);
/* More access to all that is mapped so. */
CUresult mdnn_pinned_pool_let(mdnn_pinned_pool_t *slots, const CUmemAccessDesc *access);

/* Why there are no more; CUDA_SUCCESS: there may be. */
CUresult mdnn_pinned_pool_error(mdnn_pinned_pool_t *slots);
uint64_t mdnn_pinned_pool_bytes(mdnn_pinned_pool_t *slots); /* made so far */

/* Stops the threads of all, and waits until none is in a call of the driver. */
void mdnn_pinned_pool_stop_all(void);

#endif
