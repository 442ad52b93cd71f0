/* Operation graphs of the backend API as values: what a client described, without its descriptors,
 * and what became of it as one convolution, pointwise chain or matrix product. */
#ifndef SIM_CUDNN_BACKEND_GRAPH_H
#define SIM_CUDNN_BACKEND_GRAPH_H

#include <stdatomic.h>

#include "test/sim/cudnn/conv.h"

enum {
    SIM_GRAPH_DIMS = CUDNN_DIM_MAX,
    SIM_GRAPH_NODES = SIM_CONV_STEPS + 1,
    SIM_GRAPH_TENSORS = 3 * SIM_GRAPH_NODES,
    SIM_GRAPH_ARRAY = 16 /* elements that an array attribute takes before Finalize refuses it */
};

typedef struct sim_graph_tensor {
    int64_t uid, alignment;
    int64_t dim_count, dims[SIM_GRAPH_ARRAY], stride_count, strides[SIM_GRAPH_ARRAY];
    int64_t vector_count, vector_dim;
    int32_t type, reordering; /* cudnnDataType_t, -1 until set */
    bool is_virtual, by_value;
} sim_graph_tensor_t;

typedef struct sim_graph_convolution {
    int32_t compute_type, mode; /* -1 until set */
    int64_t spatial_dims;
    int64_t pre_count, pre[SIM_GRAPH_ARRAY], post_count, post[SIM_GRAPH_ARRAY];
    int64_t stride_count, stride[SIM_GRAPH_ARRAY], dilation_count, dilation[SIM_GRAPH_ARRAY];
} sim_graph_convolution_t;

typedef struct sim_graph_pointwise {
    int32_t mode, precision, nan;
    double lower_clip, upper_clip, lower_slope, elu_alpha, softplus_beta, swish_beta;
} sim_graph_pointwise_t;

typedef enum sim_node_kind { /* the first three as sim_conv_direction_t */
                             NODE_FORWARD,
                             NODE_BACKWARD_DATA,
                             NODE_BACKWARD_FILTER,
                             NODE_POINTWISE,
                             NODE_MATMUL
} sim_node_kind_t;

/* `in`, `other`, `out` index the graph's tensors; other is -1 where a pointwise operation has one
 * input. A convolution's are x, w, y whatever its direction; a matrix product's a, b, c. */
typedef struct sim_graph_node {
    sim_node_kind_t kind;
    double alpha, beta; /* pointwise: alpha1, alpha2 */
    sim_graph_convolution_t convolution;
    sim_graph_pointwise_t pointwise;
    int32_t precision; /* of a matrix product */
    int in, other, out;
} sim_graph_node_t;

typedef enum sim_graph_pattern {
    PATTERN_CONVOLUTION, /* one convolution, any direction */
    PATTERN_CONV_ADD_BIAS_ACT,
    PATTERN_CONV_FUSION, /* a convolution and other pointwise operations */
    PATTERN_POINTWISE,
    PATTERN_MATMUL,
    PATTERN_NONE
} sim_graph_pattern_t;

/* Immutable once made; shared by the descriptors that were finalized from it. */
typedef struct sim_graph {
    _Atomic int users;
    cudnnHandle_t handle;         /* may be NULL; never followed after the graph is finalized */
    const sim_profile_t *profile; /* of that handle, or NULL */
    int tensor_count, node_count;
    sim_graph_tensor_t tensors[SIM_GRAPH_TENSORS];
    sim_graph_node_t nodes[SIM_GRAPH_NODES];
    sim_graph_pattern_t pattern;
    cudnnStatus_t verdict; /* why no engine runs it, or SUCCESS */
    sim_conv_t problem;    /* of the convolution patterns; y (x, w) is the graph's last output */
    sim_conv_epilogue_t epilogue;
    int operands[SIM_CONV_OPERANDS]; /* tensors of the epilogue's operands; -1: none */
} sim_graph_t;

/* Whether the node's own tensors fit together, as the real library checks at Finalize. */
cudnnStatus_t sim_node_check(const sim_graph_node_t *node, const sim_graph_tensor_t *in,
                             const sim_graph_tensor_t *other, const sim_graph_tensor_t *out);

/* The index of `tensor` in the graph, where it is added unless its uid is there. -1: full. */
int sim_graph_tensor_index(sim_graph_t *graph, const sim_graph_tensor_t *tensor);

/* Checks what all nodes say together and fills pattern, verdict, problem and epilogue. BAD_PARAM
 * for a graph that contradicts itself; one that no engine runs is SUCCESS here. */
cudnnStatus_t sim_graph_analyze(sim_graph_t *graph);

/* Heap; one user. NULL without memory. */
sim_graph_t *sim_graph_create(void);
sim_graph_t *sim_graph_share(sim_graph_t *graph);
/* NULL is allowed. */
void sim_graph_release(sim_graph_t *graph);

#endif
