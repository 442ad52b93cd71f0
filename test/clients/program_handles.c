/* Programs that have device memory by handles of cuMemCreate, whose content they know. They know nothing of the library;
 * run by test/program_handles.sh.
 *
 *   program_handles PROGRAM SEED
 *
 * PROGRAM: a function of the list at the end. Exit status 0 if all was right. Some print what the calls returned, to be
 * compared with what they return without the library. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "test/clients/check.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        const CUresult result_ = (call);                                                           \
        if (result_ != CUDA_SUCCESS)                                                               \
            printf("CUDA error %d\n", (int)result_);                                               \
        CHECK(result_ == CUDA_SUCCESS && #call);                                                   \
    } while (0)

#define UNIT ((size_t)2 << 20)

enum { NO_DEVICE = 9 };

static uint64_t random_state;

static uint32_t pick(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % below);
}

/* ---- regions: a handle, addresses, a mapping of the whole ---- */

static const CUmemAllocationProp on_device = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc all_access = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

typedef struct region {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t bytes;
    int value;
} region_t;

static void map_at(CUdeviceptr address, CUmemGenericAllocationHandle handle, size_t bytes)
{
    OK(cuMemMap(address, bytes, 0, handle, 0));
    OK(cuMemSetAccess(address, bytes, &all_access, 1));
}

static region_t make(size_t bytes, bool addresses_first)
{
    region_t region = {.bytes = bytes, .value = -1};
    if (addresses_first)
        OK(cuMemAddressReserve(&region.address, bytes, UNIT, 0, 0));
    OK(cuMemCreate(&region.handle, bytes, &on_device, 0));
    if (!addresses_first)
        OK(cuMemAddressReserve(&region.address, bytes, 0, 0, 0));
    map_at(region.address, region.handle, bytes);
    return region;
}

static void fill(region_t *region, int value)
{
    OK(cuMemsetD8Async(region->address, (unsigned char)value, region->bytes, NULL));
    region->value = value;
}

/* Both ends, and a piece in between. */
static void check_at(CUdeviceptr address, size_t bytes, int value)
{
    static _Thread_local unsigned char host[4096];
    const size_t piece = sizeof host, at[] = {0, bytes / 2, bytes - piece};
    for (size_t i = 0; i < 3; i++) {
        OK(cuMemcpyDtoH(host, address + at[i], piece));
        CHECK(host[0] == (unsigned char)value && memcmp(host, host + 1, piece - 1) == 0);
    }
}

static void check(const region_t *region)
{
    check_at(region->address, region->bytes, region->value);
}

static void unmake(region_t *region, unsigned order)
{
    OK(cuCtxSynchronize()); /* unmapping waits for nothing */
    if (order == 0)
        OK(cuMemRelease(region->handle));
    OK(cuMemUnmap(region->address, region->bytes));
    if (order == 1)
        OK(cuMemRelease(region->handle));
    OK(cuMemAddressFree(region->address, region->bytes));
    if (order == 2)
        OK(cuMemRelease(region->handle));
}

/* ---- programs ---- */

enum { MANY = 20 };

/* Together more than the budget, with buffers of cuMemAlloc beside them; in each order of calls. */
static void many(void)
{
    region_t regions[MANY];
    CUdeviceptr buffer;
    OK(cuMemAlloc(&buffer, 4 * UNIT));
    OK(cuMemsetD8(buffer, 77, 4 * UNIT));
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            regions[i] = make(UNIT * (1 + pick(4)), i % 2);
            fill(&regions[i], (int)pick(256));
        }
        for (unsigned step = 0; step < 60; step++) {
            region_t *const region = &regions[pick(MANY)];
            check(region);
            fill(region, (int)pick(256));
        }
        for (unsigned i = 0; i < MANY; i++) {
            check(&regions[i]);
            unmake(&regions[i], i % 3);
        }
    }
    check_at(buffer, 4 * UNIT, 77);
    OK(cuMemFree(buffer));
}

/* One that is larger than the budget by itself. */
static void above(void)
{
    region_t large = make(20 * UNIT, false), small = make(3 * UNIT, false);
    fill(&small, 3);
    for (int i = 0; i < 5; i++) {
        fill(&large, 10 + i);
        check(&large);
        check(&small);
    }
    unmake(&large, 0);
    unmake(&small, 1);
}

