/* A small forward convolution through a table of functions, however the program got hold of them. The
 * result is a checksum that tells right from wrong, printed by the caller. Knows nothing of microdnn. */
#ifndef ONE_CONVOLUTION_H
#define ONE_CONVOLUTION_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

/* FUNCTION(name) for everything that the convolution calls. */
#define ONE_CONVOLUTION_RUNTIME(FUNCTION)                                                          \
    FUNCTION(cudaMalloc)                                                                           \
    FUNCTION(cudaFree)                                                                             \
    FUNCTION(cudaMemcpy)                                                                           \
    FUNCTION(cudaMemset)                                                                           \
    FUNCTION(cudaDeviceSynchronize)
#define ONE_CONVOLUTION_CUDNN(FUNCTION)                                                            \
    FUNCTION(cudnnCreate)                                                                          \
    FUNCTION(cudnnDestroy)                                                                         \
    FUNCTION(cudnnCreateTensorDescriptor)                                                          \
    FUNCTION(cudnnSetTensor4dDescriptor)                                                           \
    FUNCTION(cudnnDestroyTensorDescriptor)                                                         \
    FUNCTION(cudnnCreateFilterDescriptor)                                                          \
    FUNCTION(cudnnSetFilter4dDescriptor)                                                           \
    FUNCTION(cudnnDestroyFilterDescriptor)                                                         \
    FUNCTION(cudnnCreateConvolutionDescriptor)                                                     \
    FUNCTION(cudnnSetConvolution2dDescriptor)                                                      \
    FUNCTION(cudnnDestroyConvolutionDescriptor)                                                    \
    FUNCTION(cudnnGetConvolutionForwardWorkspaceSize)                                              \
    FUNCTION(cudnnConvolutionForward)

typedef struct api {
#define MEMBER(name) __typeof__(&name) name;
    ONE_CONVOLUTION_RUNTIME(MEMBER)
    ONE_CONVOLUTION_CUDNN(MEMBER)
#undef MEMBER
} api_t;

/* 0 and *checksum on success, else the line that failed. */
int one_convolution(const api_t *api, double *checksum);

#endif
