/* Allocations and what programs ask about them. cudart's allocations come here, too. */
#include "config/devices.h"
#include "config/fault.h"
#include "config/log.h"
#include "shim/interpose/driver.h"
#include "shim/handles/handle_memory.h"
#include "shim/vmem/other_memory.h"
#include "shim/handles/program_handles.h"
#include "shim/real/host_memory.h"
#include "shim/real/pool_counters.h"
#include "shim/real/process.h"
#include "shim/remake/remake.h"
#include "shim/vmem/reserved_memory.h"
#include "shim/vmem/virtual_pointers.h"

/* As the driver has it: rows begin at multiples of this. */
enum { PITCH = 512 };

/* ---- allocations ---- */

/* The driver's own memory, counted: a library's, and where we had trouble of our own. */
static CUresult allocate_plain(CUresult (*real)(CUdeviceptr *, size_t), CUdeviceptr *address,
                               size_t bytes, bool quiet)
{
    mdnn_other_memory_t *memory;
    CUresult result = mdnn_other_begin(MDNN_OTHER_ADDRESS, bytes, quiet, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(address, bytes);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? *address : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMemAlloc_v2(CUresult (*real)(CUdeviceptr *, size_t), bool own_stream,
                                 CUdeviceptr *address, size_t bytes)
{
    (void)own_stream;
    if (!address || bytes == 0)
        return real(address, bytes);
    const CUresult ended = mdnn_driver_failure_of_context();
    if (ended != CUDA_SUCCESS)
        return ended;
    mdnn_reserved_settle_all(); /* what pools have given back since is room */
    const mdnn_plain_memory_t plain = mdnn_plain_memory_wanted(mdnn_driver_caller());
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (plain == MDNN_PLAIN_IF_ROOM && allocate_plain(real, address, bytes, true) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    if (plain != MDNN_PLAIN_ALWAYS)
        result = mdnn_virtual_allocate(address, bytes, NULL, false, true);
    mdnn_driver_note_plain(plain, result);
    return result == CUDA_ERROR_NOT_SUPPORTED ? allocate_plain(real, address, bytes, false)
                                              : result;
}

void mdnn_driver_note_plain(mdnn_plain_memory_t wanted, CUresult result)
{
    if (wanted == MDNN_PLAIN_IF_ROOM && result == CUDA_SUCCESS)
        MDNN_LOG_ONCE(
            MDNN_LOG_WARN, "memory",
            "the budget has no room for a library's own memory beside what operations need: "
            "it is virtual, and kernels that find its address in memory may miss it");
}

static CUresult allocate_rows(CUresult (*real)(CUdeviceptr *, size_t *, size_t, size_t, unsigned),
                              CUdeviceptr *address, size_t *pitch, size_t width, size_t rows,
                              unsigned element_bytes, uint64_t bytes, bool quiet)
{
    mdnn_other_memory_t *memory;
    CUresult result = mdnn_other_begin(MDNN_OTHER_ADDRESS, bytes, quiet, &memory);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(address, pitch, width, rows, element_bytes);
    mdnn_other_made(memory, result == CUDA_SUCCESS ? *address : 0, result == CUDA_SUCCESS);
    return result;
}

CUresult mdnn_hook_cuMemAllocPitch_v2(CUresult (*real)(CUdeviceptr *, size_t *, size_t, size_t,
                                                       unsigned),
                                      bool own_stream, CUdeviceptr *address, size_t *pitch,
                                      size_t width, size_t rows, unsigned element_bytes)
{
    (void)own_stream;
    const bool valid = address && pitch && width > 0 && rows > 0 && width <= SIZE_MAX - PITCH &&
                       (element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    const size_t row_bytes = valid ? (width + PITCH - 1) / PITCH * PITCH : 0;
    if (!valid || rows > SIZE_MAX / row_bytes)
        return real(address, pitch, width, rows, element_bytes);
    const CUresult ended = mdnn_driver_failure_of_context();
    if (ended != CUDA_SUCCESS)
        return ended;
    const mdnn_plain_memory_t plain = mdnn_plain_memory_wanted(mdnn_driver_caller());
    const uint64_t bytes = row_bytes * rows;
    if (plain == MDNN_PLAIN_IF_ROOM && allocate_rows(real, address, pitch, width, rows,
                                                     element_bytes, bytes, true) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    const CUresult result = mdnn_virtual_allocate(address, bytes, NULL, false, true);
    mdnn_driver_note_plain(plain, result);
    if (result == CUDA_SUCCESS)
        *pitch = row_bytes;
    return result != CUDA_ERROR_NOT_SUPPORTED
               ? result
               : allocate_rows(real, address, pitch, width, rows, element_bytes, bytes, false);
}

CUresult mdnn_hook_cuMemFree_v2(CUresult (*real)(CUdeviceptr), bool own_stream, CUdeviceptr address)
{
    (void)own_stream;
    if (mdnn_virtual_owns(address) &&
        (mdnn_process_is_over() ||
         (MDNN_FAULT(EXIT_FREES_NOTHING) && mdnn_process_state() == MDNN_PROCESS_EXITING)))
        return CUDA_SUCCESS;
    const CUresult ended = mdnn_driver_failure_of_context();
    if (ended != CUDA_SUCCESS)
        return ended;
    if (mdnn_virtual_owns(address) && mdnn_program_has_reserved(address))
        return CUDA_ERROR_INVALID_VALUE;
    mdnn_other_memory_t *const other = mdnn_other_take(MDNN_OTHER_ADDRESS, address);
    mdnn_reserved_share_t *const share = mdnn_reserved_take(address);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_owns(address))
        result = mdnn_free_counted(address, NULL, false, true);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = real(address);
    mdnn_other_ended(other, result == CUDA_SUCCESS);
    mdnn_reserved_freed(share, result == CUDA_SUCCESS);
    return result;
}

/* The driver moves it between the device and the host, as it likes. */
CUresult mdnn_hook_cuMemAllocManaged(CUresult (*real)(CUdeviceptr *, size_t, unsigned),
                                     bool own_stream, CUdeviceptr *address, size_t bytes,
                                     unsigned flags)
{
    (void)own_stream;
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "managed memory (cuMemAllocManaged) does not count in the budget");
    return real(address, bytes, flags);
}

CUresult mdnn_hook_cuImportExternalMemory(
    CUresult (*real)(CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *), bool own_stream,
    CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
    (void)own_stream;
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "imported memory of another API (cuImportExternalMemory) does not count in the "
                  "budget");
    return real(memory, handle);
}

CUresult mdnn_hook_cuIpcOpenMemHandle_v2(CUresult (*real)(CUdeviceptr *, CUipcMemHandle, unsigned),
                                         bool own_stream, CUdeviceptr *address,
                                         CUipcMemHandle handle, unsigned flags)
{
    (void)own_stream;
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "memory of another process (cuIpcOpenMemHandle) does not count in the budget");
    return real(address, handle, flags);
}

/* ---- pinned memory of the host ---- */

CUresult mdnn_hook_cuMemHostAlloc(CUresult (*real)(void **, size_t, unsigned), bool own_stream,
                                  void **address, size_t bytes, unsigned flags)
{
    (void)own_stream;
    const CUresult result = real(address, bytes, flags);
    if (result == CUDA_SUCCESS)
        mdnn_host_memory_begins(*address, bytes);
    return result;
}

CUresult mdnn_hook_cuMemAllocHost_v2(CUresult (*real)(void **, size_t), bool own_stream,
                                     void **address, size_t bytes)
{
    (void)own_stream;
    const CUresult result = real(address, bytes);
    if (result == CUDA_SUCCESS)
        mdnn_host_memory_begins(*address, bytes);
    return result;
}

CUresult mdnn_hook_cuMemFreeHost(CUresult (*real)(void *), bool own_stream, void *address)
{
    (void)own_stream;
    mdnn_pointers_host_ends(address, mdnn_host_memory_ends(address));
    return real(address);
}

/* Reading what belongs to another device could change it. */
static void begin_registered(void *address, size_t bytes, unsigned flags)
{
    if (!(flags & CU_MEMHOSTREGISTER_IOMEMORY))
        mdnn_host_memory_begins(address, bytes);
}

CUresult mdnn_hook_cuMemHostRegister_v2(CUresult (*real)(void *, size_t, unsigned), bool own_stream,
                                        void *address, size_t bytes, unsigned flags)
{
    (void)own_stream;
    const CUresult result = real(address, bytes, flags);
    if (result == CUDA_SUCCESS)
        begin_registered(address, bytes, flags);
    return result;
}

CUresult mdnn_hook_cuMemHostUnregister(CUresult (*real)(void *), bool own_stream, void *address)
{
    (void)own_stream;
    mdnn_pointers_host_ends(address, mdnn_host_memory_ends(address));
    return real(address);
}

/* ---- ends of contexts ---- */

CUresult mdnn_hook_cuCtxDestroy(CUresult (*real)(CUcontext), bool own_stream, CUcontext context)
{
    CUdeviceptr address;
    (void)own_stream;
    if (mdnn_process_is_over())
        return real(context);
    mdnn_remake_code_ends();
    mdnn_virtual_context_ends(context);
    mdnn_host_memory_context_ends(context);
    mdnn_other_memory_t *const others = mdnn_other_take_context(context);
    const CUresult result = real(context);
    while (result == CUDA_SUCCESS && mdnn_virtual_take_bound(context, &address))
        (void)mdnn_free_counted(address, NULL, false, true);
    mdnn_other_ended(others, result == CUDA_SUCCESS);
    return result;
}

/* Before the real call, while what is given back is still there. */
CUresult mdnn_hook_cuDevicePrimaryCtxReset(CUresult (*real)(CUdevice), bool own_stream,
                                           CUdevice device)
{
    (void)own_stream;
    if (mdnn_process_is_over() || device < 0 || device >= MDNN_DEVICES)
        return real(device);
    mdnn_remake_code_ends();
    mdnn_program_device_ends(device);
    mdnn_host_memory_device_ends(device);
    mdnn_other_device_ends(device);
    mdnn_reserved_device_ends(device);
    mdnn_handles_device_ends(device);
    mdnn_virtual_device_ends(device);
    mdnn_remake_device_ends(device);
    mdnn_pools_device_ends(device);
    const CUresult result = real(device);
    mdnn_virtual_device_ended(device);
    mdnn_handles_device_ended(device);
    return result;
}

/* ---- questions ---- */

CUresult mdnn_hook_cuMemGetInfo_v2(CUresult (*real)(size_t *, size_t *), bool own_stream,
                                   size_t *free_bytes, size_t *total_bytes)
{
    (void)own_stream;
    mdnn_reserved_settle_all();
    if (free_bytes && total_bytes && mdnn_virtual_info(free_bytes, total_bytes))
        return CUDA_SUCCESS;
    return real(free_bytes, total_bytes);
}

CUresult mdnn_hook_cuMemGetAddressRange_v2(CUresult (*real)(CUdeviceptr *, size_t *, CUdeviceptr),
                                           bool own_stream, CUdeviceptr *start, size_t *bytes,
                                           CUdeviceptr address)
{
    (void)own_stream;
    uint64_t first, length;
    int device;
    if (!mdnn_virtual_owns(address))
        return real(start, bytes, address);
    if (!mdnn_virtual_find(address, &first, &length, &device))
        return mdnn_program_has_reserved(address)
                   ? real(start, bytes, address)
                   : CUDA_ERROR_NOT_FOUND; /* the driver knows what is mapped there, not what is
                                            * alive */
    if (start)
        *start = first;
    if (bytes)
        *bytes = length;
    return CUDA_SUCCESS;
}
