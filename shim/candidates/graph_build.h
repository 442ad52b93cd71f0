/* Operation graphs of cuDNN's backend API, built from a problem. */
#ifndef MDNN_GRAPH_BUILD_H
#define MDNN_GRAPH_BUILD_H

#include "shim/candidates/engines.h"

/* The finalised operation graph of `images` images; *graph is destroyed by the caller. UNSUPPORTED if
 * cuDNN refuses it, OUT_OF_MEMORY. The descriptors it was made of are destroyed here: a finalised
 * graph keeps what it needs. */
mdnn_status_t mdnn_graph_build(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                               const mdnn_problem_t *problem, const mdnn_graph_uids_t *uids,
                               int64_t images, mdnn_graph_scaling_t scaling,
                               cudnnBackendDescriptor_t *graph);

#endif
