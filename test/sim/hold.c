/* The kernel of shim/real/kernels.cu that only takes time, for the simulated GPU. */
#include "test/sim/engine.h"

#include <string.h>

static void run(void *const *parameters)
{
    (void)parameters;
}

static const sim_kernel_parameter_t layout[] = {{0, 8}};
static const sim_kernel_t hold_kernel = {"mdnn_hold", 1, layout, run};

void sim_register_hold(void)
{
    (void)sim_function(&hold_kernel);
}

double sim_hold_us(const sim_kernel_t *kernel, const void *parameters)
{
    uint64_t ns;
    if (kernel != &hold_kernel)
        return 0;
    memcpy(&ns, parameters, sizeof ns);
    return (double)ns / 1e3;
}
