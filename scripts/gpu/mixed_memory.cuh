/* Ranges of addresses whose chunks are device memory or pinned host memory, side by side, as the tail of
 * an operation above the budget would have them. Shared by the programs mixed_*.cu, which know nothing of
 * the library: scripts/gpu/mixed-look compiles them where they run. */
#ifndef MIXED_MEMORY_CUH
#define MIXED_MEMORY_CUH

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIXED_CHUNK ((size_t)2 << 20)

typedef enum mixed_layout {
    MIXED_DEVICE,    /* for comparison */
    MIXED_HALF,      /* the second half of the chunks is host memory */
    MIXED_ALTERNATE, /* every other chunk, beginning with the second */
    MIXED_HOST,
    MIXED_LAYOUTS
} mixed_layout_t;

static const char *const mixed_layout_names[MIXED_LAYOUTS] = {"device", "half", "alternate",
                                                              "host"};

/* Each chunk is mapped a second time below `alias`, where neighbours do not matter: nothing is read or
 * written there beyond the end of a chunk. */
typedef struct mixed_range {
    CUdeviceptr at, alias;
    size_t bytes, count;
    CUmemGenericAllocationHandle *chunks;
} mixed_range_t;

static const char *mixed_error_name(CUresult result)
{
    const char *name = NULL;
    return cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "unknown";
}

static void mixed_check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("{\"failed\": \"%s: %s\"}\n", what, mixed_error_name(result));
    fflush(stdout);
    exit(3);
}

static int mixed_attribute(CUdevice_attribute which)
{
    int value = 0;
    return cuDeviceGetAttribute(&value, which, 0) == CUDA_SUCCESS ? value : 0;
}

/* As shim/device/pinned_pieces.c makes it: on the device's node, else anywhere. */
static CUmemGenericAllocationHandle mixed_create(bool host, size_t bytes)
{
    CUmemAllocationProp properties;
    CUmemGenericAllocationHandle handle = 0;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (host) {
        const int node = mixed_attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        properties.location.id = node < 0 ? 0 : node;
    }
    CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
    if (result != CUDA_SUCCESS && host) {
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
        properties.location.id = 0;
        result = cuMemCreate(&handle, bytes, &properties, 0);
    }
    mixed_check(result, host ? "cuMemCreate of host memory" : "cuMemCreate");
    return handle;
}

static CUresult mixed_allow(CUdeviceptr at, size_t bytes)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return cuMemSetAccess(at, bytes, &access, 1);
}

static inline bool mixed_is_host(mixed_layout_t layout, size_t chunk, size_t count)
{
    if (layout == MIXED_HALF)
        return chunk >= count / 2;
    return layout == MIXED_HOST || (layout == MIXED_ALTERNATE && chunk % 2 == 1);
}

static CUdeviceptr mixed_reserve(size_t bytes)
{
    CUdeviceptr at = 0;
    mixed_check(cuMemAddressReserve(&at, bytes, MIXED_CHUNK, 0, 0), "cuMemAddressReserve");
    return at;
}

/* In one call, if the driver takes chunks of both kinds together. */
static bool mixed_allow_all(CUdeviceptr at, size_t count)
{
    if (mixed_allow(at, count * MIXED_CHUNK) == CUDA_SUCCESS)
        return true;
    for (size_t i = 0; i < count; i++)
        mixed_check(mixed_allow(at + i * MIXED_CHUNK, MIXED_CHUNK), "cuMemSetAccess");
    return false;
}

static inline void mixed_map_all(const mixed_range_t *range, CUdeviceptr at)
{
    for (size_t i = 0; i < range->count; i++)
        mixed_check(cuMemMap(at + i * MIXED_CHUNK, MIXED_CHUNK, 0, range->chunks[i], 0),
                    "cuMemMap");
    (void)mixed_allow_all(at, range->count);
}

static inline mixed_range_t mixed_range_make(mixed_layout_t layout, size_t count, bool with_alias)
{
    mixed_range_t range = {};
    range.count = count;
    range.bytes = count * MIXED_CHUNK;
    range.chunks = (CUmemGenericAllocationHandle *)calloc(count, sizeof *range.chunks);
    for (size_t i = 0; i < count; i++)
        range.chunks[i] = mixed_create(mixed_is_host(layout, i, count), MIXED_CHUNK);
    range.at = mixed_reserve(range.bytes);
    mixed_map_all(&range, range.at);
    if (with_alias) {
        range.alias = mixed_reserve(range.bytes);
        mixed_map_all(&range, range.alias);
    }
    return range;
}

static inline void mixed_range_end(mixed_range_t *range)
{
    mixed_check(cuMemUnmap(range->at, range->bytes), "cuMemUnmap");
    mixed_check(cuMemAddressFree(range->at, range->bytes), "cuMemAddressFree");
    if (range->alias) {
        mixed_check(cuMemUnmap(range->alias, range->bytes), "cuMemUnmap");
        mixed_check(cuMemAddressFree(range->alias, range->bytes), "cuMemAddressFree");
    }
    for (size_t i = 0; i < range->count; i++)
        mixed_check(cuMemRelease(range->chunks[i]), "cuMemRelease");
    free(range->chunks);
}

#endif
