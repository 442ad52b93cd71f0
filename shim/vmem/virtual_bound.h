/* Allocations that end with a context of the program's own. Thread-safe, with a lock of its own.
 * What a context that was destroyed takes with it is asked for by hooks (mdnn_virtual_take_bound). */
#ifndef MDNN_VIRTUAL_BOUND_H
#define MDNN_VIRTUAL_BOUND_H

#include <stdint.h>

#include <cuda.h>

/* The allocation at `address` ends with `context`, one of the program's own; does so no more. */
void mdnn_virtual_bind(CUcontext context, CUdeviceptr address);
void mdnn_virtual_unbind(CUdeviceptr address);
/* The same of all that lies there. */
void mdnn_virtual_unbind_all(uint64_t start, uint64_t bytes);

#endif
