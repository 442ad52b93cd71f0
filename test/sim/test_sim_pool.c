/* Memory pools: what counts when, and when stream-ordered memory may be touched. */
#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

#define MIB ((size_t)1 << 20)

static const char *const modes[] = {"MICRODNN_SIM_MEMORY=64MiB",
                                    "MICRODNN_SIM_MEMORY=64MiB MICRODNN_SIM_MODE=timing"};

static void expect_in_both_modes(void (*body)(void))
{
    for (int i = 0; i < 2; i++)
        expect_success(body, modes[i]);
}

static void *new_async(size_t bytes, cudaStream_t stream)
{
    void *memory;
    OK(cudaMallocAsync(&memory, bytes, stream));
    return memory;
}

static cudaMemPool_t default_pool(void)
{
    cudaMemPool_t pool;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static uint64_t attribute(cudaMemPool_t pool, enum cudaMemPoolAttr which)
{
    uint64_t value;
    OK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

static size_t free_memory(void)
{
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static void reach_threshold(void)
{
    cudaStream_t stream = new_stream();
    cudaMemPool_t pool = default_pool();
    void *first = new_async(20 * MIB, stream), *second = new_async(10 * MIB, stream);
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 30 * MIB);
    OK(cudaFreeAsync(first, stream));
    OK(cudaFreeAsync(second, stream));
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 30 * MIB);
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 30 * MIB);
    uint64_t threshold = 12 * MIB;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaStreamSynchronize(stream));
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 12 * MIB);
    CHECK(free_memory() == 52 * MIB);
    first = new_async(8 * MIB, stream); /* out of what it holds */
    CHECK(free_memory() == 52 * MIB);
    OK(cudaMemPoolTrimTo(pool, 0));
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 8 * MIB);
    OK(cudaFreeAsync(first, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(free_memory() == 56 * MIB); /* below the threshold */
    void *all = new_device(64 * MIB); /* gets that, too */
    CHECK(free_memory() == 0);
    OK(cudaFree(all));
    uint64_t zero = 0, wrong = 7;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 0);
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &wrong) ==
          cudaErrorInvalidValue);
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero) ==
          cudaErrorInvalidValue);
}

CASE(pools_hold_memory_up_to_their_threshold)
{
    expect_in_both_modes(reach_threshold);
}

/* Memory that another stream's pending operation still uses: the new owner's stream waits, not the
 * host, and only where nothing else is free. */
static void reuse_between_streams(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    void *memory = new_async(40 * MIB, first);
    OK(launch_add(memory, 1, 1, 5000, first));
    OK(cudaFreeAsync(memory, first));
    cudaEvent_t start = new_event(), small = new_event(), large = new_event();
    OK(cudaEventRecord(start, second));
    double before = sim_api()->host_time_us();
    void *fits = new_async(20 * MIB, second);
    OK(cudaEventRecord(small, second));
    void *waits = new_async(40 * MIB, second);
    OK(cudaEventRecord(large, second));
    CHECK(sim_api()->host_time_us() - before < 20);
    OK(cudaStreamSynchronize(second));
    float ms;
    OK(cudaEventElapsedTime(&ms, start, small));
    CHECK(ms < 1);
    OK(cudaEventElapsedTime(&ms, start, large));
    CHECK(ms > 4.9);
    void *none = &none;
    CHECK(cudaMallocAsync(&none, 5 * MIB, second) == cudaErrorMemoryAllocation && none == &none);
    OK(cudaFreeAsync(fits, second));
    OK(cudaFree(waits));
    CHECK(cudaFree(waits) == cudaErrorInvalidValue);
    OK(cudaStreamSynchronize(second));
    CHECK(free_memory() == 64 * MIB);
}

/* With internal dependencies off there is nothing left to take. */
static void reuse_forbidden(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    int no = 0;
    OK(cudaMemPoolSetAttribute(default_pool(), cudaMemPoolReuseAllowInternalDependencies, &no));
    void *memory = new_async(40 * MIB, first), *none;
    OK(launch_add(memory, 1, 1, 5000, first));
    OK(cudaFreeAsync(memory, first));
    CHECK(cudaMallocAsync(&none, 40 * MIB, second) == cudaErrorMemoryAllocation);
    OK(cudaStreamSynchronize(first));
    OK(cudaMallocAsync(&none, 40 * MIB, second));
}

