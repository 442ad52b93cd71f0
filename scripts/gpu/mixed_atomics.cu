/* Each atomic operation on words of both kinds of memory. */
#include "mixed_cases.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* ---- atomic operations ---- */

/* Each gives what a thread does and what the word is after one such operation, in any order. */
template <typename T> struct Add {
    typedef T type;
    static T start()
    {
        return (T)0;
    }
    __host__ __device__ static T value(uint32_t number)
    {
        return (T)(number % 2 + 1);
    }
    static T fold(T word, T value)
    {
        return (T)(word + value);
    }
    __device__ static void apply(T *word, T value)
    {
        atomicAdd(word, value);
    }
};
template <typename T> struct AddAndUse : Add<T> {
    __device__ static void apply(T *word, T value)
    {
        if (atomicAdd(word, value) ==
            (T)12345678) /* never: the result is wanted, so it is no reduction */
            *word = (T)0;
    }
};
template <typename T> struct AddOfSystem : Add<T> {
    __device__ static void apply(T *word, T value)
    {
        atomicAdd_system(word, value);
    }
};
/* Of numbers that stay exact: at most 2 in each of the operations on a word. */
template <typename T> struct AddHalf {
    typedef T type;
    static T start()
    {
        return T(0.0f);
    }
    __host__ __device__ static T value(uint32_t)
    {
        return T(1.0f);
    }
    static T fold(T word, T value)
    {
        return T((float)word + (float)value);
    }
    __device__ static void apply(T *word, T value)
    {
        atomicAdd(word, value);
    }
};
template <typename V, typename T> struct AddPair {
    typedef V type;
    static V of(float x, float y)
    {
        V v;
        v.x = T(x), v.y = T(y);
        return v;
    }
    static V start()
    {
        return of(0, 0);
    }
    __host__ __device__ static V value(uint32_t)
    {
        V v;
        v.x = T(1.0f), v.y = T(0.5f);
        return v;
    }
    static V fold(V word, V value)
    {
        return of((float)word.x + (float)value.x, (float)word.y + (float)value.y);
    }
    __device__ static void apply(V *word, V value)
    {
        atomicAdd(word, value);
    }
};
struct AddFloat4 {
    typedef float4 type;
    static float4 start()
    {
        return make_float4(0, 0, 0, 0);
    }
    __host__ __device__ static float4 value(uint32_t)
    {
        return make_float4(1, 2, 3, 4);
    }
    static float4 fold(float4 a, float4 b)
    {
        return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    __device__ static void apply(float4 *word, float4 value)
    {
        atomicAdd(word, value);
    }
};
struct ReduceFloat4 : AddFloat4 { /* the instruction, which gives nothing back */
    __device__ static void apply(float4 *word, float4 value)
    {
        asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(word),
                     "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
                     : "memory");
    }
};
#define SIMPLE(Name, Type, Start, Value, Fold, Apply)                                              \
    struct Name {                                                                                  \
        typedef Type type;                                                                         \
        static type start()                                                                        \
        {                                                                                          \
            return (type)(Start);                                                                  \
        }                                                                                          \
        __host__ __device__ static type value(uint32_t number)                                     \
        {                                                                                          \
            return (type)(Value);                                                                  \
        }                                                                                          \
        static type fold(type word, type value)                                                    \
        {                                                                                          \
            return (type)(Fold);                                                                   \
        }                                                                                          \
        __device__ static void apply(type *word, type value)                                       \
        {                                                                                          \
            Apply;                                                                                 \
        }                                                                                          \
    }

SIMPLE(Sub32, uint32_t, 1000000, number % 3, word - value, atomicSub(word, value));
SIMPLE(Min32, int, 1 << 30, (int)(number * 7919u % 100000u) - 50000, std::min(word, value),
       atomicMin(word, value));
SIMPLE(Max32, int, -(1 << 30), (int)(number * 7919u % 100000u) - 50000, std::max(word, value),
       atomicMax(word, value));
SIMPLE(MinU32, uint32_t, ~0u, number * 7919u, std::min(word, value), atomicMin(word, value));
SIMPLE(MaxU32, uint32_t, 0, number * 7919u, std::max(word, value), atomicMax(word, value));
SIMPLE(Min64, long long, 1ll << 60, (long long)(number * 7919ull) * -99991, std::min(word, value),
       atomicMin(word, value));
