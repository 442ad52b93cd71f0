/* How the tensors of a convolution lie in memory, from their dimensions and strides. */
#ifndef MDNN_TENSOR_LAYOUT_H
#define MDNN_TENSOR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "optimizer/problem.h"

/* Whether the batch can be cut: it is the outermost dimension of x, y and z, and has the same size in all of them. */
bool mdnn_problem_is_divisible(const mdnn_problem_t *problem);
/* The smallest number of images such that, if every cut is at a multiple of it, each slice is as aligned as the
 * caller's tensors (at most 16 bytes). */
int64_t mdnn_problem_granularity(const mdnn_problem_t *problem);
int64_t mdnn_problem_batch(const mdnn_problem_t *problem);
/* The bytes from the first element of `images` images to the end of the last (for a filter: of all of it); UINT64_MAX
 * on overflow. */
uint64_t mdnn_tensor_bytes(const mdnn_problem_tensor_t *tensor, int64_t images);
/* True if there is memory between the elements of `tensor` that is not its own. */
bool mdnn_tensor_has_gaps(const mdnn_problem_tensor_t *tensor);
/* Bytes between two images. */
int64_t mdnn_image_stride_bytes(const mdnn_problem_tensor_t *tensor);

#endif
