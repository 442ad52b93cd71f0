/* The simulated CUDA runtime: what C programs and cuDNN use of it, over the driver. */
#include "test/sim/runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

static _Thread_local cudaError_t last_error;
static pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext
    contexts[MAX_DEVICES]; /* primary ones that this copy of the runtime has retained */

/* Errors after which the context does nothing more. */
static bool is_sticky(cudaError_t error)
{
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchFailure ||
           error == cudaErrorLaunchTimeout;
}

static cudaError_t done(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static cudaError_t use_device(int device)
{
    if (device < 0 || device >= MAX_DEVICES)
        return cudaErrorInvalidDevice;
    pthread_mutex_lock(&contexts_mutex);
    CUresult result = CUDA_SUCCESS;
    if (!contexts[device])
        result = sim_cuda.cuDevicePrimaryCtxRetain(&contexts[device], device);
    CUcontext context = contexts[device];
    pthread_mutex_unlock(&contexts_mutex);
    if (result == CUDA_SUCCESS)
        result = sim_cuda.cuCtxSetCurrent(context);
    return (cudaError_t)result;
}

/* Makes sure of the driver and of a current context: the thread's, or device 0's. */
static cudaError_t begin(void)
{
    cudaError_t error = sim_cuda_load();
    CUcontext context = NULL;
    if (error == cudaSuccess)
        error = (cudaError_t)sim_cuda.cuCtxGetCurrent(&context);
    return error == cudaSuccess && !context ? use_device(0) : error;
}

/* The body of a runtime function that is `expression` of driver functions. */
#define RUNTIME_CALL(expression)                                                                   \
    do {                                                                                           \
        cudaError_t error_ = begin();                                                              \
        return done(error_ != cudaSuccess ? error_ : (cudaError_t)(expression));                   \
    } while (0)

/* A whole one. */
#define ENTRY(name, parameters, expression)                                                        \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        RUNTIME_CALL(expression);                                                                  \
    }

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = sim_cuda_load();
    return done(error != cudaSuccess ? error : (cudaError_t)sim_cuda.cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = sim_cuda_load();
    return done(error != cudaSuccess ? error : use_device(device));
}

static CUresult current_device(int *device)
{
    CUcontext context = NULL;
    CUresult result = sim_cuda.cuCtxGetCurrent(&context);
    *device = 0;
    return result == CUDA_SUCCESS && context ? sim_cuda.cuCtxGetDevice(device) : result;
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = sim_cuda_load();
    if (error == cudaSuccess)
        error = device ? (cudaError_t)current_device(device) : cudaErrorInvalidValue;
    return done(error);
}

ENTRY(cudaDeviceSynchronize, (void), sim_cuda.cuCtxSynchronize())

static cudaError_t reset_device(void)
{
    CUcontext context = NULL;
    cudaError_t error = (cudaError_t)sim_cuda.cuCtxGetCurrent(&context);
    int device = 0;
    pthread_mutex_lock(&contexts_mutex);
    while (device < MAX_DEVICES && contexts[device] != context)
        device++;
    pthread_mutex_unlock(&contexts_mutex);
    if (error == cudaSuccess)
        error = (cudaError_t)sim_cuda.cuDevicePrimaryCtxReset(device);
    if (error == cudaSuccess)
        last_error = cudaSuccess;
    return error;
}

/* Works after a sticky error too, unlike everything else. */
ENTRY(cudaDeviceReset, (void), reset_device())
ENTRY(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device),
      sim_cuda.cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device))
ENTRY(cudaDeviceGetPCIBusId, (char *text, int capacity, int device),
      sim_cuda.cuDeviceGetPCIBusId(text, capacity, device))
ENTRY(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
      sim_cuda.cuCtxGetStreamPriorityRange(least, greatest))

static int attribute(int device, CUdevice_attribute which)
{
    int value = 0;
    sim_cuda.cuDeviceGetAttribute(&value, which, device);
    return value;
}

#define ATTRIBUTE(name) attribute(device, CU_DEVICE_ATTRIBUTE_##name)

