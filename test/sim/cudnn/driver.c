/* The way to the simulated driver, one copy a library: dlopen by soname, cuGetProcAddress_v2, as
 * every copy of the CUDA runtime does it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/internal.h"
#include "test/sim/fault_fired.h"

static sim_driver_t driver;
static bool driver_found;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

typedef CUresult(CUDAAPI *get_proc_address_t)(const char *, void **, int, cuuint64_t,
                                              CUdriverProcAddressQueryResult *);

static bool find_entries(get_proc_address_t get_proc_address)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"cuInit", &driver.init},
        {"cuCtxGetCurrent", &driver.ctx_get_current},
        {"cuCtxSetCurrent", &driver.ctx_set_current},
        {"cuCtxGetDevice", &driver.ctx_get_device},
        {"cuDevicePrimaryCtxRetain", &driver.primary_ctx_retain},
        {"cuLaunchKernel", &driver.launch_kernel},
        {"cuMemAlloc", &driver.mem_alloc},
        {"cuMemFree", &driver.mem_free},
        {"cuEventCreate", &driver.event_create},
        {"cuEventDestroy", &driver.event_destroy},
        {"cuEventRecord", &driver.event_record},
        {"cuEventSynchronize", &driver.event_synchronize},
        {"cuEventElapsedTime", &driver.event_elapsed_time},
        {"cuStreamSynchronize", &driver.stream_synchronize},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *address = NULL;
        CUdriverProcAddressQueryResult result;
        if (get_proc_address(wanted[i].name, &address, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT,
                             &result) != CUDA_SUCCESS ||
            !address)
            return false;
        memcpy(wanted[i].slot, &address, sizeof address);
    }
    return true;
}

static void find_driver(void)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return;
    void *const entry = dlsym(library, "cuGetProcAddress_v2");
    void *const extra = dlsym(library, "sim_api");
    if (!entry || !extra)
        return;
    get_proc_address_t get_proc_address;
    sim_api_function_t get_api;
    memcpy(&get_proc_address, &entry, sizeof entry);
    memcpy(&get_api, &extra, sizeof extra);
    driver.sim = get_api();
    driver_found = driver.sim && find_entries(get_proc_address);
}

const sim_driver_t *sim_driver(void)
{
    pthread_once(&driver_once, find_driver);
    return driver_found ? &driver : NULL;
}

/* A thread without a context gets the handle's, as with a runtime API call before the launch. */
static bool context_current(const sim_driver_t *found, cudnnHandle_t handle)
{
    CUcontext current = NULL;
    if (found->ctx_get_current(&current) != CUDA_SUCCESS)
        return false;
    return current || found->ctx_set_current(handle->context) == CUDA_SUCCESS;
}

cudnnStatus_t sim_cudnn_launch(cudnnHandle_t handle, const sim_kernel_t *kernel, void **parameters,
                               double cost_us)
{
    const sim_driver_t *const found = sim_driver();
    SIM_CUDNN_REQUIRE(found, CUDNN_STATUS_NOT_INITIALIZED);
    SIM_CUDNN_REQUIRE(context_current(found, handle), CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    found->sim->set_next_cost_us(cost_us);
    const CUresult result = found->launch_kernel(found->sim->function(kernel), 1, 1, 1, 128, 1, 1,
                                                 0, handle->stream, parameters, NULL);
    SIM_CUDNN_REQUIRE(result == CUDA_SUCCESS, CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    return CUDNN_STATUS_SUCCESS;
}

double sim_cudnn_memory_cost_us(const sim_profile_t *profile, double bytes)
{
    return profile->kernel_floor_us + bytes / (profile->memory_gbps * 0.8e3);
}

void *sim_cudnn_memory(const void *device_address, uint64_t bytes)
{
    return sim_driver()->sim->memory((uint64_t)(uintptr_t)device_address, bytes);
}

enum { FAULTS_MAX = 32, FAULT_NAME_BYTES = 96 };

static struct fault {
    char name[FAULT_NAME_BYTES];
    unsigned long nth;
    int code;
    _Atomic unsigned long calls;
} faults[FAULTS_MAX];
static size_t fault_count;
static pthread_once_t faults_once = PTHREAD_ONCE_INIT;

static void read_faults(void)
{
    const char *text = secure_getenv("MICRODNN_SIM_FAULTS");
    while (text && *text && fault_count < FAULTS_MAX) {
        struct fault *const fault = &faults[fault_count];
        if (sscanf(text, "%95[^:,]:%lu:%d", fault->name, &fault->nth, &fault->code) == 3)
            fault_count++;
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
}

cudnnStatus_t sim_cudnn_fault(const char *function)
{
    pthread_once(&faults_once, read_faults);
    for (size_t i = 0; i < fault_count; i++)
        if (!strcmp(faults[i].name, function) &&
            atomic_fetch_add(&faults[i].calls, 1) + 1 == faults[i].nth) {
            sim_fault_fired(function, faults[i].nth, faults[i].code);
            return (cudnnStatus_t)faults[i].code;
        }
    return CUDNN_STATUS_SUCCESS;
}

typedef struct scratch {
    void *memory;
    size_t bytes;
} scratch_t;

static _Thread_local scratch_t scratch[SIM_SCRATCH_COUNT];
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void free_scratch(void *blocks)
{
    for (int i = 0; i < SIM_SCRATCH_COUNT; i++)
        free(((scratch_t *)blocks)[i].memory);
}

/* Any thread may run kernels, and end. */
static void create_scratch_key(void)
{
    pthread_key_create(&scratch_key, free_scratch);
}

void *sim_cudnn_scratch(enum sim_scratch slot, size_t bytes)
{
    if (scratch[slot].bytes < bytes) {
        pthread_once(&scratch_once, create_scratch_key);
        pthread_setspecific(scratch_key, scratch);
        free(scratch[slot].memory);
        scratch[slot].memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
        scratch[slot].bytes = bytes;
        if (!scratch[slot].memory) {
            fprintf(stderr, "simulated cuDNN: no host memory for a kernel's scratch (%zu bytes)\n",
                    bytes);
            abort();
        }
    }
    return scratch[slot].memory;
}
