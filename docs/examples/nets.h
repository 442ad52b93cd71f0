/* The networks as graphs of layers. Layer i makes tensor i; a layer names the tensors that it
 * reads, so a list of layers in order is a schedule of the forward pass, and backwards one of the
 * backward pass. */
#ifndef TRAIN_CNN_NETS_H
#define TRAIN_CNN_NETS_H

#include <stdbool.h>
#include <stdio.h>

typedef enum layer_kind {
    LAYER_DATA,        /* the images; always layer 0 */
    LAYER_CONVOLUTION, /* with a bias if `bias` */
    LAYER_FC,          /* fully connected: a convolution as large as its input */
    LAYER_RELU,
    LAYER_MAX_POOL,
    LAYER_AVERAGE_POOL, /* kernel_h 0: over the whole image */
    LAYER_BATCH_NORM,
    LAYER_DROPOUT,
    LAYER_ADD,    /* the sum of two tensors */
    LAYER_CONCAT, /* tensors one after the other along the channels */
    LAYER_LOSS,   /* softmax and cross entropy; always the last layer */
    LAYER_KIND_COUNT
} layer_kind_t;

#define LAYER_MAX_INPUTS 6

typedef struct layer_spec {
    layer_kind_t kind;
    char name[32];
    int inputs[LAYER_MAX_INPUTS]; /* indices of earlier layers */
    int input_count;
    int channels; /* of the output; convolution and fc only */
    int kernel_h, kernel_w, stride, pad_h, pad_w;
    bool bias;
    int branch; /* of its block, from 1: independent of the block's others; 0: outside of any */
} layer_spec_t;

struct net_spec;

typedef struct net_info {
    const char *name;
    const char *description;
    bool digits; /* trains on the handwritten digits, else on random data */
    int channels, height, width, classes;
    int batch;                          /* default, images */
    double learning_rate;               /* default */
    double dropout;                     /* default; negative: the network has no place for it */
    int branches;                       /* most of a block; 0: it has no blocks of branches */
    int (*build)(struct net_spec *net); /* adds the layers before the loss; returns the logits */
} net_info_t;

typedef struct net_spec {
    const net_info_t *info;
    layer_spec_t *layers;
    int count, capacity;
    double dropout; /* while it is built: no layers for 0 */
    int branch;     /* while it is built: of the layers that are added */
} net_spec_t;

/* NULL if there is no network of that name. */
const net_info_t *net_find(const char *name);
/* One line a network, for --help. */
void net_print_list(FILE *out);

/* Fills *net; release it with net_free. Without dropout layers if `dropout` is 0. */
void net_build(net_spec_t *net, const net_info_t *info, double dropout);
void net_free(net_spec_t *net);

#endif
