#include "shim/candidates/slices.h"

#include <stdlib.h>

#include "config/fault.h"

enum { MATH_TYPES = 4 };

/* A list, so that pointers given out stay valid while it grows. */
typedef struct slice_node {
    mdnn_slice_descriptors_t descriptors;
    struct slice_node *next;
} slice_node_t;

struct mdnn_slices {
    const mdnn_cudnn_t *cudnn;
    const mdnn_problem_t *problem;
    slice_node_t *nodes;
    cudnnConvolutionDescriptor_t convolutions[MATH_TYPES]; /* by math type */
    bool needs_filter;                                     /* the caller has no descriptor */
    cudnnFilterDescriptor_t filter;                        /* NULL until needed */
};

mdnn_status_t mdnn_slices_create(const mdnn_call_t *call, const mdnn_problem_t *problem,
                                 mdnn_slices_t **slices)
{
    mdnn_slices_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->cudnn = call->cudnn;
    made->problem = problem;
    made->needs_filter = !call->w_desc && (problem->interfaces & MDNN_INTERFACE_LEGACY);
    *slices = made;
    return MDNN_STATUS_OK;
}

static void destroy_tensor(const mdnn_cudnn_t *cudnn, cudnnTensorDescriptor_t descriptor)
{
    if (descriptor)
        (void)cudnn->cudnnDestroyTensorDescriptor(descriptor);
}

static void destroy_node(const mdnn_cudnn_t *cudnn, slice_node_t *node)
{
    destroy_tensor(cudnn, node->descriptors.x);
    destroy_tensor(cudnn, node->descriptors.y);
    destroy_tensor(cudnn, node->descriptors.z);
    free(node);
}

void mdnn_slices_destroy(mdnn_slices_t *slices)
{
    if (!slices)
        return;
    while (slices->nodes) {
        slice_node_t *const next = slices->nodes->next;
        destroy_node(slices->cudnn, slices->nodes);
        slices->nodes = next;
    }
    if (slices->filter)
        (void)slices->cudnn->cudnnDestroyFilterDescriptor(slices->filter);
    for (int i = 0; i < MATH_TYPES; i++)
        if (slices->convolutions[i])
            (void)slices->cudnn->cudnnDestroyConvolutionDescriptor(slices->convolutions[i]);
    free(slices);
}

static mdnn_status_t make_tensor(const mdnn_cudnn_t *cudnn, const mdnn_problem_tensor_t *whole,
                                 int64_t images, cudnnTensorDescriptor_t *descriptor)
{
    if (whole->dim_count == 0)
        return MDNN_STATUS_OK;
    int dims[MDNN_PROBLEM_DIMS] = {(int)images};
    for (int i = 1; i < whole->dim_count; i++)
        dims[i] = whole->dims[i];
    if (cudnn->cudnnCreateTensorDescriptor(descriptor) != CUDNN_STATUS_SUCCESS) {
        *descriptor = NULL;
        return MDNN_STATUS_DEVICE;
    }
    return cudnn->cudnnSetTensorNdDescriptor(*descriptor, (cudnnDataType_t)whole->type,
                                             whole->dim_count, dims,
                                             whole->strides) == CUDNN_STATUS_SUCCESS
               ? MDNN_STATUS_OK
               : MDNN_STATUS_DEVICE;
}

static mdnn_status_t make_node(const mdnn_slices_t *slices, int64_t images, slice_node_t **made)
{
    slice_node_t *const node = calloc(1, sizeof *node);
    if (!node)
        return MDNN_STATUS_OUT_OF_MEMORY;
    node->descriptors.images = images;
    const mdnn_problem_t *const problem = slices->problem;
    if (!(problem->interfaces & MDNN_INTERFACE_LEGACY)) {
        *made = node;
        return MDNN_STATUS_OK;
    }
    node->descriptors.w = slices->filter;
    mdnn_status_t status;
    MDNN_TRY_GOTO(make_tensor(slices->cudnn, &problem->x, images, &node->descriptors.x), status,
                  failed);
    MDNN_TRY_GOTO(make_tensor(slices->cudnn, &problem->y, images, &node->descriptors.y), status,
                  failed);
    MDNN_TRY_GOTO(make_tensor(slices->cudnn, &problem->z, images, &node->descriptors.z), status,
                  failed);
    *made = node;
    return MDNN_STATUS_OK;
failed:
    destroy_node(slices->cudnn, node);
    return status;
}

