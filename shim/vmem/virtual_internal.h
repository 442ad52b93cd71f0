/* What the files of virtual memory in the process share.
 *   virtual_memory.c      devices, allocations, what the program is told
 *   virtual_operations.c  names of operations, begin and end
 *   virtual_graphs.c      captures and graphs
 *   virtual_contexts.c    ends of contexts
 *   virtual_aside.c       parts of the budget that are not virtual
 *
 * Locks: a device's, then that of captures or that of contexts (config/lock_rank.def). None is held
 * while a call of the program's own runs, nor while the host waits: whoever is in a call that may
 * wait looks at all of the device anew after it. */
#ifndef MDNN_VIRTUAL_INTERNAL_H
#define MDNN_VIRTUAL_INTERNAL_H

#include <stdatomic.h>

#include "config/lock.h"
#include "config/sizes.h"
#include "shim/real/capture_mode.h"
#include "shim/vmem/captures.h"
#include "shim/device/memory_device.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/workspace_sizes.h"

/* A device under a budget. The struct lives as long as the process, what it has until a reset. */
typedef struct mdnn_virtual_device {
    mdnn_lock_t lock;
    CUdevice ordinal;
    CUcontext context;     /* the primary one, retained */
    uint64_t start, bytes; /* its addresses */
    uint64_t budget_bytes;
    uint64_t said_needed_bytes; /* in the last line about a refusal; 0: none yet */
    mdnn_device_memory_t *device;
    mdnn_memory_t *memory;      /* NULL: it was reset, or will be now */
    uint64_t small_plain_bytes; /* of memory of the driver's that shares pages */
    _Atomic uint64_t met;       /* other devices, a bit each, that worked on its memory */
    uint64_t ended;             /* operations, for publishing statistics now and then */
    uint32_t inside;            /* operations between begin and end, */
    uint32_t waiting;           /* and threads in a wait of the host, which have let the lock go */
    bool serves_all;            /* safety = host */
    bool hurried;               /* mdnn_memory_hurry is in force */
    mdnn_condition_t changed;   /* an operation has ended, or anything else that was waited for */
    mdnn_used_workspaces_t workspaces; /* since it was made */
    uint32_t said_lines;               /* about refusals */
    bool said_optional;                /* one of those lines is enough */
    char trouble[MDNN_TROUBLE_BYTES];  /* why it could not be set up; "": the failure says it */
    struct mdnn_virtual_device *next_withdrawn;
} mdnn_virtual_device_t;

/* Between enter and leave a device is locked, its context is current, and what captures forbid
 * other calls of the thread is allowed. Whoever enters looks whether it still has memory: another
 * thread may have reset it; so does whoever waited within for another thread. */
typedef struct mdnn_virtual_entry {
    mdnn_context_change_t change;
} mdnn_virtual_entry_t;

mdnn_virtual_entry_t mdnn_virtual_enter(mdnn_virtual_device_t *device);
/* false: another thread is in there. */
bool mdnn_virtual_try_enter(mdnn_virtual_device_t *device, mdnn_virtual_entry_t *entry);
void mdnn_virtual_leave(mdnn_virtual_device_t *device, mdnn_virtual_entry_t entry);
/* Operations of any kind that this thread has between begin and end on a device. */
uint32_t mdnn_virtual_opened(const mdnn_virtual_device_t *device);
void mdnn_virtual_open(mdnn_virtual_device_t *device);  /* entered */
void mdnn_virtual_close(mdnn_virtual_device_t *device); /* entered */

/* The device in whose reservation the address lies; NULL: none. */
mdnn_virtual_device_t *mdnn_virtual_device_of(uint64_t address);
/* Of the calling thread's context, made at the first call; NULL: not under a budget. */
mdnn_virtual_device_t *mdnn_virtual_current(void);
mdnn_virtual_device_t *mdnn_virtual_current_in(CUcontext *context); /* and which that is */
/* What an allocation is told that finds no device there: NOT_SUPPORTED, the driver's own memory
 * serves, or OUT_OF_MEMORY, a budget was asked for that cannot be kept. */
CUresult mdnn_virtual_without(CUcontext context);
CUresult mdnn_virtual_without_numbered(CUdevice ordinal);
/* Of that ordinal, made at the first call, whatever context is current; NULL: not under a budget. */
mdnn_virtual_device_t *mdnn_virtual_device_numbered(CUdevice ordinal);
/* By index; NULL behind the last. One that was reset has no addresses and no memory. */
mdnn_virtual_device_t *mdnn_virtual_device(size_t index);

/* Takes the device out of those above, gives back all that it has of the driver but its retained
 * context, and forgets all that was allocated; until mdnn_virtual_device_ended it goes without a
 * budget. false: it is none of those. */
bool mdnn_virtual_withdraw(CUdevice ordinal);
/* Nobody holds any more what lies there, nor does it end with a context. */
void mdnn_virtual_forget_holds(uint64_t start, uint64_t bytes);
void mdnn_virtual_unbind_all(uint64_t start, uint64_t bytes);

/* NULL without a budget or memory. */
mdnn_timelines_t *mdnn_virtual_timelines(void);
mdnn_captures_t *mdnn_virtual_captures(void);

/* Entered. Whether to try once more: once after a failure of the driver that may pass, and when moves
 * were held up by operations of other threads (safety = host); if those do not end, by hurrying. */
bool mdnn_virtual_try_again(mdnn_virtual_device_t *device, mdnn_status_t status, bool *retried);
/* As mdnn_timelines_stream, tried twice; the failure is to be taken then. */
mdnn_status_t mdnn_virtual_stream(CUstream stream, bool per_thread, uint64_t *number);
/* Entered. mdnn_memory_pin, asked for as often as it takes. */
mdnn_status_t mdnn_virtual_pin_entered(mdnn_virtual_device_t *device, uint64_t address,
                                       uint64_t *start);

/* The allocation at `address` ends with `context`, one of the program's own; does so no more. */
void mdnn_virtual_bind(CUcontext context, CUdeviceptr address);
void mdnn_virtual_unbind(CUdeviceptr address);

/* What the program is told; says refusals on the log. */
CUresult mdnn_virtual_result(mdnn_virtual_device_t *device, mdnn_status_t status, uint64_t bytes);
/* Entered. Publishes statistics, once in a while. */
void mdnn_virtual_count(mdnn_virtual_device_t *device);

/* Entered. The allocation at `address` is made by the capture, and held by it. */
void mdnn_virtual_capture_allocates(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address);
/* Entered. The capture frees what it or another graph makes. CUDA_SUCCESS: so will each launch; what the
 * capture made itself (*now) is free at once. Else what to return, for memory of no graph, too. */
CUresult mdnn_virtual_capture_frees(mdnn_virtual_device_t *device, unsigned long long capture,
                                    uint64_t address, bool *now);
/* Entered. Likewise the one that starts at `start`, which was pinned for this already. */
void mdnn_virtual_hold_pinned(mdnn_virtual_device_t *device, unsigned long long capture,
                              uint64_t start);
/* Entered; the device has memory. The program is about to free what starts at `address`: nodes that
 * it made hold it no more. */
void mdnn_virtual_holds_freed(mdnn_virtual_device_t *device, uint64_t address);
/* The capture under way that began in the stream; 0: none. */
unsigned long long mdnn_virtual_capture_in(CUstream stream);

#endif
