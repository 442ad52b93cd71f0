/* How the runtime finds the driver: step for step as the real one, shared or static, does. */
#include "test/sim/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

sim_cuda_t sim_cuda, sim_cuda_own;

static PFN_cuGetProcAddress_v12000 resolver;
static cudaError_t load_error = cudaErrorInsufficientDriver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool ask(const char *name, int version, cuuint64_t flags, void *function)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = resolver(name, &found, version, flags, &status);
    memcpy(function, &found, sizeof found);
    return result == CUDA_SUCCESS && found;
}

/* Every function is asked for in both forms, as the real one does; the runtime's functions that end
 * in _ptsz or _ptds use the second. */
static bool resolve_all(void)
{
    bool complete = true;
#define DRIVER(name, version)                                                                      \
    complete = ask(#name, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &sim_cuda.name) && complete; \
    complete =                                                                                     \
        ask(#name, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &sim_cuda_own.name) &&  \
        complete;
#include "test/sim/runtime_driver.def"
#undef DRIVER
    return complete;
}

static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
    if (!found)
        return;
    memcpy(&resolver, &found, sizeof resolver);
    PFN_cuGetProcAddress_v11030 old_resolver;
    PFN_cuGetProcAddress_v12000 own_resolver;
    ask("", CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    ask("cuGetProcAddress", 11030, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &old_resolver);
    if (ask("cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &own_resolver))
        resolver = own_resolver;
    if (resolve_all())
        load_error = (cudaError_t)sim_cuda.cuInit(0);
}

cudaError_t sim_cuda_load(void)
{
    pthread_once(&once, load);
    return load_error;
}

PFN_cuGetProcAddress_v12000 sim_cuda_resolver(void)
{
    return resolver;
}
