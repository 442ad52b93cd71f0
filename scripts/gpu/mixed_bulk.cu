/* Bulk copies and tensor maps (TMA), which move tiles by an engine of their own. */
#include "mixed_cases.cuh"

/* ---- bulk copies and tensor maps (TMA) ---- */

static const uint32_t tile_bytes = 16 << 10;

__device__ static uint32_t shared_address(const void *place)
{
    return (uint32_t)__cvta_generic_to_shared(place);
}

__device__ static void barrier_begin(uint64_t *barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier))
                 : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ static void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ static void barrier_wait(uint64_t *barrier, uint32_t phase)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(shared_address(barrier)),
                 "r"(phase)
                 : "memory");
}

__device__ static void bulk_stores_end(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Tiles begin in the middle of a tile's length, so some lie across each border. Each is added up, and with
 * `to` also stored there. */
__global__ static void bulk(const unsigned char *from, unsigned char *to, size_t tiles, u64 *total)
{
    __shared__ alignas(128) uint4 tile[tile_bytes / 16];
    __shared__ uint64_t barrier;
    uint32_t phase = 0;
    u64 mine = 0;
    if (threadIdx.x == 0)
        barrier_begin(&barrier);
    __syncthreads();
    for (size_t i = blockIdx.x; i < tiles; i += gridDim.x, phase ^= 1) {
        const size_t at = tile_bytes / 2 + i * tile_bytes;
        if (threadIdx.x == 0) {
            barrier_expect(&barrier, tile_bytes);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                         "[%1], %2, [%3];" ::"r"(shared_address(tile)),
                         "l"(from + at), "r"(tile_bytes), "r"(shared_address(&barrier))
                         : "memory");
        }
        barrier_wait(&barrier, phase);
        for (uint32_t k = threadIdx.x; k < tile_bytes / 16; k += blockDim.x)
            mine += (u64)tile[k].x + tile[k].y + tile[k].z + tile[k].w;
        if (to && threadIdx.x == 0) {
            asm volatile(
                "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at),
                "r"(shared_address(tile)), "r"(tile_bytes)
                : "memory");
            bulk_stores_end();
        }
        __syncthreads();
    }
    add_up(mine, total);
}

static const size_t bulk_tiles = range_bytes / tile_bytes - 1;

static uint64_t bulk_sum(void)
{
    return sum_of(contents[0].data() + tile_bytes / 8, bulk_tiles * tile_bytes / 4);
}

static outcome_t case_bulk_load(void)
{
    fill(MIXED_A, 0);
    const double ms =
        time_of([] { bulk<<<264, 256, 0, stream>>>(ends[MIXED_A], NULL, bulk_tiles, sum); });
    return reads((double)bulk_tiles * tile_bytes, bulk_sum(), ms);
}

static outcome_t case_bulk_store(void)
{
    fill(PLAIN, 0);
    fill(MIXED_B, 1);
    const double ms =
        time_of([] { bulk<<<264, 256, 0, stream>>>(ends[PLAIN], ends[MIXED_B], bulk_tiles, sum); });
    const bool summed = sum_on_device() == bulk_sum() * (turns + 1);
    std::vector<uint32_t> expected = contents[1];
    std::copy_n(contents[0].begin() + tile_bytes / 8, bulk_tiles * tile_bytes / 4,
                expected.begin() + tile_bytes / 8);
    return {holds(MIXED_B, expected.data()) && summed, ms, (double)bulk_tiles * tile_bytes, ""};
}

/* Sums in memory, by the engine: of words, of floats, of bf16. */
enum { REDUCE_WORDS, REDUCE_FLOATS, REDUCE_BF16 };
template <int kind> __global__ static void bulk_reduce(unsigned char *to, size_t tiles)
{
    __shared__ alignas(128) uint32_t tile[tile_bytes / 4];
    for (uint32_t i = threadIdx.x; i < tile_bytes / 4; i += blockDim.x)
        tile[i] = kind == REDUCE_WORDS    ? i
                  : kind == REDUCE_FLOATS ? __float_as_uint(1.0f)
                                          : 0x3f803f80u;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (size_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        unsigned char *const at = to + tile_bytes / 2 + i * tile_bytes;
        if (kind == REDUCE_WORDS)
            asm volatile(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(
                    at),
                "r"(shared_address(tile)), "r"(tile_bytes)
                : "memory");
        else if (kind == REDUCE_FLOATS)
            asm volatile(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                    at),
                "r"(shared_address(tile)), "r"(tile_bytes)
                : "memory");
        else
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], "
                         "[%1], %2;" ::"l"(at),
                         "r"(shared_address(tile)), "r"(tile_bytes)
                         : "memory");
        bulk_stores_end();
    }
}

