/* Arrays: so much memory as their elements take, in tiles, and no content: nothing copies them. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>

typedef struct array {
    int device;
    CUcontext context;
    uint64_t bytes;
    bool levels;
    struct array *next;
} array_t;

static array_t *arrays;

static uint64_t element_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static uint64_t at_least_one(uint64_t value)
{
    return value ? value : 1;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *like, unsigned level)
{
    const uint64_t row =
        at_least_one(like->Width >> level) * element_bytes(like->Format) * like->NumChannels;
    return (row + 63) / 64 * 64 * at_least_one(like->Height >> level) *
           at_least_one(like->Depth >> level);
}

static CUresult create(array_t **out, const CUDA_ARRAY3D_DESCRIPTOR *like, unsigned levels,
                       bool mipmap)
{
    sim_device_t *device = sim_device(sim_current()->device);
    uint64_t bytes = 0;
    if (!out || !like || like->Width == 0 || levels == 0 || element_bytes(like->Format) == 0 ||
        (like->NumChannels != 1 && like->NumChannels != 2 && like->NumChannels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    if (like->Flags != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned level = 0; level < levels; level++)
        bytes += level_bytes(like, level);
    bytes = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    CUresult result = sim_capture_guard();
    if (result == CUDA_SUCCESS && bytes > sim_free_bytes(device))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        return result;
    array_t *made = sim_allocate(sizeof *made);
    *made = (array_t){sim_current()->device, sim_current(), bytes, mipmap, arrays};
    arrays = made;
    sim_memory_taken(device, bytes);
    *out = made;
    return CUDA_SUCCESS;
}

static CUresult create_flat(array_t **out, const CUDA_ARRAY_DESCRIPTOR *like)
{
    if (!like)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = like->Width,
                                          .Height = like->Height,
                                          .Format = like->Format,
                                          .NumChannels = like->NumChannels};
    return create(out, &wide, 1, false);
}

SIM_ENTRY(CONTEXT, cuArrayCreate, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *like),
          create_flat((array_t **)(void *)array, like))
SIM_ENTRY(CONTEXT, cuArray3DCreate, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *like),
          create((array_t **)(void *)array, like, 1, false))
SIM_ENTRY(CONTEXT, cuMipmappedArrayCreate,
          (CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *like, unsigned levels),
          create((array_t **)(void *)array, like, levels, true))

static void end(array_t **at)
{
    array_t *ended = *at;
    sim_memory_given_back(sim_device(ended->device), ended->bytes);
    *at = ended->next;
    free(ended);
}

static CUresult destroy(const void *array, bool mipmap)
{
    array_t **at = &arrays;
    while (*at && (*at != array || (*at)->levels != mipmap))
        at = &(*at)->next;
    CUresult result = *at ? sim_capture_guard() : CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS)
        return result;
    sim_wait_device(-1);
    end(at);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuArrayDestroy, (CUarray array), destroy(array, false))
SIM_ENTRY(CONTEXT, cuMipmappedArrayDestroy, (CUmipmappedArray array), destroy(array, true))

void sim_arrays_end(CUcontext context, bool device)
{
    for (array_t **at = &arrays; *at;)
        if ((*at)->context == context || (device && (*at)->device == context->device))
            end(at);
        else
            at = &(*at)->next;
}
