/* An extension module as Python loads it: links cuDNN itself, is opened RTLD_LOCAL. */
#include "test/clients/one_convolution.h"

int plugin_run(double *checksum);

int plugin_run(double *checksum)
{
    const api_t api = {
#define LINKED(name) .name = &name,
        ONE_CONVOLUTION_RUNTIME(LINKED) ONE_CONVOLUTION_CUDNN(LINKED)};
    return one_convolution(&api, checksum);
}
