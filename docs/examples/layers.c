#include "layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

#define BATCH_NORM_EPSILON 1e-5
#define BATCH_NORM_MOMENTUM 0.1
/* The other spatial mode is slower: 96 instead of 70 ms an iteration of ResNet-18, fp16, channels
 * last (H200, cuDNN 9.19). */
#define BATCH_NORM_MODE CUDNN_BATCHNORM_SPATIAL_PERSISTENT

static const float one = 1, zero = 0, minus_one = -1;

cudnnTensorDescriptor_t make_descriptor(cudnnDataType_t type, layout_t layout, int n, int c, int h,
                                        int w)
{
    cudnnTensorDescriptor_t descriptor;
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&descriptor));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(
        descriptor, layout == LAYOUT_NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, type, n, c, h,
        w));
    return descriptor;
}

cudnnDataType_t tensor_type(const network_t *network)
{
    return convolution_element_type(network->options->type);
}

size_t element_bytes(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT ? 4 : 2;
}

size_t tensor_elements(const tensor_t *tensor)
{
    return multiply_bytes(multiply_bytes((size_t)tensor->n, (size_t)tensor->c),
                          (size_t)tensor->h * (size_t)tensor->w);
}

/* 0 for the first writer of the tensor's gradient in this pass, 1 for those who add to it. */
static const float *gradient_beta(tensor_t *tensor)
{
    bool written = tensor->gradient_written;
    tensor->gradient_written = true;
    return written ? &one : &zero;
}

static void set_shape(tensor_t *tensor, int n, int c, int h, int w)
{
    tensor->n = n;
    tensor->c = c;
    tensor->h = h;
    tensor->w = w;
}

/* ---- parameters ---- */

static size_t parameter_elements(const parameter_t *p)
{
    return multiply_bytes(multiply_bytes((size_t)p->k, (size_t)p->c), (size_t)p->r * (size_t)p->s);
}

/* Place in memory of logical element (k, c, r, s), where k c r s order is `nchw`. */
static size_t stored_index(const parameter_t *p, layout_t layout, int k, int c, int r, int s)
{
    size_t outer = (size_t)k, height = (size_t)p->r, width = (size_t)p->s, depth = (size_t)p->c;
    if (layout == LAYOUT_NHWC)
        return ((outer * height + (size_t)r) * width + (size_t)s) * depth + (size_t)c;
    return ((outer * depth + (size_t)c) * height + (size_t)r) * width + (size_t)s;
}

/* Draws in k c r s order whatever the layout, so that all layouts start from one network. */
static void fill_random(const parameter_t *p, layout_t layout, float bound, uint64_t *state,
                        float *values)
{
    for (int k = 0; k < p->k; k++)
        for (int c = 0; c < p->c; c++)
            for (int r = 0; r < p->r; r++)
                for (int s = 0; s < p->s; s++)
                    values[stored_index(p, layout, k, c, r, s)] = random_uniform(state, bound);
}

static void upload_parameter(network_t *network, const parameter_t *p, const float *values)
{
    cudaStream_t stream = network->gpu->stream;
    CUDA_CHECK(
        cudaMemcpyAsync(p->master.data, values, p->master.bytes, cudaMemcpyHostToDevice, stream));
    if (p->copy.data)
        CUDNN_CHECK(cudnnTransformTensor(network->gpu->cudnn, &one, p->master_descriptor,
                                         p->master.data, &zero, p->descriptor, p->copy.data));
    CUDA_CHECK(cudaStreamSynchronize(stream)); /* the values are the caller's again */
}

/* Dimensions must be set. Values start as `fill`, or evenly random within `bound` if that is not 0.
 */
