/* Copies and fills of boxes, batches and between devices; values in memory; pointer attributes. */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

static const char *const seeds[] = {"MICRODNN_SIM_SEED=1", "MICRODNN_SIM_SEED=2",
                                    "MICRODNN_SIM_SEED=3", "MICRODNN_SIM_SEED=4"};

static void expect_under_seeds(void (*body)(void))
{
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        expect_success(body, seeds[i]);
}

static void number(unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
}

/* A host matrix of 8 rows, 32 bytes apart, to device rows 48 apart, and back elsewhere. */
static void copy_rows(unsigned char *source, unsigned char *destination, cudaStream_t stream)
{
    unsigned char *device = new_device(8 * 48);
    number(source, 8 * 32);
    memset(destination, 1, 8 * 40);
    OK(cudaMemcpy2DAsync(device, 48, source, 32, 20, 8, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpy2DAsync(destination, 40, device + 48, 48, 20, 7, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    for (int row = 0; row < 8; row++)
        for (int x = 0; x < 40; x++)
            CHECK(destination[row * 40 + x] ==
                  (row < 7 && x < 20 ? source[(row + 1) * 32 + x] : 1));
    CHECK(cudaMemcpy2D(device, 16, source, 32, 20, 8, cudaMemcpyHostToDevice) ==
          cudaErrorInvalidValue);
    CHECK(cudaMemcpy2D(device, 48, source, 32, 20, 9, cudaMemcpyHostToDevice) ==
          cudaErrorInvalidValue);
    CHECK(cudaMemcpy2D(device, 48, source, 32, 20, 8, (enum cudaMemcpyKind)9) ==
          cudaErrorInvalidMemcpyDirection);
    OK(cudaMemcpy2D(device, 48, source, 32, 0, 9, cudaMemcpyHostToDevice));
}

static void pinned_rows(void)
{
    copy_rows(new_pinned(8 * 32), new_pinned(8 * 40), new_stream());
}

/* From pageable memory the rows are taken at the call. */
static void pageable_rows(void)
{
    static unsigned char source[8 * 32], destination[8 * 40];
    copy_rows(source, destination, new_stream());
    unsigned char *device = new_device(64), back[64];
    OK(cudaMemcpy2DAsync(device, 8, source, 32, 8, 8, cudaMemcpyHostToDevice, NULL));
    unsigned char first = source[0], last = source[7 * 32 + 7];
    memset(source, 0xEE, sizeof source);
    OK(cudaMemcpy(back, device, 64, cudaMemcpyDeviceToHost));
    CHECK(back[0] == first && back[63] == last);
}

CASE(boxes_of_two_dimensions)
{
    expect_under_seeds(pinned_rows);
    expect_under_seeds(pageable_rows);
}

/* Out of the middle of a 4 x 6 x 16 box into a corner of a 5 x 7 x 32 one. */
static void copy_slices(void)
{
    unsigned char *source = new_pinned(4 * 6 * 16), *result = new_pinned(5 * 7 * 32);
    unsigned char *device = new_device(5 * 7 * 32);
    number(source, 4 * 6 * 16);
    OK(cudaMemset(device, 9, 5 * 7 * 32));
    struct cudaMemcpy3DParms box = {.srcPtr = {source, 16, 16, 6},
                                    .srcPos = {4, 2, 1},
                                    .dstPtr = {device, 32, 32, 7},
                                    .dstPos = {1, 0, 2},
                                    .extent = {8, 3, 3},
                                    .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3DAsync(&box, NULL));
    OK(cudaMemcpy(result, device, 5 * 7 * 32, cudaMemcpyDeviceToHost));
    for (int z = 0; z < 5; z++)
        for (int y = 0; y < 7; y++)
            for (int x = 0; x < 32; x++) {
                bool inside = z >= 2 && y < 3 && x >= 1 && x < 9;
                int from = ((z - 1) * 6 + y + 2) * 16 + x + 3;
                CHECK(result[(z * 7 + y) * 32 + x] == (inside ? source[from] : 9));
            }
    box.extent.depth = 4;
    CHECK(cudaMemcpy3D(&box) == cudaErrorInvalidValue); /* beyond the device's box */
    box.extent.depth = 3;
    box.dstPtr.ysize = 2; /* slices would overlap */
    CHECK(cudaMemcpy3D(&box) == cudaErrorInvalidValue);
    CUDA_MEMCPY3D array = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .WidthInBytes = 1};
    CHECK(cuMemcpy3D(&array) == CUDA_ERROR_NOT_SUPPORTED);
}

CASE(boxes_of_three_dimensions)
{
    expect_under_seeds(copy_slices);
}

static void fill_rows(void)
{
    uint32_t result[4][8];
    CUdeviceptr device;
    size_t pitch;
    OK(cudaFree(NULL));
    OK(cuMemAllocPitch(&device, &pitch, 24, 4, 4));
    CHECK(pitch == 512);
    OK(cuMemsetD8(device, 0, 4 * pitch - 488));
    OK(cuMemsetD2D32(device + 4, pitch, 0xABCDEF01, 2, 3));
    OK(cuMemsetD2D16Async(device + 16, pitch, 0x7777, 1, 2, NULL));
    OK(cudaMemset2D((void *)(uintptr_t)(device + 20), pitch, 5, 1, 4));
    CHECK(cuMemsetD2D32(device + 2, pitch, 0, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD2D32(device, 4, 0, 2, 2) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD2D32(device, pitch, 0, 2, 5) == CUDA_ERROR_INVALID_VALUE);
    OK(cudaMemcpy2D(result, 32, (void *)(uintptr_t)device, pitch, 24, 4, cudaMemcpyDefault));
    for (int row = 0; row < 4; row++) {
        CHECK(result[row][0] == 0 && result[row][1] == (row < 3 ? 0xABCDEF01 : 0));
        CHECK(result[row][2] == result[row][1] && result[row][3] == 0);
        CHECK(result[row][4] == (row < 2 ? 0x7777u : 0) && result[row][5] == 5);
    }
}

CASE(fills_of_rows)
{
    expect_under_seeds(fill_rows);
}

static void copy_box_during_capture(void)
{
    unsigned char *source = new_pinned(64), *result = new_pinned(64), *device = new_device(64);
    cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaMemset(device, 0, 64));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpy2DAsync(device, 16, source, 8, 8, 4, cudaMemcpyHostToDevice, stream));
    OK(cudaMemset2DAsync(device + 8, 16, 3, 8, 4, stream));
    OK(cudaMemcpyAsync(result, device, 64, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (unsigned char round = 1; round < 3; round++) {
        memset(source, 10 * round, 32);
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaStreamSynchronize(stream));
        CHECK(result[0] == 10 * round && result[7] == 10 * round && result[8] == 3);
        CHECK(result[48] == 10 * round && result[63] == 3);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

CASE(boxes_can_be_captured)
{
    expect_under_seeds(copy_box_during_capture);
}

/* Two copies of a batch to one place: either may be the last. */
static int batch_winner(void)
{
    unsigned char *device = new_device(4), *hosts[2] = {new_pinned(4), new_pinned(4)}, result;
    memset(hosts[0], 1, 4);
    memset(hosts[1], 2, 4);
    void *destinations[] = {device, device};
    const void *sources[] = {hosts[0], hosts[1]};
    size_t sizes[] = {4, 4}, start = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    cudaStream_t stream = new_stream();
    OK(cudaMemcpyBatchAsync(destinations, sources, sizes, 2, &attributes, &start, 1, stream));
    OK(cudaMemcpyAsync(hosts[0], device, 4, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    result = hosts[0][0];
    return result;
}

static void first_wins(void)
{
    CHECK(batch_winner() == 1);
}

static void second_wins(void)
{
    CHECK(batch_winner() == 2);
}

static void batch_rules(void)
{
    unsigned char host[16] = {1, 2, 3}, *device = new_device(16), back[16];
    CUdeviceptr destinations[] = {ADDRESS(device), ADDRESS(device) + 8};
    CUdeviceptr sources[] = {ADDRESS(host), ADDRESS(host)};
    size_t sizes[] = {4, 4}, starts[] = {0, 1};
    CUmemcpyAttributes attributes[2] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                                        {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};
    cudaStream_t stream = new_stream();
    OK(cudaMemset(device, 0, 16));
    OK(cudaDeviceSynchronize());
    OK(cuMemcpyBatchAsync(destinations, sources, sizes, 2, attributes, starts, 2, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(back, device, 16, cudaMemcpyDeviceToHost));
    CHECK(back[2] == 3 && back[10] == 3 && back[4] == 0);
    CHECK(cuMemcpyBatchAsync(destinations, sources, sizes, 2, attributes, starts, 2, NULL) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyBatchAsync(destinations, sources, sizes, 2, attributes, starts + 1, 1, stream) ==
          CUDA_ERROR_INVALID_VALUE);
    sizes[1] = 9;
    CHECK(cuMemcpyBatchAsync(destinations, sources, sizes, 2, attributes, starts, 2, stream) ==
          CUDA_ERROR_INVALID_VALUE);
}

CASE(copies_of_a_batch_are_in_no_order)
{
    expect_under_seeds(batch_rules);
    int wins[2] = {0};
    failure_expected = true;
    for (int seed = 0; seed < 20; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        wins[0] += run_child(first_wins, environment) == 0;
        wins[1] += run_child(second_wins, environment) == 0;
    }
    failure_expected = false;
    assert_true(wins[0] > 0 && wins[1] > 0 && wins[0] + wins[1] == 20);
}

static void copy_between_devices(void)
{
    float *first = new_device(64), *second, value = 3;
    OK(cudaMemcpy(first, &value, sizeof value, cudaMemcpyHostToDevice));
    OK(cudaSetDevice(1));
    second = new_device(64);
    cudaStream_t stream = new_stream();
    int can;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 0);
    OK(cudaMemcpyPeerAsync(second, 1, first, 0, sizeof value, stream));
    OK(launch_add(second, 4, 1, 1, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&value, second, sizeof value, cudaMemcpyDefault));
    CHECK(value == 7);
    CHECK(cudaMemcpyPeer(second, 1, first, 5, 4) == cudaErrorInvalidDevice);
    OK(launch_add(first, 4, 1, 1, stream)); /* another device's memory */
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
}

/* Over the link, not with the speed of one device's memory. */
static void time_between_devices(void)
{
    char *first = new_device(64 << 20);
    OK(cudaSetDevice(1));
    char *second = new_device(64 << 20);
    cudaStream_t stream = new_stream();
    cudaEvent_t start = new_event(), end = new_event();
    OK(cudaEventRecord(start, stream));
    OK(cudaMemcpyPeerAsync(second, 1, first, 0, 55300000, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaStreamSynchronize(stream));
    float ms;
    OK(cudaEventElapsedTime(&ms, start, end));
    CHECK(fabs(ms - 1.0) < 0.01);
}

static void enable_peers(void)
{
    float *first = new_device(64), *second, value = 3;
    OK(cudaMemcpy(first, &value, sizeof value, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(1));
    second = new_device(64);
    int can;
    OK(cudaDeviceCanAccessPeer(&can, 1, 0));
    CHECK(can == 1);
    OK(cudaDeviceCanAccessPeer(&can, 1, 1));
    CHECK(can == 0);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
    OK(cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
    OK(launch_add(first, 4, 1, 1, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&value, first, sizeof value, cudaMemcpyDefault));
    CHECK(value == 7);
    OK(cudaSetDevice(0));
    OK(launch_add(second, 4, 1, 1, NULL)); /* it goes one way */
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

CASE(peers_reach_memory_once_that_is_enabled)
{
    expect_success(enable_peers, "MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_PEERS=1");
}

CASE(devices_copy_to_each_other)
{
    expect_success(copy_between_devices, "MICRODNN_SIM_DEVICES=2");
    expect_success(time_between_devices, "MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_MODE=timing");
}

/* The wait is enqueued first, on another stream, and orders what follows it. */
static void wait_for_stream(void)
{
    float *device = new_device(4), value;
    CUdeviceptr flag = ADDRESS(new_device(8));
    cudaStream_t waiting = new_stream(), writing = new_stream();
    OK(cudaMemset(device, 0, 4));
    OK(cuMemsetD32(flag, 0, 2));
    OK(cudaDeviceSynchronize());
    OK(cuStreamWaitValue32(waiting, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(launch_add(device, 1, 1, 1, waiting));
    OK(cudaMemcpyAsync(new_pinned(4), device, 4, cudaMemcpyDeviceToHost, waiting));
    OK(launch_add(device, 10, 1, 1, writing));
    OK(cuStreamWriteValue32(writing, flag, 6, 0));
    OK(cudaStreamSynchronize(waiting));
    OK(cudaMemcpy(&value, device, 4, cudaMemcpyDeviceToHost));
    CHECK(value == 11);
    uint32_t words[2];
    OK(cuMemcpyDtoH(words, flag, 8));
    CHECK(words[0] == 6 && words[1] == 0);
    CUstreamBatchMemOpParams both[2] = {
        {.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, flag, {.value64 = UINT64_MAX}, 0, 0}},
        {.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, flag, {.value64 = UINT64_MAX}, 1, 0}}};
    OK(cuStreamBatchMemOp(writing, 2, both, 0));
    OK(cudaStreamSynchronize(writing));
    CHECK(cuStreamWriteValue64(writing, flag + 4, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamWriteValue32(writing, flag + 8, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamWaitValue32(writing, flag, 1, 17) == CUDA_ERROR_INVALID_VALUE);
}

static void *raise_flag(void *flag)
{
    static const struct timespec moment = {0, 20000000};
    nanosleep(&moment, NULL);
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void wait_for_host(void)
{
    uint32_t *flag = new_pinned(4);
    pthread_t thread;
    cudaStream_t stream = new_stream();
    *flag = 0;
    OK(cuStreamWaitValue32(stream, ADDRESS(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 0; i < 10; i++)
        CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CHECK(pthread_create(&thread, NULL, raise_flag, flag) == 0);
    OK(cudaStreamSynchronize(stream));
    CHECK(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 1);
    pthread_join(thread, NULL);
}

static void wait_for_enqueued_write(void)
{
    CUdeviceptr flag = ADDRESS(new_device(4));
    cudaStream_t writing = new_stream(), waiting = new_stream();
    cudaEvent_t end = new_event(), start = new_event();
    OK(cudaEventRecord(start, writing));
    OK(launch_add((void *)(uintptr_t)flag, 0, 1, 300, writing));
    OK(cuStreamWriteValue32(writing, flag, 1, 0));
    OK(cuStreamWaitValue32(waiting, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cudaEventRecord(end, waiting));
    OK(cudaEventSynchronize(end));
    float ms;
    OK(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0.3 && ms < 0.32);
}

CASE(streams_wait_for_values)
{
    expect_under_seeds(wait_for_stream);
    expect_under_seeds(wait_for_host);
    expect_success(wait_for_enqueued_write, "");
    expect_success(wait_for_enqueued_write, "MICRODNN_SIM_MODE=timing");
}

static void ask_many(void)
{
    char *device = new_device(100), pageable;
    CUcontext context = NULL, current;
    unsigned type = 0;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    unsigned char managed = 9;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                    CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *answers[] = {&context, &type, &start, &bytes, &managed};
    OK(cuPointerGetAttributes(5, wanted, answers, ADDRESS(device) + 50));
    OK(cuCtxGetCurrent(&current));
    CHECK(context == current && type == CU_MEMORYTYPE_DEVICE && start == ADDRESS(device));
    CHECK(bytes == 100 && managed == 0);
    OK(cuPointerGetAttributes(5, wanted, answers, ADDRESS(&pageable)));
    CHECK(!context && type == 0 && start == 0 && bytes == 0);
    void *memory;
    CHECK(cudaMallocManaged(&memory, 64, cudaMemAttachGlobal) == cudaErrorNotSupported);
}

CASE(many_attributes_at_once)
{
    expect_success(ask_many, "");
}

static void CUDART_CB write_two(void *memory)
{
    memset(memory, 2, 4096);
}

/* The simulator does not copy what both sides hold already, so it must know what has changed since. */
static void copy_again(void)
{
    enum { BYTES = 4096, LAST = BYTES - 1 };
    unsigned char *const device = new_device(BYTES), *const host = new_pinned(BYTES);
    unsigned char *const back = new_pinned(BYTES);
    cudaStream_t const stream = new_stream();
    memset(host, 1, BYTES);
    for (int i = 0; i < 3; i++) {
        OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream));
        OK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
    }
    OK(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(host[LAST] == 1 && back[LAST] == 1);
    OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaLaunchHostFunc(stream, write_two, host));
    OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(back[LAST] == 2);
    OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemsetAsync(device, 3, BYTES, stream));
    OK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(host[LAST] == 3);
    memset(host, 4, BYTES);
    OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(back[LAST] == 4);
}

CASE(the_same_copies_again)
{
    expect_under_seeds(copy_again);
}

int main(void)
{
    return run_cases("sim_copy");
}
