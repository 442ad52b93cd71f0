/* libcudnn_ops.so.9: tensor, filter, activation, pooling and op-tensor descriptors. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"

#define DESTROY(descriptor)                                                                        \
    SIM_CUDNN_ENTRY();                                                                             \
    free(descriptor);                                                                              \
    return CUDNN_STATUS_SUCCESS

#define CREATE(result)                                                                             \
    SIM_CUDNN_ENTRY();                                                                             \
    SIM_CUDNN_REQUIRE(result, CUDNN_STATUS_BAD_PARAM);                                             \
    *(result) = calloc(1, sizeof **(result));                                                      \
    return *(result)                                                                               \
               ? CUDNN_STATUS_SUCCESS                                                              \
               : sim_cudnn_fail(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "host memory")

/* Packed strides of `dims` in n c [d] h w order. */
static void packed_strides(cudnnTensorFormat_t format, int dim_count, const int *dims, int *strides)
{
    const bool channels_last = format == CUDNN_TENSOR_NHWC && dim_count > 2;
    int64_t next = channels_last ? dims[1] : 1;
    for (int i = dim_count - 1; i >= (channels_last ? 2 : 1); i--) {
        strides[i] = (int)next;
        next *= dims[i];
    }
    if (channels_last)
        strides[1] = 1;
    strides[0] = (int)next;
}

