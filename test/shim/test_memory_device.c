/* Moments of streams, pinned host memory and chunks, on the simulated GPU. Run with its directory
 * in LD_LIBRARY_PATH. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/log.h"
#include "shim/device/device_remaps.h"
#include "shim/device/memory_device.h"
#include "test/sim/sim.h"

#define OK(call) assert_int_equal((int)(call), 0)

enum { CHUNK = 2 << 20 };

static const sim_api_t *simulator(void)
{
    sim_api_function_t api;
    *(void **)(void *)&api = dlsym(RTLD_DEFAULT, "sim_api");
    assert_non_null(api);
    return api();
}

typedef struct fixture {
    const mdnn_driver_t *driver;
    CUdevice device;
    CUcontext context;
    mdnn_timelines_t *timelines;
    CUstream streams[2];
    uint64_t numbers[2];
} fixture_t;

static int set_up(void **state)
{
    static fixture_t fixture;
    OK(cuInit(0));
    OK(cuDeviceGet(&fixture.device, 0));
    OK(cuDevicePrimaryCtxRetain(&fixture.context, fixture.device));
    OK(cuCtxSetCurrent(fixture.context));
    fixture.driver = mdnn_real_driver();
    assert_non_null(fixture.driver);
    assert_true(fixture.driver->has_memory && fixture.driver->is_simulated);
    fixture.timelines = mdnn_timelines_create(fixture.driver);
    assert_non_null(fixture.timelines);
    for (int i = 0; i < 2; i++) {
        OK(cuStreamCreate(&fixture.streams[i], CU_STREAM_NON_BLOCKING));
        OK(mdnn_timelines_stream(fixture.timelines, fixture.streams[i], false,
                                 &fixture.numbers[i]));
    }
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *const fixture = *state;
    for (int i = 0; i < 2; i++)
        OK(cuStreamDestroy(fixture->streams[i]));
    mdnn_timelines_destroy(fixture->timelines);
    return 0;
}

/* Work that ends when the test says so: waits for a word of host memory. */
typedef struct gate {
    uint32_t *word;
    CUdeviceptr address;
} gate_t;

