#include "shim/vmem/virtual_pins.h"

#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_refusals.h"

mdnn_status_t mdnn_virtual_pin_entered(mdnn_virtual_device_t *device, uint64_t address,
                                       uint64_t *start)
{
    mdnn_status_t status;
    bool retried = false;
    do
        status = device->memory ? mdnn_memory_pin(device->memory, address, start)
                                : MDNN_STATUS_NOT_FOUND; /* it was just reset */
    while (status == MDNN_STATUS_BUSY && mdnn_virtual_try_again(device, status, &retried));
    return status;
}

CUresult mdnn_virtual_pin_for(CUdeviceptr address, bool quiet)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t start, bytes = 0;
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        (void)mdnn_memory_find(device->memory, address, &start, &bytes);
    const mdnn_status_t status = mdnn_virtual_pin_entered(device, address, &start);
    const bool refused = status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory;
    if (refused)
        mdnn_memory_judge_refusal(device->memory, bytes, quiet);
    const CUresult result =
        refused && quiet ? CUDA_ERROR_OUT_OF_MEMORY : mdnn_virtual_result(device, status, bytes);
    mdnn_virtual_leave(device, entry);
    return result;
}

CUresult mdnn_virtual_pin(CUdeviceptr address)
{
    return mdnn_virtual_pin_for(address, false);
}

CUresult mdnn_virtual_pin_live(CUdeviceptr address, mdnn_live_pin_t *pin)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t start, bytes = 0;
    mdnn_status_t status;
    bool retried = false;
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        (void)mdnn_memory_find(device->memory, address, &start, &bytes);
    do
        status = device->memory ? mdnn_memory_pin_live(device->memory, address, pin)
                                : MDNN_STATUS_NOT_FOUND; /* it was just reset */
    while (status == MDNN_STATUS_BUSY && mdnn_virtual_try_again(device, status, &retried));
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory)
        mdnn_memory_judge_refusal(device->memory, bytes, false);
    const CUresult result = mdnn_virtual_result(device, status, bytes);
    mdnn_virtual_leave(device, entry);
    return result;
}

void mdnn_virtual_unpin_live(mdnn_live_pin_t pin)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(pin.address);
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_unpin_live(device->memory, pin);
    mdnn_virtual_leave(device, entry);
}
