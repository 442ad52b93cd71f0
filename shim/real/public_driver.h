/* Functions of the driver as the program calls them, by their exported names. Our own operations on
 * memory that may be virtual use them, so that they are named and counted like the program's. */
#ifndef MDNN_PUBLIC_DRIVER_H
#define MDNN_PUBLIC_DRIVER_H

#include <cuda.h>

/* The symbols' names are macros in cuda.h. */
CUresult mdnn_public_launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, CUstream stream, void **parameters,
                            void **extra) __asm__("cuLaunchKernel");
CUresult mdnn_public_copy_to_device(CUdeviceptr to, const void *from, size_t bytes,
                                    CUstream stream) __asm__("cuMemcpyHtoDAsync_v2");
CUresult mdnn_public_copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                    CUstream stream) __asm__("cuMemcpyDtoDAsync_v2");
CUresult mdnn_public_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                          CUstream stream) __asm__("cuMemcpyAsync");
CUresult mdnn_public_wait_for_stream(CUstream stream) __asm__("cuStreamSynchronize");

#endif
