/* A preload library that counts the requests of the process to NVIDIA's kernel driver, and changes
 * nothing: whoever makes, pins or gives back memory must ask there. memory_worker.py reads the
 * counts with memory_ioctls(). The numbers are those of nv_escape.h and uvm_ioctl.h in NVIDIA's
 * open kernel modules. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum { NUMBERS = 256, CONTROL_TYPE = 'F' };

/* Requests to the control device by their number, and to the unified-memory device, whose requests
 * are bare numbers. */
static _Atomic uint64_t control[NUMBERS], unified[NUMBERS];

/* `out` has 2 * 256 places. */
__attribute__((visibility("default"))) void memory_ioctls(uint64_t *out)
{
    for (int i = 0; i < NUMBERS; i++) {
        out[i] = atomic_load(&control[i]);
        out[NUMBERS + i] = atomic_load(&unified[i]);
    }
}

__attribute__((visibility("default"))) int ioctl(int file, unsigned long request, ...)
{
    static int (*_Atomic real)(int, unsigned long, ...);
    int (*call)(int, unsigned long, ...) = atomic_load(&real);
    va_list arguments;
    va_start(arguments, request);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!call) {
        *(void **)&call = dlsym(RTLD_NEXT, "ioctl");
        if (!call) {
            errno = ENOSYS;
            return -1;
        }
        atomic_store(&real, call);
    }
    if (_IOC_TYPE(request) == CONTROL_TYPE)
        atomic_fetch_add(&control[_IOC_NR(request)], 1);
    else if (request < NUMBERS)
        atomic_fetch_add(&unified[request], 1);
    return call(file, request, argument);
}