/* Addresses and content outlive each other. */
static void again(void)
{
    region_t region = make(4 * UNIT, false), others[8];
    CUmemGenericAllocationHandle second;
    fill(&region, 5);
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(region.address, region.bytes));
    for (int i = 0; i < 8; i++) { /* what takes the budget meanwhile, and looks for addresses */
        others[i] = make(4 * UNIT, true);
        fill(&others[i], i);
    }
    map_at(region.address, region.handle, region.bytes);
    check(&region);
    OK(cuMemUnmap(region.address, region.bytes));
    OK(cuMemRelease(region.handle));
    for (int i = 0; i < 8; i++) {
        unmake(&others[i], (unsigned)i % 3);
        others[i] = make(4 * UNIT, false);
        CHECK(others[i].address != region.address);
        fill(&others[i], 20 + i);
    }
    OK(cuMemCreate(&second, region.bytes, &on_device, 0));
    map_at(region.address, second, region.bytes);
    region.handle = second;
    fill(&region, 6);
    for (int i = 0; i < 8; i++)
        check(&others[i]);
    check(&region);
    for (int i = 0; i < 8; i++)
        unmake(&others[i], (unsigned)i % 3);
    unmake(&region, 2);
}

/* The same memory at two places, by a handle with content; and that handle elsewhere. */
static void parts(void)
{
    region_t region = make(4 * UNIT, false), others[6];
    CUdeviceptr other;
    for (int i = 0; i < 6; i++) {
        others[i] = make(3 * UNIT, false);
        fill(&others[i], 50 + i);
    }
    fill(&region, 8);
    OK(cuMemAddressReserve(&other, 3 * region.bytes, 0, 0, 0));
    map_at(other + region.bytes, region.handle, region.bytes);
    check_at(other + region.bytes, region.bytes, 8);
    check(&region);
    fill(&region, 9);
    check_at(other + region.bytes, region.bytes, 9);
    OK(cuMemsetD8(other + region.bytes, 10, region.bytes));
    check_at(region.address, region.bytes, 10);
    OK(cuMemUnmap(region.address, region.bytes));
    OK(cuMemAddressFree(region.address, region.bytes));
    check_at(other + region.bytes, region.bytes, 10);
    OK(cuMemUnmap(other + region.bytes, region.bytes));
    OK(cuMemRelease(region.handle));
    /* Unmapped, and mapped elsewhere. */
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(others[0].address, others[0].bytes));
    map_at(other, others[0].handle, others[0].bytes);
    check_at(other, others[0].bytes, 50);
    OK(cuMemUnmap(other, others[0].bytes));
    OK(cuMemAddressFree(other, 3 * region.bytes));
    map_at(others[0].address, others[0].handle, others[0].bytes);
    for (int i = 0; i < 6; i++) {
        check(&others[i]);
        unmake(&others[i], (unsigned)i % 3);
    }
}

/* What is written by work that has not run yet is in the driver's handle, too. */
static void early(void)
{
    region_t region = make(4 * UNIT, false);
    CUdeviceptr other;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAddressReserve(&other, region.bytes, 0, 0, 0));
    for (int i = 0; i < 20; i++)
        OK(cuMemsetD8Async(region.address, (unsigned char)i, region.bytes, stream));
    map_at(other, region.handle, region.bytes);
    OK(cuStreamSynchronize(stream));
    check_at(other, region.bytes, 19);
    check_at(region.address, region.bytes, 19);
    OK(cuMemUnmap(other, region.bytes));
    OK(cuMemAddressFree(other, region.bytes));
    unmake(&region, 1);
    OK(cuStreamDestroy(stream));
}

/* Without tails: what the budget can never hold is refused when it is created, and nothing of it remains. */
static void refused(void)
{
    CUmemGenericAllocationHandle handle, handles[8];
    CHECK(cuMemCreate(&handle, 20 * UNIT, &on_device, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 8; i++)
            OK(cuMemCreate(&handles[i], 4 * UNIT, &on_device, 0));
        for (int i = 0; i < 8; i++)
            OK(cuMemRelease(handles[i]));
    }
    region_t region = make(4 * UNIT, true);
    fill(&region, 1);
    check(&region);
    unmake(&region, 0);
}

static void show(const char *what, CUresult result)
{
    printf("%s: %d\n", what, (int)result);
}

/* Wrong calls, each with what it returned. */
static void errors_of_making(void)
{
    CUmemAllocationProp properties = on_device;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    show("create nothing", cuMemCreate(&handle, 0, &on_device, 0));
    show("create a part of a unit", cuMemCreate(&handle, 2 * UNIT + 4096, &on_device, 0));
    show("create with flags", cuMemCreate(&handle, 2 * UNIT, &on_device, 1));
    properties.location.id = 99;
    show("create elsewhere", cuMemCreate(&handle, 2 * UNIT, &properties, 0));
    properties.location.id = NO_DEVICE;
    show("create on no device", cuMemCreate(&handle, 2 * UNIT, &properties, 0));
    show("create a bit there", cuMemCreate(&handle, 1, &properties, 0));
    show("reserve a part of a unit", cuMemAddressReserve(&address, 2 * UNIT + 4096, 0, 0, 0));
    show("reserve aligned to 3", cuMemAddressReserve(&address, 2 * UNIT, 3, 0, 0));
    show("reserve with flags", cuMemAddressReserve(&address, 2 * UNIT, 0, 0, 1));
}

