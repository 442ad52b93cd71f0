#include "convolution.h"

#include <stdio.h>

/* What a search says of one algorithm, alike for the three directions. */
typedef struct candidate {
    int algorithm;
    cudnnStatus_t status;
    float ms;
    size_t workspace_bytes;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math_type;
} candidate_t;

#define MAX_CANDIDATES 32

static cudnnMathType_t asked_math_type(data_type_t type)
{
    static const cudnnMathType_t math_types[] = {
        [TYPE_FP32] = CUDNN_FMA_MATH,
        [TYPE_TF32] = CUDNN_DEFAULT_MATH,
        [TYPE_FP16] = CUDNN_TENSOR_OP_MATH,
    };
    return math_types[type];
}

void convolution_init(convolution_t *convolution, const convolution_shape_t *shape,
                      data_type_t type, layout_t layout)
{
    *convolution = (convolution_t){.shape = *shape};
    cudnnDataType_t element = type == TYPE_FP16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    cudnnTensorFormat_t format = layout == LAYOUT_NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&convolution->x));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(convolution->x, format, element, shape->n, shape->c,
                                           shape->h, shape->w));
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&convolution->y));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(convolution->y, format, element, shape->n, shape->k,
                                           shape->out_h, shape->out_w));
    CUDNN_CHECK(cudnnCreateFilterDescriptor(&convolution->filter));
    CUDNN_CHECK(cudnnSetFilter4dDescriptor(convolution->filter, element, format, shape->k, shape->c,
                                           shape->r, shape->s));
    for (int direction = 0; direction < DIRECTION_COUNT; direction++) {
        convolution_choice_t *choice = &convolution->choices[direction];
        CUDNN_CHECK(cudnnCreateConvolutionDescriptor(&choice->descriptor));
        CUDNN_CHECK(cudnnSetConvolution2dDescriptor(choice->descriptor, shape->pad_h, shape->pad_w,
                                                    shape->stride, shape->stride, 1, 1,
                                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
        CUDNN_CHECK(cudnnSetConvolutionMathType(choice->descriptor, asked_math_type(type)));
    }
}

void convolution_fini(gpu_t *gpu, convolution_t *convolution)
{
    gpu_free(gpu, &convolution->workspace);
    for (int direction = 0; direction < DIRECTION_COUNT; direction++)
        CUDNN_CHECK(cudnnDestroyConvolutionDescriptor(convolution->choices[direction].descriptor));
    CUDNN_CHECK(cudnnDestroyFilterDescriptor(convolution->filter));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(convolution->y));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(convolution->x));
}

/* The three result types of cuDNN have the same fields. */
#define COPY_CANDIDATES(candidates, results, count)                                                \
    for (int i_ = 0; i_ < (count); i_++)                                                           \
        (candidates)[i_] = (candidate_t)                                                           \
        {                                                                                          \
            (int)(results)[i_].algo, (results)[i_].status, (results)[i_].time,                     \
                (results)[i_].memory, (results)[i_].determinism, (results)[i_].mathType            \
        }

static int search_forward(gpu_t *gpu, const convolution_t *c, const convolution_operands_t *o,
                          buffer_t scratch, candidate_t *candidates)
{
    cudnnConvolutionFwdAlgoPerf_t results[MAX_CANDIDATES];
    int count = 0;
    CUDNN_CHECK(cudnnFindConvolutionForwardAlgorithmEx(
        gpu->cudnn, c->x, o->x, c->filter, o->filter, c->choices[FORWARD].descriptor, c->y, o->y,
        MAX_CANDIDATES, &count, results, scratch.data, scratch.bytes));
    COPY_CANDIDATES(candidates, results, count);
    return count;
}

static int search_backward_data(gpu_t *gpu, const convolution_t *c, const convolution_operands_t *o,
                                buffer_t scratch, candidate_t *candidates)
{
    cudnnConvolutionBwdDataAlgoPerf_t results[MAX_CANDIDATES];
    int count = 0;
    CUDNN_CHECK(cudnnFindConvolutionBackwardDataAlgorithmEx(
        gpu->cudnn, c->filter, o->filter, c->y, o->y, c->choices[BACKWARD_DATA].descriptor, c->x,
        o->x, MAX_CANDIDATES, &count, results, scratch.data, scratch.bytes));
    COPY_CANDIDATES(candidates, results, count);
    return count;
}

static int search_backward_filter(gpu_t *gpu, const convolution_t *c,
                                  const convolution_operands_t *o, buffer_t scratch,
                                  candidate_t *candidates)
{
    cudnnConvolutionBwdFilterAlgoPerf_t results[MAX_CANDIDATES];
    int count = 0;
    CUDNN_CHECK(cudnnFindConvolutionBackwardFilterAlgorithmEx(
        gpu->cudnn, c->x, o->x, c->y, o->y, c->choices[BACKWARD_FILTER].descriptor, c->filter,
        o->filter, MAX_CANDIDATES, &count, results, scratch.data, scratch.bytes));
    COPY_CANDIDATES(candidates, results, count);
    return count;
}

static int search(gpu_t *gpu, const convolution_t *c, direction_t direction,
                  const convolution_operands_t *o, buffer_t scratch, candidate_t *candidates)
{
    switch (direction) {
    case FORWARD:
        return search_forward(gpu, c, o, scratch, candidates);
    case BACKWARD_DATA:
        return search_backward_data(gpu, c, o, scratch, candidates);
    default:
        return search_backward_filter(gpu, c, o, scratch, candidates);
    }
}

/* What the algorithm needs with the math type that the descriptor has now; false if it cannot run.
 */
