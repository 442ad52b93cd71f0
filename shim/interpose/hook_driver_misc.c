/* Waits of the host, and addresses that outlive the call: in tensor maps, textures and with others.
 */
#include <string.h>

#include "config/fault.h"
#include "config/log.h"
#include "shim/interpose/driver_names.h"
#include "shim/handles/program_handles.h"
#include "shim/vmem/registrations.h"
#include "shim/vmem/reserved_memory.h"
#include "shim/real/tensor_maps.h"

/* ---- waits: moves go on meanwhile ---- */

typedef struct wait {
    CUresult (*stream_query)(CUstream);
    CUresult (*event_query)(CUevent);
    CUstream stream;
    CUevent event;
} wait_t;

static bool is_over(void *context)
{
    const wait_t *const wait = context;
    const CUresult result = wait->stream_query  ? wait->stream_query(wait->stream)
                            : wait->event_query ? wait->event_query(wait->event)
                                                : CUDA_SUCCESS;
    return result != CUDA_ERROR_NOT_READY;
}

static void wait_for_stream(CUstream stream, bool own_stream)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    wait_t wait = {.stream_query = own_stream ? ask->cuStreamQuery_ptsz : ask->cuStreamQuery,
                   .stream = stream};
    mdnn_virtual_progress_while_waiting(is_over, &wait);
}

CUresult mdnn_hook_cuStreamSynchronize(CUresult (*real)(CUstream), bool own_stream, CUstream stream)
{
    wait_for_stream(stream, own_stream);
    const CUresult result = real(stream);
    mdnn_reserved_settle_all(); /* what was freed before is over */
    return result;
}

CUresult mdnn_hook_cuEventSynchronize(CUresult (*real)(CUevent), bool own_stream, CUevent event)
{
    (void)own_stream;
    wait_t wait = {.event_query = mdnn_driver_queries()->cuEventQuery, .event = event};
    mdnn_virtual_progress_while_waiting(is_over, &wait);
    return real(event);
}

/* The legacy stream is over after all streams but those that do not wait for it: the rest is waited
 * for in the real call. */
void mdnn_wait_for_context(void)
{
    wait_for_stream(CU_STREAM_LEGACY, false);
}

CUresult mdnn_hook_cuCtxSynchronize_v2(CUresult (*real)(CUcontext), bool own_stream,
                                       CUcontext context)
{
    (void)own_stream;
    mdnn_wait_for_context();
    return real(context);
}

CUresult mdnn_hook_cuStreamDestroy_v2(CUresult (*real)(CUstream), bool own_stream, CUstream stream)
{
    (void)own_stream;
    const unsigned long long capture = mdnn_virtual_stream_destroyed(stream);
    const CUresult result = real(stream);
    if (result == CUDA_SUCCESS)
        mdnn_virtual_capture_lost(capture);
    return result;
}

/* ---- tensor maps ---- */

static CUresult remember(CUresult result, const CUtensorMap *map, const void *address)
{
    if (result == CUDA_SUCCESS && mdnn_virtual_owns((uintptr_t)address) &&
        !mdnn_tensor_map_remember(map, (uintptr_t)address))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

CUresult mdnn_hook_cuTensorMapEncodeTiled(
    CUresult (*real)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                     const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                     CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                     CUtensorMapFloatOOBfill),
    bool own_stream, CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)own_stream;
    return remember(real(map, type, rank, address, sizes, strides, box, element_strides, interleave,
                         swizzle, promotion, fill),
                    map, address);
}

CUresult mdnn_hook_cuTensorMapEncodeIm2col(
    CUresult (*real)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                     const cuuint64_t *, const int *, const int *, cuuint32_t, cuuint32_t,
                     const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill),
    bool own_stream, CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower, const int *upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    (void)own_stream;
    return remember(real(map, type, rank, address, sizes, strides, lower, upper, channels, pixels,
                         element_strides, interleave, swizzle, promotion, fill),
                    map, address);
}

