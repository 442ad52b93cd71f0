/* cudaMalloc, cudaFree, cudaMemGetInfo: counted and forwarded. */
#include "config/fault.h"
#include "config/statistics.h"
#include "shim/interpose/hooks.h"
#include "shim/real/process.h"

cudaError_t mdnn_hook_cudaMalloc(void **pointer, size_t bytes)
{
    const mdnn_cudart_t *const real = mdnn_real_cudart();
    if (!real || !real->cudaMalloc)
        return cudaErrorInitializationError;
    if (!mdnn_guard_enter())
        return real->cudaMalloc(pointer, bytes);
    const cudaError_t error = real->cudaMalloc(pointer, bytes);
    mdnn_count(MDNN_COUNTER_cuda_malloc, 1);
    if (error == cudaSuccess)
        mdnn_count(MDNN_COUNTER_cuda_malloc_bytes, bytes);
    mdnn_guard_leave();
    return error;
}

cudaError_t mdnn_hook_cudaFree(void *pointer)
{
    const mdnn_cudart_t *const real = mdnn_real_cudart();
    if (!real || !real->cudaFree)
        return cudaErrorInitializationError;
    if (!mdnn_guard_enter())
        return real->cudaFree(pointer);
    mdnn_count(MDNN_COUNTER_cuda_free, 1);
    const cudaError_t error = real->cudaFree(pointer);
    mdnn_guard_leave();
    return error;
}

cudaError_t mdnn_hook_cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const mdnn_cudart_t *const real = mdnn_real_cudart();
    if (!real || !real->cudaMemGetInfo)
        return cudaErrorInitializationError;
    if (!mdnn_guard_enter())
        return real->cudaMemGetInfo(free_bytes, total_bytes);
    mdnn_count(MDNN_COUNTER_cuda_mem_get_info, 1);
    const cudaError_t error = real->cudaMemGetInfo(free_bytes, total_bytes);
    if (MDNN_FAULT(NULL_DEREFERENCE) && *free_bytes > *total_bytes)
        *free_bytes = *total_bytes;
    mdnn_guard_leave();
    return error;
}
