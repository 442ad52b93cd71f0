/* An allocator for torch.cuda.memory.CUDAPluggableAllocator whose larger tensors lie in device and host
 * memory, chunk by chunk, as MIXED_LAYOUT says (mixed_memory.cuh). Freed memory serves requests of the same
 * size, in stream order as long as the program has one stream; nothing is given back. */
#include "mixed_memory.cuh"

#include <mutex>
#include <unordered_map>
#include <vector>

static std::mutex lock;
static std::unordered_map<size_t, std::vector<CUdeviceptr>> idle; /* by rounded size */
static std::unordered_map<CUdeviceptr, size_t> sizes;
static const size_t small_unit = 512;

static mixed_layout_t layout_wanted(void)
{
    const char *const name = getenv("MIXED_LAYOUT");
    for (int i = 0; name && i < MIXED_LAYOUTS; i++)
        if (strcmp(name, mixed_layout_names[i]) == 0)
            return (mixed_layout_t)i;
    return MIXED_DEVICE;
}

static CUdeviceptr make(size_t bytes)
{
    static const mixed_layout_t layout = layout_wanted();
    CUdeviceptr at = 0;
    if (bytes < 2 * MIXED_CHUNK) { /* one chunk has no border */
        mixed_check(cuMemAlloc(&at, bytes), "cuMemAlloc");
        return at;
    }
    mixed_range_t range = mixed_range_make(layout, bytes / MIXED_CHUNK, false);
    free(range.chunks);
    return range.at;
}

extern "C" void *mixed_malloc(ssize_t asked, int device, CUstream stream)
{
    (void)device, (void)stream;
    const size_t bytes = asked > 0 ? (size_t)asked : 1;
    const size_t unit = bytes > MIXED_CHUNK ? MIXED_CHUNK : small_unit;
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    const std::lock_guard<std::mutex> guard(lock);
    std::vector<CUdeviceptr> &there = idle[rounded];
    CUdeviceptr at;
    if (there.empty()) {
        at = make(rounded);
        sizes[at] = rounded;
    } else {
        at = there.back();
        there.pop_back();
    }
    return (void *)at;
}

extern "C" void mixed_free(void *address, ssize_t size, int device, CUstream stream)
{
    (void)size, (void)device, (void)stream;
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = sizes.find((CUdeviceptr)address);
    if (found != sizes.end())
        idle[found->second].push_back(found->first);
}
