/* Memory, copies and fills of the simulated CUDA runtime. */
#include "test/sim/runtime.h"

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    if (address && bytes == 0) { /* the runtime's own rule: no memory, no error */
        *address = NULL;
        return cudaSuccess;
    }
    RUNTIME_CALL(sim_calls->cuMemAlloc((CUdeviceptr *)(void *)address, bytes));
}

ENTRY(cudaFree, (void *address), sim_calls->cuMemFree(ADDRESS(address)))
ENTRY(cudaMallocAsync, (void **address, size_t bytes, cudaStream_t stream),
      sim_calls->cuMemAllocAsync((CUdeviceptr *)(void *)address, bytes, stream))
ENTRY(cudaFreeAsync, (void *address, cudaStream_t stream),
      sim_calls->cuMemFreeAsync(ADDRESS(address), stream))
ENTRY(cudaMallocHost, (void **host, size_t bytes), sim_calls->cuMemHostAlloc(host, bytes, 0))
ENTRY(cudaHostAlloc, (void **host, size_t bytes, unsigned flags),
      sim_calls->cuMemHostAlloc(host, bytes, flags))
ENTRY(cudaFreeHost, (void *host), sim_calls->cuMemFreeHost(host))
ENTRY(cudaHostRegister, (void *host, size_t bytes, unsigned flags),
      sim_calls->cuMemHostRegister(host, bytes, flags))
ENTRY(cudaHostUnregister, (void *host), sim_calls->cuMemHostUnregister(host))
ENTRY(cudaHostGetDevicePointer, (void **address, void *host, unsigned flags),
      sim_calls->cuMemHostGetDevicePointer((CUdeviceptr *)(void *)address, host, flags))
ENTRY(cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes),
      sim_calls->cuMemGetInfo(free_bytes, total_bytes))

/* What is no memory of CUDA's is answered for too. */
static CUresult pointer_attributes(struct cudaPointerAttributes *out, const void *pointer)
{
    unsigned type = 0;
    *out = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered,
                                          .device = -2,
                                          .hostPointer = (void *)(uintptr_t)pointer};
    if (sim_calls->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         ADDRESS(pointer)) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    out->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    out->devicePointer = out->hostPointer;
    if (type == CU_MEMORYTYPE_DEVICE)
        out->hostPointer = NULL;
    return sim_calls->cuPointerGetAttribute(&out->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                            ADDRESS(pointer));
}

ENTRY(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *pointer),
      attributes ? pointer_attributes(attributes, pointer) : CUDA_ERROR_INVALID_VALUE)

