/* Convolutions through cuDNN's legacy interface, as Caffe and others run them. */
#include "convolution.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct legacy {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t filter;
    /* Of each direction its own, since the math type is part of it. */
    cudnnConvolutionDescriptor_t descriptors[DIRECTION_COUNT];
    int algorithms[DIRECTION_COUNT]; /* of cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t */
} legacy_t;

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
        [TYPE_BF16] = CUDNN_TENSOR_OP_MATH,
    };
    return math_types[type];
}

static void make_tensors(legacy_t *legacy, const convolution_shape_t *shape, cudnnDataType_t type,
                         cudnnTensorFormat_t format)
{
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&legacy->x));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(legacy->x, format, type, shape->n, shape->c, shape->h,
                                           shape->w));
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&legacy->y));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(legacy->y, format, type, shape->n, shape->k,
                                           shape->out_h, shape->out_w));
    CUDNN_CHECK(cudnnCreateFilterDescriptor(&legacy->filter));
    CUDNN_CHECK(cudnnSetFilter4dDescriptor(legacy->filter, type, format, shape->k, shape->c,
                                           shape->r, shape->s));
}

static void init(convolution_t *convolution)
{
    const convolution_shape_t *shape = &convolution->shape;
    legacy_t *legacy = calloc(1, sizeof *legacy);
    if (!legacy)
        fail("out of memory");
    convolution->state = legacy;
    make_tensors(legacy, shape, convolution_element_type(convolution->type),
                 convolution->layout == LAYOUT_NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW);
    for (int direction = 0; direction < DIRECTION_COUNT; direction++) {
        cudnnConvolutionDescriptor_t *descriptor = &legacy->descriptors[direction];
        CUDNN_CHECK(cudnnCreateConvolutionDescriptor(descriptor));
        CUDNN_CHECK(cudnnSetConvolution2dDescriptor(*descriptor, shape->pad_h, shape->pad_w,
                                                    shape->stride, shape->stride, 1, 1,
                                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
        CUDNN_CHECK(cudnnSetConvolutionMathType(*descriptor, asked_math_type(convolution->type)));
    }
}

static void fini(convolution_t *convolution)
{
    legacy_t *legacy = convolution->state;
    for (int direction = 0; direction < DIRECTION_COUNT; direction++)
        CUDNN_CHECK(cudnnDestroyConvolutionDescriptor(legacy->descriptors[direction]));
    CUDNN_CHECK(cudnnDestroyFilterDescriptor(legacy->filter));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(legacy->y));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(legacy->x));
    free(legacy);
}

/* The three result types of cuDNN have the same fields. What was not measured has no time. */
#define COPY_CANDIDATES(candidates, results, count, measured)                                      \
    for (int i_ = 0; i_ < (count); i_++)                                                           \
        (candidates)[i_] = (candidate_t)                                                           \
        {                                                                                          \
            (int)(results)[i_].algo, (results)[i_].status, (measured) ? (results)[i_].time : 0,    \
                (results)[i_].memory, (results)[i_].determinism, (results)[i_].mathType            \
        }

static int search_forward(gpu_t *gpu, const legacy_t *c, const convolution_operands_t *o,
                          buffer_t scratch, bool measure, candidate_t *candidates)
{
    cudnnConvolutionDescriptor_t descriptor = c->descriptors[FORWARD];
    cudnnConvolutionFwdAlgoPerf_t results[MAX_CANDIDATES];
    int count = 0;
    if (measure)
        CUDNN_CHECK(cudnnFindConvolutionForwardAlgorithmEx(
            gpu->cudnn, c->x, o->x, c->filter, o->filter, descriptor, c->y, o->y, MAX_CANDIDATES,
            &count, results, scratch.data, scratch.bytes));
    else
        CUDNN_CHECK(cudnnGetConvolutionForwardAlgorithm_v7(gpu->cudnn, c->x, c->filter, descriptor,
                                                           c->y, MAX_CANDIDATES, &count, results));
    COPY_CANDIDATES(candidates, results, count, measure);
    return count;
}

static int search_backward_data(gpu_t *gpu, const legacy_t *c, const convolution_operands_t *o,
                                buffer_t scratch, bool measure, candidate_t *candidates)
{
    cudnnConvolutionDescriptor_t descriptor = c->descriptors[BACKWARD_DATA];
    cudnnConvolutionBwdDataAlgoPerf_t results[MAX_CANDIDATES];
    int count = 0;
    if (measure)
        CUDNN_CHECK(cudnnFindConvolutionBackwardDataAlgorithmEx(
            gpu->cudnn, c->filter, o->filter, c->y, o->y, descriptor, c->x, o->x, MAX_CANDIDATES,
            &count, results, scratch.data, scratch.bytes));
    else
        CUDNN_CHECK(cudnnGetConvolutionBackwardDataAlgorithm_v7(
            gpu->cudnn, c->filter, c->y, descriptor, c->x, MAX_CANDIDATES, &count, results));
    COPY_CANDIDATES(candidates, results, count, measure);
    return count;
}

