/* What the files of mixed_border share: the places that cases work on, and what a case answers. */
#ifndef MIXED_CASES_CUH
#define MIXED_CASES_CUH

#include "mixed_memory.cuh"

#include <algorithm>
#include <cuda_runtime.h>
#include <functional>
#include <stdint.h>
#include <string>
#include <vector>

static const size_t range_chunks = 32; /* 64 MiB */
static const size_t range_bytes = range_chunks * MIXED_CHUNK, range_words = range_bytes / 4;
static const size_t border = range_bytes / 2; /* in each layout but those of one kind */
static const int grid = 528, block = 512, turns = 3;

#define EACH(i, count)                                                                             \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (count);                    \
         i += (size_t)gridDim.x * blockDim.x)

/* ---- what cases work on ---- */

typedef unsigned long long u64; /* what atomic operations take */

/* Ends of copies. */
typedef enum end { PLAIN, MIXED_A, MIXED_B, PINNED, PAGEABLE, ENDS } end_t;

extern mixed_range_t ranges[2];   /* MIXED_A, MIXED_B */
extern unsigned char *ends[ENDS]; /* range_bytes each */
extern std::vector<uint32_t>
    contents[2]; /* that are compared; the second is what was there before */
extern std::vector<unsigned char> scratch; /* range_bytes */
extern unsigned long long *sum;            /* on the device */
extern cudaStream_t stream;
extern cudaEvent_t begin_event, end_event;

/* The error of a case; what follows it in the process may be worthless then. */
struct failure {
    std::string text;
};

static inline void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        throw failure{std::string(what) + ": " + cudaGetErrorName(error)};
}

static inline void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        throw failure{std::string(what) + ": " + mixed_error_name(result)};
}

static inline bool is_host_end(end_t end)
{
    return end == PINNED || end == PAGEABLE;
}

/* Chunks of a mixed range are written and read one at a time, through their aliases. */
static inline void move(end_t end, size_t offset, void *host, size_t bytes, bool to_host)
{
    if (is_host_end(end)) {
        to_host ? memcpy(host, ends[end] + offset, bytes) : memcpy(ends[end] + offset, host, bytes);
        return;
    }
    while (bytes > 0) {
        const size_t now = std::min(bytes, MIXED_CHUNK - offset % MIXED_CHUNK);
        const CUdeviceptr there =
            end == PLAIN ? (CUdeviceptr)ends[PLAIN] : ranges[end - MIXED_A].alias;
        must(to_host ? cuMemcpyDtoH(host, there + offset, now)
                     : cuMemcpyHtoD(there + offset, host, now),
             "a copy by an alias");
        offset += now, bytes -= now, host = (char *)host + now;
    }
}

static inline void put(end_t end, size_t offset, const void *from, size_t bytes)
{
    move(end, offset, const_cast<void *>(from), bytes, false);
}

static inline const unsigned char *get(end_t end, size_t offset, size_t bytes)
{
    move(end, offset, scratch.data() + offset, bytes, true);
    return scratch.data() + offset;
}

static inline const unsigned char *content(int which)
{
    return (const unsigned char *)contents[which].data();
}

static inline void fill(end_t end, int which)
{
    put(end, 0, content(which), range_bytes);
}

static inline bool holds(end_t end, const void *expected)
{
    return memcmp(get(end, 0, range_bytes), expected, range_bytes) == 0;
}

/* ---- rows ---- */

typedef struct outcome {
    bool right;
    double ms, bytes; /* 0: not measured */
    std::string note;
} outcome_t;

template <typename F> static double time_of(F launch)
{
    float ms = 0;
    launch();
    must(cudaGetLastError(), "a launch");
    must(cudaEventRecord(begin_event, stream), "cudaEventRecord");
    for (int i = 0; i < turns; i++)
        launch();
    must(cudaEventRecord(end_event, stream), "cudaEventRecord");
    must(cudaStreamSynchronize(stream), "the work");
    must(cudaEventElapsedTime(&ms, begin_event, end_event), "cudaEventElapsedTime");
    return ms / turns;
}

static inline uint64_t sum_on_device(void)
{
    uint64_t value = 0;
    must(cudaMemcpyAsync(&value, sum, 8, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    must(cudaStreamSynchronize(stream), "the work");
    must(cudaMemsetAsync(sum, 0, 8, stream), "cudaMemsetAsync");
    return value;
}

static inline uint64_t sum_of(const uint32_t *words, size_t count)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += words[i];
    return total;
}

__device__ static inline void add_up(unsigned long long mine, unsigned long long *total)
{
    for (int step = 16; step > 0; step /= 2)
        mine += __shfl_xor_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(total, mine);
}

/* Whether each of the launches of time_of has added that much. */
static inline outcome_t reads(double bytes, uint64_t expected, double ms)
{
    return {sum_on_device() == expected * (turns + 1), ms, bytes, ""};
}

static inline uint32_t *words_of(end_t end)
{
    return (uint32_t *)ends[end];
}

/* ---- the cases ---- */

typedef struct named_case {
    std::string name;
    std::function<outcome_t(void)> run;
} named_case_t;

extern const std::vector<named_case_t> kernel_cases, atomic_cases, bulk_cases, copy_cases;

#endif
