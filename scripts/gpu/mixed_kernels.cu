/* Kernels that read and write ranges of both kinds of memory, in the ways in which kernels do. */
#include "mixed_cases.cuh"

/* ---- kernels that read and write ---- */

__global__ static void read_all(const uint4 *from, size_t count, unsigned long long *total)
{
    unsigned long long mine = 0;
    EACH(i, count)
    {
        const uint4 v = from[i];
        mine += (unsigned long long)v.x + v.y + v.z + v.w;
    }
    add_up(mine, total);
}

__global__ static void write_all(uint4 *to, size_t count)
{
    EACH(i, count) to[i] = make_uint4((uint32_t)i, (uint32_t)i + 1, ~(uint32_t)i, 7);
}

__global__ static void copy_all(uint4 *to, const uint4 *from, size_t count)
{
    EACH(i, count) to[i] = from[i];
}

__global__ static void change_all(uint32_t *words, size_t count)
{
    EACH(i, count) words[i] = words[i] * 3 + 1;
}

__device__ __host__ static size_t somewhere(size_t i, size_t words)
{
    return (i * 0x9e3779b97f4a7c15ull >> 20) % words;
}

__global__ static void gather(const uint32_t *from, size_t words, size_t count,
                              unsigned long long *total)
{
    unsigned long long mine = 0;
    EACH(i, count) mine += from[somewhere(i, words)];
    add_up(mine, total);
}

/* No two write the same word: the factor is odd, and `words` a power of two. */
__global__ static void scatter(uint32_t *to, size_t words, size_t count)
{
    EACH(i, count) to[i * 0x9e3779b1u & (words - 1)] = (uint32_t)i;
}

/* Neighbouring threads read rows, so each word is a sector of its own. */
__global__ static void read_columns(const uint32_t *from, size_t rows, size_t row_words,
                                    size_t columns, unsigned long long *total)
{
    unsigned long long mine = 0;
    EACH(i, rows * columns) mine += from[i % rows * row_words + i / rows];
    add_up(mine, total);
}

/* As kernels of before TMA load their tiles. */
__global__ static void read_by_cp_async(const uint4 *from, size_t count, unsigned long long *total)
{
    __shared__ uint4 tile[512];
    unsigned long long mine = 0;
    const uint32_t place = (uint32_t)__cvta_generic_to_shared(&tile[threadIdx.x]);
    EACH(i, count)
    {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from + i)
                     : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        const uint4 v = tile[threadIdx.x];
        mine += (unsigned long long)v.x + v.y + v.z + v.w;
    }
    add_up(mine, total);
}

/* The same few MiB again and again: whether host memory stays in a cache of the device. */
__global__ static void read_again(const uint4 *from, size_t count, int rounds,
                                  unsigned long long *total)
{
    unsigned long long mine = 0;
    for (int round = 0; round < rounds; round++)
        EACH(i, count)
        {
            uint4 v;
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "l"(from + i));
            mine += (unsigned long long)v.x + v.y + v.z + v.w;
        }
    add_up(mine, total);
}

static outcome_t case_read(void)
{
    fill(MIXED_A, 0);
    const double ms = time_of([] {
        read_all<<<grid, block, 0, stream>>>((uint4 *)ends[MIXED_A], range_bytes / 16, sum);
    });
    return reads(range_bytes, sum_of(contents[0].data(), range_words), ms);
}

static outcome_t case_cp_async(void)
{
    fill(MIXED_A, 0);
    const double ms = time_of([] {
        read_by_cp_async<<<grid, block, 0, stream>>>((uint4 *)ends[MIXED_A], range_bytes / 16, sum);
    });
    return reads(range_bytes, sum_of(contents[0].data(), range_words), ms);
}

static outcome_t case_read_again(void)
{
    static const size_t bytes = (size_t)8 << 20; /* around the border */
    const int rounds = 16;
    fill(MIXED_A, 0);
    const size_t from = border - bytes / 2;
    const double ms = time_of([=] {
        read_again<<<grid, block, 0, stream>>>((uint4 *)(ends[MIXED_A] + from), bytes / 16, rounds,
                                               sum);
    });
    return reads((double)bytes * rounds, rounds * sum_of(contents[0].data() + from / 4, bytes / 4),
                 ms);
}

static outcome_t case_gather(void)
{
    static const size_t count = (size_t)4 << 20;
    uint64_t expected = 0;
    fill(MIXED_A, 0);
    for (size_t i = 0; i < count; i++)
        expected += contents[0][somewhere(i, range_words)];
    const double ms = time_of(
        [] { gather<<<grid, block, 0, stream>>>(words_of(MIXED_A), range_words, count, sum); });
    return reads(count * 4.0, expected, ms);
}

static outcome_t case_columns(void)
{
    static const size_t row_words = 4096, rows = range_words / row_words, columns = 128;
    uint64_t expected = 0;
    fill(MIXED_A, 0);
    for (size_t i = 0; i < rows; i++)
        expected += sum_of(contents[0].data() + i * row_words, columns);
    const double ms = time_of([] {
        read_columns<<<grid, block, 0, stream>>>(words_of(MIXED_A), rows, row_words, columns, sum);
    });
    return reads(rows * columns * 4.0, expected, ms);
}

static outcome_t case_write(void)
{
    std::vector<uint32_t> expected(range_words);
    for (size_t i = 0; i < range_words / 4; i++) {
        const uint32_t words[] = {(uint32_t)i, (uint32_t)i + 1, ~(uint32_t)i, 7};
        std::copy(words, words + 4, expected.begin() + 4 * i);
    }
    fill(MIXED_A, 1);
    const double ms = time_of(
        [] { write_all<<<grid, block, 0, stream>>>((uint4 *)ends[MIXED_A], range_bytes / 16); });
    return {holds(MIXED_A, expected.data()), ms, range_bytes, ""};
}