CUresult mdnn_hook_cuTensorMapEncodeIm2colWide(
    CUresult (*real)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                     const cuuint64_t *, int, int, cuuint32_t, cuuint32_t, const cuuint32_t *,
                     CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill),
    bool own_stream, CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, int lower, int upper, cuuint32_t channels,
    cuuint32_t pixels, const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    (void)own_stream;
    return remember(real(map, type, rank, address, sizes, strides, lower, upper, channels, pixels,
                         element_strides, interleave, mode, swizzle, promotion, fill),
                    map, address);
}

CUresult mdnn_hook_cuTensorMapReplaceAddress(CUresult (*real)(CUtensorMap *, void *),
                                             bool own_stream, CUtensorMap *map, void *address)
{
    (void)own_stream;
    return remember(real(map, address), map, address);
}

/* ---- what is used by a handle, or by others: it stays until that ends, or it is freed ---- */

/* In the place of communicators. */
static const char textures, references;

static void read_by(const CUDA_RESOURCE_DESC *resource, uint64_t *address, size_t *bytes)
{
    *address = *bytes = 0;
    if (resource && resource->resType == CU_RESOURCE_TYPE_LINEAR) {
        *address = resource->res.linear.devPtr;
        *bytes = resource->res.linear.sizeInBytes;
    } else if (resource && resource->resType == CU_RESOURCE_TYPE_PITCH2D) {
        *address = resource->res.pitch2D.devPtr;
        *bytes = resource->res.pitch2D.pitchInBytes * resource->res.pitch2D.height;
    }
}

/* Of no bytes, which the driver may refuse, the first. */
static CUresult take(uint64_t address, size_t bytes, mdnn_pin_t **pins)
{
    return mdnn_pins_take((const void *)(uintptr_t)address, bytes > 0 ? bytes : 1, pins);
}

CUresult mdnn_hook_cuTexObjectCreate(CUresult (*real)(CUtexObject *, const CUDA_RESOURCE_DESC *,
                                                      const CUDA_TEXTURE_DESC *,
                                                      const CUDA_RESOURCE_VIEW_DESC *),
                                     bool own_stream, CUtexObject *object,
                                     const CUDA_RESOURCE_DESC *resource,
                                     const CUDA_TEXTURE_DESC *texture,
                                     const CUDA_RESOURCE_VIEW_DESC *view)
{
    (void)own_stream;
    mdnn_pin_t *pins;
    uint64_t address;
    size_t bytes;
    read_by(resource, &address, &bytes);
    CUresult result = take(address, bytes, &pins);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(object, resource, texture, view);
    if (result == CUDA_SUCCESS)
        mdnn_registration_replace(&textures, *object, pins);
    else if (!MDNN_FAULT(REFUSED_TEXTURE_PINS))
        mdnn_pins_drop(pins);
    return result;
}

/* The handle may be another thread's as soon as the real call is over. */
CUresult mdnn_hook_cuTexObjectDestroy(CUresult (*real)(CUtexObject), bool own_stream,
                                      CUtexObject object)
{
    (void)own_stream;
    mdnn_pin_t *const pins = mdnn_registration_take(&textures, object);
    const CUresult result = real(object);
    if (result == CUDA_SUCCESS && !MDNN_FAULT(TEXTURE_OUTLIVES_ITS_END))
        mdnn_pins_drop(pins);
    else if (pins)
        mdnn_registration_add(&textures, object, pins);
    return result;
}

static CUresult bound(CUresult result, CUtexref reference, mdnn_pin_t *pins)
{
    if (result == CUDA_SUCCESS)
        mdnn_registration_replace(&references, (uintptr_t)reference, pins);
    else
        mdnn_pins_drop(pins);
    return result;
}

CUresult mdnn_hook_cuTexRefSetAddress_v2(CUresult (*real)(size_t *, CUtexref, CUdeviceptr, size_t),
                                         bool own_stream, size_t *offset, CUtexref reference,
                                         CUdeviceptr address, size_t bytes)
{
    (void)own_stream;
    mdnn_pin_t *pins;
    const CUresult result = take(address, bytes, &pins);
    return result == CUDA_SUCCESS ? bound(real(offset, reference, address, bytes), reference, pins)
                                  : result;
}

