/* Turns a graph of cuDNN's backend API into a convolution problem (optimizer/problem.h), if it is one that we can run
 * in another way. A reader fills mdnn_chain_graph_t from the JSON text of an execution plan (shim/graph/graph_json.h)
 * or from the descriptors of the program (shim/graph/graph_follow.h).
 *
 * These graphs are recognised: one convolution in any direction; or a forward convolution followed, in any order and
 * through virtual tensors, by at most one bias, one residual and one activation. Every other graph passes. It is better
 * not to touch a graph than to misread it, so anything that is not known here, even a field of a tensor, makes the
 * graph unknown. */
#ifndef MDNN_GRAPH_CHAIN_H
#define MDNN_GRAPH_CHAIN_H

#include "optimizer/problem.h"
#include "shim/graph/json.h"

typedef enum mdnn_graph_kind { /* recognised, or why the graph goes to cuDNN unchanged; counted by kind */
                               MDNN_GRAPH_RECOGNISED,
                               MDNN_GRAPH_NO_CONVOLUTION,
                               MDNN_GRAPH_MANY_OPERATIONS, /* operations that are not understood, or
                                                            * not a chain */
                               MDNN_GRAPH_TYPES,
                               MDNN_GRAPH_LAYOUT,  /* batch not outermost, vectorised, reordered,
                                                      strides 0 or negative */
                               MDNN_GRAPH_UNKNOWN, /* schema version, field, value or enumerator
                                                      that we do not know */
                               MDNN_GRAPH_KIND_COUNT
} mdnn_graph_kind_t;

/* A recognised graph. `problem` is as mdnn_problem_t describes it, with these additions:
 * - x, w and y name the convolution's tensors in every direction; after a chain, y is what the last operation writes. z
 *   is the residual, and bias has the dims 1 k 1 1 (1).
 * - strides are positive. If a dimension has one element and its stride is not positive, it gets a stride just beyond
 *   what the later dimensions span.
 * - w always has its strides. It has a format if the legacy API can express the layout, otherwise -1. If NCHW and NHWC
 *   both fit (one input channel per group, or one element per plane), it has the format of x.
 * - spatial_dims is 1 for tensors of three dims.
 * - alignment_bytes is what the graph demands of each tensor's address.
 * - alpha1 of a pointwise operation scales the output of the operation before it, and alpha2 scales the other operand,
 *   in whatever order the graph has the two inputs.
 * - activation parameters that the program does not set have cuDNN's defaults: clips 0 and the largest double, slope 0;
 *   1 for elu, softplus and swish. They are zero in operations without them.
 * - interfaces has LEGACY unless the padding is asymmetric, w has no format, or there are three dims or a chain.
 * - device, math_type, in_place, reorder and weak_notes stay as mdnn_problem_init sets them: a graph does not
 *   say them. */
typedef struct mdnn_graph {
    mdnn_problem_t problem;
    int64_t x_uid, w_uid, y_uid, z_uid, bias_uid; /* valid if `problem` has that tensor */
} mdnn_graph_t;

/* ---- a graph as a reader fills it in ---- */

/* A chain of one convolution and three pointwise operations names at most nine tensors. */
enum { MDNN_CHAIN_TENSORS = 9 };
enum { MDNN_CHAIN_NOT_SAID = INT32_MIN }; /* `groups` is not given: it follows from the dims */

typedef struct mdnn_chain_tensor {
    int64_t uid;
    int32_t type, alignment, vector_count, vector_dim, reordering;
    mdnn_json_list_t dims, strides;
    bool is_virtual, by_value, used;
} mdnn_chain_tensor_t;

typedef struct mdnn_chain_convolution {
    int32_t direction; /* mdnn_direction_t */
    int32_t mode, compute_type, groups;
    double alpha, beta;
    mdnn_json_list_t pad, pad_before, pad_after, stride, dilation;
    int64_t x, w, y;
} mdnn_chain_convolution_t;

typedef struct mdnn_chain_pointwise {
    int32_t mode, compute_type;
    double alpha1, alpha2;
    double lower_clip, upper_clip, slope; /* relu */
    double parameter;                     /* elu, softplus, swish */
    int64_t x, b, y;
    bool used;
} mdnn_chain_pointwise_t;

typedef struct mdnn_chain_graph {
    mdnn_chain_convolution_t convolution;
    int pointwise_count, tensor_count;
    mdnn_chain_pointwise_t pointwise[MDNN_PROBLEM_POINTWISE];
    mdnn_chain_tensor_t tensors[MDNN_CHAIN_TENSORS];
} mdnn_chain_graph_t;

/* The modes that we understand; a convolution's graph with another mode is MDNN_GRAPH_MANY_OPERATIONS. */
#define MDNN_CHAIN_MODES(MODE)                                                                     \
    MODE(CUDNN_POINTWISE_ADD)                                                                      \
    MODE(CUDNN_POINTWISE_RELU_FWD)                                                                 \
    MODE(CUDNN_POINTWISE_TANH_FWD)                                                                 \
    MODE(CUDNN_POINTWISE_SIGMOID_FWD)                                                              \
    MODE(CUDNN_POINTWISE_ELU_FWD)                                                                  \
    MODE(CUDNN_POINTWISE_GELU_FWD)                                                                 \
    MODE(CUDNN_POINTWISE_SOFTPLUS_FWD)                                                             \
    MODE(CUDNN_POINTWISE_SWISH_FWD)                                                                \
    MODE(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD)

/* ---- the problem that the graph is ---- */

/* Decides by the operations alone, before any field is read, since the fields of operations of
 * other kinds are not known.
 * `pointwise`: how many operations have the modes above; `others`: whether there are any other operations. */
mdnn_graph_kind_t mdnn_chain_survey(int convolutions, int pointwise, bool others);

/* Returns a pointwise operation without a mode, and with cuDNN's defaults. */
mdnn_chain_pointwise_t mdnn_chain_pointwise(void);
/* Adds a tensor. false: its dims, strides or alignment make no sense, one with its uid exists already, or there are too
 * many. */
bool mdnn_chain_add_tensor(mdnn_chain_graph_t *said, const mdnn_chain_tensor_t *tensor);
/* The same, but the tensor may already exist. */
bool mdnn_chain_use_tensor(mdnn_chain_graph_t *said, const mdnn_chain_tensor_t *tensor);
/* NULL if there is no tensor with that uid. */
mdnn_chain_tensor_t *mdnn_chain_find(mdnn_chain_graph_t *said, int64_t uid);

/* Fills *graph from what a reader has filled in. *graph is untouched unless the result is RECOGNISED. Changes *said
 * while it works. */
mdnn_graph_kind_t mdnn_chain_recognise(mdnn_chain_graph_t *said, mdnn_graph_t *graph);

#endif