static void init_parameter(network_t *network, parameter_t *p, cudnnDataType_t type,
                           layout_t layout, float fill, float bound, uint64_t *state)
{
    gpu_t *gpu = network->gpu;
    size_t elements = parameter_elements(p);
    size_t master_bytes = multiply_bytes(elements, sizeof(float));
    p->master_descriptor = make_descriptor(CUDNN_DATA_FLOAT, LAYOUT_NCHW, p->k, p->c, p->r, p->s);
    p->descriptor = make_descriptor(type, LAYOUT_NCHW, p->k, p->c, p->r, p->s);
    p->master = gpu_alloc(gpu, master_bytes, "a parameter");
    p->velocity = gpu_alloc(gpu, master_bytes, "a parameter's velocity");
    p->gradient = gpu_alloc(gpu, elements * element_bytes(type), "a parameter's gradient");
    if (type != CUDNN_DATA_FLOAT)
        p->copy = gpu_alloc(gpu, elements * element_bytes(type), "a parameter's copy");
    float *values = malloc(master_bytes);
    if (!values)
        fail("out of memory");
    if (bound > 0)
        fill_random(p, layout, bound, state, values);
    else
        for (size_t i = 0; i < elements; i++)
            values[i] = fill;
    upload_parameter(network, p, values);
    free(values);
}

static void fini_parameter(gpu_t *gpu, parameter_t *p)
{
    if (!p->descriptor)
        return;
    gpu_free(gpu, &p->master);
    gpu_free(gpu, &p->velocity);
    gpu_free(gpu, &p->gradient);
    gpu_free(gpu, &p->copy);
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(p->master_descriptor));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(p->descriptor));
}

void *parameter_value(const parameter_t *parameter)
{
    return parameter->copy.data ? parameter->copy.data : parameter->master.data;
}

/* ---- convolutions and fully connected layers ---- */

/* The largest divisor of `number` that is not above its square root. */
static int lower_divisor(int number)
{
    int divisor = 1;
    for (int i = 2; i <= number / i; i++)
        if (number % i == 0)
            divisor = i;
    return divisor;
}

/* A fully connected layer is a 1x1 convolution of the input seen as c * h * w channels; in memory
 * its weights are those of a convolution as large as the input, in every layout. The images of the
 * batch are seen as the pixels of one image, channels last, which is the same memory: as a batch of
 * 1x1 images cuDNN takes 57 ms without workspace for the weights' gradient of AlexNet's fc6, this
 * way 1.0 (H200, cuDNN 9.19). Only, there is no deterministic algorithm that way. */
static convolution_shape_t fc_shape(const layer_t *layer, bool deterministic)
{
    const tensor_t *x = layer->inputs[0];
    int rows = deterministic ? 1 : lower_divisor(x->n);
    int columns = deterministic ? 1 : x->n / rows;
    return (convolution_shape_t){.n = deterministic ? x->n : 1,
                                 .c = x->c * x->h * x->w,
                                 .h = rows,
                                 .w = columns,
                                 .k = layer->spec->channels,
                                 .r = 1,
                                 .s = 1,
                                 .stride = 1,
                                 .out_h = rows,
                                 .out_w = columns};
}

static convolution_shape_t convolution_shape(const layer_t *layer)
{
    const layer_spec_t *spec = layer->spec;
    const tensor_t *x = layer->inputs[0];
    return (convolution_shape_t){
        .n = x->n,
        .c = x->c,
        .h = x->h,
        .w = x->w,
        .k = spec->channels,
        .r = spec->kernel_h,
        .s = spec->kernel_w,
        .stride = spec->stride,
        .pad_h = spec->pad_h,
        .pad_w = spec->pad_w,
        .out_h = (x->h + 2 * spec->pad_h - spec->kernel_h) / spec->stride + 1,
        .out_w = (x->w + 2 * spec->pad_w - spec->kernel_w) / spec->stride + 1};
}

/* Makes the cuDNN side and sets the output's shape. */
static void init_cudnn_convolution(const arguments_t *options, layer_t *layer)
{
    const tensor_t *x = layer->inputs[0];
    if (layer->spec->kind == LAYER_FC) {
        convolution_shape_t shape = fc_shape(layer, options->deterministic);
        layout_t layout = options->deterministic ? options->layout : LAYOUT_NHWC;
        convolution_init(&layer->convolution, &shape, options, layout);
        set_shape(&layer->output, x->n, shape.k, 1, 1);
    } else {
        convolution_shape_t shape = convolution_shape(layer);
        convolution_init(&layer->convolution, &shape, options, options->layout);
        set_shape(&layer->output, x->n, shape.k, shape.out_h, shape.out_w);
    }
}