CUresult mdnn_hook_cuTexRefSetAddress2D_v3(
    CUresult (*real)(CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t), bool own_stream,
    CUtexref reference, const CUDA_ARRAY_DESCRIPTOR *array, CUdeviceptr address, size_t pitch)
{
    (void)own_stream;
    mdnn_pin_t *pins;
    const CUresult result = take(address, array ? array->Height * pitch : 0, &pins);
    return result == CUDA_SUCCESS ? bound(real(reference, array, address, pitch), reference, pins)
                                  : result;
}

/* The driver shares no memory of its virtual memory API in this way. */
CUresult mdnn_hook_cuIpcGetMemHandle(CUresult (*real)(CUipcMemHandle *, CUdeviceptr),
                                     bool own_stream, CUipcMemHandle *handle, CUdeviceptr address)
{
    (void)own_stream;
    if (!mdnn_virtual_owns(address))
        return real(handle, address);
    MDNN_LOG_ONCE(MDNN_LOG_ERROR, "memory",
                  "memory cannot be shared with another process (cudaIpcGetMemHandle) under "
                  "memory.budget");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Pins memory about which the driver informs others. Such calls allocate nothing, so they must not
 * fail for lack of memory. */
static CUresult take_for_others(uint64_t address, size_t bytes, mdnn_pin_t **pins)
{
    const CUresult result = take(address, bytes, pins);
    return result == CUDA_ERROR_OUT_OF_MEMORY && !MDNN_FAULT(NO_ROOM_IS_REPORTED)
               ? CUDA_ERROR_NOT_SUPPORTED
               : result;
}

/* Where the driver has told nobody of it, it may leave as before. */
static CUresult keep_or_drop(CUresult result, mdnn_pin_t *pins)
{
    if (result == CUDA_SUCCESS || MDNN_FAULT(REFUSED_ATTRIBUTE_PINS))
        mdnn_pins_leave(pins);
    else
        mdnn_pins_drop(pins);
    return result;
}

CUresult mdnn_hook_cuMemGetHandleForAddressRange(
    CUresult (*real)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long),
    bool own_stream, void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
    unsigned long long flags)
{
    (void)own_stream;
    mdnn_pin_t *pins;
    const CUresult result = take_for_others(address, bytes, &pins);
    return result == CUDA_SUCCESS ? keep_or_drop(real(handle, address, bytes, type, flags), pins)
                                  : result;
}

/* ---- questions about an address ----
 * They need no room: the driver is asked of memory of the same kind that is there, and what is the
 * allocation's own is put right. */

typedef struct question {
    CUresult (*one)(void *, CUpointer_attribute, CUdeviceptr); /* or NULL: */
    CUresult (*many)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);
    unsigned count;
    CUpointer_attribute *attributes;
    void **values;
    CUresult result;
} question_t;

static void ask(void *context, CUdeviceptr address)
{
    question_t *const question = context;
    question->result =
        question->one
            ? question->one(*question->values, *question->attributes, address)
            : question->many(question->count, question->attributes, question->values, address);
}

/* Of memory that has none yet, on a device without any: an operation that is begun and then not enqueued
 * brings it, and holds it meanwhile. Its stream is the thread's own, so that nothing else waits. */
static void ask_while_held(question_t *question, CUdeviceptr address)
{
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, CU_STREAM_PER_THREAD, true);
    mdnn_virtual_name(&operation, address, MDNN_USE_READ);
    question->result = mdnn_virtual_begin(&operation, MDNN_DRIVER_HASH_START);
    if (question->result != CUDA_SUCCESS)
        return;
    ask(question, address);
    mdnn_virtual_end(&operation, false);
}

/* Memory of the virtual memory API belongs to no context, other memory to that which is current as
 * a rule. */