static int search_backward_filter(gpu_t *gpu, const legacy_t *c, const convolution_operands_t *o,
                                  buffer_t scratch, bool measure, candidate_t *candidates)
{
    cudnnConvolutionDescriptor_t descriptor = c->descriptors[BACKWARD_FILTER];
    cudnnConvolutionBwdFilterAlgoPerf_t results[MAX_CANDIDATES];
    int count = 0;
    if (measure)
        CUDNN_CHECK(cudnnFindConvolutionBackwardFilterAlgorithmEx(
            gpu->cudnn, c->x, o->x, c->y, o->y, descriptor, c->filter, o->filter, MAX_CANDIDATES,
            &count, results, scratch.data, scratch.bytes));
    else
        CUDNN_CHECK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            gpu->cudnn, c->x, c->y, descriptor, c->filter, MAX_CANDIDATES, &count, results));
    COPY_CANDIDATES(candidates, results, count, measure);
    return count;
}

static int search(gpu_t *gpu, const legacy_t *c, direction_t direction,
                  const convolution_operands_t *o, buffer_t scratch, bool measure,
                  candidate_t *candidates)
{
    switch (direction) {
    case FORWARD:
        return search_forward(gpu, c, o, scratch, measure, candidates);
    case BACKWARD_DATA:
        return search_backward_data(gpu, c, o, scratch, measure, candidates);
    default:
        return search_backward_filter(gpu, c, o, scratch, measure, candidates);
    }
}

/* What the algorithm needs with the math type that the descriptor has now; false if it cannot run.
 */
static bool query_workspace(gpu_t *gpu, const legacy_t *c, direction_t direction, int algorithm,
                            size_t *bytes)
{
    cudnnConvolutionDescriptor_t descriptor = c->descriptors[direction];
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

static const char *algorithm_name(direction_t direction, int algorithm)
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

static const char *math_type_name(cudnnMathType_t math_type)
{
    static const char *const names[] = {"default", "tensor_op", "tensor_op_allow_conversion",
                                        "fma"};
    return (unsigned)math_type < 4 ? names[math_type] : "unknown";
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
    legacy_t *legacy = convolution->state;
    convolution_choice_t *choice = &convolution->choices[direction];
    cudnnConvolutionDescriptor_t descriptor = legacy->descriptors[direction];
    cudnnMathType_t math_type = options->type == TYPE_FP32 ? CUDNN_FMA_MATH : candidate->math_type;
    CUDNN_CHECK(cudnnSetConvolutionMathType(descriptor, math_type));
    size_t bytes = 0;
    if (!query_workspace(gpu, legacy, direction, candidate->algorithm, &bytes)) {
        CUDNN_CHECK(cudnnSetConvolutionMathType(descriptor, asked_math_type(options->type)));
        return false;
    }
    /* The query knows no limit; the search has run the algorithm within it. */
    if (bytes > limit_bytes)
        bytes = candidate->workspace_bytes;
    legacy->algorithms[direction] = candidate->algorithm;
    choice->made = true;
    snprintf(choice->algorithm, sizeof choice->algorithm, "%s",
             algorithm_name(direction, candidate->algorithm));
    choice->math = math_type_name(math_type);
    choice->workspace_bytes = bytes;
    choice->search_ms = candidate->ms;
    return true;
}

/* Index of the fastest candidate that is not crossed out, or -1; of those without a time the first.
 */
static int fastest(const candidate_t *candidates, const bool *crossed_out, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!crossed_out[i] && candidates[i].status == CUDNN_STATUS_SUCCESS &&
            (best < 0 || candidates[i].ms < candidates[best].ms))
            best = i;
    return best;
}

static void choose(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                   const convolution_operands_t *operands, buffer_t scratch,
                   const arguments_t *options)
{
    candidate_t candidates[MAX_CANDIDATES];
    bool crossed_out[MAX_CANDIDATES] = {false};
    bool measure = options->search == SEARCH_EXHAUSTIVE;
    int count = 0;
    /* The first run of a kernel includes its loading, hence the last search counts. */
    for (int i = 0; i < (measure ? options->find_repeats : 1); i++)
        count = search(gpu, convolution->state, direction, operands, scratch, measure, candidates);
    for (int best; (best = fastest(candidates, crossed_out, count)) >= 0;) {
        if (try_candidate(gpu, convolution, direction, &candidates[best], scratch.bytes, options))
            return;
        crossed_out[best] = true;
    }
}

static cudnnStatus_t run(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                         const convolution_operands_t *o, buffer_t workspace)
{
    const legacy_t *c = convolution->state;
    const convolution_choice_t *choice = &convolution->choices[direction];
    cudnnConvolutionDescriptor_t descriptor = c->descriptors[direction];
    const float alpha = 1;
    int algorithm = c->algorithms[direction];
    switch (direction) {
    case FORWARD:
        return cudnnConvolutionForward(gpu->cudnn, &alpha, c->x, o->x, c->filter, o->filter,
                                       descriptor, (cudnnConvolutionFwdAlgo_t)algorithm,
                                       workspace.data, choice->workspace_bytes, &choice->beta, c->y,
                                       o->y);
    case BACKWARD_DATA:
        return cudnnConvolutionBackwardData(gpu->cudnn, &alpha, c->filter, o->filter, c->y, o->y,
                                            descriptor, (cudnnConvolutionBwdDataAlgo_t)algorithm,
                                            workspace.data, choice->workspace_bytes, &choice->beta,
                                            c->x, o->x);
    default:
        return cudnnConvolutionBackwardFilter(
            gpu->cudnn, &alpha, c->x, o->x, c->y, o->y, descriptor,
            (cudnnConvolutionBwdFilterAlgo_t)algorithm, workspace.data, choice->workspace_bytes,
            &choice->beta, c->filter, o->filter);
    }
}

const convolution_api_t convolution_legacy = {init, fini, choose, run};
