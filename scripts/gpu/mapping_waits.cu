// How long the driver takes to give access to a mapping while copies are under way: one direction at a time or both, by
// the copy engines or by a kernel in one of the directions. A plain CUDA program: it knows nothing of microdnn.
//
//     mapping_waits        prints a line per case: what copies in, what copies out, GB/s in and out, and for chunks
//                          whose mappings change one by one, by 4 and by 16 with one call of cuMemSetAccess or
//                          cuMemUnmap: microseconds of a chunk's cuMemMap and cuMemSetAccess, and of its cuMemUnmap
//                          (medians of at least 6)
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda.h>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const int result = (int)(call);                                                                                \
        if (result != 0) {                                                                                             \
            std::fprintf(stderr, "%s: error %d\n", #call, result);                                                     \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

enum way { NONE, ENGINE, KERNEL };
static const char *const names[] = {"-", "engine", "kernel"};
static const size_t piece = 8 << 20, pieces = 4;
static const int chunks = 32, rounds = 3, blocks = 4;
static const size_t groups[] = {1, 4, 16};

static CUcontext context;
static CUdevice device;
static char *host;
static CUdeviceptr memory[2];
static std::atomic<bool> stop;
static std::atomic<long> moved[2];

__global__ void copy(uint4 *to, const uint4 *from, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        const uint4 a = __ldcs(from + i), b = __ldcs(from + i + step);
        const uint4 c = __ldcs(from + i + 2 * step), d = __ldcs(from + i + 3 * step);
        __stcs(to + i, a);
        __stcs(to + i + step, b);
        __stcs(to + i + 2 * step, c);
        __stcs(to + i + 3 * step, d);
    }
}

static void enqueue(bool out, way how, size_t index, CUstream stream)
{
    const CUdeviceptr own = memory[out] + index % pieces * piece;
    char *const other = host + ((out ? pieces : 0) + index % pieces) * piece;
    if (how == KERNEL)
        copy<<<blocks, 512, 0, stream>>>(out ? (uint4 *)other : (uint4 *)own, out ? (const uint4 *)own : (const uint4 *)other,
                                         piece / 16);
    else if (out)
        CHECK(cuMemcpyDtoHAsync(other, own, piece, stream));
    else
        CHECK(cuMemcpyHtoDAsync(own, other, piece, stream));
}

static void keep_busy(bool out, way how, CUstream stream)
{
    CHECK(cuCtxSetCurrent(context));
    while (!stop) {
        for (size_t i = 0; i < 8; i++)
            enqueue(out, how, i, stream);
        CHECK(cuStreamSynchronize(stream));
        moved[out] += (long)(8 * piece);
    }
}

static double now_us()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pause_ms(long ms)
{
    const timespec time = {0, ms * 1000000};
    nanosleep(&time, nullptr);
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Chunks by groups of `group`: microseconds of one chunk.
static void change(CUdeviceptr at, const std::vector<CUmemGenericAllocationHandle> &handles, size_t group,
                   std::vector<double> &map, std::vector<double> &unmap)
{
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (size_t i = 0; i < handles.size(); i += group) {
        const double begin = now_us();
        for (size_t each = i; each < i + group; each++)
            CHECK(cuMemMap(at + each * piece, piece, 0, handles[each], 0));
        CHECK(cuMemSetAccess(at + i * piece, group * piece, &access, 1));
        map.push_back((now_us() - begin) / (double)group);
    }
    for (size_t i = 0; i < handles.size(); i += group) {
        const double begin = now_us();
        CHECK(cuMemUnmap(at + i * piece, group * piece));
        unmap.push_back((now_us() - begin) / (double)group);
    }
}

static void measure(CUdeviceptr at, const std::vector<CUmemGenericAllocationHandle> &handles, size_t group)
{
    std::vector<double> map, unmap;
    for (int round = 0; round < rounds; round++)
        change(at, handles, group, map, unmap);
    std::printf(" %.1f %.1f", median(map), median(unmap));
}

static void run(way in, way out, CUstream const streams[2], CUdeviceptr at,
                const std::vector<CUmemGenericAllocationHandle> &handles)
{
    std::vector<std::thread> threads;
    const way ways[] = {in, out};
    stop = false;
    for (int each = 0; each < 2; each++)
        if (ways[each] != NONE)
            threads.emplace_back(keep_busy, each == 1, ways[each], streams[each]);
    pause_ms(30);
    moved[0] = moved[1] = 0;
    const double begin = now_us();
    pause_ms(50);
    const double us = now_us() - begin, rates[] = {(double)moved[0] / us / 1e3, (double)moved[1] / us / 1e3};
    std::printf("%s %s %.1f %.1f", names[in], names[out], rates[0], rates[1]);
    for (const size_t group : groups)
        measure(at, handles, group);
    std::printf("\n");
    stop = true;
    for (auto &each : threads)
        each.join();
}

int main()
{
    CUmemAllocationProp properties = {};
    std::vector<CUmemGenericAllocationHandle> handles(chunks);
    CUdeviceptr at;
    CUstream streams[2];
    int least, greatest;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAllocHost((void **)&host, 2 * pieces * piece));
    for (CUdeviceptr &each : memory)
        CHECK(cuMemAlloc(&each, pieces * piece));
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    for (CUstream &each : streams)
        CHECK(cuStreamCreateWithPriority(&each, CU_STREAM_NON_BLOCKING, greatest));
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    CHECK(cuMemAddressReserve(&at, chunks * piece, 0, 0, 0));
    for (auto &each : handles)
        CHECK(cuMemCreate(&each, piece, &properties, 0));
    for (const way in : {NONE, ENGINE, KERNEL})
        for (const way out : {NONE, ENGINE, KERNEL})
            run(in, out, streams, at, handles);
    return 0;
}
