/* cuDNN's backend interface in plain C: graphs of operations, the engine configurations that its
 * heuristics name for them, plans, executions. It does what PyTorch does through cudnn_frontend,
 * and in the same order. Nothing here prints or exits; what fails says so by cuDNN's status. A
 * graph belongs to one thread. */
#ifndef TRAIN_CNN_GRAPH_H
#define TRAIN_CNN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cudnn.h>

enum {
    GRAPH_DIMS = 5,
    GRAPH_SPATIAL = 3,
    GRAPH_OPERATIONS = 4,
    GRAPH_DESCRIPTORS = 24,
    GRAPH_PACK = 8,
    GRAPH_CONFIGS = 256 /* enough for any two lists */
};

/* Tensors of a convolution as PyTorch and XLA name them. The same three in every direction; the
 * operation says which one is written. */
enum {
    GRAPH_UID_X = 'x',
    GRAPH_UID_W = 'w',
    GRAPH_UID_Y = 'y',
    GRAPH_UID_Z = 'z', /* residual */
    GRAPH_UID_BIAS = 'b',
    GRAPH_UID_CONVOLVED = 'C', /* virtual: what the convolution gives */
    GRAPH_UID_ADDED = 'A',     /* virtual: with the residual */
    GRAPH_UID_BIASED = 'B'     /* virtual: with the bias */
};

typedef struct graph_tensor {
    int64_t uid;
    cudnnDataType_t type;
    int count; /* dimensions: n c [d] h w, or k c [d] r s, whatever the layout */
    int64_t dims[GRAPH_DIMS], strides[GRAPH_DIMS]; /* in elements */
    int64_t alignment;                             /* bytes; of every pointer that it will get */
    bool is_virtual;                               /* has no memory */
} graph_tensor_t;

typedef enum graph_direction {
    GRAPH_FORWARD,
    GRAPH_BACKWARD_DATA,
    GRAPH_BACKWARD_FILTER
} graph_direction_t;

typedef struct graph_convolution {
    graph_direction_t direction;
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute; /* of the sums; alpha and beta are double if it is */
    int spatial;             /* dimensions: 2 or 3 */
    int64_t pre_pads[GRAPH_SPATIAL], post_pads[GRAPH_SPATIAL];
    int64_t strides[GRAPH_SPATIAL], dilations[GRAPH_SPATIAL];
    double alpha, beta; /* out = alpha * convolution + beta * out */
} graph_convolution_t;

/* y = mode(alpha1 * x, alpha2 * b), or mode(alpha1 * x). */
typedef struct graph_pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
    double alpha1, alpha2;
} graph_pointwise_t;

/* ---- graphs ---- */

typedef struct graph {
    cudnnStatus_t status; /* of the first step that failed; those after it do nothing */
    const char *failed;   /* that step */
    cudnnBackendDescriptor_t descriptor; /* the finalized graph */
    cudnnBackendDescriptor_t owned[GRAPH_DESCRIPTORS];
    int owned_count;
    cudnnBackendDescriptor_t operations[GRAPH_OPERATIONS];
    int operation_count;
} graph_t;

void graph_init(graph_t *graph);
/* Of the graph, whatever came of it. Its plans do not need it any more. */
void graph_fini(graph_t *graph);

/* The graph owns what it returns; NULL after a failure. */
cudnnBackendDescriptor_t graph_add_tensor(graph_t *graph, const graph_tensor_t *tensor);
/* x, w and y of the forward direction, in every direction. */
void graph_add_convolution(graph_t *graph, const graph_convolution_t *convolution,
                           cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                           cudnnBackendDescriptor_t y);
/* `b` is NULL where the mode has one input. */
void graph_add_pointwise(graph_t *graph, const graph_pointwise_t *pointwise,
                         cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                         cudnnBackendDescriptor_t y);
/* Over the dimensions where y has 1. */
void graph_add_reduction(graph_t *graph, cudnnReduceTensorOp_t operation, cudnnDataType_t compute,
                         cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);
/* `handle` may be NULL, for planning without a device. Returns graph->status. */
cudnnStatus_t graph_finalize(graph_t *graph, cudnnHandle_t handle);

/* ---- engine configurations ---- */

typedef struct graph_config {
    cudnnBackendDescriptor_t descriptor;
    int64_t engine;     /* global index */
    unsigned numerical; /* bit n: it has cudnnBackendNumericalNote_t n */
    unsigned behaviour; /* the same of cudnnBackendBehaviorNote_t */
} graph_config_t;

/* A device to plan for where there is none, from its properties as JSON. The caller destroys it. */
cudnnStatus_t graph_create_device(const char *json, size_t bytes, cudnnBackendDescriptor_t *device);

/* What the heuristics name for a finalized graph, best first: appended to the `*count` that
 * `configs` has, at most `max` in all. `device` is NULL if the graph has a handle. */
cudnnStatus_t graph_add_configs(const graph_t *graph, cudnnBackendHeurMode_t mode,
                                cudnnBackendDescriptor_t device, graph_config_t *configs, int max,
                                int *count);
void graph_free_configs(graph_config_t *configs, int count);

/* Numerical notes that PyTorch refuses: converting inputs down always, tensor cores where the
 * tensors are fp32 and TF32 is not wanted, varying results if `deterministic`. */
unsigned graph_refused_notes(cudnnDataType_t type, bool tf32, bool deterministic);
/* Drops those with a refused note; returns how many are left, in their order. */
int graph_filter_configs(graph_config_t *configs, int count, unsigned refused);

/* ---- plans ---- */

/* The caller destroys *plan with cudnnBackendDestroyDescriptor; NULL if it fails. `handle` may be
 * NULL where the graph has none. */
cudnnStatus_t graph_create_plan(cudnnHandle_t handle, const graph_config_t *config,
                                cudnnBackendDescriptor_t *plan);
cudnnStatus_t graph_plan_workspace(cudnnBackendDescriptor_t plan, size_t *bytes);

typedef enum graph_order {
    GRAPH_POINTERS_FIRST, /* cudnn_frontend's builders: PyTorch, XLA */
    GRAPH_UIDS_FIRST      /* its graph::Graph */
} graph_order_t;

typedef struct graph_pack {
    int count;
    int64_t uids[GRAPH_PACK];
    void *pointers[GRAPH_PACK];
    void *workspace; /* NULL if the plan needs none */
    graph_order_t order;
} graph_pack_t;

/* Adds a tensor's pointer. */
void graph_bind(graph_pack_t *pack, int64_t uid, void *pointer);
/* Enqueues on the handle's stream, with a variant pack that lives as long as this call. */
cudnnStatus_t graph_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            const graph_pack_t *pack);

#endif
