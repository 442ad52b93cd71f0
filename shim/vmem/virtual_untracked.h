/* Virtual memory for the hooks of libraries: for calls whose kernels use memory that none of their
 * parameters names (shim/interpose/library_hooks.def). */
#ifndef MDNN_VIRTUAL_UNTRACKED_H
#define MDNN_VIRTUAL_UNTRACKED_H

#include "shim/vmem/virtual_memory.h"

/* Whether there is any virtual memory to name. Costs two loads. */
bool mdnn_virtual_any(void);

/* Called when the thread is about to enqueue work in `stream` that may use any memory. Returns a device if everything
 * is resident and stays so until that work has ended; mdnn_virtual_untracked_end follows. NULL: the caller must name
 * the memory. *number: the stream's number. */
struct mdnn_virtual_device;
struct mdnn_virtual_device *mdnn_virtual_untracked_begin(CUstream stream, uint64_t *number);
void mdnn_virtual_untracked_end(struct mdnn_virtual_device *device, uint64_t number);
/* How many such calls the calling thread has between begin and end. */
uint32_t mdnn_virtual_untracked_open(void);

/* The starts of all live allocations, in memory that the caller frees. NULL: there are none, or
 * (*fits false) they do not fit in the budget together. */
uint64_t *mdnn_virtual_live(size_t *count, bool *fits);

/* Lets unnamed accesses be served from now on, as with safety = host. MDNN_STATUS_BUSY: an operation of another thread
 * does not end; the first call waits 10 s for that, later ones do not. */
mdnn_status_t mdnn_virtual_serve_all(void);
/* Whether unnamed accesses are served, by that function or by the option, on devices that can do so. Costs one load. */
bool mdnn_virtual_serves_all(void);
/* Whether they are served on every device. */
bool mdnn_virtual_all_serve(void);

/* Reads `words` of device memory as they are when all work that was enqueued in `stream` has
 * run. */
CUresult mdnn_virtual_read(uint64_t *words, const void *address, size_t count, CUstream stream);

/* Lets every device with virtual memory use the virtual memory of every other one that it can
 * reach. */
void mdnn_virtual_devices_meet(void);

/* Whether the allocation around `address` can be pinned and operations still have the room that
 * they needed so far. */
bool mdnn_virtual_can_stay(CUdeviceptr address);
/* The opposite of mdnn_virtual_pin. */
void mdnn_virtual_unpin(CUdeviceptr address);

#endif
