/* The simulated CUDA runtime: what C programs and cuDNN use of it, over the driver. */
#include "test/sim/runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

_Thread_local const sim_cuda_t *sim_calls = &sim_cuda;

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

cudaError_t sim_runtime_done(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t sim_runtime_context(int device, CUcontext *context)
{
    if (device < 0 || device >= MAX_DEVICES)
        return cudaErrorInvalidDevice;
    pthread_mutex_lock(&contexts_mutex);
    CUresult result = CUDA_SUCCESS;
    if (!contexts[device])
        result = sim_calls->cuDevicePrimaryCtxRetain(&contexts[device], device);
    *context = contexts[device];
    pthread_mutex_unlock(&contexts_mutex);
    return (cudaError_t)result;
}

static cudaError_t use_device(int device)
{
    CUcontext context;
    cudaError_t error = sim_runtime_context(device, &context);
    return error == cudaSuccess ? (cudaError_t)sim_calls->cuCtxSetCurrent(context) : error;
}

cudaError_t sim_runtime_begin(void)
{
    cudaError_t error = sim_cuda_load();
    CUcontext context = NULL;
    if (error == cudaSuccess)
        error = (cudaError_t)sim_calls->cuCtxGetCurrent(&context);
    return error == cudaSuccess && !context ? use_device(0) : error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = sim_cuda_load();
    return sim_runtime_done(error != cudaSuccess ? error
                                                 : (cudaError_t)sim_calls->cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = sim_cuda_load();
    return sim_runtime_done(error != cudaSuccess ? error : use_device(device));
}

static CUresult current_device(int *device)
{
    CUcontext context = NULL;
    CUresult result = sim_calls->cuCtxGetCurrent(&context);
    *device = 0;
    return result == CUDA_SUCCESS && context ? sim_calls->cuCtxGetDevice(device) : result;
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = sim_cuda_load();
    if (error == cudaSuccess)
        error = device ? (cudaError_t)current_device(device) : cudaErrorInvalidValue;
    return sim_runtime_done(error);
}

ENTRY(cudaDeviceSynchronize, (void), sim_calls->cuCtxSynchronize())

static cudaError_t reset_device(void)
{
    CUcontext context = NULL;
    cudaError_t error = (cudaError_t)sim_calls->cuCtxGetCurrent(&context);
    int device = 0;
    pthread_mutex_lock(&contexts_mutex);
    while (device < MAX_DEVICES && contexts[device] != context)
        device++;
    pthread_mutex_unlock(&contexts_mutex);
    if (error == cudaSuccess)
        error = (cudaError_t)sim_calls->cuDevicePrimaryCtxReset(device);
    if (error == cudaSuccess)
        last_error = cudaSuccess;
    return error;
}

/* Works after a sticky error too, unlike everything else. */
ENTRY(cudaDeviceReset, (void), reset_device())
ENTRY(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device),
      sim_calls->cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device))
ENTRY(cudaDeviceGetPCIBusId, (char *text, int capacity, int device),
      sim_calls->cuDeviceGetPCIBusId(text, capacity, device))
ENTRY(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
      sim_calls->cuCtxGetStreamPriorityRange(least, greatest))

static int attribute(int device, CUdevice_attribute which)
{
    int value = 0;
    sim_calls->cuDeviceGetAttribute(&value, which, device);
    return value;
}

#define ATTRIBUTE(name) attribute(device, CU_DEVICE_ATTRIBUTE_##name)

static CUresult device_properties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    CUuuid uuid;
    CUresult result = sim_calls->cuDeviceGetName(p->name, sizeof p->name, device);
    if (result != CUDA_SUCCESS)
        return result;
    sim_calls->cuDeviceGetUuid(&uuid, device);
    memcpy(&p->uuid, &uuid, sizeof p->uuid);
    sim_calls->cuDeviceTotalMem(&p->totalGlobalMem, device);
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

ENTRY(cudaStreamCreate, (cudaStream_t * stream),
      sim_calls->cuStreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0))
ENTRY(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
      sim_calls->cuStreamCreateWithPriority(stream, flags, 0))
ENTRY(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
      sim_calls->cuStreamCreateWithPriority(stream, flags, priority))
ENTRY(cudaStreamDestroy, (cudaStream_t stream), sim_calls->cuStreamDestroy(stream))
ENTRY(cudaStreamSynchronize, (cudaStream_t stream), sim_calls->cuStreamSynchronize(stream))
ENTRY(cudaStreamQuery, (cudaStream_t stream), sim_calls->cuStreamQuery(stream))
ENTRY(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
      sim_calls->cuStreamWaitEvent(stream, event, flags))
ENTRY(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags),
      sim_calls->cuStreamGetFlags(stream, flags))
