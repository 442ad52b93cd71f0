/* Executes a plan of the program: with a configuration of ours or with the plan itself, within the workspace that was
 * reported to the program (graph_reply.h). Any thread may call it. While another thread measures, it neither measures
 * nor waits. */
#ifndef MDNN_GRAPH_EXECUTE_H
#define MDNN_GRAPH_EXECUTE_H

#include "shim/real/real.h"

cudnnStatus_t mdnn_graph_execute(const mdnn_cudnn_t *real, cudnnHandle_t handle,
                                 cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);

/* The plan that may go into a CUDA graph: the program's own, or an engine in its place that takes
 * no more workspace than was reported. NULL if there is none; parts cannot be put there. */
cudnnBackendDescriptor_t mdnn_graph_plan_for_cuda_graph(const mdnn_cudnn_t *real,
                                                        cudnnHandle_t handle,
                                                        cudnnBackendDescriptor_t plan,
                                                        cudnnBackendDescriptor_t pack);

/* Logs once why `what` is refused, and returns `status`. */
cudnnStatus_t mdnn_graph_refuse(const char *what, cudnnStatus_t status);

#endif