static void errors_of_mapping(const region_t *region, const region_t *next)
{
    show("map twice", cuMemMap(region->address, region->bytes, 0, region->handle, 0));
    show("map over", cuMemMap(region->address, next->bytes, 0, next->handle, 0));
    check(region);
    show("map nothing", cuMemMap(region->address, 0, 0, region->handle, 0));
    show("unmap a part", cuMemUnmap(region->address, 2 * UNIT));
    show("unmap a middle", cuMemUnmap(region->address + UNIT, UNIT));
    show("unmap too much", cuMemUnmap(region->address, region->bytes + 8 * UNIT));
    show("free a mapping", cuMemFree(region->address));
    show("free it in a stream", cuMemFreeAsync(region->address, NULL));
    show("free mapped addresses", cuMemAddressFree(region->address, region->bytes));
    show("free a part of them", cuMemAddressFree(region->address, UNIT));
    check(region);
}

static void errors_of_access(const region_t *region)
{
    CUmemAccessDesc access = all_access;
    unsigned long long flags;
    OK(cuMemGetAccess(&flags, &all_access.location, region->address + 5));
    show("access", (CUresult)flags);
    access.location.id = 99;
    show("access elsewhere", cuMemSetAccess(region->address, region->bytes, &access, 1));
    access.location.id = NO_DEVICE;
    show("access of no device", cuMemSetAccess(region->address, region->bytes, &access, 1));
    show("access of none", cuMemSetAccess(region->address, region->bytes, &all_access, 0));
    show("access of a part", cuMemSetAccess(region->address, UNIT, &all_access, 1));
}

static void errors(void)
{
    region_t region = make(4 * UNIT, false), next = make(4 * UNIT, true);
    CUmemAllocationProp properties;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr start;
    size_t bytes;
    unsigned long long flags;
    const CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = NO_DEVICE};
    fill(&region, 1);
    show("what no device may", cuMemGetAccess(&flags, &nowhere, region.address));
    errors_of_making();
    errors_of_mapping(&region, &next);
    errors_of_access(&region);
    OK(cuMemGetAddressRange(&start, &bytes, region.address + 12345));
    CHECK(start == region.address && bytes == region.bytes);
    OK(cuMemGetAllocationPropertiesFromHandle(&properties, region.handle));
    CHECK(properties.location.id == 0 && properties.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    OK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(region.address + 1)));
    OK(cuMemRelease(handle));
    OK(cuMemRelease(region.handle));
    show("release once more", cuMemRelease(region.handle));
    show("properties of none", cuMemGetAllocationPropertiesFromHandle(&properties, region.handle));
    check(&region);
    OK(cuMemRetainAllocationHandle(&region.handle, (void *)(uintptr_t)region.address));
    OK(cuMemUnmap(region.address, region.bytes));
    show("unmap twice", cuMemUnmap(region.address, region.bytes));
    show("access to nothing", cuMemSetAccess(region.address, region.bytes, &all_access, 1));
    show("whose access", cuMemGetAccess(&flags, &all_access.location, region.address));
    show("handle of nothing",
         cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)region.address));
    OK(cuMemAddressFree(region.address, region.bytes));
    show("free addresses twice", cuMemAddressFree(region.address, region.bytes));
    show("map at none", cuMemMap(region.address, region.bytes, 0, region.handle, 0));
    OK(cuMemRelease(region.handle));
    show("map a released handle", cuMemMap(next.address, next.bytes, 0, region.handle, 0));
    unmake(&next, 0);
}

/* Less access than reading and writing. */
static void less_access(void)
{
    region_t region = make(4 * UNIT, false);
    CUmemAccessDesc less = all_access;
    unsigned long long flags;
    fill(&region, 4);
    OK(cuCtxSynchronize());
    less.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    OK(cuMemSetAccess(region.address, region.bytes, &less, 1));
    OK(cuMemGetAccess(&flags, &less.location, region.address));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    check(&region);
    unmake(&region, 2);
}

/* ---- threads ---- */

enum { THREADS = 4 };
static region_t shared;

static void *work(void *argument)
{
    CUmemGenericAllocationHandle handle;
    const int number = (int)(intptr_t)argument;
    CUDA(cudaSetDevice(0));
    for (int round = 0; round < 25; round++) {
        region_t region = make(UNIT * (size_t)(1 + (round + number) % 4), (round + number) % 2);
        fill(&region, number * 40 + round);
        OK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)shared.address));
        check(&region);
        OK(cuMemRelease(handle));
        unmake(&region, (unsigned)(round + number) % 3);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t running[THREADS];
    shared = make(4 * UNIT, false);
    fill(&shared, 200);
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&running[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(running[i], NULL) == 0);
    check(&shared);
    OK(cuMemRelease(shared.handle));
    check(&shared);
    CHECK(cuMemRelease(shared.handle) == CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(shared.address, shared.bytes));
    OK(cuMemAddressFree(shared.address, shared.bytes));
}

