/* Lossless packing of what a network keeps for its backward pass, for scripts/gpu/packing-look: three codecs for
 * floats (fp32 and bf16) and one for int64 indices.
 *
 * A block packs a tile of 16 KiB into a record of its own and reserves room for it with one atomic addition, so that
 * the data is read once. The records lie in any order; the directory says where each tile's begins, in quads of 16
 * bytes. Where `packed` is mapped pinned memory, the records go over the link as they are made.
 *
 * A record of floats: its header; a bit per element that says whether it is zero (codecs with a mask); then either the
 * elements that are kept, or the planes of their exponents' codes, the other bits, and the exponents that have no code.
 * A record of indices: its header; a width and a first value for each 32 of them; then planes of the differences to that
 * first value. What would not become smaller is stored as it is.
 *
 * The caller provides room for all tiles as they are, with their headers, and a counter that is 0. Sizes are multiples
 * of 16 bytes. */
#include <cstddef>
#include <cstdint>

typedef unsigned long long counter_t;

constexpr int WARP = 32, THREADS = 256, WARPS = THREADS / WARP;
constexpr int TILE = 16384, QUADS = TILE / 16, EACH = QUADS / THREADS;
constexpr unsigned ALL = 0xffffffffu;
constexpr int WIDEST = 5;                                      // bits of an exponent's code
constexpr int INDICES = TILE / 8, GROUPS = INDICES / WARP;     // of a tile of int64
constexpr int INDEX_HEAD = 16 + GROUPS + 8 * GROUPS;           // header, widths, first values

enum { STORED, LISTED, CODED };                                // how a record holds its tile

struct header {
    uint32_t mode, count, escapes;                             // elements kept; exponents without a code
    uint8_t low, width, unused[2];                             // the first exponent with a code; bits of a code
};

template <typename element> struct floats {
    static constexpr int PER_WORD = 4 / sizeof(element), ROUNDS = 4 * EACH * PER_WORD;
    static constexpr int ELEMENTS = TILE / sizeof(element), MASKS = ELEMENTS / WARP;
    static constexpr int MANTISSA = sizeof(element) == 4 ? 23 : 7;

    static __device__ int exponent(element value) { return value >> MANTISSA & 255; }
    static __device__ uint32_t others(element value)
    {
        return value >> (MANTISSA + 8) << MANTISSA | (value & ((1u << MANTISSA) - 1));
    }
    static __device__ element joined(int exponent, uint32_t others)
    {
        return (element)(others >> MANTISSA << (MANTISSA + 8) | (uint32_t)exponent << MANTISSA |
                         (others & ((1u << MANTISSA) - 1)));
    }
};

template <typename element> struct scratch {
    uint4 list[QUADS];                                         // elements that are kept, in the order of the mask
    uint4 record[QUADS];                                       // the coded list
    uint4 masks[floats<element>::MASKS / 4];
    uint32_t start[THREADS], sums[WARPS + 1], seen[THREADS + 1], best;
    counter_t at;
};

static __host__ __device__ uint32_t up_to_quad(uint32_t bytes)
{
    return (bytes + 15) & ~15u;
}

static __device__ int lane_number()
{
    return threadIdx.x % WARP;
}

static __device__ uint32_t lanes_before()
{
    return (1u << lane_number()) - 1;
}

/* Of one value per thread: the sum of those before it; *total: of all. The block passes a barrier before and after. */
static __device__ uint32_t sum_before(uint32_t value, uint32_t *sums, uint32_t *total)
{
    uint32_t sum = value;
    for (int step = 1; step < WARP; step *= 2) {
        uint32_t other = __shfl_up_sync(ALL, sum, step);
        if (lane_number() >= step)
            sum += other;
    }
    __syncthreads();
    if (lane_number() == WARP - 1)
        sums[threadIdx.x / WARP + 1] = sum;
    if (threadIdx.x == 0)
        sums[0] = 0;
    __syncthreads();
    uint32_t before = 0;
    *total = 0;
    for (int warp = 0; warp <= WARPS; warp++) {
        *total += sums[warp];
        before += warp <= (int)threadIdx.x / WARP ? sums[warp] : 0;
    }
    __syncthreads();
    return before + sum - value;
}

