/* Checks that end a client: the line and what did not hold, on standard output. */
#ifndef MDNN_TEST_CLIENT_CHECK_H
#define MDNN_TEST_CLIENT_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CUDA(call)                                                                                 \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess) {                                                               \
            printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error_));              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define DRIVER(call)                                                                               \
    do {                                                                                           \
        const CUresult result_ = (call);                                                           \
        if (result_ != CUDA_SUCCESS) {                                                             \
            printf("line %d: %s: CUDA error %d\n", __LINE__, #call, (int)result_);                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