static gate_t close_gate(CUstream stream)
{
    gate_t gate;
    OK(cuMemHostAlloc((void **)&gate.word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *gate.word = 0;
    OK(cuMemHostGetDevicePointer(&gate.address, gate.word, 0));
    OK(cuStreamWaitValue32(stream, gate.address, 1, CU_STREAM_WAIT_VALUE_EQ));
    return gate;
}

static void open_gate(gate_t gate, CUstream stream)
{
    *(volatile uint32_t *)gate.word = 1;
    OK(cuStreamSynchronize(stream));
    OK(cuMemFreeHost(gate.word));
}

static void a_moment_is_over_when_the_work_before_it_is(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_stream_point_t before = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    OK(mdnn_timelines_wait_on_host(f->timelines, before));
    assert_true(mdnn_timelines_is_done(f->timelines, before));
    const gate_t gate = close_gate(f->streams[0]);
    const mdnn_stream_point_t behind = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    const mdnn_stream_point_t other = mdnn_timelines_mark(f->timelines, f->numbers[1]);
    for (int i = 0; i < 40; i++)
        assert_false(mdnn_timelines_is_done(f->timelines, behind));
    OK(mdnn_timelines_wait_on_host(f->timelines, other));
    assert_true(mdnn_timelines_is_done(f->timelines, before));
    open_gate(gate, f->streams[0]);
    OK(mdnn_timelines_wait_on_host(f->timelines, behind));
    assert_true(mdnn_timelines_is_done(f->timelines, behind));
}

/* More moments are asked for than there are places for events. */
static void many_moments_of_one_stream_stay_in_order(void **state)
{
    const fixture_t *const f = *state;
    enum { MOMENTS = 100 };
    mdnn_stream_point_t points[MOMENTS];
    const gate_t gate = close_gate(f->streams[0]);
    for (int i = 0; i < MOMENTS; i++) {
        points[i] = mdnn_timelines_mark(f->timelines, f->numbers[0]);
        assert_false(mdnn_timelines_is_done(f->timelines, points[i]));
    }
    open_gate(gate, f->streams[0]);
    for (int i = MOMENTS; i-- > 0;) {
        OK(mdnn_timelines_wait_on_host(f->timelines, points[i]));
        for (int j = 0; j <= i; j += 7)
            assert_true(mdnn_timelines_is_done(f->timelines, points[j]));
    }
}

static void one_stream_waits_for_a_moment_of_another(void **state)
{
    const fixture_t *const f = *state;
    const gate_t gate = close_gate(f->streams[0]);
    const mdnn_stream_point_t point = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    OK(mdnn_timelines_wait_in_stream(f->timelines, f->numbers[0], point)); /* its own: nothing */
    OK(mdnn_timelines_wait_in_stream(f->timelines, f->numbers[1], point));
    const mdnn_stream_point_t behind = mdnn_timelines_mark(f->timelines, f->numbers[1]);
    assert_false(mdnn_timelines_is_done(f->timelines, behind));
    open_gate(gate, f->streams[0]);
    OK(mdnn_timelines_wait_in_stream(f->timelines, MDNN_NO_STREAM, behind)); /* the host */
    assert_true(mdnn_timelines_is_done(f->timelines, behind));
}

static void work_of_a_destroyed_stream_stays_known(void **state)
{
    const fixture_t *const f = *state;
    CUstream stream;
    uint64_t number, next;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(mdnn_timelines_stream(f->timelines, stream, false, &number));
    const gate_t gate = close_gate(stream);
    const mdnn_stream_point_t point = mdnn_timelines_mark(f->timelines, number);
    mdnn_timelines_stream_ends(f->timelines, stream);
    OK(cuStreamDestroy(stream));
    assert_false(mdnn_timelines_is_done(f->timelines, point));
    assert_null(mdnn_timelines_handle(f->timelines, number, f->context));
    *(volatile uint32_t *)gate.word = 1;
    OK(mdnn_timelines_wait_on_host(f->timelines, point));
    OK(cuMemFreeHost(gate.word));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(mdnn_timelines_stream(f->timelines, stream, false, &next));
    assert_int_not_equal(number, next);
    mdnn_timelines_stream_ends(f->timelines, stream);
    OK(cuStreamDestroy(stream));
}

/* No event is recorded in a stream that is captured, and what came before is known all the same. */
/* Those of which nothing is under way are forgotten when many come and go; this one is not. */
static void unfinished_work_outlasts_many_streams(void **state)
{
    enum { MANY = 300 };
    const fixture_t *const f = *state;
    CUstream stream;
    uint64_t number, other;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(mdnn_timelines_stream(f->timelines, stream, false, &number));
    const gate_t gate = close_gate(stream);
    const mdnn_stream_point_t point = mdnn_timelines_mark(f->timelines, number);
    mdnn_timelines_stream_ends(f->timelines, stream);
    OK(cuStreamDestroy(stream));
    for (int i = 0; i < MANY; i++) {
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(mdnn_timelines_stream(f->timelines, stream, false, &other));
        mdnn_timelines_stream_ends(f->timelines, stream);
        OK(cuStreamDestroy(stream));
        assert_false(mdnn_timelines_is_done(f->timelines, point));
    }
    *(volatile uint32_t *)gate.word = 1;
    OK(mdnn_timelines_wait_on_host(f->timelines, point));
    assert_true(mdnn_timelines_is_done(f->timelines, point));
    OK(cuMemFreeHost(gate.word));
}

static void a_capture_is_left_alone(void **state)
{
    const fixture_t *const f = *state;
    CUgraph graph;
    size_t nodes = 0;
    const mdnn_stream_point_t before = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    mdnn_timelines_capture_began(f->timelines);
    OK(cuStreamBeginCapture(f->streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(mdnn_timelines_wait_on_host(f->timelines, before));
    assert_true(mdnn_timelines_stream_captures(f->timelines, f->streams[0]));
    const mdnn_stream_point_t within = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    assert_false(mdnn_timelines_is_done(f->timelines, within));
    assert_int_equal(mdnn_timelines_wait_on_host(f->timelines, within), MDNN_STATUS_BUSY);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuStreamEndCapture(f->streams[0], &graph));
    mdnn_timelines_capture_ended(f->timelines);
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 0);
    OK(cuGraphDestroy(graph));
    OK(mdnn_timelines_wait_on_host(f->timelines, within));
}

/* Fresh, for one test's slots. */
static mdnn_host_account_t *account_of(uint64_t limit_bytes)
{
    static mdnn_host_account_t account;
    account.limit_bytes = limit_bytes;
    account.made_bytes = 0;
    return &account;
}

static mdnn_device_memory_config_t config_of(const fixture_t *f, uint64_t budget_bytes,
                                             uint64_t host_chunks)
{
    return (mdnn_device_memory_config_t){.driver = f->driver,
                                         .timelines = f->timelines,
                                         .device = f->device,
                                         .context = f->context,
                                         .budget_bytes = budget_bytes,
                                         .chunk_bytes = CHUNK,
                                         .host = account_of(host_chunks * CHUNK)};
}

static mdnn_pinned_pool_t *make_slots(const fixture_t *f, uint64_t limit_bytes, bool background)
{
    const mdnn_pinned_pool_config_t config = {.driver = f->driver,
                                              .device = f->device,
                                              .context = f->context,
                                              .slot_bytes = CHUNK,
                                              .account = account_of(limit_bytes),
                                              .background = background};
    mdnn_pinned_pool_t *slots;
    OK(mdnn_pinned_pool_create(&config, &slots));
    return slots;
}

static void take_all(const fixture_t *f, bool background)
{
    enum { SLOTS = 40 };
    mdnn_pinned_pool_t *const slots = make_slots(f, (uint64_t)SLOTS * CHUNK, background);
    uint64_t taken[SLOTS], slot;
    int count = 0;
    mdnn_pinned_pool_want(slots, 4 * CHUNK);
    for (mdnn_status_t status;
         (status = mdnn_pinned_pool_take(slots, &slot)) != MDNN_STATUS_OUT_OF_MEMORY;) {
        if (status == MDNN_STATUS_BUSY) {
            OK(mdnn_pinned_pool_wait(slots));
            continue;
        }
        OK(status);
        assert_true(count < SLOTS);
        memset((void *)(uintptr_t)slot, count, CHUNK);
        taken[count++] = slot;
    }
    assert_int_equal(count, SLOTS);
    assert_int_equal(mdnn_pinned_pool_bytes(slots), (uint64_t)SLOTS * CHUNK);
    for (int i = 0; i < count; i++) {
        const uint8_t *const bytes = (const uint8_t *)(uintptr_t)taken[i];
        assert_true(bytes[0] == i && bytes[CHUNK - 1] == i); /* nobody else's */
        mdnn_pinned_pool_give(slots, taken[i]);
    }
    OK(mdnn_pinned_pool_take(slots, &slot));
    mdnn_pinned_pool_give(slots, slot);
    mdnn_pinned_pool_destroy(slots);
}

static void slots_are_made_at_need(void **state)
{
    take_all(*state, false);
}

static void slots_are_made_in_the_background(void **state)
{
    take_all(*state, true);
}

/* Between an answer and the wait others may take what was made for it, and then wait for who waits here. */
static void who_waits_asks_for_more_than_others_took(void **state)
{
    enum { SLOTS = 4, PATIENCE_S = 20 };
    mdnn_pinned_pool_t *const slots = make_slots(*state, (uint64_t)SLOTS * CHUNK, true);
    uint64_t slot;
    assert_int_equal(mdnn_pinned_pool_take(slots, &slot), MDNN_STATUS_BUSY);
    alarm(PATIENCE_S);
    for (int i = 0; i < SLOTS; i++) {
        OK(mdnn_pinned_pool_wait(slots));
        OK(mdnn_pinned_pool_take(slots, &slot));
    }
    alarm(0);
    OK(mdnn_pinned_pool_wait(slots)); /* there are no more to come */
    assert_int_equal(mdnn_pinned_pool_take(slots, &slot), MDNN_STATUS_OUT_OF_MEMORY);
    mdnn_pinned_pool_destroy(slots);
}

static int take_more(mdnn_pinned_pool_t *slots)
{
    uint64_t slot;
    int count = 0;
    for (mdnn_status_t status;
         (status = mdnn_pinned_pool_take(slots, &slot)) != MDNN_STATUS_OUT_OF_MEMORY;)
        if (status == MDNN_STATUS_BUSY)
            OK(mdnn_pinned_pool_wait(slots));
        else
            count++;
    return count;
}

/* Two devices have no more than one would. */
static void slots_share_one_limit(void **state)
{
    const fixture_t *const f = *state;
    enum { SLOTS = 40, FIRST = 10 };
    for (int background = 0; background < 2; background++) {
        mdnn_host_account_t *const account = account_of((uint64_t)SLOTS * CHUNK);
        mdnn_pinned_pool_config_t config = {.driver = f->driver,
                                            .device = f->device,
                                            .context = f->context,
                                            .slot_bytes = CHUNK,
                                            .account = account,
                                            .background = background != 0};
        mdnn_pinned_pool_t *first, *second;
        uint64_t slot;
        OK(mdnn_pinned_pool_create(&config, &first));
        OK(mdnn_pinned_pool_create(&config, &second));
        for (int i = 0; i < FIRST; i++)
            while (mdnn_pinned_pool_take(first, &slot) == MDNN_STATUS_BUSY)
                OK(mdnn_pinned_pool_wait(first));
        const int others = take_more(second);
        assert_int_equal(FIRST + take_more(first) + others, SLOTS);
        assert_int_equal(account->made_bytes, (uint64_t)SLOTS * CHUNK);
        mdnn_pinned_pool_destroy(second);
        assert_true(account->made_bytes < (uint64_t)SLOTS * CHUNK);
        mdnn_pinned_pool_destroy(first);
        assert_int_equal(account->made_bytes, 0);
    }
}

static void a_stopped_thread_makes_no_more(void **state)
{
    mdnn_pinned_pool_t *const slots = make_slots(*state, (uint64_t)64 * CHUNK, true);
    uint64_t slot;
    mdnn_pinned_pool_want(slots, CHUNK);
    mdnn_pinned_pool_stop_all();
    while (mdnn_pinned_pool_take(slots, &slot) == MDNN_STATUS_OK)
        ;
    assert_int_equal(mdnn_pinned_pool_take(slots, &slot), MDNN_STATUS_OUT_OF_MEMORY);
    mdnn_pinned_pool_destroy(slots);
}

/* ---- what is taken from the driver, counted ---- */

static const mdnn_driver_t *counted_real;
static int kept, taking,
    failing; /* resources; calls that take one; the call that fails, from 1 on */

static bool may_take_one(void)
{
    const bool may = ++taking != failing;
    kept += may;
    return may;
}

static CUresult take_stream(CUstream *stream, unsigned flags, int priority)
{
    return may_take_one() ? counted_real->cuStreamCreateWithPriority(stream, flags, priority)
                          : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult give_stream(CUstream stream)
{
    kept--;
    return counted_real->cuStreamDestroy(stream);
}

static CUresult take_addresses(CUdeviceptr *start, size_t bytes, size_t alignment, CUdeviceptr hint,
                               unsigned long long flags)
{
    if (!may_take_one())
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = counted_real->cuMemAddressReserve(start, bytes, alignment, hint, flags);
    kept -= result != CUDA_SUCCESS; /* there may be fewer than are asked for */
    return result;
}

static CUresult give_addresses(CUdeviceptr start, size_t bytes)
{
    kept--;
    return counted_real->cuMemAddressFree(start, bytes);
}

static CUresult take_pinned(void **memory, size_t bytes, unsigned flags)
{
    return may_take_one() ? counted_real->cuMemHostAlloc(memory, bytes, flags)
                          : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult give_pinned(void *memory)
{
    kept--;
    return counted_real->cuMemFreeHost(memory);
}

static CUresult take_mapping(CUdeviceptr address, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return may_take_one() ? counted_real->cuMemMap(address, bytes, offset, handle, flags)
                          : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult give_mapping(CUdeviceptr address, size_t bytes)
{
    kept--;
    return counted_real->cuMemUnmap(address, bytes);
}

static CUresult no_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *value = 0; /* no handles of host memory: pieces are pinned memory */
    return CUDA_SUCCESS;
}

/* A chunk that is mapped and a slot, or what can be had of it. */
static void use_some(mdnn_device_memory_t *memory)
{
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    uint64_t chunk, slot, start, bytes;
    mdnn_device_memory_addresses(memory, &start, &bytes);
    if (device.create_chunk(memory, &chunk) == MDNN_STATUS_OK)
        (void)device.map(memory, start, chunk);
    (void)device.take_slot(memory, &slot);
}

/* Whatever fails on the way, or nothing. */
static void a_device_gives_all_back(void **state)
{
    const fixture_t *const f = *state;
    for (int pinned = 0; pinned < 2; pinned++) {
        mdnn_driver_t driver = *f->driver;
        counted_real = f->driver;
        driver.cuStreamCreateWithPriority = take_stream;
        driver.cuStreamDestroy = give_stream;
        driver.cuMemAddressReserve = take_addresses;
        driver.cuMemAddressFree = give_addresses;
        driver.cuMemHostAlloc = take_pinned;
        driver.cuMemFreeHost = give_pinned;
        driver.cuMemMap = take_mapping;
        driver.cuMemUnmap = give_mapping;
        if (pinned)
            driver.cuDeviceGetAttribute = no_attribute;
        mdnn_device_memory_config_t config = config_of(f, 3 * CHUNK, 64);
        config.driver = &driver;
        failing = 0;
        do {
            mdnn_device_memory_t *memory = NULL;
            failing++;
            taking = kept = 0;
            if (mdnn_device_memory_create(&config, &memory) == MDNN_STATUS_OK) {
                use_some(memory);
                assert_true(kept > 0);
                mdnn_device_memory_destroy(memory);
            }
            assert_int_equal(kept, 0);
        } while (failing <= taking); /* until none failed */
        assert_true(failing > 6);    /* it came as far as chunks and slots */
    }
}

/* What failed is told once, to whoever asks there and then. */
static void a_failure_is_not_told_later(void **state)
{
    const fixture_t *const f = *state;
    mdnn_failure_forget();
    const mdnn_stream_point_t point = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    simulator()->inject("cuEventRecord", 1, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(mdnn_timelines_wait_on_host(f->timelines, point), MDNN_STATUS_DEVICE);
    assert_int_equal(mdnn_failure_take(), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(mdnn_failure_take(), CUDA_SUCCESS);
    OK(mdnn_timelines_wait_on_host(f->timelines, point)); /* the next try */
}

/* Content goes out through a chunk's alias while it is nowhere else mapped, and comes back into
 * another chunk, seen at a range's address. */
static void content_survives_the_way_out_and_back(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_device_memory_config_t config = config_of(f, 3 * CHUNK + 1, 64);
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *memory;
    uint64_t chunks[4], slot, start, bytes;
    mdnn_stream_point_t end;
    static uint32_t words[CHUNK / 4], back[CHUNK / 4];
    OK(mdnn_device_memory_create(&config, &memory));
    mdnn_device_memory_addresses(memory, &start, &bytes);
    assert_true(bytes >= 3 * (uint64_t)CHUNK);
    for (int i = 0; i < 3; i++)
        OK(device.create_chunk(memory, &chunks[i]));
    assert_int_equal(device.create_chunk(memory, &chunks[3]), MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    for (uint32_t i = 0; i < CHUNK / 4; i++)
        words[i] = i * 2654435761U;
    OK(device.map(memory, start, chunks[0]));
    OK(cuMemcpyHtoD(start, words, CHUNK));
    OK(cuCtxSynchronize()); /* of memory that is not pinned the copy may go on */
    OK(device.unmap(memory, start, chunks[0]));
    OK(device.take_slot(memory, &slot));
    OK(device.copy(memory, true, chunks[0], slot, CHUNK, &end));
    OK(device.wait_on_host(memory, end));
    OK(device.copy(memory, false, chunks[1], slot, CHUNK, &end));
    OK(device.wait_on_host(memory, end));
    assert_true(device.is_done(memory, end));
    OK(device.map(memory, start + CHUNK, chunks[1]));
    OK(cuMemcpyDtoH(back, start + CHUNK, CHUNK));
    assert_memory_equal(words, back, CHUNK);
    OK(device.unmap(memory, start + CHUNK, chunks[1]));
    device.give_slot(memory, slot);
    mdnn_device_memory_destroy(memory);
}

/* The same by the library's kernel: no copy engine is asked, except for bytes that are no multiple of its unit. */
static void content_survives_the_kernel(void **state)
{
    const fixture_t *const f = *state;
    mdnn_device_memory_config_t config = config_of(f, 2 * CHUNK, 64);
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *memory;
    uint64_t chunks[2], slot, start, bytes;
    mdnn_stream_point_t end;
    static uint32_t words[CHUNK / 4], back[CHUNK / 4];
    config.copies = MDNN_COPIES_KERNEL;
    OK(mdnn_device_memory_create(&config, &memory));
    mdnn_device_memory_addresses(memory, &start, &bytes);
    for (int i = 0; i < 2; i++)
        OK(device.create_chunk(memory, &chunks[i]));
    for (uint32_t i = 0; i < CHUNK / 4; i++)
        words[i] = i * 2654435761U;
    OK(device.map(memory, start, chunks[0]));
    OK(cuMemcpyHtoD(start, words, CHUNK));
    OK(cuCtxSynchronize());
    OK(device.unmap(memory, start, chunks[0]));
    OK(device.take_slot(memory, &slot));
    simulator()->inject("cuMemcpyDtoHAsync_v2", 1, CUDA_ERROR_UNKNOWN);
    simulator()->inject("cuMemcpyHtoDAsync_v2", 1, CUDA_ERROR_UNKNOWN);
    OK(device.copy(memory, true, chunks[0], slot, CHUNK, &end));
    OK(device.wait_on_host(memory, end));
    OK(device.copy(memory, false, chunks[1], slot, CHUNK, &end));
    OK(device.wait_on_host(memory, end));
    assert_int_equal(device.copy(memory, true, chunks[0], slot, CHUNK - 7, &end),
                     MDNN_STATUS_DEVICE);
    assert_int_equal(device.copy(memory, false, chunks[0], slot, CHUNK - 7, &end),
                     MDNN_STATUS_DEVICE);
    OK(device.map(memory, start, chunks[1]));
    OK(cuMemcpyDtoH(back, start, CHUNK));
    assert_memory_equal(words, back, CHUNK);
    OK(device.unmap(memory, start, chunks[1]));
    device.give_slot(memory, slot);
    mdnn_device_memory_destroy(memory);
}

static mdnn_device_memory_t *make_covering(const fixture_t *f)
{
    mdnn_device_memory_config_t config = config_of(f, 3 * CHUNK, 8);
    config.covers = true;
    mdnn_device_memory_t *memory;
    OK(mdnn_device_memory_create(&config, &memory));
    return memory;
}

/* What the device writes at a range's address, where a slot is, comes back with the slot. */
static void a_slot_stands_for_a_chunk(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *const memory = make_covering(f);
    uint64_t chunk, slots[2], start, bytes;
    mdnn_stream_point_t end;
    uint32_t word = 0;
    assert_true(mdnn_device_memory_covers(memory));
    mdnn_device_memory_addresses(memory, &start, &bytes);
    OK(device.create_chunk(memory, &chunk));
    OK(device.map(memory, start, chunk));
    OK(cuMemsetD32(start, 5, CHUNK / 4));
    OK(cuCtxSynchronize());
    OK(device.unmap(memory, start, chunk));
    OK(device.take_slot(memory, &slots[0]));
    OK(device.take_slot(memory, &slots[1]));
    OK(device.copy(memory, true, chunk, slots[0], CHUNK, &end));
    OK(device.wait_a_while(memory, end, 10, true));
    OK(device.cover(memory, start, slots[0]));
    OK(device.cover(memory, start + CHUNK, slots[1]));
    assert_int_equal(device.cover(memory, start, slots[1]), MDNN_STATUS_DEVICE); /* not empty */
    OK(cuMemcpyDtoH(&word, start + 4, sizeof word));
    assert_int_equal(word, 5);
    OK(cuMemsetD32(start + 8, 6, 1));
    OK(cuMemsetD32(start + CHUNK, 7, CHUNK / 4));
    OK(cuCtxSynchronize());
    OK(device.uncover(memory, start, slots[0]));
    OK(device.copy(memory, false, chunk, slots[0], CHUNK, &end));
    OK(device.wait_on_host(memory, end));
    OK(device.map(memory, start, chunk));
    OK(cuMemcpyDtoH(&word, start + 8, sizeof word));
    assert_int_equal(word, 6);
    OK(device.unmap(memory, start, chunk));
    OK(device.uncover(memory, start + CHUNK, slots[1]));
    assert_int_equal(((uint32_t *)(uintptr_t)slots[1])[9], 7);
    mdnn_device_memory_destroy(memory);
}

/* Calls up to number `last` from `first` on fail. */
static bool covers_though(const fixture_t *f, const char *call, uint64_t first, uint64_t last)
{
    uint64_t slot;
    for (uint64_t nth = first; nth <= last; nth++)
        simulator()->inject(call, nth, CUDA_ERROR_UNKNOWN);
    mdnn_device_memory_t *const memory = make_covering(f);
    const bool covers = mdnn_device_memory_covers(memory);
    OK(mdnn_device_memory_functions().take_slot(memory, &slot)); /* in any case */
    mdnn_device_memory_destroy(memory);
    return covers;
}

static void where_slots_cannot_be_mapped_nothing_is_covered(void **state)
{
    const fixture_t *const f = *state;
    assert_true(covers_though(f, "cuMemCreate", 1, 1)); /* there is another place */
    assert_false(covers_though(f, "cuMemCreate", 1, 4));
    assert_true(covers_though(f, "cuMemMap", 1, 1)); /* a piece is tried twice */
    assert_true(covers_though(f, "cuMemMap", 2, 2)); /* and so is a slot */
    assert_false(covers_though(f, "cuMemMap", 2, 3));
    assert_true(covers_though(f, "cuMemSetAccess", 1, 1));
    assert_true(covers_though(f, "cuMemSetAccess", 2, 2)); /* and so is a slot */
    assert_false(covers_though(f, "cuMemSetAccess", 2, 3));
    assert_true(covers_though(f, "cuMemUnmap", 1, 1));
    assert_false(covers_though(f, "cuMemUnmap", 1, 2));
    /* The trial's comes after those of ranges and of views, which ask for less if they are refused. */
    uint64_t trial = 3;
    while (covers_though(f, "cuMemAddressReserve", trial, trial + 1)) {
        assert_true(covers_though(f, "cuMemAddressReserve", trial, trial));
        assert_true(++trial < 30);
    }
    assert_true(covers_though(f, "cuMemAddressReserve", trial, trial));
}

/* Other processes, say. When they have ended there are slots, and these must cover then. */
static void it_covers_where_others_hold_all_slots(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_config_t config = config_of(f, 3 * CHUNK, 8);
    mdnn_device_memory_t *memory;
    uint64_t slot, start, bytes;
    config.covers = true;
    atomic_store(&config.host->made_bytes, config.host->limit_bytes);
    OK(mdnn_device_memory_create(&config, &memory));
    assert_true(mdnn_device_memory_covers(memory));
    assert_int_equal(device.take_slot(memory, &slot), MDNN_STATUS_OUT_OF_MEMORY);
    atomic_store(&config.host->made_bytes, 0);
    OK(device.take_slot(memory, &slot));
    mdnn_device_memory_addresses(memory, &start, &bytes);
    OK(device.cover(memory, start, slot));
    OK(device.uncover(memory, start, slot));
    device.give_slot(memory, slot);
    mdnn_device_memory_destroy(memory);
}

static void a_host_limit_of_nothing_is_no_fault_of_the_driver(void **state)
{
    const fixture_t *const f = *state;
    mdnn_device_memory_config_t config = config_of(f, 3 * CHUNK, 0);
    mdnn_device_memory_t *memory;
    uint64_t slot;
    config.covers = true;
    OK(mdnn_device_memory_create(&config, &memory));
    assert_true(mdnn_device_memory_covers(memory));
    assert_int_equal(mdnn_device_memory_functions().take_slot(memory, &slot),
                     MDNN_STATUS_OUT_OF_MEMORY);
    mdnn_device_memory_destroy(memory);
}

static void a_wait_that_takes_too_long_is_given_up(void **state)
{
    const fixture_t *const f = *state;
    const gate_t gate = close_gate(f->streams[0]);
    const mdnn_stream_point_t behind = mdnn_timelines_mark(f->timelines, f->numbers[0]);
    assert_int_equal(mdnn_timelines_wait_a_while(f->timelines, behind, 1), MDNN_STATUS_BUSY);
    open_gate(gate, f->streams[0]);
    OK(mdnn_timelines_wait_a_while(f->timelines, behind, 1));
}

/* Whether a line of the log says it. */
static bool is_logged(const char *file, const char *what)
{
    char line[1024];
    bool found = false;
    FILE *const stream = fopen(file, "r");
    assert_non_null(stream);
    while (!found && fgets(line, sizeof line, stream))
        found = strstr(line, what) != NULL;
    fclose(stream);
    return found;
}

/* Also where slots can be mapped in ranges, which says nothing of what waits. The first wait would take an hour by the
 * host's clock. */
static void the_log_says_what_a_long_wait_changes(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *const memory = make_covering(f);
    char file[] = "/tmp/mdnn-waits.XXXXXX";
    const int descriptor = mkstemp(file);
    assert_true(descriptor >= 0);
    close(descriptor);
    mdnn_log_configure(MDNN_LOG_WARN, file);
    const gate_t gate = close_gate(f->streams[0]);
    const mdnn_stream_point_t behind = device.mark(memory, f->numbers[0]);
    assert_int_equal(device.wait_a_while(memory, behind, 3600, false), MDNN_STATUS_BUSY);
    assert_true(is_logged(file, "does not wait for memory that moves ahead of time"));
    assert_false(is_logged(file, "memory moves beside that work"));
    assert_int_equal(device.wait_a_while(memory, behind, 1, true), MDNN_STATUS_BUSY);
    assert_true(is_logged(file, "memory moves beside that work"));
    open_gate(gate, f->streams[0]);
    mdnn_log_configure(MDNN_LOG_WARN, "");
    unlink(file);
    mdnn_device_memory_destroy(memory);
}

static void times_are_of_what_lies_between(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_device_memory_config_t config = config_of(f, CHUNK, 4);
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *memory;
    double time_us = -1;
    OK(mdnn_device_memory_create(&config, &memory));
    const gate_t gate = close_gate(f->streams[0]);
    const uint64_t token = device.time_begin(memory, f->numbers[0], false);
    assert_true(token > 0);
    device.time_end(memory, f->numbers[0], token);
    assert_int_equal(device.time_read(memory, token, &time_us), MDNN_STATUS_BUSY);
    open_gate(gate, f->streams[0]);
    OK(device.time_read(memory, token, &time_us));
    assert_true(time_us >= 0);
    mdnn_failure_forget(); /* a time that cannot be had is nobody's failure */
    assert_int_equal(
        device.time_read(memory, device.time_begin(memory, f->numbers[0], false), &time_us),
        MDNN_STATUS_DEVICE);
    assert_int_equal(mdnn_failure_take(), CUDA_SUCCESS);
    mdnn_device_memory_destroy(memory);
}

/* Microseconds of a small copy in the first stream. A busy device begins with it long after all is enqueued: a gate keeps
 * it from running, and a long copy takes time of the simulated clock. */
static double small_copy_us(const fixture_t *f, mdnn_device_memory_t *memory, bool operation,
                            bool busy)
{
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    CUdeviceptr address;
    void *host;
    double time_us = -1;
    gate_t gate = {0};
    OK(cuMemAlloc(&address, CHUNK));
    OK(cuMemAllocHost(&host, CHUNK));
    OK(cuStreamSynchronize(f->streams[0]));
    if (busy) {
        gate = close_gate(f->streams[0]);
        OK(cuMemcpyDtoHAsync(host, address, CHUNK, f->streams[0]));
    }
    const uint64_t token = device.time_begin(memory, f->numbers[0], operation);
    assert_true(token > 0);
    if (!busy)
        OK(cuStreamSynchronize(f->streams[0]));
    OK(cuMemcpyDtoDAsync(address, address + CHUNK / 2, 4096, f->streams[0]));
    device.time_end(memory, f->numbers[0], token);
    if (busy)
        open_gate(gate, f->streams[0]);
    OK(cuStreamSynchronize(f->streams[0]));
    OK(device.time_read(memory, token, &time_us));
    OK(cuMemFreeHost(host));
    OK(cuMemFree(address));
    return time_us;
}

/* Time in which the device waits for the launch is the host's. */
static void an_operation_takes_as_long_on_an_idle_device(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_device_memory_config_t config = config_of(f, CHUNK, 4);
    mdnn_device_memory_t *memory;
    mdnn_link_t link;
    OK(mdnn_device_memory_create(&config, &memory));
    const double before_us = small_copy_us(f, memory, true, false);
    mdnn_device_memory_measure(memory, &link);
    const double busy_us = small_copy_us(f, memory, true, true);
    const double idle_us = small_copy_us(f, memory, true, false);
    const double whole_us = small_copy_us(f, memory, false, false);
    print_message("# %g us before, %g busy, %g idle, %g whole\n", before_us, busy_us, idle_us,
                  whole_us);
    assert_true(before_us > 1.5 * busy_us);
    assert_true(fabs(idle_us - busy_us) < 0.1 * busy_us);
    assert_true(fabs(whole_us - before_us) < 0.1 * before_us);
    mdnn_device_memory_destroy(memory);
}

/* The default stream's handle is the same in every context. */
static void another_devices_stream_is_not_timed(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_device_memory_config_t config = config_of(f, CHUNK, 4);
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *memory;
    CUcontext other, popped;
    uint64_t own_number, other_number;
    OK(mdnn_device_memory_create(&config, &memory));
    OK(mdnn_timelines_stream(f->timelines, NULL, false, &own_number));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    OK(mdnn_timelines_stream(f->timelines, NULL, false, &other_number));
    OK(cuCtxPopCurrent(&popped));
    assert_true(own_number != other_number);
    assert_true(device.time_begin(memory, own_number, false) > 0);
    assert_true(device.time_begin(memory, other_number, false) == 0);
    mdnn_device_memory_destroy(memory);
}

static void a_peer_reaches_what_is_mapped_before_and_after(void **state)
{
    const fixture_t *const f = *state;
    mdnn_device_memory_config_t config = config_of(f, 2 * CHUNK, 4);
    config.covers = true;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_device_memory_t *memory;
    CUcontext other, popped;
    uint64_t chunks[2], slots[2], start, bytes;
    OK(mdnn_device_memory_create(&config, &memory));
    mdnn_device_memory_addresses(memory, &start, &bytes);
    for (int i = 0; i < 2; i++)
        OK(device.take_slot(memory, &slots[i]));
    OK(device.cover(memory, start + (uint64_t)2 * CHUNK, slots[0]));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(device.create_chunk(memory, &chunks[0]));
    OK(device.create_chunk(memory, &chunks[1]));
    OK(device.map(memory, start, chunks[0]));
    OK(cuCtxPushCurrent(other));
    assert_int_equal(cuMemsetD8(start, 1, CHUNK), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxPopCurrent(&popped));
    OK(mdnn_device_memory_let(memory, 1));
    OK(device.map(memory, start + CHUNK, chunks[1]));
    OK(device.cover(memory, start + (uint64_t)3 * CHUNK, slots[1]));
    OK(cuCtxPushCurrent(other));
    OK(cuMemsetD8(start, 1, (size_t)4 * CHUNK));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&popped));
    OK(device.unmap(memory, start, chunks[0]));
    OK(device.unmap(memory, start + CHUNK, chunks[1]));
    mdnn_device_memory_destroy(memory);
}

enum { REMAPPED = 3 };

/* A device's memory with chunks for a range, none of which is mapped there. */
static mdnn_device_memory_t *make_remapped(const fixture_t *f, mdnn_remap_t *remap,
                                           uint64_t chunks[REMAPPED])
{
    mdnn_device_memory_config_t config = config_of(f, REMAPPED * CHUNK, 8);
    mdnn_device_memory_t *memory;
    uint64_t bytes;
    config.background = true;
    OK(mdnn_device_memory_create(&config, &memory));
    *remap = (mdnn_remap_t){.map = true, .chunks = chunks, .count = REMAPPED};
    mdnn_device_memory_addresses(memory, &remap->address, &bytes);
    for (int i = 0; i < REMAPPED; i++)
        OK(mdnn_device_memory_functions().create_chunk(memory, &chunks[i]));
    return memory;
}

/* Until its thread has done all, or met a failure. */
static uint64_t await_remap(mdnn_device_memory_t *memory, uint64_t token)
{
    const struct timespec pause = {0, 100000};
    bool over = false;
    uint64_t done = 0;
    while (!over) {
        const uint64_t now = mdnn_device_memory_functions().remap_done(memory, token, &over);
        assert_true(now >= done && now <= REMAPPED);
        done = now;
        (void)nanosleep(&pause, NULL);
    }
    return done;
}

static void mappings_change_in_the_background(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    uint64_t chunks[REMAPPED], token, done;
    mdnn_remap_t remap;
    mdnn_device_memory_t *const memory = make_remapped(f, &remap, chunks);
    OK(device.remap_begin(memory, &remap, &token));
    assert_int_equal(await_remap(memory, token), REMAPPED);
    OK(device.remap_end(memory, token, false, &done));
    assert_int_equal(done, REMAPPED);
    assert_int_equal(device.background(memory).chunks, REMAPPED);
    assert_true(device.background(memory).time_us > 0);
    OK(cuMemsetD8(remap.address, 7, REMAPPED * CHUNK));
    for (int round = 0; round < 100; round++) { /* some end before the thread begins */
        remap.map = false;
        OK(device.remap_begin(memory, &remap, &token));
        OK(device.remap_end(memory, token, round % 2 == 0, &done));
        assert_true(round % 2 != 0 || done == REMAPPED);
        for (uint64_t i = REMAPPED - done; i < REMAPPED; i++)
            OK(device.map(memory, remap.address + i * CHUNK, chunks[i]));
        OK(cuMemsetD8(remap.address, 7, REMAPPED * CHUNK));
    }
    remap.map = false;
    OK(device.remap_begin(memory, &remap, &token));
    mdnn_device_memory_destroy(memory); /* in the midst of it */
}

static void a_failure_ends_what_changes_in_the_background(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    uint64_t chunks[REMAPPED], token, done;
    mdnn_remap_t remap;
    mdnn_device_memory_t *const memory = make_remapped(f, &remap, chunks);
    simulator()->inject("cuMemMap", 2, CUDA_ERROR_OUT_OF_MEMORY);
    simulator()->inject("cuMemMap", 3, CUDA_ERROR_OUT_OF_MEMORY); /* when it is tried again */
    OK(device.remap_begin(memory, &remap, &token));
    assert_int_equal(await_remap(memory, token), 1);
    assert_int_equal(device.remap_end(memory, token, true, &done),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(done, 1);
    for (uint64_t i = 1; i < REMAPPED; i++)
        OK(device.map(memory, remap.address + i * CHUNK, chunks[i]));
    OK(cuMemsetD8(remap.address, 7, REMAPPED * CHUNK));
    mdnn_device_memory_destroy(memory);
}

/* A call of cuMemMap that does not end before the test allows it, or has waited long enough. */
static struct {
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    _Atomic CUdeviceptr at;
    _Atomic bool reached, allowed, given_up;
} slow;

static CUresult map_slowly(CUdeviceptr address, size_t bytes, size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    enum { MOST_MS = 20000 };
    const struct timespec ms = {0, 1000000};
    if (address == slow.at) {
        slow.reached = true;
        for (int i = 0; i < MOST_MS && !slow.allowed; i++)
            (void)nanosleep(&ms, NULL);
        slow.given_up = !slow.allowed; /* somebody waited for this call */
    }
    return slow.map(address, bytes, offset, handle, flags);
}

static void await_slow_call(void)
{
    const struct timespec pause = {0, 100000};
    while (!slow.reached)
        (void)nanosleep(&pause, NULL);
}

static void ending_a_change_waits_for_no_other(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_driver_t driver = *f->driver;
    fixture_t slowly = *f;
    uint64_t chunks[REMAPPED], tokens[REMAPPED], done;
    mdnn_remap_t all;
    slow.map = driver.cuMemMap;
    driver.cuMemMap = map_slowly;
    slowly.driver = &driver;
    mdnn_device_memory_t *const memory = make_remapped(&slowly, &all, chunks);
    slow.at = all.address + CHUNK;
    for (uint64_t i = 0; i < REMAPPED; i++) { /* one is over, one is at work, one has not begun */
        const mdnn_remap_t one = {true, all.address + i * CHUNK, &chunks[i], 1};
        OK(device.remap_begin(memory, &one, &tokens[i]));
    }
    await_slow_call();
    OK(device.remap_end(memory, tokens[0], false, &done));
    assert_int_equal(done, 1);
    OK(device.remap_end(memory, tokens[2], false, &done));
    assert_int_equal(done, 0);
    assert_false(slow.given_up);
    slow.allowed = true;
    OK(device.remap_end(memory, tokens[1], true, &done));
    assert_int_equal(done, 1);
    OK(device.map(memory, all.address + 2 * CHUNK, chunks[2]));
    OK(cuMemsetD8(all.address, 7, REMAPPED * CHUNK));
    mdnn_device_memory_destroy(memory);
}

static void *allow_slow_call(void *unused)
{
    const struct timespec pause = {0, 20000000};
    (void)nanosleep(&pause, NULL);
    slow.allowed = true;
    return unused;
}

/* The thread is at the first change when it is told to end. No thread begins anything after this. */
static void what_the_thread_has_left_is_changed_at_the_end(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    mdnn_driver_t driver = *f->driver;
    fixture_t slowly = *f;
    uint64_t chunks[REMAPPED], tokens[REMAPPED], done;
    mdnn_remap_t all;
    pthread_t other;
    slow.map = driver.cuMemMap;
    slow.reached = slow.allowed = false;
    driver.cuMemMap = map_slowly;
    slowly.driver = &driver;
    mdnn_device_memory_t *const memory = make_remapped(&slowly, &all, chunks);
    slow.at = all.address;
    for (uint64_t i = 0; i < REMAPPED; i++) {
        const mdnn_remap_t one = {true, all.address + i * CHUNK, &chunks[i], 1};
        OK(device.remap_begin(memory, &one, &tokens[i]));
    }
    await_slow_call();
    OK(pthread_create(&other, NULL, allow_slow_call, NULL));
    mdnn_device_remaps_stop_all();
    OK(pthread_join(other, NULL));
    for (uint64_t i = 0; i < REMAPPED; i++) {
        assert_int_equal(await_remap(memory, tokens[i]), 1);
        OK(device.remap_end(memory, tokens[i], false, &done));
    }
    OK(cuMemsetD8(all.address, 7, REMAPPED * CHUNK));
    mdnn_device_memory_destroy(memory);
}

static void nothing_changes_in_the_background_at_the_end(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_memory_device_t device = mdnn_device_memory_functions();
    uint64_t chunks[REMAPPED], token;
    mdnn_remap_t remap;
    mdnn_device_memory_t *const memory = make_remapped(f, &remap, chunks);
    assert_int_equal(device.remap_begin(memory, &remap, &token), MDNN_STATUS_UNSUPPORTED);
    assert_int_equal(device.background(memory).chunks, 0);
    mdnn_device_memory_destroy(memory);
}

/* The thread has made a piece by then; a later pool has none. No thread makes pieces after this. */
static void whoever_needs_slots_makes_them_at_the_end(void **state)
{
    mdnn_pinned_pool_t *const slots = make_slots(*state, 64 * CHUNK, true);
    uint64_t slot;
    while (mdnn_pinned_pool_take(slots, &slot) == MDNN_STATUS_BUSY)
        OK(mdnn_pinned_pool_wait(slots));
    mdnn_pinned_pool_stop_all();
    for (int i = 1; i < 64; i++)
        OK(mdnn_pinned_pool_take(slots, &slot));
    assert_int_equal(mdnn_pinned_pool_take(slots, &slot), MDNN_STATUS_OUT_OF_MEMORY);
    mdnn_pinned_pool_destroy(slots);
    take_all(*state, true);
}

/* The figures of the profile, in bytes a microsecond. */
static void the_link_is_measured(void **state)
{
    const fixture_t *const f = *state;
    const mdnn_device_memory_config_t config = config_of(f, CHUNK, 64);
    const sim_profile_t *const profile = simulator()->profile(0);
    mdnn_device_memory_t *memory;
    mdnn_link_t link = {.latency_us = 3};
    uint64_t chunk;
    OK(mdnn_device_memory_create(&config, &memory));
    mdnn_device_memory_measure(memory, &link);
    assert_true(fabs(link.out_bytes_per_us - 1e3 * profile->link_gbps) < 60 * profile->link_gbps);
    assert_true(fabs(link.in_bytes_per_us - 1e3 * profile->link_gbps) < 60 * profile->link_gbps);
    assert_true(link.out_duplex_bytes_per_us < link.out_bytes_per_us);
    assert_true(link.in_duplex_bytes_per_us > 0.5e3 * profile->link_duplex_gbps);
    assert_true(link.latency_us == 3);
    OK(mdnn_device_memory_functions().create_chunk(memory, &chunk)); /* it was given back */
    mdnn_device_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_survives_the_kernel),
        cmocka_unit_test(a_moment_is_over_when_the_work_before_it_is),
        cmocka_unit_test(many_moments_of_one_stream_stay_in_order),
        cmocka_unit_test(one_stream_waits_for_a_moment_of_another),
        cmocka_unit_test(work_of_a_destroyed_stream_stays_known),
        cmocka_unit_test(unfinished_work_outlasts_many_streams),
        cmocka_unit_test(a_capture_is_left_alone),
        cmocka_unit_test(slots_are_made_at_need),
        cmocka_unit_test(slots_are_made_in_the_background),
        cmocka_unit_test(who_waits_asks_for_more_than_others_took),
        cmocka_unit_test(slots_share_one_limit),
        cmocka_unit_test(a_stopped_thread_makes_no_more),
        cmocka_unit_test(content_survives_the_way_out_and_back),
        cmocka_unit_test(a_slot_stands_for_a_chunk),
        cmocka_unit_test(where_slots_cannot_be_mapped_nothing_is_covered),
        cmocka_unit_test(it_covers_where_others_hold_all_slots),
        cmocka_unit_test(a_host_limit_of_nothing_is_no_fault_of_the_driver),
        cmocka_unit_test(a_wait_that_takes_too_long_is_given_up),
        cmocka_unit_test(the_log_says_what_a_long_wait_changes),
        cmocka_unit_test(times_are_of_what_lies_between),
        cmocka_unit_test(an_operation_takes_as_long_on_an_idle_device),
        cmocka_unit_test(another_devices_stream_is_not_timed),
        cmocka_unit_test(a_peer_reaches_what_is_mapped_before_and_after),
        cmocka_unit_test(the_link_is_measured),
        cmocka_unit_test(a_device_gives_all_back),
        cmocka_unit_test(a_failure_is_not_told_later),
        cmocka_unit_test(mappings_change_in_the_background),
        cmocka_unit_test(a_failure_ends_what_changes_in_the_background),
        cmocka_unit_test(ending_a_change_waits_for_no_other),
        cmocka_unit_test(what_the_thread_has_left_is_changed_at_the_end),
        cmocka_unit_test(nothing_changes_in_the_background_at_the_end),
        cmocka_unit_test(whoever_needs_slots_makes_them_at_the_end),
    };
    setenv("MICRODNN_SIM_DEVICES", "2", 1);
    setenv("MICRODNN_SIM_PEERS", "1", 1);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
