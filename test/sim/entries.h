/* Entry points of libcuda.so.1 that cuda.h does not declare in the form that this build sees:
 * per-thread default stream variants and versions that newer headers replace. */
#ifndef SIM_ENTRIES_H
#define SIM_ENTRIES_H

#include <cuda.h>

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count);

#endif