CASE(freed_memory_is_reused_in_the_order_of_streams)
{
    expect_in_both_modes(reuse_between_streams);
    expect_in_both_modes(reuse_forbidden);
}

/* Used by a stream that does not wait for the allocation. */
static void touch_before_allocation(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    void *memory = new_async(64, first);
    OK(launch_add(memory, 1, 1, 1, second));
    OK(cudaStreamSynchronize(second));
}

static void touch_after_allocation(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event = new_event();
    void *memory = new_async(64, first);
    OK(cudaEventRecord(event, first));
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(launch_add(memory, 1, 1, 1, second));
    OK(cudaStreamSynchronize(second));
    OK(cudaFreeAsync(memory, second));
    CHECK(cudaFreeAsync(memory, second) == cudaErrorInvalidValue);
    OK(cudaStreamSynchronize(second));
}

CASE(the_allocation_has_its_place_in_the_stream)
{
    int caught = 0;
    for (int seed = 0; seed < 20; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        expect_success(touch_after_allocation, environment);
        failure_expected = true;
        caught += run_child(touch_before_allocation, environment) != 0;
        failure_expected = false;
    }
    assert_true(caught > 0);
}

static void own_pool(void)
{
    cudaMemPool_t pool, current;
    cudaStream_t stream = new_stream();
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {cudaMemLocationTypeDevice, 0},
                                          .maxSize = 16 * MIB};
    void *memory, *more;
    OK(cudaMemPoolCreate(&pool, &properties));
    OK(cudaMallocFromPoolAsync(&memory, 12 * MIB, pool, stream));
    CHECK(cudaMallocFromPoolAsync(&more, 8 * MIB, pool, stream) == cudaErrorMemoryAllocation);
    CUmemoryPool owner;
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                             (CUdeviceptr)(uintptr_t)memory));
    CHECK(owner == pool);
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaDeviceGetMemPool(&current, 0));
    CHECK(current == pool && default_pool() != pool);
    more = new_async(4 * MIB, stream);
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 16 * MIB);
    OK(cudaMemPoolDestroy(pool)); /* goes with its last memory */
    CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
    OK(cudaDeviceGetMemPool(&current, 0));
    CHECK(current == default_pool());
    CHECK(cudaMemPoolDestroy(current) == cudaErrorInvalidValue);
    OK(cudaFreeAsync(memory, stream));
    OK(cudaFreeAsync(more, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(free_memory() == 64 * MIB);
    properties.location.id = 1;
    CHECK(cudaMemPoolCreate(&pool, &properties) == cudaErrorInvalidDevice);
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(cuMemGetDefaultMemPool(&owner, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(owner == default_pool());
}

CASE(programs_make_pools)
{
    expect_in_both_modes(own_pool);
}

static void reset_with_pools(void)
{
    cudaStream_t stream = new_stream();
    void *kept = new_async(8 * MIB, stream), *freed = new_async(8 * MIB, stream);
    OK(cudaFreeAsync(freed, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(kept && free_memory() == 56 * MIB);
    OK(cudaDeviceReset());
    CHECK(free_memory() == 64 * MIB);
    stream = new_stream();
    OK(cudaFreeAsync(new_async(64 * MIB, stream), stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(free_memory() == 64 * MIB);
}

CASE(a_reset_empties_pools)
{
    expect_in_both_modes(reset_with_pools);
}

static void free_plain(void)
{
    cudaStream_t stream = new_stream();
    void *memory = new_device(32 * MIB);
    OK(launch_add(memory, 1, 1, 100, stream));
    OK(cudaFreeAsync(memory, stream));
    CHECK(free_memory() == 32 * MIB);
    OK(cudaStreamSynchronize(stream));
    CHECK(free_memory() == 64 * MIB);
    memory = new_async(32 * MIB, stream);
    OK(cudaFree(memory));
    CHECK(free_memory() == 64 * MIB);
}

CASE(plain_and_ordered_frees_mix)
{
    expect_in_both_modes(free_plain);
}

int main(void)
{
    return run_cases("sim_pool");
}
