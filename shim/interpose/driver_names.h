/* The addresses that the driver's operations name, if they are more than an argument. Each function
 * passes addresses of ours on to mdnn_virtual_name. */
#ifndef MDNN_DRIVER_NAMES_H
#define MDNN_DRIVER_NAMES_H

#include "shim/interpose/driver.h"

void mdnn_name_each(mdnn_virtual_operation_t *operation, const CUdeviceptr *addresses, size_t count,
                    mdnn_use_role_t role);
void mdnn_name_box_2d(mdnn_virtual_operation_t *operation, const CUDA_MEMCPY2D *box);
void mdnn_name_boxes_3d(mdnn_virtual_operation_t *operation, const CUDA_MEMCPY3D_BATCH_OP *boxes,
                        size_t count);
void mdnn_name_decompressed(mdnn_virtual_operation_t *operation, const CUmemDecompressParams *list,
                            size_t count);
void mdnn_name_values(mdnn_virtual_operation_t *operation, const CUstreamBatchMemOpParams *list,
                      size_t count);

/* Lets moves go on while the program waits for everything in its context. */
void mdnn_wait_for_context(void);

/* One side of a box. The base may lie before the allocation; only the address to which the offsets
 * lead counts. `device` and `host` are both addresses; the memory type says which one is used. */
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
