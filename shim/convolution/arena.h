/* The workspace that is ours under policy wd: one allocation for each context, made once, divided
 * among the streams that run convolutions and, in the model `sum`, among their layers.
 *
 * A convolution leases its part while it is enqueued. Device work on one part follows each other by
 * events, whatever streams and threads it comes from; nobody waits on the host. docs/design.md says
 * why this is safe. */
#ifndef MDNN_ARENA_H
#define MDNN_ARENA_H

#include "shim/convolution/plan.h"
#include "optimizer/wd_policy.h"

struct mdnn_arena;

/* True if policy wd runs a call of `plan` whatever workspace its caller brings, so that the caller
 * may be told of none: without workspace, or in memory that the arena always has for one
 * convolution. The first call of a context allocates the arena, unless the stream of `call` is
 * being captured. */
bool mdnn_arena_serves(const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                       const mdnn_demand_t *demand);

typedef struct mdnn_lease {
    struct mdnn_arena *arena; /* NULL: nothing is leased */
    enum { MDNN_LEASE_REGION, MDNN_LEASE_WHOLE, MDNN_LEASE_CAPTURE } kind;
    int index; /* of the stream's slot, or of the capture */
    CUstream stream;
} mdnn_lease_t;

/* Gives `call` a workspace of the arena, and `demand` its size, if with it a configuration runs
 * that does not fit what the caller passed; else, and under any other policy, both stay as they
 * are. `plan` may be NULL: nothing is leased. Then the call must be enqueued, by this thread, and
 * the lease ended. Thread-safe. While it lasts, other convolutions of this stream wait to be
 * enqueued. Allocates device memory at the first call of a context, never during a capture. Waits
 * on the host only in trouble, and for the memory of a capture that cannot do without. */
void mdnn_lease_begin(mdnn_lease_t *lease, mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                      mdnn_demand_t *demand);
void mdnn_lease_end(mdnn_lease_t *lease);

#endif
