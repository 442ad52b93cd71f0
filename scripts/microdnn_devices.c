/* Which GPUs there are, and whether they are of one model. */
#include "scripts/microdnn_tune.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME_BYTES = 128 };

typedef struct device_names {
    size_t count;
    char name[TOOL_DEVICES_MAX][NAME_BYTES];
} device_names_t;

/* ---- in the child ---- */

typedef struct driver {
    int (*init)(unsigned flags);
    int (*count)(int *count);
    int (*get)(int *device, int ordinal);
    int (*name)(char *name, int bytes, int device);
} driver_t;

/* dlsym's result as a function; ISO C has no cast for it. */
static bool get_function(void *handle, const char *name, void *function)
{
    void *const symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* One name a line; or a line that begins with '!' and says what is wrong. */
static void tell_names(FILE *out)
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
    int error = driver.init(0);
    if (error == 0)
        error = driver.count(&count);
    for (int i = 0; error == 0 && i < count; i++) {
        char name[NAME_BYTES] = "";
        int device = 0;
        error = driver.get(&device, i);
        if (error == 0)
            error = driver.name(name, sizeof name, device);
        if (error == 0)
            fprintf(out, "%s\n", name);
    }
    if (error != 0)
        fprintf(out, "!the CUDA driver reports error %d\n", error);
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
            tell_names(out);
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

static bool read_names(device_names_t *names)
{
    pid_t child = 0;
    char line[1024];
    bool good = true;
    FILE *const in = start_child(&child);
    if (in == NULL) {
        tool_complain("cannot ask the driver: %s", strerror(errno));
        return false;
    }
    names->count = 0;
    while (good && names->count < TOOL_DEVICES_MAX && fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        good = *line != '!';
        if (good)
            snprintf(names->name[names->count++], NAME_BYTES, "%.*s", NAME_BYTES - 1, line);
        else
            tool_complain("--devices: %s", line + 1);
    }
    fclose(in);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (good && names->count == 0)
        tool_complain("--devices: there is no GPU here");
    return good && names->count > 0;
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
static bool read_list(const char *list, const device_names_t *names, size_t *ordinals,
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
    static device_names_t names;
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
        if (strcmp(names.name[ordinals[i]], names.name[ordinals[0]]) != 0) {
            tool_complain("--devices: %zu is %s and %zu is %s; what one measures says nothing of "
                          "the other: tune each by itself",
                          ordinals[0], names.name[ordinals[0]], ordinals[i],
                          names.name[ordinals[i]]);
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
