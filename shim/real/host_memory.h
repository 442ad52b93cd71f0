/* The program's pinned memory of the host. Kernels reach it at the addresses that the host uses, so a table of pointers
 * may lie there. Thread-safe. */
#ifndef MDNN_HOST_MEMORY_H
#define MDNN_HOST_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* Called after the memory was pinned, in the current context, with which it ends. */
void mdnn_host_memory_begins(const void *start, size_t bytes);
/* Called before it ends, since it may not be read any more then. */
void mdnn_host_memory_ends(const void *start);
void mdnn_host_memory_context_ends(CUcontext context);
void mdnn_host_memory_device_ends(CUdevice device);

/* All of it lies here. */
extern _Atomic uint64_t mdnn_host_memory_low, mdnn_host_memory_high;

/* Whether it may be an address of such memory; false is certain, but for memory that begins at this moment. */
static inline bool mdnn_host_memory_may_hold(uint64_t address)
{
    return address < atomic_load_explicit(&mdnn_host_memory_high, memory_order_relaxed) &&
           address >= atomic_load_explicit(&mdnn_host_memory_low, memory_order_relaxed);
}

/* Calls `visit` for each word of the memory at `address`, up to its end and for `bytes` at most; not at all if no such
 * memory is there. `visit` may take no lock and may not call CUDA. */
void mdnn_host_memory_words(uint64_t address, size_t bytes,
                            void (*visit)(void *context, uint64_t word), void *context);

#endif
