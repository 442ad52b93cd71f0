#include "branches.h"

static void create_event(cudaEvent_t *event)
{
    CUDA_CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

static void destroy_event(cudaEvent_t *event)
{
    if (*event)
        CUDA_CHECK(cudaEventDestroy(*event));
    *event = NULL;
}

void branches_init(network_t *network)
{
    bool lanes = network->options->branch_streams;
    for (int i = 0; i < network->count; i++) {
        layer_t *layer = &network->layers[i];
        layer->lane = lanes ? layer->spec->branch : 0;
        for (int input = 0; input < layer->spec->input_count; input++) {
            tensor_t *x = layer->inputs[input];
            if (network->layers[layer->spec->inputs[input]].lane == layer->lane || x->value_event)
                continue;
            create_event(&x->value_event);
            create_event(&x->gradient_event);
        }
    }
    for (int lane = 0; lane < network->gpu->lane_count && lanes; lane++)
        create_event(&network->joins[lane]);
}

void branches_fini(network_t *network)
{
    for (int i = 0; i < network->count; i++) {
        destroy_event(&network->layers[i].output.value_event);
        destroy_event(&network->layers[i].output.gradient_event);
    }
    for (int lane = 0; lane < network->gpu->lane_count; lane++)
        destroy_event(&network->joins[lane]);
}

static void wait_for(const network_t *network, cudaEvent_t event)
{
    if (event)
        CUDA_CHECK(cudaStreamWaitEvent(network->gpu->stream, event, 0));
}

static void record(const network_t *network, cudaEvent_t event)
{
    if (event)
        CUDA_CHECK(cudaEventRecord(event, network->gpu->stream));
}

static void begin(network_t *network, const layer_t *layer)
{
    gpu_use(network->gpu, layer->lane);
    if (network->choosing)
        wait_for(network, network->joins[0]);
}

void branches_before_forward(network_t *network, const layer_t *layer)
{
    begin(network, layer);
    for (int i = 0; i < layer->spec->input_count; i++)
        wait_for(network, layer->inputs[i]->value_event);
}

void branches_after_forward(network_t *network, const layer_t *layer)
{
    record(network, layer->output.value_event);
    if (network->choosing)
        record(network, network->joins[0]);
}

/* The last writer of a gradient has waited for those before it. */
void branches_before_backward(network_t *network, const layer_t *layer)
{
    begin(network, layer);
    wait_for(network, layer->output.gradient_event);
    for (int i = 0; i < layer->spec->input_count; i++)
        if (layer->inputs[i]->gradient_written)
            wait_for(network, layer->inputs[i]->gradient_event);
}

void branches_after_backward(network_t *network, const layer_t *layer)
{
    for (int i = 0; i < layer->spec->input_count; i++)
        record(network, layer->inputs[i]->gradient_event);
    if (network->choosing)
        record(network, network->joins[0]);
}

void branches_join(network_t *network)
{
    for (int lane = 1; lane < network->gpu->lane_count; lane++) {
        gpu_use(network->gpu, lane);
        record(network, network->joins[lane]);
    }
    gpu_use(network->gpu, 0);
    for (int lane = 1; lane < network->gpu->lane_count; lane++)
        wait_for(network, network->joins[lane]);
}
