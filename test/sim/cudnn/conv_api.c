/* libcudnn_cnn.so.9: the legacy convolution functions. Each direction's functions are the same few
 * steps over its own enumeration and result structure, so the steps are functions here and the
 * structures are filled by one macro. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/conv.h"

enum { RESULTS_MAX = 8 };

/* What the three cudnnConvolution*AlgoPerf_t hold in common. */
typedef struct candidate {
    int number;
    cudnnStatus_t status;
    float time_ms; /* -1: not measured */
    double rank_us;
    size_t workspace_bytes;
    bool deterministic;
    cudnnMathType_t math_type;
} candidate_t;

/* One call's tensors. `scale` values are the caller's alpha and beta. */
typedef struct call {
    cudnnHandle_t handle;
    sim_conv_t problem;
    sim_conv_buffers_t buffers;
    sim_conv_epilogue_t epilogue;
} call_t;

static bool aligned_to(const void *address, size_t bytes)
{
    return (uintptr_t)address % bytes == 0;
}

/* The output of the problem's direction. */
static const sim_conv_tensor_t *output_of(const sim_conv_t *problem)
{
    return problem->direction == SIM_FORWARD         ? &problem->y
           : problem->direction == SIM_BACKWARD_DATA ? &problem->x
                                                     : &problem->w;
}

