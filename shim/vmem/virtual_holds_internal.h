/* What captures, graphs and executables have in common: each is a holder of allocations, which stay
 * pinned for it. mdnn_virtual_captures() records who holds what, under one lock, which is taken
 * after a device's lock and released before anything is pinned or unpinned. Use these functions
 * only if mdnn_virtual_captures() is not NULL. */
#ifndef MDNN_VIRTUAL_HOLDS_INTERNAL_H
#define MDNN_VIRTUAL_HOLDS_INTERNAL_H

#include "offload/memory/captures.h"
#include "shim/vmem/virtual_holds.h"

void mdnn_virtual_lock_captures(void);
void mdnn_virtual_unlock_captures(void);

typedef struct mdnn_holder {
    mdnn_holder_kind_t kind;
    uint64_t id;
} mdnn_holder_t;

mdnn_holder_t mdnn_holder_of_capture(unsigned long long capture);
mdnn_holder_t mdnn_holder_of_executable(CUgraphExec executable);
/* Allocations of a part belong to its whole. Allocations that a capture makes belong to the
 * capture, which may still fail. */
mdnn_holder_t mdnn_holder_of_graph(CUgraph graph);

/* The calls below take the lock, and devices' locks where they pin or unpin. */

/* Adds the allocation around what->address, even if it was freed and only other holders keep it.
 * what->address becomes its start if the holder did not have it, otherwise 0. */
CUresult mdnn_virtual_hold(mdnn_holder_t holder, mdnn_held_t *what);
/* From now on `to` holds what `from` holds now, in addition to what it held before. */
void mdnn_virtual_copy_holds(mdnn_holder_t from, mdnn_holder_t to);
/* The same, but `to` may also share what `from` gets later. */
void mdnn_virtual_pass_holds_on(mdnn_holder_t from, mdnn_holder_t to);
/* A copy of the holder's allocations, which the caller frees. NULL if it has none, or if memory is
 * short; the holder then keeps them for good. */
mdnn_held_t *mdnn_virtual_held(mdnn_holder_t holder, size_t *count);
bool mdnn_virtual_holds_any(mdnn_holder_t holder);
/* Ends the holder. */
void mdnn_virtual_release_holds(mdnn_holder_t holder);
/* Unpins allocations that were taken from a holder, and frees `held`. */
void mdnn_virtual_unpin_held(mdnn_held_t *held, size_t count);

#endif