static __device__ void copy_quads(uint4 *to, const uint4 *from, uint32_t bytes)
{
    for (uint32_t quad = threadIdx.x; quad < bytes / 16; quad += THREADS)
        to[quad] = from[quad];
}

/* Room for a record of so many bytes: its first quad. All threads get it. */
static __device__ counter_t reserve(uint32_t bytes, counter_t *used, counter_t *directory, counter_t *shared)
{
    if (threadIdx.x == 0) {
        *shared = atomicAdd(used, (counter_t)(bytes / 16));
        directory[blockIdx.x] = *shared;
    }
    __syncthreads();
    return *shared;
}

static __device__ void load_tile(const uint4 *raw, size_t quads, uint4 *mine)
{
    for (int i = 0; i < EACH; i++) {
        size_t quad = (size_t)blockIdx.x * QUADS + i * THREADS + threadIdx.x;
        mine[i] = quad < quads ? raw[quad] : make_uint4(0, 0, 0, 0);
    }
}

static __device__ void store_quad(uint4 *raw, size_t quads, int place, uint4 value)
{
    size_t quad = (size_t)blockIdx.x * QUADS + place * THREADS + threadIdx.x;
    if (quad < quads)
        raw[quad] = value;
}

static __device__ uint32_t word_of(const uint4 *mine, int word)
{
    uint4 quad = mine[word / 4];
    return word % 4 == 0 ? quad.x : word % 4 == 1 ? quad.y : word % 4 == 2 ? quad.z : quad.w;
}

static __device__ void write_stored(uint4 *to, const uint4 *mine)
{
    if (threadIdx.x == 0)
        to[0] = make_uint4(STORED, 0, 0, 0);
    for (int i = 0; i < EACH; i++)
        to[1 + i * THREADS + threadIdx.x] = mine[i];
}

// ---- floats: the mask ----

template <typename element> static __device__ element element_of(const uint4 *mine, int round)
{
    constexpr int PER_WORD = floats<element>::PER_WORD;
    return (element)(word_of(mine, round / PER_WORD) >> (round % PER_WORD * 8 * (int)sizeof(element) % 32));
}

/* Where the elements of each mask begin in the list; the number of elements. */
template <typename element> static __device__ uint32_t start_masks(scratch<element> *s)
{
    const uint32_t *masks = (const uint32_t *)s->masks;
    uint32_t total;
    int mask = threadIdx.x;
    uint32_t before = sum_before(mask < floats<element>::MASKS ? __popc(masks[mask]) : 0, s->sums, &total);
    s->start[mask] = before;
    __syncthreads();
    return total;
}

template <typename element, bool MASK> static __device__ uint32_t make_list(scratch<element> *s, const uint4 *mine)
{
    constexpr int ROUNDS = floats<element>::ROUNDS;
    element *list = (element *)s->list;
    uint32_t *masks = (uint32_t *)s->masks;
    int warp = threadIdx.x / WARP;
    if (!MASK) {
#pragma unroll
        for (int round = 0; round < ROUNDS; round++)
            list[round * THREADS + threadIdx.x] = element_of<element>(mine, round);
        __syncthreads();
        return floats<element>::ELEMENTS;
    }
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t kept = __ballot_sync(ALL, element_of<element>(mine, round) != 0);
        if (lane_number() == 0)
            masks[round * WARPS + warp] = kept;
    }
    __syncthreads();
    uint32_t count = start_masks(s);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        element value = element_of<element>(mine, round);
        int mask = round * WARPS + warp;
        if (value != 0)
            list[s->start[mask] + __popc(masks[mask] & lanes_before())] = value;
    }
    __syncthreads();
    return count;
}

// ---- floats: codes of exponents ----

/* The parts of a coded list, in bytes from its begin: planes, low bytes, high halves, escapes; and their end. */
struct parts {
    uint32_t low, high, escapes, end;
};

template <typename element> static __device__ parts parts_of(uint32_t count, int width, uint32_t escapes)
{
    parts found;
    found.low = up_to_quad((count + WARP - 1) / WARP * width * 4);
    found.high = found.low + up_to_quad(count);
    found.escapes = found.high + (sizeof(element) == 4 ? up_to_quad(2 * count) : 0);
    found.end = found.escapes + up_to_quad(escapes);
    return found;
}

