/* Promises of memory, and addresses that the program reserves itself, on devices under a budget. An allocation at such
 * addresses is found, named and moved like any other; mdnn_virtual_free ends it, and its addresses stay. Thread-safe;
 * functions that wait say so. CUDA_ERROR_NOT_SUPPORTED: the library cannot do this now, so the driver has to. */
#ifndef MDNN_VIRTUAL_ADDRESSES_H
#define MDNN_VIRTUAL_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Reserves addresses on the current device, without memory. Their start is a multiple of `alignment` (0: anywhere). */
CUresult mdnn_virtual_reserve_addresses(uint64_t bytes, uint64_t alignment, CUdevice *device,
                                        CUdeviceptr *address);
void mdnn_virtual_give_addresses(CUdeviceptr address);

/* Promises memory, which counts as allocated from now on. CUDA_ERROR_OUT_OF_MEMORY: the budget could never hold it, and
 * the log says so. */
CUresult mdnn_virtual_promise(CUdevice device, uint64_t bytes);
void mdnn_virtual_end_promise(CUdevice device, uint64_t bytes);
/* Makes the promised memory an allocation that fills these addresses. Waits for the end of an earlier allocation
 * there. */
CUresult mdnn_virtual_allocate_at(CUdeviceptr address, uint64_t bytes);
/* Ends the allocation as cuMemFree does. */
CUresult mdnn_virtual_end_at(CUdeviceptr address);
/* Waits until nothing is mapped at addresses where the allocation has ended. */
CUresult mdnn_virtual_await_addresses(CUdeviceptr address);

/* Keeps the bytes of one chunk of the budget free, so that memory that outlives a reset of the device cannot take all
 * of the budget. Returns how many bytes, which mdnn_virtual_give_back frees again; 0: that was not possible. */
uint64_t mdnn_virtual_keep_chunk(CUdevice device);
/* Whether a graph or a capture holds the allocation. */
bool mdnn_virtual_is_held(CUdeviceptr address);
/* Waits for all work on the allocation, copies its content to memory that is not virtual, and waits for the copy. */
CUresult mdnn_virtual_copy_out(CUdeviceptr address, CUdeviceptr to, uint64_t bytes);

#endif