ENTRY(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
      sim_calls->cuStreamGetPriority(stream, priority))
ENTRY(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id),
      sim_calls->cuStreamGetId(stream, id))
ENTRY(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
      sim_calls->cuLaunchHostFunc(stream, function, data))
ENTRY(cudaEventCreate, (cudaEvent_t * event), sim_calls->cuEventCreate(event, CU_EVENT_DEFAULT))
ENTRY(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
      sim_calls->cuEventCreate(event, flags))
ENTRY(cudaEventDestroy, (cudaEvent_t event), sim_calls->cuEventDestroy(event))
ENTRY(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
      sim_calls->cuEventRecordWithFlags(event, stream, 0))
ENTRY(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
      sim_calls->cuEventRecordWithFlags(event, stream, flags))
ENTRY(cudaEventSynchronize, (cudaEvent_t event), sim_calls->cuEventSynchronize(event))
ENTRY(cudaEventQuery, (cudaEvent_t event), sim_calls->cuEventQuery(event))
ENTRY(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
      sim_calls->cuEventElapsedTime(ms, start, end))
ENTRY(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
      sim_calls->cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
ENTRY(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
      sim_calls->cuStreamEndCapture(stream, graph))
ENTRY(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
      sim_calls->cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)(void *)status))
ENTRY(cudaStreamGetCaptureInfo,
      (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
       cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
       size_t *count),
      sim_calls->cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)(void *)status,
                                        (cuuint64_t *)(void *)id, graph, dependencies,
                                        (const CUgraphEdgeData **)(void *)edges, count))
ENTRY(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
      sim_calls->cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)(void *)mode))
ENTRY(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
      sim_calls->cuGraphGetNodes(graph, nodes, count))
ENTRY(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
      sim_calls->cuGraphInstantiateWithFlags(exec, graph, flags))
ENTRY(cudaGraphInstantiateWithFlags,
      (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
      sim_calls->cuGraphInstantiateWithFlags(exec, graph, flags))
ENTRY(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
      sim_calls->cuGraphLaunch(exec, stream))
ENTRY(cudaGraphExecDestroy, (cudaGraphExec_t exec), sim_calls->cuGraphExecDestroy(exec))
ENTRY(cudaGraphDestroy, (cudaGraph_t graph), sim_calls->cuGraphDestroy(graph))

/* `function` is a cudaKernel_t: there is no compiled host code whose stubs it could be. */
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **parameters,
                             size_t shared_bytes, cudaStream_t stream)
{
    CUfunction handle = (CUfunction)(uintptr_t)function;
    RUNTIME_CALL(sim_calls->cuLaunchKernel(handle, grid.x, grid.y, grid.z, block.x, block.y,
                                           block.z, (unsigned)shared_bytes, stream, parameters,
                                           NULL));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **parameters)
{
    if (!config)
        return sim_runtime_done(cudaErrorInvalidValue);
    CUlaunchConfig driver_config = {.gridDimX = config->gridDim.x,
                                    .gridDimY = config->gridDim.y,
                                    .gridDimZ = config->gridDim.z,
                                    .blockDimX = config->blockDim.x,
                                    .blockDimY = config->blockDim.y,
                                    .blockDimZ = config->blockDim.z,
                                    .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                                    .hStream = config->stream};
    RUNTIME_CALL(sim_calls->cuLaunchKernelEx(&driver_config, (CUfunction)(uintptr_t)function,
                                             parameters, NULL));
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **parameters, size_t shared_bytes, cudaStream_t stream)
{
    CUfunction handle = (CUfunction)(uintptr_t)function;
    RUNTIME_CALL(sim_calls->cuLaunchCooperativeKernel(handle, grid.x, grid.y, grid.z, block.x,
                                                      block.y, block.z, (unsigned)shared_bytes,
                                                      stream, parameters));
}

/* What the host code that nvcc writes calls. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **parameters,
                               size_t shared_bytes, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, parameters, shared_bytes, stream);
}

ENTRY(cudaFuncGetParamInfo,
      (const void *function, size_t index, size_t *offset_bytes, size_t *size_bytes),
      sim_calls->cuKernelGetParamInfo((CUkernel)(uintptr_t)function, index, offset_bytes,
                                      size_bytes))

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return sim_runtime_done(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* 0 without a driver, as the real one. */
cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return sim_runtime_done(cudaErrorInvalidValue);
    *version = 0;
    cudaError_t error = sim_cuda_load();
    if (error == cudaErrorInsufficientDriver)
        return cudaSuccess;
    return sim_runtime_done((cudaError_t)sim_calls->cuDriverGetVersion(version));
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
    if (flags == cudaEnableDefault && sim_calls == &sim_cuda_own)
        flags = cudaEnablePerThreadDefaultStream;
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