template <int kind> static outcome_t case_bulk_reduce(void)
{
    const std::vector<unsigned char> nothing(range_bytes);
    std::vector<uint32_t> expected(range_words);
    const float four = turns + 1;
    uint32_t float_bits, bf16_bits;
    memcpy(&float_bits, &four, 4);
    bf16_bits = (float_bits >> 16) * 0x10001u;
    for (size_t i = 0; i < bulk_tiles * tile_bytes / 4; i++)
        expected[tile_bytes / 8 + i] = kind == REDUCE_WORDS
                                           ? (turns + 1) * (uint32_t)(i % (tile_bytes / 4))
                                       : kind == REDUCE_FLOATS ? float_bits
                                                               : bf16_bits;
    put(MIXED_A, 0, nothing.data(), range_bytes);
    const double ms =
        time_of([] { bulk_reduce<kind><<<132, 256, 0, stream>>>(ends[MIXED_A], bulk_tiles); });
    return {holds(MIXED_A, expected.data()), ms, (double)bulk_tiles * tile_bytes, ""};
}

/* A matrix of 4-byte words whose boxes are 64 rows of 64: most of those around a border lie on both sides. */
static const uint32_t map_columns = 1000, map_rows = range_words / map_columns / 64 * 64, box = 64;
static const uint32_t map_boxes = map_rows / box * (map_columns / box);

__global__ static void tensor_boxes(const __grid_constant__ CUtensorMap from,
                                    const __grid_constant__ CUtensorMap to, bool store, u64 *total)
{
    __shared__ alignas(128) uint32_t tile[box * box];
    __shared__ uint64_t barrier;
    uint32_t phase = 0;
    u64 mine = 0;
    if (threadIdx.x == 0)
        barrier_begin(&barrier);
    __syncthreads();
    for (uint32_t i = blockIdx.x; i < map_boxes; i += gridDim.x, phase ^= 1) {
        const int x = (int)(i % (map_columns / box) * box),
                  y = (int)(i / (map_columns / box) * box);
        if (threadIdx.x == 0) {
            barrier_expect(&barrier, sizeof tile);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_"
                         "tx::bytes [%0], "
                         "[%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
                         "l"(&from), "r"(x), "r"(y), "r"(shared_address(&barrier))
                         : "memory");
        }
        barrier_wait(&barrier, phase);
        for (uint32_t k = threadIdx.x; k < box * box; k += blockDim.x)
            mine += tile[k];
        if (store && threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, "
                         "%2}], [%3];" ::"l"(&to),
                         "r"(x), "r"(y), "r"(shared_address(tile))
                         : "memory");
            bulk_stores_end();
        }
        __syncthreads();
    }
    add_up(mine, total);
}

static CUtensorMap map_of(end_t end)
{
    CUtensorMap map;
    const cuuint64_t sizes[] = {map_columns, map_rows}, strides[] = {map_columns * 4};
    const cuuint32_t boxes[] = {box, box}, steps[] = {1, 1};
    must(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, ends[end], sizes, strides,
                                boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
         "cuTensorMapEncodeTiled");
    return map;
}

static outcome_t case_tensor(end_t from, end_t to, bool store)
{
    fill(from, 0);
    fill(to, 1);
    const CUtensorMap map_from = map_of(from), map_to = map_of(to);
    const double ms =
        time_of([&] { tensor_boxes<<<264, 256, 0, stream>>>(map_from, map_to, store, sum); });
    std::vector<uint32_t> expected = contents[1];
    uint64_t total = 0;
    for (size_t y = 0; y < map_rows; y++)
        for (size_t x = 0; x < map_columns / box * box; x++) {
            expected[y * map_columns + x] = contents[0][y * map_columns + x];
            total += contents[0][y * map_columns + x];
        }
    const bool summed = sum_on_device() == total * (turns + 1);
    return {summed && (!store || holds(to, expected.data())), ms, (double)map_boxes * box * box * 4,
            ""};
}

static outcome_t case_tensor_load(void)
{
    return case_tensor(MIXED_A, PLAIN, false);
}

static outcome_t case_tensor_store(void)
{
    return case_tensor(PLAIN, MIXED_B, true);
}

/* ---- the cases ---- */

const std::vector<named_case_t> bulk_cases = {
    {"bulk load", case_bulk_load},
    {"bulk store", case_bulk_store},
    {"bulk reduce u32", case_bulk_reduce<REDUCE_WORDS>},
    {"bulk reduce f32", case_bulk_reduce<REDUCE_FLOATS>},
    {"bulk reduce bf16", case_bulk_reduce<REDUCE_BF16>},
    {"tensor map load", case_tensor_load},
    {"tensor map store", case_tensor_store},
};
