/* ResNet-50 as PyTorch trains it, without the convolutions of shortcuts: one range a tensor,
 * scratch as large as a convolution's tensors for half of them, times shared out by bytes. */
#ifndef MDNN_TEST_RESNET50_PERIOD_H
#define MDNN_TEST_RESNET50_PERIOD_H

#include "test/unit/vgg16_period.h"

enum { RESNET50_LAYERS = 51 };

typedef struct resnet50_layer {
    uint64_t in_bytes, out_bytes, weight_bytes; /* weight_bytes 0: pooling */
    bool joins;                                 /* a shortcut ends here */
    uint32_t x, raw, y, w, shortcut;            /* ranges; raw: before BatchNorm */
} resnet50_layer_t;

typedef struct resnet50 {
    random_period_t *random;
    resnet50_layer_t layers[RESNET50_LAYERS];
    int count;
    uint64_t images;
    double per_byte_us, bytes; /* of all operations */
    uint64_t state;            /* of the choice of scratch */
} resnet50_t;

static inline void resnet50_add(resnet50_t *net, uint64_t in, uint64_t out, uint64_t size,
                                uint64_t to, uint64_t kernel)
{
    net->layers[net->count++] = (resnet50_layer_t){.in_bytes = 4 * net->images * in * size * size,
                                                   .out_bytes = 4 * net->images * out * to * to,
                                                   .weight_bytes = 4 * in * out * kernel * kernel};
}

static inline void resnet50_layers(resnet50_t *net)
{
    static const int blocks[] = {3, 4, 6, 3};
    uint64_t in = 64, size = 56;
    resnet50_add(net, 3, 64, 224, 112, 7);
    resnet50_add(net, 64, 64, 112, 56, 0);
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            const uint64_t wide = (uint64_t)64 << stage;
            const uint64_t to = block == 0 && stage > 0 ? size / 2 : size;
            resnet50_add(net, in, wide, size, size, 1);
            resnet50_add(net, wide, wide, size, to, 3);
            resnet50_add(net, wide, 4 * wide, to, to, 1);
            net->layers[net->count - 1].joins = true;
            in = 4 * wide;
            size = to;
        }
    resnet50_add(net, in, in, 7, 1, 0);
}

static inline void resnet50_operation(resnet50_t *net, mdnn_operation_kind_t kind, uint64_t bytes)
{
    net->bytes += (double)bytes;
    random_period_operation(net->random, kind, (double)bytes * net->per_byte_us, 0);
}

static inline void resnet50_use(resnet50_t *net, uint32_t range, mdnn_use_role_t role)
{
    random_period_use(net->random, range, role);
}

/* Of the convolution that was added last. */
static inline void resnet50_scratch(resnet50_t *net, const resnet50_layer_t *layer)
{
    if (layer->weight_bytes > 0 && random_next(&net->state) % 2 == 0)
        resnet50_use(net, vgg16_range(net->random, (double)(layer->in_bytes + layer->out_bytes)),
                     MDNN_USE_WRITE);
}

static inline uint32_t resnet50_forward(resnet50_t *net)
{
    uint32_t x = vgg16_range(net->random, (double)net->layers[0].in_bytes), shortcut = 0;
    for (int l = 0; l < net->count; l++) {
        resnet50_layer_t *const layer = &net->layers[l];
        const bool pools = layer->weight_bytes == 0;
        layer->x = x;
        layer->shortcut = shortcut;
        layer->y = layer->raw = x = vgg16_range(net->random, (double)layer->out_bytes);
        resnet50_operation(net, pools ? MDNN_OPERATION_OTHER : MDNN_OPERATION_FORWARD,
                           layer->in_bytes + layer->out_bytes);
        resnet50_use(net, layer->x, MDNN_USE_READ);
        resnet50_use(net, layer->raw, MDNN_USE_WRITE);
        if (!pools) {
            layer->w = random_period_range(net->random, layer->weight_bytes, MDNN_NO_POSITION,
                                           MDNN_NO_POSITION);
            resnet50_use(net, layer->w, MDNN_USE_READ);
            resnet50_scratch(net, layer);
            layer->y = x = vgg16_range(net->random, (double)layer->out_bytes);
            resnet50_operation(net, MDNN_OPERATION_OTHER, 2 * layer->out_bytes);
            resnet50_use(net, layer->raw, MDNN_USE_READ);
            resnet50_use(net, layer->y, MDNN_USE_WRITE);
        }
        if (layer->joins)
            resnet50_use(net, layer->shortcut, MDNN_USE_READ);
        if (layer->joins || pools)
            shortcut = x;
    }
    return x;
}

static inline void resnet50_backward(resnet50_t *net, const resnet50_layer_t *layer, uint32_t *dy)
{
    const bool pools = layer->weight_bytes == 0;
    for (int step = 0; step < 2 && !pools; step++) { /* ReLU, BatchNorm */
        const uint32_t next = vgg16_range(net->random, (double)layer->out_bytes);
        resnet50_operation(net, MDNN_OPERATION_OTHER, (uint64_t)(2 + step) * layer->out_bytes);
        resnet50_use(net, step == 0 ? layer->y : layer->raw, MDNN_USE_READ);
        resnet50_use(net, *dy, MDNN_USE_READ);
        resnet50_use(net, next, MDNN_USE_WRITE);
        *dy = next;
    }
    const uint32_t dx = vgg16_range(net->random, (double)layer->in_bytes);
    resnet50_operation(net, pools ? MDNN_OPERATION_OTHER : MDNN_OPERATION_BACKWARD_DATA,
                       layer->in_bytes + layer->out_bytes);
    resnet50_use(net, *dy, MDNN_USE_READ);
    resnet50_use(net, dx, MDNN_USE_WRITE);
    resnet50_use(net, pools ? layer->x : layer->w, MDNN_USE_READ);
    resnet50_scratch(net, layer);
    if (!pools) {
        resnet50_operation(net, MDNN_OPERATION_BACKWARD_FILTER, layer->in_bytes + layer->out_bytes);
        resnet50_use(net, layer->x, MDNN_USE_READ);
        resnet50_use(net, *dy, MDNN_USE_READ);
        resnet50_use(net, layer->w, MDNN_USE_UNKNOWN);
        resnet50_scratch(net, layer);
    }
    *dy = dx;
}

/* Returns the bytes of all operations. */
static inline double resnet50_build(random_period_t *random, uint64_t images, double per_byte_us)
{
    resnet50_t net = {.random = random, .images = images, .per_byte_us = per_byte_us, .state = 1};
    random_period_start(random, 1);
    resnet50_layers(&net);
    const uint32_t out = resnet50_forward(&net);
    const resnet50_layer_t *const last = &net.layers[net.count - 1];
    uint32_t dy = vgg16_range(random, (double)last->out_bytes);
    resnet50_operation(&net, MDNN_OPERATION_OTHER, 2 * last->out_bytes); /* loss */
    resnet50_use(&net, out, MDNN_USE_READ);
    resnet50_use(&net, dy, MDNN_USE_WRITE);
    for (int l = net.count; l-- > 0;)
        resnet50_backward(&net, &net.layers[l], &dy);
    vgg16_settle_lives(random);
    return net.bytes;
}

static inline void resnet50_fill(random_period_t *random, uint64_t images, double iteration_us)
{
    resnet50_build(random, images, iteration_us / resnet50_build(random, images, 0));
}

#endif