/* ---- what goes other ways than into addresses; others fill the budget meanwhile ---- */

enum { BESIDE = 6 };

static void begin_beside(region_t *others)
{
    for (int i = 0; i < BESIDE; i++) {
        others[i] = make(4 * UNIT, i % 2);
        fill(&others[i], 60 + i);
    }
}

static void end_beside(region_t *others)
{
    for (int i = 0; i < BESIDE; i++) {
        check(&others[i]);
        unmake(&others[i], (unsigned)i % 3);
    }
}

static const CUmemAllocationHandleType by_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/* A handle that may be exported; mapped, if there is an address. */
static region_t make_shareable(bool is_mapped)
{
    region_t region = {.bytes = 4 * UNIT, .value = -1};
    CUmemAllocationProp properties = on_device;
    properties.requestedHandleTypes = by_file;
    OK(cuMemAddressReserve(&region.address, region.bytes, 0, 0, 0));
    OK(cuMemCreate(&region.handle, region.bytes, &properties, 0));
    if (is_mapped)
        map_at(region.address, region.handle, region.bytes);
    return region;
}

/* What it stands for is the same memory, though mapped elsewhere. */
static void check_imported(int file, int value)
{
    const size_t bytes = 4 * UNIT;
    region_t other = {.bytes = bytes, .value = value};
    OK(cuMemImportFromShareableHandle(&other.handle, (void *)(intptr_t)file, by_file));
    CHECK(close(file) == 0);
    OK(cuMemAddressReserve(&other.address, bytes, 0, 0, 0));
    map_at(other.address, other.handle, bytes);
    if (value >= 0)
        check(&other);
    fill(&other, value + 1);
    check(&other);
    unmake(&other, 0);
}

static int export(const region_t *region)
{
    int file = -1;
    OK(cuMemExportToShareableHandle(&file, region->handle, by_file, 0));
    return file;
}

/* With content that is mapped, that is not, and without any. */
static void exported(void)
{
    region_t others[BESIDE], mapped = make_shareable(true), unmapped = make_shareable(true);
    region_t promised = make_shareable(false), plain = make(4 * UNIT, true);
    int file = -1;
    fill(&mapped, 7);
    fill(&unmapped, 17);
    fill(&plain, 27);
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(unmapped.address, unmapped.bytes));
    begin_beside(others);
    check_imported(export(&mapped), 7);
    check_at(mapped.address, mapped.bytes, 8);
    check_imported(export(&unmapped), 17);
    map_at(unmapped.address, unmapped.handle, unmapped.bytes);
    check_at(unmapped.address, unmapped.bytes, 18);
    check_imported(export(&promised), -1);
    map_at(promised.address, promised.handle, promised.bytes);
    check_at(promised.address, promised.bytes, 0);
    CHECK(cuMemExportToShareableHandle(&file, plain.handle, by_file, 0) ==
          CUDA_ERROR_INVALID_VALUE);
    check(&plain);
    end_beside(others);
    unmake(&mapped, 0);
    unmake(&unmapped, 1);
    unmake(&promised, 2);
    unmake(&plain, 0);
    CHECK(cuMemExportToShareableHandle(&file, mapped.handle, by_file, 0) ==
          CUDA_ERROR_INVALID_VALUE);
}

