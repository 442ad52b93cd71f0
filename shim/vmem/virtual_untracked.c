#include "shim/vmem/virtual_untracked.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "shim/real/process.h"
#include "shim/real/public_driver.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_statistics.h"

/* From `index` on; those that were reset have no addresses. */
static mdnn_virtual_device_t *next_device(size_t *index)
{
    mdnn_virtual_device_t *device;
    while ((device = mdnn_virtual_device((*index)++)))
        if (device->bytes > 0)
            return device;
    return NULL;
}

bool mdnn_virtual_any(void)
{
    size_t index = 0;
    return mdnn_virtual_on() && next_device(&index) != NULL;
}

/* ---- any memory ---- */

/* Of several devices nobody would know which one's memory is used. */
static mdnn_virtual_device_t *only_device(void)
{
    size_t index = 0;
    mdnn_virtual_device_t *const device = next_device(&index);
    return next_device(&index) ? NULL : device;
}

mdnn_virtual_device_t *mdnn_virtual_untracked_begin(CUstream stream, uint64_t *number)
{
    mdnn_virtual_device_t *const device = only_device();
    if (!device ||
        mdnn_timelines_stream(mdnn_virtual_timelines(), stream, false, number) != MDNN_STATUS_OK)
        return NULL;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool begun = device->memory && mdnn_memory_untracked_begin(device->memory);
    if (begun)
        mdnn_virtual_open(device);
    mdnn_virtual_leave(device, entry);
    return begun ? device : NULL;
}

void mdnn_virtual_untracked_end(mdnn_virtual_device_t *device, uint64_t number)
{
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory) {
        mdnn_memory_untracked_end(device->memory, number);
        mdnn_virtual_count(device);
    }
    mdnn_virtual_close(device);
    mdnn_virtual_leave(device, entry);
}

/* Entered. Adds to `starts`, which may move; NULL without memory. */
static uint64_t *add_live(mdnn_virtual_device_t *device, uint64_t *starts, size_t *count,
                          bool *fits)
{
    bool fits_here;
    const size_t more = mdnn_memory_live(device->memory, NULL, 0, &fits_here);
    uint64_t *const grown = reallocarray(starts, *count + more + 1, sizeof *starts);
    if (!grown)
        free(starts);
    else
        (void)mdnn_memory_live(device->memory, grown + *count, more, &fits_here);
    *count += more;
    *fits = *fits && fits_here && grown;
    return grown;
}

uint64_t *mdnn_virtual_live(size_t *count, bool *fits)
{
    mdnn_virtual_device_t *device;
    uint64_t *starts = NULL;
    *count = 0;
    *fits = true;
    for (size_t i = 0; *fits && (device = next_device(&i));) {
        const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
        if (device->memory)
            starts = add_live(device, starts, count, fits);
        mdnn_virtual_leave(device, entry);
    }
    if (*fits)
        return starts;
    free(starts);
    return NULL;
}

/* ---- served, whatever it is ---- */

static _Atomic bool serving;

/* Entered. Operations of other threads between begin and end delay it, and slots that are being made. */
static mdnn_status_t serve_all(mdnn_virtual_device_t *device)
{
    enum { ROUNDS = 500 };
    static const double pause_s = 0.02;
    static _Atomic bool impatient; /* a launch is not to wait as long each time */
    const int rounds = atomic_load(&impatient) ? 1 : ROUNDS;
    mdnn_status_t status = MDNN_STATUS_BUSY;
    for (int round = 0; round < rounds && device->memory && status == MDNN_STATUS_BUSY; round++) {
        if (round > 0)
            mdnn_virtual_pause(device, pause_s);
        if (device->memory)
            status = mdnn_memory_serve_all(device->memory);
    }
    atomic_store(&impatient, status == MDNN_STATUS_BUSY);
    device->serves_all = device->serves_all || status == MDNN_STATUS_OK;
    return device->memory ? status : MDNN_STATUS_OK;
}

mdnn_status_t mdnn_virtual_serve_all(void)
{
    mdnn_virtual_device_t *device;
    mdnn_status_t status = MDNN_STATUS_OK;
    for (size_t i = 0; status == MDNN_STATUS_OK && (device = next_device(&i));) {
        const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
        if (device->memory)
            status = device->can_serve_all ? serve_all(device) : MDNN_STATUS_UNSUPPORTED;
        mdnn_virtual_leave(device, entry);
    }
    if (status == MDNN_STATUS_OK)
        atomic_store(&serving, true);
    return status;
}

bool mdnn_virtual_all_serve(void)
{
    const mdnn_virtual_device_t *device;
    bool all = mdnn_virtual_serves_all();
    for (size_t i = 0; all && (device = next_device(&i));)
        all = device->serves_all;
    return all;
}

bool mdnn_virtual_serves_all(void)
{
    return atomic_load_explicit(&serving, memory_order_relaxed) ||
           mdnn_process_options()->memory_safety == MDNN_SAFETY_HOST;
}

/* ---- reading ---- */

/* Through the hooks: what is read may be away. */
CUresult mdnn_virtual_read(uint64_t *words, const void *address, size_t count, CUstream stream)
{
    mdnn_capture_begin_own();
    CUresult result =
        mdnn_public_copy((uintptr_t)words, (uintptr_t)address, count * sizeof *words, stream);
    if (result == CUDA_SUCCESS)
        result = mdnn_public_wait_for_stream(stream);
    mdnn_capture_end_own();
    return result;
}

/* ---- pins ---- */

bool mdnn_virtual_can_stay(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return true;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool can = !device->memory || mdnn_memory_can_stay(device->memory, address);
    mdnn_virtual_leave(device, entry);
    return can;
}

void mdnn_virtual_unpin(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_unpin(device->memory, address);
    mdnn_virtual_leave(device, entry);
}