static cudnnStatus_t describe(call_t *call, cudnnHandle_t handle, sim_conv_direction_t direction,
                              const struct cudnnTensorStruct *x, const struct cudnnFilterStruct *w,
                              const struct cudnnConvolutionStruct *convolution,
                              const struct cudnnTensorStruct *y)
{
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle), CUDNN_STATUS_BAD_PARAM);
    memset(call, 0, sizeof *call);
    call->handle = handle;
    call->epilogue.activation = CUDNN_ACTIVATION_IDENTITY;
    call->epilogue.alpha = 1.0;
    SIM_CUDNN_TRY(sim_conv_describe(direction, x, w, convolution, y, &call->problem));
    call->epilogue.addend = *output_of(&call->problem);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_buffers(call_t *call, const void *x, const void *w, const void *y)
{
    SIM_CUDNN_REQUIRE(x && w && y, CUDNN_STATUS_BAD_PARAM);
    const size_t element = sim_type_bytes((cudnnDataType_t)call->problem.x.type);
    SIM_CUDNN_REQUIRE(aligned_to(x, element) && aligned_to(w, element) && aligned_to(y, element),
                      CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    call->buffers.x = x;
    call->buffers.w = w;
    call->buffers.y = y;
    const void *const outputs[SIM_DIRECTIONS] = {y, x, w};
    call->buffers.addend = outputs[call->problem.direction];
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_scaling(call_t *call, const void *alpha, const void *beta)
{
    SIM_CUDNN_REQUIRE(alpha && beta, CUDNN_STATUS_BAD_PARAM);
    call->epilogue.alpha = sim_scaling(alpha, (cudnnDataType_t)call->problem.x.type);
    call->epilogue.beta = sim_scaling(beta, (cudnnDataType_t)call->problem.x.type);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t find_algorithm(const call_t *call, int number,
                                    const sim_conv_algorithm_t **algorithm)
{
    const sim_conv_direction_t direction = (sim_conv_direction_t)call->problem.direction;
    *algorithm = sim_conv_algorithm(direction, number);
    SIM_CUDNN_REQUIRE(*algorithm, CUDNN_STATUS_BAD_PARAM);
    return sim_conv_supported(call->handle->profile, &call->problem, *algorithm);
}

static cudnnStatus_t workspace_size(const call_t *call, int number, size_t *bytes)
{
    SIM_CUDNN_REQUIRE(bytes, CUDNN_STATUS_BAD_PARAM);
    const sim_conv_algorithm_t *algorithm;
    *bytes = 0;
    SIM_CUDNN_TRY(find_algorithm(call, number, &algorithm));
    *bytes = sim_conv_workspace_bytes(call->handle->profile, &call->problem, algorithm);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t execute(call_t *call, int number, void *workspace, size_t workspace_bytes)
{
    const sim_conv_algorithm_t *algorithm;
    SIM_CUDNN_TRY(find_algorithm(call, number, &algorithm));
    const uint64_t needed =
        sim_conv_workspace_bytes(call->handle->profile, &call->problem, algorithm);
    SIM_CUDNN_REQUIRE(needed <= workspace_bytes && (!needed || workspace), CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(!needed || aligned_to(workspace, 16),
                      CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    call->buffers.workspace = workspace;
    return sim_conv_launch(call->handle, &call->problem, algorithm, &call->epilogue,
                           &call->buffers);
}

/* Supported ones first, the fastest first; equal ones by number. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate_t *const left = a, *const right = b;
    const bool left_ok = left->status == CUDNN_STATUS_SUCCESS;
    const bool right_ok = right->status == CUDNN_STATUS_SUCCESS;
    if (left_ok != right_ok)
        return left_ok ? -1 : 1;
    if (left_ok && left->rank_us != right->rank_us)
        return left->rank_us < right->rank_us ? -1 : 1;
    return left->number - right->number;
}

static void fill_candidate(const call_t *call, int number, candidate_t *candidate)
{
    const sim_profile_t *const profile = call->handle->profile;
    const sim_conv_algorithm_t *algorithm;
    *candidate = (candidate_t){.number = number, .time_ms = -1.0f};
    candidate->status = find_algorithm(call, number, &algorithm);
    candidate->deterministic = algorithm->order != ORDER_VARYING;
    candidate->math_type = CUDNN_DEFAULT_MATH;
    if (candidate->status != CUDNN_STATUS_SUCCESS)
        return;
    candidate->rank_us = sim_conv_cost_us(profile, &call->problem, algorithm, false);
    candidate->workspace_bytes = sim_conv_workspace_bytes(profile, &call->problem, algorithm);
    if (sim_conv_uses_tensor_cores(profile, &call->problem, algorithm))
        candidate->math_type = CUDNN_TENSOR_OP_MATH;
    else if (call->problem.math_type == CUDNN_FMA_MATH)
        candidate->math_type = CUDNN_FMA_MATH;
}

/* Virtual milliseconds between two events around one execution; overwrites the output. */
static cudnnStatus_t measure(call_t *call, int number, void *workspace, size_t workspace_bytes,
                             CUevent begin, CUevent end, float *milliseconds)
{
    const sim_driver_t *const driver = sim_driver();
    const CUstream stream = call->handle->stream;
    SIM_CUDNN_REQUIRE(driver->event_record(begin, stream) == CUDA_SUCCESS,
                      CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    SIM_CUDNN_TRY(execute(call, number, workspace, workspace_bytes));
    SIM_CUDNN_REQUIRE(driver->event_record(end, stream) == CUDA_SUCCESS &&
                          driver->event_synchronize(end) == CUDA_SUCCESS &&
                          driver->event_elapsed_time(milliseconds, begin, end) == CUDA_SUCCESS,
                      CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t measure_all(call_t *call, candidate_t *candidates, int count, void *workspace,
                                 size_t workspace_bytes)
{
    const sim_driver_t *const driver = sim_driver();
    SIM_CUDNN_REQUIRE(driver, CUDNN_STATUS_NOT_INITIALIZED);
    CUevent begin = NULL, end = NULL;
    cudnnStatus_t status = CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
    if (driver->event_create(&begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return sim_cudnn_fail(status, "cuEventCreate");
    if (driver->event_create(&end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        goto destroy_begin;
    for (int i = 0; i < count; i++) {
        candidate_t *const candidate = &candidates[i];
        if (candidate->status != CUDNN_STATUS_SUCCESS)
            continue;
        if (candidate->workspace_bytes > workspace_bytes) {
            candidate->status = CUDNN_STATUS_ALLOC_FAILED;
            continue;
        }
        candidate->status = measure(call, candidate->number, workspace, workspace_bytes, begin, end,
                                    &candidate->time_ms);
        candidate->rank_us = (double)candidate->time_ms * 1000.0;
    }
    status = CUDNN_STATUS_SUCCESS;
    driver->event_destroy(end);
destroy_begin:
    driver->event_destroy(begin);
    return status;
}

/* Fills `candidates` with the whole sorted list. `measured`: by execution with the call's buffers.
 */
static cudnnStatus_t rank(call_t *call, bool measured, void *workspace, size_t workspace_bytes,
                          candidate_t candidates[RESULTS_MAX])
{
    const int count = sim_conv_algorithm_count((sim_conv_direction_t)call->problem.direction);
    for (int i = 0; i < count; i++)
        fill_candidate(call, i, &candidates[i]);
    if (measured)
        SIM_CUDNN_TRY(measure_all(call, candidates, count, workspace, workspace_bytes));
    qsort(candidates, (size_t)count, sizeof *candidates, compare_candidates);
    return CUDNN_STATUS_SUCCESS;
}

static uint64_t span_bytes(const sim_conv_tensor_t *tensor)
{
    return sim_tensor_span(SIM_CONV_DIMS, tensor->dims, tensor->strides) *
           sim_type_bytes((cudnnDataType_t)tensor->type);
}

/* Largest workspace of any supported algorithm. */
static size_t largest_workspace(const call_t *call)
{
    size_t largest = 0;
    const int count = sim_conv_algorithm_count((sim_conv_direction_t)call->problem.direction);
    for (int i = 0; i < count; i++) {
        candidate_t candidate;
        fill_candidate(call, i, &candidate);
        if (candidate.workspace_bytes > largest)
            largest = candidate.workspace_bytes;
    }
    return largest;
}

/* cudnnFind*Algorithm: as the Ex form, on memory of its own. A workspace that cannot be had is
 * halved until it can; what needs more then says so. */
static cudnnStatus_t rank_on_own_memory(call_t *call, candidate_t candidates[RESULTS_MAX])
{
    const sim_driver_t *const driver = sim_driver();
    SIM_CUDNN_REQUIRE(driver, CUDNN_STATUS_NOT_INITIALIZED);
    const sim_conv_tensor_t *const tensors[] = {&call->problem.x, &call->problem.w,
                                                &call->problem.y};
    CUdeviceptr memory[3] = {0}, workspace = 0;
    cudnnStatus_t status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    for (int i = 0; i < 3; i++)
        if (driver->mem_alloc(&memory[i], span_bytes(tensors[i])) != CUDA_SUCCESS)
            goto free_memory;
    size_t workspace_bytes = largest_workspace(call);
    while (workspace_bytes && driver->mem_alloc(&workspace, workspace_bytes) != CUDA_SUCCESS)
        workspace_bytes /= 2;
    status = set_buffers(call, (void *)(uintptr_t)memory[0], (void *)(uintptr_t)memory[1],
                         (void *)(uintptr_t)memory[2]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = rank(call, true, (void *)(uintptr_t)workspace, workspace_bytes, candidates);
    if (workspace)
        driver->mem_free(workspace);
free_memory:
    for (int i = 0; i < 3; i++)
        if (memory[i])
            driver->mem_free(memory[i]);
    return status;
}

/* Copies the best `requested` candidates into a direction's own result structures. */
#define RETURN_RESULTS(direction, algorithm_type, candidates, requested, returned, results)        \
    do {                                                                                           \
        const int count_ = sim_conv_algorithm_count(direction);                                    \
        const int given_ = (requested) < count_ ? (requested) : count_;                            \
        memset((results), 0, (size_t)given_ * sizeof *(results));                                  \
        for (int i = 0; i < given_; i++) {                                                         \
            (results)[i].algo = (algorithm_type)(candidates)[i].number;                            \
            (results)[i].status = (candidates)[i].status;                                          \
            (results)[i].time = (candidates)[i].time_ms;                                           \
            (results)[i].memory = (candidates)[i].workspace_bytes;                                 \
            (results)[i].determinism =                                                             \
                (candidates)[i].deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;     \
            (results)[i].mathType = (candidates)[i].math_type;                                     \
        }                                                                                          \
        *(returned) = given_;                                                                      \
        return CUDNN_STATUS_SUCCESS;                                                               \
    } while (0)

#define CHECK_RESULTS()                                                                            \
    SIM_CUDNN_REQUIRE(requestedAlgoCount > 0 && returnedAlgoCount && perfResults,                  \
                      CUDNN_STATUS_BAD_PARAM)

#define MAX_COUNT(direction)                                                                       \
    SIM_CUDNN_ENTRY();                                                                             \
    SIM_CUDNN_REQUIRE(handle &&count, CUDNN_STATUS_BAD_PARAM);                                     \
    *count = sim_conv_algorithm_count(direction);                                                  \
    return CUDNN_STATUS_SUCCESS

/* Forward -------------------------------------------------------------------------------------- */

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle,
                                                                      int *count)
{
    MAX_COUNT(SIM_FORWARD);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnFilterDescriptor_t filterDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t destDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t *perfResults)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_FORWARD, srcDesc, filterDesc, convDesc, destDesc));
    SIM_CUDNN_TRY(rank(&call, false, NULL, 0, candidates));
    RETURN_RESULTS(SIM_FORWARD, cudnnConvolutionFwdAlgo_t, candidates, requestedAlgoCount,
                   returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t *perfResults)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_FORWARD, xDesc, wDesc, convDesc, yDesc));
    SIM_CUDNN_TRY(rank_on_own_memory(&call, candidates));
    RETURN_RESULTS(SIM_FORWARD, cudnnConvolutionFwdAlgo_t, candidates, requestedAlgoCount,
                   returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t yDesc, void *y, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t *perfResults, void *workSpace,
    size_t workSpaceSizeInBytes)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_FORWARD, xDesc, wDesc, convDesc, yDesc));
    SIM_CUDNN_TRY(set_buffers(&call, x, w, y));
    SIM_CUDNN_TRY(rank(&call, true, workSpace, workSpace ? workSpaceSizeInBytes : 0, candidates));
    RETURN_RESULTS(SIM_FORWARD, cudnnConvolutionFwdAlgo_t, candidates, requestedAlgoCount,
                   returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_FORWARD, xDesc, wDesc, convDesc, yDesc));
    return workspace_size(&call, (int)algo, sizeInBytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t convDesc,
    cudnnConvolutionFwdAlgo_t algo, void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    const cudnnTensorDescriptor_t yDesc, void *y)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_FORWARD, xDesc, wDesc, convDesc, yDesc));
    SIM_CUDNN_TRY(set_scaling(&call, alpha, beta));
    SIM_CUDNN_TRY(set_buffers(&call, x, w, y));
    return execute(&call, (int)algo, workSpace, workSpaceSizeInBytes);
}

/* The bias must be 1 x k x 1 x 1; z has the dimensions of y and may be y. */
static cudnnStatus_t set_bias_activation(call_t *call, const struct cudnnTensorStruct *z_tensor,
                                         const void *z, const struct cudnnTensorStruct *bias_tensor,
                                         const void *bias,
                                         const struct cudnnActivationStruct *activation)
{
    const sim_conv_tensor_t *const y = &call->problem.y;
    SIM_CUDNN_REQUIRE(z_tensor && bias_tensor && bias && activation, CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(bias_tensor->dim_count >= 3 && bias_tensor->dims[1] == y->dims[1] &&
                          (int32_t)bias_tensor->type == y->type &&
                          sim_tensor_elements(bias_tensor->dim_count, bias_tensor->dims) ==
                              (uint64_t)y->dims[1],
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(activation->mode == CUDNN_ACTIVATION_RELU ||
                          activation->mode == CUDNN_ACTIVATION_IDENTITY,
                      CUDNN_STATUS_NOT_SUPPORTED);
    call->epilogue.has_bias = 1;
    call->epilogue.bias_stride = bias_tensor->strides[1];
    call->epilogue.activation = (int32_t)activation->mode;
    call->epilogue.coefficient = activation->coefficient;
    call->buffers.bias = bias;
    if (call->epilogue.beta == 0.0)
        return CUDNN_STATUS_SUCCESS;
    const int missing = SIM_CONV_DIMS - z_tensor->dim_count;
    SIM_CUDNN_REQUIRE(z && (missing == 0 || missing == 1) && (int32_t)z_tensor->type == y->type,
                      CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < SIM_CONV_DIMS; i++) {
        if (missing && i == 2)
            continue;
        const int from = i <= 1 ? i : i - missing;
        SIM_CUDNN_REQUIRE(z_tensor->dims[from] == y->dims[i], CUDNN_STATUS_BAD_PARAM);
        call->epilogue.addend.strides[i] = z_tensor->strides[from];
    }
    call->buffers.addend = z;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t convDesc,
    cudnnConvolutionFwdAlgo_t algo, void *workSpace, size_t workSpaceSizeInBytes,
    const void *alpha2, const cudnnTensorDescriptor_t zDesc, const void *z,
    const cudnnTensorDescriptor_t biasDesc, const void *bias,
    const cudnnActivationDescriptor_t activationDesc, const cudnnTensorDescriptor_t yDesc, void *y)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_FORWARD, xDesc, wDesc, convDesc, yDesc));
    SIM_CUDNN_TRY(set_scaling(&call, alpha1, alpha2));
    SIM_CUDNN_TRY(set_buffers(&call, x, w, y));
    SIM_CUDNN_TRY(set_bias_activation(&call, zDesc, z, biasDesc, bias, activationDesc));
    /* As the documentation says: without activation only the one algorithm is there. */
    SIM_CUDNN_REQUIRE(activationDesc->mode != CUDNN_ACTIVATION_IDENTITY ||
                          algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                      CUDNN_STATUS_NOT_SUPPORTED);
    return execute(&call, (int)algo, workSpace, workSpaceSizeInBytes);
}

/* Backward data -------------------------------------------------------------------------------- */

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle,
                                                                           int *count)
{
    MAX_COUNT(SIM_BACKWARD_DATA);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(
        describe(&call, handle, SIM_BACKWARD_DATA, gradDesc, filterDesc, convDesc, diffDesc));
    SIM_CUDNN_TRY(rank(&call, false, NULL, 0, candidates));
    RETURN_RESULTS(SIM_BACKWARD_DATA, cudnnConvolutionBwdDataAlgo_t, candidates, requestedAlgoCount,
                   returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_DATA, dxDesc, wDesc, convDesc, dyDesc));
    SIM_CUDNN_TRY(rank_on_own_memory(&call, candidates));
    RETURN_RESULTS(SIM_BACKWARD_DATA, cudnnConvolutionBwdDataAlgo_t, candidates, requestedAlgoCount,
                   returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnTensorDescriptor_t dyDesc, const void *dy,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc, void *dx,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t *perfResults, void *workSpace, size_t workSpaceSizeInBytes)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_DATA, dxDesc, wDesc, convDesc, dyDesc));
    SIM_CUDNN_TRY(set_buffers(&call, dx, w, dy));
    SIM_CUDNN_TRY(rank(&call, true, workSpace, workSpace ? workSpaceSizeInBytes : 0, candidates));
    RETURN_RESULTS(SIM_BACKWARD_DATA, cudnnConvolutionBwdDataAlgo_t, candidates, requestedAlgoCount,
                   returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *sizeInBytes)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_DATA, dxDesc, wDesc, convDesc, dyDesc));
    return workspace_size(&call, (int)algo, sizeInBytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnTensorDescriptor_t dyDesc, const void *dy,
    const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionBwdDataAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_DATA, dxDesc, wDesc, convDesc, dyDesc));
    SIM_CUDNN_TRY(set_scaling(&call, alpha, beta));
    SIM_CUDNN_TRY(set_buffers(&call, dx, w, dy));
    return execute(&call, (int)algo, workSpace, workSpaceSizeInBytes);
}

