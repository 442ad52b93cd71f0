/* How content gets from a chunk (a piece of device memory, offload/memory/memory.h) to pinned host memory and back: by
 * the device's copy engine for that direction, or by our own kernel, which keeps the link busy with a few blocks.
 *
 * The driver writes its page tables by a copy engine. Where that is also the engine of one direction, a call that sets
 * the access to a mapping waits until the engine turns from our copies to other work. That takes several hundred
 * microseconds per chunk instead of thirty. Which direction that is differs from machine to machine
 * (docs/benchmarks/mappings.md), so it is measured. The kernel takes some of the device's time, and is a little slower
 * than the engine, so it copies only where mappings would wait.
 *
 * No lock: the caller lets one thread in at a time, with the device's context current. */
#ifndef MDNN_COPY_WAYS_H
#define MDNN_COPY_WAYS_H

#include "config/choices.h"
#include "shim/real/real.h"

typedef struct mdnn_copy_ways {
    const mdnn_driver_t *driver;
    CUfunction kernel; /* NULL: engines copy */
    bool by_kernel[2]; /* in, out */
} mdnn_copy_ways_t;

/* `choice`: AUTO begins with engines. Loads our kernels unless `choice` is ENGINE; if that fails, engines copy. */
void mdnn_copy_ways_init(const mdnn_driver_t *driver, mdnn_copies_t choice, mdnn_copy_ways_t *ways);

/* Enqueues a copy of `bytes` between the address `device` of a chunk and pinned host memory; `out`: to the host. The
 * engine copies if it is chosen for that direction, if `bytes` is not a multiple of 16, or if the kernel cannot be
 * launched. */
CUresult mdnn_copy_enqueue(const mdnn_copy_ways_t *ways, bool out, CUdeviceptr device,
                           uint64_t host, uint64_t bytes, CUstream stream);

/* The streams, the memory and the functions with which mdnn_copy_ways_choose tries both ways. */
typedef struct mdnn_copy_trial {
    CUstream streams[2]; /* in, out; idle */
    /* Device memory and pinned host memory of `bytes` each, a multiple of 16; owned by the caller. */
    CUdeviceptr device;
    uint64_t host, bytes;
    /* Maps something for reading and writing, and unmaps it again. Returns how long the mapping took; negative: it
     * failed. */
    double (*change_us)(void *context);
    double (*now_us)(void *context);
    void *context;
} mdnn_copy_trial_t;

/* For each direction, chooses the way that delays changes of mappings less: the kernel if mappings wait much less
 * beside it and it copies about as fast as the engine, otherwise the engine. Takes some milliseconds, in which it waits
 * for these copies only. Without our kernel, or if something fails, engines copy. */
void mdnn_copy_ways_choose(const mdnn_copy_trial_t *trial, mdnn_copy_ways_t *ways);

#endif