/* Multicast objects and arrays, of which the simulated GPU only looks at what they are given. */
static void bound(void)
{
    region_t others[BESIDE], one = make(4 * UNIT, false), two = make(4 * UNIT, true);
    CUarrayMapInfo maps[2] = {0};
    fill(&one, 1);
    fill(&two, 2);
    begin_beside(others);
    OK(cuMulticastBindMem(1, 0, one.handle, 0, one.bytes, 0));
    OK(cuMulticastBindAddr(1, 0, two.address, two.bytes, 0));
    check(&one);
    check(&two);
    for (int i = 0; i < 2; i++) {
        maps[i].memOperationType = CU_MEM_OPERATION_TYPE_MAP;
        maps[i].memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
        maps[i].memHandle.memHandle = i == 0 ? one.handle : others[0].handle;
        maps[i].deviceBitMask = 1;
    }
    OK(cuMemMapArrayAsync(maps, 2, NULL));
    CHECK(maps[1].memHandle.memHandle == others[0].handle);
    end_beside(others);
    unmake(&one, 1);
    CHECK(cuMulticastBindMem(1, 0, one.handle, 0, one.bytes, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMapArrayAsync(maps, 2, NULL) == CUDA_ERROR_INVALID_VALUE);
    unmake(&two, 2);
}

static void fill_on(int device, region_t *region, int value)
{
    CUDA(cudaSetDevice(device));
    fill(region, value);
    OK(cuCtxSynchronize());
    CUDA(cudaSetDevice(0));
}

/* A second device works on it, while it is virtual and after that. */
static void peers(void)
{
    region_t others[BESIDE], region = make(4 * UNIT, false);
    CUmemAccessDesc both[2] = {all_access, all_access};
    unsigned long long flags;
    CUdeviceptr second;
    both[1].location.id = 1;
    CUDA(cudaSetDevice(1));
    CUDA(cudaFree(NULL));
    CUDA(cudaSetDevice(0));
    OK(cuMemSetAccess(region.address, region.bytes, both, 2));
    begin_beside(others);
    fill_on(1, &region, 3);
    check(&region);
    OK(cuMemAddressReserve(&second, 2 * region.bytes, 0, 0, 0));
    OK(cuMemMap(second, region.bytes, 0, region.handle, 0));
    OK(cuMemSetAccess(second, region.bytes, &all_access, 1));
    check_at(second, region.bytes, 3);
    OK(cuMemGetAccess(&flags, &both[1].location, region.address));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    fill_on(1, &region, 4);
    check_at(second, region.bytes, 4);
    OK(cuMemUnmap(second, region.bytes));
    OK(cuMemAddressFree(second, 2 * region.bytes));
    end_beside(others);
    unmake(&region, 1);
}

/* ---- as PyTorch's expandable segments (c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment) ---- */

enum { SEGMENT_HANDLES = 24 };

typedef struct segment {
    CUdeviceptr start;
    size_t bytes, each, count;
    CUmemGenericAllocationHandle handles[SEGMENT_HANDLES]; /* 0: nothing is mapped there */
    int values[SEGMENT_HANDLES];
} segment_t;

/* Addresses for 9/8 of the device. */
static void reserve_segment(segment_t *segment, size_t each)
{
    size_t total;
    OK(cuDeviceTotalMem(&total, 0));
    *segment = (segment_t){.each = each, .count = (total + total / 8 + each - 1) / each};
    segment->bytes = segment->count * each;
    OK(cuMemAddressReserve(&segment->start, segment->bytes, 0, 0, 0));
    if (segment->count > SEGMENT_HANDLES)
        segment->count = SEGMENT_HANDLES;
}

static void unmap_handles(segment_t *segment, size_t from, size_t to)
{
    OK(cuStreamSynchronize(NULL));
    for (size_t i = from; i < to; i++) {
        OK(cuMemUnmap(segment->start + i * segment->each, segment->each));
        OK(cuMemRelease(segment->handles[i]));
        segment->handles[i] = 0;
    }
}

/* false: there is no memory, which only cuMemCreate may say. */
static bool create_handles(segment_t *segment, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const CUresult result = cuMemCreate(&segment->handles[i], segment->each, &on_device, 0);
        if (result == CUDA_SUCCESS)
            continue;
        CHECK(result == CUDA_ERROR_OUT_OF_MEMORY);
        while (i-- > from) {
            OK(cuMemRelease(segment->handles[i]));
            segment->handles[i] = 0;
        }
        return false;
    }
    return true;
}

static bool map_handles(segment_t *segment, size_t from, size_t to)
{
    const size_t each = segment->each;
    if (!create_handles(segment, from, to))
        return false;
    for (size_t i = from; i < to; i++)
        OK(cuMemMap(segment->start + i * each, each, 0, segment->handles[i], 0));
    OK(cuMemSetAccess(segment->start + from * each, (to - from) * each, &all_access, 1));
    for (size_t i = from; i < to; i++) {
        segment->values[i] = (int)pick(256);
        OK(cuMemsetD8Async(segment->start + i * each, (unsigned char)segment->values[i], each,
                           NULL));
    }
    return true;
}

static void check_segment(const segment_t *segment)
{
    for (size_t i = 0; i < segment->count; i++)
        if (segment->handles[i])
            check_at(segment->start + i * segment->each, segment->each, segment->values[i]);
}

/* What is mapped from there on, or is not. */
static size_t alike(const segment_t *segment, size_t from)
{
    size_t to = from;
    while (to < segment->count && !segment->handles[to] == !segment->handles[from])
        to++;
    return to;
}

static void end_segment(segment_t *segment)
{
    for (size_t i = 0, to; i < segment->count; i = to) {
        to = alike(segment, i);
        if (segment->handles[i])
            unmap_handles(segment, i, to);
    }
    OK(cuMemAddressFree(segment->start, segment->bytes));
}

static void change_segment(segment_t *segment, unsigned *refusals)
{
    const size_t from = pick((uint32_t)segment->count), end = alike(segment, from);
    const size_t to = from + 1 + pick((uint32_t)(end - from < 4 ? end - from : 4));
    const size_t last = to < end ? to : end;
    if (segment->handles[from])
        unmap_handles(segment, from, last);
    else
        *refusals += !map_handles(segment, from, last);
}

