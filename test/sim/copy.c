/* Copies and fills, of bytes in a row and of boxes of them. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

static double launch_us(CUstream stream)
{
    return sim_device(stream->context->device)->profile.launch_us;
}

static bool pageable(uint64_t address, uint64_t bytes)
{
    return !sim_map_is_device(address) &&
           !sim_map_covers(address, bytes, SIM_PLACE_PINNED, SIM_ANY_DEVICE, false);
}

/* The rows of a pageable source, one behind the other. */
static void *snapshot(uint64_t source, const sim_shape_t *shape)
{
    char *content = sim_allocate(sim_shape_bytes(shape)), *at = content;
    for (uint64_t slice = 0; slice < shape->slices; slice++) {
        for (uint64_t row = 0; row < shape->rows; row++, at += shape->row_bytes) {
            uint64_t from = source + slice * shape->source_slice + row * shape->source_pitch;
            memcpy(at, (const void *)(uintptr_t)from, shape->row_bytes);
        }
    }
    return content;
}

/* A copy as the program asked for it. `wait`: a form without Async. From pageable memory the
 * content is taken at the call; to pageable memory, and from host to host, the host waits; between
 * devices' own addresses it never does. */
static CUresult copy_box(uint64_t destination, uint64_t source, const sim_shape_t *shape,
                         const sim_owners_t *owners, CUstream handle, bool wait)
{
    CUstream stream;
    sim_work_t work = {0};
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || sim_shape_bytes(shape) == 0)
        return result;
    if (wait)
        result = sim_capture_guard_wait(stream->context, stream);
    if (result == CUDA_SUCCESS)
        result = sim_work_transfer(&work, destination, source, shape, owners);
    if (result != CUDA_SUCCESS)
        return result;
    bool from_pageable = pageable(source, shape->row_bytes);
    bool to_pageable = pageable(destination, shape->row_bytes);
    if (from_pageable && !stream->capture && sim_engine.mode == SIM_COMPUTE)
        work.snapshot = snapshot(source, shape);
    sim_op_t *op;
    result = sim_stream_add(stream, &work, launch_us(stream), &op);
    if (result != CUDA_SUCCESS || !op)
        return result;
    bool device_only = !sim_map_on_host(destination) && !sim_map_on_host(source);
    bool host_only = sim_map_on_host(destination) && sim_map_on_host(source);
    if (to_pageable || (wait && (host_only || (!device_only && !from_pageable))))
        sim_wait(op);
    else if (from_pageable)
        sim_clock_wait(op); /* staged at the link's pace, but perhaps not yet arrived */
    return CUDA_SUCCESS;
}

static CUresult copy(uint64_t destination, uint64_t source, size_t bytes, CUstream stream,
                     bool wait)
{
    sim_shape_t shape = {.row_bytes = bytes, .rows = 1, .slices = 1};
    return copy_box(destination, source, &shape, NULL, stream, wait);
}

