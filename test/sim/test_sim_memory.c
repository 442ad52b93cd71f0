/* Memory: capacity, poison, what may be touched by whom, and injected faults. */
#include <math.h>
#include <sys/resource.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

static void fill_device(void)
{
    size_t free_bytes, total;
    void *blocks[8];
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(total == 64 << 20 && free_bytes == total);
    for (int i = 0; i < 8; i++)
        blocks[i] = new_device(8 << 20);
    void *more = &more;
    CHECK(cudaMalloc(&more, 1) == cudaErrorMemoryAllocation && more == &more);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == 0);
    OK(cudaFree(blocks[3]));
    CHECK(cudaMalloc(&more, (8 << 20) + 1) == cudaErrorMemoryAllocation);
    OK(cudaMalloc(&more, 8 << 20));
    CHECK(cudaMalloc(&more, SIZE_MAX) == cudaErrorMemoryAllocation);
}

CASE(capacity_holds_to_the_byte)
{
    expect_success(fill_device, "MICRODNN_SIM_MEMORY=64MiB");
    expect_success(fill_device, "MICRODNN_SIM_MEMORY=67108864 MICRODNN_SIM_MODE=timing");
}

static void allocate_in_stream_order(void)
{
    cudaStream_t stream = new_stream();
    void *first, *second;
    OK(cudaMallocAsync(&first, 48 << 20, stream));
    OK(launch_add(first, 1, 1, 1000, stream));
    OK(cudaFreeAsync(first, stream));
    double before = sim_api()->host_time_us();
    OK(cudaMallocAsync(&second, 48 << 20, stream)); /* the same memory, in the stream's order */
    CHECK(sim_api()->host_time_us() - before < 10);
    CHECK(cudaMallocAsync(&first, 48 << 20, stream) == cudaErrorMemoryAllocation);
    OK(cudaMemsetAsync(second, 1, 48 << 20, stream));
    OK(cudaFreeAsync(second, stream));
    OK(cudaStreamSynchronize(stream));
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == total);
    CHECK(cudaFreeAsync(second, stream) == cudaErrorInvalidValue);
}

CASE(stream_ordered_memory_comes_back_when_its_free_is_reached)
{
    expect_success(allocate_in_stream_order, "MICRODNN_SIM_MEMORY=64MiB");
    expect_success(allocate_in_stream_order, "MICRODNN_SIM_MEMORY=64MiB MICRODNN_SIM_MODE=timing");
}

static void read_fresh(void)
{
    for (size_t bytes = 4; bytes < 200 << 20; bytes = bytes * 37 + 4) {
        float *device = new_device(bytes), first, last;
        CHECK((uintptr_t)device % 512 == 0);
        OK(cudaMemcpy(&first, device, sizeof first, cudaMemcpyDeviceToHost));
        OK(cudaMemcpy(&last, device + bytes / 4 - 1, sizeof last, cudaMemcpyDeviceToHost));
        CHECK(isnan(first) && isnan(last));
        OK(cudaMemset(device, 0, bytes));
        OK(cudaFree(device));
    }
    float *pinned = new_pinned(4096);
    CHECK(isnan(pinned[0]) && isnan(pinned[1023]));
}

CASE(fresh_memory_is_not_a_number_and_aligned)
{
    expect_success(read_fresh, "");
}

static volatile char sink;

static void read_on_host(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    sink = *(volatile char *)new_device(4096);
}

static void write_on_host(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    *(volatile char *)new_device(1 << 20) = 1;
}

/* A sanitizer may make an exit of the signal. */
static bool faulted(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0;
}

/* Writes a byte behind what it asked for. */
static void overrun_body(void *const *p)
{
    uint64_t address;
    memcpy(&address, p[0], sizeof address);
    char *memory = sim_api()->memory(address, 512);
    memory[512] = 1;
}

