/* How often the address space of virtual memory must change a mapping, on sequences of allocations
 * as PyTorch makes them in training (one allocation per tensor). Prints, for an iteration after the
 * first six: chunks created, mapped, unmapped and host waits; bytes of chunks held, at the end,
 * against bytes live at the peak. Budgets are parts of the most chunks that are in use at once. No
 * CUDA: the device costs nothing here and is some operations behind the host. Exit status 1 if a
 * limit is missed. */
#include <stdio.h>
#include <stdlib.h>

#include "offload/ranges/ranges.h"

enum { MOST_TENSORS = 8192, WARM = 6, MEASURED = 10, BEHIND = 400 };
#define MIB ((uint64_t)1 << 20)
#define BASE ((uint64_t)1 << 40)

/* ---- sequences ---- */

typedef struct step {
    int tensor;
    uint64_t bytes; /* 0: freed */
} step_t;

typedef struct program {
    step_t *steps;
    size_t count, room;
    size_t warm; /* steps of the beginning, which are not repeated */
    int tensors; /* names given out */
    uint64_t seed;
} program_t;

static void add(program_t *program, step_t step)
{
    if (program->count == program->room) {
        program->room = program->room * 2 + 1024;
        program->steps = realloc(program->steps, program->room * sizeof *program->steps);
        if (!program->steps)
            abort();
    }
    program->steps[program->count++] = step;
}

static int new_tensor(program_t *program, uint64_t bytes)
{
    if (program->tensors == MOST_TENSORS)
        abort();
    add(program, (step_t){program->tensors, bytes});
    return program->tensors++;
}

static void drop(program_t *program, int tensor)
{
    add(program, (step_t){tensor, 0});
}

/* Scratch of a convolution: none, its tensors in another layout, or more; always the same for the
 * same layer. */
static void use_workspace(program_t *program, uint64_t bytes)
{
    program->seed = program->seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t kind = program->seed >> 33 & 3;
    if (kind > 0)
        drop(program, new_tensor(program, kind == 3 ? bytes * 2 : bytes));
}

typedef struct layer {
    uint64_t in_bytes, out_bytes, weight_bytes; /* weight_bytes 0: pooling */
    bool normed, joins;                         /* BatchNorm; a shortcut ends here */
    int input, raw, output;                     /* raw: what BatchNorm reads in the backward pass */
    int weight, momentum, gradient, small[4];
} layer_t;

enum { MOST_LAYERS = 80 };

typedef struct network {
    layer_t layers[MOST_LAYERS];
    int count;
    uint64_t batch;
    int image; /* of the iteration */
} network_t;

static void add_layer(network_t *network, uint64_t in, uint64_t out, uint64_t size, uint64_t to,
                      uint64_t kernel, bool normed)
{
    network->layers[network->count++] = (layer_t){.in_bytes = 4 * network->batch * in * size * size,
                                                  .out_bytes = 4 * network->batch * out * to * to,
                                                  .weight_bytes = 4 * in * out * kernel * kernel,
                                                  .normed = normed};
}

static void make_resnet50(network_t *network)
{
    static const uint64_t blocks[] = {3, 4, 6, 3};
    uint64_t in = 64, size = 56;
    add_layer(network, 3, 64, 224, 112, 7, true);
    add_layer(network, 64, 64, 112, 56, 0, false);
    for (int stage = 0; stage < 4; stage++)
        for (uint64_t block = 0; block < blocks[stage]; block++) {
            const uint64_t wide = 64u << stage;
            const uint64_t to = block == 0 && stage > 0 ? size / 2 : size;
            add_layer(network, in, wide, size, size, 1, true);
            add_layer(network, wide, wide, size, to, 3, true);
            add_layer(network, wide, 4 * wide, to, to, 1, true);
            network->layers[network->count - 1].joins = true;
            in = 4 * wide;
            size = to;
        }
    add_layer(network, in, in, 7, 1, 0, false);
}

static void make_vgg16(network_t *network)
{
    static const uint64_t wide[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                    0,  512, 512, 512, 0,   512, 512, 512, 0};
    uint64_t in = 3, size = 224;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (wide[i] == 0)
            add_layer(network, in, in, size, size / 2, 0, false);
        else
            add_layer(network, in, wide[i], size, size, 3, false);
        size = wide[i] == 0 ? size / 2 : size;
        in = wide[i] == 0 ? in : wide[i];
    }
    add_layer(network, 512 * 49, 4096, 1, 1, 1, false);
    add_layer(network, 4096, 4096, 1, 1, 1, false);
    add_layer(network, 4096, 1000, 1, 1, 1, false);
}

