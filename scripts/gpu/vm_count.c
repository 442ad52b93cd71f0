/* A preload library that counts and times PyTorch's device allocations for vm_pytorch.py, and
 * changes nothing. The host program reads them with vm_counts(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { MALLOC, MALLOC_ASYNC, MALLOC_FROM_POOL, FREE, FREE_ASYNC, FUNCTIONS };
/* Mirrored in vm_pytorch.py. Calls, nanoseconds in them and the longest of each function, in the
 * order above; refusals; the largest allocation that was served and the largest that was refused,
 * bytes. */
enum {
    CALLS,
    NANOSECONDS = FUNCTIONS,
    LONGEST = 2 * FUNCTIONS,
    REFUSED = 3 * FUNCTIONS,
    LARGEST,
    LARGEST_REFUSED,
    VALUES
};
static _Atomic uint64_t values[VALUES];

static void *real(const char *name)
{
    static const char *const libraries[] = {"libcudart.so.13", "libcudart.so.12"};
    for (size_t i = 0; i < 2; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        void *function = library ? dlsym(library, name) : NULL;
        if (function)
            return function;
    }
    abort(); /* who calls it has it from one of these */
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void raise_to(_Atomic uint64_t *value, uint64_t least)
{
    uint64_t seen = atomic_load(value);
    while (seen < least && !atomic_compare_exchange_weak(value, &seen, least))
        continue;
}

static int note(int function, uint64_t begin_ns, int status, uint64_t bytes)
{
    uint64_t spent_ns = now_ns() - begin_ns;
    atomic_fetch_add(&values[CALLS + function], 1);
    atomic_fetch_add(&values[NANOSECONDS + function], spent_ns);
    raise_to(&values[LONGEST + function], spent_ns);
    if (status)
        atomic_fetch_add(&values[REFUSED], 1);
    raise_to(&values[status ? LARGEST_REFUSED : LARGEST], bytes);
    return status;
}

__attribute__((visibility("default"))) void vm_counts(uint64_t *out, int reset)
{
    for (int i = 0; i < VALUES; i++)
        out[i] = reset ? atomic_exchange(&values[i], 0) : atomic_load(&values[i]);
}

#define COUNTED(name, index, bytes, parameters, ...)                                               \
    int name parameters                                                                            \
    {                                                                                              \
        static int(*_Atomic function) parameters;                                                  \
        if (!atomic_load(&function))                                                               \
            atomic_store(&function, (int(*) parameters)real(#name));                               \
        uint64_t begin_ns = now_ns();                                                              \
        int status = atomic_load(&function)(__VA_ARGS__);                                          \
        return note(index, begin_ns, status, bytes);                                               \
    }

COUNTED(cudaMalloc, MALLOC, size, (void **pointer, size_t size), pointer, size)
COUNTED(cudaMallocAsync, MALLOC_ASYNC, size, (void **pointer, size_t size, void *stream), pointer,
        size, stream)
COUNTED(cudaMallocFromPoolAsync, MALLOC_FROM_POOL, size,
        (void **pointer, size_t size, void *pool, void *stream), pointer, size, pool, stream)
COUNTED(cudaFree, FREE, 0, (void *pointer), pointer)
COUNTED(cudaFreeAsync, FREE_ASYNC, 0, (void *pointer, void *stream), pointer, stream)