/* One for all part sizes: a filter has no batch. */
static mdnn_status_t make_filter(mdnn_slices_t *slices)
{
    const mdnn_problem_tensor_t *const w = &slices->problem->w;
    if (!slices->needs_filter || slices->filter)
        return MDNN_STATUS_OK;
    if (slices->cudnn->cudnnCreateFilterDescriptor(&slices->filter) != CUDNN_STATUS_SUCCESS) {
        slices->filter = NULL;
        return MDNN_STATUS_DEVICE;
    }
    return slices->cudnn->cudnnSetFilterNdDescriptor(slices->filter, (cudnnDataType_t)w->type,
                                                     (cudnnTensorFormat_t)w->format, w->dim_count,
                                                     w->dims) == CUDNN_STATUS_SUCCESS
               ? MDNN_STATUS_OK
               : MDNN_STATUS_DEVICE;
}

mdnn_status_t mdnn_slices_get(mdnn_slices_t *slices, int64_t images,
                              const mdnn_slice_descriptors_t **descriptors)
{
    slice_node_t *node = slices->nodes;
    while (node && node->descriptors.images != images)
        node = node->next;
    if (!node) {
        MDNN_TRY(make_filter(slices));
        MDNN_TRY(make_node(slices, images, &node));
        node->next = slices->nodes;
        slices->nodes = node;
    }
    *descriptors = &node->descriptors;
    return MDNN_STATUS_OK;
}

static bool set_convolution(const mdnn_slices_t *slices, int math_type,
                            cudnnConvolutionDescriptor_t made)
{
    const mdnn_cudnn_t *const real = slices->cudnn;
    const mdnn_problem_t *const problem = slices->problem;
    const cudnnMathType_t math = MDNN_FAULT(WEAKER_MATH) ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
                                                         : (cudnnMathType_t)math_type;
    return real->cudnnSetConvolutionNdDescriptor(
               made, problem->spatial_dims, problem->pad, problem->stride, problem->dilation,
               (cudnnConvolutionMode_t)problem->mode,
               (cudnnDataType_t)problem->compute_type) == CUDNN_STATUS_SUCCESS &&
           real->cudnnSetConvolutionMathType(made, math) == CUDNN_STATUS_SUCCESS &&
           real->cudnnSetConvolutionGroupCount(made, problem->groups) == CUDNN_STATUS_SUCCESS &&
           real->cudnnSetConvolutionReorderType(made, (cudnnReorderType_t)problem->reorder) ==
               CUDNN_STATUS_SUCCESS;
}

mdnn_status_t mdnn_slices_convolution(mdnn_slices_t *slices, int math_type,
                                      cudnnConvolutionDescriptor_t *convolution)
{
    if (math_type < 0 || math_type >= MATH_TYPES)
        return MDNN_STATUS_UNSUPPORTED;
    cudnnConvolutionDescriptor_t *const slot = &slices->convolutions[math_type];
    if (!*slot) {
        cudnnConvolutionDescriptor_t made;
        if (slices->cudnn->cudnnCreateConvolutionDescriptor(&made) != CUDNN_STATUS_SUCCESS)
            return MDNN_STATUS_DEVICE;
        if (!set_convolution(slices, math_type, made)) {
            (void)slices->cudnn->cudnnDestroyConvolutionDescriptor(made);
            return MDNN_STATUS_DEVICE;
        }
        *slot = made;
    }
    *convolution = *slot;
    return MDNN_STATUS_OK;
}

static void *advance(void *base, const mdnn_problem_tensor_t *tensor, int64_t images)
{
    return base ? (char *)base + images * mdnn_image_stride_bytes(tensor) : NULL;
}

void mdnn_slice(const mdnn_call_t *call, const mdnn_problem_t *problem, int64_t first_image,
                const mdnn_slice_descriptors_t *descriptors, mdnn_call_t *part)
{
    *part = *call;
    part->x_desc = descriptors->x;
    part->y_desc = descriptors->y;
    if (descriptors->w)
        part->w_desc = descriptors->w;
    part->x = advance(call->x, &problem->x, first_image);
    part->y =
        advance(call->y, MDNN_FAULT(WRONG_SLICE_OFFSET) ? &problem->x : &problem->y, first_image);
    if (problem->z.dim_count > 0) {
        part->z_desc = descriptors->z;
        part->z = advance(call->z, &problem->z, first_image);
    }
}