static void forward(program_t *program, network_t *network)
{
    int input = network->image;
    for (int i = 0; i < network->count; i++) {
        layer_t *const layer = &network->layers[i];
        layer->input = input;
        layer->output = new_tensor(program, layer->out_bytes);
        layer->raw = -1;
        if (layer->weight_bytes > 0)
            use_workspace(program, layer->in_bytes + layer->out_bytes);
        else
            layer->small[0] = new_tensor(program, layer->out_bytes * 2); /* indices */
        if (layer->normed) {
            layer->raw = layer->output;
            layer->output = new_tensor(program, layer->out_bytes);
            layer->small[1] = new_tensor(program, 1024);
            layer->small[2] = new_tensor(program, 1024);
        }
        input = layer->output;
    }
}

static void backward_layer(program_t *program, layer_t *layer, int *gradient, bool first)
{
    int next = new_tensor(program, layer->out_bytes); /* through ReLU */
    drop(program, *gradient);
    drop(program, layer->output);
    if (layer->joins) { /* the shortcut's gradient is added */
        const int sum = new_tensor(program, layer->out_bytes);
        drop(program, next);
        next = sum;
    }
    if (layer->normed) {
        const int normed = new_tensor(program, layer->out_bytes);
        drop(program, layer->small[1]);
        drop(program, layer->small[2]);
        drop(program, layer->raw);
        drop(program, next);
        next = normed;
    }
    *gradient = first ? -1 : new_tensor(program, layer->in_bytes);
    if (layer->weight_bytes > 0) {
        use_workspace(program, layer->in_bytes + layer->out_bytes);
        layer->gradient = new_tensor(program, layer->weight_bytes);
        use_workspace(program, layer->in_bytes + layer->out_bytes);
    } else {
        drop(program, layer->small[0]);
    }
    drop(program, next);
}

/* Gradients are copied when weight decay is added to them, all at once. */
static void optimize(program_t *program, network_t *network)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < network->count; i++) {
            layer_t *const layer = &network->layers[i];
            if (layer->weight_bytes == 0)
                continue;
            if (pass == 0)
                layer->small[3] = new_tensor(program, layer->weight_bytes);
            else
                drop(program, layer->small[3]);
        }
    for (int i = 0; i < network->count; i++)
        if (network->layers[i].weight_bytes > 0)
            drop(program, network->layers[i].gradient);
}

static program_t make_program(network_t *network)
{
    program_t program = {0};
    const uint64_t image_bytes = network->layers[0].in_bytes;
    for (int i = 0; i < network->count; i++)
        if (network->layers[i].weight_bytes > 0) {
            network->layers[i].weight = new_tensor(&program, network->layers[i].weight_bytes);
            network->layers[i].momentum = new_tensor(&program, network->layers[i].weight_bytes);
        }
    network->image = new_tensor(&program, image_bytes);
    program.warm = program.count;
    program.seed = 1;
    forward(&program, network);
    int gradient = new_tensor(&program, network->layers[network->count - 1].out_bytes);
    for (int i = network->count; i-- > 0;)
        backward_layer(&program, &network->layers[i], &gradient, i == 0);
    optimize(&program, network);
    /* The next images come before these go. */
    const int next = new_tensor(&program, image_bytes);
    drop(&program, network->image);
    add(&program, (step_t){network->image, UINT64_MAX}); /* is called so from now on */
    add(&program, (step_t){next, UINT64_MAX});
    return program;
}

/* ---- the device ---- */

typedef struct device {
    uint64_t chunks, budget; /* created; how many may be */
    uint64_t now, waited;    /* moments enqueued; known to be over */
    uint64_t waits;
} device_t;

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    device_t *const device = context;
    if (device->chunks == device->budget)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    *chunk = ++device->chunks;
    return MDNN_STATUS_OK;
}

static mdnn_status_t map(void *context, uint64_t address, uint64_t chunk)
{
    (void)context, (void)address, (void)chunk;
    return MDNN_STATUS_OK;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    const device_t *const device = context;
    return point.position <= device->waited || point.position + BEHIND <= device->now;
}

/* ---- running ---- */

typedef struct run {
    device_t device;
    mdnn_ranges_t *ranges;
    uint64_t addresses[MOST_TENSORS];
    uint64_t peak_live_bytes, peak_chunks; /* of ranges in use */
} run_t;

static bool acquire(run_t *run, step_t step)
{
    mdnn_acquired_t got;
    mdnn_status_t status;
    while ((status = mdnn_ranges_acquire(run->ranges, step.bytes, 0, &got)) == MDNN_STATUS_BUSY) {
        run->device.waits++;
        if (got.wait_count > 0 && run->device.waited < got.waits[0].position)
            run->device.waited = got.waits[0].position;
    }
    run->addresses[step.tensor] = got.address;
    return status == MDNN_STATUS_OK;
}