static void correct_context(CUcontext *context, int device)
{
    const mdnn_driver_queries_t *const queries = mdnn_driver_queries();
    CUdevice current;
    if (!*context && queries->cuCtxGetDevice && queries->cuCtxGetDevice(&current) == CUDA_SUCCESS &&
        current == device && queries->cuCtxGetCurrent)
        (void)queries->cuCtxGetCurrent(context);
}

/* A range is mapped in pieces: its extent is the allocation's. So is its identity, whatever the pieces
 * are; the driver's own numbers are small. */
static void correct(CUpointer_attribute attribute, void *value, CUdeviceptr address,
                    uint64_t number)
{
    static const uint64_t ours = (uint64_t)1 << 62;
    uint64_t start, bytes;
    int device;
    CUmemAllocationProp properties;
    if (!value || !mdnn_virtual_find(address, &start, &bytes, &device))
        return;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
        attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR)
        memcpy(value, &start, sizeof start);
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
             attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE)
        memcpy(value, &bytes, sizeof bytes);
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && !MDNN_FAULT(ANSWER_OF_THE_SAMPLE))
        memcpy(value, &address, sizeof address);
    else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID && !MDNN_FAULT(SAMPLES_IDENTITY))
        memcpy(value, &(uint64_t){ours + number}, sizeof number);
    else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        correct_context(value, device);
    else if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES &&
             mdnn_program_properties_at(address, &properties))
        memcpy(value, &(uint64_t){properties.requestedHandleTypes}, sizeof(uint64_t));
}

/* Others reach the memory with such tokens, so it stays from then on. */
static bool asks_for_tokens(const question_t *question)
{
    for (unsigned i = 0; question->attributes && i < question->count; i++)
        if (question->attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            return true;
    return false;
}

static CUresult answer(question_t *question, CUdeviceptr address)
{
    uint64_t number;
    if (!mdnn_virtual_ask(address, ask, question, &number)) {
        if (number > 0)
            ask_while_held(question, address);
        else
            ask(question, address);
    }
    for (unsigned i = 0; question->result == CUDA_SUCCESS && i < question->count; i++)
        correct(question->attributes[i], question->values[i], address, number);
    return question->result;
}

static CUresult answer_for_others(question_t *question, CUdeviceptr address)
{
    mdnn_pin_t *pins;
    const CUresult result = take_for_others(address, 1, &pins);
    return result == CUDA_SUCCESS ? keep_or_drop(answer(question, address), pins) : result;
}

CUresult mdnn_hook_cuPointerGetAttribute(CUresult (*real)(void *, CUpointer_attribute, CUdeviceptr),
                                         bool own_stream, void *value,
                                         CUpointer_attribute attribute, CUdeviceptr address)
{
    (void)own_stream;
    question_t question = {.one = real, .count = 1, .attributes = &attribute, .values = &value};
    if (!mdnn_virtual_owns(address))
        return real(value, attribute, address);
    return asks_for_tokens(&question) ? answer_for_others(&question, address)
                                      : answer(&question, address);
}

CUresult mdnn_hook_cuPointerGetAttributes(
    CUresult (*real)(unsigned, CUpointer_attribute *, void **, CUdeviceptr), bool own_stream,
    unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr address)
{
    (void)own_stream;
    question_t question = {
        .many = real, .count = count, .attributes = attributes, .values = values};
    if (!mdnn_virtual_owns(address))
        return real(count, attributes, values, address);
    return asks_for_tokens(&question) ? answer_for_others(&question, address)
                                      : answer(&question, address);
}

CUresult mdnn_hook_cuPointerSetAttribute(CUresult (*real)(const void *, CUpointer_attribute,
                                                          CUdeviceptr),
                                         bool own_stream, const void *value,
                                         CUpointer_attribute attribute, CUdeviceptr address)
{
    (void)own_stream;
    mdnn_pin_t *pins;
    const CUresult result = take_for_others(address, 1, &pins);
    return result == CUDA_SUCCESS ? keep_or_drop(real(value, attribute, address), pins) : result;
}