static CUresult device_properties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    CUuuid uuid;
    CUresult result = sim_cuda.cuDeviceGetName(p->name, sizeof p->name, device);
    if (result != CUDA_SUCCESS)
        return result;
    sim_cuda.cuDeviceGetUuid(&uuid, device);
    memcpy(&p->uuid, &uuid, sizeof p->uuid);
    sim_cuda.cuDeviceTotalMem(&p->totalGlobalMem, device);
    p->major = ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
    p->minor = ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
    p->multiProcessorCount = ATTRIBUTE(MULTIPROCESSOR_COUNT);
    p->warpSize = ATTRIBUTE(WARP_SIZE);
    p->sharedMemPerBlock = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK);
    p->maxThreadsPerBlock = ATTRIBUTE(MAX_THREADS_PER_BLOCK);
    p->maxThreadsPerMultiProcessor = ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR);
    p->maxThreadsDim[0] = ATTRIBUTE(MAX_BLOCK_DIM_X);
    p->maxThreadsDim[1] = ATTRIBUTE(MAX_BLOCK_DIM_Y);
    p->maxThreadsDim[2] = ATTRIBUTE(MAX_BLOCK_DIM_Z);
    p->maxGridSize[0] = ATTRIBUTE(MAX_GRID_DIM_X);
    p->maxGridSize[1] = ATTRIBUTE(MAX_GRID_DIM_Y);
    p->maxGridSize[2] = ATTRIBUTE(MAX_GRID_DIM_Z);
    p->canMapHostMemory = ATTRIBUTE(CAN_MAP_HOST_MEMORY);
    p->concurrentKernels = ATTRIBUTE(CONCURRENT_KERNELS);
    p->asyncEngineCount = ATTRIBUTE(ASYNC_ENGINE_COUNT);
    p->unifiedAddressing = ATTRIBUTE(UNIFIED_ADDRESSING);
    p->streamPrioritiesSupported = ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED);
    p->cooperativeLaunch = ATTRIBUTE(COOPERATIVE_LAUNCH);
    p->hostRegisterSupported = ATTRIBUTE(HOST_REGISTER_SUPPORTED);
    p->canUseHostPointerForRegisteredMem = ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    p->memoryPoolsSupported = ATTRIBUTE(MEMORY_POOLS_SUPPORTED);
    p->pciDeviceID = ATTRIBUTE(PCI_DEVICE_ID);
    p->hostNumaId = -1;
    return CUDA_SUCCESS;
}

ENTRY(cudaGetDeviceProperties, (struct cudaDeviceProp * properties, int device),
      properties ? device_properties(properties, device) : CUDA_ERROR_INVALID_VALUE)

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    if (address && bytes == 0) { /* the runtime's own rule: no memory, no error */
        *address = NULL;
        return cudaSuccess;
    }
    RUNTIME_CALL(sim_cuda.cuMemAlloc((CUdeviceptr *)(void *)address, bytes));
}

ENTRY(cudaFree, (void *address), sim_cuda.cuMemFree(ADDRESS(address)))
ENTRY(cudaMallocAsync, (void **address, size_t bytes, cudaStream_t stream),
      sim_cuda.cuMemAllocAsync((CUdeviceptr *)(void *)address, bytes, stream))
ENTRY(cudaFreeAsync, (void *address, cudaStream_t stream),
      sim_cuda.cuMemFreeAsync(ADDRESS(address), stream))
ENTRY(cudaMallocHost, (void **host, size_t bytes), sim_cuda.cuMemHostAlloc(host, bytes, 0))
ENTRY(cudaHostAlloc, (void **host, size_t bytes, unsigned flags),
      sim_cuda.cuMemHostAlloc(host, bytes, flags))
ENTRY(cudaFreeHost, (void *host), sim_cuda.cuMemFreeHost(host))
ENTRY(cudaHostRegister, (void *host, size_t bytes, unsigned flags),
      sim_cuda.cuMemHostRegister(host, bytes, flags))
ENTRY(cudaHostUnregister, (void *host), sim_cuda.cuMemHostUnregister(host))
ENTRY(cudaHostGetDevicePointer, (void **address, void *host, unsigned flags),
      sim_cuda.cuMemHostGetDevicePointer((CUdeviceptr *)(void *)address, host, flags))
ENTRY(cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes),
      sim_cuda.cuMemGetInfo(free_bytes, total_bytes))

/* What is no memory of CUDA's is answered for too. */
static CUresult pointer_attributes(struct cudaPointerAttributes *out, const void *pointer)
{
    unsigned type = 0;
    *out = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered,
                                          .device = -2,
                                          .hostPointer = (void *)(uintptr_t)pointer};
    if (sim_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ADDRESS(pointer)) !=
        CUDA_SUCCESS)
        return CUDA_SUCCESS;
    out->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    out->devicePointer = out->hostPointer;
    if (type == CU_MEMORYTYPE_DEVICE)
        out->hostPointer = NULL;
    return sim_cuda.cuPointerGetAttribute(&out->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                          ADDRESS(pointer));
}

ENTRY(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *pointer),
      attributes ? pointer_attributes(attributes, pointer) : CUDA_ERROR_INVALID_VALUE)

