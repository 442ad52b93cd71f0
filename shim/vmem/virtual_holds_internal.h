/* What captures, graphs and executables have in common: each is a holder of allocations, which stay
 * pinned for it. What is held by whom is in mdnn_virtual_captures(), under one lock, which is taken
 * after a device's and released before anything is pinned or unpinned. Only for who knows that
 * mdnn_virtual_captures() is not NULL. */
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
/* What a part has is its whole's; and what a capture makes is the capture's, which may yet fail. */
mdnn_holder_t mdnn_holder_of_graph(CUgraph graph);

/* The calls below take the lock, and devices' locks where they pin or unpin. */

/* The allocation around what->address, be it freed and held by others only. what->address becomes
 * where it starts if it is held anew, else 0. */
CUresult mdnn_virtual_hold(mdnn_holder_t holder, mdnn_held_t *what);
/* `to` holds what `from` does now, and what it held before. */
void mdnn_virtual_copy_holds(mdnn_holder_t from, mdnn_holder_t to);
/* The same, where what `from` gets later may be `to`'s, too. */
void mdnn_virtual_pass_holds_on(mdnn_holder_t from, mdnn_holder_t to);
/* A copy of what the holder has, the caller's to free; NULL for nothing, and without memory: then
 * the holder never lets go. */
mdnn_held_t *mdnn_virtual_held(mdnn_holder_t holder, size_t *count);
bool mdnn_virtual_holds_any(mdnn_holder_t holder);
/* The holder has nothing any more. */
void mdnn_virtual_release_holds(mdnn_holder_t holder);
/* Unpins what was taken from a holder; takes `held`. */
void mdnn_virtual_unpin_held(mdnn_held_t *held, size_t count);

#endif
