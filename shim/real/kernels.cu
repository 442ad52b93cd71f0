// Our own kernels: one that sums bf16 weight gradients of micro-batches in fp32, one that copies, one that waits, and four for
// what a launch makes again: they compare, fill and hash contents.
//
// Gradients: cuDNN has no fp32 output for 16-bit convolutions, and beta 1 would round the running sum to 16 bits
// after every part. So each part writes its gradient, scaled with the caller's alpha, to scratch, this kernel adds
// it to an fp32 accumulator, and with the last part rounds the sum and what beta keeps once.
//
// The PTX beside this file is what the library carries; `make ptx` makes it anew, `make check-ptx`
// compares. test/sim/accumulate.c, copy_kernel.c, hold.c and compare.c do the same for the simulated GPU.

enum { FIRST, ADD, FINISH };

static __device__ float widen(unsigned short bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

static __device__ unsigned short narrow(float value)
{
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (unsigned short)(bits >> 16 | 0x40u); // NaN stays NaN
    return (unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16); // to nearest even
}

static __device__ void accumulate_one(float *sum, unsigned short part, unsigned short *out, int mode, float beta)
{
    const float value = widen(part);
    if (mode == FIRST)
        *sum = value;
    else if (mode == ADD)
        *sum += value;
    else
        // beta 0 must not read what may be NaN
        *out = narrow(*sum + value + (beta == 0.0f ? 0.0f : beta * widen(*out)));
}

// sums: n floats, parts: n values, both 16-byte aligned; out: n values, any alignment.
extern "C" __global__ void mdnn_accumulate_bfloat16(float *sums, const unsigned short *parts, unsigned short *out,
                                                    unsigned long long n, int mode, float beta)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long self = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool aligned = ((unsigned long long)out & 7) == 0;
    const unsigned long long quads = aligned ? n / 4 : 0;
    for (unsigned long long i = self; i < quads; i += step) {
        float4 sum = mode == FIRST ? float4() : ((const float4 *)sums)[i];
        const ushort4 part = ((const ushort4 *)parts)[i];
        ushort4 result = mode == FINISH && beta != 0.0f ? ((const ushort4 *)out)[i] : ushort4();
        accumulate_one(&sum.x, part.x, &result.x, mode, beta);
        accumulate_one(&sum.y, part.y, &result.y, mode, beta);
        accumulate_one(&sum.z, part.z, &result.z, mode, beta);
        accumulate_one(&sum.w, part.w, &result.w, mode, beta);
        if (mode == FINISH)
            ((ushort4 *)out)[i] = result;
        else
            ((float4 *)sums)[i] = sum;
    }
    for (unsigned long long i = quads * 4 + self; i < n; i += step)
        accumulate_one(&sums[i], parts[i], &out[i], mode, beta);
}

// Copies `count` times 16 bytes, both aligned to as many. Four loads of each thread are under way at once, so a few blocks
// keep the link to the host busy. What is read or written on the host passes the caches by.
extern "C" __global__ void mdnn_copy(uint4 *to, const uint4 *from, unsigned long long count)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        const uint4 a = __ldcs(from + i), b = __ldcs(from + i + step);
        const uint4 c = __ldcs(from + i + 2 * step), d = __ldcs(from + i + 3 * step);
        __stcs(to + i, a);
        __stcs(to + i + step, b);
        __stcs(to + i + 2 * step, c);
        __stcs(to + i + 3 * step, d);
    }
    for (; i < count; i += step)
        __stcs(to + i, __ldcs(from + i));
}

static __device__ unsigned long long now_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

// One thread: keeps a stream from going on for `ns`, while the host enqueues what is to be timed. A turn takes
// up to a microsecond, and their number is bounded should the timer stand still.
extern "C" __global__ void mdnn_hold(unsigned long long ns)
{
    const unsigned long long begin = now_ns();
#pragma unroll 1
    for (int turns = 0; turns < 1000000 && now_ns() - begin < ns; turns++)
        __nanosleep(500);
}

static __device__ unsigned long long word_of(const unsigned char *bytes, unsigned count)
{
    unsigned long long word = 0;
    for (unsigned i = 0; i < count; i++)
        word |= (unsigned long long)bytes[i] << 8 * i;
    return word;
}

// Whether each byte is the same in both or the complement, and some are: a write left a part of what was the complement.
static __device__ bool is_mixed(unsigned long long a, unsigned long long b)
{
    const unsigned long long differ = a ^ b;
    return differ != 0 && (differ & 0x0101010101010101ull) * 0xFF == differ;
}

