/* An extension module as Python loads it: links cuDNN itself, is opened RTLD_LOCAL. */
#include "test/clients/one_convolution.h"
#include "test/clients/one_graph.h"

int plugin_run(double *checksum);
int plugin_run_graph(double *checksum);

int plugin_run(double *checksum)
{
    const api_t api = {
#define LINKED(name) .name = &name,
        ONE_CONVOLUTION_RUNTIME(LINKED) ONE_CONVOLUTION_CUDNN(LINKED)};
    return one_convolution(&api, checksum);
}

int plugin_run_graph(double *checksum)
{
    const graph_api_t api = {ONE_GRAPH_RUNTIME(LINKED) ONE_GRAPH_CUDNN(LINKED)};
    return one_graph(&api, checksum);
}
