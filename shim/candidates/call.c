#include "shim/candidates/call.h"

#include <string.h>

#include "config/fault.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

/* The caller's own variant pack fits where all of its tensors are named alike and nothing was cut. */
static cudnnStatus_t run_engine(const mdnn_call_t *call)
{
    const mdnn_cudnn_t *const real = call->cudnn;
    if (call->caller_pack)
        return real->cudnnBackendExecute(call->handle, call->engine_plan->plan, call->caller_pack);
    const mdnn_engine_operands_t operands = {call->x, call->w,    call->y,
                                             call->z, call->bias, call->workspace};
    return mdnn_engine_execute(real, call->handle, call->engine_plan->plan, call->uids, &operands);
}

/* A call of the graph API exactly as the caller made it. */
static cudnnStatus_t run_caller_plan(const mdnn_call_t *call)
{
    return call->caller_plan ? call->cudnn->cudnnBackendExecute(call->handle, call->caller_plan,
                                                                call->caller_pack)
                             : CUDNN_STATUS_EXECUTION_FAILED;
}

static cudnnStatus_t run_real(const mdnn_call_t *call)
{
    const mdnn_cudnn_t *const real = call->cudnn;
    if (call->engine_plan)
        return run_engine(call);
    if (!call->conv_desc)
        return run_caller_plan(call);
    switch (call->direction) {
    case MDNN_FORWARD:
        return real->cudnnConvolutionForward(
            call->handle, call->alpha, call->x_desc, call->x, call->w_desc, call->w,
            call->conv_desc, (cudnnConvolutionFwdAlgo_t)call->algo, call->workspace,
            call->workspace_bytes, call->beta, call->y_desc, call->y);
    case MDNN_BACKWARD_DATA:
        return real->cudnnConvolutionBackwardData(
            call->handle, call->alpha, call->w_desc, call->w, call->y_desc, call->y,
            call->conv_desc, (cudnnConvolutionBwdDataAlgo_t)call->algo, call->workspace,
            call->workspace_bytes, call->beta, call->x_desc, call->x);
    case MDNN_BACKWARD_FILTER:
        return real->cudnnConvolutionBackwardFilter(
            call->handle, call->alpha, call->x_desc, call->x, call->y_desc, call->y,
            call->conv_desc, (cudnnConvolutionBwdFilterAlgo_t)call->algo, call->workspace,
            call->workspace_bytes, call->beta, call->w_desc, call->w);
    case MDNN_BIAS_ACTIVATION_FORWARD:
        return real->cudnnConvolutionBiasActivationForward(
            call->handle, call->alpha, call->x_desc, call->x, call->w_desc, call->w,
            call->conv_desc, (cudnnConvolutionFwdAlgo_t)call->algo, call->workspace,
            call->workspace_bytes, call->beta, call->z_desc, call->z, call->bias_desc, call->bias,
            call->activation_desc, call->y_desc, call->y);
    case MDNN_DIRECTION_COUNT:
        break;
    }
    return CUDNN_STATUS_BAD_PARAM;
}

/* The gradient goes, scaled with alpha, to the scratch behind the sums; cuDNN works behind that. */
static cudnnStatus_t run_accumulating(const mdnn_call_t *call)
{
    static const float zero = 0.0F, one = 1.0F;
    const mdnn_accumulator_t *const accumulator = call->accumulator;
    cudaStream_t stream;
    mdnn_call_t part = *call;
    if (MDNN_FAULT(ALPHA_NOT_FOR_PARTS))
        part.alpha = &one;
    part.beta = &zero;
    part.w = (char *)call->workspace + accumulator->sums_bytes;
    part.workspace = (char *)call->workspace + accumulator->overhead_bytes;
    part.workspace_bytes = call->workspace_bytes - accumulator->overhead_bytes;
    part.caller_pack = NULL;
    cudnnStatus_t status = call->cudnn->cudnnGetStream(call->handle, &stream);
    if (status == CUDNN_STATUS_SUCCESS)
        status = run_real(&part);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    return mdnn_accumulator_run(accumulator, stream, call->accumulate_mode, call->workspace,
                                call->w, call->beta);
}