static CUresult copy(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return sim_calls->cuMemcpyHtoD(ADDRESS(destination), source, bytes);
    case cudaMemcpyDeviceToHost:
        return sim_calls->cuMemcpyDtoH(destination, ADDRESS(source), bytes);
    case cudaMemcpyDeviceToDevice:
        return sim_calls->cuMemcpyDtoD(ADDRESS(destination), ADDRESS(source), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return sim_calls->cuMemcpy(ADDRESS(destination), ADDRESS(source), bytes);
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
        return sim_calls->cuMemcpyHtoDAsync(ADDRESS(destination), source, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return sim_calls->cuMemcpyDtoHAsync(destination, ADDRESS(source), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return sim_calls->cuMemcpyDtoDAsync(ADDRESS(destination), ADDRESS(source), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return sim_calls->cuMemcpyAsync(ADDRESS(destination), ADDRESS(source), bytes, stream);
    }
    return (CUresult)cudaErrorInvalidMemcpyDirection;
}

ENTRY(cudaMemcpyAsync,
      (void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind,
       cudaStream_t stream),
      copy_async(destination, source, bytes, kind, stream))
ENTRY(cudaMemset, (void *address, int value, size_t bytes),
      sim_calls->cuMemsetD8(ADDRESS(address), (unsigned char)value, bytes))
ENTRY(cudaMemsetAsync, (void *address, int value, size_t bytes, cudaStream_t stream),
      sim_calls->cuMemsetD8Async(ADDRESS(address), (unsigned char)value, bytes, stream))

/* Rows 1 element wide; the runtime does not ask for the element. */
ENTRY(cudaMallocPitch, (void **address, size_t *pitch, size_t width, size_t rows),
      sim_calls->cuMemAllocPitch((CUdeviceptr *)(void *)address, pitch, width, rows, 4))
ENTRY(cudaMallocManaged, (void **address, size_t bytes, unsigned flags),
      sim_calls->cuMemAllocManaged((CUdeviceptr *)(void *)address, bytes, flags))
ENTRY(cudaHostGetFlags, (unsigned *flags, void *host), sim_calls->cuMemHostGetFlags(flags, host))

static CUDA_MEMCPY2D box_2d(void *destination, size_t destination_pitch, const void *source,
                            size_t source_pitch, size_t width, size_t rows)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = ADDRESS(source),
                           .srcPitch = source_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = ADDRESS(destination),
                           .dstPitch = destination_pitch,
                           .WidthInBytes = width,
                           .Height = rows};
}

static bool is_kind(enum cudaMemcpyKind kind)
{
    return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

/* The addresses say where memory is; a kind is only checked. */
cudaError_t cudaMemcpy2D(void *destination, size_t destination_pitch, const void *source,
                         size_t source_pitch, size_t width, size_t rows, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D box = box_2d(destination, destination_pitch, source, source_pitch, width, rows);
    RUNTIME_CALL(is_kind(kind) ? sim_calls->cuMemcpy2DUnaligned(&box)
                               : (CUresult)cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy2DAsync(void *destination, size_t destination_pitch, const void *source,
                              size_t source_pitch, size_t width, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D box = box_2d(destination, destination_pitch, source, source_pitch, width, rows);
    RUNTIME_CALL(is_kind(kind) ? sim_calls->cuMemcpy2DAsync(&box, stream)
                               : (CUresult)cudaErrorInvalidMemcpyDirection);
}

static CUresult box_3d(CUDA_MEMCPY3D *box, const struct cudaMemcpy3DParms *p)
{
    if (!p || p->srcArray || p->dstArray)
        return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (!is_kind(p->kind))
        return (CUresult)cudaErrorInvalidMemcpyDirection;
    *box = (CUDA_MEMCPY3D){.srcXInBytes = p->srcPos.x,
                           .srcY = p->srcPos.y,
                           .srcZ = p->srcPos.z,
                           .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = ADDRESS(p->srcPtr.ptr),
                           .srcPitch = p->srcPtr.pitch,
                           .srcHeight = p->srcPtr.ysize,
                           .dstXInBytes = p->dstPos.x,
                           .dstY = p->dstPos.y,
                           .dstZ = p->dstPos.z,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = ADDRESS(p->dstPtr.ptr),
                           .dstPitch = p->dstPtr.pitch,
                           .dstHeight = p->dstPtr.ysize,
                           .WidthInBytes = p->extent.width,
                           .Height = p->extent.height,
                           .Depth = p->extent.depth};
    return CUDA_SUCCESS;
}

static CUresult copy_3d(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool wait)
{
    CUDA_MEMCPY3D box;
    CUresult result = box_3d(&box, p);
    if (result != CUDA_SUCCESS)
        return result;
    return wait ? sim_calls->cuMemcpy3D(&box) : sim_calls->cuMemcpy3DAsync(&box, stream);
}

ENTRY(cudaMemcpy3D, (const struct cudaMemcpy3DParms *p), copy_3d(p, NULL, true))
ENTRY(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
      copy_3d(p, stream, false))
ENTRY(cudaMemset2D, (void *address, size_t pitch, int value, size_t width, size_t rows),
      sim_calls->cuMemsetD2D8(ADDRESS(address), pitch, (unsigned char)value, width, rows))
ENTRY(cudaMemset2DAsync,
      (void *address, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream),
      sim_calls->cuMemsetD2D8Async(ADDRESS(address), pitch, (unsigned char)value, width, rows,
                                   stream))

static CUresult copy_peer(void *destination, int destination_device, const void *source,
                          int source_device, size_t bytes, cudaStream_t stream, bool wait)
{
    CUcontext to, from;
    cudaError_t error = sim_runtime_context(destination_device, &to);
    if (error == cudaSuccess)
        error = sim_runtime_context(source_device, &from);
    if (error != cudaSuccess)
        return (CUresult)error;
    return wait ? sim_calls->cuMemcpyPeer(ADDRESS(destination), to, ADDRESS(source), from, bytes)
                : sim_calls->cuMemcpyPeerAsync(ADDRESS(destination), to, ADDRESS(source), from,
                                               bytes, stream);
}

ENTRY(cudaMemcpyPeer,
      (void *destination, int destination_device, const void *source, int source_device,
       size_t bytes),
      copy_peer(destination, destination_device, source, source_device, bytes, NULL, true))
ENTRY(cudaMemcpyPeerAsync,
      (void *destination, int destination_device, const void *source, int source_device,
       size_t bytes, cudaStream_t stream),
      copy_peer(destination, destination_device, source, source_device, bytes, stream, false))
ENTRY(cudaDeviceCanAccessPeer, (int *can, int device, int peer),
      sim_calls->cuDeviceCanAccessPeer(can, device, peer))

static CUresult enable_peer(int peer, unsigned flags)
{
    CUcontext context;
    cudaError_t error = sim_runtime_context(peer, &context);
    return error == cudaSuccess ? sim_calls->cuCtxEnablePeerAccess(context, flags)
                                : (CUresult)error;
}

ENTRY(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), enable_peer(peer, flags))

/* Both structures of attributes are alike. */
_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes), "attributes");

ENTRY(cudaMemcpyBatchAsync,
      (void *const *destinations, const void *const *sources, const size_t *sizes, size_t count,
       struct cudaMemcpyAttributes *attributes, size_t *attribute_starts, size_t attribute_count,
       cudaStream_t stream),
      sim_calls->cuMemcpyBatchAsync((CUdeviceptr *)(uintptr_t)destinations,
                                    (CUdeviceptr *)(uintptr_t)sources, (size_t *)(uintptr_t)sizes,
                                    count, (CUmemcpyAttributes *)(void *)attributes,
                                    attribute_starts, attribute_count, stream))

ENTRY(cudaMallocFromPoolAsync,
      (void **address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
      sim_calls->cuMemAllocFromPoolAsync((CUdeviceptr *)(void *)address, bytes, pool, stream))
ENTRY(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
      sim_calls->cuDeviceGetDefaultMemPool(pool, device))
ENTRY(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
      sim_calls->cuDeviceGetMemPool(pool, device))
ENTRY(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
      sim_calls->cuDeviceSetMemPool(device, pool))

static CUresult pool_create(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    if (!properties)
        return CUDA_ERROR_INVALID_VALUE;
    CUmemPoolProps driver_properties = {
        .allocType = (CUmemAllocationType)properties->allocType,
        .handleTypes = (CUmemAllocationHandleType)properties->handleTypes,
        .location = {(CUmemLocationType)properties->location.type, properties->location.id},
        .maxSize = properties->maxSize};
    return sim_calls->cuMemPoolCreate(pool, &driver_properties);
}

ENTRY(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *properties),
      pool_create(pool, properties))
ENTRY(cudaMemPoolDestroy, (cudaMemPool_t pool), sim_calls->cuMemPoolDestroy(pool))
ENTRY(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), sim_calls->cuMemPoolTrimTo(pool, keep))
ENTRY(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
      sim_calls->cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
ENTRY(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
      sim_calls->cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))
/* Both structures are alike. */
ENTRY(cudaMemPoolSetAccess,
      (cudaMemPool_t pool, const struct cudaMemAccessDesc *wanted, size_t count),
      sim_calls->cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)(const void *)wanted, count))
