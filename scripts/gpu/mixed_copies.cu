/* The driver's and the runtime's copies and memsets. */
#include "mixed_cases.cuh"

/* ---- copies ---- */

typedef CUresult (*copy_t)(void *to, const void *from, size_t bytes);
#define D(p) ((CUdeviceptr)(p))
static const struct copy_case {
    const char *name;
    end_t to, from;
    copy_t copy;
} copies[] = {
    {"DtoD", PLAIN, MIXED_A,
     [](void *to, const void *from, size_t n) { return cuMemcpyDtoD(D(to), D(from), n); }},
    {"DtoD", MIXED_A, PLAIN,
     [](void *to, const void *from, size_t n) { return cuMemcpyDtoD(D(to), D(from), n); }},
    {"DtoDAsync", PLAIN, MIXED_A,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyDtoDAsync(D(to), D(from), n, stream);
     }},
    {"DtoDAsync", MIXED_A, PLAIN,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyDtoDAsync(D(to), D(from), n, stream);
     }},
    {"DtoDAsync", MIXED_B, MIXED_A,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyDtoDAsync(D(to), D(from), n, stream);
     }},
    {"HtoD", MIXED_A, PINNED,
     [](void *to, const void *from, size_t n) { return cuMemcpyHtoD(D(to), from, n); }},
    {"HtoD", MIXED_A, PAGEABLE,
     [](void *to, const void *from, size_t n) { return cuMemcpyHtoD(D(to), from, n); }},
    {"HtoDAsync", MIXED_A, PINNED,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyHtoDAsync(D(to), from, n, stream);
     }},
    {"HtoDAsync", MIXED_A, PAGEABLE,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyHtoDAsync(D(to), from, n, stream);
     }},
    {"DtoH", PINNED, MIXED_A,
     [](void *to, const void *from, size_t n) { return cuMemcpyDtoH(to, D(from), n); }},
    {"DtoH", PAGEABLE, MIXED_A,
     [](void *to, const void *from, size_t n) { return cuMemcpyDtoH(to, D(from), n); }},
    {"DtoHAsync", PINNED, MIXED_A,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyDtoHAsync(to, D(from), n, stream);
     }},
    {"DtoHAsync", PAGEABLE, MIXED_A,
     [](void *to, const void *from, size_t n) {
         return cuMemcpyDtoHAsync(to, D(from), n, stream);
     }},
    {"cuMemcpy", MIXED_B, MIXED_A,
     [](void *to, const void *from, size_t n) { return cuMemcpy(D(to), D(from), n); }},
    {"cuMemcpyAsync", MIXED_B, MIXED_A,
     [](void *to, const void *from, size_t n) { return cuMemcpyAsync(D(to), D(from), n, stream); }},
    {"cuMemcpyAsync", PINNED, MIXED_A,
     [](void *to, const void *from, size_t n) { return cuMemcpyAsync(D(to), D(from), n, stream); }},
    {"cuMemcpyAsync", MIXED_A, PAGEABLE,
     [](void *to, const void *from, size_t n) { return cuMemcpyAsync(D(to), D(from), n, stream); }},
    {"cudaMemcpyAsync Default", MIXED_A, PLAIN,
     [](void *to, const void *from, size_t n) {
         return (CUresult)cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream);
     }},
    {"cudaMemcpyAsync Default", PAGEABLE, MIXED_A,
     [](void *to, const void *from, size_t n) {
         return (CUresult)cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream);
     }},
    {"cudaMemcpyAsync DeviceToDevice", MIXED_B, MIXED_A,
     [](void *to, const void *from, size_t n) {
         return (CUresult)cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, stream);
     }},
};
static const char *const end_names[ENDS] = {"plain", "mixed", "mixed", "pinned", "pageable"};

/* Across the border at odd addresses, then all of it for the rate. */
static outcome_t run_copy(const copy_case &each)
{
    static const size_t length = 2 * MIXED_CHUNK + MIXED_CHUNK / 2 + 13, margin = 4096;
    static const size_t from_at = border - MIXED_CHUNK - 7, to_at = from_at + 4099 - 512;
    fill(each.from, 0);
    put(each.to, to_at - margin, content(1) + to_at - margin, length + 2 * margin);
    must(each.copy(ends[each.to] + to_at, ends[each.from] + from_at, length), "the copy");
    must(cudaStreamSynchronize(stream), "the copy");
    std::vector<unsigned char> expected(content(1) + to_at - margin,
                                        content(1) + to_at + length + margin);
    memcpy(expected.data() + margin, content(0) + from_at, length);
    const bool odd = memcmp(get(each.to, to_at - margin, length + 2 * margin), expected.data(),
                            expected.size()) == 0;
    const double ms = time_of(
        [&] { must(each.copy(ends[each.to], ends[each.from], range_bytes), "the copy of all"); });
    const bool all = holds(each.to, content(0));
    return {odd && all, ms, range_bytes, odd ? "" : "across the border WRONG"};
}

