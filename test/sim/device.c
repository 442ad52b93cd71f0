/* Initialisation, devices, contexts, error names. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdio.h>
#include <string.h>

SIM_ENTRY(NOTHING, cuInit, (unsigned flags), flags ? CUDA_ERROR_INVALID_VALUE : sim_initialise())

static CUresult put_int(int *out, int value)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = value;
    return CUDA_SUCCESS;
}

SIM_ENTRY(NOTHING, cuDriverGetVersion, (int *version), put_int(version, CUDA_VERSION))
SIM_ENTRY(INIT, cuDeviceGetCount, (int *count), put_int(count, sim_engine.device_count))
SIM_ENTRY(INIT, cuDeviceGet, (CUdevice * device, int ordinal),
          sim_device(ordinal) ? put_int(device, ordinal) : CUDA_ERROR_INVALID_DEVICE)

static CUresult device_name(char *name, int capacity, CUdevice index)
{
    const sim_device_t *device = sim_device(index);
    if (!name || capacity <= 0 || !device)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)capacity, "%s (simulated)", device->profile.name);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDeviceGetName, (char *name, int capacity, CUdevice device),
          device_name(name, capacity, device))

static CUresult device_uuid(CUuuid *uuid, CUdevice index)
{
    if (!uuid || !sim_device(index))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, "simulated GPU  ", sizeof uuid->bytes);
    uuid->bytes[15] = (char)index;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDeviceGetUuid, (CUuuid * uuid, CUdevice device), device_uuid(uuid, device))

static CUresult device_memory(size_t *bytes, CUdevice index)
{
    const sim_device_t *device = sim_device(index);
    if (!bytes || !device)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    *bytes = device->profile.memory_bytes;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDeviceTotalMem, (size_t * bytes, CUdevice device), device_memory(bytes, device))

static int attribute_of(const sim_profile_t *profile, CUdevice_attribute attribute, int index)
{
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return profile->compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return profile->compute_minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return profile->multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return 0x7FFFFFFF;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 2;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return sim_engine.host_handles;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        return index;
    default:
        return 0; /* not there, not supported */
    }
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice index)
{
    const sim_device_t *device = sim_device(index);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return put_int(value, attribute_of(&device->profile, attribute, index));
}

SIM_ENTRY(INIT, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device),
          device_attribute(value, attribute, device))

/* Unless MICRODNN_SIM_PEERS says so no device reaches another's memory; copies go between them all
 * the same. */
static CUresult can_access_peer(int *can, CUdevice device, CUdevice peer)
{
    if (!sim_device(device) || !sim_device(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    return put_int(can, sim_engine.peer_access && device != peer);
}

SIM_ENTRY(INIT, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer),
          can_access_peer(can, device, peer))

static CUresult enable_peer(CUcontext peer, unsigned flags)
{
    CUcontext here = sim_current();
    if (!sim_context_exists(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_engine.peer_access || peer == here)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (here->peers >> peer->device & 1)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    here->peers |= UINT32_C(1) << peer->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    SIM_CALL(SIM_NEED_CONTEXT, enable_peer(peer, flags));
}

static CUresult pci_bus_id(char *text, int capacity, CUdevice device)
{
    if (!text || capacity < 13 || !sim_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)capacity, "0000:00:%02x.0", (unsigned)device & 0xFF);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDeviceGetPCIBusId, (char *text, int capacity, CUdevice device),
          pci_bus_id(text, capacity, device))

static CUresult primary_retain(CUcontext *out, CUdevice index)
{
    sim_device_t *device = sim_device(index);
    if (!out || !device)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    sim_context_open(&device->context, index);
    device->context.retained++;
    *out = &device->context;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device),
          primary_retain(context, device))

static CUresult primary_release(CUdevice index, bool reset)
{
    sim_device_t *device = sim_device(index);
    if (!device || (!reset && device->context.retained == 0))
        return device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_DEVICE;
    device->context.retained -= !reset;
    if (!reset && device->context.retained > 0)
        return CUDA_SUCCESS;
    sim_context_close(&device->context);
    if (device->context.retained > 0)
        sim_context_open(&device->context, index);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDevicePrimaryCtxRelease, (CUdevice device), primary_release(device, false))
SIM_ENTRY(INIT, cuDevicePrimaryCtxReset, (CUdevice device), primary_release(device, true))
#undef cuDevicePrimaryCtxReset
SIM_ENTRY(INIT, cuDevicePrimaryCtxReset, (CUdevice device);
          CUresult cuDevicePrimaryCtxReset(CUdevice device), primary_release(device, true))

static CUresult primary_state(CUdevice index, unsigned *flags, int *active)
{
    const sim_device_t *device = sim_device(index);
    if (!device || !flags || !active)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    *flags = device->context.flags;
    *active = device->context.retained > 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active),
          primary_state(device, flags, active))