static outcome_t case_scatter(void)
{
    static const size_t count = (size_t)1 << 20;
    std::vector<uint32_t> expected = contents[1];
    for (size_t i = 0; i < count; i++)
        expected[i * 0x9e3779b1u & (range_words - 1)] = (uint32_t)i;
    fill(MIXED_A, 1);
    const double ms =
        time_of([] { scatter<<<grid, block, 0, stream>>>(words_of(MIXED_A), range_words, count); });
    return {holds(MIXED_A, expected.data()), ms, count * 4.0, ""};
}

static outcome_t case_change(void)
{
    std::vector<uint32_t> expected = contents[0];
    for (uint32_t &word : expected)
        for (int i = 0; i < turns + 1; i++)
            word = word * 3 + 1;
    fill(MIXED_A, 0);
    const double ms =
        time_of([] { change_all<<<grid, block, 0, stream>>>(words_of(MIXED_A), range_words); });
    return {holds(MIXED_A, expected.data()), ms, 2.0 * range_bytes, ""};
}

static outcome_t case_copy_by_kernel(void)
{
    fill(MIXED_A, 0);
    fill(MIXED_B, 1);
    const double ms = time_of([] {
        copy_all<<<grid, block, 0, stream>>>((uint4 *)ends[MIXED_B], (uint4 *)ends[MIXED_A],
                                             range_bytes / 16);
    });
    return {holds(MIXED_B, content(0)), ms, 2.0 * range_bytes, ""};
}

/* ---- words by which blocks wait for each other ---- */

static const uint32_t scan_blocks = 4096, patience = 1u << 22;

/* As one-pass scans do (decoupled look-back): each block waits for the word of the one before it. Their
 * words are apart, so that they lie on both sides of the border. */
__global__ static void chain(volatile uint32_t *words, size_t apart, uint32_t *ticket,
                             uint32_t *late)
{
    const uint32_t mine = atomicAdd(ticket, 1);
    uint32_t before = 0, tries = 0;
    while (mine > 0 && (before = words[(mine - 1) * apart]) == 0)
        if (++tries == patience) {
            atomicAdd(late, 1);
            return;
        }
    __threadfence();
    words[mine * apart] = before + (mine == 0) + 1;
}

static outcome_t case_chain(void)
{
    static const size_t apart = range_words / scan_blocks;
    uint32_t found[2] = {}, *const state =
                                (uint32_t *)(ends[MIXED_B] + border - 4); /* on the border */
    const std::vector<unsigned char> nothing(range_bytes);
    put(MIXED_A, 0, nothing.data(), range_bytes);
    put(MIXED_B, border - 4, nothing.data(), 4);
    put(MIXED_B, border, nothing.data(), 4);
    float ms = 0;
    must(cudaEventRecord(begin_event, stream), "cudaEventRecord");
    chain<<<scan_blocks, 1, 0, stream>>>(words_of(MIXED_A), apart, state, state + 1);
    must(cudaEventRecord(end_event, stream), "cudaEventRecord");
    must(cudaStreamSynchronize(stream), "the work");
    must(cudaEventElapsedTime(&ms, begin_event, end_event), "cudaEventElapsedTime");
    memcpy(found, get(MIXED_B, border - 4, 4), 4);
    memcpy(found + 1, get(MIXED_B, border, 4), 4);
    bool right = found[0] == scan_blocks && found[1] == 0;
    for (uint32_t i = 0; i < scan_blocks; i++) {
        uint32_t word;
        memcpy(&word, get(MIXED_A, i * apart * 4, 4), 4);
        right = right && word == i + 2;
    }
    return {right, ms, 0, std::to_string(found[1]) + " blocks waited in vain"};
}

/* ---- what the driver says of such addresses ---- */

static outcome_t case_attributes(void)
{
    std::string note;
    for (size_t at : {(size_t)0, border - 1, border, range_bytes - 1}) {
        unsigned type = 0;
        CUdeviceptr start = 0;
        size_t bytes = 0;
        const CUdeviceptr address = ranges[0].at + at;
        const CUresult typed =
            cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
        const CUresult found = cuMemGetAddressRange(&start, &bytes, address);
        cudaPointerAttributes attributes = {};
        const cudaError_t runtime = cudaPointerGetAttributes(&attributes, (void *)address);
        note +=
            (note.empty() ? "" : "; ") + std::to_string(at) + ": type " +
            (typed == CUDA_SUCCESS ? std::to_string(type) : mixed_error_name(typed)) +
            ", runtime's " +
            (runtime == cudaSuccess ? std::to_string(attributes.type) : cudaGetErrorName(runtime)) +
            " device " + std::to_string(attributes.device) + ", range " +
            (found == CUDA_SUCCESS
                 ? std::to_string((long long)(start - ranges[0].at)) + "+" + std::to_string(bytes)
                 : mixed_error_name(found));
    }
    (void)cudaGetLastError();
    return {true, 0, 0, note};
}

/* ---- the cases ---- */

const std::vector<named_case_t> kernel_cases = {
    {"attributes", case_attributes},
    {"kernel reads", case_read},
    {"kernel writes", case_write},
    {"kernel copies mixed to mixed", case_copy_by_kernel},
    {"kernel reads and writes in place", case_change},
    {"kernel gathers", case_gather},
    {"kernel scatters", case_scatter},
    {"kernel reads columns", case_columns},
    {"kernel reads by cp.async", case_cp_async},
    {"kernel reads 8 MiB again and again", case_read_again},
    {"blocks wait for each other's words", case_chain},
};
