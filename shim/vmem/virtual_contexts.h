/* Allocations that end with a context of the program's own. Thread-safe, with a lock of its own. */
#ifndef MDNN_VIRTUAL_CONTEXTS_H
#define MDNN_VIRTUAL_CONTEXTS_H

#include <stdint.h>

#include <cuda.h>

/* The allocation at `address` ends with `context`, one of the program's own; does so no more. */
void mdnn_virtual_bind(CUcontext context, CUdeviceptr address);
void mdnn_virtual_unbind(CUdeviceptr address);
/* The same of all that lies there. */
void mdnn_virtual_unbind_all(uint64_t start, uint64_t bytes);

#endif
