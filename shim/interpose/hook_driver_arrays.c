/* Arrays: memory of the driver's own, in a form that cannot be virtual, so it counts. */
#include "shim/interpose/driver.h"
#include "shim/vmem/other_memory.h"

/* Small arrays share pages in pieces of this. */
static const uint64_t piece_bytes = 64 << 10;

static uint64_t element_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 8; /* of others the channels are in the format: blocks, at most 8 bytes each */
    }
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* The driver does not say how much it takes: tiles of 64 bytes and 8 rows, and whole pieces. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *like, unsigned level)
{
    const uint64_t least = 1;
    const uint64_t width = like->Width >> level ? like->Width >> level : least;
    const uint64_t rows = like->Height >> level ? like->Height >> level : least;
    const bool layered = (like->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    const uint64_t depth = layered || like->Depth >> level == 0 ? (layered ? like->Depth : least)
                                                                : like->Depth >> level;
    const uint64_t channels = like->NumChannels ? like->NumChannels : least;
    uint64_t bytes = round_up(width * element_bytes(like->Format) * channels, 64);
    if (width > UINT32_MAX || rows > UINT32_MAX || depth > UINT32_MAX ||
        __builtin_mul_overflow(bytes, rows > 1 ? round_up(rows, 8) : rows, &bytes) ||
        __builtin_mul_overflow(bytes, depth ? depth : least, &bytes))
        return UINT64_MAX / 8;
    return bytes;
}

/* 0: memory is mapped there later, by handles. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *like, unsigned levels)
{
    uint64_t bytes = 0;
    if (like->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    for (unsigned level = 0; level < levels && level < 32; level++)
        bytes += level_bytes(like, level);
    return round_up(bytes, piece_bytes);
}

CUresult mdnn_hook_cuArrayCreate_v2(CUresult (*real)(CUarray *, const CUDA_ARRAY_DESCRIPTOR *),
                                    bool own_stream, CUarray *array,
                                    const CUDA_ARRAY_DESCRIPTOR *like)
{
    (void)own_stream;
    mdnn_other_memory_t *memory;
    if (!array || !like)
        return real(array, like);
    const CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = like->Width,
                                          .Height = like->Height,
                                          .Format = like->Format,
                                          .NumChannels = like->NumChannels};
    CUresult result = mdnn_other_begin(MDNN_OTHER_ARRAY, array_bytes(&wide, 1), false, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(array, like);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? (uintptr_t)*array : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuArray3DCreate_v2(CUresult (*real)(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *),
                                      bool own_stream, CUarray *array,
                                      const CUDA_ARRAY3D_DESCRIPTOR *like)
{
    (void)own_stream;
    mdnn_other_memory_t *memory;
    if (!array || !like || array_bytes(like, 1) == 0)
        return real(array, like);
    CUresult result = mdnn_other_begin(MDNN_OTHER_ARRAY, array_bytes(like, 1), false, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(array, like);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? (uintptr_t)*array : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMipmappedArrayCreate(
    CUresult (*real)(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned),
    bool own_stream, CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *like, unsigned levels)
{
    (void)own_stream;
    mdnn_other_memory_t *memory;
    if (!array || !like || array_bytes(like, levels) == 0)
        return real(array, like, levels);
    CUresult result =
        mdnn_other_begin(MDNN_OTHER_MIPMAP, array_bytes(like, levels), false, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(array, like, levels);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? (uintptr_t)*array : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuArrayDestroy(CUresult (*real)(CUarray), bool own_stream, CUarray array)
{
    (void)own_stream;
    mdnn_other_memory_t *const memory = mdnn_other_take(MDNN_OTHER_ARRAY, (uintptr_t)array);
    const CUresult result = real(array);
    mdnn_other_ended(memory, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMipmappedArrayDestroy(CUresult (*real)(CUmipmappedArray), bool own_stream,
                                           CUmipmappedArray array)
{
    (void)own_stream;
    mdnn_other_memory_t *const memory = mdnn_other_take(MDNN_OTHER_MIPMAP, (uintptr_t)array);
    const CUresult result = real(array);
    mdnn_other_ended(memory, result == CUDA_SUCCESS);
    return result;
}
