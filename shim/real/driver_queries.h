/* Functions of the driver that are found by name: those that programs call and we watch, and those
 * that we call in addition. */
#ifndef MDNN_DRIVER_QUERIES_H
#define MDNN_DRIVER_QUERIES_H

#include <stdbool.h>

#include <cuda.h>
#include <cudaTypedefs.h>

typedef void (*mdnn_driver_function_t)(void);

/* The driver's own exported function of that name, whoever else interposes it; NULL: the driver has none, or is not
 * loaded yet (*loaded is false). */
mdnn_driver_function_t mdnn_driver_find(const char *symbol, bool *loaded);

/* The functions that hooks call in addition. A member is NULL if the driver lacks it. */
#define MDNN_DRIVER_QUERIES(QUERY)                                                                 \
    QUERY(cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000)                                              \
    QUERY(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000)                                                \
    QUERY(cuDeviceGetDefaultMemPool, PFN_cuDeviceGetDefaultMemPool_v11020)                         \
    QUERY(cuDeviceGetMemPool, PFN_cuDeviceGetMemPool_v11020)                                       \
    QUERY(cuDeviceGetGraphMemAttribute, PFN_cuDeviceGetGraphMemAttribute_v11040)                   \
    QUERY(cuGraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000)                 \
    QUERY(cuGraphGetNodes, PFN_cuGraphGetNodes_v10000)                                             \
    QUERY(cuGraphMemAllocNodeGetParams, PFN_cuGraphMemAllocNodeGetParams_v11040)                   \
    QUERY(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000)                                       \
    QUERY(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020)                                               \
    QUERY(cuMemFreeAsync_ptsz, PFN_cuMemFreeAsync_v11020_ptsz)                                     \
    QUERY(cuMemPoolGetAttribute, PFN_cuMemPoolGetAttribute_v11020)                                 \
    QUERY(cuMemPoolTrimTo, PFN_cuMemPoolTrimTo_v11020)                                             \
    QUERY(cuEventQuery, PFN_cuEventQuery_v2000)                                                    \
    QUERY(cuFuncGetName, PFN_cuFuncGetName_v12030)                                                 \
    QUERY(cuFuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040)                                       \
    QUERY(cuKernelGetName, PFN_cuKernelGetName_v12030)                                             \
    QUERY(cuKernelGetParamInfo, PFN_cuKernelGetParamInfo_v12040)                                   \
    QUERY(cuStreamQuery, PFN_cuStreamQuery_v2000)                                                  \
    QUERY(cuStreamQuery_ptsz, PFN_cuStreamQuery_v7000_ptsz)

typedef struct mdnn_driver_queries {
#define QUERY(symbol, type) type symbol;
    MDNN_DRIVER_QUERIES(QUERY)
#undef QUERY
} mdnn_driver_queries_t;

/* Only inside a hook. */
const mdnn_driver_queries_t *mdnn_driver_queries(void);

#endif
