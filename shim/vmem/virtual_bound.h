/* Allocations that end with one of the program's own contexts. Thread-safe, with a lock of its own.
 * Hooks use mdnn_virtual_take_bound to find the allocations that a destroyed context takes with
 * it. */
#ifndef MDNN_VIRTUAL_BOUND_H
#define MDNN_VIRTUAL_BOUND_H

#include <stdint.h>

#include <cuda.h>

/* Bind the allocation at `address` to `context`, one of the program's own, with which it ends; and
 * unbind it. */
void mdnn_virtual_bind(CUcontext context, CUdeviceptr address);
void mdnn_virtual_unbind(CUdeviceptr address);
/* Unbinds all allocations in these addresses. */
void mdnn_virtual_unbind_all(uint64_t start, uint64_t bytes);

#endif
