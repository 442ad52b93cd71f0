/* What it costs to change what lies behind chunks of a range, and whether that waits for work: unmap, map
 * and set access, chunk by chunk or the whole at once, while the device is idle, and while a kernel works
 * on other chunks of the same reservation. Prints a JSON object a line. Knows nothing of the library. */
#include "mixed_memory.cuh"

#include <algorithm>
#include <cuda_runtime.h>
#include <time.h>
#include <vector>

static const size_t work_chunks = 64, most_chunks = 100; /* 128 MiB, 200 MiB */
static const int times = 12;

/* Reads and writes its words over and over, for so many clocks. */
__global__ void work(unsigned *words, size_t count, long long clocks)
{
    const long long begin = clock64();
    const size_t first = blockIdx.x * (size_t)blockDim.x + threadIdx.x,
                 all = (size_t)gridDim.x * blockDim.x;
    while (clock64() - begin < clocks)
        for (size_t i = first; i < count; i += all)
            words[i] += 1;
}

/* A fixed amount of it, whose time says whether the changes disturb it. */
__global__ void passes(unsigned *words, size_t count, int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
             i += (size_t)gridDim.x * blockDim.x)
            words[i] += 1;
}

__global__ void fill(unsigned *words, size_t count, unsigned value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = value;
}

__global__ void count_other(const unsigned *words, size_t count, unsigned value, unsigned *other)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        if (words[i] != value)
            atomicAdd(other, 1);
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static cudaStream_t stream, second;
static cudaEvent_t ended;
static CUdeviceptr at;       /* of all: first what the kernel works on, then what changes */
static CUdeviceptr changing; /* the latter */
static CUmemGenericAllocationHandle chunks[2][most_chunks]; /* [host] */
static CUdeviceptr aliases[2];
static unsigned *others;

static void cuda_check(cudaError_t error, const char *what)
{
    mixed_check((CUresult)error, what); /* the runtime's first numbers are the driver's */
}

static void map_chunks(bool host, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mixed_check(cuMemMap(changing + i * MIXED_CHUNK, MIXED_CHUNK, 0, chunks[host][i], 0),
                    "cuMemMap");
}

typedef struct costs {
    double unmap, map, access, longest;
} costs_t;

static double took(double *since)
{
    const double now = now_us(), spent = now - *since;
    *since = now;
    return spent;
}

/* One call for all chunks, where the driver has such. */
static costs_t change_at_once(bool host, size_t count)
{
    const size_t bytes = count * MIXED_CHUNK;
    costs_t costs = {};
    double since = now_us();
    mixed_check(cuMemUnmap(changing, bytes), "cuMemUnmap of several chunks");
    costs.unmap = took(&since);
    map_chunks(host, count);
    costs.map = took(&since);
    mixed_check(mixed_allow(changing, bytes), "cuMemSetAccess of several chunks");
    costs.access = took(&since);
    costs.longest = std::max(costs.unmap, costs.access);
    return costs;
}

/* As the library does today. */
static costs_t change_each(bool host, size_t count)
{
    costs_t costs = {};
    for (size_t i = 0; i < count; i++) {
        const CUdeviceptr chunk = changing + i * MIXED_CHUNK;
        double since = now_us(), spent;
        mixed_check(cuMemUnmap(chunk, MIXED_CHUNK), "cuMemUnmap");
        costs.unmap += spent = took(&since);
        costs.longest = std::max(costs.longest, spent);
        mixed_check(cuMemMap(chunk, MIXED_CHUNK, 0, chunks[host][i], 0), "cuMemMap");
        costs.map += spent = took(&since);
        costs.longest = std::max(costs.longest, spent);
        mixed_check(mixed_allow(chunk, MIXED_CHUNK), "cuMemSetAccess");
        costs.access += spent = took(&since);
        costs.longest = std::max(costs.longest, spent);
    }
    return costs;
}

typedef enum beside { IDLE, KERNEL, KERNEL_ON_HOST, COPIES, BESIDES } beside_t;
static const char *const beside_names[BESIDES] = {
    "nothing", "a kernel on other chunks", "a kernel on other chunks, host memory", "copies"};

