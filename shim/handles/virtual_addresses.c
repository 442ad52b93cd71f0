#include "shim/handles/virtual_addresses.h"

#include "config/fault.h"
#include "config/sizes.h"
#include "shim/real/operation_key.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_aside.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_shared.h"

/* ---- addresses ---- */

/* What could live there some day: the budget, and what the host holds. */
static bool could_live(const mdnn_virtual_device_t *device, uint64_t bytes)
{
    const uint64_t host = mdnn_virtual_host()->limit_bytes;
    return bytes <= device->budget_bytes || bytes - device->budget_bytes <= host;
}

CUresult mdnn_virtual_reserve_addresses(uint64_t bytes, uint64_t alignment, CUdevice *ordinal,
                                        CUdeviceptr *address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_current();
    uint64_t start = 0;
    if (!device || !could_live(device, bytes))
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    mdnn_status_t status = device->memory
                               ? mdnn_memory_reserve_addresses(device->memory, bytes, &start)
                               : MDNN_STATUS_NOT_FOUND;
    if (status == MDNN_STATUS_OK && alignment > 0 && start % alignment != 0) {
        mdnn_memory_give_addresses(device->memory, start);
        status = MDNN_STATUS_NOT_FOUND;
    }
    mdnn_virtual_leave(device, entry);
    if (status != MDNN_STATUS_OK)
        return CUDA_ERROR_NOT_SUPPORTED;
    *ordinal = device->ordinal;
    *address = start;
    return CUDA_SUCCESS;
}

void mdnn_virtual_give_addresses(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_give_addresses(device->memory, address);
    mdnn_virtual_leave(device, entry);
}

CUresult mdnn_virtual_await_addresses(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const mdnn_status_t status = device->memory
                                     ? mdnn_memory_await_addresses(device->memory, address)
                                     : MDNN_STATUS_NOT_FOUND;
    mdnn_virtual_leave(device, entry);
    return status == MDNN_STATUS_OK ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- promises ---- */

CUresult mdnn_virtual_promise(CUdevice ordinal, uint64_t bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_numbered(ordinal);
    if (!device || mdnn_timelines_is_capturing(mdnn_virtual_timelines()))
        return CUDA_ERROR_NOT_SUPPORTED; /* the driver knows what a capture allows */
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const mdnn_status_t status =
        device->memory ? mdnn_memory_promise(device->memory, bytes) : MDNN_STATUS_NOT_FOUND;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {
        mdnn_memory_judge_refusal(device->memory, bytes, false);
        result = mdnn_virtual_result(device, status, bytes);
    } else if (status == MDNN_STATUS_OK) {
        mdnn_virtual_want_slots(device);
        result = CUDA_SUCCESS;
    }
    mdnn_virtual_leave(device, entry);
    return result;
}

void mdnn_virtual_end_promise(CUdevice ordinal, uint64_t bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_find_numbered(ordinal);
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_end_promise(device->memory, bytes);
    mdnn_virtual_leave(device, entry);
}

CUresult mdnn_virtual_allocate_at(CUdeviceptr address, uint64_t bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const mdnn_status_t status = device->memory
                                     ? mdnn_memory_allocate_at(device->memory, address, bytes)
                                     : MDNN_STATUS_NOT_FOUND;
    mdnn_virtual_leave(device, entry);
    return status == MDNN_STATUS_OK ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult mdnn_virtual_end_at(CUdeviceptr address)
{
    return mdnn_virtual_free(address, NULL, false, true);
}

/* ---- what becomes real ---- */

bool mdnn_virtual_is_held(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return false;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool held = device->memory && mdnn_memory_is_held(device->memory, address);
    mdnn_virtual_leave(device, entry);
    return held;
}

uint64_t mdnn_virtual_keep_chunk(CUdevice ordinal)
{
    const mdnn_virtual_device_t *const device = mdnn_virtual_find_numbered(ordinal);
    if (!device)
        return 0;
    const uint64_t bytes =
        mdnn_chunk_bytes(device->budget_bytes, mdnn_process_options()->memory_chunk_size);
    return mdnn_virtual_set_aside(ordinal, bytes, MDNN_ASIDE_EXACT, false) == CUDA_SUCCESS ? bytes
                                                                                           : 0;
}

static CUresult await_work(mdnn_virtual_device_t *device, CUdeviceptr address)
{
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const mdnn_status_t status = device->memory && !MDNN_FAULT(COPIED_OUT_TOO_EARLY)
                                     ? mdnn_memory_wait_idle(device->memory, address)
                                     : MDNN_STATUS_OK;
    const CUresult result = mdnn_virtual_result(device, status, 0);
    mdnn_virtual_leave(device, entry);
    return result;
}

/* In the device's context: an operation like the program's own. */
static CUresult copy_out(CUdeviceptr address, CUdeviceptr to, uint64_t bytes)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    mdnn_virtual_operation_t operation;
    CUstream stream;
    CUresult result = driver->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS)
        return result;
    mdnn_virtual_operation(&operation, stream, false);
    mdnn_virtual_name(&operation, address, MDNN_USE_READ);
    result = mdnn_virtual_begin(&operation, MDNN_DRIVER_HASH_START);
    if (result == CUDA_SUCCESS) {
        result = driver->cuMemcpyDtoDAsync(to, address, bytes, stream);
        CUresult over = driver->cuStreamSynchronize(stream);
        if (over != CUDA_SUCCESS) /* what it is copied to will be unmapped */
            over = driver->cuStreamSynchronize(stream);
        result = result == CUDA_SUCCESS ? over : result;
        mdnn_virtual_end(&operation, result == CUDA_SUCCESS);
    }
    (void)mdnn_virtual_stream_destroyed(stream);
    (void)driver->cuStreamDestroy(stream);
    return result;
}

CUresult mdnn_virtual_copy_out(CUdeviceptr address, CUdeviceptr to, uint64_t bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = await_work(device, address);
    if (result != CUDA_SUCCESS)
        return result;
    mdnn_capture_begin_own();
    const mdnn_context_change_t change = mdnn_context_enter(mdnn_real_driver(), device->context);
    result = copy_out(address, to, bytes);
    mdnn_context_leave(mdnn_real_driver(), change);
    mdnn_capture_end_own();
    return result;
}
