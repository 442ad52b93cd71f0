/* Execution of a host's plan: a configuration of ours, or its own plan, within the workspace that the host was told of
 * (graph_reply.h). Any thread; never measures behind another, and never waits for one. */
#ifndef MDNN_GRAPH_EXECUTE_H
#define MDNN_GRAPH_EXECUTE_H

#include "shim/real/real.h"

cudnnStatus_t mdnn_graph_execute(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                                 cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);

/* While exit handlers run calls pass, but not a plan that was told of less than it takes. */
bool mdnn_graph_is_shrunk_at_exit(cudnnBackendDescriptor_t plan);

/* The plan that may go into a CUDA graph: the host's own, or in its place an engine that takes no
 * more than the host was told of. NULL if there is none; parts cannot be put there. */
cudnnBackendDescriptor_t mdnn_graph_plan_for_cuda_graph(const mdnn_cudnn_t *real,
                                                        cudnnHandle_t handle,
                                                        cudnnBackendDescriptor_t plan,
                                                        cudnnBackendDescriptor_t pack);

/* Says once why `what` is refused, and returns `status`. */
cudnnStatus_t mdnn_graph_refuse(const char *what, cudnnStatus_t status);

#endif
