/* Measures how fast the link between host and device copies. */
#ifndef MDNN_LINK_RATES_H
#define MDNN_LINK_RATES_H

#include "offload/plan/replay.h"
#include "shim/device/copy_ways.h"

/* Times copies between `device` and pinned host memory at `host`, both of `bytes` and owned by the caller, first in
 * each direction alone and then in both at the same time, by events in the two streams. This takes a few milliseconds.
 * It waits only for these copies, since work of the program may itself wait for its host. The context is current.
 * DEVICE: *link is untouched. */
mdnn_status_t mdnn_link_measure(const mdnn_copy_ways_t *ways, CUstream in, CUstream out,
                                CUdeviceptr device, uint64_t host, uint64_t bytes,
                                mdnn_link_t *link);

#endif
