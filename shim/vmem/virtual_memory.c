#include "shim/vmem/virtual_memory.h"

#include "config/fault.h"
#include "shim/vmem/virtual_bound.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_holds.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/virtual_pins.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_workspaces.h"
#include "shim/vmem/workspace_sizes.h"

/* ---- allocations ---- */

/* The number of the stream whose order an allocation follows. During a capture of that stream it is
 * none: the memory may be used at once, and belongs to the capture. */
static mdnn_status_t order_of(CUstream stream, bool per_thread, bool synchronous, uint64_t *number,
                              unsigned long long *capture)
{
    *number = MDNN_NO_STREAM;
    *capture = 0;
    if (synchronous)
        return MDNN_STATUS_OK;
    *capture = mdnn_virtual_capture(stream, per_thread);
    return *capture ? MDNN_STATUS_OK : mdnn_virtual_stream(stream, per_thread, number);
}

/* Where the device is in order and only we failed, the driver's own memory serves. */
static CUresult note_allocation(mdnn_virtual_device_t *device, mdnn_status_t status, uint64_t bytes)
{
    const CUresult result = mdnn_virtual_result(device, status, bytes);
    return status == MDNN_STATUS_DEVICE && !mdnn_failure_is_final(result) ? CUDA_ERROR_NOT_SUPPORTED
                                                                          : result;
}

/* Entered. NOT_FOUND: it was just reset. */
static mdnn_status_t allocate_entered(mdnn_virtual_device_t *device, size_t bytes, uint64_t number,
                                      unsigned long long capture, bool optional, uint64_t *start)
{
    mdnn_status_t status;
    bool retried = false;
    do
        status = !device->memory ? MDNN_STATUS_NOT_FOUND
                 : optional || capture
                     ? mdnn_memory_allocate_workspace(device->memory, bytes, number, start)
                     : mdnn_memory_allocate(device->memory, bytes, number, start);
    while (mdnn_virtual_try_again(device, status, &retried));
    if (!device->memory)
        return MDNN_STATUS_NOT_FOUND;
    if (status == MDNN_STATUS_OK && capture)
        mdnn_virtual_capture_allocates(device, capture, *start);
    if (status == MDNN_STATUS_OK)
        mdnn_virtual_want_slots(device);
    return status;
}

/* On the device; what is not `synchronous` belongs to no context. */
static CUresult allocate_on(mdnn_virtual_device_t *device, CUcontext context, CUdeviceptr *address,
                            size_t bytes, CUstream stream, bool per_thread, bool synchronous,
                            bool quiet)
{
    uint64_t number, start = 0;
    unsigned long long capture;
    if (order_of(stream, per_thread, synchronous, &number, &capture) != MDNN_STATUS_OK) {
        const CUresult error = mdnn_failure_take(); /* of the stream: the real call's, too */
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_OUT_OF_MEMORY;
    }
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool useless = !quiet && mdnn_virtual_workspace_is_useless(device, bytes);
    const bool optional = quiet || useless || mdnn_workspace_is_size(bytes);
    const mdnn_status_t status =
        useless ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                : allocate_entered(device, bytes, number, capture, optional, &start);
    const bool refused = status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory;
    if (refused)
        mdnn_memory_judge_refusal(device->memory, bytes, optional);
    if (refused && optional && !quiet)
        mdnn_virtual_workspace_refused(device, bytes);
    const CUresult result = status == MDNN_STATUS_NOT_FOUND ? CUDA_ERROR_NOT_SUPPORTED
                            : refused && optional           ? CUDA_ERROR_OUT_OF_MEMORY
                                                  : note_allocation(device, status, bytes);
    if (refused && optional && !quiet)
        mdnn_virtual_say_optional(device, bytes);
    if (result == CUDA_SUCCESS && synchronous && !quiet && context != device->context)
        mdnn_virtual_bind(context, start);
    mdnn_virtual_leave(device, entry);
    mdnn_pointers_changed();
    if (result == CUDA_SUCCESS)
        *address = start;
    return result;
}

/* On the current context's device. */
static CUresult allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                         bool synchronous, bool quiet)
{
    CUcontext context;
    mdnn_virtual_device_t *const device = bytes > 0 ? mdnn_virtual_current_in(&context) : NULL;
    if (!device)
        return bytes > 0 ? mdnn_virtual_without(context) : CUDA_ERROR_NOT_SUPPORTED;
    return allocate_on(device, context, address, bytes, stream, per_thread, synchronous, quiet);
}

/* The stream's, whatever is current; NULL: the current one. */
static CUcontext context_of(CUstream stream)
{
    CUcontext context = NULL;
    const bool own = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    return own && mdnn_virtual_on() && mdnn_real_driver() &&
                   mdnn_real_driver()->cuStreamGetCtx(stream, &context) == CUDA_SUCCESS
               ? context
               : NULL;
}

CUresult mdnn_virtual_allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                               bool synchronous)
{
    const bool anywhere = synchronous || MDNN_FAULT(MEMORY_OF_THE_CURRENT_DEVICE);
    CUcontext const context = anywhere ? NULL : context_of(stream);
    if (!context)
        return allocate(address, bytes, stream, per_thread, synchronous, false);
    const mdnn_context_change_t change = mdnn_context_enter(mdnn_real_driver(), context);
    const CUresult result = allocate(address, bytes, stream, per_thread, synchronous, false);
    mdnn_context_leave(mdnn_real_driver(), change);
    return result;
}