/* Segments for small and large blocks, and a region that is mapped whole beside them, at once and later. */
static void expandable(void)
{
    segment_t segments[2];
    unsigned refusals = 0;
    CUdeviceptr waiting; /* for a handle as large as those of a segment */
    region_t region = make(4 * UNIT, false);
    fill(&region, 4);
    OK(cuMemAddressReserve(&waiting, 10 * UNIT, 0, 0, 0));
    reserve_segment(&segments[0], UNIT);
    reserve_segment(&segments[1], 10 * UNIT);
    refusals += !map_handles(&segments[1], 0, 8);
    for (int step = 0; step < 60; step++) {
        change_segment(&segments[pick(3) == 0], &refusals);
        check_segment(&segments[0]);
        check_segment(&segments[1]);
        check(&region);
    }
    CHECK(refusals < 60);
    end_segment(&segments[0]);
    end_segment(&segments[1]);
    OK(cuMemAddressFree(waiting, 10 * UNIT));
    unmake(&region, 0);
}

/* ---- what the driver has is retained beside its last release ---- */

static pthread_barrier_t together;

static void *retain(void *unused)
{
    static CUmemGenericAllocationHandle handle;
    (void)unused;
    CUDA(cudaSetDevice(0));
    (void)pthread_barrier_wait(&together);
    OK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)shared.address));
    return &handle;
}

static void retained(void)
{
    CUmemAllocationProp properties;
    CUdeviceptr second;
    CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
    OK(cuMemAddressReserve(&second, UNIT, 0, 0, 0));
    for (int round = 0; round < 20; round++) {
        pthread_t other;
        void *handle;
        shared = make(UNIT, false);
        fill(&shared, round);
        map_at(second, shared.handle, UNIT);
        CHECK(pthread_create(&other, NULL, retain, NULL) == 0);
        (void)pthread_barrier_wait(&together);
        OK(cuMemRelease(shared.handle));
        CHECK(pthread_join(other, &handle) == 0);
        shared.handle = *(CUmemGenericAllocationHandle *)handle;
        OK(cuMemGetAllocationPropertiesFromHandle(&properties, shared.handle));
        OK(cuMemUnmap(second, UNIT));
        map_at(second, shared.handle, UNIT);
        check_at(second, UNIT, round);
        OK(cuMemUnmap(second, UNIT));
        unmake(&shared, (unsigned)round % 3);
    }
    OK(cuMemAddressFree(second, UNIT));
}

/* ---- calls of exit handlers that run after the library's own ---- */

static region_t last;

static void go_on(void)
{
    region_t other = {.bytes = 4 * UNIT};
    OK(cuMemUnmap(last.address, last.bytes));
    map_at(last.address, last.handle, last.bytes);
    check(&last);
    OK(cuMemAddressReserve(&other.address, other.bytes, 0, 0, 0));
    OK(cuMemCreate(&other.handle, other.bytes, &on_device, 0));
    map_at(other.address, other.handle, other.bytes);
    fill(&other, 3);
    check(&other);
    unmake(&other, 0);
    unmake(&last, 1);
}

static void at_exit(void)
{
    last = make(4 * UNIT, false);
    fill(&last, 9);
    OK(cuCtxSynchronize());
}

/* A graph runs again after its memory was given up and mapped anew. */
static void graph(void)
{
    region_t region = make(4 * UNIT, false);
    CUgraph graph;
    CUgraphExec executable;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(region.address, 3, region.bytes, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < 3; round++) {
        fill(&region, 9);
        OK(cuCtxSynchronize());
        OK(cuGraphLaunch(executable, stream));
        OK(cuStreamSynchronize(stream));
        check_at(region.address, region.bytes, 3);
        OK(cuMemUnmap(region.address, region.bytes));
        OK(cuMemRelease(region.handle));
        OK(cuMemCreate(&region.handle, region.bytes, &on_device, 0));
        map_at(region.address, region.handle, region.bytes);
    }
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    unmake(&region, 1);
    OK(cuStreamDestroy(stream));
}

/* While a graph names it, it may have no second mapping, and goes on; once the graph is gone, it may. */
static void held(void)
{
    region_t region = make(4 * UNIT, false), others[BESIDE];
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr second;
    OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(region.address, 3, region.bytes, CU_STREAM_PER_THREAD));
    OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    OK(cuGraphInstantiate(&executable, graph, 0));
    fill(&region, 9);
    OK(cuMemAddressReserve(&second, region.bytes, 0, 0, 0));
    begin_beside(others);
    const CUresult result = cuMemMap(second, region.bytes, 0, region.handle, 0);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED);
    check(&region);
    OK(cuGraphLaunch(executable, NULL));
    check_at(region.address, region.bytes, 3);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    if (result != CUDA_SUCCESS)
        OK(cuMemMap(second, region.bytes, 0, region.handle, 0));
    OK(cuMemSetAccess(second, region.bytes, &all_access, 1));
    check_at(second, region.bytes, 3);
    OK(cuMemUnmap(second, region.bytes));
    OK(cuMemAddressFree(second, region.bytes));
    end_beside(others);
    unmake(&region, 0);
}