static void init_convolution(network_t *network, layer_t *layer, uint64_t *state)
{
    const arguments_t *options = network->options;
    const tensor_t *x = layer->inputs[0];
    init_cudnn_convolution(options, layer);
    bool fc = layer->spec->kind == LAYER_FC;
    parameter_t *weight = &layer->weight;
    weight->k = layer->spec->channels;
    weight->c = x->c;
    weight->r = fc ? x->h : layer->spec->kernel_h;
    weight->s = fc ? x->w : layer->spec->kernel_w;
    /* He et al. 2015: keeps the variance of activations through layers with ReLU. */
    float bound = sqrtf(6.0f / (float)(weight->c * weight->r * weight->s));
    if (network->spec.layers[layer->index + 1].kind == LAYER_LOSS)
        bound /= 10; /* training begins with nearly even probabilities */
    init_parameter(network, weight, tensor_type(network), options->layout, 0, bound, state);
    if (layer->spec->bias) {
        layer->bias = (parameter_t){.k = 1, .c = weight->k, .r = 1, .s = 1};
        init_parameter(network, &layer->bias, tensor_type(network), options->layout, 0, 0, state);
    }
}

static void fini_convolution(network_t *network, layer_t *layer)
{
    convolution_fini(network->gpu, &layer->convolution);
}

/* Chooses the algorithm where that has not been done, and runs and times the convolution. */
static void run_convolution(network_t *network, layer_t *layer, direction_t direction,
                            const convolution_operands_t *operands, float beta)
{
    gpu_t *gpu = network->gpu;
    int timer = layer->index * DIRECTION_COUNT + (int)direction;
    if (!layer->convolution.choices[direction].made)
        convolution_choose(gpu, &layer->convolution, direction, operands, network->scratch, beta,
                           network->options);
    timers_begin(&network->timers, timer, gpu->stream);
    convolution_run(gpu, &layer->convolution, direction, operands,
                    network_workspace(network, layer));
    timers_end(&network->timers, timer, gpu->stream);
}

static void forward_convolution(network_t *network, layer_t *layer, bool training)
{
    (void)training;
    run_convolution(network, layer, FORWARD,
                    &(convolution_operands_t){.x = layer->inputs[0]->value.data,
                                              .filter = parameter_value(&layer->weight),
                                              .y = layer->output.value.data},
                    0);
    if (layer->spec->bias)
        CUDNN_CHECK(cudnnAddTensor(network->gpu->cudnn, &one, layer->bias.descriptor,
                                   parameter_value(&layer->bias), &one, layer->output.descriptor,
                                   layer->output.value.data));
}

static void backward_convolution(network_t *network, layer_t *layer)
{
    tensor_t *x = layer->inputs[0];
    void *dy = layer->output.gradient.data;
    if (layer->spec->bias)
        CUDNN_CHECK(
            cudnnConvolutionBackwardBias(network->gpu->cudnn, &one, layer->output.descriptor, dy,
                                         &zero, layer->bias.descriptor, layer->bias.gradient.data));
    run_convolution(network, layer, BACKWARD_FILTER,
                    &(convolution_operands_t){
                        .x = x->value.data, .filter = layer->weight.gradient.data, .y = dy},
                    0);
    if (x->gradient.data)
        run_convolution(network, layer, BACKWARD_DATA,
                        &(convolution_operands_t){.x = x->gradient.data,
                                                  .filter = parameter_value(&layer->weight),
                                                  .y = dy},
                        *gradient_beta(x));
}

/* ---- ReLU ---- */

static void init_same_shape(network_t *network, layer_t *layer, uint64_t *state)
{
    (void)network;
    (void)state;
    const tensor_t *x = layer->inputs[0];
    set_shape(&layer->output, x->n, x->c, x->h, x->w);
}

static void forward_relu(network_t *network, layer_t *layer, bool training)
{
    (void)training;
    const tensor_t *x = layer->inputs[0];
    CUDNN_CHECK(cudnnActivationForward(network->gpu->cudnn, network->relu, &one, x->descriptor,
                                       x->value.data, &zero, layer->output.descriptor,
                                       layer->output.value.data));
}