/* What no descriptor may be: empty, or more than 2^31 - 1 elements. */
static cudnnStatus_t check_dims(int dim_count, const int *dims)
{
    uint64_t elements = 1;
    for (int i = 0; i < dim_count; i++) {
        SIM_CUDNN_REQUIRE(dims[i] > 0, CUDNN_STATUS_BAD_PARAM);
        SIM_CUDNN_REQUIRE(!__builtin_mul_overflow(elements, (uint64_t)dims[i], &elements) &&
                              elements <= INT_MAX,
                          CUDNN_STATUS_NOT_SUPPORTED);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* `strides` NULL: packed as `format` says. */
static cudnnStatus_t set_tensor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                cudnnTensorFormat_t format, int dim_count, const int *dims,
                                const int *strides)
{
    SIM_CUDNN_REQUIRE(tensor && dims, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(dim_count >= 1 && dim_count <= SIM_DIMS, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_bytes(type), CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE(format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_TRY(check_dims(dim_count, dims));
    struct cudnnTensorStruct made = {.type = type, .dim_count = dim_count};
    memcpy(made.dims, dims, (size_t)dim_count * sizeof *dims);
    if (strides)
        memcpy(made.strides, strides, (size_t)dim_count * sizeof *strides);
    else
        packed_strides(format, dim_count, dims, made.strides);
    for (int i = 0; i < dim_count; i++)
        SIM_CUDNN_REQUIRE(made.strides[i] > 0, CUDNN_STATUS_BAD_PARAM);
    *tensor = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensorDesc)
{
    CREATE(tensorDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensorDesc)
{
    DESTROY(tensorDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                                     cudnnTensorFormat_t format,
                                                     cudnnDataType_t dataType, int n, int c, int h,
                                                     int w)
{
    SIM_CUDNN_ENTRY();
    return set_tensor(tensorDesc, dataType, format, 4, (const int[]){n, c, h, w}, NULL);
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                                       cudnnDataType_t dataType, int n, int c,
                                                       int h, int w, int nStride, int cStride,
                                                       int hStride, int wStride)
{
    SIM_CUDNN_ENTRY();
    return set_tensor(tensorDesc, dataType, CUDNN_TENSOR_NCHW, 4, (const int[]){n, c, h, w},
                      (const int[]){nStride, cStride, hStride, wStride});
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                                     cudnnDataType_t dataType, int nbDims,
                                                     const int dimA[], const int strideA[])
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(strideA, CUDNN_STATUS_BAD_PARAM);
    return set_tensor(tensorDesc, dataType, CUDNN_TENSOR_NCHW, nbDims, dimA, strideA);
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                                       cudnnTensorFormat_t format,
                                                       cudnnDataType_t dataType, int nbDims,
                                                       const int dimA[])
{
    SIM_CUDNN_ENTRY();
    return set_tensor(tensorDesc, dataType, format, nbDims, dimA, NULL);
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t tensorDesc,
                                                     cudnnDataType_t *dataType, int *n, int *c,
                                                     int *h, int *w, int *nStride, int *cStride,
                                                     int *hStride, int *wStride)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(tensorDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensorDesc->dim_count == 4, CUDNN_STATUS_BAD_PARAM);
    int *const dims[] = {n, c, h, w}, *const strides[] = {nStride, cStride, hStride, wStride};
    if (dataType)
        *dataType = tensorDesc->type;
    for (int i = 0; i < 4; i++) {
        if (dims[i])
            *dims[i] = tensorDesc->dims[i];
        if (strides[i])
            *strides[i] = tensorDesc->strides[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensorDesc,
                                                     int nbDimsRequested, cudnnDataType_t *dataType,
                                                     int *nbDims, int dimA[], int strideA[])
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(tensorDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(nbDimsRequested >= 0, CUDNN_STATUS_BAD_PARAM);
    const size_t bytes =
        (size_t)at_most(nbDimsRequested, tensorDesc->dim_count) * sizeof *tensorDesc->dims;
    if (dataType)
        *dataType = tensorDesc->type;
    if (nbDims)
        *nbDims = tensorDesc->dim_count;
    if (dimA)
        memcpy(dimA, tensorDesc->dims, bytes);
    if (strideA)
        memcpy(strideA, tensorDesc->strides, bytes);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensorDesc,
                                                    size_t *size)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(tensorDesc && size, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(tensorDesc->dim_count, CUDNN_STATUS_BAD_PARAM);
    *size = sim_tensor_bytes(tensorDesc);
    return CUDNN_STATUS_SUCCESS;
}

/* Filters -------------------------------------------------------------------------------------- */

static cudnnStatus_t set_filter(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                cudnnTensorFormat_t format, int dim_count, const int *dims)
{
    SIM_CUDNN_REQUIRE(filter && dims, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(dim_count >= 1 && dim_count <= SIM_DIMS, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_bytes(type), CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE(format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_TRY(check_dims(dim_count, dims));
    filter->type = type;
    filter->format = format;
    filter->dim_count = dim_count;
    memcpy(filter->dims, dims, (size_t)dim_count * sizeof *dims);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filterDesc)
{
    CREATE(filterDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filterDesc)
{
    DESTROY(filterDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc,
                                                     cudnnDataType_t dataType,
                                                     cudnnTensorFormat_t format, int k, int c,
                                                     int h, int w)
{
    SIM_CUDNN_ENTRY();
    return set_filter(filterDesc, dataType, format, 4, (const int[]){k, c, h, w});
}

cudnnStatus_t CUDNNWINAPI cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filterDesc,
                                                     cudnnDataType_t dataType,
                                                     cudnnTensorFormat_t format, int nbDims,
                                                     const int filterDimA[])
{
    SIM_CUDNN_ENTRY();
    return set_filter(filterDesc, dataType, format, nbDims, filterDimA);
}

cudnnStatus_t CUDNNWINAPI cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t filterDesc,
                                                     cudnnDataType_t *dataType,
                                                     cudnnTensorFormat_t *format, int *k, int *c,
                                                     int *h, int *w)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(filterDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(filterDesc->dim_count == 4, CUDNN_STATUS_BAD_PARAM);
    int *const dims[] = {k, c, h, w};
    if (dataType)
        *dataType = filterDesc->type;
    if (format)
        *format = filterDesc->format;
    for (int i = 0; i < 4; i++)
        if (dims[i])
            *dims[i] = filterDesc->dims[i];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filterDesc,
                                                     int nbDimsRequested, cudnnDataType_t *dataType,
                                                     cudnnTensorFormat_t *format, int *nbDims,
                                                     int filterDimA[])
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(filterDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(nbDimsRequested >= 0, CUDNN_STATUS_BAD_PARAM);
    if (dataType)
        *dataType = filterDesc->type;
    if (format)
        *format = filterDesc->format;
    if (nbDims)
        *nbDims = filterDesc->dim_count;
    if (filterDimA)
        memcpy(filterDimA, filterDesc->dims,
               (size_t)at_most(nbDimsRequested, filterDesc->dim_count) * sizeof *filterDimA);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filterDesc,
                                                    size_t *size)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(filterDesc && size, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(filterDesc->dim_count, CUDNN_STATUS_BAD_PARAM);
    *size = sim_tensor_elements(filterDesc->dim_count, filterDesc->dims) *
            sim_type_bytes(filterDesc->type);
    return CUDNN_STATUS_SUCCESS;
}

/* Activation ----------------------------------------------------------------------------------- */

cudnnStatus_t CUDNNWINAPI
cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *activationDesc)
{
    CREATE(activationDesc);
}

cudnnStatus_t CUDNNWINAPI
cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activationDesc)
{
    DESTROY(activationDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activationDesc,
                                                       cudnnActivationMode_t mode,
                                                       cudnnNanPropagation_t reluNanOpt,
                                                       double coef)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(activationDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE((unsigned)mode <= CUDNN_ACTIVATION_SWISH, CUDNN_STATUS_BAD_PARAM);
    *activationDesc = (struct cudnnActivationStruct){
        .mode = mode, .nan = reluNanOpt, .coefficient = coef, .swish_beta = 1.0};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetActivationDescriptor(
    const cudnnActivationDescriptor_t activationDesc, cudnnActivationMode_t *mode,
    cudnnNanPropagation_t *reluNanOpt, double *coef)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(activationDesc, CUDNN_STATUS_BAD_PARAM);
    if (mode)
        *mode = activationDesc->mode;
    if (reluNanOpt)
        *reluNanOpt = activationDesc->nan;
    if (coef)
        *coef = activationDesc->coefficient;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI
cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t activationDesc, double swish_beta)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(activationDesc, CUDNN_STATUS_BAD_PARAM);
    activationDesc->swish_beta = swish_beta;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetActivationDescriptorSwishBeta(
    cudnnActivationDescriptor_t activationDesc, double *swish_beta)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(activationDesc && swish_beta, CUDNN_STATUS_BAD_PARAM);
    *swish_beta = activationDesc->swish_beta;
    return CUDNN_STATUS_SUCCESS;
}

/* Pooling -------------------------------------------------------------------------------------- */

cudnnStatus_t CUDNNWINAPI cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t *poolingDesc)
{
    CREATE(poolingDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t poolingDesc)
{
    DESTROY(poolingDesc);
}

static cudnnStatus_t set_pooling(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                 cudnnNanPropagation_t nan, int spatial_dims, const int *window,
                                 const int *pad, const int *stride)
{
    SIM_CUDNN_REQUIRE(pooling && window && pad && stride, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(spatial_dims >= 2 && spatial_dims <= SIM_SPATIAL, CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE((unsigned)mode <= CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_STATUS_BAD_PARAM);
    struct cudnnPoolingStruct made = {.mode = mode, .nan = nan, .spatial_dims = spatial_dims};
    for (int i = 0; i < spatial_dims; i++) {
        SIM_CUDNN_REQUIRE(window[i] > 0 && stride[i] > 0 && pad[i] >= 0 && pad[i] < window[i],
                          CUDNN_STATUS_BAD_PARAM);
        made.window[i] = window[i];
        made.pad[i] = pad[i];
        made.stride[i] = stride[i];
    }
    *pooling = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t poolingDesc,
                                                      cudnnPoolingMode_t mode,
                                                      cudnnNanPropagation_t maxpoolingNanOpt,
                                                      int windowHeight, int windowWidth,
                                                      int verticalPadding, int horizontalPadding,
                                                      int verticalStride, int horizontalStride)
{
    SIM_CUDNN_ENTRY();
    return set_pooling(poolingDesc, mode, maxpoolingNanOpt, 2,
                       (const int[]){windowHeight, windowWidth},
                       (const int[]){verticalPadding, horizontalPadding},
                       (const int[]){verticalStride, horizontalStride});
}

cudnnStatus_t CUDNNWINAPI cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t poolingDesc,
                                                      const cudnnPoolingMode_t mode,
                                                      const cudnnNanPropagation_t maxpoolingNanOpt,
                                                      int nbDims, const int windowDimA[],
                                                      const int paddingA[], const int strideA[])
{
    SIM_CUDNN_ENTRY();
    return set_pooling(poolingDesc, mode, maxpoolingNanOpt, nbDims, windowDimA, paddingA, strideA);
}

cudnnStatus_t CUDNNWINAPI cudnnGetPooling2dDescriptor(const cudnnPoolingDescriptor_t poolingDesc,
                                                      cudnnPoolingMode_t *mode,
                                                      cudnnNanPropagation_t *maxpoolingNanOpt,
                                                      int *windowHeight, int *windowWidth,
                                                      int *verticalPadding, int *horizontalPadding,
                                                      int *verticalStride, int *horizontalStride)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(poolingDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(poolingDesc->spatial_dims == 2, CUDNN_STATUS_BAD_PARAM);
    int *const results[] = {windowHeight,      windowWidth,    verticalPadding,
                            horizontalPadding, verticalStride, horizontalStride};
    const int *const fields[] = {poolingDesc->window, poolingDesc->pad, poolingDesc->stride};
    if (mode)
        *mode = poolingDesc->mode;
    if (maxpoolingNanOpt)
        *maxpoolingNanOpt = poolingDesc->nan;
    for (int i = 0; i < 6; i++)
        if (results[i])
            *results[i] = fields[i / 2][i % 2];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetPoolingNdDescriptor(const cudnnPoolingDescriptor_t poolingDesc,
                                                      int nbDimsRequested, cudnnPoolingMode_t *mode,
                                                      cudnnNanPropagation_t *maxpoolingNanOpt,
                                                      int *nbDims, int windowDimA[], int paddingA[],
                                                      int strideA[])
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(poolingDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(nbDimsRequested >= 0, CUDNN_STATUS_BAD_PARAM);
    const size_t bytes =
        (size_t)at_most(nbDimsRequested, poolingDesc->spatial_dims) * sizeof *windowDimA;
    if (mode)
        *mode = poolingDesc->mode;
    if (maxpoolingNanOpt)
        *maxpoolingNanOpt = poolingDesc->nan;
    if (nbDims)
        *nbDims = poolingDesc->spatial_dims;
    if (windowDimA)
        memcpy(windowDimA, poolingDesc->window, bytes);
    if (paddingA)
        memcpy(paddingA, poolingDesc->pad, bytes);
    if (strideA)
        memcpy(strideA, poolingDesc->stride, bytes);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetPoolingNdForwardOutputDim(
    const cudnnPoolingDescriptor_t poolingDesc, const cudnnTensorDescriptor_t inputTensorDesc,
    int nbDims, int outputTensorDimA[])
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(poolingDesc && inputTensorDesc && outputTensorDimA, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(poolingDesc->spatial_dims + 2 == inputTensorDesc->dim_count &&
                          nbDims == inputTensorDesc->dim_count,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < nbDims; i++)
        outputTensorDimA[i] = inputTensorDesc->dims[i];
    for (int i = 0; i < poolingDesc->spatial_dims; i++)
        outputTensorDimA[i + 2] =
            1 + (inputTensorDesc->dims[i + 2] + 2 * poolingDesc->pad[i] - poolingDesc->window[i]) /
                    poolingDesc->stride[i];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetPooling2dForwardOutputDim(
    const cudnnPoolingDescriptor_t poolingDesc, const cudnnTensorDescriptor_t inputTensorDesc,
    int *n, int *c, int *h, int *w)
{
    int dims[4];
    SIM_CUDNN_TRY(cudnnGetPoolingNdForwardOutputDim(poolingDesc, inputTensorDesc, 4, dims));
    SIM_CUDNN_REQUIRE(n && c && h && w, CUDNN_STATUS_BAD_PARAM);
    *n = dims[0];
    *c = dims[1];
    *h = dims[2];
    *w = dims[3];
    return CUDNN_STATUS_SUCCESS;
}

/* OpTensor ------------------------------------------------------------------------------------- */

cudnnStatus_t CUDNNWINAPI cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t *opTensorDesc)
{
    CREATE(opTensorDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t opTensorDesc)
{
    DESTROY(opTensorDesc);
}

cudnnStatus_t CUDNNWINAPI cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t opTensorDesc,
                                                     cudnnOpTensorOp_t opTensorOp,
                                                     cudnnDataType_t opTensorCompType,
                                                     cudnnNanPropagation_t opTensorNanOpt)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(opTensorDesc, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE((unsigned)opTensorOp <= CUDNN_OP_TENSOR_NOT, CUDNN_STATUS_BAD_PARAM);
    *opTensorDesc = (struct cudnnOpTensorStruct){
        .op = opTensorOp, .compute_type = opTensorCompType, .nan = opTensorNanOpt};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetOpTensorDescriptor(const cudnnOpTensorDescriptor_t opTensorDesc,
                                                     cudnnOpTensorOp_t *opTensorOp,
                                                     cudnnDataType_t *opTensorCompType,
                                                     cudnnNanPropagation_t *opTensorNanOpt)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(opTensorDesc, CUDNN_STATUS_BAD_PARAM);
    if (opTensorOp)
        *opTensorOp = opTensorDesc->op;
    if (opTensorCompType)
        *opTensorCompType = opTensorDesc->compute_type;
    if (opTensorNanOpt)
        *opTensorNanOpt = opTensorDesc->nan;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnOpsVersionCheck(void)
{
    return cudnnGraphVersionCheck();
}
