/* Holds the memory that a node of a graph uses for the node's owner, if the program makes the node by hand. Returns
 * CUDA_SUCCESS, or the result to return instead of making the node. */
#ifndef MDNN_DRIVER_NODES_H
#define MDNN_DRIVER_NODES_H

#include "shim/interpose/driver.h"

CUresult mdnn_node_kernel_v1(mdnn_node_owner_t owner, const CUDA_KERNEL_NODE_PARAMS_v1 *uses);
CUresult mdnn_node_kernel_v2(mdnn_node_owner_t owner, const CUDA_KERNEL_NODE_PARAMS_v2 *uses);
#define mdnn_node_kernel(owner, uses)                                                              \
    _Generic((uses), const CUDA_KERNEL_NODE_PARAMS_v1 *: mdnn_node_kernel_v1,                      \
             const CUDA_KERNEL_NODE_PARAMS_v2 *: mdnn_node_kernel_v2)(owner, uses)
CUresult mdnn_node_copy(mdnn_node_owner_t owner, const CUDA_MEMCPY3D *uses);
CUresult mdnn_node_memset(mdnn_node_owner_t owner, const CUDA_MEMSET_NODE_PARAMS *uses);
CUresult mdnn_node_values(mdnn_node_owner_t owner, const CUDA_BATCH_MEM_OP_NODE_PARAMS *uses);
CUresult mdnn_node_any(mdnn_node_owner_t owner, const CUgraphNodeParams *uses);

#endif
