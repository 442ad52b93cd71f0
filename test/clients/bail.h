/* For clients that speak TAP and end at the first call that fails. */
#ifndef BAIL_H
#define BAIL_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#define BAIL(text)                                                                                 \
    do {                                                                                           \
        printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, text);                                 \
        exit(1);                                                                                   \
    } while (0)
#define CUDA(call)                                                                                 \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess)                                                                 \
            BAIL(cudaGetErrorString(error_));                                                      \
    } while (0)
#define CUDNN(call)                                                                                \
    do {                                                                                           \
        const cudnnStatus_t status_ = (call);                                                      \
        if (status_ != CUDNN_STATUS_SUCCESS)                                                       \
            BAIL(cudnnGetErrorString(status_));                                                    \
    } while (0)

#endif
