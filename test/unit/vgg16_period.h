/* The feature extraction of VGG-16 as PyTorch trains it (activations in place, one range a tensor),
 * with times shared out over its convolutions by their operations and over the rest by bytes, so
 * that forward and backward take what the caller says. */
#ifndef VGG16_PERIOD_H
#define VGG16_PERIOD_H

#include "test/unit/random_period.h"

enum { VGG16_CONVOLUTIONS = 13, VGG16_LAYERS = 18 };

typedef struct vgg16_layer {
    bool pools;
    uint32_t x, y, w; /* ranges */
    double work, bytes;
} vgg16_layer_t;

/* Where each range dies is where it is named last; known when all is written. */
static inline void vgg16_settle_lives(random_period_t *random)
{
    for (uint32_t i = 0; i < random->period.operation_count; i++)
        for (uint32_t u = 0; u < random->operations[i].use_count; u++) {
            mdnn_period_range_t *const range =
                &random->ranges[random->uses[random->operations[i].first_use + u].range];
            if (mdnn_range_is_permanent(range))
                continue;
            range->birth = range->birth < i ? range->birth : i;
            range->death = range->death > i ? range->death : i;
        }
}

static inline uint32_t vgg16_range(random_period_t *random, double bytes)
{
    return random_period_range(random, (uint64_t)bytes, MDNN_PERIOD_OPERATIONS, 0);
}

static inline void vgg16_layers(random_period_t *random, double images, vgg16_layer_t *layers)
{
    static const int widths[VGG16_LAYERS] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                             0,  512, 512, 512, 0,   512, 512, 512, 0};
    double side = 224, channels = 3;
    uint32_t x = vgg16_range(random, images * channels * side * side * 4);
    for (int l = 0; l < VGG16_LAYERS; l++) {
        vgg16_layer_t *const layer = &layers[l];
        *layer = (vgg16_layer_t){.pools = widths[l] == 0, .x = x};
        side = layer->pools ? side / 2 : side;
        if (!layer->pools) {
            layer->work = images * side * side * 9 * channels * widths[l];
            layer->w = random_period_range(random, (uint64_t)(9 * 4 * channels * widths[l]),
                                           MDNN_NO_POSITION, MDNN_NO_POSITION);
            channels = widths[l];
        }
        layer->bytes = images * channels * side * side * 4;
        layer->y = x = vgg16_range(random, layer->bytes);
    }
}

static inline void vgg16_backward(random_period_t *random, const vgg16_layer_t *layer, uint32_t *dy,
                                  double per_work_us, double per_byte_us)
{
    const double in_bytes = (double)random->ranges[layer->x].bytes;
    const uint32_t dx = vgg16_range(random, in_bytes);
    if (layer->pools) {
        random_period_operation(random, MDNN_OPERATION_OTHER, in_bytes * per_byte_us, 0);
        random_period_use(random, layer->x, MDNN_USE_READ);
        random_period_use(random, *dy, MDNN_USE_READ);
        random_period_use(random, dx, MDNN_USE_WRITE);
        *dy = dx;
        return;
    }
    const uint32_t dz = vgg16_range(random, layer->bytes);
    random_period_operation(random, MDNN_OPERATION_OTHER, layer->bytes * per_byte_us, 0);
    random_period_use(random, layer->y, MDNN_USE_READ);
    random_period_use(random, *dy, MDNN_USE_READ);
    random_period_use(random, dz, MDNN_USE_WRITE);
    random_period_operation(random, MDNN_OPERATION_BACKWARD_DATA, layer->work * per_work_us, 0);
    random_period_use(random, layer->w, MDNN_USE_READ);
    random_period_use(random, dz, MDNN_USE_READ);
    random_period_use(random, dx, MDNN_USE_WRITE);
    random_period_operation(random, MDNN_OPERATION_BACKWARD_FILTER, layer->work * per_work_us, 0);
    random_period_use(random, layer->x, MDNN_USE_READ);
    random_period_use(random, dz, MDNN_USE_READ);
    random_period_use(random, layer->w, MDNN_USE_UNKNOWN);
    *dy = dx;
}

static inline void vgg16_fill(random_period_t *random, double images, double forward_us,
                              double backward_us)
{
    vgg16_layer_t layers[VGG16_LAYERS];
    double work = 0, bytes = 0;
    random_period_start(random, 1);
    vgg16_layers(random, images, layers);
    for (int l = 0; l < VGG16_LAYERS; l++) {
        work += layers[l].work;
        bytes += layers[l].bytes;
    }
    /* Activations and pooling: a fifth of the time. */
    const double forward_work = 0.8 * forward_us / work, forward_byte = 0.2 * forward_us / bytes;
    for (int l = 0; l < VGG16_LAYERS; l++) {
        const vgg16_layer_t *const layer = &layers[l];
        random_period_operation(
            random, layer->pools ? MDNN_OPERATION_OTHER : MDNN_OPERATION_FORWARD,
            layer->pools ? layer->bytes * forward_byte : layer->work * forward_work, 0);
        random_period_use(random, layer->x, MDNN_USE_READ);
        if (!layer->pools)
            random_period_use(random, layer->w, MDNN_USE_READ);
        random_period_use(random, layer->y, MDNN_USE_WRITE);
        if (layer->pools)
            continue;
        random_period_operation(random, MDNN_OPERATION_OTHER, layer->bytes * forward_byte, 0);
        random_period_use(random, layer->y, MDNN_USE_UNKNOWN);
    }
    uint32_t dy = vgg16_range(random, layers[VGG16_LAYERS - 1].bytes);
    random_period_operation(random, MDNN_OPERATION_OTHER, 1, 0); /* classifier and loss */
    random_period_use(random, layers[VGG16_LAYERS - 1].y, MDNN_USE_READ);
    random_period_use(random, dy, MDNN_USE_WRITE);
    for (int l = VGG16_LAYERS; l-- > 0;)
        vgg16_backward(random, &layers[l], &dy, 0.4 * backward_us / work,
                       0.2 * backward_us / bytes);
    vgg16_settle_lives(random);
}

#endif
