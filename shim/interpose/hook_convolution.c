/* The legacy convolution API: running, choosing, sizing. */
#include <stddef.h>

#include "config/statistics.h"
#include "shim/convolution/reply.h"
#include "shim/interpose/hooks.h"
#include "shim/convolution/execute.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/workspace_sizes.h"

/* The three result types are handled as one (shim/convolution/reply.h). */
#define SAME_LAYOUT(type)                                                                          \
    _Static_assert(sizeof(type) == sizeof(mdnn_algo_perf_t) &&                                     \
                       offsetof(type, algo) == offsetof(mdnn_algo_perf_t, algo) &&                 \
                       offsetof(type, status) == offsetof(mdnn_algo_perf_t, status) &&             \
                       offsetof(type, time) == offsetof(mdnn_algo_perf_t, time) &&                 \
                       offsetof(type, memory) == offsetof(mdnn_algo_perf_t, memory) &&             \
                       offsetof(type, determinism) == offsetof(mdnn_algo_perf_t, determinism) &&   \
                       offsetof(type, mathType) == offsetof(mdnn_algo_perf_t, mathType),           \
                   #type " differs")
SAME_LAYOUT(cudnnConvolutionBwdDataAlgoPerf_t);
SAME_LAYOUT(cudnnConvolutionBwdFilterAlgoPerf_t);

/* The guard is held. Calls that pass do not come here: they need not pay for a mdnn_call_t. */
static cudnnStatus_t run(mdnn_call_t *call, mdnn_counter_t counter)
{
    mdnn_count(counter, 1);
    mdnn_workspace_over();
    mdnn_convolution_fit(call);
    mdnn_announce_convolution(call);
    const cudnnStatus_t status = mdnn_convolution_run(call);
    mdnn_announce_convolution_over();
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnConvolutionForward(mdnn_library_t library, cudnnHandle_t handle,
                                                const void *alpha,
                                                const cudnnTensorDescriptor_t x_desc, const void *x,
                                                const cudnnFilterDescriptor_t w_desc, const void *w,
                                                const cudnnConvolutionDescriptor_t conv_desc,
                                                cudnnConvolutionFwdAlgo_t algo, void *workspace,
                                                size_t workspace_bytes, const void *beta,
                                                const cudnnTensorDescriptor_t y_desc, void *y)
{
    REAL_OR_FAIL(real, library, cudnnConvolutionForward);
    if (!mdnn_guard_enter())
        return real->cudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, conv_desc, algo,
                                             workspace, workspace_bytes, beta, y_desc, y);
    mdnn_call_t call = {.cudnn = real,
                        .direction = MDNN_FORWARD,
                        .handle = handle,
                        .alpha = alpha,
                        .beta = beta,
                        .x_desc = x_desc,
                        .y_desc = y_desc,
                        .w_desc = w_desc,
                        .conv_desc = conv_desc,
                        .x = (void *)(uintptr_t)x,
                        .w = (void *)(uintptr_t)w,
                        .y = y,
                        .algo = (int)algo,
                        .workspace = workspace,
                        .workspace_bytes = workspace_bytes};
    return run(&call, MDNN_COUNTER_calls_forward);
}

cudnnStatus_t mdnn_hook_cudnnConvolutionBackwardData(
    mdnn_library_t library, cudnnHandle_t handle, const void *alpha,
    const cudnnFilterDescriptor_t w_desc, const void *w, const cudnnTensorDescriptor_t y_desc,
    const void *y, const cudnnConvolutionDescriptor_t conv_desc, cudnnConvolutionBwdDataAlgo_t algo,
    void *workspace, size_t workspace_bytes, const void *beta, const cudnnTensorDescriptor_t x_desc,
    void *x)
{
    REAL_OR_FAIL(real, library, cudnnConvolutionBackwardData);
    if (!mdnn_guard_enter())
        return real->cudnnConvolutionBackwardData(handle, alpha, w_desc, w, y_desc, y, conv_desc,
                                                  algo, workspace, workspace_bytes, beta, x_desc,
                                                  x);
    mdnn_call_t call = {.cudnn = real,
                        .direction = MDNN_BACKWARD_DATA,
                        .handle = handle,
                        .alpha = alpha,
                        .beta = beta,
                        .x_desc = x_desc,
                        .y_desc = y_desc,
                        .w_desc = w_desc,
                        .conv_desc = conv_desc,
                        .x = x,
                        .w = (void *)(uintptr_t)w,
                        .y = (void *)(uintptr_t)y,
                        .algo = (int)algo,
                        .workspace = workspace,
                        .workspace_bytes = workspace_bytes};
    return run(&call, MDNN_COUNTER_calls_backward_data);
}

cudnnStatus_t mdnn_hook_cudnnConvolutionBackwardFilter(
    mdnn_library_t library, cudnnHandle_t handle, const void *alpha,
    const cudnnTensorDescriptor_t x_desc, const void *x, const cudnnTensorDescriptor_t y_desc,
    const void *y, const cudnnConvolutionDescriptor_t conv_desc,
    cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta,
    const cudnnFilterDescriptor_t w_desc, void *w)
{
    REAL_OR_FAIL(real, library, cudnnConvolutionBackwardFilter);
    if (!mdnn_guard_enter())
        return real->cudnnConvolutionBackwardFilter(handle, alpha, x_desc, x, y_desc, y, conv_desc,
                                                    algo, workspace, workspace_bytes, beta, w_desc,
                                                    w);
    mdnn_call_t call = {.cudnn = real,
                        .direction = MDNN_BACKWARD_FILTER,
                        .handle = handle,
                        .alpha = alpha,
                        .beta = beta,
                        .x_desc = x_desc,
                        .y_desc = y_desc,
                        .w_desc = w_desc,
                        .conv_desc = conv_desc,
                        .x = (void *)(uintptr_t)x,
                        .w = w,
                        .y = (void *)(uintptr_t)y,
                        .algo = (int)algo,
                        .workspace = workspace,
                        .workspace_bytes = workspace_bytes};
    return run(&call, MDNN_COUNTER_calls_backward_filter);
}

cudnnStatus_t mdnn_hook_cudnnConvolutionBiasActivationForward(
    mdnn_library_t library, cudnnHandle_t handle, const void *alpha1,
    const cudnnTensorDescriptor_t x_desc, const void *x, const cudnnFilterDescriptor_t w_desc,
    const void *w, const cudnnConvolutionDescriptor_t conv_desc, cudnnConvolutionFwdAlgo_t algo,
    void *workspace, size_t workspace_bytes, const void *alpha2,
    const cudnnTensorDescriptor_t z_desc, const void *z, const cudnnTensorDescriptor_t bias_desc,
    const void *bias, const cudnnActivationDescriptor_t activation_desc,
    const cudnnTensorDescriptor_t y_desc, void *y)
{
    REAL_OR_FAIL(real, library, cudnnConvolutionBiasActivationForward);
    if (!mdnn_guard_enter())
        return real->cudnnConvolutionBiasActivationForward(
            handle, alpha1, x_desc, x, w_desc, w, conv_desc, algo, workspace, workspace_bytes,
            alpha2, z_desc, z, bias_desc, bias, activation_desc, y_desc, y);
    mdnn_call_t call = {.cudnn = real,
                        .direction = MDNN_BIAS_ACTIVATION_FORWARD,
                        .handle = handle,
                        .alpha = alpha1,
                        .beta = alpha2,
                        .x_desc = x_desc,
                        .y_desc = y_desc,
                        .z_desc = z_desc,
                        .bias_desc = bias_desc,
                        .w_desc = w_desc,
                        .conv_desc = conv_desc,
                        .activation_desc = activation_desc,
                        .x = (void *)(uintptr_t)x,
                        .w = (void *)(uintptr_t)w,
                        .y = y,
                        .z = (void *)(uintptr_t)z,
                        .bias = (void *)(uintptr_t)bias,
                        .algo = (int)algo,
                        .workspace = workspace,
                        .workspace_bytes = workspace_bytes};
    return run(&call, MDNN_COUNTER_calls_bias_activation);
}

/* A question about a convolution; data pointers only where the host gave them. */
static mdnn_call_t question(const mdnn_cudnn_t *real, mdnn_direction_t direction,
                            cudnnHandle_t handle, cudnnTensorDescriptor_t x_desc,
                            cudnnFilterDescriptor_t w_desc, cudnnTensorDescriptor_t y_desc,
                            cudnnConvolutionDescriptor_t conv_desc)
{
    return (mdnn_call_t){.cudnn = real,
                         .direction = direction,
                         .handle = handle,
                         .x_desc = x_desc,
                         .y_desc = y_desc,
                         .w_desc = w_desc,
                         .conv_desc = conv_desc};
}

/* The thread will soon allocate what the answer reports. The descriptors are read only under a
 * budget. */
static const mdnn_problem_t *problem_of(const mdnn_call_t *call, mdnn_problem_t *problem)
{
    return mdnn_virtual_on() && mdnn_call_problem(call, problem) == MDNN_STATUS_OK ? problem : NULL;
}

static void note_algorithms(const mdnn_call_t *call, const int *returned,
                            const mdnn_algo_perf_t *results)
{
    mdnn_problem_t problem;
    mdnn_workspace_note_algorithms(returned, results, problem_of(call, &problem));
}

/* What a search is given to run in, which fails where it cannot be used beside the operands: then it is
 * one without. */
static void bring_workspace(mdnn_call_t *call, void **workspace, size_t *workspace_bytes)
{
    call->workspace = *workspace;
    if (mdnn_virtual_on() && !mdnn_convolution_fits(call)) {
        *workspace = NULL;
        *workspace_bytes = 0;
    }
    call->workspace = NULL;
}

/* `stock` calls the real function; the answer is then corrected to what will run. The guard is held
 * over both: cuDNN's Find runs convolutions of its own. */
#define ANSWER(counter, stock, call, limit_bytes, requested, returned, results)                    \
    do {                                                                                           \
        if (!mdnn_guard_enter())                                                                   \
            return stock;                                                                          \
        mdnn_count(counter, 1);                                                                    \
        const cudnnStatus_t status = stock;                                                        \
        if (status == CUDNN_STATUS_SUCCESS)                                                        \
            mdnn_reply_algorithms(&(call), limit_bytes, requested, returned,                       \
                                  (mdnn_algo_perf_t *)(void *)(results));                          \
        if (status == CUDNN_STATUS_SUCCESS)                                                        \
            note_algorithms(&(call), returned, (mdnn_algo_perf_t *)(void *)(results));             \
        mdnn_guard_leave();                                                                        \
        return status;                                                                             \
    } while (0)

#define CHOOSE_HOOKS(title, direction, perf_t, PARAMS, ARGS)                                       \
    cudnnStatus_t mdnn_hook_cudnnGetConvolution##title##Algorithm_v7(                              \
        mdnn_library_t library, cudnnHandle_t handle, PARAMS, const int requested, int *returned,  \
        perf_t *results)                                                                           \
    {                                                                                              \
        REAL_OR_FAIL(real, library, cudnnGetConvolution##title##Algorithm_v7);                     \
        const mdnn_call_t call =                                                                   \
            question(real, direction, handle, x_desc, w_desc, y_desc, conv_desc);                  \
        ANSWER(MDNN_COUNTER_calls_get_algorithm,                                                   \
               real->cudnnGetConvolution##title##Algorithm_v7(handle, ARGS, requested, returned,   \
                                                              results),                            \
               call, UINT64_MAX, requested, returned, results);                                    \
    }                                                                                              \
    cudnnStatus_t mdnn_hook_cudnnFindConvolution##title##Algorithm(                                \
        mdnn_library_t library, cudnnHandle_t handle, PARAMS, const int requested, int *returned,  \
        perf_t *results)                                                                           \
    {                                                                                              \
        REAL_OR_FAIL(real, library, cudnnFindConvolution##title##Algorithm);                       \
        const mdnn_call_t call =                                                                   \
            question(real, direction, handle, x_desc, w_desc, y_desc, conv_desc);                  \
        ANSWER(MDNN_COUNTER_calls_find_algorithm,                                                  \
               real->cudnnFindConvolution##title##Algorithm(handle, ARGS, requested, returned,     \
                                                            results),                              \
               call, UINT64_MAX, requested, returned, results);                                    \
    }                                                                                              \
    cudnnStatus_t mdnn_hook_cudnnGetConvolution##title##AlgorithmMaxCount(                         \
        mdnn_library_t library, cudnnHandle_t handle, int *count)                                  \
    {                                                                                              \
        REAL_OR_FAIL(real, library, cudnnGetConvolution##title##AlgorithmMaxCount);                \
        return real->cudnnGetConvolution##title##AlgorithmMaxCount(handle, count);                 \
    }

#define LIST(...) __VA_ARGS__
CHOOSE_HOOKS(Forward, MDNN_FORWARD, cudnnConvolutionFwdAlgoPerf_t,
             LIST(const cudnnTensorDescriptor_t x_desc, const cudnnFilterDescriptor_t w_desc,
                  const cudnnConvolutionDescriptor_t conv_desc,
                  const cudnnTensorDescriptor_t y_desc),
             LIST(x_desc, w_desc, conv_desc, y_desc))
CHOOSE_HOOKS(BackwardData, MDNN_BACKWARD_DATA, cudnnConvolutionBwdDataAlgoPerf_t,
             LIST(const cudnnFilterDescriptor_t w_desc, const cudnnTensorDescriptor_t y_desc,
                  const cudnnConvolutionDescriptor_t conv_desc,
                  const cudnnTensorDescriptor_t x_desc),
             LIST(w_desc, y_desc, conv_desc, x_desc))
CHOOSE_HOOKS(BackwardFilter, MDNN_BACKWARD_FILTER, cudnnConvolutionBwdFilterAlgoPerf_t,
             LIST(const cudnnTensorDescriptor_t x_desc, const cudnnTensorDescriptor_t y_desc,
                  const cudnnConvolutionDescriptor_t conv_desc,
                  const cudnnFilterDescriptor_t w_desc),
             LIST(x_desc, y_desc, conv_desc, w_desc))

cudnnStatus_t mdnn_hook_cudnnFindConvolutionForwardAlgorithmEx(
    mdnn_library_t library, cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc,
    const void *x, const cudnnFilterDescriptor_t w_desc, const void *w,
    const cudnnConvolutionDescriptor_t conv_desc, const cudnnTensorDescriptor_t y_desc, void *y,
    const int requested, int *returned, cudnnConvolutionFwdAlgoPerf_t *results, void *workspace,
    size_t workspace_bytes)
{
    REAL_OR_FAIL(real, library, cudnnFindConvolutionForwardAlgorithmEx);
    mdnn_call_t call = question(real, MDNN_FORWARD, handle, x_desc, w_desc, y_desc, conv_desc);
    call.x = (void *)(uintptr_t)x;
    call.w = (void *)(uintptr_t)w;
    call.y = y;
    bring_workspace(&call, &workspace, &workspace_bytes);
    ANSWER(MDNN_COUNTER_calls_find_algorithm,
           real->cudnnFindConvolutionForwardAlgorithmEx(handle, x_desc, x, w_desc, w, conv_desc,
                                                        y_desc, y, requested, returned, results,
                                                        workspace, workspace_bytes),
           call, workspace ? workspace_bytes : 0, requested, returned, results);
}

cudnnStatus_t mdnn_hook_cudnnFindConvolutionBackwardDataAlgorithmEx(
    mdnn_library_t library, cudnnHandle_t handle, const cudnnFilterDescriptor_t w_desc,
    const void *w, const cudnnTensorDescriptor_t y_desc, const void *y,
    const cudnnConvolutionDescriptor_t conv_desc, const cudnnTensorDescriptor_t x_desc, void *x,
    const int requested, int *returned, cudnnConvolutionBwdDataAlgoPerf_t *results, void *workspace,
    size_t workspace_bytes)
{
    REAL_OR_FAIL(real, library, cudnnFindConvolutionBackwardDataAlgorithmEx);
    mdnn_call_t call =
        question(real, MDNN_BACKWARD_DATA, handle, x_desc, w_desc, y_desc, conv_desc);
    call.x = x;
    call.w = (void *)(uintptr_t)w;
    call.y = (void *)(uintptr_t)y;
    bring_workspace(&call, &workspace, &workspace_bytes);
    ANSWER(MDNN_COUNTER_calls_find_algorithm,
           real->cudnnFindConvolutionBackwardDataAlgorithmEx(
               handle, w_desc, w, y_desc, y, conv_desc, x_desc, x, requested, returned, results,
               workspace, workspace_bytes),
           call, workspace ? workspace_bytes : 0, requested, returned, results);
}

cudnnStatus_t mdnn_hook_cudnnFindConvolutionBackwardFilterAlgorithmEx(
    mdnn_library_t library, cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc,
    const void *x, const cudnnTensorDescriptor_t y_desc, const void *y,
    const cudnnConvolutionDescriptor_t conv_desc, const cudnnFilterDescriptor_t w_desc, void *w,
    const int requested, int *returned, cudnnConvolutionBwdFilterAlgoPerf_t *results,
    void *workspace, size_t workspace_bytes)
{
    REAL_OR_FAIL(real, library, cudnnFindConvolutionBackwardFilterAlgorithmEx);
    mdnn_call_t call =
        question(real, MDNN_BACKWARD_FILTER, handle, x_desc, w_desc, y_desc, conv_desc);
    call.x = (void *)(uintptr_t)x;
    call.w = w;
    call.y = (void *)(uintptr_t)y;
    bring_workspace(&call, &workspace, &workspace_bytes);
    ANSWER(MDNN_COUNTER_calls_find_algorithm,
           real->cudnnFindConvolutionBackwardFilterAlgorithmEx(
               handle, x_desc, x, y_desc, y, conv_desc, w_desc, w, requested, returned, results,
               workspace, workspace_bytes),
           call, workspace ? workspace_bytes : 0, requested, returned, results);
}

/* Stock's answer first, then the truth about what will run. An algorithm that cuDNN cannot run on the
 * whole batch may be one that we announced for its parts. */
static cudnnStatus_t size_workspace(mdnn_call_t *call, size_t *bytes)
{
    mdnn_count(MDNN_COUNTER_calls_workspace_size, 1);
    size_t stock_bytes = 0;
    mdnn_problem_t problem;
    cudnnStatus_t status = mdnn_call_workspace(call, &stock_bytes);
    uint64_t answer;
    if (mdnn_reply_workspace(call, status == CUDNN_STATUS_SUCCESS ? stock_bytes : UINT64_MAX,
                             &answer)) {
        status = CUDNN_STATUS_SUCCESS;
        stock_bytes = answer;
    }
    if (status == CUDNN_STATUS_SUCCESS)
        mdnn_workspace_note(*bytes = stock_bytes, problem_of(call, &problem));
    mdnn_guard_leave();
    return status;
}

cudnnStatus_t mdnn_hook_cudnnGetConvolutionForwardWorkspaceSize(
    mdnn_library_t library, cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc,
    const cudnnFilterDescriptor_t w_desc, const cudnnConvolutionDescriptor_t conv_desc,
    const cudnnTensorDescriptor_t y_desc, cudnnConvolutionFwdAlgo_t algo, size_t *bytes)
{
    REAL_OR_FAIL(real, library, cudnnGetConvolutionForwardWorkspaceSize);
    if (!bytes || !mdnn_guard_enter())
        return real->cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv_desc,
                                                             y_desc, algo, bytes);
    mdnn_call_t call = question(real, MDNN_FORWARD, handle, x_desc, w_desc, y_desc, conv_desc);
    call.algo = (int)algo;
    return size_workspace(&call, bytes);
}

