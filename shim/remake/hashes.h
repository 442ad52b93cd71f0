/* Hashes of contents, taken on the device (shim/real/kernels.h). A slot has a place for those of a launch's operands, in
 * device memory and in pinned memory, to which they are copied behind the last of them. A slot that was given back
 * serves again once the work that may still write it is over. The caller has entered the device. */
#ifndef MDNN_HASHES_H
#define MDNN_HASHES_H

#include "shim/remake/slots.h"
#include "shim/vmem/virtual_device.h"

enum { MDNN_HASHES_OF_A_SLOT = 1 + MDNN_MAKING_INPUTS };

/* What the slots take of the device, and as much of pinned memory. */
uint64_t mdnn_hashes_bytes(void);
/* `memory` and `pinned`: so many bytes on the device and of the host, which the slots have until they end. */
void mdnn_hashes_begin(const mdnn_driver_t *driver, uint64_t memory, void *pinned);
/* The device was reset. */
void mdnn_hashes_forget(void);

/* MDNN_NO_SLOT: there is none now. */
int mdnn_hashes_take(void);
/* `end`: of all work on it. */
void mdnn_hashes_give(int slot, mdnn_stream_point_t end);

/* Whether half of them are taken: the others are for what cannot do without. */
bool mdnn_hashes_are_many(void);
/* Another number after each reset, when no slot of before is valid. */
unsigned mdnn_hashes_generation(void);

/* These enqueue. false: a call failed. */
bool mdnn_hashes_clear(int slot, CUstream stream);
bool mdnn_hashes_add(int slot, size_t place, const mdnn_memory_span_t *span, CUstream stream);
/* Copies the first `count` hashes to pinned memory. */
bool mdnn_hashes_copy(int slot, size_t count, CUstream stream);
/* Ends the context with an error unless both slots' first hashes are the same. */
bool mdnn_hashes_demand_equal(int now, int then, CUstream stream);

/* In pinned memory; zeros until something was copied there since it was taken. */
const mdnn_memory_hash_t *mdnn_hashes_of(int slot);

#endif
