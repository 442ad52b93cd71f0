/* The simulated driver's common state: configuration, the lock around every driver function, the
 * calling thread's context, and sim_api(). */
#include "test/sim/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONTEXT_STACK = 16 };

sim_engine_t sim_engine = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool configured, profile_known;
static _Thread_local CUcontext context_stack[MAX_CONTEXT_STACK];
static _Thread_local unsigned context_depth;
static _Thread_local sim_need_t entered_need;
static _Thread_local const char *entered_name;

static const sim_profile_t profiles[] = {
#define PROFILE(name, ...) {#name, __VA_ARGS__},
#include "test/sim/profiles.def"
#undef PROFILE
};

void sim_panic(const char *message)
{
    fprintf(stderr, "simulated GPU: %s\n", message);
    abort();
}

void *sim_allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        sim_panic("out of host memory");
    return memory;
}

void *sim_resize(void *old, size_t count, size_t each)
{
    void *memory = reallocarray(old, count ? count : 1, each);
    if (!memory)
        sim_panic("out of host memory");
    return memory;
}

/* xorshift64*, Vigna 2016. */
uint64_t sim_random(void)
{
    uint64_t x = sim_engine.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    sim_engine.random = x;
    return (x * UINT64_C(0x2545F4914F6CDD1D)) >> 16;
}

static uint64_t environment_number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return fallback;
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    static const char units[] = "kmgt";
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    return unit ? value << (10 * (unit - units + 1)) : value;
}

static const sim_profile_t *chosen_profile(void)
{
    const char *name = getenv("MICRODNN_SIM_PROFILE");
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        if (!strcmp(profiles[i].name, name && *name ? name : "h200"))
            return &profiles[i];
    fprintf(stderr, "simulated GPU: no profile \"%s\"; there are:", name);
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        fprintf(stderr, " %s", profiles[i].name);
    fputc('\n', stderr);
    return NULL;
}

