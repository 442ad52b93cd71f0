#include "nets.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* ---- building blocks: each adds layers that read tensor `from` and returns the tensor it made
 * ---- */

static int add_layer(net_spec_t *net, layer_spec_t layer, const char *name)
{
    if (net->count == net->capacity) {
        net->capacity = net->capacity ? 2 * net->capacity : 64;
        net->layers = realloc(net->layers, (size_t)net->capacity * sizeof *net->layers);
        if (!net->layers)
            fail("out of memory");
    }
    snprintf(layer.name, sizeof layer.name, "%s", name);
    layer.branch = net->branch;
    net->layers[net->count] = layer;
    return net->count++;
}

__attribute__((format(printf, 2, 3))) static const char *format_name(char name[32],
                                                                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, 32, format, arguments);
    va_end(arguments);
    return name;
}

static int convolution(net_spec_t *net, const char *name, int from, int channels, int kernel,
                       int stride, int pad, bool bias)
{
    return add_layer(net,
                     (layer_spec_t){.kind = LAYER_CONVOLUTION,
                                    .inputs = {from},
                                    .input_count = 1,
                                    .channels = channels,
                                    .kernel_h = kernel,
                                    .kernel_w = kernel,
                                    .stride = stride,
                                    .pad_h = pad,
                                    .pad_w = pad,
                                    .bias = bias},
                     name);
}

static int unary(net_spec_t *net, layer_kind_t kind, const char *suffix, int from)
{
    char name[32];
    format_name(name, "%.24s.%s", net->layers[from].name, suffix);
    return add_layer(net, (layer_spec_t){.kind = kind, .inputs = {from}, .input_count = 1}, name);
}

static int relu(net_spec_t *net, int from)
{
    return unary(net, LAYER_RELU, "relu", from);
}

static int batch_norm(net_spec_t *net, int from)
{
    return unary(net, LAYER_BATCH_NORM, "bn", from);
}

static int pool(net_spec_t *net, layer_kind_t kind, const char *name, int from, int kernel,
                int stride, int pad)
{
    return add_layer(net,
                     (layer_spec_t){.kind = kind,
                                    .inputs = {from},
                                    .input_count = 1,
                                    .kernel_h = kernel,
                                    .kernel_w = kernel,
                                    .stride = stride,
                                    .pad_h = pad,
                                    .pad_w = pad},
                     name);
}

static int max_pool(net_spec_t *net, const char *name, int from, int kernel, int stride, int pad)
{
    return pool(net, LAYER_MAX_POOL, name, from, kernel, stride, pad);
}

static int global_average_pool(net_spec_t *net, int from)
{
    return pool(net, LAYER_AVERAGE_POOL, "avgpool", from, 0, 1, 0);
}

static int fc(net_spec_t *net, const char *name, int from, int channels)
{
    layer_spec_t layer = {.kind = LAYER_FC,
                          .inputs = {from},
                          .input_count = 1,
                          .channels = channels,
                          .stride = 1,
                          .bias = true};
    return add_layer(net, layer, name);
}

static int dropout(net_spec_t *net, int from)
{
    return net->dropout > 0 ? unary(net, LAYER_DROPOUT, "drop", from) : from;
}

static int join(net_spec_t *net, layer_kind_t kind, const char *name, int a, int b)
{
    return add_layer(net, (layer_spec_t){.kind = kind, .inputs = {a, b}, .input_count = 2}, name);
}

/* `tensors` ends with -1. */
static int concat(net_spec_t *net, const char *name, const int *tensors)
{
    layer_spec_t layer = {.kind = LAYER_CONCAT};
    while (tensors[layer.input_count] >= 0) {
        layer.inputs[layer.input_count] = tensors[layer.input_count];
        layer.input_count++;
    }
    return add_layer(net, layer, name);
}

static int convolution_relu(net_spec_t *net, const char *name, int from, int channels, int kernel,
                            int stride, int pad)
{
    return relu(net, convolution(net, name, from, channels, kernel, stride, pad, true));
}

