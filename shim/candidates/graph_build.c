#include "shim/candidates/graph_build.h"

#include <string.h>

/* Descriptors of one graph while it is built: at most five tensors, three virtual ones, a
 * convolution and its operation, two for each pointwise operation, the graph. */
enum { PARTS_MAX = 5 + MDNN_PROBLEM_POINTWISE + 2 + 2 * MDNN_PROBLEM_POINTWISE + 1 };
enum { OPERATIONS_MAX = 1 + MDNN_PROBLEM_POINTWISE };
/* Ids of virtual tensors: far from those that a program or frontend takes. */
static const int64_t virtual_uids = (int64_t)1 << 40;

typedef struct builder {
    const mdnn_cudnn_t *cudnn;
    cudnnHandle_t handle;
    const mdnn_problem_t *problem;
    const mdnn_graph_uids_t *uids;
    int64_t images;
    mdnn_graph_scaling_t scaling;
    bool failed;
    cudnnBackendDescriptor_t parts[PARTS_MAX];
    size_t part_count;
    cudnnBackendDescriptor_t operations[OPERATIONS_MAX];
    size_t operation_count;
} builder_t;

static cudnnBackendDescriptor_t create(builder_t *builder, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (builder->failed || builder->part_count == PARTS_MAX ||
        builder->cudnn->cudnnBackendCreateDescriptor(type, &made) != CUDNN_STATUS_SUCCESS) {
        builder->failed = true;
        return NULL;
    }
    builder->parts[builder->part_count++] = made;
    return made;
}

static void set(builder_t *builder, cudnnBackendDescriptor_t descriptor,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *elements)
{
    if (!builder->failed)
        builder->failed = builder->cudnn->cudnnBackendSetAttribute(
                              descriptor, name, type, count, elements) != CUDNN_STATUS_SUCCESS;
}

