/* The CUDA driver by dlopen, clocks, percentiles and JSON rows for scripts/gpu/vm_experiments.c.
 * Nothing of the library is used. A call that must not fail ends the process with what failed: each
 * part runs in a process of its own, and the rows printed before stay. */
#ifndef VM_DRIVER_H
#define VM_DRIVER_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* cuda.h renames some of them (cuMemAlloc_v2); the names below are expanded before they are used.
 */
/* clang-format off */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDriverGetVersion)                \
        X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuGetErrorName)       \
            X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost)          \
                X(cuMemAddressReserve) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap)    \
                    X(cuMemSetAccess) X(cuMemsetD32) X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync)          \
                        X(cuMemcpyHtoDAsync) X(cuMemcpyAsync) X(cuStreamCreate) X(cuStreamQuery)   \
                            X(cuStreamSynchronize) X(cuEventCreate) X(cuEventRecord)               \
                                X(cuEventSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction)   \
                                    X(cuLaunchKernel)
/* clang-format on */

#define MEMBER_(name) __typeof__(&name) name;
#define MEMBER(name) MEMBER_(name)
static struct {
    DRIVER_FUNCTIONS(MEMBER)
} cu;

static void *driver_library;

static void check(CUresult result, const char *what, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    const char *name = NULL;
    if (cu.cuGetErrorName)
        cu.cuGetErrorName(result, &name);
    fprintf(stderr, "line %d: %s: %s (%d)\n", line, what, name ? name : "?", (int)result);
    fflush(stdout);
    _Exit(1);
}

#define CHECK(call) check(cu.call, #call, __LINE__)

static void *resolve(const char *name)
{
    void *function = dlsym(driver_library, name);
    if (!function) {
        fprintf(stderr, "the driver has no %s\n", name);
        _Exit(1);
    }
    return function;
}

static void load_driver(void)
{
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver_library) {
        fprintf(stderr, "%s\n", dlerror());
        _Exit(1);
    }
#define RESOLVE_(name) *(void **)&cu.name = resolve(#name);
#define RESOLVE(name) RESOLVE_(name)
    DRIVER_FUNCTIONS(RESOLVE)
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Prints ,"name":{"n":..,"median":..,"p99":..,"max":..} in microseconds; sorts `ns`. Nothing is
 * printed but n for no values. */
static void print_summary(const char *name, uint64_t *ns, size_t count)
{
    printf(",\"%s\":{\"n\":%zu", name, count);
    if (count > 0) {
        qsort(ns, count, sizeof *ns, by_value);
        printf(",\"median\":%.2f,\"p99\":%.2f,\"max\":%.2f", (double)ns[count / 2] / 1e3,
               (double)ns[count - 1 - count / 100] / 1e3, (double)ns[count - 1] / 1e3);
    }
    printf("}");
}

static void end_row(void)
{
    puts("}");
    fflush(stdout);
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "no host memory\n");
        _Exit(1);
    }
    return memory;
}

#endif