static void backward_relu(network_t *network, layer_t *layer)
{
    tensor_t *x = layer->inputs[0];
    const tensor_t *y = &layer->output;
    CUDNN_CHECK(cudnnActivationBackward(network->gpu->cudnn, network->relu, &one, y->descriptor,
                                        y->value.data, y->descriptor, y->gradient.data,
                                        x->descriptor, x->value.data, gradient_beta(x),
                                        x->descriptor, x->gradient.data));
}

/* ---- pooling ---- */

static void init_pool(network_t *network, layer_t *layer, uint64_t *state)
{
    (void)network;
    (void)state;
    const layer_spec_t *spec = layer->spec;
    const tensor_t *x = layer->inputs[0];
    int h = spec->kernel_h ? spec->kernel_h : x->h;
    int w = spec->kernel_w ? spec->kernel_w : x->w;
    CUDNN_CHECK(cudnnCreatePoolingDescriptor(&layer->pooling));
    CUDNN_CHECK(cudnnSetPooling2dDescriptor(
        layer->pooling,
        spec->kind == LAYER_MAX_POOL ? CUDNN_POOLING_MAX_DETERMINISTIC
                                     : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
        CUDNN_NOT_PROPAGATE_NAN, h, w, spec->pad_h, spec->pad_w, spec->stride, spec->stride));
    set_shape(&layer->output, x->n, x->c, (x->h + 2 * spec->pad_h - h) / spec->stride + 1,
              (x->w + 2 * spec->pad_w - w) / spec->stride + 1);
}

static void fini_pool(network_t *network, layer_t *layer)
{
    (void)network;
    CUDNN_CHECK(cudnnDestroyPoolingDescriptor(layer->pooling));
}

static void forward_pool(network_t *network, layer_t *layer, bool training)
{
    (void)training;
    const tensor_t *x = layer->inputs[0];
    CUDNN_CHECK(cudnnPoolingForward(network->gpu->cudnn, layer->pooling, &one, x->descriptor,
                                    x->value.data, &zero, layer->output.descriptor,
                                    layer->output.value.data));
}

static void backward_pool(network_t *network, layer_t *layer)
{
    tensor_t *x = layer->inputs[0];
    const tensor_t *y = &layer->output;
    CUDNN_CHECK(cudnnPoolingBackward(network->gpu->cudnn, layer->pooling, &one, y->descriptor,
                                     y->value.data, y->descriptor, y->gradient.data, x->descriptor,
                                     x->value.data, gradient_beta(x), x->descriptor,
                                     x->gradient.data));
}

/* ---- batch normalisation ---- */

static void init_batch_norm(network_t *network, layer_t *layer, uint64_t *state)
{
    init_same_shape(network, layer, state);
    int c = layer->output.c;
    size_t bytes = (size_t)c * sizeof(float);
    layout_t layout = network->options->layout;
    layer->weight = (parameter_t){.k = 1, .c = c, .r = 1, .s = 1};
    layer->bias = layer->weight;
    /* cuDNN keeps these in fp32 beside half-precision tensors. */
    init_parameter(network, &layer->weight, CUDNN_DATA_FLOAT, layout, 1, 0, state);
    init_parameter(network, &layer->bias, CUDNN_DATA_FLOAT, layout, 0, 0, state);
    batch_norm_t *norm = &layer->norm;
    norm->running_mean = gpu_alloc(network->gpu, bytes, layer->spec->name);
    norm->running_variance = gpu_alloc(network->gpu, bytes, layer->spec->name);
    norm->saved_mean = gpu_alloc(network->gpu, bytes, layer->spec->name);
    norm->saved_inverse_deviation = gpu_alloc(network->gpu, bytes, layer->spec->name);
}

static void fini_batch_norm(network_t *network, layer_t *layer)
{
    gpu_free(network->gpu, &layer->norm.running_mean);
    gpu_free(network->gpu, &layer->norm.running_variance);
    gpu_free(network->gpu, &layer->norm.saved_mean);
    gpu_free(network->gpu, &layer->norm.saved_inverse_deviation);
}