// counts[0] += words that differ, counts[1] += those of them that are mixed. The bytes behind the last whole word are one
// word more.
extern "C" __global__ void mdnn_compare(const unsigned long long *now, const unsigned long long *then,
                                        unsigned long long bytes, unsigned long long *counts)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long self = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long differ = 0, mixed = 0;
    for (unsigned long long i = self; i < bytes / 8; i += step) {
        const unsigned long long a = now[i], b = then[i];
        differ += a != b;
        mixed += is_mixed(a, b);
    }
    if (self == 0 && bytes % 8 != 0) {
        const unsigned rest = (unsigned)(bytes % 8);
        const unsigned long long a = word_of((const unsigned char *)(now + bytes / 8), rest);
        const unsigned long long b = word_of((const unsigned char *)(then + bytes / 8), rest);
        differ += a != b;
        mixed += is_mixed(a, b);
    }
    if (differ > 0)
        atomicAdd(&counts[0], differ);
    if (mixed > 0)
        atomicAdd(&counts[1], mixed);
}

static __device__ unsigned long long mix(unsigned long long value, unsigned long long first, unsigned long long second)
{
    value = (value ^ value >> 32) * first;
    value = (value ^ value >> 29) * second;
    return value ^ value >> 32;
}

// What no byte of `from` is: with `salt` 0 the complement; else bytes at random, or the complement of those that would be
// the same. The bytes behind the last whole word are one word more.
static __device__ unsigned long long poison_for(unsigned long long from, unsigned long long place, unsigned long long salt)
{
    if (salt == 0)
        return ~from;
    const unsigned long long low = 0x7F7F7F7F7F7F7F7Full;
    const unsigned long long word = mix((place + salt) * 0x9E3779B97F4A7C15ull, 0xBF58476D1CE4E5B9ull, 0x94D049BB133111EBull);
    const unsigned long long differ = word ^ from;
    const unsigned long long same = ~(((differ & low) + low) | differ) & ~low;
    return word ^ (same >> 7) * 0xFF;
}

extern "C" __global__ void mdnn_poison(unsigned long long *to, const unsigned long long *from, unsigned long long bytes,
                                       unsigned long long salt)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long self = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long i = self; i < bytes / 8; i += step)
        to[i] = poison_for(from[i], i, salt);
    if (self == 0 && bytes % 8 != 0) {
        unsigned char *const rest = (unsigned char *)(to + bytes / 8);
        const unsigned long long word =
            poison_for(word_of((const unsigned char *)(from + bytes / 8), bytes % 8), bytes / 8, salt);
        for (unsigned i = 0; i < bytes % 8; i++)
            rest[i] = (unsigned char)(word >> 8 * i);
    }
}

// Each word is mixed with its place, twice and differently, and the results are added up, so it does not matter in which
// order threads add.
static __device__ void add_word(unsigned long long word, unsigned long long place, unsigned long long sums[2])
{
    const unsigned long long at = (place + 1) * 0x9E3779B97F4A7C15ull;
    sums[0] += mix(word + at, 0xFF51AFD7ED558CCDull, 0xC4CEB9FE1A85EC53ull);
    sums[1] += mix(word ^ (at << 31 | at >> 33), 0xBF58476D1CE4E5B9ull, 0x94D049BB133111EBull);
}

// Adds two words of 64 bits to hash[0] and hash[1], which begin with 0. The bytes behind the last whole word are one word
// more.
extern "C" __global__ void mdnn_hash(const unsigned long long *words, unsigned long long bytes,
                                     unsigned long long *hash)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long self = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long sums[2] = {0, 0};
    for (unsigned long long i = self; i < bytes / 8; i += step)
        add_word(words[i], i, sums);
    if (self == 0) {
        const unsigned rest = (unsigned)(bytes % 8);
        add_word(word_of((const unsigned char *)(words + bytes / 8), rest), bytes, sums);
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        sums[0] += __shfl_down_sync(0xFFFFFFFFu, sums[0], lane);
        sums[1] += __shfl_down_sync(0xFFFFFFFFu, sums[1], lane);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&hash[0], sums[0]);
        atomicAdd(&hash[1], sums[1]);
    }
}

// One thread: ends the context with an error unless both hashes are the same, since what was dropped is lost then.
extern "C" __global__ void mdnn_demand_equal(const unsigned long long *now, const unsigned long long *then)
{
    if (now[0] != then[0] || now[1] != then[1])
        __trap();
}
