#include "network.h"

#include <math.h>
#include <stdlib.h>

#include "branches.h"
#include "layers.h"
#include "random.h"

#define LARGEST_SEARCH_BYTES ((size_t)8 << 30)
#define SMALLEST_SEARCH_BYTES ((size_t)1 << 20)

bool layer_is_convolution(const layer_t *layer)
{
    return layer->spec->kind == LAYER_CONVOLUTION || layer->spec->kind == LAYER_FC;
}

buffer_t network_workspace(const network_t *network, const layer_t *layer)
{
    if (network->scratch.data)
        return network->scratch;
    return network->options->workspace_per_layer ? layer->convolution.workspace
                                                 : network->workspaces[layer->lane];
}

static void connect_layers(network_t *network)
{
    for (int i = 0; i < network->count; i++) {
        layer_t *layer = &network->layers[i];
        layer->spec = &network->spec.layers[i];
        layer->index = i;
        for (int input = 0; input < layer->spec->input_count; input++) {
            layer->inputs[input] = &network->layers[layer->spec->inputs[input]].output;
            layer->inputs[input]->readers++;
        }
    }
}

/* A ReLU may overwrite its input where nothing else reads that, its own maker's backward pass
 * included. */
static bool may_work_in_place(const network_t *network, const layer_t *layer)
{
    if (layer->spec->kind != LAYER_RELU || layer->inputs[0]->readers != 1)
        return false;
    layer_kind_t maker = network->spec.layers[layer->spec->inputs[0]].kind;
    return maker == LAYER_CONVOLUTION || maker == LAYER_FC || maker == LAYER_BATCH_NORM ||
           maker == LAYER_ADD;
}

static void allocate_output(network_t *network, layer_t *layer)
{
    tensor_t *y = &layer->output;
    const char *name = layer->spec->name;
    if (y->h < 1 || y->w < 1)
        fail("%s: its input is smaller than its kernel", name);
    y->descriptor =
        make_descriptor(tensor_type(network), network->options->layout, y->n, y->c, y->h, y->w);
    y->in_place = may_work_in_place(network, layer);
    if (y->in_place) {
        y->value = layer->inputs[0]->value;
        y->gradient = layer->inputs[0]->gradient;
        return;
    }
    size_t bytes = multiply_bytes(tensor_elements(y), element_bytes(tensor_type(network)));
    y->value = gpu_alloc(network->gpu, bytes, name);
    if (layer->spec->kind != LAYER_DATA)
        y->gradient = gpu_alloc(network->gpu, bytes, name);
}

static void init_layers(network_t *network)
{
    uint64_t state = network->options->seed;
    for (int i = 0; i < network->count; i++) {
        layer_t *layer = &network->layers[i];
        layer_init(network, layer, &state);
        if (layer->spec->kind != LAYER_LOSS)
            allocate_output(network, layer);
    }
}

/* The two ends of the network: images in, probabilities and one-hot labels. */
static void init_ends(network_t *network)
{
    gpu_t *gpu = network->gpu;
    const tensor_t *data = &network->layers[0].output;
    const tensor_t *logits = network->layers[network->count - 1].inputs[0];
    size_t image_bytes = multiply_bytes(tensor_elements(data), sizeof(float));
    size_t class_bytes = multiply_bytes(tensor_elements(logits), sizeof(float));
    bool half = tensor_type(network) != CUDNN_DATA_FLOAT;
    network->images_descriptor =
        make_descriptor(CUDNN_DATA_FLOAT, LAYOUT_NCHW, data->n, data->c, data->h, data->w);
    network->classes_descriptor =
        make_descriptor(CUDNN_DATA_FLOAT, LAYOUT_NCHW, logits->n, logits->c, 1, 1);
    if (half || network->options->layout == LAYOUT_NHWC)
        network->images = gpu_alloc(gpu, image_bytes, "images");
    network->one_hot = gpu_alloc(gpu, class_bytes, "labels");
    network->probabilities = half ? gpu_alloc(gpu, class_bytes, "probabilities") : logits->gradient;
    if (half)
        network->logits = gpu_alloc(gpu, class_bytes, "logits");
    network->host_images = pinned_alloc(image_bytes);
    network->host_one_hot = pinned_alloc(class_bytes);
    network->host_probabilities = pinned_alloc(class_bytes);
    network->host_labels = calloc((size_t)data->n, sizeof *network->host_labels);
    if (!network->host_labels)
        fail("out of memory");
}

