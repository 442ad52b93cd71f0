/* The convolution of one_convolution.h as a graph of the backend API, through a table of functions.
 * Knows nothing of microdnn. */
#ifndef ONE_GRAPH_H
#define ONE_GRAPH_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

/* FUNCTION(name) for everything that the graph calls. */
#define ONE_GRAPH_RUNTIME(FUNCTION)                                                                \
    FUNCTION(cudaMalloc)                                                                           \
    FUNCTION(cudaFree)                                                                             \
    FUNCTION(cudaMemcpy)                                                                           \
    FUNCTION(cudaMemset)                                                                           \
    FUNCTION(cudaDeviceSynchronize)
#define ONE_GRAPH_CUDNN(FUNCTION)                                                                  \
    FUNCTION(cudnnCreate)                                                                          \
    FUNCTION(cudnnDestroy)                                                                         \
    FUNCTION(cudnnBackendCreateDescriptor)                                                         \
    FUNCTION(cudnnBackendDestroyDescriptor)                                                        \
    FUNCTION(cudnnBackendSetAttribute)                                                             \
    FUNCTION(cudnnBackendGetAttribute)                                                             \
    FUNCTION(cudnnBackendFinalize)                                                                 \
    FUNCTION(cudnnBackendExecute)

typedef struct graph_api {
#define MEMBER(name) __typeof__(&name) name;
    ONE_GRAPH_RUNTIME(MEMBER)
    ONE_GRAPH_CUDNN(MEMBER)
#undef MEMBER
} graph_api_t;

/* 0 and *checksum on success, else the line that failed. */
int one_graph(const graph_api_t *api, double *checksum);

#endif
