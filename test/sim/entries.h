/* Entry points of libcuda.so.1 that cuda.h does not declare in the form that this build sees:
 * per-thread default stream variants and versions that newer headers replace. */
#ifndef SIM_ENTRIES_H
#define SIM_ENTRIES_H

#include <cuda.h>

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count);

#undef cuMemcpyBatchAsync
CUresult cuMemcpyBatchAsync(CUdeviceptr *destinations, CUdeviceptr *sources, size_t *sizes,
                            size_t count, CUmemcpyAttributes *attributes, size_t *attribute_starts,
                            size_t attribute_count, size_t *bad, CUstream stream);
#define cuMemcpyBatchAsync cuMemcpyBatchAsync_v2

#endif
