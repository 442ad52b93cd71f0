/* The arena: the library's own workspace under policy wd, Workspace Division (optimizer/wd.h). It is one allocation per
 * context, made once, and divided among the streams that run convolutions and, in the model `sum`, among their layers
 * (arena_streams.h), and among captures (arena_captures.h). A convolution leases its part while it is enqueued
 * (lease.h). */
#ifndef MDNN_ARENA_H
#define MDNN_ARENA_H

#include "shim/convolution/plan.h"
#include "optimizer/wd_policy.h"

typedef struct mdnn_arena mdnn_arena_t;

/* True if policy wd can run a call of `plan` whatever workspace its caller brings, so that 0 bytes may be reported to
 * the caller: the call runs without workspace, or in memory that the arena always reserves for one convolution. The
 * first call of a context allocates the arena, unless the stream of `call` is being captured. Allocating, and reserving
 * more for one convolution, wait for convolutions that are being enqueued, which may wait for the device; otherwise
 * this takes no lock. */
bool mdnn_arena_serves(const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                       const mdnn_demand_t *demand);

#endif
