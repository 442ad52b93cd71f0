#include "shim/real/tensor_layout.h"

#include <cudnn.h>

#include "config/fault.h"

static int64_t element_bytes(int32_t type)
{
    switch ((cudnnDataType_t)type) {
    case CUDNN_DATA_DOUBLE:
        return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    default:
        return 4;
    }
}

int64_t mdnn_problem_batch(const mdnn_problem_t *problem)
{
    return problem->x.dims[0];
}

int64_t mdnn_image_stride_bytes(const mdnn_problem_tensor_t *tensor)
{
    return (int64_t)tensor->strides[0] * element_bytes(tensor->type);
}

/* Elements from the first to the last one of a single image, inclusive. */
static int64_t image_span(const mdnn_problem_tensor_t *tensor)
{
    int64_t span = 1;
    for (int i = 1; i < tensor->dim_count; i++)
        span += (int64_t)(tensor->dims[i] - 1) * tensor->strides[i];
    return span;
}

static bool batch_is_outermost(const mdnn_problem_tensor_t *tensor)
{
    for (int i = 0; i < tensor->dim_count; i++)
        if (tensor->strides[i] <= 0 || tensor->dims[i] <= 0)
            return false;
    return tensor->strides[0] >= image_span(tensor);
}

bool mdnn_problem_is_divisible(const mdnn_problem_t *problem)
{
    const int32_t batch = problem->x.dims[0];
    return batch > 1 && problem->y.dims[0] == batch && batch_is_outermost(&problem->x) &&
           batch_is_outermost(&problem->y) &&
           (problem->z.dim_count == 0 ||
            (problem->z.dims[0] == batch && batch_is_outermost(&problem->z)));
}

static int64_t granularity_of(const mdnn_problem_tensor_t *tensor)
{
    int64_t images = 1;
    if (tensor->dim_count > 0 && !MDNN_FAULT(GRANULARITY_IGNORED))
        while (images < tensor->alignment_bytes &&
               images * mdnn_image_stride_bytes(tensor) % tensor->alignment_bytes != 0)
            images *= 2;
    return images;
}

int64_t mdnn_problem_granularity(const mdnn_problem_t *problem)
{
    int64_t images = granularity_of(&problem->x);
    if (granularity_of(&problem->y) > images)
        images = granularity_of(&problem->y);
    if (granularity_of(&problem->z) > images)
        images = granularity_of(&problem->z);
    return images;
}

uint64_t mdnn_tensor_bytes(const mdnn_problem_tensor_t *tensor, int64_t images)
{
    if (tensor->dim_count == 0)
        return 0;
    uint64_t elements = 1, bytes;
    if (tensor->strides[0] == 0) {
        for (int i = 0; i < tensor->dim_count; i++)
            if (__builtin_mul_overflow(elements, (uint64_t)tensor->dims[i], &elements))
                return UINT64_MAX;
    } else if (__builtin_mul_overflow((uint64_t)(images - 1), (uint64_t)tensor->strides[0],
                                      &elements) ||
               __builtin_add_overflow(elements, (uint64_t)image_span(tensor), &elements)) {
        return UINT64_MAX;
    }
    return __builtin_mul_overflow(elements, (uint64_t)element_bytes(tensor->type), &bytes)
               ? UINT64_MAX
               : bytes;
}

bool mdnn_tensor_has_gaps(const mdnn_problem_tensor_t *tensor)
{
    uint64_t bytes = (uint64_t)element_bytes(tensor->type);
    for (int i = 0; i < tensor->dim_count; i++)
        bytes *= (uint64_t)tensor->dims[i];
    return tensor->strides[0] != 0 && mdnn_tensor_bytes(tensor, tensor->dims[0]) != bytes;
}
