/* Operation graphs for tests of the backend API: one convolution and what follows it, made from a
 * description, planned and executed. Any trouble fails the running cmocka test. */
#ifndef GRAPH_CLIENT_H
#define GRAPH_CLIENT_H

#include "test/sim/cudnn_client.h"

enum { CLIENT_STEPS = 4, CLIENT_OWNED = 64, CLIENT_CONFIGS = 48 };

typedef enum client_layout {
    CLIENT_NCHW,
    CLIENT_NHWC,
    CLIENT_GAPS, /* of x and y; w is packed */
    CLIENT_CHWN  /* of all three: the batch is innermost */
} client_layout_t;

typedef struct client_step {
    cudnnPointwiseMode_t mode;
    enum { STEP_ALONE, STEP_ADDEND, STEP_BIAS } operand;
    double alpha1, alpha2;
    double upper_clip; /* 0: none */
} client_step_t;

/* What a test asks for. 1-D problems use the last of each triple, 2-D ones the last two. */
typedef struct client_graph {
    reference_direction_t direction;
    cudnnDataType_t type, compute;
    client_layout_t layout;
    int spatial;
    bool flip;
    int groups, n, c, k;
    int in[3], filter[3], pre[3], post[3], stride[3], dilation[3];
    double alpha, beta;
    int step_count;
    client_step_t steps[CLIENT_STEPS];
} client_graph_t;

/* Descriptors made so far, to be destroyed together. */
typedef struct client_owned {
    int count;
    cudnnBackendDescriptor_t descriptors[CLIENT_OWNED];
} client_owned_t;

enum { UID_X = 'x', UID_W = 'w', UID_Y = 'y', UID_STEP = 'a' /* operand of step i: 'a' + i */ };

cudnnBackendDescriptor_t client_make(client_owned_t *owned, cudnnBackendDescriptorType_t type);
void client_drop(client_owned_t *owned);
void client_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values);
void client_link(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                 cudnnBackendDescriptor_t value);
/* A finalized tensor. */
cudnnBackendDescriptor_t client_tensor(client_owned_t *owned, int64_t uid, cudnnDataType_t type,
                                       int64_t count, const int64_t *dims, const int64_t *strides,
                                       bool is_virtual);

/* The same problem for the fp64 reference; strides of the layout, five dimensions. */
void client_reference(const client_graph_t *graph, reference_convolution_t *reference);

/* The finalized operation graph; `handle` may be NULL. */
cudnnBackendDescriptor_t client_build(client_owned_t *owned, const client_graph_t *graph,
                                      cudnnHandle_t handle);
/* A heuristics list: configurations, and how many. `device` may be NULL. */
int client_list(client_owned_t *owned, cudnnBackendDescriptor_t graph,
                cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                cudnnBackendDescriptor_t configs[CLIENT_CONFIGS]);
/* The engine's configuration with its own choice of knobs, or NULL where the engine refuses. */
cudnnBackendDescriptor_t client_engine(client_owned_t *owned, cudnnBackendDescriptor_t graph,
                                       int64_t index);
/* A finalized plan. */
cudnnBackendDescriptor_t client_plan(client_owned_t *owned, cudnnBackendDescriptor_t config);
int64_t client_workspace(cudnnBackendDescriptor_t plan);
int64_t client_engine_index(cudnnBackendDescriptor_t config);
/* Whether the engine of `config` has the numerical note. */
bool client_has_note(cudnnBackendDescriptor_t config, cudnnBackendNumericalNote_t note);
/* The plan's JSON; freed by the caller. */
char *client_json(cudnnBackendDescriptor_t plan);
/* A finalized variant pack. */
cudnnBackendDescriptor_t client_pack(client_owned_t *owned, int64_t count, const int64_t *uids,
                                     void *const *pointers, void *workspace);

#endif
