/* The networks of train_cnn as convolution problems. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "docs/examples/nets.h"
#include "scripts/microdnn_plan.h"

/* What docs/examples/nets.c calls when it has no memory. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("microdnn: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(TOOL_TROUBLE);
}

bool tool_kernels_add(tool_kernels_t *kernels, const tool_kernel_t *kernel)
{
    if (kernels->count == kernels->capacity) {
        const size_t capacity = 2 * kernels->capacity + 64;
        tool_kernel_t *const grown = reallocarray(kernels->at, capacity, sizeof *grown);
        if (grown == NULL) {
            tool_complain("out of memory");
            return false;
        }
        kernels->at = grown;
        kernels->capacity = capacity;
    }
    kernels->at[kernels->count++] = *kernel;
    return true;
}

typedef struct shape {
    int c, h, w;
} shape_t;

static int slide(int size, int kernel, int stride, int pad)
{
    return (size + 2 * pad - kernel) / stride + 1;
}

/* Of what the layer makes. */
static shape_t shape_of(const net_spec_t *net, const shape_t *shapes, int i)
{
    const layer_spec_t *const layer = &net->layers[i];
    if (layer->kind == LAYER_DATA)
        return (shape_t){net->info->channels, net->info->height, net->info->width};
    shape_t shape = shapes[layer->inputs[0]];
    switch (layer->kind) {
    case LAYER_CONVOLUTION:
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        if (layer->kernel_h == 0)
            return (shape_t){shape.c, 1, 1};
        return (shape_t){layer->kind == LAYER_CONVOLUTION ? layer->channels : shape.c,
                         slide(shape.h, layer->kernel_h, layer->stride, layer->pad_h),
                         slide(shape.w, layer->kernel_w, layer->stride, layer->pad_w)};
    case LAYER_FC:
        return (shape_t){layer->channels, 1, 1};
    case LAYER_CONCAT:
        for (int k = 1; k < layer->input_count; k++)
            shape.c += shapes[layer->inputs[k]].c;
        return shape;
    default:
        return shape;
    }
}

/* cudnnDataType_t and cudnnMathType_t, as train_cnn sets them. */
static bool has_type(const mdnn_problem_t *problem, const char *dtype)
{
    enum { FLOAT = 0, HALF = 2, FMA_MATH = 3 };
    if (strcmp(dtype, "fp16") == 0)
        return problem->x.type == HALF;
    return problem->x.type == FLOAT &&
           (problem->math_type == FMA_MATH) == (strcmp(dtype, "fp32") == 0);
}

static bool matches(const mdnn_problem_t *problem, const layer_spec_t *layer, const shape_t *in,
                    int batch)
{
    const int32_t *const x = problem->x.dims, *const w = problem->w.dims;
    return problem->spatial_dims == 2 && problem->groups == 1 && problem->dilation[0] == 1 &&
           problem->dilation[1] == 1 && x[0] == batch && x[1] == in->c && x[2] == in->h &&
           x[3] == in->w && w[0] == layer->channels && w[1] == in->c && w[2] == layer->kernel_h &&
           w[3] == layer->kernel_w && problem->pad[0] == layer->pad_h &&
           problem->pad[1] == layer->pad_w && problem->stride[0] == layer->stride &&
           problem->stride[1] == layer->stride &&
           (problem->interfaces & MDNN_INTERFACE_LEGACY) != 0;
}

/* A search asks with beta 0; where there is also a problem that adds to its output, that one ran.
 */
static const tool_known_t *find_known(const tool_network_t *network, const tool_known_list_t *list,
                                      const tool_kernel_t *kernel, const layer_spec_t *layer,
                                      const shape_t *in)
{
    const tool_known_t *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const tool_known_t *const known = &list->at[i];
        if (known->problem.direction != (int32_t)kernel->direction ||
            !matches(&known->problem, layer, in, (int)network->batch) ||
            !has_type(&known->problem, network->dtype) ||
            (network->device != NULL && strcmp(network->device, known->device) != 0))
            continue;
        const bool adds = !known->problem.beta_is_zero;
        if (found != NULL && adds != !found->problem.beta_is_zero) {
            found = adds ? known : found;
            continue;
        }
        found = known;
        count++;
    }
    if (count == 1)
        return found;
    if (count == 0)
        tool_complain("%s of %lld images is not in the database; see microdnn tune", kernel->name,
                      network->batch);
    else
        tool_complain(
            "%s is in the database %zu times; name the --device, or use a database of one "
            "layout and version",
            kernel->name, count);
    return NULL;
}

static bool add_directions(const tool_network_t *network, const tool_known_list_t *known,
                           const layer_spec_t *layer, const shape_t *in, int number,
                           tool_kernels_t *kernels)
{
    static const char *const names[] = {"forward", "backward_data", "backward_filter"};
    for (int d = MDNN_FORWARD; d <= MDNN_BACKWARD_FILTER; d++) {
        if (d == MDNN_BACKWARD_DATA && layer->inputs[0] == 0)
            continue; /* nobody asks for the gradient of the images */
        tool_kernel_t kernel = {.layer = number, .direction = (mdnn_direction_t)d};
        snprintf(kernel.name, sizeof kernel.name, "%s %s", layer->name, names[d]);
        kernel.known = find_known(network, known, &kernel, layer, in);
        if (kernel.known == NULL || !tool_kernels_add(kernels, &kernel))
            return false;
    }
    return true;
}

bool tool_network_kernels(const tool_network_t *given, const tool_known_list_t *known,
                          tool_kernels_t *kernels)
{
    tool_network_t network = *given;
    const net_info_t *const info = net_find(network.name);
    net_spec_t net;
    if (info == NULL) {
        tool_complain("--net: train_cnn has no network '%s'", network.name);
        return false;
    }
    if (network.batch == 0)
        network.batch = info->batch;
    net_build(&net, info, 0);
    shape_t *const shapes = calloc((size_t)net.count, sizeof *shapes);
    bool good = shapes != NULL;
    for (int i = 0; good && i < net.count; i++) {
        const layer_spec_t *const layer = &net.layers[i];
        shapes[i] = shape_of(&net, shapes, i);
        if (layer->kind == LAYER_CONVOLUTION)
            good = add_directions(&network, known, layer, &shapes[layer->inputs[0]], i, kernels);
    }
    free(shapes);
    net_free(&net);
    return good;
}