static void forward_batch_norm(network_t *network, layer_t *layer, bool training)
{
    const tensor_t *x = layer->inputs[0], *y = &layer->output;
    const batch_norm_t *norm = &layer->norm;
    cudnnHandle_t cudnn = network->gpu->cudnn;
    cudnnTensorDescriptor_t channels = layer->weight.descriptor;
    if (training)
        CUDNN_CHECK(cudnnBatchNormalizationForwardTraining(
            cudnn, BATCH_NORM_MODE, &one, &zero, x->descriptor, x->value.data, y->descriptor,
            y->value.data, channels, layer->weight.master.data, layer->bias.master.data,
            BATCH_NORM_MOMENTUM, norm->running_mean.data, norm->running_variance.data,
            BATCH_NORM_EPSILON, norm->saved_mean.data, norm->saved_inverse_deviation.data));
    else
        CUDNN_CHECK(cudnnBatchNormalizationForwardInference(
            cudnn, BATCH_NORM_MODE, &one, &zero, x->descriptor, x->value.data, y->descriptor,
            y->value.data, channels, layer->weight.master.data, layer->bias.master.data,
            norm->running_mean.data, norm->running_variance.data, BATCH_NORM_EPSILON));
}

static void backward_batch_norm(network_t *network, layer_t *layer)
{
    tensor_t *x = layer->inputs[0];
    const tensor_t *y = &layer->output;
    CUDNN_CHECK(cudnnBatchNormalizationBackward(
        network->gpu->cudnn, BATCH_NORM_MODE, &one, gradient_beta(x), &one, &zero, x->descriptor,
        x->value.data, y->descriptor, y->gradient.data, x->descriptor, x->gradient.data,
        layer->weight.descriptor, layer->weight.master.data, layer->weight.gradient.data,
        layer->bias.gradient.data, BATCH_NORM_EPSILON, layer->norm.saved_mean.data,
        layer->norm.saved_inverse_deviation.data));
}

/* ---- dropout ---- */

static void init_dropout(network_t *network, layer_t *layer, uint64_t *state)
{
    init_same_shape(network, layer, state);
    dropout_t *dropout = &layer->dropout;
    const tensor_t *y = &layer->output;
    cudnnHandle_t cudnn = network->gpu->cudnn;
    size_t state_bytes, mask_bytes;
    CUDNN_CHECK(cudnnDropoutGetStatesSize(cudnn, &state_bytes));
    dropout->states = gpu_alloc(network->gpu, state_bytes, layer->spec->name);
    CUDNN_CHECK(cudnnCreateDropoutDescriptor(&dropout->descriptor));
    CUDNN_CHECK(cudnnSetDropoutDescriptor(
        dropout->descriptor, cudnn, (float)network->options->dropout, dropout->states.data,
        state_bytes, network->options->seed + (uint64_t)layer->index));
    cudnnTensorDescriptor_t descriptor =
        make_descriptor(tensor_type(network), network->options->layout, y->n, y->c, y->h, y->w);
    CUDNN_CHECK(cudnnDropoutGetReserveSpaceSize(descriptor, &mask_bytes));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(descriptor));
    dropout->mask = gpu_alloc(network->gpu, mask_bytes, layer->spec->name);
}

static void fini_dropout(network_t *network, layer_t *layer)
{
    CUDNN_CHECK(cudnnDestroyDropoutDescriptor(layer->dropout.descriptor));
    gpu_free(network->gpu, &layer->dropout.mask);
    gpu_free(network->gpu, &layer->dropout.states);
}

static void forward_dropout(network_t *network, layer_t *layer, bool training)
{
    const tensor_t *x = layer->inputs[0], *y = &layer->output;
    const dropout_t *dropout = &layer->dropout;
    if (training)
        CUDNN_CHECK(cudnnDropoutForward(network->gpu->cudnn, dropout->descriptor, x->descriptor,
                                        x->value.data, y->descriptor, y->value.data,
                                        dropout->mask.data, dropout->mask.bytes));
    else
        CUDA_CHECK(cudaMemcpyAsync(y->value.data, x->value.data, y->value.bytes,
                                   cudaMemcpyDeviceToDevice, network->gpu->stream));
}

