/* The kernel of shim/real/kernels.cu that copies, for the simulated GPU. It reaches pinned memory of the host, as a kernel
 * of the real device does. */
#include "test/sim/engine.h"

#include <string.h>

enum { UNIT = 16 };

typedef struct arguments {
    uint64_t to, from, count;
} arguments_t;

static void *place(uint64_t address, uint64_t bytes)
{
    return sim_map_is_device(address) ? sim_memory(address, bytes) : (void *)(uintptr_t)address;
}

static void run(void *const *parameters)
{
    arguments_t copy;
    memcpy(&copy.to, parameters[0], sizeof copy.to);
    memcpy(&copy.from, parameters[1], sizeof copy.from);
    memcpy(&copy.count, parameters[2], sizeof copy.count);
    void *const to = place(copy.to, UNIT * copy.count);
    const void *const from = place(copy.from, UNIT * copy.count);
    if (to && from)
        memcpy(to, from, UNIT * copy.count);
}

static const sim_kernel_parameter_t layout[] = {{0, 8}, {8, 8}, {16, 8}};
static const sim_kernel_t copy_kernel = {"mdnn_copy", 3, layout, run};

void sim_register_copy_kernel(void)
{
    (void)sim_function(&copy_kernel);
}

double sim_copy_kernel_us(const sim_kernel_t *kernel, const void *parameters, double link_gbps)
{
    arguments_t copy;
    if (kernel != &copy_kernel)
        return 0;
    memcpy(&copy, parameters, sizeof copy);
    return (double)(UNIT * copy.count) / (1e3 * link_gbps);
}
