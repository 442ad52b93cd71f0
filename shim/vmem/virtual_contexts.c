/* What ends with a context of the program's own, or with a reset of a device. */
#include "shim/real/capture_mode.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/real/kernel_layout.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_shared.h"

static bool is_ours(CUcontext context)
{
    const mdnn_virtual_device_t *device;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (device->context == context)
            return true;
    return false;
}

/* Of streams there others may have been told, though the device has no budget. Where there is no
 * such context none is made: a retain would. */
static void forget_primary(mdnn_timelines_t *timelines, CUdevice device)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;
    if (driver->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        driver->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return;
    mdnn_timelines_context_ends(timelines, primary);
    (void)driver->cuDevicePrimaryCtxRelease(device);
}

void mdnn_virtual_device_ends(CUdevice device)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    mdnn_kernel_layouts_forget();
    if (!timelines)
        return;
    mdnn_pointers_device_ends(device);
    mdnn_capture_begin_own();
    const bool had = mdnn_virtual_withdraw(device);
    forget_primary(timelines, device);
    if (had)
        (void)mdnn_real_driver()->cuDevicePrimaryCtxRelease(device);
    mdnn_capture_end_own();
}

void mdnn_virtual_context_ends(CUcontext context)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    mdnn_kernel_layouts_forget();
    if (!timelines || is_ours(context)) /* a primary one is not destroyed so */
        return;
    mdnn_capture_begin_own();
    mdnn_timelines_context_ends(timelines, context);
    mdnn_capture_end_own();
}
