/* Elements of a client's tensors on the host: known inputs for each, and how far results are from
 * the truth. The loops run on all processors. */
#ifndef ELEMENTS_H
#define ELEMENTS_H

#include <stddef.h>
#include <stdint.h>

#include <cudnn.h>

/* Of a tensor (n c h w), or a filter (k c r s). */
typedef struct shape {
    int n, c, h, w;
} shape_t;

size_t shape_count(shape_t shape);

/* Bytes of an element: double, float or half; BAILs at others. */
size_t element_bytes(cudnnDataType_t type);

/* How a tensor lies in memory: fully packed, channels last with CUDNN_TENSOR_NHWC. */
typedef struct storage {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    shape_t shape;
} storage_t;

/* Writes uniform random inputs in [-0.5, 0.5) to `memory`. They depend on `seed` and the logical
 * (n c h w) index alone, which starts at `first`: a batch can be written piece by piece and in any
 * type and format. With `as_half` other types hold what half does: inputs rounded to it. */
void elements_fill(storage_t storage, void *memory, uint32_t seed, size_t first, int as_half);

/* Relative L2 error of all elements against `truth` in logical order; infinite where either is not
 * finite. The sum is taken in an order that does not depend on the number of processors. */
double elements_error(storage_t storage, const void *memory, const double *truth);

#endif
