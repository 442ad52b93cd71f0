/* The program's pinned memory of the host. Kernels reach it at the addresses that the host uses, so a table of pointers
 * may lie there. Thread-safe. */
#ifndef MDNN_HOST_MEMORY_H
#define MDNN_HOST_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "shim/real/address_list.h"

/* Called after the memory was pinned in the current context; it ends with that context at the latest. */
void mdnn_host_memory_begins(const void *start, size_t bytes);
/* Called before the memory ends, since it may not be read after that. Returns its size; 0 if it is not known. */
size_t mdnn_host_memory_ends(const void *start);
void mdnn_host_memory_context_ends(CUcontext context);
void mdnn_host_memory_device_ends(CUdevice device);
/* The piece of pinned memory around the address. */
bool mdnn_host_memory_find(uint64_t address, uint64_t *start, uint64_t *end);

/* All of this memory lies between these two addresses. */
extern _Atomic uint64_t mdnn_host_memory_low, mdnn_host_memory_high;

/* Whether this may be an address of such memory. `false` is certain, except for memory that begins at this moment. */
static inline bool mdnn_host_memory_may_hold(uint64_t address)
{
    return address < atomic_load_explicit(&mdnn_host_memory_high, memory_order_relaxed) &&
           address >= atomic_load_explicit(&mdnn_host_memory_low, memory_order_relaxed);
}

/* Adds to the list the addresses that tables of pointers at `address` hold: words of the program's pinned memory there
 * for which `is_one` is true. Reads the first 4 KiB, and up to 64 KiB if such a word is among them; reads nothing if no
 * such memory is there. `is_one` may take no lock and may not call CUDA. Returns the end of what was read. */
uint64_t mdnn_host_memory_words(uint64_t address, bool (*is_one)(uint64_t word),
                                mdnn_address_list_t *list);

/* Reads memory of this process that may not exist or not be readable; returns how many words could be read. */
uint64_t mdnn_host_memory_read(uint64_t *words, uint64_t address, uint64_t wanted);

#endif
