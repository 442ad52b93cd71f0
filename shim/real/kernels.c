#include "shim/real/kernels.h"

#include "config/lock.h"

enum { CONTEXTS = 16 };

extern const char mdnn_kernels_ptx[];

/* Modules live as long as their contexts. A context that is made again, as by cudaDeviceReset, has none of them,
 * although it has the same address; its id differs (drivers before CUDA 12 have no id, and there the launch fails). */
static struct loaded {
    CUcontext context;
    unsigned long long id;
    CUmodule module;
    mdnn_kernels_t kernels;
} loaded[CONTEXTS];
static mdnn_lock_t lock = MDNN_LOCK_INIT(KERNELS);

static mdnn_status_t find_kernels(const mdnn_driver_t *driver, CUmodule module,
                                  mdnn_kernels_t *kernels)
{
    const struct {
        CUfunction *function;
        const char *name;
    } wanted[] = {{&kernels->accumulate_bfloat16, "mdnn_accumulate_bfloat16"},
                  {&kernels->hold, "mdnn_hold"},
                  {&kernels->copy, "mdnn_copy"},
                  {&kernels->compare, "mdnn_compare"},
                  {&kernels->poison, "mdnn_poison"},
                  {&kernels->hash, "mdnn_hash"},
                  {&kernels->demand_equal, "mdnn_demand_equal"}};
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

/* The place of that context, else one that nothing is loaded into; NULL if there is none. */
static struct loaded *place_for(CUcontext context)
{
    struct loaded *unused = NULL;
    for (int i = 0; i < CONTEXTS; i++) {
        if (loaded[i].context == context)
            return &loaded[i];
        if (!unused && !loaded[i].context)
            unused = &loaded[i];
    }
    return unused;
}

/* Locked. */
static mdnn_status_t get(const mdnn_driver_t *driver, CUcontext context, unsigned long long id,
                         const mdnn_kernels_t **kernels)
{
    struct loaded *const place = place_for(context);
    if (!place)
        return MDNN_STATUS_UNSUPPORTED;
    if (place->context != context || place->id != id) {
        place->context = NULL;
        MDNN_TRY(load(driver, place));
        place->context = context;
        place->id = id;
    }
    *kernels = &place->kernels;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_kernels_get(const mdnn_kernels_t **kernels)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    CUcontext context;
    unsigned long long id = 0;
    if (!driver || driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
        (driver->cuCtxGetId && driver->cuCtxGetId(context, &id) != CUDA_SUCCESS))
        return MDNN_STATUS_DEVICE;
    mdnn_lock(&lock);
    const mdnn_status_t status = get(driver, context, id, kernels);
    mdnn_unlock(&lock);
    return status;
}