/* What was created before a reset is there after it, mapped elsewhere; then all begins anew. */
static void reset(void)
{
    region_t unmapped = make(4 * UNIT, false), mapped = make(4 * UNIT, false), region;
    CUmemGenericAllocationHandle promised;
    OK(cuMemCreate(&promised, 4 * UNIT, &on_device, 0));
    fill(&unmapped, 2);
    fill(&mapped, 3);
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(unmapped.address, unmapped.bytes));
    CUDA(cudaDeviceReset());
    CUDA(cudaFree(NULL));
    OK(cuMemUnmap(mapped.address, mapped.bytes));
    OK(cuMemAddressReserve(&unmapped.address, unmapped.bytes, 0, 0, 0));
    OK(cuMemAddressReserve(&mapped.address, mapped.bytes, 0, 0, 0));
    map_at(unmapped.address, unmapped.handle, unmapped.bytes);
    map_at(mapped.address, mapped.handle, mapped.bytes);
    check(&unmapped);
    check(&mapped);
    unmake(&mapped, 1);
    OK(cuMemAddressReserve(&mapped.address, mapped.bytes, 0, 0, 0));
    map_at(mapped.address, promised, mapped.bytes);
    mapped.handle = promised;
    fill(&mapped, 4);
    check(&mapped);
    unmake(&unmapped, 0);
    unmake(&mapped, 1);
    region = make(4 * UNIT, false);
    fill(&region, 7);
    check(&region);
    unmake(&region, 1);
}

/* More than the budget has content: what it has no room for is lost, and can be released. */
static void reset_all(void)
{
    region_t regions[MANY];
    for (int i = 0; i < MANY; i++) {
        regions[i] = make(4 * UNIT, false);
        fill(&regions[i], i);
    }
    OK(cuCtxSynchronize());
    CUDA(cudaDeviceReset());
    CUDA(cudaFree(NULL));
    for (int i = 0; i < MANY; i++) {
        (void)cuMemUnmap(regions[i].address, regions[i].bytes);
        OK(cuMemRelease(regions[i].handle));
    }
    regions[0] = make(12 * UNIT, false);
    fill(&regions[0], 7);
    check(&regions[0]);
    unmake(&regions[0], 1);
}

/* ---- a call fails: made once more, it succeeds, and no content is lost ---- */

#define TWICE(call)                                                                                \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            OK(call);                                                                              \
    } while (0)

static void check_twice(CUdeviceptr address, size_t bytes, int value)
{
    static unsigned char host[4 * UNIT];
    TWICE(cuMemcpyDtoH(host, address, bytes));
    CHECK(host[0] == (unsigned char)value && memcmp(host, host + 1, bytes - 1) == 0);
}

enum { FEW = 5 };

static void begin_few(region_t *regions)
{
    for (int i = 0; i < FEW; i++) {
        region_t *const region = &regions[i];
        region->bytes = 4 * UNIT;
        region->value = 30 + i;
        TWICE(cuMemCreate(&region->handle, region->bytes, &on_device, 0));
        TWICE(cuMemAddressReserve(&region->address, region->bytes, 0, 0, 0));
        TWICE(cuMemMap(region->address, region->bytes, 0, region->handle, 0));
        TWICE(cuMemSetAccess(region->address, region->bytes, &all_access, 1));
        TWICE(cuMemsetD8Async(region->address, (unsigned char)region->value, region->bytes, NULL));
    }
}

static void end_few(region_t *regions)
{
    TWICE(cuCtxSynchronize());
    for (int i = 0; i < FEW; i++) {
        check_twice(regions[i].address, regions[i].bytes, regions[i].value);
        TWICE(cuMemUnmap(regions[i].address, regions[i].bytes));
        TWICE(cuMemRelease(regions[i].handle));
        TWICE(cuMemAddressFree(regions[i].address, regions[i].bytes));
    }
}

static void faulty(void)
{
    region_t regions[FEW];
    CUdeviceptr second;
    begin_few(regions);
    const region_t *const region = &regions[1];
    TWICE(cuMemAddressReserve(&second, region->bytes, 0, 0, 0));
    TWICE(cuMemMap(second, region->bytes, 0, region->handle, 0));
    TWICE(cuMemSetAccess(second, region->bytes, &all_access, 1));
    check_twice(second, region->bytes, region->value);
    check_twice(region->address, region->bytes, region->value);
    TWICE(cuMemUnmap(second, region->bytes));
    TWICE(cuMemAddressFree(second, region->bytes));
    end_few(regions);
}

