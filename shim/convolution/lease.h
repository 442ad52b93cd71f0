/* Leases of the arena: a convolution has its part of the arena while it is enqueued. Events order all device work on
 * one part, whatever streams and threads it comes from; nobody waits on the host. docs/design/arena.md explains why
 * this is safe. */
#ifndef MDNN_LEASE_H
#define MDNN_LEASE_H

#include "shim/convolution/arena.h"

typedef struct mdnn_lease {
    mdnn_arena_t *arena; /* NULL: nothing is leased */
    enum { MDNN_LEASE_REGION, MDNN_LEASE_WHOLE, MDNN_LEASE_CAPTURE } kind;
    int index; /* in arena->slots (of the stream), or in arena->captures */
    CUstream stream;
} mdnn_lease_t;

/* Gives `call` a workspace of the arena, and `demand` its size, if that allows a configuration that does not fit the
 * caller's workspace; otherwise, and under any policy but wd, both stay as they are. `plan` may be NULL: nothing is
 * leased. After this, the same thread must enqueue the call and end the lease. Thread-safe. During the lease, other
 * convolutions of this stream wait to be enqueued. Allocates device memory at the first call of a context, never during
 * a capture. Waits on the host only if an event fails, and for the memory of a capture that cannot run without it. */
void mdnn_lease_begin(mdnn_lease_t *lease, mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                      mdnn_demand_t *demand);
void mdnn_lease_end(mdnn_lease_t *lease);

#endif