void network_init(network_t *network, gpu_t *gpu, const arguments_t *options)
{
    *network = (network_t){.gpu = gpu, .options = options};
    net_build(&network->spec, options->net, options->dropout);
    network->count = network->spec.count;
    network->layers = calloc((size_t)network->count, sizeof *network->layers);
    if (!network->layers)
        fail("out of memory");
    CUDNN_CHECK(cudnnCreateActivationDescriptor(&network->relu));
    CUDNN_CHECK(cudnnSetActivationDescriptor(network->relu, CUDNN_ACTIVATION_RELU,
                                             CUDNN_NOT_PROPAGATE_NAN, 0));
    CUDNN_CHECK(cudnnCreateOpTensorDescriptor(&network->sum));
    CUDNN_CHECK(cudnnSetOpTensorDescriptor(network->sum, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT,
                                           CUDNN_NOT_PROPAGATE_NAN));
    timers_init(&network->timers, network->count * DIRECTION_COUNT + 1);
    connect_layers(network);
    branches_init(network);
    init_layers(network);
    init_ends(network);
}

static void fini_ends(network_t *network)
{
    gpu_t *gpu = network->gpu;
    if (tensor_type(network) != CUDNN_DATA_FLOAT)
        gpu_free(gpu, &network->probabilities);
    gpu_free(gpu, &network->logits);
    gpu_free(gpu, &network->images);
    gpu_free(gpu, &network->one_hot);
    CUDA_CHECK(cudaFreeHost(network->host_images));
    CUDA_CHECK(cudaFreeHost(network->host_one_hot));
    CUDA_CHECK(cudaFreeHost(network->host_probabilities));
    free(network->host_labels);
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(network->images_descriptor));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(network->classes_descriptor));
}

void network_fini(network_t *network)
{
    fini_ends(network);
    for (int lane = 0; lane < network->gpu->lane_count; lane++)
        gpu_free(network->gpu, &network->workspaces[lane]);
    branches_fini(network);
    for (int i = network->count - 1; i >= 0; i--) {
        layer_t *layer = &network->layers[i];
        layer_fini(network, layer);
        if (layer->spec->kind == LAYER_LOSS)
            continue;
        if (!layer->output.in_place) {
            gpu_free(network->gpu, &layer->output.value);
            gpu_free(network->gpu, &layer->output.gradient);
        }
        CUDNN_CHECK(cudnnDestroyTensorDescriptor(layer->output.descriptor));
    }
    timers_fini(&network->timers);
    CUDNN_CHECK(cudnnDestroyOpTensorDescriptor(network->sum));
    CUDNN_CHECK(cudnnDestroyActivationDescriptor(network->relu));
    free(network->layers);
    net_free(&network->spec);
}

/* ---- algorithms and workspaces ---- */

/* As much as the limit says, or half as often as that cannot be had. */
static buffer_t allocate_scratch(network_t *network)
{
    size_t limit = network->options->workspace_limit_bytes;
    size_t bytes = limit == NO_LIMIT ? LARGEST_SEARCH_BYTES : limit;
    buffer_t scratch = gpu_try_alloc(network->gpu, bytes);
    while (!scratch.data && bytes / 2 >= SMALLEST_SEARCH_BYTES) {
        bytes /= 2;
        scratch = gpu_try_alloc(network->gpu, bytes);
    }
    if (limit != NO_LIMIT && scratch.bytes < limit)
        fprintf(stderr, "train_cnn: no memory for a workspace of %zu bytes; taking %zu\n", limit,
                scratch.bytes);
    return scratch;
}

static size_t largest_workspace(const convolution_t *convolution)
{
    size_t largest = 0;
    for (int direction = 0; direction < DIRECTION_COUNT; direction++)
        if (largest < convolution->choices[direction].workspace_bytes)
            largest = convolution->choices[direction].workspace_bytes;
    return largest;
}

static void allocate_workspaces(network_t *network)
{
    size_t largest[GPU_MAX_LANES] = {0}, sum = 0;
    bool per_layer = network->options->workspace_per_layer;
    for (int i = 0; i < network->count; i++) {
        layer_t *layer = &network->layers[i];
        if (!layer_is_convolution(layer))
            continue;
        size_t bytes = largest_workspace(&layer->convolution);
        if (largest[layer->lane] < bytes)
            largest[layer->lane] = bytes;
        if (!per_layer)
            continue;
        layer->convolution.workspace = gpu_alloc(network->gpu, bytes, "a workspace");
        sum += bytes;
    }
    for (int lane = 0; lane < network->gpu->lane_count && !per_layer; lane++) {
        network->workspaces[lane] = gpu_alloc(network->gpu, largest[lane], "the workspace");
        sum += largest[lane];
    }
    network->workspace_bytes = sum;
}