static void set_descriptor(builder_t *builder, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set(builder, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(builder_t *builder, cudnnBackendDescriptor_t descriptor)
{
    if (!builder->failed)
        builder->failed = builder->cudnn->cudnnBackendFinalize(descriptor) != CUDNN_STATUS_SUCCESS;
}

/* Scalars are doubles where the data are, floats otherwise. */
static void set_scalar(builder_t *builder, cudnnBackendDescriptor_t descriptor,
                       cudnnBackendAttributeName_t name, double value)
{
    const float narrow = (float)value;
    if (builder->problem->x.type == CUDNN_DATA_DOUBLE)
        set(builder, descriptor, name, CUDNN_TYPE_DOUBLE, 1, &value);
    else
        set(builder, descriptor, name, CUDNN_TYPE_FLOAT, 1, &narrow);
}

static double double_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Filters of the legacy API say their strides by a format. */
static void filter_strides(const mdnn_problem_tensor_t *filter, int64_t *strides)
{
    const int count = filter->dim_count;
    int64_t dense = 1;
    if (filter->format == CUDNN_TENSOR_NHWC) {
        strides[1] = 1;
        dense = filter->dims[1];
        for (int i = count; i-- > 2; dense *= filter->dims[i])
            strides[i] = dense;
        strides[0] = dense;
        return;
    }
    for (int i = count; i-- > 0; dense *= filter->dims[i])
        strides[i] = dense;
}

static void make_shape(const builder_t *builder, const mdnn_problem_tensor_t *tensor, int64_t *dims,
                       int64_t *strides)
{
    const mdnn_problem_t *const problem = builder->problem;
    for (int i = 0; i < tensor->dim_count; i++) {
        dims[i] = tensor->dims[i];
        strides[i] = tensor->strides[i];
    }
    if (tensor == &problem->w && tensor->strides[0] == 0)
        filter_strides(tensor, strides);
    if (tensor != &problem->w && tensor != &problem->bias)
        dims[0] = builder->images;
}

static cudnnBackendDescriptor_t make_tensor(builder_t *builder, const mdnn_problem_tensor_t *tensor,
                                            int64_t uid, cudnnDataType_t type, bool is_virtual)
{
    int64_t dims[MDNN_PROBLEM_DIMS], strides[MDNN_PROBLEM_DIMS];
    const int64_t alignment = tensor->alignment_bytes;
    const cudnnBackendDescriptor_t made = create(builder, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    make_shape(builder, tensor, dims, strides);
    set(builder, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(builder, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor->dim_count, dims);
    set(builder, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, tensor->dim_count, strides);
    set(builder, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(builder, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual)
        set(builder, made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finalize(builder, made);
    return made;
}

static cudnnBackendDescriptor_t make_convolution(builder_t *builder)
{
    const mdnn_problem_t *const problem = builder->problem;
    const int64_t spatial = problem->spatial_dims;
    const cudnnDataType_t type = (cudnnDataType_t)problem->compute_type;
    const cudnnConvolutionMode_t mode = (cudnnConvolutionMode_t)problem->mode;
    int64_t pad[MDNN_PROBLEM_SPATIAL_DIMS], pad_after[MDNN_PROBLEM_SPATIAL_DIMS];
    int64_t stride[MDNN_PROBLEM_SPATIAL_DIMS], dilation[MDNN_PROBLEM_SPATIAL_DIMS];
    for (int i = 0; i < spatial; i++) {
        pad[i] = problem->pad[i];
        pad_after[i] = problem->pad_after[i];
        stride[i] = problem->stride[i];
        dilation[i] = problem->dilation[i];
    }
    const cudnnBackendDescriptor_t made = create(builder, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, pad);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, pad_after);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, stride);
    set(builder, made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, dilation);
    finalize(builder, made);
    return made;
}

/* The attributes of the three operations differ by name only. */
typedef struct operation_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
} operation_names_t;

static const operation_names_t *names_of(int32_t direction)
{
    static const operation_names_t forward = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    static const operation_names_t data = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    static const operation_names_t filter = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    return direction == MDNN_BACKWARD_DATA     ? &data
           : direction == MDNN_BACKWARD_FILTER ? &filter
                                               : &forward;
}

/* Appends the convolution, which writes to `y`. */
static void add_convolution(builder_t *builder, cudnnBackendDescriptor_t y)
{
    const mdnn_problem_t *const problem = builder->problem;
    const operation_names_t *const names = names_of(problem->direction);
    const cudnnBackendDescriptor_t x = make_tensor(builder, &problem->x, builder->uids->x,
                                                   (cudnnDataType_t)problem->x.type, false);
    const cudnnBackendDescriptor_t w = make_tensor(builder, &problem->w, builder->uids->w,
                                                   (cudnnDataType_t)problem->w.type, false);
    const cudnnBackendDescriptor_t convolution = make_convolution(builder);
    const cudnnBackendDescriptor_t made = create(builder, names->type);
    set_descriptor(builder, made, names->x, x);
    set_descriptor(builder, made, names->w, w);
    set_descriptor(builder, made, names->y, y);
    set_descriptor(builder, made, names->convolution, convolution);
    set_scalar(builder, made, names->alpha, double_of(problem->alpha_bits));
    set_scalar(builder, made, names->beta,
               builder->scaling == MDNN_SCALING_APART ? 0.0
               : builder->scaling == MDNN_SCALING_ADD ? 1.0
                                                      : double_of(problem->beta_bits));
    finalize(builder, made);
    builder->operations[builder->operation_count++] = made;
}

/* cuDNN knows each parameter by a name of its own. */
static void set_parameters(builder_t *builder, cudnnBackendDescriptor_t pointwise,
                           const mdnn_problem_pointwise_t *from)
{
    const double parameters[3] = {double_of(from->parameter_bits[0]),
                                  double_of(from->parameter_bits[1]),
                                  double_of(from->parameter_bits[2])};
    switch (from->mode) {
    case CUDNN_POINTWISE_RELU_FWD:
        set(builder, pointwise, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1,
            &parameters[0]);
        set(builder, pointwise, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1,
            &parameters[1]);
        set(builder, pointwise, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1,
            &parameters[2]);
        break;
    case CUDNN_POINTWISE_ELU_FWD:
        set(builder, pointwise, CUDNN_ATTR_POINTWISE_ELU_ALPHA, CUDNN_TYPE_DOUBLE, 1,
            &parameters[0]);
        break;
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
        set(builder, pointwise, CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, CUDNN_TYPE_DOUBLE, 1,
            &parameters[0]);
        break;
    case CUDNN_POINTWISE_SWISH_FWD:
        set(builder, pointwise, CUDNN_ATTR_POINTWISE_SWISH_BETA, CUDNN_TYPE_DOUBLE, 1,
            &parameters[0]);
        break;
    default:
        break;
    }
}

static cudnnBackendDescriptor_t make_pointwise(builder_t *builder,
                                               const mdnn_problem_pointwise_t *from)
{
    const cudnnPointwiseMode_t mode = (cudnnPointwiseMode_t)from->mode;
    const cudnnDataType_t type = (cudnnDataType_t)from->compute_type;
    const cudnnBackendDescriptor_t made = create(builder, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(builder, made, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(builder, made, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_parameters(builder, made, from);
    finalize(builder, made);
    return made;
}

/* Appends one pointwise operation that reads `x` and writes `y`. */
static void add_pointwise(builder_t *builder, const mdnn_problem_pointwise_t *from,
                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    const mdnn_problem_t *const problem = builder->problem;
    const bool is_bias = from->operand == MDNN_OPERAND_BIAS;
    const mdnn_problem_tensor_t *const tensor = is_bias ? &problem->bias : &problem->z;
    const cudnnBackendDescriptor_t pointwise = make_pointwise(builder, from);
    cudnnBackendDescriptor_t operand = NULL;
    if (from->operand != MDNN_OPERAND_NONE)
        operand = make_tensor(builder, tensor, is_bias ? builder->uids->bias : builder->uids->z,
                              (cudnnDataType_t)tensor->type, false);
    const cudnnBackendDescriptor_t made =
        create(builder, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(builder, made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    set_descriptor(builder, made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_descriptor(builder, made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (operand)
        set_descriptor(builder, made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand);
    set_scalar(builder, made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, double_of(from->alpha1_bits));
    if (operand)
        set_scalar(builder, made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2,
                   double_of(from->alpha2_bits));
    finalize(builder, made);
    builder->operations[builder->operation_count++] = made;
}

/* The convolution and what follows; the last operation writes y, the others virtual tensors. */
static void add_operations(builder_t *builder)
{
    const mdnn_problem_t *const problem = builder->problem;
    const int count = problem->pointwise_count;
    cudnnBackendDescriptor_t read = NULL;
    for (int i = 0; i <= count && !builder->failed; i++) {
        const bool last = i == count;
        const cudnnDataType_t type =
            (cudnnDataType_t)(last ? problem->y.type : problem->pointwise[i].input_type);
        const cudnnBackendDescriptor_t written = make_tensor(
            builder, &problem->y, last ? builder->uids->y : virtual_uids + i, type, !last);
        if (i == 0)
            add_convolution(builder, written);
        else
            add_pointwise(builder, &problem->pointwise[i - 1], read, written);
        read = written;
    }
}

static void destroy_parts(builder_t *builder)
{
    while (builder->part_count > 0)
        (void)builder->cudnn->cudnnBackendDestroyDescriptor(builder->parts[--builder->part_count]);
}

mdnn_status_t mdnn_graph_build(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                               const mdnn_problem_t *problem, const mdnn_graph_uids_t *uids,
                               int64_t images, mdnn_graph_scaling_t scaling,
                               cudnnBackendDescriptor_t *graph)
{
    builder_t builder = {.cudnn = cudnn,
                         .handle = handle,
                         .problem = problem,
                         .uids = uids,
                         .images = images,
                         .scaling = scaling};
    add_operations(&builder);
    const cudnnBackendDescriptor_t made = create(&builder, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(&builder, made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        (int64_t)builder.operation_count, builder.operations);
    if (handle)
        set(&builder, made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finalize(&builder, made);
    if (!builder.failed)
        builder.part_count--; /* the graph itself is kept */
    destroy_parts(&builder);
    if (builder.failed)
        return MDNN_STATUS_UNSUPPORTED;
    *graph = made;
    return MDNN_STATUS_OK;
}
