/* What copies, memsets and memory operations of streams name (shim/interpose/driver_hooks.def has the hooks).
 */
#include "shim/interpose/driver_names.h"

void mdnn_name_each(mdnn_virtual_operation_t *operation, const CUdeviceptr *addresses, size_t count,
                    mdnn_use_role_t role)
{
    for (size_t i = 0; addresses && i < count; i++)
        mdnn_driver_name(operation, addresses[i], role);
}

void mdnn_name_side(mdnn_virtual_operation_t *operation, CUmemorytype type, CUdeviceptr device,
                    const void *host, uint64_t offset, mdnn_use_role_t role)
{
    if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
        mdnn_driver_name(operation, device + offset, role);
    else if (type == CU_MEMORYTYPE_HOST)
        mdnn_driver_name(operation, (uintptr_t)host + offset, role);
}

void mdnn_name_box_2d(mdnn_virtual_operation_t *operation, const CUDA_MEMCPY2D *box)
{
    if (!box)
        return;
    mdnn_name_side(operation, box->dstMemoryType, box->dstDevice, box->dstHost,
                   box->dstY * box->dstPitch + box->dstXInBytes, MDNN_USE_WRITE);
    mdnn_name_side(operation, box->srcMemoryType, box->srcDevice, box->srcHost,
                   box->srcY * box->srcPitch + box->srcXInBytes, MDNN_USE_READ);
}

static void name_operand(mdnn_virtual_operation_t *operation, const CUmemcpy3DOperand *operand,
                         mdnn_use_role_t role)
{
    if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
        mdnn_driver_name(operation, operand->op.ptr.ptr, role);
}

void mdnn_name_boxes_3d(mdnn_virtual_operation_t *operation, const CUDA_MEMCPY3D_BATCH_OP *boxes,
                        size_t count)
{
    for (size_t i = 0; boxes && i < count; i++) {
        name_operand(operation, &boxes[i].dst, MDNN_USE_WRITE);
        name_operand(operation, &boxes[i].src, MDNN_USE_READ);
    }
}

void mdnn_name_decompressed(mdnn_virtual_operation_t *operation, const CUmemDecompressParams *list,
                            size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        mdnn_driver_name(operation, (uintptr_t)list[i].dst, MDNN_USE_WRITE);
        mdnn_driver_name(operation, (uintptr_t)list[i].dstActBytes, MDNN_USE_WRITE);
        mdnn_driver_name(operation, (uintptr_t)list[i].src, MDNN_USE_READ);
    }
}

void mdnn_name_values(mdnn_virtual_operation_t *operation, const CUstreamBatchMemOpParams *list,
                      size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        switch (list[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            mdnn_driver_name(operation, list[i].waitValue.address, MDNN_USE_READ);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            mdnn_driver_name(operation, list[i].writeValue.address, MDNN_USE_WRITE);
            break;
        default: /* barriers and flushes name nothing */
            break;
        }
    }
}

/* ---- what is written ---- */

void mdnn_copies(mdnn_transfers_t *transfers, uint64_t to, uint64_t from, uint64_t bytes,
                 bool later)
{
    mdnn_transfer(
        transfers,
        &(mdnn_transfer_t){.to = to, .from = from, .width = bytes, .rows = 1, .later = later});
}

void mdnn_sets_rows(mdnn_transfers_t *transfers, uint64_t to, uint64_t pitch, uint64_t width,
                    uint64_t rows)
{
    mdnn_transfer(transfers,
                  &(mdnn_transfer_t){.to = to, .width = width, .rows = rows, .to_step = pitch});
}

uint64_t mdnn_side(CUmemorytype type, CUdeviceptr device, const void *host, uint64_t offset)
{
    if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
        return device + offset;
    return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host + offset : 0;
}

void mdnn_copies_box_2d(mdnn_transfers_t *transfers, const CUDA_MEMCPY2D *box, bool later)
{
    if (!box)
        return;
    const mdnn_transfer_t one = {
        .to = mdnn_side(box->dstMemoryType, box->dstDevice, box->dstHost,
                        box->dstY * box->dstPitch + box->dstXInBytes),
        .from = mdnn_side(box->srcMemoryType, box->srcDevice, box->srcHost,
                          box->srcY * box->srcPitch + box->srcXInBytes),
        .width = box->WidthInBytes,
        .rows = box->Height,
        .to_step = box->dstPitch,
        .from_step = box->srcPitch,
        .later = later,
    };
    mdnn_transfer(transfers, &one);
}

/* Tables of pointers have no such shape: of very many slices nothing is known. */
void mdnn_copies_slices(mdnn_transfers_t *transfers, mdnn_transfer_t first, uint64_t slices,
                        uint64_t to_step, uint64_t from_step)
{
    enum { MOST_SLICES = 64 };
    if (slices > MOST_SLICES)
        return;
    for (uint64_t i = 0; i < slices; i++) {
        mdnn_transfer(transfers, &first);
        first.to += to_step;
        first.from += first.from ? from_step : 0;
    }
}

static uint64_t operand_side(const CUmemcpy3DOperand *operand)
{
    return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? operand->op.ptr.ptr : 0;
}

/* Elements are bytes where both sides are pointers. */
static void box_of_batch(mdnn_transfers_t *transfers, const CUDA_MEMCPY3D_BATCH_OP *box)
{
    const uint64_t width = box->extent.width, height = box->extent.height;
    const bool wide_to = box->dst.op.ptr.rowLength > 0, wide_from = box->src.op.ptr.rowLength > 0;
    const mdnn_transfer_t first = {
        .to = operand_side(&box->dst),
        .from = operand_side(&box->src),
        .width = width,
        .rows = height,
        .to_step = wide_to ? box->dst.op.ptr.rowLength : width,
        .from_step = wide_from ? box->src.op.ptr.rowLength : width,
        .later = box->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
    };
    if (!first.to || !first.from)
        return;
    const uint64_t to_height = box->dst.op.ptr.layerHeight,
                   from_height = box->src.op.ptr.layerHeight;
    mdnn_copies_slices(transfers, first, box->extent.depth,
                       (to_height > 0 ? to_height : height) * first.to_step,
                       (from_height > 0 ? from_height : height) * first.from_step);
}

void mdnn_copies_boxes_3d(mdnn_transfers_t *transfers, const CUDA_MEMCPY3D_BATCH_OP *boxes,
                          size_t count)
{
    for (size_t i = 0; boxes && i < count; i++)
        box_of_batch(transfers, &boxes[i]);
}

static bool is_read_in_call(mdnn_orders_t orders, size_t copy)
{
    bool in_call = false;
    for (size_t i = 0; orders.attributes && orders.starts && i < orders.count; i++)
        if (orders.starts[i] <= copy)
            in_call =
                orders.attributes[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    return in_call;
}

void mdnn_copies_each(mdnn_transfers_t *transfers, const CUdeviceptr *to, const CUdeviceptr *from,
                      const size_t *bytes, size_t count, mdnn_orders_t orders)
{
    for (size_t i = 0; to && from && bytes && i < count; i++)
        mdnn_copies(transfers, to[i], from[i], bytes[i], !is_read_in_call(orders, i));
}
