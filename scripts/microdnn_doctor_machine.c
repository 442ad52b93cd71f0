/* The machine: C library, driver, GPUs, CUDA runtimes, limits. */
#include "scripts/microdnn_doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "config/node/host_memory.h"
#include "config/numbers.h"
#include "config/sizes.h"

void doctor_look_at_libc(void)
{
    const char *const version = gnu_get_libc_version();
    unsigned major = 0, minor = 0;
    const bool read = sscanf(version, "%u.%u", &major, &minor) == 2;
    const bool old = !read || major < 2 || (major == 2 && minor < 34);
    doctor_find(old ? DOCTOR_BROKEN : DOCTOR_FINE, "glibc", "%s%s", version,
                old ? ", 2.34 or newer is needed" : "");
}

static const char *path_of(void *handle)
{
    struct link_map *map = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name
                                                                                : "unknown path";
}

/* CUDA writes 13.0 as 13000. */
static int cuda_version(void *handle, const char *getter)
{
    int (*get)(int *) = NULL;
    int version = 0;
    void *const symbol = dlsym(handle, getter);
    memcpy(&get, &symbol, sizeof symbol);
    return get != NULL && get(&version) == 0 ? version : 0;
}

void doctor_look_at_driver(doctor_t *doctor)
{
    void *const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        doctor_find(DOCTOR_BROKEN, "driver",
                    "there is no libcuda.so.1, so no program can use a GPU here (%s); in a "
                    "container, start it with its GPUs (docker run --gpus all)",
                    dlerror());
        return;
    }
    const char *const path = path_of(handle);
    if (strstr(path, "/stubs/") != NULL) {
        doctor_find(DOCTOR_BROKEN, "driver",
                    "%s is a stub for linking, not a driver: take its folder out of "
                    "LD_LIBRARY_PATH",
                    path);
        return;
    }
    doctor->driver_version = cuda_version(handle, "cuDriverGetVersion");
    const bool simulated = dlsym(handle, "sim_api") != NULL;
    doctor_find(DOCTOR_FINE, "driver", "%s, CUDA %d.%d%s", path, doctor->driver_version / 1000,
                doctor->driver_version % 1000 / 10,
                simulated ? ", a SIMULATED GPU: its times are computed, not measured" : "");
}

/* The budget as the library will see it on this device. */
static void judge_budget(const doctor_t *doctor, const tool_device_t *device)
{
    char why[MDNN_TROUBLE_BYTES], total[MDNN_NUMBER_BYTES];
    const uint64_t budget =
        mdnn_size_on_device(doctor->options->memory_budget, device->total_bytes);
    mdnn_format_size_rounded(device->total_bytes, total, sizeof total);
    if (device->virtual_memory == 0)
        doctor_find(doctor->options->memory_strict ? DOCTOR_BROKEN : DOCTOR_WARNING, "memory",
                    "%s has no virtual memory in its driver: no budget can be kept on it",
                    device->name);
    else if (!mdnn_budget_can_be_kept(doctor->options, device->total_bytes, why, sizeof why))
        doctor_find(DOCTOR_BROKEN, "memory", "%s", why);
    else if (device->total_bytes > 0 && budget >= device->total_bytes)
        doctor_find(DOCTOR_WARNING, "memory",
                    "the budget is not less than what %s has (%s): it limits nothing", device->name,
                    total);
}

static void tell_device(const doctor_t *doctor, size_t ordinal, const tool_device_t *device)
{
    static const char *const answers[] = {"unknown", "no", "yes"};
    char budget[MDNN_NUMBER_BYTES], total[MDNN_NUMBER_BYTES];
    mdnn_format_size(doctor->options->memory_budget, budget, sizeof budget);
    mdnn_format_size_rounded(device->total_bytes, total, sizeof total);
    doctor_find(DOCTOR_FINE, "memory",
                "device %zu (%s, %s): virtual memory in the driver: %s, of the host: %s; budget "
                "%s (%s)",
                ordinal, device->name, total, answers[device->virtual_memory + 1],
                answers[device->host_numa + 1], budget,
                doctor->options->origin[MDNN_OPTION_memory_budget]);
    if (doctor->budget)
        judge_budget(doctor, device);
}