/* ---- random programs: mappings change while work is queued elsewhere ---- */

enum { REGIONS = 10, STREAMS = 3 };

typedef struct slot {
    region_t region;
    CUdeviceptr second; /* 0: mapped once */
    bool there;
    CUstream stream; /* whose work wrote it last */
} slot_t;

static CUstream streams[STREAMS];

static void settle(const slot_t *slot)
{
    OK(cuStreamSynchronize(slot->stream));
}

static void begin_slot(slot_t *slot)
{
    const size_t bytes = UNIT * (1 + pick(5));
    const bool first = pick(2);
    CUresult result;
    *slot = (slot_t){.region = {.bytes = bytes}};
    if (first)
        OK(cuMemAddressReserve(&slot->region.address, bytes, 0, 0, 0));
    result = cuMemCreate(&slot->region.handle, bytes, &on_device, 0);
    if (result != CUDA_SUCCESS) {
        CHECK(result == CUDA_ERROR_OUT_OF_MEMORY);
        if (first)
            OK(cuMemAddressFree(slot->region.address, bytes));
        return;
    }
    if (!first)
        OK(cuMemAddressReserve(&slot->region.address, bytes, 0, 0, 0));
    map_at(slot->region.address, slot->region.handle, bytes);
    slot->there = true;
    slot->stream = streams[pick(STREAMS)];
    OK(cuMemsetD8Async(slot->region.address, (unsigned char)(slot->region.value = (int)pick(256)),
                       bytes, slot->stream));
}

static void write_slot(slot_t *slot)
{
    settle(slot);
    slot->stream = streams[pick(STREAMS)];
    slot->region.value = (int)pick(256);
    const CUdeviceptr at = slot->second && pick(2) ? slot->second : slot->region.address;
    OK(cuMemsetD8Async(at, (unsigned char)slot->region.value, slot->region.bytes, slot->stream));
}

static void remap_slot(slot_t *slot)
{
    settle(slot);
    OK(cuMemUnmap(slot->region.address, slot->region.bytes));
    map_at(slot->region.address, slot->region.handle, slot->region.bytes);
}

/* Queued work goes on meanwhile. */
static void alias_slot(slot_t *slot)
{
    if (slot->second) {
        settle(slot);
        OK(cuMemUnmap(slot->second, slot->region.bytes));
        OK(cuMemAddressFree(slot->second, slot->region.bytes));
        slot->second = 0;
        return;
    }
    OK(cuMemAddressReserve(&slot->second, slot->region.bytes, 0, 0, 0));
    const CUresult result = cuMemMap(slot->second, slot->region.bytes, 0, slot->region.handle, 0);
    if (result == CUDA_SUCCESS) {
        OK(cuMemSetAccess(slot->second, slot->region.bytes, &all_access, 1));
        return;
    }
    CHECK(result == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAddressFree(slot->second, slot->region.bytes));
    slot->second = 0;
}

static void check_slot(const slot_t *slot)
{
    settle(slot);
    check_at(slot->region.address, slot->region.bytes, slot->region.value);
    if (slot->second)
        check_at(slot->second, slot->region.bytes, slot->region.value);
}

static void end_slot(slot_t *slot)
{
    check_slot(slot);
    if (slot->second)
        alias_slot(slot);
    unmake(&slot->region, pick(3));
    slot->there = false;
}

static void random_program(void)
{
    slot_t slots[REGIONS] = {0};
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int step = 0; step < 300; step++) {
        slot_t *const slot = &slots[pick(REGIONS)];
        const unsigned what = pick(20);
        if (!slot->there)
            begin_slot(slot);
        else if (what < 9)
            write_slot(slot);
        else if (what < 14)
            check_slot(slot);
        else if (what < 16)
            remap_slot(slot);
        else if (what < 17)
            alias_slot(slot);
        else
            end_slot(slot);
    }
    for (int i = 0; i < REGIONS; i++)
        if (slots[i].there)
            end_slot(&slots[i]);
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy(streams[i]));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"above", above},       {"access", less_access},
                    {"again", again},       {"at_exit", at_exit},
                    {"retained", retained}, {"bound", bound},
                    {"exported", exported}, {"peers", peers},
                    {"early", early},       {"expandable", expandable},
                    {"errors", errors},     {"faulty", faulty},
                    {"graph", graph},       {"many", many},
                    {"parts", parts},       {"random", random_program},
                    {"refused", refused},   {"reset", reset},
                    {"held", held},         {"reset_all", reset_all},
                    {"threads", threads}};
    CHECK(argc == 3);
    random_state = strtoull(argv[2], NULL, 10);
    if (strcmp(argv[1], "at_exit") == 0)
        CHECK(atexit(go_on) == 0);
    CUDA(cudaFree(NULL));
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, argv[1]) == 0) {
            programs[i].run();
            return 0;
        }
    return 2;
}