cudnnStatus_t mdnn_call_run(const mdnn_call_t *call)
{
    return call->accumulator ? run_accumulating(call) : run_real(call);
}

cudnnStatus_t mdnn_call_workspace(const mdnn_call_t *call, size_t *bytes)
{
    const mdnn_cudnn_t *const real = call->cudnn;
    switch (call->direction) {
    case MDNN_FORWARD:
    case MDNN_BIAS_ACTIVATION_FORWARD:
        return real->cudnnGetConvolutionForwardWorkspaceSize(
            call->handle, call->x_desc, call->w_desc, call->conv_desc, call->y_desc,
            (cudnnConvolutionFwdAlgo_t)call->algo, bytes);
    case MDNN_BACKWARD_DATA:
        return real->cudnnGetConvolutionBackwardDataWorkspaceSize(
            call->handle, call->w_desc, call->y_desc, call->conv_desc, call->x_desc,
            (cudnnConvolutionBwdDataAlgo_t)call->algo, bytes);
    case MDNN_BACKWARD_FILTER:
        return real->cudnnGetConvolutionBackwardFilterWorkspaceSize(
            call->handle, call->x_desc, call->y_desc, call->conv_desc, call->w_desc,
            (cudnnConvolutionBwdFilterAlgo_t)call->algo, bytes);
    case MDNN_DIRECTION_COUNT:
        break;
    }
    return CUDNN_STATUS_BAD_PARAM;
}

static int32_t alignment_of(const void *pointer)
{
    const uintptr_t address = (uintptr_t)pointer;
    return address == 0 || address % 16 == 0 ? 16 : (int32_t)(address & (~address + 1));
}

static bool is_floating(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
           type == CUDNN_DATA_BFLOAT16 || (type == CUDNN_DATA_INT8 && MDNN_FAULT(INTEGERS_TAKEN));
}

