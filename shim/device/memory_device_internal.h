/* What the files of a device's memory (memory_device.h) share.
 *   memory_device.c  host memory, copies, and the table of functions; create and destroy
 *   copy_ways.c      copies, by an engine or by a kernel
 *   device_chunks.c  chunks, their aliases and where they are mapped
 *   device_remaps.c  mappings that change in the background
 *   device_waits.c   points of streams, and waits during which the caller's lock is released
 *   device_timers.c  times of stretches of streams
 * Functions whose first parameter is `context` belong to mdnn_memory_device_t (offload/memory/memory.h),
 * which says what they promise. */
#ifndef MDNN_MEMORY_DEVICE_INTERNAL_H
#define MDNN_MEMORY_DEVICE_INTERNAL_H

#include "shim/device/copy_ways.h"
#include "shim/device/device_links.h"
#include "shim/device/device_remaps.h"
#include "shim/device/memory_device.h"

enum { MDNN_DEVICE_TIMERS = 256 + 64 };

/* A stretch of a stream that is timed. */
typedef struct mdnn_device_timer {
    CUevent begin, end;
    bool operation, taken, ended, failed;
    bool alone; /* the device reached `begin` before `end` was recorded */
} mdnn_device_timer_t;

/* What is in a place for a chunk. */
typedef enum mdnn_chunk_state {
    MDNN_CHUNK_NONE,
    MDNN_CHUNK_THERE,
    MDNN_CHUNK_WITHOUT_ALIAS /* destroying the chunk failed after its alias was unmapped */
} mdnn_chunk_state_t;

struct mdnn_device_memory {
    mdnn_device_memory_config_t config;
    CUdeviceptr addresses, aliases; /* reservations */
    uint64_t address_bytes, alias_bytes;
    CUmemGenericAllocationHandle *chunks;
    /* For each chunk, its address in its range; 0: it is mapped in no range. */
    CUdeviceptr *mapped;
    mdnn_chunk_state_t *states;
    /* How many places were ever taken, and how many there are. */
    size_t chunk_count, chunk_capacity;
    uint64_t left_over; /* a chunk that measuring could not destroy, which is used next; or 0 */
    /* the devices that may use ranges; the device itself comes first */
    CUmemAccessDesc access[1 + MDNN_MEMORY_PEERS];
    size_t access_count;
    struct {
        CUstream stream;
        uint64_t number;
        mdnn_stream_point_t last; /* the end of the last copy */
        bool moves;               /* `last` has not passed yet */
    } copies[2];                  /* in, out */
    mdnn_device_links_t *links;   /* NULL: the device is taken to be alone */
    mdnn_copy_ways_t ways;
    mdnn_pinned_pool_t *slots;
    mdnn_device_remaps_t *remaps; /* NULL: nothing changes in the background */
    bool covers;
    /* a token is a place in this array, from 1 on */
    mdnn_device_timer_t timers[MDNN_DEVICE_TIMERS];
    double launch_us; /* how long a launch takes to reach an idle device; 0: not known */
    double events_us; /* between two events with nothing between them; 0: not known */
};

/* ---- memory_device.c ---- */

/* Called by every function that sees that a point has passed: it may be the end of the last copy. */
void mdnn_device_point_passed(mdnn_device_memory_t *memory, mdnn_stream_point_t point);

/* ---- device_chunks.c ---- */

/* Reserves the window of aliases. */
mdnn_status_t mdnn_device_make_chunks(mdnn_device_memory_t *memory);
/* Unmaps and releases all chunks. */
void mdnn_device_release_chunks(mdnn_device_memory_t *memory);
CUdeviceptr mdnn_device_chunk_alias(const mdnn_device_memory_t *memory, uint64_t chunk);
/* Maps the chunk's alias if that is missing because destroying the chunk failed. */
mdnn_status_t mdnn_device_have_alias(mdnn_device_memory_t *memory, uint64_t chunk);
mdnn_status_t mdnn_device_create_chunk(void *context, uint64_t *chunk);
mdnn_status_t mdnn_device_destroy_chunk(void *context, uint64_t chunk);
mdnn_status_t mdnn_device_map_chunk(void *context, uint64_t address, uint64_t chunk);
mdnn_status_t mdnn_device_unmap_chunk(void *context, uint64_t address, uint64_t chunk);

/* ---- device_remaps.c ---- */

/* Maps the handle for the first `access_count` of the devices that may use ranges. */
CUresult mdnn_device_map_handle(const mdnn_device_memory_t *memory, CUdeviceptr address,
                                CUmemGenericAllocationHandle handle, size_t access_count);

/* Called around each change of a mapping by a thread of the program, so that the background changes none meanwhile.
 * NULL: nothing changes in the background. */
void mdnn_device_turn_begin(mdnn_device_remaps_t *remaps);
void mdnn_device_turn_end(mdnn_device_remaps_t *remaps);

/* ---- device_waits.c ---- */

mdnn_stream_point_t mdnn_device_mark_point(void *context, uint64_t stream);
bool mdnn_device_is_done(void *context, mdnn_stream_point_t point);
uint64_t mdnn_device_completions(void *context);
void mdnn_device_fix_point(void *context, mdnn_stream_point_t point);
mdnn_status_t mdnn_device_wait_in_stream(void *context, uint64_t stream, mdnn_stream_point_t point);
/* Called around each wait of the host. */
void mdnn_device_let_go(const mdnn_device_memory_t *memory);
void mdnn_device_take_back(const mdnn_device_memory_t *memory);
mdnn_status_t mdnn_device_wait_on_host(void *context, mdnn_stream_point_t point);
mdnn_status_t mdnn_device_wait_a_while(void *context, mdnn_stream_point_t point, double seconds,
                                       bool quiet);
void mdnn_device_wait_for_change(void *context, double seconds);
uint32_t mdnn_device_opened_here(void *context);

/* ---- device_timers.c ---- */

/* Measures launch_us and events_us by copies within memory at `device` and to `host`, both of `bytes` and the caller's.
 * Waits for these copies only. */
void mdnn_device_measure_launch(mdnn_device_memory_t *memory, CUdeviceptr device, uint64_t host,
                                uint64_t bytes);
uint64_t mdnn_device_time_begin(void *context, uint64_t stream, bool operation);
void mdnn_device_time_end(void *context, uint64_t stream, uint64_t token);
mdnn_status_t mdnn_device_time_read(void *context, uint64_t token, double *time_us);
void mdnn_device_destroy_timers(mdnn_device_memory_t *memory);

#endif