/* Overwrites the input's gradient: nothing else reads what a dropout reads. */
static void backward_dropout(network_t *network, layer_t *layer)
{
    tensor_t *x = layer->inputs[0];
    const tensor_t *y = &layer->output;
    const dropout_t *dropout = &layer->dropout;
    x->gradient_written = true;
    CUDNN_CHECK(cudnnDropoutBackward(network->gpu->cudnn, dropout->descriptor, y->descriptor,
                                     y->gradient.data, x->descriptor, x->gradient.data,
                                     dropout->mask.data, dropout->mask.bytes));
}

/* ---- sums and concatenations ---- */

static void forward_add(network_t *network, layer_t *layer, bool training)
{
    (void)training;
    const tensor_t *a = layer->inputs[0], *b = layer->inputs[1];
    CUDNN_CHECK(cudnnOpTensor(network->gpu->cudnn, network->sum, &one, a->descriptor, a->value.data,
                              &one, b->descriptor, b->value.data, &zero, layer->output.descriptor,
                              layer->output.value.data));
}

static void backward_add(network_t *network, layer_t *layer)
{
    const tensor_t *y = &layer->output;
    for (int i = 0; i < layer->spec->input_count; i++) {
        tensor_t *x = layer->inputs[i];
        CUDNN_CHECK(cudnnAddTensor(network->gpu->cudnn, &one, y->descriptor, y->gradient.data,
                                   gradient_beta(x), x->descriptor, x->gradient.data));
    }
}

/* Descriptor of `x`'s channels inside the output, which has `channels` of them. */
static cudnnTensorDescriptor_t make_slice(const network_t *network, const tensor_t *x, int channels)
{
    bool nhwc = network->options->layout == LAYOUT_NHWC;
    cudnnTensorDescriptor_t slice;
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&slice));
    CUDNN_CHECK(cudnnSetTensor4dDescriptorEx(slice, tensor_type(network), x->n, x->c, x->h, x->w,
                                             channels * x->h * x->w, nhwc ? 1 : x->h * x->w,
                                             nhwc ? x->w * channels : x->w, nhwc ? channels : 1));
    return slice;
}

static void init_concat(network_t *network, layer_t *layer, uint64_t *state)
{
    (void)state;
    int channels = 0;
    for (int i = 0; i < layer->spec->input_count; i++)
        channels += layer->inputs[i]->c;
    size_t before = 0;
    for (int i = 0; i < layer->spec->input_count; i++) {
        const tensor_t *x = layer->inputs[i];
        size_t step = network->options->layout == LAYOUT_NHWC ? 1 : (size_t)x->h * (size_t)x->w;
        layer->slices[i] = make_slice(network, x, channels);
        layer->slice_offsets[i] = before * step * element_bytes(tensor_type(network));
        before += (size_t)x->c;
    }
    const tensor_t *first = layer->inputs[0];
    set_shape(&layer->output, first->n, channels, first->h, first->w);
}

static void fini_concat(network_t *network, layer_t *layer)
{
    (void)network;
    for (int i = 0; i < layer->spec->input_count; i++)
        CUDNN_CHECK(cudnnDestroyTensorDescriptor(layer->slices[i]));
}

static void forward_concat(network_t *network, layer_t *layer, bool training)
{
    (void)training;
    for (int i = 0; i < layer->spec->input_count; i++) {
        const tensor_t *x = layer->inputs[i];
        CUDNN_CHECK(cudnnTransformTensor(
            network->gpu->cudnn, &one, x->descriptor, x->value.data, &zero, layer->slices[i],
            (char *)layer->output.value.data + layer->slice_offsets[i]));
    }
}

static void backward_concat(network_t *network, layer_t *layer)
{
    for (int i = 0; i < layer->spec->input_count; i++) {
        tensor_t *x = layer->inputs[i];
        CUDNN_CHECK(
            cudnnTransformTensor(network->gpu->cudnn, &one, layer->slices[i],
                                 (char *)layer->output.gradient.data + layer->slice_offsets[i],
                                 gradient_beta(x), x->descriptor, x->gradient.data));
    }
}

/* ---- data and loss ---- */

static void init_data(network_t *network, layer_t *layer, uint64_t *state)
{
    (void)state;
    const net_info_t *info = network->spec.info;
    set_shape(&layer->output, network->options->batch, info->channels, info->height, info->width);
}

