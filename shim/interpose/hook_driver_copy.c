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
