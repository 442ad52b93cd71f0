#include "shim/real/handles.h"

#include <stdlib.h>

#include "config/fault.h"
#include "config/lock.h"
#include "shim/real/real.h"

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Kept when the handle is gone: its address says so until it is given out again. */
typedef struct handle_entry {
    cudnnHandle_t handle;
    CUdevice device;
    bool is_gone;
    UT_hash_handle hh;
} handle_entry_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(HANDLES); /* guards `table` */
static handle_entry_t *table;

/* NULL if it is not known; the lock is held. */
static handle_entry_t *find(cudnnHandle_t handle)
{
    handle_entry_t *entry = NULL;
    HASH_FIND_PTR(table, &handle, entry);
    return entry;
}

static handle_entry_t *add(cudnnHandle_t handle)
{
    handle_entry_t *const entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->handle = handle;
    HASH_ADD_PTR(table, handle, entry);
    if (entry->hh.tbl)
        return entry;
    free(entry);
    return NULL;
}

static bool current_device(CUdevice *device)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    return driver && driver->cuCtxGetDevice(device) == CUDA_SUCCESS;
}

/* Without memory, or a device, it stays unknown. */
void mdnn_handle_created(cudnnHandle_t handle)
{
    CUdevice device;
    const bool known = current_device(&device);
    mdnn_lock(&lock);
    handle_entry_t *entry = find(handle);
    if (!entry && known)
        entry = add(handle);
    if (entry && known) {
        entry->device = device;
        entry->is_gone = false;
    } else if (entry) {
        HASH_DEL(table, entry);
        free(entry);
    }
    mdnn_unlock(&lock);
}

void mdnn_handle_destroyed(cudnnHandle_t handle)
{
    mdnn_lock(&lock);
    handle_entry_t *entry = find(handle);
    if (!entry)
        entry = add(handle);
    if (entry)
        entry->is_gone = !MDNN_FAULT(HANDLE_NEVER_GONE);
    mdnn_unlock(&lock);
}

bool mdnn_handle_is_usable(cudnnHandle_t handle, CUdevice device)
{
    mdnn_lock(&lock);
    const handle_entry_t *const entry = find(handle);
    const bool is_usable =
        !entry ||
        (!entry->is_gone && (entry->device == device || MDNN_FAULT(HANDLE_OF_ANY_DEVICE)));
    mdnn_unlock(&lock);
    return is_usable;
}

bool mdnn_handle_is_usable_now(cudnnHandle_t handle)
{
    CUdevice device;
    return current_device(&device) && mdnn_handle_is_usable(handle, device);
}
