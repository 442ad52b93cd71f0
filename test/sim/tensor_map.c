/* Tensor maps, which kernels take as parameters of 128 bytes. As in the real ones, the address in
 * one is not there as a word: a scan of parameters does not see it. Only the address counts here.
 */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <string.h>

static CUresult encode(CUtensorMap *map, unsigned rank, const void *address, const void *dimensions)
{
    uint64_t words[sizeof(CUtensorMap) / sizeof(uint64_t)] = {SIM_TENSOR_MAP_MARK};
    if (!map || (uintptr_t)map % 64 != 0 || rank < 1 || rank > 5 || !dimensions ||
        (uintptr_t)address % 16 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    words[1] = (uintptr_t)address ^ SIM_TENSOR_MAP_MARK;
    words[2] = rank;
    memcpy(map, words, sizeof words);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dimensions,
                                const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill)
{
    (void)type, (void)strides, (void)box, (void)element_strides, (void)interleave, (void)swizzle;
    (void)promotion, (void)fill;
    SIM_CALL(SIM_NEED_NOTHING, encode(map, rank, address, dimensions));
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                 void *address, const cuuint64_t *dimensions,
                                 const cuuint64_t *strides, const int *lower, const int *upper,
                                 cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t *element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)type, (void)strides, (void)lower, (void)upper, (void)channels, (void)pixels;
    (void)element_strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    SIM_CALL(SIM_NEED_NOTHING, encode(map, rank, address, dimensions));
}

static CUresult replace_address(CUtensorMap *map, const void *address)
{
    uint64_t words[2];
    if (!map || (uintptr_t)address % 16 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(words, map, sizeof words);
    if (words[0] != SIM_TENSOR_MAP_MARK)
        return CUDA_ERROR_INVALID_VALUE;
    words[1] = (uintptr_t)address ^ SIM_TENSOR_MAP_MARK;
    memcpy(map, words, sizeof words);
    return CUDA_SUCCESS;
}

SIM_ENTRY(NOTHING, cuTensorMapReplaceAddress, (CUtensorMap * map, void *address),
          replace_address(map, address))
