/* Workspaces under a budget: decides for which workspaces there is room beside the operands of their convolutions
 * (shim/vmem/workspace_sizes.h keeps the sizes that are known for a device), and lends workspaces.
 *
 * All operations of a convolution that runs in lent memory count as one, so that a plan may change what runs and still
 * be followed. The plan says how much workspace the call may have (offload/follow/follower.h). The workspace that the
 * program passed is then never named, so it needs no memory. */
#ifndef MDNN_VIRTUAL_WORKSPACES_H
#define MDNN_VIRTUAL_WORKSPACES_H

#include "shim/vmem/virtual_device.h"

/* Entered. Whether this is a workspace that fits, but not together with the operands of its
 * convolution. */
bool mdnn_virtual_workspace_is_useless(mdnn_virtual_device_t *device, size_t bytes);
/* Entered. Called when an optional workspace was refused: the next request of this size may be for something else. */
void mdnn_virtual_workspace_refused(mdnn_virtual_device_t *device, size_t bytes);

/* ---- lent ---- */

/* x, w, y, a residual, a bias; and the most variants that are offered to a plan. */
enum { MDNN_CALL_OPERANDS = 5, MDNN_CALL_VARIANTS = 32 };

/* It belongs to the thread that begins it, and lies on its stack. */
typedef struct mdnn_virtual_call {
    mdnn_memory_call_t
        call; /* begin wants key, kind, name and the arrays filled in; the first operand is X */
    mdnn_memory_operand_t operands[MDNN_CALL_OPERANDS];
    mdnn_variant_t variants[MDNN_CALL_VARIANTS];
    CUstream stream;
    mdnn_virtual_device_t *device; /* NULL: nothing was begun */
    uint64_t lent;                 /* address of the workspace; 0: none */
} mdnn_virtual_call_t;

/* Whether there is a budget and memory.variants allows it. */
bool mdnn_virtual_calls_on(void);
/* Whether all operands, and `workspace` if the program has its own, lie in memory that can move on one device, and the
 * stream is not being captured. Then *limit_bytes is what the plan lets the call use (UINT64_MAX: the plan says
 * nothing), and lend may follow. Thread-safe; waits for the lock of the device only. */
bool mdnn_virtual_call_begin(mdnn_virtual_call_t *call, uint64_t workspace, uint64_t *limit_bytes);
/* Lends `bytes`, which may be 0; from now on this thread's operations are the call's. False: there is not that much
 * memory, and the call counts as not begun. May wait as an allocation does. */
bool mdnn_virtual_call_lend(mdnn_virtual_call_t *call, uint64_t bytes);
/* Called after the whole call was enqueued: takes the memory back in stream order, and records the call. */
void mdnn_virtual_call_end(mdnn_virtual_call_t *call);

/* In virtual_operations.c: what the thread's call runs is on trial, so its time says nothing of later calls. Without a
 * call it does nothing. */
void mdnn_virtual_call_is_trial(void);
/* In virtual_operations.c: the thread's operations are parts of `call`; NULL: of none, as before. */
void mdnn_virtual_expect_call(mdnn_virtual_call_t *call);

#endif