static CUresult copy(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return sim_cuda.cuMemcpyHtoD(ADDRESS(destination), source, bytes);
    case cudaMemcpyDeviceToHost:
        return sim_cuda.cuMemcpyDtoH(destination, ADDRESS(source), bytes);
    case cudaMemcpyDeviceToDevice:
        return sim_cuda.cuMemcpyDtoD(ADDRESS(destination), ADDRESS(source), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return sim_cuda.cuMemcpy(ADDRESS(destination), ADDRESS(source), bytes);
    }
    return (CUresult)cudaErrorInvalidMemcpyDirection;
}

ENTRY(cudaMemcpy, (void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind),
      copy(destination, source, bytes, kind))

static CUresult copy_async(void *destination, const void *source, size_t bytes,
                           enum cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return sim_cuda.cuMemcpyHtoDAsync(ADDRESS(destination), source, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return sim_cuda.cuMemcpyDtoHAsync(destination, ADDRESS(source), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return sim_cuda.cuMemcpyDtoDAsync(ADDRESS(destination), ADDRESS(source), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return sim_cuda.cuMemcpyAsync(ADDRESS(destination), ADDRESS(source), bytes, stream);
    }
    return (CUresult)cudaErrorInvalidMemcpyDirection;
}

ENTRY(cudaMemcpyAsync,
      (void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind,
       cudaStream_t stream),
      copy_async(destination, source, bytes, kind, stream))
ENTRY(cudaMemset, (void *address, int value, size_t bytes),
      sim_cuda.cuMemsetD8(ADDRESS(address), (unsigned char)value, bytes))
ENTRY(cudaMemsetAsync, (void *address, int value, size_t bytes, cudaStream_t stream),
      sim_cuda.cuMemsetD8Async(ADDRESS(address), (unsigned char)value, bytes, stream))
ENTRY(cudaStreamCreate, (cudaStream_t * stream),
      sim_cuda.cuStreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0))
ENTRY(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
      sim_cuda.cuStreamCreateWithPriority(stream, flags, 0))
ENTRY(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
      sim_cuda.cuStreamCreateWithPriority(stream, flags, priority))
ENTRY(cudaStreamDestroy, (cudaStream_t stream), sim_cuda.cuStreamDestroy(stream))
ENTRY(cudaStreamSynchronize, (cudaStream_t stream), sim_cuda.cuStreamSynchronize(stream))
ENTRY(cudaStreamQuery, (cudaStream_t stream), sim_cuda.cuStreamQuery(stream))
ENTRY(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
      sim_cuda.cuStreamWaitEvent(stream, event, flags))
ENTRY(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags),
      sim_cuda.cuStreamGetFlags(stream, flags))
ENTRY(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
      sim_cuda.cuStreamGetPriority(stream, priority))
ENTRY(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id),
      sim_cuda.cuStreamGetId(stream, id))
ENTRY(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
      sim_cuda.cuLaunchHostFunc(stream, function, data))
ENTRY(cudaEventCreate, (cudaEvent_t * event), sim_cuda.cuEventCreate(event, CU_EVENT_DEFAULT))
ENTRY(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
      sim_cuda.cuEventCreate(event, flags))
ENTRY(cudaEventDestroy, (cudaEvent_t event), sim_cuda.cuEventDestroy(event))
ENTRY(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
      sim_cuda.cuEventRecordWithFlags(event, stream, 0))
ENTRY(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
      sim_cuda.cuEventRecordWithFlags(event, stream, flags))
ENTRY(cudaEventSynchronize, (cudaEvent_t event), sim_cuda.cuEventSynchronize(event))
ENTRY(cudaEventQuery, (cudaEvent_t event), sim_cuda.cuEventQuery(event))
ENTRY(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
      sim_cuda.cuEventElapsedTime(ms, start, end))
ENTRY(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
      sim_cuda.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
ENTRY(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
      sim_cuda.cuStreamEndCapture(stream, graph))
ENTRY(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
      sim_cuda.cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)(void *)status))
ENTRY(cudaStreamGetCaptureInfo,
      (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
       cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
       size_t *count),
      sim_cuda.cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)(void *)status,
                                      (cuuint64_t *)(void *)id, graph, dependencies,
                                      (const CUgraphEdgeData **)(void *)edges, count))
ENTRY(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
      sim_cuda.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)(void *)mode))
ENTRY(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
      sim_cuda.cuGraphGetNodes(graph, nodes, count))
ENTRY(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
      sim_cuda.cuGraphInstantiateWithFlags(exec, graph, flags))