static CUdeviceptr host_work; /* chunks of host memory in the same reservation */
static void *pinned;

static void begin_work(beside_t beside)
{
    const long long clocks = 60 * 1000 * 1000; /* 30 ms and more */
    if (beside == KERNEL)
        work<<<264, 512, 0, stream>>>((unsigned *)at, work_chunks * MIXED_CHUNK / 4, clocks);
    if (beside == KERNEL_ON_HOST)
        work<<<8, 512, 0, stream>>>((unsigned *)host_work, MIXED_CHUNK / 4, clocks);
    for (int i = 0; beside == COPIES && i < 16; i++)
        cuda_check(cudaMemcpyAsync((void *)at, pinned, work_chunks * MIXED_CHUNK, cudaMemcpyDefault,
                                   stream),
                   "a copy");
    cuda_check(cudaEventRecord(ended, stream), "cudaEventRecord");
    const double begun = now_us(); /* until it runs for certain */
    while (beside != IDLE && now_us() - begun < 1000) {
    }
}

/* What a kernel finds behind the addresses afterwards. */
static bool is_served(bool host, size_t count)
{
    const size_t words = count * MIXED_CHUNK / 4;
    unsigned found = 0;
    fill<<<132, 512, 0, second>>>((unsigned *)aliases[host], words, 0x1000u + host);
    cuda_check(cudaMemsetAsync(others, 0, 4, second), "cudaMemsetAsync");
    count_other<<<132, 512, 0, second>>>((const unsigned *)changing, words, 0x1000u + host, others);
    cuda_check(cudaMemcpyAsync(&found, others, 4, cudaMemcpyDeviceToHost, second),
               "cudaMemcpyAsync");
    cuda_check(cudaStreamSynchronize(second), "a kernel after a change");
    return found == 0;
}

static void measure(beside_t beside, size_t count, bool at_once)
{
    std::vector<double> unmap[2], map[2], access[2];
    double longest = 0;
    int running = 0, right = 0;
    for (int i = 0; i < times; i++) {
        const bool host = i % 2 == 0; /* it is device memory now, and in the end again */
        begin_work(beside);
        const costs_t costs = at_once ? change_at_once(host, count) : change_each(host, count);
        running += cudaEventQuery(ended) == cudaErrorNotReady;
        right += is_served(host, count); /* beside the work, if that runs on */
        cuda_check(cudaStreamSynchronize(stream), "work beside a change");
        unmap[host].push_back(costs.unmap);
        map[host].push_back(costs.map);
        access[host].push_back(costs.access);
        longest = std::max(longest, costs.longest);
    }
    for (int host = 0; host < 2; host++)
        printf(
            "{\"what\": \"backing\", \"beside\": \"%s\", \"mib\": %zu, \"at_once\": %s, \"to\": "
            "\"%s\", "
            "\"unmap_us\": %.1f, \"map_us\": %.1f, \"access_us\": %.1f, \"longest_call_us\": %.1f, "
            "\"still_running\": %d, \"right\": %d, \"of\": %d}\n",
            beside_names[beside], count * MIXED_CHUNK >> 20, at_once ? "true" : "false",
            host ? "host" : "device", median(unmap[host]), median(map[host]), median(access[host]),
            longest, running, right, times);
    fflush(stdout);
}

/* The time of a fixed amount of work, alone and beside a host that keeps changing other chunks. */
static void measure_disturbance(void)
{
    cudaEvent_t begin;
    float ms[2] = {0, 0};
    int changes = 0;
    cuda_check(cudaEventCreate(&begin), "cudaEventCreate");
    cudaEvent_t end;
    cuda_check(cudaEventCreate(&end), "cudaEventCreate");
    for (int changing_too = 0; changing_too < 2; changing_too++) {
        cuda_check(cudaEventRecord(begin, stream), "cudaEventRecord");
        passes<<<264, 512, 0, stream>>>((unsigned *)at, work_chunks * MIXED_CHUNK / 4, 600);
        cuda_check(cudaEventRecord(end, stream), "cudaEventRecord");
        while (changing_too && cudaEventQuery(end) == cudaErrorNotReady)
            (void)change_each(++changes % 2 == 1, 10);
        cuda_check(cudaStreamSynchronize(stream), "passes");
        cuda_check(cudaEventElapsedTime(&ms[changing_too], begin, end), "cudaEventElapsedTime");
    }
    if (changes % 2 == 1)
        (void)change_each(false, 10);
    printf("{\"what\": \"disturbance\", \"alone_ms\": %.2f, \"beside_changes_ms\": %.2f, "
           "\"changes\": %d}\n",
           ms[0], ms[1], changes);
    fflush(stdout);
}