static CUresult primary_set_flags(CUdevice index, unsigned flags)
{
    if (!sim_device(index))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_device(index)->context.flags = flags;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags),
          primary_set_flags(device, flags))

static CUresult get_current(CUcontext *context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = sim_current();
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuCtxGetCurrent, (CUcontext * context), get_current(context))

static CUresult get_id(CUcontext context, unsigned long long *id)
{
    const CUcontext of = context ? context : sim_current();
    if (!id || !of)
        return id ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    *id = of->id;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuCtxGetId, (CUcontext context, unsigned long long *id), get_id(context, id))

CUcontext sim_context_after(CUcontext context)
{
    const sim_device_t *const device = context ? sim_device(context->device) : NULL;
    const bool primary = device && context == &device->context;
    if (context && !primary)
        return context->next;
    const int index = primary ? context->device + 1 : 0;
    return index < sim_engine.device_count ? &sim_engine.devices[index].context
                                           : sim_engine.created;
}

bool sim_context_exists(CUcontext context)
{
    CUcontext each = NULL;
    while ((each = sim_context_after(each)) && each != context)
        ;
    const bool primary = each && each == &sim_engine.devices[each->device].context;
    return each && (primary || each->retained > 0);
}

/* A context of the program's own, current from then on. */
static CUresult create_context(CUcontext *out, const CUctxCreateParams *how, unsigned flags,
                               CUdevice index)
{
    if (!out || how || !sim_device(index))
        return out && !how ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    CUcontext made = sim_allocate(sizeof *made);
    *made = (struct CUctx_st){
        .device = index, .retained = 1, .flags = flags, .next = sim_engine.created};
    sim_engine.created = made;
    sim_context_open(made, index);
    *out = made;
    return sim_push_current(made) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY(INIT, cuCtxCreate,
          (CUcontext * context, CUctxCreateParams *how, unsigned flags, CUdevice device),
          create_context(context, how, flags, device))

/* It stays current to other threads, which are told that it is destroyed. */
static CUresult destroy_context(CUcontext context)
{
    if (!sim_context_exists(context) || context == &sim_device(context->device)->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_context_close(context);
    context->retained = 0;
    if (sim_current() == context)
        sim_pop_current();
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuCtxDestroy, (CUcontext context), destroy_context(context))

static CUresult set_current(CUcontext context)
{
    if (context && !sim_context_exists(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_set_current(context);
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuCtxSetCurrent, (CUcontext context), set_current(context))
SIM_ENTRY(INIT, cuCtxPushCurrent, (CUcontext context),
          sim_context_exists(context) && sim_push_current(context) ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_INVALID_VALUE)

static CUresult pop_current(CUcontext *context)
{
    CUcontext popped = sim_current();
    if (!popped)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = popped;
    sim_pop_current();
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuCtxPopCurrent, (CUcontext * context), pop_current(context))
SIM_ENTRY(CONTEXT, cuCtxGetDevice, (CUdevice * device), put_int(device, sim_current()->device))

static CUresult context_flags(unsigned *flags)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = sim_current()->flags;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuCtxGetFlags, (unsigned *flags), context_flags(flags))

static CUresult api_version(unsigned *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020; /* what every context since CUDA 3.2 answers */
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    (void)context;
    SIM_CALL(SIM_NEED_CONTEXT, api_version(version));
}

static CUresult priority_range(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuCtxGetStreamPriorityRange, (int *least, int *greatest),
          priority_range(least, greatest))

/* X(code, text): the errors that the simulator returns or that programs commonly name. */
#define ERRORS(X)                                                                                  \
    X(CUDA_SUCCESS, "no error")                                                                    \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                   \
    X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                          \
    X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                            \
    X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                  \
    X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                         \
    X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                  \
    X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                        \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")    \
    X(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                      \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                        \
    X(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")          \
    X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                              \
    X(CUDA_ERROR_NOT_READY, "device not ready")                                                    \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,                                                          \
      "peer access is not supported between these two devices")                                    \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                      \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")               \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                        \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                     \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,                                                   \
      "part or all of the requested memory range is already mapped")                               \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,                                                       \
      "pointer does not correspond to a registered memory region")                                 \
    X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                      \
    X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                         \
    X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")   \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,                                                       \
      "operation failed due to a previous error during capture")                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE,                                                             \
      "operation would result in a merge of separate capture sequences")                           \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                    \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,                                                         \
      "dependency created on uncaptured work in another stream")                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,                                                          \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
    X(CUDA_ERROR_CAPTURED_EVENT,                                                                   \
      "operation not permitted on an event last recorded in a capturing "                          \
      "stream")                                                                                    \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,                                                      \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

static CUresult error_text(CUresult error, const char **out, bool name)
{
    static const struct {
        CUresult error;
        const char *name, *text;
    } errors[] = {
#define X(code, message) {code, #code, message},
        ERRORS(X)
#undef X
    };
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    return error_text(error, text, false);
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    return error_text(error, name, true);
}
