#include "convolution.h"

void convolution_init(convolution_t *convolution, const convolution_shape_t *shape,
                      const arguments_t *options, layout_t layout)
{
    *convolution = (convolution_t){.shape = *shape,
                                   .type = options->type,
                                   .layout = layout,
                                   .api = options->api == API_GRAPH ? &convolution_graph
                                                                    : &convolution_legacy};
    convolution->api->init(convolution);
}

void convolution_fini(gpu_t *gpu, convolution_t *convolution)
{
    gpu_free(gpu, &convolution->workspace);
    convolution->api->fini(convolution);
}

void convolution_choose(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                        const convolution_operands_t *operands, buffer_t scratch, float beta,
                        const arguments_t *options)
{
    convolution_choice_t *choice = &convolution->choices[direction];
    choice->beta = beta;
    convolution->api->choose(gpu, convolution, direction, operands, scratch, options);
    if (!choice->made)
        fail("%s: no algorithm can run %s in %zu bytes of workspace", current_activity(),
             direction_name(direction), scratch.bytes);
}

void convolution_run(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                     const convolution_operands_t *operands, buffer_t workspace)
{
    CUDNN_CHECK(convolution->api->run(gpu, convolution, direction, operands, workspace));
}

cudnnDataType_t convolution_element_type(data_type_t type)
{
    return type == TYPE_FP16   ? CUDNN_DATA_HALF
           : type == TYPE_BF16 ? CUDNN_DATA_BFLOAT16
                               : CUDNN_DATA_FLOAT;
}

const char *direction_name(direction_t direction)
{
    static const char *const names[] = {"forward", "backward_data", "backward_filter"};
    return names[direction];
}
