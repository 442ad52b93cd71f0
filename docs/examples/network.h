/* A network on the device: tensors, parameters, the passes over its layers. Everything is allocated
 * when it is made and stays until it is freed, as in Caffe; gradients of the loss are sums over the
 * batch, and the division by the batch size is part of the update, so that half-precision gradients
 * do not vanish. Everything is enqueued on lane 0 of the gpu_t, or branches within a pass on lanes
 * of their own (branches.h), and ends there; functions say where they wait for it. */
#ifndef TRAIN_CNN_NETWORK_H
#define TRAIN_CNN_NETWORK_H

#include "arguments.h"
#include "convolution.h"
#include "gpu.h"
#include "nets.h"
#include "timers.h"

/* The output of a layer and the gradient of the loss by it. */
typedef struct tensor {
    int n, c, h, w;
    cudnnTensorDescriptor_t descriptor;
    buffer_t value, gradient; /* no gradient: nothing asks for it */
    bool in_place;            /* shares both with the layer's input */
    int readers;              /* layers that read it */
    bool gradient_written;    /* in this backward pass, so that the next reader adds to it */
    /* What was last enqueued that writes it; NULL where maker and readers share a lane. */
    cudaEvent_t value_event, gradient_event;
} tensor_t;

/* Something that training changes: fp32 master values and velocities; a copy in the tensors' type
 * and gradients in that type. */
typedef struct parameter {
    int k, c, r, s;
    cudnnTensorDescriptor_t master_descriptor; /* packed k c r s, whatever the layout: only for
                                                  element-wise calls */
    cudnnTensorDescriptor_t descriptor;        /* of the copy and the gradient */
    buffer_t master, velocity, gradient;
    buffer_t copy; /* no memory where the master values serve */
} parameter_t;

typedef struct batch_norm {
    buffer_t running_mean, running_variance, saved_mean, saved_inverse_deviation;
} batch_norm_t;

/* A generator's states belong to each layer, so that none depends on another's draws. */
typedef struct dropout {
    cudnnDropoutDescriptor_t descriptor;
    buffer_t states, mask; /* what forward keeps for backward */
} dropout_t;

typedef struct layer {
    const layer_spec_t *spec;
    int index;
    int lane; /* of the gpu_t */
    tensor_t *inputs[LAYER_MAX_INPUTS];
    tensor_t output;
    parameter_t weight, bias; /* of a batch normalisation: scale and bias */
    convolution_t convolution;
    cudnnPoolingDescriptor_t pooling;
    batch_norm_t norm;
    dropout_t dropout;
    cudnnTensorDescriptor_t slices[LAYER_MAX_INPUTS]; /* of a concatenation's output */
    size_t slice_offsets[LAYER_MAX_INPUTS];           /* bytes */
} layer_t;

typedef struct network {
    gpu_t *gpu;
    const arguments_t *options;
    net_spec_t spec;
    layer_t *layers;
    int count;
    cudnnActivationDescriptor_t relu;
    cudnnOpTensorDescriptor_t sum;
    cudnnTensorDescriptor_t images_descriptor, classes_descriptor; /* fp32, packed n c h w */
    buffer_t images;        /* where the data tensor has another type or layout */
    buffer_t logits;        /* in fp32, likewise */
    buffer_t probabilities; /* in fp32; in place of the logits' gradient where that is fp32 */
    buffer_t one_hot;
    buffer_t scratch;                   /* workspace while algorithms are chosen */
    buffer_t workspaces[GPU_MAX_LANES]; /* each shared by all convolutions of a lane */
    bool choosing;                      /* algorithms, in `scratch` */
    cudaEvent_t joins[GPU_MAX_LANES];   /* of each lane but the first: the end of a pass; of the
                                           first: the layer before, while choosing */
    timers_t timers; /* of layer l in direction d: l * DIRECTION_COUNT + d; the last: iteration */
    size_t search_bytes, workspace_bytes, training_bytes; /* see the report */
    /* Pinned: what the device reads and writes. */
    float *host_images, *host_one_hot, *host_probabilities;
    int *host_labels;
} network_t;

void network_init(network_t *network, gpu_t *gpu, const arguments_t *options);
void network_fini(network_t *network);

/* Chooses the algorithms of all convolutions with the images in the host buffers and allocates
 * their workspaces. Changes no parameter. Waits for the device. */
void network_choose_algorithms(network_t *network);

/* Copies the host's images, or labels, to the device; the host buffers must rest until the stream
 * is done. */
void network_upload_images(network_t *network);
void network_upload_labels(network_t *network);
void network_forward(network_t *network, bool training);
void network_backward(network_t *network);
void network_update(network_t *network);

/* Waits for the stream. Afterwards host_probabilities holds those of the last forward pass. */
void network_wait(network_t *network);
/* Mean cross entropy of the first `count` images, from the host's probabilities and labels. */
double network_loss(const network_t *network, int count);
/* How many of them were classified rightly. */
int network_correct(const network_t *network, int count);

bool layer_is_convolution(const layer_t *layer); /* or fully connected: both run as one */
buffer_t network_workspace(const network_t *network, const layer_t *layer);
/* The copy of a parameter that layers read. */
void *parameter_value(const parameter_t *parameter);

#endif