static bool run_steps(run_t *run, const step_t *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const mdnn_stream_point_t point = {0, ++run->device.now};
        if (steps[i].bytes == UINT64_MAX) {
            run->addresses[steps[i].tensor] = run->addresses[steps[i + 1].tensor];
            i++;
        } else if (steps[i].bytes == 0) {
            if (mdnn_ranges_release(run->ranges, run->addresses[steps[i].tensor], MDNN_NO_ORDER,
                                    &point, 1) != MDNN_STATUS_OK)
                return false;
        } else if (!acquire(run, steps[i])) {
            return false;
        }
        const mdnn_ranges_counts_t counts = mdnn_ranges_counts(run->ranges);
        if (run->peak_chunks < counts.chunks_live)
            run->peak_chunks = counts.chunks_live;
        if (run->peak_live_bytes < counts.live_bytes)
            run->peak_live_bytes = counts.live_bytes;
    }
    return true;
}

typedef struct result {
    double created, mapped, unmapped, waits; /* of an iteration in the steady state */
    uint64_t warm_mapped;                    /* until then */
    uint64_t held_bytes, peak_live_bytes, peak_chunks;
    bool fits;
} result_t;

static result_t run_program(const program_t *program, uint64_t chunk_bytes, uint64_t budget)
{
    static run_t run;
    result_t result = {0};
    const mdnn_ranges_config_t config = {BASE, (uint64_t)1 << 40, chunk_bytes, chunk_bytes / 2, 0};
    const mdnn_ranges_device_t device = {create_chunk, map, map, is_done, NULL, NULL};
    run = (run_t){.device.budget = budget};
    if (mdnn_ranges_create(&config, &device, &run.device, &run.ranges) != MDNN_STATUS_OK)
        return result;
    const step_t *const round = program->steps + program->warm;
    const size_t length = program->count - program->warm;
    result.fits = run_steps(&run, program->steps, program->warm);
    for (int i = 0; i < WARM && result.fits; i++)
        result.fits = run_steps(&run, round, length);
    const mdnn_ranges_counts_t before = mdnn_ranges_counts(run.ranges);
    const uint64_t waits = run.device.waits;
    for (int i = 0; i < MEASURED && result.fits; i++)
        result.fits = run_steps(&run, round, length);
    const mdnn_ranges_counts_t after = mdnn_ranges_counts(run.ranges);
    result.created = (double)(after.created - before.created) / MEASURED;
    result.mapped = (double)(after.mapped - before.mapped) / MEASURED;
    result.unmapped = (double)(after.unmapped - before.unmapped) / MEASURED;
    result.waits = (double)(run.device.waits - waits) / MEASURED;
    result.warm_mapped = before.mapped;
    result.held_bytes = after.created * chunk_bytes;
    result.peak_live_bytes = run.peak_live_bytes;
    result.peak_chunks = run.peak_chunks;
    mdnn_ranges_destroy(run.ranges);
    return result;
}

static uint64_t chunk_for(uint64_t budget_bytes)
{
    uint64_t chunk = 2 * MIB;
    while (chunk < 32 * MIB && chunk * 1024 < budget_bytes)
        chunk *= 2;
    return chunk;
}

typedef struct limit {
    const char *name;
    double factor;      /* budget, of the peak in chunks; 0: unlimited */
    double most_mapped; /* chunks an iteration */
} limit_t;

static const limit_t limits[] = {{"unlimited", 0, 0},
                                 {"1.25 x peak", 1.25, 0},
                                 {"1.10 x peak", 1.1, 250},
                                 {"1.00 x peak", 1, 400}};

static bool run_network(const char *name, network_t *network)
{
    bool good = true;
    program_t program = make_program(network);
    result_t first = run_program(&program, 2 * MIB, UINT64_MAX);
    const uint64_t chunk = chunk_for(first.peak_live_bytes);
    first = run_program(&program, chunk, UINT64_MAX);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const limit_t *const limit = &limits[i];
        const result_t result =
            limit->factor == 0 ? first
                               : run_program(&program, chunk,
                                             (uint64_t)(limit->factor * (double)first.peak_chunks));
        const bool kept = result.fits && result.mapped <= limit->most_mapped;
        printf("ranges\t%s\t%llu images\tchunks of %llu MiB\t%s\tcreated %.1f\tmapped "
               "%.1f\tunmapped %.1f\t"
               "waits %.1f\twarm-up %llu\theld %.2f GiB\tlive %.2f GiB\t%s\n",
               name, (unsigned long long)network->batch, (unsigned long long)(chunk / MIB),
               limit->name, result.created, result.mapped, result.unmapped, result.waits,
               (unsigned long long)result.warm_mapped, (double)result.held_bytes / (1024.0 * MIB),
               (double)result.peak_live_bytes / (1024.0 * MIB),
               !result.fits ? "REFUSED"
               : kept       ? "ok"
                            : "MISSED");
        good = good && kept;
    }
    free(program.steps);
    return good;
}

int main(void)
{
    static const uint64_t batches[] = {64, 256};
    bool good = true;
    for (int i = 0; i < 2; i++) {
        network_t resnet = {.batch = batches[i]}, vgg = {.batch = batches[i]};
        make_resnet50(&resnet);
        good = run_network("resnet50", &resnet) && good;
        make_vgg16(&vgg);
        good = run_network("vgg16", &vgg) && good;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
