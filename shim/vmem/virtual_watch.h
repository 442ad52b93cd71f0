/* Who watches all operations under a budget: nobody, unless `memory.remake` is on (shim/remake/remake.h). */
#ifndef MDNN_VIRTUAL_WATCH_H
#define MDNN_VIRTUAL_WATCH_H

#include <stdatomic.h>

#include "config/memory_statistics.h"
#include "shim/real/kernel_layout.h"
#include "shim/vmem/virtual_memory.h"

/* How a kernel is launched: the arguments of the program's call, borrowed until the operation's end. */
typedef struct mdnn_launch {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    const CUlaunchAttribute *attributes;
    unsigned attribute_count;
    bool cooperative;
    bool by_library; /* one of several launches that a call of cuDNN, cuBLAS or the like makes */
    void **parameters, **extra;
    const mdnn_kernel_layout_t *layout; /* NULL: not known */
} mdnn_launch_t;

typedef struct mdnn_virtual_watch {
    /* Called before anything of the operation is begun, with no lock held. */
    void (*before)(mdnn_virtual_operation_t *operation);
    /* Called once after each `before`: as soon as the operation is enqueued, while its memory is still held, or when it is
     * not going to be enqueued. */
    void (*after)(mdnn_virtual_operation_t *operation, bool enqueued);
    /* Called before code is unloaded, since handles of its functions may come back. */
    void (*unload)(void);
    /* Called before a capture begins: what is captured runs later, without being watched. */
    void (*capture_begins)(void);
    /* Called while the device is reset: nothing is begun there any more. */
    void (*device_ends)(int ordinal);
    /* Adds its numbers of that device. Makes no CUDA call and waits for no lock. */
    void (*fill)(int device, mdnn_memory_statistics_t *numbers);
} mdnn_virtual_watch_t;

/* NULL: nobody watches. It is set once. */
extern _Atomic(const mdnn_virtual_watch_t *) mdnn_virtual_watcher;

#endif
