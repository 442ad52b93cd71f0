#include "test/clients/one_convolution.h"

#include <stdlib.h>

enum { BATCH = 24, IN = 3, OUT = 4, SIDE = 6, KERNEL = 3 };
enum { X_COUNT = BATCH * IN * SIDE * SIDE, W_COUNT = OUT * IN * KERNEL * KERNEL };
enum { Y_COUNT = BATCH * OUT * SIDE * SIDE };

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        if ((call) != cudaSuccess)                                                                 \
            return __LINE__;                                                                       \
    } while (0)
#define CUDNN(call)                                                                                \
    do {                                                                                           \
        if ((call) != CUDNN_STATUS_SUCCESS)                                                        \
            return __LINE__;                                                                       \
    } while (0)

static void fill(float *values, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)(seed >> 24) / 256.0F - 0.5F;
    }
}

int one_convolution(const api_t *api, double *checksum)
{
    static float x[X_COUNT], w[W_COUNT], y[Y_COUNT];
    const float one = 1.0F, zero = 0.0F;
    void *dx, *dw, *dy, *workspace = NULL;
    size_t bytes = 0;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    fill(x, X_COUNT, 1);
    fill(w, W_COUNT, 2);
    CUDNN(api->cudnnCreate(&handle));
    CUDNN(api->cudnnCreateTensorDescriptor(&x_desc));
    CUDNN(api->cudnnCreateTensorDescriptor(&y_desc));
    CUDNN(api->cudnnCreateFilterDescriptor(&w_desc));
    CUDNN(api->cudnnCreateConvolutionDescriptor(&conv));
    CUDNN(api->cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, BATCH, IN,
                                          SIDE, SIDE));
    CUDNN(api->cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, BATCH, OUT,
                                          SIDE, SIDE));
    CUDNN(api->cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, OUT, IN,
                                          KERNEL, KERNEL));
    CUDNN(api->cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                               CUDNN_DATA_FLOAT));
    CUDA(api->cudaMalloc(&dx, sizeof x));
    CUDA(api->cudaMalloc(&dw, sizeof w));
    CUDA(api->cudaMalloc(&dy, sizeof y));
    CUDA(api->cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
    CUDA(api->cudaMemcpy(dw, w, sizeof w, cudaMemcpyHostToDevice));
    CUDA(api->cudaMemset(dy, 0xFF, sizeof y));
    CUDNN(api->cudnnGetConvolutionForwardWorkspaceSize(
        handle, x_desc, w_desc, conv, y_desc, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes));
    if (bytes > 0)
        CUDA(api->cudaMalloc(&workspace, bytes));
    CUDNN(api->cudnnConvolutionForward(handle, &one, x_desc, dx, w_desc, dw, conv,
                                       CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, workspace, bytes,
                                       &zero, y_desc, dy));
    CUDA(api->cudaDeviceSynchronize());
    CUDA(api->cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost));
    *checksum = 0;
    for (int i = 0; i < Y_COUNT; i++)
        *checksum += (double)y[i] * (double)(i % 17 + 1);
    CUDA(api->cudaFree(dx));
    CUDA(api->cudaFree(dw));
    CUDA(api->cudaFree(dy));
    if (workspace)
        CUDA(api->cudaFree(workspace));
    CUDNN(api->cudnnDestroyConvolutionDescriptor(conv));
    CUDNN(api->cudnnDestroyFilterDescriptor(w_desc));
    CUDNN(api->cudnnDestroyTensorDescriptor(x_desc));
    CUDNN(api->cudnnDestroyTensorDescriptor(y_desc));
    CUDNN(api->cudnnDestroy(handle));
    return 0;
}
