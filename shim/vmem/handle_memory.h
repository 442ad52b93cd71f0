/* Device memory of cuMemCreate: it counts in the budget from its creation until all handles are
 * released and all mappings unmapped, in whatever order. Handles of other processes' memory, which
 * were imported, and of host memory are not known here, and count for nothing.
 *
 * Around each of the real calls, in this order: begin (or take), the call, end with its success. What
 * begin returns is for that end alone; NULL where there is nothing to count. Thread-safe. */
#ifndef MDNN_HANDLE_MEMORY_H
#define MDNN_HANDLE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

typedef struct mdnn_handle mdnn_handle_t;
typedef struct mdnn_mapping mdnn_mapping_t;

/* cuMemCreate. As mdnn_other_begin. */
CUresult mdnn_handle_begin(CUdevice device, uint64_t bytes, mdnn_handle_t **made);
void mdnn_handle_made(mdnn_handle_t *made, CUmemGenericAllocationHandle handle, bool success);
/* cuMemRelease */
mdnn_handle_t *mdnn_handle_take(CUmemGenericAllocationHandle handle);
void mdnn_handle_released(mdnn_handle_t *taken, bool success);
/* cuMemMap. Without host memory for the note *made is NULL, and the result the call's. */
CUresult mdnn_mapping_begin(CUmemGenericAllocationHandle handle, mdnn_mapping_t **made);
void mdnn_mapping_made(mdnn_mapping_t *made, CUdeviceptr address, uint64_t bytes, bool success);
/* cuMemUnmap: all mappings in there. */
mdnn_mapping_t *mdnn_mapping_take(CUdeviceptr address, uint64_t bytes);
void mdnn_mapping_ended(mdnn_mapping_t *taken, bool success);
/* cuMemRetainAllocationHandle: one more handle, or once more the same, of what is mapped around the
 * address. */
CUresult mdnn_handle_retain_begin(CUdeviceptr address, mdnn_handle_t **made);
/* The driver keeps the memory in a way that nobody sees end: it counts for as long as the process
 * lives. */
void mdnn_handle_keep(CUmemGenericAllocationHandle handle);

/* Such memory lives through a reset of its device: around the real call. What is there counts again
 * after it. */
void mdnn_handles_device_ends(CUdevice device);
void mdnn_handles_device_ended(CUdevice device);

#endif