static void forward_loss(network_t *network, layer_t *layer, bool training)
{
    (void)training;
    const tensor_t *logits = layer->inputs[0];
    const void *x = logits->value.data;
    cudnnHandle_t cudnn = network->gpu->cudnn;
    if (network->logits.data) {
        CUDNN_CHECK(cudnnTransformTensor(cudnn, &one, logits->descriptor, x, &zero,
                                         network->classes_descriptor, network->logits.data));
        x = network->logits.data;
    }
    CUDNN_CHECK(cudnnSoftmaxForward(cudnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE,
                                    &one, network->classes_descriptor, x, &zero,
                                    network->classes_descriptor, network->probabilities.data));
    CUDA_CHECK(cudaMemcpyAsync(network->host_probabilities, network->probabilities.data,
                               network->probabilities.bytes, cudaMemcpyDeviceToHost,
                               network->gpu->stream));
}

/* The gradient of the cross entropy after a softmax: probabilities minus the one-hot labels. */
static void backward_loss(network_t *network, layer_t *layer)
{
    tensor_t *logits = layer->inputs[0];
    cudnnHandle_t cudnn = network->gpu->cudnn;
    CUDNN_CHECK(cudnnAddTensor(cudnn, &minus_one, network->classes_descriptor,
                               network->one_hot.data, &one, network->classes_descriptor,
                               network->probabilities.data));
    if (network->probabilities.data != logits->gradient.data)
        CUDNN_CHECK(cudnnTransformTensor(cudnn, &one, network->classes_descriptor,
                                         network->probabilities.data, &zero, logits->descriptor,
                                         logits->gradient.data));
    logits->gradient_written = true;
}

/* ---- the table ---- */

static const struct {
    void (*init)(network_t *network, layer_t *layer, uint64_t *state);
    void (*fini)(network_t *network, layer_t *layer);
    void (*forward)(network_t *network, layer_t *layer, bool training);
    void (*backward)(network_t *network, layer_t *layer);
} operations[LAYER_KIND_COUNT] = {
    [LAYER_DATA] = {init_data, NULL, NULL, NULL},
    [LAYER_CONVOLUTION] = {init_convolution, fini_convolution, forward_convolution,
                           backward_convolution},
    [LAYER_FC] = {init_convolution, fini_convolution, forward_convolution, backward_convolution},
    [LAYER_RELU] = {init_same_shape, NULL, forward_relu, backward_relu},
    [LAYER_MAX_POOL] = {init_pool, fini_pool, forward_pool, backward_pool},
    [LAYER_AVERAGE_POOL] = {init_pool, fini_pool, forward_pool, backward_pool},
    [LAYER_BATCH_NORM] = {init_batch_norm, fini_batch_norm, forward_batch_norm,
                          backward_batch_norm},
    [LAYER_DROPOUT] = {init_dropout, fini_dropout, forward_dropout, backward_dropout},
    [LAYER_ADD] = {init_same_shape, NULL, forward_add, backward_add},
    [LAYER_CONCAT] = {init_concat, fini_concat, forward_concat, backward_concat},
    [LAYER_LOSS] = {init_same_shape, NULL, forward_loss, backward_loss},
};

void layer_init(network_t *network, layer_t *layer, uint64_t *state)
{
    set_activity(layer->spec->name);
    operations[layer->spec->kind].init(network, layer, state);
}

void layer_fini(network_t *network, layer_t *layer)
{
    set_activity(layer->spec->name);
    if (operations[layer->spec->kind].fini)
        operations[layer->spec->kind].fini(network, layer);
    fini_parameter(network->gpu, &layer->weight);
    fini_parameter(network->gpu, &layer->bias);
}

void layer_forward(network_t *network, layer_t *layer, bool training)
{
    set_activity(layer->spec->name);
    if (operations[layer->spec->kind].forward)
        operations[layer->spec->kind].forward(network, layer, training);
}

void layer_backward(network_t *network, layer_t *layer)
{
    set_activity(layer->spec->name);
    if (operations[layer->spec->kind].backward)
        operations[layer->spec->kind].backward(network, layer);
}
