#include "shim/kernels.h"

enum { CONTEXTS = 16 };

extern const char mdnn_kernels_ptx[];

/* Modules live as long as their contexts; a context that is destroyed and made anew at the same
 * address has lost them, so that a launch fails and the problem is given up. */
static struct loaded {
    CUcontext context;
    CUmodule module;
    mdnn_kernels_t kernels;
} loaded[CONTEXTS];
static int loaded_count;

static mdnn_status_t find_kernels(const mdnn_driver_t *driver, CUmodule module,
                                  mdnn_kernels_t *kernels)
{
    const struct {
        CUfunction *function;
        const char *name;
    } wanted[] = {{&kernels->accumulate_half, "mdnn_accumulate_half"},
                  {&kernels->accumulate_bfloat16, "mdnn_accumulate_bfloat16"},
                  {&kernels->hold, "mdnn_hold"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (driver->cuModuleGetFunction(wanted[i].function, module, wanted[i].name) != CUDA_SUCCESS)
            return MDNN_STATUS_DEVICE;
    return MDNN_STATUS_OK;
}

static mdnn_status_t load(const mdnn_driver_t *driver, struct loaded *into)
{
    if (driver->cuModuleLoadData(&into->module, mdnn_kernels_ptx) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    const mdnn_status_t status = find_kernels(driver, into->module, &into->kernels);
    if (status != MDNN_STATUS_OK)
        (void)driver->cuModuleUnload(into->module);
    return status;
}

mdnn_status_t mdnn_kernels_get(const mdnn_kernels_t **kernels)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    CUcontext context;
    if (!driver || driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    for (int i = 0; i < loaded_count; i++)
        if (loaded[i].context == context) {
            *kernels = &loaded[i].kernels;
            return MDNN_STATUS_OK;
        }
    if (loaded_count == CONTEXTS)
        return MDNN_STATUS_UNSUPPORTED;
    struct loaded *const slot = &loaded[loaded_count];
    MDNN_TRY(load(driver, slot));
    slot->context = context;
    loaded_count++;
    *kernels = &slot->kernels;
    return MDNN_STATUS_OK;
}
