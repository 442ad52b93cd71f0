/* The device below virtual memory: implements mdnn_memory_device_t (offload/memory/memory.h, which also has the terms)
 * with the driver's virtual memory API.
 *
 *   chunks     handles of device memory. Each is mapped in a range, and, for as long as it lives, also at its alias: an
 *              address in a window that only our copies use. A chunk's number is its place in that window, from 1 on.
 *   copies     from and to aliases, in two streams of ours, one for each direction, of high priority
 *   slots      pinned host memory (shim/device/pinned_pool.h); with `covers` they can be mapped in ranges, too
 *   timelines  the points of streams (shim/device/timelines.h), which all devices share
 *
 * The caller holds the device's lock around every call, with the device's context current; the functions that wait
 * release the lock while they wait. Except for chunks (destroy_chunk), only destroy gives back what the driver gave.
 * The status DEVICE means that a driver call failed; mdnn_failure_take (shim/real/failure.h) returns its result. */
#ifndef MDNN_MEMORY_DEVICE_H
#define MDNN_MEMORY_DEVICE_H

#include "offload/memory/memory.h"
#include "offload/memory/trace.h"
#include "shim/device/device_links.h"
#include "shim/real/failure.h"
#include "shim/device/pinned_pool.h"
#include "shim/device/timelines.h"

typedef struct mdnn_device_memory mdnn_device_memory_t;

/* How the functions that wait handle the caller's lock. All NULL: the caller has no lock. */
typedef struct mdnn_device_caller {
    void *context;
    void (*let_go)(void *context);    /* releases the lock, before a wait of the host */
    void (*take_back)(void *context); /* takes it again, after the wait */
    /* Waits until something that the lock protects has changed, or `seconds` have passed. */
    void (*wait_for_change)(void *context, double seconds);
    uint32_t (*opened_here)(void *context); /* see mdnn_memory_device_t */
} mdnn_device_caller_t;

typedef struct mdnn_device_memory_config {
    const mdnn_driver_t *driver;
    mdnn_timelines_t *timelines; /* borrowed until destroy */
    CUdevice device;
    CUcontext context; /* current in the calling thread */
    uint64_t budget_bytes, chunk_bytes;
    mdnn_host_account_t *host; /* borrowed until destroy */
    /* Slots should be mappable in ranges; mdnn_device_memory_covers says whether it works. */
    bool covers;
    mdnn_copies_t copies;
    bool background;     /* threads of the library make host memory and change mappings */
    mdnn_trace_t *trace; /* may be NULL */
    mdnn_device_caller_t caller;
} mdnn_device_memory_config_t;

/* Reserves addresses and makes the streams. OUT_OF_MEMORY, DEVICE: nothing is left behind. */
mdnn_status_t mdnn_device_memory_create(const mdnn_device_memory_config_t *config,
                                        mdnn_device_memory_t **memory);
/* Called after all work on the device has ended: unmaps and releases everything. Accepts NULL. */
void mdnn_device_memory_destroy(mdnn_device_memory_t *memory);

/* The reservation for ranges. */
void mdnn_device_memory_addresses(const mdnn_device_memory_t *memory, uint64_t *start,
                                  uint64_t *bytes);
/* Whether slots can be mapped in ranges; tried at creation. */
bool mdnn_device_memory_covers(const mdnn_device_memory_t *memory);
/* The functions; their `context` is an mdnn_device_memory_t. */
mdnn_memory_device_t mdnn_device_memory_functions(void);
/* Chooses whether an engine or a kernel copies, if the configuration leaves that open, and measures how fast the copies
 * are, which takes some tens of milliseconds (it makes and keeps a piece of host memory). *link is untouched if that
 * fails. */
void mdnn_device_memory_measure(mdnn_device_memory_t *memory, mdnn_link_t *link);
/* Announces the device, and the rates `alone` that its link has without other traffic, to other processes, which may
 * share the link (shim/device/device_links.h). `link`: the link's name, or "" if unknown. Called once. */
void mdnn_device_memory_join(mdnn_device_memory_t *memory, const char *link,
                             const mdnn_link_t *alone);
mdnn_device_links_t *mdnn_device_memory_links(const mdnn_device_memory_t *memory);
/* From now on the device `peer` may read and write memory that is mapped in ranges; nothing changes if it cannot reach
 * this device's memory. Makes one driver call per mapped chunk. At most MDNN_MEMORY_PEERS different peers. DEVICE: the
 * driver refused, and future mappings do not include the peer. */
enum { MDNN_MEMORY_PEERS = 63 };
mdnn_status_t mdnn_device_memory_let(mdnn_device_memory_t *memory, CUdevice peer);
/* An address at which some chunk is mapped, for questions to the driver whose answer is the same for every range. Valid
 * until the next call. 0: there is no chunk. */
CUdeviceptr mdnn_device_memory_sample(const mdnn_device_memory_t *memory);
mdnn_pinned_pool_t *mdnn_device_memory_slots(mdnn_device_memory_t *memory);

#endif