static bool query_workspace(gpu_t *gpu, const convolution_t *c, direction_t direction,
                            int algorithm, size_t *bytes)
{
    cudnnConvolutionDescriptor_t descriptor = c->choices[direction].descriptor;
    switch (direction) {
    case FORWARD:
        return cudnnGetConvolutionForwardWorkspaceSize(gpu->cudnn, c->x, c->filter, descriptor,
                                                       c->y, (cudnnConvolutionFwdAlgo_t)algorithm,
                                                       bytes) == CUDNN_STATUS_SUCCESS;
    case BACKWARD_DATA:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
                   gpu->cudnn, c->filter, c->y, descriptor, c->x,
                   (cudnnConvolutionBwdDataAlgo_t)algorithm, bytes) == CUDNN_STATUS_SUCCESS;
    default:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(
                   gpu->cudnn, c->x, c->y, descriptor, c->filter,
                   (cudnnConvolutionBwdFilterAlgo_t)algorithm, bytes) == CUDNN_STATUS_SUCCESS;
    }
}

/* Makes `candidate` the choice if it may be one and fits in `limit_bytes`. In fp32 the
 * descriptor keeps FMA whatever the search reports, so that no tensor core creeps in. */
static bool try_candidate(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                          const candidate_t *candidate, size_t limit_bytes,
                          const arguments_t *options)
{
    if (candidate->status != CUDNN_STATUS_SUCCESS || candidate->workspace_bytes > limit_bytes)
        return false;
    if (options->deterministic && candidate->determinism != CUDNN_DETERMINISTIC)
        return false;
    convolution_choice_t *choice = &convolution->choices[direction];
    cudnnMathType_t math_type = options->type == TYPE_FP32 ? CUDNN_FMA_MATH : candidate->math_type;
    CUDNN_CHECK(cudnnSetConvolutionMathType(choice->descriptor, math_type));
    size_t bytes = 0;
    if (!query_workspace(gpu, convolution, direction, candidate->algorithm, &bytes)) {
        CUDNN_CHECK(
            cudnnSetConvolutionMathType(choice->descriptor, asked_math_type(options->type)));
        return false;
    }
    /* The query knows no limit; the search has run the algorithm within it. */
    if (bytes > limit_bytes)
        bytes = candidate->workspace_bytes;
    choice->made = true;
    choice->algorithm = candidate->algorithm;
    choice->math_type = math_type;
    choice->workspace_bytes = bytes;
    choice->search_ms = candidate->ms;
    return true;
}

/* Index of the fastest candidate that is not crossed out, or -1. */
static int fastest(const candidate_t *candidates, const bool *crossed_out, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!crossed_out[i] && candidates[i].status == CUDNN_STATUS_SUCCESS &&
            (best < 0 || candidates[i].ms < candidates[best].ms))
            best = i;
    return best;
}

void convolution_choose(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                        const convolution_operands_t *operands, buffer_t scratch,
                        const arguments_t *options)
{
    candidate_t candidates[MAX_CANDIDATES];
    bool crossed_out[MAX_CANDIDATES] = {false};
    int count = 0;
    /* The first run of a kernel includes its loading, hence the last search counts. */
    for (int i = 0; i < options->find_repeats; i++)
        count = search(gpu, convolution, direction, operands, scratch, candidates);
    for (int best; (best = fastest(candidates, crossed_out, count)) >= 0;) {
        if (try_candidate(gpu, convolution, direction, &candidates[best], scratch.bytes, options))
            return;
        crossed_out[best] = true;
    }
    fail("%s: no algorithm can run %s in %zu bytes of workspace", current_activity(),
         direction_name(direction), scratch.bytes);
}

void convolution_run(gpu_t *gpu, const convolution_t *c, direction_t direction,
                     const convolution_operands_t *o, buffer_t workspace, float beta)
{
    const convolution_choice_t *choice = &c->choices[direction];
    const float alpha = 1;
    switch (direction) {
    case FORWARD:
        CUDNN_CHECK(cudnnConvolutionForward(
            gpu->cudnn, &alpha, c->x, o->x, c->filter, o->filter, choice->descriptor,
            (cudnnConvolutionFwdAlgo_t)choice->algorithm, workspace.data, choice->workspace_bytes,
            &beta, c->y, o->y));
        break;
    case BACKWARD_DATA:
        CUDNN_CHECK(cudnnConvolutionBackwardData(
            gpu->cudnn, &alpha, c->filter, o->filter, c->y, o->y, choice->descriptor,
            (cudnnConvolutionBwdDataAlgo_t)choice->algorithm, workspace.data,
            choice->workspace_bytes, &beta, c->x, o->x));
        break;
    default:
        CUDNN_CHECK(cudnnConvolutionBackwardFilter(
            gpu->cudnn, &alpha, c->x, o->x, c->y, o->y, choice->descriptor,
            (cudnnConvolutionBwdFilterAlgo_t)choice->algorithm, workspace.data,
            choice->workspace_bytes, &beta, c->filter, o->filter));
        break;
    }
}

const char *direction_name(direction_t direction)
{
    static const char *const names[] = {"forward", "backward_data", "backward_filter"};
    return names[direction];
}

const char *algorithm_name(direction_t direction, int algorithm)
{
    static const char *const names[DIRECTION_COUNT][8] = {
        {"IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING",
         "WINOGRAD", "WINOGRAD_NONFUSED"},
        {"0", "1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"},
        {"0", "1", "FFT", "3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"},
    };
    bool known = algorithm >= 0 && algorithm < 8 && names[direction][algorithm];
    return known ? names[direction][algorithm] : "unknown";
}

const char *math_type_name(cudnnMathType_t math_type)
{
    static const char *const names[] = {"default", "tensor_op", "tensor_op_allow_conversion",
                                        "fma"};
    return (unsigned)math_type < 4 ? names[math_type] : "unknown";
}