/* Making and giving back handles, in microseconds for each. */
static void measure_handles(bool host, size_t bytes)
{
    std::vector<double> create, release;
    for (int i = 0; i < 8; i++) {
        double since = now_us();
        const CUmemGenericAllocationHandle handle = mixed_create(host, bytes);
        create.push_back(took(&since));
        mixed_check(cuMemRelease(handle), "cuMemRelease");
        release.push_back(took(&since));
    }
    printf("{\"what\": \"handles\", \"host\": %s, \"mib\": %zu, \"create_us\": %.1f, "
           "\"release_us\": %.1f}\n",
           host ? "true" : "false", bytes >> 20, median(create), median(release));
    fflush(stdout);
}

static void make_all(void)
{
    at = mixed_reserve((work_chunks + most_chunks + 1) * MIXED_CHUNK);
    changing = at + work_chunks * MIXED_CHUNK;
    host_work = changing + most_chunks * MIXED_CHUNK;
    for (size_t i = 0; i < work_chunks; i++)
        mixed_check(
            cuMemMap(at + i * MIXED_CHUNK, MIXED_CHUNK, 0, mixed_create(false, MIXED_CHUNK), 0),
            "cuMemMap");
    mixed_check(cuMemMap(host_work, MIXED_CHUNK, 0, mixed_create(true, MIXED_CHUNK), 0),
                "cuMemMap");
    for (int host = 0; host < 2; host++) {
        aliases[host] = mixed_reserve(most_chunks * MIXED_CHUNK);
        for (size_t i = 0; i < most_chunks; i++) {
            chunks[host][i] = mixed_create(host, MIXED_CHUNK);
            mixed_check(
                cuMemMap(aliases[host] + i * MIXED_CHUNK, MIXED_CHUNK, 0, chunks[host][i], 0),
                "cuMemMap");
        }
        mixed_check(mixed_allow(aliases[host], most_chunks * MIXED_CHUNK), "cuMemSetAccess");
    }
    map_chunks(false, most_chunks);
    printf("{\"what\": \"access\", \"device_and_host_chunks_in_one_call\": %s}\n",
           mixed_allow_all(at, work_chunks + most_chunks + 1) ? "true" : "false");
    cuda_check(cudaMalloc(&others, 4), "cudaMalloc");
    cuda_check(cudaMallocHost(&pinned, work_chunks * MIXED_CHUNK), "cudaMallocHost");
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    cuda_check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "cudaStreamCreate");
    cuda_check(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming), "cudaEventCreate");
}

int main(void)
{
    static const size_t counts[] = {1, 10, 100};
    mixed_check(cuInit(0), "cuInit");
    cuda_check(cudaFree(NULL), "cudaFree");
    make_all();
    fill<<<132, 512, 0, stream>>>((unsigned *)at, work_chunks * MIXED_CHUNK / 4, 0);
    cuda_check(cudaStreamSynchronize(stream), "fill");
    for (size_t count : counts)
        (void)is_served(false, count); /* the kernels are loaded */
    for (int beside = 0; beside < BESIDES; beside++)
        for (size_t count : counts)
            for (int at_once = 0; at_once < 2; at_once++)
                measure((beside_t)beside, count, at_once);
    measure_disturbance();
    for (int host = 0; host < 2; host++)
        for (size_t count : counts)
            measure_handles(host, count * MIXED_CHUNK);
    return 0;
}