static uint64_t switch_devices(const sim_profile_t *profile)
{
#define SWITCH(id, devices)                                                                        \
    if (profile && !strcmp(profile->name, #id))                                                    \
        return environment_number("MICRODNN_SIM_SWITCH", devices);
#include "test/sim/switches.def"
#undef SWITCH
    return 1;
}

static void configure_locked(void)
{
    if (configured)
        return;
    configured = true;
    const sim_profile_t *profile = chosen_profile();
    profile_known = profile != NULL;
    const char *mode = getenv("MICRODNN_SIM_MODE");
    sim_engine.mode = mode && !strcmp(mode, "timing") ? SIM_TIMING : SIM_COMPUTE;
    sim_engine.peer_access = environment_number("MICRODNN_SIM_PEERS", 0) != 0;
    sim_engine.unnamed_allowed = environment_number("MICRODNN_SIM_UNNAMED", 0) != 0;
    sim_engine.event_us = (double)environment_number("MICRODNN_SIM_EVENT_NS", 0) / 1e3;
    sim_engine.clean = environment_number("MICRODNN_SIM_POISON", 1) == 0;
    sim_engine.host_handles = environment_number("MICRODNN_SIM_HOST_HANDLES", 1) != 0;
    sim_engine.limit_bytes = environment_number("MICRODNN_SIM_LIMIT", 0);
    sim_engine.random = environment_number("MICRODNN_SIM_SEED", 1) * 2 + 1;
    for (int i = 0; i < 8; i++) /* small seeds start alike */
        sim_random();
    uint64_t count = environment_number("MICRODNN_SIM_DEVICES", 1);
    sim_engine.device_count = count < SIM_MAX_DEVICES ? (int)count : SIM_MAX_DEVICES;
    uint64_t shared = switch_devices(profile);
    sim_engine.switch_devices = shared > 0 && shared < SIM_MAX_DEVICES ? (int)shared : 1;
    for (int i = 0; i < SIM_MAX_DEVICES; i++) {
        sim_device_t *device = &sim_engine.devices[i];
        device->context.device = i;
        device->profile = profile ? *profile : profiles[0];
        device->profile.memory_bytes =
            environment_number("MICRODNN_SIM_MEMORY", device->profile.memory_bytes);
        device->others_bytes = environment_number("MICRODNN_SIM_OTHERS", 0);
    }
    sim_read_faults();
}

void sim_configure(void)
{
    pthread_mutex_lock(&sim_engine.mutex);
    configure_locked();
    pthread_mutex_unlock(&sim_engine.mutex);
}

static _Atomic bool is_shut_down;
static _Atomic pid_t owner; /* that initialised the driver; 0: nobody */

static void shut_down(void)
{
    is_shut_down = true;
}

CUresult sim_initialise(void)
{
    if (sim_engine.initialised)
        return CUDA_SUCCESS;
    if (!profile_known || sim_engine.device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    CUresult result = sim_map_init(sim_engine.mode == SIM_COMPUTE);
    sim_register_accumulate();
    sim_register_hold();
    sim_register_compare();
    sim_register_copy_kernel();
    sim_engine.initialised = result == CUDA_SUCCESS;
    owner = result == CUDA_SUCCESS ? getpid() : 0;
    if (result == CUDA_SUCCESS && environment_number("MICRODNN_SIM_ENDS", 0) != 0)
        (void)atexit(shut_down);
    return result;
}

static CUresult admit(const char *name, sim_need_t need)
{
    configure_locked();
    CUresult code = sim_fault(name);
    if (code != CUDA_SUCCESS || need == SIM_NEED_NOTHING)
        return code;
    if (!sim_engine.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (is_shut_down)
        return CUDA_ERROR_DEINITIALIZED;
    if (need == SIM_NEED_INIT)
        return CUDA_SUCCESS;
    CUcontext context = sim_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->retained > 0 ? context->sticky : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_enter(const char *name, sim_need_t need)
{
    if (sim_in_host_call())
        return CUDA_ERROR_NOT_PERMITTED;
    /* A child of a process that was initialised has the parent's mutex, maybe locked for ever, and no device. */
    const pid_t first = owner;
    if (first != 0 && first != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&sim_engine.mutex);
    sim_work_forget_equal();
    CUresult result = admit(name, need);
    entered_need = need;
    entered_name = name;
    if (result != CUDA_SUCCESS)
        pthread_mutex_unlock(&sim_engine.mutex);
    return result;
}

CUresult sim_leave(CUresult result)
{
    CUcontext context = entered_need == SIM_NEED_CONTEXT ? sim_current() : NULL;
    if (context && context->sticky != CUDA_SUCCESS)
        result = context->sticky;
    const bool lingers = sim_lingers(entered_name);
    pthread_mutex_unlock(&sim_engine.mutex);
    if (lingers)
        usleep(2000);
    return result;
}

CUcontext sim_current(void)
{
    return context_depth > 0 ? context_stack[context_depth - 1] : NULL;
}

void sim_set_current(CUcontext context)
{
    if (context_depth == 0)
        context_depth = 1;
    context_stack[context_depth - 1] = context;
}

bool sim_push_current(CUcontext context)
{
    if (context_depth == MAX_CONTEXT_STACK)
        return false;
    context_stack[context_depth++] = context;
    return true;
}

bool sim_pop_current(void)
{
    return context_depth > 0 && context_depth-- > 0;
}

sim_device_t *sim_device(int device)
{
    return device >= 0 && device < sim_engine.device_count ? &sim_engine.devices[device] : NULL;
}

uint64_t sim_free_bytes(const sim_device_t *device)
{
    const uint64_t taken = device->used_bytes + device->others_bytes;
    return taken < device->profile.memory_bytes ? device->profile.memory_bytes - taken : 0;
}

void sim_memory_taken(sim_device_t *device, uint64_t bytes)
{
    device->used_bytes += bytes;
    if (device->used_bytes > device->most_used_bytes)
        device->most_used_bytes = device->used_bytes;
    if (sim_engine.limit_bytes == 0 || device->used_bytes <= sim_engine.limit_bytes)
        return;
    char message[160];
    snprintf(message, sizeof message,
             "device %d holds %llu bytes, which is more than MICRODNN_SIM_LIMIT",
             (int)(device - sim_engine.devices), (unsigned long long)device->used_bytes);
    sim_panic(message);
}

void sim_memory_given_back(sim_device_t *device, uint64_t bytes)
{
    device->used_bytes -= bytes;
}

void sim_fail_context(CUcontext context, CUresult error)
{
    if (context->sticky == CUDA_SUCCESS)
        context->sticky = error;
}

static sim_mode_t api_mode(void)
{
    sim_configure();
    return sim_engine.mode;
}

static const sim_profile_t *api_profile(int device)
{
    sim_configure();
    return device >= 0 && device < SIM_MAX_DEVICES ? &sim_engine.devices[device].profile : NULL;
}

static CUfunction api_function(const sim_kernel_t *kernel)
{
    pthread_mutex_lock(&sim_engine.mutex);
    CUfunction function = sim_function(kernel);
    pthread_mutex_unlock(&sim_engine.mutex);
    return function;
}

static double api_host_time_us(void)
{
    pthread_mutex_lock(&sim_engine.mutex);
    double time_us = sim_engine.host_us;
    pthread_mutex_unlock(&sim_engine.mutex);
    return time_us;
}

static uint64_t api_operations_run(void)
{
    pthread_mutex_lock(&sim_engine.mutex);
    uint64_t count = sim_engine.operations_run;
    pthread_mutex_unlock(&sim_engine.mutex);
    return count;
}

static void api_inject(const char *name, uint64_t nth, CUresult code)
{
    pthread_mutex_lock(&sim_engine.mutex);
    configure_locked();
    sim_inject(name, nth, code);
    pthread_mutex_unlock(&sim_engine.mutex);
}

static uint64_t api_faults_fired(void)
{
    pthread_mutex_lock(&sim_engine.mutex);
    const uint64_t fired = sim_faults_fired();
    pthread_mutex_unlock(&sim_engine.mutex);
    return fired;
}

/* One number of the engine's, under its lock. */
static uint64_t read_number(const uint64_t *number)
{
    pthread_mutex_lock(&sim_engine.mutex);
    const uint64_t value = *number;
    pthread_mutex_unlock(&sim_engine.mutex);
    return value;
}

static uint64_t api_used_bytes(int device)
{
    return read_number(&sim_engine.devices[device].used_bytes);
}

static uint64_t api_most_used_bytes(int device)
{
    return read_number(&sim_engine.devices[device].most_used_bytes);
}

static uint64_t api_pinned_bytes(void)
{
    return read_number(&sim_engine.pinned_bytes);
}

const sim_api_t *sim_api(void);
const sim_api_t *sim_api(void)
{
    static const sim_api_t api = {
        .version = 1,
        .mode = api_mode,
        .profile = api_profile,
        .function = api_function,
        .set_next_cost_us = sim_set_next_cost_us,
        .memory = sim_memory,
        .host_time_us = api_host_time_us,
        .operations_run = api_operations_run,
        .inject = api_inject,
        .faults_fired = api_faults_fired,
        .used_bytes = api_used_bytes,
        .most_used_bytes = api_most_used_bytes,
        .pinned_bytes = api_pinned_bytes,
    };
    return &api;
}