/* The code of an exponent: 0 has none. */
static __device__ int code_of(int exponent, int low, int width)
{
    int code = exponent - low + 1;
    return code > 0 && code < 1 << width ? code : 0;
}

/* The codes that cost least for a sample of 256 elements: the number of the first exponent, width << 8. */
template <typename element> static __device__ uint32_t choose_codes(scratch<element> *s, uint32_t count)
{
    const element *list = (const element *)s->list;
    uint32_t total;
    s->seen[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        s->best = ALL;
    __syncthreads();
    if (count > 0)
        atomicAdd(&s->seen[floats<element>::exponent(list[(size_t)threadIdx.x * count / THREADS])], 1u);
    __syncthreads();
    uint32_t below = sum_before(s->seen[threadIdx.x], s->sums, &total);
    s->seen[threadIdx.x] = below;
    if (threadIdx.x == 0)
        s->seen[THREADS] = total;
    __syncthreads();
    uint32_t best = ALL;
    for (int width = 1; width <= WIDEST; width++) {
        int end = threadIdx.x + (1 << width) - 1;
        uint32_t coded = s->seen[end < THREADS ? end : THREADS] - s->seen[threadIdx.x];
        uint32_t cost = THREADS * width + 8 * (total - coded);
        uint32_t key = cost << 16 | width << 8 | threadIdx.x;
        best = key < best ? key : best;
    }
    atomicMin(&s->best, best);
    __syncthreads();
    return s->best & 0xffff;
}

/* Where the escapes of each 32 elements begin; the number of escapes. `code(i)` is the code of element i. */
template <typename element, typename coder>
static __device__ uint32_t start_escapes(scratch<element> *s, uint32_t count, coder code)
{
    uint32_t groups = (count + WARP - 1) / WARP, total;
    for (uint32_t group = threadIdx.x / WARP; group < groups; group += WARPS) {
        uint32_t i = group * WARP + lane_number();
        uint32_t missed = __ballot_sync(ALL, i < count && code(i) == 0);
        if (lane_number() == 0)
            s->start[group] = __popc(missed);
    }
    __syncthreads();
    uint32_t before = sum_before(threadIdx.x < groups ? s->start[threadIdx.x] : 0, s->sums, &total);
    s->start[threadIdx.x] = before;
    __syncthreads();
    return total;
}

template <typename element> static __device__ void code_list(scratch<element> *s, const header *head, parts part)
{
    const element *list = (const element *)s->list;
    uint8_t *record = (uint8_t *)s->record;
    uint32_t groups = (head->count + WARP - 1) / WARP;
    for (uint32_t group = threadIdx.x / WARP; group < groups; group += WARPS) {
        uint32_t i = group * WARP + lane_number();
        element value = i < head->count ? list[i] : 0;
        int exponent = floats<element>::exponent(value), code = code_of(exponent, head->low, head->width);
        for (int bit = 0; bit < head->width; bit++) {
            uint32_t plane = __ballot_sync(ALL, code >> bit & 1);
            if (lane_number() == 0)
                ((uint32_t *)record)[group * head->width + bit] = plane;
        }
        uint32_t missed = __ballot_sync(ALL, i < head->count && code == 0);
        if (i < head->count && code == 0)
            record[part.escapes + s->start[group] + __popc(missed & lanes_before())] = (uint8_t)exponent;
        if (i < head->count) {
            uint32_t others = floats<element>::others(value);
            record[part.low + i] = (uint8_t)others;
            if (sizeof(element) == 4)
                ((uint16_t *)(record + part.high))[i] = (uint16_t)(others >> 8);
        }
    }
    __syncthreads();
}

static __device__ int code_in_planes(const uint32_t *planes, uint32_t i, int width)
{
    int code = 0;
    for (int bit = 0; bit < width; bit++)
        code |= (int)(planes[i / WARP * width + bit] >> (i % WARP) & 1) << bit;
    return code;
}

template <typename element> static __device__ void decode_list(scratch<element> *s, const header *head)
{
    element *list = (element *)s->list;
    const uint8_t *record = (const uint8_t *)s->record;
    const uint32_t *planes = (const uint32_t *)record;
    uint32_t count = head->count, groups = (count + WARP - 1) / WARP;
    int width = head->width;
    parts part = parts_of<element>(count, width, head->escapes);
    start_escapes(s, count, [=](uint32_t i) { return code_in_planes(planes, i, width); });
    for (uint32_t group = threadIdx.x / WARP; group < groups; group += WARPS) {
        uint32_t i = group * WARP + lane_number();
        int code = code_in_planes(planes, i, width), exponent = head->low + code - 1;
        uint32_t missed = __ballot_sync(ALL, i < count && code == 0);
        if (i >= count)
            continue;
        if (code == 0)
            exponent = record[part.escapes + s->start[group] + __popc(missed & lanes_before())];
        uint32_t others = record[part.low + i];
        if (sizeof(element) == 4)
            others |= (uint32_t)((const uint16_t *)(record + part.high))[i] << 8;
        list[i] = floats<element>::joined(exponent, others);
    }
    __syncthreads();
}

// ---- floats: records ----

template <typename element, bool MASK, bool EXPONENTS>
static __global__ void pack_floats(const uint4 *raw, size_t quads, uint4 *packed, counter_t *directory, counter_t *used)
{
    __shared__ scratch<element> s;
    uint4 mine[EACH];
    load_tile(raw, quads, mine);
    header head = {LISTED, make_list<element, MASK>(&s, mine), 0, 0, 0, {0, 0}};
    uint32_t mask_bytes = MASK ? sizeof s.masks : 0, body = up_to_quad(head.count * sizeof(element));
    parts part = {0, 0, 0, 0};
    if (EXPONENTS) {
        const element *list = (const element *)s.list;
        uint32_t chosen = choose_codes(&s, head.count);
        int low = chosen & 255, width = chosen >> 8;
        uint32_t escapes = start_escapes(
            &s, head.count, [=](uint32_t i) { return code_of(floats<element>::exponent(list[i]), low, width); });
        part = parts_of<element>(head.count, width, escapes);
        if (part.end < body) {
            head = {CODED, head.count, escapes, (uint8_t)low, (uint8_t)width, {0, 0}};
            body = part.end;
        }
    }
    bool stored = mask_bytes + body >= TILE;
    uint32_t bytes = sizeof head + (stored ? TILE : mask_bytes + body);
    uint4 *to = packed + reserve(bytes, used, directory, &s.at);
    if (stored) {
        write_stored(to, mine);
        return;
    }
    if (head.mode == CODED)
        code_list(&s, &head, part);
    if (threadIdx.x == 0)
        to[0] = *(uint4 *)&head;
    copy_quads(to + 1, s.masks, mask_bytes);
    copy_quads(to + 1 + mask_bytes / 16, head.mode == CODED ? s.record : s.list, body);
}

template <typename element, bool MASK>
static __device__ element kept_element(const scratch<element> *s, int round)
{
    const element *list = (const element *)s->list;
    if (!MASK)
        return list[round * THREADS + threadIdx.x];
    int mask = round * WARPS + threadIdx.x / WARP;
    uint32_t bits = ((const uint32_t *)s->masks)[mask];
    return bits >> lane_number() & 1 ? list[s->start[mask] + __popc(bits & lanes_before())] : (element)0;
}

template <typename element, bool MASK>
static __device__ uint32_t kept_word(const scratch<element> *s, int word)
{
    constexpr int PER_WORD = floats<element>::PER_WORD;
    uint32_t found = kept_element<element, MASK>(s, word * PER_WORD);
    if (PER_WORD == 2)
        found |= (uint32_t)kept_element<element, MASK>(s, word * PER_WORD + 1) << 16;
    return found;
}

template <typename element, bool MASK>
static __global__ void unpack_floats(const uint4 *packed, const counter_t *directory, uint4 *raw, size_t quads)
{
    __shared__ scratch<element> s;
    const uint4 *from = packed + directory[blockIdx.x];
    uint4 first = from[0];
    header head = *(header *)&first;
    if (head.mode == STORED) {
        for (int i = 0; i < EACH; i++)
            store_quad(raw, quads, i, from[1 + i * THREADS + threadIdx.x]);
        return;
    }
    uint32_t mask_bytes = MASK ? sizeof s.masks : 0, body = up_to_quad(head.count * sizeof(element));
    if (head.mode == CODED)
        body = parts_of<element>(head.count, head.width, head.escapes).end;
    copy_quads(s.masks, from + 1, mask_bytes);
    copy_quads(head.mode == CODED ? s.record : s.list, from + 1 + mask_bytes / 16, body);
    __syncthreads();
    if (head.mode == CODED)
        decode_list(&s, &head);
    if (MASK)
        start_masks(&s);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        store_quad(raw, quads, i, make_uint4(kept_word<element, MASK>(&s, 4 * i), kept_word<element, MASK>(&s, 4 * i + 1),
                                             kept_word<element, MASK>(&s, 4 * i + 2),
                                             kept_word<element, MASK>(&s, 4 * i + 3)));
}

// ---- int64 ----

struct index_scratch {
    uint4 record[QUADS + INDEX_HEAD / 16];
    uint32_t start[GROUPS], sums[WARPS + 1];
    counter_t at;
};

/* Differences of both signs as small numbers: 0, -1, 1, -2, ... */
static __device__ uint64_t folded(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static __device__ uint64_t unfolded(uint64_t folded)
{
    return folded >> 1 ^ (0 - (folded & 1));
}

static __device__ uint64_t first_of_warp(uint64_t value)
{
    return (uint64_t)__shfl_sync(ALL, (uint32_t)(value >> 32), 0) << 32 | __shfl_sync(ALL, (uint32_t)value, 0);
}

/* Bits that the largest of a warp's values needs. */
static __device__ int width_of(uint64_t value)
{
    uint32_t high = __reduce_or_sync(ALL, (uint32_t)(value >> 32)), low = __reduce_or_sync(ALL, (uint32_t)value);
    return high ? 64 - __clz(high) : 32 - __clz(low);
}

/* Where the planes of each group begin, in words; all words of planes. Widths are in the record. */
static __device__ uint32_t start_planes(index_scratch *s)
{
    const uint8_t *widths = (const uint8_t *)(s->record + 1);
    uint32_t total, group = threadIdx.x;
    uint32_t before = sum_before(group < GROUPS ? widths[group] : 0, s->sums, &total);
    if (group < GROUPS)
        s->start[group] = before;
    __syncthreads();
    return total;
}

static __global__ void pack_indices(const uint4 *raw, size_t quads, uint4 *packed, counter_t *directory, counter_t *used)
{
    __shared__ index_scratch s;
    uint8_t *widths = (uint8_t *)(s.record + 1);
    uint64_t *firsts = (uint64_t *)(widths + GROUPS), mine[GROUPS / WARPS];
    uint32_t *planes = (uint32_t *)((uint8_t *)s.record + INDEX_HEAD);
    int warp = threadIdx.x / WARP;
#pragma unroll
    for (int i = 0; i < GROUPS / WARPS; i++) {
        int group = i * WARPS + warp;
        size_t index = (size_t)blockIdx.x * INDICES + group * WARP + lane_number();
        uint64_t value = index < 2 * quads ? ((const uint64_t *)raw)[index] : 0, first = first_of_warp(value);
        mine[i] = folded(value - first);
        int width = width_of(mine[i]);
        if (lane_number() == 0) {
            widths[group] = (uint8_t)width;
            firsts[group] = first;
        }
    }
    __syncthreads();
    uint32_t bytes = up_to_quad(INDEX_HEAD + 4 * start_planes(&s));
    bool stored = bytes >= sizeof(header) + TILE;
    uint4 *to = packed + reserve(stored ? sizeof(header) + TILE : bytes, used, directory, &s.at);
    if (stored) {
        uint4 tile[EACH];
        load_tile(raw, quads, tile);
        write_stored(to, tile);
        return;
    }
#pragma unroll
    for (int i = 0; i < GROUPS / WARPS; i++) {
        int group = i * WARPS + warp;
        for (int bit = 0; bit < widths[group]; bit++) {
            uint32_t plane = __ballot_sync(ALL, mine[i] >> bit & 1);
            if (lane_number() == 0)
                planes[s.start[group] + bit] = plane;
        }
    }
    if (threadIdx.x == 0)
        s.record[0] = make_uint4(CODED, bytes, 0, 0);
    __syncthreads();
    copy_quads(to, s.record, bytes);
}

static __global__ void unpack_indices(const uint4 *packed, const counter_t *directory, uint4 *raw, size_t quads)
{
    __shared__ index_scratch s;
    const uint4 *from = packed + directory[blockIdx.x];
    uint4 head = from[0];
    if (head.x == STORED) {
        for (int i = 0; i < EACH; i++)
            store_quad(raw, quads, i, from[1 + i * THREADS + threadIdx.x]);
        return;
    }
    copy_quads(s.record, from, head.y);
    __syncthreads();
    const uint8_t *widths = (const uint8_t *)(s.record + 1);
    const uint64_t *firsts = (const uint64_t *)(widths + GROUPS);
    const uint32_t *planes = (const uint32_t *)((const uint8_t *)s.record + INDEX_HEAD);
    start_planes(&s);
    for (int group = threadIdx.x / WARP; group < GROUPS; group += WARPS) {
        uint64_t value = 0;
        for (int bit = 0; bit < widths[group]; bit++)
            value |= (uint64_t)(planes[s.start[group] + bit] >> lane_number() & 1) << bit;
        size_t index = (size_t)blockIdx.x * INDICES + group * WARP + lane_number();
        if (index < 2 * quads)
            ((uint64_t *)raw)[index] = firsts[group] + unfolded(value);
    }
}

// ---- what Python calls ----

#ifndef LAUNCH
#include <cuda_runtime.h>
#define LAUNCH(kernel, blocks, stream, ...) kernel<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(__VA_ARGS__)
#define LAUNCHED() (int)cudaGetLastError()
#endif

enum codec { MASK_32, EXPONENTS_32, BOTH_32, MASK_16, EXPONENTS_16, BOTH_16, INDICES_64 };

static unsigned tiles_of(size_t bytes)
{
    return (unsigned)((bytes + TILE - 1) / TILE);
}

/* Packs bytes; *used: quads of all records. A CUDA error, or -1: no such codec. */
extern "C" int packing_pack(int codec, const void *raw, size_t bytes, void *packed, counter_t *directory, counter_t *used,
                            void *stream)
{
    const uint4 *from = (const uint4 *)raw;
    uint4 *to = (uint4 *)packed;
    unsigned tiles = tiles_of(bytes);
    switch (codec) {
    case MASK_32: LAUNCH((pack_floats<uint32_t, true, false>), tiles, stream, from, bytes / 16, to, directory, used); break;
    case EXPONENTS_32: LAUNCH((pack_floats<uint32_t, false, true>), tiles, stream, from, bytes / 16, to, directory, used); break;
    case BOTH_32: LAUNCH((pack_floats<uint32_t, true, true>), tiles, stream, from, bytes / 16, to, directory, used); break;
    case MASK_16: LAUNCH((pack_floats<uint16_t, true, false>), tiles, stream, from, bytes / 16, to, directory, used); break;
    case EXPONENTS_16: LAUNCH((pack_floats<uint16_t, false, true>), tiles, stream, from, bytes / 16, to, directory, used); break;
    case BOTH_16: LAUNCH((pack_floats<uint16_t, true, true>), tiles, stream, from, bytes / 16, to, directory, used); break;
    case INDICES_64: LAUNCH(pack_indices, tiles, stream, from, bytes / 16, to, directory, used); break;
    default: return -1;
    }
    return LAUNCHED();
}

/* The bytes that packing_pack was given. */
extern "C" int packing_unpack(int codec, const void *packed, const counter_t *directory, void *raw, size_t bytes, void *stream)
{
    const uint4 *from = (const uint4 *)packed;
    uint4 *to = (uint4 *)raw;
    unsigned tiles = tiles_of(bytes);
    switch (codec) {
    case MASK_32:
    case BOTH_32: LAUNCH((unpack_floats<uint32_t, true>), tiles, stream, from, directory, to, bytes / 16); break;
    case EXPONENTS_32: LAUNCH((unpack_floats<uint32_t, false>), tiles, stream, from, directory, to, bytes / 16); break;
    case MASK_16:
    case BOTH_16: LAUNCH((unpack_floats<uint16_t, true>), tiles, stream, from, directory, to, bytes / 16); break;
    case EXPONENTS_16: LAUNCH((unpack_floats<uint16_t, false>), tiles, stream, from, directory, to, bytes / 16); break;
    case INDICES_64: LAUNCH(unpack_indices, tiles, stream, from, directory, to, bytes / 16); break;
    default: return -1;
    }
    return LAUNCHED();
}