static int convolution_norm(net_spec_t *net, const char *name, int from, int channels, int kernel,
                            int stride, int pad)
{
    return batch_norm(net, convolution(net, name, from, channels, kernel, stride, pad, false));
}

/* ---- the networks ---- */

/* LeCun's shape for 8x8 images: convolution, pooling, twice, then fully connected. The 5x5
 * convolution is wide enough that FFT and Winograd algorithms, which need workspace, are worth it
 * (H200: 0.07 instead of 0.11 ms at batch 256), yet an epoch takes 3 s where a CPU does the
 * arithmetic. */
static int build_lenet(net_spec_t *net)
{
    int t = convolution_relu(net, "conv1", 0, 32, 5, 1, 2);
    t = convolution_relu(net, "conv2", t, 64, 5, 1, 2);
    t = max_pool(net, "pool1", t, 2, 2, 0);
    t = convolution_relu(net, "conv3", t, 128, 3, 1, 1);
    t = max_pool(net, "pool2", t, 2, 2, 0);
    t = dropout(net, relu(net, fc(net, "fc1", t, 128)));
    return fc(net, "fc2", t, 10);
}

/* The single column of "One weird trick for parallelizing convolutional neural networks" as
 * torchvision has it, with the dropout of the two-column network: after fc6 and fc7. */
static int build_alexnet(net_spec_t *net)
{
    int t = convolution_relu(net, "conv1", 0, 64, 11, 4, 2);
    t = max_pool(net, "pool1", t, 3, 2, 0);
    t = convolution_relu(net, "conv2", t, 192, 5, 1, 2);
    t = max_pool(net, "pool2", t, 3, 2, 0);
    t = convolution_relu(net, "conv3", t, 384, 3, 1, 1);
    t = convolution_relu(net, "conv4", t, 256, 3, 1, 1);
    t = convolution_relu(net, "conv5", t, 256, 3, 1, 1);
    t = max_pool(net, "pool5", t, 3, 2, 0);
    t = dropout(net, relu(net, fc(net, "fc6", t, 4096)));
    t = dropout(net, relu(net, fc(net, "fc7", t, 4096)));
    return fc(net, "fc8", t, 1000);
}

/* The "fast" model of the OverFeat paper, as in convnet-benchmarks. */
static int build_overfeat(net_spec_t *net)
{
    int t = convolution_relu(net, "conv1", 0, 96, 11, 4, 0);
    t = max_pool(net, "pool1", t, 2, 2, 0);
    t = convolution_relu(net, "conv2", t, 256, 5, 1, 0);
    t = max_pool(net, "pool2", t, 2, 2, 0);
    t = convolution_relu(net, "conv3", t, 512, 3, 1, 1);
    t = convolution_relu(net, "conv4", t, 1024, 3, 1, 1);
    t = convolution_relu(net, "conv5", t, 1024, 3, 1, 1);
    t = max_pool(net, "pool5", t, 2, 2, 0);
    t = dropout(net, relu(net, fc(net, "fc6", t, 3072)));
    t = dropout(net, relu(net, fc(net, "fc7", t, 4096)));
    return fc(net, "fc8", t, 1000);
}

