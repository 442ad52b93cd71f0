/* Finds the addresses that the driver's operations (copies, fills) name, where they are in structures instead of plain
 * arguments. The functions mdnn_name_* pass those that the library manages on to mdnn_virtual_name
 * (shim/vmem/virtual_memory.h); the functions mdnn_copies_* and mdnn_sets_* report what is written. */
#ifndef MDNN_DRIVER_NAMES_H
#define MDNN_DRIVER_NAMES_H

#include "shim/interpose/driver.h"
#include "shim/vmem/virtual_pointers.h"

void mdnn_name_each(mdnn_virtual_operation_t *operation, const CUdeviceptr *addresses, size_t count,
                    mdnn_use_role_t role);
void mdnn_name_box_2d(mdnn_virtual_operation_t *operation, const CUDA_MEMCPY2D *box);
void mdnn_name_boxes_3d(mdnn_virtual_operation_t *operation, const CUDA_MEMCPY3D_BATCH_OP *boxes,
                        size_t count);
void mdnn_name_decompressed(mdnn_virtual_operation_t *operation, const CUmemDecompressParams *list,
                            size_t count);
void mdnn_name_values(mdnn_virtual_operation_t *operation, const CUstreamBatchMemOpParams *list,
                      size_t count);

/* These report what operations write (shim/vmem/virtual_pointers.h). `later`: the source may change until the copy
 * runs. */
void mdnn_copies(mdnn_transfers_t *transfers, uint64_t to, uint64_t from, uint64_t bytes,
                 bool later);
void mdnn_sets_rows(mdnn_transfers_t *transfers, uint64_t to, uint64_t pitch, uint64_t width,
                    uint64_t rows);
void mdnn_copies_box_2d(mdnn_transfers_t *transfers, const CUDA_MEMCPY2D *box, bool later);
void mdnn_copies_boxes_3d(mdnn_transfers_t *transfers, const CUDA_MEMCPY3D_BATCH_OP *boxes,
                          size_t count);

/* When the copies of a batch read their sources. */
typedef struct mdnn_orders {
    const CUmemcpyAttributes *attributes;
    const size_t *starts; /* attributes[i] applies from copy starts[i] on */
    size_t count;         /* of attributes */
} mdnn_orders_t;

static inline mdnn_orders_t mdnn_orders(const CUmemcpyAttributes *attributes, const size_t *starts,
                                        size_t count)
{
    return (mdnn_orders_t){attributes, starts, count};
}

void mdnn_copies_each(mdnn_transfers_t *transfers, const CUdeviceptr *to, const CUdeviceptr *from,
                      const size_t *bytes, size_t count, mdnn_orders_t orders);

/* The address of one side (source or destination) of a box, which is a rectangular copy; 0 if it lies in an array. */
uint64_t mdnn_side(CUmemorytype type, CUdeviceptr device, const void *host, uint64_t offset);
void mdnn_copies_slices(mdnn_transfers_t *transfers, mdnn_transfer_t first, uint64_t slices,
                        uint64_t to_step, uint64_t from_step);

#define MDNN_COPIES_BOX_3D(transfers, box, is_later)                                               \
    if (box)                                                                                       \
        mdnn_copies_slices(                                                                        \
            transfers,                                                                             \
            (mdnn_transfer_t){                                                                     \
                .to = mdnn_side((box)->dstMemoryType, (box)->dstDevice, (box)->dstHost,            \
                                ((box)->dstZ * (box)->dstHeight + (box)->dstY) * (box)->dstPitch + \
                                    (box)->dstXInBytes),                                           \
                .from =                                                                            \
                    mdnn_side((box)->srcMemoryType, (box)->srcDevice, (box)->srcHost,              \
                              ((box)->srcZ * (box)->srcHeight + (box)->srcY) * (box)->srcPitch +   \
                                  (box)->srcXInBytes),                                             \
                .width = (box)->WidthInBytes,                                                      \
                .rows = (box)->Height,                                                             \
                .to_step = (box)->dstPitch,                                                        \
                .from_step = (box)->srcPitch,                                                      \
                .later = is_later},                                                                \
            (box)->Depth, (box)->dstHeight *(box)->dstPitch, (box)->srcHeight *(box)->srcPitch);

/* Lets moves go on while the program waits for everything in its context. */
void mdnn_wait_for_context(void);

/* Names one side of a box. The base may lie before the allocation; only the address to which the offset leads counts.
 * The memory type says whether `device` or `host` is the base. */
void mdnn_name_side(mdnn_virtual_operation_t *operation, CUmemorytype type, CUdeviceptr device,
                    const void *host, uint64_t offset, mdnn_use_role_t role);

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have these members in common. */
#define MDNN_NAME_BOX_3D(operation, box)                                                           \
    if (box) {                                                                                     \
        mdnn_name_side(operation, (box)->dstMemoryType, (box)->dstDevice, (box)->dstHost,          \
                       ((box)->dstZ * (box)->dstHeight + (box)->dstY) * (box)->dstPitch +          \
                           (box)->dstXInBytes,                                                     \
                       MDNN_USE_WRITE);                                                            \
        mdnn_name_side(operation, (box)->srcMemoryType, (box)->srcDevice, (box)->srcHost,          \
                       ((box)->srcZ * (box)->srcHeight + (box)->srcY) * (box)->srcPitch +          \
                           (box)->srcXInBytes,                                                     \
                       MDNN_USE_READ);                                                             \
    }

#endif
