/* Slices of a call along the batch: tensor descriptors for every part size, convolution descriptors
 * for every math type, and the pointer arithmetic. Created once per problem, then only read. */
#ifndef MDNN_SLICES_H
#define MDNN_SLICES_H

#include "shim/candidates/call.h"
#include "shim/real/tensor_layout.h"

typedef struct mdnn_slice_descriptors {
    int64_t images;
    cudnnTensorDescriptor_t x, y,
        z;                     /* z is NULL if there is none; all are NULL if the legacy API cannot
                                * express the tensors */
    cudnnFilterDescriptor_t w; /* NULL if the caller has one */
} mdnn_slice_descriptors_t;

typedef struct mdnn_slices mdnn_slices_t;

/* Makes *slices for calls that ask for `problem`; `call` provides the library and the convolution descriptor. The
 * caller destroys the slices. */
mdnn_status_t mdnn_slices_create(const mdnn_call_t *call, const mdnn_problem_t *problem,
                                 mdnn_slices_t **slices);
void mdnn_slices_destroy(mdnn_slices_t *slices); /* NULL accepted */

/* Descriptors for a part of `images` images; made at the first request. The pointer stays valid as
 * long as *slices. Not thread-safe: only the planner calls it (planning.h). */
mdnn_status_t mdnn_slices_get(mdnn_slices_t *slices, int64_t images,
                              const mdnn_slice_descriptors_t **descriptors);
/* A convolution descriptor with `math_type`, otherwise like the caller's. The same rules hold as for the function
 * above. */
mdnn_status_t mdnn_slices_convolution(mdnn_slices_t *slices, int math_type,
                                      cudnnConvolutionDescriptor_t *convolution);

/* Points `part` at `descriptors->images` images from `first_image` of `call`. */
void mdnn_slice(const mdnn_call_t *call, const mdnn_problem_t *problem, int64_t first_image,
                const mdnn_slice_descriptors_t *descriptors, mdnn_call_t *part);

#endif