SIMPLE(MaxU64, u64, 0, number * 7919ull * 99991ull, std::max(word, value), atomicMax(word, value));
SIMPLE(And32, uint32_t, ~0u, ~(1u << number % 32), word &value, atomicAnd(word, value));
SIMPLE(Or32, uint32_t, 0, 1u << number % 32, word | value, atomicOr(word, value));
SIMPLE(Xor32, uint32_t, 0, number * 2654435761u, word ^ value, atomicXor(word, value));
SIMPLE(And64, u64, ~0ull, ~(1ull << number % 64), word &value, atomicAnd(word, value));
SIMPLE(Or64, u64, 0, 1ull << number % 64, word | value, atomicOr(word, value));
SIMPLE(Inc32, uint32_t, 0, 16, word >= value ? 0 : word + 1, atomicInc(word, value));
SIMPLE(Dec32, uint32_t, 0, 16, word == 0 || word > value ? value : word - 1,
       atomicDec(word, value));

/* By compare and swap, until it succeeds. */
template <typename T, typename Bits> struct AddByCas : Add<T> {
    __device__ static void apply(T *word, T value)
    {
        Bits *const bits = (Bits *)word;
        Bits seen = *(volatile Bits *)bits, before;
        do {
            before = seen;
            T sum;
            memcpy(&sum, &before, sizeof sum);
            sum += value;
            Bits wanted;
            memcpy(&wanted, &sum, sizeof wanted);
            seen = atomicCAS(bits, before, wanted);
        } while (seen != before);
    }
};
struct alignas(16) u128 {
    u64 low, high;
    bool operator==(const u128 &other) const
    {
        return low == other.low && high == other.high;
    }
};
struct AddByCas128 {
    typedef u128 type;
    static u128 start()
    {
        return {0, 0};
    }
    __host__ __device__ static u128 value(uint32_t number)
    {
        return {number % 5, 1};
    }
    static u128 fold(u128 word, u128 value)
    {
        return {word.low + value.low, word.high + value.high};
    }
    __device__ static void apply(u128 *word, u128 value)
    {
        u128 seen = {0, 0}, before;
        do {
            before = seen;
            seen = atomicCAS(word, before, u128{before.low + value.low, before.high + value.high});
        } while (seen.low != before.low || seen.high != before.high);
    }
};

/* Thread i does operation number i / words of word i % words. */
template <typename Op>
__global__ static void operate(typename Op::type *first, size_t words, size_t apart,
                               size_t operations)
{
    EACH(i, words * operations)
    Op::apply(first + i % words * apart, Op::value((uint32_t)(i / words)));
}

/* Words around the border, or apart all over the range. */
template <typename Op>
static bool atomic_at(size_t from, size_t words, size_t apart, uint32_t operations, double *ms)
{
    typedef typename Op::type type;
    float spent = 0;
    std::vector<unsigned char> image(words * apart * sizeof(type));
    type expected = Op::start();
    for (uint32_t i = 0; i < operations; i++)
        expected = Op::fold(expected, Op::value(i));
    for (size_t i = 0; i < words; i++) {
        const type start = Op::start();
        memcpy(image.data() + i * apart * sizeof start, &start, sizeof start);
    }
    put(MIXED_A, from, image.data(), image.size());
    must(cudaEventRecord(begin_event, stream), "cudaEventRecord");
    operate<Op>
        <<<grid, block, 0, stream>>>((type *)(ends[MIXED_A] + from), words, apart, operations);
    must(cudaGetLastError(), "a launch");
    must(cudaEventRecord(end_event, stream), "cudaEventRecord");
    must(cudaStreamSynchronize(stream), "the work");
    must(cudaEventElapsedTime(&spent, begin_event, end_event), "cudaEventElapsedTime");
    *ms = spent;
    const unsigned char *const found = get(MIXED_A, from, image.size());
    for (size_t i = 0; i < words; i++)
        if (memcmp(found + i * apart * sizeof expected, &expected, sizeof expected) != 0)
            return false;
    return true;
}

template <typename Op> static outcome_t case_atomic(void)
{
    static const size_t width = sizeof(typename Op::type), words = 1024, spread = (size_t)1 << 18;
    double near_ms, spread_ms;
    const bool near = atomic_at<Op>(border - words / 2 * width, words, 1, 200, &near_ms);
    const bool far = atomic_at<Op>(0, spread, range_bytes / width / spread, 8, &spread_ms);
    return {near && far, spread_ms, 0,
            "200 on each of 1024 words " + std::to_string(near_ms) + " ms" +
                (near ? "" : " WRONG")};
}

/* What goes in comes out, once each. */
template <typename T> __device__ static u64 count_of(T value)
{
    return (u64)value;
}
template <> __device__ u64 count_of(u128 value)
{
    return value.low + value.high;
}
template <typename T> __device__ static T one_of(size_t i)
{
    return (T)(i % 1000 + 1);
}
template <> __device__ u128 one_of(size_t i)
{
    return {i % 1000 + 1, i % 1000 + 1};
}

template <typename T>
__global__ static void exchange(T *first, size_t words, size_t count, u64 *taken)
{
    u64 mine = 0;
    EACH(i, count) mine += count_of(atomicExch(first + i % words, one_of<T>(i)));
    add_up(mine, taken);
}

