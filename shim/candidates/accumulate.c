#include "shim/candidates/accumulate.h"

#include <stddef.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/public_driver.h"
#include "shim/real/kernels.h"

enum { THREADS = 256, BLOCKS_MAX = 1024, ALIGNMENT = 256 };

bool mdnn_accumulator_needed(const mdnn_problem_t *problem)
{
    return problem->direction == MDNN_BACKWARD_FILTER && problem->w.type == CUDNN_DATA_BFLOAT16 &&
           !MDNN_FAULT(BFLOAT16_ROUNDS_EACH_SUM);
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

mdnn_status_t mdnn_accumulator_init(mdnn_accumulator_t *accumulator, const mdnn_problem_t *problem)
{
    uint64_t elements = 1;
    for (int i = 0; i < problem->w.dim_count; i++)
        if (__builtin_mul_overflow(elements, (uint64_t)problem->w.dims[i], &elements) ||
            elements > UINT64_MAX / 16)
            return MDNN_STATUS_OVERFLOW;
    const mdnn_kernels_t *kernels;
    MDNN_TRY(mdnn_kernels_get(&kernels));
    const uint64_t sums_bytes = round_up(elements * sizeof(float));
    *accumulator = (mdnn_accumulator_t){
        .function = kernels->accumulate_bfloat16,
        .elements = elements,
        .sums_bytes = sums_bytes,
        .overhead_bytes = sums_bytes + round_up(elements * sizeof(uint16_t)),
    };
    return MDNN_STATUS_OK;
}

cudnnStatus_t mdnn_accumulator_run(const mdnn_accumulator_t *accumulator, CUstream stream,
                                   mdnn_accumulate_mode_t mode, void *workspace, void *out,
                                   const void *beta)
{
    const uint64_t quads = accumulator->elements / 4 + 1;
    const uint64_t wanted = (quads + THREADS - 1) / THREADS;
    const unsigned blocks = wanted < BLOCKS_MAX ? (unsigned)wanted : BLOCKS_MAX;
    void *parts = (char *)workspace + accumulator->sums_bytes;
    uint64_t elements = accumulator->elements;
    int mode_number = (int)mode;
    float beta_value;
    memcpy(&beta_value, beta, sizeof beta_value);
    void *parameters[] = {&workspace, &parts, &out, &elements, &mode_number, &beta_value};
    return mdnn_public_launch(accumulator->function, blocks, 1, 1, THREADS, 1, 1, 0, stream,
                              parameters, NULL) == CUDA_SUCCESS
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}
