/* The virtual memory API: what is refused, what shares bytes, what is counted, and which mappings
 * an operation meets. */
#include <math.h>
#include <sys/resource.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

#define CHUNK ((size_t)2 << 20)

static CUmemAllocationProp device_memory(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static CUmemAllocationProp host_memory(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
}

static CUmemGenericAllocationHandle new_handle(CUmemAllocationProp properties, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    OK(cudaFree(NULL));
    OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

static CUdeviceptr new_addresses(size_t bytes)
{
    CUdeviceptr address;
    OK(cudaFree(NULL)); /* makes the context */
    OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static CUresult give_access(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return cuMemSetAccess(address, bytes, &access, 1);
}

static void map_at(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle)
{
    OK(cuMemMap(address, bytes, 0, handle, 0));
    OK(give_access(address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static size_t free_memory(void)
{
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static float read_float(CUdeviceptr address)
{
    float value;
    OK(cuMemcpyDtoH(&value, address, sizeof value));
    return value;
}

static void *pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static const char *const both_modes[] = {"", "MICRODNN_SIM_MODE=timing"};

static void map_whole_handles_only(void)
{
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), 2 * CHUNK);
    CUdeviceptr base = new_addresses(8 * CHUNK);
    CHECK(cuMemMap(base, CHUNK, 0, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuMemMap(base, CHUNK, CHUNK, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuMemMap(base, 3 * CHUNK, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMap(base + 7 * CHUNK, 2 * CHUNK, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMap(base + 4096, 2 * CHUNK, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMap(base + 64 * CHUNK, 2 * CHUNK, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMap(base, 2 * CHUNK, 0, handle + 8, 0) == CUDA_ERROR_INVALID_VALUE);
    map_at(base + CHUNK, 2 * CHUNK, handle);
    CHECK(cuMemMap(base, 2 * CHUNK, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE); /* overlaps */
    CHECK(cuMemUnmap(base + CHUNK, CHUNK) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemUnmap(base + 2 * CHUNK, CHUNK) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemUnmap(base, 3 * CHUNK) == CUDA_ERROR_INVALID_VALUE);
    CHECK(give_access(base, 3 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAddressFree(base, 8 * CHUNK) == CUDA_ERROR_INVALID_VALUE); /* mapped */
    CHECK(cuMemFree(base + CHUNK) == CUDA_ERROR_INVALID_VALUE);
    map_at(base + 3 * CHUNK, 2 * CHUNK, handle);
    OK(cuMemUnmap(base + CHUNK, 4 * CHUNK)); /* two neighbours at once */
    CHECK(cuMemUnmap(base + CHUNK, 2 * CHUNK) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    CHECK(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAddressFree(base, 4 * CHUNK) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(base, 8 * CHUNK));
    CHECK(cuMemAddressFree(base, 8 * CHUNK) == CUDA_ERROR_INVALID_VALUE);
}

CASE(handles_map_and_unmap_whole)
{
    for (int i = 0; i < 2; i++)
        expect_success(map_whole_handles_only, both_modes[i]);
}

static void wrong_creations(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address, again;
    size_t granularity = 0;
    CUmemAllocationProp properties = device_memory(0), elsewhere = device_memory(1);
    OK(cudaFree(NULL));
    OK(cuMemGetAllocationGranularity(&granularity, &properties,
                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    CHECK(granularity == CHUNK);
    CHECK(cuMemCreate(&handle, CHUNK, &elsewhere, 0) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuMemCreate(&handle, CHUNK + 4096, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemCreate(&handle, 0, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemCreate(&handle, 65 << 20, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    CHECK(cuMemCreate(&handle, CHUNK, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAddressReserve(&address, CHUNK + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAddressReserve(&address, CHUNK, 3, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAddressReserve(&address, (size_t)1 << 50, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAddressReserve(&address, 3 * CHUNK, (size_t)1 << 30, 0, 0));
    CHECK(address % ((size_t)1 << 30) == 0);
    OK(cuMemAddressFree(address, 3 * CHUNK));
    OK(cuMemAddressReserve(&again, CHUNK, 0, address + CHUNK, 0));
    CHECK(again == address + CHUNK); /* the hint was free */
    OK(cuMemAddressReserve(&address, CHUNK, 0, again, 0));
    CHECK(address != again && address % CHUNK == 0);
}

CASE(creations_have_rules)
{
    expect_success(wrong_creations, "");
}

static void count_memory(void)
{
    CUmemGenericAllocationHandle kept = new_handle(device_memory(0), 48 << 20), more;
    CUmemAllocationProp properties = device_memory(0), host = host_memory();
    CHECK(free_memory() == 16 << 20);
    CHECK(cuMemCreate(&more, 18 << 20, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemCreate(&more, 256 << 20, &host, 0)); /* is not the device's */
    OK(cuMemRelease(more));
    void *none;
    CHECK(cudaMalloc(&none, 17 << 20) == cudaErrorMemoryAllocation);
    CUdeviceptr base = new_addresses(128 << 20);
    CHECK(free_memory() == 16 << 20);
    map_at(base, 48 << 20, kept);
    map_at(base + (64 << 20), 48 << 20, kept);
    OK(cuMemRelease(kept));
    CHECK(free_memory() == 16 << 20); /* the mappings hold it */
    OK(cuMemUnmap(base, 48 << 20));
    CHECK(free_memory() == 16 << 20);
    CUmemGenericAllocationHandle again;
    OK(cuMemRetainAllocationHandle(&again, pointer(base + (64 << 20) + 12345)));
    CHECK(again == kept);
    OK(cuMemUnmap(base + (64 << 20), 48 << 20));
    CHECK(free_memory() == 16 << 20); /* and now the reference */
    OK(cuMemRelease(again));
    CHECK(free_memory() == 64 << 20);
    CHECK(cuMemRetainAllocationHandle(&again, pointer(base)) == CUDA_ERROR_INVALID_VALUE);
}

CASE(memory_counts_until_nothing_holds_it)
{
    expect_success(count_memory, "MICRODNN_SIM_MEMORY=64MiB");
    expect_success(count_memory, "MICRODNN_SIM_MEMORY=64MiB MICRODNN_SIM_MODE=timing");
}

/* All of an H200 in the smallest chunks. */
static void map_many(void)
{
    enum { COUNT = 139 * 512 };
    static CUmemGenericAllocationHandle chunks[COUNT];
    CUdeviceptr base = new_addresses(COUNT * CHUNK);
    for (size_t i = 0; i < COUNT; i++)
        chunks[i] = new_handle(device_memory(0), CHUNK);
    CHECK(free_memory() == 0);
    for (size_t i = 0; i < COUNT; i++)
        map_at(base + i * CHUNK, CHUNK, chunks[i]);
    for (size_t i = 0; i < COUNT; i++)
        OK(cuMemRelease(chunks[i]));
    CHECK(free_memory() == 0);
    OK(cuMemUnmap(base, COUNT * CHUNK));
    CHECK(free_memory() == COUNT * CHUNK);
    CHECK(cuMemRelease(chunks[7]) == CUDA_ERROR_INVALID_VALUE);
    CUmemGenericAllocationHandle again = new_handle(device_memory(0), CHUNK);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(again != chunks[i]);
}

CASE(many_chunks_are_no_trouble)
{
    expect_success(map_many, "MICRODNN_SIM_MODE=timing");
}

static void share_bytes(void)
{
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), CHUNK);
    CUdeviceptr base = new_addresses(4 * CHUNK), alias = base + 2 * CHUNK;
    map_at(base, CHUNK, handle);
    CHECK(isnan(read_float(base)) && isnan(read_float(base + CHUNK - 4)));
    map_at(alias, CHUNK, handle);
    OK(cuMemsetD32(base, 0, 16));
    OK(launch_add(pointer(alias), 5, 16, 1, NULL));
    CHECK(read_float(base + 60) == 5);
    OK(cuMemUnmap(base, CHUNK));
    CHECK(read_float(alias) == 5);
    map_at(base + CHUNK, CHUNK, handle); /* the content moves with the handle */
    CHECK(read_float(base + CHUNK) == 5);
    OK(cuMemUnmap(base + CHUNK, CHUNK));
    OK(cuMemUnmap(alias, CHUNK));
    OK(cuMemRelease(handle));
    map_at(alias, CHUNK, new_handle(device_memory(0), CHUNK)); /* likely at the same place */
    CHECK(isnan(read_float(alias)));
}

CASE(one_handle_at_two_addresses_is_one_memory)
{
    expect_success(share_bytes, "");
}

static void cross_mappings(void)
{
    CUdeviceptr base = new_addresses(3 * CHUNK), middle = base + CHUNK - 16;
    for (unsigned i = 0; i < 2; i++)
        map_at(base + i * CHUNK, CHUNK, new_handle(device_memory(0), CHUNK));
    OK(cuMemsetD8(middle, 0, 32));
    OK(launch_add(pointer(middle), 3, 8, 1, NULL));
    float values[8];
    OK(cuMemcpyDtoH(values, middle, sizeof values));
    for (int i = 0; i < 8; i++)
        CHECK(values[i] == 3);
    CHECK(cuMemsetD8(base, 0, 2 * CHUNK + 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(base + 2 * CHUNK, values, 4) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyDtoD(base, base + CHUNK, CHUNK));
    OK(cudaDeviceSynchronize());
}

CASE(neighbouring_mappings_are_one_stretch)
{
    expect_success(cross_mappings, "");
    expect_success(cross_mappings, "MICRODNN_SIM_SEED=7");
}

static void expect_fault(CUdeviceptr address, uint64_t count)
{
    OK(launch_add(pointer(address), 1, count, 1, NULL));
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    void *none;
    CHECK(cudaMalloc(&none, 64) == cudaErrorIllegalAddress);
}

static void touch_reserved(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    OK(cudaFree(NULL));
    expect_fault(base, 1);
}

static void touch_behind_mapping(void)
{
    CUdeviceptr base = new_addresses(2 * CHUNK);
    map_at(base, CHUNK, new_handle(device_memory(0), CHUNK));
    expect_fault(base + CHUNK - 4, 2);
}

static void touch_without_access(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), CHUNK);
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    CHECK(cuMemsetD8(base, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    expect_fault(base, 1);
}

/* A mapping starts without access every time. */
static void touch_after_remap(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), CHUNK);
    map_at(base, CHUNK, handle);
    OK(cuMemUnmap(base, CHUNK));
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    expect_fault(base, 1);
}

/* Nothing made it wait: what was enqueued before the unmapping runs after it. */
static void unmap_too_early(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    map_at(base, CHUNK, new_handle(device_memory(0), CHUNK));
    OK(launch_add(pointer(base), 1, 1, 1, NULL));
    OK(cuMemUnmap(base, CHUNK));
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

static void unmap_under_copy(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    char *host = new_pinned(64);
    cudaStream_t stream = new_stream();
    map_at(base, CHUNK, new_handle(device_memory(0), CHUNK));
    OK(cuMemcpyDtoHAsync(host, base, 64, stream));
    OK(cuMemUnmap(base, CHUNK));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
}

/* Other memory at the same address before the operation ran: it sees that. */
static void remap_too_early(void)
{
    CUdeviceptr base = new_addresses(4 * CHUNK);
    CUmemGenericAllocationHandle first = new_handle(device_memory(0), CHUNK);
    CUmemGenericAllocationHandle second = new_handle(device_memory(0), CHUNK);
    map_at(base + CHUNK, CHUNK, first);
    map_at(base + 2 * CHUNK, CHUNK, second);
    OK(cuMemsetD32(base + CHUNK, 0, 1));
    OK(cuMemsetD32(base + 2 * CHUNK, 0, 1));
    map_at(base, CHUNK, first);
    OK(cudaDeviceSynchronize());
    OK(launch_add(pointer(base), 1, 1, 1, NULL));
    OK(cuMemUnmap(base, CHUNK));
    map_at(base, CHUNK, second);
    CHECK(read_float(base + 2 * CHUNK) == 1 && read_float(base + CHUNK) == 0);
}

CASE(an_operation_meets_the_mappings_of_its_moment)
{
    expect_success(touch_reserved, "");
    expect_success(touch_behind_mapping, "");
    expect_success(touch_without_access, "");
    expect_success(touch_after_remap, "");
    expect_success(unmap_too_early, "");
    expect_success(unmap_under_copy, "");
    expect_success(remap_too_early, "");
}

/* As any device address, also when there is memory behind it. */
static void read_mapping_on_host(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    CUdeviceptr base = new_addresses(CHUNK);
    map_at(base, CHUNK, new_handle(device_memory(0), CHUNK));
    *(volatile char *)pointer(base) = 1;
}

/* A kernel's write where no device may write. */
static void write_read_only(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    CUdeviceptr base = new_addresses(CHUNK);
    map_at(base, CHUNK, new_handle(device_memory(0), CHUNK));
    OK(give_access(base, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    CHECK(cuMemsetD8(base, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyDtoHAsync(new_pinned(4), base, 4, NULL));
    OK(cudaDeviceSynchronize());
    OK(launch_add(pointer(base), 1, 1, 1, NULL));
    cudaDeviceSynchronize();
}

CASE(what_is_not_permitted_faults)
{
    int statuses[] = {run_child(read_mapping_on_host, "ASAN_OPTIONS=log_path=/dev/null"),
                      run_child(write_read_only, "ASAN_OPTIONS=log_path=/dev/null")};
    for (int i = 0; i < 2; i++) /* a sanitizer may make an exit of the signal */
        assert_true(WIFSIGNALED(statuses[i]) ? WTERMSIG(statuses[i]) == SIGSEGV
                                             : WEXITSTATUS(statuses[i]) > 1);
}

static void map_host_memory(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    CUmemGenericAllocationHandle handle = new_handle(host_memory(), CHUNK);
    CUmemAccessDesc access[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    OK(cuMemSetAccess(base, CHUNK, access, 2));
    float *floats = pointer(base);
    CHECK(isnan(floats[0]));
    floats[0] = 1;
    OK(launch_add(floats, 2, 1, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(floats[0] == 3);
    unsigned type;
    int ordinal;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + 5));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemUnmap(base, CHUNK));
    CUmemGenericAllocationHandle on_device = new_handle(device_memory(0), CHUNK);
    OK(cuMemMap(base, CHUNK, 0, on_device, 0));
    CHECK(cuMemSetAccess(base, CHUNK, access, 2) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemSetAccess(base, CHUNK, access, 1));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + 5));
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base + 5));
    CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
}

CASE(both_sides_reach_host_memory_at_a_device_address)
{
    expect_success(map_host_memory, "");
}

/* As a range and a window for copies have it: one with access for the device alone. */
static void map_host_memory_twice(void)
{
    CUdeviceptr base = new_addresses(4 * CHUNK), window = base + 2 * CHUNK;
    CUmemGenericAllocationHandle handle = new_handle(host_memory(), CHUNK);
    CUmemAccessDesc access[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    OK(cuMemMap(window, CHUNK, 0, handle, 0));
    OK(cuMemSetAccess(window, CHUNK, access, 2));
    map_at(base, CHUNK, handle);
    float *floats = pointer(window);
    floats[0] = 1;
    OK(launch_add(pointer(base), 2, 1, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(floats[0] == 3 && read_float(base) == 3);
    OK(cuMemUnmap(base, CHUNK));
    CHECK(floats[0] == 3);
    map_at(base, CHUNK, new_handle(device_memory(0), CHUNK)); /* something else is there now */
    OK(cuMemcpyHtoD(base, floats, sizeof *floats));
    floats[0] = 7;
    CHECK(read_float(base) == 3);
    OK(cuMemUnmap(window, CHUNK));
    OK(cuMemRelease(handle));
}

static void an_older_driver(void)
{
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp properties = host_memory();
    int supported = 9;
    OK(cudaFree(NULL));
    OK(cuDeviceGetAttribute(&supported,
                            CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    CHECK(supported == 0);
    CHECK(cuMemCreate(&handle, CHUNK, &properties, 0) == CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemRelease(new_handle(device_memory(0), CHUNK)));
}

CASE(host_memory_lies_at_two_addresses_or_is_not_to_be_had)
{
    expect_success(map_host_memory_twice, "");
    expect_success(an_older_driver, "MICRODNN_SIM_HOST_HANDLES=0");
}

static void share(void)
{
    CUmemAllocationProp properties = device_memory(0);
    const CUmemAllocationHandleType by_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const CUdeviceptr base = new_addresses(2 * CHUNK);
    CUmemGenericAllocationHandle handle, other;
    int file;
    handle = new_handle(properties, CHUNK);
    CHECK(cuMemExportToShareableHandle(&file, handle, by_file, 0) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    properties.requestedHandleTypes = by_file;
    handle = new_handle(properties, CHUNK);
    OK(cuMemExportToShareableHandle(&file, handle, by_file, 0));
    map_at(base, CHUNK, handle);
    OK(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)file, by_file));
    map_at(base + CHUNK, CHUNK, other);
    OK(cuMemsetD32(base, 0x40400000, 1));
    CHECK(read_float(base + CHUNK) == 3);
    OK(cuMemRelease(handle));
    OK(cuMemRelease(other));
    OK(cuMemUnmap(base, 2 * CHUNK));
    CHECK(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)file, by_file) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(close(file) == 0);
}

CASE(memory_is_shared_by_file_descriptors)
{
    expect_success(share, "");
}

static void describe(void)
{
    CUdeviceptr base = new_addresses(2 * CHUNK), start;
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), CHUNK);
    CUmemAllocationProp properties;
    OK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
    CHECK(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.location.id == 0);
    unsigned char mapped = 9;
    unsigned access = 9;
    OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base));
    CHECK(mapped == 0);
    CHECK(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base) ==
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base));
    OK(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, base));
    CHECK(mapped == 1 && access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    OK(give_access(base, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    unsigned long long flags;
    OK(cuMemGetAccess(&flags, &properties.location, base + 1));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    CHECK(cuMemGetAccess(&flags, &properties.location, base + CHUNK) == CUDA_ERROR_INVALID_VALUE);
    size_t bytes;
    OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + 77));
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + 77));
    CHECK(start == base && bytes == CHUNK);
}

CASE(mappings_can_be_asked_about)
{
    expect_success(describe, "");
    expect_success(describe, "MICRODNN_SIM_MODE=timing");
}

static double since(double *mark)
{
    double before = *mark;
    *mark = sim_api()->host_time_us();
    return *mark - before;
}

/* The figures of an H200, and none of these calls waits for the kernel. */
static void take_time(void)
{
    CUdeviceptr base = new_addresses((size_t)4 << 30);
    OK(launch_add(new_device(64), 1, 1, 50000, NULL));
    double mark = 0;
    since(&mark);
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), (size_t)2 << 30);
    map_at(base, (size_t)2 << 30, handle);
    OK(cuMemUnmap(base, (size_t)2 << 30));
    OK(cuMemRelease(handle));
    CHECK(fabs(since(&mark) - 907) < 20);
    CUmemGenericAllocationHandle parts[256];
    for (size_t i = 0; i < 256; i++)
        parts[i] = new_handle(device_memory(0), CHUNK);
    CHECK(fabs(since(&mark) - 2400) < 100);
    for (size_t i = 0; i < 256; i++)
        OK(cuMemMap(base + i * CHUNK, CHUNK, 0, parts[i], 0));
    CHECK(fabs(since(&mark) - 600) < 100);
    OK(give_access(base, 256 * CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK(fabs(since(&mark) - 8600) < 300);
    OK(cuMemUnmap(base, 256 * CHUNK));
    CHECK(fabs(since(&mark) - 4400) < 100);
    map_at(base, 256 << 20, new_handle(host_memory(), 256 << 20));
    since(&mark);
    OK(give_access(base, 256 << 20, CU_MEM_ACCESS_FLAGS_PROT_READ));
    CHECK(fabs(since(&mark) - 2686) < 30);
}

CASE(calls_take_the_time_that_was_measured)
{
    expect_success(take_time, "MICRODNN_SIM_MODE=timing");
}

/* Copies to and from host memory that is mapped use the link, as pinned memory does. */
static void copy_over_link(void)
{
    CUdeviceptr base = new_addresses(128 << 20), device;
    map_at(base, 64 << 20, new_handle(host_memory(), 64 << 20));
    OK(cuMemAlloc(&device, 64 << 20));
    cudaEvent_t start = new_event(), end = new_event();
    cudaStream_t stream = new_stream();
    OK(cudaEventRecord(start, stream));
    OK(cuMemcpyAsync(device, base, 55300000, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaStreamSynchronize(stream));
    float ms;
    OK(cudaEventElapsedTime(&ms, start, end));
    CHECK(fabs(ms - 1.0) < 0.01);
}

CASE(mapped_host_memory_is_behind_the_link)
{
    for (int i = 0; i < 2; i++)
        expect_success(copy_over_link, both_modes[i]);
}

static void map_during_capture(void)
{
    cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    CUmemAllocationProp properties = device_memory(0);
    CUmemGenericAllocationHandle handle;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemCreate(&handle, CHUNK, &properties, 0));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuMemRelease(handle) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    OK(cuMemRelease(handle));
}

CASE(captures_refuse_what_maps)
{
    expect_success(map_during_capture, "");
}

static void inject_faults(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    CUmemGenericAllocationHandle handle = new_handle(device_memory(0), CHUNK);
    sim_api()->inject("cuMemMap", 1, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemMap(base, CHUNK, 0, handle, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    CHECK(give_access(base, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_ERROR_UNKNOWN);
    OK(give_access(base, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

CASE(faults_can_be_injected)
{
    expect_success(inject_faults, "MICRODNN_SIM_FAULTS=cuMemSetAccess:1:999");
}

static void two_devices(void)
{
    CUdeviceptr base = new_addresses(CHUNK);
    CUmemGenericAllocationHandle handle = new_handle(device_memory(1), CHUNK);
    CHECK(free_memory() == 64 << 20); /* of device 0 */
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess(base, CHUNK, &access, 1));
    OK(cudaSetDevice(1));
    CHECK(free_memory() == 62 << 20);
    OK(cuMemsetD32(base, 0, 1));
    OK(launch_add(pointer(base), 4, 1, 1, NULL));
    CHECK(read_float(base) == 4);
    OK(cudaSetDevice(0));
    CHECK(cuMemsetD32(base, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    expect_fault(base, 1);
}

/* As a copy that names the devices does, which needs no access of one to the other's memory. */
static void copy_between_mappings(void)
{
    CUdeviceptr base = new_addresses(2 * CHUNK);
    CUcontext contexts[2];
    for (int i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle handle = new_handle(device_memory(i), CHUNK);
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, i},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUdeviceptr address = base + (unsigned)i * CHUNK;
        OK(cudaSetDevice(i));
        OK(cuCtxGetCurrent(&contexts[i]));
        OK(cuMemMap(address, CHUNK, 0, handle, 0));
        OK(cuMemSetAccess(address, CHUNK, &access, 1));
        OK(cuMemsetD32(address, 0, 16));
    }
    OK(launch_add(pointer(base + CHUNK), 4, 1, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(cuMemcpyDtoD(base, base + CHUNK, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyPeer(base, contexts[1], base + CHUNK, contexts[1], 4) ==
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyPeer(base, contexts[0], base + CHUNK, contexts[1], 4));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    CHECK(read_float(base) == 4);
}

static void give_peers_access(bool reach)
{
    CUdeviceptr base = new_addresses(CHUNK);
    CUmemGenericAllocationHandle handle = new_handle(device_memory(1), CHUNK);
    OK(cuMemMap(base, CHUNK, 0, handle, 0));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(base, CHUNK, &access, 1) ==
          (reach ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE));
    if (!reach)
        return;
    OK(cuMemsetD32(base, 0, 1));
    OK(launch_add(pointer(base), 4, 1, 1, NULL));
    CHECK(read_float(base) == 4);
}

static void give_access_within_reach(void)
{
    give_peers_access(true);
}

static void give_access_out_of_reach(void)
{
    give_peers_access(false);
}

CASE(access_is_by_device)
{
    expect_success(two_devices, "MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_MEMORY=64MiB");
    expect_success(copy_between_mappings, "MICRODNN_SIM_DEVICES=2");
    expect_success(give_access_within_reach, "MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_PEERS=1");
    expect_success(give_access_out_of_reach, "MICRODNN_SIM_DEVICES=2");
}

int main(void)
{
    return run_cases("sim_vmm");
}
