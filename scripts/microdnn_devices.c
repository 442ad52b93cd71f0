/* Which GPUs there are, and whether they are of one model. */
#include "scripts/microdnn_tune.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- in the child ---- */

typedef struct driver {
    int (*init)(unsigned flags);
    int (*count)(int *count);
    int (*get)(int *device, int ordinal);
    int (*name)(char *name, int bytes, int device);
    /* May be missing. */
    int (*attribute)(int *value, int attribute, int device);
    int (*memory)(size_t *bytes, int device);
} driver_t;

/* Of cuda.h, which the tool is built without. */
enum { ATTRIBUTE_VIRTUAL_MEMORY = 102, ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY = 141 };

/* dlsym's result as a function; ISO C has no cast for it. */
static bool get_function(void *handle, const char *name, void *function)
{
    void *const symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* -1: the driver does not say. */
static int attribute_of(const driver_t *driver, int attribute, int device)
{
    int value = 0;
    if (driver->attribute == NULL || driver->attribute(&value, attribute, device) != 0)
        return -1;
    return value != 0;
}

/* "BYTES VIRTUAL_MEMORY HOST_NUMA NAME" */
static int tell_device(const driver_t *driver, int ordinal, FILE *out)
{
    char name[TOOL_DEVICE_NAME_BYTES] = "";
    int device = 0;
    size_t bytes = 0;
    int error = driver->get(&device, ordinal);
    if (error == 0)
        error = driver->name(name, sizeof name, device);
    if (error != 0)
        return error;
    if (driver->memory == NULL || driver->memory(&bytes, device) != 0)
        bytes = 0;
    fprintf(out, "%zu %d %d %s\n", bytes, attribute_of(driver, ATTRIBUTE_VIRTUAL_MEMORY, device),
            attribute_of(driver, ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY, device), name);
    return 0;
}

/* What users can do about it. */
static const char *advice_for(int error)
{
    static const struct {
        int error;
        const char *advice;
    } known[] = {
        {34, ", a stub for linking is loaded in place of the driver"},
        {100, ", there is no GPU: in a container, start it with its GPUs (docker run --gpus all)"},
        {101, ", a GPU that CUDA_VISIBLE_DEVICES names is not there"},
        {802, ", the GPUs are not ready: is the fabric manager running?"},
        {803, ", libcuda.so and the kernel module are of different versions: restart after an "
              "update"},
        {804, ", the GPU does not support this libcuda.so (a package cuda-compat?)"},
        {999, ", unknown: is the kernel module loaded (nvidia-smi)?"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error)
            return known[i].advice;
    return "";
}

/* One device a line; or a line that begins with '!' and says what is wrong. */
static void tell_devices(FILE *out)
{
    void *const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    driver_t driver;
    int count = 0;
    if (handle == NULL) {
        fprintf(out, "!there is no CUDA driver here: %s\n", dlerror());
        return;
    }
    if (!get_function(handle, "cuInit", &driver.init) ||
        !get_function(handle, "cuDeviceGetCount", &driver.count) ||
        !get_function(handle, "cuDeviceGet", &driver.get) ||
        !get_function(handle, "cuDeviceGetName", &driver.name)) {
        fputs("!libcuda.so.1 is not a CUDA driver\n", out);
        return;
    }
    get_function(handle, "cuDeviceGetAttribute", &driver.attribute);
    get_function(handle, "cuDeviceTotalMem_v2", &driver.memory);
    int error = driver.init(0);
    if (error == 0)
        error = driver.count(&count);
    for (int i = 0; error == 0 && i < count; i++)
        error = tell_device(&driver, i, out);
    if (error != 0)
        fprintf(out, "!the CUDA driver reports error %d%s\n", error, advice_for(error));
}

/* ---- in the tool ---- */

static FILE *start_child(pid_t *child)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        return NULL;
    *child = fork();
    if (*child == 0) {
        FILE *const out = fdopen(ends[1], "w");
        close(ends[0]);
        if (out != NULL) {
            tell_devices(out);
            fflush(out);
        }
        _exit(0);
    }
    close(ends[1]);
    if (*child > 0)
        return fdopen(ends[0], "r");
    close(ends[0]);
    return NULL;
}

static bool read_device(char *line, tool_device_t *device)
{
    char *end = line;
    device->total_bytes = strtoull(line, &end, 10);
    device->virtual_memory = (int)strtol(end, &end, 10);
    device->host_numa = (int)strtol(end, &end, 10);
    if (end == line || *end != ' ')
        return false;
    snprintf(device->name, sizeof device->name, "%.*s", TOOL_DEVICE_NAME_BYTES - 1, end + 1);
    return true;
}

bool tool_devices_ask(tool_device_list_t *list, char *why, size_t why_bytes)
{
    pid_t child = 0;
    char line[1024];
    bool good = true;
    FILE *const in = start_child(&child);
    if (in == NULL) {
        snprintf(why, why_bytes, "cannot ask the driver: %s", strerror(errno));
        return false;
    }
    list->count = 0;
    while (good && list->count < TOOL_DEVICES_MAX && fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        good = *line != '!' && read_device(line, &list->devices[list->count]);
        if (good)
            list->count++;
        else
            snprintf(why, why_bytes, "%s", line + 1);
    }
    fclose(in);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (good && list->count == 0)
        snprintf(why, why_bytes, "there is no GPU here");
    return good && list->count > 0;
}

static bool read_names(tool_device_list_t *list)
{
    char why[1024];
    if (tool_devices_ask(list, why, sizeof why))
        return true;
    tool_complain("--devices: %s", why);
    return false;
}

/* The ordinal's entry in CUDA_VISIBLE_DEVICES, where that is set: it may be an ordinal of the
 * machine or a UUID. */
static bool name_visible(size_t ordinal, char *visible)
{
    const char *entry = getenv("CUDA_VISIBLE_DEVICES");
    if (entry == NULL) {
        snprintf(visible, TOOL_DEVICE_BYTES, "%zu", ordinal);
        return true;
    }
    for (size_t i = 0; i < ordinal && entry != NULL; i++) {
        entry = strchr(entry, ',');
        entry = entry != NULL ? entry + 1 : NULL;
    }
    const size_t length = entry != NULL ? strcspn(entry, ",") : 0;
    if (length == 0 || length >= TOOL_DEVICE_BYTES)
        return false;
    snprintf(visible, TOOL_DEVICE_BYTES, "%.*s", (int)length, entry);
    return true;
}

/* "0,2" into ordinals, each once. */
static bool read_list(const char *list, const tool_device_list_t *names, size_t *ordinals,
                      size_t *count)
{
    bool taken[TOOL_DEVICES_MAX] = {false};
    *count = 0;
    for (const char *at = list;; at++) {
        char *end;
        const unsigned long ordinal = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end != ',' && *end != '\0')) {
            tool_complain("--devices: '%s' is not a list of devices; accepted: 0,1,... or all",
                          list);
            return false;
        }
        if (ordinal >= names->count || taken[ordinal]) {
            tool_complain("--devices: %s %lu; there %s %zu",
                          ordinal < names->count ? "twice device" : "there is no device", ordinal,
                          names->count == 1 ? "is" : "are", names->count);
            return false;
        }
        taken[ordinal] = true;
        ordinals[(*count)++] = ordinal;
        if (*end == '\0')
            return true;
        at = end;
    }
}

bool tool_devices_choose(const char *list, tool_devices_t *devices)
{
    static tool_device_list_t names;
    size_t ordinals[TOOL_DEVICES_MAX], count;
    if (!read_names(&names))
        return false;
    if (strcmp(list, "all") == 0) {
        for (count = 0; count < names.count; count++)
            ordinals[count] = count;
    } else if (!read_list(list, &names, ordinals, &count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names.devices[ordinals[i]].name, names.devices[ordinals[0]].name) != 0) {
            tool_complain("--devices: %zu is %s and %zu is %s; measurements of one say nothing "
                          "about the other: tune each of them separately",
                          ordinals[0], names.devices[ordinals[0]].name, ordinals[i],
                          names.devices[ordinals[i]].name);
            return false;
        }
        if (!name_visible(ordinals[i], devices->visible[i])) {
            tool_complain("--devices: CUDA_VISIBLE_DEVICES has no entry for device %zu",
                          ordinals[i]);
            return false;
        }
    }
    devices->count = count;
    return true;
}
