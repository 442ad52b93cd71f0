#include "shim/vmem/virtual_workspaces.h"

#include "config/fault.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/workspace_sizes.h"

bool mdnn_virtual_workspace_is_useless(mdnn_virtual_device_t *device, size_t bytes)
{
    uint64_t sizes[MDNN_WORKSPACE_OPERANDS];
    return device->memory && !MDNN_FAULT(WORKSPACE_IS_TAKEN_AND_USELESS) &&
           (mdnn_workspace_is_wanted(bytes, sizes) ||
            mdnn_workspace_was_used(&device->workspaces, bytes, sizes)) &&
           !mdnn_memory_workspace_fits(device->memory, bytes, sizes, MDNN_WORKSPACE_OPERANDS);
}

void mdnn_virtual_workspace_refused(mdnn_virtual_device_t *device, size_t bytes)
{
    mdnn_workspace_refused(bytes);
    mdnn_workspace_forget(&device->workspaces, bytes);
}

/* Locked. Operands in one allocation count once. */
static void learn(mdnn_virtual_device_t *device, uint64_t workspace, const uint64_t *operands,
                  size_t count)
{
    uint64_t starts[MDNN_WORKSPACE_OPERANDS], sizes[MDNN_WORKSPACE_OPERANDS] = {0};
    uint64_t start, bytes, workspace_bytes;
    size_t kept = 0;
    if (!mdnn_memory_find(device->memory, workspace, &start, &workspace_bytes))
        return;
    for (size_t i = 0; i < count && kept < MDNN_WORKSPACE_OPERANDS; i++) {
        size_t known = 0;
        if (!mdnn_memory_find(device->memory, operands[i], &start, &bytes))
            continue;
        while (known < kept && starts[known] != start)
            known++;
        if (known < kept)
            continue;
        starts[kept] = start;
        sizes[kept++] = bytes;
    }
    mdnn_workspace_learn(&device->workspaces, workspace_bytes, sizes);
}

bool mdnn_virtual_workspace_fits(uint64_t workspace, const uint64_t *operands, size_t count)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(workspace);
    uint64_t here[MDNN_VIRTUAL_TOGETHER] = {workspace};
    size_t here_count = 1;
    if (!device)
        return true;
    for (size_t i = 0; i < count && here_count < MDNN_VIRTUAL_TOGETHER; i++)
        if (operands[i] - device->start < device->bytes)
            here[here_count++] = operands[i];
    mdnn_lock(&device->lock);
    const bool fits = !device->memory || mdnn_memory_fit_together(device->memory, here, here_count);
    if (device->memory && fits)
        learn(device, workspace, here + 1, here_count - 1);
    mdnn_unlock(&device->lock);
    return fits;
}

uint64_t mdnn_virtual_room_beside(const uint64_t *sizes, size_t count)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_on() ? mdnn_virtual_current() : NULL;
    uint64_t bytes = UINT64_MAX;
    if (!device)
        return bytes;
    mdnn_lock(&device->lock);
    if (device->memory)
        bytes = mdnn_memory_room_beside(device->memory, sizes, count);
    mdnn_unlock(&device->lock);
    return bytes;
}

bool mdnn_virtual_has_tails(void)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_on() ? mdnn_virtual_current() : NULL;
    bool has = false;
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    if (device->memory)
        has = mdnn_memory_has_tails(device->memory);
    mdnn_unlock(&device->lock);
    return has;
}

/* ---- lent ---- */

bool mdnn_virtual_calls_on(void)
{
    return mdnn_process_options()->memory_variants != MDNN_VARIANTS_RECORDED && mdnn_virtual_on();
}

static bool is_of_one_device(const mdnn_virtual_call_t *call, uint64_t workspace,
                             const mdnn_virtual_device_t *device)
{
    for (size_t i = 0; i < call->call.operand_count; i++)
        if (mdnn_virtual_device_of(call->operands[i].address) != device)
            return false;
    return mdnn_virtual_device_of(workspace) == device;
}

bool mdnn_virtual_call_begin(mdnn_virtual_call_t *call, uint64_t workspace, uint64_t *limit_bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(workspace);
    call->device = NULL;
    call->lent = 0;
    call->call.operands = call->operands;
    call->call.variants = call->variants;
    if (!device || !is_of_one_device(call, workspace, device) ||
        mdnn_virtual_capture(call->stream, false) != 0 ||
        mdnn_virtual_stream(call->stream, false, &call->call.stream) != MDNN_STATUS_OK)
        return false;
    mdnn_lock(&device->lock);
    if (device->memory) {
        *limit_bytes = mdnn_memory_call_begin(device->memory, &call->call);
        call->device = device;
    }
    mdnn_unlock(&device->lock);
    return call->device != NULL;
}

static mdnn_status_t lend(mdnn_virtual_call_t *call, uint64_t bytes)
{
    mdnn_virtual_device_t *const device = call->device;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    mdnn_status_t status = MDNN_STATUS_NOT_FOUND;
    bool retried = false;
    do
        status = device->memory
                     ? mdnn_memory_lend(device->memory, bytes, call->call.stream, &call->lent)
                     : MDNN_STATUS_NOT_FOUND;
    while (mdnn_virtual_try_again(device, status, &retried));
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory)
        mdnn_memory_judge_refusal(device->memory, bytes, true);
    mdnn_virtual_leave(device, entry);
    mdnn_pointers_changed();
    return status;
}

bool mdnn_virtual_call_lend(mdnn_virtual_call_t *call, uint64_t bytes)
{
    if (bytes > 0 && lend(call, bytes) != MDNN_STATUS_OK) {
        call->lent = 0;
        call->device = NULL;
        return false;
    }
    call->call.workspace_bytes = bytes;
    mdnn_virtual_expect_call(call);
    return true;
}

void mdnn_virtual_call_end(mdnn_virtual_call_t *call)
{
    mdnn_virtual_device_t *const device = call->device;
    mdnn_virtual_expect_call(NULL);
    if (!device)
        return;
    if (call->lent != 0 && !MDNN_FAULT(LOAN_IS_NOT_GIVEN_BACK))
        (void)mdnn_virtual_free(call->lent, call->stream, false, false);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_call_end(device->memory, &call->call);
    mdnn_virtual_leave(device, entry);
    call->device = NULL;
}
