/* What the hooks of libraries ask of virtual memory: calls whose kernels use memory that none of
 * their parameters names (shim/interpose/library_hooks.def). */
#ifndef MDNN_VIRTUAL_UNTRACKED_H
#define MDNN_VIRTUAL_UNTRACKED_H

#include "shim/vmem/virtual_memory.h"

/* Whether there is virtual memory that anything could name. Two loads. */
bool mdnn_virtual_any(void);

/* The calling thread is about to enqueue work in `stream` that may use any memory. A device: all is
 * resident and stays so until that work has ended; mdnn_virtual_untracked_end follows. NULL: it has to
 * be named. *number: the stream's. */
struct mdnn_virtual_device;
struct mdnn_virtual_device *mdnn_virtual_untracked_begin(CUstream stream, uint64_t *number);
void mdnn_virtual_untracked_end(struct mdnn_virtual_device *device, uint64_t number);
/* Calls of the calling thread between the two. */
uint32_t mdnn_virtual_untracked_open(void);

/* Starts of everything that lives, in memory that is the caller's to free. NULL: nothing does, or
 * (*fits false) it does not fit in the budget at once. */
uint64_t *mdnn_virtual_live(size_t *count, bool *fits);

/* `words` of device memory as they are when all that was enqueued in `stream` has run. */
CUresult mdnn_virtual_read(uint64_t *words, const void *address, size_t count, CUstream stream);

/* Every device whose memory is virtual may use that of every other one, as far as they reach each
 * other. */
void mdnn_virtual_devices_meet(void);

/* Whether the allocation around `address` can be pinned and operations still have the room that
 * they needed so far. */
bool mdnn_virtual_can_stay(CUdeviceptr address);
/* The opposite of mdnn_virtual_pin. */
void mdnn_virtual_unpin(CUdeviceptr address);

#endif