CUresult mdnn_virtual_allocate_on(CUdevice ordinal, CUdeviceptr *address, size_t bytes,
                                  CUstream stream, bool per_thread)
{
    mdnn_virtual_device_t *const device = bytes > 0 ? mdnn_virtual_device_numbered(ordinal) : NULL;
    if (device)
        return allocate_on(device, NULL, address, bytes, stream, per_thread, false, false);
    return bytes > 0 ? mdnn_virtual_without_numbered(ordinal) : CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- frees ---- */

/* What has live pins may be in use without being named: by a kernel that reads a texture, say. As
 * the driver does, a free that promises to wait waits for all that the context has to do. */
static void wait_for_unnamed_uses(mdnn_virtual_device_t *device, CUdeviceptr address)
{
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool any = device->memory && mdnn_memory_has_live_pins(device->memory, address);
    mdnn_virtual_leave(device, entry);
    if (!any)
        return;
    mdnn_capture_begin_own();
    (void)mdnn_real_driver()->cuCtxSynchronize();
    mdnn_capture_end_own();
}

/* `ours`: the library's own, which no program's graph has lost with this. */
static CUresult free_memory(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous,
                            bool ours)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t number;
    unsigned long long capture;
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (order_of(stream, per_thread, synchronous, &number, &capture) != MDNN_STATUS_OK) {
        const CUresult error = mdnn_failure_take(); /* of the stream: the real call's, too */
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_OUT_OF_MEMORY;
    }
    mdnn_virtual_unbind(address); /* before another may get it */
    if (!capture)
        mdnn_pointers_freed(address); /* likewise */
    if (synchronous && !MDNN_FAULT(FREE_WAITS_FOR_NAMED_ONLY))
        wait_for_unnamed_uses(device, address);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED; /* it was just reset: the driver says so */
    bool now = true;
    if (device->memory && capture)
        result = mdnn_virtual_capture_frees(device, capture, address, &now);
    if (device->memory && now) {
        if (!capture && !ours && !MDNN_FAULT(NODE_OUTLIVES_THE_FREE))
            mdnn_virtual_holds_freed(device, address);
        if (synchronous) /* where it fails the memory is used again later, that is all */
            (void)mdnn_memory_wait_idle(device->memory, address);
        if (device->memory) /* else another thread has reset it meanwhile */
            result =
                mdnn_virtual_result(device, mdnn_memory_free(device->memory, address, number), 0);
    }
    mdnn_virtual_leave(device, entry);
    mdnn_pointers_changed();
    return result;
}

CUresult mdnn_virtual_free(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous)
{
    return free_memory(address, stream, per_thread, synchronous, false);
}

/* ---- what is asked of it ---- */

bool mdnn_virtual_find(uint64_t address, uint64_t *start, uint64_t *bytes, int *ordinal)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    const bool found = device->memory && mdnn_memory_find(device->memory, address, start, bytes);
    mdnn_unlock(&device->lock);
    *ordinal = device->ordinal;
    return found;
}

/* Locked. Settings that the program made for the allocation hold for its own address, where it
 * stays. */
static CUdeviceptr sample_of(const mdnn_virtual_device_t *device, CUdeviceptr address)
{
    return mdnn_memory_has_live_pins(device->memory, address) ? address
           : MDNN_FAULT(QUESTION_NEEDS_ROOM)                  ? 0
                                             : mdnn_device_memory_sample(device->device);
}

bool mdnn_virtual_ask(CUdeviceptr address, void (*ask)(void *context, CUdeviceptr address),
                      void *context, uint64_t *number)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    CUdeviceptr sample = 0;
    *number = 0;
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    if (device->memory)
        *number = mdnn_memory_number(device->memory, address);
    if (*number > 0)
        sample = sample_of(device, address);
    if (sample != 0)
        ask(context, sample);
    mdnn_unlock(&device->lock);
    return sample != 0;
}

bool mdnn_virtual_info(size_t *free_bytes, size_t *total_bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_current();
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    const bool there = device->memory != NULL;
    *free_bytes = there ? mdnn_memory_available(device->memory) : 0;
    const mdnn_memory_report_t report =
        there ? mdnn_memory_report(device->memory) : (mdnn_memory_report_t){0};
    const uint64_t live_bytes = report.live_bytes + report.other_bytes;
    mdnn_unlock(&device->lock);
    if (!there)
        return false;
    /* PyTorch asserts that what is free and what it holds together are no more than the total. */
    *total_bytes = *free_bytes + live_bytes > device->budget_bytes ? *free_bytes + live_bytes
                                                                   : device->budget_bytes;
    return true;
}

/* ---- our own ---- */

CUresult mdnn_device_allocate(CUdeviceptr *address, size_t bytes)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_on())
        result = allocate(address, bytes, NULL, false, true, true);
    if (result == CUDA_SUCCESS && mdnn_virtual_pin_for(*address, true) != CUDA_SUCCESS) {
        (void)mdnn_virtual_free(*address, NULL, false, true);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    /* Where there is a budget it was trouble of our own: what it could not count is not taken. */
    return mdnn_virtual_on() && mdnn_virtual_current()
               ? CUDA_ERROR_OUT_OF_MEMORY
               : mdnn_real_driver()->cuMemAlloc(address, bytes);
}

CUresult mdnn_device_free(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return mdnn_real_driver()->cuMemFree(address);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_unpin(device->memory, address);
    mdnn_virtual_leave(device, entry);
    return free_memory(address, NULL, false, true, true);
}

CUresult mdnn_device_info(size_t *free_bytes, size_t *total_bytes)
{
    return mdnn_virtual_info(free_bytes, total_bytes)
               ? CUDA_SUCCESS
               : mdnn_real_driver()->cuMemGetInfo(free_bytes, total_bytes);
}