void network_choose_algorithms(network_t *network)
{
    network->scratch = allocate_scratch(network);
    network->search_bytes = network->scratch.bytes;
    network_upload_images(network);
    network_upload_labels(network);
    network->choosing = true;
    network_forward(network, true);
    network_backward(network);
    network_wait(network);
    network->choosing = false;
    gpu_free(network->gpu, &network->scratch);
    allocate_workspaces(network);
    network->training_bytes = network->gpu->allocated_bytes;
}

/* ---- passes ---- */

void network_upload_images(network_t *network)
{
    set_activity("upload");
    const tensor_t *data = &network->layers[0].output;
    const float one = 1, zero = 0;
    bool convert = network->images.data != NULL;
    size_t bytes = multiply_bytes(tensor_elements(data), sizeof(float));
    CUDA_CHECK(cudaMemcpyAsync(convert ? network->images.data : data->value.data,
                               network->host_images, bytes, cudaMemcpyHostToDevice,
                               network->gpu->stream));
    if (convert)
        CUDNN_CHECK(cudnnTransformTensor(network->gpu->cudnn, &one, network->images_descriptor,
                                         network->images.data, &zero, data->descriptor,
                                         data->value.data));
}

void network_upload_labels(network_t *network)
{
    set_activity("upload");
    int classes = network->spec.info->classes;
    for (int i = 0; i < network->options->batch; i++)
        for (int c = 0; c < classes; c++)
            network->host_one_hot[(size_t)i * (size_t)classes + (size_t)c] =
                network->host_labels[i] == c;
    CUDA_CHECK(cudaMemcpyAsync(network->one_hot.data, network->host_one_hot, network->one_hot.bytes,
                               cudaMemcpyHostToDevice, network->gpu->stream));
}

void network_forward(network_t *network, bool training)
{
    for (int i = 0; i < network->count; i++) {
        layer_t *layer = &network->layers[i];
        branches_before_forward(network, layer);
        layer_forward(network, layer, training);
        branches_after_forward(network, layer);
    }
    branches_join(network);
}

void network_backward(network_t *network)
{
    for (int i = 0; i < network->count; i++)
        network->layers[i].output.gradient_written = false;
    for (int i = network->count - 1; i >= 0; i--) {
        layer_t *layer = &network->layers[i];
        branches_before_backward(network, layer);
        layer_backward(network, layer);
        branches_after_backward(network, layer);
    }
    branches_join(network);
}

/* velocity = momentum * velocity + gradient / batch; value -= rate * velocity */
static void update_parameter(network_t *network, parameter_t *p)
{
    const arguments_t *options = network->options;
    cudnnHandle_t cudnn = network->gpu->cudnn;
    const float mean = 1.0f / (float)options->batch, momentum = (float)options->momentum;
    const float step = -(float)options->learning_rate, one = 1, zero = 0;
    if (p->copy.data)
        CUDNN_CHECK(cudnnTransformTensor(cudnn, &mean, p->descriptor, p->gradient.data, &momentum,
                                         p->master_descriptor, p->velocity.data));
    else
        CUDNN_CHECK(cudnnAddTensor(cudnn, &mean, p->master_descriptor, p->gradient.data, &momentum,
                                   p->master_descriptor, p->velocity.data));
    CUDNN_CHECK(cudnnAddTensor(cudnn, &step, p->master_descriptor, p->velocity.data, &one,
                               p->master_descriptor, p->master.data));
    if (p->copy.data)
        CUDNN_CHECK(cudnnTransformTensor(cudnn, &one, p->master_descriptor, p->master.data, &zero,
                                         p->descriptor, p->copy.data));
}

void network_update(network_t *network)
{
    set_activity("update");
    for (int i = 0; i < network->count; i++) {
        layer_t *layer = &network->layers[i];
        if (layer->weight.master.data)
            update_parameter(network, &layer->weight);
        if (layer->bias.master.data)
            update_parameter(network, &layer->bias);
    }
}

void network_wait(network_t *network)
{
    CUDA_CHECK(cudaStreamSynchronize(network->gpu->stream));
}

/* ---- results ---- */

static const float *probabilities_of(const network_t *network, int image)
{
    return network->host_probabilities + (size_t)image * (size_t)network->spec.info->classes;
}

double network_loss(const network_t *network, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double p = (double)probabilities_of(network, i)[network->host_labels[i]];
        sum -= log(p < 1e-30 ? 1e-30 : p); /* a NaN stays one */
    }
    return sum / count;
}

int network_correct(const network_t *network, int count)
{
    int correct = 0;
    for (int i = 0; i < count; i++) {
        const float *p = probabilities_of(network, i);
        int best = 0;
        for (int c = 1; c < network->spec.info->classes; c++)
            if (p[c] > p[best])
                best = c;
        correct += best == network->host_labels[i];
    }
    return correct;
}
