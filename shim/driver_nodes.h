/* Memory that nodes of graphs use which the program makes by hand: it belongs to `graph`, or stays
 * for good where the graph is not known (NULL). CUDA_SUCCESS, or what to return instead of making
 * the node. */
#ifndef MDNN_DRIVER_NODES_H
#define MDNN_DRIVER_NODES_H

#include "shim/driver.h"

CUresult mdnn_node_kernel_v1(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS_v1 *uses);
CUresult mdnn_node_kernel_v2(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS_v2 *uses);
#define mdnn_node_kernel(graph, uses)                                                              \
    _Generic((uses), const CUDA_KERNEL_NODE_PARAMS_v1 *: mdnn_node_kernel_v1,                      \
             const CUDA_KERNEL_NODE_PARAMS_v2 *: mdnn_node_kernel_v2)(graph, uses)
CUresult mdnn_node_copy(CUgraph graph, const CUDA_MEMCPY3D *uses);
CUresult mdnn_node_memset(CUgraph graph, const CUDA_MEMSET_NODE_PARAMS *uses);
CUresult mdnn_node_values(CUgraph graph, const CUDA_BATCH_MEM_OP_NODE_PARAMS *uses);
CUresult mdnn_node_any(CUgraph graph, const CUgraphNodeParams *uses);

#endif