SIM_ENTRY(CONTEXT, cuMemcpy, (CUdeviceptr destination, CUdeviceptr source, size_t bytes),
          copy(destination, source, bytes, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpyAsync,
          (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream),
          copy(destination, source, bytes, stream, false))

#define HOST_ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

static CUresult copy_in(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream,
                        bool wait)
{
    if (!sim_map_is_device(destination))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(destination, HOST_ADDRESS(source), bytes, stream, wait);
}

static CUresult copy_out(void *destination, CUdeviceptr source, size_t bytes, CUstream stream,
                         bool wait)
{
    if (!sim_map_is_device(source))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(HOST_ADDRESS(destination), source, bytes, stream, wait);
}

SIM_ENTRY(CONTEXT, cuMemcpyHtoD, (CUdeviceptr destination, const void *source, size_t bytes),
          copy_in(destination, source, bytes, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpyHtoDAsync,
          (CUdeviceptr destination, const void *source, size_t bytes, CUstream stream),
          copy_in(destination, source, bytes, stream, false))
SIM_ENTRY(CONTEXT, cuMemcpyDtoH, (void *destination, CUdeviceptr source, size_t bytes),
          copy_out(destination, source, bytes, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpyDtoHAsync,
          (void *destination, CUdeviceptr source, size_t bytes, CUstream stream),
          copy_out(destination, source, bytes, stream, false))
SIM_ENTRY(CONTEXT, cuMemcpyDtoD, (CUdeviceptr destination, CUdeviceptr source, size_t bytes),
          copy(destination, source, bytes, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpyDtoDAsync,
          (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream),
          copy(destination, source, bytes, stream, false))

/* Each side is reached in its own context: no device needs access to the other's memory. */
static sim_owners_t owners_of(CUcontext destination_context, CUcontext source_context)
{
    return (sim_owners_t){true, destination_context->device, source_context->device};
}

static CUresult copy_peer(CUdeviceptr destination, CUcontext destination_context,
                          CUdeviceptr source, CUcontext source_context, size_t bytes,
                          CUstream stream, bool wait)
{
    if (!sim_context_exists(destination_context) || !sim_context_exists(source_context))
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_shape_t shape = {.row_bytes = bytes, .rows = 1, .slices = 1};
    sim_owners_t owners = owners_of(destination_context, source_context);
    return copy_box(destination, source, &shape, &owners, stream, wait);
}

SIM_ENTRY(CONTEXT, cuMemcpyPeer,
          (CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
           CUcontext source_context, size_t bytes),
          copy_peer(destination, destination_context, source, source_context, bytes, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpyPeerAsync,
          (CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
           CUcontext source_context, size_t bytes, CUstream stream),
          copy_peer(destination, destination_context, source, source_context, bytes, stream, false))

/* One side of a copy of boxes, as its three structures in cuda.h describe it alike. */
typedef struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x_bytes, y, z, pitch_bytes, height;
} side_t;

#define SIDE_2D(p, name)                                                                           \
    {                                                                                              \
        (p)->name##MemoryType, (p)->name##Host, (p)->name##Device, (p)->name##XInBytes,            \
            (p)->name##Y, 0, (p)->name##Pitch, 0                                                   \
    }
#define SIDE_3D(p, name)                                                                           \
    {                                                                                              \
        (p)->name##MemoryType, (p)->name##Host, (p)->name##Device, (p)->name##XInBytes,            \
            (p)->name##Y, (p)->name##Z, (p)->name##Pitch, (p)->name##Height                        \
    }

/* Where the box begins and how its rows and slices lie; there are no arrays. */
static CUresult place_side(const side_t *side, size_t width, size_t rows, size_t slices,
                           uint64_t *start, uint64_t *pitch, uint64_t *slice)
{
    if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE &&
        side->type != CU_MEMORYTYPE_UNIFIED)
        return side->type == CU_MEMORYTYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED
                                                 : CUDA_ERROR_INVALID_VALUE;
    uint64_t base = side->type == CU_MEMORYTYPE_HOST ? HOST_ADDRESS(side->host) : side->device;
    bool flat = rows <= 1 && slices <= 1;
    *pitch = flat && side->pitch_bytes == 0 ? width : side->pitch_bytes;
    *slice = *pitch * (slices <= 1 && side->height == 0 ? rows : side->height);
    if (*pitch < side->x_bytes + width || *slice < *pitch * rows ||
        (side->type == CU_MEMORYTYPE_DEVICE && !sim_map_is_device(base)))
        return CUDA_ERROR_INVALID_VALUE;
    *start = base + side->z * *slice + side->y * *pitch + side->x_bytes;
    return CUDA_SUCCESS;
}

static CUresult copy_sides(side_t destination, side_t source, size_t width, size_t rows,
                           size_t slices, const sim_owners_t *owners, CUstream stream, bool wait)
{
    sim_shape_t shape = {.row_bytes = width, .rows = rows, .slices = slices};
    uint64_t to, from;
    CUresult result = place_side(&destination, width, rows, slices, &to, &shape.destination_pitch,
                                 &shape.destination_slice);
    if (result == CUDA_SUCCESS)
        result = place_side(&source, width, rows, slices, &from, &shape.source_pitch,
                            &shape.source_slice);
    return result == CUDA_SUCCESS ? copy_box(to, from, &shape, owners, stream, wait) : result;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *box, CUstream stream, bool wait)
{
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_sides((side_t)SIDE_2D(box, dst), (side_t)SIDE_2D(box, src), box->WidthInBytes,
                      box->Height, 1, NULL, stream, wait);
}

SIM_ENTRY(CONTEXT, cuMemcpy2D, (const CUDA_MEMCPY2D *box), copy_2d(box, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D *box), copy_2d(box, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpy2DAsync, (const CUDA_MEMCPY2D *box, CUstream stream),
          copy_2d(box, stream, false))

static CUresult copy_3d(const CUDA_MEMCPY3D *box, CUstream stream, bool wait)
{
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_sides((side_t)SIDE_3D(box, dst), (side_t)SIDE_3D(box, src), box->WidthInBytes,
                      box->Height, box->Depth, NULL, stream, wait);
}

SIM_ENTRY(CONTEXT, cuMemcpy3D, (const CUDA_MEMCPY3D *box), copy_3d(box, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpy3DAsync, (const CUDA_MEMCPY3D *box, CUstream stream),
          copy_3d(box, stream, false))

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *box, CUstream stream, bool wait)
{
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_context_exists(box->dstContext) || !sim_context_exists(box->srcContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_owners_t owners = owners_of(box->dstContext, box->srcContext);
    return copy_sides((side_t)SIDE_3D(box, dst), (side_t)SIDE_3D(box, src), box->WidthInBytes,
                      box->Height, box->Depth, &owners, stream, wait);
}

SIM_ENTRY(CONTEXT, cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *box), copy_3d_peer(box, NULL, true))
SIM_ENTRY(CONTEXT, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *box, CUstream stream),
          copy_3d_peer(box, stream, false))

/* Checks all of the batch before any of it is enqueued; *bad is the first that is wrong. */
static CUresult check_batch(const CUdeviceptr *destinations, const CUdeviceptr *sources,
                            const size_t *sizes, size_t count, size_t *bad)
{
    for (size_t i = 0; i < count; i++) {
        sim_shape_t shape = {.row_bytes = sizes[i], .rows = 1, .slices = 1};
        sim_work_t work;
        CUresult result = sizes[i] > 0
                              ? sim_work_transfer(&work, destinations[i], sources[i], &shape, NULL)
                              : CUDA_ERROR_INVALID_VALUE;
        if (result != CUDA_SUCCESS) {
            *bad = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/* The copies of a batch are in no order among themselves: each gets a lane of its own. */
static void enqueue_batch(CUstream stream, const CUdeviceptr *destinations,
                          const CUdeviceptr *sources, const size_t *sizes, size_t count)
{
    sim_clock_spend(launch_us(stream));
    sim_work_t mark = {.kind = SIM_MARK};
    sim_op_t *entry = sim_op_hold(sim_stream_submit(stream, &mark, NULL, 0));
    sim_op_t **ops = sim_allocate(count * sizeof *ops);
    for (size_t i = 0; i < count; i++) {
        sim_shape_t shape = {.row_bytes = sizes[i], .rows = 1, .slices = 1};
        sim_work_t work;
        sim_work_transfer(&work, destinations[i], sources[i], &shape, NULL);
        if (pageable(sources[i], sizes[i]) && sim_engine.mode == SIM_COMPUTE)
            work.snapshot = snapshot(sources[i], &shape);
        sim_lane_t *lane = sim_lane_create(stream->context);
        ops[i] = sim_op_hold(sim_lane_add(lane, &work, &entry, 1));
        sim_lane_release(lane);
    }
    mark = (sim_work_t){.kind = SIM_MARK};
    sim_op_t *exit_mark = sim_stream_submit(stream, &mark, ops, (unsigned)count);
    bool to_pageable = false;
    for (size_t i = 0; i < count; i++) {
        to_pageable = to_pageable || pageable(destinations[i], sizes[i]);
        sim_op_drop(ops[i]);
    }
    free(ops);
    sim_op_drop(entry);
    if (to_pageable)
        sim_wait(exit_mark);
}

static CUresult copy_batch(const CUdeviceptr *destinations, const CUdeviceptr *sources,
                           const size_t *sizes, size_t count, const CUmemcpyAttributes *attributes,
                           const size_t *attribute_starts, size_t attribute_count, size_t *bad,
                           CUstream handle)
{
    CUstream stream;
    size_t ignored;
    if (bad)
        *bad = SIZE_MAX;
    if (!destinations || !sources || !sizes || count == 0 || !attributes || !attribute_starts ||
        attribute_count == 0 || attribute_count > count || attribute_starts[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < attribute_count; i++)
        if (attributes[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_INVALID ||
            attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
            return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS && stream->legacy)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && stream->capture)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = check_batch(destinations, sources, sizes, count, bad ? bad : &ignored);
    if (result == CUDA_SUCCESS)
        enqueue_batch(stream, destinations, sources, sizes, count);
    return result;
}

static side_t side_of_operand(const CUmemcpy3DOperand *operand, const CUextent3D *extent)
{
    const bool pointer = operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER;
    return (side_t){
        .type = pointer ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_ARRAY,
        .device = pointer ? operand->op.ptr.ptr : 0,
        .pitch_bytes =
            pointer && operand->op.ptr.rowLength > 0 ? operand->op.ptr.rowLength : extent->width,
        .height = pointer && operand->op.ptr.layerHeight > 0 ? operand->op.ptr.layerHeight
                                                             : extent->height};
}

/* In the order of the list, which is one of the allowed ones. */
static CUresult copy_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count, CUstream stream)
{
    CUresult result = list && count > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        result = copy_sides(side_of_operand(&list[i].dst, &list[i].extent),
                            side_of_operand(&list[i].src, &list[i].extent), list[i].extent.width,
                            list[i].extent.height, list[i].extent.depth, NULL, stream, false);
    return result;
}

SIM_ENTRY(CONTEXT, cuMemcpy3DBatchAsync,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
          flags == 0 ? copy_3d_batch(list, count, stream) : CUDA_ERROR_INVALID_VALUE)

SIM_ENTRY(CONTEXT, cuMemcpyBatchAsync,
          (CUdeviceptr * destinations, CUdeviceptr *sources, size_t *sizes, size_t count,
           CUmemcpyAttributes *attributes, size_t *attribute_starts, size_t attribute_count,
           CUstream stream),
          copy_batch(destinations, sources, sizes, count, attributes, attribute_starts,
                     attribute_count, NULL, stream))

#undef cuMemcpyBatchAsync
/* The form of CUDA 12.8. */
SIM_ENTRY(CONTEXT, cuMemcpyBatchAsync,
          (CUdeviceptr * destinations, CUdeviceptr *sources, size_t *sizes, size_t count,
           CUmemcpyAttributes *attributes, size_t *attribute_starts, size_t attribute_count,
           size_t *bad, CUstream stream),
          copy_batch(destinations, sources, sizes, count, attributes, attribute_starts,
                     attribute_count, bad, stream))

/* The forms without Async do not make the host wait either, for device memory. */
static CUresult fill_box(CUdeviceptr address, size_t pitch_bytes, uint32_t pattern,
                         uint32_t pattern_bytes, size_t count, size_t rows, CUstream handle)
{
    CUstream stream;
    sim_work_t work;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || count == 0 || rows == 0)
        return result;
    result = sim_work_fill(&work, stream->context->device, address, pitch_bytes, pattern,
                           pattern_bytes, count, rows);
    return result == CUDA_SUCCESS ? sim_stream_add(stream, &work, launch_us(stream), NULL) : result;
}

static CUresult fill(CUdeviceptr address, uint32_t pattern, uint32_t pattern_bytes, size_t count,
                     CUstream stream)
{
    return fill_box(address, 0, pattern, pattern_bytes, count, 1, stream);
}

SIM_ENTRY(CONTEXT, cuMemsetD8, (CUdeviceptr address, unsigned char value, size_t count),
          fill(address, value, 1, count, NULL))
SIM_ENTRY(CONTEXT, cuMemsetD8Async,
          (CUdeviceptr address, unsigned char value, size_t count, CUstream stream),
          fill(address, value, 1, count, stream))
SIM_ENTRY(CONTEXT, cuMemsetD16, (CUdeviceptr address, unsigned short value, size_t count),
          fill(address, value, 2, count, NULL))
SIM_ENTRY(CONTEXT, cuMemsetD16Async,
          (CUdeviceptr address, unsigned short value, size_t count, CUstream stream),
          fill(address, value, 2, count, stream))
SIM_ENTRY(CONTEXT, cuMemsetD32, (CUdeviceptr address, unsigned value, size_t count),
          fill(address, value, 4, count, NULL))
SIM_ENTRY(CONTEXT, cuMemsetD32Async,
          (CUdeviceptr address, unsigned value, size_t count, CUstream stream),
          fill(address, value, 4, count, stream))
SIM_ENTRY(CONTEXT, cuMemsetD2D8,
          (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t rows),
          fill_box(address, pitch, value, 1, width, rows, NULL))
SIM_ENTRY(CONTEXT, cuMemsetD2D8Async,
          (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t rows,
           CUstream stream),
          fill_box(address, pitch, value, 1, width, rows, stream))
SIM_ENTRY(CONTEXT, cuMemsetD2D16,
          (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t rows),
          fill_box(address, pitch, value, 2, width, rows, NULL))
SIM_ENTRY(CONTEXT, cuMemsetD2D16Async,
          (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t rows,
           CUstream stream),
          fill_box(address, pitch, value, 2, width, rows, stream))
SIM_ENTRY(CONTEXT, cuMemsetD2D32,
          (CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t rows),
          fill_box(address, pitch, value, 4, width, rows, NULL))
SIM_ENTRY(CONTEXT, cuMemsetD2D32Async,
          (CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t rows,
           CUstream stream),
          fill_box(address, pitch, value, 4, width, rows, stream))
