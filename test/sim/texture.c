/* Texture objects on linear memory, and descriptors of memory for other devices: handles only. No
 * kernel here reads a texture, and nothing reads through a descriptor. A handle of a texture comes
 * back when it was destroyed, as the real ones may. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <sys/mman.h>

enum { TEXTURES = 256 };

static bool used[TEXTURES]; /* handle - 1 */

static uint64_t linear_memory(const CUDA_RESOURCE_DESC *resource)
{
    if (resource->resType == CU_RESOURCE_TYPE_LINEAR && resource->res.linear.sizeInBytes > 0)
        return resource->res.linear.devPtr;
    if (resource->resType == CU_RESOURCE_TYPE_PITCH2D && resource->res.pitch2D.height > 0)
        return resource->res.pitch2D.devPtr;
    return 0;
}

static CUresult create(CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
                       const CUDA_TEXTURE_DESC *texture)
{
    CUtexObject free_one = 0;
    const uint64_t address = object && resource && texture ? linear_memory(resource) : 0;
    if (address == 0 || !sim_map_find(address))
        return CUDA_ERROR_INVALID_VALUE;
    while (free_one < TEXTURES && used[free_one])
        free_one++;
    if (free_one == TEXTURES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    used[free_one] = true;
    *object = free_one + 1;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuTexObjectCreate,
          (CUtexObject * object, const CUDA_RESOURCE_DESC *resource,
           const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view),
          ((void)view, create(object, resource, texture)))

static CUresult destroy(CUtexObject object)
{
    if (object < 1 || object > TEXTURES || !used[object - 1])
        return CUDA_ERROR_INVALID_VALUE;
    used[object - 1] = false;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuTexObjectDestroy, (CUtexObject object), destroy(object))

static CUresult describe(int *descriptor, uint64_t address, size_t bytes, CUmemRangeHandleType type)
{
    if (!descriptor || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || bytes == 0 ||
        address % 4096 != 0 || bytes % 4096 != 0 || !sim_map_find(address))
        return CUDA_ERROR_INVALID_VALUE;
    *descriptor = memfd_create("dma_buf", MFD_CLOEXEC);
    return *descriptor >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

SIM_ENTRY(CONTEXT, cuMemGetHandleForAddressRange,
          (void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
           unsigned long long flags),
          ((void)flags, describe(handle, address, bytes, type)))
