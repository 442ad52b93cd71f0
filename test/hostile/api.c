/* The driver's functions, found in one of the ways in which programs find them. */
#include "test/hostile/hostile.h"

#include <dlfcn.h>
#include <string.h>

driver_t api;

#define TEXT(name) #name
#define SYMBOL(name) TEXT(name)

typedef CUresult (*proc_address_t)(const char *, void **, int, cuuint64_t,
                                   CUdriverProcAddressQueryResult *);

static void *by_name(void *driver, const char *symbol)
{
    void *const found = dlsym(driver, symbol);
    if (!found) {
        printf("no %s\n", symbol);
        exit(1);
    }
    return found;
}

static void *by_driver(void *driver, const char *name, bool own_streams)
{
    CUdriverProcAddressQueryResult status;
    proc_address_t ask;
    void *found = NULL;
    void *const address = by_name(driver, "cuGetProcAddress_v2");
    memcpy(&ask, &address, sizeof ask);
    if (ask(name, &found, CUDA_VERSION, own_streams ? 2 : 0, &status) != CUDA_SUCCESS || !found) {
        printf("the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

void api_find(way_t way)
{
    void *const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    void *found;
    (void)found;
    if (way == WAY_LINKED) {
#define DRIVER(name) api.name = name;
#include "test/hostile/api.def"
#undef DRIVER
    } else if (way == WAY_DLSYM) {
#define DRIVER(name)                                                                               \
    found = by_name(driver, SYMBOL(name));                                                         \
    memcpy(&api.name, &found, sizeof found);
#include "test/hostile/api.def"
#undef DRIVER
    } else {
#define DRIVER(name)                                                                               \
    found = by_driver(driver, #name, way == WAY_OWN_STREAMS);                                      \
    memcpy(&api.name, &found, sizeof found);
#include "test/hostile/api.def"
#undef DRIVER
    }
}