/* Backward filter ------------------------------------------------------------------------------ */

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle,
                                                                             int *count)
{
    MAX_COUNT(SIM_BACKWARD_FILTER);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(
        describe(&call, handle, SIM_BACKWARD_FILTER, srcDesc, gradDesc, convDesc, diffDesc));
    SIM_CUDNN_TRY(rank(&call, false, NULL, 0, candidates));
    RETURN_RESULTS(SIM_BACKWARD_FILTER, cudnnConvolutionBwdFilterAlgo_t, candidates,
                   requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_FILTER, xDesc, dwDesc, convDesc, dyDesc));
    SIM_CUDNN_TRY(rank_on_own_memory(&call, candidates));
    RETURN_RESULTS(SIM_BACKWARD_FILTER, cudnnConvolutionBwdFilterAlgo_t, candidates,
                   requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnTensorDescriptor_t dyDesc, const void *y,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc, void *dw,
    const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t *perfResults, void *workSpace, size_t workSpaceSizeInBytes)
{
    SIM_CUDNN_ENTRY();
    CHECK_RESULTS();
    call_t call;
    candidate_t candidates[RESULTS_MAX];
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_FILTER, xDesc, dwDesc, convDesc, dyDesc));
    SIM_CUDNN_TRY(set_buffers(&call, x, dw, y));
    SIM_CUDNN_TRY(rank(&call, true, workSpace, workSpace ? workSpaceSizeInBytes : 0, candidates));
    RETURN_RESULTS(SIM_BACKWARD_FILTER, cudnnConvolutionBwdFilterAlgo_t, candidates,
                   requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *sizeInBytes)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_FILTER, xDesc, gradDesc, convDesc, dyDesc));
    return workspace_size(&call, (int)algo, sizeInBytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnTensorDescriptor_t dyDesc, const void *dy,
    const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionBwdFilterAlgo_t algo,
    void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
    const cudnnFilterDescriptor_t dwDesc, void *dw)
{
    SIM_CUDNN_ENTRY();
    call_t call;
    SIM_CUDNN_TRY(describe(&call, handle, SIM_BACKWARD_FILTER, xDesc, dwDesc, convDesc, dyDesc));
    SIM_CUDNN_TRY(set_scaling(&call, alpha, beta));
    SIM_CUDNN_TRY(set_buffers(&call, x, dw, dy));
    return execute(&call, (int)algo, workSpace, workSpaceSizeInBytes);
}
