/* libcuda.so.1 */
#include <stdlib.h>
#include <string.h>

#include "test/standin/standin.h"

#define STANDIN_FAILURE CUDA_ERROR_UNKNOWN

standin_t standin = {.free_bytes = (uint64_t)64 << 30, .fail_function = STANDIN_FUNCTION_COUNT};

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context)
{
    STANDIN_CALL(cuCtxGetCurrent);
    *context = (CUcontext)&standin;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    STANDIN_CALL(cuCtxGetDevice);
    *device = standin.device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    (void)device;
    STANDIN_CALL(cuDeviceGetName);
    strncpy(name, "stand-in", (size_t)bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    STANDIN_CALL(cuDriverGetVersion);
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total)
{
    STANDIN_CALL(cuMemGetInfo);
    *available = standin.free_bytes;
    *total = (size_t)64 << 30;
    return CUDA_SUCCESS;
}

/* Addresses that nobody can touch, as aligned as a GPU's. */
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    static CUdeviceptr next = STANDIN_SCRATCH;
    STANDIN_CALL(cuMemAlloc);
    *address = next;
    next += (bytes + 511) / 512 * 512;
    return CUDA_SUCCESS;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
/* cuda.h renames some; the counter keeps the plain name. */
#define NOTHING(name, parameters)                                                                  \
    CUresult CUDAAPI name parameters                                                               \
    {                                                                                              \
        standin.calls[STANDIN_##name]++;                                                           \
        return standin_fails(STANDIN_##name) ? STANDIN_FAILURE : CUDA_SUCCESS;                     \
    }
NOTHING(cuMemFree, (CUdeviceptr address))
NOTHING(cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))
NOTHING(cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))
NOTHING(cuStreamQuery, (CUstream stream))
NOTHING(cuStreamSynchronize, (CUstream stream))
NOTHING(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))
NOTHING(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))
NOTHING(cuModuleUnload, (CUmodule module))
NOTHING(cuEventSynchronize, (CUevent event))
NOTHING(cuEventQuery, (CUevent event))

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags)
{
    static char streams[8]; /* one for each context is more than enough */
    static int made;
    (void)flags;
    STANDIN_CALL(cuStreamCreate);
    *stream = (CUstream)(void *)&streams[made++ % 8];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    STANDIN_CALL(cuStreamIsCapturing);
    *status = standin.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    STANDIN_CALL(cuModuleLoadData);
    *module = (CUmodule)&standin;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    STANDIN_CALL(cuModuleGetFunction);
    *function = (CUfunction)&standin;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                unsigned grid_z, unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned shared_bytes, CUstream stream,
                                void **parameters, void **extra)
{
    STANDIN_CALL(cuLaunchKernel);
    standin.now_us += 1;
    return CUDA_SUCCESS;
}

/* An event is the time of its recording. */
CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags)
{
    STANDIN_CALL(cuEventCreate);
    *event = (CUevent)calloc(1, sizeof(double));
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    STANDIN_CALL(cuEventRecord);
    *(double *)(void *)event = standin.now_us;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
    STANDIN_CALL(cuEventElapsedTime);
    *ms = (float)((*(double *)(void *)end - *(double *)(void *)begin) / 1000.0);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    free((void *)event); /* even if it is said to fail */
    STANDIN_CALL(cuEventDestroy);
    return CUDA_SUCCESS;
}