void doctor_look_at_devices(doctor_t *doctor)
{
    static tool_device_list_t devices;
    char why[512];
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible != NULL && (*visible == '\0' || *visible == '-'))
        doctor_find(DOCTOR_BROKEN, "GPU", "CUDA_VISIBLE_DEVICES='%s' hides all GPUs", visible);
    else if (!tool_devices_ask(&devices, why, sizeof why) &&
             strstr(why, "there is no CUDA driver") == NULL) /* which is said of the driver */
        doctor_find(DOCTOR_BROKEN, "GPU", "%s%s%s", why,
                    visible != NULL ? "; CUDA_VISIBLE_DEVICES=" : "",
                    visible != NULL ? visible : "");
    for (size_t i = 0; i < devices.count; i++) {
        const uint64_t bytes = devices.devices[i].total_bytes;
        if (bytes > 0 && (doctor->least_memory == 0 || bytes < doctor->least_memory))
            doctor->least_memory = bytes;
        tell_device(doctor, i, &devices.devices[i]);
    }
}

void doctor_look_at_runtimes(const doctor_t *doctor)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    unsigned found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *const handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL)
            continue;
        const int version = cuda_version(handle, "cudaRuntimeGetVersion");
        const bool newer =
            doctor->driver_version > 0 && version / 1000 > doctor->driver_version / 1000;
        doctor_find(newer ? DOCTOR_WARNING : DOCTOR_FINE, "CUDA runtime", "%s, CUDA %d.%d%s",
                    path_of(handle), version / 1000, version % 1000 / 10,
                    newer ? ": the driver is too old for it" : "");
        found++;
    }
    if (found == 0)
        doctor_find(DOCTOR_FINE, "CUDA runtime",
                    "none where the loader looks; Python packages bring their own");
}

/* ---- limits ---- */

/* The library maps a file of some 70 KB there; data loaders and NCCL need more. */
static void look_at_shared_memory(const doctor_t *doctor)
{
    enum { REGISTRY_BYTES = 128 << 10, LITTLE_BYTES = 64 << 20 };
    const char *const folder = doctor->options->memory_registry;
    struct statvfs system;
    char size[MDNN_NUMBER_BYTES];
    if (*folder == '\0')
        return;
    if (statvfs(folder, &system) != 0 || access(folder, W_OK | X_OK) != 0) {
        doctor_find(DOCTOR_WARNING, "shared memory",
                    "%s: %s: processes cannot add up their pinned memory there, and each takes a "
                    "share of [memory] host_limit",
                    folder, strerror(errno));
        return;
    }
    const uint64_t total = (uint64_t)system.f_blocks * system.f_frsize;
    mdnn_format_size_rounded(total, size, sizeof size);
    if ((uint64_t)system.f_bavail * system.f_frsize < REGISTRY_BYTES)
        doctor_find(DOCTOR_WARNING, "shared memory",
                    "%s is full: processes cannot add up their pinned memory there", folder);
    else if (total <= LITTLE_BYTES)
        doctor_find(DOCTOR_WARNING, "shared memory",
                    "%s has %s, too little for data loaders of PyTorch and for NCCL (docker run "
                    "--shm-size=8g)",
                    folder, size);
    else
        doctor_find(DOCTOR_FINE, "shared memory", "%s has %s", folder, size);
}

/* A program that fills the GPU leaves what the budget does not hold in pinned host memory. */
static void look_at_host_memory(const doctor_t *doctor)
{
    char limit[MDNN_NUMBER_BYTES], beyond[MDNN_NUMBER_BYTES];
    const uint64_t of_host = mdnn_host_memory_bytes("");
    const uint64_t option = doctor->options->memory_host_limit;
    const uint64_t bytes = option != UINT64_MAX ? option : of_host / 2;
    const uint64_t budget =
        mdnn_size_on_device(doctor->options->memory_budget, doctor->least_memory);
    if (of_host == UINT64_MAX || budget >= doctor->least_memory)
        return;
    mdnn_format_size_rounded(bytes, limit, sizeof limit);
    mdnn_format_size_rounded(doctor->least_memory - budget, beyond, sizeof beyond);
    if (bytes < doctor->least_memory - budget)
        doctor_find(DOCTOR_WARNING, "host memory",
                    "at most %s is pinned (%s); a program that fills the GPU without a budget "
                    "needs %s",
                    limit,
                    option != UINT64_MAX ? doctor->options->origin[MDNN_OPTION_memory_host_limit]
                                         : "half of what the machine or the container has",
                    beyond);
    else
        doctor_find(DOCTOR_FINE, "host memory", "up to %s is pinned", limit);
}

void doctor_look_at_limits(const doctor_t *doctor)
{
    struct rlimit space;
    char size[MDNN_NUMBER_BYTES];
    if (!doctor->budget)
        return;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        mdnn_format_size_rounded(space.rlim_cur, size, sizeof size);
        doctor_find(DOCTOR_BROKEN, "limits",
                    "the address space is limited to %s (ulimit -v): a budget reserves several "
                    "times the GPU's memory",
                    size);
    }
    look_at_shared_memory(doctor);
    look_at_host_memory(doctor);
}