cudnnStatus_t mdnn_hook_cudnnGetConvolutionBackwardDataWorkspaceSize(
    mdnn_library_t library, cudnnHandle_t handle, const cudnnFilterDescriptor_t w_desc,
    const cudnnTensorDescriptor_t y_desc, const cudnnConvolutionDescriptor_t conv_desc,
    const cudnnTensorDescriptor_t x_desc, cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)
{
    REAL_OR_FAIL(real, library, cudnnGetConvolutionBackwardDataWorkspaceSize);
    if (!bytes || !mdnn_guard_enter())
        return real->cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w_desc, y_desc, conv_desc,
                                                                  x_desc, algo, bytes);
    mdnn_call_t call =
        question(real, MDNN_BACKWARD_DATA, handle, x_desc, w_desc, y_desc, conv_desc);
    call.algo = (int)algo;
    return size_workspace(&call, bytes);
}

cudnnStatus_t mdnn_hook_cudnnGetConvolutionBackwardFilterWorkspaceSize(
    mdnn_library_t library, cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc,
    const cudnnTensorDescriptor_t y_desc, const cudnnConvolutionDescriptor_t conv_desc,
    const cudnnFilterDescriptor_t w_desc, cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
    REAL_OR_FAIL(real, library, cudnnGetConvolutionBackwardFilterWorkspaceSize);
    if (!bytes || !mdnn_guard_enter())
        return real->cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x_desc, y_desc,
                                                                    conv_desc, w_desc, algo, bytes);
    mdnn_call_t call =
        question(real, MDNN_BACKWARD_FILTER, handle, x_desc, w_desc, y_desc, conv_desc);
    call.algo = (int)algo;
    return size_workspace(&call, bytes);
}
