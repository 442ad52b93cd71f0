/* Captures under way. The functions about captures that hooks call are in shim/vmem/virtual_memory.h. */
#ifndef MDNN_VIRTUAL_CAPTURES_H
#define MDNN_VIRTUAL_CAPTURES_H

#include <cuda.h>

/* The capture under way that began in the stream; 0: none. */
unsigned long long mdnn_virtual_capture_in(CUstream stream);

#endif
