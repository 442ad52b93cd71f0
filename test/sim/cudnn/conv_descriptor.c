/* libcudnn_cnn.so.9: convolution descriptors, output sizes, and the description of one problem. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/conv.h"

cudnnStatus_t CUDNNWINAPI cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convDesc)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc, CUDNN_STATUS_BAD_PARAM);
    struct cudnnConvolutionStruct *const made = calloc(1, sizeof *made);
    SIM_CUDNN_REQUIRE(made, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    made->groups = 1;
    *convDesc = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convDesc)
{
    SIM_CUDNN_ENTRY();
    free(convDesc);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                                      cudnnMathType_t mathType)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && (unsigned)mathType <= CUDNN_FMA_MATH, CUDNN_STATUS_BAD_PARAM);
    convDesc->math_type = mathType;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                                      cudnnMathType_t *mathType)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && mathType, CUDNN_STATUS_BAD_PARAM);
    *mathType = convDesc->math_type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc,
                                                        int groupCount)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && groupCount > 0, CUDNN_STATUS_BAD_PARAM);
    convDesc->groups = groupCount;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc,
                                                        int *groupCount)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && groupCount, CUDNN_STATUS_BAD_PARAM);
    *groupCount = convDesc->groups;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionReorderType(cudnnConvolutionDescriptor_t convDesc,
                                                         cudnnReorderType_t reorderType)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && (unsigned)reorderType <= CUDNN_NO_REORDER,
                      CUDNN_STATUS_BAD_PARAM);
    convDesc->reorder = reorderType;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionReorderType(cudnnConvolutionDescriptor_t convDesc,
                                                         cudnnReorderType_t *reorderType)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && reorderType, CUDNN_STATUS_BAD_PARAM);
    *reorderType = convDesc->reorder;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_convolution(cudnnConvolutionDescriptor_t convolution, int spatial_dims,
                                     const int *pad, const int *stride, const int *dilation,
                                     cudnnConvolutionMode_t mode, cudnnDataType_t compute_type)
{
    SIM_CUDNN_REQUIRE(convolution && pad && stride && dilation, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(spatial_dims >= 1 && spatial_dims <= SIM_DIMS - 2, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(mode == CUDNN_CONVOLUTION || mode == CUDNN_CROSS_CORRELATION,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < spatial_dims; i++)
        SIM_CUDNN_REQUIRE(pad[i] >= 0 && stride[i] > 0 && dilation[i] > 0, CUDNN_STATUS_BAD_PARAM);
    const size_t bytes = (size_t)spatial_dims * sizeof *pad;
    convolution->spatial_dims = spatial_dims;
    memcpy(convolution->pad, pad, bytes);
    memcpy(convolution->stride, stride, bytes);
    memcpy(convolution->dilation, dilation, bytes);
    convolution->mode = mode;
    convolution->compute_type = compute_type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convDesc,
                                                          int pad_h, int pad_w, int u, int v,
                                                          int dilation_h, int dilation_w,
                                                          cudnnConvolutionMode_t mode,
                                                          cudnnDataType_t computeType)
{
    SIM_CUDNN_ENTRY();
    return set_convolution(convDesc, 2, (const int[]){pad_h, pad_w}, (const int[]){u, v},
                           (const int[]){dilation_h, dilation_w}, mode, computeType);
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convDesc,
                                                          int arrayLength, const int padA[],
                                                          const int filterStrideA[],
                                                          const int dilationA[],
                                                          cudnnConvolutionMode_t mode,
                                                          cudnnDataType_t computeType)
{
    SIM_CUDNN_ENTRY();
    return set_convolution(convDesc, arrayLength, padA, filterStrideA, dilationA, mode,
                           computeType);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolution2dDescriptor(
    const cudnnConvolutionDescriptor_t convDesc, int *pad_h, int *pad_w, int *u, int *v,
    int *dilation_h, int *dilation_w, cudnnConvolutionMode_t *mode, cudnnDataType_t *computeType)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && convDesc->spatial_dims == 2, CUDNN_STATUS_BAD_PARAM);
    int *const results[] = {pad_h, pad_w, u, v, dilation_h, dilation_w};
    const int *const fields[] = {convDesc->pad, convDesc->stride, convDesc->dilation};
    for (int i = 0; i < 6; i++)
        if (results[i])
            *results[i] = fields[i / 2][i % 2];
    if (mode)
        *mode = convDesc->mode;
    if (computeType)
        *computeType = convDesc->compute_type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionNdDescriptor(
    const cudnnConvolutionDescriptor_t convDesc, int arrayLengthRequested, int *arrayLength,
    int padA[], int strideA[], int dilationA[], cudnnConvolutionMode_t *mode,
    cudnnDataType_t *computeType)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && convDesc->spatial_dims && arrayLengthRequested >= 0,
                      CUDNN_STATUS_BAD_PARAM);
    const int given = arrayLengthRequested < convDesc->spatial_dims ? arrayLengthRequested
                                                                    : convDesc->spatial_dims;
    const size_t bytes = (size_t)given * sizeof(int);
    if (arrayLength)
        *arrayLength = convDesc->spatial_dims;
    if (padA)
        memcpy(padA, convDesc->pad, bytes);
    if (strideA)
        memcpy(strideA, convDesc->stride, bytes);
    if (dilationA)
        memcpy(dilationA, convDesc->dilation, bytes);
    if (mode)
        *mode = convDesc->mode;
    if (computeType)
        *computeType = convDesc->compute_type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionNdForwardOutputDim(
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t inputTensorDesc,
    const cudnnFilterDescriptor_t filterDesc, int nbDims, int tensorOuputDimA[])
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(convDesc && inputTensorDesc && filterDesc && tensorOuputDimA,
                      CUDNN_STATUS_BAD_PARAM);
    const int dims = convDesc->spatial_dims + 2;
    SIM_CUDNN_REQUIRE(inputTensorDesc->dim_count == dims && filterDesc->dim_count == dims &&
                          nbDims >= dims,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(inputTensorDesc->dims[1] == filterDesc->dims[1] * convDesc->groups &&
                          filterDesc->dims[0] % convDesc->groups == 0,
                      CUDNN_STATUS_BAD_PARAM);
    int out[SIM_DIMS] = {inputTensorDesc->dims[0], filterDesc->dims[0]};
    for (int i = 0; i < convDesc->spatial_dims; i++) {
        const int reach = (filterDesc->dims[2 + i] - 1) * convDesc->dilation[i] + 1;
        const int room = inputTensorDesc->dims[2 + i] + 2 * convDesc->pad[i] - reach;
        SIM_CUDNN_REQUIRE(room >= 0, CUDNN_STATUS_BAD_PARAM);
        out[2 + i] = 1 + room / convDesc->stride[i];
    }
    memcpy(tensorOuputDimA, out, (size_t)dims * sizeof *out);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolution2dForwardOutputDim(
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t inputTensorDesc,
    const cudnnFilterDescriptor_t filterDesc, int *n, int *c, int *h, int *w)
{
    SIM_CUDNN_REQUIRE(convDesc && convDesc->spatial_dims == 2 && n && c && h && w,
                      CUDNN_STATUS_BAD_PARAM);
    int dims[4];
    SIM_CUDNN_TRY(
        cudnnGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc, 4, dims));
    *n = dims[0];
    *c = dims[1];
    *h = dims[2];
    *w = dims[3];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnCnnVersionCheck(void)
{
    return cudnnOpsVersionCheck();
}

/* The problem ---------------------------------------------------------------------------------- */

