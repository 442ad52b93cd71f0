/* libcudart.so.13 */
#include "test/standin/standin.h"

#define STANDIN_FAILURE cudaErrorUnknown

cudaError_t CUDARTAPI cudaMalloc(void **pointer, size_t bytes)
{
    (void)bytes;
    STANDIN_CALL(cudaMalloc);
    *pointer = &standin;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFree(void *pointer)
{
    (void)pointer;
    STANDIN_CALL(cudaFree);
    return cudaSuccess;
}

/* Either may be NULL, as with the real one. */
cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    STANDIN_CALL(cudaMemGetInfo);
    if (free_bytes)
        *free_bytes = standin.free_bytes;
    if (total_bytes)
        *total_bytes = (size_t)64 << 30;
    return cudaSuccess;
}