static mdnn_status_t read_tensor(const mdnn_cudnn_t *real, cudnnTensorDescriptor_t descriptor,
                                 const void *data, mdnn_problem_tensor_t *tensor)
{
    cudnnDataType_t type;
    if (real->cudnnGetTensorNdDescriptor(descriptor, MDNN_PROBLEM_DIMS, &type, &tensor->dim_count,
                                         tensor->dims, tensor->strides) != CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_UNSUPPORTED;
    if (!is_floating(type) || tensor->dim_count < 4 || tensor->dim_count > MDNN_PROBLEM_DIMS)
        return MDNN_STATUS_UNSUPPORTED;
    tensor->type = (int32_t)type;
    tensor->alignment_bytes = alignment_of(data);
    return MDNN_STATUS_OK;
}

static mdnn_status_t read_filter(const mdnn_cudnn_t *real, cudnnFilterDescriptor_t descriptor,
                                 const void *data, mdnn_problem_tensor_t *filter)
{
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    if (real->cudnnGetFilterNdDescriptor(descriptor, MDNN_PROBLEM_DIMS, &type, &format,
                                         &filter->dim_count, filter->dims) != CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_UNSUPPORTED;
    if (!is_floating(type) || format == CUDNN_TENSOR_NCHW_VECT_C || filter->dim_count < 4 ||
        filter->dim_count > MDNN_PROBLEM_DIMS)
        return MDNN_STATUS_UNSUPPORTED;
    filter->type = (int32_t)type;
    filter->format = (int32_t)format;
    filter->alignment_bytes = alignment_of(data);
    return MDNN_STATUS_OK;
}

static mdnn_status_t read_convolution(const mdnn_call_t *call, mdnn_problem_t *problem)
{
    const mdnn_cudnn_t *const real = call->cudnn;
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute_type;
    cudnnMathType_t math_type;
    cudnnReorderType_t reorder;
    if (real->cudnnGetConvolutionNdDescriptor(
            call->conv_desc, MDNN_PROBLEM_SPATIAL_DIMS, &problem->spatial_dims, problem->pad,
            problem->stride, problem->dilation, &mode, &compute_type) != CUDNN_STATUS_SUCCESS ||
        real->cudnnGetConvolutionMathType(call->conv_desc, &math_type) != CUDNN_STATUS_SUCCESS ||
        real->cudnnGetConvolutionGroupCount(call->conv_desc, &problem->groups) !=
            CUDNN_STATUS_SUCCESS ||
        real->cudnnGetConvolutionReorderType(call->conv_desc, &reorder) != CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_UNSUPPORTED;
    if (problem->spatial_dims < 2 || problem->spatial_dims > MDNN_PROBLEM_SPATIAL_DIMS)
        return MDNN_STATUS_UNSUPPORTED;
    memcpy(problem->pad_after, problem->pad, sizeof problem->pad);
    problem->mode = (int32_t)mode;
    problem->compute_type = (int32_t)compute_type;
    problem->math_type = (int32_t)math_type;
    problem->reorder = (int32_t)reorder;
    return MDNN_STATUS_OK;
}

static double scalar(const void *value, cudnnDataType_t data_type)
{
    if (data_type == CUDNN_DATA_DOUBLE) {
        double wide;
        memcpy(&wide, value, sizeof wide);
        return wide;
    }
    float narrow;
    memcpy(&narrow, value, sizeof narrow);
    return (double)narrow;
}

/* Engines of the graph API may run a legacy call if its scalars are among the usual ones: they belong
 * to a plan there, and a program may pass others with every call. */
static void offer_to_engines(const mdnn_call_t *call, mdnn_problem_t *problem)
{
    const cudnnDataType_t type = (cudnnDataType_t)problem->x.type;
    const double alpha = call->alpha ? scalar(call->alpha, type) : 1.0;
    const double beta = call->beta ? scalar(call->beta, type) : 0.0;
    if (mdnn_process_options()->convolution_engines < MDNN_ENGINES_HEURISTICS ||
        !call->cudnn->has_graph || call->direction == MDNN_BIAS_ACTIVATION_FORWARD ||
        alpha != 1.0 || (beta != 0.0 && beta != 1.0))
        return;
    problem->interfaces |= MDNN_INTERFACE_GRAPH;
    memcpy(&problem->alpha_bits, &alpha, sizeof alpha);
    memcpy(&problem->beta_bits, &beta, sizeof beta);
}

static mdnn_status_t read_fused(const mdnn_call_t *call, mdnn_problem_t *problem)
{
    cudnnActivationMode_t mode;
    cudnnNanPropagation_t nan;
    double coefficient;
    MDNN_TRY(read_tensor(call->cudnn, call->z_desc, call->z, &problem->z));
    MDNN_TRY(read_tensor(call->cudnn, call->bias_desc, call->bias, &problem->bias));
    if (call->cudnn->cudnnGetActivationDescriptor(call->activation_desc, &mode, &nan,
                                                  &coefficient) != CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_UNSUPPORTED;
    problem->activation_mode = (int32_t)mode;
    problem->activation_nan = (int32_t)nan;
    memcpy(&problem->activation_coefficient_bits, &coefficient, sizeof coefficient);
    problem->in_place = call->z && call->z == call->y;
    return MDNN_STATUS_OK;
}

/* Without one of its members a problem is taken for others, which get its plan. */
static void forget_a_member(mdnn_problem_t *problem)
{
    if (MDNN_FAULT(KEY_WITHOUT_DIRECTION))
        problem->direction = 0;
    if (MDNN_FAULT(KEY_WITHOUT_PAD)) {
        memset(problem->pad, 0, sizeof problem->pad);
        memset(problem->pad_after, 0, sizeof problem->pad_after);
    }
    if (MDNN_FAULT(KEY_WITHOUT_STRIDE))
        memset(problem->stride, 0, sizeof problem->stride);
    if (MDNN_FAULT(KEY_WITHOUT_DILATION))
        memset(problem->dilation, 0, sizeof problem->dilation);
    if (MDNN_FAULT(KEY_WITHOUT_MODE))
        problem->mode = 0;
    if (MDNN_FAULT(KEY_WITHOUT_COMPUTE_TYPE))
        problem->compute_type = 0;
    if (MDNN_FAULT(KEY_WITHOUT_MATH_TYPE))
        problem->math_type = 0;
    if (MDNN_FAULT(KEY_WITHOUT_REORDER))
        problem->reorder = 0;
    if (MDNN_FAULT(KEY_WITHOUT_STRIDES))
        memset(problem->x.strides, 0, sizeof problem->x.strides);
    if (MDNN_FAULT(KEY_WITHOUT_ALIGNMENT))
        problem->x.alignment_bytes = 16;
    if (MDNN_FAULT(KEY_WITHOUT_FILTER_SIZE))
        problem->w.dims[2] = problem->w.dims[3] = 1;
    if (MDNN_FAULT(KEY_WITHOUT_FILTER_FORMAT))
        problem->w.format = 0;
    if (MDNN_FAULT(KEY_WITHOUT_ALPHA))
        problem->alpha_class = 1;
    if (MDNN_FAULT(KEY_WITHOUT_BETA))
        problem->beta_is_zero = 1;
    if (MDNN_FAULT(KEY_WITHOUT_IN_PLACE))
        problem->in_place = 0;
    if (MDNN_FAULT(KEY_WITHOUT_ACTIVATION))
        problem->activation_mode = 0;
    if (MDNN_FAULT(KEY_WITHOUT_COEFFICIENT))
        problem->activation_coefficient_bits = 0;
}

mdnn_status_t mdnn_call_problem(const mdnn_call_t *call, mdnn_problem_t *problem)
{
    if (call->problem) {
        *problem = *call->problem;
        return MDNN_STATUS_OK;
    }
    mdnn_problem_init(problem);
    problem->direction = (int32_t)call->direction;
    MDNN_TRY(read_tensor(call->cudnn, call->x_desc, call->x, &problem->x));
    MDNN_TRY(read_filter(call->cudnn, call->w_desc, call->w, &problem->w));
    MDNN_TRY(read_tensor(call->cudnn, call->y_desc, call->y, &problem->y));
    MDNN_TRY(read_convolution(call, problem));
    if (call->direction == MDNN_BIAS_ACTIVATION_FORWARD)
        MDNN_TRY(read_fused(call, problem));
    const cudnnDataType_t type = (cudnnDataType_t)problem->x.type;
    problem->alpha_class =
        call->alpha ? mdnn_alpha_class(scalar(call->alpha, type)) : MDNN_ALPHA_ONE;
    if (call->alpha && MDNN_FAULT(ENLARGED_PARTS))
        problem->alpha_class = MDNN_ALPHA_SHRINKS;
    problem->beta_is_zero = !call->beta || scalar(call->beta, type) == 0.0;
    if (MDNN_HAS_FAULTS)
        forget_a_member(problem);
    offer_to_engines(call, problem);
    return MDNN_STATUS_OK;
}

bool mdnn_algo_is_deterministic(mdnn_direction_t direction, int algo)
{
    switch (direction) {
    case MDNN_BACKWARD_DATA:
        return algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
    case MDNN_BACKWARD_FILTER:
        return algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 &&
               algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
    default:
        return true;
    }
}

bool mdnn_algo_is_direct(mdnn_direction_t direction, int algo)
{
    switch (direction) {
    case MDNN_BACKWARD_DATA:
        return algo <= CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
    case MDNN_BACKWARD_FILTER:
        return algo <= CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
               algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
    default:
        return algo <= CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
    }
}

int mdnn_algo_count(mdnn_direction_t direction)
{
    switch (direction) {
    case MDNN_BACKWARD_DATA:
        return CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case MDNN_BACKWARD_FILTER:
        return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
    default:
        return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    }
}

void mdnn_announce_convolution(const mdnn_call_t *call)
{
    static const mdnn_operation_kind_t kinds[MDNN_DIRECTION_COUNT] = {
        [MDNN_FORWARD] = MDNN_OPERATION_FORWARD,
        [MDNN_BACKWARD_DATA] = MDNN_OPERATION_BACKWARD_DATA,
        [MDNN_BACKWARD_FILTER] = MDNN_OPERATION_BACKWARD_FILTER,
        [MDNN_BIAS_ACTIVATION_FORWARD] = MDNN_OPERATION_FORWARD,
    };
    if (mdnn_virtual_on())
        mdnn_virtual_convolution(kinds[call->direction], (uintptr_t)call->x,
                                 (uintptr_t)call->workspace, call->workspace_bytes);
}

void mdnn_announce_convolution_over(void)
{
    if (mdnn_virtual_on())
        mdnn_virtual_convolution_over();
}