/* Configuration D of "Very deep convolutional networks". */
static int build_vgg16(net_spec_t *net)
{
    static const struct {
        int channels, count;
    } blocks[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
    char name[32];
    int t = 0;
    for (int block = 0; block < 5; block++) {
        for (int i = 0; i < blocks[block].count; i++)
            t = convolution_relu(net, format_name(name, "conv%d_%d", block + 1, i + 1), t,
                                 blocks[block].channels, 3, 1, 1);
        t = max_pool(net, format_name(name, "pool%d", block + 1), t, 2, 2, 0);
    }
    t = dropout(net, relu(net, fc(net, "fc6", t, 4096)));
    t = dropout(net, relu(net, fc(net, "fc7", t, 4096)));
    return fc(net, "fc8", t, 1000);
}

/* One residual block: the main path of `basic` (two 3x3) or bottleneck (1x1, 3x3, 1x1 of four times
 * the channels) shape, and a projection where the shape changes. The stride sits on the 3x3, as
 * torchvision has it. */
static int residual_block(net_spec_t *net, const char *prefix, int from, int channels, int stride,
                          bool basic, bool project)
{
    char name[32];
    int out_channels = basic ? channels : 4 * channels;
    int t = from;
    if (!basic)
        t = relu(net,
                 convolution_norm(net, format_name(name, "%s.a", prefix), t, channels, 1, 1, 0));
    t = relu(net,
             convolution_norm(net, format_name(name, "%s.b", prefix), t, channels, 3, stride, 1));
    t = convolution_norm(net, format_name(name, "%s.c", prefix), t, out_channels, basic ? 3 : 1, 1,
                         basic ? 1 : 0);
    int shortcut = from;
    if (project)
        shortcut = convolution_norm(net, format_name(name, "%s.shortcut", prefix), from,
                                    out_channels, 1, stride, 0);
    return relu(net, join(net, LAYER_ADD, format_name(name, "%s.add", prefix), t, shortcut));
}

static int build_resnet(net_spec_t *net, const int counts[4], bool basic)
{
    char prefix[32];
    int t = relu(net, convolution_norm(net, "conv1", 0, 64, 7, 2, 3));
    t = max_pool(net, "pool1", t, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < counts[stage]; i++)
            t = residual_block(net, format_name(prefix, "conv%d_%d", stage + 2, i + 1), t,
                               64 << stage, i == 0 && stage > 0 ? 2 : 1, basic,
                               i == 0 && (stage > 0 || !basic));
    return fc(net, "fc", global_average_pool(net, t), 1000);
}

static int build_resnet18(net_spec_t *net)
{
    return build_resnet(net, (const int[]){2, 2, 2, 2}, true);
}

static int build_resnet50(net_spec_t *net)
{
    return build_resnet(net, (const int[]){3, 4, 6, 3}, false);
}

/* What tells DenseNets apart. Those with bottlenecks have a 1x1 convolution of four times the
 * growth before each 3x3 and halve the channels between blocks. */
typedef struct dense_shape {
    int block_count;
    int counts[4]; /* layers of each block */
    int growth;
    bool bottleneck;
} dense_shape_t;

/* Returns the new channels alone. */
static int dense_layer(net_spec_t *net, const dense_shape_t *shape, const char *name, int from)
{
    char part[32];
    int t = relu(net, batch_norm(net, from));
    if (!shape->bottleneck)
        return convolution(net, name, t, shape->growth, 3, 1, 1, false);
    t = convolution_norm(net, format_name(part, "%.24s.a", name), t, 4 * shape->growth, 1, 1, 0);
    return convolution(net, format_name(part, "%.24s.b", name), relu(net, t), shape->growth, 3, 1,
                       1, false);
}

static int transition(net_spec_t *net, int block, int from, int channels)
{
    char name[32];
    int t =
        convolution(net, format_name(name, "transition%d", block), from, channels, 1, 1, 0, false);
    return pool(net, LAYER_AVERAGE_POOL, format_name(name, "pool%d", block), t, 2, 2, 0);
}

/* The blocks behind `from`, which has `channels`, and the head. */
static int build_densenet(net_spec_t *net, const dense_shape_t *shape, int from, int channels)
{
    char name[32];
    int t = from;
    for (int block = 1; block <= shape->block_count; block++) {
        for (int i = 1; i <= shape->counts[block - 1]; i++) {
            int grown = dense_layer(net, shape, format_name(name, "dense%d_%d", block, i), t);
            t = join(net, LAYER_CONCAT, format_name(name, "concat%d_%d", block, i), t, grown);
            channels += shape->growth;
        }
        t = relu(net, batch_norm(net, t));
        if (block < shape->block_count) {
            channels /= shape->bottleneck ? 2 : 1;
            t = transition(net, block, t, channels);
        }
    }
    return fc(net, "fc", global_average_pool(net, t), net->info->classes);
}

/* DenseNet of depth 40 and growth 12 for 32x32 images, without bottlenecks or compression. */
static int build_densenet40(net_spec_t *net)
{
    static const dense_shape_t shape = {3, {12, 12, 12}, 12, false};
    return build_densenet(net, &shape, convolution(net, "conv1", 0, 16, 3, 1, 1, false), 16);
}

/* As torchvision has it. */
static int build_densenet121(net_spec_t *net)
{
    static const dense_shape_t shape = {4, {6, 12, 24, 16}, 32, true};
    int t = relu(net, convolution_norm(net, "conv1", 0, 64, 7, 2, 3));
    return build_densenet(net, &shape, max_pool(net, "pool0", t, 3, 2, 1), 64);
}

/* ---- Inception v3 as torchvision has it, in units of channels so that it can be made small ----
 */

/* A convolution of an Inception block. With stride 1 it keeps the size, with stride 2 it is not
 * padded. */
typedef struct inception_step {
    int channels, kernel_h, kernel_w, stride;
} inception_step_t;

/* Where the steps of a branch are added. */
typedef struct branch {
    const char *block; /* name */
    int number, steps;
} branch_t;

static int inception_step(net_spec_t *net, branch_t *branch, int from, inception_step_t step)
{
    char name[32];
    bool same = step.stride == 1;
    layer_spec_t layer = {.kind = LAYER_CONVOLUTION,
                          .inputs = {from},
                          .input_count = 1,
                          .channels = step.channels,
                          .kernel_h = step.kernel_h,
                          .kernel_w = step.kernel_w,
                          .stride = step.stride,
                          .pad_h = same ? step.kernel_h / 2 : 0,
                          .pad_w = same ? step.kernel_w / 2 : 0};
    format_name(name, "%.16s.%d_%d", branch->block, branch->number, ++branch->steps);
    net->branch = branch->number;
    int t = relu(net, batch_norm(net, add_layer(net, layer, name)));
    net->branch = 0;
    return t;
}

/* The steps, of which the last has no channels, one after the other. */
static int inception_branch(net_spec_t *net, const char *block, int number, int from,
                            const inception_step_t *steps)
{
    branch_t branch = {.block = block, .number = number};
    int t = from;
    for (; steps->channels; steps++)
        t = inception_step(net, &branch, t, *steps);
    return t;
}
#define STEPS(...) ((const inception_step_t[]){__VA_ARGS__, {0}})

static int branch_pool(net_spec_t *net, layer_kind_t kind, const char *block, int number, int from,
                       int stride, int pad)
{
    char name[32];
    net->branch = number;
    int t = pool(net, kind, format_name(name, "%.16s.pool", block), from, 3, stride, pad);
    net->branch = 0;
    return t;
}

/* Keeps the size and makes `channels`. */
static int average_branch(net_spec_t *net, const char *block, int number, int from, int channels)
{
    int t = branch_pool(net, LAYER_AVERAGE_POOL, block, number, from, 1, 1);
    return inception_branch(net, block, number, t, STEPS({channels, 1, 1, 1}));
}

/* Halves the size and keeps the channels. */
static int max_branch(net_spec_t *net, const char *block, int number, int from)
{
    return branch_pool(net, LAYER_MAX_POOL, block, number, from, 2, 0);
}

static int inception_a(net_spec_t *net, const char *name, int t, int pool_channels)
{
    int b1 = inception_branch(net, name, 1, t, STEPS({64, 1, 1, 1}));
    int b2 = inception_branch(net, name, 2, t, STEPS({48, 1, 1, 1}, {64, 5, 5, 1}));
    int b3 = inception_branch(net, name, 3, t, STEPS({64, 1, 1, 1}, {96, 3, 3, 1}, {96, 3, 3, 1}));
    int b4 = average_branch(net, name, 4, t, pool_channels);
    return concat(net, name, (const int[]){b1, b2, b3, b4, -1});
}

static int inception_b(net_spec_t *net, const char *name, int t)
{
    int b1 = inception_branch(net, name, 1, t, STEPS({384, 3, 3, 2}));
    int b2 = inception_branch(net, name, 2, t, STEPS({64, 1, 1, 1}, {96, 3, 3, 1}, {96, 3, 3, 2}));
    int b3 = max_branch(net, name, 3, t);
    return concat(net, name, (const int[]){b1, b2, b3, -1});
}

/* 7x7 convolutions as rows and columns, `inner` channels between them. */
static int inception_c(net_spec_t *net, const char *name, int t, int inner, int channels)
{
    int b1 = inception_branch(net, name, 1, t, STEPS({channels, 1, 1, 1}));
    int b2 = inception_branch(net, name, 2, t,
                              STEPS({inner, 1, 1, 1}, {inner, 1, 7, 1}, {channels, 7, 1, 1}));
    int b3 = inception_branch(net, name, 3, t,
                              STEPS({inner, 1, 1, 1}, {inner, 7, 1, 1}, {inner, 1, 7, 1},
                                    {inner, 7, 1, 1}, {channels, 1, 7, 1}));
    int b4 = average_branch(net, name, 4, t, channels);
    return concat(net, name, (const int[]){b1, b2, b3, b4, -1});
}

static int inception_d(net_spec_t *net, const char *name, int t, int unit)
{
    int b1 = inception_branch(net, name, 1, t, STEPS({3 * unit, 1, 1, 1}, {5 * unit, 3, 3, 2}));
    int b2 = inception_branch(
        net, name, 2, t,
        STEPS({3 * unit, 1, 1, 1}, {3 * unit, 1, 7, 1}, {3 * unit, 7, 1, 1}, {3 * unit, 3, 3, 2}));
    int b3 = max_branch(net, name, 3, t);
    return concat(net, name, (const int[]){b1, b2, b3, -1});
}

/* A row and a column beside each other. */
static void inception_fork(net_spec_t *net, branch_t *branch, int from, int channels, int out[2])
{
    out[0] = inception_step(net, branch, from, (inception_step_t){channels, 1, 3, 1});
    out[1] = inception_step(net, branch, from, (inception_step_t){channels, 3, 1, 1});
}

static int inception_e(net_spec_t *net, const char *name, int t, int unit)
{
    branch_t second = {.block = name, .number = 2}, third = {.block = name, .number = 3};
    int b2[2], b3[2];
    int b1 = inception_branch(net, name, 1, t, STEPS({5 * unit, 1, 1, 1}));
    int head = inception_step(net, &second, t, (inception_step_t){6 * unit, 1, 1, 1});
    inception_fork(net, &second, head, 6 * unit, b2);
    head = inception_step(net, &third, t, (inception_step_t){7 * unit, 1, 1, 1});
    head = inception_step(net, &third, head, (inception_step_t){6 * unit, 3, 3, 1});
    inception_fork(net, &third, head, 6 * unit, b3);
    int b4 = average_branch(net, name, 4, t, 3 * unit);
    return concat(net, name, (const int[]){b1, b2[0], b2[1], b3[0], b3[1], b4, -1});
}

/* Without the auxiliary classifier. */
static int build_inception_v3(net_spec_t *net)
{
    static const int inner[] = {128, 160, 160, 192};
    char name[32];
    int t = relu(net, convolution_norm(net, "conv1a", 0, 32, 3, 2, 0));
    t = relu(net, convolution_norm(net, "conv2a", t, 32, 3, 1, 0));
    t = relu(net, convolution_norm(net, "conv2b", t, 64, 3, 1, 1));
    t = max_pool(net, "pool1", t, 3, 2, 0);
    t = relu(net, convolution_norm(net, "conv3b", t, 80, 1, 1, 0));
    t = relu(net, convolution_norm(net, "conv4a", t, 192, 3, 1, 0));
    t = max_pool(net, "pool2", t, 3, 2, 0);
    t = inception_a(net, "mixed5b", t, 32);
    t = inception_a(net, "mixed5c", t, 64);
    t = inception_a(net, "mixed5d", t, 64);
    t = inception_b(net, "mixed6a", t);
    for (int i = 0; i < 4; i++)
        t = inception_c(net, format_name(name, "mixed6%c", 'b' + i), t, inner[i], 192);
    t = inception_d(net, "mixed7a", t, 64);
    t = inception_e(net, "mixed7b", t, 64);
    t = inception_e(net, "mixed7c", t, 64);
    return fc(net, "fc", dropout(net, global_average_pool(net, t)), 1000);
}

/* Rows and columns, branches that shrink and ones that fork, in what a CPU can train. */
static int build_inception_tiny(net_spec_t *net)
{
    int t = relu(net, convolution_norm(net, "conv1", 0, 16, 3, 1, 1));
    t = inception_c(net, "mixed1", t, 8, 12);
    t = inception_d(net, "mixed2", t, 4);
    t = inception_e(net, "mixed3", t, 4);
    return fc(net, "fc", dropout(net, global_average_pool(net, t)), 10);
}

static const net_info_t nets[] = {
    {"lenet", "LeNet-style, handwritten digits 8x8", true, 1, 8, 8, 10, 128, 0.03, 0, 0,
     build_lenet},
    {"alexnet", "AlexNet, one column, 224x224", false, 3, 224, 224, 1000, 256, 0.01, 0.5, 0,
     build_alexnet},
    {"overfeat", "OverFeat fast, 231x231", false, 3, 231, 231, 1000, 128, 0.01, 0.5, 0,
     build_overfeat},
    {"vgg16", "VGG-16, 224x224", false, 3, 224, 224, 1000, 64, 0.01, 0.5, 0, build_vgg16},
    {"resnet18", "ResNet-18, 224x224", false, 3, 224, 224, 1000, 128, 0.05, -1, 0, build_resnet18},
    {"resnet50", "ResNet-50, 224x224", false, 3, 224, 224, 1000, 128, 0.05, -1, 0, build_resnet50},
    {"densenet40", "DenseNet-40 k=12, 32x32", false, 3, 32, 32, 10, 256, 0.05, -1, 0,
     build_densenet40},
    {"densenet121", "DenseNet-121 k=32, 224x224", false, 3, 224, 224, 1000, 64, 0.05, -1, 0,
     build_densenet121},
    {"inception-v3", "Inception v3, 299x299", false, 3, 299, 299, 1000, 64, 0.05, 0.5, 4,
     build_inception_v3},
    {"inception-tiny", "three Inception blocks, handwritten digits 8x8", true, 1, 8, 8, 10, 128,
     0.05, 0, 4, build_inception_tiny},
};
#define NET_COUNT (sizeof nets / sizeof *nets)

const net_info_t *net_find(const char *name)
{
    for (size_t i = 0; i < NET_COUNT; i++)
        if (strcmp(nets[i].name, name) == 0)
            return &nets[i];
    return NULL;
}

void net_print_list(FILE *out)
{
    for (size_t i = 0; i < NET_COUNT; i++)
        fprintf(out, "  %-14s %s; batch %d, learning rate %g\n", nets[i].name, nets[i].description,
                nets[i].batch, nets[i].learning_rate);
}

void net_build(net_spec_t *net, const net_info_t *info, double dropout_rate)
{
    *net = (net_spec_t){.info = info, .dropout = dropout_rate};
    add_layer(net, (layer_spec_t){.kind = LAYER_DATA}, "data");
    int logits = info->build(net);
    add_layer(net, (layer_spec_t){.kind = LAYER_LOSS, .inputs = {logits}, .input_count = 1},
              "loss");
}

void net_free(net_spec_t *net)
{
    free(net->layers);
    *net = (net_spec_t){0};
}
