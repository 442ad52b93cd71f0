/* What single calls cost on the host: cudaMallocAsync and cudaFreeAsync of sizes that come again,
 * and a launch with three pointers to such memory. Knows nothing of the library: memory-check
 * compiles it where it runs and starts it with and without. Prints one JSON object, medians in
 * microseconds less the clock's own. The launches' cost by themselves is the difference of two
 * runs. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZES = 8, LIVE = 3, TIMED = 20000, WARM = 2000, EACH_WAIT = 200 };
static const size_t sizes[SIZES] = {512,
                                    64u << 10,
                                    1u << 20,
                                    3u << 20,
                                    (size_t)8 << 20,
                                    (size_t)24 << 20,
                                    (size_t)96 << 20,
                                    (size_t)200 << 20};

/* Three pointers and a number, as a small kernel of a framework has; does nothing. */
static const char kernel_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n ret;\n}\n";

static struct {
    int (*malloc_async)(void **, size_t, void *);
    int (*free_async)(void *, void *);
    int (*free_now)(void *);
    int (*synchronize)(void);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **);
} cuda;

static void check(int status, const char *what)
{
    if (status == 0)
        return;
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
}

static void *resolve(void *library, const char *name)
{
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return function;
}

static void load(const char *runtime)
{
    void *cudart = dlopen(runtime, RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&cuda.malloc_async = resolve(cudart, "cudaMallocAsync");
    *(void **)&cuda.free_async = resolve(cudart, "cudaFreeAsync");
    *(void **)&cuda.free_now = resolve(cudart, "cudaFree");
    *(void **)&cuda.synchronize = resolve(cudart, "cudaDeviceSynchronize");
    *(void **)&cuda.load = resolve(driver, "cuModuleLoadData");
    *(void **)&cuda.function = resolve(driver, "cuModuleGetFunction");
    *(void **)&cuda.launch = resolve(driver, "cuLaunchKernel");
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(uint64_t *ns, uint64_t clock_ns)
{
    qsort(ns, TIMED, sizeof *ns, by_value);
    return ((double)ns[TIMED / 2] - (double)clock_ns) / 1e3;
}

static uint64_t clock_cost_ns(void)
{
    static uint64_t ns[TIMED];
    for (size_t i = 0; i < TIMED; i++) {
        const uint64_t begin = now_ns();
        ns[i] = now_ns() - begin;
    }
    qsort(ns, TIMED, sizeof *ns, by_value);
    return ns[TIMED / 2];
}

/* One allocation, one launch that names what lives, one free, as an iteration of training mixes
 * them. */
static void turn(CUfunction kernel, void **live, size_t i, uint64_t ns[3])
{
    void **mine = &live[i % LIVE];
    uint64_t begin = now_ns();
    check(cuda.free_async(*mine, NULL), "cudaFreeAsync");
    ns[1] = now_ns() - begin;
    begin = now_ns();
    check(cuda.malloc_async(mine, sizes[i % SIZES], NULL), "cudaMallocAsync");
    ns[0] = now_ns() - begin;
    uint32_t number = 1;
    void *parameters[] = {&live[0], &live[1], &live[2], &number};
    begin = now_ns();
    check((int)cuda.launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL), "cuLaunchKernel");
    ns[2] = now_ns() - begin;
}

int main(int argc, char **argv)
{
    static uint64_t malloc_ns[TIMED], free_ns[TIMED], launch_ns[TIMED];
    load(argc > 1 ? argv[1] : "libcudart.so.13");
    check(cuda.free_now(NULL), "cudaFree");
    CUmodule module;
    CUfunction kernel;
    check((int)cuda.load(&module, kernel_ptx), "cuModuleLoadData");
    check((int)cuda.function(&kernel, module, "nothing"), "cuModuleGetFunction");
    void *live[LIVE];
    for (size_t i = 0; i < LIVE; i++)
        check(cuda.malloc_async(&live[i], sizes[i], NULL), "cudaMallocAsync");
    for (size_t i = 0; i < WARM + TIMED; i++) {
        uint64_t ns[3];
        turn(kernel, live, i, ns);
        if (i >= WARM) {
            malloc_ns[i - WARM] = ns[0];
            free_ns[i - WARM] = ns[1];
            launch_ns[i - WARM] = ns[2];
        }
        if (i % EACH_WAIT == 0)
            check(cuda.synchronize(), "cudaDeviceSynchronize");
    }
    check(cuda.synchronize(), "cudaDeviceSynchronize");
    const uint64_t clock_ns = clock_cost_ns();
    const double malloc_us = median_us(malloc_ns, clock_ns), free_us = median_us(free_ns, clock_ns);
    printf("{\"malloc\": %.3f, \"free\": %.3f, \"launch\": %.3f}\n", malloc_us, free_us,
           median_us(launch_ns, clock_ns));
    return 0;
}
