#include "shim/vmem/virtual_aside.h"

#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_setup.h"

/* The driver has memory of cuMemAlloc in pages; allocations of up to a half of one share them. */
static const uint64_t page_bytes = 2 << 20, least_bytes = 4 << 10;

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static bool is_small(uint64_t bytes)
{
    return bytes <= page_bytes / 2;
}

/* Entered. What the budget has less when there are `bytes` more of that kind; what is small is added
 * up in *small. */
static uint64_t taken_by(const mdnn_virtual_device_t *device, uint64_t bytes,
                         mdnn_aside_kind_t kind, uint64_t *small)
{
    *small = device->small_plain_bytes;
    if (kind == MDNN_ASIDE_EXACT)
        return bytes;
    if (!is_small(bytes))
        return round_up(bytes, page_bytes);
    *small += round_up(bytes, least_bytes);
    return round_up(*small, page_bytes) - round_up(device->small_plain_bytes, page_bytes);
}

CUresult mdnn_virtual_set_aside(CUdevice ordinal, uint64_t bytes, mdnn_aside_kind_t kind,
                                bool quiet)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_numbered(ordinal);
    mdnn_status_t status;
    uint64_t small, taken;
    bool retried = false;
    if (!device)
        return mdnn_virtual_without_numbered(ordinal);
    if (bytes > UINT64_MAX / 4)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    do {
        taken = taken_by(device, bytes, kind, &small);
        status = !device->memory ? MDNN_STATUS_NOT_FOUND /* it was just reset */
                 : quiet         ? mdnn_memory_set_aside_optional(device->memory, taken)
                                 : mdnn_memory_set_aside(device->memory, taken);
    } while (mdnn_virtual_try_again(device, status, &retried));
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (status == MDNN_STATUS_OK) {
        device->small_plain_bytes = small;
        result = CUDA_SUCCESS;
    } else if (device->memory) {
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            mdnn_memory_judge_refusal(device->memory, taken, quiet);
        result = quiet && status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                     ? CUDA_ERROR_OUT_OF_MEMORY
                     : mdnn_virtual_result(device, status, bytes);
    }
    mdnn_virtual_leave(device, entry);
    return result;
}

void mdnn_virtual_set_aside_all_the_same(CUdevice ordinal, uint64_t bytes)
{
    /* For nothing, a device that was reset is not to be set up again. */
    mdnn_virtual_device_t *const device = bytes > 0 ? mdnn_virtual_device_numbered(ordinal) : NULL;
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_set_aside_all_the_same(device->memory, bytes);
    mdnn_virtual_leave(device, entry);
}

void mdnn_virtual_give_back(CUdevice ordinal, uint64_t bytes, mdnn_aside_kind_t kind)
{
    mdnn_virtual_device_t *device;
    size_t index = 0;
    while ((device = mdnn_virtual_device(index)) && device->ordinal != ordinal)
        index++;
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    uint64_t less = bytes;
    if (kind == MDNN_ASIDE_IN_PAGES && !is_small(bytes)) {
        less = round_up(bytes, page_bytes);
    } else if (kind == MDNN_ASIDE_IN_PAGES) {
        const uint64_t before = device->small_plain_bytes, one = round_up(bytes, least_bytes);
        device->small_plain_bytes -=
            one < before ? one : before; /* before a reset there were more */
        less = round_up(before, page_bytes) - round_up(device->small_plain_bytes, page_bytes);
    }
    if (device->memory)
        mdnn_memory_give_back(device->memory, less);
    mdnn_virtual_leave(device, entry);
}

CUresult mdnn_virtual_current_context(CUdevice *ordinal, CUcontext *context)
{
    const mdnn_virtual_device_t *const device = mdnn_virtual_current_in(context);
    if (!device)
        return mdnn_virtual_without(*context);
    *ordinal = device->ordinal;
    return CUDA_SUCCESS;
}
