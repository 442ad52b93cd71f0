/* Our own work on the program's memory, in a stream of the program's, with scratch memory that counts in the budget. To the
 * mechanism (offload/memory/memory.h) it is an operation like any other, but it is not recorded in the history. Unless
 * told otherwise it begins only where nothing has to move for it. The caller holds the lock REMAKE and has entered the
 * device. */
#ifndef MDNN_OWN_WORK_H
#define MDNN_OWN_WORK_H

#include "shim/real/kernels.h"
#include "shim/remake/launch_keys.h"
#include "shim/vmem/virtual_device.h"

/* A range, and where its copy is. */
typedef struct mdnn_span {
    uint64_t start, bytes, copy;
} mdnn_span_t;

typedef struct mdnn_own_work {
    mdnn_virtual_device_t *device;
    const mdnn_driver_t *driver;
    const mdnn_kernels_t *kernels;
    uint64_t number; /* of the stream */
    CUstream stream;
    mdnn_span_t *spans; /* borrowed */
    size_t span_count;
    uint64_t scratch; /* address; two 64-bit counters per span, and then the copies */
    uint64_t more;    /* behind them: what was asked for besides */
    mdnn_memory_operand_t *operands;
    mdnn_memory_operation_t operation;
    mdnn_memory_call_t call; /* the operation is a part of it, so that it is not recorded */
} mdnn_own_work_t;

/* Begins work that names the spans, whose `copy` it fills in. `more`: bytes of scratch memory besides. `scratch` 0: takes
 * scratch memory. `may_move`: other ranges may leave for it, which is waited for, so no other thread may have an
 * operation under way. Returns MDNN_REMAKE_proven, and close must follow; or why not. */
mdnn_remake_outcome_t mdnn_own_work_open(mdnn_own_work_t *work, mdnn_virtual_device_t *device,
                                         uint64_t number, mdnn_span_t *spans, size_t span_count,
                                         uint64_t more, uint64_t scratch, bool may_move);
/* Frees the scratch memory, in stream order, unless it is kept for more work. */
void mdnn_own_work_close(mdnn_own_work_t *work, bool keep_scratch);
void mdnn_own_work_free_scratch(mdnn_virtual_device_t *device, uint64_t number, uint64_t scratch);

/* These enqueue. false: a call failed. */
bool mdnn_own_work_clear_counters(mdnn_own_work_t *work);
bool mdnn_own_work_copy_aside(mdnn_own_work_t *work, const mdnn_span_t *span);
bool mdnn_own_work_put_back(mdnn_own_work_t *work, const mdnn_span_t *span);
/* Fills the span with what no byte of its copy is: with salt 0 the complement, else bytes at random. */
bool mdnn_own_work_poison(mdnn_own_work_t *work, const mdnn_span_t *span, uint64_t salt);
/* Counts differences between the span and its copy (shim/real/kernels.h). */
bool mdnn_own_work_compare(mdnn_own_work_t *work, size_t span);

#endif
