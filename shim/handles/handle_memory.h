/* Device memory of cuMemCreate counts against the budget from its creation until all handles are released and all
 * mappings are unmapped, in any order. Imported handles of other processes' memory, and handles of host memory, are not
 * known here and do not count.
 *
 * Each real call is surrounded by these functions in this order: begin (or take), the call, end with its success. What
 * begin returns is only for the end that belongs to it; NULL: there is nothing to count. Thread-safe. */
#ifndef MDNN_HANDLE_MEMORY_H
#define MDNN_HANDLE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

typedef struct mdnn_handle mdnn_handle_t;
typedef struct mdnn_mapping mdnn_mapping_t;

/* For cuMemCreate. Like mdnn_other_begin. */
CUresult mdnn_handle_begin(CUdevice device, uint64_t bytes, mdnn_handle_t **made);
void mdnn_handle_made(mdnn_handle_t *made, CUmemGenericAllocationHandle handle, bool success);
/* Notes that the driver has returned the handle once more, if the handle is known. false: it is another process's. */
bool mdnn_handle_again(CUmemGenericAllocationHandle handle);
/* For cuMemRelease. */
mdnn_handle_t *mdnn_handle_take(CUmemGenericAllocationHandle handle);
void mdnn_handle_released(mdnn_handle_t *taken, bool success);
/* For cuMemMap. If host memory is short, *made is NULL, and the result is the one to return to the program. */
CUresult mdnn_mapping_begin(CUmemGenericAllocationHandle handle, mdnn_mapping_t **made);
void mdnn_mapping_made(mdnn_mapping_t *made, CUdeviceptr address, uint64_t bytes, bool success);
/* For cuMemUnmap: all mappings in the addresses. */
mdnn_mapping_t *mdnn_mapping_take(CUdeviceptr address, uint64_t bytes);
void mdnn_mapping_ended(mdnn_mapping_t *taken, bool success);
/* For cuMemRetainAllocationHandle: one more handle, or one more count of the same handle, of the
 * memory that is mapped around the address. */
CUresult mdnn_handle_retain_begin(CUdeviceptr address, mdnn_handle_t **made);
/* The driver keeps the memory in a way whose end nobody sees, so it counts as long as the process
 * lives. */
void mdnn_handle_keep(CUmemGenericAllocationHandle handle);

/* Called around the real call that resets a device. Such memory survives a reset, and counts again
 * after it. */
void mdnn_handles_device_ends(CUdevice device);
void mdnn_handles_device_ended(CUdevice device);

#endif
