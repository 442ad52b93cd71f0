/* Device and pinned memory, and what can be asked about addresses. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <string.h>
#include <sys/mman.h>

/* Host time, from an H200 (driver 580): cuMemAlloc 76 us at 2 MiB and 129 us at 512 MiB, cuMemFree
 * 47 and 317 us, cuMemHostAlloc 0.40 s a GiB; linear between and beyond. Small: an assumption. */
static const double alloc_us = 5, alloc_large_us = 76, alloc_us_per_mib = 0.104;
static const double free_us = 3, free_large_us = 46, free_us_per_mib = 0.53;
static const double pin_us_per_mib = 391;

static double memory_cost_us(uint64_t bytes, double small_us, double large_us, double us_per_mib)
{
    double mib = (double)bytes / (1 << 20);
    return mib < 1 ? small_us : large_us + mib * us_per_mib;
}

static bool fits(const sim_device_t *device, uint64_t bytes)
{
    uint64_t pages = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    return pages >= bytes && pages <= sim_free_bytes(device);
}

static CUresult add_device_range(CUdeviceptr *out, int index, uint64_t bytes)
{
    sim_device_t *device = sim_device(index);
    sim_range_t range;
    if (!fits(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_map_add_device(index, bytes, &range);
    if (result != CUDA_SUCCESS)
        return result;
    sim_memory_taken(device, range.pages_bytes);
    sim_map_edit(range.start)->context = sim_current();
    *out = range.start;
    return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *out, size_t bytes)
{
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_guard();
    if (result != CUDA_SUCCESS)
        return result;
    sim_clock_spend(memory_cost_us(bytes, alloc_us, alloc_large_us, alloc_us_per_mib));
    sim_clock_advance();
    int device = sim_current()->device;
    /* As the driver: what pools hold unused, and pending frees, are had before it refuses. */
    while (!fits(sim_device(device), bytes) &&
           (sim_pools_give_back(device) || sim_clock_wait_release()))
        ;
    return add_device_range(out, device, bytes);
}

SIM_ENTRY(CONTEXT, cuMemAlloc, (CUdeviceptr * address, size_t bytes), mem_alloc(address, bytes))

static const sim_range_t *range_at(uint64_t start, sim_place_t place)
{
    const sim_range_t *range = sim_map_find(start);
    return range && range->start == start && range->place == place && !range->physical ? range
                                                                                       : NULL;
}

static CUresult mem_free(CUdeviceptr address)
{
    CUresult result = sim_capture_guard();
    if (result != CUDA_SUCCESS || address == 0)
        return result;
    const sim_range_t *range = range_at(address, SIM_PLACE_DEVICE);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    int device = range->device;
    uint64_t bytes = range->pages_bytes;
    sim_wait_device(device); /* measured: cudaFree waits for all of the device's work */
    sim_clock_spend(memory_cost_us(bytes, free_us, free_large_us, free_us_per_mib));
    range = range_at(address, SIM_PLACE_DEVICE);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE; /* a cuMemFreeAsync of it was pending */
    if (range->graph_memory)
        return sim_graph_free_now(range->graph_memory);
    CUmemoryPool pool = range->pool;
    sim_map_remove(address);
    if (pool)
        sim_pool_freed(pool, bytes);
    else
        sim_memory_given_back(sim_device(device), bytes);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuMemFree, (CUdeviceptr address), mem_free(address))

static CUresult mem_free_async(CUdeviceptr address, CUstream handle)
{
    CUstream stream;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || address == 0)
        return result;
    const sim_range_t *range = range_at(address, SIM_PLACE_DEVICE);
    if (!range || range->freed)
        return CUDA_ERROR_INVALID_VALUE;
    return stream->capture || range->graph_memory ? sim_graph_free(address, stream)
                                                  : sim_pool_free(address, stream);
}

SIM_ENTRY(CONTEXT, cuMemFreeAsync, (CUdeviceptr address, CUstream stream),
          mem_free_async(address, stream))

static CUresult mem_info(size_t *free_bytes, size_t *total_bytes)
{
    sim_clock_advance();
    const sim_device_t *device = sim_device(sim_current()->device);
    if (free_bytes)
        *free_bytes = sim_free_bytes(device);
    if (total_bytes)
        *total_bytes = device->profile.memory_bytes;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuMemGetInfo, (size_t * free_bytes, size_t *total_bytes),
          mem_info(free_bytes, total_bytes))

static CUresult address_range(CUdeviceptr *start, size_t *bytes, CUdeviceptr address)
{
    const sim_range_t *range = sim_map_find(address);
    if (!range)
        return CUDA_ERROR_NOT_FOUND;
    if (start)
        *start = range->start;
    if (bytes)
        *bytes = range->bytes;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuMemGetAddressRange, (CUdeviceptr * start, size_t *bytes, CUdeviceptr address),
          address_range(start, bytes, address))

static CUresult host_alloc(void **out, size_t bytes, unsigned flags)
{
    CUresult result = out && bytes > 0 ? sim_capture_guard() : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    void *host = sim_map_host(bytes);
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_clock_spend(alloc_us + (double)bytes / (1 << 20) * pin_us_per_mib);
    *out = host;
    return sim_map_add_pinned(host, bytes, flags, true);
}

SIM_ENTRY(CONTEXT, cuMemHostAlloc, (void **host, size_t bytes, unsigned flags),
          host_alloc(host, bytes, flags))
SIM_ENTRY(CONTEXT, cuMemAllocHost, (void **host, size_t bytes), host_alloc(host, bytes, 0))

static CUresult host_release(void *host, bool owned)
{
    const sim_range_t *range = range_at((uint64_t)(uintptr_t)host, SIM_PLACE_PINNED);
    if (!range || range->owned != owned)
        return owned ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    CUresult result = sim_capture_guard();
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t bytes = range->bytes;
    sim_wait_device(-1);
    sim_map_remove((uint64_t)(uintptr_t)host);
    if (owned && munmap(host, bytes) != 0)
        sim_panic("cannot unmap pinned memory");
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuMemFreeHost, (void *host), host ? host_release(host, true) : CUDA_SUCCESS)

static CUresult host_register(void *host, size_t bytes, unsigned flags)
{
    CUresult result = host && bytes > 0 ? sim_capture_guard() : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    sim_clock_spend(alloc_us + (double)bytes / (1 << 20) * pin_us_per_mib);
    return sim_map_add_pinned(host, bytes, flags, false);
}

SIM_ENTRY(CONTEXT, cuMemHostRegister, (void *host, size_t bytes, unsigned flags),
          host_register(host, bytes, flags))
SIM_ENTRY(CONTEXT, cuMemHostUnregister, (void *host), host_release(host, false))

static CUresult host_device_pointer(CUdeviceptr *out, void *host)
{
    const sim_range_t *range = sim_map_find((uint64_t)(uintptr_t)host);
    if (!out || !range || range->place != SIM_PLACE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uint64_t)(uintptr_t)host; /* unified addressing */
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuMemHostGetDevicePointer, (CUdeviceptr * address, void *host, unsigned flags),
          flags ? CUDA_ERROR_INVALID_VALUE : host_device_pointer(address, host))

static CUresult host_flags(unsigned *flags, void *host)
{
    const sim_range_t *range = sim_map_find((uint64_t)(uintptr_t)host);
    if (!flags || !range || range->place != SIM_PLACE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range->flags;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuMemHostGetFlags, (unsigned *flags, void *host), host_flags(flags, host))

static unsigned access_flags(const sim_range_t *range)
{
    int device = sim_current()->device;
    if (!range->physical || range->writers >> device & 1)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    return range->readers >> device & 1 ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/* What is known of reserved addresses without memory. */
static CUresult unmapped_attribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
    if (!out || attribute != CU_POINTER_ATTRIBUTE_MAPPED || !sim_vmm_reserved(address))
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned char *)out = 0;
    return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
    const sim_range_t *range = out ? sim_map_find(address) : NULL;
    if (!range)
        return unmapped_attribute(out, attribute, address);
    bool on_device = !sim_map_on_host(address);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* mappings have none */
        *(CUcontext *)out = range->physical  ? NULL
                            : range->context ? range->context
                                             : &sim_device(range->device)->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = range->pool;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* of a mapping, too */
        *(uint64_t *)out = range->number;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)out = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = access_flags(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (on_device || (range->physical && !range->host_access))
            return CUDA_ERROR_INVALID_VALUE;
        *(uint64_t *)out = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = range->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(uint64_t *)out = range->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)out = range->bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

SIM_ENTRY(CONTEXT, cuPointerGetAttribute,
          (void *out, CUpointer_attribute attribute, CUdeviceptr address),
          pointer_attribute(out, attribute, address))

/* Of what is no memory of CUDA's every answer is 0. */
static CUresult pointer_attributes(unsigned count, const CUpointer_attribute *attributes,
                                   void **out, CUdeviceptr address)
{
    if (!attributes || !out)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        uint64_t answer[2] = {0};
        CUresult result = pointer_attribute(answer, attributes[i], address);
        bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MAPPING_SIZE ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        bool flag = attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            return result;
        memcpy(out[i], answer, flag ? 1 : wide ? 8 : 4);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuPointerGetAttributes,
          (unsigned count, CUpointer_attribute *attributes, void **out, CUdeviceptr address),
          pointer_attributes(count, attributes, out, address))
/* The forms without Async that need not wait do not, so there is nothing to set. */
SIM_ENTRY(CONTEXT, cuPointerSetAttribute,
          (const void *value, CUpointer_attribute attribute, CUdeviceptr address),
          !value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sim_map_find(address)
              ? CUDA_ERROR_INVALID_VALUE
              : CUDA_ERROR_NOT_SUPPORTED)

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    (void)address, (void)bytes, (void)flags;
    SIM_CALL(SIM_NEED_CONTEXT, CUDA_ERROR_NOT_SUPPORTED);
}

/* Rows start 512 bytes apart, or a multiple of that. */
static CUresult alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t rows,
                            unsigned element_bytes)
{
    size_t bytes;
    if (!pitch || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) ||
        width > SIZE_MAX - SIM_ALIGNMENT)
        return CUDA_ERROR_INVALID_VALUE;
    size_t spacing = (width + SIM_ALIGNMENT - 1) / SIM_ALIGNMENT * SIM_ALIGNMENT;
    if (__builtin_mul_overflow(spacing, rows, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = mem_alloc(out, bytes);
    if (result == CUDA_SUCCESS)
        *pitch = spacing;
    return result;
}

SIM_ENTRY(CONTEXT, cuMemAllocPitch,
          (CUdeviceptr * address, size_t *pitch, size_t width, size_t rows, unsigned element_bytes),
          alloc_pitch(address, pitch, width, rows, element_bytes))