/* Rows that lie across the borders, with a pitch that is no power of two. */
static outcome_t run_copy_2d(end_t to, end_t from, bool at_once)
{
    static const size_t width = 300007, pitch = 400031, rows = 40,
                        at = border - MIXED_CHUNK - 77777;
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = is_host_end(from) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = is_host_end(to) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcHost = copy.dstHost = NULL;
    copy.srcHost = ends[from] + at, copy.srcDevice = D(ends[from] + at);
    copy.dstHost = ends[to] + at, copy.dstDevice = D(ends[to] + at);
    copy.srcPitch = copy.dstPitch = pitch;
    copy.WidthInBytes = width, copy.Height = rows;
    fill(from, 0);
    fill(to, 1);
    const double ms = time_of([&] {
        must(at_once ? cuMemcpy2DUnaligned(&copy) : cuMemcpy2DAsync(&copy, stream), "cuMemcpy2D");
    });
    std::vector<uint32_t> expected = contents[1];
    for (size_t row = 0; row < rows; row++)
        memcpy((char *)expected.data() + at + row * pitch, content(0) + at + row * pitch, width);
    return {holds(to, expected.data()), ms, (double)width * rows, ""};
}

static outcome_t case_2d_within(void)
{
    return run_copy_2d(MIXED_B, MIXED_A, false);
}
static outcome_t case_2d_from_plain(void)
{
    return run_copy_2d(MIXED_A, PLAIN, true);
}
static outcome_t case_2d_to_host(void)
{
    return run_copy_2d(PINNED, MIXED_A, false);
}
static outcome_t case_2d_from_host(void)
{
    return run_copy_2d(MIXED_A, PAGEABLE, false);
}

static outcome_t case_3d(void)
{
    static const size_t width = 1009, height = 64, depth = 64, at = border - 1009 * 64 * 20 - 5;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(ends[MIXED_A] + at, width, width, height);
    copy.dstPtr = make_cudaPitchedPtr(ends[MIXED_B] + at, width, width, height);
    copy.extent = make_cudaExtent(width, height, depth);
    copy.kind = cudaMemcpyDeviceToDevice;
    fill(MIXED_A, 0);
    fill(MIXED_B, 1);
    const double ms = time_of([&] { must(cudaMemcpy3DAsync(&copy, stream), "cudaMemcpy3DAsync"); });
    std::vector<uint32_t> expected = contents[1];
    memcpy((char *)expected.data() + at, content(0) + at, width * height * depth);
    return {holds(MIXED_B, expected.data()), ms, (double)width * height * depth, ""};
}

/* ---- memsets ---- */

typedef CUresult (*set_t)(CUdeviceptr at, size_t bytes);
static const struct set_case {
    const char *name;
    size_t width;
    set_t set;
} sets[] = {
    {"cuMemsetD8", 1, [](CUdeviceptr at, size_t n) { return cuMemsetD8(at, 0x5a, n); }},
    {"cuMemsetD8Async", 1,
     [](CUdeviceptr at, size_t n) { return cuMemsetD8Async(at, 0x5a, n, stream); }},
    {"cuMemsetD16Async", 2,
     [](CUdeviceptr at, size_t n) { return cuMemsetD16Async(at, 0x5a5a, n / 2, stream); }},
    {"cuMemsetD32", 4, [](CUdeviceptr at, size_t n) { return cuMemsetD32(at, 0x5a5a5a5a, n / 4); }},
    {"cuMemsetD32Async", 4,
     [](CUdeviceptr at, size_t n) { return cuMemsetD32Async(at, 0x5a5a5a5a, n / 4, stream); }},
    {"cuMemsetD2D32Async", 4,
     [](CUdeviceptr at, size_t n) {
         return cuMemsetD2D32Async(at, 4096, 0x5a5a5a5a, 1024, n / 4096, stream);
     }},
};

static outcome_t run_set(const set_case &each)
{
    const size_t unit = strstr(each.name, "2D32") ? 4096 : each.width;
    const size_t at = border - MIXED_CHUNK - 3 * unit,
                 length = (2 * MIXED_CHUNK + MIXED_CHUNK / 2 + 13) / unit * unit;
    fill(MIXED_A, 1);
    must(each.set(D(ends[MIXED_A] + at), length), "the memset");
    must(cudaStreamSynchronize(stream), "the memset");
    std::vector<uint32_t> expected = contents[1];
    memset((char *)expected.data() + at, 0x5a, length);
    const bool odd = holds(MIXED_A, expected.data());
    const double ms =
        time_of([&] { must(each.set(D(ends[MIXED_A]), range_bytes), "the memset of all"); });
    memset(expected.data(), 0x5a, range_bytes);
    return {holds(MIXED_A, expected.data()) && odd, ms, range_bytes,
            odd ? "" : "across the border WRONG"};
}

/* ---- the cases ---- */

static std::vector<named_case_t> all_copies(void)
{
    std::vector<named_case_t> all = {
        {"cuMemcpy2D mixed to mixed", case_2d_within},
        {"cuMemcpy2D plain to mixed", case_2d_from_plain},
        {"cuMemcpy2D mixed to pinned", case_2d_to_host},
        {"cuMemcpy2D pageable to mixed", case_2d_from_host},
        {"cudaMemcpy3D mixed to mixed", case_3d},
    };
    for (const copy_case &each : copies)
        all.push_back({std::string("copy ") + each.name + " " + end_names[each.from] + " to " +
                           end_names[each.to],
                       [&each] { return run_copy(each); }});
    for (const set_case &each : sets)
        all.push_back({each.name, [&each] { return run_set(each); }});
    return all;
}

const std::vector<named_case_t> copy_cases = all_copies();