static void overrun(void)
{
    static const sim_kernel_parameter_t parameter = {0, 8};
    static const sim_kernel_t kernel = {"test_overrun", 1, &parameter, overrun_body};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    char *first = new_device(512), *neighbour = new_device(512);
    CHECK(neighbour > first);
    void *parameters[] = {&first};
    OK(cuLaunchKernel(sim_api()->function(&kernel), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cudaDeviceSynchronize());
}

CASE(a_kernel_that_writes_behind_an_allocation_faults)
{
    assert_true(faulted(run_child(overrun, "")));
}

CASE(host_code_faults_on_device_addresses)
{
    assert_true(faulted(run_child(read_on_host, "ASAN_OPTIONS=log_path=/dev/null")));
    assert_true(faulted(run_child(write_on_host, "ASAN_OPTIONS=log_path=/dev/null")));
    assert_true(faulted(run_child(write_on_host, "MICRODNN_SIM_MODE=timing")));
}

/* After this nothing works until the device is reset. */
static void expect_dead_context(void)
{
    void *memory;
    cudaStream_t stream;
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    CHECK(cudaMalloc(&memory, 64) == cudaErrorIllegalAddress);
    CHECK(cudaStreamCreate(&stream) == cudaErrorIllegalAddress);
    CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
    CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
    OK(cudaDeviceReset());
    CHECK(cudaGetLastError() == cudaSuccess);
    OK(cudaMalloc(&memory, 64));
    OK(launch_add(memory, 1, 16, 1, NULL));
    OK(cudaDeviceSynchronize());
}

static void kernel_beyond_its_memory(void)
{
    float *device = new_device(4096);
    OK(launch_add(device, 1, 1025, 1, NULL));
    expect_dead_context();
}

static void kernel_on_freed_memory(void)
{
    float *device = new_device(4096);
    OK(cudaFree(device));
    OK(launch_add(device, 1, 1, 1, NULL));
    expect_dead_context();
}

static void kernel_on_host_memory(void)
{
    float pageable[16];
    OK(cudaFree(NULL)); /* makes the context */
    OK(launch_add(pageable, 1, 16, 1, NULL));
    expect_dead_context();
}

/* Freed by a stream that does not wait for the kernel's: caught when the free happens to come
 * first. */
static void kernel_after_unordered_free(void)
{
    cudaStream_t worker = new_stream(), other = new_stream();
    void *device;
    OK(cudaMallocAsync(&device, 4096, other));
    OK(launch_add(device, 1, 1, 1, worker));
    OK(cudaFreeAsync(device, other));
    OK(cudaStreamSynchronize(other));
    OK(cudaStreamSynchronize(worker));
}

CASE(a_kernel_that_strays_kills_the_context_until_reset)
{
    expect_success(kernel_beyond_its_memory, "");
    expect_success(kernel_on_freed_memory, "");
    expect_success(kernel_on_host_memory, "");
    int caught = 0;
    failure_expected = true;
    for (int seed = 0; seed < 20; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        caught += run_child(kernel_after_unordered_free, environment) != 0;
    }
    failure_expected = false;
    assert_true(caught > 0);
}

static void pinned_memory(void)
{
    float *pinned = new_pinned(4096), *alias;
    OK(cudaHostGetDevicePointer((void **)&alias, pinned, 0));
    pinned[0] = 1;
    OK(launch_add(alias, 2, 1, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(pinned[0] == 3);
    float own[64] = {0};
    OK(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    CHECK(cudaHostRegister(own + 1, 4, 0) == cudaErrorHostMemoryAlreadyRegistered);
    OK(launch_add(own, 2, 64, 1, NULL));
    OK(cudaHostUnregister(own)); /* waits */
    CHECK(own[63] == 2);
    CHECK(cudaHostUnregister(own) == cudaErrorHostMemoryNotRegistered);
    CHECK(cudaFreeHost(own) == cudaErrorInvalidValue);
    OK(cudaFreeHost(pinned));
}

CASE(kernels_reach_pinned_and_registered_memory)
{
    expect_success(pinned_memory, "");
}

static void describe_pointers(void)
{
    struct cudaPointerAttributes attributes;
    char *device = new_device(5000), *pinned = new_pinned(100), pageable;
    OK(cudaPointerGetAttributes(&attributes, device + 10));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    CHECK(attributes.devicePointer == device + 10 && !attributes.hostPointer);
    OK(cudaPointerGetAttributes(&attributes, pinned));
    CHECK(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    OK(cudaPointerGetAttributes(&attributes, &pageable));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    CUdeviceptr start;
    size_t bytes;
    OK(cuMemGetAddressRange(&start, &bytes, (CUdeviceptr)(uintptr_t)device + 4999));
    CHECK(start == (CUdeviceptr)(uintptr_t)device && bytes == 5000);
    CHECK(cuMemGetAddressRange(&start, &bytes, start + 5000) == CUDA_ERROR_NOT_FOUND);
}

CASE(addresses_can_be_asked_about)
{
    expect_success(describe_pointers, "");
}

static void refused_arguments(void)
{
    char *device = new_device(100), host[200];
    CHECK(cudaMemcpy(device, host, 101, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(host, device + 1, 100, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(cudaMemset(device, 0, 101) == cudaErrorInvalidValue);
    CHECK(cudaFree(device + 1) == cudaErrorInvalidValue);
    CHECK(cudaFree(host) == cudaErrorInvalidValue);
    OK(cudaFree(NULL));
    OK(cudaFree(device));
    CHECK(cudaFree(device) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    void *none = host;
    OK(cudaMalloc(&none, 0));
    CHECK(!none);
    OK(cudaDeviceSynchronize()); /* none of these was sticky */
    CHECK(cudaStreamSynchronize((cudaStream_t)(void *)host) == cudaErrorInvalidResourceHandle);
}

CASE(wrong_arguments_are_refused_and_forgotten)
{
    expect_success(refused_arguments, "");
}

static void fill_widths(void)
{
    uint32_t words[4];
    CUdeviceptr device = (CUdeviceptr)(uintptr_t)new_device(16);
    OK(cuMemsetD32(device, 0x01020304, 4));
    OK(cuMemsetD16(device + 4, 0xABCD, 1));
    OK(cuMemsetD8(device + 9, 0xEE, 2));
    CHECK(cuMemsetD32(device + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyDtoH(words, device, 16));
    CHECK(words[0] == 0x01020304 && words[1] == 0x0102ABCD);
    CHECK(words[2] == 0x01EEEE04 && words[3] == 0x01020304);
}

CASE(fills_have_three_widths)
{
    expect_success(fill_widths, "");
}

static void free_while_busy(void)
{
    float *device = new_device(64), *other = new_device(64), *host = new_pinned(64);
    cudaStream_t stream = new_stream();
    OK(cudaMemsetAsync(other, 0, 64, stream));
    OK(launch_add(other, 1, 16, 5000, stream));
    OK(cudaMemcpyAsync(host, other, 64, cudaMemcpyDeviceToHost, stream));
    double before = sim_api()->host_time_us();
    OK(cudaFree(device));
    CHECK(host[0] == 1 && sim_api()->host_time_us() - before > 4900);
}

CASE(freeing_waits_for_the_device)
{
    expect_success(free_while_busy, "");
}

static void second_and_third_fail(void)
{
    void *memory;
    cudaEvent_t event;
    OK(cudaMalloc(&memory, 64));
    CHECK(cudaMalloc(&memory, 64) == cudaErrorMemoryAllocation);
    OK(cudaMalloc(&memory, 64));
    CHECK(cudaEventCreate(&event) == cudaErrorLaunchFailure);
    OK(cudaEventCreate(&event));
    OK(cudaEventDestroy(event));
    sim_api()->inject("cuLaunchKernel", 2, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    OK(launch_add(memory, 1, 1, 1, NULL));
    CHECK(launch_add(memory, 1, 1, 1, NULL) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    OK(launch_add(memory, 1, 1, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(sim_api()->faults_fired() == 3);
}

CASE(faults_are_injected_by_environment_and_by_call)
{
    expect_success(second_and_third_fail,
                   "MICRODNN_SIM_FAULTS=cuMemAlloc_v2:2:2,cuEventCreate:1:719");
}

static void fork_after_use(void)
{
    OK(cudaDeviceSynchronize());
    pid_t child = fork();
    if (child == 0)
        _exit(cudaDeviceSynchronize() == cudaErrorInitializationError ? 7 : 8);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    OK(cudaDeviceSynchronize());
}

CASE(a_forked_child_has_no_device)
{
    expect_success(fork_after_use, "");
}

static void without_device(void)
{
    int count;
    void *memory;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
    CHECK(cudaMalloc(&memory, 1) == cudaErrorNoDevice);
}

CASE(a_machine_without_devices_says_so)
{
    expect_success(without_device, "MICRODNN_SIM_DEVICES=0");
}

static void count_memory(void)
{
    const uint64_t page = 4096;
    CHECK(sim_api()->used_bytes(0) == 0 && sim_api()->pinned_bytes() == 0);
    void *one = new_device(page), *pinned = new_pinned(page), *two;
    OK(cudaMallocAsync(&two, 3 * page, NULL));
    CHECK(sim_api()->used_bytes(0) == 4 * page && sim_api()->pinned_bytes() == page);
    OK(cudaFreeAsync(two, NULL));
    OK(cudaFree(one));
    OK(cudaFreeHost(pinned));
    OK(cudaDeviceSynchronize());
    CHECK(sim_api()->used_bytes(0) == 0 && sim_api()->pinned_bytes() == 0);
    CHECK(sim_api()->most_used_bytes(0) == 4 * page);
}

CASE(what_is_held_is_counted_and_limited)
{
    expect_success(count_memory, "MICRODNN_SIM_LIMIT=16384");
    failure_expected = true;
    const int status = run_child(count_memory, "MICRODNN_SIM_LIMIT=16383");
    failure_expected = false;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void read_zeros(void)
{
    unsigned char byte = 1;
    unsigned char *device = new_device(1), *pinned = new_pinned(1);
    OK(cudaMemcpy(&byte, device, 1, cudaMemcpyDeviceToHost));
    CHECK(byte == 0 && *pinned == 0);
    OK(cudaFree(device));
    OK(cudaFreeHost(pinned));
}

CASE(fresh_memory_may_be_zero)
{
    expect_success(read_zeros, "MICRODNN_SIM_POISON=0");
}

int main(void)
{
    return run_cases("sim_memory");
}