template <typename T> static outcome_t case_exchange(void)
{
    static const size_t words = 1024, count = 264 * 512 * 4,
                        parts = sizeof(T) / 8 ? sizeof(T) / 8 : 1;
    const size_t from = border - words / 2 * sizeof(T);
    const std::vector<unsigned char> nothing(words * sizeof(T));
    uint64_t expected = 0, left = 0;
    for (size_t i = 0; i < count; i++)
        expected += parts * (i % 1000 + 1);
    put(MIXED_A, from, nothing.data(), nothing.size());
    float ms = 0;
    must(cudaEventRecord(begin_event, stream), "cudaEventRecord");
    exchange<T><<<264, block, 0, stream>>>((T *)(ends[MIXED_A] + from), words, count, sum);
    must(cudaEventRecord(end_event, stream), "cudaEventRecord");
    const uint64_t taken = sum_on_device();
    must(cudaEventElapsedTime(&ms, begin_event, end_event), "cudaEventElapsedTime");
    const unsigned char *const found = get(MIXED_A, from, nothing.size());
    for (size_t i = 0; i < nothing.size(); i += std::min(sizeof(T), (size_t)8)) {
        uint64_t word = 0;
        memcpy(&word, found + i, std::min(sizeof(T), (size_t)8));
        left += word;
    }
    return {taken + left == expected, ms, 0, ""};
}

/* Numbers that a counter gives out: each once. */
__global__ static void count_up(uint32_t *counter, size_t count, u64 *total)
{
    u64 mine = 0;
    EACH(i, count) mine += atomicAdd(counter, 1);
    add_up(mine, total);
}

static outcome_t case_counter(void)
{
    static const size_t count = 132 * 512;
    bool right = true;
    for (size_t at : {border - 4, border}) {
        const uint32_t nothing = 0;
        uint32_t found;
        put(MIXED_A, at, &nothing, 4);
        count_up<<<132, block, 0, stream>>>((uint32_t *)(ends[MIXED_A] + at), count, sum);
        right = sum_on_device() == count * (count - 1) / 2 && right;
        memcpy(&found, get(MIXED_A, at, 4), 4);
        right = right && found == count;
    }
    return {right, 0, 0, ""};
}

/* ---- the cases ---- */

const std::vector<named_case_t> atomic_cases = {
    {"counter gives each number once", case_counter},
    {"atomic add s32", case_atomic<Add<int>>},
    {"atomic add u32, result used", case_atomic<AddAndUse<uint32_t>>},
    {"atomic add u32 of the system", case_atomic<AddOfSystem<uint32_t>>},
    {"atomic add u64", case_atomic<Add<u64>>},
    {"atomic add f32", case_atomic<Add<float>>},
    {"atomic add f32, result used", case_atomic<AddAndUse<float>>},
    {"atomic add f32 of the system", case_atomic<AddOfSystem<float>>},
    {"atomic add f64", case_atomic<Add<double>>},
    {"atomic add f16", case_atomic<AddHalf<__half>>},
    {"atomic add bf16", case_atomic<AddHalf<__nv_bfloat16>>},
    {"atomic add f16x2", case_atomic<AddPair<__half2, __half>>},
    {"atomic add bf16x2", case_atomic<AddPair<__nv_bfloat162, __nv_bfloat16>>},
    {"atomic add f32x2", case_atomic<AddPair<float2, float>>},
    {"atomic add f32x4", case_atomic<AddFloat4>},
    {"red add v4.f32", case_atomic<ReduceFloat4>},
    {"atomic sub 32", case_atomic<Sub32>},
    {"atomic min s32", case_atomic<Min32>},
    {"atomic max s32", case_atomic<Max32>},
    {"atomic min u32", case_atomic<MinU32>},
    {"atomic max u32", case_atomic<MaxU32>},
    {"atomic min s64", case_atomic<Min64>},
    {"atomic max u64", case_atomic<MaxU64>},
    {"atomic and 32", case_atomic<And32>},
    {"atomic or 32", case_atomic<Or32>},
    {"atomic xor 32", case_atomic<Xor32>},
    {"atomic and 64", case_atomic<And64>},
    {"atomic or 64", case_atomic<Or64>},
    {"atomic inc 32", case_atomic<Inc32>},
    {"atomic dec 32", case_atomic<Dec32>},
    {"atomic cas 16", case_atomic<AddByCas<uint16_t, unsigned short>>},
    {"atomic cas 32", case_atomic<AddByCas<float, unsigned>>},
    {"atomic cas 64", case_atomic<AddByCas<double, u64>>},
    {"atomic cas 128", case_atomic<AddByCas128>},
    {"atomic exch 32", case_exchange<uint32_t>},
    {"atomic exch 64", case_exchange<u64>},
    {"atomic exch 128", case_exchange<u128>},
};
