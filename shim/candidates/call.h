/* One convolution call as a value, whatever its direction and its API, so that running it, asking
 * for its workspace, slicing it along the batch and timing it are written once. */
#ifndef MDNN_CALL_H
#define MDNN_CALL_H

#include "config/status.h"
#include "optimizer/problem.h"
#include "shim/candidates/accumulate.h"
#include "shim/candidates/engines.h"
#include "shim/real/real.h"

/* Names follow the convolution, not the direction: for backward data `y` is dy and `x` is dx, for
 * backward filter `y` is dy and `w` is dw. Pointers are device pointers, NULL where not known (a
 * query). alpha and beta are host pointers to float, to double for fp64 data; for bias activation
 * they are alpha1 and alpha2. */
typedef struct mdnn_call {
    const mdnn_cudnn_t *cudnn;
    mdnn_direction_t direction;
    cudnnHandle_t handle;
    const void *alpha, *beta;
    cudnnTensorDescriptor_t x_desc, y_desc, z_desc, bias_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv_desc;
    cudnnActivationDescriptor_t activation_desc;
    void *x, *w, *y, *z, *bias;
    int algo;
    void *workspace;
    size_t workspace_bytes;
    /* Set for a part of a bf16 backward filter: the part adds to an accumulator at the head of the
     * workspace (workspace_bytes includes it) instead of writing to `w`. NULL otherwise. */
    const mdnn_accumulator_t *accumulator;
    mdnn_accumulate_mode_t accumulate_mode;
    /* Set if an engine of the graph API runs the call, or the part; `uids` then identifies the tensors. */
    const mdnn_engine_plan_t *engine_plan;
    const mdnn_graph_uids_t *uids;
    /* A call of the graph API: its problem, and the caller's own plan and variant pack. The plan is NULL if it must not
     * run, because a smaller workspace size than the plan takes was reported to the caller. The tensor descriptors of
     * such a call are NULL. `problem` is NULL for a legacy call. */
    const mdnn_problem_t *problem;
    cudnnBackendDescriptor_t caller_plan, caller_pack;
    bool pack_fits; /* `caller_pack` fits our engines' plans: its tensors have the same ids */
    const mdnn_engine_offer_t *caller_engine; /* of the caller's plan; NULL: not known */
} mdnn_call_t;

/* Calls the real function with exactly these arguments and, if there is an accumulator, adds the result to its sum.
 * Only enqueues, in the handle's stream. */
cudnnStatus_t mdnn_call_run(const mdnn_call_t *call);
/* The real Get...WorkspaceSize for call->algo. */
cudnnStatus_t mdnn_call_workspace(const mdnn_call_t *call, size_t *bytes);

/* Fills all of *problem from the descriptors, or copies call->problem. UNSUPPORTED for problems that are never split:
 * vectorised layouts, more than three spatial dimensions, integer data. A NULL data pointer counts as aligned, a NULL
 * alpha as 1 and a NULL beta as 0. */
mdnn_status_t mdnn_call_problem(const mdnn_call_t *call, mdnn_problem_t *problem);

/* True if `algo` gives the same bits in every run (cuDNN's documentation of the enums). */
bool mdnn_algo_is_deterministic(mdnn_direction_t direction, int algo);
/* True if `algo` is neither FFT nor Winograd. */
bool mdnn_algo_is_direct(mdnn_direction_t direction, int algo);
int mdnn_algo_count(mdnn_direction_t direction);

/* Called before the convolution is enqueued, so that virtual memory knows the layers of the
 * network. Does nothing while no budget is on. */
void mdnn_announce_convolution(const mdnn_call_t *call);
/* Called after it was enqueued. */
void mdnn_announce_convolution_over(void);

/* The output of a call. */
static inline void *mdnn_call_output(const mdnn_call_t *call)
{
    return call->direction == MDNN_BACKWARD_DATA     ? call->x
           : call->direction == MDNN_BACKWARD_FILTER ? call->w
                                                     : call->y;
}

#endif
