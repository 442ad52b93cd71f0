/* The workspace that is ours under policy wd: one allocation for each context, made once, divided
 * among the streams that run convolutions and, in the model `sum`, among their layers (arena_streams.h), and captures
 * (arena_captures.h). A convolution leases its part while it is enqueued (lease.h). */
#ifndef MDNN_ARENA_H
#define MDNN_ARENA_H

#include "shim/convolution/plan.h"
#include "optimizer/wd_policy.h"

typedef struct mdnn_arena mdnn_arena_t;

/* True if policy wd runs a call of `plan` whatever workspace its caller brings, so that the caller
 * may be told of none: without workspace, or in memory that the arena always has for one
 * convolution. The first call of a context allocates the arena, unless the stream of `call` is
 * being captured. That, and keeping more for one convolution than before, waits for convolutions that are being enqueued,
 * which may wait for the device; all other answers take no lock. */
bool mdnn_arena_serves(const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                       const mdnn_demand_t *demand);

#endif
