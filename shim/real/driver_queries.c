#include "shim/real/driver_queries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "shim/real/real.h"

mdnn_driver_function_t mdnn_driver_find(const char *symbol, bool *loaded)
{
    const mdnn_dlsym_function_t find = mdnn_real_dlsym();
    mdnn_driver_function_t function;
    void *const driver = find ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    *loaded = driver != NULL;
    if (!driver)
        return NULL;
    void *const found = find(driver, symbol);
    if (!found)
        (void)dlerror();
    dlclose(driver);
    memcpy(&function, &found, sizeof function);
    return function;
}

static mdnn_driver_queries_t queries;

static void find_queries(void)
{
    bool loaded;
#define QUERY(symbol, type) queries.symbol = (type)mdnn_driver_find(#symbol, &loaded);
    MDNN_DRIVER_QUERIES(QUERY)
#undef QUERY
}

const mdnn_driver_queries_t *mdnn_driver_queries(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_queries);
    return &queries;
}
