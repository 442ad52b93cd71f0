/* A program whose requests for memory are refused, and that goes on or ends: refusals WHAT BYTES.
 *
 *   workspace   each workspace that cuDNN names for a convolution; it goes on with the algorithm that needs none
 *   without     BYTES, without which it goes on
 *   needed      BYTES, without which it ends
 *   endless     as much as a number can say, 20 times, without which it goes on
 *
 * It runs a convolution before and after. Knows nothing of microdnn. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "test/clients/bail.h"

enum { IMAGES = 64, CHANNELS = 8, SIDE = 48, FILTER = 3, ALGORITHMS = 8, AFTERWARDS = 150 };

typedef struct convolution {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t tensor;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t descriptor;
    void *x, *y, *w;
} convolution_t;

static void make(convolution_t *made)
{
    const size_t tensor_bytes = (size_t)IMAGES * CHANNELS * SIDE * SIDE * 4;
    CUDNN(cudnnCreate(&made->handle));
    CUDNN(cudnnCreateTensorDescriptor(&made->tensor));
    CUDNN(cudnnSetTensor4dDescriptor(made->tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, IMAGES,
                                     CHANNELS, SIDE, SIDE));
    CUDNN(cudnnCreateFilterDescriptor(&made->filter));
    CUDNN(cudnnSetFilter4dDescriptor(made->filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, CHANNELS,
                                     CHANNELS, FILTER, FILTER));
    CUDNN(cudnnCreateConvolutionDescriptor(&made->descriptor));
    CUDNN(cudnnSetConvolution2dDescriptor(made->descriptor, 1, 1, 1, 1, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CUDA(cudaMalloc(&made->x, tensor_bytes));
    CUDA(cudaMalloc(&made->y, tensor_bytes));
    CUDA(cudaMalloc(&made->w, (size_t)CHANNELS * CHANNELS * FILTER * FILTER * 4));
    CUDA(cudaMemset(made->x, 0, tensor_bytes));
}

static void destroy(const convolution_t *made)
{
    CUDA(cudaFree(made->x));
    CUDA(cudaFree(made->y));
    CUDA(cudaFree(made->w));
    CUDNN(cudnnDestroyConvolutionDescriptor(made->descriptor));
    CUDNN(cudnnDestroyFilterDescriptor(made->filter));
    CUDNN(cudnnDestroyTensorDescriptor(made->tensor));
    CUDNN(cudnnDestroy(made->handle));
}

static void run(const convolution_t *made, cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                size_t workspace_bytes)
{
    const float one = 1, zero = 0;
    CUDNN(cudnnConvolutionForward(made->handle, &one, made->tensor, made->x, made->filter, made->w,
                                  made->descriptor, algorithm, workspace, workspace_bytes, &zero,
                                  made->tensor, made->y));
}

/* As frameworks do that search for an algorithm. */
static void try_workspaces(const convolution_t *made)
{
    cudnnConvolutionFwdAlgoPerf_t found[ALGORITHMS];
    int count = 0, refused = 0;
    CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(made->handle, made->tensor, made->filter,
                                                 made->descriptor, made->tensor, ALGORITHMS, &count,
                                                 found));
    for (int i = 0; i < count; i++) {
        void *workspace = NULL;
        if (found[i].status != CUDNN_STATUS_SUCCESS || found[i].memory == 0)
            continue;
        if (cudaMalloc(&workspace, found[i].memory) != cudaSuccess) {
            (void)cudaGetLastError();
            refused++;
            continue;
        }
        CUDA(cudaFree(workspace));
    }
    printf("%d workspaces refused\n", refused);
    if (refused == 0)
        BAIL("each workspace was to be had");
}

static void ask_for_too_much(void)
{
    enum { TIMES = 20 };
    void *memory;
    for (int i = 0; i < TIMES; i++)
        if (cudaMalloc(&memory, SIZE_MAX) != cudaErrorMemoryAllocation)
            BAIL("more than there are addresses");
}

int main(int argc, char **argv)
{
    const size_t bytes = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : 0;
    const char *const what = argc > 1 ? argv[1] : "";
    convolution_t convolution;
    void *memory = NULL;
    make(&convolution);
    run(&convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0);
    if (strcmp(what, "workspace") == 0)
        try_workspaces(&convolution);
    else if (strcmp(what, "endless") == 0)
        ask_for_too_much();
    else if (cudaMalloc(&memory, bytes) == cudaSuccess)
        BAIL("all that was to be had");
    const bool goes_on = strcmp(what, "needed") != 0;
    for (int i = 0; goes_on && i < AFTERWARDS; i++)
        run(&convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0);
    CUDA(cudaDeviceSynchronize());
    destroy(&convolution);
    return goes_on ? 0 : 3;
}