/* Both 4-D and 5-D tensors as 5-D ones. Goes through the ops library's descriptor functions, as
 * libcudnn_cnn does: a hook on those names that is not versioned sees these calls. */
static cudnnStatus_t widen_tensor(const struct cudnnTensorStruct *tensor, sim_conv_tensor_t *out)
{
    int dims[SIM_CONV_DIMS], strides[SIM_CONV_DIMS];
    const int missing = SIM_CONV_DIMS - tensor->dim_count;
    for (int i = 0; i < SIM_CONV_DIMS; i++) {
        const bool added = missing && i == 2;
        const int from = i <= 1 || added ? i : i - missing;
        dims[i] = added ? 1 : tensor->dims[from];
        strides[i] = added ? 1 : tensor->strides[from];
    }
    struct cudnnTensorStruct wide = {0};
    SIM_CUDNN_TRY(cudnnSetTensorNdDescriptor(&wide, tensor->type, SIM_CONV_DIMS, dims, strides));
    out->type = (int32_t)wide.type;
    memcpy(out->dims, wide.dims, sizeof out->dims);
    memcpy(out->strides, wide.strides, sizeof out->strides);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t widen_filter(const struct cudnnFilterStruct *filter, sim_conv_tensor_t *out)
{
    int dims[SIM_CONV_DIMS];
    const int missing = SIM_CONV_DIMS - filter->dim_count;
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        dims[i] = missing && i == 2 ? 1 : filter->dims[i <= 1 ? i : i - missing];
    struct cudnnFilterStruct wide = {0};
    SIM_CUDNN_TRY(
        cudnnSetFilterNdDescriptor(&wide, filter->type, filter->format, SIM_CONV_DIMS, dims));
    out->type = (int32_t)wide.type;
    memcpy(out->dims, wide.dims, sizeof out->dims);
    struct cudnnTensorStruct packed = {0};
    SIM_CUDNN_TRY(
        cudnnSetTensorNdDescriptorEx(&packed, wide.format, wide.type, SIM_CONV_DIMS, dims));
    memcpy(out->strides, packed.strides, sizeof out->strides);
    return CUDNN_STATUS_SUCCESS;
}

/* Whether `tensor` has the strides of `format`; strides of dimensions of 1 do not count. */
static bool packed_as(const sim_conv_tensor_t *tensor, cudnnTensorFormat_t format)
{
    struct cudnnTensorStruct packed = {0};
    if (cudnnSetTensorNdDescriptorEx(&packed, format, (cudnnDataType_t)tensor->type, SIM_CONV_DIMS,
                                     tensor->dims) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        if (tensor->dims[i] > 1 && tensor->strides[i] != packed.strides[i])
            return false;
    return true;
}

static bool all_packed_as(const sim_conv_t *problem, cudnnTensorFormat_t format)
{
    return packed_as(&problem->x, format) && packed_as(&problem->w, format) &&
           packed_as(&problem->y, format);
}

static cudnnStatus_t check_types(const struct cudnnTensorStruct *x,
                                 const struct cudnnFilterStruct *w,
                                 const struct cudnnTensorStruct *y, cudnnDataType_t compute_type)
{
    SIM_CUDNN_REQUIRE(x->type == w->type && x->type == y->type && sim_type_is_floating(x->type),
                      CUDNN_STATUS_NOT_SUPPORTED);
    const bool own_half = x->type == CUDNN_DATA_HALF && compute_type == CUDNN_DATA_HALF;
    const cudnnDataType_t wanted =
        x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    SIM_CUDNN_REQUIRE(compute_type == wanted || own_half, CUDNN_STATUS_NOT_SUPPORTED);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_conv_describe(sim_conv_direction_t direction, const struct cudnnTensorStruct *x,
                                const struct cudnnFilterStruct *w,
                                const struct cudnnConvolutionStruct *convolution,
                                const struct cudnnTensorStruct *y, sim_conv_t *problem)
{
    SIM_CUDNN_REQUIRE(x && w && convolution && y, CUDNN_STATUS_BAD_PARAM);
    int out[SIM_DIMS];
    SIM_CUDNN_REQUIRE(convolution->spatial_dims == 2 || convolution->spatial_dims == 3,
                      CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_TRY(cudnnGetConvolutionNdForwardOutputDim((cudnnConvolutionDescriptor_t)convolution,
                                                        (cudnnTensorDescriptor_t)x,
                                                        (cudnnFilterDescriptor_t)w, SIM_DIMS, out));
    SIM_CUDNN_REQUIRE(y->dim_count == x->dim_count &&
                          !memcmp(y->dims, out, (size_t)y->dim_count * sizeof *out),
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_TRY(check_types(x, w, y, convolution->compute_type));
    sim_conv_t made = {.direction = (int32_t)direction,
                       .spatial_dims = convolution->spatial_dims,
                       .math_type = (int32_t)convolution->math_type,
                       .compute_double = x->type == CUDNN_DATA_DOUBLE,
                       .flip = convolution->mode == CUDNN_CONVOLUTION,
                       .groups = convolution->groups};
    const int missing = SIM_SPATIAL - convolution->spatial_dims;
    for (int i = 0; i < SIM_SPATIAL; i++) {
        made.pad[i] = i < missing ? 0 : convolution->pad[i - missing];
        made.stride[i] = i < missing ? 1 : convolution->stride[i - missing];
        made.dilation[i] = i < missing ? 1 : convolution->dilation[i - missing];
    }
    SIM_CUDNN_TRY(widen_tensor(x, &made.x));
    SIM_CUDNN_TRY(widen_filter(w, &made.w));
    SIM_CUDNN_TRY(widen_tensor(y, &made.y));
    made.layout = all_packed_as(&made, CUDNN_TENSOR_NCHW)   ? SIM_LAYOUT_NCHW
                  : all_packed_as(&made, CUDNN_TENSOR_NHWC) ? SIM_LAYOUT_NHWC
                                                            : SIM_LAYOUT_STRIDED;
    *problem = made;
    return CUDNN_STATUS_SUCCESS;
}
