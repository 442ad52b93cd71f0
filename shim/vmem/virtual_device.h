/* A device under a budget: its state, the lock around it, and the waits that release the lock.
 *
 * Between mdnn_virtual_enter and mdnn_virtual_leave a device is locked ("entered"), its context is current, and the
 * thread may make calls that captures otherwise forbid. After entering, and after a wait in between, the caller must
 * check whether the device still has `memory`, since another thread may have reset it.
 *
 * Locks: a device's, then that of captures or that of contexts (config/lock_rank.def). None is held
 * while one of the program's own calls runs, nor while the host waits: after a call that may wait,
 * all state of the device must be read again. */
#ifndef MDNN_VIRTUAL_DEVICE_H
#define MDNN_VIRTUAL_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/lock.h"
#include "config/sizes.h"
#include "offload/memory/memory.h"
#include "shim/real/capture_mode.h"
#include "shim/device/memory_device.h"
#include "shim/vmem/workspace_sizes.h"

/* The struct lives as long as the process, and its contents until a reset. */
typedef struct mdnn_virtual_device {
    mdnn_lock_t lock;
    CUdevice ordinal;
    CUcontext context;     /* the primary one, retained */
    uint64_t start, bytes; /* its addresses */
    uint64_t budget_bytes;
    uint64_t said_needed_bytes; /* the bytes in the last log line about a refusal; 0: no line yet */
    mdnn_device_memory_t *device;
    mdnn_memory_t *memory;      /* NULL: the device was reset, or is about to be */
    uint64_t small_plain_bytes; /* of small allocations of the driver's, which share pages */
    /* One bit for each other device that has worked on this device's memory. */
    _Atomic uint64_t met;
    uint64_t ended;           /* number of operations, to publish statistics now and then */
    double published_us;      /* when statistics were last published */
    char name[64];            /* as the driver calls it */
    uint32_t inside;          /* operations between begin and end */
    uint32_t waiting;         /* threads in a wait of the host, which have released the lock */
    bool can_serve_all;       /* host memory can be mapped at the addresses of ranges */
    _Atomic bool serves_all;  /* as with safety = host */
    bool hurried;             /* mdnn_memory_hurry is in force */
    mdnn_condition_t changed; /* an operation has ended, or anything else that was waited for */
    mdnn_used_workspaces_t workspaces; /* since the device was set up */
    uint32_t said_lines;               /* number of log lines about refusals */
    bool said_optional, said_tail;     /* these two lines are logged only once */
    /* Why the device could not be set up; "": the status says it. */
    char trouble[MDNN_TROUBLE_BYTES];
    struct mdnn_virtual_device *next_withdrawn;
} mdnn_virtual_device_t;

typedef struct mdnn_virtual_entry {
    mdnn_context_change_t change;
    /* When the lock was taken, and how long the thread had waited for it. */
    double since_us, lock_us;
} mdnn_virtual_entry_t;

mdnn_virtual_entry_t mdnn_virtual_enter(mdnn_virtual_device_t *device);
/* false: another thread holds the lock. */
bool mdnn_virtual_try_enter(mdnn_virtual_device_t *device, mdnn_virtual_entry_t *entry);
void mdnn_virtual_leave(mdnn_virtual_device_t *device, mdnn_virtual_entry_t entry);

/* Operations of any kind that this thread has between begin and end on a device. */
uint32_t mdnn_virtual_opened(const mdnn_virtual_device_t *device);
void mdnn_virtual_open(mdnn_virtual_device_t *device);  /* entered */
void mdnn_virtual_close(mdnn_virtual_device_t *device); /* entered */

/* The functions by which waits in lower layers release the device's lock. */
mdnn_device_caller_t mdnn_virtual_caller(mdnn_virtual_device_t *device);
/* The device is entered. Leaves it for so many seconds, or until an operation ends, and enters it again. */
void mdnn_virtual_pause(mdnn_virtual_device_t *device, double seconds);
/* The device is entered, and no thread begins anything on it. Waits for operations of other threads that are between
 * begin and end, but no longer than a call normally takes, since a longer call may be waiting for what this thread will
 * do. Threads that wait in one of our calls return from it. */
void mdnn_virtual_await_ends(mdnn_virtual_device_t *device);
/* The device is entered. Returns whether the caller should try again what failed with `status`: once after a failure of
 * the driver that may be temporary, and when operations of other threads delayed moves (safety = host); if those
 * operations do not end, the next try does not wait for them. */
bool mdnn_virtual_try_again(mdnn_virtual_device_t *device, mdnn_status_t status, bool *retried);

/* The device is entered. Asks for host memory for all live memory beyond the budget, and for some more. */
void mdnn_virtual_want_slots(mdnn_virtual_device_t *device);

/* The safety that the option asks for, unless host memory cannot be mapped at the addresses of
 * ranges. */
mdnn_safety_t mdnn_virtual_safety(const mdnn_virtual_device_t *device);

#endif