ENTRY(cudaGraphInstantiateWithFlags,
      (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
      sim_cuda.cuGraphInstantiateWithFlags(exec, graph, flags))
ENTRY(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
      sim_cuda.cuGraphLaunch(exec, stream))
ENTRY(cudaGraphExecDestroy, (cudaGraphExec_t exec), sim_cuda.cuGraphExecDestroy(exec))
ENTRY(cudaGraphDestroy, (cudaGraph_t graph), sim_cuda.cuGraphDestroy(graph))

/* `function` is a cudaKernel_t: there is no compiled host code whose stubs it could be. */
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **parameters,
                             size_t shared_bytes, cudaStream_t stream)
{
    CUfunction handle = (CUfunction)(uintptr_t)function;
    RUNTIME_CALL(sim_cuda.cuLaunchKernel(handle, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                         (unsigned)shared_bytes, stream, parameters, NULL));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **parameters)
{
    if (!config)
        return done(cudaErrorInvalidValue);
    CUlaunchConfig driver_config = {.gridDimX = config->gridDim.x,
                                    .gridDimY = config->gridDim.y,
                                    .gridDimZ = config->gridDim.z,
                                    .blockDimX = config->blockDim.x,
                                    .blockDimY = config->blockDim.y,
                                    .blockDimZ = config->blockDim.z,
                                    .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                                    .hStream = config->stream};
    RUNTIME_CALL(sim_cuda.cuLaunchKernelEx(&driver_config, (CUfunction)(uintptr_t)function,
                                           parameters, NULL));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return done(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* 0 without a driver, as the real one. */
cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return done(cudaErrorInvalidValue);
    *version = 0;
    cudaError_t error = sim_cuda_load();
    if (error == cudaErrorInsufficientDriver)
        return cudaSuccess;
    return done((cudaError_t)sim_cuda.cuDriverGetVersion(version));
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    if (!is_sticky(error))
        last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static cudaError_t entry_point(const char *symbol, void **function, unsigned version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = sim_cuda_resolver()(symbol, function, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    else if (result == CUDA_SUCCESS && found != CU_GET_PROC_ADDRESS_SUCCESS)
        result = CUDA_ERROR_NOT_FOUND;
    return (cudaError_t)result;
}

ENTRY(cudaGetDriverEntryPointByVersion,
      (const char *symbol, void **function, unsigned version, unsigned long long flags,
       enum cudaDriverEntryPointQueryResult *status),
      entry_point(symbol, function, version, flags, status))
ENTRY(cudaGetDriverEntryPoint,
      (const char *symbol, void **function, unsigned long long flags,
       enum cudaDriverEntryPointQueryResult *status),
      entry_point(symbol, function, CUDART_VERSION, flags, status))

/* X(error, text), for every error that the simulator returns. */
#define ERRORS(X)                                                                                  \
    X(cudaSuccess, "no error")                                                                     \
    X(cudaErrorInvalidValue, "invalid argument")                                                   \
    X(cudaErrorMemoryAllocation, "out of memory")                                                  \
    X(cudaErrorInitializationError, "initialization error")                                        \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                        \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                     \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                            \
    X(cudaErrorInvalidKernelImage, "device kernel image is invalid")                               \
    X(cudaErrorDeviceUninitialized, "invalid device context")                                      \
    X(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device") \
    X(cudaErrorInvalidPtx, "a PTX JIT compilation failed")                                         \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                   \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")             \
    X(cudaErrorSymbolNotFound, "named symbol not found")                                           \
    X(cudaErrorNotReady, "device not ready")                                                       \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                         \
    X(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                    \
    X(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                           \
    X(cudaErrorContextIsDestroyed, "context is destroyed")                                         \
    X(cudaErrorHostMemoryAlreadyRegistered,                                                        \
      "part or all of the requested memory range is already mapped")                               \
    X(cudaErrorHostMemoryNotRegistered,                                                            \
      "pointer does not correspond to a registered memory region")                                 \
    X(cudaErrorLaunchFailure, "unspecified launch failure")                                        \
    X(cudaErrorNotPermitted, "operation not permitted")                                            \
    X(cudaErrorNotSupported, "operation not supported")                                            \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")       \
    X(cudaErrorStreamCaptureInvalidated,                                                           \
      "operation failed due to a previous error during capture")                                   \
    X(cudaErrorStreamCaptureMerge,                                                                 \
      "operation would result in a merge of separate capture sequences")                           \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")     \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                        \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")  \
    X(cudaErrorStreamCaptureImplicit,                                                              \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
    X(cudaErrorCapturedEvent,                                                                      \
      "operation not permitted on an event last recorded in a capturing stream")                   \
    X(cudaErrorStreamCaptureWrongThread,                                                           \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
    X(cudaErrorUnknown, "unknown error")

static const char *error_text(cudaError_t error, bool name)
{
    static const struct {
        cudaError_t error;
        const char *name, *text;
    } errors[] = {
#define X(code, message) {code, #code, message},
        ERRORS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return name ? errors[i].name : errors[i].text;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error_text(error, false);
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error_text(error, true);
}
